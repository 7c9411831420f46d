"""Linear machines: the optimum of scikit-learn's problems, every input, the certificate, and what differs."""

from __future__ import annotations

import inspect
import itertools
import pickle
import re
import tracemalloc
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
import sklearn.svm
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm.tests import test_sparse as theirs_sparse
from sklearn.svm.tests import test_svm as theirs

from mercer import (
    SVC,
    SVR,
    KernelLogisticRegression,
    KernelSearchCV,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    PegasosSVC,
    Status,
    as_model,
    leave_one_out,
    load_model,
    save_model,
)
from mercer.estimators._linear_rows import copy_bytes, read_linear_table
from mercer.studies.models.verification import verify


def table(n=60, p=5, n_classes=2, seed=0):
    """Rows with zeros in columns of different scale, overlapping classes, and targets."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, p)) + 0.7 * np.eye(n_classes, p)[y]
    X[np.abs(X) < 0.3] = 0.0
    return X * np.array([1.0, 3.0, 0.2, 1.0, 10.0])[:p], y, X[:, 0] - 2.0 * X[:, 1] + 0.5 * rng.normal(size=n) + 1.0


X, Y, TARGETS = table()
X3, Y3, _ = table(n_classes=3, seed=1)
X3 /= np.array([1.0, 3.0, 0.2, 1.0, 10.0])  # columns of the same scale, for LIBLINEAR
WEIGHTS = 1.0 + np.arange(60) % 3
NEW = table(20, seed=2)[0]


def objective(machine, rows, y, weights=1.0):
    """The objective of a fitted machine for two classes (y = -1, +1) or of a regression, from coef_ and intercept_."""
    w, bias = np.ravel(machine.coef_), float(np.ravel(machine.intercept_)[0])
    f = rows @ w + bias
    if isinstance(machine, (LinearSVC, sklearn.svm.LinearSVC)):
        loss = np.maximum(0.0, 1.0 - y * f)
    else:
        loss = np.maximum(0.0, np.abs(y - f) - machine.epsilon)
    is_squared = machine.loss.startswith("squared")
    w = np.append(w, bias / machine.intercept_scaling)  # the weight of the column of the bias
    size = np.abs(w).sum() if getattr(machine, "penalty", "l2") == "l1" else 0.5 * (w @ w)
    return size + machine.C * np.sum(weights * (loss**2 if is_squared else loss))


CLASSIFIERS = [
    {"penalty": penalty, "loss": loss, **bias}
    for penalty, loss in [("l2", "hinge"), ("l2", "squared_hinge"), ("l1", "squared_hinge")]
    for bias in ({}, {"fit_intercept": False}, {"intercept_scaling": 7.0})
]
REGRESSORS = [
    {"loss": loss, "epsilon": epsilon, **bias}
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive")
    for epsilon, bias in ((0.0, {}), (0.3, {"fit_intercept": False}), (0.3, {"intercept_scaling": 7.0}))
]


def with_theirs(ours):
    """scikit-learn's machine with the same parameters, tight, by a solver that it has for them."""
    kind = getattr(sklearn.svm, type(ours).__name__)
    names = inspect.signature(kind).parameters
    given = {name: value for name, value in ours.get_params().items() if name in names}
    dual = getattr(ours, "penalty", "l2") == "l2" and not ours.loss.startswith("squared")
    return kind(**(given | {"tol": 1e-8, "max_iter": 20_000, "dual": dual, "random_state": 0}))


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # the reference, at large C
@pytest.mark.parametrize("C", [0.02, 1.0])
@pytest.mark.parametrize("given", CLASSIFIERS, ids=str)
def test_the_optimum_is_that_of_scikit_learn(given, C):
    ours = LinearSVC(C=C, tol=1e-9, **given).fit(X, Y, WEIGHTS)
    reference = with_theirs(ours).fit(X, Y, WEIGHTS)
    best, our_objective = (objective(one, X, 2 * Y - 1, WEIGHTS) for one in (reference, ours))
    assert ours.certificate_.status is Status.OPTIMAL
    assert ours.certificate_.primal == pytest.approx(our_objective, rel=1e-10)
    assert best * (1.0 - 0.02) <= our_objective <= best * (1.0 + 1e-8)
    np.testing.assert_array_equal(ours.predict(NEW), reference.predict(NEW))


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # the reference, at large C
@pytest.mark.parametrize("C", [0.02, 1.0])
@pytest.mark.parametrize("given", REGRESSORS, ids=str)
def test_the_optimum_of_a_regression_is_that_of_scikit_learn(given, C):
    ours = LinearSVR(C=C, tol=1e-9, **given).fit(X, TARGETS, WEIGHTS)
    reference = with_theirs(ours).fit(X, TARGETS, WEIGHTS)
    best, our_objective = (objective(one, X, TARGETS, WEIGHTS) for one in (reference, ours))
    assert ours.certificate_.status is Status.OPTIMAL
    assert ours.certificate_.primal == pytest.approx(our_objective, rel=1e-10)
    assert best * (1.0 - 0.02) <= our_objective <= best * (1.0 + 1e-8)


@pytest.mark.parametrize("machine", [LinearSVC(penalty="l1", loss="hinge", C=0.3), LinearSVR(penalty="l1", C=0.3)])
def test_the_sum_of_absolute_weights_with_a_piecewise_linear_loss_is_a_linear_program(machine):
    y, slopes = (2.0 * Y - 1.0, None) if isinstance(machine, LinearSVC) else (TARGETS, 1.0)
    rows = np.column_stack([X, np.ones(60)])
    signed = rows * y[:, None] if slopes is None else rows
    # Variables: w = u - v, and one slack for each row.
    costs = np.concatenate([np.ones(12), np.full(60, 0.3)])
    above = np.hstack([-signed, signed, -np.eye(60)])
    bounds = -np.ones(60) if slopes is None else -y
    if slopes is not None:
        above, bounds = np.vstack([above, np.hstack([signed, -signed, -np.eye(60)])]), np.concatenate([bounds, y])
    best = linprog(costs, A_ub=above, b_ub=bounds).fun
    machine.fit(X, Y if slopes is None else TARGETS)
    assert machine.certificate_.status is Status.OPTIMAL
    assert best * (1.0 - 1e-9) <= objective(machine, X, y) <= best * (1.0 + 1e-4)
    assert machine.certificate_.dual <= best * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "machine", [LinearSVC(), LinearSVC(loss="hinge"), LinearSVR(), LinearSVR(bias="free")], ids=str
)
def test_an_elastic_net_lies_between_the_penalties(machine):
    X, y = (X3, Y3 == 1) if isinstance(machine, LinearSVC) else (X3, X3 @ np.arange(X3.shape[1]) + 5.0)
    fits = [clone(machine).set_params(l1_ratio=ratio, C=0.1, tol_gap=1e-8).fit(X, y) for ratio in (0.0, 0.3, 1.0)]
    for fitted, penalty in zip(fits[::2], ("l2", "l1"), strict=True):
        same = clone(machine).set_params(penalty=penalty, C=0.1, tol_gap=1e-8).fit(X, y)
        assert np.array_equal(same.coef_, fitted.coef_)
    named = clone(machine).set_params(l1_ratio=0.3, penalty="elasticnet", C=0.1, tol_gap=1e-8).fit(X, y)
    assert np.array_equal(named.coef_, fits[1].coef_)
    for fitted, ratio in zip(fits, (0.0, 0.3, 1.0), strict=True):  # no other one is better for its own penalty
        problem = replace(fits[0].certificate_.evidence.problem, l1_ratio=ratio)
        losses = [one.certificate_.primal - one.certificate_.evidence.problem.penalty(one.solution_.w) for one in fits]
        values = [loss + problem.penalty(one.solution_.w) for loss, one in zip(losses, fits, strict=True)]
        assert fitted.certificate_.status == "optimal"
        assert fitted.certificate_.primal == pytest.approx(min(values), rel=1e-12)
        assert fitted.certificate_.verify().status == "optimal"


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 0.5, 2: 1.0}], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_several_classes_have_a_machine_each_with_the_weights_of_scikit_learn(loss, class_weight):
    is_chosen = np.arange(60) % 5 > 0  # classes of different size
    ours = LinearSVC(loss=loss, class_weight=class_weight, tol=1e-9).fit(X3[is_chosen], Y3[is_chosen])
    reference = with_theirs(ours).fit(X3[is_chosen], Y3[is_chosen])
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=2e-4)
    np.testing.assert_allclose(ours.decision_function(X3), X3 @ ours.coef_.T + ours.intercept_, atol=1e-12)
    assert [one.status for one in ours.certificate_.parts] == ["optimal"] * 3
    assert len(ours.solution_) == 3
    assert ours.solution_.reason == ours.solution_[0].reason
    assert isinstance(ours.n_iter_, int)


@pytest.mark.parametrize("given", [{}, {"fit_intercept": False}, {"class_weight": {0: 3.0}}], ids=str)
@pytest.mark.parametrize(("rows", "y"), [(X3, Y3), (X3, np.minimum(Y3, 1))], ids=["three classes", "two classes"])
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
def test_the_joint_machine_is_that_of_scikit_learn(rows, y, given):
    ours = LinearSVC(multi_class="crammer_singer", tol=1e-9, **given).fit(rows, y)
    reference = with_theirs(ours).fit(rows, y)
    assert ours.certificate_.status is Status.OPTIMAL
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=2e-3)
    np.testing.assert_array_equal(ours.predict(rows), reference.predict(rows))
    assert ours.certificate_.verify().status is Status.OPTIMAL


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 1: 0.5}], ids=str)
def test_weights_of_two_classes_are_factors_of_c(class_weight):
    is_chosen = np.arange(60) % 5 > 0
    ours = LinearSVC(class_weight=class_weight, tol=1e-9).fit(X[is_chosen], Y[is_chosen])
    factors = ours.class_weight_[Y[is_chosen]]
    same = LinearSVC(tol=1e-9).fit(X[is_chosen], Y[is_chosen], factors)
    reference = with_theirs(ours).fit(X[is_chosen], Y[is_chosen])
    for other in (same, reference):
        np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-5)


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(loss="hinge"),
        LinearSVC(bias="free"),
        LinearSVC(loss="hinge", bias="free"),
        LinearSVC(penalty="l1"),
        LinearSVR(epsilon=0.1),
        LinearSVR(loss="squared_epsilon_insensitive", bias="free"),
    ],
    ids=str,
)
def test_a_weight_of_k_is_k_copies_and_a_weight_of_0_is_absence(machine):
    weights = np.arange(60) % 4
    y = Y if isinstance(machine, LinearSVC) else TARGETS
    machine.set_params(tol=1e-9)
    weighted = clone(machine).fit(X, y, weights)
    copied = clone(machine).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    without = clone(machine).fit(X[weights > 0], y[weights > 0], weights[weights > 0])
    for other in (copied, without):
        assert weighted.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-8)
        np.testing.assert_allclose(weighted.coef_, other.coef_, atol=1e-3)
        np.testing.assert_array_equal(weighted.predict(NEW) > 0.5, other.predict(NEW) > 0.5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_free_bias_is_that_of_the_kernel_machine(loss):
    ours = LinearSVC(C=0.5, loss=loss, bias="free", tol=1e-9).fit(X, Y)
    kernel = SVC(C=0.5, kernel="linear", loss=loss, tol=1e-8).fit(X, Y)
    assert ours.certificate_.status is Status.OPTIMAL
    assert ours.certificate_.primal == pytest.approx(kernel.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(ours.decision_function(NEW), kernel.decision_function(NEW), atol=1e-3)


def test_a_free_bias_follows_targets_that_are_far_from_0():
    far = TARGETS + 1e4
    ours = LinearSVR(epsilon=0.2, bias="free").fit(X, far)
    kernel = SVR(kernel="linear", epsilon=0.2, tol=1e-8).fit(X, far)
    assert ours.certificate_.primal == pytest.approx(kernel.certificate_.primal, rel=1e-4)
    np.testing.assert_allclose(ours.predict(NEW), kernel.predict(NEW), atol=0.1)


@pytest.mark.parametrize("dual", [True, False, "auto"])
def test_dual_and_random_state_have_no_effect(dual):
    for penalty, loss in itertools.product(("l1", "l2"), ("hinge", "squared_hinge")):
        one = LinearSVC(penalty, loss, dual=dual, random_state=3).fit(X, Y)
        np.testing.assert_array_equal(one.coef_, LinearSVC(penalty, loss).fit(X, Y).coef_)
        assert one.certificate_.status is Status.OPTIMAL


STORED = {
    "float32": lambda rows: rows.astype(np.float32),
    "columns first": np.asfortranarray,
    "strides": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "lists": lambda rows: rows.tolist(),
    "dataframe": lambda rows: pd.DataFrame(rows, columns=list("abcde")),
    "CSR": sp.csr_matrix,
    "CSR, float32": lambda rows: sp.csr_array(rows.astype(np.float32)),
    "CSR, long indices": lambda rows: _long_indices(sp.csr_array(rows)),
    "CSC": sp.csc_array,
    "COO with duplicates": lambda rows: _duplicated(sp.coo_array(rows)),
}


def _long_indices(matrix):
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def _duplicated(matrix):
    halves = (np.r_[matrix.data, matrix.data] / 2.0, tuple(np.r_[i, i] for i in matrix.coords))
    return sp.coo_array(halves, shape=matrix.shape)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_table_may_be_stored_in_any_way(stored, loss):
    rows = np.round(8.0 * X) / 8.0  # exact in float32
    expected = LinearSVC(loss=loss, tol=1e-9).fit(rows, Y)
    read = STORED[stored]
    machine = LinearSVC(loss=loss, tol=1e-9).fit(read(rows), Y)
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(machine.coef_, expected.coef_, atol=1e-3)
    expected_values = machine.decision_function(read(np.asarray(NEW, dtype=np.float32)))
    np.testing.assert_allclose(expected.decision_function(NEW), expected_values, atol=1e-3)


@pytest.mark.parametrize("kind", ["int8", "bool", "uint8", "uint8 above 127", "int16", "int32", "float16"])
def test_integers_are_read_as_they_are(kind):
    rows = (np.arange(300).reshape(60, 5) * 37 % 19).astype(kind.split()[0])
    if kind.endswith("127"):
        rows[3, 2] = 200
    expected = LinearSVC().fit(rows.astype(np.float64), Y)
    for given in (rows, sp.csr_array(rows)) if kind != "float16" else (rows,):  # SciPy has no sparse float16
        machine = LinearSVC().fit(given, Y)
        np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(machine.predict(given), expected.predict(rows.astype(np.float64)))


def fitted_on(machine):
    return machine.certificate_.evidence.problem.rows.table


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.bool_])
def test_tables_are_not_copied_even_if_they_may_not_be_written(kind, tmp_path):
    rows = (np.arange(300).reshape(60, 5) * 37 % 19).astype(kind)
    np.save(tmp_path / "rows.npy", rows)
    rows.flags.writeable = False
    for given in (rows, np.load(tmp_path / "rows.npy", mmap_mode="r")):
        assert np.shares_memory(fitted_on(LinearSVC().fit(given, Y)), given)
    matrix = sp.csr_array(X.astype(np.float32))
    assert np.shares_memory(fitted_on(LinearSVC().fit(matrix, Y)).data, matrix.data)


def unsorted(matrix):
    backwards = sp.csr_array((matrix.data.copy(), matrix.indices.copy(), matrix.indptr), shape=matrix.shape)
    for first, last in itertools.pairwise(matrix.indptr):
        backwards.indices[first:last] = matrix.indices[first:last][::-1]
        backwards.data[first:last] = matrix.data[first:last][::-1]
    return backwards


COPIED = {
    **{kind: lambda rows, kind=kind: rows.astype(kind) for kind in ("f2", "i2", "i4", "i8", "O", ">f8", "g")},
    **{f"F {kind}": lambda rows, kind=kind: np.asfortranarray(rows.astype(kind)) for kind in ("f8", "f4", "i1", "?")},
    **{f"F {kind}": lambda rows, kind=kind: np.asfortranarray(rows.astype(kind)) for kind in ("f2", "u1", "i8", "O")},
    "strided": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "uint8 above 127": lambda rows: (30 * rows).astype("u1"),
    "frame": pd.DataFrame,
    "frame of two types": lambda rows: pd.DataFrame(rows).astype({0: "i4"}),
    "list": lambda rows: rows.tolist(),
    "unsorted csr": lambda rows: unsorted(sp.csr_array(rows)),
    **{f"csr {kind}": lambda rows, kind=kind: sp.csr_array(rows.astype(kind)) for kind in ("i1", "i8")},
    **{
        f"{form} {kind}": lambda rows, form=form, kind=kind: sp.csr_array(rows.astype(kind)).asformat(form)
        for form in ("csc", "coo", "lil", "dok", "bsr")
        for kind in ("f8", "f4", "i8")
    },
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_counted_and_refused_before_they_are_made(name):
    rng = np.random.default_rng(0)
    rows = (rng.random((2_000, 40)) < 0.2) * rng.integers(1, 9, (2_000, 40)).astype(float)
    given, y = COPIED[name](rows), rng.integers(0, 2, 2_000)
    needed, why = copy_bytes(given)
    read_linear_table(LinearSVC(), COPIED[name](rows[:50]), reset=True, y=y[:50])  # imports what reading needs
    tracemalloc.start()
    try:
        table = read_linear_table(LinearSVC(), given, reset=True, y=y)
        current, peak = tracemalloc.get_traced_memory()
        assert 0.8 * needed <= peak < 1.5 * needed + 50_000  # checks need a little
        assert table.copied_bytes <= needed
        assert table.copied_bytes == pytest.approx(current, abs=20_000)
        del table
        tracemalloc.reset_peak()
        with pytest.raises(MemoryError, match=rf"is less than a copy of X needs, .*: X is {re.escape(why)}") as caught:
            LinearSVC(memory_limit=needed - 1).fit(given, y)
        assert tracemalloc.get_traced_memory()[1] < 0.5 * needed
    finally:
        tracemalloc.stop()
    assert f"{needed:,} bytes" in str(caught.value)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"])[Y],
        np.array(["no", "yes"], dtype=object)[Y],
        Y.astype(bool),
        2.0 * Y - 1.0,
        Y.tolist(),
        pd.Series(Y).astype("category"),
        Y[:, None],
    ],
    ids=["text", "objects", "bool", "floats", "list", "categories", "column"],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed:sklearn.exceptions.DataConversionWarning")
def test_labels_may_be_of_any_kind(labels):
    machine = LinearSVC().fit(X, labels)
    np.testing.assert_array_equal(machine.classes_, np.unique(np.ravel(labels)))
    np.testing.assert_array_equal(machine.coef_, LinearSVC().fit(X, Y).coef_)
    assert machine.predict(X).dtype == machine.classes_.dtype


def test_columns_need_no_scaling():
    scales = np.array([1e-6, 1.0, 1e5, 1e-2, 1e8])
    for given in ({}, {"loss": "hinge"}, {"penalty": "l1"}):
        machine = LinearSVC(C=1.0, **given).fit(X * scales, Y)
        assert machine.certificate_.status is Status.OPTIMAL
        assert machine.n_iter_ < 200


def test_the_certificate_is_recomputed_from_the_rows_and_knows_the_proved_signs():
    machine = LinearSVC(C=0.1).fit(X, Y)
    again = machine.certificate_.verify()
    assert (again.status, again.primal) == (Status.OPTIMAL, pytest.approx(machine.certificate_.primal, rel=1e-12))
    signs = machine.certificate_.proved_signs()
    best = LinearSVC(C=0.1, tol=1e-10).fit(X, Y).coef_
    assert signs.any()
    assert (np.ravel(signs) * best.ravel() >= 0.0).all()
    several = LinearSVC(C=0.1).fit(X3, Y3)
    assert several.certificate_.proved_signs().shape == several.coef_.shape


def test_a_fit_that_ends_early_says_how_far_it_is():
    scales = np.array([1.0, 10.0, 100.0, 1e3, 1e4])
    for machine in (LinearSVC(max_iter=1, loss="hinge", C=100.0), LinearSVR(max_iter=1, C=100.0)):
        y = Y if isinstance(machine, LinearSVC) else TARGETS
        with pytest.warns(ConvergenceWarning, match=r"`max_iter`.*relative duality gap [\d.]+.*Raise max_iter"):
            machine.fit(X * scales, y)
        assert machine.certificate_.relative_gap > 1e-4
        assert np.isfinite(machine.coef_).all()
        assert machine.n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match=r"`time_limit`"):
        LinearSVC(max_seconds=0.0).fit(X3, Y3)
    with pytest.warns(ConvergenceWarning, match=r"`interrupted`"):
        LinearSVC(callback=lambda progress: 1, loss="hinge", tol=1e-9).fit(X3, Y3)


def test_a_warm_start_goes_on_from_the_last_solution():
    for given in ({}, {"loss": "hinge"}):
        machine = LinearSVC(C=1.0, warm_start=True, tol=1e-9, **given).fit(X, Y)
        first = machine.n_iter_
        assert machine.fit(X, Y).n_iter_ < first
        warm = machine.set_params(C=1.3).fit(X, Y)
        cold = LinearSVC(C=1.3, tol=1e-9, **given).fit(X, Y)
        assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-8)


def test_a_fit_that_fails_leaves_the_last_machine():
    machine = LinearSVC().fit(X, Y)
    before = machine.coef_.copy()
    with pytest.raises(ValueError, match="C must be"):
        machine.set_params(C=-1.0).fit(X3, Y3)
    np.testing.assert_array_equal(machine.coef_, before)


def test_sparsify_and_densify_predict_the_same():
    machine = LinearSVC(penalty="l1", C=0.05).fit(X, Y)
    values = machine.decision_function(NEW)
    assert sp.issparse(machine.sparsify().coef_)
    np.testing.assert_array_equal(machine.decision_function(NEW), values)
    assert isinstance(machine.densify().coef_, np.ndarray)
    with pytest.raises(NotFittedError):
        LinearSVC().sparsify()


@pytest.mark.parametrize("ours", [LinearSVC, LinearSVR, LogisticRegression])
def test_the_parameters_of_scikit_learn_come_first(ours):
    reference = getattr(sklearn.svm, ours.__name__, sklearn.linear_model.LogisticRegression)
    if ours is LogisticRegression and NAMES_PENALTIES:
        pytest.skip("the parameters are those of scikit-learn 1.8 and later")
    expected, actual = (inspect.signature(one).parameters for one in (reference, ours))
    assert list(actual)[: len(expected)] == list(expected)
    for name, parameter in expected.items():
        assert (actual[name].default, actual[name].kind) == (parameter.default, parameter.kind), name
    rest = list(actual.values())[len(expected) :]
    assert {parameter.kind for parameter in rest} == {inspect.Parameter.KEYWORD_ONLY}
    machine = ours(**reference().get_params())
    assert repr(clone(machine)) == repr(machine)
    theirs_tags, our_tags = reference().__sklearn_tags__(), machine.__sklearn_tags__()
    theirs_tags.input_tags.sparse, theirs_tags.array_api_support = True, False
    assert our_tags == theirs_tags


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
@pytest.mark.parametrize("given", [{}, {"fit_intercept": False}])
def test_attributes_are_those_of_scikit_learn(name, given):
    ours, reference = (kind(**given) for kind in (globals()[name], getattr(sklearn.svm, name)))
    frame = pd.DataFrame(X3, columns=list("abcde"))
    y = Y3 if name == "LinearSVC" else TARGETS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reference.fit(frame, y)
    ours.fit(frame, y)
    for attribute, expected in vars(reference).items():
        if not attribute.endswith("_"):
            continue
        value = getattr(ours, attribute)
        assert type(value) is type(expected), attribute
        if isinstance(expected, np.ndarray):
            assert (value.shape, value.dtype) == (expected.shape, expected.dtype), attribute
            assert value.flags.writeable == expected.flags.writeable
    assert not hasattr(ours, "predict_proba")


WRONG = [
    ({"penalty": "l3"}, "penalty must be one of 'l2', 'l1', 'elasticnet', got 'l3'"),
    ({"penalty": "elasticnet"}, 'penalty="elasticnet" needs l1_ratio'),
    ({"penalty": "l1", "l1_ratio": 0.5}, 'penalty="l1" means l1_ratio=1, got l1_ratio=0.5'),
    ({"l1_ratio": -0.1}, "l1_ratio must be a number >= 0"),
    ({"l1_ratio": 1.5}, "l1_ratio must be at most 1"),
    ({"loss": "logistic"}, "loss must be one of 'hinge', 'squared_hinge'"),
    ({"dual": "maybe"}, "dual must be True or False, got 'maybe'"),
    ({"tol": 0.0}, "tol must be a number > 0"),
    ({"tol_gap": 0.0}, "tol_gap must be a number > 0"),
    ({"C": -np.inf}, "C must be a (finite )?number > 0"),
    ({"multi_class": "ovo"}, "multi_class must be one of 'ovr'"),
    ({"multi_class": "crammer_singer", "bias": "free"}, 'needs bias="penalised"'),
    ({"fit_intercept": 2}, "fit_intercept must be True or False"),
    ({"intercept_scaling": 0.0}, "intercept_scaling must be a number > 0"),
    ({"class_weight": "even"}, "class_weight must be None"),
    ({"verbose": -1}, "verbose must be"),
    ({"random_state": "seed"}, "random_state must be"),
    ({"max_iter": 1.5}, "max_iter must be an integer"),
    ({"bias": "none"}, "bias must be one of 'penalised', 'free'"),
    ({"max_seconds": -1.0}, "max_seconds must be a number >= 0"),
    ({"memory_limit": -1}, "memory_limit must be an integer >= 0"),
    ({"warm_start": "yes"}, "warm_start must be True or False"),
    ({"callback": 3}, "callback must be a function"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=lambda one: str(one)[:40])
def test_parameters_out_of_range_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**given).fit(X, Y)
    if next(iter(given)) in LinearSVR().get_params() and "loss" not in given:
        with pytest.raises(ValueError, match=message):
            LinearSVR(**given).fit(X, TARGETS)


def with_cell(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


@pytest.mark.parametrize(
    ("rows", "y", "weights", "message"),
    [
        (with_cell(np.nan), Y, None, "row 3, column 1 is nan"),
        (sp.csr_array(with_cell(np.inf)), Y, None, "row 3, column 1 is inf"),
        (with_cell(np.nan).astype(np.float16), Y, None, "row 3, column 1 is nan"),
        (np.full((60, 2), "a"), Y, None, "could not convert"),
        (X[:0], Y[:0], None, "0 sample"),
        (X[:, :0], Y, None, "0 feature"),
        (X[0], Y, None, "2D array"),
        (X, Y[:-1], None, "inconsistent numbers of samples"),
        (X, np.zeros(60), None, "holds one class only"),
        (X, X[:, 0], None, "Unknown label type"),
        (X, None, None, "y"),
        (X, Y, -np.ones(60), "sample_weight must hold finite numbers >= 0"),
        (X, Y, Y, "positive in rows of at least two classes"),
        (X, Y, np.ones(3), r"sample_weight must have shape \(60,\)"),
    ],
)
def test_bad_tables_are_refused(rows, y, weights, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(rows, y, weights)


def test_regression_refuses_targets_that_are_no_numbers():
    for y, message in ((np.full(60, "a"), "y must hold numbers"), (np.where(Y, np.nan, 1.0), "Input y contains NaN")):
        with pytest.raises(ValueError, match=message):
            LinearSVR().fit(X, y)
    with pytest.raises(ValueError, match="all weights are zero"):
        LinearSVR().fit(X, TARGETS, np.zeros(60))
    with pytest.raises(NotFittedError):
        LinearSVR().predict(X)


def test_new_rows_are_checked():
    machine = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="5 features"):
        machine.predict(X[:, :2])
    with pytest.raises(ValueError, match="row 3, column 1 is nan"):
        machine.predict(with_cell(np.nan))


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (np.tile(X, (1, 8))[:15], Y[:15]),  # more columns than rows
        (np.column_stack([X, np.ones(60), np.zeros(60)]), Y),
        (X * 1e-150, Y),
    ],
    ids=["more columns than rows", "constant columns", "tiny"],
)
def test_degenerate_tables_end_with_an_honest_status(rows, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for given in ({}, {"loss": "hinge"}):
            machine = LinearSVC(**given, max_iter=100).fit(rows, y)
            assert np.isfinite(machine.coef_).all()
            assert (machine.certificate_.status is Status.OPTIMAL) == (machine.certificate_.relative_gap <= 1e-4)


def test_values_whose_squares_overflow_are_an_error():
    with pytest.raises(ValueError, match="Divide the column by a power of 10"):
        LinearSVC().fit(X * 1e150, Y)


def test_a_machine_can_be_pickled_and_searched():
    machine = pickle.loads(pickle.dumps(LinearSVC().fit(X3, Y3)))
    np.testing.assert_array_equal(machine.predict(X3), LinearSVC().fit(X3, Y3).predict(X3))
    assert machine.certificate_.status is Status.OPTIMAL
    search = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_estimator_.certificate_.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("machine", "y", "rules"),
    [
        (LinearSVC(C=0.1), Y, {"closed form", "refitted"}),
        (LinearSVC(C=0.1, bias="free"), Y3, {"closed form"}),
        (LinearSVC(C=0.1, loss="hinge"), Y, {"not a support vector", "refitted"}),
        (LinearSVC(C=0.1, penalty="l1"), Y, {"refitted"}),
        (LinearSVR(C=0.1, loss="squared_epsilon_insensitive", epsilon=0.3), TARGETS, {"closed form", "refitted"}),
        (LogisticRegression(fit_intercept=False), Y, {"refitted"}),
    ],
    ids=["squared hinge", "three classes", "hinge", "l1", "regression", "logistic"],
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_leave_one_out_gives_the_values_of_refits(machine, y, rules, kind):
    rows = kind(X3)
    weights = np.where(np.arange(60) == 7, 0.0, WEIGHTS)
    loo = leave_one_out(machine, rows, y, weights)
    assert rules <= {*loo.rule.ravel()}
    assert loo.rule[7, 0] == "not trained on"
    values = []
    for row in range(0, 60, 3):
        alone = np.where(np.arange(60) == row, 0.0, weights)
        refit = clone(machine).set_params(tol=1e-10, tol_gap=1e-10).fit(rows, y, alone)
        values.append((refit.predict if isinstance(machine, LinearSVR) else refit.decision_function)(rows)[row])
    np.testing.assert_allclose(loo.decision[::3], values, atol=2e-3)
    if not isinstance(machine, LinearSVR):
        trained = np.arange(60) != 7
        assert loo.error == pytest.approx(np.mean(loo.predicted[trained] != y[trained]))


def test_leave_one_out_of_logistic_regression_needs_two_classes_each_and_knows_a_class_of_one_row():
    with pytest.raises(ValueError, match="'softmax' and y has 3 classes; set it to 'ovr'"):
        leave_one_out(LogisticRegression(), X3, Y3)
    by_rest = LogisticRegression(multi_class="ovr", tol_gap=1e-9)
    alone = by_rest.fit(np.delete(X3[:18], 4, axis=0), np.delete(Y3[:18], 4)).decision_function(X3[4:5])
    np.testing.assert_allclose(leave_one_out(by_rest, X3[:18], Y3[:18]).decision[4], alone[0], atol=1e-3)
    loo = leave_one_out(LogisticRegression(), X[:20], np.arange(20) == 5)
    assert (loo.decision[5], loo.rule[5, 0], loo.wrong[5]) == (-1.0, "closed form", True)
    loo = leave_one_out(LogisticRegression(fit_intercept=False), X[:20], np.arange(20) == 5)
    assert loo.rule[5, 0] == "refitted"  # without a bias, a problem of one class has an optimum
    others = np.delete(X[:20], 5, axis=0)
    optimum = minimize(lambda w: 0.5 * w @ w + np.logaddexp(0.0, others @ w).sum(), np.zeros(X.shape[1]), tol=1e-10)
    assert loo.decision[5] == pytest.approx(X[5] @ optimum.x, abs=1e-3)


def test_leave_one_out_of_a_linear_machine_can_be_stopped():
    with pytest.warns(ConvergenceWarning, match="leave_one_out was ended"):
        loo = leave_one_out(LinearSVC(loss="hinge"), X3, Y, callback=lambda progress: np.True_)
    assert np.isnan(loo.error)
    assert loo.stopped == "interrupted"
    with pytest.raises(ValueError, match="crammer_singer'; set it to 'ovr'"):
        leave_one_out(LinearSVC(multi_class="crammer_singer"), X3, Y3)


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(),
        LinearSVC(loss="hinge"),
        LinearSVR(epsilon=0.1),
        LogisticRegression(multi_class="ovr", tol_gap=1e-12),
        LogisticRegression(),
    ],
    ids=str,
)
@pytest.mark.parametrize("given", [{}, {"sample_weight": WEIGHTS}], ids=["", "weights"])
def test_a_search_along_c_finds_what_grid_search_finds(machine, given):
    penalties, y = [0.01, 0.1, 1.0], TARGETS if isinstance(machine, LinearSVR) else Y3
    machine = clone(machine).set_params(tol=1e-9)
    ours = KernelSearchCV(machine, C=penalties, cv=3).fit(X3, y, **given)
    theirs_found = GridSearchCV(machine, {"C": penalties}, cv=3).fit(X3, y, **given)
    assert "folds are weights of the rows of one table" in ours.reason_
    assert ("start" in ours.reason_) is hasattr(ours.best_estimator_, "_solutions")
    for name in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs_found.cv_results_[name], atol=1e-4)
    assert ours.best_params_ == theirs_found.best_params_
    np.testing.assert_allclose(ours.best_estimator_.coef_, theirs_found.best_estimator_.coef_, atol=1e-6)
    assert ours.best_estimator_.warm_start is False
    assert set(ours.cv_results_["status"]) == {"optimal"}


MODELS = [
    (LinearSVC(loss="hinge"), Y),
    (LinearSVC(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, intercept_scaling=3.0), Y3),
    (LinearSVC(penalty="l1", fit_intercept=False), Y),
    (LinearSVC(bias="free", loss="hinge"), Y),
    (LogisticRegression(penalty="l1"), Y),
    (LogisticRegression(C=0.1, multi_class="ovr", class_weight={0: 2.0, 1: 1.0, 2: 0.5}), Y3),
    (LinearSVC(multi_class="crammer_singer", C=3.0), Y),
    (LinearSVC(multi_class="crammer_singer", class_weight={0: 2.0, 1: 1.0, 2: 0.5}, intercept_scaling=3.0), Y3),
    (LinearSVC(multi_class="crammer_singer", fit_intercept=False), Y3),
    (LinearSVR(epsilon=0.1), TARGETS),
    (LinearSVR(loss="squared_epsilon_insensitive", bias="free"), TARGETS),
]


@pytest.mark.parametrize(
    ("machine", "y"), MODELS, ids=lambda one: str(one)[:60] if not isinstance(one, np.ndarray) else ""
)
def test_a_model_file_predicts_the_same_and_is_verified(machine, y, tmp_path):
    rows = X3 if y is Y3 else X
    for weights in (None, np.arange(60.0) % 4):
        fitted = clone(machine).fit(rows, y, weights)
        save_model(tmp_path / "m.mercer", as_model(fitted, rows, y, weights))
        model = load_model(tmp_path / "m.mercer")
        columns = pd.DataFrame(rows, columns=list("01234")).assign(y=y)
        same = np.testing.assert_allclose if isinstance(machine, LinearSVR) else np.testing.assert_array_equal
        same(model.predict(columns), fitted.predict(rows))
        verification = verify(model, columns)
        assert verification.ok, verification.findings
        with pytest.raises(ValueError, match="must be what the machine was fitted on"):
            as_model(fitted, 2.0 * rows, y, weights)


def standard(rows):
    return rows / rows.std(axis=0)


NAMES_PENALTIES = sklearn.linear_model.LogisticRegression().penalty != "deprecated"  # scikit-learn before 1.8


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("y", [Y, Y3], ids=["two", "three"])
def test_logistic_regression_is_that_of_scikit_learn(y, l1_ratio):
    ours = LogisticRegression(C=0.3, l1_ratio=l1_ratio, tol=1e-9).fit(standard(X), y, WEIGHTS)
    named = {"penalty": "elasticnet"} if NAMES_PENALTIES else {}
    about = {"C": 0.3, "l1_ratio": l1_ratio, "solver": "saga", "tol": 1e-9, "max_iter": 20_000, **named}
    reference = sklearn.linear_model.LogisticRegression(**about).fit(standard(X), y, WEIGHTS)
    assert ours.solution_.certificate.status is Status.OPTIMAL
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(
        ours.intercept_ - ours.intercept_.mean(), reference.intercept_ - reference.intercept_.mean(), atol=1e-3
    )
    np.testing.assert_allclose(ours.predict_proba(standard(NEW)), reference.predict_proba(standard(NEW)), atol=1e-4)


def test_each_class_against_the_rest_has_probabilities_that_sum_to_1():
    machine = LogisticRegression(multi_class="ovr", class_weight={0: 2.0, 1: 1.0, 2: 1.0}).fit(X3, Y3)
    shares = machine.predict_proba(X3)
    alone = [
        LogisticRegression().fit(X3, k == Y3, np.where(Y3 == 0, 2.0, 1.0)).predict_proba(X3)[:, 1] for k in range(3)
    ]
    np.testing.assert_allclose(shares, np.transpose(alone / np.sum(alone, axis=0)), atol=1e-4)
    np.testing.assert_allclose(machine.predict_log_proba(X3), np.log(shares), atol=1e-9)
    np.testing.assert_array_equal(machine.classes_[shares.argmax(axis=1)], machine.predict(X3))


def test_logistic_regression_of_many_columns_is_certified():
    rng = np.random.default_rng(3)
    rows = sp.random_array((80, 5000), density=0.01, random_state=rng, format="csr")
    y = np.asarray(rows @ rng.normal(size=5000) > 0).astype(int)
    machine = LogisticRegression(C=10.0).fit(rows, y)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.peak_memory_bytes < 8 * 5000**2 / 10
    kernel = KernelLogisticRegression(10.0, kernel="linear").fit(rows, y)
    np.testing.assert_allclose(machine.decision_function(rows), kernel.decision_function(rows), atol=0.05)


@pytest.mark.parametrize(
    ("given", "y", "message"),
    [
        ({"l1_ratio": 1.5}, Y, "l1_ratio must be"),
        ({"solver": "gradient"}, Y, "solver must be one of"),
        ({"penalty": "l3"}, Y, "penalty must be one of"),
        ({"multi_class": "ovo"}, Y, "multi_class must be one of"),
    ],
)
def test_logistic_regression_says_what_goes_together(given, y, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**given).fit(X, y)


OF_SCIKIT_LEARN = [
    (theirs, "test_linearsvc"),
    (theirs, "test_linearsvc_crammer_singer"),
    (theirs, "test_crammer_singer_binary"),
    (theirs, "test_linearsvr"),
    (theirs, "test_linearsvr_fit_sampleweight"),
    (theirs, "test_linearsvc_fit_sampleweight"),
    (theirs, "test_linearsvc_iris"),
    (theirs, "test_dense_liblinear_intercept_handling"),
    (theirs, "test_liblinear_set_coef"),
    (theirs, "test_linearsvc_verbose"),
    (theirs, "test_lsvc_intercept_scaling_zero"),
    (theirs, "test_svr"),
    (theirs, "test_svr_coef_sign"),
    (theirs, "test_weight"),
    (theirs, "test_auto_weight"),
    (theirs, "test_bad_input"),
    (theirs_sparse, "test_linearsvc"),
    (theirs_sparse, "test_linearsvc_iris"),
    (theirs_sparse, "test_weight"),
    (theirs_sparse, "test_sparse_liblinear_intercept_handling"),
]
"""Tests of scikit-learn about its linear machines, and those of them that mercer passes."""


@pytest.mark.parametrize(("module", "name"), OF_SCIKIT_LEARN, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_tests_of_scikit_learn_pass(module, name, monkeypatch, capfd):
    monkeypatch.setattr(sklearn.svm, "LinearSVC", LinearSVC)
    monkeypatch.setattr(sklearn.svm, "LinearSVR", LinearSVR)
    monkeypatch.setattr(sklearn.linear_model, "LogisticRegression", LogisticRegression)
    test = getattr(module, name)
    kinds = {"csr_container": sp.csr_matrix, "lil_container": sp.lil_matrix, "dok_container": sp.dok_matrix}
    given = {"global_random_seed": 42, "classifier": LinearSVC, **kinds}
    asked = inspect.signature(test).parameters
    test(**{one: value for one, value in given.items() if one in asked})


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (LinearSVC, {"penalty": "l1"}),
        (LinearSVC, {}),
        (LinearSVC, {"loss": "hinge"}),
        (LinearSVR, {}),
        (LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_weight_0_are_absent_by_the_test_of_scikit_learn(kind, given):
    check = theirs.test_linearsvm_liblinear_sample_weight
    check(*(kind, given, 42)[: len(inspect.signature(check).parameters)])  # older scikit-learn has no seed


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_hinge_loss_with_the_l1_penalty_is_solved_on_a_few_thousand_rows(C, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = np.where(X @ [1, 1, -1, 1, 0, 0, 0, 0] + 0.8 * rng.normal(size=3000) > 0, 1, -1)
    machine = LinearSVC(penalty="l1", loss="hinge", C=C).fit(X * np.r_[unit, np.ones(7)], y)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.verify().relative_gap <= 1e-4


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(tol=1e-9),
        LinearSVC(loss="hinge", multi_class="crammer_singer"),
        LinearSVC(loss="hinge", bias="free", tol=1e-9),
        LinearSVC(penalty="l1", bias="free", tol=1e-9),
        LinearSVR(tol=1e-9),
        LinearSVR(loss="squared_epsilon_insensitive", bias="free", tol=1e-9),
        LogisticRegression(tol_gap=1e-9, penalty="l1"),
        LogisticRegression(prior_variance=5.0),
    ],
    ids=str,
)
def test_c_path_has_the_machines_of_separate_fits_in_the_order_of_the_grid(machine):
    y = TARGETS if isinstance(machine, LinearSVR) else Y
    grid = [3.0, 0.1, 1.0]
    path = machine.C_path(X, y, grid, WEIGHTS)
    assert [one.C for one in path] == grid
    for one in path:
        assert one.certificate_.status is Status.OPTIMAL
        asked = {
            **machine.get_params(),
            "C": one.C,
            **({"prior_variance": None} if "prior_variance" in one.get_params() else {}),
        }
        assert one.get_params() == asked
        cold = clone(one).fit(X, y, WEIGHTS)
        assert one.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-4)
        if min(machine.tol_gap, machine.tol) <= 1e-9:
            np.testing.assert_allclose(one.coef_, cold.coef_, atol=1e-3)
    assert not hasattr(machine, "coef_")
    assert np.sum([one.n_iter_ for one in path]) <= np.sum([clone(one).fit(X, y, WEIGHTS).n_iter_ for one in path])


def test_c_path_spends_max_seconds_once_and_refuses_an_empty_grid():
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        path = LinearSVC(max_seconds=0.0).C_path(X, Y, [1.0, 2.0])
    assert [one.certificate_.status for one in path] == [Status.TIME_LIMIT] * 2
    with pytest.raises(ValueError, match="grid must hold at least one value of C"):
        LinearSVC().C_path(X, Y, [])


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR, LogisticRegression, PegasosSVC])
@pytest.mark.parametrize(
    "value",
    ["a", -2, np.nan, [1.0], np.array([1.0, 2.0]), 1 + 2j, object()],
    ids=lambda one: type(one).__name__,
)
def test_a_wrong_value_of_any_parameter_is_named(kind, value):
    names = kind().get_params().keys() - ({"n_jobs"} if isinstance(value, int) else set())  # -2: all processors but one
    if kind is LogisticRegression and isinstance(value, int):
        names -= {"intercept_scaling"}  # any number, as in scikit-learn
    for name in names:
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}).fit(X, Y)


def test_c_is_another_name_of_the_prior_variance():
    by_name = LogisticRegression(C=2.0).fit(X, Y)
    np.testing.assert_array_equal(by_name.coef_, LogisticRegression(prior_variance=2.0).fit(X, Y).coef_)
    with pytest.raises(ValueError, match="two names of one parameter"):
        LogisticRegression(C=2.0, prior_variance=3.0).fit(X, Y)
    with pytest.raises(ValueError, match="float64 can hold"):
        LinearSVC(C=10**400).fit(X, Y)


def test_a_large_c_is_the_maximal_margin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60))
    y = X[:, 0] > 0
    large = LinearSVC(loss="hinge", bias="free", C=1e10, tol_gap=1e-8).fit(X, y)
    assert large.certificate_.n_bounded == 0
    hard = SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(large.coef_, hard.coef_, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("machine", [LinearSVR(epsilon=0.1, C=10.0), LinearSVC(loss="hinge", C=100.0)], ids=repr)
def test_a_fit_that_is_continued_and_stopped_again_loses_nothing(machine, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5)) * np.exp(rng.normal(size=5))
    y = X[:, 0] + rng.normal(size=300)
    y = y if isinstance(machine, LinearSVR) else y > 0
    gaps = []
    continued = clone(machine).set_params(max_iter=6, warm_start=True, tol_gap=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(12):
            gaps.append(continued.fit(X, y).certificate_.gap)
    assert all(after <= 1.01 * before for before, after in pairwise(gaps))
    assert gaps[-1] < 1e-3 * gaps[0]
