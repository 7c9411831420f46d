"""The proximal point method for hinge and epsilon-insensitive loss: Newton's method on smoothed losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import WarmStart
from mercer.cluster import Largest
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.column_lengths import column_lengths, scales_of
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.smooth_terms import ProximalTerms
from mercer.solvers.loop import Step
from mercer.solvers.rows.curvature import Anchor, CurvatureOf
from mercer.solvers.rows.newton import Point, Progress, dual_point_of, newton
from mercer.solvers.rows.row_solver import PROXIMAL_IDLE, LinearSolver, StallCounter

_FIRST_FACTOR = 0.1  # of the first proximal step, in units of C over the spread of the targets
_WARM = 30.0  # times larger is the first factor of a warm start
LARGEST_FACTOR = 1e6  # in the same units; the rounding errors of decision values are multiplied by the factor
_REFRESHED = 1e3  # factor from which decision values are computed from w again for each proximal step
GROWTH = 4.0  # of the factor from one proximal step to the next
INNER = 0.05  # share of the gap to which Newton's method minimises a smoothed problem
MOST_INNER = 40  # Newton steps of a proximal step, after which the factor is reduced
_MOST_OUTER = 200  # proximal steps
_SMALL_GAP = 1e-3  # relative gap below which a proximal step without a Newton step should not increase it


class ProximalPoint(LinearSolver):
    """Proximal steps for the dual coefficients, which are the method of multipliers for the primal problem.

    A step with factor s replaces the coefficients beta = C m by those of the smoothed problem; see
    :class:`ProximalTerms`. The smoothed problem is solved by Newton's method. Its second derivatives belong to rows
    whose coefficient is strictly between its bounds, and their matrix is carried over from step to step.
    """

    name = "proximal-newton"

    def __init__(
        self,
        problem: LinearProblem,
        check: Callable[[], None],
        curvature: CurvatureOf,
        start: WarmStart | None,
        n_jobs: int | None,
    ) -> None:
        super().__init__(problem, check)
        assert problem.loss.kind.bounded
        self._stalls = StallCounter()
        self.unit = unit_of(problem)
        self.terms = ProximalTerms(problem.loss, problem.rows.numbers(), _FIRST_FACTOR / self.unit)
        self.charge = problem.total_charge or 1.0
        lengths = column_lengths(problem)
        self.scales = scales_of(problem, lengths)
        self.curvature = curvature(problem, self.terms, self.scales, n_jobs)
        self.point = Point(np.zeros(problem.n_columns), problem.rows.numbers(), lengths, n_jobs)
        if start is not None:
            self._begin_at(start)
        elif problem.bias is Bias.FREE and not problem.loss.classifies:
            self._begin_at_mean()

    def _begin_at_mean(self) -> None:
        """Begin at the mean target, which a free bias reaches without a penalty: it may be far from 0."""
        self.point.w[-1] = self.problem.total(_target_sums, reads_table=False)[1] / self.charge
        self.problem.each(_fill, self.point.z, float(self.point.w[-1]), reads_table=False)

    def _begin_at(self, start: WarmStart) -> None:
        """Begin at the weights and shares of a point, possibly for another C."""
        problem, terms = self.problem, self.terms
        problem.each(_begin_shares, terms, start.beta, start.C / problem.C, reads_table=False)
        terms.step = _WARM * terms.step if start.factor is None else start.factor
        self.point.w, self.point.is_stale = start.w.copy(), True

    def steps(self, tol: float) -> Iterator[Step]:
        """Make proximal steps."""
        stalls = self._stalls = StallCounter()
        for _ in range(_MOST_OUTER):
            last: list[Progress] = []
            began = self.n_iter

            def is_done(progress: Progress, last: list[Progress] = last, began: int = began) -> bool:
                last[:] = [progress]
                return (
                    progress.relative_gap <= tol
                    or (self.n_iter > began and self._is_close(progress))
                    or self.n_iter - began >= MOST_INNER
                )

            for step in newton(self.point, self.curvature, is_done, self.n_iter, self.check, self._anchor()):
                self.n_iter = step.n_iter
                yield step
            gap = last[0].relative_gap
            if stalls.count(gap) > PROXIMAL_IDLE or gap <= tol:
                return
            is_worse = stalls.least < gap < _SMALL_GAP
            if self.n_iter == began and (is_worse or not self._is_close(last[0])):
                # Rounding errors, which the factor multiplies, prevent steps. Moving on would only add them up.
                self.terms.step /= GROWTH**2
                continue
            self.problem.each(_move, self.terms, self.point.z, reads_table=False)
            if self.n_iter - began >= MOST_INNER or not self._is_close(last[0]):
                self.terms.step *= 0.5  # Newton's method did not solve the smoothed problem
            elif not stalls.idle or self.terms.step * self.unit < _REFRESHED:
                self.terms.step = min(GROWTH * self.terms.step, LARGEST_FACTOR / self.unit)
            if self.terms.step * self.unit > _REFRESHED:
                self.point.is_stale = True

    def _is_close(self, progress: Progress) -> bool:
        """Whether the smoothed problem is solved well enough for the gap at this point.

        With the l1 penalty, the gap is proportional to the root of the distance, by which v exceeds its bounds. Each
        proximal step that does not halve the gap makes the next one more exact.
        """
        share = 1.0 if self.problem.l1_ratio == 0.0 else min(1.0, progress.relative_gap) * 0.5**self._stalls.idle
        return progress.distance <= INNER * share * progress.gap

    def _anchor(self) -> Anchor | None:
        """Return the term that keeps w near the last one, for the l1 penalty, which has no curvature itself."""
        if self.problem.l1_ratio == 0.0:
            return None
        weight = self.charge / (self.terms.step * self.unit**2)
        with np.errstate(over="ignore"):
            weights = np.minimum(weight / np.square(np.maximum(self.scales, 1e-150)), 1e300)
        return Anchor(weights, self.point.w.copy())

    @property
    def weights(self) -> FloatArray:
        """The weights of the point."""
        return self.point.w

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights, and the coefficients of the smoothed losses."""
        return self.point.w, dual_point_of(self.problem, self.terms, self.point)

    @property
    def factor(self) -> float | None:
        """Factor of the last proximal step."""
        return self.terms.step

    @property
    def memory_bytes(self) -> int:
        """Matrices, and target, charge, decision value, change, share and coefficient of each row."""
        rows = self.problem.rows
        return self.curvature.memory_bytes + (0 if rows.limits_numbers else 8 * 8 * rows.n)


def _fill(part: Part, numbers: RowNumbers, value: float) -> None:
    numbers[part.block.at] = np.full(len(part.targets), value)


def _begin_shares(part: Part, terms: ProximalTerms, beta: RowNumbers, ratio: float) -> None:
    """Write the shares of dual coefficients of the problem with another C, `ratio` times that of this one."""
    charges = part.charges * ratio
    shares = np.divide(beta[part.block.at], charges, out=np.zeros(charges.size), where=charges > 0.0)
    terms.shares[part.block.at] = terms.loss.feasible(shares, part.targets, np.ones(shares.size))


def _move(part: Part, terms: ProximalTerms, z: RowNumbers) -> None:
    terms.move(part, z[part.block.at])


def _target_sums(part: Part) -> tuple[float, float, Largest]:
    """Return the sums of the charges and of charges times targets, and the largest target that counts."""
    largest = float(np.abs(part.targets[part.charges > 0.0]).max(initial=0.0))
    return float(part.charges.sum()), float(part.charges @ part.targets), Largest(largest)


def _target_squares(part: Part, mean: float) -> float:
    return float(part.charges @ np.square(part.targets - mean))


def unit_of(problem: LinearProblem) -> float:
    """Return the unit of decision values, of which the factors of proximal steps are the inverse.

    It is 1 for classes, and otherwise the standard deviation of the targets, weighted by the charges, but at least 1e-8
    of the largest target. Without a free bias, decision values must come from 0, and the least share is 1e-4.
    """
    if problem.loss.classifies:
        return 1.0
    total, first, (largest,) = problem.total(_target_sums, reads_table=False)
    mean = first / total if total > 0.0 else 0.0
    second = problem.total(_target_squares, mean, reads_table=False)
    spread = (second / total) ** 0.5 if total > 0.0 else 0.0
    return max(spread, (1e-8 if problem.bias is Bias.FREE else 1e-4) * largest) or 1.0
