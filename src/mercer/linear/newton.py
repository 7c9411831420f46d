"""Newton's method with an exact line search for a penalty plus smooth terms of the decision values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.linear.column_lengths import column_lengths, scales_of
from mercer.linear.curvature import Anchor, Curvature, CurvatureOf
from mercer.linear.dual_point import dual_point, pull_errors, scale_inside, without_rounding
from mercer.linear.problem import Bias, LinearProblem, Penalty
from mercer.linear.rows import RowNumbers
from mercer.linear.smooth_terms import LossTerms, SmoothTerms
from mercer.linear.solution import WarmStart
from mercer.linear.solver import LinearSolver
from mercer.linear.sweeps import times
from mercer.losses.iteration import Step

_SHORTENED = 0.01  # share of the slope at 0 that may be left at the end of a line search
_TRIALS = 60  # evaluations of a line search; Newton steps need 2 to 8, and doublings up to 60
_IDLE = 12  # successive Newton steps that do not halve the gap, after which rounding prevents progress


@dataclass(eq=False)
class Point:
    """A point: the weights w (q,), and the decision value z of each row, which is updated along with w.

    `column_lengths` (q,) are the lengths of the columns, from which rounding errors follow, and `n_jobs` is the number
    of threads of the sweeps that update the point.
    """

    w: FloatArray
    z: RowNumbers
    column_lengths: FloatArray
    n_jobs: int | None = None


class Progress(NamedTuple):
    """What a sweep knows at a point.

    `objective` is what Newton's method minimises, which has the terms in the place of the losses, and `distance` is its
    duality gap; `primal` is the objective of the problem, and `gap` its duality gap.
    """

    objective: float
    distance: float
    primal: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger of the objectives."""
        largest = max(abs(self.primal), abs(self.primal - self.gap))
        return self.gap / largest if largest > 0.0 else 0.0


def refresh(problem: LinearProblem, point: Point) -> None:
    """Compute the decision values from the weights, in one sweep."""
    for part in problem.parts():
        point.z[part.block.at] = times(part.block.table, problem.constant, point.w, point.n_jobs)


def dual_point_of(problem: LinearProblem, terms: SmoothTerms, point: Point) -> RowNumbers:
    """Return the feasible dual coefficients that belong to a point."""
    return dual_point(problem, terms, point.z, point.column_lengths, point.n_jobs)


def newton(
    problem: LinearProblem,
    terms: SmoothTerms,
    point: Point,
    curvature: Curvature,
    is_done: Callable[[Progress], bool],
    n_iter: int,
    check: Callable[[], None],
    anchor: Anchor | None = None,
) -> Iterator[Step]:
    """Minimise the penalty plus the terms from `point`, which is updated in place.

    Parameters
    ----------
    problem : LinearProblem
    terms : SmoothTerms
    point : Point
        Its decision values must be those of its weights.
    curvature : Curvature
    is_done : callable
        Called at each point; the method ends if it returns True.
    n_iter : int
        Steps before the first one.
    check : callable
        Called between the blocks of a sweep over the table.
    anchor : Anchor, optional
        Added to the objective; for the l1 penalty.

    Notes
    -----
    A step costs two sweeps over the table: one for gradient and second derivatives, and one for the change of the
    decision values. The line search then reads the numbers of the rows only.
    """
    step: RowNumbers = problem.rows.numbers()
    idle, least = 0, float("inf")
    while True:
        progress, pull = _look(problem, terms, point, curvature, check, anchor)
        yield Step(n_iter, progress.relative_gap, progress.objective)
        if is_done(progress):
            return
        idle = 0 if progress.distance < 0.5 * least else idle + 1
        least = min(least, progress.distance)
        if idle > _IDLE:
            return
        line = _Line(problem, terms, point, step, curvature.direction(point.w, pull, anchor), pull, check, anchor)
        length = line.search()
        if length == 0.0:
            return
        line.go(length)
        n_iter += 1


def _look(
    problem: LinearProblem,
    terms: SmoothTerms,
    point: Point,
    curvature: Curvature,
    check: Callable[[], None],
    anchor: Anchor | None,
) -> tuple[Progress, FloatArray]:
    """Return what a sweep knows at a point, and sum_i beta_i x_i (q,); the second derivatives go to `curvature`."""
    pull, value, loss, excess, squares = np.zeros(problem.n_columns), 0.0, 0.0, 0.0, 0.0
    curvature.begin()
    for part in problem.parts():
        check()
        z = point.z[part.block.at]
        slopes = terms.slopes(part, z)
        pull += curvature.collect(part, slopes)
        squares += float(slopes.beta @ slopes.beta)
        value += terms.total(part, z)
        own_loss, own_excess = terms.duality(part, z, slopes.beta)
        loss, excess = loss + own_loss, excess + own_excess
    counted = problem.counted
    imbalance = 0.0
    if problem.bias is Bias.FREE:  # the coefficients should have sum 0; the difference is worth about the bias
        imbalance = abs(float(pull[-1])) * (1.0 + abs(float(point.w[-1])))
    errors = pull_errors(problem.rows.n, squares**0.5, point.column_lengths)
    pull, own = without_rounding(problem, point.w, pull, errors), pull
    if problem.penalty is Penalty.L2:
        penalty = 0.5 * float(counted @ np.square(point.w))
        distance = 0.5 * float(counted @ np.square(point.w - pull)) + imbalance
        return Progress(penalty + value, distance, penalty + loss, distance + excess), own
    penalty, share = float(counted @ np.abs(point.w)), scale_inside(problem, pull)
    gap = penalty + loss + imbalance
    for part in problem.row_parts():
        beta = share * terms.slopes(part, point.z[part.block.at]).beta
        gap -= problem.loss.dual(beta, part.targets, part.charges)
    if anchor is None:
        return Progress(penalty + value, gap, penalty + loss, gap), own
    distance = anchor.distance(point.w, own, counted)
    return Progress(penalty + anchor.value(point.w) + value, distance, penalty + loss, gap), own


class _Line:
    """The objective of Newton's method along a step."""

    def __init__(
        self,
        problem: LinearProblem,
        terms: SmoothTerms,
        point: Point,
        step: RowNumbers,
        direction: FloatArray,
        pull: FloatArray,
        check: Callable[[], None],
        anchor: Anchor | None,
    ) -> None:
        self.problem, self.terms, self.point, self.check, self.anchor = problem, terms, point, check, anchor
        self.step, self.direction = step, direction
        self.slope = self._penalty(0.0)[1] - float(pull @ direction)

    def search(self) -> float:
        """Return the length of the step at which the slope is about 0; 0 if the direction does not descend.

        The slope increases with the length. Its root is found by Newton's method within a bracket.
        """
        if not self.slope < 0.0:
            return 0.0
        low, high, length = 0.0, float("inf"), 1.0
        for trial in range(_TRIALS):
            slope, bend = self._at(length, first=trial == 0)
            if not np.isfinite(slope):
                high, length = length, 0.5 * (low + length)
                continue
            if abs(slope) <= _SHORTENED * -self.slope:
                break
            low, high = (length, high) if slope < 0.0 else (low, length)
            ahead = length - slope / bend if bend > 0.0 else float("inf")
            if not low < ahead < high:
                ahead = 2.0 * length if np.isinf(high) else 0.5 * (low + high)
            if ahead == length or ahead in (low, high):
                break
            length = ahead
        return length

    def _at(self, length: float, *, first: bool) -> tuple[float, float]:
        """Return the slope and the second derivative at a length; the `first` time, the change of z is computed, too.

        At a kink, the slope is the one between those of both sides that is nearest to 0.
        """
        left, right, bend = self._penalty(length)
        for part in self.problem.parts() if first else self.problem.row_parts():
            at = part.block.at
            if first:
                self.check()
                about = part.block.table, self.problem.constant, self.direction
                self.step[at] = times(*about, self.point.n_jobs)
            change = self.step[at]
            slopes = self.terms.slopes(part, self.point.z[at] + length * change)
            pull = float(slopes.beta @ change)
            left, right = left - pull, right - pull
            bend += self.terms.factor * float(slopes.curvature @ np.square(change))
        return min(max(0.0, left), right), bend

    def _penalty(self, length: float) -> tuple[float, float, float]:
        """Return the slopes of the penalty to the left and the right, and its second derivative."""
        counted, direction = self.problem.counted, self.direction
        w = self.point.w + length * direction
        if self.problem.penalty is Penalty.L2:
            slope = float(counted @ (w * direction))
            return slope, slope, float(counted @ np.square(direction))
        slope, jump = float(counted @ (np.sign(w) * direction)), float(counted @ (np.abs(direction) * (w == 0.0)))
        bend = 0.0
        if self.anchor is not None:
            slope += float((self.anchor.weight * (w - self.anchor.centre)) @ direction)
            bend = float(self.anchor.weight @ np.square(direction))
        return slope - jump, slope + jump, bend

    def go(self, length: float) -> None:
        """Move the point."""
        self.point.w = self.point.w + length * self.direction
        for part in self.problem.row_parts():
            at = part.block.at
            self.point.z[at] = self.point.z[at] + length * self.step[at]


class SmoothNewton(LinearSolver):
    """Newton's method for a loss that is smooth itself."""

    name = "newton"

    def __init__(
        self,
        problem: LinearProblem,
        check: Callable[[], None],
        curvature: CurvatureOf,
        start: WarmStart | None,
        n_jobs: int | None,
    ) -> None:
        super().__init__(problem, check)
        self.terms = LossTerms(problem.loss)
        lengths = column_lengths(problem, n_jobs)
        self.curvature = curvature(problem, self.terms, scales_of(problem, lengths), n_jobs)
        self.point = Point(np.zeros(problem.n_columns), problem.rows.numbers(), lengths, n_jobs)
        if start is not None:
            self.point.w = start.w.copy()
            refresh(problem, self.point)

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps."""
        about = self.problem, self.terms, self.point, self.curvature
        for step in newton(*about, lambda progress: progress.relative_gap <= tol, self.n_iter, self.check):
            self.n_iter = step.n_iter
            yield step

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights, and minus the slopes of the losses."""
        return self.point.w, dual_point_of(self.problem, self.terms, self.point)

    @property
    def bytes_held(self) -> int:
        """Matrices, and decision value, change and coefficient of each row."""
        rows = self.problem.rows
        return self.curvature.bytes_held + (0 if rows.limits_numbers else 3 * 8 * rows.n)
