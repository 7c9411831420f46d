"""`mercer study`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from mercer.study.cli.files import say_written, writable_folder
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.messages import Failure
from mercer.study.cli.options import (
    Integer,
    Number,
    class_weight_option,
    drop_option,
    keep_option,
    missing_option,
    say_reading,
    seconds_option,
    table_argument,
    target_of,
    target_option,
    task_option,
)

_CLASS_SCORES = ("accuracy", "balanced_accuracy", "roc_auc", "f1", "log_loss")
_NUMBER_SCORES = ("r2", "mae", "rmse")


@click.command("study")
@table_argument
@target_option
@click.option("--out", metavar="DIR", help="Folder for report and model  [default: TABLE's name with -study]")
@task_option
@drop_option
@keep_option
@missing_option
@click.option("--seed", type=Integer(0, 2**32 - 1), default=0, show_default=True, help="Of the splits.")
@click.option(
    "--test-size",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="Share of the rows to seal away.",
)
@click.option(
    "--kernel",
    type=click.Choice(["linear", "poly", "rbf"]),
    multiple=True,
    help="Kernel to try; may be repeated  [default: all]",
)
@class_weight_option
@click.option(
    "--scoring",
    type=click.Choice([*_CLASS_SCORES, *_NUMBER_SCORES]),
    help="What settings are chosen by  [default: accuracy, by the class weights if there are any; r2 for numbers]",
)
@click.option("--folds", type=Integer(min=2), default=5, show_default=True, help="Of the cross-validation.")
@seconds_option
@click.pass_obj
def study_command(
    arguments: list[str],
    /,
    table: str,
    target: str | None,
    out: str | None,
    kernel: tuple[str, ...],
    folds: int,
    **options: Any,
) -> None:
    """Find, certify and honestly evaluate a machine for a TABLE (CSV, Parquet or svmlight).

    A test part is sealed first; kernel, gamma and C (for numbers epsilon too) are chosen on the rest by
    cross-validation; the seal is opened once. Logistic regression (for numbers ridge regression) and nearest neighbours
    go through the same protocol. Ctrl-C ends the search and goes on with the best candidate so far; before the search
    has begun, and a second time, it ends everything.
    """
    with ended_by_ctrl_c():
        from mercer.persistence import read_table, save_model
        from mercer.study.cli.output import print_study
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.protocol import study
        from mercer.study.report.page import write_report
        from mercer.study.search import SearchStopped

    if out == "":
        raise click.UsageError("--out names no folder", click.get_current_context())
    read = read_table(table)
    name = Path(table).name
    with writable_folder(Path(out if out is not None else f"{_stem(name)}-study")) as folder:
        try:
            with ConsoleProgress() as progress:
                found = study(
                    read, target_of(read, target), kernel=kernel or None, n_folds=folds, progress=progress, **options
                )
        except SearchStopped as stopped:
            raise Failure(
                f"the search ended ({stopped}) before one candidate was finished; nothing was written",
                *((None, INTERRUPTED) if str(stopped) == "interrupted" else ("give it more time with --max-seconds",)),
            ) from stopped
        say_reading(found.column_choice.truth)
        save_model(folder / "model.mercer", found.model)
        write_report(folder / "report.html", found, source=name, command=shlex.join(["mercer", *arguments]))
    print_study(found)
    say_written(folder / "report.html", folder / "model.mercer")


def _stem(name: str) -> str:
    """Return the name of a file without its format and compression: data.train for data.train.csv.gz."""
    return Path(name.removesuffix(".gz")).stem
