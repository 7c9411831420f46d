"""What a study takes: a table in memory or a file, names of columns, and classes of too few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data import Note, Table, TableError, as_table, listing, refuse_mixed_column, text_cells
from mercer.model_selection import rows_enough
from mercer.studies.models import read_table
from mercer.studies.tables import read_target, without_rare

IN_MEMORY = "the table"
"""What a table that was not read from a file is called."""

_NAME = "name"  # the column of the names of sequences in a FASTA file


def names_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names as a tuple; one name may be given as it is."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def column_name(option: str, given: Any) -> str | None:
    """Return the name of a column; names that are whole numbers, as those of a matrix, become text.

    Raises
    ------
    TableError
        If it is no name.
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    raise TableError(
        f"{option} must be the name of a column of the table, got {type(given).__name__}",
        f"put it into the table as a column, and write {option}='name'",
    )


def with_target(rows: Table, target: Any, given: Any, *, needed: bool = True) -> tuple[Table, str | None]:
    """Return the table with its target, and the name of this column.

    Parameters
    ----------
    rows : Table
    target : str, int, array-like or None
        The name of a column, the cells of a further one, or a file with the label of each name. None: the first
        column of an svmlight file.
    given : data frame, dict, matrix, Table, str or Path
        The table before it was read.
    needed : bool, default=True
        Whether there must be a target.

    Raises
    ------
    TableError
        If a target is needed and not given, an array does not fit the table, or cells are of several kinds.
    """
    if target is None:
        if rows.sparse is not None and rows.names:
            return rows, rows.names[0]
        if needed:
            raise TableError("target is missing, the column to predict", "name it: target=...")
        return rows, None
    if isinstance(target, str | Path) and str(target) not in rows and Path(target).is_file():
        return with_labels(rows, read_table(target), str(target))
    if isinstance(target, Path) or (isinstance(target, str) and target not in rows and Path(target).suffix in _TABLES):
        raise TableError(f"there is no file {str(target)!r}, and no column of this name")
    if isinstance(target, str) or not hasattr(target, "__len__"):
        name = column_name("target", target)
        refuse_mixed_column(given, name)
        return rows, name
    name = str(getattr(target, "name", None) or "target")
    if name in rows:
        raise TableError(
            f"the table has a column {name!r}, and target is another one of this name", f"write target={name!r}"
        )
    refuse_mixed_column({name: target}, name)
    column = as_table({name: target})
    if column.n_rows != rows.n_rows:
        names = [one for one in column[name].tolist() if isinstance(one, str) and one in rows]
        raise TableError(
            f"target has {column.n_rows:,} cell{'s' * (column.n_rows != 1)}, and the table {rows.n_rows:,} rows",
            f"for a column of the table write its name alone: target={names[0]!r}" if names else None,
        )
    booleans = rows.booleans | column.booleans
    return replace(rows, names=(*rows.names, name), columns=(*rows.columns, column[name]), booleans=booleans), name


_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx")


def with_labels(rows: Table, labels: Table, source: str) -> tuple[Table, str]:
    """Return the table with the labels of another one, whose first column holds names, and the name of the column.

    Raises
    ------
    TableError
        If the rows have no names, the labels are not two columns, or names are missing or repeated.
    """
    if _NAME not in rows:
        raise TableError(f"{source} gives labels by name, but the rows have no column {_NAME!r}", "name a column")
    key = _NAME if _NAME in labels else labels.names[0]
    others = [name for name in labels.names if name != key]
    if len(others) != 1:
        raise TableError(
            f"{source} must have two columns, the names of sequences and their labels, got {len(labels.names)}",
            "leave out the others",
        )
    label = others[0]
    if label in rows:
        raise TableError(f"both the sequences and {source} have a column {label!r}", "rename one of them")
    names = [str(name) for name in text_cells(labels[key])]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{source} has several labels of {repeated[0]!r}", "leave one label a name")
    places = {name: place for place, name in enumerate(names)}
    missing = [name for name in rows[_NAME] if name not in places]
    if missing:
        raise TableError(
            f"{source} has no label of {len(missing):,} of {rows.n_rows:,} sequences, such as {missing[0]!r}",
            "add a line for each; an empty label leaves a sequence out",
        )
    order = np.array([places[name] for name in rows[_NAME]], dtype=np.int64)
    return replace(
        rows,
        names=(*rows.names, label),
        columns=(*rows.columns, labels[label][order]),
        booleans=rows.booleans | (labels.booleans & {label}),
    ), label


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
