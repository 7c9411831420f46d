"""Dense tables whose columns mostly repeat one value: moved there, rows are sparse, and sparse tiles are faster."""

from __future__ import annotations

from typing import final

import numpy as np
import scipy.sparse as sp

from mercer._core import sparse_rows
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import CSR, Data, Dense
from mercer.gram.backend import Backend, Tiles
from mercer.gram.native import NativeBackend
from mercer.kernels.program import PASSES, Op, Program
from mercer.kernels.views import View

_LEAST_ENTRIES, _LEAST_FEATURES = 50_000, 16  # of tables that it could pay for
_SAMPLE = 65  # rows that are looked at first; an odd number, whose median is one of them
_SHARE = 0.25  # of the entries, at most, that differ from their column's value: from there on sparse tiles are faster
_ENTRY_BYTES = 12  # of a stored value and its index


@final
class SparseForm(Backend):
    """Evaluates a program over the rows moved by -`shift`, which leaves distances as they are, in sparse form.

    One-hot columns are so, standardised or not, and pixels, and counts. Differences are taken in double precision, so
    that kernel values are those of the rows given. Inner products know no shift but 0.

    Parameters
    ----------
    native : NativeBackend
        Of the training rows in this form.
    data : Dense
        The training rows.
    form : CSR
        The same, moved.
    shift : ndarray of shape (p,)
    """

    def __init__(self, native: NativeBackend, data: Dense, form: CSR, shift: FloatArray) -> None:
        self._native, self._shift = native, shift
        self._forms: dict[int, tuple[Data, CSR]] = {id(data): (data, form)}
        self.n_threads = native.n_threads
        self.values_per_call, self.kernel_is_expensive = native.values_per_call, native.kernel_is_expensive
        self.roundoff = native.roundoff
        self.form_bytes = native.form_bytes + form.nbytes
        self.scratch_bytes = native.scratch_bytes + form.nbytes
        self.thread_bytes = native.thread_bytes

    def block(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        out: RealArray,
        *,
        rounded: bool = False,
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        self._native.block(self._form(left), left_rows, self._form(right), right_rows, out, rounded=rounded)

    def matvec(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        vectors: FloatArray,
        *,
        single: bool = False,
    ) -> FloatArray:
        """Return K(left, right) @ vectors; see :class:`Backend`."""
        return self._native.matvec(self._form(left), left_rows, self._form(right), right_rows, vectors, single=single)

    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)|; see :class:`Backend`."""
        return self._native.value_bound(self._form(data))

    def tiles(self, data: Data) -> Tiles:
        """Return what native code needs; see :class:`Backend`."""
        return self._native.tiles(self._form(data))

    def matvec_part(
        self,
        data: Data,
        rows: IndexArray | None,
        vectors: FloatArray,
        part: int,
        parts: int,
        *,
        single: bool = False,
    ) -> FloatArray:
        """Return one of so many summands of K(data, data) @ vectors; see :class:`Backend`."""
        return self._native.matvec_part(self._form(data), rows, vectors, part, parts, single=single)

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors from values in single precision, with bounds; see :class:`Backend`."""
        return self._native.matvec_bounded(self._form(left), left_rows, self._form(right), right_rows, vectors)

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return how far `matvec` with `single` may be off; see :class:`Backend`."""
        return self._native.single_precision_bound(self._form(left), left_rows, self._form(right), right_rows, weights)

    def _form(self, data: Data) -> CSR:
        held = self._forms.get(id(data))
        if held is None:
            if not isinstance(data, Dense):
                raise TypeError(f"dense rows are evaluated with dense ones, got {type(data).__name__}")
            held = self._forms[id(data)] = (data, sparse_form(data, self._shift))
        return held[1]


def prevailing_values(
    program: Program, data: Data, memory_limit: int | None, *, most_entries: float | None = None
) -> FloatArray | None:
    """Return the value that prevails in each column, (p,); None where moving the rows there would not pay.

    Rows may have `most_entries` other values on average, by default a quarter of all. Costs a look at 65 rows. Only
    distances stay as they are: in programs with anything else only 0 counts. Views are not moved.
    """
    if not isinstance(data, Dense) or data.p < _LEAST_FEATURES or data.n * data.p < _LEAST_ENTRIES:
        return None
    passes = [step for step in program if step[0] in PASSES]
    if any(isinstance(argument, View) for _, argument in passes):
        return None
    sample = data.spread(_SAMPLE)
    middle = _SAMPLE // 2
    stays = all(op in (Op.SQDIST, Op.L1) for op, _ in passes)
    values = np.partition(sample, middle, axis=0)[middle] if stays else np.zeros(data.p)
    share = np.count_nonzero(sample != values) / sample.size
    most = _SHARE if most_entries is None else min(_SHARE, most_entries / data.p)
    if share > most or (memory_limit is not None and 2.0 * _ENTRY_BYTES * share * data.n * data.p > memory_limit):
        return None
    return values.astype(np.float64)


def sparse_form(data: Dense, shift: FloatArray) -> CSR:
    """Return the rows minus `shift`, in double precision, without what is 0."""
    ends, columns, values = sparse_rows(data.array, shift)
    index = np.int32 if ends[-1] < 2**31 else np.int64
    stored = values, columns.astype(index, copy=False), ends.astype(index)
    return CSR(sp.csr_array(stored, shape=data.shape))
