"""`mercer doctor`."""

from __future__ import annotations

import click

from mercer.study.cli.imports import ended_by_ctrl_c


@click.command("doctor")
def doctor_command() -> None:
    """Print versions, instruction set and threads."""
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
