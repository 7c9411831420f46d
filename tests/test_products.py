"""Machines trained from products with the kernel matrix, without kernel values: those of the matrix in memory."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer.solvers.dual.gradient_projection as gradient_projection
from mercer import SVC, SVDD, SVR, InseparableError, KernelSearchCV, NuSVC, NuSVR, OneClassSVM
from mercer.data import as_structured
from mercer.gram import Gram
from mercer.kernels import GappedKmer, Mismatch
from mercer.problems import c_svc
from mercer.solvers.select import select_solver

RNG = np.random.default_rng(0)
KERNEL = GappedKmer(6, 4, reverse_complement=True, alphabet="ACGT")


def reads(n, length=40, seed=0):
    """Random reads, some twice, some without any word; class 1 has a motif in three of four reads."""
    rng = np.random.default_rng(seed)
    letters = rng.choice(list("ACGT"), size=(n, length))
    y = rng.integers(0, 2, size=n)
    for i in np.flatnonzero((y == 1) & (rng.random(n) < 0.75)):
        at = rng.integers(0, length - 7)
        letters[i, at : at + 8] = list("GATTACAT")
    rows = ["".join(row) for row in letters]
    rows[n // 3] = rows[n // 2]
    return rows, y


ROWS, Y = reads(90)
NEW_ROWS = reads(20, seed=1)[0]
WEIGHTS = RNG.integers(0, 4, size=90).astype(np.float64)
MACHINES = {
    "hinge": SVC(C=1.0),
    "hinge, large C": SVC(C=1e4),
    "hinge, bias-free": SVC(C=1.0, fit_intercept=False),
    "squared hinge": SVC(loss="squared_hinge", C=1.0),
    "squared hinge, large C": SVC(loss="squared_hinge", C=1e4),
    "squared hinge, bias-free": SVC(loss="squared_hinge", C=1.0, fit_intercept=False),
    "classes with weights": SVC(C=0.5, class_weight={0: 1.0, 1: 5.0}),
    "nu": NuSVC(nu=0.3),
}
REGRESSION = {
    "tube": SVR(C=1.0, epsilon=0.1),
    "absolute": SVR(C=10.0, epsilon=0.0),
    "squared tube": SVR(loss="squared_epsilon_insensitive", C=1.0, epsilon=0.1),
    "nu tube": NuSVR(nu=0.3, C=1.0),
}


@pytest.fixture
def forced(monkeypatch):
    """Products for every problem that they can solve, however few rows there are."""
    reason = staticmethod(lambda problem, gram: "forced" if gram.product_cost and problem.n_outputs == 1 else None)
    monkeypatch.setattr(gradient_projection.GradientProjection, "reason", reason)


def both(machine, rows, y, **others):
    """The machine trained from products, and on the matrix; both to the same tolerances."""
    by_products = clone(machine).set_params(kernel=KERNEL, tol=1e-7, tol_gap=1e-8).fit(rows, y, **others)
    K = KERNEL.block(as_structured(rows), as_structured(rows))
    return by_products, clone(by_products).set_params(kernel="precomputed").fit(K, y, **others), K


def values(machine, X):
    return machine.decision_function(X) if hasattr(machine, "decision_function") else machine.predict(X)


def assert_equal(by_products, on_matrix, K, rows):
    a, b = by_products.certificate_, on_matrix.certificate_
    assert str(a.status) == str(b.status) == "optimal"
    assert a.primal == pytest.approx(b.primal, rel=2e-8)
    assert a.dual == pytest.approx(b.dual, rel=2e-8)
    expected = values(on_matrix, K)
    np.testing.assert_allclose(values(by_products, rows), expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("name", MACHINES)
def test_classifiers_are_those_of_the_matrix(forced, name, weights):
    machines = both(MACHINES[name], ROWS, Y, sample_weight=weights)
    assert_equal(*machines, ROWS)
    # The matrix has the same objective at the coefficients from products, so that no product is wrong.
    by_products, _, K = machines
    beta = np.zeros(len(ROWS))
    beta[by_products.support_] = by_products.dual_coef_.ravel()
    expected = K @ beta + by_products.intercept_
    np.testing.assert_allclose(by_products.decision_function(ROWS), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", REGRESSION)
def test_regressors_are_those_of_the_matrix(forced, name):
    assert_equal(*both(REGRESSION[name], ROWS, Y + RNG.normal(size=90), sample_weight=WEIGHTS), ROWS)


@pytest.mark.parametrize("machine", [OneClassSVM(nu=0.3), SVDD(C=0.1)], ids=["one class", "ball"])
def test_machines_without_labels_are_those_of_the_matrix(forced, machine):
    assert_equal(*both(machine, ROWS, None), ROWS)


@pytest.mark.parametrize("joint", [False, True], ids=["pairs", "joint"])
def test_several_classes_are_those_of_the_matrix(forced, joint):
    machine = SVC(C=2.0, multi_class="joint") if joint else SVC(C=2.0)
    assert_equal(*both(machine, ROWS, np.arange(90) % 4), ROWS)


def test_infinite_c_is_that_of_the_matrix(forced):
    rows = sorted(set(ROWS))
    y = np.arange(len(rows)) % 2
    for bias in (True, False):
        assert_equal(*both(SVC(C=np.inf, fit_intercept=bias), rows, y), rows)
    with pytest.raises(InseparableError):
        SVC(kernel=KERNEL, C=np.inf).fit([*rows, rows[0]], [*y, 1 - y[0]])


def test_one_row_against_all_others(forced):
    y = np.zeros(90, dtype=int)
    y[7] = 1
    for C in (1e-3, 1.0, 1e5):
        assert_equal(*both(SVC(C=C), ROWS, y), ROWS)


def test_a_stalled_point_is_finished_on_working_sets(forced, monkeypatch):
    monkeypatch.setattr(gradient_projection, "_HALVING_PRODUCTS", 1)
    solution = SVC(kernel=Mismatch(3, 1), C=1e5, tol=1e-9).fit(ROWS, Y).solution_
    assert solution.solver == "working-set SMO"
    assert solution.reason.endswith("gradient projection and conjugate gradients made no more progress")
    assert str(solution.status) == "optimal"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_limits_and_callbacks_stop_products(forced):
    seen = []
    machine = SVC(kernel=KERNEL, C=1e6, tol=1e-12, max_iter=3, callback=seen.append).fit(ROWS, Y)
    assert str(machine.certificate_.status) == "max_iter"
    assert machine.n_iter_[0] <= 4
    assert seen
    stopped = clone(machine).set_params(max_iter=-1, callback=lambda progress: progress.n_iter > 2).fit(ROWS, Y)
    assert str(stopped.certificate_.status) == "interrupted"


class FreeValues(Gram):
    """A matrix whose values cost so much that products are always faster."""

    product_cost = (1e-9, 1.0)


def test_searches_train_from_products_if_matrices_are_slower(monkeypatch, forced):
    monkeypatch.setattr("mercer.model_selection.search.shared_fits.products_are_faster", lambda *_: True)
    kernel, folds = GappedKmer(8, 5, reverse_complement=True), {"cv": 3, "n_jobs": 1}
    settings = SVC(kernel=kernel, tol=1e-6), {"C": [0.1, 1.0]}
    search = KernelSearchCV(*settings, **folds).fit(ROWS, Y)
    assert search.reason_.startswith("machines are trained from products")
    scores = GridSearchCV(*settings, **folds).fit(ROWS, Y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores, atol=1e-12)
    several = KernelSearchCV(*settings, **folds).fit(ROWS, np.arange(90) % 3)
    assert "each fold has a matrix" in several.reason_


def test_products_are_chosen_by_cost_and_memory():
    rows, y = reads(600, length=200)
    kernel = GappedKmer(8, 5, reverse_complement=True, alphabet="ACGT")
    problem, X = c_svc(np.where(y == 1, 1, -1), 1.0), as_structured(rows)
    chosen, reason = select_solver(problem, Gram(kernel, X))
    assert chosen.name.startswith("gradient projection")
    assert "a product with the kernel matrix takes" in reason
    chosen, reason = select_solver(problem, Gram(kernel, X, memory_limit=1 << 21))
    assert chosen.name == "working-set SMO"
    assert reason.endswith("bytes, more than a quarter of the limit")
    singular = GappedKmer(3, 2, normalized=False, alphabet="ACGT")  # 64 words, and so rank 64
    for squared in (False, True):
        chosen, _ = select_solver(c_svc(np.where(y == 1, 1, -1), 1.0, squared=squared), FreeValues(singular, X))
        assert chosen.name.startswith("gradient projection") == squared
    few = select_solver(c_svc([-1, 1], 1.0), Gram(kernel, as_structured(rows[:2])))[0]
    assert few.name == "working-set SMO"
