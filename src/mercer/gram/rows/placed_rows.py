"""Rows that workers hold: each has a block, and the numbers of its rows; only sums over the rows travel."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray, IndexArray
from mercer.cluster import Workers
from mercer.cluster.joining import Nodes, chained, cuts, merged, nodes_of
from mercer.cluster.workers import Handle
from mercer.gram.rows.table_rows import Block, LinearRows, RowNumbers, TableRows, sample_of

_LEAST_LEAF, _LARGEST_LEAF = 1 << 10, 1 << 16  # rows of a leaf of the tree in which sums are made
_LEAVES = 256  # of a table of middle size
_LARGE = 1_000_000  # bytes of a matrix from which workers merge their sums before they send them


def leaf_rows(n: int) -> int:
    """Return the rows of a leaf: a power of 2 that depends on the number of rows alone, as the sums do."""
    return min(_LARGEST_LEAF, max(_LEAST_LEAF, 1 << max(0, (n // _LEAVES).bit_length() - 1)))


def block_starts(n: int, n_blocks: int) -> list[int]:
    """Return the first row of each of at most `n_blocks` blocks of consecutive rows, and last n."""
    height = leaf_rows(n)
    return [min(n, height * leaf) for leaf in cuts(-(-n // height), n_blocks)]


class PlacedRows(LinearRows):
    """Rows in blocks that workers hold.

    A function of a block of rows is applied to leaves of a few thousand rows, and its results are joined in a tree of
    all leaves. Both depend on the number of rows alone. Sums are therefore the same to the last bit for every number of
    partitions, blocks, workers and threads, and after a worker was lost.

    Numbers of rows never leave the workers. A task for a block returns them changed and leaves those before as they
    were. A block that is lost with its worker is made again, and so are its numbers, by the same tasks.

    Parameters
    ----------
    workers : Workers
    blocks : sequence of handles
        Of :class:`Block` objects: all rows, in the ranges that :func:`block_starts` gives.
    n, p : int
    is_sparse : bool
    """

    limits_numbers = True
    is_elsewhere = True

    @classmethod
    def spread(
        cls,
        workers: Workers,
        block_of: Callable[..., Block],
        sources: Callable[[int, int], Any],
        *arguments: Any,
        shape: tuple[int, int],
        is_sparse: bool,
        row_bytes: float,
    ) -> PlacedRows:
        """Have workers make the blocks of a table: `block_of(sources(first, end), *arguments)` for each range of rows.

        Raises
        ------
        ClusterError
            If a block, of rows of `row_bytes`, does not fit into the memory of a worker.
        """
        ranges = [*pairwise(block_starts(shape[0], workers.n_blocks))]
        workers.refuse_large_blocks(int(max(end - first for first, end in ranges) * (row_bytes + 8)))
        blocks = workers.place([sources(*one) for one in ranges], block_of, *arguments, is_spread=True)
        return cls(workers, blocks, *shape, is_sparse=is_sparse)

    def __init__(self, workers: Workers, blocks: Sequence[Handle], n: int, p: int, *, is_sparse: bool) -> None:
        self.workers, self.n, self.p, self.is_sparse = workers, n, p, is_sparse
        self._blocks: list[Handle] = list(blocks)
        self._states: list[Handle] = [None] * len(self._blocks)  # the last result of each block
        self._names, self._dropped = count(), list[int]()

    def blocks(self) -> Iterator[Block]:
        """Raise TypeError: the blocks are not here. `total` takes the function to them."""
        raise TypeError("the rows are with the workers, where `total` applies functions to them")

    def numbers(self) -> RowNumbers:
        """Return one number for each row, all 0, which are with the rows."""
        numbers = PlacedNumbers(next(self._names), self)
        weakref.finalize(numbers, self._dropped.append, numbers.name)
        return numbers

    def total(self, of_block: Callable[[Block], Any], check: Callable[[], None] | None = None) -> Any:
        """Return the sum of a function of the leaves, see :func:`mercer.cluster.join`.

        The function must be picklable. It may read and write numbers of the rows at the positions of its block.
        `check` is called while workers work, and raises to stop waiting for them.
        """
        n_leaves = -(-self.n // leaf_rows(self.n))
        self._submit(partial(_nodes_of_block, of_block, self.n))
        nodes = self.workers.map(_result_of, self._states)
        is_large = 8 * self.p**2 > _LARGE
        merge = partial(_merged, n_leaves=n_leaves)
        return self.workers.fetch(nodes, merge, check or no_check, is_large=is_large)[0, n_leaves]

    def each(self, of_block: Callable[[Block], None]) -> None:
        """Let a function change numbers of the rows, block by block; nothing is waited for."""
        self._submit(partial(_change, of_block))

    def read(self, numbers: PlacedNumbers, at: slice) -> FloatArray:
        """Return numbers of the rows from the workers."""
        return np.concatenate(self.workers.fetch(self.handles_of(numbers), chained, no_check))[at]

    def handles_of(self, numbers: PlacedNumbers) -> list[Handle]:
        """Return the numbers of each block, in a list of one array, as handles: they stay with the workers."""
        self._submit(partial(_read_numbers, numbers))
        return self.workers.map(_result_of, self._states)

    def sample(self, size: int) -> TableRows:
        """Return about `size` rows in memory: those of the same rows in a table in memory."""
        chosen = sample_of(self.n, size)
        self._submit(partial(_chosen_rows, chosen))
        parts = self.workers.fetch(self.workers.map(_result_of, self._states), chained, no_check)
        return TableRows(*(_stacked([part[k] for part in parts]) for k in range(3)))

    @property
    def is_released(self) -> bool:
        """Whether the workers have forgotten the rows."""
        return not self._blocks

    @property
    def placed(self) -> Sequence[Handle]:
        """The handles of the blocks."""
        return tuple(self._blocks)

    def release(self) -> None:
        """Let the workers forget the rows; they cannot be read any more."""
        self._blocks, self._states = [], []

    def _submit(self, function: Callable[[_Placed], Any]) -> None:
        """Let the workers apply a function to their blocks, after all that was asked of them before."""
        if not self._blocks:
            raise RuntimeError("the workers have forgotten the rows of this fit. Fit again to ask about them.")
        dropped, self._dropped[:] = list(self._dropped), []
        payload = pickle.dumps((function, dropped), protocol=pickle.HIGHEST_PROTOCOL)
        self._states = self.workers.map(_apply, self._blocks, self._states, payload=payload)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the rows behind: problems travel to the rows, and not the other way."""
        return RowsElsewhere, (self.n, self.p, self.is_sparse)


@dataclass
class RowsElsewhere(LinearRows):
    """The shape of rows that are not here: what a problem has on a worker, where its blocks are given."""

    n: int
    p: int
    is_sparse: bool

    def blocks(self) -> Iterator[Block]:
        """Raise TypeError."""
        raise TypeError("these rows are elsewhere")

    def numbers(self) -> RowNumbers:
        """Raise TypeError."""
        raise TypeError("these rows are elsewhere")


class PlacedNumbers:
    """One float64 number for each row, with the rows: see :class:`mercer.gram.rows.RowNumbers`.

    In a function that works on a block, they are read and written at positions of the block. Elsewhere they are read
    from all workers, and cannot be written.
    """

    def __init__(self, name: int, rows: PlacedRows | None = None) -> None:
        self.name, self._rows = name, rows

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacedNumbers, (self.name,)

    def __len__(self) -> int:
        return 0 if self._rows is None else self._rows.n

    def belongs_to(self, rows: PlacedRows) -> bool:
        """Whether these are numbers of the rows."""
        return self._rows is rows

    def __getitem__(self, at: slice, /) -> FloatArray:
        here = _HERE.get()
        if here is None and self._rows is None:
            return np.zeros(0)  # a pickled machine has no numbers of its training rows
        if here is None and self._rows is not None:
            return self._rows.read(self, at)
        assert here is not None
        return here.numbers(self.name)[here.place(at)]

    def __setitem__(self, at: slice, values: FloatArray, /) -> None:
        here = _HERE.get()
        if here is None:
            raise TypeError("numbers of rows are written where the rows are")
        here.numbers_to_write(self.name)[here.place(at)] = values


@dataclass
class _Placed:
    """A block with the numbers of its rows."""

    block: Block
    arrays: dict[int, FloatArray]
    written: set[int] = field(default_factory=set)

    @property
    def first(self) -> int:
        return int(self.block.at.start)

    def place(self, at: slice) -> slice:
        return slice(at.start - self.first, at.stop - self.first)

    def numbers(self, name: int) -> FloatArray:
        if name not in self.arrays:
            self.arrays[name] = np.zeros(len(self.block.labels))
            self.written.add(name)
        return self.arrays[name]

    def numbers_to_write(self, name: int) -> FloatArray:
        """Return numbers that may be changed; those of the task before stay as they were."""
        numbers = self.numbers(name)
        if name not in self.written:
            self.arrays[name] = numbers = numbers.copy()
            self.written.add(name)
        return numbers


_HERE: ContextVar[_Placed | None] = ContextVar("placed block of this task", default=None)


@dataclass
class _State:
    """The result of a task for a block, and the numbers of its rows after it."""

    result: Any
    arrays: dict[int, FloatArray]

    def __sizeof__(self) -> int:
        return 256 + sum(array.nbytes for array in self.arrays.values())


def _apply(block: Block, before: _State | None, payload: bytes) -> _State:
    """Apply a function to a block, on a worker."""
    function, dropped = pickle.loads(payload)
    arrays = {} if before is None else {k: array for k, array in before.arrays.items() if k not in dropped}
    here = _Placed(block, arrays)
    token = _HERE.set(here)
    try:
        result = function(here)
    finally:
        _HERE.reset(token)
    return _State(result, here.arrays)


def _result_of(state: _State, payload: bytes) -> Any:
    del payload
    return state.result


def _nodes_of_block(of_block: Callable[[Block], Any], n: int, here: _Placed) -> Nodes:
    """Return the sums of the leaves of a block."""
    block, height = here.block, leaf_rows(n)
    first, end = here.first, int(block.at.stop)

    def leaf(number: int) -> Any:
        at = slice(number * height, min(n, (number + 1) * height))
        rows = here.place(at)
        return of_block(Block(at, block.table[rows], block.labels[rows], block.weights[rows]))

    return nodes_of(leaf, first // height, -(-end // height), -(-n // height))


def _change(of_block: Callable[[Block], None], here: _Placed) -> None:
    of_block(here.block)


def _read_numbers(numbers: PlacedNumbers, here: _Placed) -> list[FloatArray]:
    return [here.numbers(numbers.name)]


def _chosen_rows(chosen: IndexArray, here: _Placed) -> list[tuple[Any, FloatArray, FloatArray]]:
    block = here.block
    rows = chosen[(chosen >= here.first) & (chosen < block.at.stop)] - here.first
    return [(block.table[rows], block.labels[rows], block.weights[rows])]


def _merged(parts: list[Nodes], n_leaves: int) -> Nodes:
    return merged(parts, n_leaves)


def _stacked(parts: list[Any]) -> Any:
    """Return rows of several blocks in one table."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def no_check() -> None:
    """Wait without a limit."""
