"""K[W, W] of one working set after the other: what the next one shares with the last is not evaluated again."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from mercer._core import complete_square, gather_rows
from mercer.gram import padded_block, padded_width
from mercer.solvers.batch_state import BatchState

Array = npt.NDArray[np.floating]
IndexArray = npt.NDArray[np.int64]

_MOVED_ROWS = 256  # of a matrix that is compacted, at a time


def working_matrix(state: BatchState, chosen: IndexArray) -> Generator[None, None, tuple[IndexArray, Array]]:
    """Return the chosen variables in the order in which they are solved, and K of these with padded rows.

    Variables of several groups come by group and remain so; others may change places. The matrix is the state's, too,
    until the next one.
    """
    dtype = np.float32 if state.single else np.float64
    if state.matrix is not None and state.matrix.dtype == dtype:
        assert state.held is not None
        if state.takes_everything:
            return state.held, state.matrix
        stay = np.flatnonzero(np.isin(state.held, chosen, assume_unique=True))
        if _staying_pays(state, stay.size, chosen):
            return (yield from _exchanged(state, stay, chosen))
    yield from _evaluated(state, chosen, dtype)
    assert state.matrix is not None
    return chosen, state.matrix


def _staying_pays(state: BatchState, n_stay: int, chosen: IndexArray) -> bool:
    """Whether to evaluate the rows of those who are new, and copy the rest, instead of evaluating or copying all."""
    assert state.matrix is not None
    n_new = chosen.size - n_stay
    if state.covers:
        return True
    if not state.gram.values_are_dear:  # to copy them takes as long
        return False
    fits = chosen.size <= state.matrix.shape[0] and padded_width(chosen.size) <= state.matrix.shape[1]
    if not fits or not state.single or state.problem.n_groups >= 2:
        return False
    missing = chosen.size if state.cache is None else state.cache.n_missing(state.rows_of(chosen))
    return 2 * n_new * chosen.size <= missing * missing


def _exchanged(
    state: BatchState, stay: IndexArray, chosen: IndexArray
) -> Generator[None, None, tuple[IndexArray, Array]]:
    """Those who stay, in their order and in the place of the matrix, and then those who are new."""
    assert state.matrix is not None
    assert state.held is not None
    new = chosen[~np.isin(chosen, state.held, assume_unique=True)]
    chosen, n_stay, size = np.concatenate((state.held[stay], new)), stay.size, chosen.size
    state.held = None  # while rows move, they are nobody's
    _compact(state, stay, size)
    if new.size:
        matrix, rows = state.matrix[:, :size], state.rows_of(chosen)
        square = matrix[n_stay:, n_stay:]  # is in its place
        yield from state.values.fill_block(matrix[:n_stay, n_stay:], rows[:n_stay], rows[n_stay:])
        yield from state.values.fill_block(square, rows[n_stay:], rows[n_stay:])
        complete_square(matrix, np.arange(n_stay, size), square, state.gram.n_threads)
        _add_ridge(state, chosen, n_stay)
    _hold(state, chosen)
    return chosen, state.matrix


def _compact(state: BatchState, stay: IndexArray, size: int) -> None:
    """Move K of those who stay to the front of the matrix, which then has room for `size` variables."""
    matrix = state.matrix
    assert matrix is not None
    if stay.size and stay[-1] >= stay.size:  # others than the last ones leave
        for first in range(0, stay.size, _MOVED_ROWS):  # no row moves downwards
            part = stay[first : first + _MOVED_ROWS]
            rows = np.empty((part.size, stay.size), dtype=matrix.dtype)
            gather_rows(matrix, part, stay, rows, state.gram.n_threads)
            matrix[first : first + part.size, : stay.size] = rows
    state.matrix = matrix[:size, : padded_width(size)]
    state.matrix[:, size:] = 0.0


def _evaluated(state: BatchState, chosen: IndexArray, dtype: npt.DTypeLike) -> Generator[None]:
    """All of it, from kept rows where there are some."""
    problem, arena = state.problem, state.gram.arena
    # Machines for each class against the rest differ in labels alone: they share the whole matrix.
    shared = state.takes_everything and state.gram.idx is None and problem.ridge is None and problem.n_groups < 2
    content = (dtype, problem.n) if shared else None
    if shared and arena.holds(content):
        width = padded_width(problem.n)
        state.matrix = arena.again(problem.n * width, dtype).reshape(problem.n, width)
        state.held = chosen
        return
    state.matrix = state.held = None  # or the arena could not give it up before it has more
    matrix = padded_block(chosen.size, chosen.size, dtype, arena)
    rows = state.rows_of(chosen)
    if state.takes_everything:
        yield from state.gram.fill_block(matrix[:, : chosen.size], chosen, chosen)
    elif state.single and state.cache is not None:
        yield from state.cache.fill_square(matrix[:, : chosen.size], rows)
    else:
        yield from state.values.fill_block(matrix[:, : chosen.size], rows, rows)
    state.count_memory()
    state.matrix = matrix
    _add_ridge(state, chosen, 0)
    arena.declare(content)
    _hold(state, chosen)


def _add_ridge(state: BatchState, chosen: IndexArray, first: int) -> None:
    """Add it to the diagonal of the matrix, from one variable on."""
    ridge, matrix = state.problem.ridge, state.matrix
    if ridge is not None:
        assert matrix is not None
        new = np.arange(first, chosen.size)
        matrix[new, new] += ridge[chosen[first:]]


def _hold(state: BatchState, chosen: IndexArray) -> None:
    """Note whose matrix it is; where these are all active variables, it stays so until others are active again."""
    state.held = chosen
    state.covers = not state.takes_everything and chosen.size == state.n_active
