"""`mercer verify`."""

from __future__ import annotations

from typing import Any

import click

from mercer.studies.cli.files import load, read
from mercer.studies.cli.imports import ended_by_ctrl_c
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
@reading_options
@categorical_option
def verify_command(
    model: str, table: str, target: str | None, reading: dict[str, Any], categorical: tuple[str, ...]
) -> int:
    """Recompute the certificate of a MODEL from the TABLE that it was trained on.

    Exit status 1 if it is another table, or if a number does not agree.
    """
    with ended_by_ctrl_c():
        from mercer.studies.cli.output import print_verification
        from mercer.studies.inputs import with_target
        from mercer.studies.models import verify

    loaded = load(model)
    rows = read(table, reading, text=categorical, model=loaded)
    if target is not None:
        rows, _ = with_target(rows, target, table)
    verification = verify(loaded, rows)
    print_verification(loaded, verification)
    for finding in verification.findings:
        say("error", finding)
    return 0 if verification.ok else 1
