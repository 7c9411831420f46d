"""What the tests of the engine of linear machines share."""

from __future__ import annotations

from typing import Any

from mercer.certificates.solution import Limits
from mercer.solvers.control import Control


def control(tol_gap: float = 1e-8, **limits: Any) -> Control:
    """Return the limits of a fit, by its tolerance for the relative gap."""
    return Control(Limits(tol_gap=tol_gap, **limits))
