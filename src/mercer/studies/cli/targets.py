"""The target of `mercer fit`, as its machine takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.machines import MACHINES
from mercer.studies.cli.messages import Failure, say

if TYPE_CHECKING:
    from mercer.data import Table
    from mercer.studies.tables import Truth


def wanted_task(machine: str | None, task: Any) -> Any:
    """Return the task that the command line asks for, or None; UsageError if it asks for two."""
    named = None if task == "auto" else task
    if machine is None:
        return named
    wanted = MACHINES[machine].task
    if named not in (None, wanted):
        context = click.get_current_context()
        raise click.UsageError(f"--machine {machine} is for {wanted}, but --task is {task}", context)
    return wanted


def read_truth(table: Table, target: str, machine: str | None, task: Any) -> Truth:
    """Return the target as the machine takes it; an error for a target or a task that it does not take."""
    from mercer.data import TableError
    from mercer.studies.tables import read_target

    wanted = wanted_task(machine, task)
    if machine is None:
        truth = read_target(table, target, task)
        _warn_of_many_classes(table, truth)
        return truth
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
    _warn_of_many_classes(table, truth)
    return truth


def _warn_of_many_classes(table: Table, truth: Truth) -> None:
    """Warn if the classes are so many numbers that they look like a quantity."""
    from mercer.studies.tables import MAX_CLASSES, Labels

    if isinstance(truth, Labels) and len(truth.names) > MAX_CLASSES and table.is_numeric(truth.target):
        say(
            "warning",
            f"the target {truth.target!r} holds {len(truth.names):,} different numbers, and each of them is a class: "
            "the machines are as many, or as many as pairs of classes. If the numbers are a quantity, "
            "--task regression trains one machine.",
        )


def refuse_target(machine: str, target: str | None, task: str) -> None:
    """Raise UsageError for a target or a task if the machine learns without a target."""
    given = "--target" if target is not None else "--task" if task != "auto" else None
    if given is not None:
        raise click.UsageError(
            f"--machine {machine} learns without a target, so {given} means nothing; --drop leaves a column out",
            click.get_current_context(),
        )


def without_labels(table: Table) -> Table:
    """Return a table without the labels that every svmlight file has."""
    if table.sparse is None or not table.names:
        return table
    say("note", f"the column {table.names[0]!r} of the file is not used, because this machine learns without a target")
    return table.without(table.names[:1])
