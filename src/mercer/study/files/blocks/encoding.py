"""The encoding of raw blocks: rules of columns that are learnt in passes over the blocks, and applied to each block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mercer.data import TableError
from mercer.study.files.blocks.cache import BlockCache
from mercer.study.files.blocks.medians import medians
from mercer.study.tables.encoding import MAX_LEVELS, Missing, TableEncoder
from mercer.study.tables.rules import MAX_DENSE_LEVELS, CategoricalRule, NumericRule, Rule, has_indicator

_SAMPLED_ROWS = 20_000  # rows that give the median of columns without missing cells
_SAMPLED_CELLS = 1 << 22  # cells of these rows: 32 MiB
_LONG_ROW = 1 << 10  # numbers that are encoded in one run


@dataclass(frozen=True, eq=False)
class BlockEncoding:
    """Encodes the table of a raw block, with the same result as `TableEncoder.transform` on the cells of the file.

    Attributes
    ----------
    encoder : TableEncoder or None
        The encoder of tables with the same rules; None for a sparse table, which is not changed.
    p : int
        Number of encoded columns.
    is_sparse : bool
    """

    encoder: TableEncoder | None
    p: int
    is_sparse: bool
    columns: tuple[tuple[int, Rule, np.ndarray | None], ...] = ()  # place, rule, and place of each level

    def row_bytes(self, table: Any) -> float:
        """Return about how many bytes an encoded row of a raw table needs."""
        if self.encoder is not None:
            return 8.0 * (12 * len(self.columns) if self.is_sparse else max(self.p, table.shape[1]))
        return 8.0 + 16.0 * table.nnz / max(1, table.shape[0])

    def encode(self, table: Any, rows: slice) -> Any:
        """Return the encoded rows, in C order or canonical CSR."""
        if self.encoder is None:
            start, stop = table.indptr[rows.start], table.indptr[rows.stop]
            indptr = table.indptr[rows.start : rows.stop + 1] - start
            shape = (rows.stop - rows.start, self.p)
            return sparse.csr_array((table.data[start:stop], table.indices[start:stop], indptr), shape)
        own, numbers = table[rows], self._numbers
        gone = _missing(own)
        if self.is_unchanged and gone is None:
            return own[:, : self.p]  # constant columns of categories may be behind the numbers
        if not self.is_sparse and len(numbers.places) == self.p and gone is None:
            return numbers.encode(own)
        return self._entries(own, gone)

    def _entries(self, own: np.ndarray, gone: np.ndarray | None) -> Any:
        """Return encoded rows of which some columns are categories or have missing cells.

        Each column has one entry in each row, and one more if an indicator says which cells are missing.
        """
        m, numbers = len(own), self._numbers
        n_entries = len(self.columns) + sum(rule.indicator for _, rule, _ in self.columns)
        values, places = np.empty((m, n_entries)), np.empty((m, n_entries), dtype=np.int64)
        standardised = numbers.encode(own, gone)
        entry = first = number = 0
        for place, rule, level_places in self.columns:
            lost = None if gone is None else gone[:, place]
            if level_places is None:
                values[:, entry], places[:, entry] = standardised[:, number], first
                number, width = number + 1, 1
            else:
                assert isinstance(rule, CategoricalRule)
                cells = own[:, place] if lost is None else np.where(lost, len(level_places) - 1, own[:, place])
                codes, width = level_places[cells.astype(np.int64)], len(rule.levels)
                values[:, entry], places[:, entry] = codes >= 0, first + np.maximum(codes, 0)
            entry, first = entry + 1, first + width
            if rule.indicator:
                values[:, entry], places[:, entry] = 0.0 if lost is None else lost, first
                entry, first = entry + 1, first + 1
        if self.is_sparse:
            held = values != 0.0
            starts = np.concatenate([[0], np.cumsum(np.count_nonzero(held, axis=1))])
            return sparse.csr_array((values[held], places[held], starts), (m, self.p))
        encoded = np.zeros((m, self.p))
        np.put_along_axis(encoded, places, values, axis=1)
        return encoded

    @property
    def is_unchanged(self) -> bool:
        """Whether the cells are numbers that are used as they are."""
        return self._numbers.are_unchanged and self._numbers.places.tolist() == list(range(self.p))

    @cached_property
    def _numbers(self) -> _Numbers:
        """The columns of numbers."""
        return _Numbers.of([(place, rule) for place, rule, _ in self.columns if isinstance(rule, NumericRule)])


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Columns of numbers, which are encoded all at once: place of each in the raw table, and the parts of its rule."""

    places: np.ndarray
    fills: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, rules: list[tuple[int, NumericRule]]) -> _Numbers:
        """Collect the rules of columns."""
        numbers = np.array([(rule.fill, rule.mean, rule.scale) for _, rule in rules]).reshape(-1, 3)
        return cls(np.array([place for place, _ in rules], dtype=np.int64), *numbers.T.copy())

    @cached_property
    def are_unchanged(self) -> bool:
        """Whether numbers are used as they are."""
        return not self.means.any() and bool((self.scales == 1.0).all())

    def encode(self, own: np.ndarray, gone: np.ndarray | None = None) -> np.ndarray:
        """Return the encoded numbers of raw rows; `gone` says which of their cells are missing."""
        raw = own if len(self.places) == own.shape[1] else own[:, self.places]
        if gone is not None:
            raw = np.where(gone[:, self.places], self.fills, raw)
        # Rows of a few numbers are slow; here each row of `flat` is many rows of the table, and the rest follows.
        height = max(1, _LONG_ROW // max(1, raw.shape[1]))
        encoded = np.empty(raw.shape)
        whole = len(raw) - len(raw) % height
        for rows, times in ((slice(0, whole), height), (slice(whole, None), 1)):
            flat, shape = encoded[rows], (-1, max(1, times * raw.shape[1]))
            if flat.size:
                flat = flat.reshape(shape)
                np.subtract(raw[rows].reshape(shape), np.tile(self.means, times), out=flat, dtype=np.float64)
                np.divide(flat, np.tile(self.scales, times), out=flat)
        return encoded


def _missing(own: np.ndarray) -> np.ndarray | None:
    """Return which cells are missing; None without missing cells."""
    if own.dtype.kind != "f":
        return None
    gone = np.isnan(own)
    return gone if gone.any() else None


def learn_encoding(cache: BlockCache, *, missing: Missing, scale: bool, max_levels: int = MAX_LEVELS) -> BlockEncoding:
    """Return the encoding of the blocks of a cache, by the rules of :class:`mercer.study.tables.TableEncoder`.

    Parameters
    ----------
    cache : BlockCache
    missing : {"error", "impute"}
        Whether missing cells are refused, or filled in: numbers with the median of their column, categories with the
        most frequent one (of a column with 5 % missing cells or more: with none).
    scale : bool
        Whether numbers are standardised; otherwise they are used as they are, and constant columns are kept.
    max_levels : int
        Largest number of categories of a column that get an indicator, the most frequent ones.

    Raises
    ------
    TableError
        If cells are missing and `missing` is "error", or no column varies.

    Notes
    -----
    One pass over the blocks, four more if numbers are missing, and two more if numbers are standardised. A column
    without missing cells also has a number that fills in missing cells of tables to predict. It is the median of up to
    20,000 rows from all parts of the file.
    """
    if cache.is_sparse:
        return BlockEncoding(None, max(1, cache.width), True)
    names = cache.layout.names
    assert names is not None
    seen = _Seen.of(cache)
    if not seen.n_rows:
        raise TableError(f"the weights {cache.layout.weights!r} of all rows are 0, so there is nothing to learn from")
    if missing == "error" and seen.n_missing.any():
        first = int(seen.n_missing.argmax())
        raise TableError(
            f"missing values in {names[first]!r} ({seen.n_missing[first]:,} of {seen.n_rows:,} rows)",
            'missing="impute" fills them in with the median or the most frequent value',
        )
    is_number = np.array([name not in cache.layout.categories for name in names], dtype=bool)
    known = is_number & (seen.n_missing < seen.n_rows)
    fills = np.zeros(len(names))
    fills[known] = np.nanmedian(seen.sample[:, known], axis=0)
    filled = known & (seen.n_missing > 0)
    fills[filled] = medians(cache, np.flatnonzero(filled), seen.n_rows - seen.n_missing)[filled]
    means, scales = np.zeros(len(names)), np.ones(len(names))
    if scale:
        means, scales = _means_and_scales(cache, seen, fills, known)
    columns: list[tuple[int, Rule, np.ndarray | None]] = []
    constant = []
    for place, name in enumerate(names):
        n_missing = int(seen.n_missing[place])
        indicator = has_indicator(n_missing, seen.n_rows)
        if is_number[place]:
            if known[place] and (not scale or scales[place] > 0.0):
                fill, mean, spread = float(fills[place]), float(means[place]), float(scales[place])
                columns.append((place, NumericRule(name, fill, mean, spread, n_missing, indicator), None))
                continue
        elif (counts := seen.counts[name]).size and np.count_nonzero(counts) > 1:
            rule, places = _categories(name, cache.levels.of[name], counts, max_levels, n_missing, indicator)
            columns.append((place, rule, places))
            continue
        constant.append(name)
    if not columns:
        raise TableError("no column varies from row to row, so there is nothing to learn from")
    encoder = TableEncoder(missing=missing, max_levels=max_levels)
    encoder.rules_, encoder.constant_ = tuple(rule for _, rule, _ in columns), tuple(constant)
    encoder.sparse_, encoder.dense_block_ = None, None
    many = any(isinstance(rule, CategoricalRule) and len(rule.levels) > MAX_DENSE_LEVELS for _, rule, _ in columns)
    return BlockEncoding(encoder, encoder.n_features_, many, tuple(columns))


@dataclass
class _Seen:
    """What a pass over the blocks has seen of the rows whose weight is positive."""

    n_rows: int
    n_missing: np.ndarray
    least: np.ndarray
    largest: np.ndarray
    counts: dict[str, np.ndarray]
    sample: np.ndarray

    @classmethod
    def of(cls, cache: BlockCache) -> _Seen:
        names = cache.layout.names
        assert names is not None
        seen = cls(
            0,
            np.zeros(len(names), dtype=np.int64),
            np.full(len(names), np.inf),
            np.full(len(names), -np.inf),
            {name: np.zeros(len(cache.levels.of.get(name, ())), dtype=np.int64) for name in cache.layout.categories},
            np.zeros((0, len(names))),
        )
        share = max(1, min(_SAMPLED_ROWS, _SAMPLED_CELLS // len(names)) // cache.n_blocks)
        sample = []
        for table in cache.counted_tables():
            gone = np.isnan(table)
            seen.n_rows += len(table)
            sample.append(table[:: max(1, -(-len(table) // share))].astype(np.float64))
            seen.n_missing += gone.sum(axis=0)
            if len(table):
                seen.least = np.fmin(seen.least, np.fmin.reduce(table, axis=0))
                seen.largest = np.fmax(seen.largest, np.fmax.reduce(table, axis=0))
            for name, counts in seen.counts.items():
                codes = table[:, names.index(name)]
                counts += np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=counts.size)
        seen.sample = np.concatenate(sample)
        return seen


def _means_and_scales(
    cache: BlockCache, seen: _Seen, fills: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of columns of numbers after missing cells are filled in."""
    at = np.flatnonzero(known)
    sizes = np.maximum(np.abs(seen.least[at]), np.abs(seen.largest[at]))
    sizes[sizes == 0.0] = 1.0
    centre, second, n_rows = np.zeros(at.size), np.zeros(at.size), 0
    for table in cache.counted_tables():
        if not len(table):
            continue
        values = (table if at.size == table.shape[1] else table[:, at]) / sizes
        if (gone := _missing(values)) is not None:
            values = np.where(gone, fills[at] / sizes, values)
        mean = values.mean(axis=0)
        values -= mean
        # The squares about the means of both parts, and those of the means about their common mean.
        change, share = mean - centre, len(table) / (n_rows + len(table))
        second += np.einsum("ij,ij->j", values, values) + np.square(change) * (n_rows * share)
        centre, n_rows = centre + change * share, n_rows + len(table)
    means, scales = np.zeros(known.size), np.zeros(known.size)
    means[at], scales[at] = centre * sizes, np.sqrt(second / max(1, seen.n_rows)) * sizes
    scales[seen.least == seen.largest] = 0.0
    return means, scales


def _categories(
    name: str, texts: dict[str, int], counts: np.ndarray, max_levels: int, n_missing: int, indicator: bool
) -> tuple[CategoricalRule, np.ndarray]:
    """Return the rule of a column of categories, and the place of each of its texts (-1: it has no indicator)."""
    found = {text: int(counts[code]) for text, code in texts.items() if counts[code]}
    levels = tuple(sorted(found, key=lambda text: (-found[text], text))[:max_levels])
    places = np.full(len(texts) + 1, -1, dtype=np.int64)
    for place, level in enumerate(levels):
        places[texts[level]] = place
    places[-1] = -1 if indicator else 0  # of a missing cell
    return CategoricalRule(name, levels, len(found), n_missing, indicator), places
