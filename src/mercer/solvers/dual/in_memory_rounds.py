"""The solver for a Gram matrix in memory, which many machines on the same rows share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np

from mercer._core import BLOCK_LIMIT, MANY_FREE, InMemoryStates, ProblemArrays, combine_rows, solve_in_memory
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.solution import Product
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels.instruction_set import select_isa
from mercer.problems import Problem, Problems, inner
from mercer.solvers.dual.single_precision import which_single_precision_helps
from mercer.solvers.solver import Solver, State

_LEAST_ROOM = 1 << 21  # float64 numbers; smallest workspace, enough for a working set of 2,048 variables
_WORK = 5e7  # kernel values read in one native call, so that Ctrl-C takes effect soon
_ENOUGH = 0.9  # share of the tolerance at which rounds end; gradients are exact up to the rounding of sums

SAME = 1e-14
"""Relative difference of coefficients that counts as the rounding error of a common factor."""


class Progression:
    """Work in progress on several problems on a Gram matrix in memory, which are solved one after the other.

    Parameters
    ----------
    problems : Problems
    gram : Gram
    rows : ndarray of int64
        Row of the matrix that each variable belongs to.
    tol : float
        Largest KKT violation.

    Attributes
    ----------
    n_done : int
        Number of problems that are solved or have made `max_iter` steps.
    n_iter, violations, seconds : ndarray of shape (n_problems,)
        Steps, KKT violation and time of each problem. Violations use the gradients that follow from `values`.
    room_bytes : int
        Peak size of the workspace, in bytes.
    """

    def __init__(self, problems: Problems, gram: Gram, rows: IndexArray, tol: float) -> None:
        n = len(problems)
        # No reference to the Gram matrix is kept: its memory stays free for other fits.
        self.tol, self._stacked, self._rows = tol, problems.stacked, rows
        self._edges = np.array(problems.edges)
        self._seen = np.zeros(problems.stacked.n, dtype=np.int8)
        helped = which_single_precision_helps(problems, gram)
        self._precise = np.array([not helps for helps in helped], dtype=np.int8)
        self._smo_slow, self._ends = np.zeros(n, dtype=np.int8), np.full(n, BLOCK_LIMIT, dtype=np.int8)
        self.n_iter, self.violations, self.seconds = np.zeros(n, dtype=np.int64), np.full(n, np.inf), np.zeros(n)
        self.n_done, self._wanted, self.room_bytes = 0, 0, 0

    @property
    def finished(self) -> bool:
        """Whether the solver has ended on all problems."""
        return BLOCK_LIMIT not in self._ends

    def work(
        self, gram: Gram, beta: FloatArray, values: FloatArray, max_iter: int, stop: Callable[[], bool] | None
    ) -> None:
        """Continue for one native call, in place."""
        p = self._stacked
        room = gram.arena.array(max(_LEAST_ROOM, self._wanted // 8), np.float64)
        self.room_bytes = max(self.room_bytes, room.nbytes)
        problems = ProblemArrays(
            edges=self._edges,
            rows=self._rows,
            linear=p.linear,
            lower=p.lower,
            upper=p.upper,
            ridge=p.ridge,
            groups=p.groups,
            n_groups=p.n_groups,
            beta=beta,
            values=values,
            seen=self._seen,
        )
        states = InMemoryStates(
            ends=self._ends,
            precise=self._precise,
            smo_slow=self._smo_slow,
            n_iter=self.n_iter,
            violations=self.violations,
            seconds=self.seconds,
        )
        self.n_done, self._wanted = solve_in_memory(
            select_isa(),
            gram.data.whole,  # type: ignore[attr-defined]
            problems,
            states,
            first=self.n_done,
            tol=_ENOUGH * self.tol,
            max_iter=max_iter,
            max_work=_WORK,
            max_block=MANY_FREE,
            workspace=room.astype(np.float64, copy=False),
            stop=stop,
        )

    def go_on(self, tol: float) -> None:
        """Continue on all problems from the points reached, to the tolerance `tol`."""
        self.tol, self.n_done = tol, 0
        self._seen[:], self._ends[:] = 0, BLOCK_LIMIT


@dataclass
class InMemoryState(State):
    """State of :class:`InMemorySolver`."""

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    rows: IndexArray = field(kw_only=True)
    values: FloatArray = field(kw_only=True)
    rounds: Progression = field(kw_only=True)


@final
class InMemorySolver(Solver[InMemoryState]):
    """Solver with working sets of violators, like `WorkingSetSolver`, for kernel values that are all in memory.

    **Solves** any :class:`mercer.problems.Problem` of one output on a positive semidefinite matrix of `InMemoryRows`.

    One round runs in native code. It chooses a working set: the free variables of the last one, violators that were in
    no working set yet, and the worst violators. It makes SMO and Newton steps on their matrix in single precision. It
    then adds the rows of K of the variables that moved, in double precision, at *every* row of the matrix. After each
    round the gradient is therefore as exact as the values in memory, and rows outside the problem have their decision
    values. If single precision makes no more progress on a working set, the set is solved in double precision.

    Parameters
    ----------
    before : Product, optional
        An earlier point on the same matrix. A start that is a multiple of it needs no product with K; any other start
        needs the rows of K where it differs.

    Notes
    -----
    A round reads n values for each variable that moves, and the square of the working set. It evaluates no kernel
    value.
    """

    name = "working sets on a stored kernel matrix"
    reason = "all kernel values are in memory, and so are the decision values of all rows"

    def __init__(self, before: Product | None = None) -> None:
        self._before = before

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> InMemoryState:
        """Return the state at `start`; see :class:`Solver`."""
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        rows = gram.in_memory_rows
        values = _product(gram, rows, beta, self._before)
        return InMemoryState(
            beta=beta,
            gradient=_gradient(problem, beta, values[rows]),
            problem=problem,
            gram=gram,
            rows=rows,
            values=values,
            product=values,
            rounds=Progression(Problems(problem, [problem.n]), gram, rows, tol),
        )

    def steps(self, state: InMemoryState) -> Iterator[None]:
        """Work until the tolerance is met; see :class:`Solver`."""
        p, rounds = state.problem, state.rounds
        while not rounds.finished:
            rounds.work(state.gram, state.beta, state.values[None], state.max_iter, state.stop)
            state.n_iter, state.violation = int(rounds.n_iter[0]), float(rounds.violations[0])
            state.peak_bytes = max(state.peak_bytes, rounds.room_bytes)
            state.gradient = _gradient(p, state.beta, state.values[state.rows])
            state.dual = -0.5 * inner(state.beta, state.gradient + p.linear)
            yield

    def refresh(self, state: InMemoryState, gradient: FloatArray, tol: float) -> None:
        """Continue from the exact gradient; see :class:`Solver`."""
        if not np.array_equal(gradient, state.gradient):  # the check has refuted the tracked values
            state.values[:] = _product(state.gram, state.rows, state.beta, None)
        state.rounds.go_on(tol)


def _gradient(problem: Problem, beta: FloatArray, values: FloatArray) -> FloatArray:
    gradient = values + problem.linear
    if problem.ridge is not None:
        gradient += problem.ridge * beta
    return gradient


def _product(gram: Gram, rows: IndexArray, beta: FloatArray, before: Product | None) -> FloatArray:
    """Return K beta at every row of the matrix."""
    data = gram.data
    assert isinstance(data, InMemoryRows)
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
    combine_rows(select_isa(), data.whole, used, None, rest[used], values, 1)
    return values


def _at_rows(rows: IndexArray, beta: FloatArray, n: int) -> FloatArray:
    """Return the coefficient of each row of the matrix."""
    return np.bincount(rows, beta, n).astype(np.float64, copy=False)
