"""Problems on a matrix of kernel values that is all in memory: what many machines on the same rows share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np

from mercer._core import combine_rows, solve_held
from mercer.backends import HeldRows
from mercer.gram import Gram
from mercer.isa import select_isa
from mercer.problems import Problem, inner
from mercer.solution import Product
from mercer.solvers.base import FloatArray, IndexArray, Solver, State
from mercer.solvers.single_precision import single_precision_helps
from mercer.solvers.sizes import reach

_LEAST_ROOM = 1 << 21  # numbers to work in, as many as stay with the process: a working set of 2,048
_WORK = 5e7  # kernel values looked at in one native call: some 30 ms
_LARGEST_SET = 6144  # variables: beyond, Newton steps would take too long all the same
_LIMIT = 1  # mercer::BlockEnd

SAME = 1e-14
"""Of a coefficient: rounding of a factor that all of them have."""


class Progression:
    """How far rounds have come with a problem on a matrix that is held.

    Attributes
    ----------
    finished : bool
    n_iter : int
    violation : float
        As the gradient has it that comes from the values.
    room_bytes : int
        Most memory to work in.
    """

    def __init__(self, problem: Problem, gram: Gram, rows: IndexArray, tol: float) -> None:
        self.tol, self._problem, self._gram, self._rows = tol, problem, gram, rows
        self._seen = np.zeros(problem.n, dtype=np.int8)
        self._precise, self._drags, self._wanted = not single_precision_helps(problem.n, reach(problem, gram)), False, 0
        self.finished, self.n_iter, self.violation, self.room_bytes = False, 0, float("inf"), 0

    def work(self, beta: FloatArray, values: FloatArray, max_iter: int, stop: Callable[[], bool] | None) -> None:
        """Go on, in place, for some tens of milliseconds at most."""
        p, gram = self._problem, self._gram
        room = gram.arena.array(max(_LEAST_ROOM, _power_of_two(self._wanted // 8)), np.float64)
        self.room_bytes = max(self.room_bytes, room.nbytes)
        end, n_iter, self.violation, self._precise, self._drags, self._wanted = solve_held(
            select_isa(),
            gram.data.whole,  # type: ignore[attr-defined]
            self._rows,
            p.linear,
            p.lower,
            p.upper,
            p.ridge,
            p.groups,
            p.n_groups,
            beta,
            values,
            self._seen,
            0.5 * self.tol,
            -1 if max_iter < 0 else max_iter - self.n_iter,
            _WORK,
            _LARGEST_SET,
            self._precise,
            self._drags,
            room.astype(np.float64, copy=False),
            stop,
        )
        self.n_iter += n_iter
        self.finished = end != _LIMIT

    def go_on(self, tol: float) -> None:
        """Begin anew from the point reached."""
        self.tol, self.finished = tol, False
        self._seen[:] = 0


@dataclass
class HeldState(State):
    """State of :class:`HeldRounds`."""

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    rows: IndexArray = field(kw_only=True)
    values: FloatArray = field(kw_only=True)
    rounds: Progression = field(kw_only=True)


@final
class HeldRounds(Solver[HeldState]):
    """Working sets of violators, as :class:`mercer.solvers.batch_smo.BatchSMO`, where all kernel values are in memory.

    **Solves** any :class:`mercer.problems.Problem` of one output on a positive semidefinite matrix of `HeldRows`.

    One round, all of it native: a working set (the free variables of the last one, violators that have been in none,
    the worst violators), its matrix in single precision, pair steps and Newton steps on it, and the rows of the
    variables that moved, added up in double precision at *every* row of the matrix. So the gradient is true after each
    round, as far as the values in memory are, and at rows that are no part of the problem stand their decision values.
    Where single precision brings a working set no further, it is solved in double.

    Parameters
    ----------
    before : Product, optional
        A point of the same rows, on the same matrix. A start that is a multiple of it costs no pass over the matrix;
        any other costs its rows where it differs.

    Notes
    -----
    Costs n values for each variable that moves in a round, and the squares of working sets; no kernel value.
    """

    name = "rounds on a held matrix"
    reason = "all kernel values are in memory, and so are the decision values of all rows"

    def __init__(self, before: Product | None = None) -> None:
        self._before = before

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> HeldState:
        """Return the state at `start`; see :class:`Solver`."""
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        rows = gram.held_rows
        values = _product(gram, rows, beta, self._before)
        return HeldState(
            beta=beta,
            gradient=_gradient(problem, beta, values[rows]),
            problem=problem,
            gram=gram,
            rows=rows,
            values=values,
            claim=values,
            rounds=Progression(problem, gram, rows, tol),
        )

    def advance(self, state: HeldState, seconds: float, max_iter: int) -> None:
        """Work for about `seconds`; see :class:`Solver`."""
        until = time.perf_counter() + seconds
        p, rounds = state.problem, state.rounds
        while True:
            rounds.work(state.beta, state.values, max_iter, state.stop)
            if rounds.finished:
                break
            if time.perf_counter() >= until or 0 <= max_iter <= rounds.n_iter or (state.stop and state.stop()):
                break
        state.n_iter, state.violation, state.finished = rounds.n_iter, rounds.violation, rounds.finished
        state.peak_bytes = max(state.peak_bytes, rounds.room_bytes)
        state.gradient = _gradient(p, state.beta, state.values[state.rows])
        state.dual = -0.5 * inner(state.beta, state.gradient + p.linear)

    def refresh(self, state: HeldState, gradient: FloatArray, tol: float) -> None:
        """Go on from the true gradient; see :class:`Solver`."""
        if not np.array_equal(gradient, state.gradient):  # the claim has not been confirmed
            state.values[:] = _product(state.gram, state.rows, state.beta, None)
        state.finished = False
        state.rounds.go_on(tol)


def _gradient(problem: Problem, beta: FloatArray, values: FloatArray) -> FloatArray:
    gradient = values + problem.linear
    if problem.ridge is not None:
        gradient += problem.ridge * beta
    return gradient


def _product(gram: Gram, rows: IndexArray, beta: FloatArray, before: Product | None) -> FloatArray:
    """K beta at every row of the matrix."""
    data = gram.data
    assert isinstance(data, HeldRows)
    n = data.whole.shape[0]
    wanted = _at_rows(rows, beta, n)
    values, rest = np.zeros(n), wanted
    if before is not None and before.matrix is data.whole and before.beta.size == beta.size:
        last = _at_rows(rows, before.beta, n)
        largest = int(np.argmax(np.abs(last)))
        for factor in (1.0, wanted[largest] / last[largest] if last[largest] else 1.0):
            apart = wanted - factor * last
            apart[np.abs(apart) <= SAME * np.abs(wanted)] = 0.0
            if np.count_nonzero(apart) < np.count_nonzero(rest):
                values, rest = factor * before.values, apart
    used = np.flatnonzero(rest)
    combine_rows(data.whole, used, None, rest[used], values, 1)
    return values


def _at_rows(rows: IndexArray, beta: FloatArray, n: int) -> FloatArray:
    """The coefficient of each row of the matrix."""
    return np.bincount(rows, beta, n).astype(np.float64, copy=False)


def _power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
