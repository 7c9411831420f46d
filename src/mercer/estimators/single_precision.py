"""Whether kernel values in single precision will do for a search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.data import Data
from mercer.estimators.base import DualMachine
from mercer.gram import Gram

IndexArray = npt.NDArray[np.int64]

_SPREAD = 2.0**-25 / 3.0**0.5  # of the error of a value between a half and 1: evenly within 2^-25
_SHOWS, _LOOKED_AT = 1e-3, 32  # of what decision values of so many rows differ by: it may move few of a thousand ranks
_FEW = 8  # rows at least, and one in so many as are looked at, whose values are evaluated in double precision as well
_LEAST = 2.0**-100  # below, values in single precision may lose digits, or all; where 1 is too small, they overflow


def holds(size: float) -> bool:
    """Whether single precision holds the values of a kernel whose largest is of this size."""
    return _LEAST < size < 1.0 / _LEAST


def error_of(matrix: npt.NDArray[np.floating], gram: Gram, order: IndexArray) -> float:
    """How far values in single precision are off, root mean square, by some rows; infinite where they overflow."""
    some = _spread_over(gram.n, max(_FEW, gram.n // _LOOKED_AT))
    exact = np.empty((some.size, gram.n))
    for _ in gram.fill_block(exact, order[some], order):
        pass
    if not np.isfinite(matrix.diagonal()).all():  # a row overflows beside itself, if anywhere
        return np.inf
    with np.errstate(invalid="ignore"):
        error = float(np.sqrt(np.mean(np.square(matrix[some] - exact))))
    return error if np.isfinite(error) else np.inf


def _spread_over(n: int, count: int) -> IndexArray:
    """So many of n rows; `_LOOKED_AT` at most."""
    return np.linspace(0, n - 1, min(n, count, _LOOKED_AT)).astype(np.int64)


def rounding_shows(machine: DualMachine, size: float, error: float, data: Data) -> bool:
    """Whether single precision is likely to put decision values off by more than the tolerance, or than they differ.

    It puts them off by sums of errors, as wide as they are where these have nothing to do with each other. Beside the
    rounding of the values themselves, at most `size`, distances in single precision lose what they are short of the
    rows' lengths: values have been seen to be off by `error`.
    """
    fraction, exponent = np.frexp(size)
    above = np.ldexp(1.0, exponent - (fraction == 0.5))  # what the largest value is rounded as
    widths = max(_SPREAD * above, error) * np.sqrt(np.square(machine._coefficients).sum(axis=0))
    values = machine._raw_decision(data.rows(_spread_over(data.n, data.n)))
    return bool((widths > np.minimum(machine.tol, _SHOWS * np.ptp(values, axis=0))).any())
