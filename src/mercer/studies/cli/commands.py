"""The commands, one module each."""

from __future__ import annotations

import click

from mercer import __version__
from mercer.studies.cli.convert import convert_command
from mercer.studies.cli.doctor import doctor_command
from mercer.studies.cli.fit import fit_command
from mercer.studies.cli.plan import plan_command
from mercer.studies.cli.predict import predict_command
from mercer.studies.cli.study import study_command
from mercer.studies.cli.verify import verify_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mercer")
def cli() -> None:
    """Support vector machines that are exact, certified and honestly evaluated."""


for command in (
    study_command,
    plan_command,
    fit_command,
    predict_command,
    verify_command,
    convert_command,
    doctor_command,
):
    cli.add_command(command)
