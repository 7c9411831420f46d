"""Dual coordinate descent: the dual coefficient of one row after the other is optimised exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer._core import DualDescent
from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.gram.rows.sweeps import native_table, times, transposed_times
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from mercer.problems.problem import inner
from mercer.solvers.loop import Step

LOSSES = (Hinge, SquaredHinge, Logistic, EpsilonInsensitive, SquaredEpsilonInsensitive)
"""The losses, in the order of `LinearLoss` in native/rows/dual_descent.hpp."""

EPOCHS = 3  # epochs on a block of rows before the next block, or before the gap is compared with the last one
_SHARE = 0.8  # share of the tolerance to which the estimated gap must fall before the gap is measured exactly
_FIRST_CHECK = (
    2.5  # the gap is first measured at an estimate of so many times the tolerance: after an epoch, less is left
)
_ROUNDS = 5  # calls of `EPOCHS` epochs that tell the rate of descent
_TINY = 1e-20  # share of the objective of f = 0 with which gaps are compared at least
_STEP_SHARE = 0.25  # time of a step between two epochs, in that of an epoch over all rows
_IDLE = 300  # epochs without a fall of the gap by a tenth, after which rounding prevents progress


@dataclass(eq=False)
class DualPoint:
    """A point of the dual problem.

    Attributes
    ----------
    beta : RowNumbers
        Feasible dual coefficients, in signed coordinates.
    w : ndarray of shape (n_columns,)
        The sum of beta_i x_i.
    epochs_left : float
        Epochs that are still needed, if the gap falls at the rate of the last ones; 0 before there is a rate.
    epochs_made : float
        Epochs that were made. Both are in the time of epochs over all rows: most rows are shrunken in later ones.
    """

    beta: RowNumbers
    w: FloatArray
    epochs_left: float = 0.0
    epochs_made: float = 0.0


def require_descent(problem: LinearProblem) -> None:
    """Raise ValueError if dual coordinate descent does not apply to the problem."""
    if problem.bias is Bias.FREE:
        raise ValueError(
            "dual coordinate descent cannot keep the sum of the dual coefficients at 0, which a free bias demands. "
            "Use bias='penalised' with a larger intercept_scaling, or a solver for free biases."
        )
    if problem.l1_ratio > 0.0:
        raise ValueError("dual coordinate descent needs the l2 penalty, because w is not unique with the l1 penalty.")


def dual_point(problem: LinearProblem, start: RowNumbers | None = None, factor: float = 1.0) -> DualPoint:
    """Return the feasible point next to `factor` times the coefficients `start`, or 0 by default."""
    point = DualPoint(problem.rows.numbers(), np.zeros(problem.n_columns))
    if start is not None:
        for part in problem.row_parts():
            at = part.block.at
            point.beta[at] = problem.loss.feasible(factor * start[at], part.targets, part.charges)
        recompute(problem, point)
    return point


def dual_objective(problem: LinearProblem, point: DualPoint) -> float:
    """Return the dual objective of a point whose `w` is up to date."""
    dual = -0.5 * inner(problem.counted, np.square(point.w))
    for part in problem.row_parts():
        dual += problem.loss.dual(point.beta[part.block.at], part.targets, part.charges)
    return dual


def recompute(problem: LinearProblem, point: DualPoint) -> None:
    """Compute w from the dual coefficients, in one sweep; this removes the rounding errors of the steps."""
    point.w[:] = 0.0  # in place, because native code has a pointer to it
    for part in problem.parts():
        point.w += transposed_times(part.block.table, problem.constant, point.beta[part.block.at])


def measure(problem: LinearProblem, point: DualPoint) -> float:
    """Recompute w, and return the relative duality gap, in two sweeps. There must be no free bias."""
    recompute(problem, point)
    primal, dual = 0.5 * inner(point.w, point.w), dual_objective(problem, point)
    for part in problem.parts():
        z = times(part.block.table, problem.constant, point.w)
        primal += problem.loss.total(z, part.targets, part.charges)
    return relative_gap(primal, dual)


def unit_of(at_zero: float) -> float:
    """Return the smallest objective with which a gap is compared; > 0."""
    return max(_TINY * at_zero, float(np.finfo(np.float64).tiny))


def dual_descent(
    problem: LinearProblem,
    point: DualPoint,
    tol_gap: float,
    *,
    stop: Callable[[], bool] | None = None,
    seed: int = 0,
) -> Iterator[Step]:
    """Lower the relative duality gap to `tol_gap`, from `point`, which is changed in place.

    Parameters
    ----------
    problem : LinearProblem
        With the l2 penalty and without a free bias.
    point : DualPoint
    tol_gap : float
        The method ends when the exact relative gap is at most this, or when rounding prevents progress.
    stop : callable, optional
        Called about every 10 ms within an epoch. If it returns True, the epoch ends early, with a valid point.
    seed : int
        Seed of the random order of the rows.

    Yields
    ------
    Step
        After every few epochs: the number of epochs, the estimated relative gap, and the dual objective.

    Notes
    -----
    An epoch costs two passes over the entries of the rows that are not shrunken. The gap of a row, before its step, is
    known without further cost; their sum estimates the gap. After some epochs, the changes of the last two epochs are
    combined to the best step, except for logistic loss. Rows in several blocks are visited block after block, with a
    few epochs on each.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM;
    Yu, Huang & Lin (2011), Dual coordinate descent methods for logistic regression; Ho & Lin (2012), Large-scale linear
    support vector regression; Yu, Hsieh, Chang & Lin (2012), Large linear classification when data cannot fit in
    memory (blocks of rows).
    """
    require_descent(problem)
    epochs = _Epochs(problem, point, stop, seed)
    return descend(epochs, point, tol_gap, lambda: measure(problem, point))


def descend(epochs: Epochs, point: _Point, tol_gap: float, measured: Callable[[], float]) -> Iterator[Step]:
    """Make epochs until the exact relative gap is at most `tol_gap`; see :func:`dual_descent`.

    Parameters
    ----------
    epochs : Epochs
    point : object
        What the epochs change; its `epochs_left` and `epochs_made` are set.
    tol_gap : float
    measured : callable
        Computes the exact relative gap.
    """
    monitor = GapMonitor(tol_gap, epochs.dual, epochs.unit)
    while True:
        n_epochs = epochs.run(monitor.target)
        step = monitor.follow(n_epochs, epochs.dual, epochs.gap, is_finished=epochs.is_finished, share=epochs.share)
        point.epochs_left, point.epochs_made = monitor.epochs_left, monitor.epochs_made
        yield step
        if monitor.asks() and monitor.is_met(measured()):
            return
        if monitor.is_idle:
            return


class GapMonitor:
    """Decides from the estimated gaps of a descent when its exact gap is measured, and when it ends.

    Parameters
    ----------
    tol_gap : float
        Largest exact relative gap of the result.
    dual, unit : float
        Dual objective at the start, and the smallest objective with which a gap is compared.

    Attributes
    ----------
    n_iter : int
        Epochs so far.
    epochs_left, epochs_made : float
        See :class:`DualPoint`.
    """

    def __init__(self, tol_gap: float, dual: float, unit: float) -> None:
        self._tol, self._unit, self._dual = tol_gap, unit, dual
        self._share, self._check_at = _SHARE, _FIRST_CHECK * tol_gap
        self._gap, self._is_finished = float("inf"), False
        self._least, self._fell_at = float("inf"), 0
        self._duals = deque([dual], maxlen=_ROUNDS)
        self._noted_at = 0  # epoch of the last element of `_duals`
        self.n_iter, self.epochs_left, self.epochs_made = 0, 0.0, 0.0

    @property
    def target(self) -> float:
        """The estimated gap at which shrunken rows are visited again, and at which the epochs end."""
        return self._share * self._tol * max(self._dual, self._unit)

    def follow(self, n_epochs: int, dual: float, gap: float, *, is_finished: bool, share: float = 1.0) -> Step:
        """Learn of more epochs: the dual objective, the estimated gap, and whether that of all rows met the target.

        `share` is that of the rows that were visited.
        """
        share = min(1.0, share + _STEP_SHARE)
        self.n_iter += n_epochs
        self.epochs_made += share * n_epochs
        self._dual, self._gap, self._is_finished = dual, gap, is_finished
        objective = max(dual, self._unit)
        if self.n_iter >= self._noted_at + EPOCHS:
            self._duals.append(dual)
            self._noted_at = self.n_iter
            self.epochs_left = share * _epochs_left(self._duals, gap, self.target)
        return Step(self.n_iter, gap / (objective + gap), dual)

    def asks(self) -> bool:
        """Whether the exact gap is to be measured, because it may meet the tolerance."""
        return self._is_finished or self._gap <= self._check_at * max(self._dual, self._unit)

    def is_met(self, exact: float) -> bool:
        """Learn of the exact relative gap; return whether it meets the tolerance."""
        if exact <= self._tol:
            return True
        self._check_at = self._gap / max(self._dual, self._unit) * max(0.1, min(0.7, self._tol / exact))
        if self._is_finished:
            self._share *= max(0.1, min(0.5, self._tol / exact))
        return False

    @property
    def is_idle(self) -> bool:
        """Whether rounding prevents progress. It is asked once after :meth:`follow`."""
        if self._gap < 0.9 * self._least:
            self._least, self._fell_at = self._gap, self.n_iter
        return self.n_iter - self._fell_at >= _IDLE


def _epochs_left(duals: deque[float], gap: float, target: float) -> float:
    """Return the epochs until the gap is `target`, at the rate at which the growth of the dual objective falls.

    The estimated gaps do not tell a rate: they rise when shrunken rows are visited again.
    """
    if len(duals) < _ROUNDS or gap <= target:
        return 0.0
    first, last = duals[1] - duals[0], duals[-1] - duals[-2]
    if not 0.0 < last < first:
        return float("inf")
    return EPOCHS * (len(duals) - 2) * float(np.log(gap / target) / np.log(first / last))


class _Point(Protocol):
    epochs_left: float
    epochs_made: float


class Epochs(ABC):
    """Epochs of coordinate descent, a few in a call.

    Attributes
    ----------
    dual : float
        Dual objective.
    gap : float
        Estimated duality gap of the last epoch.
    unit : float
        Smallest objective with which a gap is compared.
    is_finished : bool
        Whether the estimated gap of all rows was at most the target of the last call.
    share : float
        Share of the rows that the last epochs visited.
    """

    dual: float
    gap: float = float("inf")
    unit: float
    is_finished: bool = False
    share: float = 1.0

    @abstractmethod
    def run(self, target: float) -> int:
        """Make a few epochs, until the estimated gap is at most `target`; return their number."""


class _Epochs(Epochs):
    """Epochs over the blocks of a problem: native code whose state is kept from call to call if there is one block."""

    def __init__(self, problem: LinearProblem, point: DualPoint, stop: Callable[[], bool] | None, seed: int) -> None:
        self._problem, self._point, self._stop, self._seed = problem, point, stop, seed
        self._single: tuple[Part, FloatArray, DualDescent] | None = None
        self.dual = -0.5 * inner(point.w, point.w)  # dual objective
        at_zero = 0.0  # objective of f = 0
        for part in problem.row_parts():
            y, charges = part.targets, part.charges
            at_zero += problem.loss.total(np.zeros(y.size), y, charges)
            self.dual += problem.loss.dual(point.beta[part.block.at], y, charges)
        if isinstance(problem.rows, TableRows):
            (only_part,) = problem.parts()
            self._single = self._begin(only_part)
        self.unit = unit_of(at_zero)

    def run(self, target: float) -> int:
        """Make a few epochs, until the estimated gap is at most `target`; return their number."""
        self.dual, self.gap, done = 0.0, 0.0, EPOCHS
        if self._single is not None:
            part, beta, native = self._single
            done, n_visits, self.gap, _, self.is_finished = native.run(EPOCHS, target, self._stop)
            self.share = n_visits / max(1, done * beta.size)
            self._store(part, beta)
        else:
            self._visit_blocks()
            self.is_finished = self.gap <= target
        self.dual -= 0.5 * inner(self._point.w, self._point.w)
        return done

    def _visit_blocks(self) -> None:
        self._seed += 1
        for part in self._problem.parts():
            part, beta, native = self._begin(part)
            # The first epoch visits all rows of the block: its estimate has the effects of the other blocks.
            self.gap += native.run(1, -1.0, self._stop)[2]
            native.run(EPOCHS - 1, 0.0, self._stop)
            self._store(part, beta)

    def _begin(self, part: Part) -> tuple[Part, FloatArray, DualDescent]:
        beta = np.array(self._point.beta[part.block.at])
        native = DualDescent(
            native_table(part.block.table, self._problem.constant),
            loss=LOSSES.index(type(self._problem.loss)),
            epsilon=getattr(self._problem.loss, "epsilon", 0.0),
            targets=np.ascontiguousarray(part.targets),
            charges=np.ascontiguousarray(part.charges),
            beta=beta,
            w=self._point.w,
            seed=self._seed,
        )
        refuse_overflow(native.largest_square)
        return part, beta, native

    def _store(self, part: Part, beta: FloatArray) -> None:
        self._point.beta[part.block.at] = beta
        self.dual += self._problem.loss.dual(beta, part.targets, part.charges)


def refuse_overflow(largest_square: float) -> None:
    """Raise ValueError if the largest squared length of a row is not finite."""
    if not np.isfinite(largest_square):
        raise ValueError(
            "the squared length of a row overflows float64: divide columns with values above 1e150 by their size."
        )
