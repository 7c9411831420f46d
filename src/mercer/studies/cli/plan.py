"""`mercer plan`."""

from __future__ import annotations

from typing import Any

import click

from mercer.studies.cli.files import read
from mercer.studies.cli.fit import asked_for, machine_of, refuse_options_of_files
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.machine_options import machine_options
from mercer.studies.cli.machines import is_given
from mercer.studies.cli.messages import in_options, printable
from mercer.studies.cli.options import (
    COLUMN_OPTIONS,
    OnceCommand,
    as_text,
    column_options,
    rare_option,
    reading_options,
    seconds_option,
    table_argument,
    target_option,
    task_option,
    with_rare,
)

_IN_MEMORY = "leave it out to plan the fit in memory"
_OF_FILES = {
    "linear": "take --machine linear-svc, linear-svr or linear-logistic to plan a linear machine in memory",
    "cluster": _IN_MEMORY,
    "memory": _IN_MEMORY,
}
"""Options of fits on files, and what to do instead."""


@click.command("plan", cls=OnceCommand)
@table_argument
@target_option
@machine_options
@task_option
@rare_option
@column_options
@reading_options
@seconds_option
def plan_command(
    table: str,
    target: str | None,
    machine: str | None,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    rare: str | None,
    **options: Any,
) -> None:
    """Say what `mercer fit` will take on a TABLE: time, memory, support vectors, and which solver, before it begins.

    The options are those of `mercer fit`, but --linear, --memory, --cache, --scale and --cluster, which train from the
    file, are not planned. Fits on few rows are measured, for about a second. With --max-seconds it says
    what would end in that time.
    """
    with ended_by_ctrl_c():
        from mercer import plan
        from mercer.studies.inputs import with_target
        from mercer.studies.models import encoded_rows

    columns = {option: options.pop(option) for option in COLUMN_OPTIONS}
    context = click.get_current_context()
    for option, instead in _OF_FILES.items():
        if is_given(context, option):
            raise click.UsageError(f"--{option} trains from the file, which is not planned: {instead}", context)
    refuse_options_of_files()
    rows = read(table, reading, text=as_text(columns))
    if target is not None:
        rows, target = with_target(rows, target, table)
    rows = with_rare(rows, target, task, rare, test_size=0.25, folds=5)
    asked = asked_for(rows, target, machine, weights, task, columns, options)
    estimator = machine_of(asked, options, None)
    column = None if asked.truth is None else asked.truth.target
    given = encoded_rows(
        asked.chosen,
        column,
        estimator,
        rows=asked.column_choice.rows,
        sample_weight=asked.weights,
        encoder=asked.column_choice.encoder(),
    )
    for line in str(plan(*given)).splitlines():
        click.echo(in_options(printable(line)))
