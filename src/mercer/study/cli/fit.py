"""`mercer fit`."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.study.cli.files import check_output, read, say_written
from mercer.study.cli.fit_linear import fit_linear
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.machines import KERNELS, MACHINES, USUAL, against_rounding, check_options
from mercer.study.cli.messages import Failure, say
from mercer.study.cli.options import (
    COLUMN_OPTIONS,
    AnyNumber,
    Integer,
    Number,
    OnceCommand,
    as_text,
    class_weight_option,
    column_options,
    cost_of,
    cost_option,
    positive,
    reading_options,
    say_reading,
    seconds_option,
    table_argument,
    target_of,
    target_option,
    task_option,
)

if TYPE_CHECKING:
    from mercer import InseparableError
    from mercer.tables import Classes, Table, TableChoice, Truth


@click.command("fit", cls=OnceCommand)
@table_argument
@target_option
@click.option("--out", metavar="MODEL", required=True, help="Model file to write.")
@click.option(
    "--machine",
    metavar="NAME",
    type=click.Choice(list(MACHINES)),
    help=f"What to train: {', '.join(MACHINES)}. The last two need no --target.  [default: svc or svr, by the task]",
)
@click.option(
    "--linear",
    is_flag=True,
    help="Train a linear machine on a TABLE that may be larger than memory: CSV, Parquet or svmlight.",
)
@click.option("--memory", metavar="SIZE", help="With --linear: memory for the fit.  [default: 500MB]")
@click.option(
    "--cache", metavar="FOLDER", help="With --linear: folder for the parsed table  [default: TABLE.blocks, it is kept]"
)
@click.option("--kernel", type=click.Choice(KERNELS), default="rbf", show_default=True)
@click.option(
    "--C",
    "C",
    type=Number(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Penalty; inf is the maximal margin.",
)
@click.option(
    "--nu",
    type=Number(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Of the nu machines and one-class: about the share of support vectors.",
)
@click.option(
    "--epsilon",
    type=Number(min=0),
    default=0.1,
    show_default=True,
    help="Regression: half of the tube's width, in standard deviations of the target, as is the unit of --C.",
)
@click.option(
    "--quantile",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="The share of rows below the predicted number.",
)
@click.option(
    "--contamination",
    type=Number(0, 0.5, min_open=True),
    help="One-class: the share of training rows to leave outside, instead of --nu.",
)
@click.option("--alpha", type=Number(min=0), help="Penalty of ridge [default: 1] and least-squares [default: 0].")
@click.option(
    "--prior-variance", type=positive, default=1.0, show_default=True, help="Of the logistic machines: larger is freer."
)
@click.option("--penalty", type=positive, default=1.0, show_default=True, help="Of gradient-svc.")
@click.option("--neighbors", type=Integer(min=1), default=5, show_default=True, help="How many rows vote.")
@click.option("--components", type=Integer(min=1), default=100, show_default=True, help="Centres of rbf-network.")
@click.option("--passes", type=Integer(min=1), default=1000, show_default=True, help="Most passes of the perceptron.")
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
    help="Of several classes: a machine for each pair, one for each against the rest, or one for all (svc).",
)
@class_weight_option
@cost_option
@click.option("--probability", is_flag=True, help="Classification: know the probability of each class, too.")
@click.option("--weights", metavar="COLUMN", help="Column that says how often each row counts; 0 leaves a row out.")
@click.option("--tol", type=positive, help="Largest KKT violation  [default: 0.001, less for the logistic machines]")
@click.option("--tol-gap", type=positive, help="Largest relative duality gap  [default: whatever --tol leaves]")
@task_option
@column_options
@reading_options
@seconds_option
def fit_command(
    table: str,
    target: str | None,
    out: str,
    machine: str | None,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    linear: bool,
    memory: str | None,
    cache: str | None,
    **options: Any,
) -> int:
    """Train one machine on all rows of a TABLE, certify it, and write it to a file.

    With --probability it is calibrated on rows that were left out, and `mercer predict` adds a column for each class.
    The machines one-class and svdd learn what the rows have in common; `mercer predict` then says for each row whether
    it is inside (1) or outside (-1).

    Ctrl-C ends the training early: the machine so far is written, unless there is a file of that name already.
    """
    with ended_by_ctrl_c():
        from mercer import InseparableError, StoppedError
        from mercer.persistence import fit_model, save_model
        from mercer.solvers import StageProgress, fit_progress
        from mercer.study.cli.output import print_fit
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.costs import cost_matrix, weights_by_cost
        from mercer.study.report.prose import left_out, why_left_out
        from mercer.tables import choose_columns, choose_without_target

    columns = {option: options.pop(option) for option in COLUMN_OPTIONS}
    if linear:
        return fit_linear(
            table,
            target,
            out,
            weights=weights,
            task=task,
            reading=reading,
            columns=columns,
            memory=memory or "500MB",
            cache=cache,
            options=options,
        )
    if memory is not None or cache is not None:
        raise click.UsageError("--memory and --cache are for --linear", click.get_current_context())
    rows = read(table, reading, text=as_text(columns))
    path = Path(out)
    check_output(path, inputs=(table,), mode="wb")
    if weights is not None and weights in (target, *columns["keep"]):
        raise click.UsageError(
            f"--weights {weights} cannot also be a column to {'predict' if weights == target else 'learn from'}",
            click.get_current_context(),
        )
    columns["drop"] = tuple(name for name in columns["drop"] if name != weights)
    used = rows if weights is None else rows.without([weights])
    truth = None
    if machine is not None and not MACHINES[machine].needs_target:
        _refuse_target(machine, target, task)
        name, used = machine, _without_labels(used)
    else:
        truth = _truth(used, target_of(used, target), machine, task)
        name = machine or USUAL[truth.task]
    check_options(name, options["kernel"], named=machine is not None)
    needs_probabilities = options["probability"] or options["cost"] is not None
    if options["multi_class"] == "joint" and (needs_probabilities or name != "svc"):
        what = (
            f"{'--probability is' if options['probability'] else '--cost is'} for --multi-class ovo and ovr"
            if name == "svc"
            else "--multi-class joint is for --machine svc"
        )
        raise click.UsageError(what, click.get_current_context())
    column_choice: TableChoice
    costs = None
    if truth is None:
        column_choice = choose_without_target(used, **columns)
    else:
        say_reading(truth)
        column_choice = choose_columns(used, truth, **columns)
        if options["class_weight"] is not None:
            options["class_weight"] = _class_weight(options["class_weight"], *_classes(truth, used, column_choice))
        if options["cost"] is not None:
            classes, part = _classes(truth, used, column_choice)
            costs = cost_matrix(cost_of(options["cost"]), classes.names)
            if options["class_weight"] is None and name == "svc":
                options["class_weight"] = _by_label(classes, weights_by_cost(costs, _counts(classes, part)))
    with ConsoleProgress() as progress:
        progress(StageProgress("fit"))
        estimator = MACHINES[name].made(
            options | {"gamma": _number_or_rule(options["gamma"])},
            lambda state: progress(fit_progress("fit", state)),
        )
        kept = {*column_choice.features, weights, None if truth is None else truth.target}
        began = time.perf_counter()
        try:
            model = fit_model(
                rows.select([name for name in rows.names if name in kept]),
                None if truth is None else truth.target,
                estimator,
                rows=column_choice.rows,
                sample_weight=weights,
                encoder=column_choice.encoder(),
            )
        except InseparableError as error:
            raise _inseparable(error) from error
        except StoppedError as error:
            raise Failure(str(error)) from error
    took, status = time.perf_counter() - began, getattr(model.certificate, "status", None)
    lacks = needs_probabilities and not model.has_probabilities
    out_of_time = lacks and status != "interrupted" and took >= (options["max_seconds"] or math.inf)
    if (status == "interrupted" or lacks) and path.exists():
        why = "there was no time for probabilities" if out_of_time else "interrupted"
        raise Failure(why, f"{path} is as it was", 1 if out_of_time else INTERRUPTED)
    if lacks and costs is not None:
        raise Failure(
            "the fit ended before there were probabilities, which --cost needs; nothing was written",
            _WHAT_NEXT["time_limit" if out_of_time else "interrupted"],
            1 if out_of_time else INTERRUPTED,
        )
    model = replace(model, costs=costs)
    save_model(path, model)
    for note in column_choice.notes:
        say("note", str(note))
    for reason, names in left_out(column_choice, model).items():
        say("note", why_left_out(reason, names))
    print_fit(model, used)
    if lacks:
        say("warning", "the model knows no probabilities: these come from a pass after the fit, which did not end")
        status = "time_limit" if out_of_time else "interrupted"
    if status in _WHAT_NEXT:
        say("hint", _WHAT_NEXT[status])
    elif status == "stalled":
        say("hint", ", or ".join(against_rounding(name, options["kernel"])))
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


def _classes(truth: Truth, table: Table, column_choice: TableChoice) -> tuple[Classes, Table]:
    """Return the classes of the rows to train on, and these rows."""
    from mercer.tables import Classes

    part = table.as_written(truth.target).take(column_choice.rows)
    return Classes.learnt(truth.target, part[truth.target]), part


def _class_weight(asked: str, classes: Classes, part: Table) -> str | dict[Any, float] | None:
    """Return the class weights as estimators take them: "balanced", or the weight of each label."""
    from mercer.study.costs import BALANCED, NONE, class_weights

    if asked in (BALANCED, NONE):
        return asked if asked == BALANCED else None  # balanced weights depend on the weights of the rows, too
    return _by_label(classes, class_weights(asked, classes.names, _counts(classes, part)))


def _counts(classes: Classes, part: Table) -> Any:
    """Return the number of rows of each class."""
    import numpy as np

    return np.bincount(classes.truth(part), minlength=len(classes.names))


def _by_label(classes: Classes, weights: Any) -> dict[Any, float]:
    """Return weights of classes by their labels."""
    return dict(zip(classes.labels.tolist(), weights.tolist(), strict=True))


def _truth(table: Table, target: str, machine: str | None, task: Any) -> Truth:
    """Return the target as the machine takes it; an error for a target or a task that it does not take."""
    from mercer.tables import TableError, read_target

    if machine is None:
        return read_target(table, target, task)
    wanted: Any = MACHINES[machine].task
    if task not in ("auto", wanted):
        context = click.get_current_context()
        raise click.UsageError(f"--machine {machine} is for {wanted}, but --task is {task}", context)
    others = ", ".join(name for name, one in MACHINES.items() if one.needs_target and one.task != wanted)
    try:
        truth = read_target(table, target, wanted if wanted == "regression" else task)
    except TableError as error:
        if wanted != "regression" or target not in table or table.is_numeric(target):
            raise
        raise Failure(str(error), f"mend or empty these cells; for classes there are --machine {others}") from error
    if truth.task != wanted:
        raise Failure(
            f"--machine {machine} is for classes, but the target {target!r} holds many different numbers",
            f"for numbers there are --machine {others}; if these are names of classes, say --task {wanted}",
        )
    return truth


def _refuse_target(machine: str, target: str | None, task: str) -> None:
    given = "--target" if target is not None else "--task" if task != "auto" else None
    if given is not None:
        raise click.UsageError(
            f"--machine {machine} learns without a target, so {given} means nothing; --drop leaves a column out",
            click.get_current_context(),
        )


def _without_labels(table: Table) -> Table:
    """Return a table without the labels that every svmlight file has."""
    if table.sparse is None or not table.names:
        return table
    say("note", f"the column {table.names[0]!r} of the file is not used, because this machine learns without a target")
    return table.without(table.names[:1])


_WHAT_NEXT = {
    "time_limit": "give it more time with --max-seconds",
    "interrupted": "run the command again and let it finish",
}
"""What to do about a machine that is not optimal, by its status."""


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
