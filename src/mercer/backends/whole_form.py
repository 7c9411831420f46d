"""Tables whose numbers are multiples of one step: products of whole numbers are exact, and several times as fast."""

from __future__ import annotations

from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from mercer._core import Table, whole_rows
from mercer.backends.threads import n_threads
from mercer.data import Data, Dense
from mercer.isa import multiplies_whole, select_isa
from mercer.kernels.program import PASSES, Op, Program

Units: TypeAlias = npt.NDArray[np.int32]

_LEAST_ENTRIES, _LEAST_FEATURES = 50_000, 16  # of tables that it could pay for
_SAMPLE, _FIRST = 65, 4  # rows that are looked at before all, and before those
_HALF_UNIT = 1.0001 * 2.0**-24  # of single precision: how far a number may be from its multiple, as a share of it
_LEAST_STEP = 2.0**-40  # and most, its inverse (native/include/mercer/tile_request.hpp)
_BYTE, _WORD = 255.0, 32767.0  # the largest multiples
_MEMORY_SHARE = 2  # of the limit's bytes, at least, for each byte of units
_SQUARES = (
    -2
)  # what a row says of itself behind its units: the sum of its squares (native/include/mercer/whole_tile.hpp)


@final
class WholeForm:
    """Rows as whole multiples of a step, as single precision takes them: a number and its multiple are the same there.

    Parameters
    ----------
    data : Dense
        The training rows.
    step : float
    is_bytes : bool
        Whether the multiples are from 0 to 255, or from -32767 to 32767.
    units : ndarray of int32, (n, n_units + 2)
        Those of the training rows.
    n_jobs : int, optional
        See :func:`mercer.backends.threads.n_threads`.
    """

    def __init__(self, data: Dense, step: float, is_bytes: bool, units: Units, n_jobs: int | None) -> None:
        self._step, self._is_bytes, self._n_jobs = step, is_bytes, n_jobs
        self._units: dict[int, tuple[Data, Units | None]] = {id(data): (data, units)}
        self.nbytes = units.nbytes
        self.row_length = units.shape[1]
        """Multiplications of single precision that take as long as an inner product."""

    def table(self, data: Dense) -> Table:
        """Return what native code needs of rows: the plain table where they are no multiples of the step."""
        units = self._of(data)
        return Table(data.array) if units is None else Table(data.array, units, self._step, self._is_bytes)

    def norms(self, data: Data) -> npt.NDArray[np.float64] | None:
        """Return the norms of the multiples, (n,); None where the rows are no multiples."""
        units = self._of(data)
        return None if units is None else self._step * np.sqrt(units[:, _SQUARES].astype(np.float64))

    def _of(self, data: Data) -> Units | None:
        held = self._units.get(id(data))
        if held is None:
            assert isinstance(data, Dense)
            units = whole_rows(select_isa(), data.array, self._step, self._is_bytes, n_threads(self._n_jobs))
            held = self._units[id(data)] = (data, units)
        return held[1]


def whole_form(program: Program, data: Data, *, n_jobs: int | None, memory_limit: int | None) -> WholeForm | None:
    """Return the rows as multiples of a step; None where they are none, and where that would not pay.

    Costs a look at 4 rows, then at 65, and at all where these are multiples. Programs take an inner product or a
    distance of all features, and nothing else.
    """
    passes = {step for step in program if step[0] in PASSES}
    if len(passes) != 1 or not multiplies_whole():
        return None
    op, view = passes.pop()
    if op not in (Op.DOT, Op.SQDIST) or view != 0.0 or not isinstance(data, Dense):
        return None
    if data.p < _LEAST_FEATURES or data.n * data.p < _LEAST_ENTRIES:
        return None
    sample = data.array[np.linspace(0, data.n - 1, _SAMPLE).astype(np.int64)].astype(np.float64)
    if _step_of(sample[:_FIRST]) is None:
        return None
    step = _step_of(sample)
    if step is None:
        return None
    is_bytes = bool(sample.min() >= 0.0 and sample.max() <= (_BYTE + 0.5) * step)
    if memory_limit is not None and _MEMORY_SHARE * data.n * data.p * (1 if is_bytes else 2) > memory_limit:
        return None
    units = whole_rows(select_isa(), data.array, step, is_bytes, n_threads(n_jobs))
    return None if units is None else WholeForm(data, step, is_bytes, units, n_jobs)


def _step_of(rows: npt.NDArray[np.float64]) -> float | None:
    """The largest step that all numbers are multiples of, as far as what is between neighbours tells; None without."""
    sizes = np.unique(np.abs(rows))
    if not np.isfinite(sizes[-1]) or sizes[-1] == 0.0:
        return None
    sizes = sizes[sizes > 0.0]
    step = float(min(sizes[0], np.diff(sizes).min(initial=np.inf)))
    if not (_LEAST_STEP <= step <= 1.0 / _LEAST_STEP and sizes[-1] <= (_WORD + 0.5) * step):
        return None
    # The difference has the rounding of both; those of twice as many steps, and so on, know it better and better.
    for place in np.searchsorted(sizes, step * 2.0 ** np.arange(1, 17), side="right") - 1:
        step = float(sizes[place] / np.round(sizes[place] / step))
    multiples = np.round(sizes / step)
    low, high = (sizes * (1.0 - _HALF_UNIT) / multiples).max(), (sizes * (1.0 + _HALF_UNIT) / multiples).min()
    if not low <= high:
        return None
    for plain in (round(step), 1.0 / round(1.0 / step) if step < 1.0 else step):  # what somebody divided by, probably
        if low <= plain <= high:
            return float(plain)
    return float(0.5 * (low + high))
