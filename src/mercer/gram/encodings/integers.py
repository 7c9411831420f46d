"""Tables whose numbers are multiples of one step: their products as integers are exact, and several times as fast."""

from __future__ import annotations

from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from mercer._core import Table, integer_rows, multiplies_integers
from mercer._typing import FloatArray
from mercer.data import Data, Dense
from mercer.data.checks import distinct
from mercer.gram.threads import n_threads
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.program import PASSES, Op, Program

Units: TypeAlias = npt.NDArray[np.int32]

LEAST_ENTRIES, LEAST_FEATURES = 50_000, 16  # entries and columns of the smallest table that is encoded
_SAMPLE, _FIRST = 65, 4  # rows that are checked before all rows, and rows that are checked first
_HALF_UNIT = 1.0001 * 2.0**-24  # largest relative difference of a number and its multiple: rounding to float32
_LEAST_STEP = 2.0**-40  # smallest step; the largest one is its inverse (native/gram/integer_tile.hpp)
_BYTE, _WORD = 255.0, 32767.0  # largest multiples in a byte and in 16 bits
_MEMORY_SHARE = 2  # the memory limit must be at least this multiple of the bytes of all multiples
_SQUARES = -2  # position of the sum of squares in a row of `units`


@final
class IntegerForm:
    """Rows as integer multiples of a step, for single precision, where each number equals its multiple.

    Parameters
    ----------
    data : Dense
        The training rows.
    step : float
    is_bytes : bool
        Whether the multiples are from 0 to 255; else they are from -32767 to 32767.
    units : ndarray of int32, (n, n_units + 2)
        The multiples of the training rows.
    isa : str
        The instruction set.
    threads : int
        Number of threads that encode new rows.

    Attributes
    ----------
    nbytes : int
        Bytes of the encoded training rows.
    row_length : int
        Number of multiplications in single precision that take as long as one inner product.
    """

    def __init__(self, data: Dense, step: float, is_bytes: bool, units: Units, isa: str, threads: int) -> None:
        self._step, self._is_bytes, self._isa, self._threads = step, is_bytes, isa, threads
        self._units: dict[int, tuple[Data, Units | None]] = {id(data): (data, units)}
        self.nbytes, self.row_length = units.nbytes, units.shape[1]

    def has(self, data: Data) -> bool:
        """Return whether all numbers of the rows are multiples of the step."""
        return self._of(data) is not None

    def table(self, data: Dense) -> Table:
        """Return the table for native code; it has no multiples if some number is not a multiple of the step."""
        units = self._of(data)
        return Table(data.array) if units is None else Table(data.array, units, self._step, self._is_bytes)

    def norms(self, data: Data) -> FloatArray:
        """Return the norms of rows of multiples of the step, (n,)."""
        units = self._of(data)
        assert units is not None
        return self._step * np.sqrt(units[:, _SQUARES].astype(np.float64))

    def _of(self, data: Data) -> Units | None:
        entry = self._units.get(id(data))
        if entry is None:
            units = None
            if isinstance(data, Dense):
                units = integer_rows(self._isa, data.array, self._step, self._is_bytes, self._threads)
            entry = self._units[id(data)] = (data, units)
        return entry[1]


def integer_form(program: Program, data: Data, *, n_jobs: int | None, memory_limit: int | None) -> IntegerForm | None:
    """Return the rows as multiples of a step; None if they are not multiples of one, or if that is not faster.

    It checks 4 rows, then 65 rows, and then all rows. The program must read one inner product or one squared distance
    of all features, because native tiles of integers have no other pass.
    """
    if not isinstance(data, Dense) or data.p < LEAST_FEATURES or data.n * data.p < LEAST_ENTRIES:
        return None
    passes, isa = {step for step in program if step[0] in PASSES}, select_isa()
    if len(passes) != 1 or not multiplies_integers(isa):
        return None
    op, view = passes.pop()
    if op not in (Op.DOT, Op.SQDIST) or view != 0.0:
        return None
    if _step_of(data.spread(_FIRST)) is None:
        return None
    sample = data.spread(_SAMPLE)
    step = _step_of(sample)
    if step is None:
        return None
    is_bytes = bool(sample.min() >= 0.0 and sample.max() <= (_BYTE + 0.5) * step)
    if memory_limit is not None and _MEMORY_SHARE * data.n * data.p * (1 if is_bytes else 2) > memory_limit:
        return None
    threads = n_threads(n_jobs)
    units = integer_rows(isa, data.array, step, is_bytes, threads)
    return None if units is None else IntegerForm(data, step, is_bytes, units, isa, threads)


def _step_of(rows: npt.NDArray[np.floating]) -> float | None:
    """Return the largest step that divides all numbers, estimated from their smallest gap, or None."""
    sizes = distinct(np.abs(rows)).astype(np.float64)
    sizes = sizes[sizes > 0.0]
    if not sizes.size or not np.isfinite(sizes[-1]):
        return None
    step = float(min(sizes[0], np.diff(sizes).min(initial=np.inf)))
    if not (_LEAST_STEP <= step <= 1.0 / _LEAST_STEP and sizes[-1] <= (_WORD + 0.5) * step):
        return None
    # The gap has the rounding errors of two numbers. Larger multiples of the step give it more and more precisely.
    for most in np.ldexp(step, np.arange(1, 17)):
        largest = sizes[max(0, np.searchsorted(sizes, most, side="right") - 1)]
        step = float(largest / np.round(largest / step))
    multiples = np.round(sizes / step)
    low, high = (sizes * (1.0 - _HALF_UNIT) / multiples).max(), (sizes * (1.0 + _HALF_UNIT) / multiples).min()
    if not low <= high:
        return None
    for plain in (float(round(step)), 1.0 / max(1, round(1.0 / step))):  # an integer, or the inverse of one
        if low <= plain <= high:
            return plain
    return float(0.5 * (low + high))
