"""The encoding of a table of mixed columns as a matrix: rules that are computed on training rows and then applied.

Missing numbers are replaced by the median, and numbers are standardised. Categories become one indicator per level, not
scaled: two rows with different levels then have squared distance 2, which is also the average in a standardised column.
Dates become parts of dates (:mod:`mercer.studies.tables.dates`). Free text (:mod:`mercer.studies.tables.free_text`) and
sequences (:mod:`mercer.studies.tables.sequences`) become weights of their words. The encoding does not use the target,
and is computed only from the rows given to `fit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy import sparse

from mercer.data import Table, TableError, as_table, check_choice, listing, nearest_names
from mercer.studies.tables.bit_strings import BitsRule
from mercer.studies.tables.column_encoding import encode_cells
from mercer.studies.tables.dates import DateRule
from mercer.studies.tables.free_text import TextRule
from mercer.studies.tables.missing import refuse_infinite, refuse_missing, rows_of
from mercer.studies.tables.rules import (
    CategoricalRule,
    Matrix,
    NumericRule,
    Rule,
    SparseRule,
    TransformRule,
    numeric_rules_of,
)
from mercer.studies.tables.sequences import SequenceRule

Missing = Literal["error", "impute"]
"""What an encoder does about missing cells: refuse or impute them."""

Kind = Literal["numbers", "categories", "text", "sequence", "bits", "dmy", "mdy", "ymd"]
"""What a column holds: numbers, categories, free text, sequences, strings of bits, or dates.

Dates have the day first (dmy), the month first (mdy), or are all read in one way only (ymd).
"""

MAX_LEVELS = 10_000
"""Largest number of levels of a column of categories that get an indicator; rarer levels are encoded as zeros."""

ALIKE = 0.8
"""Similarity of names (difflib, 0 to 1) from which a column is suggested for a missing one."""

DENSE_ENOUGH = 0.25
"""Share of nonzero cells from which a sparse block is treated (and standardised) as ordinary columns."""

_RULES: tuple[type[Rule], ...] = (NumericRule, CategoricalRule, DateRule, TextRule, SequenceRule, BitsRule)


class TableEncoder:
    """Encodes a table as a matrix by rules that `fit` computes on training rows.

    Parameters
    ----------
    missing : {"error", "impute"}, default="error"
        "impute" fills a missing number with the column's median and a missing text with its most frequent level;
        "error" refuses missing cells, naming the columns. (To drop rows instead, see
        `mercer.studies.tables.missing.complete_rows`.)
    max_levels : int, default=10000
        Largest number of levels of a column of categories that get an indicator.
    kinds : mapping of str to {"numbers", "categories", "text", "sequence", "bits", "dmy", "mdy", "ymd"}, optional
        What columns hold: free text, dates with the day or the month first in dates such as 3/4/2024, ...; by default,
        columns of text hold categories.

    Attributes
    ----------
    rules_ : tuple of Rule
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
    >>> from mercer.data.table import Table
    >>> table = Table(("age", "sex"), (np.array([20.0, 40.0]), np.array(["f", "m"], dtype=object)))
    >>> TableEncoder().fit(table).transform(table)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    """

    def __init__(
        self,
        *,
        missing: Missing = "error",
        max_levels: int = MAX_LEVELS,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        check_choice("missing", missing, get_args(Missing))
        self.missing = missing
        self.max_levels = max_levels
        self.kinds = {} if kinds is None else dict(kinds)
        for kind in self.kinds.values():
            check_choice("kinds", kind, get_args(Kind))

    def unfitted(self) -> Self:
        """Return an encoder with the same parameters that is not fitted."""
        return type(self)(missing=self.missing, max_levels=self.max_levels, kinds=self.kinds)

    def fit(self, table: Any) -> Self:
        """Compute the rules from all columns of a table or data frame.

        Raises
        ------
        TableError
            For an infinite number, for missing cells if `missing` is "error", for a cell that is not of the kind of its
            column, or if no column varies.
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
        kinds: dict[str, Kind] = {name: "numbers" if table.is_numeric(name) else "categories" for name in table.names}
        kinds |= self.kinds
        numbers = numeric_rules_of(table, [name for name in table.names if kinds[name] == "numbers"])
        rules = {name: numbers.get(name) or self._learn(table, name, kinds[name]) for name in table.names}
        self.constant_ = tuple(name for name, rule in rules.items() if rule is None)
        if self.dense_block_ is not None and from_one:  # a file that counts its features from 1 has no feature 0
            self.constant_ = tuple(name for name in self.constant_ if name != "0")
        self.rules_ = tuple(rule for rule in rules.values() if rule is not None)
        self.sparse_ = None if table.sparse is None else SparseRule.learn(table, width)
        if not self.rules_ and self.sparse_ is None:
            raise TableError("no column varies from row to row, so there is nothing to learn from")
        return self

    @classmethod
    def identity(cls, table: Table) -> Self:
        """Return the encoder that does not change the cells of a table of numbers."""
        encoder = cls()
        encoder.rules_ = tuple(NumericRule(name, 0.0, 0.0, 1.0, 0) for name in table.names)
        encoder.sparse_ = None if table.sparse is None else SparseRule(table.sparse.shape[1], 1.0)
        encoder.constant_, encoder.dense_block_ = (), None
        return encoder

    @property
    def is_identity(self) -> bool:
        """Whether the cells of a table of numbers stay what they are."""
        unchanged = tuple(NumericRule(rule.name, 0.0, 0.0, 1.0, 0) for rule in self.rules_)
        return self.rules_ == unchanged and (self.sparse_ is None or self.sparse_.scale == 1.0)

    def transform(self, table: Any) -> Matrix:
        """Return the encoded matrix, (n, number of features), float64.

        The matrix is CSR if the table has a sparse block, free text, or a column of more than 50 levels.

        Raises
        ------
        TableError
            If a column of the training table does not exist, holds other cells than in training, is infinite, or has
            missing cells although `missing` is "error".
        """
        table = self._matching(as_table(table))
        if self.missing == "error":
            refuse_missing(
                table, hint="fill them in, leave those rows out, or fit the model again with missing values imputed"
            )
        refuse_infinite(table)
        parts: list[Matrix] = []
        for _, group in groupby(self.rules_, lambda rule: isinstance(rule, TransformRule)):
            rules = [*group]
            cells = [rule for rule in rules if isinstance(rule, NumericRule | CategoricalRule)]
            parts += [encode_cells(cells, table)] if cells else []
            parts += [rule.encode(table) for rule in rules if isinstance(rule, TransformRule)]
        if self.sparse_ is not None:
            parts.append(self.sparse_.apply(table))
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.hstack(parts) if len(parts) > 1 else parts[0]
        return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts]))

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
            f"column {rule.name!r} has no word that the model knows from training in {rows_of(count, table.n_rows)}"
            for rule in self.rules_
            if isinstance(rule, TextRule) and rule.name in table and (count := rule.n_unknown(table))
        ]
        sentences += [
            f"column {rule.name!r} is empty in {rows_of(count, table.n_rows)}, and was in none in training; "
            f"{rule.substitute} stands in"
            for rule in self.rules_
            if self.missing == "impute"
            and not rule.n_missing
            and rule.name in table
            and (count := int(table.missing(rule.name).sum()))
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
        if self.missing == "error" and self.is_identity:
            return []
        sentences = [
            f"the encoding of column {rule.name!r} is {rule} in the file and {learnt} from the training rows"
            for rule in self.rules_
            if not rule.agrees(learnt := rule.learnt_again(rows, self.max_levels))
        ]
        if self.sparse_ is not None:
            block = SparseRule.learn(rows, self.sparse_.n_columns)
            if not self.sparse_.agrees(block):
                sentences.append(
                    f"the scale of the sparse block is {self.sparse_.scale:.9g} in the file and {block.scale:.9g} from "
                    "the training rows"
                )
        return sentences

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that have a rule."""
        return tuple(rule.name for rule in self.rules_)

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        named = [feature for rule in self.rules_ for feature in rule.features]
        return (*named, *(str(j) for j in range(self.sparse_.n_columns if self.sparse_ else 0)))

    @property
    def n_features_(self) -> int:
        """Number of encoded columns."""
        named = sum(rule.n_features for rule in self.rules_)
        return named + (self.sparse_.n_columns if self.sparse_ else 0)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that were text in training, and must be read as text again."""
        return tuple(rule.name for rule in self.rules_ if rule.reads_text)

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that were numbers in training."""
        return tuple(rule.name for rule in self.rules_ if isinstance(rule, NumericRule))

    def to_dict(self) -> dict[str, Any]:
        """Return all rules as plain data for a model file."""
        return {
            "missing": self.missing,
            "max_levels": self.max_levels,
            "constant": list(self.constant_),
            **{kind.entry: [rule.to_dict() for rule in self.rules_ if type(rule) is kind] for kind in _RULES},
            "order": [rule.name for rule in self.rules_],
            "dense_block": self.dense_block_,
            "sparse": None if self.sparse_ is None else asdict(self.sparse_),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the encoder that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        encoder = cls(missing=data["missing"], max_levels=int(data["max_levels"]))
        listed = [kind.from_dict(entry) for kind in _RULES for entry in data.get(kind.entry, ())]
        rules = {rule.name: rule for rule in listed}
        if len(rules) != len(listed):
            raise ValueError("a column is encoded twice")
        encoder.rules_ = tuple(rules[name] for name in data["order"])
        encoder.constant_ = tuple(str(name) for name in data["constant"])
        block, width = data["sparse"], data["dense_block"]
        encoder.sparse_ = None if block is None else SparseRule(int(block["n_columns"]), float(block["scale"]))
        encoder.dense_block_ = None if width is None else SparseRule(int(width), 1.0).n_columns
        return encoder

    def _learn(self, table: Table, name: str, kind: Kind) -> Rule | None:
        """Return the rule of a column of no numbers from these training rows; None if the column does not vary."""
        if kind == "numbers":
            return None
        if kind == "categories":
            return CategoricalRule.learn(table, name, self.max_levels)
        if kind == "text" or kind == "sequence":
            return (TextRule if kind == "text" else SequenceRule).learn(table, name)
        return BitsRule.learn(table, name) if kind == "bits" else DateRule.learn(table, name, kind)

    def _matching(self, table: Table) -> Table:
        """Return the columns that the rules need, in the order of the rules."""
        needed = [rule.name for rule in self.rules_]
        refuse_infinite(table.select([]))  # the sparse block
        if self.dense_block_ is not None and table.sparse is not None:
            table = table.densified(self.dense_block_)
        if self.sparse_ is not None and table.sparse is None:
            raise TableError(
                f"the model was trained on a sparse table with features up to number {self.sparse_.n_columns - 1}, "
                f"this table has {len(table.names)} named columns",
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


def _used_width(table: Table) -> int:
    """Return the number of columns of the sparse block up to the last column that has a nonzero value."""
    return 0 if table.sparse is None else int(table.sparse.indices[table.sparse.data != 0].max(initial=-1)) + 1
