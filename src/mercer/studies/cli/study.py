"""`mercer study`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import click

from mercer.studies.cli.files import read, say_written
from mercer.studies.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.studies.cli.kernel_option import KernelText
from mercer.studies.cli.messages import Failure, say
from mercer.studies.cli.options import (
    Approximation,
    Integer,
    Number,
    OnceCommand,
    as_text,
    checkpoint_option,
    class_weight_option,
    column_options,
    copies_option,
    cost_of,
    cost_option,
    groups_option,
    rare_option,
    reading_options,
    say_reading,
    seconds_option,
    table_argument,
    target_of,
    target_option,
    task_option,
    time_option,
    with_rare,
)

_CLASS_SCORES = ("accuracy", "balanced_accuracy", "roc_auc", "f1", "log_loss")
_NUMBER_SCORES = ("r2", "mae", "rmse")

_MORE_TIME = "give it more time with --max-seconds, or allow --kernel linear, too"
"""What to do if there was no time for one candidate, and linear machines were excluded."""


@click.command("study", cls=OnceCommand)
@table_argument
@target_option
@click.option("--out", metavar="DIR", help="Folder for report and model  [default: TABLE's name with -study]")
@click.option(
    "--force", is_flag=True, help="Write over a study in this folder  [default: use a folder DIR-2, DIR-3, ...]"
)
@task_option
@column_options
@reading_options
@groups_option
@time_option
@copies_option
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
    type=KernelText(("linear", "poly", "rbf")),
    multiple=True,
    help="Kernel to try, also a text such as 'Spectrum(3) on seq + RBF on rest'; may be repeated  [default: all three, "
    "and kernels of words for sequences]",
)
@click.option(
    "--approximation",
    type=Approximation(),
    default="auto",
    show_default=True,
    help="How machines with a kernel are trained: exact; landmarks, sums over a number of rows; cells of neighbours, "
    "each with an exact machine; auto is exact unless that takes too long on 20,000 rows or more, and a pilot chooses.",
)
@class_weight_option
@rare_option
@cost_option
@click.option(
    "--scoring",
    type=click.Choice([*_CLASS_SCORES, *_NUMBER_SCORES]),
    help="What settings are chosen by  [default: accuracy, by the class weights if there are any; r2 for numbers]",
)
@click.option("--folds", type=Integer(min=2), default=5, show_default=True, help="Of the cross-validation.")
@seconds_option
@click.option(
    "--repeats",
    type=Integer(min=0),
    default=0,
    show_default=True,
    help="Repeat the whole choice on so many other splits of the rows that are not sealed.",
)
@click.option(
    "--keep-sealed",
    is_flag=True,
    help="End before the seal is opened: compare options by the folds. The same command without it opens the seal.",
)
@checkpoint_option
@click.pass_obj
def study_command(
    arguments: list[str],
    /,
    table: str,
    target: str | None,
    out: str | None,
    force: bool,
    kernel: tuple[str, ...],
    cost: str | None,
    folds: int,
    max_seconds: float | None,
    keep_sealed: bool,
    reading: dict[str, Any],
    **options: Any,
) -> None:
    """Find, certify and honestly evaluate a machine for a TABLE (CSV, Excel, Parquet, svmlight, FASTA).

    A test part is sealed first; kernel, gamma and C (for numbers epsilon too) are chosen on the rest by
    cross-validation; the seal is opened once. Logistic regression (for numbers ridge regression), nearest neighbours
    and gradient boosting go through the same protocol. Ctrl-C ends the search and goes on with the best candidate so
    far; before the search has begun, and a second time, it ends everything.

    Looks at sealed rows are counted across runs. Each look is a line of the ledger mercer-looks.jsonl in the folder and
    of the one beside it. A study finds earlier looks there and beside the table, also those with another seed. With
    --keep-sealed there is no look: only figures of the folds are printed, and the model goes to sealed.mercer.
    """
    began = time.perf_counter()
    with ended_by_ctrl_c():
        from mercer.solvers import ProgressBar, StageProgress
        from mercer.studies.cli.output import print_sealed, print_study
        from mercer.studies.inputs import with_target
        from mercer.studies.ledger import MODEL, REPORT, SEALED_MODEL, Looks, earlier_folders, free_folder, holds_study
        from mercer.studies.models import save_model, writable_folder
        from mercer.studies.protocol import study
        from mercer.studies.report.page import render  # noqa: F401 (an ImportError comes before the work)
        from mercer.studies.report.presenter import Presenter
        from mercer.studies.report.prose import before_the_look
        from mercer.studies.sealed_study import SealedStudy
        from mercer.studies.search import SearchStopped

    if out == "":
        raise click.UsageError("--out names no folder", click.get_current_context())
    costs = cost_of(cost)
    rows = read(table, reading, text=as_text(options))
    name = Path(table).name
    rows, column = with_target(rows, target, table, needed=False)
    wanted = target_of(rows, column)
    command = shlex.join(["mercer", *arguments])
    size = options["test_size"]
    rows = with_rare(rows, wanted, options["task"], options.pop("rare"), test_size=size, folds=folds)
    asked = Path(out if out is not None else f"{_stem(name)}-study")
    with writable_folder(asked if force else free_folder(asked)) as folder:
        if folder != asked:
            say(
                "note",
                f"{asked} holds a study, which is left alone: this one goes to {folder} (--force writes over it)",
            )
        elif holds_study(folder):
            say("note", f"the study in {folder} is written over, as --force asks")
        others = [*earlier_folders(asked), Path(table).parent, Path.cwd()]
        earlier_looks = Looks(rows, wanted, source=name, folder=folder, others=others)
        notes = [before_the_look(earlier_looks.earlier)] if earlier_looks.earlier and not keep_sealed else []
        try:
            with ProgressBar() as console:

                def progress(state: StageProgress) -> None:
                    while notes:  # said once all options have been checked
                        say("note", notes.pop())
                    console(state)

                studied = study(
                    rows,
                    wanted,
                    kernel=kernel or None,
                    cost=costs,
                    n_folds=folds,
                    max_seconds=_left(max_seconds, began),
                    progress=progress,
                    keep_sealed=keep_sealed,
                    looks=earlier_looks,
                    presenter=Presenter(name, command),
                    **options,
                )
        except SearchStopped as stopped:
            raise Failure(
                f"the search ended ({stopped}) before one candidate was finished; nothing was written",
                *((None, INTERRUPTED) if str(stopped) == "interrupted" else (_MORE_TIME,)),
            ) from stopped
        say_reading(studied.column_choice.truth)
        if isinstance(studied, SealedStudy):
            print_sealed(studied)
            save_model(folder / SEALED_MODEL, studied.model)
            say_written(folder / SEALED_MODEL)
            return
        if not force and holds_study(folder):  # another study has written there in the meantime
            occupied, folder = folder, free_folder(asked)
            folder.mkdir()
            say("note", f"another study was written to {occupied} in the meantime: this one goes to {folder}")
        studied.save(folder, force=True)
    print_study(studied, table, command, str(folder / MODEL))
    say_written(folder / REPORT, folder / MODEL)


def _left(max_seconds: float | None, began: float) -> float | None:
    """Return the seconds that are left for the study itself, without the page."""
    from mercer.studies.time_budget import PAGE

    return None if max_seconds is None else max(0.0, (1.0 - PAGE) * max_seconds - (time.perf_counter() - began))


def _stem(name: str) -> str:
    """Return the name of a file without its format and compression: data.train for data.train.csv.gz."""
    path = Path(name)
    return Path(path.stem if path.suffix in (".gz", ".bz2", ".xz") else path).stem
