"""`mercer fit`."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.files import check_output, is_model_file, read, say_written
from mercer.studies.cli.fit_file import fit_file
from mercer.studies.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.studies.cli.kernel_option import columns_for, only_compared
from mercer.studies.cli.machine_options import machine_options
from mercer.studies.cli.machines import MACHINES, USUAL, against_rounding, check_options, is_given
from mercer.studies.cli.messages import Failure, say
from mercer.studies.cli.options import (
    COLUMN_OPTIONS,
    OnceCommand,
    as_text,
    checkpoint_option,
    column_options,
    cost_of,
    force_option,
    number_or_rule,
    rare_option,
    reading_options,
    say_reading,
    seconds_option,
    target_of,
    target_option,
    task_option,
    with_rare,
)
from mercer.studies.cli.targets import read_truth, refuse_target, without_labels

if TYPE_CHECKING:
    from mercer import InseparableError
    from mercer.data import Table
    from mercer.studies.models import Model
    from mercer.studies.tables import Classes, TableChoice, Truth


@click.command("fit", cls=OnceCommand)
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@target_option
@click.option("--out", metavar="MODEL", required=True, help="Model file to write.")
@force_option
@machine_options
@task_option
@rare_option
@column_options
@reading_options
@seconds_option
@checkpoint_option
def fit_command(
    tables: tuple[str, ...],
    target: str | None,
    out: str,
    force: bool,
    machine: str | None,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    linear: bool,
    memory: str | None,
    cache: str | None,
    cluster: str | None,
    scale: bool | None,
    rare: str | None,
    checkpoint: str | None,
    **options: Any,
) -> int:
    """Train one machine on all rows of a TABLE, certify it, and write it to a file.

    With --linear, several TABLEs with the same columns are one table. With --cluster, the workers of a Dask cluster
    read them from a shared disk and hold their rows.

    With --probability it is calibrated on rows that were left out, and `mercer predict` adds a column for each class.
    The machines one-class and svdd learn what the rows have in common; `mercer predict` then says for each row whether
    it is inside (1) or outside (-1).

    An existing file is written over only if it is a model file, or with --force. Ctrl-C ends the training early: the
    machine so far is written, unless there is a file of that name already.
    """
    with ended_by_ctrl_c():
        from mercer.studies.cli.output import print_fit
        from mercer.studies.models import save_model
        from mercer.studies.report.prose import left_out, why_left_out

    columns = {option: options.pop(option) for option in COLUMN_OPTIONS}
    if linear or cluster is not None or memory is not None:
        return fit_file(
            tables,
            target,
            out,
            force=force,
            linear=linear or cluster is not None,
            machine=machine,
            weights=weights,
            task=task,
            reading=reading,
            columns=columns,
            memory="500MB" if memory is None else memory,
            cache=cache,
            cluster=cluster,
            scale=scale,
            options=options,
        )
    refuse_options_of_files()
    if len(tables) > 1:
        raise click.UsageError(
            f"one TABLE is expected, got {len(tables)}: several are one table with --linear only",
            click.get_current_context(),
        )
    (table,) = tables
    with ended_by_ctrl_c():
        from mercer.studies.inputs import with_target

    rows = read(table, reading, text=as_text(columns))
    if target is not None:
        rows, target = with_target(rows, target, table)
    rows = with_rare(rows, target, task, rare, test_size=0.25, folds=5)
    path = Path(out)
    check_output(path, (table,), is_model_file, force=force, mode="wb")
    asked = asked_for(rows, target, machine, weights, task, columns, options)
    began = time.perf_counter()
    model = _trained(asked, options, checkpoint)
    took, status = time.perf_counter() - began, getattr(model.certificate, "status", None)
    lacks = asked.needs_probabilities and not model.has_probabilities
    out_of_time = lacks and status != "interrupted" and took >= (options["max_seconds"] or math.inf)
    if (status == "interrupted" or lacks) and path.exists():
        why = "there was no time for probabilities" if out_of_time else "interrupted"
        raise Failure(why, f"{path} is as it was", 1 if out_of_time else INTERRUPTED)
    if lacks and asked.costs is not None:
        raise Failure(
            "the fit ended before there were probabilities, which --cost needs; nothing was written",
            _WHAT_NEXT["time_limit" if out_of_time else "interrupted"],
            1 if out_of_time else INTERRUPTED,
        )
    model = replace(model, costs=asked.costs)
    save_model(path, model)
    for note in asked.column_choice.notes:
        say("note", str(note))
    for reason, names in left_out(asked.column_choice, model).items():
        say("note", why_left_out(reason, names))
    print_fit(model, asked.used)
    if lacks:
        say("warning", "the model knows no probabilities: these come from a pass after the fit, which did not end")
        status = "time_limit" if out_of_time else "interrupted"
    if status in _WHAT_NEXT:
        say("hint", _WHAT_NEXT[status] if checkpoint is None else "the same command continues from its checkpoint")
    elif status == "stalled":
        say("hint", ", or ".join(against_rounding(asked.machine, options["kernel"])))
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


@dataclass(frozen=True)
class Asked:
    """What the command line asks for, once the table is known.

    Attributes
    ----------
    rows : Table
        The table, with the column of weights.
    used : Table
        The table without it.
    machine : str
        Name of the machine.
    truth : Truth or None
        The target, for machines that have one.
    weights : str or None
        Column of the weights of rows.
    column_choice : TableChoice
        Rows and columns to learn from.
    class_weight : str or dict or None
        As estimators take it.
    costs : ndarray or None
        Costs of wrong predictions.
    needs_probabilities : bool
    """

    rows: Table
    used: Table
    machine: str
    truth: Truth | None
    weights: str | None
    column_choice: TableChoice
    class_weight: Any
    costs: Any
    needs_probabilities: bool

    @property
    def chosen(self) -> Table:
        """The table with the columns that are used: features, target and weights."""
        names = {*self.column_choice.features, self.weights, None if self.truth is None else self.truth.target}
        return self.rows.select([name for name in self.rows.names if name in names])


def machine_of(asked: Asked, options: dict[str, Any], callback: Any) -> Any:
    """Return the estimator that the options describe."""
    params = options | {"class_weight": asked.class_weight, "gamma": number_or_rule(options["gamma"])}
    return MACHINES[asked.machine].made(params, callback)


def asked_for(
    rows: Table,
    target: str | None,
    machine: str | None,
    weights: str | None,
    task: Any,
    columns: dict[str, Any],
    options: dict[str, Any],
) -> Asked:
    """Check the command line against the table, and return what it asks for."""
    from mercer.studies.costs import cost_matrix, weights_by_cost
    from mercer.studies.tables import choose_columns, choose_without_target

    if weights is not None and weights in (target, *columns["keep"]):
        raise click.UsageError(
            f"--weights {weights} cannot also be a column to {'predict' if weights == target else 'learn from'}",
            click.get_current_context(),
        )
    columns = columns | {"drop": tuple(name for name in columns["drop"] if name != weights)}
    used = rows if weights is None else rows.without([weights])
    as_they_are = only_compared(options["kernel"], used, target, columns["drop"])
    dropped, columns = columns["drop"], columns_for(options["kernel"], used, target, columns)
    truth, class_weight, costs = None, options["class_weight"], None
    if machine is not None and not MACHINES[machine].needs_target:
        refuse_target(machine, target, task)
        name, used = machine, without_labels(used)
    else:
        truth = read_truth(used, target_of(used, target), machine, task)
        name = machine or USUAL[truth.task]
    check_options(name, named=machine is not None)
    column_choice: TableChoice
    if truth is None:
        column_choice = choose_without_target(used, **columns)
    else:
        say_reading(truth)
        column_choice = choose_columns(used, truth, **columns)
        if class_weight is not None:
            class_weight = _class_weight(class_weight, *_classes(truth, used, column_choice))
        if options["cost"] is not None:
            classes, part = _classes(truth, used, column_choice)
            costs = cost_matrix(cost_of(options["cost"]), classes.names)
            if class_weight is None and name == "svc":
                class_weight = _by_label(classes, weights_by_cost(costs, _counts(classes, part)))
    unread = {name: "not read by the kernel" for name in columns["drop"] if name not in dropped}
    column_choice = replace(column_choice, left_out=column_choice.left_out | unread)
    if column_choice.missing == "impute":
        filled = {name: count for name, count in column_choice.missing_cells.items() if name not in as_they_are}
        column_choice = replace(column_choice, missing_cells=filled)
    needs = options["probability"] or options["cost"] is not None
    return Asked(rows, used, name, truth, weights, column_choice, class_weight, costs, needs)


def _trained(asked: Asked, options: dict[str, Any], checkpoint: str | None) -> Model:
    """Train the machine, and show the progress."""
    from sklearn.utils.validation import has_fit_parameter

    from mercer import InseparableError, StoppedError
    from mercer.solvers import ProgressBar, StageProgress, fit_progress
    from mercer.studies.models import fit_model

    with ProgressBar() as progress:
        progress(StageProgress("fit"))
        estimator = machine_of(asked, options, lambda state: progress(fit_progress("fit", state)))
        if checkpoint is not None and not has_fit_parameter(estimator, "checkpoint"):
            raise click.UsageError(
                f"--machine {asked.machine} has no checkpoint: leave --checkpoint out", click.get_current_context()
            )
        try:
            return fit_model(
                asked.chosen,
                None if asked.truth is None else asked.truth.target,
                estimator,
                rows=asked.column_choice.rows,
                sample_weight=asked.weights,
                encoder=asked.column_choice.encoder(),
                checkpoint=checkpoint,
            )
        except InseparableError as error:
            raise _inseparable(error) from error
        except StoppedError as error:
            raise Failure(str(error)) from error


def refuse_options_of_files() -> None:
    """Raise UsageError for options of a fit on a file in blocks."""
    context = click.get_current_context()
    if any(is_given(context, option) for option in ("cache", "scale")):
        raise click.UsageError("--cache and --scale are for --linear or --memory", context)


def _classes(truth: Truth, table: Table, column_choice: TableChoice) -> tuple[Classes, Table]:
    """Return the classes of the rows to train on, and these rows."""
    from mercer.studies.tables import Classes

    part = table.as_written(truth.target).take(column_choice.rows)
    return Classes.learnt(truth.target, part[truth.target]), part


def _class_weight(asked: str, classes: Classes, part: Table) -> str | dict[Any, float] | None:
    """Return the class weights as estimators take them: "balanced", or the weight of each label."""
    from mercer.studies.costs import BALANCED, NONE, class_weights

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


_WHAT_NEXT = {
    "time_limit": "give it more time with --max-seconds",
    "interrupted": "run the command again and let it finish",
}
"""What to do about a machine that is not optimal, by its status."""


def _inseparable(error: InseparableError) -> Failure:
    n = int(error.weights.reshape(len(error.weights), -1).any(axis=1).sum())
    return Failure(
        "--C inf needs classes that can be separated, which they cannot with this kernel: weighted means of "
        f"{n} of their rows coincide (distance {error.distance:.2g})",
        "give a finite --C, or another --kernel",
    )
