"""Whether kernel values in single precision will do for a search."""

from __future__ import annotations

import numpy as np

from mercer.data import Data
from mercer.estimators.base import DualMachine
from mercer.multiclass.coefficients import groups_of, summed

_SPREAD = 2.0**-25 / 3.0**0.5  # of the error of a value between a half and 1: evenly within 2^-25
_SHOWS, _LOOKED_AT = 1e-3, 32  # of what decision values of so many rows differ by: it may move few of a thousand ranks
_LEAST = 2.0**-100  # below, values in single precision may lose digits, or all; where 1 is too small, they overflow


def holds(size: float) -> bool:
    """Whether single precision holds the values of a kernel whose largest is of this size."""
    return _LEAST < size < 1.0 / _LEAST


def rounding_shows(machine: DualMachine, size: float, data: Data) -> bool:
    """Whether single precision is likely to put decision values off by more than the tolerance, or than they differ.

    It puts them off by sums of what kernel values, at most of this `size`, lose when they are rounded: as wide as they
    are where these errors have nothing to do with each other.
    """
    fraction, exponent = np.frexp(size)
    above = np.ldexp(1.0, exponent - (fraction == 0.5))  # what the largest value is rounded as
    groups, n_machines = groups_of(machine._coefficients), machine.intercept_.size
    squares = summed(groups, lambda one: np.square(one.coefficients).sum(axis=0, keepdims=True), 1, n_machines)
    widths = _SPREAD * above * np.sqrt(squares[0])
    n_some = min(data.n, _LOOKED_AT)
    some = np.arange(n_some) * data.n // n_some
    values = machine._raw_decision(data.rows(some))
    return bool((widths > np.minimum(machine.tol, _SHOWS * np.ptp(values, axis=0))).any())
