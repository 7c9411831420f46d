"""`mercer fit`."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.study.cli.files import check_output, say_written
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.messages import Failure, say
from mercer.study.cli.options import (
    AnyNumber,
    Integer,
    Number,
    drop_option,
    keep_option,
    missing_option,
    positive,
    say_reading,
    seconds_option,
    table_argument,
    target_of,
    target_option,
    task_option,
)

if TYPE_CHECKING:
    from mercer import InseparableError


@click.command("fit")
@table_argument
@target_option
@click.option("--out", metavar="MODEL", required=True, help="Model file to write.")
@click.option("--kernel", type=click.Choice(["linear", "poly", "rbf", "sigmoid"]), default="rbf", show_default=True)
@click.option(
    "--C",
    "C",
    type=Number(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Penalty; inf is the maximal margin.",
)
@click.option(
    "--epsilon",
    type=Number(min=0),
    default=0.1,
    show_default=True,
    help="Regression: half of the tube's width, in standard deviations of the target, as is the unit of --C.",
)
@click.option("--gamma", default="scale", show_default=True, help="A number, scale or auto; for rbf, median or sigest.")
@click.option("--degree", type=Integer(min=1), default=3, show_default=True, help="Of the polynomial kernel.")
@click.option(
    "--coef0", type=AnyNumber(), default=0.0, show_default=True, help="Of the polynomial and sigmoid kernels."
)
@click.option(
    "--multi-class",
    type=click.Choice(["ovo", "ovr", "joint"]),
    default="ovo",
    show_default=True,
    help="Of several classes: a machine for each pair, one for each against the rest, or one for all.",
)
@click.option("--probability", is_flag=True, help="Classification: know the probability of each class, too.")
@click.option("--tol", type=positive, default=1e-3, show_default=True, help="Largest KKT violation.")
@click.option("--tol-gap", type=positive, help="Largest relative duality gap  [default: whatever --tol leaves]")
@task_option
@drop_option
@keep_option
@missing_option
@seconds_option
def fit_command(
    table: str,
    target: str | None,
    out: str,
    gamma: str,
    epsilon: float,
    multi_class: str,
    probability: bool,
    task: Any,
    drop: tuple[str, ...],
    keep: tuple[str, ...],
    missing: Any,
    **parameters: Any,
) -> int:
    """Train one machine on all rows of a TABLE, certify it, and write it to a file.

    With --probability it is calibrated on rows that were left out, and `mercer predict` adds a column for each class.

    Ctrl-C ends the training early: the machine so far is written, unless there is a file of that name already.
    """
    with ended_by_ctrl_c():
        from mercer import SVC, SVR, InseparableError
        from mercer.persistence import fit_model, read_table, save_model
        from mercer.solvers import StageProgress, fit_progress
        from mercer.study.cli.output import print_fit
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.report.prose import left_out, why_left_out
        from mercer.tables import DATES, choose_columns, read_target

    read = read_table(table)
    name = target_of(read, target)
    path = Path(out)
    check_output(path, inputs=(table,), mode="wb")
    truth = read_target(read, name, task)
    _check_options(parameters["kernel"], truth.task)
    if probability and multi_class == "joint":
        raise click.UsageError("--probability is for --multi-class ovo and ovr", click.get_current_context())
    say_reading(truth)
    column_choice = choose_columns(read, truth, drop=drop, keep=keep, missing=missing)
    of_classes: dict[str, Any] = {"multi_class": multi_class, "probability": probability}
    own = {"epsilon": epsilon} if truth.task == "regression" else of_classes
    kind = SVR if truth.task == "regression" else SVC
    with ConsoleProgress() as progress:
        progress(StageProgress("fit"))
        machine = kind(
            gamma=_number_or_rule(gamma),
            callback=lambda state: progress(fit_progress("fit", state)),
            **own,
            **parameters,
        )
        began = time.perf_counter()
        try:
            model = fit_model(
                read.select([*column_choice.features, name]),
                name,
                machine,
                rows=column_choice.rows,
                keep=column_choice.features,
                missing="impute" if missing == "impute" else "error",
            )
        except InseparableError as error:
            raise _inseparable(error) from error
    took, interrupted = time.perf_counter() - began, model.certificate.status == "interrupted"
    lacks = probability and not model.has_probabilities
    out_of_time = lacks and not interrupted and took >= (parameters["max_seconds"] or math.inf)
    if (interrupted or lacks) and path.exists():
        why = "there was no time for probabilities" if out_of_time else "interrupted"
        raise Failure(why, f"{path} is as it was", 1 if out_of_time else INTERRUPTED)
    save_model(path, model)
    for note in column_choice.notes:
        say("note", str(note))
    for reason, columns in left_out(column_choice, model).items():
        if reason != DATES:  # of which there has been a warning
            say("note", why_left_out(reason, columns))
    print_fit(model)
    if lacks:
        say("warning", "the model knows no probabilities: these come from a pass after the fit, which did not end")
    status = "time_limit" if out_of_time else "interrupted" if lacks else model.certificate.status
    if status in _WHAT_NEXT:
        say("hint", _WHAT_NEXT[status].format(or_lower=_what_to_lower(parameters["kernel"])))
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


_OWN_OPTIONS = {
    "gamma": ("--kernel poly, rbf and sigmoid", {"poly", "rbf", "sigmoid"}),
    "degree": ("--kernel poly", {"poly"}),
    "coef0": ("--kernel poly and sigmoid", {"poly", "sigmoid"}),
    "epsilon": ("regression", {"regression"}),
    "multi_class": ("classification", {"classification"}),
    "probability": ("classification", {"classification"}),
}
"""Options that not all kernels or tasks have: what they are for, in words and as `--kernel` or the task."""


def _check_options(kernel: str, task: str) -> None:
    """An error for an option that means nothing for the kernel or the task."""
    context = click.get_current_context()
    for option, (wanted, whose) in _OWN_OPTIONS.items():
        given = context.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT
        if given and whose.isdisjoint({kernel, task}):
            here = f"--kernel {kernel}" if wanted.startswith("--kernel") else task
            raise click.UsageError(f"--{option.replace('_', '-')} is for {wanted}, and this is {here}", context)


_WHAT_NEXT = {
    "time_limit": "give it more time with --max-seconds",
    "interrupted": "run the command again and let it finish",
    "stalled": "ask for less with a larger --tol, or lower {or_lower}",
}
"""What to do about a machine that is not optimal, by its status."""


def _what_to_lower(kernel: str) -> str:
    """The options of this kernel that leave less to rounding where they are smaller."""
    options = ["--C", *(f"--{option}" for option in ("gamma", "degree") if kernel in _OWN_OPTIONS[option][1])]
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))


def _inseparable(error: InseparableError) -> Failure:
    n = int((error.weights > 0.0).sum())
    return Failure(
        "--C inf needs classes that can be separated, which they cannot with this kernel: weighted means of "
        f"{n} of their rows coincide (distance {error.distance:.2g})",
        "give a finite --C, or another --kernel",
    )


def _number_or_rule(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
