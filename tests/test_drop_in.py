"""Programs written for scikit-learn's machines run with mercer's: same code, same attributes and results."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.kernel_ridge
import sklearn.svm
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import SVC, SVR, NuSVC, OneClassSVM

PAIRS = {
    name: (getattr(sklearn.svm, name), getattr(mercer, name))
    for name in sklearn.svm.__all__
    if hasattr(mercer, name) and not name.startswith("Linear")  # tests/test_linear_svc.py has those without a kernel
}
PAIRS["KernelRidge"] = (sklearn.kernel_ridge.KernelRidge, mercer.KernelRidge)
CLASSIFIERS, REGRESSORS = ("SVC", "NuSVC"), ("SVR", "NuSVR", "KernelRidge")
PROPER = ("SVC", "SVR", "NuSVR", "OneClassSVM", "KernelRidge")  # with the default nu, linear classes have no margin
DUALS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")

# The page docs/concepts/drop_in.md lists what scikit-learn has and mercer has not, with reasons.
DEPRECATED = {"probA_", "probB_"}
METHODS = ("predict", "decision_function", "score_samples")


def table(n=60, seed=0):
    """Rows of three overlapping classes, and targets."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % 3
    X = rng.normal(size=(n, 4)) + np.eye(3, 4)[classes]
    return X, classes, X[:, 0] + 0.3 * rng.normal(size=n)


X, CLASSES, TARGETS = table()
NEW = table(20, seed=1)[0]


def sparse(kind):
    """Rows with zeros, in a container of SciPy."""
    return lambda rows: kind(np.where(np.abs(rows) < 0.5, 0.0, rows))


def gaussian(A, B):
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    return np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=-1))


@dataclass(frozen=True)
class Program:
    """A fit and the following calls: parameters, changes of rows and targets, weights, and permitted differences."""

    name: str
    parameters: dict = field(default_factory=dict)
    rows: Callable = lambda rows: rows
    labels: Callable = lambda y: y
    weights: object = None
    machines: tuple = tuple(PAIRS)
    differs: tuple = ()
    config: dict = field(default_factory=dict)


WEIGHTS = 1.0 + np.arange(60) % 4
PROGRAMS = [
    Program("dense"),
    Program("lists", rows=lambda rows: rows.tolist(), labels=lambda y: y.tolist()),
    Program("integers", rows=lambda rows: np.round(3 * rows).astype(int), differs=("X_fit_",)),
    Program("columns first", rows=np.asfortranarray),
    Program("strides", rows=lambda rows: np.repeat(rows, 2, axis=1)[:, ::2]),
    Program("dataframe", rows=lambda rows: pd.DataFrame(rows, columns=list("abcd")), labels=pd.Series),
    Program("CSR matrix", rows=sparse(sp.csr_matrix)),
    Program("CSR array", rows=sparse(sp.csr_array)),
    Program("CSR array, as arrays", rows=sparse(sp.csr_array), config={"sparse_interface": "sparray"}),
    Program("CSC matrix", rows=sparse(sp.csc_matrix), machines=DUALS),
    Program("COO array", rows=sparse(sp.coo_array)),
    Program("linear", {"kernel": "linear"}, lambda rows: rows + 3.0, machines=PROPER),
    Program("linear, CSR matrix", {"kernel": "linear"}, sparse(sp.csr_matrix), machines=("SVC", "SVR", "KernelRidge")),
    Program("linear, nu", {"kernel": "linear", "nu": 0.72}, machines=("NuSVC",)),
    Program("polynomial", {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5}, machines=PROPER),
    Program("gamma=auto", {"gamma": "auto"}, machines=DUALS),
    Program("gamma", {"kernel": "rbf", "gamma": 0.3}),
    Program("precomputed", {"kernel": "precomputed"}, lambda rows: gaussian(rows, X)),
    Program("precomputed, dataframe", {"kernel": "precomputed"}, lambda rows: pd.DataFrame(gaussian(rows, X))),
    Program("function", {"kernel": gaussian}, machines=DUALS, differs=("support_vectors_", "n_features_in_")),
    Program("weights", {"gamma": 0.3}, weights=WEIGHTS),
    Program("weights in a list", {"gamma": 0.3}, weights=WEIGHTS.tolist()),
    Program(
        "weights of zero",
        {"gamma": 0.3, "kernel": "rbf"},
        weights=WEIGHTS - 1.0,
        differs=("support_", "n_support_"),
        machines=DUALS,
    ),
    Program("class weights", {"class_weight": {0: 2.0, 1: 0.5}}, machines=("SVC",)),
    Program("class weights, one of no class", {"class_weight": {0: 2.0, 1: 0.5, 2: 1.0, 7: 3.0}}, machines=("SVC",)),
    Program("balanced", {"class_weight": "balanced"}, labels=lambda y: np.minimum(y, 1), machines=("SVC",)),
    Program("pairs", {"decision_function_shape": "ovo"}, machines=CLASSIFIERS),
    Program("ties broken", {"break_ties": True}, machines=CLASSIFIERS),
    Program("two classes", {"nu": 0.3}, labels=lambda y: np.minimum(y, 1), machines=("NuSVC",)),
    Program("two classes, pairs", {"decision_function_shape": "ovo"}, labels=lambda y: y < 1, machines=("SVC",)),
    Program(
        "two classes, CSR matrix",
        {"kernel": "linear"},
        sparse(sp.csr_matrix),
        labels=lambda y: np.minimum(y, 1),
        machines=("SVC",),
    ),
    Program("labels of text", labels=lambda y: np.array(["b", "c", "a"])[y], machines=CLASSIFIERS),
    Program("labels of objects", labels=lambda y: np.array(["b", "c", "a"], dtype=object)[y], machines=CLASSIFIERS),
    Program("labels of floats", labels=lambda y: 2.0 * y - 1.0, machines=CLASSIFIERS),
    Program("a column of labels", labels=lambda y: y[:, None], machines=("SVC", "NuSVC", "SVR", "NuSVR")),
    Program("no effect", {"shrinking": False, "cache_size": 1.5}, machines=DUALS),
    Program("random state", {"random_state": np.random.RandomState(0)}, machines=CLASSIFIERS),
    Program("strong penalty", {"C": 50.0, "kernel": "rbf", "gamma": 0.1}, machines=("SVC", "SVR", "NuSVR")),
    Program("tube", {"epsilon": 0.5}, machines=("SVR",)),
    Program("no tube", {"epsilon": 0}, machines=("SVR",)),
    Program("nu", {"nu": 0.2}, machines=("NuSVC", "NuSVR", "OneClassSVM")),
    Program("one target column", labels=lambda y: y[:, None], machines=("KernelRidge",)),
    Program("several targets", labels=lambda y: np.column_stack([y, -y]), machines=("KernelRidge",)),
    Program(
        "penalty for each target",
        {"alpha": [0.5, 2.0]},
        labels=lambda y: np.column_stack([y, -y]),
        machines=("KernelRidge",),
    ),
    Program("Laplacian", {"kernel": "laplacian", "gamma": 0.3}, machines=("KernelRidge",)),
    Program("chi-squared", {"kernel": "chi2", "gamma": 0.5}, np.abs, machines=("KernelRidge",)),
    Program("cosine", {"kernel": "cosine"}, machines=("KernelRidge",)),
    Program("weight of all", {"kernel": "rbf"}, weights=2.0, machines=("KernelRidge",)),
    Program("no penalty", {"kernel": "rbf", "alpha": 0}, machines=("KernelRidge",)),
]
CASES = [pytest.param(name, program, id=f"{name}, {program.name}") for program in PROGRAMS for name in program.machines]


def seen(machine_class, name, program):
    """All public attributes of a fitted machine, and the categories of the warnings."""
    y = program.labels(CLASSES if name in CLASSIFIERS else TARGETS)
    tight = {} if name == "KernelRidge" else {"tol": 1e-7}
    with config_context(**program.config), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = machine_class(**tight, **program.parameters)
        rows = program.rows(X)
        assert (
            machine.fit(rows, y, **({} if program.weights is None else {"sample_weight": program.weights})) is machine
        )
        new = program.rows(NEW)
        attributes = {}
        for attribute in dir(machine):
            if attribute.endswith("_") and not attribute.startswith("_") and attribute not in DEPRECATED:
                try:
                    attributes[attribute] = getattr(machine, attribute)
                except Exception as error:
                    attributes[attribute] = error
        for method in METHODS:
            if hasattr(machine, method):
                attributes[method] = getattr(machine, method)(new)
        if name in CLASSIFIERS:  # mercer resolves tied votes by confidence, like scikit-learn with break_ties=True
            machine.set_params(break_ties=True, decision_function_shape="ovr")
            attributes["untied"] = np.flatnonzero(machine.predict(new) == attributes["predict"])
        if name != "OneClassSVM":
            attributes["score"] = machine.score(rows, y)
    return attributes, {warning.category for warning in caught}


def check_alike(name, ours, theirs, *, values=True):
    """Check that type, shape, dtype and flags are the same, and values up to the tolerance of the solvers."""
    if isinstance(theirs, Exception):
        check_caught_by_the_same(ours, theirs)
        return
    assert type(ours) is type(theirs), name
    if isinstance(theirs, tuple):
        assert ours == theirs, name
        return
    if sp.issparse(theirs):
        assert ours.nnz == theirs.nnz, name
        assert ours.data.flags.writeable == theirs.data.flags.writeable, name
        ours, theirs = ours.toarray(), theirs.toarray()
    if isinstance(theirs, np.ndarray):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
        assert ours.flags.writeable == theirs.flags.writeable or sp.issparse(ours), name
        if theirs.dtype.kind not in "fiu":
            np.testing.assert_array_equal(ours, theirs)
            return
    if values:
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4, err_msg=name)


def check_caught_by_the_same(ours, theirs):
    """Check that the errors are subclasses of scikit-learn's."""
    assert isinstance(ours, Exception), f"scikit-learn raises {theirs!r}"
    caught = [kind for kind in type(theirs).__mro__ if kind not in (object, BaseException)]
    missing = [kind.__name__ for kind in caught if not isinstance(ours, kind)]
    assert not missing, f"{ours!r} is no {missing}, as {theirs!r} is"


@pytest.mark.parametrize(("name", "program"), CASES)
def test_the_same_program_sees_the_same_things(name, program):
    (theirs, their_warnings), (ours, our_warnings) = (seen(pair, name, program) for pair in PAIRS[name])
    assert our_warnings == their_warnings
    if name in CLASSIFIERS:
        untied = theirs.pop("untied")
        assert ours["untied"].size == len(NEW)
        assert untied.size >= len(NEW) - 3
        theirs["predict"], ours["predict"] = theirs["predict"][untied], ours["predict"][untied]
    for attribute, expected in theirs.items():
        if attribute in program.differs:
            continue
        assert attribute in ours, attribute
        check_alike(attribute, ours[attribute], expected, values=attribute != "n_iter_")


@pytest.mark.parametrize("name", PAIRS)
def test_signatures_are_the_same_and_more_at_the_end(name):
    theirs, ours = PAIRS[name]
    for method in ("__init__", "fit", *METHODS, "fit_predict", "score", "get_params", "set_params"):
        if not hasattr(theirs, method):
            assert not hasattr(ours, method), method
            continue
        expected, actual = (inspect.signature(getattr(cls, method)).parameters for cls in (theirs, ours))
        assert list(actual)[: len(expected)] == list(expected), method
        for parameter, described in expected.items():
            default = False if parameter == "probability" else described.default
            assert (actual[parameter].default, actual[parameter].kind) == (default, described.kind), parameter
            assert type(actual[parameter].default) is type(default), parameter
        extra = list(actual.values())[len(expected) :]
        assert all(parameter.default is not inspect.Parameter.empty for parameter in extra)


@pytest.mark.parametrize("name", PAIRS)
def test_tags_are_the_same(name):
    theirs, ours = (cls().__sklearn_tags__() for cls in PAIRS[name])
    theirs.input_tags.sparse = True  # scikit-learn 1.6.0 says False of all these machines, though they take sparse rows
    assert ours == theirs
    theirs, ours = (cls(kernel="precomputed").__sklearn_tags__() for cls in PAIRS[name])
    assert ours.input_tags.pairwise
    assert theirs.input_tags.pairwise


@pytest.mark.parametrize("name", PAIRS)
def test_parameters_of_scikit_learns_machines_are_accepted(name):
    theirs, ours = PAIRS[name]
    machine = ours(**theirs().get_params())
    y = CLASSES if name in CLASSIFIERS else TARGETS
    np.testing.assert_array_equal(clone(machine).fit(X, y).predict(NEW), ours().fit(X, y).predict(NEW))


def test_all_early_ends_cause_the_same_warning():
    for name in DUALS:
        statuses = []
        for cls in PAIRS[name]:
            with pytest.warns(ConvergenceWarning):
                machine = cls(max_iter=1, gamma=0.3).fit(X, CLASSES)
            statuses.append((machine.fit_status_, type(machine.fit_status_), np.max(machine.n_iter_) <= 1))
        assert statuses[0] == statuses[1]


# Invalid input.


def with_nan(values):
    changed = np.array(values, dtype=float)
    changed.flat[1] = np.nan
    return changed


WRONG_PARAMETERS = {
    "C": [0.0, -1.0, "1", None],
    "nu": [0.0, -0.1, 1.5, "half"],
    "epsilon": [-0.1, "wide"],
    "kernel": ["fourier", 3, None],
    "degree": [-1, "two"],
    "gamma": ["wide", -1.0, [1.0]],
    "coef0": ["zero", np.inf, None],
    "tol": [0.0, -1.0, np.inf, "tight", None],
    "shrinking": ["yes", 2, None],
    "cache_size": [0, -1.0, "large", None],
    "class_weight": ["even", [1.0, 2.0], 3],
    "verbose": [-1, "loud", 1.5],
    "max_iter": [-2, 1.5, None],
    "decision_function_shape": ["all", None, 1],
    "break_ties": ["no", 2, None],
    "random_state": ["seed", -1, 1.5],
    "probability": ["perhaps", 2, None],
    "alpha": [-1.0, "strong", None],
    "kernel_params": [3],
}
DATES = pd.Series(pd.date_range("2020-01-01", periods=60))
WRONG = {
    "unknown parameter": lambda new, y: new(penalty=1),
    "positional parameter": lambda new, y: new(1.0, "rbf").fit(X, y),
    "unfitted predict": lambda new, y: new().predict(X),
    "unfitted scores": lambda new, y: new().decision_function(X),
    "unfitted support": lambda new, y: new().support_,
    "unfitted coefficients": lambda new, y: new(kernel="linear").coef_,
    "unfitted number of support vectors": lambda new, y: new().n_support_,
    "coefficients of a Gaussian": lambda new, y: new(kernel="rbf").fit(X, y).coef_,
    "coefficients that are set": lambda new, y: setattr(new(kernel="linear").fit(X, y), "coef_", X),
    "coefficients that are changed": lambda new, y: new(kernel="linear").fit(X, y).coef_.__setitem__(0, 1.0),
    "probabilities": lambda new, y: new().fit(X, y).predict_proba(X),
    "NaN": lambda new, y: new().fit(with_nan(X), y),
    "NaN, sparse": lambda new, y: new().fit(sp.csr_array(with_nan(X)), y),
    "infinity": lambda new, y: new().fit(with_nan(X) * np.inf, y),
    "text": lambda new, y: new().fit(np.full((60, 2), "a"), y),
    "objects": lambda new, y: new().fit(np.full((60, 2), {}), y),
    "complex": lambda new, y: new().fit(X * 1j, y),
    "one dimension": lambda new, y: new().fit(X[:, 0], y),
    "three dimensions": lambda new, y: new().fit(X[None], y),
    "no rows": lambda new, y: new().fit(X[:0], y[:0]),
    "no columns": lambda new, y: new().fit(X[:, :0], y),
    "targets of other length": lambda new, y: new().fit(X, y[:-1]),
    "targets with NaN": lambda new, y: new().fit(X, with_nan(y)),
    "targets with infinity": lambda new, y: new().fit(X, np.where(np.isnan(with_nan(y)), np.inf, y)),
    "two columns of targets": lambda new, y: new().fit(X, np.column_stack([y, y])),
    "no targets": lambda new, y: new().fit(X, None),
    "targets of text": lambda new, y: new().fit(X, np.full(60, "a")),
    "targets of dates": lambda new, y: new().fit(X, DATES),
    "one class": lambda new, y: new().fit(X, np.zeros(60, dtype=int)),
    "continuous labels": lambda new, y: new().fit(X, X[:, 0]),
    "an infeasible nu": lambda new, y: new(nu=0.9).fit(X, CLASSES < 1),
    "a weight of an unknown class": lambda new, y: new(class_weight={"z": 2.0}).fit(X, y),
    "weights of other length": lambda new, y: new().fit(X, y, sample_weight=np.ones(3)),
    "a table of weights": lambda new, y: new().fit(X, y, sample_weight=np.ones((60, 2))),
    "weights of text": lambda new, y: new().fit(X, y, sample_weight=["a"] * 60),
    "no weight at all": lambda new, y: new().fit(X, y, sample_weight=np.zeros(60)),
    "weight in one class only": lambda new, y: new().fit(X, y, sample_weight=(CLASSES == 1).astype(float)),
    "other columns": lambda new, y: new().fit(X, y).predict(X[:, :2]),
    "other columns in scores": lambda new, y: new().fit(X, y).decision_function(X[:, :2]),
    "other columns, sparse": lambda new, y: new().fit(sp.csr_array(X), y).predict(sp.csr_array(X[:, :2])),
    "new rows with NaN": lambda new, y: new().fit(X, y).predict(with_nan(X)),
    "a new row in one dimension": lambda new, y: new().fit(X, y).predict(X[0]),
    "other names of columns": lambda new, y: (
        new().fit(pd.DataFrame(X, columns=list("abcd")), y).predict(pd.DataFrame(X, columns=list("abce")))
    ),
    "given values that are not square": lambda new, y: new(kernel="precomputed").fit(X, y),
    "given values against other rows": lambda new, y: new(kernel="precomputed").fit(X @ X.T, y).predict(X),
    "a parameter that is none": lambda new, y: new().set_params(size=3),
}
# Mercer refuses these on purpose, see below.
REFUSED_HERE = {("targets of dates", "SVR"), ("targets of dates", "NuSVR")}
ERRORS = [
    pytest.param(name, lambda new, y, given=given: new(**given).fit(X, y), id=f"{name}, {given}")
    for parameter, wrong in WRONG_PARAMETERS.items()
    for name, (theirs, _) in PAIRS.items()
    if parameter in inspect.signature(theirs).parameters
    for given in ({parameter: value} for value in wrong)
] + [
    pytest.param(name, run, id=f"{name}, {what}")
    for what, run in WRONG.items()
    for name in PAIRS
    if (what, name) not in REFUSED_HERE
]


def prediction_kind(run, machine_class, name):
    """The error that it raises, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run(machine_class, CLASSES if name in CLASSIFIERS else TARGETS)
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize(("name", "run"), ERRORS)
def test_errors_are_those_of_scikit_learn(name, run):
    theirs, ours = (prediction_kind(run, cls, name) for cls in PAIRS[name])
    if theirs is None:
        assert ours is None
    else:
        check_caught_by_the_same(ours, theirs)


# Deliberate differences, in the order of docs/concepts/drop_in.md.


def labels_of_ties():
    """Rows, labels and one row on which each of three classes wins one vote."""
    machine = sklearn.svm.SVC(decision_function_shape="ovo").fit(X, CLASSES)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, 4))
    f = machine.decision_function(rows)
    circle = ((f[:, 0] > 0) & (f[:, 2] > 0) & (f[:, 1] < 0)) | ((f[:, 0] < 0) & (f[:, 2] < 0) & (f[:, 1] > 0))
    return rows[circle]


def test_tied_votes_go_by_confidence_whatever_break_ties_says():
    tied = labels_of_ties()
    assert len(tied) >= 3
    confident = sklearn.svm.SVC(break_ties=True).fit(X, CLASSES).predict(tied)
    assert (sklearn.svm.SVC().fit(X, CLASSES).predict(tied) != confident).any()
    for given in ({}, {"break_ties": True}, {"break_ties": True, "decision_function_shape": "ovo"}):
        np.testing.assert_array_equal(SVC(**given).fit(X, CLASSES).predict(tied), confident)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("weight", [-1.0, np.inf, np.nan])
def test_negative_and_infinite_weights_are_an_error(name, weight):
    y = CLASSES if name in CLASSIFIERS else TARGETS
    with pytest.raises(ValueError, match=rf"sample_weight must hold finite numbers >= 0 .* got {weight} in row 3"):
        PAIRS[name][1]().fit(X, y, sample_weight=np.where(np.arange(60) == 3, weight, 1.0))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("weight", [-1.0, np.inf, None])
def test_class_weights_are_finite_and_not_negative(name, weight):
    with pytest.raises(ValueError, match=r"class_weight\[0\] must be a (finite )?number >= 0"):
        PAIRS[name][1](class_weight={0: weight}).fit(X, CLASSES)


NUMBERS = ("C", "nu", "epsilon", "alpha", "degree", "gamma", "coef0", "tol", "cache_size", "max_iter")


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, one) for name, pair in PAIRS.items() for one in NUMBERS if one in inspect.signature(pair[1]).parameters],
)
def test_booleans_are_refused_as_numbers(name, parameter):
    with pytest.raises(ValueError, match=rf"{parameter} must be an? (finite )?(number|integer).*got True"):
        PAIRS[name][1](kernel="poly").set_params(**{parameter: True}).fit(X, CLASSES)


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("change", [None, "differences", "a gap"])
def test_dates_are_refused_as_targets(name, change):
    """scikit-learn's SVR and NuSVR read a date as a number of microseconds, and a missing date as -9.2e18."""
    dates = DATES - DATES[0] if change == "differences" else DATES.where(DATES.index != 3) if change else DATES
    for y in (dates, dates.to_numpy()):
        with pytest.raises(TypeError, match=r"y must hold numbers, got dates or times \((datetime|timedelta)64"):
            PAIRS[name][1]().fit(X, y)


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (DATES.dt.tz_localize("UTC"), "Timestamp"),
        (DATES.dt.tz_localize("UTC").where(DATES.index != 0), "Timestamp"),
        (DATES.dt.to_period("D"), "Period"),
        (DATES.dt.date, "date"),
        (pd.Series(list(DATES - DATES[0]), dtype=object), "Timedelta"),
        (pd.Series([np.timedelta64(k, "ns") for k in range(60)], dtype=object), "timedelta64"),
        ([*range(59), time(12)], "time"),
    ],
    ids=["of a time zone", "a gap", "periods", "days", "differences", "of NumPy", "one among numbers"],
)
def test_dates_as_python_objects_are_refused_as_targets(name, y, kind):
    with pytest.raises(TypeError, match=rf"y must hold numbers, got dates or times \({kind}\)"):
        PAIRS[name][1]().fit(X, y)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_missing_number_is_not_reported_as_a_date(name):
    with pytest.raises(ValueError, match=r"Input y contains NaN: .* row 3 "):
        PAIRS[name][1]().fit(X, pd.Series(X[:, 0], dtype=object).where(DATES.index != 3, pd.NaT))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_missing_date_is_refused_as_a_class(name):
    months = DATES.dt.to_period("M").dt.to_timestamp()
    assert PAIRS[name][1]().fit(X, months).classes_.size == 2
    with pytest.raises(ValueError, match="Input y contains NaT: it must be known in every row, but row 3 "):
        PAIRS[name][1]().fit(X, months.where(months.index != 3))


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_probabilities_are_not_deprecated(name):
    theirs, ours = PAIRS[name]
    assert not hasattr(ours().fit(X, CLASSES), "predict_proba")
    assert not hasattr(ours(probability="deprecated").fit(X, CLASSES), "predict_log_proba")
    probabilities = ours(probability=True).fit(X, CLASSES).predict_proba(X)
    deprecated = theirs().probability == "deprecated"  # older versions of scikit-learn do not warn
    with pytest.warns(FutureWarning, match="probability") if deprecated else nullcontext():
        expected = theirs(probability=True, random_state=0).fit(X, CLASSES).predict_proba(X)
    assert (probabilities.shape, probabilities.dtype) == (expected.shape, expected.dtype)
    assert np.abs(probabilities - expected).mean() < 0.1


def test_weights_are_never_ignored():
    y = np.minimum(CLASSES, 1)
    # NuSVC uses class weights; scikit-learn ignores them.
    weighted = NuSVC(nu=0.3, class_weight={0: 1.5}).fit(X, y).decision_function(NEW)
    even = sklearn.svm.NuSVC(nu=0.3).fit(X, y).decision_function(NEW)
    ignored = sklearn.svm.NuSVC(nu=0.3, class_weight={0: 1.5}).fit(X, y).decision_function(NEW)
    np.testing.assert_array_equal(ignored, even)
    assert np.abs(weighted - even).max() > 0.05
    # Sample weights change class_weight="balanced" and gamma="scale".
    weights = 1 + CLASSES
    rows = np.repeat(np.arange(60), weights)
    machine = SVC(class_weight="balanced", tol=1e-7).fit(X, y, sample_weight=weights)
    copies = SVC(class_weight="balanced", tol=1e-7).fit(X[rows], y[rows])
    np.testing.assert_allclose(machine.class_weight_, copies.class_weight_)
    assert machine.kernel_.gamma == pytest.approx(copies.kernel_.gamma)
    np.testing.assert_allclose(machine.decision_function(NEW), copies.decision_function(NEW), atol=1e-5)
    theirs = sklearn.svm.SVC(class_weight="balanced").fit(X, y, sample_weight=weights)
    assert np.abs(theirs.class_weight_ - machine.class_weight_).max() > 1e-3


def test_fits_end():
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine = SVC(max_seconds=0.0, C=1e8).fit(X, CLASSES)
    assert machine.fit_status_ == 1
    assert machine.predict(NEW).shape == (20,)
    with pytest.raises(mercer.InseparableError):
        SVC(C=np.inf, kernel="linear").fit(X, CLASSES)
    with pytest.raises(ValueError, match="C must be a finite number > 0, got inf"):
        SVR(C=np.inf).fit(X, TARGETS)


def test_support_numbers_the_rows_that_were_passed():
    machine = SVC(gamma=0.3).fit(X, CLASSES, sample_weight=WEIGHTS - 1.0)
    assert (WEIGHTS[machine.support_] > 1.0).all()
    np.testing.assert_array_equal(machine.support_vectors_, X[machine.support_])


def test_more_kinds_of_rows_are_taken():
    dense, stored = SVC().fit(X, CLASSES), SVC().fit(sp.csr_array(X), CLASSES)
    np.testing.assert_array_equal(dense.predict(sp.csr_array(NEW)), stored.predict(NEW))
    with pytest.raises(ValueError, match="cannot use sparse input"):
        sklearn.svm.SVC().fit(X, CLASSES).predict(sp.csr_array(NEW))
    K = gaussian(X, X)
    given = SVC(kernel="precomputed").fit(sp.csr_array(K), CLASSES)
    np.testing.assert_array_equal(given.predict(K), SVC(kernel="precomputed").fit(K, CLASSES).predict(K))
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(SVC().fit(wide, CLASSES).predict(NEW), stored.predict(NEW))
    assert SVC().fit(X.astype(np.float32), CLASSES).support_vectors_.dtype == np.float32


def test_functions_see_blocks_of_rows():
    frames = []

    def kernel(A, B):
        frames.append((type(A), type(B)))
        return gaussian(A, B)

    machine = SVC(kernel=kernel).fit(pd.DataFrame(X), CLASSES)
    assert set(frames) == {(np.ndarray, np.ndarray)}
    assert machine.support_vectors_.shape == (machine.support_.size, 4)
    assert machine.n_features_in_ == 4


def test_matrices_that_are_no_kernels_are_errors():
    with pytest.warns(mercer.IndefiniteKernelWarning):
        SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, CLASSES)
    with pytest.raises(ValueError, match="must be symmetric"):
        SVC(kernel="precomputed").fit(np.tril(gaussian(X, X)), CLASSES)


def test_classes_without_a_margin_cause_a_warning():
    with pytest.warns(ConvergenceWarning, match="margin rho"):
        NuSVC(nu=0.2, kernel="linear").fit(X, CLASSES)


def test_rows_on_the_border_are_inside():
    machine = OneClassSVM(nu=0.3).fit(X)
    assert (machine.predict(X) == -1).mean() <= 0.3
    theirs = sklearn.svm.OneClassSVM(nu=0.3).fit(X)
    assert abs(theirs.offset_[0] - machine.offset_[0]) <= 3e-3


def test_messages_go_to_stderr(capfd):
    SVC(verbose=True).fit(X, CLASSES)
    out, err = capfd.readouterr()
    assert not out
    assert err


def test_ridge_stores_training_rows_as_float64_or_csr():
    machine = mercer.KernelRidge().fit(np.round(X).astype(int), TARGETS)
    assert machine.X_fit_.dtype == np.float64
    assert mercer.KernelRidge().fit(sp.csc_array(X), TARGETS).X_fit_.format == "csr"
    with pytest.raises(ValueError, match="degree must be an integer"):
        mercer.KernelRidge(kernel="poly", degree=2.5).fit(X, TARGETS)
