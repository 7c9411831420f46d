"""Kernels that read the cells of a table themselves: which columns they read, and how these are given to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mercer.data import Table, TableError, listing
from mercer.kernels import FINGERPRINTS, NUMBERS, REST, SEQUENCES, SYMBOLS, VALUES, Kernel, as_kernel, parts_of, reading
from mercer.studies.models.row_reader import SEQUENCE, RowReader
from mercer.studies.tables.column_checks import MANY_LEVELS
from mercer.studies.tables.encoding import TableEncoder


def cell_kernel(kernel: Any, table: Table, target: str | None) -> Kernel | None:
    """Return a kernel with the names of the columns that it reads; None if it reads the encoded rows of the table.

    Parameters
    ----------
    kernel : str, Kernel or function
        The parameter of an estimator.
    table : Table
        The columns that are used, with or without the target.
    target : str or None

    Raises
    ------
    TableError
        If a column does not exist, is the target, or if it is not clear which column a part reads.
    """
    if not isinstance(kernel, Kernel | str):
        return None
    asked = as_kernel(kernel)
    features = [name for name in table.names if name != target]
    _refuse_places(asked)
    if not asked.named_columns:
        if asked.is_structured:
            asked = asked.on(_sequences(asked, table, features))
        elif asked.takes_fingerprints or asked.takes_symbols:
            asked = asked.on(REST)  # of the cells, not of standardised numbers
        else:
            return None
    _refuse_values(asked)
    for part, names in asked.named_columns:
        for name in names if names != REST else ():
            if name == target:
                raise TableError(f"the target {name!r} cannot be a column that {part!r} reads")
            table[name]  # raises a TableError that suggests similar names
    named = {name for _, names in asked.named_columns for name in names}
    rest = tuple(name for name in features if name not in named)
    if any(names == REST for _, names in asked.named_columns) and not rest:
        raise TableError(f"{asked!r} reads the rest of the columns, and none is left", "leave out the part on rest")
    return _with_rest(asked, rest)


def _with_rest(kernel: Kernel, rest: tuple[str, ...]) -> Kernel:
    """Return the kernel with these columns in the place of the rest."""
    if getattr(kernel, "columns", None) == REST:
        return kernel.parts[0].on(list(rest))
    replaced = {part: _with_rest(part, rest) for part in kernel.parts}
    changed = {
        name: replaced[value]
        for name, value in kernel.get_params(deep=False).items()
        if isinstance(value, Kernel) and replaced[value] is not value
    }
    return kernel.with_params(**changed) if changed else kernel


def _sequences(kernel: Kernel, table: Table, features: list[str]) -> str:
    """Return the column of strings, if only one is possible."""
    if SEQUENCE in features:
        return SEQUENCE
    texts = [name for name in features if not table.is_numeric(name)]
    if len(texts) == 1:
        return texts[0]
    found_names = f": {listing(texts)}" if texts else ""
    raise TableError(
        f"{kernel!r} reads a column of strings, and the table has {len(texts)} columns of text{found_names}",
        "say which one, as in 'Spectrum(3) on NAME'",
    )


def named_columns(kernel: Kernel) -> tuple[str, ...]:
    """Return the columns that a kernel names."""
    return tuple(dict.fromkeys(name for _, names in kernel.named_columns if names != REST for name in names))


def cell_columns(kernel: Kernel) -> tuple[str, ...]:
    """Return the columns that a kernel with names of columns reads as strings or fingerprints, which must be text."""
    parts = parts_of(kernel)
    names = (
        names[0]
        for what, names in parts
        if names != REST and (what == SEQUENCES or (what == FINGERPRINTS and len(names) == 1))
    )
    return tuple(dict.fromkeys(names))


def compared_columns(kernel: Kernel) -> set[str]:
    """Return the columns that a kernel with names of columns only compares: a missing cell is a category there."""
    encoded = {name for what, names in parts_of(kernel) if what != SYMBOLS for name in names}
    return {name for what, names in parts_of(kernel) if what == SYMBOLS for name in names} - encoded


def reader_of_table(kernel: Kernel, table: Table, encoder: TableEncoder) -> RowReader:
    """Return the reader of the columns that a kernel names, with an encoder of the columns of numbers.

    Raises
    ------
    TableError
        If a part needs kernel values, which a table does not hold, or is on columns by their places.
    """
    parts = parts_of(kernel)
    names = tuple(dict.fromkeys(name for _, part_names in parts for name in part_names))
    raw = {name for what, part_names in parts if what != NUMBERS for name in part_names}
    for part, part_names in kernel.named_columns:
        if part.is_structured and table.is_numeric(part_names[0]):
            raise TableError(
                f"{part!r} reads strings, and column {part_names[0]!r} holds numbers",
                "take a kernel of numbers such as RBF, or read the column as text with categorical=NAME",
            )
    _refuse_own_texts(kernel, table, encoder)
    for name in cell_columns(kernel):
        if (empty := table.missing(name)).any():
            row = table.row_numbers(empty.nonzero()[0][:1])[0]
            raise TableError(
                f"column {name!r} is empty in row {row}, and {kernel!r} cannot read missing cells",
                "fill it in, or leave such rows out with missing=drop",
            )
    kinds = {name: kind for name, kind in encoder.kinds.items() if name in names and name not in raw}
    inner = TableEncoder(missing=encoder.missing, max_levels=encoder.max_levels, kinds=kinds)
    return RowReader(kernel, names, inner)


def _refuse_values(kernel: Kernel) -> None:
    if any(what == VALUES for what, _ in parts_of(kernel)):
        raise TableError(
            f"{kernel!r} takes matrices of kernel values, which are no columns of a table",
            "fit the machine in Python, on a dict of the matrices",
        )


def _refuse_own_texts(kernel: Kernel, table: Table, encoder: TableEncoder) -> None:
    """Refuse columns of text that differs in nearly every row for kernels of numbers: indicators would say nothing."""
    for part, names in kernel.named_columns:
        for name in names:
            if table.is_numeric(name):
                if part.takes_fingerprints and len(names) == 1 and not _are_bits(table, name):
                    raise TableError(
                        f"{part!r} reads fingerprints, and column {name!r} holds one number a row",
                        "name all columns of the fingerprint, or 'rest', or a column of strings of the letters 0 and 1",
                    )
                continue
            n_known = int((~table.missing(name)).sum())
            n_levels = len({cell for cell in table[name].tolist() if cell is not None})
            is_plain = encoder.kinds.get(name, "categories") == "categories"
            if reading(part) == NUMBERS and is_plain and n_levels > max(MANY_LEVELS, 0.9 * n_known):
                raise TableError(
                    f"{part!r} reads numbers, and column {name!r} holds text that differs in nearly every row",
                    f"take a kernel of strings, such as 'Spectrum(3) on {name}'",
                )


def _are_bits(table: Table, name: str) -> bool:
    """Return whether a column of numbers is written as strings of the letters 0 and 1 of one length."""
    written = [cell for cell in table.as_text(name)[name].tolist() if cell is not None]
    return len({len(cell) for cell in written}) == 1 and len(written[0]) > 1 and set().union(*written) <= {"0", "1"}


def _refuse_places(kernel: Kernel) -> None:
    columns: Any = getattr(kernel, "columns", ())
    places: Iterable[Any] = columns if isinstance(columns, tuple) else ()
    if any(isinstance(one, int) for one in places):
        raise TableError(
            f"{kernel!r} names columns by their places, which a table does not have",
            "write their names, and put names such as '0' in quotes",
        )
    for part in kernel.parts:
        _refuse_places(part)
