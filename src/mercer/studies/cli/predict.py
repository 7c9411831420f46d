"""`mercer predict`."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.files import check_output, load
from mercer.studies.cli.in_parts import Agreement, Messages, is_large
from mercer.studies.cli.messages import say
from mercer.studies.cli.options import (
    AnyNumber,
    OnceCommand,
    categorical_option,
    force_option,
    reading_options,
)
from mercer.studies.cli.predict_on_workers import predict_on_workers
from mercer.studies.cli.predicted_parts import Asked, predicted_parts
from mercer.studies.cli.predictions import is_workbook, output

if TYPE_CHECKING:
    import numpy as np

    from mercer.data import Table
    from mercer.studies.models import Model


@click.command("predict", cls=OnceCommand)
@click.argument("model", metavar="MODEL")
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", help="CSV file or Excel workbook (.xlsx) to write  [default: CSV on stdout]")
@force_option
@click.option(
    "--threshold",
    type=AnyNumber(),
    help="Two classes: predict the class that the decision value is named after where it is above  [default: 0, or the "
    "model's costs decide]",
)
@click.option(
    "--keep-columns",
    metavar="COLUMN",
    multiple=True,
    help="Column of the TABLE to write beside the predictions, such as an identifier; may be repeated.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Write what each column contributes to the prediction, and the output of usual rows that it is added to.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Read the TABLE in parts that need at most so much memory  [default: 500MB for files of more than 256 MB]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Predict on the workers of the Dask scheduler at this address, each of which reads a TABLE at a time. TABLEs "
    "and the folder of --out must be on a disk that all workers share.",
)
@reading_options
@categorical_option
def predict_command(
    model: str,
    tables: tuple[str, ...],
    out: str | None,
    force: bool,
    threshold: float | None,
    keep_columns: tuple[str, ...],
    explain: bool,
    memory: str | None,
    cluster: str | None,
    reading: dict[str, Any],
    categorical: tuple[str, ...],
) -> None:
    """Predict the rows of a TABLE: a line for each, with its label and its decision value(s), or its number.

    The first column is the number of the row in the TABLE, counted from 1 below the column names. With several TABLEs,
    a column with the name of the TABLE comes before it. For two classes there
    is one decision value, positive for the class that its column names; for more there is a score for each. Where the
    model knows the probability of each class, these follow. Labels are written as the training table had them, also
    those that a spreadsheet would take for a formula.

    With --explain, the output of usual rows (base) and a contribution of each column follow. They add up to the
    decision value, or to the number, for linear machines and kernels that are sums over columns; other machines have
    interactions between columns. Usual rows are those of the TABLE; for a TABLE of fewer than 10 rows, they are support
    vectors, or the mean of the training rows.

    An existing file is written over only if it holds predictions with the same columns, or with --force.
    """
    loaded = load(model)
    if out is not None:
        book = is_workbook(out)
        is_own = (lambda start: False) if book else partial(_holds_predictions, loaded)
        check_output(Path(out), (model, *tables), is_own, force=force, mode="wb" if book else "w")
    is_whole = memory is None and len(tables) == 1 and not is_large(tables[0])
    asked = Asked(reading, categorical, threshold, list(dict.fromkeys(keep_columns)), memory, len(tables) > 1)
    if cluster is not None:
        _refuse_for_workers(out, explain=explain)
        predict_on_workers(cluster, loaded, tables, str(out), asked).say()
        return
    agreement, messages, reference, has_header = Agreement(loaded), Messages(), None, False
    with output(out) as write:
        for table in tables:
            for rows, answers, columns in predicted_parts(loaded, table, asked, messages):
                if explain:
                    reference = reference if has_header else _usual_rows(rows)
                    columns |= _contributions(loaded, rows, reference)
                if not has_header:
                    write(list(columns))
                    has_header = True
                for row in zip(*columns.values(), strict=True):
                    write(row)
                if not is_whole:
                    agreement.add(rows, answers)
    if is_whole:
        _compare_with_truth(loaded, rows, answers)
    else:
        agreement.say()


def _refuse_for_workers(out: str | None, *, explain: bool) -> None:
    """Raise UsageError for options that mean nothing on workers."""
    context = click.get_current_context()
    if out is None or is_workbook(out):
        raise click.UsageError("--cluster writes a CSV file on the shared disk: name it by --out", context)
    if explain:
        raise click.UsageError("--explain compares rows of one process: leave --cluster out", context)


_USUAL = 2000  # rows of a table that explanations compare with at most


def _usual_rows(rows: Table) -> Table | None:
    """Return rows of a table to compare with; None if it has too few."""
    import numpy as np

    from mercer.studies.models import MIN_REFERENCE

    if rows.n_rows < MIN_REFERENCE:
        return None
    return rows.take(np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:_USUAL]))


def _contributions(model: Model, rows: Table, reference: Table | None) -> dict[str, list[Any]]:
    """Return the columns of an explanation."""
    from mercer.studies.models import explain

    explanation = explain(model, rows, reference)
    columns = zip(explanation.columns, explanation.contributions.T.tolist(), strict=True)
    return {"base": explanation.base.tolist()} | {f"contribution_{name}": amounts for name, amounts in columns}


def _holds_predictions(model: Model, start: bytes) -> bool:
    """Whether a file that begins like this has the columns of predictions of the model."""
    import numpy as np

    from mercer.studies.tables import Classes

    kind = model.prediction_kind
    n_scores = len(kind.labels) if isinstance(kind, Classes) else 1
    columns = kind.columns(np.zeros((1, n_scores) if n_scores > 2 else 1), np.zeros(1))
    header = next(csv.reader(start.decode("utf-8", "replace").splitlines()[:1]), [])
    return {*columns} <= {*header}


def _compare_with_truth(model: Model, table: Table, answers: np.ndarray) -> None:
    """If the table holds the target as well, say how far the prediction agrees; else how many rows are outside."""
    import numpy as np

    if model.target is None:
        n_outside = np.count_nonzero(answers < 0)
        say("note", f"{n_outside:,} of {len(answers):,} rows are outside")
        return
    if model.target not in table:
        return
    has_target = ~table.missing(model.target)
    if not has_target.any():
        return
    note = model.prediction_kind.agreement(table, answers, np.flatnonzero(has_target))
    if _holds_training_rows(model, table):
        has_target[model.training.rows] = False
        n_trained = len(model.training.rows)
        note += f"; the model was trained on {n_trained:,} of these rows, which says little about new ones"
        if has_target.any():
            note += f"; of the others, {model.prediction_kind.agreement(table, answers, np.flatnonzero(has_target))}"
    say("note", note)


def _holds_training_rows(model: Model, table: Table) -> bool:
    """Whether this is the table that the model was trained on."""
    training = model.training
    is_possible = bool(training.rows.size and training.rows.max() < table.n_rows)
    return is_possible and model.training_part(table).checksum() == training.checksum
