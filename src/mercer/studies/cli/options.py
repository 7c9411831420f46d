"""Options and arguments that several commands have."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from mercer.studies.cli.messages import say

if TYPE_CHECKING:
    from mercer.data import Table
    from mercer.studies.tables import Truth

Command = TypeVar("Command", bound=Callable[..., Any])


class Integer(click.IntRange):
    """Whole numbers, with a plain message for other text."""

    name = "integer"  # "'abc' is not a valid integer", where click has "integer range"


class Number(click.FloatRange):
    """Numbers in a range, with a plain message for other text."""

    name = "number"


class AnyNumber(click.types.FloatParamType):
    """Numbers, with a plain message for other text."""

    name = "number"


positive = Number(min=0, min_open=True)


class OnceCommand(click.Command):
    """A command that refuses an option that is given twice, unless it may be repeated."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; click itself takes the last value of an option, and forgets the others."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, count in Counter(given).items():
            if isinstance(option, click.Option) and count > 1 and not (option.multiple or option.is_flag):
                raise click.UsageError(f"{option.opts[-1]} is given {count} times, and may be given once", ctx)
        return super().parse_args(ctx, args)


class Approximation(click.ParamType):
    """The name of a way to approximate a machine, with a number of landmarks or of rows in a cell."""

    name = "exact|landmarks[:n]|cells[:rows]|auto|n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or landmarks or cells of this number; None for an exact machine."""
        if value in ("landmarks", "cells", "auto") or not isinstance(value, str):
            return value
        if value == "exact":
            return None
        from mercer import Cells, Landmarks

        name, _, number = value.rpartition(":")
        try:
            return {"": Landmarks, "landmarks": Landmarks, "cells": Cells}[name](int(number))
        except (ValueError, KeyError):
            self.fail(
                f"{value!r} is not exact, landmarks, cells or auto, nor a number of landmarks >= 1 such as 500 or "
                "landmarks:500, nor a number of rows in a cell >= 1 such as cells:5000.",
                param,
                ctx,
            )


table_argument = click.argument("table", metavar="TABLE")


target_option = click.option(
    "--target",
    metavar="COLUMN",
    help="Column to predict (svmlight files: label). A study also takes a file of names and their labels.",
)


_READING_OPTIONS = {
    "format": click.option(
        "--format",
        type=click.Choice(["csv", "tsv", "parquet", "svmlight", "excel", "fasta", "fastq"]),
        help="Format of the table  [default: by its name and first lines]",
    ),
    "sep": click.option("--sep", metavar="CHAR", help="Separator of its cells: a character, tab or space."),
    "decimal": click.option("--decimal", type=click.Choice([".", ","]), help="Its decimal mark, the same everywhere."),
    "encoding": click.option("--encoding", metavar="NAME", help="Its encoding, such as utf-8, cp1252 or utf-16."),
    "sheet": click.option(
        "--sheet", metavar="NAME|NUMBER", help="Excel: its sheet, by name or by number from 1  [default: the first]"
    ),
    "na": click.option(
        "--na",
        metavar="TEXT",
        multiple=True,
        help="A cell that means missing, or COLUMN=TEXT for one column; may be repeated.",
    ),
    "limits": click.option(
        "--limits",
        type=click.Choice(["value", "half"]),
        help="Read cells such as <1.0 and >90 among numbers as the number, or as half of it below a limit.",
    ),
    "merge": click.option(
        "--merge",
        metavar="COLUMN",
        multiple=True,
        help="Column of categories that differ in case and blanks only; they become one each.",
    ),
}


def reading_options(command: Command) -> Command:
    """Add the options that say how a table is read; the command gets them as one argument `reading`."""

    @functools.wraps(command)
    def with_reading(*arguments: Any, **options: Any) -> Any:
        reading = {name: options.pop(name) for name in _READING_OPTIONS}
        return command(*arguments, reading=reading, **options)

    for option in reversed(_READING_OPTIONS.values()):
        with_reading = option(with_reading)
    return cast(Command, with_reading)


_COLUMN_OPTIONS = {
    "drop": click.option("--drop", metavar="COLUMN", multiple=True, help="Column not to use; may be repeated."),
    "keep": click.option(
        "--keep", metavar="COLUMN", multiple=True, help="Column to use although it looks like a row identifier."
    ),
    "categorical": click.option(
        "--categorical",
        metavar="COLUMN",
        multiple=True,
        help="Column whose values are categories, though they look like numbers, dates or free text.",
    ),
    "text": click.option("--text", metavar="COLUMN", multiple=True, help="Column of free text, whose words are used."),
    "dates": click.option(
        "--dates", metavar="COLUMN", multiple=True, help="Column of dates or times, whose parts are used."
    ),
    "date_order": click.option(
        "--date-order",
        type=click.Choice(["dmy", "mdy"]),
        help="How dates such as 3/4/2024 are read  [default: as all dates of the column can be]",
    ),
    "max_levels": click.option(
        "--max-levels",
        type=Integer(min=1),
        default=10_000,
        show_default=True,
        help="Most values of a column of categories that get an indicator each.",
    ),
    "missing": click.option(
        "--missing",
        type=click.Choice(["impute", "error", "drop"]),
        default="impute",
        show_default=True,
        help="Fill missing cells in, refuse the table, or leave their rows out.",
    ),
}

categorical_option = _COLUMN_OPTIONS["categorical"]


COLUMN_OPTIONS = tuple(_COLUMN_OPTIONS)
"""Parameters of the options that say which columns are used, and how."""


def as_text(columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that are read as text, whatever they look like."""
    return (*columns["categorical"], *columns["text"], *columns["dates"])


def column_options(command: Command) -> Command:
    """Add the options that say which columns are used, and how."""
    for option in reversed(_COLUMN_OPTIONS.values()):
        command = option(command)
    return command


task_option = click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="What the target is.",
)


rare_option = click.option(
    "--rare",
    type=click.Choice(["merge", "drop"]),
    help="Classes of too few rows: make one class of them, or leave their rows out  [default: refuse or keep them]",
)


def with_rare(table: Table, target: str | None, task: Any, rare: Any, *, test_size: float, folds: int) -> Table:
    """Return the table without classes that have too few rows for this protocol, and print which these are."""
    if rare is None:
        return table
    if target is None:
        raise click.UsageError("--rare is for classes", click.get_current_context())
    from mercer.studies.inputs import without_rare_classes

    table, note = without_rare_classes(table, target, task, rare, test_size=test_size, folds=folds)
    if note is not None:
        say("note", str(note))
    return table


class_weight_option = click.option(
    "--class-weight",
    metavar="WEIGHTS",
    help="Classes: what a row counts in training; balanced (rare classes count more), none, or LABEL=WEIGHT,...",
)


cost_option = click.option(
    "--cost",
    metavar="COSTS",
    help="Classes: costs of wrong predictions; TRUE:PREDICTED=COST,... or a CSV file. The least expected cost decides.",
)


def cost_of(text: str | None) -> Any:
    """Return the costs of a file, if the text names one, or else the text."""
    from mercer.studies.costs import costs_of_file

    if text is None or Path(text).is_file():
        return None if text is None else costs_of_file(text)
    if "=" not in text:
        raise click.UsageError(
            f"--cost {text} is neither a file nor text such as TRUE:PREDICTED=5", click.get_current_context()
        )
    return text


seconds_option = click.option("--max-seconds", type=positive, help="Time limit of the whole study, or of the fit.")


checkpoint_option = click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="Folder where finished work is written every few seconds: if the command is killed, it continues from there "
    "when it is run again. The folder stays: delete it in the end.",
)


force_option = click.option(
    "--force", is_flag=True, help="Write over an existing file that is not an output of this command."
)


groups_option = click.option(
    "--groups",
    metavar="COLUMN",
    help="Rows with the same value, such as those of a patient, stay on one side of the seal and of each fold.",
)
time_option = click.option(
    "--time",
    "time_column",
    metavar="COLUMN",
    help="Order of the rows in time: the last ones are sealed, and folds learn from the past. With --groups, a group "
    "is as late as its last row.",
)
copies_option = click.option(
    "--copies",
    type=click.Choice(["together", "apart"]),
    default="together",
    show_default=True,
    help="Keep copies of rows, and groups of nearly equal rows, on one side of the seal and of each fold, or treat "
    "each row as one of its own.",
)


def target_of(table: Table, name: str | None) -> str:
    """The target column, which need not be named where the table can have only one."""
    if name is not None:
        return name
    if table.sparse is not None:
        return table.names[0]
    raise click.UsageError("--target COLUMN is missing, the column to predict", click.get_current_context())


def say_reading(truth: Truth, *, as_far_as_read: bool = False) -> None:
    """Print how the target was read, if another reading is possible, and the option that changes it."""
    if truth.reading:
        other = "classification" if truth.task == "regression" else "regression"
        said = f"as far as it was read, {truth.reading}" if as_far_as_read else truth.reading
        say("note", f"{said.removesuffix('.')} with --task {other}.")


def number_or_rule(text: str) -> Any:
    """Return a number, or the name of the rule that finds one."""
    try:
        return float(text)
    except ValueError:
        return text
