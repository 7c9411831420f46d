"""Files that commands read and write: checks before the work, and messages after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import Failure, printable, say

if TYPE_CHECKING:
    from mercer.data import Table
    from mercer.studies.models import Model


_START = 1 << 16  # bytes of an existing file that show whether it is an earlier output


def check_output(
    path: Path,
    inputs: tuple[str, ...],
    is_own: Callable[[bytes], bool],
    *,
    force: bool,
    mode: Literal["w", "wb"] = "w",
) -> None:
    """Raise an error before the work starts if `path` cannot be written, is also an input, or is another file.

    Parameters
    ----------
    path : Path
    inputs : tuple of str
        Files that the command reads; these are never overwritten.
    is_own : callable
        Takes the first bytes of an existing file; returns whether it is an earlier output of the same kind, which the
        command may overwrite.
    force : bool
        Whether any other file may be overwritten, too.
    mode : {"w", "wb"}
    """
    from mercer.studies.models import check_folder, check_writable

    if check_writable(path, mode) is None:
        check_folder(path.parent)
    elif path.is_file():
        if any(path.samefile(name) for name in inputs if Path(name).exists()):
            raise OSError(f"output {path} is also an input, which it would overwrite; name another file")
        with open(path, "rb") as file:
            start = file.read(_START)
        if start and not force and not is_own(start):
            raise Failure(
                f"{path} exists and is not an output of this command, so it is left alone",
                "name another file, or write over it with --force",
            )
        check_folder(path.resolve().parent)


def is_model_file(start: bytes) -> bool:
    """Whether these first bytes of a file are those of a model file."""
    from mercer.studies.models import is_model_start

    return is_model_start(start)


def say_written(*paths: Path) -> None:
    """Print the names of the files that were written, on stderr."""
    for path in paths:
        click.echo(printable(f"written: {path}"), err=True)


def load(path: str) -> Model:
    """Return the model of a file."""
    with ended_by_ctrl_c():
        from mercer.studies.models import load_table_model

    return load_table_model(path)


def say_note(note: Any) -> None:
    """Print a note on the reading of a table."""
    say("note", str(note))


def read(
    path: str,
    reading: dict[str, Any],
    *,
    text: Iterable[str] = (),
    model: Model | None = None,
    report: Callable[[Any], None] = say_note,
) -> Table:
    """Return a table, and `report` what was guessed about its file.

    `reading` are the options of the command line, and `text` the columns that are text, whatever they look like. With a
    model, columns are text or numbers as in its training, and its decimal mark decides what the file leaves open.
    """
    with ended_by_ctrl_c():
        from mercer.studies.models import read_table

    as_text, model_reading = known_reading(text, model)
    table = read_table(path, text_columns=as_text, **reading, **model_reading)
    table = table if model is None else model.with_classes(table)
    for name in text:
        table[name]  # raises a TableError that suggests similar names
    for note in table.reading.notes:
        report(note)
    return table


def known_reading(text: Iterable[str], model: Model | None) -> tuple[set[str], dict[str, Any]]:
    """Return the columns that are text, and what a model says about the reading of a table."""
    as_text, options = set(text), dict[str, Any]()
    if model is not None:
        options = {"model_reading": model.reading, "number_columns": model.encoder.number_columns}
        as_text |= set(model.encoder.text_columns)
        if model.target is not None and model.prediction_kind.is_text:
            as_text.add(model.target)
    return as_text, options
