"""The problem restricted to a working set: SMO steps, and Newton steps if these are slow."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mercer._core import EXACT_FREE, FEW_FREE, INNER_SHARE, MANY_FREE, MANY_FREE_PRECISE, BlockLimits, begin_block
from mercer._typing import IndexArray, RealArray
from mercer.problems import inner
from mercer.solvers.dual.working_set_sizes import factor_room, least_set
from mercer.solvers.dual.working_set_state import BatchState

if TYPE_CHECKING:
    from mercer._core import Block


_DIVERGED = 3.0  # SMO has diverged if the violation exceeds this multiple of the violation at 0
_SMALLER = 64.0  # factor by which all bounds are divided then; a power of 2, so that bounds stay exact
_PART_WAY = 0.5  # tolerance within the smaller bounds, as a share of the violation at 0
_ROUNDS, _BLOCK_ROUNDS = 40, 10  # alternations of SMO and Newton steps on a small and on a large working set
_SMALL_BLOCK = 500  # variables; largest small working set


def newton_bytes(n_free: int, size: int, *, single: bool) -> int:
    """Return the bytes that Newton steps take which begin with up to `n_free` free variables, to a few per cent.

    See native/dual/newton_steps.hpp: with more than ``FEW_FREE`` free variables in single precision, a call has a
    Cholesky factor; with fewer it has an inverse, or a factor in double precision.
    """
    few = _newton_capacity(min(n_free, FEW_FREE) if single else n_free, size)
    many = _newton_capacity(n_free, size)
    return max(8 * few * (few + 257), 2 * many * many + 3100 * many if single and n_free > FEW_FREE else 0)


def _newton_capacity(n_free: int, size: int) -> int:
    """Capacity of the native arrays in variables, with padding for any instruction set."""
    return min(size, n_free + n_free // 4 + 64) + 96


def solve_chosen(state: BatchState, chosen: IndexArray, matrix: RealArray) -> Generator[None, None, Block]:
    """Solve the problem restricted to `chosen`, by group, whose kernel values are `matrix`; yield after bounded work.

    At each yield the state's point is up to date; if all variables are chosen, its gradient is too.
    """
    end_tol = 0.5 * state.tol
    tol = max(end_tol, 0.0 if state.uses_whole_matrix else INNER_SHARE * state.violation)
    # If no other variable violates its condition, Newton steps go on to the end: the last ones are the cheapest.
    newton_tol = end_tol if state.holds_all else tol
    at_zero = state.violation if _may_begin_smaller(state, chosen) else math.inf
    return (yield from _solve(state, chosen, matrix, tol, newton_tol, at_zero))


def _solve(
    state: BatchState,
    chosen: IndexArray,
    matrix: RealArray,
    tol: float,
    newton_tol: float,
    at_zero: float,
    boxes: float = 1.0,
) -> Generator[None, None, Block]:
    """Solve to the tolerance with all bounds multiplied by `boxes`, from 0 unless that is 1.

    If SMO from 0 diverges, the problem with smaller bounds is solved first. Its scaled solution is the new start, and
    the state takes it once its dual objective is higher.
    """
    block = _begin(state, chosen, matrix, tol, newton_tol, _DIVERGED * at_zero, boxes)
    yield from _work(state, chosen, block, is_hidden=boxes != 1.0)
    if block.has_diverged:
        rough = max(tol, _PART_WAY * at_zero)
        smaller = yield from _solve(state, chosen, matrix, rough, rough, at_zero, boxes / _SMALLER)
        linear = state.problem.linear[chosen]
        block.go_to(_SMALLER * smaller.beta, linear + _SMALLER * (smaller.gradient - linear))
        yield from _work(state, chosen, block, is_hidden=boxes != 1.0, is_better=False)
    return block


def _may_begin_smaller(state: BatchState, chosen: IndexArray) -> bool:
    """Whether all variables are chosen and 0, so that the solution for smaller bounds is a possible start."""
    begins = state.uses_whole_matrix and state.single and state.n_refreshes == 0 and not state.beta[chosen].any()
    return begins and state.gram.is_convex and math.isfinite(state.c_times_kmax)


def _begin(
    state: BatchState,
    chosen: IndexArray,
    matrix: RealArray,
    tol: float,
    newton_tol: float,
    diverged_above: float,
    boxes: float,
) -> Block:
    problem, single, everything = state.problem, matrix.dtype == np.float32, state.uses_whole_matrix
    size = chosen.size
    room = factor_room(state.gram, state.c_times_kmax, state.matrix_bytes, single=single)
    few = _most_free(FEW_FREE if single else MANY_FREE_PRECISE, size, room, single=single)
    # A factor for more than FEW_FREE variables takes less memory than the inverse of FEW_FREE. While the violation is
    # above that of 0, or other variables violate, many variables are free only temporarily; the factor then comes late.
    if_slow = _most_free(MANY_FREE, size, room, single=True) if single and few == FEW_FREE else -1
    many = max(few, if_slow) if state.holds_all else few
    exact = size if state.is_solved_exactly else EXACT_FREE
    ends = everything and state.n_refreshes > 0  # after single precision, few changes are left
    limits = BlockLimits(
        tol=tol,
        newton_tol=newton_tol,
        violation=state.violation,
        largest=state.largest_diagonal,
        convex=state.gram.is_convex,
        smo_slow=state.smo_slow,
        most_free=few,
        most_close=many,
        close=state.at_zero,
        most_if_slow=if_slow,
        exact_free=exact if everything and not single else -1,
        brief_free=-1 if not ends else size if single else EXACT_FREE,
        diverged_above=diverged_above,
        n_rounds=_ROUNDS if everything and size <= _SMALL_BLOCK else _BLOCK_ROUNDS,
    )
    beta, gradient, lower, upper = state.beta, state.gradient, problem.lower, problem.upper
    if boxes != 1.0:
        beta, gradient, lower, upper = np.zeros(problem.n), problem.linear, boxes * lower, boxes * upper
    return begin_block(
        state.isa,
        matrix,
        chosen,
        beta=beta,
        gradient=gradient,
        lower=lower,
        upper=upper,
        groups=state.groups,
        n_groups=problem.n_groups,
        limits=limits,
        n_threads=state.gram.n_threads,
    )


def _most_free(most: int, size: int, room: int, *, single: bool) -> int:
    """Largest number of free variables, up to `most`, whose Newton steps fit into `room` bytes."""
    while most > least_set() and newton_bytes(most, size, single=single) > room:
        most = max(least_set(), most // 2)
    return most


def _work(
    state: BatchState, chosen: IndexArray, block: Block, *, is_hidden: bool, is_better: bool = True
) -> Iterator[None]:
    """Run the block to its end. The state takes its point, unless it is hidden or not yet the better one."""
    while not block.is_finished:
        before = block.n_iter
        block.work(-1 if state.max_iter < 0 else max(0, state.max_iter - state.n_iter), state.stop)
        state.n_iter += block.n_iter - before
        state.smo_slow = state.smo_slow or block.smo_slow
        if block.newton_free:
            state.count_memory(newton_bytes(block.newton_free, chosen.size, single=state.single))
        if state.uses_whole_matrix and not is_hidden:
            dual = -0.5 * inner(block.beta, block.gradient + state.problem.linear[chosen])
            is_better = is_better or dual > state.dual
            if is_better:
                block.store_gradient(state.gradient)
                state.violation, state.dual = block.violation, dual
        if is_better and not is_hidden:
            block.store_point(state.beta)
        yield
