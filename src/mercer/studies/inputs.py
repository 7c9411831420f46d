"""What a study takes: a table in memory or a file, names of columns, and classes of too few rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mercer.data import Note, Table, TableError, as_table, listing
from mercer.model_selection import rows_enough
from mercer.studies.models import read_table
from mercer.studies.tables import read_target, without_rare

IN_MEMORY = "the table"
"""What a table that was not read from a file is called."""


def names_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names as a tuple; one name may be given as it is."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def read_input(table: Any, as_text: Collection[str], reading: Mapping[str, Any]) -> tuple[Table, str]:
    """Return a table, and the name of its file.

    Parameters
    ----------
    table : data frame, dict, matrix, Table, str or Path
    as_text : collection of str
        Columns that are text, whatever they look like.
    reading : mapping
        Options of `read_table`.

    Raises
    ------
    TableError
        If the table cannot be read, lacks one of these columns, or is in memory and `reading` is for files.
    """
    if isinstance(table, str | Path):
        rows, name = read_table(table, text_columns=as_text, **reading), Path(table).name
    else:
        meaningless = [option for option, value in reading.items() if value not in (None, ())]
        if meaningless:
            raise TableError(
                f"{listing(meaningless)} say how a file is read, and this table is a {type(table).__name__} in memory",
                "leave them out",
            )
        rows, name = as_table(table).as_text(*as_text), IN_MEMORY
    for column in as_text:
        rows[column]  # raises a TableError that suggests similar names
    return rows, name


def without_rare_classes(
    table: Table, target: str, task: Any, rare: Any, *, test_size: float, folds: int
) -> tuple[Table, Note | None]:
    """Return the table without classes that have too few rows for a protocol, and a note if there are any.

    Raises
    ------
    TableError
        If the target is not one of classes.
    """
    truth = read_target(table, target, "classification" if task == "auto" else task)
    if truth.task != "classification":
        raise TableError("rare is for classes, and the target holds numbers", "leave it out")
    return without_rare(table, truth.target, rare, rows_enough(test_size, folds))
