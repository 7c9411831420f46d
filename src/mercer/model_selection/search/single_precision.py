"""Whether kernel values in single precision are accurate enough for a search."""

from __future__ import annotations

import numpy as np

from mercer.data import Data
from mercer.estimators._dual import DualMachine
from mercer.multiclass.coefficients import groups_of, summed

_SPREAD = 2.0**-25 / 3.0**0.5  # standard deviation of the rounding error of a value in [1/2, 1): uniform within 2^-25
_SHOWS = 1e-3  # relative to the range of decision values; a larger error could change the ranking of rows
_N_ROWS = 32  # rows from which the range of decision values is estimated
_LEAST = 2.0**-100  # smaller kernel values may underflow in single precision, and values above 1 / _LEAST overflow


def holds(size: float) -> bool:
    """Return whether kernel values of this largest size are in the range of single precision."""
    return _LEAST < size < 1.0 / _LEAST


def rounding_shows(machine: DualMachine, size: float, data: Data) -> bool:
    """Return whether errors of decision values in single precision are likely to exceed the tolerance or their range.

    The errors are estimated from the coefficients, with independent rounding errors of kernel values of at most `size`.
    """
    fraction, exponent = np.frexp(size)
    above = np.ldexp(1.0, exponent - (fraction == 0.5))  # the power of two that bounds the largest value
    groups, n_machines = groups_of(machine._coefficients), machine.intercept_.size
    squares = summed(groups, lambda one: np.square(one.coefficients).sum(axis=0, keepdims=True), 1, n_machines)
    widths = _SPREAD * above * np.sqrt(squares[0])
    n_some = min(data.n, _N_ROWS)
    some = np.arange(n_some) * data.n // n_some
    values = machine._raw_decision(data.rows(some))
    return bool((widths > np.minimum(machine.tol, _SHOWS * np.ptp(values, axis=0))).any())
