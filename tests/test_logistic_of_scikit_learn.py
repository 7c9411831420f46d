"""Tests of scikit-learn about its LogisticRegression, run with mercer's class in its place."""

import inspect
import itertools

import pytest
import sklearn.linear_model
from sklearn.linear_model.tests import test_logistic as theirs

from mercer import LogisticRegression

NAMED = {
    "test_check_solver_option": "solvers do not restrict penalties and classes",
    "test_liblinear_multiclass_raises": "solvers do not restrict penalties and classes",
    "test_elasticnet_l1_ratio_err_helpful": "l1_ratio=None is 0",
    "test_l1_ratio_None_deprecated": "l1_ratio=None is 0, without a warning",
    "test_lr_penalty_l1ratio_incompatible": 'penalty="l1" needs no l1_ratio',
    "test_penalty_deprecated": "penalty is not deprecated",
    "test_logisticregression_warns_with_n_jobs": "n_jobs has an effect",
    "test_dtype_match": "coef_ is float64",
    "test_large_sparse_matrix": "64-bit indices are used as they are",
    "test_liblinear_with_large_values": "columns of huge values are solved",
    "test_liblinear_dual_random_state": "random_state has no effect",
    "test_newton_cholesky_fallback_to_lbfgs": "solver has no effect",
    "test_max_iter": "the messages name no solver, and Newton's method needs few steps",
    "test_consistency_path": "tol is a duality gap",
    "test_logreg_predict_proba_multinomial": "uses a private method",
    "test_nan": "the message names the row and the column",
}
"""Tests of scikit-learn that do not pass, and why (docs/concepts/drop_in.md)."""

OTHER = (
    "cv",
    "CV",
    "scor",
    "array_api",
    "callback",
    "SGD",
    "sgd",
)  # other classes, and interfaces that mercer does not have
PARAMETERS = type(pytest.param(0))
FEW = 2  # cases of a test that are run; the others have another `solver`, which has no effect


def cases():
    listed = []
    for name, test in inspect.getmembers(theirs, inspect.isfunction):
        if not name.startswith("test_") or name in NAMED or any(word in name for word in OTHER):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        given = [
            [(mark.args[0], one.values if isinstance(one, PARAMETERS) else (one,)) for one in mark.args[1]]
            for mark in marks
        ]
        every = list(itertools.product(*given))
        for number in sorted({0, len(every) - 1} if len(every) > FEW else range(len(every))):
            listed.append(pytest.param(test, every[number], id=f"{name}-{number}"))
    return listed


@pytest.mark.parametrize(("test", "given"), cases())
@pytest.mark.filterwarnings("ignore")
def test_the_tests_of_scikit_learn_pass(test, given, monkeypatch):
    monkeypatch.setattr(sklearn.linear_model, "LogisticRegression", LogisticRegression)
    monkeypatch.setattr(theirs, "LogisticRegression", LogisticRegression)
    about = {"global_random_seed": 42}
    for names, values in given:
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        values = values[0] if len(values) == 1 and len(listed) > 1 else values
        about |= dict(zip(listed, values, strict=True))
    about = {
        name: LogisticRegression if value is sklearn.linear_model._logistic.LogisticRegression else value
        for name, value in about.items()
    }
    asked = inspect.signature(test).parameters
    test(**{name: value for name, value in about.items() if name in asked})
