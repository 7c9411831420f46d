"""The problem restricted to a working set: pair steps, and Newton steps where these drag on."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from copy import copy
from typing import final

import numpy as np
import numpy.typing as npt

from mercer._core import solve_block, take_each
from mercer.problems import inner
from mercer.solvers.base import FloatArray
from mercer.solvers.batch_state import BatchState
from mercer.solvers.single_precision import noise
from mercer.solvers.sizes import EXACT_FREE, ends_exactly, least_set, reach

Array = npt.NDArray[np.floating]
IndexArray = npt.NDArray[np.int64]

_FEW_FREE = 2048  # free variables that Newton steps are always tried with
_MAX_FREE = 6144  # and where nobody else violates, and pair steps have not led astray
_MAX_FREE_DOUBLE = 1500  # a change of side costs free^2 there
_INVERSE = 16.0  # pair steps may cost what an inverse does: free^3 / 16 steps times variables, as measured
_CHANGES = 16.0  # or a factor in single precision, and those who change sides: 16 free^2
_FACTOR = 256.0  # or, beyond _FEW_FREE, a factor: free^3 / 256
_KNOWN_TO_DRAG = 4.0  # and this much less, once they have cost that much in vain
_PATIENT_STEPS, _STEPS = 100, 2  # for each variable, before Newton steps in double precision, in single
_ASTRAY = 3.0  # times the violation at 0: once pair steps have made more of it, few variables are near their bounds
_SMALLER = 64.0  # are the boxes that are solved first then; a power of 2 keeps who is at a bound there to the last bit
_PART_WAY = 0.5  # of the violation at 0: in smaller boxes no less is asked for
_BRIEF = 10  # where Newton steps come anyway: one pair step for so many variables
INNER_SHARE = 0.1  # of the violation that a working set came with: what it is solved to
_PAIR_WORK = 20_000_000  # steps times variables in one native call: some 10 ms
_NEWTON_WORK = 1e8  # multiplications in one native call of Newton steps in double precision
_NEWTON_CALLS = 40  # on one working set, all rounds together
_ROUNDS, _BLOCK_ROUNDS = 40, 10  # of pair steps and Newton steps on a working set: a small one, a large one
_SMALL_BLOCK = 500
_SOLVED, _LIMIT, _STALLED = 0, 1, 2  # mercer::BlockEnd
_WENT_ASTRAY = 3


def newton_bytes(n_free: int, size: int, *, single: bool) -> int:
    """Return what a native call of Newton steps takes, to a few per cent (native/include/mercer/newton_steps.hpp)."""
    capacity = min(size, n_free + n_free // 4 + 64) + 96  # with padding for any instruction set
    if single and n_free > _FEW_FREE:  # up to here an inverse, where a factor has not led to the end
        return 2 * capacity * capacity + 3100 * capacity
    return 8 * capacity * (capacity + 257)


@final
class Block:
    """The problem restricted to a working set; writes back to the state after every native call.

    In smaller boxes it does not, and what has been found there does once its dual objective is the higher one.

    Parameters
    ----------
    state : BatchState
    chosen : ndarray of int64, (m,)
        The working set, by group.
    matrix : ndarray of shape (m, m padded), float32 or float64
        Its kernel values; see :func:`mercer.gram.padded_block`.

    Attributes
    ----------
    gradient : ndarray of shape (m,)
    violation : float
    """

    def __init__(self, state: BatchState, chosen: IndexArray, matrix: Array) -> None:
        problem = state.problem
        self._state, self._chosen, self._matrix = state, chosen, matrix
        self._beta, self.gradient, self._lower, self._upper, self._linear = take_each(
            [state.beta, state.gradient, problem.lower, problem.upper, problem.linear], chosen
        )
        if state.groups is None:
            self._starts = np.zeros(1, dtype=np.int64)
        elif problem.n_groups == 1:
            self._starts = np.array([0, chosen.size])
        else:
            self._starts = np.searchsorted(state.groups[chosen], np.arange(problem.n_groups + 1))
        self._is_everything = state.takes_everything
        self._before = self._beta.copy()
        self._n_free = self._count_free()
        self._newton_calls = 0
        self.violation = state.violation
        self._is_hidden, self._is_small = False, False

    @property
    def _size(self) -> int:
        """Number of variables."""
        return self._chosen.size

    @property
    def _can_grow(self) -> bool:
        """Whether all variables are 0, so that the solution in smaller boxes is a start in these."""
        state = self._state
        grows = self._is_everything and self._is_single and state.n_refreshes == 0 and not self._beta.any()
        return grows and math.isfinite(reach(state.problem, state.gram))

    def _in_smaller_boxes(self, violation: float) -> Block:
        """Return the problem in smaller boxes, all variables at 0, and the violation that these have there."""
        smaller = copy(self)
        smaller._beta, smaller.gradient = np.zeros(self._size), self._linear.copy()
        smaller._lower, smaller._upper = self._lower / _SMALLER, self._upper / _SMALLER
        smaller.violation, smaller._is_small, smaller._n_free = violation, True, smaller._count_free()
        return smaller

    def _begin_at(self, smaller: Block) -> None:
        """Go to the point that has been found in smaller boxes, in proportion."""
        self._beta = _SMALLER * smaller._beta
        self.gradient = self._linear + _SMALLER * (smaller.gradient - self._linear)
        self._is_hidden, self._n_free = True, self._count_free()

    @property
    def change(self) -> FloatArray:
        """By how much each variable has moved."""
        return self._beta - self._before

    def _count_free(self) -> int:
        return int(np.count_nonzero((self._beta > self._lower) & (self._beta < self._upper)))

    @property
    def _is_single(self) -> bool:
        return self._matrix.dtype == np.float32

    @property
    def _max_free(self) -> int:
        size, single, room = self._size, self._is_single, self._state.gram.room
        # Beyond the violation of 0, many are free only on their way: factors of as many lead nowhere, slowly.
        many = self._state.holds_all and self.violation <= self._state.at_zero
        most = (_MAX_FREE if many else _FEW_FREE) if single else _MAX_FREE_DOUBLE
        while most > least_set() and newton_bytes(most, size, single=single) > room // (4 if single else 2):
            most = max(least_set(), most // 2)
        return most

    @property
    def _rounding(self) -> float:
        """About the smallest violation that float64 can tell from 0 here."""
        lengths = np.sqrt(np.abs(self._matrix.diagonal()))
        return 16 * float(np.finfo(float).eps) * (1.0 + float(lengths.max()) * inner(np.abs(self._beta), lengths))

    def solve(self) -> Iterator[None]:
        """Solve it; when everything is in it, the state's gradient is updated as well."""
        state = self._state
        end_tol = 0.5 * state.tol
        tol = max(end_tol, 0.0 if self._is_everything else INNER_SHARE * state.violation)
        # Where nobody else violates, Newton steps go on to the end: the last ones cost least.
        yield from self._settle(tol, end_tol if state.holds_all else tol)

    def _settle(self, tol: float, newton_tol: float) -> Iterator[None]:
        """Come to the tolerance; where pair steps from 0 go astray, begin with smaller boxes, all in proportion."""
        state = self._state
        convex = state.gram.is_convex
        small = self._is_everything and self._size <= _SMALL_BLOCK
        at_zero = self.violation if convex and self._can_grow else math.inf
        astray = _ASTRAY * at_zero
        for _ in range(_ROUNDS if small else _BLOCK_ROUNDS):
            end = yield from self._pair_steps(tol, astray)
            astray = math.inf
            if end is None:
                return
            if end == _WENT_ASTRAY:
                smaller, rough = self._in_smaller_boxes(at_zero), max(tol, _PART_WAY * at_zero)
                yield from smaller._settle(rough, rough)
                self._begin_at(smaller)
                continue
            exact = self._is_everything and not state.single and ends_exactly(state.problem.n, self._n_free)
            if convex and (exact or end == _LIMIT) and self._n_free <= self._max_free:
                end = yield from self._newton_steps(self._rounding if exact else newton_tol)
            if end == _SOLVED or (end == _STALLED and (exact or not self._is_single)):
                return

    def _pair_steps(self, tol: float, astray: float) -> Generator[None, None, int | None]:
        """Go on until Newton steps would cost less; return how they ended, None at max_iter.

        They have gone astray where the first of them leave a violation of more than `astray`.
        """
        size, done = max(1, self._size), 0
        while True:
            left = self._left(min(_PAIR_WORK // size, self._patience() - done))
            if left == 0:
                return None
            end = self._run(newton=False, tol=max(tol, self._noise()), max_iter=left)
            yield
            done += left
            if end == _LIMIT and done == left and self.violation > astray:
                return _WENT_ASTRAY
            if end != _LIMIT or done >= self._patience():
                return end

    def _patience(self) -> int:
        """How many pair steps to make before Newton steps."""
        size, n_free, state = max(1, self._size), self._n_free, self._state
        ends = self._is_everything and state.n_refreshes > 0  # single precision has left few changes to make
        if n_free > self._max_free or not (self._is_single or state.drags or ends):
            return _PATIENT_STEPS * size + 2000
        cost = n_free**3 / (_INVERSE if n_free <= _FEW_FREE else _FACTOR)
        if self._is_single and n_free <= _FEW_FREE:
            cost = min(cost, _CHANGES * n_free**2)
        if ends and state.drags and (self._is_single or n_free <= EXACT_FREE):
            return 1 + size // _BRIEF
        return _STEPS * size + int(cost / ((_KNOWN_TO_DRAG if state.drags else 1.0) * size))

    def _noise(self) -> float:
        """About the violation below which single precision cannot bring the block."""
        if not self._is_single:
            return 0.0
        change = self.change
        return noise(self._state.largest_diagonal, inner(change, change))

    def _newton_steps(self, tol: float) -> Generator[None, None, int]:
        """Return how they ended."""
        while self._newton_calls < _NEWTON_CALLS:
            self._newton_calls += 1
            n_free = self._n_free
            if n_free > self._max_free:
                return _LIMIT
            per_step = 4.0 * n_free * n_free + n_free * self._size + 1.0
            left = self._left(n_free + 64 if self._is_single else int(min(2000, max(8, _NEWTON_WORK / per_step))))
            if left == 0:
                return _LIMIT
            self._state.drags = self._state.drags or self._is_single
            self._state.count_memory(newton_bytes(n_free, self._size, single=self._is_single))
            end = self._run(newton=True, tol=max(tol, self._noise()), max_iter=left)
            yield
            if end != _LIMIT:
                return end
        return _LIMIT

    def _left(self, steps: int) -> int:
        allowed = self._state.max_iter
        return steps if allowed < 0 else max(0, min(steps, allowed - self._state.n_iter))

    def _run(self, *, newton: bool, tol: float, max_iter: int) -> int:
        end, n_iter, self.violation, self._n_free = solve_block(
            self._state.isa,
            newton,
            self._matrix,
            self._beta,
            self.gradient,
            self._lower,
            self._upper,
            self._starts,
            tol,
            max_iter,
            self._state.gram.n_threads,
            self._state.stop,
        )
        state = self._state
        state.n_iter += n_iter
        if self._is_small:
            return end
        if self._is_everything:
            dual = -0.5 * inner(self._beta, self.gradient + self._linear)
            if self._is_hidden and dual <= state.dual:
                return end
            self._is_hidden = False
            state.gradient[self._chosen] = self.gradient
            state.violation, state.dual = self.violation, dual
        state.beta[self._chosen] = self._beta
        return end
