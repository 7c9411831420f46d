"""`forget` and `partial_fit`: the machine equals one that is trained on its current rows."""

import gc
import pickle
import re
import signal
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mercer import SVC, SVR, IndefiniteKernelWarning, InseparableError, KernelSearchCV, NuSVC, NuSVR, OneClassSVM
from mercer.certificates.evaluation import carry_over, evaluate
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import RBF, Spectrum
from mercer.problems import c_svc, epsilon_svr
from mercer.solvers import Control, Limits, solve

MACHINES = {
    "SVC": SVC,
    "SVC, squared hinge": lambda **given: SVC(loss="squared_hinge", **given),
    "SVC without bias": lambda **given: SVC(fit_intercept=False, **given),
    "SVR": lambda **given: SVR(epsilon=0.2, **given),
    "SVR, epsilon 0": lambda **given: SVR(epsilon=0.0, **given),
    "SVR, squared": lambda **given: SVR(epsilon=0.2, loss="squared_epsilon_insensitive", **given),
    "SVR without bias": lambda **given: SVR(fit_intercept=False, **given),
}
TIGHT = 1e-9


def table(seed, n, kind="random"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if kind == "grid":  # many equal rows
        X = np.round(X)
    score = X[:, 0] + 0.7 * rng.normal(size=n)
    y = np.where(score > (1.0 if kind == "unbalanced" else 0.0), 1, 0)
    y[:4] = 0, 1, 0, 1
    weights = rng.integers(0, 4, n).astype(float) if kind == "weighted" else np.ones(n)
    weights[:4] = 1.0
    return X, y, score, weights


def values(machine, X):
    return machine.predict(X) if isinstance(machine, SVR) else machine.decision_function(X)


def assert_same(machine, other, X):
    """Check that two machines agree to 1e-6 of the largest decision value, and that the first is certified optimal."""
    actual, wanted = values(machine, X), values(other, X)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-6 * max(1.0, np.abs(wanted).max()))
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.verify().status is Status.OPTIMAL
    assert machine.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 50),
    k=st.integers(1, 8),
    kind=st.sampled_from(["random", "grid", "unbalanced", "weighted"]),
    log_C=st.floats(-3.0, 3.0),
    kernel=st.sampled_from(["rbf", "linear", "poly", "laplacian"]),
)
def test_forget_equals_a_fit_without_the_rows_and_partial_fit_undoes_it(name, seed, n, k, kind, log_C, kernel):
    X, y, score, weights = table(seed, n, kind)
    y = score if name.startswith("SVR") else y
    machine = MACHINES[name](C=10.0**log_C, kernel=kernel, gamma=0.3, tol=TIGHT)
    gone = np.random.default_rng(seed).choice(np.arange(4, n), k, replace=False)
    left = np.setdiff1d(np.arange(n), gone)
    full_fit = clone(machine).fit(X, y, sample_weight=weights)
    assert machine.fit(X, y, sample_weight=weights).forget(gone) is machine
    assert_same(machine, clone(machine).fit(X[left], y[left], sample_weight=weights[left]), X)
    assert machine.shape_fit_ == (n - k, 3)
    machine.partial_fit(X[gone], y[gone], sample_weight=weights[gone])
    assert_same(machine, full_fit, X)
    assert machine.shape_fit_ == (n, 3)


def test_rounding_does_not_define_the_bias():
    """After the row is removed no variable is free, but one is within 1e-16 of its bound."""
    X, _, score, _ = table(1, 12)
    machine = SVR(epsilon=0.2, C=10.0**-0.1796875, kernel="laplacian", gamma=0.3, tol=TIGHT)
    gone = np.random.default_rng(1).choice(np.arange(4, 12), 1)
    left = np.setdiff1d(np.arange(12), gone)
    assert_same(clone(machine).fit(X, score).forget(gone), machine.fit(X[left], score[left]), X)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("C", [0.05, 1.0, 300.0])
def test_partial_fit_row_by_row_equals_fit(name, C):
    X, y, score, _ = table(1, 40)
    y = score if name.startswith("SVR") else y
    machine = MACHINES[name](C=C, gamma=0.3, tol=TIGHT)
    classes = {} if name.startswith("SVR") else {"classes": [0, 1]}
    for i in range(40):
        machine.partial_fit(X[[i]], y[[i]], **classes)
    assert_same(machine, clone(machine).fit(X, y), X)


@pytest.mark.parametrize("tol", [1e-3, TIGHT])
def test_batches_of_any_size_are_certified_at_any_tolerance(tol):
    X, y, _, _ = table(2, 700)
    machine = SVC(C=10.0, gamma=0.3, tol=tol).partial_fit(X[:300], y[:300], classes=[0, 1])
    machine.partial_fit(X[300:310], y[300:310]).partial_fit(X[310:], y[310:]).forget(np.arange(650))
    other = SVC(C=10.0, gamma=0.3, tol=TIGHT).fit(X[650:], y[650:])
    np.testing.assert_allclose(values(machine, X), values(other, X), atol=1e-6 if tol == TIGHT else 10 * tol)
    assert machine.certificate_.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("C", "gamma", "solver"),
    [(1.0, 0.05, "incremental update"), (100.0, 5.0, "working-set SMO")],  # few free variables; then most are free
)
def test_large_machines_use_either_method(C, gamma, solver):
    X, y, _, _ = table(3, 2600)
    machine = SVC(C=C, gamma=gamma, tol=1e-6).fit(X[:2500], y[:2500])
    gone = machine.support_[::40][:30]
    machine.forget(gone)
    assert machine.solution_.solver == solver
    left = np.setdiff1d(np.arange(2500), gone)
    other = SVC(C=C, gamma=gamma, tol=1e-6).fit(X[left], y[left])
    np.testing.assert_allclose(values(machine, X), values(other, X), atol=1e-4)
    machine.partial_fit(X[2500:], y[2500:])
    assert machine.solution_.solver == solver
    assert machine.certificate_.verify().status is Status.OPTIMAL
    assert machine.certificate_.n_iter == machine.n_iter_[0] > 0


def test_attributes_are_those_of_a_fit_to_the_rows_that_are_held():
    X, y, _, _ = table(4, 80)
    gone = np.arange(5, 60, 7)
    left = np.setdiff1d(np.arange(80), gone)
    machine = SVC(gamma=0.3, tol=TIGHT).fit(X, y).forget(gone)
    other = SVC(gamma=0.3, tol=TIGHT).fit(X[left], y[left])
    for name in ("support_", "support_vectors_", "n_support_", "classes_", "shape_fit_"):
        np.testing.assert_array_equal(getattr(machine, name), getattr(other, name))
    np.testing.assert_allclose(machine.dual_coef_, other.dual_coef_, atol=1e-7)
    assert machine.intercept_ == pytest.approx(other.intercept_, abs=1e-7)
    mask = np.zeros(left.size, dtype=bool)
    mask[:6] = True
    assert machine.forget(mask).shape_fit_ == (left.size - 6, 3)
    before = machine.machines_
    assert machine.forget([]).machines_ is before


@pytest.mark.parametrize("scheme", ["ovo", "ovr", "joint"])
def test_several_classes(scheme):
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    machine = SVC(C=5.0, gamma=0.3, tol=TIGHT, multi_class=scheme).fit(X, y)
    untouched = machine.machines_.solutions[len(machine.machines_.solutions) - 1]
    machine.forget([3, 4])
    assert_same(machine, clone(machine).fit(np.delete(X, [3, 4], 0), np.delete(y, [3, 4])), X)
    machine.partial_fit(X[[3, 4]], y[[3, 4]])
    assert_same(machine, clone(machine).fit(X, y), X)
    if scheme == "ovo":  # the machine for the classes b and c does not change
        assert machine.machines_.solutions[2].beta is untouched.beta
        assert machine.machines_.solutions[0].solver == "incremental update"


@pytest.mark.parametrize("scheme", ["ovo", "ovr", "joint"])
def test_classes_may_come_later(scheme):
    X, y = load_iris(return_X_y=True)
    machine = SVC(C=5.0, gamma=0.3, tol=TIGHT, multi_class=scheme)
    machine.partial_fit(X[:30], y[:30], classes=[2, 1, 0])
    assert machine.certificate_.status is Status.OPTIMAL
    if scheme != "joint":
        np.testing.assert_array_equal(machine.predict(X), 0)
    machine.partial_fit(X[50:80], y[50:80], classes=[0, 1, 2])
    np.testing.assert_array_equal(np.unique(machine.predict(X[:100])), [0, 1])
    assert machine.certificate_.verify().status is Status.OPTIMAL
    machine.partial_fit(X[80:], y[80:]).partial_fit(X[30:50], y[30:50])
    assert_same(machine, clone(machine).fit(X, y), X)


def test_every_storage_and_kind_of_kernel():
    X, y, _, _ = table(5, 60)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    gone, left = np.array([1, 2, 50]), np.setdiff1d(np.arange(60), [1, 2, 50])
    plain = SVC(kernel="linear", tol=TIGHT).fit(X[left], y[left]).decision_function(X[left])
    for machine, rows in (
        (SVC(kernel="linear", tol=TIGHT), sp.csr_matrix(X)),
        (SVC(kernel="linear", tol=TIGHT), X.astype(np.float64)),
        (SVC(kernel=lambda a, b: a @ b.T, tol=TIGHT), X),
    ):
        machine.fit(rows, y).forget(gone)
        np.testing.assert_allclose(machine.decision_function(rows[left]), plain, atol=1e-6)
        machine.partial_fit(rows[gone], y[gone])
        assert machine.certificate_.verify().status is Status.OPTIMAL
        assert sp.issparse(machine.support_vectors_) == sp.issparse(rows)
    for matrix in (X @ X.T, sp.csr_matrix(X @ X.T)):
        machine = SVC(kernel="precomputed", tol=TIGHT).fit(matrix, y).forget(gone)
        assert machine.n_features_in_ == 57
        np.testing.assert_allclose(machine.decision_function(matrix[left][:, left]), plain, atol=1e-6)
    assert not SVC(kernel="precomputed").fit(X @ X.T, y).forget(gone)._current_rows.data.whole.shape[0] > 57
    words = ["aab", "abb", "bba", "baa", "aaa", "bbb", "aba", "bab"] * 3
    counts = np.array([word.count("ab") for word in words])
    machine = SVC(kernel=Spectrum(2), tol=TIGHT).fit(words, counts).forget([0, 5]).partial_fit(["aab", "bbb"], [1, 0])
    assert_same(machine, SVC(kernel=Spectrum(2), tol=TIGHT).fit(words, counts), words)


def test_estimated_parameters_do_not_change():
    X, y, _, _ = table(6, 60, "unbalanced")
    machine = SVC(class_weight="balanced", tol=TIGHT).fit(X, y)
    kernel, weight = machine.kernel_, machine.class_weight_
    refit = SVC(kernel=kernel, class_weight=dict(enumerate(weight)), tol=TIGHT).fit(X[10:], y[10:])
    assert_same(machine.forget(np.arange(10)), refit, X)
    assert machine.kernel_ is kernel
    assert machine.class_weight_ is weight
    refitted = SVC(class_weight="balanced", tol=TIGHT).fit(X[10:], y[10:])
    assert np.abs(refitted.decision_function(X) - machine.decision_function(X)).max() > 1e-3
    assert machine.set_params(C=7.0).forget([0]).C_ == 1.0  # forget uses the parameters of the last fit


def test_probabilities_are_calibrated_again():
    X, y, _, _ = table(7, 80)
    machine = SVC(gamma=0.3, tol=TIGHT, probability=True).fit(X, y).forget([5, 6, 7])
    other = clone(machine).fit(np.delete(X, [5, 6, 7], 0), np.delete(y, [5, 6, 7]))
    np.testing.assert_allclose(machine.predict_proba(X), other.predict_proba(X), atol=1e-6)
    with pytest.warns(ConvergenceWarning, match="ended as `time_limit`"):
        machine.set_params(max_seconds=0.0).forget([0])
    with pytest.raises(NotFittedError):  # decision values of a machine without some of its rows would be wrong
        machine.predict_proba(X)


def test_rows_of_weight_0_are_kept_without_effect():
    X, y, _, _ = table(8, 40)
    weights = np.ones(40)
    weights[10:20] = 0.0
    machine = SVC(gamma=0.3, tol=TIGHT).fit(X, y, sample_weight=weights).forget([0, 12])
    left = np.setdiff1d(np.arange(40), [0, *range(10, 20)])
    assert_same(machine, SVC(gamma=0.3, tol=TIGHT).fit(X[left], y[left]), X)
    assert machine.shape_fit_ == (38, 3)
    machine.partial_fit(X[:5], y[:5], sample_weight=np.zeros(5))
    assert_same(machine, SVC(gamma=0.3, tol=TIGHT).fit(X[left], y[left]), X)


def test_a_pickle_contains_rows_once_they_are_needed():
    X, y, score, _ = table(9, 200)
    fitted = SVC(gamma=0.3, tol=TIGHT).fit(X, y)
    plain = len(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="training rows of this SVC are not at hand: it was pickled, or trained by a"):
        pickle.loads(pickle.dumps(fitted)).forget([0])
    for machine, target in ((fitted, y), (SVR(gamma=0.3, tol=TIGHT).fit(X, score), score)):
        machine.forget([0, 1])
        again = pickle.loads(pickle.dumps(machine)).partial_fit(X[:2], target[:2])
        assert_same(again, clone(machine).fit(X, target), X)
    assert len(pickle.dumps(fitted)) > plain + X.nbytes
    assert len(pickle.dumps(fitted.fit(X, y))) < plain + X.nbytes
    learned = SVC(gamma=0.3).partial_fit(X, y, classes=[0, 1])
    assert pickle.loads(pickle.dumps(learned)).forget([0]).certificate_.status is Status.OPTIMAL


def test_forgotten_rows_leave_no_trace():
    X, y = load_iris(return_X_y=True)
    machine = SVC(gamma=0.3).fit(X.copy(), y).forget([0])
    refit = weakref.ref(machine._current_rows.data)
    machine.forget([0, 70])
    gc.collect()
    assert refit() is None
    assert machine._current_rows.data.n == 147


def test_batches_are_copied():
    X, y, _, _ = table(10, 60)
    machine, buffer = SVC(gamma=0.3, tol=TIGHT), np.empty((20, 3))
    for first in range(0, 60, 20):
        buffer[:] = X[first : first + 20]
        machine.partial_fit(buffer, y[first : first + 20], classes=[0, 1])
    assert_same(machine, SVC(gamma=0.3, tol=TIGHT).fit(X, y), X)


def test_results_do_not_depend_on_threads_or_memory():
    X, y, _, _ = table(11, 900)
    one, two = (SVC(C=3.0, gamma=0.3, n_jobs=n).fit(X, y).forget(np.arange(5, 30)) for n in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    tight = SVC(C=3.0, gamma=0.3, tol=TIGHT, memory_limit=0).fit(X, y).forget(np.arange(5, 30))
    other = SVC(C=3.0, gamma=0.3, tol=TIGHT).fit(np.delete(X, np.arange(5, 30), 0), np.delete(y, np.arange(5, 30)))
    assert_same(tight, other, X)


@pytest.mark.parametrize(
    ("limit", "status"),
    [({"max_seconds": 0.0}, Status.TIME_LIMIT), ({"max_iter": 1}, Status.MAX_ITER)],
)
def test_certificates_are_true_after_a_limit(limit, status):
    X, y, _, _ = table(12, 300)
    machine = SVC(C=10.0, gamma=0.3).fit(X, y)
    gone = machine.support_[:20]
    with pytest.warns(ConvergenceWarning, match=f"ended as `{status}`"):
        machine.set_params(**limit).forget(gone)
    assert machine.shape_fit_ == (280, 3)
    fitted, proved = machine.certificate_, machine.certificate_.verify()
    assert fitted.status is proved.status is status
    assert fitted.kkt_violation == pytest.approx(proved.kkt_violation, abs=1e-10)
    assert fitted.primal - fitted.dual == pytest.approx(proved.primal - proved.dual, rel=1e-6)
    machine.set_params(max_seconds=None, max_iter=-1, tol=TIGHT).forget([0])
    left = np.setdiff1d(np.arange(300), gone)[1:]
    assert_same(machine, SVC(C=10.0, gamma=0.3, tol=TIGHT).fit(X[left], y[left]), X)


def test_a_callback_or_control_c_stops_and_a_second_one_takes_all_back():
    X, y, _, _ = table(13, 300)
    machine = SVC(C=10.0, gamma=0.3).fit(X, y)
    gone = machine.support_[:20]
    with pytest.warns(ConvergenceWarning, match="ended as `interrupted`"):
        machine.set_params(callback=lambda progress: True).forget(gone)
    assert machine.certificate_.verify().kkt_violation == pytest.approx(machine.certificate_.kkt_violation, abs=1e-10)
    machine.set_params(callback=None).fit(X, y)
    before, decided = machine.machines_, machine.decision_function(X)

    def insist(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        machine.set_params(callback=insist).forget(gone)
    assert machine.machines_ is before
    np.testing.assert_array_equal(machine.decision_function(X), decided)
    assert machine.set_params(callback=None).forget(gone).shape_fit_ == (280, 3)


def test_a_callback_that_stops_one_machine_stops_those_after_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 4, 200)
    machine, stages = SVC(C=10.0, gamma=0.3).fit(X[:190], y[:190]), []

    def stop(progress):
        stages.append(progress.stage)
        return True

    with pytest.warns(ConvergenceWarning, match="ended as `interrupted`"):
        machine.set_params(callback=stop).partial_fit(X[190:], y[190:])
    assert stages == ["machine 1 of 6"]


def test_a_row_that_cannot_be_separated_is_not_learned():
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    machine = SVC(C=np.inf, kernel="linear").fit(X, [0, 0, 1, 1])
    with pytest.raises(InseparableError):
        machine.partial_fit([[5.0]], [0])
    assert machine.shape_fit_ == (4, 1)
    machine.forget([1])
    np.testing.assert_allclose(machine.decision_function([[1.5]]), 0.0, atol=1e-6)
    assert machine.certificate_.status is Status.OPTIMAL


def test_kernels_without_a_proof_are_stationary_at_best():
    X, y, _, _ = table(14, 60)
    with pytest.warns(IndefiniteKernelWarning):
        machine = SVC(kernel="sigmoid", gamma=0.5, coef0=1.0).fit(X, y)
    with pytest.warns(IndefiniteKernelWarning):
        machine.forget([3])
    assert machine.certificate_.status is Status.STATIONARY
    assert machine.certificate_.verify().status is Status.STATIONARY


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 80], "rows must lie between 0 and 79, the rows that the machine holds, got 80."),
        ([-1], "rows must lie between 0 and 79, the rows that the machine holds, got -1."),
        ([3, 4, 3], "rows must name each row once, got row 3 more than once."),
        ([0.5], "rows must be indices of rows, or a mask with one bool for each of the 80 rows"),
        ([[1, 2]], "rows must be indices of rows, or a mask"),
        ([True, False], "rows must be indices of rows, or a mask"),
        (range(80), "rows must leave some, but are all 80 rows that the machine was trained on"),
        ("ones", "rows must leave some of every class, but hold all that the machine was trained on of class 1:"),
    ],
)
def test_rows_that_cannot_be_forgotten(rows, message):
    X, y, _, _ = table(15, 80)
    machine = SVC(gamma=0.3).fit(X, y)
    before = machine.machines_
    with pytest.raises(ValueError, match=re.escape(message)):
        machine.forget(np.flatnonzero(y == 1) if rows == "ones" else rows)
    assert machine.machines_ is before
    assert machine.forget([0]).shape_fit_ == (79, 3)


def first(**given):
    return lambda X, y: SVC(**given).partial_fit(X, y, classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda X, y: SVC().partial_fit(X, y), "classes must name all classes at the first call of partial_fit"),
        (lambda X, y: SVC().partial_fit(X, y, classes=[0]), "classes must name at least two classes, got [0]."),
        (
            lambda X, y: SVC().partial_fit(X, y + 5, classes=[0, 1]),
            "y holds classes that the machine does not know: [5, 6]; it knows [0, 1]. Name all classes",
        ),
        (lambda X, y: SVC().fit(X, y).partial_fit(X, y + 1), "does not know: [2]; it knows [0, 1]"),
        (
            lambda X, y: SVC().fit(X, y).partial_fit(X, y, classes=[0, 1, 2]),
            "classes must be those of the first call, [0, 1], or None, got [0, 1, 2].",
        ),
        (lambda X, y: SVC().fit(X, y).partial_fit(X[:, :2], y), "X has 2 features"),
        (first(class_weight="balanced"), "of the first batch, which has no row of class 2: give a mapping"),
        (
            first(probability=True),
            "probability=True calibrates on rows of every class, but there is no row yet of class 2",
        ),
        (first(C=np.inf), "C = inf separates rows of every class, but the first batch has no row of class 2:"),
        (
            lambda X, y: SVC().partial_fit(X, y, classes=[0, 1], sample_weight=np.zeros(len(y))),
            "sample_weight must be positive in one row at least",
        ),
        (
            lambda X, y: SVC(kernel="precomputed").fit(X @ X.T, y).partial_fit(X @ X.T, y),
            "partial_fit cannot add rows to a machine on a precomputed kernel",
        ),
        (
            lambda X, y: KernelSearchCV(SVC(), C=[1.0], cv=2).fit(X, y).best_estimator_.forget([0]),
            "",
        ),
    ],
)
def test_rows_that_cannot_be_learned(act, message):
    X, y, _, _ = table(16, 40)
    if not message:
        act(X, y)  # its best machine has its own training rows
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        act(X, y)


def test_a_machine_must_be_fitted_to_forget():
    with pytest.raises(NotFittedError):
        SVC().forget([0])
    with pytest.raises(NotFittedError):
        SVR().forget([0])


@pytest.mark.parametrize("kind", [NuSVC, NuSVR, OneClassSVM])
def test_nu_machines_have_no_forget_and_partial_fit(kind):
    assert not hasattr(kind, "forget")
    assert not hasattr(kind, "partial_fit")


def test_an_updated_evaluation_equals_a_new_one():
    X, y, _, _ = table(17, 900)
    signs = 2.0 * y - 1.0
    gram = Gram(RBF(gamma=0.3), as_data(X[:800]))
    problem = c_svc(signs[:800], 3.0)
    beta = solve(problem, gram, control=Control(Limits(tol=1e-6))).beta
    origin = np.concatenate([np.arange(50, 800), np.full(100, -1)])
    later, later_gram = c_svc(signs[50:], 3.0), Gram(RBF(gamma=0.3), as_data(X[50:]))
    carried = carry_over(evaluate(problem, gram, beta), problem, gram, later, later_gram, origin)
    point = np.concatenate([beta[50:], np.zeros(100)])
    np.testing.assert_array_equal(carried.evaluated_point.beta, point)
    exact = later_gram.block() @ point
    assert np.abs(carried.values - exact)[carried.evaluated_point.value_error == 0.0].max() <= carried.rounding
    assert (np.abs(carried.values - exact) <= carried.evaluated_point.value_error + carried.rounding).all()
    assert carried.dual_infeasibility == pytest.approx(abs(point.sum()))


def test_changed_limits_hold_for_machines_without_changed_rows_too():
    X, y = load_iris(return_X_y=True)
    X = X + 0.5 * np.random.default_rng(0).normal(size=X.shape)
    with pytest.warns(ConvergenceWarning, match="ended as `max_iter`"):
        machine = SVC(C=100.0, gamma=0.5, max_iter=1).fit(X, y)
    machine.set_params(max_iter=-1, tol=TIGHT).forget([0])
    assert_same(machine, clone(machine).fit(X[1:], y[1:]), X)
    assert [part.tol for part in machine.certificate_.parts] == [TIGHT] * 3


def test_accumulated_rounding_does_not_prevent_the_tolerance():
    X, _, score, _ = table(18, 60)
    machine = SVR(C=100.0, kernel="poly", degree=2, epsilon=0.1, tol=TIGHT).fit(30.0 * X, score)
    left = np.arange(60)
    for row in range(20):
        machine.forget([row])
        left = left[left != row]
        assert machine.certificate_.status is machine.certificate_.verify().status


def test_a_tube_that_holds_all_rows_that_are_left_has_no_free_variable():
    X, _, score, _ = table(19, 40)
    outside = np.array([7, 20])
    score = np.clip(score, -0.1, 0.1)
    score[outside] = 3.0, -3.0
    machine = SVR(epsilon=0.5, C=1.0, gamma=0.3, loss="squared_epsilon_insensitive", tol=TIGHT)
    machine.fit(X, score).forget(outside)
    assert machine.support_.size == 0
    assert_same(machine, clone(machine).fit(np.delete(X, outside, 0), np.delete(score, outside)), X)


def test_points_stay_in_boxes_narrower_than_rounding():
    X, y, _, _ = table(20, 40)
    weights = np.where(np.arange(40) % 3 == 0, 1e-17, 1.0)
    machine = SVC(C=1e3, gamma=0.3, tol=TIGHT).fit(X, y, sample_weight=weights).forget([1])
    assert_same(machine, clone(machine).fit(np.delete(X, 1, 0), np.delete(y, 1), np.delete(weights, 1)), X)


def test_ends_of_the_interval_of_biases_are_in_double_precision():
    """Equally many rows are above and below the tube, all at their bound; no variable is free."""
    rng = np.random.default_rng(21)
    X, y = rng.normal(size=(1200, 4)), np.repeat(rng.normal(size=600), 2) * np.tile([1.0, -1.0], 600)
    rows = Gram(RBF(gamma=0.3), as_data(X))

    def part(chosen):
        problem = epsilon_svr(y[chosen], 2e-5, 0.7)
        return problem, rows.restrict(chosen).restrict(problem.rows)

    problem, gram = part(np.arange(1200))
    beta = solve(problem, rows, control=Control(Limits(tol=1e-6))).beta
    evaluation = evaluate(problem, gram, beta)
    assert evaluation.n_free == 0 < evaluation.evaluated_point.value_error.max()
    # The rows that define the ends of the interval are removed.
    left = np.flatnonzero((np.abs(y) < 0.6) | (np.abs(y) > 0.9))
    later, later_gram = part(left)
    origin = np.concatenate([left, 1200 + left])
    carried = carry_over(evaluation, problem, gram, later, later_gram, origin)
    wanted = evaluate(later, later_gram, beta[origin])
    assert carried.bias == pytest.approx(wanted.bias, abs=1e-14)
