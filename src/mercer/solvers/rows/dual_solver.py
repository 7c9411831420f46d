"""Linear machines of many columns: dual coordinate descent, and the kernel engine where descent is slow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import LinearPoint, WarmStart
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.gram.threads import n_threads
from mercer.problems.linear import Bias, LinearProblem
from mercer.solvers.loop import SolverMonitor, Step
from mercer.solvers.rows.class_descent import MOST_CLASSES, ClassDescent, descends_together
from mercer.solvers.rows.costs import MOST_COLUMNS, multiplies_only, newton_epochs
from mercer.solvers.rows.curvature import GramCurvature, SweptCurvature
from mercer.solvers.rows.dual_descent import LOSSES, DualPoint, dual_descent, dual_objective, dual_point, recompute
from mercer.solvers.rows.kernel_engine import engine_solves, finish, linear_gram
from mercer.solvers.rows.newton import SmoothNewton
from mercer.solvers.rows.proximal_point import ProximalPoint
from mercer.solvers.rows.row_solver import LinearSolver
from mercer.solvers.rows.shared_products import RowProducts, products_fit

_ROWS_AN_EPOCH = 10
"""Rows of a problem that the kernel engine solves in the time of an epoch: it takes about n / 10 epochs, because each
product of two rows costs half of a visit of a row, rows are shrunken, and support vectors are a part of the rows."""

_ROWS_A_MATRIX_EPOCH = 15  # the same for evaluating the products of all rows in single precision, each pair once
_ROWS_A_CLASS_EPOCH = 150  # the same for solving a class with these products, where few rows stay support vectors
SHARED_EPOCH = 0.35  # time of an epoch for a class that shares visits of rows with others, in epochs of one class
_TRIED = 0.5
"""Share of the time of the kernel engine that descent gets first: only its progress tells how many epochs are left."""

_TRIED_OF_NEWTON = 0.2  # the same share of the time of Newton's method, which is known better
_MOST_TRIED = 300  # epochs of descent on a problem before the engine, whatever that takes
_LEAST_EPOCHS = 30  # epochs that are worth less than starting the engine
_ARRAYS = 6  # arrays of an element for each row: coefficients, their copy, targets, charges, squares, order
_STEP_ARRAYS = 3, 4  # more arrays of rows and of columns for the steps between epochs on a table in memory


def can_descend(problem: LinearProblem) -> bool:
    """Whether :class:`DualSolver` applies: its losses, the l2 penalty; a free bias if the kernel engine solves it."""
    has_dual = isinstance(problem.loss, LOSSES) and problem.l1_ratio == 0.0
    if problem.rows.is_elsewhere:  # whose coefficients cannot change one after the other
        return False
    return has_dual and (problem.bias is not Bias.FREE or engine_solves(problem))


def descent_reason(problem: LinearProblem, memory_limit: int | None = None) -> str:
    """Return the reason for this solver, as a sentence."""
    rows, p = problem.rows, f"{problem.rows.p:,}"
    if problem.n_columns > MOST_COLUMNS:
        shape = f"The table has many columns ({p})"
    else:
        shape = (
            "The rows are sparse" if rows.is_sparse else f"The table has few rows ({rows.n:,}) for its columns ({p})"
        )
    if problem.bias is Bias.FREE:
        return f"{shape}, and the bias is free, which the solvers of kernel machines can keep."
    others = ["Newton's method"] if newton_epochs(problem, memory_limit) < float("inf") else []
    others += ["the solvers of kernel machines"] if engine_solves(problem) else []
    slow = f", and {' or '.join(others)} where this is slow" if others else ""
    return f"{shape}: dual coordinate descent, which visits a row at a time{slow}."


class DualSolver:
    """Problems of several classes on the same rows, or a single problem.

    Classes on sparse rows share coordinate descents, one on each thread; other problems have their own. Problems whose
    descent is slow are solved by Newton's method or by the kernel engine, whichever is estimated to be faster. The
    engine shares kernel values between the classes.

    Parameters
    ----------
    problems : sequence of LinearProblem
        Problems that differ in their targets and charges only.
    monitor : SolverMonitor
        What ends the work; `limits.tol_gap` is not used.
    starts : sequence of WarmStart or None
        Warm starts, of another C.
    memory_limit, n_jobs : int, optional
        See :func:`mercer.solvers.rows.solve`.

    Attributes
    ----------
    points : list of DualPoint
    n_iter : list of int
        Epochs of each problem.
    engine : str
        Name of the solver that finished, of Newton's method or the kernel engine's; empty before it works.
    """

    def __init__(
        self,
        problems: Sequence[LinearProblem],
        monitor: SolverMonitor,
        starts: Sequence[WarmStart | None],
        *,
        memory_limit: int | None,
        n_jobs: int | None,
    ) -> None:
        self.problems, self.monitor = list(problems), monitor
        self._memory_limit, self._n_jobs = memory_limit, n_jobs
        self.points = [_started(problem, start) for problem, start in zip(problems, starts, strict=True)]
        self.n_iter = [0] * len(self.points)
        self.engine = ""
        self._engine_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of the numbers of the rows, of the weights, and of the kernel engine."""
        problem = self.problems[0]
        of_rows, of_columns = _STEP_ARRAYS if isinstance(problem.rows, TableRows) else (0, 0)
        each = 8 * ((_ARRAYS + of_rows) * problem.rows.n + (1 + of_columns) * problem.n_columns)
        return len(self.problems) * each + self._engine_bytes

    def steps(self, tol: float) -> Iterator[Step]:
        """Work until the exact relative gap of every problem is at most `tol`, or no progress is possible."""
        problems = self.problems
        if any(problem.bias is Bias.FREE for problem in problems):  # descent cannot keep the sum of coefficients
            yield from self._finish(range(len(problems)), tol)
            return
        self._shares = len(problems) > 1 and products_fit(problems[0], self._memory_limit)
        if self.engine:  # whose weights are not exactly the sum of beta_i x_i
            for problem, point in zip(problems, self.points, strict=True):
                recompute(problem, point)
        self._newton_epochs = newton_epochs(problems[0], self._memory_limit)
        slow = yield from self._descend(tol)
        if slow and self._newton_epochs < self._engine_epochs:
            yield from self._finish_by_newton(slow, tol)
            return
        if len(slow) > 1 and self._shares:
            slow = yield from self._solve_shared(slow, tol)
        if slow:
            yield from self._finish(slow, tol)

    def _descend(self, tol: float) -> Generator[Step, None, list[int]]:
        """Make epochs on all problems, a few at a time; return the problems that the kernel engine solves faster."""
        slow: list[int] = []
        in_memory = isinstance(self.problems[0].rows, TableRows)
        threads = min(n_threads(self._n_jobs), len(self.problems)) if in_memory else 1
        begun = list(self.n_iter)
        descents = self._descents(tol, threads)
        last: dict[int, Step] = {}
        with ThreadPoolExecutor(threads) as pool:
            each: Callable[..., Iterator[dict[int, Step]]] = map if threads == 1 else pool.map
            while descents:
                for steps in each(lambda descent: descent.advance(), descents):
                    for k, step in steps.items():
                        last[k] = step
                        self.n_iter[k] = begun[k] + step.n_iter
                left = {k: self.points[k].epochs_left for descent in descents for k in descent.numbers}
                given_up = self._slow_of(left)
                for descent in descents:
                    descent.end([k for k in descent.numbers if k in given_up])
                slow += given_up
                descents = [descent for descent in descents if descent.numbers]
                yield self._together(last)
        return slow

    def _descents(self, tol: float, threads: int) -> list[_Descent]:
        """Begin the descent of every problem; classes on sparse rows descend together, in a group for each thread."""
        problems = self.problems
        if not descends_together(problems):
            return [
                _Single(k, dual_descent(problems[k], self.points[k], tol, stop=self.monitor.is_stopped, seed=k))
                for k in range(len(problems))
            ]
        count = max(threads, -(-len(problems) // MOST_CLASSES))
        groups = np.array_split(np.arange(len(problems)), count)
        points, stop = dict(enumerate(self.points)), self.monitor.is_stopped
        return [ClassDescent({int(k): problems[k] for k in group}, points, tol, stop=stop) for group in groups]

    def _together(self, last: dict[int, Step]) -> Step:
        violations, duals = [step.violation for step in last.values()], [step.objective for step in last.values()]
        return Step(max(self.n_iter, default=0), max(violations, default=0.0), sum(duals))

    def _slow_of(self, left: dict[int, float]) -> list[int]:
        """Return the problems that the kernel engine would probably solve in less time than the epochs `left`.

        A problem has made epochs for a part of that time before.
        """
        share = SHARED_EPOCH if descends_together(self.problems) else 1.0
        made = {k: share * self.points[k].epochs_made for k in left}
        left = {k: share * left[k] for k in left}
        if not left:
            return []
        if self._newton_epochs < self._engine_epochs:
            most, tried = self._newton_epochs, min(_TRIED_OF_NEWTON * self._newton_epochs, share * _MOST_TRIED)
            if (limit := self.monitor.control.limits.max_iter) >= 0:
                most = min(most, share * (limit - max(self.n_iter)))
            return [k for k in left if left[k] > most and made[k] >= tried]
        if not engine_solves(self.problems[0]):
            return []
        n, alone = self.problems[0].rows.n, self._engine_epochs
        least = max(_LEAST_EPOCHS, n / _ROWS_A_CLASS_EPOCH)
        if self._shares:
            together = [k for k in left if left[k] > least]
            matrix = n / _ROWS_A_MATRIX_EPOCH
            tried = min(_TRIED * (matrix + least * len(together)), share * _MOST_TRIED * len(left))
            if sum(made.values()) >= tried and sum(min(left[k], alone + least) - least for k in together) > matrix:
                return together
        return [k for k in left if left[k] > alone and made[k] >= min(_TRIED * alone, share * _MOST_TRIED)]

    @property
    def _engine_epochs(self) -> float:
        """The time in which the kernel engine solves a problem, in epochs."""
        n = self.problems[0].rows.n
        return max(_LEAST_EPOCHS, n / _ROWS_AN_EPOCH) if engine_solves(self.problems[0]) else float("inf")

    def _finish_by_newton(self, numbers: Sequence[int], tol: float) -> Iterator[Step]:
        check, n_iter = self.monitor.raise_if_stopped, max(self.n_iter)
        for k in numbers:
            problem, point = self.problems[k], self.points[k]
            if problem.loss.is_smooth:  # from 0: with a large C, the sum of beta_i x_i is far from the optimum
                curvature = SweptCurvature if multiplies_only(problem) else GramCurvature
                solver: LinearSolver = SmoothNewton(problem, check, curvature, None, self._n_jobs)
            else:
                start = LinearPoint(np.array(point.w), np.array(point.beta[slice(None)]), problem.C)
                solver = ProximalPoint(problem, check, GramCurvature, start, self._n_jobs)
            self.engine, self._engine_bytes = solver.name, solver.memory_bytes
            try:
                for step in solver.steps(solver.share * tol):
                    self.n_iter[k] = n_iter + step.n_iter
                    yield step._replace(n_iter=self.n_iter[k])
            finally:
                point.w, point.beta = solver.solution()

    def _solve_shared(self, numbers: Sequence[int], tol: float) -> Generator[Step, None, list[int]]:
        """Solve problems on threads, with the products of all rows in memory; return those that need exact products.

        The time limit and Ctrl-C take effect at each step, where the caller stops.
        """
        products = RowProducts(self.problems[0], memory_limit=self._memory_limit, n_jobs=self._n_jobs)
        n_iter = max(self.n_iter)
        for _ in products.fill():
            yield Step(n_iter, 1.0, 0.0)

        def solve(k: int) -> float:
            left = self.monitor.left()
            control = left.with_limits(replace(left.limits, tol_gap=0.9 * tol, max_iter=-1))
            return products.solve(self.problems[k], self.points[k], control)

        gaps: dict[int, float] = {}
        dual = 0.0
        with ThreadPoolExecutor(min(n_threads(self._n_jobs), len(numbers))) as pool:
            for k, gap in zip(numbers, pool.map(solve, numbers), strict=True):
                gaps[k] = gap
                dual += dual_objective(self.problems[k], self.points[k])
                self.engine, self._engine_bytes = products.solver, products.peak_bytes
                yield Step(n_iter + 1, max(gaps.values()), dual)
        return [k for k in numbers if not gaps[k] <= tol]

    def _finish(self, numbers: Sequence[int], tol: float) -> Iterator[Step]:
        problems, points = [self.problems[k] for k in numbers], [self.points[k] for k in numbers]
        gram = linear_gram(problems[0], memory_limit=self._memory_limit, n_jobs=self._n_jobs, shared=len(problems) > 1)
        left = self.monitor.left()
        control = left.with_limits(replace(left.limits, tol_gap=tol, max_iter=-1))
        solutions = finish(problems, points, gram, control)
        self.engine = solutions[0].solver
        self._engine_bytes = max(solution.peak_memory_bytes for solution in solutions)
        gap = max(solution.proved.relative_gap for solution in solutions)
        yield Step(max(self.n_iter) + 1, gap, sum(solution.proved.dual for solution in solutions))


class _Descent(Protocol):
    """Descents of some of the problems, by their numbers."""

    @property
    def numbers(self) -> list[int]: ...

    def advance(self) -> dict[int, Step]: ...

    def end(self, numbers: Sequence[int]) -> None: ...


class _Single:
    """The descent of one problem."""

    def __init__(self, number: int, steps: Iterator[Step]) -> None:
        self.numbers, self._steps = [number], steps

    def advance(self) -> dict[int, Step]:
        """Make a few epochs."""
        step = next(self._steps, None)
        if step is not None:
            return {self.numbers[0]: step}
        self.numbers = []
        return {}

    def end(self, numbers: Sequence[int]) -> None:
        """End the descent if its problem is listed."""
        self.numbers = [k for k in self.numbers if k not in numbers]


class DescentSolver(LinearSolver):
    """:class:`DualSolver` for one problem."""

    share = 0.9  # the gap is measured exactly; the rest is for its rounding

    def __init__(
        self,
        problem: LinearProblem,
        monitor: SolverMonitor,
        start: WarmStart | None,
        *,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(problem, monitor.raise_if_stopped)
        about = {"memory_limit": memory_limit, "n_jobs": n_jobs}
        self._solver = DualSolver([problem], monitor, [start], **about)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the method; after the kernel engine has worked, that of its solver too."""
        return named(self._solver)

    def steps(self, tol: float) -> Iterator[Step]:
        """Make epochs, and then let the kernel engine finish if they are slow."""
        for step in self._solver.steps(tol):
            self.n_iter = step.n_iter
            yield step

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights, and the dual coefficients of which they are the sum."""
        (point,) = self._solver.points
        return point.w, point.beta

    @property
    def memory_bytes(self) -> int:
        """Bytes of the numbers of the rows, of the weights, and of the kernel engine."""
        return self._solver.memory_bytes


def named(solver: DualSolver) -> str:
    """Return the name of the methods that have worked."""
    descent = "dual coordinate descent"
    if not solver.engine:
        return descent
    return f"{descent}, then {solver.engine}" if max(solver.n_iter) else solver.engine


def _started(problem: LinearProblem, start: WarmStart | None) -> DualPoint:
    """Return the better one of two points: the coefficients of `start`, as they are, or scaled by the ratio of the C.

    Coefficients at their bounds C are scaled; free coefficients hardly depend on C.
    """
    if start is None:
        return dual_point(problem)
    points = [dual_point(problem, start.beta, factor) for factor in {1.0, problem.C / start.C}]
    return max(points, key=lambda point: dual_objective(problem, point))
