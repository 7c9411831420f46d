"""Tables that are predicted in parts, because they may be larger than memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mercer.studies.cli.files import known_reading
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import Failure, say

if TYPE_CHECKING:
    import numpy as np

    from mercer.data import Table
    from mercer.studies.models import Model

_LARGE = 256 * 10**6  # bytes; a table in memory needs several times the size of its file


def is_large(table: str) -> bool:
    """Return whether a file is so large that it is read in parts."""
    return os.path.isfile(table) and os.path.getsize(table) > _LARGE and not table.lower().endswith((".xlsx", ".xlsm"))


class Messages:
    """Messages about parts of tables: of those with the same key, the first one is printed.

    Attributes
    ----------
    said : dict
        The kind and the text of what was said, by its key.
    """

    def __init__(self) -> None:
        self.said: dict[str, tuple[str, str]] = {}

    def say(self, kind: str, key: str, text: str) -> None:
        """Print a message, unless one with this key was printed before."""
        if key not in self.said:
            self.said[key] = kind, text
            self._print(kind, text)

    def report(self, note: Any) -> None:
        """Print a note on the reading of a table."""
        self.say("note", note.text, str(note))

    def _print(self, kind: str, text: str) -> None:
        say(kind, text)


class SilentMessages(Messages):
    """Messages of a worker, which another process prints."""

    def _print(self, kind: str, text: str) -> None:
        del kind, text


def read_in_parts(
    path: str, reading: dict[str, Any], *, text: Iterable[str], model: Model, memory: str, messages: Messages
) -> Iterator[Table]:
    """Yield a table in parts, read as in the training of the model, and say what was guessed about its file."""
    with ended_by_ctrl_c():
        from mercer.studies.models import read_tables

    if reading.get("sheet") is not None:
        raise Failure("--sheet is for workbooks, which are not read in parts", "leave --memory out")
    reading = {name: value for name, value in reading.items() if name != "sheet"}
    as_text, model_reading = known_reading(text, model)
    for table in read_tables(path, memory=memory, text_columns=as_text, **reading, **model_reading):
        for note in table.reading.notes:
            messages.report(note)
        yield model.with_classes(table)


@contextmanager
def warnings_of(table: Table, messages: Messages, place: str = "") -> Iterator[None]:
    """Say warnings that are raised for a part, with its place and first row; of those about a column, the first one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in caught:
        first = table.row_numbers([0])[0]
        rows = f"{table.n_rows:,} rows from row {first:,} on" if table.n_rows > 1 else f"row {first:,}"
        messages.say("warning", " ".join(str(one.message).split()[:2]), f"in {place}{rows}, {one.message}")


class Agreement:
    """How far predictions agree with the target of the table, if it holds that as well."""

    def __init__(self, model: Model) -> None:
        self._kind, self._n_rows, self._n_known, self._total = model.prediction_kind, 0, 0, 0.0

    def add(self, table: Table, answers: np.ndarray) -> None:
        """Count the rows of a part."""
        import numpy as np

        from mercer.studies.tables import Classes, numbers

        kind = self._kind
        self._n_rows += len(answers)
        if kind.column is None:
            self._total += np.count_nonzero(answers < 0)
        elif kind.column in table:
            has_target = np.flatnonzero(~table.missing(kind.column))
            self._n_known += len(has_target)
            if isinstance(kind, Classes):
                codes = kind.truth(table)[has_target]
                self._total += np.count_nonzero((codes >= 0) & (kind.outcomes[codes] == answers[has_target]))
            else:
                self._total += float(np.nansum(np.abs(numbers(table, kind.column) - answers)[has_target]))

    def merge(self, other: Agreement) -> None:
        """Count the rows that another object has counted."""
        self._n_rows += other._n_rows
        self._n_known += other._n_known
        self._total += other._total

    def say(self) -> None:
        """Print what was counted."""
        from mercer.studies.tables import Classes

        column, n, total = self._kind.column, self._n_known, self._total
        if column is None:
            say("note", f"{total:,.0f} of {self._n_rows:,} rows are outside")
        elif n and isinstance(self._kind, Classes):
            say("note", f"{total:,.0f} of {n:,} labels agree with the column {column!r}")
        elif n:
            say("note", f"predictions for {n:,} differ from the column {column!r} by {total / n:.4g} on average")
