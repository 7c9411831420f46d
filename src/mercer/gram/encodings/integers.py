"""Tables whose numbers are multiples of one step: products of integers are exact, and several times as fast."""

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

_LEAST_ENTRIES, _LEAST_FEATURES = 50_000, 16  # of tables that it could pay for
_SAMPLE, _FIRST = 65, 4  # rows that are looked at before all, and before those
_HALF_UNIT = 1.0001 * 2.0**-24  # of single precision: how far a number may be from its multiple, as a share of it
_LEAST_STEP = 2.0**-40  # and most, its inverse (native/kernels/integer_tile.hpp)
_BYTE, _WORD = 255.0, 32767.0  # the largest multiples
_MEMORY_SHARE = 2  # of the limit's bytes, at least, for each byte of units
_SQUARES = -2  # where the sum of squares is, behind the units of a row


@final
class IntegerForm:
    """Rows as integer multiples of a step, for single precision, in which a number and its multiple are the same.

    Parameters
    ----------
    data : Dense
        The training rows.
    step : float
    is_bytes : bool
        Whether the multiples are from 0 to 255, or from -32767 to 32767.
    units : ndarray of int32, (n, n_units + 2)
        Those of the training rows.
    isa : str
        The instruction set.
    threads : int
        That read new rows.

    Attributes
    ----------
    nbytes : int
        Bytes that the units of the training rows take.
    row_length : int
        Multiplications of single precision that take as long as an inner product.
    """

    def __init__(self, data: Dense, step: float, is_bytes: bool, units: Units, isa: str, threads: int) -> None:
        self._step, self._is_bytes, self._isa, self._threads = step, is_bytes, isa, threads
        self._units: dict[int, tuple[Data, Units | None]] = {id(data): (data, units)}
        self.nbytes, self.row_length = units.nbytes, units.shape[1]

    def has(self, data: Data) -> bool:
        """Return whether all numbers of the rows are such multiples."""
        return self._of(data) is not None

    def table(self, data: Dense) -> Table:
        """Return what native code needs of rows; the table of their numbers where these are no multiples."""
        units = self._of(data)
        return Table(data.array) if units is None else Table(data.array, units, self._step, self._is_bytes)

    def norms(self, data: Data) -> FloatArray:
        """Return the norms of rows that are multiples, (n,)."""
        units = self._of(data)
        assert units is not None
        return self._step * np.sqrt(units[:, _SQUARES].astype(np.float64))

    def _of(self, data: Data) -> Units | None:
        held = self._units.get(id(data))
        if held is None:
            units = None
            if isinstance(data, Dense):
                units = integer_rows(self._isa, data.array, self._step, self._is_bytes, self._threads)
            held = self._units[id(data)] = (data, units)
        return held[1]


def integer_form(program: Program, data: Data, *, n_jobs: int | None, memory_limit: int | None) -> IntegerForm | None:
    """Return the rows as multiples of a step; None if they are not multiples of one, or if that is not faster.

    Costs a look at 4 rows, then at 65, and at all where these are multiples. Programs take an inner product or a
    distance of all features, and nothing else: what native tiles of integers know.
    """
    if not isinstance(data, Dense) or data.p < _LEAST_FEATURES or data.n * data.p < _LEAST_ENTRIES:
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
    """The largest step that all numbers are multiples of, as far as what is between neighbours tells; None without."""
    sizes = distinct(np.abs(rows)).astype(np.float64)
    sizes = sizes[sizes > 0.0]
    if not sizes.size or not np.isfinite(sizes[-1]):
        return None
    step = float(min(sizes[0], np.diff(sizes).min(initial=np.inf)))
    if not (_LEAST_STEP <= step <= 1.0 / _LEAST_STEP and sizes[-1] <= (_WORD + 0.5) * step):
        return None
    # The difference has the rounding of both; numbers of twice as many steps, and so on, know it better and better.
    for most in np.ldexp(step, np.arange(1, 17)):
        largest = sizes[max(0, np.searchsorted(sizes, most, side="right") - 1)]
        step = float(largest / np.round(largest / step))
    multiples = np.round(sizes / step)
    low, high = (sizes * (1.0 - _HALF_UNIT) / multiples).max(), (sizes * (1.0 + _HALF_UNIT) / multiples).min()
    if not low <= high:
        return None
    for plain in (float(round(step)), 1.0 / max(1, round(1.0 / step))):  # a simple factor
        if low <= plain <= high:
            return plain
    return float(0.5 * (low + high))
