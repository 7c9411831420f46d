"""Classes of few rows: they are merged into one class, or their rows are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

import numpy as np

from mercer.data import Note, Table, TableError, text_cells

Rare = Literal["merge", "drop"]
"""What is done with classes of few rows: they become one class, or their rows are left out."""

REST = "other"
"""Name of the class of merged ones; "other classes" if a class has this name."""


def without_rare(table: Table, target: str, how: Rare, least: int) -> tuple[Table, Note | None]:
    """Return the table without classes of fewer than `least` rows, and a note if there are any.

    The rows keep their places: a row of a class that is left out has a missing target.

    Parameters
    ----------
    table : Table
    target : str
        Column of classes.
    how : {"merge", "drop"}
    least : int
        Fewest rows of a class that is kept.

    Raises
    ------
    TableError
        If all classes have fewer rows.
    """
    cells = text_cells(table.as_written(target)[target])
    counts = Counter(cell for cell in cells if cell is not None)
    rare = [name for name, count in counts.items() if count < least]
    if not rare:
        return table, None
    if len(rare) == len(counts):
        raise TableError(f"every class of {target!r} has fewer than {least} rows", "name another target")
    ordered = sorted(rare, key=lambda name: (-counts[name], name))
    n_rare = sum(counts[name] for name in rare)
    shown = ", ".join(f"{name!r} ({counts[name]:,})" for name in ordered[:8])
    more = f" and {len(rare) - 8} more" if len(rare) > 8 else ""
    frequent = f"a class needs {least} rows to be kept"
    what = f"Classes of fewer than {least} rows, {shown}{more},"
    if how == "drop":
        gone = np.isin(cells, rare)
        column = table[target].copy()
        column[gone] = np.nan if table.is_numeric(target) else None
        written = dict(table.written)
        if target in written:
            written[target] = written[target].copy()
            written[target][gone] = None
        reading = replace(table.reading, n_rare=table.reading.n_rare + n_rare)
        left = replace(_with_column(table, target, column), written=written, reading=reading)
        text = f"{what} were left out with their rows"
        return left, Note(text, "rare=merge makes one class of them" if n_rare >= least else frequent)
    if n_rare < least:
        raise TableError(
            f"the classes of {target!r} with fewer than {least} rows, {shown}{more}, have {n_rare} rows together, "
            "too few for a class",
            "rare=drop leaves their rows out" if len(counts) - len(rare) > 1 else "name another target",
        )
    rest = REST if REST not in counts else f"{REST} classes"
    merged = with_rest(table, target, [name for name in counts if name not in rare], rest)
    can_drop = len(counts) - len(rare) > 1
    note = Note(
        f"{what} were merged into the class {rest!r}", "rare=drop leaves their rows out" if can_drop else frequent
    )
    return replace(merged, reading=replace(merged.reading, rest=rest)), note


def with_rest(table: Table, target: str, frequent: Collection[str], rest: str) -> Table:
    """Return the table with one class in place of all that are not kept."""
    cells, names = text_cells(table.as_written(target)[target]), {None, rest, *frequent}
    column = np.empty(len(cells), dtype=object)
    column[:] = [cell if cell in names else rest for cell in cells]
    written = {name: text for name, text in table.written.items() if name != target}
    return replace(_with_column(table, target, column), written=written)


def _with_column(table: Table, name: str, column: np.ndarray) -> Table:
    place = table.names.index(name)
    return replace(table, columns=(*table.columns[:place], column, *table.columns[place + 1 :]))
