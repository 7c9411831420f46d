"""`mercer doctor`."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.files import read
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import in_options, printable, say
from mercer.studies.cli.options import (
    Number,
    OnceCommand,
    as_text,
    column_options,
    groups_option,
    positive,
    reading_options,
    say_reading,
    target_of,
    target_option,
    task_option,
    time_option,
)

if TYPE_CHECKING:
    from mercer.studies.examination import Finding


@click.command("doctor", cls=OnceCommand)
@click.argument("table", metavar="[TABLE]", required=False)
@target_option
@task_option
@column_options
@reading_options
@groups_option
@time_option
@click.option("--gamma", type=positive, help="Gamma of a Gaussian kernel to examine  [default: scale]")
@click.option("--nu", type=Number(0, 1, min_open=True), help="Nu of a nu-machine to examine  [default: 0.5]")
def doctor_command(table: str | None, target: str | None, **options: Any) -> None:
    """Examine a TABLE before any time is spent on it: what it looks like, what will go wrong, and the remedy.

    An overview comes first: rows, columns, classes, missing cells, and a small histogram of each column. Each finding
    is an error (a command refuses the table), a doubt (a test score may be worthless), a caution or a remark, and says
    what to do. Without a TABLE, print versions, instruction set and threads.
    """
    if table is None:
        if target is not None:
            raise click.UsageError("--target COLUMN needs a TABLE", click.get_current_context())
        _print_installation()
    else:
        _examine(table, target, **options)


def _examine(
    path: str,
    target: str | None,
    task: Any,
    gamma: float | None,
    nu: float | None,
    groups: str | None,
    time_column: str | None,
    reading: dict[str, Any],
    **columns: Any,
) -> None:
    with ended_by_ctrl_c():
        from mercer.studies.doctor import examined
        from mercer.studies.inputs import with_target
        from mercer.studies.tables import read_target

    rows = read(path, reading, text=as_text(columns))
    if target is not None:
        rows, target = with_target(rows, target, path)
    truth = None
    if target is None and rows.sparse is None:
        say("note", "without --target COLUMN only the columns are examined, not what predicts the target")
    else:
        truth = read_target(rows, target_of(rows, target), task)
        say_reading(truth)
    report = examined(rows, truth, columns, groups=groups, time=time_column, gamma=gamma, nu=nu)
    for line in report.overview:
        click.echo(printable(line))
    if report.overview:
        click.echo()
    for finding in report.findings:
        click.echo(_in_lines(finding))
    if not report.findings:
        click.echo("Nothing suspicious was found.")


def _in_lines(finding: Finding) -> str:
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    lines = [
        textwrap.fill(in_options(printable(text)), width, initial_indent=head.ljust(9), subsequent_indent=" " * 9)
        for head, text in ((finding.weight, finding.sentence), ("", finding.remedy))
        if text
    ]
    return "\n".join(lines)


def _print_installation() -> None:
    with ended_by_ctrl_c():
        import platform

        from mercer.gram import n_threads
        from mercer.kernels import counts_bits, multiplies_integers, select_isa
        from mercer.studies.protocol import versions

    for name, version in versions().items():
        click.echo(f"{name:<20}{version}")
    click.echo(f"{'processor':<20}{platform.machine()}, native code for {select_isa()}")
    tiles = "bits" if counts_bits() else "numbers, for this instruction set does not count bits"
    click.echo(f"{'rows of two values':<20}{tiles}")
    tiles = "integers" if multiplies_integers() else "numbers, for this instruction set multiplies no others faster"
    click.echo(f"{'multiples of a step':<20}{tiles}")
    click.echo(f"{'threads':<20}{n_threads()}")
