"""Newton's method with an exact line search for a penalty plus smooth terms of the decision values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.certificates.dual_point import dual_point, make_feasible, pull_errors, scale_inside, without_rounding
from mercer.certificates.linear_solution import WarmStart
from mercer.gram.rows.sweeps import times, transposed_times
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.column_lengths import column_lengths, scales_of
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.losses import LinearLoss
from mercer.problems.smooth_terms import LossTerms, SmoothTerms
from mercer.solvers.loop import Step
from mercer.solvers.rows.curvature import Anchor, Curvature, CurvatureOf, Sweep
from mercer.solvers.rows.row_solver import LinearSolver

FULL = 0.3  # share of the slope at 0 that may be left at length 1, so that no line search is made
_SHORTENED = 0.01  # share of the slope at 0 that may be left at the end of a line search
_FIRST_LENGTHS = np.array([1.0, 0.3, 0.03])  # of a line search if the step overflows at length 1
_BRACKET = 1e-9  # relative width of the bracket of a length at which a line search ends
_FAR = np.array([1e-2, 1e-5, 1e-10, 1e-20])  # of the upper end of a bracket: lengths that are tried then
_APART = 1e-3  # ratio of the ends of a bracket below which lengths of several orders of magnitude are tried
_MOST_PASSES = 60  # over the rows in a line search; usually 1 to 3
_REFINEMENTS = 3  # of dual coefficients, where rounding of the decision values prevents a small gap
_PATH_COLUMNS = 250  # columns from which the path of C is followed; with fewer, a step costs little
_PATH_ROWS = 5  # rows for each column up to which it is
_FIRST_CONDITION = 1e3  # estimated condition of the first problem of the path
_STAGES = 10.0  # factor of C from one problem to the next
_MOST_STAGES = 12
_ROUGH = 1e-2  # relative gap to which they are solved
_IDLE = 12  # successive Newton steps without progress, after which rounding prevents it
_FALLING = 0.01  # share by which the objective falls that is progress even if the gap is not halved


@dataclass(eq=False)
class Point:
    """A point: the weights w (q,), and the decision value z of each row, which is updated along with w.

    `column_lengths` (q,) are the lengths of the columns, from which rounding errors follow, and `n_jobs` is the number
    of threads of the sweeps that update the point. If it `is_stale`, z must be computed from w before it is read.
    """

    w: FloatArray
    z: RowNumbers
    column_lengths: FloatArray
    n_jobs: int | None = None
    is_stale: bool = False


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
        return relative_gap(self.primal, self.primal - self.gap, gap=self.gap)


def dual_point_of(problem: LinearProblem, terms: SmoothTerms, point: Point) -> RowNumbers:
    """Return the feasible dual coefficients that belong to a point."""
    if point.is_stale:
        problem.each(_write_products, point.z, problem.constant, point.w, point.n_jobs)
        point.is_stale = False
    return dual_point(problem, terms, point.z, point.column_lengths, point.n_jobs)


def newton(
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
    point : Point
    curvature : Curvature
        With the problem and its terms.
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
    A step costs a sweep over the table at its full length. If the slope there is not small, a line search reads the
    numbers of the rows, and another sweep finds the gradient and the second derivatives. If a sweep updates a wide
    matrix (`Curvature.is_wide`), the products of the rows with the step come first, and there is one sweep, at the end
    of the step.
    """
    problem, terms = curvature.problem, curvature.terms
    step: RowNumbers = problem.rows.numbers()
    idle, least, lowest = 0, float("inf"), float("inf")
    sweep = curvature.sweep(point.w if point.is_stale else None, point.z, check)
    point.is_stale = False
    while True:
        progress, pull = _progress(problem, terms, point, sweep, anchor), sweep.pull
        yield Step(n_iter, progress.relative_gap, progress.objective)
        if is_done(progress):
            return
        is_better = progress.distance < 0.5 * least or progress.objective < (1.0 - _FALLING) * lowest
        idle = 0 if is_better else idle + 1
        least = min(least, progress.distance)
        lowest = progress.objective if is_better else lowest
        if idle > _IDLE:
            return
        line = _Line(problem, terms, point, step, curvature.direction(point.w, pull, anchor), pull, anchor, check)
        if not line.slope < 0.0:
            return
        if curvature.is_wide:
            curvature.multiply(line.direction, step, check)
            full = line.slope_at_end()
        else:
            sweep = curvature.sweep(point.w + line.direction, step, check)
            full = line.full_slope(sweep.pull)
        is_full = abs(full) <= FULL * -line.slope
        if is_full and not curvature.is_wide:
            point.w = point.w + line.direction
            point.z, step = step, point.z
        else:
            if not curvature.is_wide:
                problem.each(_add, step, -1.0, point.z, reads_table=False)
            length = 1.0 if is_full else line.search(full)
            if length == 0.0:
                return
            line.go(length)
            sweep = curvature.sweep(None, point.z, check)
        n_iter += 1


def _progress(
    problem: LinearProblem, terms: SmoothTerms, point: Point, sweep: Sweep, anchor: Anchor | None
) -> Progress:
    """Return what a sweep knows at a point."""
    gradient, loss = sweep.pull, sweep.loss
    imbalance = 0.0
    if problem.bias is Bias.FREE:  # the coefficients should have sum 0; the difference is worth about the bias
        imbalance = abs(float(gradient[-1])) * (1.0 + abs(float(point.w[-1])))
    errors = pull_errors(problem.rows.n, sweep.squares**0.5, point.column_lengths)
    pull = without_rounding(problem, point.w, gradient, errors)
    penalty = problem.penalty(point.w)
    if problem.l1_ratio < 1.0:
        distance = problem.penalty_excess(point.w, pull) + imbalance
        gap = distance + sweep.excess
        if anchor is None:
            return Progress(penalty + sweep.total, distance, penalty + loss, gap)
    else:
        share = scale_inside(problem, pull)
        gap = penalty + loss + imbalance
        gap -= problem.total(_dual, problem.loss, terms, share, point.z, point.n_jobs, reads_table=False)
        if anchor is None:
            return Progress(penalty + sweep.total, gap, penalty + loss, gap)
    distance = anchor.distance(point.w, gradient, problem)
    return Progress(penalty + anchor.value(point.w) + sweep.total, distance, penalty + loss, gap)


def _write_products(part: Part, z: RowNumbers, constant: float, w: FloatArray, n_jobs: int | None) -> None:
    z[part.block.at] = times(part.block.table, constant, w, n_jobs)


def _add(part: Part, numbers: RowNumbers, factor: float, others: RowNumbers) -> None:
    """Add a multiple of other numbers of the rows."""
    at = part.block.at
    numbers[at] = numbers[at] + factor * others[at]


def _dual(part: Part, loss: LinearLoss, terms: SmoothTerms, share: float, z: RowNumbers, n_jobs: int | None) -> float:
    beta = share * terms.values(part, z[part.block.at], n_jobs).beta
    return loss.dual(beta, part.targets, part.charges)


def _slopes_and_bends(
    part: Part, terms: SmoothTerms, z: RowNumbers, step: RowNumbers, lengths: FloatArray, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    at = part.block.at
    return terms.line(part, z[at], step[at], lengths, n_jobs)


def _corrected(
    part: Part,
    terms: SmoothTerms,
    constant: float,
    z: RowNumbers,
    beta: RowNumbers,
    change: FloatArray | None,
    n_jobs: int | None,
) -> FloatArray:
    """Write the coefficients of a block after a change of w, or those of the terms; return their sum of beta_i x_i."""
    table, at = part.block.table, part.block.at
    values = terms.values(part, z[at], n_jobs)
    moved = values.beta
    if change is not None:
        moved = beta[at] - terms.factor * values.curvature * times(table, constant, change, n_jobs)
    beta[at] = terms.loss.feasible(moved, part.targets, part.charges)
    return transposed_times(table, constant, beta[at], n_jobs)


class _Trial(NamedTuple):
    """A length of a step, with the slope and the second derivative there."""

    length: float
    slope: float
    bend: float


def _lengths_between(low: _Trial, high: _Trial) -> FloatArray:
    """Return the next lengths to try: where the slope is 0 by Newton's method from both ends, and between them.

    In directions without curvature, the right length may be shorter than 1 by many orders of magnitude.
    """
    lengths = [trial.length - trial.slope / trial.bend for trial in (low, high) if trial.bend > 0.0]
    if np.isinf(high.length):
        lengths += [max(low.length, 1e-300) * growth for growth in (2.0, 8.0, 64.0)]
    else:
        lengths.append(0.5 * (low.length + high.length))
        if low.length < _APART * high.length:
            lengths += [(low.length * high.length) ** 0.5, *(_FAR * high.length)]
        if high.slope > low.slope:
            lengths.append(low.length - low.slope * (high.length - low.length) / (high.slope - low.slope))
    return np.unique([length for length in lengths if low.length < length < high.length])


def _secant(slope: float, full: float) -> float:
    """Return the length at which the slope is 0 if it is linear, from those at 0 and 1; at most 10."""
    return min(10.0, slope / (slope - full)) if full > slope else 10.0


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
        anchor: Anchor | None,
        check: Callable[[], None],
    ) -> None:
        self.problem, self.terms, self.point, self.anchor, self.check = problem, terms, point, anchor, check
        self.step, self.direction = step, direction
        self.slope = self._penalty(0.0)[1] - float(pull @ direction)

    def full_slope(self, pull: FloatArray) -> float:
        """Return the slope at length 1, where `pull` is sum_i beta_i x_i there; at a kink, the one nearest to 0."""
        left, right, _ = self._penalty(1.0)
        slope = float(pull @ self.direction)
        return min(max(0.0, left - slope), right - slope)

    def slope_at_end(self) -> float:
        """Return the slope at length 1 by the numbers of the rows."""
        (trial,) = self._at(np.ones(1))
        return trial.slope

    def search(self, full: float) -> float:
        """Return the length of the step at which the slope is about 0; 0 if no length descends.

        The slope increases with the length; at length 1 it is `full`. Several lengths within a bracket of its root are
        tried at a time, because reading the numbers of the rows takes most of the time.
        """
        low, high = _Trial(0.0, self.slope, 0.0), _Trial(float("inf"), 0.0, 0.0)
        best, lengths = low, _FIRST_LENGTHS
        if np.isfinite(full):
            end = _Trial(1.0, full, 0.0)
            best, low, high = (end, end, high) if full < 0.0 else (end, low, end)
            lengths = np.append(_lengths_between(low, high), _secant(self.slope, full))
        for _ in range(_MOST_PASSES):
            for trial in self._at(lengths):
                if not np.isfinite(trial.slope):
                    high = min(high, trial._replace(slope=0.0))  # overflow: the step is too long
                    continue
                if best.length == 0.0 or abs(trial.slope) < abs(best.slope):
                    best = trial
                low, high = (max(low, trial), high) if trial.slope < 0.0 else (low, min(high, trial))
            if abs(best.slope) <= _SHORTENED * -self.slope:
                break
            lengths = _lengths_between(low, high)
            if not lengths.size or high.length - low.length <= _BRACKET * high.length:
                break
        # A step to a steeper slope would ascend: rounding hides the minimum, or the search has not found it.
        return best.length if abs(best.slope) < abs(self.slope) else low.length

    def _at(self, lengths: FloatArray) -> list[_Trial]:
        """Return the slopes and second derivatives at some lengths.

        At a kink, the slope is the one between those of both sides that is nearest to 0.
        """
        about = self.terms, self.point.z, self.step, lengths, self.point.n_jobs
        slopes, bends = self.problem.total(_slopes_and_bends, *about, check=self.check, reads_table=False)
        trials = []
        for k in range(lengths.size):
            length, slope = float(lengths[k]), float(slopes[k])
            left, right, bend = self._penalty(length)
            trials.append(_Trial(length, min(max(0.0, left + slope), right + slope), bend + float(bends[k])))
        return trials

    def _penalty(self, length: float) -> tuple[float, float, float]:
        """Return the slopes of the penalty to the left and the right, and its second derivative."""
        l1, l2, direction = self.problem.l1_weights, self.problem.l2_weights, self.direction
        w = self.point.w + length * direction
        slope, bend = float(l2 @ (w * direction)), float(l2 @ np.square(direction))
        if self.problem.l1_ratio == 0.0:
            return slope, slope, bend
        slope, jump = slope + float(l1 @ (np.sign(w) * direction)), float(l1 @ (np.abs(direction) * (w == 0.0)))
        if self.anchor is not None:
            slope += float((self.anchor.weight * (w - self.anchor.centre)) @ direction)
            bend += float(self.anchor.weight @ np.square(direction))
        return slope - jump, slope + jump, bend

    def go(self, length: float) -> None:
        """Move the point."""
        self.point.w = self.point.w + length * self.direction
        self.problem.each(_add, self.point.z, length, self.step, reads_table=False)


def _path(problem: LinearProblem, lengths: FloatArray) -> FloatArray:
    """Return the factors of C before the problem itself; none if the table has few columns, or many rows for each.

    Only classes have rows whose loss is 0 at the optimum and not before.
    """
    q = problem.n_columns
    if not problem.loss.classifies or q < _PATH_COLUMNS or problem.rows.n > _PATH_ROWS * q:
        return np.zeros(0)
    charge = problem.total_charge / max(1, problem.rows.n)
    condition = 2.0 * charge * float(np.square(lengths).sum()) / q
    with np.errstate(divide="ignore"):
        count = np.floor(np.log(max(1.0, condition / _FIRST_CONDITION)) / np.log(_STAGES))
    return _STAGES ** -np.arange(min(count, _MOST_STAGES), 0.0, -1.0)


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
        self.terms, self._stalled = LossTerms(problem.loss), False
        lengths = column_lengths(problem)
        self.curvature = curvature(problem, self.terms, scales_of(problem, lengths), n_jobs)
        self.point = Point(np.zeros(problem.n_columns), problem.rows.numbers(), lengths, n_jobs)
        self._factors = np.zeros(0)
        if start is not None:
            self.point.w, self.point.is_stale = start.w.copy(), True
        elif problem.l1_ratio == 0.0 and self.terms.is_quadratic:
            self._factors = _path(problem, lengths)

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps.

        With few rows for many columns and a large C, each step changes the rows whose loss is 0, and few of these
        changes last: the problem is solved roughly for smaller C before.
        """
        factors, self._factors = self._factors, np.zeros(0)
        problem = self.curvature.problem
        try:
            for factor in factors:
                self.curvature.problem = replace(self.problem, C=factor * self.problem.C)
                steps = newton(
                    self.point,
                    self.curvature,
                    lambda progress: progress.relative_gap <= _ROUGH,
                    self.n_iter,
                    self.check,
                )
                for step in steps:
                    self.n_iter = step.n_iter
                    yield Step(step.n_iter, 1.0, step.objective)
        finally:
            self.curvature.problem = problem
        self._stalled, last = False, 0.0
        about = self.point, self.curvature
        for step in newton(*about, lambda progress: progress.relative_gap <= tol, self.n_iter, self.check):
            self.n_iter = step.n_iter
            last = step.violation
            yield step
        self._stalled = last > tol
        self.curvature.store()

    @property
    def weights(self) -> FloatArray:
        """The weights of the point."""
        return self.point.w

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights, and minus the slopes of the losses, refined if the steps could not reach the gap."""
        if self._stalled:
            return self.point.w, self._refined()
        return self.point.w, dual_point_of(self.problem, self.terms, self.point)

    def _refined(self) -> RowNumbers:
        """Return coefficients whose sum of beta_i x_i is nearer to w than the rounded decision values allow.

        The change of the coefficients is what a Newton step from their sum would bring (iterative refinement).
        """
        problem, beta = self.problem, self.problem.rows.numbers()
        pull: FloatArray = np.zeros(problem.n_columns)
        for number in range(_REFINEMENTS + 1):
            change = self.curvature.correction(self.point.w, pull) if number else pull
            if change is None:
                break
            about = self.terms, problem.constant, self.point.z, beta, change if number else None, self.point.n_jobs
            pull = problem.total(_corrected, *about)
        make_feasible(problem, beta, self.point.column_lengths, self.point.n_jobs)
        return beta

    @property
    def memory_bytes(self) -> int:
        """Matrices, and target, charge, decision value, change and coefficient of each row."""
        rows = self.problem.rows
        return self.curvature.memory_bytes + (0 if rows.limits_numbers else 5 * 8 * rows.n)
