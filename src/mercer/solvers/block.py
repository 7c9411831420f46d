"""The problem restricted to a working set: pair steps, and Newton steps where these drag on."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mercer._core import EXACT_FREE, FEW_FREE, INNER_SHARE, MANY_FREE, MANY_FREE_PRECISE, BlockLimits, begin_block
from mercer._typing import IndexArray, RealArray
from mercer.problems import inner
from mercer.solvers.working_set_sizes import factor_room, least_set
from mercer.solvers.working_set_state import BatchState

if TYPE_CHECKING:
    from mercer._core import Block


_ASTRAY = 3.0  # times the violation at 0: once pair steps have made more of it, few variables are near their bounds
_SMALLER = 64.0  # are the boxes that are solved first then; a power of 2 keeps who is at a bound there to the last bit
_PART_WAY = 0.5  # of the violation at 0: in smaller boxes no less is asked for
_ROUNDS, _BLOCK_ROUNDS = 40, 10  # of pair steps and Newton steps on a working set: a small one, a large one
_SMALL_BLOCK = 500


def newton_bytes(n_free: int, size: int, *, single: bool) -> int:
    """Return the most that a native call of Newton steps takes which begins with up to `n_free` free variables.

    To a few per cent, by native/qp/newton_steps.hpp: of more than ``FEW_FREE`` in single precision a call
    has a factor, of as many or fewer an inverse, or the factor in double precision in its place.
    """
    few = _newton_capacity(min(n_free, FEW_FREE) if single else n_free, size)
    many = _newton_capacity(n_free, size)
    return max(8 * few * (few + 257), 2 * many * many + 3100 * many if single and n_free > FEW_FREE else 0)


def _newton_capacity(n_free: int, size: int) -> int:
    """How many variables there is room for, with padding for any instruction set."""
    return min(size, n_free + n_free // 4 + 64) + 96


def solve_chosen(state: BatchState, chosen: IndexArray, matrix: RealArray) -> Generator[None, None, Block]:
    """Solve the problem restricted to `chosen`, by group, whose kernel values are `matrix`; yield after bounded work.

    At each yield the state's point is up to date, and where everything is chosen, so is its gradient.
    """
    end_tol = 0.5 * state.tol
    tol = max(end_tol, 0.0 if state.takes_everything else INNER_SHARE * state.violation)
    # Where nobody else violates, Newton steps go on to the end: the last ones cost least.
    newton_tol = end_tol if state.holds_all else tol
    at_zero = state.violation if _may_begin_smaller(state, chosen) else math.inf
    return (yield from _settle(state, chosen, matrix, tol, newton_tol, at_zero))


def _settle(
    state: BatchState,
    chosen: IndexArray,
    matrix: RealArray,
    tol: float,
    newton_tol: float,
    at_zero: float,
    boxes: float = 1.0,
) -> Generator[None, None, Block]:
    """Come to the tolerance in `boxes` so many times as wide, from 0 where that is not 1.

    Where pair steps from 0 go astray, smaller boxes are solved first, all in proportion; what is found in these is the
    state's once its dual objective is the higher one.
    """
    block = _begin(state, chosen, matrix, tol, newton_tol, _ASTRAY * at_zero, boxes)
    yield from _work(state, chosen, block, is_hidden=boxes != 1.0)
    if block.is_astray:
        rough = max(tol, _PART_WAY * at_zero)
        smaller = yield from _settle(state, chosen, matrix, rough, rough, at_zero, boxes / _SMALLER)
        linear = state.problem.linear[chosen]
        block.go_to(_SMALLER * smaller.beta, linear + _SMALLER * (smaller.gradient - linear))
        yield from _work(state, chosen, block, is_hidden=boxes != 1.0, is_better=False)
    return block


def _may_begin_smaller(state: BatchState, chosen: IndexArray) -> bool:
    """Whether all variables are there and 0, so that the solution in smaller boxes is a start in these."""
    begins = state.takes_everything and state.single and state.n_refreshes == 0 and not state.beta[chosen].any()
    return begins and state.gram.is_convex and math.isfinite(state.reach)


def _begin(
    state: BatchState,
    chosen: IndexArray,
    matrix: RealArray,
    tol: float,
    newton_tol: float,
    astray: float,
    boxes: float,
) -> Block:
    problem, single, everything = state.problem, matrix.dtype == np.float32, state.takes_everything
    size = chosen.size
    room = factor_room(state.gram, state.reach, state.matrix_bytes, single=single)
    few = _most_free(FEW_FREE if single else MANY_FREE_PRECISE, size, room, single=single)
    # A factor for more than FEW_FREE takes less memory than one for as many. Beyond the violation of 0, and while
    # others violate, many are free only on their way, and factors of as many lead nowhere, slowly: it comes late then.
    late = _most_free(MANY_FREE, size, room, single=True) if single and few == FEW_FREE else -1
    many = max(few, late) if state.holds_all else few
    exact = size if state.ends_exactly else EXACT_FREE
    ends = everything and state.n_refreshes > 0  # single precision has left few changes to make
    limits = BlockLimits(
        tol=tol,
        newton_tol=newton_tol,
        violation=state.violation,
        largest=state.largest_diagonal,
        convex=state.gram.is_convex,
        drags=state.drags,
        most_free=few,
        most_close=many,
        close=state.at_zero,
        most_late=late,
        exact_free=exact if everything and not single else -1,
        brief_free=-1 if not ends else size if single else EXACT_FREE,
        astray=astray,
        n_rounds=_ROUNDS if everything and size <= _SMALL_BLOCK else _BLOCK_ROUNDS,
    )
    point = state.beta, state.gradient, problem.lower, problem.upper
    if boxes != 1.0:
        point = np.zeros(problem.n), problem.linear, boxes * problem.lower, boxes * problem.upper
    return begin_block(state.isa, matrix, chosen, *point, state.groups, problem.n_groups, limits, state.gram.n_threads)


def _most_free(most: int, size: int, room: int, *, single: bool) -> int:
    """How many free variables Newton steps have room for, in bytes, up to `most`."""
    while most > least_set() and newton_bytes(most, size, single=single) > room:
        most = max(least_set(), most // 2)
    return most


def _work(
    state: BatchState, chosen: IndexArray, block: Block, *, is_hidden: bool, is_better: bool = True
) -> Iterator[None]:
    """Go on to the end; the state follows, unless the point is hidden, or as long as it is not the better one."""
    while not block.is_finished:
        before = block.n_iter
        block.work(-1 if state.max_iter < 0 else max(0, state.max_iter - state.n_iter), state.stop)
        state.n_iter += block.n_iter - before
        state.drags = state.drags or block.drags
        if block.newton_free:
            state.count_memory(newton_bytes(block.newton_free, chosen.size, single=state.single))
        if state.takes_everything and not is_hidden:
            dual = -0.5 * inner(block.beta, block.gradient + state.problem.linear[chosen])
            is_better = is_better or dual > state.dual
            if is_better:
                block.store_gradient(state.gradient)
                state.violation, state.dual = block.violation, dual
        if is_better and not is_hidden:
            block.store_point(state.beta)
        yield
