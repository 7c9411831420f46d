"""The joint linear machine of several classes [Crammer & Singer 2001]: its solvers and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer._core import JointDescent
from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.certificates.dual_point import rounding_of_sums
from mercer.certificates.examples import joint_examples, margin_of
from mercer.certificates.kkt import Cases
from mercer.certificates.linear import (
    CANCELLED,
    WeightsEvidence,
    long_products,
    radius_of,
)
from mercer.certificates.linear_solution import LinearPoint, LinearRun, LinearSolution, WarmStart
from mercer.certificates.smooth import Evaluation, KKTNumbers
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram
from mercer.gram.rows.sweeps import column_squares, native_table, times, transposed_times
from mercer.gram.rows.table_rows import TableRows
from mercer.gram.threads import blas_threads
from mercer.kernels import Kernel, Linear
from mercer.problems import inner, joint
from mercer.problems.joint_linear import JointLinearProblem, JointPart, JointPoint, bounds, near
from mercer.problems.losses import SAME
from mercer.solvers import Control, solve
from mercer.solvers.loop import SolverMonitor, Step, drive
from mercer.solvers.rows.certified import gap_monitor, gap_tolerance
from mercer.solvers.rows.costs import MOST_COLUMNS
from mercer.solvers.rows.dual_descent import EPOCHS, Epochs, descend, refuse_overflow, unit_of
from mercer.solvers.rows.joint_proximal import JointProximalPoint, newton_bytes, newton_multiplications
from mercer.solvers.rows.kernel_engine import MOST_ROWS, VIOLATION

_ARRAYS = 4  # arrays of an element for each row, beside the coefficients: codes, charges, squares, order
_MANY_EPOCHS = 30  # epochs of descent, after which Newton's method is faster
_MOST_BYTES = 1 << 30  # of the matrices of Newton's method, if no memory limit is given


class _Objectives(NamedTuple):
    """Sums over the rows: losses at w, dual value without the penalty, sum_i beta_i x_i, squares, and conditions."""

    loss: float
    dual: float
    v: FloatArray
    charge_square: float
    squares: FloatArray  # sum of squares of each column, (q,)
    beta_squares: FloatArray  # sum of squared coefficients of each class, (n_classes,)
    infeasibility: float
    conditions: KKTNumbers
    stretch: float  # factor of w that makes its margins 1, if they must be; infinite if they are not positive


def _objectives(problem: JointLinearProblem, w: FloatArray, beta: FloatArray, *, independent: bool) -> _Objectives:
    constant = problem.constant
    v = np.zeros(w.shape, dtype=np.longdouble if independent else np.float64)
    squares, beta_squares, numbers, infeasibility = np.zeros(w.shape[0]), np.zeros(w.shape[1]), np.zeros(3), 0.0
    violation, n_free, n_bounded = 0.0, 0, 0
    is_hard, margin = np.isinf(problem.C), float("inf")
    for part in problem.parts():
        table, part_beta = part.block.table, beta[part.block.at]
        feasible = near(part_beta, part)
        infeasibility = max(infeasibility, float(np.abs(part_beta - feasible).max(initial=0.0)))
        if independent:
            z, sums = long_products(table, constant, w, feasible)
        else:
            z, sums = times(table, constant, w), transposed_times(table, constant, feasible)
        rows = np.arange(part.codes.size)
        scores = z + 1.0
        scores[rows, part.codes] -= 1.0
        losses = scores.max(axis=1) - scores[rows, part.codes]
        v += sums
        squares += column_squares(table, constant)
        beta_squares += np.square(feasible).sum(axis=0)
        charges = np.zeros_like(part.charges) if is_hard else part.charges  # hard margins have no losses
        if is_hard:
            others = z.copy()
            others[rows, part.codes] = -np.inf
            apart = (z[rows, part.codes] - others.max(axis=1))[part.charges > 0.0]
            margin = min(margin, float(apart.min(initial=np.inf)))
        numbers += inner(charges, losses), feasible[rows, part.codes].sum(), np.square(charges).sum()
        low, high = bounds(part, problem.n_classes)
        room = SAME * charges[:, None]
        grows, shrinks = feasible < high - room, feasible > low + room
        row = np.where(shrinks, scores, -np.inf).max(axis=1) - np.where(grows, scores, np.inf).min(axis=1)
        violation = max(violation, float(row.max(initial=0.0)))
        free, used = (grows & shrinks).any(axis=1), feasible.any(axis=1)
        n_free += int(np.count_nonzero(free & used))
        n_bounded += int(np.count_nonzero(used & ~free))
    loss, dual, charge_square = (float(number) for number in numbers)
    conditions = KKTNumbers(violation, n_free, n_bounded)
    sizes = charge_square, squares, beta_squares, infeasibility
    v = v.astype(np.float64)
    if is_hard:
        margin -= 2.0 * _deviation(w, squares)
    return _Objectives(loss, dual, v, *sizes, conditions, 1.0 / min(1.0, margin) if margin > 0.0 else float("inf"))


def _deviation(w: FloatArray, squares: FloatArray) -> float:
    """Return the rounding error of a decision value, from the sums of squares of the columns."""
    return rounding_of_sums(w.shape[0]) * float(np.abs(w).max(axis=1, initial=0.0) @ np.sqrt(squares))


def _errors_of(problem: JointLinearProblem, sums: _Objectives) -> FloatArray:
    """Return the rounding errors of the elements of v, (n_columns, n_classes)."""
    return rounding_of_sums(problem.rows.n) * np.outer(np.sqrt(sums.squares), np.sqrt(sums.beta_squares))


@dataclass(frozen=True, eq=False)
class JointEvidence(WeightsEvidence):
    """A point of a joint problem: weights (n_columns, n_classes) and dual coefficients (n, n_classes)."""

    problem: JointLinearProblem
    w: FloatArray
    beta: FloatArray

    @property
    def weights(self) -> FloatArray:
        """The normal vectors, (n_classes, p)."""
        return self.problem.split(self.w)[0]

    def examples(self, full_gram: Any = None) -> Cases:
        """Return the optimality condition of each row; see :meth:`mercer.Certificate.examples`."""
        del full_gram
        parts = []
        for part in self.problem.parts():
            used = np.flatnonzero(part.charges > 0.0)
            scores = times(part.block.table, self.problem.constant, self.w)[used]
            beta = near(self.beta[part.block.at], part)[used]
            parts.append((used + (part.block.at.start or 0), part.codes[used], part.charges[used], beta, scores))
        rows, codes, C, beta, scores = (np.concatenate(each) for each in zip(*parts, strict=True))
        true_places = np.arange(codes.size), codes
        if np.isfinite(self.problem.C):
            beta[np.abs(beta) <= SAME * C[:, None]] = 0.0
            beta[true_places] = np.where(beta[true_places] >= (1.0 - SAME) * C, C, beta[true_places])
        products = self.weights @ self.weights.T
        squares = np.diag(products)[:, None] + np.diag(products)[None, :] - 2.0 * products
        margin = margin_of(float(squares.max()), 0.0, convex=True)
        evaluation = self.evaluate()
        assert evaluation.kkt is not None
        tolerance = (evaluation.kkt.violation or 0.0) + float(evaluation.decision_error.max())
        return joint_examples(rows, codes, C, beta, scores, margin, tolerance)

    def ball(self, gap: float) -> tuple[FloatArray, FloatArray] | None:
        """Return a ball around the optimal weights, in which those of the biases count, too."""
        if not np.isfinite(gap):
            return None
        sums = _objectives(self.problem, self.w, self.beta, independent=False)
        errors = _errors_of(self.problem, sums)
        w = sums.stretch * self.w
        radii = radius_of(gap, w.ravel(), sums.v.ravel(), errors.ravel()).reshape(w.shape)
        p = self.problem.rows.p
        return 0.5 * (w + sums.v)[:p].T, radii[:p].T

    def proves_inseparable(self) -> bool:
        """Whether the sums of beta_ik x_i are 0 to 12 digits; see :meth:`LinearEvidence.proves_inseparable`.

        They are compared with the coefficients of all classes together: those of a class that can be separated stay
        small, and their sum is not 0.
        """
        sums = _objectives(self.problem, self.w, self.beta, independent=False)
        sizes = float(np.sqrt(sums.beta_squares.sum())) * np.sqrt(sums.squares)
        return sums.dual > 0.0 and bool((np.abs(sums.v) <= CANCELLED * sizes[:, None]).all())

    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point in one sweep over the rows; with `independent`, in longdouble by NumPy alone.

        Notes
        -----
        As for two classes: the dual value uses sums of the coefficients, which are made feasible first, and estimated
        rounding errors are added to the gap. A loss changes by at most two errors of decision values of its row.
        """
        problem, w = self.problem, self.w
        with np.errstate(all="ignore"):
            sums = _objectives(problem, w, self.beta, independent=independent)
            v = sums.v.ravel()
            primal = (
                0.5 * inner(w.ravel(), w.ravel()) * sums.stretch**2 + sums.loss if sums.stretch < np.inf else np.inf
            )
            dual = sums.dual - 0.5 * inner(v, v)
            spread, deviation = rounding_of_sums(problem.rows.n), _deviation(w, sums.squares)
            errors = _errors_of(problem, sums).ravel()
            rounding = 2.0 * sums.charge_square**0.5 * deviation
            rounding += spread * primal if sums.stretch < np.inf else 0.0
            unsure = inner(np.abs(v) + errors, errors) + spread * (sums.dual + 0.5 * inner(v, v))
            gap = max(0.0, primal - dual) + unsure
        return Evaluation(
            primal=primal,
            gap=gap if np.isfinite(gap) else float("inf"),
            rounding=rounding,
            gap_rounding=unsure,
            dual_infeasibility=sums.infeasibility,
            decision_error=np.array([deviation]),
            kkt=sums.conditions,
            dual=0.0 if sums.stretch == np.inf else None,
        )


def joint_descent(
    problem: JointLinearProblem,
    point: JointPoint,
    tol_gap: float,
    *,
    stop: Callable[[], bool] | None = None,
    seed: int = 0,
) -> Iterator[Step]:
    """Lower the relative duality gap to `tol_gap`, from `point`; see :mod:`mercer.solvers.rows.dual_descent`.

    A step optimises the coefficients of a row exactly: they are the projection of a point onto a simplex. It costs
    `n_classes` times what a step for two classes costs.

    References
    ----------
    Crammer & Singer (2001), section 6; Keerthi, Sundararajan, Chang, Hsieh & Lin (2008), A sequential dual method for
    large scale multi-class linear SVMs.
    """
    return descend(_JointEpochs(problem, point, stop, seed), point, tol_gap, lambda: _measure(problem, point))


def _measure(problem: JointLinearProblem, point: JointPoint) -> float:
    """Recompute the weights, and return the exact relative gap."""
    point.w[:] = 0.0  # in place, because native code has a pointer to it
    for part in problem.parts():
        point.w += transposed_times(part.block.table, problem.constant, point.beta[part.block.at])
    sums = _objectives(problem, point.w, point.beta, independent=False)
    half = 0.5 * inner(point.w.ravel(), point.w.ravel())
    return relative_gap(half + sums.loss, sums.dual - half)


class _JointEpochs(Epochs):
    """Epochs over the blocks of a joint problem."""

    def __init__(
        self, problem: JointLinearProblem, point: JointPoint, stop: Callable[[], bool] | None, seed: int
    ) -> None:
        self._problem, self._point, self._stop, self._seed = problem, point, stop, seed
        self._single: JointDescent | None = None
        at_zero = 0.0
        for part in problem.parts():
            at_zero += float(part.charges.sum())
            if isinstance(problem.rows, TableRows):
                self._single = self._begin(part)
        self.unit = unit_of(at_zero)
        self.dual = self._dual()

    def run(self, target: float) -> int:
        """Make a few epochs; see :meth:`Epochs.run`."""
        done = EPOCHS
        if self._single is not None:
            done, _, self.gap, _, self.is_finished = self._single.run(EPOCHS, target, self._stop)
        else:
            self.gap = 0.0
            self._seed += 1
            for part in self._problem.parts():
                native = self._begin(part)
                self.gap += native.run(1, -1.0, self._stop)[2]
                native.run(EPOCHS - 1, 0.0, self._stop)
            self.is_finished = self.gap <= target
        self.dual = self._dual()
        return done

    def _dual(self) -> float:
        # Only the coefficient of the row's class is positive.
        return float(np.maximum(0.0, self._point.beta).sum()) - 0.5 * inner(
            self._point.w.ravel(), self._point.w.ravel()
        )

    def _begin(self, part: JointPart) -> JointDescent:
        native = JointDescent(
            native_table(part.block.table, self._problem.constant),
            codes=part.codes,
            charges=np.ascontiguousarray(part.charges),
            beta=self._point.beta[part.block.at],
            w=self._point.w,
            seed=self._seed,
        )
        refuse_overflow(native.largest_square)
        return native


def solve_joint(
    problem: JointLinearProblem,
    control: Control,
    *,
    start: WarmStart | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    after_step: Callable[[Callable[[], LinearPoint]], None] | None = None,
) -> LinearSolution:
    """Solve the joint problem of several classes, and certify the result.

    Parameters
    ----------
    problem : JointLinearProblem
    control, start, memory_limit, n_jobs, after_step
        See :func:`mercer.solvers.rows.solve`. The coefficients of all rows and classes are in memory.

    Returns
    -------
    LinearSolution
        Its `w` has shape (n_columns, n_classes) and its `beta` (n, n_classes).

    Notes
    -----
    Where descent is slow, as with columns of very different sizes or a large C, another solver goes on from its point:
    Newton's method for up to 2,000 columns, otherwise the solver of the joint kernel machine if the rows are few.

    With q columns and K classes, a Newton step costs about n q² K² / 2 + (q K)³ / 3 multiplications, and about 100
    steps are made. 400 columns in very different units and 6 classes take minutes; on scaled columns, descent ends
    after few epochs.
    """
    tol, monitor = gap_tolerance(control), gap_monitor(control)
    multiplications = newton_multiplications(problem) if problem.n_columns <= MOST_COLUMNS else 0.0
    with blas_threads(multiplications), control.interruption:
        work = _JointWork(problem, monitor, start, memory_limit, n_jobs)
        monitor.stage = work.name

        def steps() -> Iterator[Step]:
            for step in work.steps(0.9 * tol):
                if after_step is not None:
                    after_step(lambda: LinearPoint(work.point.w, work.point.beta, problem.C))
                yield step

        ended = drive(steps(), monitor)
        evidence = JointEvidence(problem, work.point.w, work.point.beta)
        evaluation = evidence.evaluate()
    run = LinearRun(work.n_iter, monitor.seconds, monitor.trace, work.name, _REASON, work.memory_bytes)
    return LinearSolution.certified(evidence, evaluation, ended, tol, run)


_REASON = (
    "The classes have one problem together: descent on the rows, in all classes of a row at once. If it is slow, "
    "another solver goes on."
)


class _JointWork:
    """Descent on the rows, then Newton's method or the solver of the joint kernel machine if descent is slow."""

    def __init__(
        self,
        problem: JointLinearProblem,
        monitor: SolverMonitor,
        start: WarmStart | None,
        memory_limit: int | None,
        n_jobs: int | None,
    ) -> None:
        self.problem, self._monitor = problem, monitor
        self._memory_limit, self._n_jobs = memory_limit, n_jobs
        self.point = JointPoint(
            np.zeros((problem.rows.n, problem.n_classes)), np.zeros((problem.n_columns, problem.n_classes))
        )
        if start is not None:
            for part in problem.parts():
                scaled = problem.C / start.C * np.asarray(start.beta[part.block.at])
                self.point.beta[part.block.at] = near(scaled, part)
                self.point.w += transposed_times(part.block.table, problem.constant, self.point.beta[part.block.at])
        self.n_iter, self.name, self._engine_bytes = 0, "joint descent on the rows", 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of the coefficients, the weights, the numbers of the rows, and the kernel engine."""
        point_bytes = self.point.beta.nbytes + self.point.w.nbytes + 8 * _ARRAYS * self.problem.rows.n
        return point_bytes + self._engine_bytes

    def steps(self, tol: float) -> Iterator[Step]:
        """Work until the exact relative gap is at most `tol`."""
        rows = self.problem.rows
        for step in joint_descent(self.problem, self.point, tol, stop=self._monitor.is_stopped):
            self.n_iter = step.n_iter
            yield step
            if not isinstance(rows, TableRows):
                continue
            if self._newton_fits and (self.point.epochs_left > _MANY_EPOCHS or self.n_iter > 2 * _MANY_EPOCHS):
                yield from self._newton(tol)
                return
            if rows.n <= MOST_ROWS and self.point.epochs_left > max(30, rows.n / 20):
                yield self._finish(tol)
                return

    @property
    def _newton_fits(self) -> bool:
        most = _MOST_BYTES if self._memory_limit is None else self._memory_limit
        return self.problem.n_columns <= min(MOST_COLUMNS, self.problem.rows.n) and newton_bytes(self.problem) <= most

    def _newton(self, tol: float) -> Iterator[Step]:
        """Go on with Newton's method."""
        solver = JointProximalPoint(self.problem, self.point, self._monitor.raise_if_stopped, self._n_jobs)
        self.name, self._engine_bytes, begun = f"{self.name}, then proximal-newton", solver.memory_bytes, self.n_iter
        for step in solver.steps(tol):
            self.n_iter = begun + step.n_iter
            yield step._replace(n_iter=self.n_iter)

    def _finish(self, tol: float) -> Step:
        problem = self.problem
        (part,) = problem.parts()
        used = np.flatnonzero(part.charges > 0.0)
        kernel: Kernel = Linear()
        if problem.constant:
            kernel = kernel + problem.constant**2
        gram = Gram(
            kernel,
            as_data(part.block.table),
            memory_limit=self._memory_limit,
            n_jobs=self._n_jobs,
            cache_policy=CachePolicy.FULL,
        )
        left = self._monitor.left()
        control = left.with_limits(replace(left.limits, tol=VIOLATION, tol_gap=tol, max_iter=-1))
        dual = joint(part.codes[used], problem.n_classes, part.charges[used])
        solution = solve(dual, gram.restrict(used), control=control, start=self.point.beta[used].ravel())
        self.point.beta[used] = solution.beta.reshape(used.size, problem.n_classes)
        self._engine_bytes = solution.peak_memory_bytes
        self.name = f"{self.name}, then {solution.solver}"
        self.point.w[:] = transposed_times(part.block.table, problem.constant, self.point.beta)
        return Step(self.n_iter, solution.proved.relative_gap, solution.proved.dual)
