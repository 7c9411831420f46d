"""`mercer doctor`."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import click

from mercer.study.cli.files import read
from mercer.study.cli.imports import ended_by_ctrl_c
from mercer.study.cli.messages import in_options, printable, say
from mercer.study.cli.options import (
    Number,
    OnceCommand,
    as_text,
    column_options,
    positive,
    reading_options,
    say_reading,
    target_of,
    target_option,
    task_option,
)

if TYPE_CHECKING:
    from mercer.study.examination import Finding


@click.command("doctor", cls=OnceCommand)
@click.argument("table", metavar="[TABLE]", required=False)
@target_option
@task_option
@column_options
@reading_options
@click.option("--gamma", type=positive, help="Gamma of a Gaussian kernel to examine  [default: scale]")
@click.option("--nu", type=Number(0, 1, min_open=True), help="Nu of a nu-machine to examine  [default: 0.5]")
def doctor_command(table: str | None, target: str | None, **options: Any) -> None:
    """Examine a TABLE before any time is spent on it: what will go wrong, and the remedy.

    Each finding is an error (a command refuses the table), a doubt (a test score may be worthless), a caution or a
    remark. Without a TABLE, print versions, instruction set and threads.
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
    reading: dict[str, Any],
    **columns: Any,
) -> None:
    with ended_by_ctrl_c():
        from mercer.study.examination import diagnose
        from mercer.tables import read_target

    rows = read(path, reading, text=as_text(columns))
    truth = None
    if target is None and rows.sparse is None:
        say("note", "without --target COLUMN only the columns are examined, not what predicts the target")
    else:
        truth = read_target(rows, target_of(rows, target), task)
        say_reading(truth)
    found = diagnose(rows, truth, gamma=gamma or "scale", nu=nu, **columns)
    for finding in found:
        click.echo(_in_lines(finding))
    if not found:
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
        from mercer.study.protocol import versions

    for name, version in versions().items():
        click.echo(f"{name:<20}{version}")
    click.echo(f"{'processor':<20}{platform.machine()}, native code for {select_isa()}")
    tiles = "bits" if counts_bits() else "numbers, for this instruction set does not count bits"
    click.echo(f"{'rows of two values':<20}{tiles}")
    tiles = "integers" if multiplies_integers() else "numbers, for this instruction set multiplies no others faster"
    click.echo(f"{'multiples of a step':<20}{tiles}")
    click.echo(f"{'threads':<20}{n_threads()}")
