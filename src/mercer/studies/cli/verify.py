"""`mercer verify`."""

from __future__ import annotations

from typing import Any

import click

from mercer.studies.cli.files import load, read
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.in_parts import Messages, is_large, read_in_parts
from mercer.studies.cli.messages import say
from mercer.studies.cli.options import OnceCommand, categorical_option, reading_options, table_argument


@click.command("verify", cls=OnceCommand)
@click.argument("model", metavar="MODEL")
@table_argument
@click.option(
    "--target",
    metavar="FILE",
    help="File of names and their labels, if the training had its target there.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Read the TABLE in parts of so much memory, for a kernel machine that was trained with mercer fit --memory  "
    "[default: 500MB, if the file has more than 256 MB].",
)
@reading_options
@categorical_option
def verify_command(
    model: str,
    table: str,
    target: str | None,
    memory: str | None,
    reading: dict[str, Any],
    categorical: tuple[str, ...],
) -> int:
    """Recompute the certificate of a MODEL from the TABLE that it was trained on.

    Exit status 1 if it is another table, or if a number does not agree.
    """
    with ended_by_ctrl_c():
        from mercer.studies.cli.output import print_verification
        from mercer.studies.inputs import with_target
        from mercer.studies.models import verify

    loaded = load(model)
    in_parts = loaded.training.n_streamed is not None and (memory is not None or is_large(table))
    if memory is not None and not in_parts:
        raise click.UsageError(
            "--memory is for models of mercer fit --memory: leave it out", click.get_current_context()
        )
    if in_parts and target is None:
        about: dict[str, Any] = {"text": categorical, "model": loaded, "messages": Messages()}
        rows: Any = read_in_parts(table, reading, memory=memory or "500MB", **about)
    else:
        rows = read(table, reading, text=categorical, model=loaded)
    if target is not None:
        rows, _ = with_target(rows, target, table)
    verification = verify(loaded, rows)
    print_verification(loaded, verification)
    for finding in verification.findings:
        say("error", finding)
    return 0 if verification.ok else 1
