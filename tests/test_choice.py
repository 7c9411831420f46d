"""`approximation="auto"`: the choice between the exact machine, landmarks and cells."""

import itertools
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, SVR, Cells, KernelSearchCV, Landmarks, OneClassSVM
from mercer.approximate import choice as choices
from mercer.approximate.choice import Candidate, Choice, _Pilots
from mercer.certificates import ApproximateCertificate
from mercer.data.files import write_checked


@pytest.fixture
def small(monkeypatch):
    """Make pilots small, and every exact machine worth a comparison."""
    for module in (choices, mercer.estimators._approximate):
        monkeypatch.setattr(module, "FEWEST_ROWS", 400)
    monkeypatch.setattr(choices, "_PILOT_ROWS", 300)
    monkeypatch.setattr(choices, "_SHORT", 0.0)


@pytest.fixture
def takes(monkeypatch, small):
    """Set the decision of the comparison, whatever the times are."""

    def decide(name):
        def best(self, exact, others):
            return next(one for one in [exact, *others] if one.name == name), "because the test asks for it"

        monkeypatch.setattr(_Pilots, "_best", best)

    return decide


def rows(n=900, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * random.normal(size=n)
    return X, (f > 0.0).astype(int), f


def machines():
    _X, y, f = rows()
    return {
        "two classes": (SVC(C=3.0), y),
        "three classes": (SVC(class_weight="balanced"), np.digitize(f, [-0.5, 0.5])),
        "against the rest": (SVC(multi_class="ovr", loss="squared_hinge"), np.digitize(f, [-0.5, 0.5])),
        "regression": (SVR(epsilon=0.1), f),
        "novelty": (OneClassSVM(nu=0.2), None),
        "contamination": (OneClassSVM(contamination=0.1), None),
    }


WAYS = {"exact": None, "landmarks": Landmarks(), "cells": Cells(cell_rows=200)}


@pytest.mark.parametrize("name", ["exact", "landmarks"])
@pytest.mark.parametrize("case", machines())
def test_the_machine_is_that_of_the_chosen_way(name, case, takes):
    takes(name)
    X, (machine, y) = rows()[0], machines()[case]
    given = clone(machine).set_params(approximation="auto")
    chosen = clone(given).fit(X, y)
    same = clone(machine).set_params(approximation=WAYS[name]).fit(X, y)
    assert np.array_equal(chosen.predict(X), same.predict(X))
    assert chosen.get_params() == given.get_params()
    assert chosen.choice_.way == WAYS[name]
    assert chosen.choice_.seconds > 0.0
    assert isinstance(chosen.certificate_, ApproximateCertificate) == (name != "exact")
    assert [one.name for one in chosen.choice_.candidates][:2] == ["exact", "landmarks"]
    again = pickle.loads(pickle.dumps(chosen))
    assert again.choice_ == chosen.choice_
    assert np.array_equal(again.predict(X), chosen.predict(X))


def test_cells_are_as_large_as_the_pilot_asks_for(takes, monkeypatch):
    monkeypatch.setattr("mercer.approximate.cell_size.LEAST_CELL", 200)
    monkeypatch.setattr("mercer.approximate.cell_size._TOLERATED", 0.05)
    takes("cells")
    X, y, _ = rows(3000)
    machine = SVC(C=3.0, gamma=1.0, approximation="auto").fit(X, y)
    way = machine.choice_.way
    assert isinstance(way, Cells)
    assert 200 <= way.cell_rows <= 1500
    assert "because the test asks for it: exact" in machine.certificate_.choice
    assert np.array_equal(machine.predict(X), clone(machine).set_params(approximation=way).fit(X, y).predict(X))


def test_the_reason_is_said_by_the_certificate_the_card_and_verbose(takes, capsys):
    takes("landmarks")
    X, y, _ = rows()
    machine = SVC(approximation="auto", verbose=1).fit(X, y)
    sentence = str(machine.choice_)
    assert sentence.startswith("approximation='auto' chose landmarks, because the test asks for it: exact ")
    assert machine.certificate_.choice == sentence == machine.certificate_.verify().choice
    assert sentence in capsys.readouterr().err
    assert machine._fit_facts()["choice"] == sentence
    assert machine.certificate_.verify().approximation == machine.certificate_.approximation
    machine.set_params(approximation=None, verbose=0).fit(X, y)
    assert not hasattr(machine, "choice_")
    assert "choice" not in machine._fit_facts()


def test_the_comparison_prefers_exact_machines_and_then_landmarks(small):
    X, y, _ = rows()
    task = SVC()._training_task(mercer.specs.ForSVC(C=1.0), X, y, None)

    def chosen(exact, landmarks, cells=None, limit=None, memory_limit=None):
        pilots = _Pilots(task, mercer.solvers.Control())
        pilots.limit, pilots.memory_limit = limit, memory_limit
        others = [Candidate(Landmarks(), *landmarks)] + ([] if cells is None else [Candidate(Cells(), *cells)])
        best, why = pilots._best(Candidate(None, *exact), others)
        assert why.startswith("because ")
        assert ("nothing ends within the 17 min that pilots left of max_seconds" in why) is (limit == 1000)
        return best.name

    assert chosen((100, 9), (50, 9, 0.1, 0.0)) == "exact"  # not much faster
    assert chosen((100, 9), (20, 9, 0.1, 0.002)) == "landmarks"
    assert chosen((100, 9), (20, 9, 0.1, 0.05)) == "exact"  # less accurate
    assert chosen((100, 9), (20, 9, 0.1, 0.05), (20, 9, 0.1, 0.0)) == "cells"
    assert chosen((100, 9), (20, 9, 0.1, 0.0), (2, 9, 0.1, 0.0)) == "landmarks"  # both are much faster
    assert chosen((1e9, 9), (20, 9, 0.1, 0.05), limit=1e6) == "landmarks"
    assert chosen((1e9, 9), (20, 9, 0.1, 0.05), (20, 9, 0.1, 0.0), limit=1e6) == "cells"
    assert chosen((1e9, 9), (20, 9, 0.1, 0.002), (20, 9, 0.1, 0.0), limit=1e6) == "landmarks"
    assert chosen((1e9, 9), (1e8, 9, 0.1, 0.0), (1e8, 9), limit=1e6) == "landmarks"  # nothing ends
    assert chosen((1e9, 9), (1e8, 9, 0.1, 0.0), (1e8, 9), limit=1000) == "landmarks"
    assert chosen((900_000, 9), (math.inf, 0), limit=1e6) == "exact"  # ends if the forecast is right
    assert chosen((1e9, 9), (1e8, 9, 0.1, 0.0), (900_000, 9), limit=1e6) == "cells"
    assert chosen((100, 999), (200, 9, 0.1, 0.0), memory_limit=99) == "landmarks"


def test_the_times_count_the_machines_without_each_fold_if_there_are_probabilities(takes, monkeypatch):
    takes("landmarks")
    monkeypatch.setattr(choices, "clock", itertools.count().__next__)  # every pilot takes one second
    X, y, _ = rows()
    seconds = [
        [one.seconds for one in SVC(approximation="auto", probability=of_folds).fit(X, y).choice_.candidates]
        for of_folds in (False, True)
    ]
    exact, landmarks = np.divide(seconds[1], seconds[0])[:2]
    assert landmarks == pytest.approx(5.0)
    assert 1.0 + 5.0 * 0.8**2.6 <= exact <= 5.0


def test_exact_machines_are_chosen_without_a_pilot_where_nothing_else_is_possible(small):
    X, y, _ = rows()
    separable = np.where(X[:, 0] > 0.0, 1, 0)
    few = SVC(approximation="auto").fit(X[:300], y[:300])
    assert few.choice_ == Choice(None, "because there are fewer than 400 rows")
    machines = {
        "kernel values are given": (SVC(kernel="precomputed"), mercer.gram_matrix(RBF(gamma=1.0), X), y),
        "C is infinite": (SVC(C=math.inf, gamma=50.0), X, separable),
        "a joint machine cannot": (SVC(multi_class="joint"), X, y),
        "warm_start": (SVC(warm_start=True), X, y),
        "leave_one_out": (SVC(probability=True, calibration_values="leave_one_out"), X[:450], y[:450]),
    }
    for text, (machine, table, targets) in machines.items():
        machine.set_params(approximation="auto").fit(table, targets)
        assert text in machine.choice_.reason
        assert not machine.choice_.candidates
        assert not isinstance(machine.certificate_, ApproximateCertificate)
    # An exact machine can change its rows.
    assert few.forget([0, 1]).certificate_.status is mercer.Status.OPTIMAL
    with pytest.raises(ValueError, match="approximation='auto'"):
        SVC(approximation="auto").partial_fit(X, y, classes=[0, 1])


def test_a_kernel_that_is_not_positive_semidefinite_has_no_landmarks(small):
    X, y, _ = rows(500)
    with pytest.warns(mercer.IndefiniteKernelWarning):
        machine = SVC(kernel="sigmoid", coef0=1.0, gamma=1.0, approximation="auto").fit(X, y)
    assert "landmarks" not in [one.name for one in machine.choice_.candidates]


def test_strings_and_rows_of_weight_zero_have_pilots(small):
    random = np.random.default_rng(0)
    words = np.array(["".join(random.choice(list("abc"), 6)) for _ in range(420)], dtype=object)
    y = np.array([word.count("a") > 1 for word in words])
    machine = SVC(kernel=mercer.Spectrum(2), approximation="auto").fit(words, y)
    assert len(machine.choice_.candidates) >= 2
    X, y, _ = rows(700)
    weights = np.r_[np.zeros(200), np.random.default_rng(1).uniform(0.5, 2.0, 500)]
    rare = np.where(np.arange(700) == 600, 2, y)  # a class of one row
    for targets in (y, rare):
        machine = SVC(approximation="auto").fit(X, targets, weights)
        assert machine.score(X[200:], targets[200:]) > 0.8


def test_one_class_is_refused_as_without_a_choice(small):
    X = rows()[0]
    with pytest.raises(ValueError, match="class"):
        SVC(approximation="auto").fit(X, np.ones(len(X)))


def test_the_pilot_counts_in_the_time_and_hears_callbacks(small, monkeypatch):
    X, y, _ = rows()
    ticks = itertools.count(0.0, 50.0)
    monkeypatch.setattr(choices, "clock", lambda: next(ticks))  # every pilot takes 50 seconds
    machine = SVC(approximation="auto", max_seconds=100.0).fit(X, y)
    assert machine.choice_.way is not None  # the exact machine does not end
    monkeypatch.undo()
    stopped = SVC(approximation="auto", callback=lambda _: True)
    monkeypatch.setattr("mercer.estimators._approximate.FEWEST_ROWS", 400)
    monkeypatch.setattr(choices, "FEWEST_ROWS", 400)
    with pytest.warns(ConvergenceWarning):
        stopped.fit(X, y)
    assert str(stopped.certificate_.status) == "interrupted"
    assert machine._before == (0.0, False) == stopped._before


def test_searches_choose_once(takes, monkeypatch):
    takes("landmarks")
    X, y, _ = rows()
    count = []
    choose = choices.choose
    monkeypatch.setattr(
        "mercer.estimators._approximate.choose", lambda *given, **more: count.append(1) or choose(*given, **more)
    )
    machine = make_pipeline(StandardScaler(), SVC(approximation="auto"))
    search = KernelSearchCV(machine, {"svc__C": [1.0, 10.0]}, cv=3).fit(X, y)
    assert len(count) == 1
    assert search.best_estimator_[-1].approximation == Landmarks()
    assert "for all settings, approximation='auto' chose landmarks" in search.reason_
    assert search.get_params()["estimator__svc__approximation"] == "auto"
    others = GridSearchCV(SVC(approximation="auto"), {"C": [1.0, 10.0]}, cv=3).fit(X, y)
    assert others.best_estimator_.choice_.way == Landmarks()
    count.clear()
    made = mercer.plan(machine, X, y)
    assert made.solver == "auto"
    assert "chose landmarks" in made.reason
    assert len(count) == 1
    takes("exact")
    assert "chose the exact machine" in mercer.plan(machine, X, y).reason


@pytest.mark.parametrize("name", ["exact", "landmarks", "cells"])
@pytest.mark.parametrize("case", ["two classes", "three classes", "regression"])
def test_a_model_file_has_the_reason(name, case, small, monkeypatch, tmp_path):
    pandas = pytest.importorskip("pandas")
    candidate = Candidate(WAYS[name], 1.0, 9)
    monkeypatch.setattr(_Pilots, "_best", lambda self, exact, others: (candidate, "because the test asks for it"))
    X, (machine, y) = rows()[0], machines()[case]
    table = pandas.DataFrame(X, columns=list("abc")).assign(kind=y)
    fitted = clone(machine).set_params(approximation="auto").fit(X, y)
    assert "because the test asks for it" in fitted.certificate_.choice
    assert fitted.certificate_.choice in str(fitted.certificate_)
    for model in (mercer.fit_model(table, "kind", clone(fitted)), mercer.as_model(fitted)):
        mercer.save_model(tmp_path / "machine.mercer", model)
        certificate = mercer.load_model(tmp_path / "machine.mercer").certificate
        assert certificate.choice == model.certificate.choice
        assert "because the test asks for it" in certificate.choice


def test_penalties_begin_with_the_landmarks_that_the_last_one_needed():
    X, y, _ = rows()
    task, shared = SVC()._training_task(mercer.specs.ForSVC(C=1.0), X, y, None), {}
    way = Landmarks(n_landmarks=800, distance=1e-3)
    first = way.train(task, mercer.solvers.Control(), shared)
    sizes = [key for key in shared if isinstance(key, int)]
    assert sizes == [shared["enough"]]
    assert sizes[0] > 125
    second = way.train(task, mercer.solvers.Control(), shared)
    assert [key for key in shared if isinstance(key, int)] == sizes
    assert second.certificate.distance_to_exact <= 1e-3
    assert np.array_equal(first.rows, second.rows)


def test_the_shell_fits_by_a_choice_and_says_why(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    from mercer.studies.cli import run

    monkeypatch.chdir(tmp_path)
    X, y, _ = rows(200)
    pandas.DataFrame(X, columns=list("abc")).assign(kind=y).to_csv("table.csv", index=False)
    assert run(["fit", "table.csv", "--target", "kind", "--approximation", "auto", "--out", "a.mercer"]) == 0
    assert "chose the exact machine, because there are fewer than 20,000 rows" in capsys.readouterr().out
    assert run(["verify", "a.mercer", "table.csv"]) == 0


@pytest.mark.parametrize("way", [None, Landmarks(30), Cells(cell_rows=100, overlap=0.2)])
def test_a_fit_or_search_that_continues_does_not_choose_again(way, small, tmp_path, monkeypatch):
    X, y, _ = rows(420)
    compared = (Candidate(None, 9.5, 10, 0.2), Candidate(way, math.inf, 7, 0.1, -0.01, 0.02))
    chooser = mercer.estimators._approximate
    monkeypatch.setattr(chooser, "choose", lambda *_, **__: Choice(way, "because the test asks for it", compared, 1.0))
    machine = SVC(approximation="auto").fit(X, y, checkpoint=tmp_path / "fit")
    search = KernelSearchCV(make_pipeline(StandardScaler(), SVC(approximation="auto")), C=[1.0, 10.0], cv=2, n_jobs=1)
    search.fit(X, y, checkpoint=tmp_path / "search")
    monkeypatch.setattr(chooser, "choose", lambda *_, **__: pytest.fail("a pilot"))
    again = clone(machine).fit(X, y, checkpoint=tmp_path / "fit")
    assert again.choice_ == Choice(way, "because the test asks for it", compared, 0.0)
    assert again.certificate_.primal == pytest.approx(machine.certificate_.primal, rel=2e-3)
    more = clone(search).fit(X, y, checkpoint=tmp_path / "search")
    assert "the checkpoint had the results of settings" in more.reason_
    assert "because the test asks for it" in more.reason_
    assert more.best_params_ == search.best_params_
    for path in (tmp_path / "fit").glob("choice-*.bin"):
        write_checked(path, {"way": ["cells", {"cell_rows": -1}], "reason": "", "candidates": []}, {})
    monkeypatch.setattr(chooser, "choose", lambda *_, **__: Choice(None, "because it is chosen again"))
    with pytest.warns(UserWarning, match=r"choice-\d+.bin is damaged and is not used"):
        assert "again" in machine.fit(X, y, checkpoint=tmp_path / "fit").choice_.reason
