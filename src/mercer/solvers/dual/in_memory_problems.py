"""The solver of many problems on a Gram matrix in memory; their `Solution` objects are made on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

import numpy as np

from mercer._core import combine_rows, conditions
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import Conditions, Evaluation
from mercer.certificates.quadratic import QuadraticEvidence, conclude
from mercer.certificates.roundoff import is_certain, is_feasible, rounding_of_offsets, rounding_of_sums
from mercer.certificates.solution import Limits, Solution, Solutions
from mercer.certificates.status import Status
from mercer.gram import STATE_ARRAYS, Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels.instruction_set import select_isa
from mercer.problems import Problems, growth, inner, vertex
from mercer.solvers.dual.in_memory_rounds import SAME, InMemorySolver, Progression
from mercer.solvers.solver import ERROR_SHARE, Progress

_PART = 8  # every eighth row is a sample that represents all rows
_DRIFT = 1e-12  # share of the summed coefficients; a larger error of the sum is removed before the start


def takes_matrices_in_memory(problems: Problems, gram: Gram, limits: Limits) -> bool:
    """Whether :class:`InMemoryProblems` can solve these: one group each, starting at 0, and a convex kernel."""
    if not isinstance(gram.data, InMemoryRows) or gram.kernel.is_psd is not True or limits.tol_gap is not None:
        return False
    stacked = problems.stacked
    plain = stacked.ridge is None and stacked.rows is None and stacked.n_groups == 1 and stacked.n_outputs == 1
    return plain and stacked.loss.charges_by_box and not stacked.start.any() and bool((problems.sizes > 0).all())


@final
class InMemoryProblems:
    """Problems on parts of a Gram matrix in memory, solved by the rounds of `InMemorySolver`.

    The fixed cost of a fit is larger than the work on a small machine. Starting points, decision values, their checks
    and rounding bounds are therefore computed for all problems at once, and solutions are made on demand.

    Parameters
    ----------
    problems : Problems
    gram : Gram
    parts, pairs
        See :func:`mercer.solvers.select.solve_each`.
    limits : Limits
    last : InMemoryProblems, optional
        Solved problems on the same rows, for a warm start.

    Attributes
    ----------
    values : ndarray of shape (n_problems, n_rows)
        K times each point, at every row of the matrix in memory.
    """

    def __init__(
        self,
        problems: Problems,
        gram: Gram,
        parts: Sequence[IndexArray],
        pairs: IndexArray,
        limits: Limits,
        last: InMemoryProblems | None,
    ) -> None:
        assert isinstance(gram.data, InMemoryRows)
        self.problems, self._limits, self._data = problems, limits, gram.data
        self._idx = np.concatenate([parts[k] for k in pairs.ravel().tolist() if k >= 0])
        self._rows = np.ascontiguousarray(gram.in_memory_rows[self._idx])
        self._firsts = np.array(problems.edges[:-1])
        self._rounds = Progression(problems, gram, self._rows, limits.tol)
        n = self._data.whole.shape[0]
        if last is None or not np.array_equal(last._rows, self._rows):
            self.beta, self.values = problems.stacked.start.copy(), np.zeros((len(problems), n))
        else:
            self.beta, self.values = self._after(last)

    def begin_in_corners(self, stop: Callable[[], bool]) -> None:
        """Start with variables at their bounds instead of 0, if the dual objective rises all the way to that point.

        With a small C nearly all variables end at their bounds, and one product with K then replaces a dozen rounds. A
        sample of the rows gives approximate gradients. They determine which variables start at their bounds, and
        whether the exact product is worth its cost.
        """
        for number in range(len(self.problems)):
            if stop():
                return
            with np.errstate(over="ignore", invalid="ignore"):  # a value that is not finite counts as no rise
                self._begin_in_the_corner(number)

    def _begin_in_the_corner(self, number: int) -> None:
        variables, stacked = self.problems.variables(number), self.problems.stacked
        linear, lower, upper, rows = (
            stacked.linear[variables],
            stacked.lower[variables],
            stacked.upper[variables],
            self._rows[variables],
        )
        part = slice(None, None, _PART)
        most, above, below = min(upper.sum(), -lower.sum()), upper[part].sum(), -lower[part].sum()
        if ((lower < 0.0) & (upper > 0.0)).any() or not (above > 0.0 and below > 0.0):
            return  # a box on both sides of 0, or a class without sampled rows
        values = self._sum(rows[part], most / above * upper[part] + most / below * lower[part])
        corner = vertex(linear + values[rows], lower, upper, 0.0)
        if not _rises(linear, corner, values[rows]):
            return
        values = self._sum(rows, corner)
        if _rises(linear, corner, values[rows]):
            self.beta[variables], self.values[number] = corner, values

    def _sum(self, rows: IndexArray, coefficients: FloatArray) -> FloatArray:
        """Return K times the coefficients of some rows, at every row of the matrix."""
        values, used = np.zeros(self.values.shape[1]), np.flatnonzero(coefficients)
        combine_rows(select_isa(), self._data.whole, rows[used], None, coefficients[used], values, 1)
        return values

    def _after(self, last: InMemoryProblems) -> tuple[FloatArray, FloatArray]:
        """Return the starting point, chosen as in `Problem.start_after`, and K times it."""
        now, then, beta = self.problems.stacked, last.problems.stacked, last.beta
        free = np.add.reduceat(((then.lower < beta) & (beta < then.upper)).astype(np.int64), self._firsts)
        used = np.add.reduceat((beta != 0.0).astype(np.int64), self._firsts)
        grow = 2 * free <= used
        factor = growth(then.upper - then.lower, now.upper - now.lower)
        if factor is None:
            factor, grow[:] = 1.0, False
        grown = np.where(beta <= then.lower, now.lower, np.where(beta >= then.upper, now.upper, factor * beta))
        start = np.clip(np.where(np.repeat(grow, self.problems.sizes), grown, beta), now.lower, now.upper)
        sums, sizes = np.add.reduceat(start, self._firsts), np.add.reduceat(np.abs(start), self._firsts)
        for number in np.flatnonzero(np.abs(sums) > _DRIFT * sizes).tolist():
            variables = self.problems.variables(number)
            start[variables] = self.problems[number].make_feasible(start[variables])
        factors = np.where(grow, factor, 1.0)
        if last._data.whole is not self._data.whole:  # another matrix, so old products are not used
            factors[:] = 0.0
        values = factors[:, None] * last.values
        apart = start - np.repeat(factors, self.problems.sizes) * beta
        apart[np.abs(apart) <= SAME * np.abs(start)] = 0.0
        for number in np.flatnonzero(np.logical_or.reduceat(apart != 0.0, self._firsts)).tolist():
            variables = self.problems.variables(number)
            moved = np.flatnonzero(apart[variables])
            if moved.size > np.count_nonzero(start[variables]):  # fewer rows if summed from 0
                values[number], moved, apart[variables] = 0.0, np.flatnonzero(start[variables]), start[variables]
            combine_rows(
                select_isa(),
                self._data.whole,
                self._rows[variables][moved],
                None,
                apart[variables][moved],
                values[number],
                1,
            )
        return start, values

    def solve(self, gram: Gram, stop: Callable[[], bool]) -> int:
        """Work for one native call; return the number of problems that are finished."""
        self._rounds.work(gram, self.beta, self.values, self._limits.max_iter, stop)
        return self._rounds.n_done

    def is_under_way(self, number: int) -> bool:
        """Whether the solver is working on this problem and has made steps on it."""
        return number == self._rounds.n_done < len(self.problems) and bool(self._rounds.n_iter[number])

    def progress(self, number: int) -> Progress:
        """Return the progress of a problem."""
        variables, rounds = self.problems.variables(number), self._rounds
        beta, linear = self.beta[variables], self.problems.stacked.linear[variables]
        dual = -0.5 * inner(beta, self.values[number, self._rows[variables]] + 2.0 * linear)
        return Progress(
            float(rounds.seconds[number]),
            int(rounds.n_iter[number]),
            float(rounds.violations[number]),
            dual,
            self._limits.tol,
        )

    def evaluate(self, gram: Gram) -> list[bool]:
        """Evaluate all points; return for each problem whether it is finished and needs no other solver."""
        stacked, tol = self.problems.stacked, self._limits.tol
        self.problems.balance(self.beta)
        edges, firsts = self.problems.edges, self._firsts
        at_rows = self.values[np.repeat(np.arange(len(self.problems)), self.problems.sizes), self._rows]
        lengths = np.sqrt(gram.magnitudes())[self._idx]
        rounding = rounding_of_sums(
            gram.roundoff,
            np.maximum.reduceat(lengths, firsts),
            np.add.reduceat(np.square(lengths * self.beta), firsts),
            np.maximum.reduceat(np.abs(at_rows), firsts),
            np.add.reduceat(np.abs(lengths * self.beta), firsts),
            np.add.reduceat((self.beta != 0.0).astype(np.float64), firsts),
        )
        unsettled = self._data.errors_of(self.values, self._rows, self.beta, firsts)
        linear = np.maximum.reduceat(np.abs(stacked.linear), firsts)
        self._at_rows, self._value_rounding = at_rows, rounding + unsettled
        self._rounding = self._value_rounding + rounding_of_offsets(linear, linear)
        # The evidence has no reference to the Gram matrix, so that its memory is free for the next fit.
        self._about = QuadraticEvidence.of(stacked, gram, self.beta, convex=True, idx=gram.origin_rows(self._idx))
        self._memory_bytes = gram.peak_bytes + self._rounds.room_bytes
        self._multipliers, self._conditions = np.empty(len(self.problems)), []
        for number in range(len(self.problems)):
            variables = slice(edges[number], edges[number + 1])
            multipliers, conditions_each = conditions(
                self.beta[variables],
                at_rows[variables],
                linear=stacked.linear[variables],
                lower=stacked.lower[variables],
                upper=stacked.upper[variables],
                start=stacked.start[variables],
                ridge=None,
                groups=None,
                n_groups=1,
            )
            self._multipliers[number] = multipliers[0]
            self._conditions.append(Conditions(*conditions_each))
        excess, infeasibility, mass = np.array([(c.excess, c.infeasibility, c.mass) for c in self._conditions]).T
        self.violations = np.maximum(0.0, excess)
        is_proved = (unsettled <= ERROR_SHARE * tol) & is_feasible(infeasibility, mass)
        self._proved = is_proved & (excess <= tol) & is_certain(excess, self._rounding, tol)
        at_limit = is_proved & (self._limits.max_iter >= 0) & (self._rounds.n_iter >= self._limits.max_iter)
        finished: list[bool] = (self._proved | at_limit).tolist()
        return finished

    def solutions(self) -> Solutions:
        """Return the solutions of all problems."""
        statuses = [
            Status.OPTIMAL if proved else self.solution(number).status
            for number, proved in enumerate(self._proved.tolist())
        ]
        return Solutions(self.beta, -self._multipliers, self._rounds.n_iter, statuses, self.solution, self)

    def solution(self, number: int) -> Solution:
        """Return the solution of a problem, and its certificate."""
        problem, variables, limits = self.problems[number], self.problems.variables(number), self._limits
        beta, values = self.beta[variables], self._at_rows[variables]
        evaluation = Evaluation.of(
            problem,
            beta,
            values,
            problem.linear,
            self._multipliers[number : number + 1],
            self._conditions[number],
            float(self._value_rounding[number]),
        )
        ended = conclude(
            Status.MAX_ITER if 0 <= limits.max_iter <= self._rounds.n_iter[number] else Status.STALLED,
            problem,
            evaluation,
            tol=limits.tol,
            tol_gap=None,
            convex=True,
        )
        assert self._about.idx is not None
        return Solution.evaluated(
            replace(self._about, problem=problem, beta=beta, idx=self._about.idx[variables]),
            evaluation,
            ended,
            limits=limits,
            solver=InMemorySolver.name,
            reason=InMemorySolver.reason,
            n_iter=int(self._rounds.n_iter[number]),
            seconds=float(self._rounds.seconds[number]),
            n_kernel_values=0,
            peak_memory_bytes=self._memory_bytes + STATE_ARRAYS * beta.nbytes,
            known_products=self.values[number],
        )


def _rises(linear: FloatArray, point: FloatArray, values: FloatArray) -> bool:
    """Whether the dual objective rises all the way from 0 to `point`, where `values` is K times the point."""
    return -np.inf < inner(point, linear + values) < 0.0
