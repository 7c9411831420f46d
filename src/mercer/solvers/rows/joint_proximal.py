"""The proximal point method for the joint linear machine: Newton's method on smoothed losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.gram.rows.sweeps import add_gram, times, transposed_times
from mercer.problems import inner
from mercer.problems.column_lengths import column_lengths, scales_of
from mercer.problems.joint_linear import JointLinearProblem, JointPoint
from mercer.solvers.loop import Step
from mercer.solvers.rows.newton import Progress
from mercer.solvers.rows.proximal_point import GROWTH, INNER, LARGEST_FACTOR, MOST_INNER
from mercer.solvers.rows.row_solver import PROXIMAL_IDLE, StallCounter
from mercer.solvers.rows.systems import conjugate_gradients, factor_positive, solve_positive

_MOST_UNKNOWNS = 4_000  # weights up to which one matrix is factorised; otherwise there is a matrix for each class
_FIRST_FACTOR = 1.0  # of the first proximal step
_SHORTENED = 0.05  # share of the slope at 0 that may be left at the end of a line search
_MOST_TRIALS = 60  # lengths that a line search tries; usually 1 to 3
_FORCING = 0.01  # relative residual of conjugate gradients


class _SweepValues(NamedTuple):
    """What a sweep over the rows knows at a point.

    `shares` (n, K) are the maximisers of the smoothed losses, `beta` (n, K) and `v` (q, K) the dual coefficients and
    the weights that belong to them.
    """

    shares: FloatArray
    beta: FloatArray
    v: FloatArray
    progress: Progress


class JointProximalPoint:
    """Proximal steps for the dual coefficients of a joint problem, from `point`, which is changed in place.

    The loss of a row is C times the largest of the sums of t_k (z_k + [k != y]) - z_y over shares t of the unit
    simplex. A step with factor s subtracts |t - t'|² / (2 s), where t' are the last shares. The loss is then smooth,
    its maximiser is the projection of t' + s (z + [k != y]) onto the simplex, and Newton's method minimises the sum of
    all losses and the penalty. Its matrix of second derivatives is exact, so that the scales of the columns and
    correlations among them do not slow it down.

    Parameters
    ----------
    problem : JointLinearProblem
        Its rows must be in memory.
    point : JointPoint
        Feasible coefficients, and their weights.
    check : callable
        Called between sweeps; it raises an error to end the work.
    n_jobs : int, optional
    """

    def __init__(
        self, problem: JointLinearProblem, point: JointPoint, check: Callable[[], None], n_jobs: int | None
    ) -> None:
        self.problem, self.point, self.check, self.n_jobs = problem, point, check, n_jobs
        (self.part,) = problem.parts()
        self.scales = scales_of(problem, column_lengths(problem))[:, None]
        self.factor, self.n_iter = _FIRST_FACTOR, 0
        charges = self.part.charges[:, None]
        self.is_true_class = self.part.codes[:, None] == np.arange(problem.n_classes)
        self.shares = self.is_true_class - np.divide(
            point.beta, charges, out=np.zeros_like(point.beta), where=charges > 0.0
        )
        self.shares = np.maximum(0.0, self.shares)
        self._refresh()

    def _refresh(self) -> None:
        """Compute the decision values, plus 1 for the classes that are not the row's, from the weights."""
        self.check()
        self.z = times(self.part.block.table, self.problem.constant, self.point.w, self.n_jobs) + ~self.is_true_class

    def steps(self, tol: float) -> Iterator[Step]:
        """Work until the exact relative gap is at most `tol`, or until rounding prevents progress."""
        stalls = StallCounter()
        while stalls.idle <= PROXIMAL_IDLE:
            began = self.n_iter
            while True:
                swept = self._sweep()
                self.point.beta[:] = swept.beta
                gap = swept.progress.relative_gap
                yield Step(self.n_iter, gap, swept.progress.objective)
                if gap <= tol:
                    return
                is_close = swept.progress.distance <= INNER * swept.progress.gap
                if (is_close and self.n_iter > began) or self.n_iter - began >= MOST_INNER or not self._move(swept):
                    break
                self.n_iter += 1
            stalls.count(gap)
            if not is_close and self.n_iter == began:
                self.factor /= GROWTH**2  # rounding errors, which the factor multiplies, prevent steps
                continue
            self.shares = swept.shares
            self.factor = min(GROWTH * self.factor, LARGEST_FACTOR) if is_close else 0.5 * self.factor
            self._refresh()

    def _shares_at(self, z: FloatArray) -> FloatArray:
        return project_rows(self.shares + self.factor * z)

    def _beta_of(self, shares: FloatArray) -> FloatArray:
        """Return the dual coefficients; that of the row's own class is the sum of the other shares."""
        given = np.where(self.is_true_class, 0.0, shares)
        return self.part.charges[:, None] * np.where(self.is_true_class, given.sum(axis=1)[:, None], -given)

    def _sweep(self) -> _SweepValues:
        self.check()
        w, z = self.point.w, self.z
        shares = self._shares_at(z)
        beta = self._beta_of(shares)
        v = transposed_times(self.part.block.table, self.problem.constant, beta, self.n_jobs)
        largest = z.max(axis=1)
        loss = inner(self.part.charges, largest - z[self.is_true_class])
        excess = inner(self.part.charges, np.einsum("ik,ik->i", shares, largest[:, None] - z))
        distance = 0.5 * inner((w - v).ravel(), (w - v).ravel())
        primal, gap = 0.5 * inner(w.ravel(), w.ravel()) + loss, distance + excess
        return _SweepValues(shares, beta, v, Progress(primal - gap, distance, primal, gap))

    def _move(self, swept: _SweepValues) -> bool:
        """Make a Newton step with an exact line search; return whether the point has moved."""
        direction = self._direction(swept)
        self.check()
        w = self.point.w
        change = times(self.part.block.table, self.problem.constant, direction, self.n_jobs)

        def slope(length: float) -> float:
            beta = self._beta_of(self._shares_at(self.z + length * change))
            return inner((w + length * direction).ravel(), direction.ravel()) - inner(beta.ravel(), change.ravel())

        length = root_of(slope, inner((w - swept.v).ravel(), direction.ravel()), self.check)
        if length == 0.0:
            return False
        self.point.w[:] = w + length * direction
        self.z = self.z + length * change
        return True

    def _direction(self, swept: _SweepValues) -> FloatArray:
        """Return minus the inverse of the second derivatives times the gradient, (q, K)."""
        problem, scales = self.problem, self.scales
        right = (swept.v - self.point.w) * scales
        active = swept.shares > 0.0
        counts = active.sum(axis=1)
        weights = self.factor * self.part.charges * (counts > 1)
        if right.size <= _MOST_UNKNOWNS:
            solved = solve_positive(self._matrix(active, counts, weights), right.T.ravel())
            return _balanced(solved.reshape(right.shape[::-1]).T) * scales
        blocks = [factor_positive(self._block(active, counts, weights, k, k)) for k in range(problem.n_classes)]
        table, constant = self.part.block.table, problem.constant

        def product(flat: FloatArray) -> FloatArray:
            self.check()
            d = flat.reshape(right.shape) * scales
            images = np.where(active, times(table, constant, d, self.n_jobs), 0.0)
            images -= active * (images.sum(axis=1) / counts)[:, None]
            pulled = transposed_times(table, constant, weights[:, None] * images, self.n_jobs)
            return ((d + pulled) * scales).ravel()

        def precondition(flat: FloatArray) -> FloatArray:
            residual = flat.reshape(right.shape)
            turned = np.stack([block(residual[:, k]) for k, block in enumerate(blocks)], axis=1)
            return _balanced(turned).ravel()

        direction = conjugate_gradients(product, right.ravel(), precondition, tol=_FORCING)
        return direction.reshape(right.shape) * scales

    def _matrix(self, active: np.ndarray, counts: np.ndarray, weights: FloatArray) -> FloatArray:
        """Return the second derivatives, whose rows are the weights of class after class.

        The losses do not depend on the sum of the weights over the classes, which is 0. For this sum, only the penalty
        has second derivatives. They are raised to the size of the others, which leaves steps of sum 0 unchanged.
        """
        q, n_classes = self.point.w.shape
        matrix = np.zeros((n_classes, q, n_classes, q))
        for k in range(n_classes):
            for other in range(k + 1):
                block = self._block(active, counts, weights, k, other)
                matrix[k, :, other] = matrix[other, :, k] = block
        largest = np.einsum("kjkj->j", matrix) / n_classes
        np.einsum("kjlj->jkl", matrix)[:] += (largest / n_classes)[:, None, None]
        return matrix.reshape(n_classes * q, n_classes * q)

    def _block(
        self, active: np.ndarray, counts: np.ndarray, weights: FloatArray, first: int, second: int
    ) -> FloatArray:
        """Return the second derivatives of the weights of two classes, which may be the same, (q, q)."""
        self.check()
        is_same = first == second
        shares = np.where(active[:, first] & active[:, second], weights * (is_same - 1.0 / counts), 0.0)
        block = np.zeros((self.scales.size, self.scales.size))
        if shares.any():
            table, constant = self.part.block.table, self.problem.constant
            add_gram(table, constant, shares, self.scales[:, 0], block, self.n_jobs)
        if is_same:
            block.flat[:: self.scales.size + 1] += np.square(self.scales[:, 0])
        return block

    @property
    def memory_bytes(self) -> int:
        """Bytes of the matrices, and of the numbers of each row and class."""
        return newton_bytes(self.problem)


def _balanced(weights: FloatArray) -> FloatArray:
    """Return the weights without their mean over the classes, (q, K)."""
    return weights - weights.mean(axis=1, keepdims=True)


def newton_bytes(problem: JointLinearProblem) -> int:
    """Return the bytes that :class:`JointProximalPoint` needs."""
    q, n_classes = problem.n_columns, problem.n_classes
    matrices = 4 * (q * n_classes) ** 2 if q * n_classes <= _MOST_UNKNOWNS else (n_classes + 2) * q**2
    return 8 * (matrices + 8 * problem.rows.n * n_classes + 8 * q * n_classes)


def newton_multiplications(problem: JointLinearProblem) -> float:
    """Return about how many multiplications a step of :class:`JointProximalPoint` makes."""
    n, q, n_classes = float(problem.rows.n), problem.n_columns, problem.n_classes
    if q * n_classes <= _MOST_UNKNOWNS:
        return n * q**2 * n_classes**2 / 2.0 + (q * n_classes) ** 3 / 3.0
    return n_classes * (n * q**2 + q**3 / 3.0)


def project_rows(points: FloatArray) -> FloatArray:
    """Return the projections of rows onto the points with nonnegative coordinates and sum 1, (n, K)."""
    points = points - points.max(axis=1, keepdims=True)  # the largest coordinate loses no digits
    ordered = -np.sort(-points, axis=1)
    sums = np.cumsum(ordered, axis=1) - 1.0
    counts = (ordered * np.arange(1, points.shape[1] + 1) > sums).sum(axis=1)
    thresholds = np.take_along_axis(sums, counts[:, None] - 1, axis=1) / counts[:, None]
    return np.maximum(0.0, points - thresholds)


def root_of(slope: Callable[[float], float], at_zero: float, check: Callable[[], None]) -> float:
    """Return a length > 0 where an increasing slope is about 0; 0 if the slope at 0 is not negative.

    The bracket of the root is narrowed by secants, and halved where a secant keeps one of its ends.
    """
    if not at_zero < 0.0:
        return 0.0
    low, high, length = (0.0, at_zero), (float("inf"), 0.0), 1.0
    best = low
    for trial in range(_MOST_TRIALS):
        check()
        slope_at = slope(length)
        if not np.isfinite(slope_at):
            high = (length, float("inf"))
        else:
            if best[0] == 0.0 or abs(slope_at) < abs(best[1]):
                best = (length, slope_at)
            if abs(slope_at) <= -_SHORTENED * at_zero:
                break
            low, high = ((length, slope_at), high) if slope_at < 0.0 else (low, (length, slope_at))
        if high[0] == float("inf"):
            length = 4.0 * low[0]
            continue
        secant = low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
        length = secant if trial % 2 and low[0] < secant < high[0] else 0.5 * (low[0] + high[0])
        if not low[0] < length < high[0]:
            break
    return best[0]
