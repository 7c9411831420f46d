"""Certificates: recomputed in plain NumPy on difficult tables, never too optimistic, and correct at any point."""

import pickle
import signal
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

import plain
from cases import PROBLEMS, WAYS, blobs, hostile_tables, laplacian
from mercer import SVC
from mercer._core import CompiledKernel
from mercer.certificates.certificate import Certificate, combine, relative_gap, worst_status
from mercer.certificates.evaluation import conditions_of, evaluate
from mercer.certificates.quadratic import conclude, numbers_of
from mercer.certificates.roundoff import is_certain, rounding_of_sums
from mercer.certificates.screening import Plan, SolverValues, TrackedGradient
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram import Gram, matrix
from mercer.gram.backends import NativeBackend
from mercer.kernels import RBF, Callable, ChiSquared, Linear, Op, Polynomial, Sigmoid, center
from mercer.problems import c_svc, epsilon_svr, nearest_points
from mercer.solvers import Control, Limits, WorkingSetSolver, solve
from mercer.solvers.certified_rounds import solve_certified
from pairs import every_pair

HOSTILE = hostile_tables()
FORMULAS = {
    "linear": (Linear(), plain.linear),
    "cubic": (Polynomial(3, 0.5, 1.0), lambda A, B: plain.polynomial(A, B, 3, 0.5, 1.0)),
    "gaussian": (RBF(gamma=0.5), lambda A, B: plain.gaussian(A, B, 0.5)),
}
every_kernel = pytest.mark.parametrize("kernel", FORMULAS)
EPS = np.finfo(float).eps


def solved(X, y, C, kernel, **limits):
    return solve(c_svc(y, C), Gram(kernel, as_data(X)), control=Control(Limits(**limits)))


def check(solution, X, y, C, formula, distances=0.0):
    """Check every number of the certificate against the textbook; return the textbook's numbers."""
    certificate, beta = solution.certificate, solution.beta
    textbook = plain.figures(formula(X, X), y, C, beta, solution.bias)
    # Tiles compute distances from norms and products, which loses further digits: the factor `distances`.
    value = 64 * EPS * textbook.scale * (1.0 + distances)  # error of a decision value
    assert certificate.kkt_violation == pytest.approx(textbook.violation, rel=0, abs=2 * value)
    size = np.abs(beta).sum()
    # The stated dual is the dual objective less its own rounding error, so that it is a lower bound.
    room = value * size + 1e-12 * size
    assert certificate.dual <= textbook.dual + room
    assert certificate.dual >= textbook.dual - room - 1.01 * certificate.decision_error * size - 1e-12 * abs(
        textbook.dual
    )
    slack = value * (size + np.sum(np.broadcast_to(C, y.shape))) + 1e-12 * (abs(textbook.primal) + size)
    assert certificate.primal == pytest.approx(textbook.primal, rel=0, abs=slack)
    assert certificate.gap == certificate.primal - certificate.dual
    assert certificate.gap >= -slack
    assert solution.bias == pytest.approx(textbook.bias, rel=0, abs=2 * value)
    assert textbook.infeasibility <= 1e-9 * max(1.0, size)
    assert certificate.dual_infeasibility == pytest.approx(textbook.infeasibility, rel=1e-3, abs=1e-15 * size)
    at_bound = np.abs(beta) == np.broadcast_to(C, y.shape)
    assert certificate.n_bounded == at_bound.sum()
    assert certificate.n_free == ((beta != 0) & ~at_bound).sum()
    assert certificate.n_support == np.count_nonzero(beta)
    if certificate.status is Status.OPTIMAL:
        assert certificate.kkt_violation <= certificate.tol
    return textbook


def distance_digits(X, kernel):
    """The ratio of the squared norms of centred rows to a squared distance that matters to the kernel."""
    return float(kernel.gamma * ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()) if isinstance(kernel, RBF) else 0.0


@every_pair(name=HOSTILE, kernel=FORMULAS, C=[1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_reproduced_on_hostile_tables(name, kernel, C):
    X, y = HOSTILE[name]
    kernel, formula = FORMULAS[kernel]
    solution = solved(X, y, C, kernel, tol=1e-6)
    check(solution, X, y, C, formula, distance_digits(X, kernel))
    certificate = solution.certificate
    assert certificate.status in (Status.OPTIMAL, Status.STALLED)
    if certificate.status is Status.STALLED:
        # The solver may stall only because of rounding.
        if not solution.beta.any():  # it has found no point better than 0
            assert name == "huge"
            return
        assert certificate.decision_error > 1e-8
        assert certificate.kkt_violation <= max(1e-6, 1e3 * certificate.decision_error)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3, 1.0, 1.0)], ids=repr)
@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_overflow_is_an_error(kernel, size):
    X, y = blobs()
    with pytest.raises(ValueError, match=r"not finite: they overflow double precision.* scale the columns"):
        solved(X * size, y, 1.0, kernel)


@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_rows_infinitely_far_apart_have_nothing_in_common(size):
    X, y = blobs()
    solution = solved(X * size, y, 1.0, RBF(gamma=1.0))
    assert solution.certificate.status is Status.OPTIMAL
    np.testing.assert_array_equal(solution.evidence.gram().block(), np.eye(len(y)))


@every_pair(
    stored=[np.asarray, np.asfortranarray, np.float32, sp.csr_array], n=[300, 2300], given=[(1e5, 10.0), (1.0, 1e3)]
)
def test_reproduced_on_tight_clusters_far_apart(stored, n, given):
    gamma, C = given
    # Distances within a cluster are lost to rounding in ||x||^2 + ||z||^2 - 2 <x, z>.
    rng = np.random.default_rng(0)
    X = rng.choice([-1e3, 1e3], size=(n, 1)) + 1e-2 * rng.normal(size=(n, 5))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    data = as_data(stored(X))
    solution = solve(c_svc(y, C), Gram(RBF(gamma=gamma), data), control=Control(Limits(tol=1e-6)))
    A = X.astype(np.float32).astype(float) if stored is np.float32 else X
    g = np.exp(-gamma * cdist(A, A, "sqeuclidean")) @ solution.beta - y
    can_grow, can_shrink = solution.beta < np.where(y > 0, C, 0.0), solution.beta > np.where(y > 0, 0.0, -C)
    assert solution.status is Status.OPTIMAL
    assert g[can_shrink].max() - g[can_grow].min() <= 1e-6 + 4 * solution.certificate.decision_error


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 25),
    rounded=st.booleans(),
    kernel=st.sampled_from(list(FORMULAS)),
    exponent=st.integers(-4, 5),
    weighted=st.booleans(),
)
def test_reproduced_on_any_table(seed, n, rounded, kernel, exponent, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X = np.round(X) if rounded else X
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    C = 10.0**exponent * (rng.choice([0.01, 0.5, 1.0, 3.0], n) if weighted else np.ones(n))
    kernel, formula = FORMULAS[kernel]
    solution = solved(X, y, C, kernel, tol=1e-6)
    check(solution, X, y, C, formula)
    assert solution.status is Status.OPTIMAL or solution.certificate.decision_error > 1e-8


@every_pair(
    way=WAYS, name=["overlapping", "separable", "one against many", "every row twice, labels disagree"], kernel=FORMULAS
)
@pytest.mark.usefixtures("way")
def test_the_gap_goes_to_0_with_the_tolerance(name, kernel):
    X, y = HOSTILE[name]
    kernel, _ = FORMULAS[kernel]
    for tol in (1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8):
        certificate = solved(X, y, 3.0, kernel, tol=tol).certificate
        assert certificate.status is Status.OPTIMAL
        assert certificate.kkt_violation <= tol
        # The gap is a sum over the rows of C or alpha times a violation.
        assert -1e-12 * max(1.0, certificate.primal) <= certificate.gap <= 3.0 * y.size * tol


# Points that are not from a solver.


@pytest.mark.parametrize("case", PROBLEMS, ids=lambda case: case.name)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.0, 0.1, 10.0]))
def test_any_feasible_point_is_within_its_gap_of_the_optimum(case, seed, size):
    X, y = blobs(n=16)
    problem, gram = case.problem(y), Gram(RBF(gamma=0.5), as_data(X))
    best = solve(problem, gram, control=Control(Limits(tol=1e-9))).certificate
    point = problem.make_feasible(size * np.random.default_rng(seed).normal(size=problem.n))
    evaluation = evaluate(problem, gram if problem.rows is None else gram.restrict(problem.rows), point)
    slack = 1e-9 * max(1.0, abs(evaluation.primal), abs(evaluation.dual))
    assert evaluation.dual <= best.dual + slack
    assert best.dual - evaluation.dual <= evaluation.primal - evaluation.dual + slack
    assert evaluation.violation >= 0.0


def test_a_point_by_hand():
    # Rows -1, 1 and 3 with labels -, + and +, k(x, z) = x z, C = 1, beta = (-1/2, 1/2, 0): f(x) = x + b.
    problem, gram = c_svc([-1, 1, 1], 1.0), Gram(Linear(), as_data([[-1.0], [1.0], [3.0]]))
    evaluation = evaluate(problem, gram, np.array([-0.5, 0.5, 0.0]))
    assert evaluation.values.tolist() == [-1.0, 1.0, 3.0]
    assert evaluation.gradient.tolist() == [0.0, 0.0, 2.0]
    assert (evaluation.multipliers.tolist(), evaluation.bias, evaluation.violation) == ([0.0], 0.0, 0.0)
    assert (evaluation.primal, evaluation.dual, evaluation.relative_gap) == (0.5, 0.5, 0.0)
    assert (evaluation.n_free, evaluation.n_bounded, evaluation.dual_infeasibility) == (2, 0, 0.0)
    # At the start no variable is free: the gradient is -y, and the multiplier is the midpoint of -1 and 1.
    start = evaluate(problem, gram, np.zeros(3))
    assert (start.violation, start.bias, start.primal, start.dual) == (2.0, 0.0, 3.0, 0.0)
    # Outside the box, and with a wrong sum.
    beyond = evaluate(problem, gram, np.array([-1.25, 0.5, 0.5]))
    assert beyond.dual_infeasibility == 0.25


def test_the_bias_where_only_one_end_of_its_interval_is_known():
    # All rows are at their bounds: the bias is the midpoint. If no row can decrease, it is the other end.
    problem, gram = c_svc([-1, 1], [1.0, 1.0]), Gram(RBF(gamma=0.0), as_data([[0.0], [1.0]]))
    assert evaluate(problem, gram, np.array([-1.0, 1.0])).bias == 0.0
    lone = replace(problem, lower=np.zeros(2), upper=np.array([1.0, 0.0]))
    evaluation = evaluate(lone, gram, np.zeros(2))
    assert (evaluation.violation, evaluation.bias) == (0.0, -1.0)


def test_an_evaluation_can_be_stopped():
    class Stop(Exception):  # noqa: N818 - a request, not an error
        pass

    def check():
        raise Stop

    X, y = blobs()
    with pytest.raises(Stop):
        evaluate(c_svc(y, 1.0), Gram(Linear(), as_data(X)), np.zeros(40), check)


# What each status proves.


@pytest.mark.parametrize("ended", [Status.STALLED, Status.TIME_LIMIT, Status.INTERRUPTED, Status.MAX_ITER])
@pytest.mark.parametrize(
    ("changes", "tol_gap", "convex", "expected"),
    [
        ({}, None, True, Status.OPTIMAL),
        ({}, None, False, Status.STATIONARY),
        ({"violation": 1e-3}, None, True, Status.OPTIMAL),
        ({"violation": 1.001e-3}, None, True, None),
        ({"violation": 1.001e-3}, None, False, None),
        ({"violation": np.nan}, None, True, None),
        ({"primal": 2.0}, None, True, Status.OPTIMAL),
        ({"primal": 2.0}, 0.4, True, None),
        ({"primal": 2.0}, 0.6, True, Status.OPTIMAL),
        ({"primal": np.inf}, 1e9, True, None),
        ({"rounding": 0.9e-3}, None, True, Status.OPTIMAL),
        ({"rounding": 1.1e-3}, None, True, Status.STALLED),
        ({"rounding": 1.1e-3}, None, False, Status.STALLED),
        ({"mass": 1e6, "dual_infeasibility": 0.9e-3}, None, True, Status.OPTIMAL),
        ({"mass": 1e6, "dual_infeasibility": 1.1e-3}, None, True, None),
        ({"dual_infeasibility": 1e-12}, None, True, None),
    ],
)
def test_statuses_that_an_evaluation_proves(ended, changes, tol_gap, convex, expected):
    X, y = blobs(n=4)
    evaluation = replace(
        evaluate(c_svc(y, 1.0), Gram(Linear(), as_data(X)), np.zeros(4)),
        **{"violation": 0.0, "rounding": 0.0, "primal": 1.0, "dual": 1.0} | changes,
    )
    status = conclude(ended, c_svc(y, 1.0), evaluation, tol=1e-3, tol_gap=tol_gap, convex=convex)
    assert status is (ended if expected is None else expected)


@pytest.mark.parametrize(
    ("tol_gap", "expected"), [(0.5, Status.OPTIMAL), (0.4, Status.STALLED), (1e-4, Status.STALLED)]
)
def test_the_rounding_of_the_gap_grows_with_the_bounds(tol_gap, expected):
    X, y = blobs(n=4)
    problem = c_svc(y, 1e6)
    evaluation = replace(
        evaluate(problem, Gram(Linear(), as_data(X)), np.zeros(4)),
        **{"violation": 0.0, "rounding": 1e-7, "values": y, "primal": 1.1, "dual": 1.0, "multipliers": np.zeros(1)},
    )
    # Four rows on the margin with a penalty of 1e6 each: rounding is 0.4 of an objective of 1.1, and the gap is 0.1.
    numbers = numbers_of(evaluation, problem)
    assert (numbers.rounding, numbers.dual) == pytest.approx((0.4, 1.0), rel=1e-6)
    assert numbers.relative_gap == pytest.approx(0.1 / 1.1, rel=1e-6)
    assert conclude(Status.STALLED, problem, evaluation, tol=1e-3, tol_gap=tol_gap, convex=True) is expected


@pytest.mark.parametrize(("seed", "C", "tol_gap"), [(8, 1e7, 1e-8), (24, 1e8, 1e-7), (37, 1e8, 1e-9)])
def test_a_gap_smaller_than_its_rounding_is_not_proved(seed, C, tol_gap):
    X, y = blobs(n=20, p=2, seed=seed)
    solution = solved(X, y, C, RBF(gamma=50.0), tol=1e-3, tol_gap=tol_gap)
    certificate, beta = solution.certificate, solution.beta
    decision = np.exp(-50.0 * cdist(X, X, "sqeuclidean").astype(np.longdouble)) @ beta + solution.bias
    gap = beta @ (decision - y) + C * np.maximum(0.0, 1.0 - y * decision).sum()
    assert (certificate.status is Status.OPTIMAL) <= (gap <= tol_gap * certificate.primal)
    assert certificate.verify().status is certificate.status


def test_tol_gap_is_met_besides_tol():
    X, y = blobs()
    loose = solved(X, y, 100.0, RBF(gamma=0.5), tol=0.5).certificate
    tight = solved(X, y, 100.0, RBF(gamma=0.5), tol=0.5, tol_gap=1e-9).certificate
    assert (loose.status, tight.status) == (Status.OPTIMAL, Status.OPTIMAL)
    assert tight.relative_gap <= 1e-9


def test_an_impossible_tolerance_ends_as_stalled():
    X, y = blobs()
    certificate = solved(X, y, 1.0, Linear(), tol=1e-18).certificate
    assert certificate.status is Status.STALLED
    assert certificate.kkt_violation <= 1e-12


@pytest.mark.parametrize(
    ("kernel", "status"),
    [(Sigmoid(1.0, 1.0), Status.STATIONARY), (Callable(laplacian), Status.OPTIMAL), (Sigmoid(1e-9), Status.OPTIMAL)],
    ids=repr,
)
def test_only_convex_problems_are_called_optimal(kernel, status):
    X, y = blobs(n=30)
    solution = solved(X, y, 1.0, kernel)
    assert solution.status is status
    assert solution.certificate.kkt_violation <= 1e-3


def test_relative_gap():
    assert relative_gap(3.0, 1.0) == pytest.approx(2.0 / 3.0)
    assert relative_gap(0.5, 0.25) == 0.5
    assert relative_gap(1e-9, -1e-9) == 2.0
    assert (relative_gap(0.0, 0.0), relative_gap(-1.0, -1.0)) == (0.0, 0.0)
    assert relative_gap(0.0, -np.inf) == np.inf
    assert relative_gap(2.0, 1.0, 1.0) == 1.0
    assert relative_gap(0.5, 0.25, 1.0) == np.inf
    assert relative_gap(-1.0, -4.0) == 0.75
    assert relative_gap(np.inf, 1.0) == np.inf


def test_the_bias_is_that_of_the_mean_free_gradient():
    X, y = blobs(12)
    K = plain.linear(X, X)
    # Far from the optimum, where the free variables imply different biases.
    beta = np.where(np.arange(12) < 5, 0.25 * y, 0.0)
    evaluation = evaluate(c_svc(y, 1.0), Gram(Linear(), as_data(X)), beta)
    free = (y - K @ beta)[:5]
    assert abs(np.median(free) - free.mean()) > 0.01
    assert evaluation.bias == pytest.approx(free.mean(), rel=1e-12)


def test_rounding_counts_eight_times_what_values_may_be_off():
    eps = np.finfo(np.float64).eps
    terms, sums, last = 8.0 * 3.0 * 2.0 * 3.0, 0.25 * 4.0 * 2.0 * 7.0, 5.0
    assert rounding_of_sums(3.0, 2.0, 9.0, 5.0, 7.0, 16) == pytest.approx(eps * (terms + sums + last), rel=1e-15)
    assert [bool(is_certain(excess, 1e-4, 1e-3)) for excess in (0.0, 8e-4, 9e-4)] == [True] * 3
    assert [bool(is_certain(excess, 2e-3, 1e-3)) for excess in (-4e-3, -1e-3)] == [True, False]


@pytest.mark.parametrize("gamma", [0.3, 5.0, 15.0])
def test_rounding_covers_the_digits_that_distances_lose(gamma):
    # Two tight clusters, both far from the mean.
    rng = np.random.default_rng(0)
    X = rng.choice([-5.0, 5.0], size=(300, 1)) + 1e-2 * rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    evaluation = evaluate(c_svc(y, 1.0), Gram(RBF(gamma=gamma), as_data(X)), y)
    error = np.abs(evaluation.values - plain.gaussian(X, X, gamma) @ y).max()
    assert error <= evaluation.rounding <= 1e4 * error


@pytest.mark.slow
@given(
    name=st.sampled_from(["gaussian", "linear", "cubic"]),
    log_C=st.floats(-3.0, 3.0),
    tol=st.sampled_from([1.0, 1e-3, 1e-9]),
    max_iter=st.sampled_from([1, 10, 100, 1000]),
    offset=st.sampled_from([0.0, 10.0]),
    tied=st.booleans(),
    weighted=st.booleans(),
    hinted=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=400)
def test_single_precision_changes_nothing_that_is_certified(
    name, log_C, tol, max_iter, offset, tied, weighted, hinted, seed
):
    rng = np.random.default_rng(seed)
    X, y = blobs(120, 4, seed, distance=rng.uniform(0.0, 5.0))
    if tied:  # equal in single precision, which cannot tell which variable violates most
        X = np.repeat(X[:12], 10, axis=0) + 1e-7 * rng.normal(size=X.shape)
        y = np.repeat(y[:12], 10)
    C = 10.0**log_C * (10.0 ** rng.uniform(-1, 1, 120) if weighted else np.ones(120))
    problem, gram = c_svc(y, C), Gram(FORMULAS[name][0], as_data(X + offset))
    beta = solve(problem, gram, control=Control(Limits(tol=tol, max_iter=max_iter))).beta
    double = evaluate(problem, gram, beta)
    hint = double.gradient + rng.normal(size=120) * 10.0 ** rng.uniform(-9, 0) if hinted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.certificates.screening._FEW_VALUES", 0)
        patch.setattr("mercer.certificates.screening._MOSTLY", 1.0)
        mixed = evaluate(problem, gram, beta, solver=SolverValues(hint))
    value = 1e-9 * max(1.0, np.abs(double.values).max())
    objective = 1e-9 * max(1.0, abs(double.primal), abs(double.dual))
    assert mixed.violation == pytest.approx(double.violation, rel=0, abs=value)
    assert mixed.excess == pytest.approx(double.excess, rel=0, abs=value)
    assert mixed.bias == pytest.approx(double.bias, rel=0, abs=value)
    assert mixed.primal == pytest.approx(double.primal, rel=0, abs=objective)
    assert mixed.dual == pytest.approx(double.dual, rel=0, abs=objective)


@pytest.mark.slow
@given(
    name=st.sampled_from(list(FORMULAS)),
    n_changed=st.integers(0, 120),
    size=st.floats(-9, 0),
    few=st.sampled_from([0, 10**9]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=200)
def test_values_of_another_point_change_no_result(name, n_changed, size, few, seed):
    rng = np.random.default_rng(seed)
    X, y = blobs(120, 4, seed, distance=rng.uniform(0.0, 5.0))
    problem, gram = c_svc(y, 1.0), Gram(FORMULAS[name][0], as_data(X))
    before = solve(problem, gram, control=Control(Limits(max_iter=int(rng.integers(1, 200))))).beta
    beta, changed = before.copy(), rng.permutation(120)[:n_changed]
    moved = beta[changed] + 10.0**size * rng.normal(size=n_changed)
    beta[changed] = np.clip(moved, problem.lower[changed], problem.upper[changed])
    fresh = evaluate(problem, gram, beta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.certificates.screening._FEW_VALUES", few)
        patch.setattr("mercer.certificates.screening._MOSTLY", 1.0)
        evaluation = evaluate(problem, gram, beta, before=evaluate(problem, gram, before))
    value = 1e-9 * max(1.0, np.abs(fresh.values).max())
    objective = 1e-9 * max(1.0, abs(fresh.primal), abs(fresh.dual))
    assert (
        np.abs(evaluation.values - fresh.values) <= evaluation.evaluated_point.value_error + evaluation.rounding
    ).all()
    assert evaluation.excess == pytest.approx(fresh.excess, rel=0, abs=value)
    assert evaluation.bias == pytest.approx(fresh.bias, rel=0, abs=value)
    assert evaluation.primal == pytest.approx(fresh.primal, rel=0, abs=objective)
    assert evaluation.dual == pytest.approx(fresh.dual, rel=0, abs=objective)


@pytest.mark.slow
@given(
    log_C=st.floats(-3.0, 2.0),
    tol=st.sampled_from([1.0, 1e-3]),
    kind=st.sampled_from(["classification", "regression"]),
    worst=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=300)
def test_support_vectors_that_take_part_by_their_side_change_nothing_but_objectives(log_C, tol, kind, worst, seed):
    rng = np.random.default_rng(seed)
    X, y = blobs(150, 4, seed, distance=rng.uniform(0.0, 3.0))
    gram = Gram(RBF(gamma=0.5), as_data(X))
    if kind == "classification":
        problem = c_svc(y, 10.0**log_C * 10.0 ** rng.uniform(-1, 1, 150))
    else:
        problem = epsilon_svr(y + rng.normal(size=150), 10.0**log_C, 0.1)
    beta = solve(problem, gram, control=Control(Limits(tol=tol))).beta
    gram = gram if problem.rows is None else gram.restrict(problem.rows)
    double = evaluate(problem, gram, beta)
    # The worst errors within the bound of cached values: each moves its gradient towards the multiplier.
    bound = gram.single_precision_bound(beta)
    towards = -np.sign(double.gradient + double.bias) if worst else rng.choice([-1.0, 1.0], problem.n)
    off = 0.99 * bound * towards
    if problem.rows is not None:  # both variables of a row share its value
        off = off[: problem.n // 2][problem.rows]
    followed = np.ones(problem.n, dtype=bool)
    tracked = TrackedGradient(
        np.abs(beta), problem.n, lambda wanted: Plan(0, followed, lambda check: double.values + off)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.certificates.screening._FEW_FREE", 1.0)
        evaluation = evaluate(problem, gram, beta, solver=SolverValues(double.gradient + off, tracked), by_side=True)
    value = 1e-9 * max(1.0, np.abs(double.values).max())
    objective = 1e-9 * max(1.0, abs(double.primal), abs(double.dual))
    assert (
        np.abs(evaluation.values - double.values) <= evaluation.evaluated_point.value_error + evaluation.rounding
    ).all()
    assert evaluation.excess == pytest.approx(double.excess, rel=0, abs=value)
    assert evaluation.bias == pytest.approx(double.bias, rel=0, abs=value)
    assert evaluation.primal - evaluation.dual == pytest.approx(double.primal - double.dual, rel=0, abs=objective)
    assert evaluation.dual == pytest.approx(double.dual, rel=0, abs=evaluation.objective_error + objective)
    assert evaluation.relative_gap >= double.relative_gap - 1e-9


def soft():
    """A machine with most of its support vectors at the bound."""
    X, y = blobs(3000, 5, distance=1.0)
    return X, y, solved(X, y, 0.1, RBF(gamma=0.1))


def test_objectives_are_exact_when_read():
    X, y, solution = soft()
    left = solution.certified
    assert 0.0 < left.objective_error < 0.2 * left.dual
    assert f"known to within {left.objective_error:.2g}" in str(left)
    certificate = solution.certificate
    assert certificate is solution.certificate
    assert certificate.objective_error == 0.0
    check(solution, X, y, 0.1, lambda A, B: plain.gaussian(A, B, 0.1))
    assert certificate.dual != left.dual
    assert abs(certificate.dual - left.dual) <= left.objective_error
    assert certificate.gap == pytest.approx(left.gap, rel=0, abs=1e-12 * certificate.dual)
    assert left.relative_gap >= certificate.relative_gap - 1e-15
    assert certificate.verify().dual == pytest.approx(certificate.dual, rel=1e-12)


def test_objectives_go_with_a_solution_that_is_pickled():
    _, _, solution = soft()
    again = pickle.loads(pickle.dumps(solution))
    assert again.certificate.objective_error == 0.0
    assert again.certificate.dual == solution.certificate.dual


@pytest.mark.parametrize(("rows", "factor"), [("numbers", 1.5), ("numbers", 1.0 + 1e-6), ("integers", 1.5)])
def test_training_data_changed_after_the_fit_are_detected(rows, factor):
    X, y = blobs(3000, 16, distance=1.0)
    X = X if rows == "numbers" else np.round(20.0 * X)
    solution = solved(X, y, 0.1, RBF(gamma=0.1 if rows == "numbers" else 2e-4))
    assert solution.certified.objective_error > 0.0
    X *= factor
    with pytest.warns(RuntimeWarning, match="the training data have changed since the fit"):
        certificate = solution.certificate
    assert certificate is solution.certified


def test_late_evaluations_reuse_or_rebuild_the_backend(monkeypatch):
    X, y, solution = soft()
    made = []
    select = matrix.select_backend
    monkeypatch.setattr(matrix, "select_backend", lambda *some, **others: made.append(0) or select(*some, **others))
    assert solution.certificate.objective_error == 0.0
    assert not made  # the values of the fit are used
    solution.certificate.examples()
    assert made  # the values are computed from the data as they are now
    for data in (sp.csr_array(X), X):
        monkeypatch.setattr(matrix, "_LASTING_BYTES", -1 if data is X else 16 << 20)
        made.clear()
        again = solved(data, y, 0.1, RBF(gamma=0.1))
        before = len(made)
        assert again.certificate.dual == pytest.approx(solution.certificate.dual, rel=1e-4)
        assert (
            len(made) == before + 1
        )  # a backend is not kept if it reads a sparse matrix in place or takes much memory


def test_a_sparse_matrix_that_is_no_longer_one_is_refused():
    X, y, _ = soft()
    data = sp.csr_array(X)
    solution = solved(data, y, 0.1, RBF(gamma=0.1))
    assert solution.certified.objective_error > 0.0
    data.indices[:] = 2**31 - 1
    with pytest.raises(ValueError, match="indices"):
        _ = solution.certificate


@pytest.mark.parametrize("form", ["bits", "sparse form"])
def test_a_form_of_the_rows_is_as_the_fit_had_it(form):
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 60)) < 0.1).astype(float)
    X = X if form == "bits" else X * rng.normal(size=X.shape)
    y = np.where(X[:, :5].sum(axis=1) + rng.normal(0.0, 2.0, 3000) > 0.3, 1.0, -1.0)
    solutions = [solved(X, y, 0.1, RBF(gamma=0.1)) for _ in range(2)]
    assert 0.0 < solutions[0].certified.objective_error == solutions[1].certified.objective_error
    before = solutions[0].certificate
    X *= 1.5
    assert solutions[1].certificate.dual == before.dual


def test_objectives_are_true_at_once_where_they_decide_about_the_gap():
    X, y, solution = soft()
    proved, true = solution.certified.relative_gap, solution.certificate.relative_gap
    assert true < proved
    decided = solved(X, y, 0.1, RBF(gamma=0.1), tol_gap=0.5 * (proved + true))
    assert (decided.status, decided.n_iter) == (Status.OPTIMAL, solution.n_iter)
    assert decided.certified.objective_error == 0.0
    assert solved(X, y, 0.1, RBF(gamma=0.1), tol_gap=2 * proved).certified.objective_error > 0.0


def test_two_ctrl_c_while_objectives_decide_keep_what_is_proved():
    X, y, solution = soft()
    tol_gap = 0.5 * (solution.certified.relative_gap + solution.certificate.relative_gap)

    def pressed(*args, before=None, **others):
        if before is not None:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return evaluate(*args, before=before, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.solvers.certified_rounds.evaluate", pressed)
        stopped = solved(X, y, 0.1, RBF(gamma=0.1), tol_gap=tol_gap)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.certified.kkt_violation == solution.certified.kkt_violation
    assert stopped.certified.objective_error > 0.0


def test_objective_errors_of_parts_add_up():
    parts = [soft()[2].certified, soft()[2].certified]
    combined = combine(parts)
    assert combined.objective_error == 2.0 * parts[0].objective_error
    assert combined.relative_gap == relative_gap(combined.primal, combined.dual, combined.objective_error)


def test_objectives_are_exact_with_many_free_variables_or_without_convexity():
    X, y = blobs(3000, 5, distance=1.0)
    assert solved(X, y, 100.0, RBF(gamma=1.0)).certified.objective_error == 0.0
    assert solved(X, y, 0.1, Sigmoid(gamma=0.01)).certified.objective_error == 0.0


def test_a_new_support_vector_is_evaluated_in_double_precision(monkeypatch):
    monkeypatch.setattr("mercer.certificates.screening._FEW_VALUES", 0)
    X, y = blobs(200, distance=2.0)
    problem, gram = c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X))
    first = evaluate(problem, gram, solve(problem, gram).beta)
    new = int(np.flatnonzero(first.evaluated_point.value_error)[0])
    beta = first.evaluated_point.beta.copy()
    beta[new] = y[new]  # at its other bound, and optimal there because of a linear term
    without_row = replace(problem, linear=problem.linear - 10.0 * beta * (np.arange(200) == new))
    second = evaluate(without_row, gram, beta, before=first)
    assert second.evaluated_point.value_error[new] == 0.0
    assert second.evaluated_point.value_error.any()


def test_rounding_accumulates_over_partial_evaluations():
    X, y = blobs(200, distance=2.0)
    problem, gram = c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X))
    first = evaluate(problem, gram, solve(problem, gram).beta)
    beta = first.evaluated_point.beta.copy()
    beta[np.flatnonzero(beta)[:3]] *= 0.5
    n_values = gram.n_values
    second = evaluate(problem, gram, beta, before=first)
    assert gram.n_values - n_values == 3 * 200
    assert second.rounding > first.rounding
    assert (
        evaluate(problem, gram, 0.9 * beta, before=second).rounding < second.rounding
    )  # all coefficients changed, so all values are evaluated again


def test_single_precision_is_used_where_it_proves_something(monkeypatch):
    X, y = blobs(200, distance=2.0)
    problem, gram = c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X))
    beta = solve(problem, gram).beta
    monkeypatch.setattr("mercer.certificates.screening._FEW_VALUES", 0)
    evaluation = evaluate(problem, gram, beta)
    exact = plain.gaussian(X, X, 0.5) @ beta
    off = np.abs(evaluation.values - exact)
    support = beta != 0.0
    assert off[support].max() <= 1e-12
    assert 1e-9 < off[~support].max() <= gram.single_precision_bound(beta).max()


# Computed again.


@every_kernel
@pytest.mark.parametrize("name", ["overlapping", "far from the origin", "one against many"])
def test_verify_agrees(name, kernel):
    X, y = HOSTILE[name]
    kernel, _ = FORMULAS[kernel]
    certificate = solved(X, y, 0.5, kernel).certificate
    again = certificate.verify()
    value = max(16 * certificate.decision_error, 1e-12)
    assert again.status == certificate.status
    assert again.kkt_violation == pytest.approx(certificate.kkt_violation, abs=value)
    assert again.primal == pytest.approx(certificate.primal, rel=1e-9, abs=value)
    assert again.dual == pytest.approx(certificate.dual, rel=1e-9, abs=value)
    assert (again.n_support, again.n_iter, again.seconds) == (
        certificate.n_support,
        certificate.n_iter,
        certificate.seconds,
    )


def test_verify_detects_a_changed_point():
    X, y = blobs()
    certificate = solved(X, y, 1.0, RBF(gamma=0.5)).certificate
    beta = certificate.evidence.beta.copy()
    moved = np.flatnonzero((beta != 0) & (np.abs(beta) < 1.0))[:2]
    beta[moved] += [1e-2, -1e-2]
    forged = replace(certificate, evidence=replace(certificate.evidence, beta=beta))
    assert forged.status is Status.OPTIMAL
    assert forged.verify().status is Status.STALLED
    assert forged.verify().kkt_violation > 1e-3


def test_verify_does_not_use_the_tiles(monkeypatch):
    X, y = blobs()
    certificate = solved(X, y, 1.0, RBF(gamma=0.5)).certificate

    def fail(*arguments, **options):
        raise AssertionError("tiles were asked for")

    for name in ("block", "matvec"):
        monkeypatch.setattr(NativeBackend, name, fail)
    assert certificate.verify().dual == pytest.approx(certificate.dual, rel=1e-12)


@pytest.mark.parametrize("n", [40, 700])
def test_verify_detects_wrong_tiles(monkeypatch, n):
    X, y = blobs(n)
    block, matvec, tiles = NativeBackend.block, NativeBackend.matvec, NativeBackend.tiles

    def wrong_block(self, left, left_rows, right, right_rows, out, **options):
        block(self, left, left_rows, right, right_rows, out, **options)
        out *= 1.01

    wrong = CompiledKernel([Op.DOT, Op.SCALE], [0.0, 1.01])
    monkeypatch.setattr(NativeBackend, "block", wrong_block)
    monkeypatch.setattr(NativeBackend, "matvec", lambda *a, **options: 1.01 * matvec(*a, **options))
    monkeypatch.setattr(NativeBackend, "tiles", lambda self, data: tiles(self, data)._replace(kernel=wrong))
    certificate = solved(X, y, 1.0, Linear()).certificate
    assert certificate.status is Status.OPTIMAL
    assert certificate.verify().status is Status.STALLED


def test_verify_of_a_part_of_the_rows():
    X, y = blobs()
    rows = np.arange(5, 25)
    solution = solve(c_svc(y[rows], 1.0), Gram(RBF(gamma=0.5), as_data(X)).restrict(rows))
    assert solution.certificate.verify().dual == pytest.approx(solution.certificate.dual, rel=1e-12)
    check(solution, X[rows], y[rows], 1.0, FORMULAS["gaussian"][1])


def test_a_pickled_certificate_says_why_it_cannot_be_verified():
    X, y = blobs()
    certificate = solved(X, y, 1.0, Linear()).certificate
    again = pickle.loads(pickle.dumps(certificate))
    assert (again.primal, again.status, str(again)) == (certificate.primal, certificate.status, str(certificate))
    with pytest.raises(ValueError, match=r"training data are not at hand.*mercer verify MODEL TABLE"):
        again.verify()


def test_it_prints_as_a_table():
    X, y = blobs()
    certificate = solved(X, y, 1.0, Linear()).certificate
    text = str(certificate)
    for expected in (
        "status              optimal",
        f"primal objective    {certificate.primal:.10g}",
        "(tolerance 0.001)",
        f"{certificate.n_support} ({certificate.n_free} free, {certificate.n_bounded} at the bound)",
        Status.OPTIMAL.advice,
    ):
        assert expected in text


# Of several.


def test_a_whole_is_the_sum_of_its_parts_and_as_good_as_the_worst():
    X, y = blobs()
    parts = [solved(X, y, C, RBF(gamma=0.5)).certificate for C in (0.1, 10.0)]
    parts[1] = replace(parts[1], status=Status.TIME_LIMIT)
    combined = combine(parts)
    assert combined.parts == tuple(parts)
    for name in (
        "primal",
        "dual",
        "n_support",
        "n_free",
        "n_bounded",
        "n_iter",
        "n_kernel_values",
        "seconds",
        "rounding",
    ):
        assert getattr(combined, name) == sum(getattr(part, name) for part in parts)
    for name in ("kkt_violation", "dual_infeasibility", "decision_error", "peak_memory_bytes"):
        assert getattr(combined, name) == max(getattr(part, name) for part in parts)
    assert combined.gap == combined.primal - combined.dual
    assert combined.relative_gap == relative_gap(combined.primal, combined.dual)
    assert combined.status is Status.TIME_LIMIT
    # verify evaluates the point of the second part again, and finds it optimal.
    assert combined.verify().status is Status.OPTIMAL
    assert combine(parts[:1]) is parts[0]


def test_the_worst_status_counts():
    order = [
        Status.OPTIMAL,
        Status.STATIONARY,
        Status.STALLED,
        Status.MAX_ITER,
        Status.TIME_LIMIT,
        Status.INTERRUPTED,
        Status.UNVERIFIED,
        Status.INFEASIBLE,
    ]
    assert set(order) == set(Status)
    for worse in range(len(order)):
        assert worst_status(order[: worse + 1]) is order[worse]
        assert order[worse].advice.endswith(".")


# Nearest points.


def test_nearest_points_of_two_segments():
    # The hulls are the segments x = 0 and x = 2, 0 <= y <= 1.
    X, y = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    solution = solve(nearest_points(y), Gram(Linear(), as_data(X)), control=Control(Limits(tol=1e-9)))
    assert solution.status is Status.OPTIMAL
    assert -2.0 * solution.certificate.dual == pytest.approx(4.0)
    w = X.T @ solution.beta
    np.testing.assert_allclose(w, [2.0, 0.0], atol=1e-9)
    assert pdist(np.array([X[:2].T @ -solution.beta[:2], X[2:].T @ solution.beta[2:]]))[0] == pytest.approx(2.0)


def test_certificates_are_values():
    X, y = blobs()
    certificate = solved(X, y, 1.0, Linear()).certificate
    assert isinstance(certificate, Certificate)
    with pytest.raises(AttributeError):
        certificate.status = Status.OPTIMAL


def true_violation(K, y, C, beta):
    """The KKT violation, from a kernel matrix in extended precision."""
    g = (K @ beta.astype(np.longdouble)) - y
    grow, shrink = beta < np.where(y > 0, C, 0.0), beta > np.where(y > 0, 0.0, -C)
    return float(g[shrink].max() - g[grow].min())


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e7, 1.7e9])
@pytest.mark.parametrize("kernel", [center(Linear()), 1e3 * center(1e-3 * Linear() + 1.0)], ids=repr)
def test_certificates_of_centred_rows_far_from_0_are_true(kernel, offset):
    rng = np.random.default_rng(0)
    X = offset + rng.normal(size=(400, 3))
    y = np.where(X[:, 0] - offset + rng.normal(size=400) > 0.0, 1.0, -1.0)
    data = as_data(X)
    solution = solve(c_svc(y, 10.0), Gram(kernel.resolve(data), data))
    away = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    assert solution.status is Status.OPTIMAL
    assert true_violation(away @ away.T, y, 10.0, solution.beta) <= 1.1e-3


@pytest.mark.parametrize("offset", [1.0, 1e5, 1e7, 1e10])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_certificates_of_close_sparse_rows_far_from_0_are_true(offset, C):
    rng = np.random.default_rng(0)
    X = np.maximum(offset + rng.normal(size=(300, 5)), 0.0)
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    kernel, data = ChiSquared(gamma=0.2 * offset), as_data(sp.csr_array(X))
    solution = solve(c_svc(y, C), Gram(kernel, data))
    x, z = X[:, None].astype(np.longdouble), X[None].astype(np.longdouble)
    terms = (x - z) ** 2 / np.where(x + z > 0.0, x + z, 1.0)
    if solution.status is Status.OPTIMAL:
        K = np.exp(-0.2 * np.longdouble(offset) * terms.sum(axis=2))
        assert true_violation(K, y, C, solution.beta) <= 1.1e-3
    assert solution.status is Status.OPTIMAL or offset > 1e4
    solution.certificate.verify()  # verify must not raise


def test_a_certificate_says_what_a_large_gap_leaves_open():
    X, y = blobs(200, distance=1.0)
    loose, tight = (SVC(C=1e6, gamma=0.5, tol_gap=tol_gap).fit(X, y).certificate_ for tol_gap in (None, 1e-3))
    open_gap = replace(loose, dual=0.5 * loose.primal, gap=0.5 * loose.primal, relative_gap=0.5)
    assert open_gap.status is tight.status is Status.OPTIMAL
    assert "The objective may be off by as much as the gap" in str(open_gap)
    assert "may be off" not in str(tight)


def test_no_infeasible_point_replaces_a_feasible_one():
    X, y = blobs(n=4)
    honest = replace(evaluate(c_svc(y, 1.0), Gram(Linear(), as_data(X)), np.zeros(4)), primal=3.0, dual=1.0)
    outside, nowhere = replace(honest, dual_infeasibility=0.5, dual=4.0), replace(honest, dual=np.nan)
    for other, convex in ((outside, True), (outside, False), (nowhere, True)):
        assert not other.beats(honest, convex=convex)
        assert honest.beats(other, convex=convex)


def test_a_point_with_nan_is_not_feasible():
    X, y = blobs(n=4)
    problem, gram = c_svc(y, 1.0), Gram(Linear(), as_data(X))
    assert not evaluate(problem, gram, np.zeros(4)).dual_infeasibility
    assert np.isnan(conditions_of(problem, np.array([np.nan, 0.0, 0.0, 0.0]), np.zeros(4))[1].infeasibility)


def test_a_wrong_sum_is_corrected_without_free_variables():
    X, y = blobs(n=40)
    problem = c_svc(y, 1.0)

    class Careless(WorkingSetSolver):
        def steps(self, state):
            next(super().steps(state), None)
            state.beta[:] = np.where(y > 0, problem.upper, 0.0)  # all variables are at bounds, and their sum is 20
            return iter(())

    solution = solve_certified(
        Careless(), "", problem, Gram(RBF(gamma=0.5), as_data(X)), control=Control(Limits(max_iter=1))
    )
    assert solution.certificate.dual_infeasibility <= 1e-12
