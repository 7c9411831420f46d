"""Dual coordinate descent for several classes on the same sparse rows: a visit of a row makes the steps of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mercer import _core
from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.gram.rows.sweeps import native_table, row_squares, times, transposed_times
from mercer.gram.rows.table_rows import TableRows
from mercer.kernels.instruction_set import select_isa
from mercer.problems.linear import LinearProblem
from mercer.problems.losses import Hinge, SquaredHinge
from mercer.solvers.loop import Step
from mercer.solvers.rows.dual_descent import DualPoint, GapMonitor, refuse_overflow, require_descent, unit_of

MOST_CLASSES = 16  # classes of a descent: `kMostClasses` in native/rows/class_epoch.hpp
_AT_A_TIME = 4  # classes whose numbers fill a vector: the number of columns is a multiple
_ROWS = 2048  # rows between two questions whether to stop
_LINE = 64  # bytes of a cache line
_ALONE = 8  # epochs without steps between them: until then, many coefficients move to bounds


def descends_together(problems: Sequence[LinearProblem]) -> bool:
    """Whether :class:`ClassDescent` applies: sparse rows in memory, several classes, and hinge losses."""
    rows, loss = problems[0].rows, problems[0].loss
    return (
        len(problems) > 1 and rows.is_sparse and isinstance(rows, TableRows) and isinstance(loss, Hinge | SquaredHinge)
    )


class ClassDescent:
    """Epochs for several classes, each of which ends when its own exact relative gap is at most a tolerance.

    The steps of a class do not depend on the other classes: every class visits its rows in the order of the same
    permutations, and shrinks its own rows.

    Parameters
    ----------
    problems : dict of int to LinearProblem
        Up to `MOST_CLASSES` problems on the same rows, by any numbers; see :func:`descends_together`.
    points : dict of int to DualPoint
        Where the problems start, by the same numbers; changed in place. Their arrays become views until the descent of
        their problem ends.
    tol_gap : float
    stop : callable, optional
        Called about every 2 ms within an epoch. If it returns True, the epoch ends early, with valid points.

    Notes
    -----
    An epoch reads the entries of every row twice that is not shrunken in all classes. For a row of text, the steps of
    ten classes take about twice as long as that of one class. Between later epochs, each class makes the best
    combination of its changes in the last two epochs.
    """

    def __init__(
        self,
        problems: dict[int, LinearProblem],
        points: dict[int, DualPoint],
        tol_gap: float,
        *,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        first = next(iter(problems.values()))
        require_descent(first)
        (part,) = first.parts()
        self._table, self._constant, self._stop = part.block.table, first.constant, stop
        self._squares = row_squares(self._table, self._constant, 1)
        refuse_overflow(float(self._squares.max(initial=0.0)))
        self._problems, self._points, self._monitors = dict(problems), points, dict[int, GapMonitor]()
        self._at_zero = dict[int, float]()  # objectives of f = 0
        self._native = native_table(self._table, self._constant)
        self._isa, self._is_squared = select_isa(), isinstance(first.loss, SquaredHinge)
        self._random = np.random.default_rng(0)
        self._places = {k: at for at, k in enumerate(problems)}  # columns of the arrays
        n, width = first.rows.n, _width(len(problems))
        self._charges = np.zeros((n, width))  # with the signs of the targets
        self._duals = np.zeros(width)  # dual objectives
        self._beta, self._w = _aligned((n, width)), _aligned((first.n_columns, width))
        for at, (k, problem) in enumerate(problems.items()):
            (part,) = problem.parts()
            self._charges[:, at] = part.charges * part.targets
            self._beta[:, at], self._w[:, at] = points[k].beta[slice(None)], points[k].w
            zero = np.zeros(n)
            self._at_zero[k] = problem.loss.total(zero, part.targets, part.charges)
            self._duals[at] = self._dual(at, k)
            self._monitors[k] = GapMonitor(tol_gap, float(self._duals[at]), unit_of(self._at_zero[k]))
        self._used = _bits_of(self._charges != 0.0)  # bit `at` of a row: whether it counts for the class
        self._active = self._used.copy()  # the same for rows that are not shrunken
        self._n_shrunken = np.zeros(width, dtype=np.int64)
        self._up, self._down = np.full(width, np.inf), np.full(width, -np.inf)
        self._n_epochs = 0
        self._view_points()

    @property
    def numbers(self) -> list[int]:
        """The problems whose descent has not ended."""
        return list(self._places)

    def advance(self) -> dict[int, Step]:
        """Make an epoch, and end the classes whose gap is met; return the steps of all classes that took part."""
        if self._n_epochs >= _ALONE:
            self._step()
        self._n_epochs += 1
        is_whole = self._n_shrunken == 0
        measures = np.zeros((4, self._w.shape[1]))
        is_complete = self._epoch(measures)
        gaps, up, down, growth = measures
        self._duals += growth
        if not is_complete:
            return {}
        self._up, self._down = np.where(up > 0.0, up, np.inf), np.where(down < 0.0, down, -np.inf)
        steps = {}
        for k, at in self._places.items():
            monitor = self._monitors[k]
            is_met = gaps[at] <= monitor.target
            if is_met and not is_whole[at]:
                self._visit_all(at)
            step = monitor.follow(1, float(self._duals[at]), float(gaps[at]), is_finished=bool(is_met and is_whole[at]))
            self._points[k].epochs_left, self._points[k].epochs_made = monitor.epochs_left, monitor.epochs_made
            steps[k] = step
        asked = [k for k in self._places if self._monitors[k].asks()]
        exact = dict(zip(asked, self._measured(asked), strict=True)) if asked else {}
        met = [k for k, gap in exact.items() if self._monitors[k].is_met(gap)]
        self.end([k for k in self._places if k in met or self._monitors[k].is_idle])
        return steps

    def end(self, numbers: Sequence[int]) -> None:
        """End the descents of these problems: their points get arrays of their own."""
        for k in numbers:
            point = self._points[k]
            point.beta, point.w = np.array(point.beta[slice(None)]), np.array(point.w)
            bit = np.uint16(1 << self._places.pop(k))
            self._used &= ~bit
            self._active &= ~bit
        if 0 < _width(len(self._places)) < self._w.shape[1]:
            self._narrow()

    def _epoch(self, measures: FloatArray) -> bool:
        """Visit the rows that are active in a class; return whether the epoch came to its end."""
        order = self._random.permutation(self._active.size)
        order = order[self._active[order] != 0]
        for first in range(0, order.size, _ROWS):
            if self._stop is not None and self._stop():
                return False
            _core.class_epoch(
                self._isa,
                self._native,
                is_squared=self._is_squared,
                order=order[first : first + _ROWS],
                squares=self._squares,
                charges=self._charges,
                beta=self._beta,
                w=self._w,
                active=self._active,
                up=self._up,
                down=self._down,
                measures=measures,
                n_shrunken=self._n_shrunken,
            )
        return True

    def _step(self) -> None:
        """Combine the changes of the last two epochs of each class to the best step."""
        if self._n_epochs == _ALONE:
            self._beta_before, self._w_before = self._beta.copy(), self._w.copy()
            self._beta_change, self._w_change = np.zeros_like(self._beta), np.zeros_like(self._w)
            return
        growth = np.zeros(self._w.shape[1])
        _core.class_step(
            self._isa,
            self._native,
            is_squared=self._is_squared,
            charges=self._charges,
            beta=self._beta,
            w=self._w,
            beta_before=self._beta_before,
            w_before=self._w_before,
            beta_change=self._beta_change,
            w_change=self._w_change,
            moved=np.empty_like(self._w),
            growth=growth,
        )
        self._duals += growth

    def _visit_all(self, at: int) -> None:
        """Make all rows of a class active."""
        bit = np.uint16(1 << at)
        self._active |= self._used & bit
        self._n_shrunken[at] = 0
        self._up[at], self._down[at] = np.inf, -np.inf

    def _dual(self, at: int, k: int) -> float:
        """Return the dual objective."""
        charges, w = self._charges[:, at], self._w[:, at]
        dual = self._problems[k].loss.dual(self._beta[:, at], np.sign(charges), np.abs(charges))
        return dual - 0.5 * float(np.einsum("j,j->", w, w))

    def _measured(self, numbers: Sequence[int]) -> list[float]:
        """Recompute w of some classes from the dual coefficients, and return the exact relative gaps."""
        places = [self._places[k] for k in numbers]
        w = transposed_times(self._table, self._constant, self._beta[:, places], 1)
        self._w[:, places] = w
        values = times(self._table, self._constant, w, 1)
        gaps = []
        for k, at, class_w, z in zip(numbers, places, w.T, values.T, strict=True):
            charges = self._charges[:, at]
            primal = self._problems[k].loss.total(z, np.sign(charges), np.abs(charges))
            primal += 0.5 * float(np.einsum("j,j->", class_w, class_w))
            self._duals[at] = self._dual(at, k)
            gaps.append(relative_gap(primal, float(self._duals[at])))
        return gaps

    def _narrow(self) -> None:
        """Move the classes that are left to the first columns, and drop the columns behind."""
        left = list(self._places.values())
        moved = [((self._active >> at) & 1) << place for place, at in enumerate(left)]
        self._active = np.bitwise_or.reduce(moved).astype(np.uint16)
        width = _width(len(left))
        names = ["_charges", "_beta", "_w"]
        names += ["_beta_before", "_w_before", "_beta_change", "_w_change"] if self._n_epochs > _ALONE else []
        for name in names:
            array = getattr(self, name)
            compact = _aligned((array.shape[0], width))
            compact[:, : len(left)] = array[:, left]
            setattr(self, name, compact)
        for name, rest in (("_duals", 0.0), ("_n_shrunken", 0), ("_up", np.inf), ("_down", -np.inf)):
            array = getattr(self, name)
            compact = np.full(width, rest, dtype=array.dtype)
            compact[: len(left)] = array[left]
            setattr(self, name, compact)
        self._used = _bits_of(self._charges != 0.0)
        self._places = {k: place for place, k in enumerate(self._places)}
        self._view_points()

    def _view_points(self) -> None:
        for k, at in self._places.items():
            self._points[k].beta, self._points[k].w = self._beta[:, at], self._w[:, at]


def _width(n_classes: int) -> int:
    """The number of columns for these classes."""
    return -(-n_classes // _AT_A_TIME) * _AT_A_TIME


def _bits_of(flags: np.ndarray) -> np.ndarray:
    """Return a number for each row, whose bits are its flags, from the lowest."""
    places = (1 << np.arange(flags.shape[1])).astype(np.uint16)
    return np.bitwise_or.reduce(np.where(flags, places, np.uint16(0)), axis=1)


def _aligned(shape: tuple[int, int]) -> FloatArray:
    """Return an array of zeros that begins at a cache line, so that the numbers of a row are in few lines."""
    size = shape[0] * shape[1]
    memory = np.zeros(size + _LINE // 8)
    first = -memory.ctypes.data % _LINE // 8
    return memory[first : first + size].reshape(shape)
