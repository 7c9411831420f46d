"""Rules by which columns are encoded: what they share, and the rules of numbers, of categories and of sparse blocks.

A rule is computed on training rows, and then applied to any rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy import sparse

from mercer.data import MAX_FEATURES, Table, TableError, text_cells
from mercer.studies.tables.learning import SeenColumns
from mercer.studies.tables.missing import rows_of_entries
from mercer.studies.tables.number_text import number_of

Matrix: TypeAlias = np.ndarray | sparse.csr_array
"""Encoded columns."""

MISSING_SHARE = 0.05
"""Share of missing cells in the training rows from which a column of its own says which cells are missing."""

MAX_DENSE_LEVELS = 50
"""Largest number of levels whose indicators are stored with their zeros; more are stored as sparse columns."""

MAX_MAGNITUDE = 1e100
"""Largest allowed size of a standardised number; its powers do not overflow."""

_BLOCK_CELLS = 1 << 20  # cells of columns that are learnt at once: 8 MiB
_SAME = 1e-9  # relative difference up to which two means or scales are equal up to rounding


class Rule(ABC):
    """How one column of a table is encoded.

    Attributes
    ----------
    name : str
        The column.
    n_missing : int
        Missing cells in the training rows.
    indicator : bool
        Whether a column of its own says which cells are missing (1 for a missing cell, otherwise 0).
    """

    entry: ClassVar[str]  # where a model file lists such rules
    reads_text: ClassVar[bool] = True  # whether the cells must be read as text

    name: str
    n_missing: int
    indicator: bool

    @property
    @abstractmethod
    def values(self) -> list[str]:
        """Names of the encoded columns, except the indicator of missing cells."""

    @property
    @abstractmethod
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""

    @abstractmethod
    def learnt_again(self, table: Table, max_levels: int) -> Rule | None:
        """Return the rule of this kind that is computed from these training rows; None if the column is constant."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""

    def agrees(self, other: Rule | None) -> bool:
        """Return whether another rule is the same, up to rounding of sums."""
        return self == other

    @property
    def features(self) -> list[str]:
        """Names of the encoded columns."""
        return [*self.values, f"{self.name} is missing"] if self.indicator else self.values

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return len(self.features)


class TransformRule(Rule):
    """A rule that encodes its column by itself: of dates, and of free text."""

    @abstractmethod
    def apply(self, table: Table) -> Matrix:
        """Return the encoded columns, except the indicator of missing cells."""

    def encode(self, table: Table) -> Matrix:
        """Return the encoded columns of these rows, (n, n_features)."""
        values = self.apply(table)
        if not self.indicator:
            return values
        missing = table.missing(self.name)[:, None].astype(np.float64)
        if isinstance(values, np.ndarray):
            return np.hstack([values, missing])
        return sparse.csr_array(sparse.hstack([values, sparse.csr_array(missing)]))


def has_indicator(n_missing: int, n_rows: int) -> bool:
    """Return whether so many missing cells in the training rows get a column of their own."""
    return n_missing > 0 and n_missing >= MISSING_SHARE * n_rows


def same_scale(mean: float, scale: float, other_mean: float, other_scale: float) -> bool:
    """Return whether two means and standard deviations of a column are equal up to rounding."""
    room = _SAME * max(other_scale, abs(other_mean))
    return abs(mean - other_mean) <= room and abs(scale - other_scale) <= room


@dataclass(frozen=True)
class NumericRule(Rule):
    """The rule of a column of numbers: its median, mean and standard deviation in the training rows."""

    entry = "numeric"
    reads_text = False

    name: str
    fill: float
    mean: float
    scale: float
    n_missing: int
    indicator: bool = False

    def learnt_again(self, table: Table, max_levels: int) -> NumericRule | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        rule = numeric_rules_of(table, [self.name]).get(self.name)
        return None if rule is None else replace(rule, indicator=self.indicator)

    def agrees(self, other: Rule | None) -> bool:
        """Return whether another rule is the same, up to rounding of sums."""
        return isinstance(other, NumericRule) and (
            (self.n_missing, self.fill, self.indicator) == (other.n_missing, other.fill, other.indicator)
            and same_scale(self.mean, self.scale, other.mean, other.scale)
        )

    @property
    def values(self) -> list[str]:
        """Names of the encoded columns, except the indicator of missing cells."""
        return [self.name]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return f"the median {self.fill:.6g}"

    def cells(self, table: Table) -> np.ndarray:
        """Return the numbers of the column, (n,); NaN for a missing cell."""
        return _numbers(table, self.name)

    def refuse_huge(self, table: Table) -> None:
        """Raise a TableError for a cell that is too large to compute with."""
        column = self.cells(table)
        with np.errstate(over="ignore"):
            huge = np.flatnonzero(np.abs((column - self.mean) / self.scale) > MAX_MAGNITUDE)
        if huge.size:
            (row,) = table.row_numbers(huge[:1])
            raise TableError(
                f"column {self.name!r} holds {column[huge[0]]:g} in row {row}, which is too large to compute with: the "
                f"training rows have mean {self.mean:.3g} and standard deviation {self.scale:.3g}",
                "mend the cell, or leave the row out",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        fill, mean, scale = (float(data[key]) for key in ("fill", "mean", "scale"))
        if not all(map(math.isfinite, (fill, mean, scale))) or scale <= 0:
            raise ValueError(f"column {data['name']!r} has a scale or fill value that is no number")
        return cls(str(data["name"]), fill, mean, scale, int(data["n_missing"]), flag(data["indicator"]))


def numeric_rules(names: Mapping[int, str], seen: SeenColumns, *, scale: bool = True) -> dict[int, NumericRule]:
    """Return the rules of columns of numbers by their places; a column without numbers has no rule.

    Without `scale`, numbers are used as they are; otherwise constant columns have no rule.
    """
    places = np.array([place for place in names if seen.n_missing[place] < seen.n_rows], dtype=np.int64)
    fills = seen.medians(places)
    means, scales = seen.means_and_scales(places, fills) if scale else (np.zeros(len(fills)), np.ones(len(fills)))
    return {
        place: NumericRule(
            names[place],
            float(fills[place]),
            float(means[place]),
            float(scales[place]),
            int(seen.n_missing[place]),
            has_indicator(int(seen.n_missing[place]), seen.n_rows),
        )
        for place in places.tolist()
        if scales[place] > 0.0
    }


def numeric_rules_of(table: Table, names: Sequence[str]) -> dict[str, NumericRule]:
    """Return the rules of columns of numbers of a table in memory, its only block; constant columns have no rule."""
    rules, step = dict[str, NumericRule](), max(1, _BLOCK_CELLS // max(1, table.n_rows))
    for some in (names[first : first + step] for first in range(0, len(names), step)):
        block = np.array([_numbers(table, name) for name in some]).T
        seen = SeenColumns.of([block].__iter__, len(some))
        rules |= {rule.name: rule for rule in numeric_rules(dict(enumerate(some)), seen).values()}
    return rules


@dataclass(frozen=True)
class CategoricalRule(Rule):
    """The rule of a column of categories: its levels in the training rows, most frequent first.

    `n_levels` is the number of levels in the training rows, of which the most frequent have an indicator.
    """

    entry = "categorical"

    name: str
    levels: tuple[str, ...]
    n_levels: int
    n_missing: int
    indicator: bool = False

    @classmethod
    def learn(cls, table: Table, name: str, max_levels: int) -> Self | None:
        """Return the rule of these training rows; None if there are fewer than two levels."""
        counts = Counter(cell for cell in text_cells(table[name]) if cell is not None)
        return cls.of_counts(name, counts, table.n_rows, max_levels)

    @classmethod
    def of_counts(cls, name: str, counts: Mapping[str, int], n_rows: int, max_levels: int) -> Self | None:
        """Return the rule of rows with these counts of texts; None if there are fewer than two levels."""
        counts_of_texts = {text: count for text, count in counts.items() if count}
        if len(counts_of_texts) < 2:
            return None
        levels = tuple(sorted(counts_of_texts, key=lambda level: (-counts_of_texts[level], level))[:max_levels])
        n_missing = n_rows - sum(counts_of_texts.values())
        return cls(name, levels, len(counts_of_texts), n_missing, has_indicator(n_missing, n_rows))

    def learnt_again(self, table: Table, max_levels: int) -> Self | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        rule = self.learn(table, self.name, max_levels)
        return None if rule is None else replace(rule, indicator=self.indicator)

    @property
    def values(self) -> list[str]:
        """Names of the encoded columns, except the indicator of missing cells."""
        return [f"{self.name}={level}" for level in self.levels]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return "none of its values" if self.indicator else f"the most frequent value {self.levels[0]!r}"

    def cells(self, table: Table) -> np.ndarray:
        """Return the place of each cell among the levels, (n,); their number for another text, NaN if it is missing."""
        place = {level: float(place) for level, place in self._places.items()} | {None: np.nan}
        return np.array([place.get(cell, len(self.levels)) for cell in text_cells(table[self.name])], dtype=np.float64)

    def level_places(self, codes: Mapping[str, int] | None = None) -> np.ndarray:
        """Return the place of each code of a text among the levels, -1 for none, and last that of a missing cell.

        Without codes, those are of `cells`. An unknown level has zeros only. A missing cell counts as the first level,
        unless it has an indicator.
        """
        codes, n_codes = (self._places, len(self.levels) + 1) if codes is None else (codes, len(codes))
        places = np.full(n_codes + 1, -1, dtype=np.int64)
        places[[codes[level] for level in self.levels]] = np.arange(len(self.levels))
        places[-1] = -1 if self.indicator else 0
        return places

    @property
    def _places(self) -> dict[str, int]:
        return {level: place for place, level in enumerate(self.levels)}

    def unseen(self, table: Table) -> Counter[str]:
        """Return the cells that are not levels, with counts; empty if some training levels were not kept."""
        if self.n_levels > len(self.levels):
            return Counter()
        levels = {None, *self.levels}
        return Counter(cell for cell in text_cells(table[self.name]) if cell not in levels)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return asdict(self) | {"levels": list(self.levels)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        levels = tuple(str(level) for level in data["levels"])
        return cls(str(data["name"]), levels, int(data["n_levels"]), int(data["n_missing"]), flag(data["indicator"]))


@dataclass(frozen=True)
class SparseRule:
    """The rule of a sparse block: its width, and the number that all its values are divided by.

    After division, the mean squared length of a training row is 1. A single number keeps the proportions of the
    columns, which prepared sparse features (word weights, indicators) need.
    """

    n_columns: int
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.n_columns <= MAX_FEATURES:
            raise ValueError(f"a sparse block must have 1 to {MAX_FEATURES} columns, got {self.n_columns!r}")

    @classmethod
    def learn(cls, table: Table, width: int) -> Self:
        """Return the rule of these training rows for a block of this width."""
        assert table.sparse is not None
        values = table.sparse.data
        size = float(np.abs(values).max(initial=0.0))
        if size == 0:
            raise TableError("all sparse features are zero, so there is nothing to learn from")
        return cls(width, float(np.sqrt(((values / size) ** 2).sum() / table.n_rows) * size))

    def agrees(self, other: SparseRule) -> bool:
        """Return whether another rule is the same, up to rounding of sums."""
        return self.n_columns == other.n_columns and math.isclose(self.scale, other.scale, rel_tol=_SAME)

    def apply(self, table: Table) -> sparse.csr_array:
        """Return the block in the width of training, divided by the scale; further features are dropped."""
        assert table.sparse is not None
        block = table.sparse if table.sparse.shape[1] <= self.n_columns else table.sparse[:, : self.n_columns]
        with np.errstate(over="ignore"):
            scaled = np.divide(block.data, self.scale, dtype=np.float64)  # the data may be float32
        huge = np.flatnonzero(~(np.abs(scaled) <= MAX_MAGNITUDE))
        if huge.size:
            (row,) = table.row_numbers(rows_of_entries(block, huge[:1]))
            raise TableError(
                f"feature {block.indices[huge[0]]} is {block.data[huge[0]]:g} in row {row}, which is too large to "
                f"compute with: in the training rows the root mean square length is {self.scale:.3g}",
                "mend the cell, or leave the row out",
            )
        wide = sparse.csr_array((scaled, block.indices, block.indptr), (block.shape[0], self.n_columns))
        wide.sum_duplicates()
        return wide


def flag(value: object) -> bool:
    """Return a value of a model file that must be true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _numbers(table: Table, name: str) -> np.ndarray:
    """Return the column as float64, booleans as 1 and 0; TableError with row and value for text."""
    column = table[name]
    if name in table.booleans:
        return np.array([np.nan if cell is None else float(cell == "True") for cell in column])
    if column.dtype == object:
        numbers = np.full(len(column), np.nan)
        for row, cell in enumerate(column):
            number = number_of(cell, table.reading.decimal or ".")
            if cell is not None and number is None:
                raise TableError(
                    f"column {name!r} must hold numbers, as it did in training, but row {table.row_numbers([row])[0]} "
                    f"holds {cell!r}"
                )
            numbers[row] = np.nan if number is None else number
        column = numbers
    return column
