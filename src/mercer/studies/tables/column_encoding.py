"""The encoding of rows of numbers and codes by the rules of their columns: in memory, and in blocks of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import sparse

from mercer.data import Table
from mercer.studies.tables.rules import MAX_DENSE_LEVELS, MAX_MAGNITUDE, CategoricalRule, Matrix, NumericRule

_LONG_ROW = 1 << 10  # numbers that are encoded in one run
_STEP = 1 << 13  # rows of a table in memory that are encoded at once

EncodedColumn: TypeAlias = tuple[int, NumericRule | CategoricalRule, np.ndarray | None]
"""The place of a column in the raw rows, its rule, and the place of each of its codes among the levels (-1: none).

The last code is that of a missing cell. Numbers have no codes.
"""


@dataclass(frozen=True, eq=False)
class ColumnEncoding:
    """Encodes rows whose columns are numbers, and codes of categories; NaN is a missing cell.

    Attributes
    ----------
    columns : tuple of EncodedColumn
    """

    columns: tuple[EncodedColumn, ...]

    @cached_property
    def p(self) -> int:
        """Number of encoded columns."""
        return sum(rule.n_features for _, rule, _ in self.columns)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether encoded rows are CSR: if a column has many levels."""
        return any(
            isinstance(rule, CategoricalRule) and len(rule.levels) > MAX_DENSE_LEVELS for _, rule, _ in self.columns
        )

    def encode_columns(self, columns: Sequence[np.ndarray]) -> Matrix:
        """Return all encoded rows of a table in memory, whose rows are stacked in small parts."""
        n = len(columns[0])
        steps = [slice(first, first + _STEP) for first in range(0, max(1, n), _STEP)]
        parts = (self.encode(np.column_stack([column[step] for column in columns])) for step in steps)
        if len(steps) == 1:
            return next(parts)
        if self.is_sparse:
            return sparse.csr_array(sparse.vstack([*parts]))
        encoded = np.empty((n, self.p))
        for step, part in zip(steps, parts, strict=True):
            encoded[step] = part
        return encoded

    def encode(self, raw: np.ndarray) -> Matrix:
        """Return the encoded rows, in C order or canonical CSR."""
        gone = _missing(raw)
        if self.is_unchanged and gone is None:
            return raw[:, : self.p]  # constant columns of categories may be behind the numbers
        if not self.is_sparse and len(self._numbers[0]) == self.p:
            return self._standardised(raw, gone)
        return self._entries(raw, gone)

    def _entries(self, raw: np.ndarray, gone: np.ndarray | None) -> Matrix:
        """Return encoded rows of which some columns are categories or have missing cells.

        Each column has one entry in each row, and one more if an indicator says which cells are missing.
        """
        m = len(raw)
        n_entries = len(self.columns) + sum(rule.indicator for _, rule, _ in self.columns)
        values, places = np.empty((m, n_entries)), np.empty((m, n_entries), dtype=np.int64)
        standardised = self._standardised(raw, gone)
        entry = first = number = 0
        for place, rule, level_places in self.columns:
            lost = None if gone is None else gone[:, place]
            if level_places is None:
                values[:, entry], places[:, entry] = standardised[:, number], first
                number, width = number + 1, 1
            else:
                assert isinstance(rule, CategoricalRule)
                cells = raw[:, place] if lost is None else np.where(lost, len(level_places) - 1, raw[:, place])
                codes = level_places[cells.astype(np.int64)]
                values[:, entry], places[:, entry] = codes >= 0, first + np.maximum(codes, 0)
                width = len(rule.levels)
            entry, first = entry + 1, first + width
            if rule.indicator:
                values[:, entry], places[:, entry] = 0.0 if lost is None else lost, first
                entry, first = entry + 1, first + 1
        if self.is_sparse:
            is_nonzero = values != 0.0
            starts = np.concatenate([[0], np.cumsum(np.count_nonzero(is_nonzero, axis=1))])
            return sparse.csr_array((values[is_nonzero], places[is_nonzero], starts), (m, self.p))
        encoded = np.zeros((m, self.p))
        np.put_along_axis(encoded, places, values, axis=1)
        return encoded

    @cached_property
    def is_unchanged(self) -> bool:
        """Whether the cells are numbers that are used as they are."""
        places, _, means, scales = self._numbers
        return places.tolist() == list(range(self.p)) and not means.any() and bool((scales == 1.0).all())

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, ...]:
        """Places of the columns of numbers in the raw rows, and what their rules fill in, subtract and divide by."""
        rules = [(place, rule) for place, rule, _ in self.columns if isinstance(rule, NumericRule)]
        parts = np.array([(rule.fill, rule.mean, rule.scale) for _, rule in rules]).reshape(-1, 3)
        return np.array([place for place, _ in rules], dtype=np.int64), *parts.T.copy()

    def _standardised(self, raw_rows: np.ndarray, gone: np.ndarray | None) -> np.ndarray:
        """Return the encoded numbers of raw rows; `gone` says which of their cells are missing."""
        places, fills, means, scales = self._numbers
        raw = raw_rows if len(places) == raw_rows.shape[1] else raw_rows[:, places]
        if gone is not None:
            raw = np.where(gone[:, places], fills, raw)
        # Rows of a few numbers are slow; here each row of `flat` is many rows of the table, and the rest follows.
        height = max(1, _LONG_ROW // max(1, raw.shape[1]))
        encoded = np.empty(raw.shape)
        n_full_blocks = len(raw) - len(raw) % height
        for rows, times in ((slice(0, n_full_blocks), height), (slice(n_full_blocks, None), 1)):
            flat, shape = encoded[rows], (-1, max(1, times * raw.shape[1]))
            if flat.size:
                flat = flat.reshape(shape)
                np.subtract(raw[rows].reshape(shape), np.tile(means, times), out=flat, dtype=np.float64)
                np.divide(flat, np.tile(scales, times), out=flat)
        return encoded


def _missing(raw: np.ndarray) -> np.ndarray | None:
    """Return which cells are missing; None without missing cells."""
    if raw.dtype.kind != "f":
        return None
    gone = np.isnan(raw)
    return gone if gone.any() else None


def encode_cells(rules: Sequence[NumericRule | CategoricalRule], table: Table) -> Matrix:
    """Return the columns of these rules, encoded, of a table in memory.

    Raises
    ------
    TableError
        If a number is too large to compute with.
    """
    places = (rule.level_places() if isinstance(rule, CategoricalRule) else None for rule in rules)
    encoding = ColumnEncoding(tuple(zip(range(len(rules)), rules, places, strict=True)))
    with np.errstate(over="ignore"):
        encoded = encoding.encode_columns([rule.cells(table) for rule in rules])
    values = encoded if isinstance(encoded, np.ndarray) else encoded.data
    if not np.vdot(values, values) <= MAX_MAGNITUDE**2:  # a quick sum that bounds the largest number
        for rule in rules:
            if isinstance(rule, NumericRule):
                rule.refuse_huge(table)
    return encoded
