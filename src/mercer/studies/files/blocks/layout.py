"""What the blocks of a cache hold: columns, labels and weights, and where each block lies in its source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, Protocol

import numpy as np

from mercer._typing import FloatArray
from mercer.data import ReadingOptions, TableError
from mercer.studies.tables.target_numbers import MAX_TARGET

Task = Literal["classification", "regression"]
"""What the labels of blocks are: numbers of classes, or targets."""

MAX_LEVELS = 1_000_000
"""Largest number of different texts of a column; all of them are in memory."""

_ENTRY_BYTES = 140  # of a text in a dict with its number, beside the text; measured with 300,000 texts


@dataclass(frozen=True)
class Span:
    """Where the rows of a block lie in their source.

    Attributes
    ----------
    start, end : int
        The first byte, and the byte after the last one. In a Parquet file: numbers of rows.
    line : int
        Number of the first line, counted from 1. In a Parquet file: number of the first row.
    """

    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Layout:
    """The columns of a table.

    Attributes
    ----------
    target : str
        "" if there is no target; labels are then 0.
    task : {"classification", "regression"}
    names : tuple of str or None
        Names of the columns; None for a sparse table, whose columns are numbered.
    categories : frozenset of str
        Names of the columns whose cells are categories; all others are numbers.
    weights : str, optional
        Column of the weights of rows; it is not among `names`.
    """

    target: str
    task: Task
    names: tuple[str, ...] | None
    categories: frozenset[str] = frozenset()
    weights: str | None = None


@dataclass(frozen=True, eq=False)
class RawBlock:
    """Rows as they stand in the source, before they are encoded.

    Attributes
    ----------
    table : ndarray or csr_array of shape (m, p)
        Numbers, and for categories the number of the level; NaN for a missing cell. CSR has as many columns as the
        block needs.
    labels : ndarray of shape (m,)
        Targets, or for classes the number of the class in the order of their appearance in the source.
    weights : ndarray of shape (m,) or None
    span : Span
    """

    table: Any
    labels: FloatArray
    weights: FloatArray | None
    span: Span

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def is_sparse(self) -> bool:
        """Whether the table is CSR."""
        return not isinstance(self.table, np.ndarray)


class Levels:
    """The different texts of columns of categories and of classes, numbered in the order of their appearance.

    Parameters
    ----------
    memory : int, optional
        Bytes that the texts may take.
    """

    def __init__(self, memory: int | None = None) -> None:
        self.of: dict[str, dict[str, int]] = {}
        self._memory, self._bytes = memory, dict[str, int]()

    def number(self, name: str, texts: list[str]) -> np.ndarray:
        """Return the numbers of different texts of a column; unknown texts get the next numbers.

        Raises
        ------
        TableError
            If the column has more than a million different texts, or the texts exceed the memory.
        """
        number_of = self.of.setdefault(name, {})
        before = len(number_of)
        numbers = np.array([number_of.setdefault(text, len(number_of)) for text in texts], dtype=np.float64)
        if len(number_of) > MAX_LEVELS:
            raise TableError(
                f"column {name!r} has more than {MAX_LEVELS:,} different texts, such as {texts[-1]!r}: it looks like "
                "an identifier of rows",
                f"drop={[name]!r} leaves it out",
            )
        if len(number_of) > before:
            self._count(name, (text for text, number in zip(texts, numbers, strict=True) if number >= before))
        return numbers

    def since(self, counts: dict[str, int]) -> dict[str, list[str]]:
        """Return the texts that were added since there were `counts` of them."""
        return {
            name: [*number_of][counts.get(name, 0) :]
            for name, number_of in self.of.items()
            if len(number_of) > counts.get(name, 0)
        }

    def add(self, texts: Mapping[str, Sequence[str]], layout: Layout) -> None:
        """Add texts that `since` has returned.

        Raises
        ------
        ValueError
            If they are invalid, or those of a column that has no texts.
        TableError
            If they exceed the memory.
        """
        for name, some in texts.items():
            if name not in layout.categories and not (name == layout.target and layout.task == "classification"):
                raise ValueError(f"the column {name!r} has no texts")
            number_of = self.of.get(name, {})
            is_new = isinstance(some, list) and all(isinstance(text, str) and text not in number_of for text in some)
            if not is_new or len(set(some)) < len(some) or len(number_of) + len(some) > MAX_LEVELS:
                raise ValueError(f"the texts of column {name!r} are invalid")
        for name, some in texts.items():
            number_of = self.of.setdefault(name, {})
            number_of.update(zip(some, count(len(number_of))))
            self._count(name, some)

    def _count(self, name: str, texts: Iterable[str]) -> None:
        """Add the bytes of new texts of a column, and raise a TableError if all texts exceed the memory."""
        self._bytes[name] = self._bytes.get(name, 0) + sum(sys.getsizeof(text) + _ENTRY_BYTES for text in texts)
        if self._memory is None or sum(self._bytes.values()) <= self._memory:
            return
        name = max(self._bytes, key=self._bytes.__getitem__)
        needed, example = self._bytes[name], next(reversed(self.of[name]))
        raise TableError(
            f"the {len(self.of[name]):,} different texts of column {name!r}, such as {example!r}, take {needed:,} "
            f"bytes so far, and {self._memory:,} bytes of memory= are for texts",
            f"raise memory=, or leave the column out if it names rows: drop={[name]!r}",
        )

    @property
    def counts(self) -> dict[str, int]:
        """Number of texts of each column."""
        return {name: len(number_of) for name, number_of in self.of.items()}


def fault_of(block: RawBlock, layout: Layout, levels: Levels) -> str | None:
    """Return what is wrong with the numbers of a block, None if nothing is; without a table, only labels are checked.

    A source never gives such a block. A file of a block may hold anything, with the right checksums.
    """
    labels, weights = block.labels, block.weights
    if layout.task == "classification":
        if not _are_codes(labels, len(levels.of.get(layout.target, ()))):
            return "it holds a class that there is not"
    elif not (np.abs(labels) <= MAX_TARGET).all():
        return "it holds a target that is too large"
    if weights is not None and not (np.isfinite(weights) & (weights >= 0.0)).all():
        return "it holds a weight that is negative or not finite"
    if block.table is None:
        return None
    if block.is_sparse:
        largest = float(np.abs(block.table.data).max(initial=0.0))
        return None if largest <= MAX_VALUE else "it holds a number that is too large"
    assert layout.names is not None
    ends = np.fmin.reduce(block.table, axis=0), np.fmax.reduce(block.table, axis=0)
    for place, name in enumerate(layout.names):
        if name in layout.categories:
            codes = block.table[:, place]
            if not _are_codes(codes[~np.isnan(codes)], len(levels.of.get(name, ()))):
                return f"it holds a text of the column {name!r} that there is not"
        elif max(-float(ends[0][place]), float(ends[1][place])) > MAX_VALUE:
            return f"it holds a number of the column {name!r} that is too large"
    return None


def _are_codes(numbers: np.ndarray, n_texts: int) -> bool:
    """Return whether all numbers are whole, and numbers of texts."""
    return bool(((numbers >= 0) & (numbers < n_texts) & (numbers == np.floor(numbers))).all())


def parsing_options(format: str, layout: Layout, reading: ReadingOptions) -> dict[str, Any]:
    """Return what decides how a file of named columns is parsed, as JSON values."""
    return {
        "format": format,
        "missing": [*reading.words],
        "merge": sorted(reading.all_merged),
        "names": [*(layout.names or ())],
        "categories": sorted(layout.categories),
        "target": layout.target,
        "task": layout.task,
        "weights": layout.weights,
    }


class BlockSource(Protocol):
    """A file that is parsed block by block.

    Attributes
    ----------
    layout : Layout
    options : dict
        JSON values: everything that decides how the file is parsed.
    n_bytes : int or None
        The end of the last span, for the progress; None if it is not known.
    """

    layout: Layout
    options: dict[str, Any]
    n_bytes: int | None

    def blocks(self, after: Span | None, levels: Levels, step: int) -> Iterator[RawBlock]:
        """Yield the blocks that follow a span, each of about `step` bytes; TableError for a line that is invalid."""
        ...

    def block(self, span: Span, levels: Levels) -> RawBlock:
        """Return the block at a span again."""
        ...


MAX_VALUE = 1e145
"""Largest absolute value of a feature. Sums of the squares of larger ones, over all rows, could overflow."""

Locate = Callable[[int], str]
"""Returns where a row of a block is, in words: file, line and byte."""


def narrow(values: np.ndarray) -> np.ndarray:
    """Return numbers in the smallest of int8, float32 and float64 that holds all of them exactly."""
    for dtype in (np.int8, np.float32):
        for part in (values[:64], values):  # most columns that do not fit show it early
            with np.errstate(invalid="ignore", over="ignore"):
                small = part.astype(dtype)
            same = small == part
            if dtype is np.float32:
                same |= np.isnan(part)
            if not same.all():
                break
        else:
            return small
    return values
