"""The instruction set that the native code uses."""

from __future__ import annotations

import os

from mercer._core import best_isa, has_isa
from mercer._core import counts_bits as isa_counts_bits
from mercer._core import multiplies_integers as isa_multiplies_integers


def select_isa() -> str:
    """Return the instruction set of the native code: the best this machine has, or the one in ``MERCER_ISA``.

    Raises
    ------
    ValueError
        If ``MERCER_ISA`` names an instruction set that this machine or this build does not have.
    """
    forced = os.environ.get("MERCER_ISA")
    if not forced:
        return best_isa()
    if not has_isa(forced):
        raise ValueError(
            f"MERCER_ISA must name an instruction set of this machine (baseline, avx2 or avx512), got {forced!r}."
        )
    return forced


def counts_bits() -> bool:
    """Return whether the instruction set in use counts the bits of a vector in few instructions."""
    return isa_counts_bits(select_isa())


def multiplies_integers() -> bool:
    """Return whether products of integers are faster than products of floats in the instruction set in use."""
    return isa_multiplies_integers(select_isa())
