"""`mercer predict`."""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from mercer.study.cli.files import check_output, load, read
from mercer.study.cli.in_parts import Agreement, PartWarnings, is_large, read_in_parts
from mercer.study.cli.messages import Failure, printable, say
from mercer.study.cli.options import (
    AnyNumber,
    OnceCommand,
    categorical_option,
    force_option,
    reading_options,
    table_argument,
)

if TYPE_CHECKING:
    import numpy as np

    from mercer.persistence import Model
    from mercer.tables import Table


@click.command("predict", cls=OnceCommand)
@click.argument("model", metavar="MODEL")
@table_argument
@click.option("--out", metavar="FILE", help="CSV file to write  [default: stdout]")
@force_option
@click.option(
    "--threshold",
    type=AnyNumber(),
    help="Two classes: predict the class that the decision value is named after where it is above  [default: 0, or the "
    "model's costs decide]",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Read the TABLE in parts that need at most so much memory  [default: 500MB for files of more than 256 MB]",
)
@reading_options
@categorical_option
def predict_command(
    model: str,
    table: str,
    out: str | None,
    force: bool,
    threshold: float | None,
    memory: str | None,
    reading: dict[str, Any],
    categorical: tuple[str, ...],
) -> None:
    """Predict the rows of a TABLE: a CSV line for each, with its label and its decision value(s), or its number.

    For two classes there is one decision value, positive for the class that its column names; for more there is a
    score for each. Where the model knows the probability of each class, these follow. Labels are written as the
    training table had them, also those that a spreadsheet would take for a formula.

    An existing file is written over only if it holds predictions with the same columns, or with --force.
    """
    loaded = load(model)
    if out is not None:
        check_output(Path(out), (model, table), partial(_holds_predictions, loaded), force=force)
    if memory is None and is_large(table):
        memory = "500MB"
    if memory is None:
        rows = read(table, reading, text=categorical, model=loaded)
        answers, columns = _predicted(loaded, rows, threshold)
        with _output(out) as file:
            _write(file, columns, with_names=True)
        _compare_with_truth(loaded, rows, answers)
        return
    agreement, warned = Agreement(loaded), PartWarnings()
    parts = read_in_parts(table, reading, text=categorical, model=loaded, memory=memory)
    with _output(out) as file:
        for number, rows in enumerate(parts):
            with warned.of(rows):
                answers, columns = _predicted(loaded, rows, threshold)
            _write(file, columns, with_names=number == 0)
            agreement.add(rows, answers)
    agreement.say()


def _holds_predictions(model: Model, start: bytes) -> bool:
    """Whether a file that begins like this has the columns of predictions of the model."""
    import numpy as np

    from mercer.tables import Classes

    kind = model.prediction_kind
    n_scores = len(kind.labels) if isinstance(kind, Classes) else 1
    columns = kind.columns(np.zeros((1, n_scores) if n_scores > 2 else 1), np.zeros(1))
    header = next(csv.reader(start.decode("utf-8", "replace").splitlines()[:1]), [])
    return {*columns} <= {*header}


def _predicted(model: Model, rows: Table, threshold: float | None) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """Return the predictions of rows, and the columns that are written."""
    from mercer.tables import Classes

    answers, scores = model.answer(rows)
    if threshold is not None:
        answers = _answers_at(threshold, model, scores)
    columns = model.prediction_kind.columns(scores, answers)
    if isinstance(model.prediction_kind, Classes) and model.has_probabilities:
        shares = model.probabilities(rows).T.tolist()
        columns |= {f"probability_{name}": one for name, one in zip(model.prediction_kind.names, shares, strict=True)}
    return answers, columns


def _write(file: IO[str], columns: dict[str, list[Any]], *, with_names: bool) -> None:
    """Write rows as CSV, after the names of the columns if asked for."""
    # Data stay what they are in a file or a pipe, where a changed label would no longer match the table's. A terminal
    # obeys control characters, so there they are spelt out.
    shown = printable if file.isatty() else str
    writer = csv.writer(file, lineterminator="\n")
    if with_names:
        writer.writerow([shown(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        writer.writerow([repr(cell) if isinstance(cell, float) else shown(str(cell)) for cell in row])


def _answers_at(threshold: float, model: Model, scores: np.ndarray) -> np.ndarray:
    """Return the labels of two classes: the second one where the decision value is above the threshold."""
    from mercer.tables import Classes

    kind = model.prediction_kind
    if not isinstance(kind, Classes) or len(kind.labels) > 2:
        raise Failure("--threshold is for models of two classes, and this model is not one of these", "leave it out")
    if math.isnan(threshold):
        raise Failure("--threshold must be a number, got nan", "name a number")
    if model.costs is not None:
        say("note", "the threshold decides, and not the costs in the model")
    return kind.outcomes[(scores > threshold).astype(int)]


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """Stdout, or a file that appears under its name once it is complete."""
    from mercer.persistence import open_atomically

    if path is None:
        if getattr(sys.stdout, "name", "") == os.devnull:
            raise Failure("stdout is closed, so predictions have no place to go", "name a file with --out")
        yield sys.stdout
        return
    with open_atomically(path, "w") as file:
        yield file


def _compare_with_truth(model: Model, table: Table, answers: np.ndarray) -> None:
    """If the table holds the target as well, say how far the prediction agrees; else how many rows are outside."""
    import numpy as np

    if model.target is None:
        n_outside = np.count_nonzero(answers < 0)
        say("note", f"{n_outside:,} of {len(answers):,} rows are outside")
        return
    if model.target not in table:
        return
    known = ~table.missing(model.target)
    if not known.any():
        return
    note = model.prediction_kind.agreement(table, answers, np.flatnonzero(known))
    if _holds_training_rows(model, table):
        known[model.training.rows] = False
        n_trained = len(model.training.rows)
        note += f"; the model was trained on {n_trained:,} of these rows, which says little about new ones"
        if known.any():
            note += f"; of the others, {model.prediction_kind.agreement(table, answers, np.flatnonzero(known))}"
    say("note", note)


def _holds_training_rows(model: Model, table: Table) -> bool:
    """Whether this is the table that the model was trained on."""
    training = model.training
    is_possible = bool(training.rows.size and training.rows.max() < table.n_rows)
    return is_possible and model.training_part(table).checksum() == training.checksum
