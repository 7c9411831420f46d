"""Forecasts of time, memory and support vectors: `mercer.plan`, what `fit` says of its limits, and `mercer plan`."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import SVC, SVR, KernelRidge, KernelSearchCV, LinearSVC, OneClassSVM, Spectrum
from mercer.solvers.forecast import KERNEL_FIT, LINEAR_FIT, Pilot, forecast, pilot_rows

X, y = make_classification(3000, n_features=6, flip_y=0.2, random_state=0)
WORDS = ["".join(np.random.default_rng(k).choice(list("ACGT"), 20)) for k in range(120)]


def power(exponent, support=0.9, scale=1e-6):
    """Pilots of work whose time and number of support vectors are powers of the rows."""
    asked = []

    def run(n_rows, max_seconds):
        asked.append(n_rows)
        return Pilot(n_rows, scale * n_rows**exponent, round(n_rows**support), 242 * n_rows)

    return run, asked


@pytest.mark.parametrize("exponent", [1.3, 1.9, 2.4])
def test_the_exponent_comes_from_the_pilots_and_from_the_support_vectors(exponent):
    run, asked = power(exponent)
    made = forecast(1_000_000, run)
    assert made.exponent == pytest.approx(0.5 * (exponent + 1.9), abs=0.02)
    assert made.n_support == pytest.approx(1_000_000**0.9, rel=0.05)
    assert made.peak_bytes == pytest.approx(242e6, rel=0.05)
    assert sum(one.seconds for one in made.pilots) <= max(0.6, 0.02 * made.seconds) * 2
    assert asked[0] == asked[1] < 500  # the first one is done twice, and measured once
    assert made.rows_in(made.seconds / 2) == pytest.approx(1_000_000 * 0.5 ** (1 / made.exponent), rel=0.01)


def test_exponents_stay_within_bounds_and_one_pilot_has_the_usual_one():
    assert forecast(10_000, power(9.0, 1.0, 1e-30)[0]).exponent <= KERNEL_FIT.high
    assert forecast(10_000, power(0.1, 0.1, 1.0)[0]).exponent >= KERNEL_FIT.low
    slow = forecast(100_000, power(1.0, scale=1.0)[0], max_seconds=1.0)
    assert (len(slow.pilots), slow.exponent) == (1, KERNEL_FIT.usual)
    assert forecast(10_000, power(1.0)[0], growth=LINEAR_FIT).exponent <= LINEAR_FIT.high
    few = forecast(300, power(1.0)[0])
    assert (few.seconds, few.n_support) == (few.pilots[0].seconds, few.pilots[0].n_support)


def test_a_pilot_that_was_stopped_does_not_count_beside_two_that_ended():
    work, _ = power(1.8)

    def run(size, seconds):
        pilot = work(size, seconds)
        return pilot if size < 5_000 else pilot._replace(seconds=0.1 * pilot.seconds, n_support=9, has_ended=False)

    made, before = forecast(100_000, run, max_seconds=1e9), forecast(100_000, work, max_seconds=1e9)
    assert all(one.has_ended for one in made.pilots)
    assert made.seconds == pytest.approx(before.seconds, rel=0.2)
    assert made.n_support == pytest.approx(before.n_support, rel=0.01)


def test_a_pilot_has_rows_of_every_class():
    codes = np.repeat(np.arange(23), [4000, *[10] * 21, 2])
    rows = pilot_rows(codes, codes.size, 250, of_classes=True)
    assert np.bincount(codes[rows]).tolist() == [237, *[5] * 21, 2]
    assert (np.diff(rows) > 0).all()
    assert pilot_rows(None, 100, 7, of_classes=False).size == 7


def strings():
    return np.array(WORDS, dtype=object), np.arange(120) % 2


CASES = {
    "SVC": (SVC(), X, y),
    "three classes, lists": (SVC(), X[:400].tolist(), (np.arange(400) % 3).tolist()),
    "SVR, data frame": (SVR(), pd.DataFrame(X[:700]).add_prefix("x"), X[:700, 0]),
    "one class, CSR": (OneClassSVM(), sp.csr_array(np.maximum(X[:900], 0.0)), None),
    "more columns than rows": (LinearSVC(), np.tile(X[:60], 40), y[:60]),
    "kernel values": (SVC(kernel="precomputed"), X[:600] @ X[:600].T, y[:600]),
    "strings": (SVC(kernel=Spectrum(3)), *strings()),
    "pipeline": (make_pipeline(StandardScaler(), SVC(probability=True)), X[:600], y[:600]),
    "ridge": (KernelRidge(alpha=1.0), X[:600], y[:600]),
    "of scikit-learn": (Ridge(), X[:600], y[:600]),
    "23 classes": (SVC(), X[:690], np.arange(690) % 23),
}


@pytest.mark.parametrize("name", CASES)
def test_every_shape_has_a_plan(name):
    machine, rows, targets = CASES[name]
    before = repr(machine)
    plan = mercer.plan(machine, rows, targets)
    assert (plan.seconds > 0.0, plan.work, plan.advice, repr(machine)) == (True, "fit", "", before)
    fitted = machine.fit(rows, *(() if targets is None else (targets,)))
    fitted = fitted[-1] if hasattr(fitted, "steps") else fitted
    if isinstance(fitted, SVC | SVR | OneClassSVM):
        assert plan.n_support == pytest.approx(len(fitted.support_), rel=0.5)
        assert (plan.solver, plan.reason) == (fitted._solutions[0].solver, fitted._solutions[0].reason)
        assert plan.solver in str(plan)
        assert f"{plan.n_support:,}" in str(plan)
    frame = plan.to_frame()
    assert frame["kind"].tolist() == ["pilot"] * len(plan.pilots) + ["forecast"]
    assert frame["n_rows"].tolist()[-1] == len(targets if targets is not None else rows.toarray())
    assert "Plan" in plan._repr_html_()


def test_searches_and_leave_one_out_have_plans():
    search = KernelSearchCV(SVC(), {"C": [1.0, 10.0], "gamma": [0.1]}, cv=3, n_jobs=1)
    plan = mercer.plan(search, X[:600], y[:600])
    assert (plan.work, plan.n_fits, plan.n_support is not None, "6 fits" in str(plan)) == ("search", 6, True, True)
    grid = mercer.plan(GridSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=2), X[:400], y[:400])
    assert (grid.n_fits, grid.peak_bytes is not None) == (4, True)
    left = mercer.plan(SVC(), X[:600], y[:600], work="leave_one_out")
    assert (left.work, "leave-one-out" in str(left)) == ("leave_one_out", True)
    with pytest.raises(TypeError, match="leave_one_out follows"):
        mercer.plan(Ridge(), X[:600], y[:600], work="leave_one_out")
    with pytest.raises(ValueError, match="work must be one of 'fit', 'leave_one_out'"):
        mercer.plan(SVC(), X, y, work="predict")


def test_bad_parameters_and_rows_are_refused_as_by_fit():
    for machine, rows in ((SVC(C=-1.0), X), (SVC(), np.where(X > 3.0, np.nan, X))):
        errors = []
        for work in (machine.fit, lambda *data, machine=machine: mercer.plan(machine, *data)):
            with pytest.raises(ValueError, match=r"C must be|NaN") as refused:
                work(rows, y)
            errors.append(str(refused.value))
        assert errors[0] == errors[1]


def test_a_plan_says_what_fits_the_limits():
    plan = mercer.plan(SVC(max_seconds=1e-6, memory_limit=100_000), X, y)
    assert "max_seconds=1e-06 ends the fit" in plan.advice
    assert "of the 3,000 rows end in that time" in plan.advice
    assert "memory_limit=100,000 bytes is less than it needs" in plan.advice
    assert "LinearSVC takes" in plan.advice
    assert "LinearSVC" not in mercer.plan(SVC(kernel=Spectrum(3), max_seconds=1e-6), *strings()).advice


def test_a_fit_says_before_it_begins_that_it_will_not_end_in_time(monkeypatch):
    from mercer.estimators import _pilots

    monkeypatch.setattr(_pilots, "_MANY_ROWS", 2000)
    times = iter(range(10_000))
    monkeypatch.setattr(_pilots, "clock", lambda: 0.05 * next(times))  # each pilot takes 0.05 s
    with pytest.warns(UserWarning, match=r"SVC, by pilots on up to [\d,]+ rows: max_seconds=1 .*rows end in that time"):
        SVC(max_seconds=1.0, tol=1e9).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    with pytest.warns(UserWarning, match=r"SVR, by pilots.*LinearSVR takes"):
        SVR(max_seconds=1.0, tol=1e9).fit(np.tile(X, (20, 1)), np.tile(y, 20))


def test_a_plan_has_no_more_landmarks_than_are_asked_for():
    assert mercer.plan(SVC(approximation=mercer.Landmarks(n_landmarks=50)), X, y).n_support == 50


def test_one_pilot_is_taken_to_grow_with_the_rows_at_least(monkeypatch):
    from mercer.estimators import _pilots

    monkeypatch.setattr(_pilots, "_MANY_ROWS", 2000)
    times = iter(range(10_000))
    # A second pilot would exceed its share, 0.02 s.
    monkeypatch.setattr(_pilots, "clock", lambda: 0.015 * next(times))
    rows, targets = np.tile(X, (20, 1)), np.tile(y, 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SVC(max_seconds=1.0, tol=1e9).fit(rows, targets)
    (text,) = [str(one.message) for one in caught if "by pilots" in str(one.message)]
    assert "which takes about 1.9 s;" in text  # 128 times that of 468 rows; by n^1.6 it would be 35 s


@pytest.mark.parametrize("machine", [SVC(), SVC(max_seconds=0.5), SVC(max_seconds=1000.0)])
def test_ordinary_fits_have_no_pilots(machine, monkeypatch):
    from mercer.estimators import _pilots

    monkeypatch.setattr(_pilots, "forecast", lambda *_, **__: pytest.fail("a pilot"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, y)


def test_the_command_says_what_a_fit_takes(tmp_path, capsys, monkeypatch):
    from mercer.studies.cli import run

    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X[:300]).add_prefix("x").assign(word=np.where(y[:300], "yes", "no")).to_csv("t.csv", index=False)
    assert run(["plan", "t.csv", "--target", "word", "--C", "10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("SVC on 300 rows of 6 columns: ")
    assert "support vectors\nsolver: working-set SMO" in out
    assert run(["plan", "t.csv", "--machine", "one-class", "--drop", "word", "--max-seconds", "0.000001"]) == 0
    assert "advice: --max-seconds" in capsys.readouterr().out
    capsys.readouterr()
    assert run(["plan", "t.csv", "--target", "x0", "--linear"]) == 2
    assert "take --machine linear-svc, linear-svr or linear-logistic to plan" in capsys.readouterr().err
    pd.DataFrame({"x": X[:300, 0], "word": y[:300]}).to_csv("one.csv", index=False)
    assert run(["plan", "one.csv", "--target", "word"]) == 0
    assert "SVC on 300 rows of 1 column: " in capsys.readouterr().out
    assert run(["plan", "t.csv", "--target", "x0", "--memory", "1GB"]) == 2
    assert run(["plan", "t.csv", "--target", "nothing"]) != 0
