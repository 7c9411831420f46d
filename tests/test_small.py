"""Small problems solved by one native call: the results of other solvers, independent of threads and callbacks."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cases import ISAS, blobs, hostile_tables
from mercer import SVC, NuSVC
from mercer._core import BLOCK_LIMIT
from mercer.certificates.evaluation import evaluate
from mercer.certificates.quadratic import dual_objective
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram import STATE_ARRAYS, Gram
from mercer.kernels import RBF, Linear, Polynomial, Sigmoid, center
from mercer.multiclass.training import make_tasks, train
from mercer.problems import Problems, c_svc, c_svc_each, epsilon_svr, nearest_points
from mercer.solvers import Control, Interruption, Limits, select, solve, solve_each
from mercer.solvers.dual import small_problems as small
from mercer.solvers.dual import working_set_sizes
from mercer.solvers.dual.block import newton_bytes
from mercer.solvers.dual.small_problems import SmallProblems, are_small, takes_kernel
from pairs import every_pair

HOSTILE = hostile_tables()
KERNELS = {"linear": Linear(), "cubic": Polynomial(3, 0.5, 1.0), "gaussian": RBF(gamma=0.5)}


def pairs_of(labels, n_classes, C=1.0, starts=None):
    """The arguments for small problems of class pairs: parts, pairs, problems and starting points."""
    tasks = make_tasks(labels, n_classes, "ovo")
    problems = c_svc_each(tasks.signs, np.full(tasks.signs.size, C), tasks.sizes)
    return tasks.parts, tasks.pairs, problems, starts or [None] * len(tasks)


def alone(problem):
    return [np.arange(problem.n)], np.array([[0, -1]]), Problems(problem, [problem.n]), [None]


@every_pair(C=[0.1, 10.0, 1e4], kernel=KERNELS, name=HOSTILE)
def test_solutions_agree_with_the_general_solver(name, kernel, C, monkeypatch):
    X, y = HOSTILE[name]
    ours = solve(c_svc(y, C), Gram(KERNELS[kernel], as_data(X)))
    monkeypatch.setattr(small, "SMALL_PROBLEM", 0)
    other = solve(c_svc(y, C), Gram(KERNELS[kernel], as_data(X)))
    assert ours.status is other.status
    said, theirs = ours.certificate, other.certificate
    unknown = [c.gap + 10.0 * c.decision_error * np.abs(s.beta).sum() for c, s in ((said, ours), (theirs, other))]
    assert said.dual == pytest.approx(theirs.dual, rel=1e-9, abs=max(1e-9, *unknown))
    assert said.gap <= 2.0 * max(1e-9, unknown[1], 1e-9 * abs(said.dual))
    assert ours.solver == other.solver
    chosen, theirs = (one.reason.split("; ")[0] for one in (ours, other))  # rounding decides whether one stalls at last
    assert chosen.replace("2048: in native calls, ", "300: ") == theirs


def weighted_duplicates(n, seed):
    """Rows with duplicates and a constant column, two classes, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    X[:, 3] = 1.0
    X[n // 2 :: 3] = X[0]
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y, rng.uniform(0.1, 3.0, n)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 60),
    st.sampled_from([1e-2, 1.0, 1e3]),
    st.sampled_from(sorted(KERNELS)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_the_certificate_is_that_of_the_point(n, C, kernel, sparse, seed):
    """Compared with kernel values in NumPy, with weights, duplicates and a constant column."""
    X, y, weights = weighted_duplicates(n, seed)
    solution = solve(c_svc(y, C * weights), Gram(KERNELS[kernel], as_data(sp.csr_array(X) if sparse else X)))
    said, recomputed = solution.certificate, solution.certificate.verify()
    assert said.status is Status.OPTIMAL
    for name in ("primal", "kkt_violation", "dual_infeasibility", "n_free", "n_bounded"):
        assert getattr(said, name) == pytest.approx(getattr(recomputed, name), rel=1e-9, abs=1e-9), name
    ours, theirs = (dual_objective(one, solution.beta) for one in (said, recomputed))
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    assert said.dual_infeasibility <= 1e-15 * np.abs(solution.beta).sum()


@pytest.fixture
def in_single(monkeypatch):
    """Make single problems of any size begin in single precision."""
    monkeypatch.setattr(small, "_DOUBLE_ALONE", 0)
    monkeypatch.setattr(working_set_sizes, "EXACT_PROBLEM", 0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(2, 90),
    st.sampled_from([1e-2, 1.0, 10.0]),
    st.sampled_from([1e-2, 1e-3, 1e-9]),
    st.sampled_from(sorted(KERNELS)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_fits_begun_in_single_precision_end_with_true_certificates(in_single, n, C, tol, kernel, sparse, seed):
    X, y, weights = weighted_duplicates(n, seed)
    problem = c_svc(y, C * weights)
    gram = Gram(KERNELS[kernel], as_data(sp.csr_array(X) if sparse else X))
    if gram.largest_diagonal * (problem.upper - problem.lower).max() <= small._MANY_STEPS:
        native = SmallProblems(gram, *alone(problem), Limits(tol=tol), alone=True)
        assert native.solve() == 1
        assert "in single precision first" in native.solved.solution(0).reason
    solution = solve(problem, gram, control=Control(Limits(tol=tol)))
    said, recomputed = solution.certificate, solution.certificate.verify()
    assert said.status is Status.OPTIMAL
    assert recomputed.kkt_violation <= tol
    for name in ("primal", "dual", "kkt_violation", "dual_infeasibility", "n_free", "n_bounded"):
        assert getattr(said, name) == pytest.approx(getattr(recomputed, name), rel=1e-9, abs=1e-9), name


def test_threads_change_no_bit_of_fits_begun_in_single_precision():
    X, y = blobs(900, distance=1.0)
    one, *others = (
        solve(c_svc(y, 30.0), Gram(RBF(gamma=0.5), as_data(np.hstack([X] * 20)), n_jobs=n_jobs)) for n_jobs in (1, 2, 7)
    )
    assert "in single precision first" in one.reason
    assert one.n_kernel_values == 900 * (900 + one.certificate.n_support)  # no problem was left to other solvers
    for other in others:
        np.testing.assert_array_equal(one.beta, other.beta)
        assert (one.bias, one.certificate.kkt_violation) == (other.bias, other.certificate.kkt_violation)


def test_problems_with_many_steps_go_to_another_solver():
    X, y = blobs(700)
    gram = Gram(RBF(gamma=0.5), as_data(X))
    reasons = [solve(c_svc(y, C), gram).reason for C in (1.0, 100.0, 1e4)]
    assert reasons == [
        "n = 700 <= 2048: in native calls, all variables at once, in single precision first",
        "n = 700 <= 2048: in native calls, all variables at once, in single precision first",
        "n = 700 <= 2048: all variables at once",
    ]
    reasons = [solve(c_svc(y[:500], C), gram.restrict(np.arange(500))).reason for C in (1.0, 100.0, 1e4)]
    assert ["in single" in reason for reason in reasons] == [False, True, False]


def test_a_warm_start_begins_in_single_precision_too(in_single):
    X, y = blobs(150, distance=1.0)
    gram = Gram(RBF(gamma=0.5), as_data(X))
    first = solve(c_svc(y, 1.0), gram)
    again = solve(c_svc(y, 1.0), gram, start=first.beta)
    assert "in single precision first" in again.reason
    assert again.status is Status.OPTIMAL
    assert again.n_iter == 0
    np.testing.assert_allclose(again.beta, first.beta, atol=1e-12)


def test_a_problem_alone_asks_whether_to_stop(in_single):
    X, y = blobs(2000, distance=0.1)
    problem, gram = c_svc(y, 300.0), Gram(RBF(gamma=2.0), as_data(X))
    asked = []

    def at_once() -> bool:
        asked.append(None)
        return True

    chosen = SmallProblems(gram, *alone(problem), Limits(), alone=True)
    assert chosen.solve(at_once) == 1
    assert len(asked) == 1
    assert chosen.solved.finished() == [False]
    left = chosen.solved.solution(0)
    assert left.n_iter > 0
    assert left.beta.any()
    assert left.certificate.kkt_violation > 1e-3
    evaluation = evaluate(problem, gram, left.beta)
    assert left.certificate.kkt_violation == pytest.approx(evaluation.violation, abs=1e-9)
    assert left.certificate.dual == pytest.approx(evaluation.dual, rel=1e-9)


def test_a_fit_stopped_in_single_precision_does_not_continue_in_double():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    problem = epsilon_svr(np.sin(X[:, 0]) + 0.3 * rng.normal(size=300), 100.0, 0.1)
    gram = Gram(RBF(gamma=0.25), as_data(X)).restrict(problem.rows)
    for stop, is_exact in ((lambda: True, False), (None, True)):
        chosen = SmallProblems(gram, *alone(problem), Limits(), alone=True)
        assert chosen.solve(stop) == 1
        assert chosen.solved.finished() == [is_exact]
        assert "in single precision first, exact Newton steps" in chosen.solved.solution(0).reason
        assert (chosen.solved.solution(0).certificate.kkt_violation < 1e-9) == is_exact


def test_an_exact_problem_beyond_its_work_limit_continues_in_another_solver():
    X, y = blobs(100)
    chosen = SmallProblems(Gram(RBF(gamma=0.5), as_data(X)), *alone(c_svc(y, 1.0)), Limits(), alone=True)
    assert chosen.solve() == 1
    assert chosen.solved.numbers[0, 0] != BLOCK_LIMIT
    chosen.solved.numbers[0, 0] = BLOCK_LIMIT
    assert chosen.solved.proved.all()  # solved to the tolerance, but not to the limit of float64
    assert chosen.solved.finished() == [False]


def test_reported_progress_equals_the_certificate():
    X, y = blobs(100)
    chosen = SmallProblems(Gram(RBF(gamma=0.5), as_data(X)), *alone(c_svc(y, 1.0)), Limits(), alone=True)
    assert chosen.solve() == 1
    progress, certificate = chosen.solved.progress(0), chosen.solved.solution(0).certificate
    assert progress.dual == pytest.approx(certificate.dual, rel=1e-12)
    assert progress.dual > 0.0
    assert (progress.n_iter, progress.violation) == (certificate.n_iter, certificate.kkt_violation)


def test_a_smaller_tolerance_does_not_restart_the_fit(in_single):
    X, y = blobs(1500, 20, distance=0.1)
    at_first, in_the_end = (
        solve(c_svc(y, 100.0), Gram(RBF(gamma=0.05), as_data(X)), control=Control(Limits(tol=tol)))
        for tol in (1e-3, 1e-7)
    )
    assert "in single precision first" in in_the_end.reason
    assert in_the_end.status is Status.OPTIMAL
    assert at_first.certificate.n_free > 1024  # so many free variables make Newton steps expensive
    assert at_first.n_iter < in_the_end.n_iter < 2.5 * at_first.n_iter
    assert in_the_end.n_kernel_values < 3 * 1500**2  # no problem was solved twice


def test_hard_problems_start_again_in_another_solver(in_single):
    X, y = blobs(2000, distance=0.1)
    problem, gram = c_svc(y, 300.0), Gram(RBF(gamma=2.0), as_data(X))
    chosen = SmallProblems(gram, *alone(problem), Limits(), alone=True)
    assert chosen.solve() == 1
    assert chosen.solved.finished() == [False]
    assert not chosen.solved.solution(0).beta.any()
    solution = solve(problem, gram)
    assert solution.status is Status.OPTIMAL
    assert solution.n_iter > chosen.solved.solution(0).n_iter > 0


def test_one_small_pair_among_large_ones_is_solved_as_a_pair():
    labels = np.repeat([0, 1, 2], [30, 40, 2600])
    X = np.random.default_rng(0).normal(size=(labels.size, 3)) + labels[:, None]
    machines = train(Gram(RBF(gamma=0.5), as_data(X)), labels, 3, 100.0)
    assert machines.solutions[0].reason.startswith("n = 70 <= 2560: in native calls, all variables at once, exact")


def test_exceptions_of_the_stop_function_are_passed_on(in_single):
    X, y = blobs(60)
    chosen = SmallProblems(Gram(RBF(gamma=0.5), as_data(X)), *alone(c_svc(y, 1.0)), Limits(), alone=True)
    with pytest.raises(ZeroDivisionError):
        chosen.solve(lambda: bool(1 // 0))


def test_the_memory_of_newton_steps_counts():
    X, y = blobs(900, distance=0.5)
    gram = Gram(RBF(gamma=2.0), as_data(X))
    solution = solve(c_svc(y, 60.0), gram)
    assert "in single precision first" in solution.reason
    rest = gram.peak_bytes + gram.arena.nbytes + STATE_ARRAYS * solution.beta.nbytes
    used_bytes = solution.certificate.peak_memory_bytes - rest
    n_free = solution.certificate.n_free
    assert used_bytes >= newton_bytes(n_free, 900, single=True)
    assert used_bytes <= newton_bytes(900, 900, single=True)


def test_conditions_come_from_the_final_point_alone():
    X, _ = blobs(90)
    labels = np.arange(90) % 3
    gram = Gram(RBF(gamma=0.5), as_data(X))
    parts, pairs, problems, starts = pairs_of(labels, 3)
    for solution, pair, problem in zip(solve_all(gram, parts, pairs, problems, starts), pairs, problems, strict=True):
        rows = np.concatenate([parts[part] for part in pair])
        again = evaluate(problem, gram.restrict(rows), solution.beta)
        assert solution.certificate.kkt_violation == pytest.approx(again.violation, abs=1e-12)
        assert solution.certificate.primal == pytest.approx(again.primal, rel=1e-12)
        assert solution.certificate.decision_error == pytest.approx(again.rounding, rel=1e-12)
        assert solution.bias == pytest.approx(again.bias, abs=1e-12)
        np.testing.assert_array_equal(solution.evidence.idx, rows)


def solve_all(gram, parts, pairs, problems, starts, limits=None):
    small_problems, done = SmallProblems(gram, parts, pairs, problems, starts, limits or Limits(), alone=False), 0
    while done < len(problems):
        done += small_problems.solve()
    return small_problems.solved.solutions()


@pytest.mark.parametrize("memory_limit", [None, 0])
def test_neither_threads_nor_work_limits_nor_sharing_change_a_bit(memory_limit, monkeypatch):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 5)), rng.integers(0, 6, 300)
    points = []
    for n_jobs, limit in [(1, 1e9), (2, 1e9), (7, 1e9), (2, 0.0)]:
        monkeypatch.setattr(small, "_WORK_LIMIT", limit)
        gram = Gram(RBF(gamma=0.2), as_data(X), n_jobs=n_jobs, memory_limit=memory_limit)
        solutions = solve_all(gram, *pairs_of(labels, 6, C=5.0))
        points.append(np.concatenate([solution.beta for solution in solutions]))
    for other in points[1:]:
        np.testing.assert_array_equal(points[0], other)


def test_without_memory_for_shared_matrices_each_problem_evaluates_its_own():
    X, _ = blobs(90)
    shared, alone = (Gram(RBF(gamma=0.5), as_data(X), memory_limit=limit) for limit in (None, 0))
    for gram in (shared, alone):
        solve_all(gram, *pairs_of(np.arange(90) % 3, 3))
    assert (shared.n_values, alone.n_values) == (6 * 30**2, 9 * 30**2)


def test_reused_memory_is_filled_again():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(120, 5)), rng.integers(0, 4, 120)
    gram = Gram(RBF(gamma=0.2), as_data(X))
    what = pairs_of(labels, 4)
    expected = solve_all(gram, *what)
    problems, done = SmallProblems(gram, *what, Limits(), alone=False), 0
    while done < len(expected):
        gram.arena.array(10**5, np.float64)[:] = np.nan
        done += problems.solve()
    for ours, theirs in zip(problems.solved.solutions(), expected, strict=True):
        np.testing.assert_array_equal(ours.beta, theirs.beta)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("p", [5, 80])
def test_working_sets_end_at_the_same_optimum(p, scheme, n_jobs, monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 1200)
    X = rng.normal(size=(1200, p)) + 10.0 / p * labels[:, None]
    fits = []
    for most, way in ((1200, "all variables at once"), (320, "by working sets")):
        monkeypatch.setattr(small, "_WHOLE_MATRIX", most)
        gram = Gram(RBF(gamma=1.0 / p), as_data(X), n_jobs=n_jobs)
        fits.append((gram, train(gram, labels, 4, 1.0, scheme=scheme, control=Control(Limits(tol=1e-5)))))
        assert all(one.reason.endswith(way) for one in fits[-1][1].solutions)
    (whole_gram, at_once), (gram, by_sets) = fits
    assert {s.status for s in by_sets.solutions} == {Status.OPTIMAL}
    counts = np.bincount(labels)
    assert whole_gram.n_values == (1200**2 if scheme == "ovr" else (1200**2 + (counts**2).sum()) // 2)
    if p == 80:  # values within a class, or of all rows, are shared
        assert gram.n_values <= 1200**2
    K = RBF(gamma=1.0 / p).block(as_data(X), as_data(X))
    np.testing.assert_allclose(
        K @ by_sets.coefficients + by_sets.biases, K @ at_once.coefficients + at_once.biases, atol=1e-3
    )
    for one in by_sets.solutions:
        assert one.certificate.verify().kkt_violation == pytest.approx(one.certificate.kkt_violation, abs=1e-12)
        assert one.certificate.verify().primal == pytest.approx(one.certificate.primal, rel=1e-12)


def test_max_iter_is_for_each_problem_and_a_start_continues():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(150, 5)), rng.integers(0, 3, 150)
    gram = Gram(RBF(gamma=0.2), as_data(X))
    stopped = solve_all(gram, *pairs_of(labels, 3), limits=Limits(max_iter=4))
    assert [(s.n_iter, s.status) for s in stopped] == [(4, Status.MAX_ITER)] * 3
    ended = solve_all(gram, *pairs_of(labels, 3, starts=[s.beta for s in stopped]))
    finished = solve_all(gram, *pairs_of(labels, 3))
    for ours, theirs in zip(ended, finished, strict=True):
        assert ours.certificate.dual == pytest.approx(theirs.certificate.dual, rel=1e-12)


def test_unfinished_problems_continue_in_another_solver():
    """Only the exact solution has this small relative gap, and beyond 300 variables exact steps are not made."""
    X, y = blobs(400)
    limits = Limits(tol=1.0, tol_gap=1e-9)
    gram = Gram(RBF(gamma=0.5), as_data(X))
    small_problem = SmallProblems(gram, *alone(c_svc(y, 1.0)), limits, alone=True)
    assert small_problem.solve() == 1
    assert small_problem.solved.finished() == [False]
    solution = solve(c_svc(y, 1.0), gram, control=Control(limits))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-9


def unfinished(monkeypatch, calls):
    """Make small problems end unsolved: native code stops after `calls` steps, without reporting it."""
    real = small.MachineLimits

    def short(*, max_iter, **named):
        return real(max_iter=calls if max_iter < 0 else min(calls, max_iter), **named)

    monkeypatch.setattr(small, "MachineLimits", short)


@pytest.mark.parametrize("max_iter", [-1, 3, 20, 25, 40])
def test_the_other_solver_continues_from_the_current_point(monkeypatch, max_iter):
    X, y = blobs(200)
    finished = solve(c_svc(y, 10.0), Gram(RBF(gamma=0.5), as_data(X)))
    unfinished(monkeypatch, 20)
    gram = Gram(RBF(gamma=0.5), as_data(X))
    solution = solve(c_svc(y, 10.0), gram, control=Control(Limits(max_iter=max_iter)))
    assert solution.n_kernel_values == gram.n_values == solution.certificate.n_kernel_values
    if max_iter < 0:
        assert solution.status is Status.OPTIMAL
        assert solution.certificate.dual == pytest.approx(finished.certificate.dual, rel=1e-6)
        assert solution.n_iter > 20
        assert solution.trace[0].dual > 0.0
    else:
        assert solution.status is Status.MAX_ITER
        assert solution.n_iter == max_iter
        assert solution.certificate.n_iter == max_iter


def test_no_limit_of_steps_is_passed():
    X, y = blobs(120)
    total = solve(c_svc(y, 10.0), Gram(RBF(gamma=0.5), as_data(X))).n_iter
    for max_iter in range(max(0, total - 6), total + 3):
        solution = solve(c_svc(y, 10.0), Gram(RBF(gamma=0.5), as_data(X)), control=Control(Limits(max_iter=max_iter)))
        assert solution.n_iter <= max_iter


@pytest.mark.parametrize("n_classes", [2, 3])
def test_matrices_of_another_fit_are_never_used(n_classes):
    rng = np.random.default_rng(0)
    gram = Gram(RBF(gamma=0.3), as_data(rng.normal(size=(150, 4))))
    for seed in range(3):
        labels = np.random.default_rng(seed).permutation(np.arange(150) % n_classes)
        certificate = train(gram, labels, n_classes, 3.0).certificate
        assert certificate.status is Status.OPTIMAL
        assert certificate.verify().status is Status.OPTIMAL


def test_threads_that_share_a_gram_matrix():
    rng = np.random.default_rng(0)
    gram, labels = Gram(RBF(gamma=0.3), as_data(rng.normal(size=(400, 4)))), rng.integers(0, 4, 400)
    with ThreadPoolExecutor(3) as pool:
        machines = list(pool.map(lambda C: train(gram, labels, 4, C), [1.0, 10.0, 100.0] * 3))
    for one in machines:
        assert one.certificate.verify().status is Status.OPTIMAL


def test_the_number_of_threads_changes_no_result():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(1200, 4)), rng.integers(0, 3, 1200)
    for limit in (0, 13_000_000, 30_000_000, None):
        fits = []
        for n_jobs in (1, 2, 64):
            gram = Gram(RBF(gamma=0.2), as_data(X), n_jobs=n_jobs, memory_limit=limit)
            machines = train(gram, labels, 3, 1.0)
            fits.append(machines.coefficients)
            allowed = max(3_000_000, gram.memory_limit)
            assert gram.arena.nbytes <= allowed
        for other in fits[1:]:
            np.testing.assert_array_equal(fits[0], other)


def test_a_stop_by_the_callback_ends_all_later_problems(monkeypatch):
    monkeypatch.setattr(small, "_WORK_LIMIT", 0.0)  # one problem in each call
    rng = np.random.default_rng(0)
    gram, labels = Gram(RBF(gamma=0.2), as_data(rng.normal(size=(150, 5))), n_jobs=1), rng.integers(0, 3, 150)
    machines = train(gram, labels, 3, 1.0, control=Control(callback=lambda progress: True))
    assert [s.status for s in machines.solutions] == [Status.OPTIMAL, Status.INTERRUPTED, Status.INTERRUPTED]


def test_each_solution_states_the_reason_for_its_solver():
    labels = np.repeat([0, 1, 2], [20, 200, 1100])
    X = np.random.default_rng(0).normal(size=(labels.size, 3)) + labels[:, None]
    machines = train(Gram(RBF(gamma=0.5), as_data(X)), labels, 3, 1.0)
    assert [s.reason for s in machines.solutions] == [
        "n = 220 <= 2560: in native calls, all variables at once, exact Newton steps at the end",
        "n = 1120 <= 2560: in native calls, by working sets",
        "n = 1300 <= 2560: in native calls, by working sets",
    ]


def one(problem, kernel, X):
    return Problems(problem, [problem.n]), Gram(kernel, as_data(X))


def test_problems_with_long_rows_are_not_small():
    _, y = blobs(600)
    assert not are_small(*one(c_svc(y, 1.0), Linear(), np.ones((600, 40_000), dtype=np.float32))).any()


def test_values_that_overflow_are_refused():
    X, y = blobs(40)
    with pytest.raises(ValueError, match="not finite"):
        solve(c_svc(y, 1.0), Gram(Linear(), as_data(X * 1e155)))


def test_which_problems_are_small():
    X, y = blobs(30)
    gaussian = RBF(gamma=0.5)
    assert are_small(*one(c_svc(y, 1.0), gaussian, X)).all()
    assert not are_small(*one(nearest_points(y), gaussian, X)).any()
    assert not are_small(*one(c_svc(y, 1.0).without_bias(), gaussian, X)).any()
    assert not are_small(*one(c_svc(y, 1.0, squared=True), gaussian, X)).any()
    assert not are_small(*one(c_svc(y, np.inf), gaussian, X)).any()
    assert not takes_kernel(Gram(Sigmoid(1.0, 0.0), as_data(X)))
    assert not takes_kernel(Gram(center(Linear()).resolve(X), as_data(X)))
    assert takes_kernel(Gram(gaussian, as_data(X)))
    large, signs = blobs(small.SMALL_PROBLEM + 1)
    assert not are_small(*one(c_svc(signs, 1.0), gaussian, large)).any()
    both = c_svc_each(np.tile(signs, 2), np.ones(2 * signs.size), [signs.size] * 2)
    assert are_small(both, Gram(gaussian, as_data(large))).all()
    assert are_small(both, Gram(gaussian, as_data(large), memory_limit=0)).tolist() == [False, False]


def test_small_and_large_problems_of_one_fit():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [20, 30, 2600])
    X = rng.normal(size=(2650, 3)) + labels[:, None]
    gram = Gram(RBF(gamma=0.5), as_data(X))
    said = []
    machines = train(gram, labels, 3, 1.0, control=Control(callback=said.append))
    assert machines.certificate.status is Status.OPTIMAL
    assert {progress.stage for progress in said} == {f"machine {number} of 3" for number in (1, 2, 3)}


def test_a_request_leaves_the_rest_untouched(monkeypatch):
    monkeypatch.setattr(small, "_WORK_LIMIT", 0.0)  # one problem in each call
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(150, 5)), rng.integers(0, 3, 150)
    gram = Gram(RBF(gamma=0.2), as_data(X), n_jobs=1)
    parts, pairs, problems, _ = pairs_of(labels, 3)
    with Interruption() as interruption:
        solutions = solve_each(
            problems,
            gram,
            parts,
            pairs,
            control=Control(callback=lambda progress: interruption.request(), interruption=interruption),
        )
    assert [s.status for s in solutions] == [Status.OPTIMAL, Status.INTERRUPTED, Status.INTERRUPTED]
    assert [s.n_kernel_values > 0 for s in solutions] == [True, False, False]


def stopped_after(k, machine, X, y, weights=None):
    """Fit the machine with a callback that stops after `k` solved problems."""
    seen = []

    def callback(progress):
        seen.append(progress)
        return len(seen) == k

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.set_params(callback=callback).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("k", [1, 7, 44])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_problem_that_was_not_begun_is_evaluated_alone(k, class_weight, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), np.arange(4, 14))
    X = rng.normal(size=(y.size, 3)) + 2.0 * rng.normal(size=(10, 3))[y]
    weights = rng.uniform(0.5, 2.0, y.size)

    def fitted():
        return stopped_after(k, SVC(C=3.0, class_weight=class_weight), X, y, weights)

    machines = fitted()
    monkeypatch.setattr(small.Solved, "leave", lambda *_: False)
    alone = fitted()
    assert machines._solutions.statuses == [Status.OPTIMAL] * k + [Status.INTERRUPTED] * (45 - k)
    assert machines._solutions.statuses == alone._solutions.statuses
    np.testing.assert_array_equal(machines.dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(machines.intercept_, alone.intercept_)
    for name in ("status", "n_support", "n_free", "n_bounded", "n_iter", "tol"):
        assert getattr(machines.certificate_, name) == getattr(alone.certificate_, name), name
    for name in ("primal", "dual", "gap", "kkt_violation", "dual_infeasibility"):
        assert getattr(machines.certificate_, name) == pytest.approx(getattr(alone.certificate_, name), rel=1e-12), name
    for one, other in zip(machines._solutions, alone._solutions, strict=True):
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-12)
        assert one.certificate.verify().kkt_violation == pytest.approx(other.certificate.kkt_violation, abs=1e-9)


@pytest.mark.parametrize("alike", [True, False])
def test_a_machine_with_rows_of_one_class_differs_from_the_others(alike):
    X = np.random.default_rng(0).normal(size=(12, 2))
    signs = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    signs[8:] = signs[8:] if alike else 1.0
    problems = c_svc_each(signs, np.ones(12), [8, 4], one_sided=True)
    parts, pairs = [np.arange(8), np.arange(8, 12)], np.array([[0, -1], [1, -1]])
    gram = Gram(RBF(gamma=0.5), as_data(X))
    chosen = SmallProblems(gram, parts, pairs, problems, [None, None], Limits(), alone=False)
    assert chosen.solved.leave(0, Status.TIME_LIMIT) is alike
    assert chosen.solved.leave(1, Status.TIME_LIMIT) is alike


def test_gaps_of_problems_that_were_not_begun_differ():
    y, X = np.repeat([0, 1, 2], [2, 3, 40]), np.random.default_rng(0).normal(size=(45, 2))
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine = SVC(C=0.02, tol=2.0, tol_gap=0.5, max_seconds=0.0).fit(X, y)
    parts = [part.status for part in machine.certificate_.parts]
    assert parts == machine._solutions.statuses
    assert Status.TIME_LIMIT in parts
    assert machine.certificate_.status is Status.TIME_LIMIT


@pytest.mark.parametrize("machine", [NuSVC(nu=0.2), SVC(loss="squared_hinge"), SVC()], ids=str)
def test_a_callback_stops_all_machines_after_it(machine):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 8)
    X = rng.normal(size=(48, 3)) + 2.0 * rng.normal(size=(6, 3))[y]
    machine = stopped_after(1, clone(machine), X, y)
    assert set(machine._solutions.statuses[1:]) == {Status.INTERRUPTED}


def test_a_time_limit_ends_a_fit_of_many_classes_at_once(monkeypatch):
    """Machines that were not begun must cost nothing: 19,900 of them would take seconds."""
    y = np.repeat(np.arange(200), 3)
    X = np.random.default_rng(0).normal(size=(600, 4))
    monkeypatch.setattr(select._Several, "solve_alone", None)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine = SVC(max_seconds=0.0).fit(X, y)
    assert machine._solutions.statuses == [Status.TIME_LIMIT] * 19_900
    assert machine.certificate_.kkt_violation == 2.0
    assert machine.certificate_.primal == 19_900 * 6.0


def test_the_only_small_pair_of_several_has_evidence_about_its_own_rows():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [600, 600, 2400])
    X = rng.normal(size=(y.size, 5)) + np.eye(5)[y]
    machine = SVC(C=1.0, gamma=0.3).fit(X, y)
    tasks = make_tasks(y, 3, "ovo")
    assert (
        are_small(c_svc_each(tasks.signs, np.ones(tasks.signs.size), tasks.sizes), Gram(RBF(0.3), as_data(X))).sum()
        == 1
    )
    machine.certificate_.verify()
    assert [cases.rows.size for cases in machine.certificate_.examples()] == [1200, 3000, 3000]
    for part, rows in zip(machine.certificate_.parts, tasks, strict=True):
        np.testing.assert_array_equal(part.evidence.idx, rows.rows)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("seed", "C"), [(18, 1e8), (668, 1e8), (1113, 1e5), (495, 1e7), (728, 1e8), (1403, 1e7), (47, 5e6)]
)
def test_repeated_steps_keep_the_sum(seed, C, isa, monkeypatch):
    """A row of zeros does not change a linear kernel, so SMO could move along it without end and lose the sum."""
    monkeypatch.setenv("MERCER_ISA", isa)
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(6, 60)), int(rng.integers(1, 4))
    X, y = np.round(2.0 * rng.normal(size=(n, p))), np.arange(n) % 2
    machine = SVC(C=C, kernel="linear").fit(X, y)
    mass = float(np.abs(machine.dual_coef_).sum())
    assert abs(float(machine.dual_coef_.sum())) <= 1e-12 * mass
    assert machine.certificate_.dual_infeasibility <= 1e-12 * mass
    assert abs(machine.certificate_.relative_gap) <= 1e-4


def test_a_point_whose_sum_is_off_is_not_proved_to_be_solved():
    X, y = blobs(60)
    parts = [np.flatnonzero(y == label) for label in (-1, 1)]
    gram, signs = Gram(RBF(gamma=0.5), as_data(X)), y[np.concatenate(parts)]
    problems = c_svc_each(np.tile(signs, 2), np.ones(2 * signs.size), [signs.size] * 2)
    chosen = SmallProblems(gram, parts, np.array([[0, 1], [0, 1]]), problems, [None, None], Limits(), alone=False)
    chosen.solve(lambda: False)
    assert chosen.solved.proved.all()
    del chosen.solved.proved
    chosen.solved.numbers[1, small._COLUMNS.index("infeasibility")] = 1e-6
    assert chosen.solved.proved.tolist() == [True, False]
    assert chosen.solved.solution(1).status is Status.STALLED
