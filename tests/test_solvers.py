"""The driver and its solvers: all paths find the same optimum, limits hold, and hard margins."""

import math
import pickle
import signal
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer

import plain
import reference
from cases import PROBLEMS, WAYS, blobs, going, hostile_tables, targets
from mercer import SVC
from mercer.certificates.evaluation import evaluate
from mercer.certificates.status import InseparableError, Status
from mercer.data import Precomputed, as_data
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels import RBF, Callable, Linear, Polynomial, Sigmoid
from mercer.kernels import Precomputed as PrecomputedKernel
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.problems import c_svc, c_svc_each, epsilon_svr, nu_svc, nu_svr, one_class, quantile
from mercer.solvers import Control, HardMargin, Interruption, Limits, Solver, WorkingSetSolver, select_solver, solve
from mercer.solvers.certified_rounds import _best, _BestPoint, solve_certified
from mercer.solvers.dual import block, working_set
from mercer.solvers.dual import working_set_sizes as sizes
from mercer.solvers.dual.working_matrix import working_matrix
from mercer.solvers.dual.working_set_state import BatchState
from mercer.solvers.solver import State
from pairs import every_pair

every_problem = pytest.mark.parametrize("case", PROBLEMS, ids=lambda case: case.name)
TIGHT = Limits(tol=1e-8)


def solved(X, y, C, kernel=RBF(gamma=0.5), limits=TIGHT, *, start=None, n_jobs=None, **control):  # noqa: B008 - values
    gram = Gram(kernel, as_data(X), n_jobs=n_jobs)
    return solve(c_svc(y, C), gram, control=Control(limits, **control), start=start)


def same_optimum(one, other, tol=1e-8):
    """Check that both are optimal to `tol`, and that the objectives differ by at most the larger gap."""
    assert (one.status, other.status) == (Status.OPTIMAL, Status.OPTIMAL)
    slack = max(one.certificate.gap, other.certificate.gap, 1e-10 * max(1.0, one.certificate.primal))
    assert one.certificate.dual == pytest.approx(other.certificate.dual, rel=0, abs=slack)


# The optimum.


@every_pair(way=WAYS, case=PROBLEMS, kernel=[RBF(gamma=0.5), Linear()])
@pytest.mark.usefixtures("way")
def test_every_problem_is_solved(case, kernel):
    X, y = blobs(n=60, distance=4.0 if case.name == "nearest points" else 1.0)
    problem, gram = case.problem(y), Gram(kernel, as_data(X))
    solution = solve(problem, gram, control=Control(Limits(tol=1e-7)))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.kkt_violation <= 1e-7
    assert solution.certificate.dual_infeasibility <= 1e-12 * max(1.0, np.abs(solution.beta).sum())
    objective = max(1.0, abs(solution.certificate.primal))  # that of one class with the linear kernel is 0
    assert -1e-10 <= solution.certificate.gap <= 1e-5 * objective
    # The NumPy reference of the Newton steps finds the same objective with the whole matrix.
    rows = np.arange(60) if problem.rows is None else problem.rows
    K = kernel.block(gram.data, gram.data)[np.ix_(rows, rows)]
    K += np.diag(problem.ridge if problem.ridge is not None else np.zeros(problem.n))
    order = np.argsort(problem.groups, kind="stable") if problem.groups is not None else np.arange(problem.n)
    starts = np.searchsorted(problem.groups[order], np.arange(problem.n_groups + 1)) if problem.n_groups else [0]
    beta = problem.start[order]
    gradient = (K @ problem.start + problem.linear)[order]
    reference.newton_steps(
        K[np.ix_(order, order)], beta, gradient, problem.lower[order], problem.upper[order], np.array(starts), 1e-9, 900
    )
    least = 0.5 * beta @ (gradient + problem.linear[order])
    assert -solution.certificate.dual == pytest.approx(least, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_all_solver_paths_find_the_same_optimum(C, n_jobs):
    X, y = blobs(n=150)
    objectives = []
    for way in WAYS:
        with going(way):
            objectives.append(solved(X, y, C, n_jobs=n_jobs))
    for other in objectives[1:]:
        same_optimum(objectives[0], other)


def _record_blocks(monkeypatch):
    """Record all blocks that are solved from now on."""
    blocks, begin = [], block.begin_block

    def watched(*arguments, **named):
        blocks.append(begin(*arguments, **named))
        return blocks[-1]

    monkeypatch.setattr(block, "begin_block", watched)
    return blocks


def _newton_steps(blocks):
    return sum(one.n_newton for one in blocks)


def test_wide_boxes_are_reached_from_narrower_ones(monkeypatch):
    X, y = blobs(n=1000, p=8)
    kernel, C, limits = RBF(gamma=0.01), 1e4, Limits(tol=1e-3)
    by_smaller, on_two = (solved(X, y, C, kernel, limits, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(by_smaller.beta, on_two.beta)
    assert by_smaller.n_iter == on_two.n_iter
    rounding = 1e-5 * by_smaller.trace[-1].dual  # rounding of single precision
    assert all(a.dual <= b.dual + rounding for a, b in pairwise(by_smaller.trace))

    blocks = _record_blocks(monkeypatch)
    solved(X, y, C, kernel, limits)
    by_smaller_steps = _newton_steps(blocks)
    monkeypatch.setattr(block, "_DIVERGED", math.inf)
    at_once = solved(X, y, C, kernel, limits)
    same_optimum(by_smaller, at_once)
    assert by_smaller.n_iter < at_once.n_iter
    assert by_smaller_steps < 0.7 * (_newton_steps(blocks) - by_smaller_steps)


@pytest.mark.parametrize(("room", "few", "if_slow"), [(1e9, 2048, 6144), (5e6, 512, -1)])
def test_memory_for_newton_steps_on_many_variables_includes_steps_on_few(room, few, if_slow, monkeypatch):
    X, y = blobs(900, distance=0.3)
    made, seen = block.BlockLimits, []
    monkeypatch.setattr(block, "BlockLimits", lambda **limits: seen.append(limits) or made(**limits))
    monkeypatch.setattr(block, "factor_room", lambda *about, **how: room)
    assert solved(X, y, 1000.0, RBF(gamma=1.0), Limits()).status is Status.OPTIMAL
    assert seen[0]["most_free"] == few
    assert seen[0]["most_if_slow"] == if_slow


def test_a_part_of_many_rows_has_sets_no_larger_than_that_many_rows_have():
    few = Gram(RBF(gamma=1.0), as_data(np.zeros((7000, 1))))
    part = Gram(RBF(gamma=1.0), as_data(np.zeros((sizes.MANY_ROWS + 1, 1)))).restrict(np.arange(7000))
    for c_times_kmax, most in ((1.0, 5504), (100.0, 6144)):
        assert sizes.working_sets(few, c_times_kmax)[-1] == 7680
        assert sizes.working_sets(part, c_times_kmax)[-1] == most
        assert sizes.has_room_for_whole_matrix(few, c_times_kmax)
        assert not sizes.has_room_for_whole_matrix(part, c_times_kmax)
        assert sizes.has_room_for_whole_matrix(part.restrict(np.arange(most)), c_times_kmax)


@pytest.mark.parametrize("n_free", [2049, 6000])
def test_newton_steps_on_more_variables_take_no_less_than_on_fewer(n_free):
    """A call may begin with many free variables, and the next call with few."""
    assert block.newton_bytes(n_free, 7680, single=True) >= block.newton_bytes(2048, 7680, single=True)


def test_single_precision_goes_on_where_many_are_free_and_it_refines(monkeypatch):
    """Each refinement leaves a small share of the violation, whereas float64 would need slow SMO steps."""
    X, y = blobs(900, distance=0.3)
    seen = []
    refresh = WorkingSetSolver.refresh

    def watched(self, state, gradient, tol):
        refresh(self, state, gradient, tol)
        seen.append((state.single, state.true_violation))

    monkeypatch.setattr(WorkingSetSolver, "refresh", watched)
    ends = []
    for most in (10, 900):
        monkeypatch.setattr(working_set, "MANY_FREE_PRECISE", most)
        seen.clear()
        solution = solved(X, y, 1000.0, RBF(gamma=1.0), Limits(tol=1e-8))
        assert solution.status is Status.OPTIMAL
        singles, violations = zip(*seen, strict=True)
        assert singles[0]
        for at in range(1, len(seen)):
            assert singles[at] == (singles[at - 1] and most == 10 and violations[at] <= 0.75 * violations[at - 1])
        ends.append(singles[1:2])
    assert ends == [(True,), (False,)]


def test_very_wide_boxes_are_reached_in_several_stages(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1000, 4))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=1000) > 0.0, 1.0, -1.0)
    kernel, C, limits = RBF(gamma=0.05), 1e6, Limits(tol=1e-3)
    blocks = _record_blocks(monkeypatch)
    by_smaller = solved(X, y, C, kernel, limits)
    by_smaller_steps = _newton_steps(blocks)
    monkeypatch.setattr(block, "_DIVERGED", math.inf)
    at_once = solved(X, y, C, kernel, limits)
    same_optimum(by_smaller, at_once)
    assert by_smaller.n_iter < at_once.n_iter
    assert by_smaller_steps < _newton_steps(blocks) - by_smaller_steps


@pytest.mark.full
def test_no_large_factor_is_made_if_smo_diverges(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(3000) % 2 == 1, 1.0, -1.0)
    X = rng.normal(size=(3000, 5))
    X[y > 0.0, 0] += 1.0
    blocks = _record_blocks(monkeypatch)
    # At 0 the violation is 2. SMO increases it to 10 and leaves 2,500 free variables; the solution has 900.
    solution = solved(X, y, 1e4, RBF(gamma=1.0 / (5.0 * X.var())), Limits(max_iter=1_000_000, max_seconds=60.0))
    assert solution.status is Status.OPTIMAL
    assert max(one.newton_free for one in blocks) <= 2048


@pytest.mark.parametrize("steps", [2_000, 2_001, 3_000, 4_000, 4_500])
def test_a_limit_within_smaller_boxes_leaves_the_best_point_before(steps):
    X, y = blobs(n=1000, p=8)
    ended = solved(X, y, 1e4, RBF(gamma=0.01), Limits(tol=1e-3, max_iter=steps))
    before = solved(X, y, 1e4, RBF(gamma=0.01), Limits(tol=1e-3, max_iter=2_000))
    textbook = plain.figures(plain.gaussian(X, X, 0.01), y, 1e4, ended.beta, ended.bias)
    assert ended.status is Status.MAX_ITER
    assert ended.n_iter == steps
    assert ended.certificate.dual >= before.certificate.dual
    assert ended.certificate.kkt_violation >= textbook.violation - 1e-9 * textbook.scale


@pytest.mark.parametrize("stored", ["dense", "long rows", "CSR", "bits"])
@pytest.mark.parametrize(
    "make",
    [
        lambda y: c_svc(np.where(y > 0.0, 1.0, -1.0), 30.0),
        lambda y: epsilon_svr(y, 1.0, 0.1),
        lambda y: nu_svr(y, 1.0, 0.5),
        lambda y: nu_svc(np.where(y > 0.0, 1.0, -1.0), 1.0, 0.3),
    ],
    ids=["C-SVC", "epsilon-SVR", "nu-SVR", "nu-SVC"],
)
def test_threads_change_no_bit_of_a_machine_on_working_sets(make, stored):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2600, 80 if stored == "long rows" else 20))
    if stored in ("CSR", "bits"):
        X = sp.csr_array(np.where(X > 0.7, 1.0 if stored == "bits" else X, 0.0))
    f = X[:, [0]] + X[:, [1]]
    f = np.asarray(f.todense() if sp.issparse(f) else f).ravel()
    problem = make(f - f.mean() + 0.3 * rng.normal(size=2600))
    first, *others = (solve(problem, Gram(RBF(gamma=0.05), as_data(X), n_jobs=n_jobs)) for n_jobs in (1, 2, 3))
    assert first.status is Status.OPTIMAL
    for other in others:
        np.testing.assert_array_equal(other.beta, first.beta)
        assert (other.n_iter, other.certificate.primal) == (first.n_iter, first.certificate.primal)


def test_threads_change_no_bit():
    X, y = blobs(n=2500, p=4)
    one, two = (solved(X, y, 1.0, n_jobs=n, limits=Limits(tol=1e-3)) for n in (1, 2))
    assert one.status is Status.OPTIMAL
    np.testing.assert_array_equal(one.beta, two.beta)
    assert (one.bias, one.n_iter, one.certificate.primal) == (two.bias, two.n_iter, two.certificate.primal)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: c_svc(y, 10.0),
        lambda y: c_svc(y, 0.5),
        lambda y: c_svc(y, 2.0, squared=True),
        lambda y: epsilon_svr(targets(y), 2.0, 0.3),
        lambda y: nu_svc(y, 1.0, 0.4),
    ],
    ids=["C-SVC", "C-SVC, soft", "squared hinge", "epsilon-SVR", "nu-SVC"],
)
def test_neither_clock_nor_threads_change_a_bit_of_a_machine_on_working_sets(make, monkeypatch):
    X, y = blobs(n=3000, p=4)
    problem, ends = make(y), []
    for seconds in (0.0, 60.0):
        monkeypatch.setattr("mercer.solvers.loop.REPORT_SECONDS", seconds)
        for n_jobs in (1, 2):
            ends.append(solve(problem, Gram(RBF(gamma=0.5), as_data(X), n_jobs=n_jobs)))
    first, *others = ends
    assert first.status is Status.OPTIMAL
    assert len(first.trace) > 5 > len(others[-1].trace)  # the time decides only how many entries the trace has
    for other in others:
        assert other.beta.tobytes() == first.beta.tobytes()
        assert (other.bias, other.n_iter, other.n_kernel_values) == (first.bias, first.n_iter, first.n_kernel_values)
        assert other.certificate.primal == first.certificate.primal


def test_working_sets_of_a_problem_that_is_really_large():
    X, y = blobs(n=3000, p=4)
    solution = solved(X, y, 10.0, limits=Limits(tol=1e-6))
    textbook = plain.figures(plain.gaussian(X, X, 0.5), y, 10.0, solution.beta, solution.bias)
    assert solution.status is Status.OPTIMAL
    assert textbook.violation <= 1e-6 + 1e-12 * textbook.scale
    assert -1e-12 <= textbook.relative_gap <= 1e-6


@every_pair(
    way=WAYS,
    stored=[
        sp.csr_array,
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: sp.csr_array(X.astype(np.float32)),
    ],
    kernel=[RBF(gamma=0.5), Linear(), Polynomial(3, 0.5, 1.0)],
)
@pytest.mark.usefixtures("way")
def test_storage_does_not_matter(stored, kernel):
    X, y = blobs(n=60)
    X = X.astype(np.float32).astype(float)  # single precision represents these numbers exactly
    X[np.abs(X) < 0.4] = 0.0
    one, other = solved(X, y, 2.0, kernel), solved(stored(X), y, 2.0, kernel)
    same_optimum(one, other)
    np.testing.assert_allclose(one.certificate.evidence.gram().matvec(other.beta), one_values(one), atol=1e-6)


def one_values(solution):
    """Decision values without the bias, which is not unique where no support vector is free."""
    return solution.certificate.evidence.gram().matvec(solution.beta)


@given(seed=st.integers(0, 2**32 - 1), C=st.sampled_from([0.1, 1.0, 100.0]), way=st.sampled_from(WAYS))
def test_the_order_of_rows_does_not_matter(seed, C, way):
    X, y = blobs(n=30)
    order = np.random.default_rng(seed).permutation(30)
    with going(way):
        one, other = solved(X, y, C), solved(X[order], y[order], C)
    same_optimum(one, other)
    np.testing.assert_allclose(one_values(other), one_values(one)[order], atol=1e-5)


@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from([RBF(gamma=0.5), Linear()]),
    way=st.sampled_from(WAYS),
)
def test_a_penalty_k_times_as_large_is_k_copies(seed, kernel, way):
    X, y = blobs(n=20)
    copies = np.random.default_rng(seed).integers(1, 4, 20)
    with going(way):
        one = solved(X, y, 0.7 * copies, kernel)
        other = solved(np.repeat(X, copies, axis=0), np.repeat(y, copies), 0.7, kernel)
    same_optimum(one, other)
    np.testing.assert_allclose(np.repeat(one_values(one), copies), one_values(other), atol=1e-5)


def test_scaling_the_kernel_scales_the_penalty():
    X, y = blobs(n=40)
    one, other = solved(X, y, 2.0), solved(X, y, 0.5, 4.0 * RBF(gamma=0.5))
    assert other.certificate.dual == pytest.approx(one.certificate.dual / 4.0, rel=1e-6)


@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from([Linear(), Polynomial(2, 0.5), RBF(gamma=0.5)]),
    way=st.sampled_from(WAYS),
)
def test_ties_and_equal_rows_are_solved(seed, kernel, way):
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.normal(size=(40, 2))), np.where(np.arange(40) < rng.integers(1, 40), 1.0, -1.0)
    for C in (0.1, 10.0):
        with going(way):
            solution = solved(X, y, C, kernel)
        assert solution.status is Status.OPTIMAL
        assert solution.certificate.dual_infeasibility <= 1e-13 * 40 * C


@contextmanager
def in_single_precision():
    """Let small problems use float32 like large ones: in the steps, and for kernel values in the certificate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.solvers.dual.single_precision.EXACT_PROBLEM", 8)
        patch.setattr("mercer.certificates.screening._FEW_VALUES", 0)
        patch.setattr("mercer.certificates.screening._MOSTLY", 1.0)
        yield


@contextmanager
def evaluations():
    """Record the points that the driver evaluates, each with its evaluation."""
    points = []

    def watched(problem, gram, beta, *args, **how):
        points.append((beta.copy(), evaluate(problem, gram, beta, *args, **how)))
        return points[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.solvers.certified_rounds.evaluate", watched)
        yield points


def test_a_small_table_has_values_in_single_precision_where_that_is_asked_for():
    X, y = blobs(n=40, distance=2.0)
    problem, gram = c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X))
    beta = solve(problem, gram).beta
    assert not evaluate(problem, gram, beta).evaluated_point.value_error.any()
    with in_single_precision():
        assert evaluate(problem, gram, beta).evaluated_point.value_error.any()


@pytest.mark.full
@given(
    n=st.integers(2, 40),
    C=st.sampled_from([1e-2, 1.0, 1e4, math.inf]),
    kernel=st.sampled_from([Linear(), Polynomial(2, 0.5), RBF(gamma=0.5)]),
    weighted=st.booleans(),
    one_point=st.booleans(),
    apart=st.sampled_from([0.0, 1e-7]),
    single=st.booleans(),
    way=st.sampled_from(WAYS),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=400)
def test_the_certificate_is_true_of_any_problem(n, C, kernel, weighted, one_point, apart, single, way, seed):
    """Compared with plain NumPy, for weights, C = inf, equal rows, a constant column, one-point classes, and n = 2.

    This includes single precision, which cannot distinguish some rows. All values are within their stated error bounds.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)
    X[n // 2 :: 3] = X[0]
    if np.isfinite(C):
        X[n // 2 :: 3] += apart * rng.normal(size=X[n // 2 :: 3].shape)
    X[:, 2] = 1.0
    y = np.where(rng.random(n) < (0.0 if one_point else 0.5), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    penalties = C * (rng.uniform(0.1, 3.0, n) if weighted else np.ones(n))
    with going(way), in_single_precision() if single else nullcontext(), evaluations() as evaluated:
        try:
            solution = solved(X, y, penalties, kernel, limits=Limits(tol=1e-3))
        except InseparableError:
            assert np.isinf(C)
            return
    said, K = solution.certificate, kernel.block(as_data(X), as_data(X))
    for beta, evaluation in evaluated:
        assert (
            np.abs(evaluation.values - K @ beta) <= evaluation.evaluated_point.value_error + evaluation.rounding
        ).all()
    with np.errstate(invalid="ignore"):  # 0 times C = inf, in a primal objective that is not checked
        textbook = plain.figures(K, y, penalties, solution.beta, solution.bias)
    slack = 1e-9 * textbook.scale
    assert said.kkt_violation == pytest.approx(textbook.violation, rel=1e-6, abs=slack)
    assert said.dual == pytest.approx(textbook.dual, rel=1e-9, abs=slack * max(1.0, np.abs(solution.beta).sum()))
    assert textbook.infeasibility <= 1e-12 * max(1.0, np.abs(solution.beta).sum())
    assert (said.status is Status.OPTIMAL) == (textbook.violation <= 1e-3 + slack)
    if np.isfinite(C):
        assert said.status is Status.OPTIMAL
        assert said.primal == pytest.approx(textbook.primal, rel=1e-9, abs=slack)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_the_certificate_is_true_on_large_tables_with_default_thresholds(seed):
    """The same with 300 to 4,500 rows and unchanged thresholds; weights may be 0, columns offset, rows duplicated."""
    rng = np.random.default_rng([seed, 7])
    n, p = int(np.exp(rng.uniform(np.log(300), np.log(4500)))), int(rng.choice([2, 5, 20, 60]))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, p) ** rng.integers(0, 2)
    X += rng.choice([0.0, 100.0]) * rng.normal(size=p)
    X[:, 0] = 1.0
    n_duplicates = rng.integers(0, 2) * n // 3
    X[n - n_duplicates :] = X[:n_duplicates]
    X = X.astype(rng.choice(["float32", "float64"]))
    y = np.where(X[:, 1] + X[:, 1].std() * rng.choice([0.1, 1.0]) * rng.normal(size=n) > X[:, 1].mean(), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = rng.choice([0.0, 0.3, 1.0, 2.5], n) if seed % 2 else np.ones(n)
    weights[:2] = 1.0
    C = float(10.0 ** rng.integers(-2, 5))
    machine = SVC(C=C, gamma=float(rng.choice([0.1, 1.0, 10.0])) / p / X.var()).fit(X, y, weights)
    said, solution = machine.certificate_, machine.solution_
    rows = np.flatnonzero(weights)
    data = as_data(X[rows].astype(np.float64))
    K = machine.kernel_.block(data, data)
    textbook = plain.figures(K, y[rows], C * weights[rows], solution.beta, solution.bias)
    # The two kernel evaluations differ by rounding, which is large for rows far from their mean.
    slack = 1e-9 * textbook.scale + 2.0 * said.decision_error
    mass = np.abs(solution.beta).sum()
    assert said.kkt_violation == pytest.approx(textbook.violation, rel=1e-6, abs=slack)
    assert said.dual == pytest.approx(textbook.dual, rel=1e-9, abs=slack * max(1.0, mass))
    assert said.primal == pytest.approx(textbook.primal, rel=1e-9, abs=slack * max(1.0, C * n))
    assert textbook.infeasibility <= 1e-12 * max(1.0, mass)
    assert said.status in (Status.OPTIMAL, Status.STALLED)
    assert said.status is Status.STALLED or textbook.violation <= 1e-3 + slack


# Warm starts.


@every_problem
@pytest.mark.usefixtures("way")
def test_a_warm_start_ends_at_the_cold_optimum(case):
    X, y = blobs(n=60, distance=4.0 if case.name == "nearest points" else 1.0)
    gram, problem = Gram(RBF(gamma=0.5), as_data(X)), case.problem(y)
    cold = solve(problem, gram, control=Control(TIGHT))
    rng = np.random.default_rng(0)
    for start in (cold.beta, problem.start, 1e-3 * rng.normal(size=problem.n), 1e3 * rng.normal(size=problem.n)):
        before = start.copy()
        same_optimum(solve(problem, gram, control=Control(TIGHT), start=start), cold)
        np.testing.assert_array_equal(start, before)


def test_a_warm_start_at_the_optimum_takes_no_steps():
    X, y = blobs(n=200)
    cold = solved(X, y, 1.0, limits=Limits(tol=1e-3))
    warm = solved(X, y, 1.0, limits=Limits(tol=1e-3), start=cold.beta)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter <= 1


@pytest.mark.parametrize("is_in_memory", [False, True])
@pytest.mark.usefixtures("way")
def test_an_unnecessary_warm_start_leaves_no_coefficients(is_in_memory):
    """Steps from coefficients above 100 can leave some of 1e-14; if one counted as free, it would define the bias."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 24))
        X, y = np.round(2.0 * rng.normal(size=(n, 2))), rng.normal(size=n)
        gram = Gram(Linear(), as_data(X))
        if is_in_memory:
            gram = Gram(EvaluatedKernel(Linear()), InMemoryRows(np.ascontiguousarray(X @ X.T)).rows(np.arange(n)))
        narrow = solve(epsilon_svr(y, 100.0, 0.05), gram)
        wide = solve(epsilon_svr(y, 100.0, 0.6 * np.ptp(y)), gram, start=narrow.beta, before=narrow.product)
        assert narrow.beta.any()
        assert not wide.beta.any()
        # All rows are in the tube, whose centre is the midpoint of the targets.
        assert wide.bias == pytest.approx(0.5 * (y.min() + y.max()))


@pytest.mark.parametrize("seed", [5, 12, 19, 24, 69, 86])
@pytest.mark.usefixtures("way")
def test_if_all_variables_are_at_bounds_drift_does_not_define_the_bias(seed):
    rng = np.random.default_rng(seed)
    X, y = np.round(0.6 * rng.normal(size=(14, 1))), rng.normal(size=14)
    problem = epsilon_svr(y, 12345.6, 0.1 * np.ptp(y))
    solution = solve(problem, Gram(Linear(), as_data(X)), control=Control(Limits(tol=1e-6)))
    beta, gradient = solution.beta, np.tile(X @ X.T @ problem.coefficients(solution.beta)[:, None], (2, 1))[:, 0]
    gradient += problem.linear
    assert solution.certificate.n_free == 0
    assert math.fsum(beta) == solution.certificate.dual_infeasibility == 0.0
    interval = gradient[beta > problem.lower].max(), gradient[beta < problem.upper].min()
    assert interval[1] - interval[0] > 0.005
    assert solution.bias == pytest.approx(-np.mean(interval))


@pytest.mark.parametrize(
    ("make", "share"),
    [
        (lambda y: nu_svr(y, 1.0, 0.5), 0.9),
        (lambda y: quantile(y, 1.0, 0.5), 0.9),
        (lambda y: nu_svc(np.where(y > 0.5, 1.0, -1.0), 1.0, 0.5), 0.9),
        (lambda y: one_class(np.ones(y.size), 0.3), 1.0),
    ],
    ids=["nu-SVR", "quantile", "nu-SVC", "one-class"],
)
def test_a_fit_of_some_rows_gives_the_starting_point(make, share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 5))
    problem = make(np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=2500))
    guessed, given, again = (
        solve(problem, Gram(RBF(gamma=0.2), as_data(X), n_jobs=n_jobs), start=start)
        for n_jobs, start in ((1, None), (1, problem.start), (2, None))
    )
    assert (guessed.status, given.status) == (Status.OPTIMAL, Status.OPTIMAL)
    slack = guessed.certificate.gap + given.certificate.gap
    assert guessed.certificate.dual == pytest.approx(given.certificate.dual, abs=slack)
    assert guessed.n_kernel_values < share * given.n_kernel_values
    np.testing.assert_array_equal(again.beta, guessed.beta)


def test_a_tube_without_width_moves_both_variables_of_a_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 5))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=2500)
    solution = solve(nu_svr(y, 10.0, 1.0), Gram(RBF(gamma=0.2), as_data(X)))
    assert solution.status is Status.OPTIMAL
    # The same machine, as SVR without a tube.
    absolute = solve(epsilon_svr(y, 10.0, 0.0), Gram(RBF(gamma=0.2), as_data(X)))
    slack = solution.certificate.gap + absolute.certificate.gap
    assert solution.certificate.dual == pytest.approx(absolute.certificate.dual, abs=slack)


@pytest.mark.parametrize(
    "make", [lambda y: c_svc(np.sign(y), 1.0), lambda y: epsilon_svr(y, 0.1, 0.1)], ids=["C-SVC", "epsilon-SVR"]
)
def test_variables_that_end_at_a_bound_start_there(make, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 5))
    problem = make(np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=2500))
    solution = solve(problem, Gram(RBF(gamma=0.05), as_data(X)))
    monkeypatch.setattr(working_set, "_AGREED", np.inf)
    from_zero = solve(problem, Gram(RBF(gamma=0.05), as_data(X)))
    assert (solution.status, from_zero.status) == (Status.OPTIMAL, Status.OPTIMAL)
    slack = solution.certificate.gap + from_zero.certificate.gap
    assert solution.certificate.dual == pytest.approx(from_zero.certificate.dual, abs=slack)
    assert solution.n_iter < 0.7 * from_zero.n_iter


@pytest.mark.parametrize("max_iter", [30, 100, 300])
def test_a_fit_stopped_while_a_part_is_solved_has_the_point_of_the_part(max_iter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 5))
    problem = c_svc(np.sign(X[:, 0] + rng.normal(size=2500)), 1.0)
    solution = solve(problem, Gram(RBF(gamma=0.05), as_data(X)), control=Control(Limits(max_iter=max_iter)))
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter <= max_iter
    assert solution.certificate.dual > 0.0
    assert abs(solution.beta.sum()) < 1e-9


def test_a_part_that_is_not_smaller_is_not_fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 3))
    problem = one_class(np.ones(2400), 0.3)
    alone = replace(problem, groups=np.arange(2400) // 2)
    solution = solve(alone, Gram(RBF(gamma=0.3), as_data(X)), control=Control(Limits(max_seconds=20.0)))
    assert np.isfinite(solution.certificate.dual)


@pytest.mark.parametrize(
    ("make", "gamma"),
    [(lambda y: nu_svc(np.sign(y), 1.0, 0.04), 0.1), (lambda y: epsilon_svr(y, 5.0, 0.1), 1.0)],
    ids=["nu-SVC", "epsilon-SVR"],
)
def test_a_part_whose_rule_does_not_fit_gives_no_start(make, gamma, monkeypatch):
    tables = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2500, 5))
        target = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=2500)
        tables.append((make(target), Gram(RBF(gamma=gamma), as_data(X))))

    def n_values():
        return sum(solve(problem, gram).n_kernel_values for problem, gram in tables)

    values = n_values()
    monkeypatch.setattr(working_set, "_MOSTLY_FREE", np.inf)  # a smaller part of the rows is always asked first
    assert n_values() < 1.1 * values
    monkeypatch.setattr(working_set, "_AGREED", -np.inf)
    assert values < 0.95 * n_values()


# Limits.


@pytest.mark.parametrize("max_iter", [0, 1, 2, 7, 50])
@pytest.mark.usefixtures("way")
def test_no_more_than_max_iter_steps(max_iter):
    X, y = blobs(n=200)
    solution = solved(X, y, 1e3, limits=Limits(max_iter=max_iter))
    assert (solution.status, solution.n_iter) == (Status.MAX_ITER, max_iter)
    certificate = solution.certificate
    assert certificate.kkt_violation > 1e-3
    assert certificate.gap > 0.0
    textbook = plain.figures(plain.gaussian(X, X, 0.5), y, 1e3, solution.beta, solution.bias)
    assert certificate.dual == pytest.approx(textbook.dual, rel=1e-9, abs=1e-9)
    assert certificate.primal == pytest.approx(textbook.primal, rel=1e-9)


@pytest.mark.parametrize("max_iter", [0, 1, 50, 200])
def test_stages_of_a_hard_margin_share_the_steps(max_iter):
    X, y = blobs(n=400)
    limits = Limits(max_iter=max_iter)
    solution = solved(X, y, np.inf, limits=limits)
    assert solution.n_iter <= max_iter
    assert solution.status is Status.MAX_ITER
    assert solution.limits == limits


def test_a_limit_that_is_not_reached_changes_nothing():
    X, y = blobs(n=80)
    free, limited = solved(X, y, 10.0), solved(X, y, 10.0, limits=Limits(tol=1e-8, max_iter=10**7, max_seconds=1e6))
    assert (limited.status, limited.n_iter) == (Status.OPTIMAL, free.n_iter)
    np.testing.assert_array_equal(free.beta, limited.beta)


def test_steps_add_up_to_the_optimum():
    X, y = blobs(n=200)
    start, steps = None, 0
    for _ in range(200):
        part = solved(X, y, 10.0, limits=Limits(max_iter=40), start=start)
        start, steps = part.beta, steps + part.n_iter
        if part.status is Status.OPTIMAL:
            break
    assert part.status is Status.OPTIMAL
    assert steps > 80


def hard_problem(n=3000):
    """Random labels and a large penalty."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)), np.where(rng.random(n) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("way", ["whole", "working sets"])
def test_single_precision_is_used_in_two_rounds_at_most(way, monkeypatch):
    X, y = blobs(600)
    if way == "working sets":
        monkeypatch.setattr(sizes, "WHOLE_PROBLEM", 16)
    solver, gram = WorkingSetSolver(), Gram(RBF(gamma=0.5), as_data(X))
    state = solver.init(c_svc(y, 1.0), gram, 1e-3, None)
    steered = []
    for _ in range(3):
        steered.append(state.single)
        solver.refresh(state, gram.matvec(state.beta) - y, 1e-3)
    assert steered == [True, True, False]


def far_apart(n=2300, p=100, seed=0):
    """Rows with small kernel values that are expensive; nearly all become support vectors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def sets_of(X, y, C, gamma, *, tol=1e-3, **of_gram):
    """The sizes of the working sets of a fit, without those of a fit to part of the rows, and its solution."""
    sizes = []

    def watched(choose):
        def choosing(self, state):
            chosen = choose(self, state)
            if state.problem.n == len(y):
                sizes.append(chosen.size)
            return chosen

        return choosing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkingSetSolver, "_everything", watched(WorkingSetSolver._everything))
        patch.setattr(WorkingSetSolver, "_select", watched(WorkingSetSolver._select))
        gram = Gram(RBF(gamma=gamma), as_data(X), **of_gram)
        return sizes, solve(c_svc(y, C), gram, control=Control(Limits(tol=tol)))


@pytest.mark.parametrize(
    ("C", "gamma", "p"),
    [(0.1, 0.02, 100), (1.0, 0.02, 100), (100.0, 0.02, 100), (1.0, 2.0, 10), (100.0, 2.0, 10)],
    ids=["expensive, at bounds", "expensive, soft", "expensive, hard", "cheap, soft", "cheap, hard"],
)
def test_if_most_variables_move_the_next_set_has_all(C, gamma, p, monkeypatch):
    X, y = far_apart(p=p)
    sets, solution = sets_of(X, y, C, gamma)
    assert sets[:2] == [512, 2300]
    assert solution.status is Status.OPTIMAL
    monkeypatch.setattr(working_set, "_MOST_MOVE", np.inf)
    others, other = sets_of(X, y, C, gamma)
    assert others[1] < 2300
    assert solution.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-6)


@pytest.mark.parametrize(
    ("C", "gamma", "p", "of_gram"),
    [
        (1000.0, 0.001, 100, {}),  # coupled variables, which take many steps each
        (0.1, 2.0, 10, {}),  # cheap kernel values, and each variable moves once, to its bound
        (10.0, 0.02, 10, {}),  # half of the set moves
        (1.0, 0.02, 100, {"memory_limit": 40_000_000}),
    ],
    ids=["many steps", "at bounds", "few move", "little memory"],
)
def test_otherwise_working_sets_grow_gradually(C, gamma, p, of_gram):
    X, y = far_apart(p=p)
    sets, solution = sets_of(X, y, C, gamma, **of_gram)
    assert sets[0] == 512
    assert sets[1] < 2300
    assert solution.status is Status.OPTIMAL


def test_two_variables_a_row_do_not_use_the_whole_matrix():
    X, y = far_apart()
    sizes, everything = [], BatchState.take_everything
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchState, "take_everything", lambda state: sizes.append(state) or everything(state))
        for problem in (epsilon_svr(y, 10.0, 0.01), c_svc(y, 10.0)):
            solution = solve(problem, Gram(RBF(gamma=0.02), as_data(X)), control=Control(Limits(tol=1e-3)))
            assert solution.status is Status.OPTIMAL
    assert [state.problem.name for state in sizes] == ["C-SVC"]


def test_a_working_set_of_all_variables_is_solved_whole(monkeypatch):
    sizes, solving = [], working_set.solve_chosen

    def solve_chosen(state, chosen, matrix):
        sizes.append((state.uses_whole_matrix, chosen.size, len(matrix)))
        return (yield from solving(state, chosen, matrix))

    monkeypatch.setattr(working_set, "solve_chosen", solve_chosen)
    X, y = far_apart()
    sets_of(X, y, 10.0, 0.02)
    assert (True, 2300, 2300) in sizes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kernel", "C"), [(Linear(), 100.0), (Linear(), 1.0), (Polynomial(2, 0.5), 100.0)])
def test_few_columns_without_a_bias_are_solved(kernel, C, seed):
    """A few steps change all gradients, so a shrunken variable soon violates its condition."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2500, 2))
    y = np.where(np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] + 0.4 * rng.normal(size=2500) > 0.3, 1.0, -1.0)
    problem = c_svc_each(y, np.full(2500, C), [2500], bias=False)[0]
    solution = solve(problem, Gram(kernel, as_data(X)), control=Control(Limits(tol=1e-3)))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.verify().kkt_violation <= 1e-3


def test_working_sets_of_all_variables_end_with_single_precision():
    X, y = far_apart()
    solver, gram = WorkingSetSolver(), Gram(RBF(gamma=0.02), as_data(X))
    state = solver.init(c_svc(y, 100.0), gram, 1e-3, None)
    state.take_everything()
    takes = []
    for _ in range(2):
        solver.refresh(state, gram.matvec(state.beta) - y, 1e-3)
        takes.append((state.single, state.uses_whole_matrix))
    assert takes == [(True, True), (False, False)]
    sets, solution = sets_of(X, y, 100.0, 0.02, tol=1e-9)
    assert sets[1] == 2300
    assert solution.certificate.verify().kkt_violation <= 1e-9


@pytest.mark.parametrize("stored", ["dense", "CSR"])
def test_working_sets_of_all_variables_do_not_depend_on_threads(stored):
    X, y = far_apart(n=3300)  # from 2,000 variables on, two threads share an SMO step
    X = X * (np.random.default_rng(1).random(X.shape) < 0.4) if stored == "CSR" else X
    X = sp.csr_array(X) if stored == "CSR" else X
    (sets, one), (_, two) = (sets_of(X, y, 10.0, 0.05, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert sets[1] == 3300
    np.testing.assert_array_equal(one.beta, two.beta)


@pytest.mark.parametrize("max_iter", [300, 600, 1500])
def test_a_fit_stopped_in_the_whole_matrix_has_a_true_certificate(max_iter):
    X, y = far_apart()
    solution = solve(
        c_svc(y, 10.0), Gram(RBF(gamma=0.02), as_data(X)), control=Control(Limits(tol=1e-3, max_iter=max_iter))
    )
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == max_iter
    again = solution.certificate.verify()
    assert again.kkt_violation == pytest.approx(solution.certificate.kkt_violation, rel=1e-9)


def test_single_precision_is_not_used_if_its_rounding_exceeds_a_step():
    X, y = blobs(600)
    for C, single in ((1.0, True), (1e8, False)):
        assert WorkingSetSolver().init(c_svc(y, C), Gram(RBF(gamma=0.5), as_data(X)), 1e-3, None).single is single


@pytest.mark.parametrize(("C", "single"), [(1e-3, True), (1.0, True), (1e5, True), (1e8, False)])
def test_single_precision_is_used_for_squared_losses_without_upper_bounds(C, single):
    X, y = blobs(600)
    problem, gram = c_svc(y, C, squared=True), Gram(RBF(gamma=0.5), as_data(X))
    state = WorkingSetSolver().init(problem, gram, 1e-3, None)
    assert state.single is single
    solution = solve(problem, gram)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.verify().kkt_violation == pytest.approx(solution.certificate.kkt_violation, abs=1e-6)
    textbook = plain.figures(plain.gaussian(X, X, 0.5) + 0.5 / C * np.eye(y.size), y, 1e12, solution.beta)
    assert textbook.violation <= 1e-3 + 1e-9 * textbook.scale


@pytest.mark.parametrize("weight", [1e-8, 1e-20])
def test_a_row_of_tiny_weight_does_not_change_the_solver_of_squared_losses(weight):
    X, y = blobs(700)
    weights = np.ones(700)
    weights[7] = weight
    gram, all_but_one = Gram(RBF(gamma=0.5), as_data(X)), np.arange(700) != 7
    solution = solve(c_svc(y, weights, squared=True), gram)
    without = solve(c_svc(y[all_but_one], 1.0, squared=True), gram.restrict(np.flatnonzero(all_but_one)))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.dual == pytest.approx(without.certificate.dual, rel=1e-4)
    assert solution.certificate.n_kernel_values <= 2.1 * without.certificate.n_kernel_values


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_squared_losses_on_held_values_come_to_the_same_optimum(C):
    X, y = blobs(600)
    problem, kernel, rows = c_svc(y, C, squared=True), RBF(gamma=0.5), as_data(X)
    in_memory = Gram(
        EvaluatedKernel(kernel), InMemoryRows(np.ascontiguousarray(kernel.block(rows, rows))).rows(np.arange(600))
    )
    same_optimum(solve(problem, in_memory), solve(problem, Gram(kernel, rows)))


def test_squared_losses_are_not_solved_in_stages():
    X, y = blobs(n=1000, p=8)
    problem, gram = c_svc(y, 1e4, squared=True), Gram(RBF(gamma=0.01), as_data(X))
    state = WorkingSetSolver().init(problem, gram, 1e-3, None)
    assert state.uses_whole_matrix
    assert not block._may_begin_smaller(state, np.arange(1000))
    assert solve(problem, gram).status is Status.OPTIMAL


@pytest.mark.parametrize("max_seconds", [0.0, 1e-9, 0.15])
def test_max_seconds_ends_the_work_and_leaves_a_usable_machine(max_seconds):
    X, y = hard_problem()
    began = time.process_time()
    solution = solved(X, y, 1e4, limits=Limits(tol=1e-10, max_seconds=max_seconds))
    assert solution.status is Status.TIME_LIMIT
    assert time.process_time() - began < max_seconds + 3.0
    assert solution.certificate.gap > 0.0
    assert solution.certificate.dual_infeasibility <= 1e-9 * max(1.0, np.abs(solution.beta).sum())


def test_a_callback_sees_progress_and_may_stop():
    X, y = hard_problem()
    seen = []

    def callback(progress):
        seen.append(progress)
        return len(seen) == 3

    solution = solved(X, y, 1e4, limits=Limits(tol=1e-10), callback=callback)
    assert solution.status is Status.INTERRUPTED
    assert len(seen) == 3
    assert [p.tol for p in seen] == [1e-10] * 3
    assert all(a.seconds < b.seconds and a.n_iter <= b.n_iter for a, b in pairwise(seen))
    assert seen[0].stage


@pytest.mark.parametrize("answer", [np.True_, 1, "stop"])
def test_every_true_value_stops(answer):
    X, y = hard_problem()
    solution = solved(X, y, 1e4, limits=Limits(tol=1e-10), callback=lambda progress: answer)
    assert solution.status is Status.INTERRUPTED


@pytest.mark.parametrize("answer", [None, 0, np.False_])
def test_no_false_value_stops(answer):
    X, y = blobs(n=200)
    assert solved(X, y, 1.0, callback=lambda progress: answer).status is Status.OPTIMAL


def test_an_error_in_a_callback_is_passed_on_and_the_handler_is_restored():
    X, y = blobs(n=200)
    before = signal.getsignal(signal.SIGINT)

    def callback(progress):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        solved(X, y, 1.0, callback=callback)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_trace_records_the_rounds():
    X, y = hard_problem(1500)
    solution = solved(X, y, 100.0, Linear(), limits=Limits(tol=1e-3, max_seconds=5.0))
    trace = solution.trace
    assert len(trace) >= 1
    assert all(a.seconds <= b.seconds and a.n_iter <= b.n_iter for a, b in pairwise(trace))
    rounding = 3e-5 * max(1.0, trace[-1].dual)  # rounding of single precision
    assert all(a.dual <= b.dual + rounding for a, b in pairwise(trace))
    assert trace[-1].n_iter == solution.n_iter
    assert trace[-1].dual == pytest.approx(solution.certificate.dual, rel=1e-6)


# Interruption.


def test_a_request_stops_the_work():
    X, y = hard_problem()
    interruption = Interruption()
    timer = threading.Timer(0.1, interruption.request)
    timer.start()
    solution = solved(X, y, 1e4, limits=Limits(tol=1e-10), interruption=interruption)
    timer.join()
    assert solution.status is Status.INTERRUPTED
    assert solution.certificate.gap > 0.0


def test_two_requests_skip_the_certificate_which_comes_on_first_use():
    X, y = hard_problem()
    interruption = Interruption()

    def callback(progress):
        interruption.request()
        interruption.request()

    solution = solved(X, y, 1e4, limits=Limits(tol=1e-10), interruption=interruption, callback=callback)
    assert (interruption.requested, interruption.insisted) == (True, True)
    assert solution.status is Status.UNVERIFIED
    assert np.isfinite(solution.bias)
    certificate = solution.certificate
    assert (certificate.status, solution.status) == (Status.INTERRUPTED, Status.UNVERIFIED)
    assert solution.certificate is certificate
    textbook = plain.figures(plain.gaussian(X, X, 0.5), y, 1e4, solution.beta, solution.bias)
    assert certificate.dual == pytest.approx(textbook.dual, rel=1e-9)
    assert certificate.primal == pytest.approx(textbook.primal, rel=1e-9)
    with pytest.raises(FrozenInstanceError):
        solution.bias = 0.0


def test_a_pickled_machine_without_certificate_says_that_it_can_have_none():
    X, y = blobs()
    interruption = Interruption()
    interruption.request()
    interruption.request()
    solution = solved(X, y, 1.0, interruption=interruption)
    unread, read = pickle.loads(pickle.dumps(solution)), solution.certificate
    assert (unread.status, solution.status, read.status) == (
        Status.UNVERIFIED,
        Status.UNVERIFIED,
        Status.INTERRUPTED,
    )
    with pytest.raises(ValueError, match=r"cannot be certified any more: its fit was interrupted before .* fit again"):
        unread.certificate  # noqa: B018
    assert pickle.loads(pickle.dumps(solution)).certificate == read


def test_the_outermost_interruption_handles_signals_and_restores_the_handler():
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as outer:
        handler = signal.getsignal(signal.SIGINT)
        assert handler is not before
        with outer:
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == handler
        assert (outer.requested, outer.insisted) == (True, False)
        with Interruption() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.requested
        assert outer.insisted  # Ctrl-C in the inner block reaches the outer one too
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_touch_no_handler():
    before, handlers = signal.getsignal(signal.SIGINT), []

    def enter():
        with Interruption():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [before]


# The claims of a solver are checked.


class Liar(Solver):
    """A solver that reports that it has finished at its starting point."""

    name = "liar"

    def init(self, problem, gram, tol, start):
        """Return the start."""
        return State(problem.start.copy(), problem.linear.copy())

    def steps(self, state):
        """Do nothing."""
        state.violation = 0.0
        return iter(())

    def refresh(self, state, gradient, tol):
        """Learn nothing."""


def test_the_claim_of_a_solver_is_checked():
    X, y = blobs()
    gram = Gram(RBF(gamma=0.5), as_data(X))
    solution = solve_certified(Liar(), "for a test", c_svc(y, 1.0), gram, control=Control(Limits()))
    assert (solution.status, solution.solver, solution.reason) == (Status.STALLED, "liar", "for a test")
    assert solution.certificate.kkt_violation == 2.0
    assert solution.certificate.gap == 40.0


def test_a_machine_that_starts_stopped_costs_nothing():
    X, y = blobs(n=400)
    looked_at = []
    function = Callable(lambda A, B: looked_at.append((len(A), len(B))) or A @ B.T)
    gram = Gram(function, as_data(X), memory_limit=1 << 20)  # less than the whole matrix needs
    interruption = Interruption()
    interruption.request()
    for limits, shared, status in (
        (Limits(max_seconds=0.0), Interruption(), Status.TIME_LIMIT),
        (Limits(), interruption, Status.INTERRUPTED),
    ):
        before = gram.n_values
        solution = solve(c_svc(y, 1.0), gram, control=Control(limits, lambda progress: 1 / 0, shared))
        assert (solution.status, solution.n_iter, solution.trace) == (status, 0, [])
        assert (solution.beta.any(), solution.certificate.gap, gram.n_values - before) == (False, 400.0, 0)
        assert sum(a * b for a, b in looked_at) <= 256 * 400  # the diagonal in blocks, but never the whole matrix
        warm = solve(
            c_svc(y, 1.0), gram, control=Control(limits, interruption=shared), start=np.eye(400)[0] - np.eye(400)[1]
        )
        assert (warm.status, warm.n_iter) == (status, 0)
        assert gram.n_values - before == 2 * 400


def test_the_balance_holds_to_one_rounding():
    X, y = blobs(n=400, distance=0.5)
    for kernel in (RBF(gamma=0.05), Linear()):
        solution = solved(X, y, 1e6, kernel, limits=Limits(tol=1e-3, max_iter=200_000))
        free = (np.abs(solution.beta) > 0.0) & (np.abs(solution.beta) < 1e6)
        assert free.any()
        rounding = np.spacing(np.abs(solution.beta[free]).min())
        assert abs(math.fsum(solution.beta)) <= rounding
        assert solution.certificate.dual_infeasibility <= rounding


# C = inf.

SEPARABLE = {
    "two rows": (np.array([[0.0, 1.0], [1.0, -1.0]]), np.array([1.0, -1.0])),
    "blobs": blobs(distance=8.0),
    "one against many": (
        np.vstack([[9.0, 9.0], np.random.default_rng(0).normal(size=(30, 2))]),
        2.0 * np.eye(31)[0] - 1,
    ),
    "grid": (np.array([[i, j] for i in range(5) for j in range(5)], float), np.repeat([-1.0, -1.0, 1.0, 1.0, 1.0], 5)),
    "more columns than rows": (np.random.default_rng(0).normal(size=(10, 40)), np.tile([-1.0, 1.0], 5)),
    "duplicates": (np.repeat(blobs(10, distance=8.0)[0], 4, axis=0), np.repeat(blobs(10)[1], 4)),
    "units": (blobs(distance=8.0)[0] * [1e-3, 1e3, 1.0], blobs()[1]),
}


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize("kernel", [Linear(), RBF(gamma=0.2), Polynomial(2, 1.0, 1.0)], ids=repr)
def test_a_hard_margin_is_that_of_a_large_penalty(name, kernel):
    X, y = SEPARABLE[name]
    hard = solved(X, y, np.inf, kernel, Limits(tol=1e-7))
    assert hard.status is Status.OPTIMAL
    assert hard.solver == "hard margin by nearest points"
    margins = y * (one_values(hard) + hard.bias)
    assert margins.min() == pytest.approx(1.0, abs=1e-6)
    assert abs(hard.certificate.relative_gap) <= 1e-5
    soft = solved(X, y, max(1e8, 2.0 * np.abs(hard.beta).max()), kernel, Limits(tol=1e-7))
    assert hard.certificate.dual == pytest.approx(soft.certificate.dual, rel=1e-6)
    np.testing.assert_allclose(one_values(hard) + hard.bias, one_values(soft) + soft.bias, rtol=1e-5, atol=1e-5)


def test_a_hard_margin_by_hand():
    # The nearest points are (1, 0) and (3, 0): w = (1, 0), b = -2, ||w||^2 / 2 = 1/2.
    X, y = np.array([[1.0, 0.0], [0.0, 5.0], [3.0, 0.0], [9.0, -7.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    hard = solved(X, y, np.inf, Linear())
    np.testing.assert_allclose(X.T @ hard.beta, [1.0, 0.0], atol=1e-9)
    assert hard.bias == pytest.approx(-2.0)
    assert (hard.certificate.primal, hard.certificate.dual) == (pytest.approx(0.5), pytest.approx(0.5))


XOR = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
INSEPARABLE = {
    "exclusive or": (*XOR, Linear()),
    "equal rows": (np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]), np.array([1.0, 1.0, -1.0]), RBF(gamma=1.0)),
    "touching": (np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0]), Linear()),
    "one between the others": (np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, -1.0]), Linear()),
    "overlapping": (*blobs(), Linear()),
    "overlapping, far away": (blobs()[0] + 1e4, blobs()[1], Linear()),
    "overlapping, large": (blobs()[0] * 1e6, blobs()[1], Linear()),
    "overlapping, small": (blobs()[0] * 1e-6, blobs()[1], Linear()),
    "constant kernel": (*blobs(), RBF(gamma=0.0)),
    "nothing but zeros": (np.zeros((6, 2)), np.array([1.0, -1.0] * 3), Linear()),
    "circle in a circle": (
        np.array([[r * np.cos(t), r * np.sin(t)] for r in (1, 2) for t in range(9)]),
        np.repeat([-1.0, 1.0], 9),
        Linear(),
    ),
}


@pytest.mark.parametrize("name", INSEPARABLE)
def test_inseparable_classes_come_with_a_proof(name):
    X, y, kernel = INSEPARABLE[name]
    with pytest.raises(
        InseparableError, match=r"C = inf needs classes that can be separated.*Use a finite C"
    ) as caught:
        solved(X, y, np.inf, kernel)
    weights, K = caught.value.weights, kernel.block(as_data(X), as_data(X))
    assert caught.value.status is Status.INFEASIBLE
    # A point in both hulls: nonnegative weights that sum to 1 over each class, and two means that coincide.
    assert (weights >= 0.0).all()
    np.testing.assert_allclose([weights[y > 0].sum(), weights[y < 0].sum()], 1.0, rtol=1e-12)
    signed = y * weights
    assert signed @ K @ signed <= 1e-10 * max(K.diagonal().max(), 1e-300)
    assert caught.value.distance**2 <= 1e-10 * max(K.diagonal().max(), 1e-300)
    again = pickle.loads(pickle.dumps(caught.value))  # like the processes of a parallel search
    assert (str(again), again.distance) == (str(caught.value), caught.value.distance)
    np.testing.assert_array_equal(again.weights, weights)


@pytest.mark.parametrize("matrix", ["negative", "noise", "shifted"])
def test_a_kernel_that_is_not_positive_semidefinite_has_no_equal_rows_but_no_margin_either(matrix):
    X, y = blobs(distance=2.0)
    noise = np.random.default_rng(0).normal(size=(40, 40))
    K = {"negative": -X @ X.T, "noise": noise + noise.T, "shifted": X @ X.T - 2.0 * np.eye(40)}[matrix]
    with pytest.raises(
        InseparableError, match=r"needs a kernel that is positive semidefinite.*squared distance -"
    ) as caught:
        solve(c_svc(y, np.inf), Gram(PrecomputedKernel(), Precomputed(K)))
    signed = y * caught.value.weights
    assert signed @ K @ signed < 0.0
    assert (caught.value.status, caught.value.distance) == (Status.INFEASIBLE, 0.0)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
def test_a_negative_matrix_ends_as_a_stationary_point(C):
    X, y = blobs()
    solution = solve(c_svc(y, C), Gram(PrecomputedKernel(), Precomputed(-X @ X.T)))
    assert solution.status is Status.STATIONARY
    assert solution.certificate.kkt_violation <= 1e-3


def test_equal_rows_are_named():
    X, y, kernel = INSEPARABLE["equal rows"]
    with pytest.raises(InseparableError, match="rows 0 and 2 are equal for this kernel and belong to"):
        solved(X, y, np.inf, kernel)


def test_many_rows_are_named_in_part():
    X, y = blobs(200)
    with pytest.raises(InseparableError, match=r"weighted means of the two classes coincide .* rows: \d+, "):
        solved(X, y, np.inf, Linear())


def test_a_small_gap_between_the_classes_is_a_gap():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    X = np.column_stack([1.5e-5 * y, rng.uniform(-1.0, 1.0, 40)])
    hard = solved(X, y, np.inf, Linear(), Limits())
    assert (y * (one_values(hard) + hard.bias)).min() == pytest.approx(1.0, abs=1e-2)
    assert hard.certificate.dual == pytest.approx(0.5 / 1.5e-5**2, rel=1e-2)


def test_a_hard_margin_that_is_stopped_is_no_proof_of_anything():
    X, y = hard_problem(1000)
    for limits in (Limits(max_iter=3), Limits(max_seconds=0.0)):
        solution = solved(X, y, np.inf, Linear(), limits)
        assert solution.status in (Status.MAX_ITER, Status.TIME_LIMIT)
        assert solution.certificate.primal == np.inf
        assert solution.certificate.relative_gap == np.inf


def test_a_hard_margin_starts_warm_from_its_own_optimum():
    X, y = SEPARABLE["blobs"]
    cold = solved(X, y, np.inf, Linear())
    warm = solved(X, y, np.inf, Linear(), start=cold.beta)
    same_optimum(cold, warm)
    assert warm.n_iter <= cold.n_iter


# Which solver.


@pytest.mark.parametrize(
    ("n", "C", "kernel", "name", "reason"),
    [
        (40, 1.0, Linear(), "working-set SMO", "n = 40 <= 300: all variables at once, exact Newton steps at the end"),
        (40, 1.0, Sigmoid(1.0, 1.0), "working-set SMO", "n = 40 <= 2048: all variables at once"),
        (400, 1.0, Linear(), "working-set SMO", "n = 400 <= 2048: all variables at once"),
        (2050, 1.0, Linear(), "working-set SMO", "n = 2050 > 2048: working sets of violators, or everything"),
        (40, np.inf, Linear(), "hard margin by nearest points", "C = inf"),
    ],
)
def test_the_choice_of_a_solver_has_a_reason(n, C, kernel, name, reason):
    X, y = blobs(n)
    choice = select_solver(c_svc(y, C), Gram(kernel, as_data(X)))
    assert choice[0].name == name
    assert choice[1].startswith(reason)


@every_problem
def test_the_choice_does_not_go_by_the_name_of_a_problem(case):
    X, y = blobs()
    problem, gram = case.problem(y), Gram(Linear(), as_data(X))
    assert isinstance(select_solver(problem, gram)[0], WorkingSetSolver)
    renamed = replace(c_svc(y, np.inf), name="another")
    assert isinstance(select_solver(renamed, gram)[0], HardMargin)
    assert gram.n_values == 0


def test_sizes_must_agree():
    X, y = blobs()
    with pytest.raises(ValueError, match="problem and gram must be of the same size, got 40 and 39"):
        solve(c_svc(y, 1.0), Gram(Linear(), as_data(X[1:])))


@pytest.mark.parametrize("name", hostile_tables())
def test_hostile_tables_are_solved_in_few_steps(name):
    """There is no limit: the test is that the fit ends. Solver steps are counted, not seconds."""
    X, y = hostile_tables()[name]
    for C in (1e-8, 1.0, 1e8):
        assert solved(X, y, C, Linear(), Limits(tol=1e-3)).n_iter < 10**6


@pytest.mark.parametrize("n", [1500, 2048, 2049, 3000, 4097])
def test_the_solvers_gradient_is_the_true_one(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    problem, gram = c_svc(signs, 1.0), Gram(RBF(gamma=0.25), as_data(X))
    solver = WorkingSetSolver()
    state = solver.init(problem, gram, 1e-3, None)
    for _ in solver.steps(state):
        pass
    true = gram.matvec(state.beta) + problem.linear
    current = slice(None) if state.active is None else state.active
    np.testing.assert_allclose(state.gradient[current], true[current], rtol=0, atol=1e-4)
    free = (state.beta > problem.lower) & (state.beta < problem.upper)
    assert np.isin(np.flatnonzero(free), np.arange(n)[current]).all()


@pytest.mark.parametrize("kind", ["plain", "ridge", "sparse"])
def test_a_working_set_keeps_what_the_last_one_had(kind, monkeypatch):
    rng = np.random.default_rng(8)
    n, p = 3500, 80  # values of such long rows are copied, not evaluated again
    monkeypatch.setattr("mercer.solvers.dual.row_cache._SPARE_BYTES", 0)  # leaves space for few cached rows
    X = rng.normal(size=(n, p)) / np.sqrt(p)
    if kind == "sparse":
        X[rng.random((n, p)) < 0.1] = 0.0
    problem = c_svc(np.where(np.sin(3.0 * X[:, 0]) + X[:, 1] > 0.0, 1.0, -1.0), 1000.0)
    if kind == "ridge":
        problem = replace(problem, ridge=rng.uniform(1e-4, 1e-3, n))
    data = as_data(sp.csr_array(X) if kind == "sparse" else X)
    gram, other, exchanged = Gram(RBF(gamma=0.5), data), Gram(RBF(gamma=0.5), data), []

    def watched(state, chosen):
        last, n_before = state.working, gram.n_values
        matrix = yield from working_matrix(state, chosen)
        order, padded, _ = matrix
        np.testing.assert_array_equal(np.sort(order), np.sort(chosen))
        expected = np.empty((order.size, order.size), dtype=padded.dtype)
        for _ in other.fill_block(expected, order, order):
            pass
        if problem.ridge is not None:
            expected[np.diag_indices(order.size)] += problem.ridge[order]
        np.testing.assert_array_equal(padded[:, : order.size], expected)  # the same bits as values evaluated again
        assert not padded[:, order.size : -(-order.size // 16) * 16].any()
        if (np.diff(order) < 0).any():
            n_new = np.count_nonzero(~np.isin(order, last.variables))
            assert gram.n_values - n_before == n_new * order.size
            exchanged.append(n_new)
        return matrix

    monkeypatch.setattr("mercer.solvers.dual.working_set.working_matrix", watched)
    solver = WorkingSetSolver()
    state = solver.init(problem, gram, 1e-3, None)
    for _ in solver.steps(state):
        pass
    assert exchanged
    true = gram.matvec(state.beta) + problem.linear
    true += 0.0 if problem.ridge is None else problem.ridge * state.beta
    current = slice(None) if state.active is None else state.active
    np.testing.assert_allclose(state.gradient[current], true[current], rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["plain", "ridge", "groups"])
def test_a_working_set_of_all_active_variables_keeps_its_matrix(kind):
    rng = np.random.default_rng(5)
    n = 2500
    X = rng.normal(size=(n, 4))
    problem = c_svc(np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0), 1.0)
    if kind == "ridge":
        problem = replace(problem, ridge=rng.uniform(0.1, 1.0, n))
    if kind == "groups":
        problem = replace(problem, groups=rng.integers(0, 2, n))
    gram = Gram(RBF(gamma=0.25), as_data(X))
    solver, sizes, counts = WorkingSetSolver(), [], []
    state = solver.init(problem, gram, 1e-3, None)
    for _ in solver.steps(state):
        if not state.has_all_active:
            continue
        covered = state.working.variables
        sizes.append(covered.size)
        counts.append(gram.n_values)
        np.testing.assert_array_equal(np.sort(covered), np.arange(n) if state.active is None else state.active)
        expected = np.exp(-0.25 * cdist(X[covered], X[covered], "sqeuclidean"))
        if problem.ridge is not None:
            expected += np.diag(problem.ridge[covered])
        np.testing.assert_allclose(state.working.values[:, : sizes[-1]], expected, rtol=0, atol=1e-6)
        # Zeros up to the next vector length.
        assert not state.working.values[:, sizes[-1] : -(-sizes[-1] // 16) * 16].any()
    assert sizes[0] > sizes[-1]
    assert counts[0] == counts[-1]
    true = gram.matvec(state.beta) + problem.linear
    true += 0.0 if problem.ridge is None else problem.ridge * state.beta
    np.testing.assert_allclose(state.gradient[covered], true[covered], rtol=0, atol=1e-4)


@pytest.mark.usefixtures("way")
def test_where_single_precision_does_not_suffice_the_matrix_becomes_double():
    """More than 300 rows begin in float32; these are not scaled, so that it leaves a violation of 0.004."""
    data = load_breast_cancer()
    X, y = data.data[:400], np.where(data.target[:400] == 1, 1.0, -1.0)
    solution = solved(X, y, 1e-4, Linear(), Limits(tol=1e-6))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.kkt_violation <= 1e-6


def test_claims_of_a_solver_are_not_applied_to_an_earlier_better_point():
    X, y = blobs(n=20)
    problem, gram = c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X))
    good, last = solve(problem, gram, control=Control(TIGHT)).beta, problem.make_feasible(0.5 * y)
    best_point = _BestPoint()
    best_point.ends_at(evaluate(problem, gram, good), good, 1, True)
    state = State(last, gram.matvec(last), product=gram.matvec(last))
    _best(problem, gram, evaluate(problem, gram, last), state, best_point, True)
    np.testing.assert_array_equal(state.beta, good)
    assert state.product is None
