"""Studies whose machines with a kernel are approximate: as it was asked for, or as a pilot chooses."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import RBF, Cells, Landmarks
from mercer.approximate.choice import Candidate, Choice
from mercer.data import TableError
from mercer.data.files import checkpoint as checkpoints
from mercer.studies import approximation, final_fit, searching
from mercer.studies.classification import ToClassify
from mercer.studies.cli import run as run_command
from mercer.studies.models import verify
from mercer.studies.protocol import study
from mercer.studies.regression import ToEstimate
from mercer.studies.search import SearchStopped
from test_checkpoints import StoppedHereError


def frame(n_classes, n=300):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3)).round(3)
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * random.normal(size=n)
    table = pd.DataFrame(X, columns=list("abc"))
    if not n_classes:
        return table.assign(y=f.round(4))
    levels = np.quantile(f, np.arange(1, n_classes) / n_classes)
    return table.assign(y=np.array(list("pqrs"))[np.digitize(f, levels)])


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Leave out what takes time and is the same for exact machines: other methods but the constant, and pictures."""
    for goal in (ToClassify, ToEstimate):
        monkeypatch.setattr(goal, "rivals", lambda self, *rows, of=goal.rivals: of(self, *rows)[-1:])
    monkeypatch.setattr("mercer.studies.report.page.inline_svg", lambda figure, name, text: text)


@pytest.fixture
def pilot(monkeypatch):
    """Have a pilot choose this way for tables of few rows."""

    def chooses(way, seconds=1.0):
        made = Choice(way, "because the test asks for it", (Candidate(None, 9e3, 9), Candidate(way, seconds, 9)))
        monkeypatch.setattr(approximation, "FEWEST_ROWS", 100)
        monkeypatch.setattr(approximation, "MANY_ROWS", 100)
        monkeypatch.setattr(approximation, "PILOT_ROWS", 90)
        monkeypatch.setattr(approximation, "choose", lambda task, control: made)

    return chooses


WAYS = {"landmarks": Landmarks(40), "cells": Cells(80)}


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("name", WAYS)
def test_a_study_of_an_approximation_is_shown_saved_and_verified(name, n_classes, tmp_path):
    table = frame(n_classes)
    done = study(table, "y", approximation=WAYS[name], kernel=RBF(gamma=0.5), n_folds=2)
    assert done.search.best.choice.way == WAYS[name]
    certificate = done.certificate
    assert math.isfinite(certificate.distance_to_exact) == (name == "landmarks")
    assert "The machine is approximate: " in done.summary()
    page = done.to_html()
    assert certificate.distance_in_words in page
    assert "<dt>Distance to exact</dt>" in page
    record = json.loads(done.to_json())
    assert record["setting"]["approximation"] == repr(WAYS[name])
    assert record["certificate"]["approximation"] == certificate.approximation
    done.save(tmp_path)
    model = mercer.load_model(tmp_path / "model.mercer")
    assert np.array_equal(model.predict(table), done.model.predict(table))
    checked = verify(model, table)
    assert checked.same_table
    assert not checked.findings
    assert model.has_probabilities == bool(n_classes)
    if n_classes:
        assert np.array_equal(model.predict_proba(table), done.model.predict_proba(table))


@pytest.mark.parametrize("n_learnt", [2, 3])
def test_a_class_without_a_row_in_a_fold_loses_to_the_others(n_learnt):
    table = frame(4)
    X, y = table[["a", "b", "c"]].to_numpy(), table["y"].map("pqrs".index).to_numpy()
    goal, rows = ToClassify(list("pqrs"), y.size), y < n_learnt
    machine = goal.estimator(1e-3).set_params(approximation=Landmarks(40), C=100.0).fit(X[rows], y[rows])
    values = goal.values_of(machine, X[rows])
    assert values.shape == (rows.sum(), 6)
    assert goal.error_of(y[rows], values) < 0.1 * rows.sum()
    assert goal.error_of(y[rows], values) == np.count_nonzero(machine.predict(X[rows]) != y[rows])


@pytest.mark.parametrize("options", [{"cost": "q:p=5"}, {"class_weight": "balanced"}, {"groups": "g"}])
def test_costs_weights_and_groups_count_in_approximate_machines(options):
    table = frame(2).assign(g=np.arange(300) // 3)
    done = study(table, "y", approximation=Landmarks(40), kernel=RBF(gamma=0.5), n_folds=2, **options)
    checked = verify(done.model, table)
    assert checked.same_table
    assert not checked.findings
    assert done.model.has_probabilities


@pytest.mark.parametrize("name", [*WAYS, "exact"])
def test_a_pilot_chooses_how_the_best_machine_is_trained_on_all_rows(name, pilot, tmp_path):
    pilot(WAYS.get(name))
    done = study(frame(2), "y", kernel=["linear", RBF(gamma=0.5)], n_folds=2)
    best = done.search.best
    assert (best.choice.family, best.choice.way) == ("RBF(gamma=0.5)", WAYS.get(name))
    assert best.n_rows == done.search.n_rows
    assert len([cell for cell in done.search.cells if cell.n_rows == best.n_rows]) >= 4  # three C, and a linear machine
    few = [cell for cell in done.search.cells if cell.n_rows < best.n_rows]
    assert few
    assert all(cell.choice.way is None for cell in few)
    said = f"approximation='auto' chose {'the exact machine' if name == 'exact' else name}, because the test asks"
    assert said in done.summary()
    done.save(tmp_path)
    assert said in mercer.load_model(tmp_path / "model.mercer").certificate.choice
    assert said in json.loads(done.to_json())["certificate"]["choice"]
    assert done.to_html()


def test_figures_of_parts_of_the_folds_stand_for_all_of_their_rows(pilot, monkeypatch):
    pilot(None)
    monkeypatch.setattr("mercer.model_selection.search.row_rules._FEWEST_VALIDATION", 50)  # rows, of 450 in a fold
    done = study(frame(2, 1200), "y", kernel=[RBF(gamma=0.5)], n_folds=2)
    figures = [cell.figure for cell in done.search.cells if cell.n_rows < done.search.n_rows]
    assert figures
    assert max(figures) < done.search.best.figure + 0.1
    assert min(figures) > 0.4  # a figure that counted the errors of the parts alone would be near 1


def test_without_time_for_kernels_a_linear_machine_is_judged_on_all_rows(pilot):
    pilot(Landmarks(40), seconds=1e9)
    done = study(frame(2), "y", kernel=["linear", RBF(gamma=0.5)], n_folds=2, max_seconds=3600.0)
    assert done.search.best.choice.is_linear
    assert done.search.best.n_rows == done.search.n_rows
    assert any("a pilot says that no machine with a kernel ends" in cut for cut in done.cuts)


def test_without_time_for_the_folds_the_figure_is_said_to_be_that_of_exact_machines(pilot, monkeypatch):
    pilot(Landmarks(40))
    monkeypatch.setattr(approximation, "_affordable", lambda expected, seconds: ())
    done = study(frame(2), "y", kernel=["linear", RBF(gamma=0.5)], n_folds=2)
    assert done.search.best.choice.way == Landmarks(40)
    assert done.search.best.n_rows < done.search.n_rows
    assert any("cross-validated figure is that of exact machines of" in cut for cut in done.cuts)


def _approximate(done):
    return [cell for cell in done.search.cells if cell.choice.way is not None]


@pytest.mark.parametrize("rows", [90, 10_000])
def test_exact_machines_choose_the_settings_of_an_approximation(rows, monkeypatch):
    monkeypatch.setattr(approximation, "PILOT_ROWS", rows)
    done = study(frame(2), "y", approximation=Landmarks(15), kernel=["linear", "rbf"], n_folds=2, repeats=1)
    result, again = done.search, _approximate(done)
    exact = [cell for cell in result.cells if cell not in again and not cell.choice.is_linear]
    assert len(exact) > 20
    assert max(cell.n_rows for cell in exact) == min(rows, result.n_rows)
    assert len(again) == result.n_again == 5
    assert all((cell.choice.way, cell.n_rows) == (Landmarks(15), result.n_rows) for cell in again)
    first = min(exact, key=lambda cell: cell.rank)
    assert len({cell.choice.gamma_factor for cell in again}) == 3
    assert {first.C / 10, first.C, first.C * 10} <= {round(cell.C, 9) for cell in again}
    assert result.best in again
    assert result.best.error == min(cell.error for cell in again)
    assert result.best.candidate != replace(first.candidate, choice=replace(first.choice, way=Landmarks(15)))
    assert done.model.way == Landmarks(15)
    assert len(done.repeats) == 1
    said = f"Exact machines of up to {min(rows, result.n_rows)} training rows a fold chose kernel and settings"
    assert said in done.summary()
    assert "The best setting and 4 others were then judged again on at most 15 landmarks" in done.summary()
    assert done.to_html()


@pytest.mark.parametrize(("n_judged", "why"), [(0, "time limit"), (1, "time limit"), (1, "interrupted")])
def test_the_best_setting_of_exact_machines_is_judged_first(n_judged, why, monkeypatch):
    n_calls, judge = [0], searching.search

    def stopping(*folds_and_goal, grid=None, **options):
        n_calls[0] += grid is not None
        if n_calls[0] > n_judged:  # the first call is for the best setting alone
            raise SearchStopped(why)
        return judge(*folds_and_goal, grid=grid, **options)

    monkeypatch.setattr(searching, "search", stopping)
    done = study(frame(2), "y", approximation=Landmarks(40), kernel="rbf", n_folds=2)
    (best,) = _approximate(done)
    assert done.search.best == best
    assert done.model.way == Landmarks(40)
    assert done.search.stopped == why
    assert len(done.search.cells) == done.search.n_planned - 4 * n_judged
    assert any("cross-validated figure is that of exact machines" in cut for cut in done.cuts) == (not n_judged)
    assert ("The best setting was then judged again" in done.summary()) == bool(n_judged)
    slow = replace(done.search, chosen=replace(best, seconds=1e9))  # then a quicker one may follow, but no exact one
    assert all(cell.choice.way for cell in final_fit._attempts(slow))


def test_linear_machines_come_first_on_wide_tables_of_approximations(monkeypatch):
    monkeypatch.setattr(searching, "is_wide", lambda fold: True)
    done = study(frame(2), "y", approximation=Landmarks(40), kernel=["linear", RBF(gamma=0.5)], n_folds=2)
    assert done.search.n_linear_first == 6
    assert done.search.n_again == len(_approximate(done)) == 3
    assert done.search.best.choice.way == Landmarks(40)
    assert done.to_html()


def test_exact_machines_are_not_compared_on_few_rows_or_if_they_are_asked_for(pilot, monkeypatch):
    pilot(Landmarks(40))
    assert study(frame(2), "y", kernel=RBF(gamma=0.5), n_folds=2, approximation=None).search.pilot is None
    monkeypatch.setattr(approximation, "FEWEST_ROWS", 1000)
    assert study(frame(2), "y", kernel=RBF(gamma=0.5), n_folds=2).search.pilot is None


def test_approximations_that_cannot_be_are_refused():
    with pytest.raises(TableError, match="only linear machines are tried"):
        study(frame(2), "y", approximation="landmarks", kernel="linear")
    with pytest.raises(ValueError, match="approximation must be None"):
        study(frame(2), "y", approximation="nystroem")


def test_the_shell_studies_approximations(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame(2).to_csv("t.csv", index=False)
    arguments = ["study", "t.csv", "--target", "y", "--folds", "2", "--kernel", "RBF(gamma=0.5)", "--out", "s"]
    assert run_command([*arguments, "--approximation", "cells:80"]) == 0
    assert "in cells of 80 rows" in capsys.readouterr().out
    assert run_command(["predict", "s/model.mercer", "t.csv", "--out", "p.csv"]) == 0
    capsys.readouterr()
    assert run_command(["verify", "s/model.mercer", "t.csv"]) == 0
    assert re.search(r"exact problem, primal +not bounded +not bounded", capsys.readouterr().out)
    assert run_command([*arguments, "--approximation", "nystroem"]) == 2
    assert "nor a number of landmarks" in capsys.readouterr().err
    asked = ["fit", "t.csv", "--target", "y", "--out", "m", "--approximation", "landmarks", "--kernel", "sigmoid"]
    assert run_command(asked) == 1
    assert "Set --approximation exact, or take another kernel" in capsys.readouterr().err


@pytest.mark.parametrize("name", WAYS)
def test_a_model_of_which_nothing_is_proved_is_written(name, tmp_path):
    table = frame(2)
    model = mercer.fit_model(table, "y", mercer.SVC(approximation=WAYS[name]))
    unproved = replace(model.certificate, exact_dual=-math.inf)
    if name == "cells":
        model = replace(model, cells=replace(model.cells, certificate=unproved))
    else:
        model = replace(model, parts=(replace(model.parts[0], certificate=unproved),))
    mercer.save_model(tmp_path / "m.mercer", model)
    read = mercer.load_model(tmp_path / "m.mercer")
    assert read.certificate.exact_dual == -math.inf
    assert not verify(read, table).findings


def test_a_study_that_was_stopped_does_not_choose_again(pilot, tmp_path, monkeypatch):
    pilot(Landmarks(40))
    about = {"approximation": "auto", "kernel": RBF(gamma=0.5), "n_folds": 2, "keep_sealed": True}
    plain = study(frame(2), "y", **about)
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "_LEAST_WORK", 0.0)
    save = checkpoints.Generations.save

    def stopping(self, state, *rest):
        save(self, state, *rest)
        if state == "choice":
            raise StoppedHereError

    monkeypatch.setattr(checkpoints.Generations, "save", stopping)
    with pytest.raises(StoppedHereError):
        study(frame(2), "y", checkpoint=tmp_path, **about)
    monkeypatch.setattr(approximation, "choose", lambda *_: pytest.fail("a pilot"))
    done = study(frame(2), "y", checkpoint=tmp_path, **about)
    assert done.search.pilot.way == Landmarks(40)
    assert [one.errors for one in done.trained] == [one.errors for one in plain.trained]
    assert {"search-pilot", "search-all-rows"} <= {one.name for one in tmp_path.iterdir()}
    monkeypatch.setattr("mercer.approximate.landmarks.draw", lambda *_: pytest.fail("landmarks are drawn again"))
    again = study(frame(2), "y", checkpoint=tmp_path, **about)
    assert again.model.certificate.primal == pytest.approx(done.model.certificate.primal, rel=1e-3)
