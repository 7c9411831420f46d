"""Errors that a beginner meets first say what to write."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    SVC,
    SVR,
    GradientKernelSVC,
    KernelPerceptron,
    KernelRidge,
    LeastSquaresSVC,
    LinearSVC,
    LogisticRegression,
    OneClassSVM,
    PegasosSVC,
    fit_model,
)

X, y = load_iris(return_X_y=True)
NAMED = pd.DataFrame(X, columns=["sepal length", "sepal width", "petal length", "petal width"])


@pytest.mark.parametrize("kind", [SVC, KernelPerceptron, LeastSquaresSVC, GradientKernelSVC])
def test_probabilities_that_were_not_asked_for(kind):
    machine = kind().fit(X, y == 0)
    for method in ("predict_proba", "predict_log_proba"):
        assert not hasattr(machine, method)
    with pytest.raises(AttributeError, match=rf"write {kind.__name__}\(\.\.\., probability=True\) and fit again"):
        machine.predict_proba(X)
    with pytest.raises(AttributeError) as caught:
        make_pipeline(StandardScaler(), machine).fit(X, y == 0).predict_proba(X)
    assert "probability=True" in str(caught.value.__cause__)
    assert "probabilit" in kind.predict_proba.__doc__


@pytest.mark.parametrize("kind", [LinearSVC, PegasosSVC])
def test_machines_without_probabilities_name_one_with_them(kind):
    machine = kind()
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match="has no probabilities: take LogisticRegression"):
        machine.predict_proba(X)
    with pytest.raises(AttributeError, match="object has no attribute 'predict_probas'"):
        machine.predict_probas(X)
    assert repr(pickle.loads(pickle.dumps(clone(machine)))) == repr(machine)


def test_a_model_without_probabilities():
    model = fit_model(NAMED.assign(kind=y), "kind", SVC())
    with pytest.raises(AttributeError, match="train it with probability=True"):
        model.predict_proba(NAMED)
    numbers = fit_model(NAMED, "petal width", SVR())
    with pytest.raises(AttributeError, match="predicts no classes"):
        numbers.predict_proba(NAMED)
    with pytest.raises(AttributeError, match="predict gives the numbers"):
        numbers.decision_function(NAMED)


@pytest.mark.parametrize("kind", [SVC, LinearSVC, KernelRidge, LogisticRegression, OneClassSVM])
@pytest.mark.parametrize(
    "row", [X[0], X[0].tolist(), pd.Series(X[0]), tuple(X[0].tolist())], ids=lambda row: type(row).__name__
)
def test_one_row_for_many(kind, row):
    machine = kind().fit(X, y)
    with pytest.raises(ValueError, match=r"for one row of 4 features write np\.reshape\(X, \(1, -1\)\)") as caught:
        machine.predict(row)
    assert len(str(caught.value)) < 300


def test_one_column_for_a_table():
    with pytest.raises(ValueError, match=r"got 150 numbers.*for one column np\.reshape\(X, \(-1, 1\)\)"):
        SVC().fit(X[:, 0], y)
    with pytest.raises(ValueError, match=r"for one column X\.to_frame\(\) or frame\[\[\"petal width\"\]\]"):
        SVC().fit(NAMED["petal width"], y)
    SVC().fit(NAMED[["petal width"]], y)


@pytest.mark.parametrize("machine", [SVC(), LinearSVC()], ids=repr)
@pytest.mark.parametrize("as_frame", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_missing_column_is_suggested(machine, as_frame):
    machine.fit(as_frame(NAMED), y)
    with pytest.raises(ValueError, match="feature names should match") as caught:
        machine.predict(as_frame(NAMED.rename(columns={"petal width": "petal_width", "sepal width": "other"})))
    assert caught.value.__notes__[0].startswith("Did you mean 'petal_width'")
    assert "for 'petal width'" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="same order") as caught:
        machine.predict(as_frame(NAMED[NAMED.columns[::-1]]))
    assert "X[machine.feature_names_in_]" in caught.value.__notes__[0]
    assert np.array_equal(
        machine.predict(as_frame(NAMED)[list(machine.feature_names_in_)]), machine.predict(as_frame(NAMED))
    )
