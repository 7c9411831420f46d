"""What the blocks of a cache hold: columns, labels and weights, and where each block lies in its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from mercer._typing import FloatArray
from mercer.tables.table import TableError

Task = Literal["classification", "regression"]
"""What the labels of blocks are: numbers of classes, or targets."""

MAX_LEVELS = 1_000_000
"""Largest number of different texts of a column; all of them are in memory."""


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


@dataclass
class Levels:
    """The different texts of columns of categories and of classes, numbered in the order of their appearance."""

    of: dict[str, dict[str, int]] = field(default_factory=dict)

    def number(self, name: str, texts: list[str]) -> np.ndarray:
        """Return the numbers of different texts of a column; unknown texts get the next numbers.

        Raises
        ------
        TableError
            If the column has more than a million different texts.
        """
        known = self.of.setdefault(name, {})
        numbers = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.float64)
        if len(known) > MAX_LEVELS:
            raise TableError(
                f"column {name!r} has more than {MAX_LEVELS:,} different texts, such as {texts[-1]!r}: it looks like "
                "an identifier of rows",
                f"drop={[name]!r} leaves it out",
            )
        return numbers

    def since(self, counts: dict[str, int]) -> dict[str, list[str]]:
        """Return the texts that were added since there were `counts` of them."""
        return {
            name: [*known][counts.get(name, 0) :] for name, known in self.of.items() if len(known) > counts.get(name, 0)
        }

    def add(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Add texts that `since` has returned; ValueError if they are invalid."""
        for name, some in texts.items():
            known = self.of.setdefault(name, {})
            for text in some:
                if not isinstance(text, str) or text in known:
                    raise ValueError(f"the texts of column {name!r} are invalid")
                known[text] = len(known)

    @property
    def counts(self) -> dict[str, int]:
        """Number of texts of each column."""
        return {name: len(known) for name, known in self.of.items()}


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
