"""Missing and infinite cells of a table: their rows and counts, and the errors that refuse them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from mercer.data import Table, TableError


def complete_rows(table: Table) -> np.ndarray:
    """Return the indices of the rows without a missing cell."""
    complete = np.ones(table.n_rows, dtype=bool)
    for name in table.names:
        complete &= ~table.missing(name)
    return np.flatnonzero(complete)


def missing_counts(table: Table) -> dict[str, int]:
    """Return the number of missing cells of each column that has any."""
    counts = {name: int(table.missing(name).sum()) for name in table.names}
    return {name: count for name, count in counts.items() if count}


def name_missing(counts: dict[str, int]) -> str:
    """Return a phrase that names the columns with missing cells, and how many each has."""
    return f"missing values in {name_columns([f'{name!r} ({count})' for name, count in counts.items()])}"


def refuse_missing(table: Table, hint: str | None = None) -> None:
    """Raise a TableError that names the columns with missing cells, if there are any."""
    counts = missing_counts(table)
    if counts:
        (row,) = table.row_numbers([min(int(np.argmax(table.missing(name))) for name in counts)])
        raise TableError(
            f"{name_missing(counts)}, first in row {row} (counted from 1)",
            hint
            or 'missing="impute" fills them in with the median or the most frequent value; or leave those rows out',
        )


def refuse_infinite(table: Table) -> None:
    """Raise a TableError that names the cells that are infinite, if there are any."""
    cells = []
    for name in table.names:
        rows = np.flatnonzero(np.isinf(table[name])) if table.is_numeric(name) else np.zeros(0, dtype=np.int64)
        if rows.size:
            cells.append(f"{name!r} ({name_rows(table, rows)})")
    if cells:
        raise TableError(f"infinite values in {name_columns(cells)}", "mend or empty these cells")
    if table.sparse is not None and not np.isfinite(table.sparse.data).all():
        bad = np.flatnonzero(~np.isfinite(table.sparse.data))
        named = name_rows(table, np.unique(rows_of_entries(table.sparse, bad)))
        raise TableError(f"the sparse features hold NaN or infinity in {named}", "mend or drop them")


def name_columns(names: Sequence[str]) -> str:
    """Return the first eight names, and the number of further columns."""
    more = f" and {len(names) - 8} more columns" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def name_rows(table: Table, rows: np.ndarray) -> str:
    """Return the numbers of the first five rows as text."""
    shown = ", ".join(map(str, table.row_numbers(rows[:5]))) + (", ..." if len(rows) > 5 else "")
    return f"row{'' if len(rows) == 1 else 's'} {shown}"


def rows_of(count: int, n_rows: int) -> str:
    """Return a phrase such as "2 of 80 rows"."""
    return f"{count} of {n_rows} row{'' if n_rows == 1 else 's'}"


def rows_of_entries(block: sparse.csr_array, entries: np.ndarray) -> np.ndarray:
    """Return the row indices of stored elements of a sparse block."""
    return np.searchsorted(block.indptr, entries, side="right") - 1
