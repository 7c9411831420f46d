"""Results print as a short text, are cards in notebooks, and data frames on request."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    SVC,
    SVR,
    KernelLogisticRegression,
    KernelSearchCV,
    LinearSVC,
    OneClassSVM,
    SealedSplit,
    as_model,
    compare,
    diagnose,
    five_by_two_cv,
    leave_one_out,
    nested_cross_validate,
    plan,
    theory,
    tune_threshold,
)
from mercer.data import Result
from mercer.data.result import card
from mercer.kernels import RBF
from mercer.model_selection import Interval
from mercer.model_selection.metrics import evaluate
from mercer.model_selection.regression_metrics import Deviations
from mercer.multiclass.thresholds import ThresholdCurve
from mercer.optimisers import PlattSMO, SecondOrderSMO, kernel_svm
from mercer.optimisers import compare as compare_optimisers
from mercer.studies.models import explain, verify

X, y = load_iris(return_X_y=True)
TWO = y > 0


def results():
    """Every kind of result, by name, with the number of rows of its data frame."""
    machine, linear = SVC(probability=True).fit(X, TWO), LinearSVC().fit(X, TWO)
    model = as_model(SVC().fit(X, y), X, y)
    table = pd.DataFrame(X, columns=list("0123")).assign(y=y)
    search = KernelSearchCV(SVC(), C=[1.0, 10.0])
    sealed = SealedSplit(X, TWO)
    run = PlattSMO().minimise(kernel_svm(X, TWO), max_steps=3)
    left = leave_one_out(SVC(), X, y)
    folds = compare(SVC(C=1.0), SVC(C=100.0), X, y, cv=5)
    five = five_by_two_cv(SVC(C=1.0), SVC(C=100.0), X, y)
    return {
        "leave-one-out": (left, 150),
        "plan": (plan(SVC(), X, y), 2),
        "comparison": (folds, 1),
        "five by two": (five, 2),
        "nested": (nested_cross_validate(search, X, y, cv=3), 3),
        "sealed": (sealed.open(SVC().fit(sealed.X_rest, sealed.y_rest)), 1),
        "run": (run, len(run.trace)),
        "optimisers": (compare_optimisers(kernel_svm(X, TWO), [PlattSMO(), SecondOrderSMO()], max_steps=3), 2),
        "certificate": (machine.certificate_, 1),
        "certificates": (SVC().fit(X, y).certificate_, 3),
        "solution": (machine.solution_, None),
        "linear solution": (linear.solution_ if hasattr(linear, "solution_") else linear._solutions[0], None),
        "cases": (machine.certificate_.examples(), 150),
        "tube": (SVR().fit(X, X[:, 0]).certificate_.examples(), 150),
        "border": (OneClassSVM(nu=0.5).fit(X).certificate_.examples(), 150),
        "bound": (theory.report(machine).bounds[0], 1),
        "theory": (theory.report(machine), None),
        "diagnosis": (diagnose(RBF(gamma=1.0), X), 1),
        "calibration": (machine.calibration_, None),
        "threshold": (tune_threshold(machine.decision_function(X), TWO, f1=True), 1),
        "curve": (ThresholdCurve.of(machine.decision_function(X), TWO), None),
        "verification": (verify(model, table), None),
        "explanation": (explain(model, table.head(20)), 20),
        "model": (model, 3),
        "evaluation": (evaluate(y, y, None, ["a", "b", "c"]), 3),
        "deviations": (Deviations(X[:, 0], X[:, 1]), 150),
    }


@pytest.fixture(scope="module")
def actual():
    return results()


def test_the_text_is_short(actual):
    for name, (result, _) in actual.items():
        assert isinstance(result, Result), name
        assert repr(result) == str(result), name
        assert len(repr(result).splitlines()) <= 25, name
        assert len(repr(result)) < 3000, name


def test_a_card_for_each(actual):
    for name, (result, _) in actual.items():
        page = result._repr_html_()
        assert page.startswith("<div"), name
        assert f"<b>{type(result).__name__}</b>" in page
        assert page.count("<div") == page.count("</div>") == 1


def test_a_data_frame_for_each(actual, monkeypatch):
    for name, (result, n_rows) in actual.items():
        frame = result.to_frame()
        assert isinstance(frame, pd.DataFrame), name
        assert frame.shape[1] >= 2, name
        assert n_rows is None or len(frame) == n_rows, name


def test_cards_of_fits_say_what_is_proved(actual):
    for name in ("certificate", "solution", "model", "run"):
        page = actual[name][0]._repr_html_()
        assert "above the optimum by at most" in page, name
        assert "status" in page
        assert "seconds" in page
    assert "support vectors" in actual["certificate"][0]._repr_html_()
    assert "chosen because" in actual["solution"][0]._repr_html_()


def test_columns_hold_what_attributes_hold(actual):
    left = actual["leave-one-out"][0]
    frame = left.to_frame()
    np.testing.assert_array_equal(frame["predicted"], left.predicted)
    np.testing.assert_array_equal(frame["decision_2"], left.decision[:, 2])
    assert frame["known"].all()
    one = actual["comparison"][0]
    row = one.to_frame().iloc[0]
    assert (row["difference_value"], row["difference_low"]) == (one.difference.value, one.difference.low)
    assert actual["certificates"][0].to_frame()["gap"].tolist() == [p.gap for p in actual["certificates"][0].parts]
    cases = actual["cases"][0].to_frame()
    assert cases["category"].value_counts().sum() == 150
    np.testing.assert_array_equal(cases["alpha"], actual["cases"][0].alpha)


@pytest.mark.parametrize("machine", [SVC(), LinearSVC(), KernelLogisticRegression()], ids=repr)
def test_a_fitted_machine_has_a_card(machine):
    assert "fitted</b>" not in machine._repr_mimebundle_()["text/html"]
    machine.fit(X, TWO)
    shown = machine._repr_mimebundle_()
    assert shown["text/plain"] == repr(machine)
    for text in ("fitted</b>", "optimal", "above the optimum by at most", "seconds", "reason"):
        assert text in shown["text/html"]
    assert "fitted</b>" not in make_pipeline(StandardScaler(), machine)._repr_html_()


def test_frames_without_pandas(monkeypatch, actual):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(actual["comparison"][0].to_frame(), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        actual["comparison"][0].to_frame()


def test_texts_in_cards_are_escaped():
    page = card("a<b", {"x<y": "1<2"})
    assert "a&lt;b" in page
    assert "1&lt;2" in page
    assert "&lt;z" in card("t", "<z")


def test_small_values_keep_their_representation():
    assert repr(Interval(0.5, 0.4, 0.6)) == "Interval(value=0.5, low=0.4, high=0.6, level=0.95)"
