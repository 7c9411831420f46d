"""Every warning names the line of the user's code, whatever stands between that line and the library."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.data import TableError, as_table
from mercer.studies.ledger import LEDGER, Looks
from mercer.studies.protocol import study

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1)
SIGMOID = {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}
FOLDER = Path(__file__).parent / "libsvm_models"
ASYMMETRIC = X @ X.T + np.triu(np.full((40, 40), 1e-9))
STOP = {"callback": lambda progress: True}


def copies():
    return np.vstack([X, X]), np.hstack([Y, Y])


ESTIMATORS = {
    "SVC": lambda: mercer.SVC(**SIGMOID).fit(X, Y),
    "SVC, joint": lambda: mercer.SVC(multi_class="joint", **SIGMOID).fit(X, np.arange(40) % 3),
    "SVC, kernel": lambda: mercer.SVC(**SIGMOID).fit(X, Y),
    "SVC, constant kernel": lambda: mercer.SVC(gamma=1e-30).fit(X, Y),
    "SVC, memory": lambda: mercer.SVC(memory_limit=1).fit(X, Y),
    "SVC, calibration": lambda: mercer.SVC(probability=True, max_seconds=1e-9).fit(X, Y),
    "NuSVC": lambda: mercer.NuSVC(nu=0.2, **SIGMOID).fit(X, Y),
    "NuSVC, infeasible": lambda: mercer.NuSVC(nu=0.7, class_weight={0: 9.0}).fit(X, np.arange(40) % 3),
    "SVR": lambda: mercer.SVR(**SIGMOID).fit(X, X[:, 0]),
    "NuSVR": lambda: mercer.NuSVR(**SIGMOID).fit(X, X[:, 0]),
    "QuantileSVR": lambda: mercer.QuantileSVR(**SIGMOID).fit(X, X[:, 0]),
    "OneClassSVM": lambda: mercer.OneClassSVM(nu=0.2, **SIGMOID).fit(X),
    "OneClassSVM, no plane": lambda: mercer.OneClassSVM(kernel="linear", nu=0.5).fit(np.vstack([X, -X])),
    "SVDD": lambda: mercer.SVDD(C=0.1, **SIGMOID).fit(X),
    "KernelRidge": lambda: mercer.KernelRidge(**SIGMOID).fit(X, X[:, 0]),
    "LeastSquaresSVC": lambda: mercer.LeastSquaresSVC(**SIGMOID).fit(X, Y),
    "KernelLogisticRegression": lambda: mercer.KernelLogisticRegression(max_iter=1).fit(X, Y),
    "LogisticRegression": lambda: mercer.LogisticRegression(max_iter=1, tol=1e-12).fit(X, Y),
    "LogisticRegression, unused": lambda: mercer.LogisticRegression(penalty=None, C=2.0).fit(X, Y),
    "LinearSVC": lambda: mercer.LinearSVC(**STOP).fit(X, Y),
    "LinearSVR": lambda: mercer.LinearSVR(**STOP).fit(X, X[:, 0]),
    "PegasosSVC": lambda: mercer.PegasosSVC(alpha=1e-3, max_iter=1, random_state=0).fit(X, Y),
    "KernelPerceptron": lambda: mercer.KernelPerceptron(kernel="linear", max_passes=1).fit(X, Y),
    "GradientKernelSVC": lambda: mercer.GradientKernelSVC(max_iter=1).fit(X, Y),
    "KernelNeighborsClassifier": lambda: mercer.KernelNeighborsClassifier(kernel="precomputed").fit(ASYMMETRIC, Y),
    "KernelNeighborsRegressor": lambda: mercer.KernelNeighborsRegressor(kernel="precomputed").fit(ASYMMETRIC, Y),
    "ParzenClassifier": lambda: mercer.ParzenClassifier(kernel="precomputed").fit(ASYMMETRIC, Y),
    "Nystroem": lambda: mercer.Nystroem(n_components=8, **SIGMOID).fit(X),
}

OTHERS = {
    "fit_predict": lambda: mercer.OneClassSVM(nu=0.2, **SIGMOID).fit_predict(X),
    "ridge path": lambda: mercer.KernelRidge(kernel="rbf").path(copies()[0], np.arange(80.0), [0.0]),
    "C_path": lambda: mercer.LinearSVC(**STOP).C_path(X, Y, [1.0, 10.0]),
    "leave_one_out": lambda: mercer.leave_one_out(mercer.SVC(), *copies()),
    "KernelSearchCV": lambda: mercer.KernelSearchCV(mercer.SVC(), C=[1.0], cv=2, refit=False).fit(*copies()),
    "KernelSearchCV, refit": lambda: mercer.KernelSearchCV(mercer.SVC(), C=[1.0], cv=2, max_seconds=1e9).fit(*copies()),
    "pipeline": lambda: make_pipeline(StandardScaler(), mercer.SVC(**SIGMOID)).fit(X, Y),
    "pipeline of features": lambda: make_pipeline(mercer.Nystroem(n_components=8, **SIGMOID), mercer.LinearSVC()).fit(
        X, Y
    ),
    "grid search": lambda: GridSearchCV(mercer.SVC(**SIGMOID), {"C": [1.0]}, cv=2).fit(X, Y),
    "cross-validation": lambda: cross_val_score(mercer.SVC(**SIGMOID), X, Y, cv=2),
    "threads of joblib": lambda: OneVsRestClassifier(mercer.SVC(**SIGMOID)).fit(X, np.arange(40) % 3),
    "study": lambda: study(pd.DataFrame({"a": [2**53 + 1, 2]}), "no such column"),
    "table": lambda: as_table(pd.DataFrame({"a": [2**53 + 1, 2]})),
}


def lines_warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(TableError):
            call()
    return {(one.filename, one.lineno) for one in caught}


@pytest.mark.parametrize("call", [*ESTIMATORS.values(), *OTHERS.values()], ids=[*ESTIMATORS, *OTHERS])
def test_a_warning_names_the_line_of_the_user(call):
    assert lines_warned(call) == {(__file__, call.__code__.co_firstlineno)}


def test_a_warning_about_a_file_names_the_line_of_the_user(tmp_path):
    frame = pd.DataFrame({"n": np.arange(40), "a": X[:, 0], "y": Y})
    frame.drop(columns="n").to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / LEDGER).write_text("nothing\n")
    for call in (
        lambda: mercer.LinearSVC(**STOP).fit_file(tmp_path / "t.csv", target="y"),
        lambda: mercer.load_libsvm_model(FOLDER / "classes_with_probabilities.model"),
        lambda: mercer.fit_model(frame, "y", mercer.SVC()),
        lambda: Looks(as_table(frame), "y", source="t.csv", folder=tmp_path),
    ):
        assert lines_warned(call) == {(__file__, call.__code__.co_firstlineno)}
