"""The rows of models whose kernels read strings, sets, fingerprints, columns of several kinds or given kernel values.

Such a model has a `RowReader` in the place of a `TableEncoder`: the kernel reads the cells itself. The columns that a
kernel on numbers reads may be encoded, if the model was trained on a table.
"""

from __future__ import annotations

import json
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data import (
    Data,
    MixedRows,
    Precomputed,
    Structured,
    Table,
    TableError,
    Vectors,
    as_table,
    frame_columns,
    listing,
    text_cells,
)
from mercer.kernels import FINGERPRINTS, NUMBERS, SEQUENCES, Kernel, as_rows, mixed_rows, plain_rows
from mercer.kernels import parts_of as parts_read
from mercer.studies.models.refusals import refuse
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.rules import Rule

KIND = "kernel"
"""The entry of a manifest that says that the encoder is a `RowReader`."""

SEQUENCE = "sequence"
"""The column of strings in the table of a file of sequences."""


class RowReader:
    """Reads rows as a kernel takes them.

    Parameters
    ----------
    kernel : Kernel
    columns : tuple of str, optional
        The columns that it reads; None for rows without columns, such as a list of strings or a matrix of values.
    encoder : TableEncoder, optional
        Encodes the columns of numbers, of a model that was trained on a table; not fitted before `fit`.
    """

    constant_: tuple[str, ...] = ()
    sparse_ = None
    dense_block_ = None

    def __init__(
        self, kernel: Kernel, columns: tuple[str, ...] | None = None, encoder: TableEncoder | None = None
    ) -> None:
        self.kernel, self.columns, self.encoder = kernel, columns, encoder
        parts = parts_read(kernel)
        self._numbers = tuple(dict.fromkeys(name for what, names in parts if what == NUMBERS for name in names))
        others = {name for what, names in parts if what != NUMBERS for name in names}
        if encoder is not None and (twice := [name for name in self._numbers if name in others]):
            raise TableError(
                f"column {listing(twice)} is read by a kernel of numbers and by another kernel in {kernel!r}",
                "copy the column under another name in the table: numbers are standardised, and the others are not",
            )
        single = (names[0] for what, names in parts if what == SEQUENCES or (what == FINGERPRINTS and len(names) == 1))
        self._texts = tuple(dict.fromkeys(single))
        self._bits = {name for what, names in parts if what == FINGERPRINTS and len(names) > 1 for name in names}

    @property
    def of_table(self) -> bool:
        """Whether the model was trained on a table, whose numbers are encoded."""
        return self.encoder is not None

    @property
    def learns(self) -> bool:
        """Whether `fit` computes something from the rows."""
        return self.encoder is not None and bool(self._numbers)

    @property
    def missing(self) -> str:
        """What is done about missing cells: "error" or "impute"."""
        return "error" if self.encoder is None else self.encoder.missing

    @property
    def kinds(self) -> dict[str, Any]:
        """What encoded columns hold."""
        return {} if self.encoder is None else self.encoder.kinds

    @property
    def rules_(self) -> tuple[Rule, ...]:
        """The rules of the encoded columns."""
        return self.encoder.rules_ if self.encoder is not None and self._numbers else ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that are read; not those that had one value only in the training rows."""
        return tuple(name for name in self.columns or () if name not in self.constant_)

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.column_names

    @property
    def n_features_(self) -> int:
        """Number of columns that are read; 1 for rows without columns."""
        return 1 if self.columns is None else len(self.columns)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that must be read as text."""
        return (*self._texts, *(() if not self.rules_ else cast(TableEncoder, self.encoder).text_columns))

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """The columns whose cells the kernel reads as strings or fingerprints."""
        return self._texts

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that must be read as numbers."""
        return () if not self.rules_ else cast(TableEncoder, self.encoder).number_columns

    def unfitted(self) -> Self:
        """Return a reader that is not fitted."""
        return type(self)(self.kernel, self.columns, None if self.encoder is None else self.encoder.unfitted())

    def fit(self, table: Any) -> Self:
        """Learn the encoding of the columns of numbers."""
        if self.encoder is not None and self.learns:
            self._refuse_absent(table)
            if all(len(set(table[name][~table.missing(name)].tolist())) < 2 for name in self._numbers):
                raise TableError(
                    f"{self.kernel!r} reads {listing(self._numbers)} as numbers, and none of its cells differ from row "
                    "to row",
                    "leave that part of the kernel out, or name other columns",
                )
            self.encoder.fit(table.select(self._numbers))
            self.constant_ = self.encoder.constant_
        return self

    def transform(self, X: Any) -> Data:
        """Return the rows of a table, a data frame or a list as the kernel reads them.

        Raises
        ------
        TableError
            If a column does not exist, or cannot be encoded.
        ValueError
            If the kernel cannot read the rows.
        """
        if self.columns is None:
            return self._without_names(X)
        rows = mixed_rows(self.kernel, self.columns_of(X), fitted=True)
        assert rows is not None
        return rows

    def columns_of(self, X: Any) -> dict[str, Any]:
        """Return the columns that the kernel reads by name: cells, and encoded numbers, (n, width) for each column.

        Raises
        ------
        TableError
            If a column does not exist, or cannot be encoded.
        """
        if self.of_table:
            X = as_table(X)
        self._refuse_absent(X)
        if isinstance(X, Table):
            self._refuse_unreadable(X)
        columns = {name: cells for name, cells in self._columns_of(X).items() if name in (self.columns or ())}
        return columns | self._encoded(X) if self.rules_ else columns

    def _columns_of(self, X: Any) -> dict[str, Any]:
        if not isinstance(X, Table):
            return frame_columns(X) or {}
        cells = dict(zip(X.names, X.columns, strict=True))
        for name in (one for one in self._bits if one in cells and cells[one].dtype == object):
            if {cell.lower() for cell in cells[name].tolist() if cell is not None} <= {"false", "true"}:
                cells[name] = np.array(
                    [np.nan if cell is None else float(cell.lower() == "true") for cell in cells[name]]
                )
        return cells | {name: X.as_text(name)[name] for name in self._texts if name in cells}

    def _encoded(self, table: Table) -> dict[str, Any]:
        """Return the columns of numbers as encoded, (n, width) for each; the width of constant columns is 0."""
        encoder = cast(TableEncoder, self.encoder)
        if table.n_rows * encoder.n_features_ > MOST_NUMBERS:
            raise TableError(
                f"the columns that {self.kernel!r} reads as numbers become {encoder.n_features_:,} columns, which is "
                "too many for a kernel on columns of several kinds",
                "name columns with fewer categories, or give text to a kernel such as Spectrum(3)",
            )
        matrix = encoder.transform(table.select([name for name in self._numbers if name not in self.constant_]))
        dense: npt.NDArray[Any] = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        ends = np.cumsum([0, *(rule.n_features for rule in encoder.rules_)])
        places = {rule.name: slice(*ends[i : i + 2]) for i, rule in enumerate(encoder.rules_)}
        return {name: dense[:, places.get(name, slice(0))] for name in self._numbers}  # constant ones have no columns

    def _without_names(self, X: Any) -> Data:
        if not isinstance(X, Table):
            return as_rows(self.kernel, X)
        if self.kernel.takes_values:
            return as_rows(self.kernel, np.column_stack(X.columns) if X.sparse is None else X.sparse)
        texts = [name for name in X.names if not X.is_numeric(name) or name in X.written]
        if SEQUENCE in texts:
            texts = [SEQUENCE]
        if len(texts) != 1:
            raise TableError(
                f"{self.kernel!r} was trained on rows without a column name, and the table has {len(texts)} columns of "
                f"text{': ' + listing(texts) if texts else ''}",
                "give a table with one column of text, or name it 'sequence'",
            )
        return as_rows(self.kernel, text_cells(X.as_text(texts[0])[texts[0]]))

    def _refuse_absent(self, X: Any) -> None:
        if isinstance(X, Table):
            for name in self.column_names:
                X[name]  # raises a TableError that suggests similar names

    def _refuse_unreadable(self, table: Table) -> None:
        """Refuse missing cells that the kernel cannot read, and numbers in the place of strings."""
        strings = {names[0] for what, names in parts_read(self.kernel) if what == SEQUENCES}
        for name in self._texts:
            if name in strings and table.is_numeric(name) and table.n_rows:
                raise TableError(
                    f"column {name!r} must hold strings, as it did in training, but holds numbers",
                    "convert it to text if these are strings of digits",
                )
            if (empty := table.missing(name)).any():
                row = table.row_numbers(empty.nonzero()[0][:1])[0]
                more = f" and {int(empty.sum()) - 1:,} more" if empty.sum() > 1 else ""
                raise TableError(
                    f"column {name!r} is empty in row {row}{more}, and {self.kernel!r} cannot read missing cells",
                    "fill it in, or leave such rows out",
                )

    def without_target(self, X: Any, target: str | None) -> Any:
        """Return a table or data frame without its target; of rows without names, the only column that is left."""
        if isinstance(X, Table):
            return X if target is None or target not in X else X.without([target])
        columns = frame_columns(X)
        if columns is None or self.columns is not None:
            return X
        left = [name for name in columns if name != target]
        if len(left) != 1:
            raise TableError(
                f"{self.kernel!r} was trained on rows without a column name, and there are {len(left)} columns: "
                f"{listing(left, most=12)}",
                "give one column of rows, and one with the target",
            )
        return columns[left[0]]

    def describe_unseen(self, table: Any) -> list[str]:
        """Return a sentence for each encoded column whose cells are unlike those of the training rows."""
        return self.encoder.describe_unseen(table) if self.encoder is not None and self.rules_ else []

    def unseen(self, table: Any) -> dict[str, Any]:
        """Return the encoded columns of text with values that no training row has."""
        return self.encoder.unseen(table) if self.encoder is not None and self.rules_ else {}

    def disagreements(self, rows: Table) -> list[str]:
        """Return a sentence for each rule that differs from the rule computed from these training rows."""
        return self.encoder.disagreements(rows) if self.encoder is not None and self.rules_ else []

    def to_dict(self) -> dict[str, Any]:
        """Return what a model file says of the reader."""
        encoder = None if self.encoder is None else self.encoder.to_dict() if self.rules_ else {}
        return {"kind": KIND, "columns": None if self.columns is None else list(self.columns), "encoder": encoder}

    @classmethod
    def from_dict(cls, entry: dict[str, Any], kernel: Kernel) -> Self:
        """Return the reader of a model file."""
        columns, encoding = entry["columns"], entry["encoder"]
        named = [name for _, names in parts_read(kernel) for name in names]
        if columns is None:
            if named or encoding is not None:
                refuse("its kernel reads columns that it does not name")
            return cls(kernel)
        if not isinstance(columns, list) or columns != list(dict.fromkeys(named)):
            refuse("its columns are not those that its kernel reads")
        if encoding is None or encoding == {}:
            return cls(kernel, tuple(columns), None if encoding is None else TableEncoder())
        reader = cls(kernel, tuple(columns), TableEncoder.from_dict(encoding))
        inner = cast(TableEncoder, reader.encoder)
        if {rule.name for rule in inner.rules_} | {*inner.constant_} != {*reader._numbers}:
            refuse("its encoded columns are not those that its kernel reads as numbers")
        if inner.sparse_ is not None or inner.dense_block_ is not None:
            refuse("its encoder has a sparse block, which its kernel does not read")
        reader.constant_ = inner.constant_
        return reader


MOST_NUMBERS = 1 << 27
"""Numbers, 1 GiB: the largest table of encoded columns."""


def reader_of(kernel: Kernel, X: Any) -> RowReader:
    """Return the reader of rows that a machine was fitted on, without an encoding."""
    names = dict.fromkeys(name for _, part_names in kernel.named_columns for name in part_names)
    return RowReader(kernel, tuple(names) if isinstance(X, MixedRows) else None)


def listed_rows(rows: Data) -> Table:
    """Return rows as a table of numbers and text, which has a checksum; equal rows give equal tables."""
    if isinstance(rows, Precomputed):
        values = rows.array
        dense = values.toarray() if sp.issparse(values) else values
        return Table(tuple(map(str, range(rows.p))), tuple(np.ascontiguousarray(dense.T, dtype=np.float64)))
    if isinstance(rows, MixedRows):
        tables = [
            listed_rows(part) if isinstance(part, Precomputed) else None for part in map(rows.part, rows.part_names)
        ]
        given = {
            names[0]: table for (_, names), table in zip(rows.part_names, tables, strict=True) if table is not None
        }
        columns: dict[str, npt.NDArray[Any]] = {}
        for name, entry in plain_rows(rows)["columns"]:
            if name in given:
                columns |= {f"{name}[{j}]": cells for j, cells in enumerate(given[name].columns)}
            elif entry["kind"] == "numbers":
                columns[name] = np.array([np.nan if cell is None else cell for cell in entry["cells"]])
            else:
                columns[name] = _as_text(entry.get("cells", entry.get("rows")))
        return Table(tuple(columns), tuple(columns.values()))
    assert isinstance(rows, Structured)
    return Table((SEQUENCE,), (_as_text(plain_rows(rows)["rows"]),))


def _as_text(cells: list[Any]) -> npt.NDArray[Any]:
    column = np.empty(len(cells), dtype=object)
    column[:] = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return column


def are_same_rows(one: Data, other: Data) -> bool:
    """Return whether both have the same rows; of given kernel values, the same places in the matrix."""
    if isinstance(one, Vectors) and isinstance(other, Vectors):
        is_comparable = type(one) is type(other) and one.shape == other.shape
        difference = one.float64() - other.float64() if is_comparable else None
        return difference is not None and (not difference.size or not abs(difference).max() > 0.0)
    if isinstance(one, Precomputed) and isinstance(other, Precomputed):
        return one.p == other.p and np.array_equal(one.own_columns(), other.own_columns())
    return type(one) is type(other) and one.n == other.n and plain_rows(one) == plain_rows(other)


def is_read_by_kernel(rows: Data) -> bool:
    """Return whether these are rows that a `RowReader` reads: no rows of numbers."""
    return isinstance(rows, (Structured, MixedRows, Precomputed))
