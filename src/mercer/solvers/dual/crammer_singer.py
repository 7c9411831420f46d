"""The solver of the joint multi-class machine: working sets of rows, with an exact step for each row."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np

from mercer._core import BLOCK_LIMIT, INNER_SHARE, solve_joint_block
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.gram import Gram, clear_padding, padded_square
from mercer.kernels.instruction_set import select_isa
from mercer.problems import JointHinge, Problem, inner
from mercer.solvers.dual import crammer_singer_newton
from mercer.solvers.dual.row_cache import RowCache
from mercer.solvers.dual.single_precision import REFRESHES, noise, single_precision_helps
from mercer.solvers.dual.working_set_sizes import is_exact, uses_whole_matrix, working_sets
from mercer.solvers.solver import Solver, State

_BLOCK_WORK = 2e7  # multiplications in one native call, so that Ctrl-C takes effect soon
_BLOCK_CALLS = 40  # native calls on one working set
_WHOLE_CALLS = 400  # native calls on a working set of all rows, before the driver checks the progress
_PATIENT_STEPS = 50  # steps per row of a working set, before Newton steps and conjugate gradients
_SMALL_BLOCK = 500  # rows; a smaller working set uses an eighth of _PATIENT_STEPS
_MOVED = 3.0  # classes; typical number that one step on a row changes
_LITTLE = 1e-6  # share of the total gain of Newton steps; a smaller gain ends them, since row steps are then faster
_NEWTON, _STEPS = 100, 10  # Newton steps in a sequence: largest number, and typical number
_CONJUGATE = 100  # conjugate-gradient steps in one native call; each costs about as much as one step on every row
_SHARE, _ENOUGH = 15, 2048  # a working set has at least n / _SHARE rows, or _ENOUGH rows if that is less

_EXACT_CALLS = 40  # native calls on a small problem after it meets the tolerance, to reach the rounding error
_ROUNDED = 64.0 * float(np.finfo(np.float64).eps)  # rounding error of a gradient, as a share of the largest one


@dataclass
class JointState(State):
    """State of :class:`JointRows`: the problem and the work in progress."""

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    tol: float = field(kw_only=True)
    codes: IndexArray = field(kw_only=True)
    penalties: FloatArray = field(kw_only=True)
    single: bool = False  # whether kernel values are evaluated in single precision
    largest_diagonal: float = 0.0  # max |k(x, x)|
    moved: float = 0.0  # sum of squared changes of beta since the gradient was last computed exactly
    n_refreshes: int = 0
    matrix: RealArray | None = None  # K, if the working set has all rows
    cache: RowCache | None = None
    previous: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # last working set

    @property
    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Point and gradient with one line for each row, as views."""
        return self.problem.by_output(self.beta), self.problem.by_output(self.gradient)

    def count_memory(self, more: int = 0) -> None:
        """Add `more` bytes to the memory of the kernel values held now, and update the peak."""
        total = self.gram.arena.nbytes + (0 if self.cache is None else self.cache.nbytes) + more
        self.peak_bytes = max(self.peak_bytes, total)


@final
class JointRows(Solver[JointState]):
    """Solver with working sets of rows; within a working set, it optimises all classes of one row exactly at a time.

    **Solves** :func:`mercer.problems.joint`.

    The variables of row i are the shares t_ik of C_i that its classes have; beta of its own class is C_i minus its
    share. With all other rows fixed, the optimal shares are the projection of t_i + g_i / k(x_i, x_i) onto nonnegative
    vectors with sum C_i. For large C such steps converge slowly. Newton's method then finds the minimiser of the
    current face (:mod:`mercer.solvers.dual.crammer_singer_newton`); with too many free shares, conjugate gradients do.
    The violation of a row is its largest gradient minus the smallest gradient of a class with a positive share.

    One round chooses the working set W: the free rows of the last one and the worst violators. It evaluates K[W, W],
    solves the problem restricted to W, and updates the gradients of all classes with the columns of the rows that
    moved. Each kernel value is thus evaluated once for all classes. Rows of K that were used are cached in single
    precision within `memory_limit`. Kernel values in single precision only steer the solver, as in
    :class:`mercer.solvers.dual.working_set.WorkingSetSolver`. Problems of up to 300 rows are solved to the rounding
    error, for any tolerance.

    References
    ----------
    Crammer & Singer (2001), sections 4-6; Keerthi, Sundararajan, Chang, Hsieh & Lin (2008), section 4.
    """

    name = "working sets of rows"

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> JointState:
        """Return the state at `start`; see :class:`Solver`."""
        loss = problem.loss
        assert isinstance(loss, JointHinge)
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        state = JointState(
            beta=beta,
            gradient=problem.linear.copy(),
            problem=problem,
            gram=gram,
            tol=tol,
            codes=loss.codes,
            penalties=loss.C,
        )
        state.largest_diagonal = gram.largest_diagonal
        move = state.largest_diagonal * float(loss.C.max())
        state.single = not is_exact(gram.n) and single_precision_helps(move)
        if state.single and not uses_whole_matrix(gram) and not gram.keeps_all and gram.room // 2 >= 4 * gram.n:
            state.cache = RowCache(gram)
        return state

    def steps(self, state: JointState) -> Iterator[None]:
        """Work until the tolerance is met; see :class:`Solver`."""
        beta, gradient = state.rows
        used = np.flatnonzero(beta.any(axis=1))
        if used.size and not state.n_refreshes:
            yield from state.gram.accumulate(gradient, used, beta[used])
        yield from self._rounds(state)

    def refresh(self, state: JointState, gradient: FloatArray, tol: float) -> None:
        """Continue from the exact gradient; see :class:`Solver`."""
        state.gradient[:] = gradient
        state.tol = tol
        state.moved = 0.0
        state.n_refreshes += 1
        state.single = state.single and state.n_refreshes < REFRESHES

    def _rounds(self, state: JointState) -> Iterator[None]:
        everything, stuck = uses_whole_matrix(state.gram), False
        state.dual = -0.5 * inner(state.beta, state.gradient + state.problem.linear)
        beta, gradient = state.rows
        while True:
            violations = self._violations(state)
            state.violation = float(violations.max(initial=0.0))
            if stuck or state.violation <= max(0.5 * state.tol, self._noise(state)):
                return
            chosen = np.arange(state.gram.n) if everything else self._select(state, violations)
            matrix = yield from self._matrix(state, chosen)
            before, gradient_before = beta[chosen], gradient[chosen]
            share = 0.0 if everything else INNER_SHARE
            yield from self._solve_block(state, chosen, matrix, max(0.5 * state.tol, share * state.violation))
            if everything and is_exact(state.gram.n) and state.gram.is_convex:
                yield from self._solve_block(state, chosen, matrix, self._rounding(state), calls_left=_EXACT_CALLS)
            del matrix  # its memory is free for the next matrix
            change = beta[chosen] - before
            moved = np.flatnonzero(change.any(axis=1))
            stuck = moved.size == 0 or everything
            if not everything:
                yield from self._follow(state, chosen[moved], change[moved])
                rise = -0.5 * inner(change.ravel(), (gradient_before + gradient[chosen]).ravel())
                state.dual += rise
                if state.single and (stuck or rise <= 0.0):  # rounding errors dominate the step
                    state.single, stuck = False, True
            state.previous = chosen

    def _violations(self, state: JointState) -> FloatArray:
        """Return each row's largest gradient minus its smallest gradient of a class with a positive share, (n,)."""
        beta, gradient = state.rows
        has_share = beta < state.problem.by_output(state.problem.upper)
        return gradient.max(axis=1) - np.where(has_share, gradient, np.inf).min(axis=1)

    def _select(self, state: JointState, violations: FloatArray) -> IndexArray:
        """Return the working set: the free rows of the last one, then the worst violators."""
        beta, _ = state.rows
        free = np.count_nonzero(beta < state.problem.by_output(state.problem.upper), axis=1) > 1
        wanted = max(1.25 * np.count_nonzero(free) + 256, min(state.gram.n / _SHARE, _ENOUGH))
        sizes = working_sets(state.gram)
        size = min(state.gram.n, next((s for s in sizes if s >= wanted), sizes[-1]))
        urgency = violations.copy()
        still_free = state.previous[free[state.previous]]
        urgency[still_free] += state.violation if still_free.size <= 0.75 * size else 0.0
        chosen = np.argsort(-urgency, kind="stable")[:size]
        return np.sort(chosen[(urgency[chosen] > 0.0) | free[chosen]])

    def _matrix(self, state: JointState, chosen: IndexArray) -> Generator[None, None, RealArray]:
        """Return K[chosen, chosen] with padded rows."""
        dtype = np.float32 if state.single else np.float64
        if state.matrix is not None and state.matrix.dtype == dtype:
            return state.matrix
        state.matrix = None
        matrix = padded_square(chosen.size, dtype, state.gram.arena)
        yield from clear_padding(matrix, chosen.size)
        if state.single and state.cache is not None:
            yield from state.cache.fill_square(matrix[:, : chosen.size], chosen)
        else:
            yield from state.gram.fill_block(matrix[:, : chosen.size], chosen, chosen)
        state.count_memory()
        if uses_whole_matrix(state.gram):
            state.matrix = matrix
        return matrix

    def _solve_block(
        self, state: JointState, chosen: IndexArray, matrix: RealArray, tol: float, calls_left: int | None = None
    ) -> Iterator[None]:
        """Solve the problem restricted to `chosen`; if that is all rows, the gradient is updated as well."""
        beta, gradient = state.rows
        everything = chosen.size == state.gram.n
        block_beta, block_gradient = beta[chosen], gradient[chosen]
        labels, penalty = state.codes[chosen], state.penalties[chosen]
        idle_limit = chosen.size * (_PATIENT_STEPS if chosen.size > _SMALL_BLOCK else _PATIENT_STEPS // 8)
        most = calls_left or (_WHOLE_CALLS if everything else _BLOCK_CALLS)
        calls = since = 0
        budget = (
            0.0  # multiplications allowed for Newton steps with many free variables: as many as the other steps took
        )
        while calls < most:
            left = 2**62 if state.max_iter < 0 else max(0, state.max_iter - state.n_iter)
            if left == 0:
                return
            conjugate = since >= idle_limit and state.gram.is_convex
            if conjugate:
                most_free = max(crammer_singer_newton.FEW_FREE, int(max(0.0, 3.0 * budget / _STEPS) ** (1 / 3)))
                spent = yield from self._newton(state, chosen, matrix, block_beta, block_gradient, most_free)
                budget -= spent
                if spent > 0.0:
                    calls, since = calls + 1, 0
                    continue
            end, n_iter, violation = solve_joint_block(
                select_isa(),
                conjugate,
                matrix,
                beta=block_beta,
                gradient=block_gradient,
                labels=labels,
                penalty=penalty,
                tol=tol,
                max_iter=min(left, _CONJUGATE if conjugate else max(1, idle_limit - since)),
                max_work=_BLOCK_WORK,
                stop=state.stop,
            )
            calls, since = calls + 1, 0 if conjugate else since + n_iter
            budget += float(n_iter * chosen.size) * (beta.shape[1] * chosen.size if conjugate else _MOVED)
            state.n_iter += n_iter
            self._note(state, chosen, block_beta, block_gradient)
            if uses_whole_matrix(state.gram):
                state.violation = violation
            yield
            if end != BLOCK_LIMIT:
                return

    def _newton(
        self,
        state: JointState,
        chosen: IndexArray,
        matrix: RealArray,
        beta: FloatArray,
        gradient: FloatArray,
        most_free: int,
    ) -> Generator[None, None, float]:
        """Make Newton steps on a block while they improve the objective, and return their multiplications.

        The result is 0 if there are too many free variables for a Newton step.
        """
        labels, penalty, gained, spent = state.codes[chosen], state.penalties[chosen], 0.0, 0.0
        room = state.gram.room / 4 / crammer_singer_newton.BYTES_EACH
        most = min(crammer_singer_newton.MOST_FREE, most_free, int(room**0.5))
        for _ in range(_NEWTON):
            newton_step = crammer_singer_newton.step(matrix, beta, gradient, labels, penalty, most=most)
            if newton_step is None:
                break
            spent += newton_step.n_free**3 / 3.0 + 2.0 * chosen.size**2 * beta.shape[1]
            state.n_iter += 1
            state.count_memory(crammer_singer_newton.BYTES_EACH * newton_step.n_free**2)
            self._note(state, chosen, beta, gradient)
            yield
            gained += newton_step.gain
            if newton_step.arrived or newton_step.gain <= _LITTLE * gained or 0 <= state.max_iter <= state.n_iter:
                break
        return spent

    def _note(self, state: JointState, chosen: IndexArray, block_beta: FloatArray, block_gradient: FloatArray) -> None:
        """Copy a block's point into the state, and its gradient too if the block has all rows."""
        beta, gradient = state.rows
        beta[chosen] = block_beta
        if uses_whole_matrix(state.gram):
            gradient[chosen] = block_gradient
            state.moved = max(state.moved, inner(state.beta, state.beta))
            state.dual = -0.5 * inner(state.beta, state.gradient + state.problem.linear)

    def _rounding(self, state: JointState) -> float:
        """Return an estimate of the rounding error of a violation."""
        beta, _ = state.rows
        return _ROUNDED * (1.0 + state.largest_diagonal * float(np.abs(beta).sum(axis=0).max()))

    def _follow(self, state: JointState, cols: IndexArray, change: FloatArray) -> Iterator[None]:
        """Update the gradients of all rows."""
        _, gradient = state.rows
        state.moved += float(np.square(change).sum(axis=0).max(initial=0.0))
        if state.single and state.cache is not None:
            yield from state.cache.accumulate(gradient, cols, change, None)
        else:
            yield from state.gram.accumulate(gradient, cols, change, single=state.single)

    def _noise(self, state: JointState) -> float:
        """Return an estimate of the gradient's error from single precision since it was last computed exactly."""
        return noise(state.largest_diagonal, state.moved) if state.single else 0.0
