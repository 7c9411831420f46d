"""The encoding of a table of mixed columns as a matrix: rules that are computed on training rows and then applied.

Missing numbers are replaced by the median, and numbers are standardised. Text becomes one indicator per level, not
scaled: two rows with different levels then have squared distance 2, which is also the average in a standardised column.
The encoding does not use the target, and is computed only from the rows given to `fit`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy import sparse

from mercer.data.arguments import check_choice
from mercer.data.phrasing import listing, nearest_names
from mercer.tables.missing import refuse_infinite, refuse_missing, rows_of, rows_of_entries
from mercer.tables.table import MAX_FEATURES, Table, TableError, as_table, text_cells

Missing = Literal["error", "impute"]
"""What an encoder does about missing cells: refuse or impute them."""

MAX_LEVELS = 50
"""Largest number of levels of a text column that get an indicator; rarer levels are encoded as zeros."""

_SAME = 1e-9  # relative difference up to which two means or scales are equal up to rounding

ALIKE = 0.8
"""Similarity of names (difflib, 0 to 1) from which a column is suggested for a missing one."""

MAX_MAGNITUDE = 1e100
"""Largest allowed size of a standardised number; its powers do not overflow."""

DENSE_ENOUGH = 0.25
"""Share of nonzero cells from which a sparse block is treated (and standardised) as ordinary columns."""


@dataclass(frozen=True)
class NumericRule:
    """The rule of a column of numbers: its median, mean and standard deviation in the training rows."""

    name: str
    fill: float
    mean: float
    scale: float
    n_missing: int

    @property
    def features(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return f"the median {self.fill:.6g}"

    def apply(self, table: Table) -> np.ndarray:
        """Return a matrix (n, 1): missing cells filled in, mean subtracted, divided by the standard deviation."""
        column = _numbers(table, self.name)
        with np.errstate(over="ignore"):
            scaled = (np.where(np.isnan(column), self.fill, column) - self.mean) / self.scale
        huge = np.flatnonzero(~(np.abs(scaled) <= MAX_MAGNITUDE))
        if huge.size:
            (row,) = table.row_numbers(huge[:1])
            raise TableError(
                f"column {self.name!r} holds {column[huge[0]]:g} in row {row}, which is too large to "
                f"compute with: the training rows have mean {self.mean:.3g} and standard deviation {self.scale:.3g}",
                "mend the cell, or leave the row out",
            )
        return scaled[:, None]


@dataclass(frozen=True)
class CategoricalRule:
    """The rule of a column of text: its levels in the training rows, most frequent first."""

    name: str
    levels: tuple[str, ...]
    n_levels: int
    n_missing: int

    @property
    def features(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name}={level}" for level in self.levels]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return f"the most frequent value {self.levels[0]!r}"

    def apply(self, table: Table) -> np.ndarray:
        """Return a 0/1 matrix (n, n_levels); a missing cell counts as the first level, an unknown level as zeros."""
        position = {level: j for j, level in enumerate(self.levels)} | {None: 0}
        codes = np.array([position.get(cell, -1) for cell in text_cells(table[self.name])])
        return (codes[:, None] == np.arange(len(self.levels))).astype(np.float64)

    def unseen(self, table: Table) -> Counter[str]:
        """Return the cells that are not levels, with counts; empty if some training levels were not kept."""
        if self.n_levels > len(self.levels):
            return Counter()
        return Counter(cell for cell in text_cells(table[self.name]) if cell is not None and cell not in self.levels)


@dataclass(frozen=True)
class SparseRule:
    """The rule of a sparse block: its width, and the number that all its values are divided by.

    After division, the mean squared length of a training row is 1. A single number keeps the proportions of the
    columns, which prepared sparse features (word weights, indicators) need.
    """

    n_columns: int
    scale: float

    def apply(self, table: Table) -> sparse.csr_array:
        """Return the block in the width of training, divided by the scale; further features are dropped."""
        assert table.sparse is not None
        block = table.sparse if table.sparse.shape[1] <= self.n_columns else table.sparse[:, : self.n_columns]
        with np.errstate(over="ignore"):
            scaled = block.data / self.scale
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


class TableEncoder:
    """Encodes a table as a matrix by rules that `fit` computes on training rows.

    Parameters
    ----------
    missing : {"error", "impute"}, default="error"
        "impute" fills a missing number with the column's median and a missing text with its most frequent level;
        "error" refuses missing cells, naming the columns. (To drop rows instead, see
        `mercer.tables.missing.complete_rows`.)
    max_levels : int, default=50
        Largest number of levels of a text column that get an indicator.

    Attributes
    ----------
    rules_ : tuple of NumericRule or CategoricalRule
        One rule for each used column, in the table's order.
    sparse_ : SparseRule or None
        The rule of the sparse block, if there is one.
    dense_block_ : int or None
        Width of a sparse block that has so few zeros that its columns are treated as named ones.
    constant_ : tuple of str
        Columns that are not used because they have only one value (or no value).
    feature_names_ : tuple of str
        Names of the encoded columns; columns of a sparse block are named by their numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.tables.table import Table
    >>> table = Table(("age", "sex"), (np.array([20.0, 40.0]), np.array(["f", "m"], dtype=object)))
    >>> TableEncoder().fit(table).transform(table)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    """

    def __init__(self, *, missing: Missing = "error", max_levels: int = MAX_LEVELS) -> None:
        check_choice("missing", missing, get_args(Missing))
        self.missing = missing
        self.max_levels = max_levels

    def unfitted(self) -> Self:
        """Return an encoder with the same parameters that is not fitted."""
        return type(self)(missing=self.missing, max_levels=self.max_levels)

    def fit(self, table: Any) -> Self:
        """Compute the rules from all columns of a table or data frame.

        Raises
        ------
        TableError
            For an infinite number, for missing cells if `missing` is "error", or if no column varies.
        """
        table = as_table(table)
        refuse_infinite(table)
        self.dense_block_ = None
        from_one = table.sparse is not None and not table.sparse[:, [0]].nnz
        width = _used_width(table)
        if table.sparse is not None and table.sparse.nnz >= DENSE_ENOUGH * max(1, table.n_rows * width):
            self.dense_block_ = width
            table = table.densified(width)
        if self.missing == "error":
            refuse_missing(table)
        rules = {name: self._learn(table, name) for name in table.names}
        self.constant_ = tuple(name for name, rule in rules.items() if rule is None)
        if self.dense_block_ is not None and from_one:  # a file that counts its features from 1 has no feature 0
            self.constant_ = tuple(name for name in self.constant_ if name != "0")
        self.rules_ = tuple(rule for rule in rules.values() if rule is not None)
        self.sparse_ = None if table.sparse is None else _learn_sparse(table, width)
        if not self.rules_ and self.sparse_ is None:
            raise TableError("no column varies from row to row, so there is nothing to learn from")
        return self

    @classmethod
    def identity(cls, table: Table) -> Self:
        """Return the encoder that does not change the cells of a table of numbers."""
        encoder = cls()
        encoder.rules_ = tuple(NumericRule(name, 0.0, 0.0, 1.0, 0) for name in table.names)
        encoder.sparse_ = None if table.sparse is None else SparseRule(_width(table.sparse.shape[1]), 1.0)
        encoder.constant_, encoder.dense_block_ = (), None
        return encoder

    def transform(self, table: Any) -> np.ndarray | sparse.csr_array:
        """Return the encoded matrix, (n, number of features), float64; CSR if the table has a sparse block.

        Raises
        ------
        TableError
            If a column of the training table does not exist, holds text instead of numbers, is infinite, or has missing
            cells although `missing` is "error".
        """
        table = self._matching(as_table(table))
        if self.missing == "error":
            refuse_missing(
                table, hint="fill them in, leave those rows out, or fit the model again with missing values imputed"
            )
        refuse_infinite(table)
        parts = [rule.apply(table) for rule in self.rules_]
        if self.sparse_ is None or table.sparse is None:
            return np.hstack(parts)
        block = self.sparse_.apply(table)
        return sparse.csr_array(sparse.hstack([*map(sparse.csr_array, parts), block])) if parts else block

    def unseen(self, table: Any) -> dict[str, Counter[str]]:
        """Return the text columns with values that no training row has, and how often each value occurs."""
        table = as_table(table)
        rules = [rule for rule in self.rules_ if isinstance(rule, CategoricalRule) and rule.name in table]
        return {rule.name: counts for rule in rules if (counts := rule.unseen(table))}

    def describe_unseen(self, table: Any) -> list[str]:
        """Return a sentence for each column whose cells are unlike those of the training rows.

        These columns have values that no training row has, and that have no encoding, or missing cells although no cell
        was missing in training.
        """
        table = as_table(table)
        sentences = []
        for column, counts in self.unseen(table).items():
            examples = ", ".join(repr(cell) for cell, _ in counts.most_common(3)) + (", ..." if len(counts) > 3 else "")
            sentences.append(
                f"column {column!r} holds {examples} in {counts.total()} of {table.n_rows} rows, which the model does "
                "not know from training; they count as none of the values that it knows"
            )
        sentences += [
            f"column {rule.name!r} is empty in {rows_of(count, table.n_rows)}, and was in none in training; "
            f"{rule.substitute} stands in"
            for rule in self.rules_
            if not rule.n_missing and rule.name in table and (count := int(table.missing(rule.name).sum()))
        ]
        width = self.dense_block_ if self.sparse_ is None else self.sparse_.n_columns
        if width is not None and _used_width(table) > width:
            assert table.sparse is not None
            n_rows = np.count_nonzero(np.diff(table.sparse[:, width:].indptr))
            sentences.append(
                f"features beyond number {width - 1} occur in {n_rows} of {table.n_rows} rows, which the model does "
                "not know from training; they are not used"
            )
        return sentences

    def disagreements(self, rows: Table) -> list[str]:
        """Return a sentence for each rule that differs from the rule computed from these training rows.

        For data given as arrays, the encoding does not change the columns, and its rules do not depend on the rows.
        Such an encoding refuses missing cells, so an encoding that imputes missing cells is always computed again.
        """
        if self.missing == "error" and self.rules_ == tuple(
            NumericRule(rule.name, 0.0, 0.0, 1.0, 0) for rule in self.rules_
        ):
            scale = 1.0 if self.sparse_ is None else self.sparse_.scale
            if scale == 1.0:
                return []
        sentences = [
            f"the encoding of column {rule.name!r} is {rule} in the file and {learnt} from the training rows"
            for rule in self.rules_
            if not _agree(rule, learnt := self._learn(rows, rule.name))
        ]
        if self.sparse_ is not None:
            block = _learn_sparse(rows, self.sparse_.n_columns)
            if not math.isclose(block.scale, self.sparse_.scale, rel_tol=_SAME):
                sentences.append(
                    f"the scale of the sparse block is {self.sparse_.scale:.9g} in the file and {block.scale:.9g} from "
                    "the training rows"
                )
        return sentences

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        named = [feature for rule in self.rules_ for feature in rule.features]
        return (*named, *(str(j) for j in range(self.sparse_.n_columns if self.sparse_ else 0)))

    @property
    def n_features_(self) -> int:
        """Number of encoded columns."""
        named = sum(len(rule.levels) if isinstance(rule, CategoricalRule) else 1 for rule in self.rules_)
        return named + (self.sparse_.n_columns if self.sparse_ else 0)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that were text in training, and must be read as text again."""
        return tuple(rule.name for rule in self.rules_ if isinstance(rule, CategoricalRule))

    def to_dict(self) -> dict[str, Any]:
        """Return all rules as plain data for a model file."""
        return {
            "missing": self.missing,
            "max_levels": self.max_levels,
            "constant": list(self.constant_),
            "numeric": [asdict(rule) for rule in self.rules_ if isinstance(rule, NumericRule)],
            "categorical": [
                asdict(rule) | {"levels": list(rule.levels)}
                for rule in self.rules_
                if isinstance(rule, CategoricalRule)
            ],
            "order": [rule.name for rule in self.rules_],
            "dense_block": self.dense_block_,
            "sparse": None if self.sparse_ is None else asdict(self.sparse_),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the encoder that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        encoder = cls(missing=data["missing"], max_levels=int(data["max_levels"]))
        rules: dict[str, NumericRule | CategoricalRule] = {}
        for numeric in data["numeric"]:
            numbers = {key: float(numeric[key]) for key in ("fill", "mean", "scale")}
            if not all(map(np.isfinite, numbers.values())) or numbers["scale"] <= 0:
                raise ValueError(f"column {numeric['name']!r} has a scale or fill value that is no number")
            rules[numeric["name"]] = NumericRule(str(numeric["name"]), **numbers, n_missing=int(numeric["n_missing"]))
        for text in data["categorical"]:
            levels = tuple(str(level) for level in text["levels"])
            rules[text["name"]] = CategoricalRule(
                str(text["name"]), levels, int(text["n_levels"]), int(text["n_missing"])
            )
        encoder.rules_ = tuple(rules[name] for name in data["order"])
        encoder.constant_ = tuple(str(name) for name in data["constant"])
        encoder.dense_block_ = None if data["dense_block"] is None else _width(data["dense_block"])
        block = data["sparse"]
        encoder.sparse_ = None if block is None else SparseRule(_width(block["n_columns"]), float(block["scale"]))
        return encoder

    def _learn(self, table: Table, name: str) -> NumericRule | CategoricalRule | None:
        missing = table.missing(name)
        n_missing = int(missing.sum())
        if table.is_numeric(name):
            column = _numbers(table, name)
            known = column[~missing]
            if not known.size or known.min() == known.max():
                return None
            fill = float(np.median(known))
            filled = np.where(missing, fill, column)
            # Dividing by the largest magnitude first avoids overflow and underflow of the squares.
            size = float(np.abs(filled).max())
            mean, scale = float((filled / size).mean() * size), float((filled / size).std() * size)
            return NumericRule(name, fill, mean, scale, n_missing) if scale > 0 else None
        counts = Counter(cell for cell in table[name] if cell is not None)
        if len(counts) < 2:
            return None
        levels = sorted(counts, key=lambda level: (-counts[level], level))[: self.max_levels]
        return CategoricalRule(name, tuple(levels), len(counts), n_missing)

    def _matching(self, table: Table) -> Table:
        """Return the columns that the rules need, in the order of the rules."""
        needed = [rule.name for rule in self.rules_]
        refuse_infinite(table.select([]))  # the sparse block
        if self.dense_block_ is not None and table.sparse is not None:
            table = table.densified(self.dense_block_)
        if self.sparse_ is not None and table.sparse is None:
            raise TableError(
                f"the model was trained on a sparse table of {self.sparse_.n_columns} features, this table has "
                f"{len(table.names)} named columns",
                hint="give a file in svmlight format",
            )
        absent = [name for name in needed if name not in table]
        if absent:
            near = [match for name in absent for match in nearest_names(name, table.names, ALIKE)]
            raise TableError(
                f"the table lacks {len(absent)} of the {len(needed)} columns that the model needs: {listing(absent)}",
                hint=f"it does have {listing(near)}" if near else None,
            )
        return table.select(needed)


def _agree(rule: NumericRule | CategoricalRule, learnt: NumericRule | CategoricalRule | None) -> bool:
    """Return whether two rules of a column are the same, up to rounding of sums."""
    if not isinstance(rule, NumericRule) or not isinstance(learnt, NumericRule):
        return rule == learnt
    unit = max(learnt.scale, abs(learnt.mean))
    return (
        rule.n_missing == learnt.n_missing
        and rule.fill == learnt.fill
        and abs(rule.mean - learnt.mean) <= _SAME * unit
        and abs(rule.scale - learnt.scale) <= _SAME * unit
    )


def _numbers(table: Table, name: str) -> np.ndarray:
    """Return the column as float64; TableError with row and value for text."""
    column = table[name]
    if column.dtype == object:
        numbers = np.full(len(column), np.nan)
        for row, cell in enumerate(column):
            try:
                numbers[row] = np.nan if cell is None else float(cell)
            except ValueError:
                (number,) = table.row_numbers([row])
                raise TableError(
                    f"column {name!r} must hold numbers, as it did in training, but row {number} holds {cell!r}"
                ) from None
        column = numbers
    return column


def _width(value: int) -> int:
    if not 0 < value <= MAX_FEATURES:
        raise ValueError(f"a sparse block must have 1 to {MAX_FEATURES} columns, got {value!r}")
    return int(value)


def _used_width(table: Table) -> int:
    """Return the number of columns of the sparse block up to the last column that has a nonzero value."""
    return 0 if table.sparse is None else int(table.sparse.indices[table.sparse.data != 0].max(initial=-1)) + 1


def _learn_sparse(table: Table, width: int) -> SparseRule:
    assert table.sparse is not None
    values = table.sparse.data
    size = float(np.abs(values).max(initial=0.0))
    if size == 0:
        raise TableError("all sparse features are zero, so there is nothing to learn from")
    return SparseRule(_width(width), float(np.sqrt(((values / size) ** 2).sum() / table.n_rows) * size))
