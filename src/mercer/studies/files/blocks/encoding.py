"""The encoding of raw blocks: rules of columns that are learnt in passes over the blocks, and applied to each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy import sparse

from mercer.data import TableError
from mercer.studies.files.blocks.several_files import Blocks
from mercer.studies.tables.column_encoding import ColumnEncoding, EncodedColumn
from mercer.studies.tables.encoding import MAX_LEVELS, Missing, TableEncoder
from mercer.studies.tables.learning import SeenColumns
from mercer.studies.tables.rules import CategoricalRule, numeric_rules


@dataclass(frozen=True, eq=False)
class BlockEncoding:
    """Encodes the table of a raw block, with the same result as `TableEncoder.transform` on the cells of the file.

    Attributes
    ----------
    encoder : TableEncoder or None
        The encoder of tables with the same rules; None for a sparse table, which is not changed.
    p : int
        Number of encoded columns.
    columns : ColumnEncoding or None
        The rules, for the columns of blocks.
    """

    encoder: TableEncoder | None
    p: int
    columns: ColumnEncoding | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether encoded rows are CSR."""
        return self.columns is None or self.columns.is_sparse

    @property
    def is_unchanged(self) -> bool:
        """Whether the cells are numbers that are used as they are."""
        return self.columns is not None and self.columns.is_unchanged

    def row_bytes(self, table: Any) -> float:
        """Return about how many bytes an encoded row of a raw table needs."""
        if self.columns is not None:
            return 8.0 * (12 * len(self.columns.columns) if self.is_sparse else max(self.p, table.shape[1]))
        return 8.0 + 16.0 * table.nnz / max(1, table.shape[0])

    def encode(self, table: Any, rows: slice) -> Any:
        """Return the encoded rows, in C order or canonical CSR."""
        if self.columns is not None:
            return self.columns.encode(table[rows])
        start, stop = table.indptr[rows.start], table.indptr[rows.stop]
        indptr = table.indptr[rows.start : rows.stop + 1] - start
        shape = (rows.stop - rows.start, self.p)
        return sparse.csr_array((table.data[start:stop], table.indices[start:stop], indptr), shape)


def learn_encoding(cache: Blocks, *, missing: Missing, scale: bool, max_levels: int = MAX_LEVELS) -> BlockEncoding:
    """Return the encoding of the blocks of a cache, by the rules of :class:`mercer.studies.tables.TableEncoder`.

    Parameters
    ----------
    cache : BlockCache or JoinedBlocks
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
    One pass over the blocks, four more if numbers are missing, and one more if numbers are standardised. A column
    without missing cells also has a number that fills in missing cells of tables to predict. It is the median of up to
    20,000 rows from all parts of the file.
    """
    if cache.is_sparse:
        return BlockEncoding(None, max(1, cache.width))
    names = cache.layout.names
    assert names is not None
    levels_of = {
        place: cache.levels.of.get(name, {}) for place, name in enumerate(names) if name in cache.layout.categories
    }
    n_levels = {place: len(texts) for place, texts in levels_of.items()}
    seen = SeenColumns.of(cache.counted_tables, len(names), cache.n_blocks, n_levels)
    if not seen.n_rows:
        raise TableError(f"the weights {cache.layout.weights!r} of all rows are 0, so there is nothing to learn from")
    if missing == "error" and seen.n_missing.any():
        first = int(seen.n_missing.argmax())
        raise TableError(
            f"missing values in {names[first]!r} ({seen.n_missing[first]:,} of {seen.n_rows:,} rows)",
            'missing="impute" fills them in with the median or the most frequent value',
        )
    numbers = {place: name for place, name in enumerate(names) if place not in levels_of}
    rules: dict[int, Any] = {**numeric_rules(numbers, seen, scale=scale)}
    for place, texts in levels_of.items():
        counts = {text: int(seen.counts[place][code]) for text, code in texts.items()}
        rules[place] = CategoricalRule.of_counts(names[place], counts, seen.n_rows, max_levels)
    columns: list[EncodedColumn] = []
    for place, rule in sorted(rules.items()):
        if rule is not None:
            columns.append((place, rule, rule.level_places(levels_of[place]) if place in levels_of else None))
    if not columns:
        raise TableError("no column varies from row to row, so there is nothing to learn from")
    encoder = TableEncoder(missing=missing, max_levels=max_levels)
    encoder.rules_ = tuple(rule for _, rule, _ in columns)
    encoder.constant_ = tuple(name for place, name in enumerate(names) if rules.get(place) is None)
    encoder.sparse_, encoder.dense_block_ = None, None
    return BlockEncoding(encoder, encoder.n_features_, ColumnEncoding(tuple(columns)))
