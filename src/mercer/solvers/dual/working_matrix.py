"""K[W, W] of successive working sets: values that the next set shares with the last one are not evaluated again."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from mercer._core import compact_square, mirror_rows, without
from mercer._typing import IndexArray, RealArray
from mercer.gram import clear_padding, padded_square, padded_width
from mercer.solvers.dual.working_set_state import BatchState, WorkingMatrix


def working_matrix(state: BatchState, chosen: IndexArray) -> Generator[None, None, WorkingMatrix]:
    """Return the chosen variables in the order of the matrix, and their kernel values with padded rows.

    With several groups, variables are sorted by group and keep their order; with one group, the order may change. The
    matrix is also stored in the state, and is valid until the next call.
    """
    if state.working is not None and state.working.values.dtype == _dtype(state):
        if state.uses_whole_matrix:
            return state.working
        new = without(state.working.variables, chosen, state.problem.n)
        if not new.size or _staying_pays(state, state.working.buffer, new.size, chosen):
            return (yield from _exchanged(state, state.working, chosen, new))
    return (yield from _evaluated(state, chosen))


def _dtype(state: BatchState) -> np.dtype[np.floating]:
    return np.dtype(np.float32 if state.single else np.float64)


def _staying_pays(state: BatchState, buffer: RealArray, n_new: int, chosen: IndexArray) -> bool:
    """Whether moving the shared values and evaluating the rest is faster than evaluating all of K[W, W]."""
    size, n_stay = chosen.size, chosen.size - n_new
    if not state.gram.kernel_is_expensive:  # moving values takes as long as evaluating them
        return False
    if not state.single or state.problem.n_groups >= 2:  # only float32 can be mirrored, and groups must stay sorted
        return False
    if size > buffer.shape[0] or padded_width(size) > buffer.shape[1]:
        return False
    missing = size if state.cache is None else state.cache.n_missing(state.rows_of(chosen))
    return n_new * (2 * n_stay + n_new) <= missing * missing  # twice the values: half a square is evaluated


def _exchanged(
    state: BatchState, last: WorkingMatrix, chosen: IndexArray, new: IndexArray
) -> Generator[None, None, WorkingMatrix]:
    """Return the new working set: first the variables that stay, in their old order, then the new variables."""
    state.working = None  # not valid while rows move
    is_chosen = np.zeros(state.problem.n, dtype=bool)
    is_chosen[chosen] = True
    stay = np.flatnonzero(is_chosen[last.variables])
    chosen, n_stay, size = np.concatenate((last.variables[stay], new)), stay.size, chosen.size
    compact_square(last.buffer, stay, state.gram.n_threads)
    padded = last.buffer[:size, : padded_width(size)]
    for _ in clear_padding(padded, size):  # fast enough without a stop, because the pages exist already
        pass
    if new.size:
        matrix, rows, fresh = padded[:, :size], state.rows_of(chosen[:n_stay]), state.rows_of(new)
        yield from state.values.fill_block(matrix[:n_stay, n_stay:], rows, fresh)
        yield from state.values.fill_block(matrix[n_stay:, n_stay:], fresh, fresh)
        mirror_rows(matrix, n_stay, state.gram.n_threads)
    return _working_matrix(state, chosen, padded, last.buffer, n_stay)


def _evaluated(state: BatchState, chosen: IndexArray) -> Generator[None, None, WorkingMatrix]:
    """Return all of K[W, W], newly evaluated or read from cached rows."""
    problem, arena, dtype = state.problem, state.gram.arena, _dtype(state)
    # One-versus-rest machines differ only in their labels. If they use the whole matrix from the start, they share it.
    shared = state.uses_whole_matrix and state.gram.idx is None and problem.ridge is None and problem.n_groups < 2
    content = (dtype, problem.n) if shared else None
    if shared and arena.holds(content):
        width = padded_width(problem.n)
        matrix = arena.again(problem.n * width, dtype).reshape(problem.n, width)
        return _working_matrix(state, chosen, matrix, matrix, chosen.size)
    state.working = None  # so that the arena can free the old memory before it takes more
    tiles = state.tiles if state.single else None
    matrix = padded_square(chosen.size, dtype, arena)
    if tiles is not None:
        state.values.count(tiles.square(chosen, matrix))
        yield
    else:
        yield from clear_padding(matrix, chosen.size)
        yield from _filled(state, chosen, matrix[:, : chosen.size])
    state.count_memory()
    arena.declare(content)
    return _working_matrix(state, chosen, matrix, matrix, 0)


def _filled(state: BatchState, chosen: IndexArray, matrix: RealArray) -> Iterator[None]:
    """Evaluate K[W, W], or read it from cached rows."""
    if state.uses_whole_matrix:
        yield from state.gram.fill_block(matrix, chosen, chosen)
    elif state.single and state.cache is not None:
        yield from state.cache.fill_square(matrix, state.rows_of(chosen))
    else:
        rows = state.rows_of(chosen)
        yield from state.values.fill_block(matrix, rows, rows)


def _working_matrix(
    state: BatchState, chosen: IndexArray, matrix: RealArray, buffer: RealArray, n_stay: int
) -> WorkingMatrix:
    """Add the ridge of the new variables, and store the matrix in the state.

    If W has all active variables, the matrix is used until all variables are active again.
    """
    ridge = state.problem.ridge
    if ridge is not None:
        new = np.arange(n_stay, chosen.size)
        matrix[new, new] += ridge[chosen[n_stay:]]
    state.has_all_active = not state.uses_whole_matrix and chosen.size == state.n_active
    state.working = WorkingMatrix(chosen, matrix, buffer)
    state.matrix_bytes = max(state.matrix_bytes, buffer.nbytes)
    return state.working
