"""Classifiers by least squares: against dense linear algebra, scikit-learn, refitting, and weights as copies."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import scale

import plain
from mercer import RBF, LeastSquaresClassifier, LeastSquaresSVC, Linear, Status
from pairs import every_pair

CANCER, WINE, IRIS = (load(return_X_y=True) for load in (load_breast_cancer, load_wine, load_iris))
TABLES = {"2 classes": (scale(CANCER[0])[:120], CANCER[1][:120]), "3 classes": (scale(WINE[0]), WINE[1])}
WEIGHTS = {
    "none": lambda n: None,
    "whole": lambda n: np.arange(n) % 3 + 0.0,
    "fractions": lambda n: 0.1 + np.arange(n) % 7,
}
MACHINES = {
    "linear": LeastSquaresClassifier(0.5),
    "least norm": LeastSquaresClassifier(),
    "rbf": LeastSquaresSVC(C=2.0, gamma=0.05),
    "poly": LeastSquaresSVC(kernel="poly", coef0=1.0, degree=2, class_weight="balanced"),
    "sum": LeastSquaresSVC(kernel=RBF(gamma=0.1) + 0.1 * Linear()),
}
every_table = pytest.mark.parametrize("table", TABLES)
every_machine = pytest.mark.parametrize("name", MACHINES)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)


@every_table
@every_weight
def test_the_bordered_system(table, weights):
    X, y = TABLES[table]
    s = WEIGHTS[weights](len(y))
    machine = LeastSquaresSVC(C=3.0, gamma=0.02).fit(X, y, s)
    s = np.ones(len(y)) if s is None else s
    on, classes = np.flatnonzero(s > 0), np.unique(y)
    K = plain.gaussian(X, X, 0.02)
    n = on.size
    system = np.ones((n + 1, n + 1))
    system[-1, -1] = 0.0
    system[:n, :n] = K[np.ix_(on, on)] + np.diag(1.0 / (3.0 * s[on]))
    columns = [classes[1]] if classes.size == 2 else classes
    for t, label in enumerate(columns):
        signs = np.where(y == label, 1.0, -1.0)
        expected = np.linalg.solve(system, np.append(signs[on], 0.0))
        np.testing.assert_allclose(machine.dual_coef_[t, on], expected[:n], atol=1e-9)
        assert machine.intercept_[t] == pytest.approx(expected[n], abs=1e-9)
    assert not machine.dual_coef_[:, s == 0].any()
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.verify().status is Status.OPTIMAL
    beta, Y = machine.dual_coef_.T, np.array([np.where(y == label, 1.0, -1.0) for label in columns]).T
    f = K @ beta + machine.intercept_
    primal = 0.5 / 3.0 * (beta * (K @ beta)).sum() + 0.5 * (s[:, None] * (Y - f) ** 2).sum()
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert abs(certificate.gap - certificate.rounding) <= 1e-12 * primal
    assert certificate.rounding <= 1e-11 * primal


@every_pair(table=TABLES, alpha=[1e-3, 1.0, 100.0], weights=WEIGHTS)
def test_the_linear_machine_is_that_of_scikit_learn(table, alpha, weights):
    X, y = TABLES[table]
    s = WEIGHTS[weights](len(y))
    ours = LeastSquaresClassifier(alpha).fit(X, y, s)
    theirs = RidgeClassifier(alpha, solver="cholesky").fit(X, y, s)
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(theirs.coef_), atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.decision_function(X).shape == theirs.decision_function(X).shape
    certificate = ours.certificate_
    assert certificate.status is Status.OPTIMAL
    assert abs(certificate.gap) <= 1e-12 * certificate.primal


def test_least_norm_where_there_are_many_solutions():
    X, y = TABLES["2 classes"]
    few = LeastSquaresClassifier().fit(X[:20], y[:20])
    signs = np.where(y[:20] == 1, 1.0, -1.0)
    centred = X[:20] - X[:20].mean(axis=0)
    np.testing.assert_allclose(few.coef_[0], np.linalg.pinv(centred) @ (signs - signs.mean()), atol=1e-9)
    assert few.certificate_.status is Status.OPTIMAL
    for i in range(20):  # every row is interpolated, but leave-one-out is still defined
        if len(set(np.delete(y[:20], i))) == 1:
            continue
        without = LeastSquaresClassifier().fit(np.delete(X[:20], i, axis=0), np.delete(y[:20], i))
        assert few.loo_decision_[i] == pytest.approx(without.decision_function(X[i : i + 1])[0], abs=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_a_row_that_is_alone_in_a_column(alpha):
    """The leverage of this row is 1 up to the penalty; the leverage of the other rows is not."""
    X, y = TABLES["2 classes"]
    X, s = np.column_stack([X[:60, :3], np.arange(60) == 7]), np.where(np.arange(60) % 2, 2.0, 1.0)
    machine = LeastSquaresClassifier(alpha).fit(X, y[:60], s)
    for i in (6, 7, 8):
        remaining = np.arange(60) != i
        without = LeastSquaresClassifier(alpha).fit(X[remaining], y[:60][remaining], s[remaining])
        assert machine.loo_decision_[i] == pytest.approx(without.decision_function(X[i : i + 1])[0], abs=1e-8)


def test_the_linear_kernel_is_the_linear_machine():
    X, y = TABLES["3 classes"]
    kernel = LeastSquaresSVC(C=4.0, kernel="linear").fit(X, y)
    linear = LeastSquaresClassifier(0.25).fit(X, y)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(kernel.loo_decision_, linear.loo_decision_, atol=1e-9)


@every_pair(table=TABLES, name=MACHINES, weights=WEIGHTS)
def test_leave_one_out_is_refitting(table, name, weights):
    X, y = TABLES[table]
    s = np.ones(len(y)) if weights == "none" else WEIGHTS[weights](len(y))
    machine = clone(MACHINES[name]).fit(X, y, s)
    fixed = dict(zip(machine.classes_.tolist(), machine.class_weight_.tolist(), strict=True))
    for i in (1, 50, 100):
        remaining = np.arange(len(y)) != i
        without = clone(machine).set_params(class_weight=fixed)
        if hasattr(machine, "kernel_"):
            without.set_params(kernel=machine.kernel_)
        without.fit(X[remaining], y[remaining], s[remaining])
        if s[i] > 0:
            expected = without.decision_function(X[i : i + 1])
            np.testing.assert_allclose(machine.loo_decision_[i : i + 1], expected, atol=1e-8)
    assert 0.8 < machine.loo_score_ < 1.0


@every_table
@every_machine
def test_a_weight_is_as_many_copies(table, name):
    X, y = TABLES[table]
    s = np.arange(len(y)) % 3
    weighted = clone(MACHINES[name]).fit(X, y, s).decision_function(X)
    copied = clone(MACHINES[name]).fit(np.repeat(X, s, axis=0), np.repeat(y, s)).decision_function(X)
    absent = clone(MACHINES[name]).fit(X[s > 0], y[s > 0], s[s > 0]).decision_function(X)
    np.testing.assert_allclose(weighted, copied, atol=1e-8)
    np.testing.assert_allclose(weighted, absent, atol=1e-8)


@every_machine
def test_a_class_weight_is_a_sample_weight(name):
    X, y = TABLES["2 classes"]
    weighted = clone(MACHINES[name]).set_params(class_weight={1: 3.0}).fit(X, y).decision_function(X)
    machine = clone(MACHINES[name]).set_params(class_weight=None)
    if name == "poly":
        machine.set_params(gamma=1.0 / X.shape[1] / X.var())
        weighted = clone(machine).set_params(class_weight={1: 3.0}).fit(X, y).decision_function(X)
    np.testing.assert_allclose(machine.fit(X, y, np.where(y == 1, 3.0, 1.0)).decision_function(X), weighted, atol=1e-9)


@every_machine
@pytest.mark.parametrize("stored", [sp.csr_array, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_storage_and_labels_do_not_matter(name, stored):
    X, y = np.round(IRIS[0] * 2), np.array(["a", "b", "c"])[IRIS[1]]
    expected = clone(MACHINES[name]).fit(X, y)
    machine = clone(MACHINES[name]).fit(stored(X), y)
    np.testing.assert_allclose(machine.decision_function(stored(X)), expected.decision_function(X), atol=1e-7)
    np.testing.assert_array_equal(machine.predict(X), machine.classes_[machine.decision_function(X).argmax(axis=1)])
    assert machine.score(X, y) >= 0.8


def test_the_bias_has_a_condition_of_its_own():
    """If b changes, every row's condition can still hold, but the coefficients do not sum to 0."""
    X, y = TABLES["2 classes"]
    certificate = LeastSquaresSVC(C=2.0, gamma=0.05).fit(X, y).certificate_
    evidence = certificate.evidence
    signs, b = np.where(y == 1, 1.0, -1.0), evidence.bias[0] + 0.25
    evidence.bias[:] = b
    evidence.beta[:, 0] = np.linalg.solve(plain.gaussian(X, X, 0.05) + np.eye(len(y)) / 2.0, signs - b)
    recomputed = certificate.verify()
    assert recomputed.gradient_violation == pytest.approx(abs(evidence.beta.sum()) / 2.0 / len(y), rel=1e-9)
    assert recomputed.status is Status.STALLED
    assert recomputed.gap == np.inf  # this point is not feasible in the dual


@pytest.mark.parametrize("n", [3, 6, 7, 10, 23])
@pytest.mark.parametrize("value", [0.1, 1e10])
def test_a_constant_column_has_no_weight(n, value):
    y = np.arange(n) % 2
    rng = np.random.default_rng(0)
    constant = LeastSquaresClassifier().fit(np.full((n, 2), value), y)
    assert not constant.coef_.any()
    if n > 4:
        x = rng.normal(size=n)
        machine = LeastSquaresClassifier().fit(np.column_stack([np.full(n, value), x]), y)
        assert machine.coef_[0, 0] == 0.0
        np.testing.assert_allclose(machine.coef_[0, 1], LeastSquaresClassifier().fit(x[:, None], y).coef_[0, 0])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8])
def test_a_constant_column_beside_others_proves_nothing_wrong(alpha, value):
    """Singular vectors have rounding errors at the constant column, which are large relative to its variance."""
    X, y = TABLES["3 classes"]
    X = np.insert(X, 4, value, axis=1)
    machine = LeastSquaresClassifier(alpha).fit(X, y)
    assert not machine.coef_[:, 4].any()
    assert machine.certificate_.status is Status.OPTIMAL
    np.testing.assert_allclose(
        np.delete(machine.coef_, 4, axis=1), LeastSquaresClassifier(alpha).fit(*TABLES["3 classes"]).coef_
    )


def test_rounding_beyond_the_tolerance_is_reported():
    X, y = TABLES["2 classes"]
    with pytest.warns(ConvergenceWarning, match="LeastSquaresClassifier ended as `stalled`: gradient .* Scale the col"):
        machine = LeastSquaresClassifier().fit(X[:, :2] * [1e-10, 1e29], y)
    assert machine.certificate_.status is Status.STALLED


@pytest.mark.parametrize("machine", [LeastSquaresSVC(gamma=0.05), LeastSquaresClassifier(1.0)], ids=str)
def test_the_leave_one_out_score_counts_weights(machine):
    X, y = TABLES["2 classes"]
    y = np.where(np.arange(len(y)) % 5 == 0, 1 - y, y)  # some rows are leave-one-out errors
    s = np.where(np.arange(len(y)) % 5 == 0, 9.0, 1.0)
    machine = clone(machine).fit(X, y, s)
    right = (machine.loo_decision_ > 0.0) == (y == 1)
    assert machine.loo_score_ == pytest.approx(s @ right / s.sum())
    assert abs(machine.loo_score_ - right.mean()) > 0.01


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
@pytest.mark.parametrize("s", [None, [1.0, 3.0]])
def test_a_bias_may_make_up_for_a_singular_matrix(s):
    """K + I is singular, but the bordered system is not."""
    K = np.array([[0.0, -1.0], [-1.0, 0.0]])
    machine = LeastSquaresSVC(kernel="precomputed").fit(K, [0, 1], s)
    system = np.ones((3, 3))
    system[:2, :2], system[2, 2] = K + np.diag(1.0 / np.array([1.0, 1.0] if s is None else s)), 0.0
    expected = np.linalg.solve(system, [-1.0, 1.0, 0.0])
    np.testing.assert_allclose(np.append(machine.dual_coef_, machine.intercept_), expected, atol=1e-12)
    assert machine.certificate_.status is Status.STATIONARY


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
def test_leave_one_out_of_an_indefinite_bordered_system():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(8, 8))
    K, y = K + K.T, np.arange(8) % 2
    machine = LeastSquaresSVC(kernel="precomputed").fit(K, y)
    for i in range(8):
        remaining = np.arange(8) != i
        system = np.ones((8, 8))
        system[:7, :7], system[7, 7] = K[np.ix_(remaining, remaining)] + np.eye(7), 0.0
        solution = np.linalg.solve(system, np.append(2.0 * y[remaining] - 1.0, 0.0))
        assert machine.loo_decision_[i] == pytest.approx(K[i, remaining] @ solution[:7] + solution[7], abs=1e-9)


BAD = {
    "C must be a number > 0": (LeastSquaresSVC(C=0.0), {}),
    "C must be a finite number": (LeastSquaresSVC(C=np.inf), {}),
    "alpha must be a number >= 0": (LeastSquaresClassifier(-1.0), {}),
    "alpha must be a finite number": (LeastSquaresClassifier(np.inf), {}),
    "one class only": (LeastSquaresSVC(), {"y": np.zeros(178)}),
    "class_weight names classes": (LeastSquaresClassifier(class_weight={7: 1.0}), {}),
    "every row of positive weight is of class 1": (LeastSquaresClassifier(), {"sample_weight": (WINE[1] == 1) * 1.0}),
    "sample_weight must hold finite numbers": (LeastSquaresSVC(), {"sample_weight": np.full(178, -1.0)}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    machine, changed = BAD[message]
    with pytest.raises(ValueError, match=message):
        clone(machine).fit(**{"X": WINE[0], "y": WINE[1], **changed})
