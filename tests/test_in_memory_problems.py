"""Many problems on one Gram matrix in memory: the same solutions as each alone, and true certificates."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels import RBF, Linear
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.multiclass.training import Machines, Tasks, make_tasks, train
from mercer.problems import c_svc_each
from mercer.solvers import Control, Interruption, Limits, solve
from mercer.solvers.dual import in_memory_rounds
from mercer.solvers.dual.in_memory_problems import InMemoryProblems

N, P = 240, 4


def in_memory(n_classes: int, dtype: Any = np.float32, n: int = N) -> tuple[Gram, np.ndarray]:
    """A Gram matrix in memory and classes; a few rows belong to no problem, and the rows are permuted."""
    random = np.random.default_rng(n_classes)
    codes = random.integers(0, n_classes, n)
    X = random.standard_normal((n, P)) + 0.8 * codes[:, None] * np.eye(P)[0]
    kernel, order = RBF(gamma=0.3), random.permutation(n)
    values = Gram(kernel, as_data(X[order])).block().astype(dtype)
    values = np.ascontiguousarray(0.5 * (values + values.T))
    rows = InMemoryRows(values).rows(np.argsort(order)[: n - 20])
    return Gram(EvaluatedKernel(kernel), rows, n_jobs=1), codes[: n - 20]


def alone(gram: Gram, codes: np.ndarray, n_classes: int, C: float, scheme: str, limits: Limits) -> list[Any]:
    tasks = make_tasks(codes, n_classes, scheme)
    problems = c_svc_each(tasks.signs, np.full(tasks.rows.size, C), tasks.sizes)
    return [
        solve(problem, gram.restrict(task.rows), control=Control(limits))
        for problem, task in zip(problems, tasks, strict=True)
    ]


def begun(gram: Gram, tasks: Tasks, C: float, *, is_over: bool = False) -> InMemoryProblems:
    """Problems with the same C, as at the start of a path."""
    problems = c_svc_each(tasks.signs, np.full(tasks.rows.size, C), tasks.sizes)
    problems_begun = InMemoryProblems(problems, gram, tasks.parts, tasks.pairs, Limits(), None)
    problems_begun.begin_in_corners(lambda: is_over)
    return problems_begun


SCHEMES = [(2, "ovo"), (4, "ovo"), (4, "ovr")]


@pytest.mark.parametrize(("n_classes", "scheme"), SCHEMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_are_those_of_each_problem_alone_along_a_path(n_classes: int, scheme: str, dtype: Any) -> None:
    gram, codes = in_memory(n_classes, dtype)
    limits, last = Limits(tol=1e-5), None
    for C in (0.02, 0.3, 5.0, 0.5):  # most variables are at bounds, then few, then more again
        last = train(gram, codes, n_classes, C, scheme=scheme, control=Control(limits), warm_start=last)
        assert isinstance(last.solutions.prepared, InMemoryProblems)
        for solution, other in zip(last.solutions, alone(gram, codes, n_classes, C, scheme, limits), strict=True):
            assert solution.status is other.status is Status.OPTIMAL
            assert solution.beta == pytest.approx(other.beta, abs=2e-3 * C)
            assert solution.bias == pytest.approx(other.bias, abs=1e-3)
            assert solution.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-6)


@pytest.mark.parametrize(("n_classes", "scheme"), SCHEMES)
def test_values_and_certificates_are_those_of_the_points(n_classes: int, scheme: str) -> None:
    gram, codes = in_memory(n_classes)
    last = None
    for C in (0.02, 0.3, 5.0):
        last = train(gram, codes, n_classes, C, scheme=scheme, warm_start=last)
    assert isinstance(last, Machines)
    assert last.solutions.prepared is not None
    matrix, rows = gram.data.whole.astype(np.float64), gram.in_memory_rows  # type: ignore[attr-defined]
    assert last.known_products(np.arange(N)) == pytest.approx(matrix[:, rows] @ last.coefficients, abs=1e-10)
    assert last.biases == pytest.approx([solution.bias for solution in last.solutions], abs=0.0)
    for solution, violation in zip(last.solutions, last.solutions.violations, strict=True):
        certificate = solution.certificate
        again = certificate.verify()
        assert certificate.kkt_violation == violation <= certificate.tol
        assert again.kkt_violation == pytest.approx(violation, abs=1e-9)
        assert (again.primal, again.dual) == pytest.approx((certificate.primal, certificate.dual), rel=1e-9)
        assert (again.n_free, again.n_bounded) == (certificate.n_free, certificate.n_bounded)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_solutions_in_single_precision_are_continued_in_double(n_classes: int) -> None:
    limits = Limits(tol=1e-4)
    gram, codes = in_memory(n_classes, np.float32)
    data: Any = gram.data
    exact = Gram(
        EvaluatedKernel(gram.kernel), InMemoryRows(data.whole.astype(np.float64)).rows(gram.in_memory_rows), n_jobs=1
    )
    single = train(gram, codes, n_classes, 50.0, control=Control(limits))
    cold = train(exact, codes, n_classes, 50.0, control=Control(limits))
    double = train(exact, codes, n_classes, 50.0, control=Control(limits), warm_start=single)
    assert {solution.status for solution in double.solutions} == {Status.OPTIMAL}
    assert 10 * double.solutions.n_iter.sum() < cold.solutions.n_iter.sum()
    rows: Any = exact.data
    sums = rows.whole[:, exact.in_memory_rows] @ double.coefficients
    assert double.known_products(np.arange(N)) == pytest.approx(sums, abs=1e-10)


@pytest.mark.parametrize(("n_classes", "scheme"), SCHEMES)
def test_a_path_begins_in_a_corner_where_the_dual_objective_rises_up_to_it(n_classes: int, scheme: str) -> None:
    gram, codes = in_memory(n_classes)
    tasks, K = make_tasks(codes, n_classes, scheme), gram.block()
    for C, expected in ((1e-3, {True}), (0.1, {True, False}), (50.0, {False})):
        problems = begun(gram, tasks, C)
        for number, task in enumerate(tasks):
            variables = problems.problems.variables(number)
            beta, linear = problems.beta[variables], problems.problems.stacked.linear[variables]
            assert beta.any() in expected
            if beta.any():
                assert np.count_nonzero((beta != 0.0) & (np.abs(beta) != C)) <= 1
                if C == 1e-3:
                    assert np.count_nonzero(beta) == 2 * min(np.bincount(task.signs > 0.0))
                assert abs(beta.sum()) <= 1e-12 * C
                values = K[np.ix_(task.rows, task.rows)] @ beta
                dual = [-t * (linear @ beta) - 0.5 * t**2 * (values @ beta) for t in np.linspace(0.0, 1.0, 50)]
                assert (np.diff(dual) > 0.0).all()
                at = problems._rows[variables]
                assert problems.values[number, at] == pytest.approx(values, abs=1e-12)
    steps = train(gram, codes, n_classes, 1e-3, scheme=scheme).solutions.n_iter.sum()
    assert steps < 0.8 * sum(one.n_iter for one in alone(gram, codes, n_classes, 1e-3, scheme, Limits()))


def test_a_fit_stopped_before_the_corner_stays_at_0() -> None:
    gram, codes = in_memory(2)
    assert not begun(gram, make_tasks(codes, 2, "ovo"), 1e-3, is_over=True).beta.any()


@pytest.mark.parametrize("C", [1e-300, 1e200, 1e307])
def test_extreme_penalties_have_corners_without_warnings(C: float) -> None:
    gram, codes = in_memory(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problems = begun(gram, make_tasks(codes, 2, "ovo"), C)
    assert problems.beta.any() == (C < 1.0)


def test_no_corner_is_taken_for_an_objective_that_overflows() -> None:
    """An objective is not -inf if one of its terms overflows and others outweigh it."""
    random = np.random.default_rng(50)
    X, codes = random.standard_normal((9, 2)), random.integers(0, 2, 9)
    codes[:2] = 0, 1
    penalties = 10.0 ** random.uniform(152, 158, 9)
    gram = Gram(EvaluatedKernel(Linear()), InMemoryRows(X @ X.T), n_jobs=1)
    tasks = make_tasks(codes, 2, "ovo")
    problems = c_svc_each(tasks.signs, penalties[tasks.rows], tasks.sizes)
    work = InMemoryProblems(problems, gram, tasks.parts, tasks.pairs, Limits(), None)
    work.begin_in_corners(lambda: False)
    assert not work.beta.any()


def test_wrong_tracked_values_are_detected() -> None:
    gram, codes = in_memory(2)
    machines = train(gram, codes, 2, 1.0)
    problems: Any = machines.solutions.prepared
    assert problems.evaluate(gram) == [True]
    problems.values[0, 7] += 1e-2
    assert problems.evaluate(gram) == [False]


def test_a_problem_ends_at_its_most_steps_as_alone() -> None:
    gram, codes = in_memory(4)
    limits = Limits(tol=1e-6, max_iter=3)
    machines = train(gram, codes, 4, 10.0, control=Control(limits))
    assert {solution.status for solution in machines.solutions} == {Status.MAX_ITER}
    assert machines.solutions.n_iter.tolist() == [3] * 6
    assert {solution.status for solution in alone(gram, codes, 4, 10.0, "ovo", limits)} == {Status.MAX_ITER}


@pytest.mark.parametrize("how", ["callback", "time", "ctrl-c"])
def test_problems_solved_before_a_stop_are_kept(how: str) -> None:
    gram, codes = in_memory(4)
    stages: list[str] = []

    def stops(progress: Any) -> bool:
        stages.append(progress.stage)
        return how == "callback" and progress.stage == "machine 3 of 6"

    interruption = Interruption()
    if how == "ctrl-c":
        interruption.request()
    limits = Limits(max_seconds=0.0) if how == "time" else Limits()
    machines = train(gram, codes, 4, 1.0, control=Control(limits, stops, interruption))
    statuses = [solution.status for solution in machines.solutions]
    ended = Status.TIME_LIMIT if how == "time" else Status.INTERRUPTED
    n_done = 3 if how == "callback" else 0
    assert statuses == [Status.OPTIMAL] * n_done + [ended] * (6 - n_done)
    assert all(not solution.beta.any() for solution in list(machines.solutions)[n_done:])


def test_problems_in_progress_at_a_stop_keep_their_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory_rounds, "_WORK", 1.0)  # one round in each call
    gram, codes = in_memory(3, n=1500)  # several rounds for each problem
    reports: list[Any] = []

    def stops(progress: Any) -> bool:
        reports.append(progress)
        return progress.stage == "machine 2 of 3"

    machines = train(gram, codes, 3, 50.0, control=Control(Limits(tol=1e-6), stops))
    solutions = list(machines.solutions)
    assert [solution.status for solution in solutions] == [Status.OPTIMAL] + [Status.INTERRUPTED] * 2
    assert reports[-1].violation > 1e-6
    assert solutions[1].n_iter == reports[-1].n_iter > 0
    assert solutions[1].certificate.dual == pytest.approx(reports[-1].dual)
    assert not solutions[2].beta.any()
