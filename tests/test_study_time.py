"""Studies of wide tables and of text, and what a study does if a fit takes longer than its time."""

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from generated import render
from mercer.certificates import Status
from mercer.studies import final_fit, plan, preparation, searching
from mercer.studies.candidates import KERNELS
from mercer.studies.class_rivals import Logistic, Neighbours
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold
from mercer.studies.models import load_model, save_model, verify
from mercer.studies.protocol import study
from mercer.studies.report import classification, prose, search_prose
from mercer.studies.rivals import choose_rivals
from mercer.studies.search import search
from mercer.studies.time_budget import Deadline, TimeBudget
from mercer.studies.timed_fits import fit_in_time, predict_in_time

TOPICS = ("sea", "sky", "soil")


def texts(n=150):
    """Texts of three topics, with words of their own."""
    rng = np.random.default_rng(0)
    letters = "abcdefghijklmnopqrst"
    words = [[f"{topic}{a}{b}" for a in letters[:6] for b in letters[:6]] for topic in TOPICS]
    common = [f"of{a}{b}" for a in letters for b in letters[:10]]
    topic = np.arange(n) % 3
    rows = [" ".join([*rng.choice(words[one], 4), *rng.choice(common, 12)]) for one in topic]
    return pd.DataFrame({"text": rows, "topic": np.array(TOPICS)[topic]})


@pytest.fixture(scope="module")
def of_texts():
    return study(texts(), "topic", n_folds=3)


def test_each_class_of_texts_is_told_from_the_rest(of_texts, tmp_path):
    assert of_texts.search.n_linear_first == 6
    linear = [cell for cell in of_texts.search.cells if cell.choice.is_linear]
    assert all(cell.n_rows == of_texts.search.n_rows for cell in linear)
    only_linear = study(texts(), "topic", n_folds=3, kernel="linear")
    assert only_linear.model.prediction_kind.scheme == "ovr"
    assert len(only_linear.model.parts) == 3
    assert only_linear.svm.test.accuracy.value > 0.9
    assert only_linear.model.has_probabilities
    save_model(tmp_path / "m.mercer", only_linear.model)
    assert verify(load_model(tmp_path / "m.mercer"), texts()).ok
    page = render(only_linear)
    assert "3 machines, one for each class" in page
    assert "in the machine that its column names" in page
    assert "at least one machine decides against the row" in page
    assert "pair" not in classification.margins(only_linear)


def test_without_a_linear_rival_the_machine_is_not_said_to_be_worth_it(of_texts, monkeypatch):
    left = tuple(one for one in of_texts.contenders if one.name != "logistic regression")
    monkeypatch.setattr(type(of_texts), "sign", lambda self, one, other: int(one is self.svm))
    assert "worth it? Yes: it did better than" in prose.worth(of_texts)
    said = prose.worth(replace(of_texts, contenders=left))
    assert "worth it? It did better than nearest neighbours" in said
    assert "Whether it is better than a simple linear machine cannot be told: there was no time for one." in said


def test_without_patience_only_linear_machines_are_tried_on_wide_tables(monkeypatch):
    monkeypatch.setattr(searching, "SECONDS_WITHOUT_LIMIT", 0.0)
    studied = study(texts(), "topic", n_folds=3)
    assert all(cell.choice.is_linear for cell in studied.search.cells)
    assert any(cut.startswith("Only linear machines were tried: kernels would take about ") for cut in studied.cuts)


def test_texts_without_time_for_kernels_are_studied_by_linear_machines(monkeypatch):
    # Two rounds, and no time for a fit with a kernel: the plan without kernels has to be printed, too.
    monkeypatch.setattr(plan, "growth", lambda *rows, is_linear=False: 1.0 if is_linear else 1e9)
    monkeypatch.setattr(plan, "round_sizes", lambda n_rows: (n_rows // 4, n_rows))
    reports = []
    studied = study(texts(), "topic", n_folds=3, max_seconds=3600.0, progress=reports.append)
    assert all(cell.choice.is_linear for cell in studied.search.cells)
    assert studied.search.best.n_rows == studied.search.n_rows
    assert len(studied.search.rounds) == 2  # fewer candidates on all rows
    assert any(cut.startswith("Only linear machines were tried: a machine with a kernel") for cut in studied.cuts)
    assert "To save time, candidates were judged in rounds" in search_prose.rounds(studied.search)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_machine_that_was_stopped_before_it_learnt_is_not_the_answer(monkeypatch, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(
        y=np.array(["a", "b", "c"])[np.digitize((X**2).sum(axis=1), [1.0, 3.0][: n_classes - 1])]
    )
    fitted = ToClassify.fitted

    def stopped(self, training, gram, candidate, control):
        model = fitted(self, training, gram, candidate, control)
        if model.machine_spec.is_linear:
            return model
        parts = [
            replace(one, certificate=replace(one.certificate, status=Status.TIME_LIMIT, primal=1e9, relative_gap=1.0))
            for one in model.parts
        ]
        return replace(model, parts=tuple(parts))

    monkeypatch.setattr(ToClassify, "fitted", stopped)
    studied = study(frame, "y", n_folds=3)
    assert studied.model.machine_spec.is_linear
    assert studied.search.best.choice.is_linear
    assert any("The linear machine" in cut and "takes its place" in cut for cut in studied.cuts)
    assert "linear machine" in prose.choice(studied)
    studied = study(frame, "y", n_folds=3, kernel="rbf")
    assert not final_fit.has_learnt(studied.model)
    monkeypatch.setattr(type(studied), "sign", lambda self, one, other: -1 if one is self.svm else 1)  # it did worse
    assert any("was stopped before it had learnt" in one.sentence for one in prose.doubts(studied))


def test_candidates_whose_final_fit_takes_too_long_are_not_chosen():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), np.arange(120) % 2
    halves = np.arange(60), np.arange(60, 120)
    folds = [Fold(X, y, *halves), Fold(X, y, *halves[::-1])]
    search_result = search(folds, ToClassify(["a", "b"], 120), C_grid=(1.0,), extend=False)
    slow = tuple(
        replace(cell, seconds=1e6, errors=(0.0, 0.0)) if not cell.choice.is_linear else cell
        for cell in search_result.cells
    )
    budget = TimeBudget(60.0)
    chosen = final_fit._affordable(replace(search_result, cells=slow), 120, 30.0, budget)
    assert chosen.best.choice.is_linear
    assert "would take about" in budget.cuts[0]
    assert final_fit._affordable(replace(search_result, cells=slow), 120, None, budget).best.seconds == 1e6


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(C=10.0, max_iter=500, warm_start=True, solver="newton-cg", tol=1e-6),
        HistGradientBoostingClassifier(max_iter=20, warm_start=True, early_stopping=False, random_state=0),
    ],
)
def test_fits_in_pieces_end_where_whole_fits_do(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)
    probabilities = estimator.__class__(**estimator.get_params()).fit(X, y).predict_proba(X)
    assert fit_in_time(estimator, X, y, Deadline(3600.0))
    np.testing.assert_allclose(predict_in_time(estimator.predict_proba, X, Deadline(3600.0)), probabilities, atol=1e-4)
    assert not fit_in_time(estimator.__class__(**estimator.get_params()), X, y, Deadline(0.0))
    with pytest.raises(TimeoutError):
        predict_in_time(estimator.predict_proba, X, Deadline(0.0))


def test_a_rival_without_time_is_left_out_and_named():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    folds, goal = [Fold(X, y, np.arange(40), np.arange(40, 60))] * 2, ToClassify(["a", "b"], 40)

    class Slow(Logistic):
        def errors(self, fold, settings, deadline):
            time.sleep(0.01)
            raise TimeoutError

    budget = TimeBudget(3600.0)
    (chosen,) = choose_rivals(folds, [Slow(goal), Neighbours(goal, 40)], 40, 40, budget)
    assert chosen.name == "nearest neighbours"
    assert budget.cuts == ["There was no time for logistic regression."]


def genes(n=60, p=1200):
    """More columns than rows; a few of them tell the classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, p))
    X[:, :10] += 2.5 * y[:, None]
    return pd.DataFrame(X, columns=[f"gene {j}" for j in range(p)]).assign(kind=np.array(["well", "ill"])[y])


def test_on_more_columns_than_rows_kernels_must_be_better_than_chance_explains():
    studied = study(genes(), "kind", n_folds=3)
    best, linear = studied.search.best, [cell for cell in studied.search.cells if cell.choice.is_linear]
    assert best.choice.is_linear
    assert {1e-4, 1e-3} <= {cell.C for cell in linear}  # with a thousand columns C = 0.01 is C = infinity
    assert len({cell.errors for cell in linear}) > 1
    assert studied.svm.test.accuracy.value >= 0.8
    as_good = replace(best, choice=KERNELS[0], errors=tuple(0.5 * error for error in best.errors))
    assert replace(studied.search, cells=(best, as_good), chosen=best).best is best
    said = prose.choice(replace(studied, search=replace(studied.search, cells=(best, as_good), chosen=best)))
    assert "The best candidate of all was the Gaussian kernel" not in said  # half of the errors is no chance
    one_off = replace(as_good, errors=(best.errors[0] - 2.0, best.errors[1] + 1.0, *best.errors[2:]))
    tied = replace(studied.search, cells=(best, one_off), chosen=best)
    said = prose.choice(replace(studied, search=tied))
    assert "had this cross-validated accuracy" in said
    assert "The best candidate of all was the Gaussian kernel" in said
    kernels = replace(studied.search, cells=(one_off,), n_linear_first=0, chosen=None)
    assert replace(studied.search, cells=(best,), chosen=None).followed_by(kernels).best is best
    assert (
        replace(studied.search, cells=(best,), chosen=None).followed_by(replace(kernels, cells=(as_good,))).best
        is as_good
    )


def test_on_a_large_table_a_part_of_the_rows_is_in_folds(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    frame = pd.DataFrame(X, columns=list("uvw")).assign(kind=np.where(X[:, 0] > 0.0, "more", "less"))
    monkeypatch.setattr(preparation, "FEWEST_SEARCHED", 20)
    monkeypatch.setattr(preparation, "FOLD_BYTES", 100 * 5 * 3 * 8)
    studied = study(frame, "kind", kernel="linear", repeats=1)
    assert studied.search.n_in_folds == 100
    assert all(70 <= cell.n_rows <= 90 for cell in studied.search.cells)
    assert len(studied.model.training.rows) == 300
    assert studied.svm.cv > 0.9  # of 100 rows, not of 300
    assert any("chosen by 100 of the 300 rows" in cut for cut in studied.cuts)
    assert any("not repeated on other splits, because the table is large" in cut for cut in studied.cuts)
    assert "over 5 folds of 100 of the 300 rows that were not sealed" in prose.choice(studied)


def test_the_recommended_limit_suffices_for_kernels(monkeypatch):
    ticks = SimpleNamespace(perf_counter=itertools.count(0.0, 1e-3).__next__)
    for module in ("plan", "search", "time_budget"):
        monkeypatch.setattr(f"mercer.studies.{module}.time", ticks)
    monkeypatch.setattr(searching, "SECONDS_WITHOUT_LIMIT", 0.0)
    (cut,) = (one for one in study(texts(90), "topic", n_folds=3).cuts if "max_seconds=" in one)
    seconds = float(cut.split("max_seconds=")[1].split()[0])
    studied = study(texts(90), "topic", n_folds=3, max_seconds=seconds)
    assert not all(cell.choice.is_linear for cell in studied.search.cells)
    assert not any(one.startswith("Only linear machines") for one in studied.cuts)
