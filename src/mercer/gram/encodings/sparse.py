"""Dense tables whose columns mostly repeat one value: minus that value, rows are sparse, and tiles are faster."""

from __future__ import annotations

from typing import final

import numpy as np
import scipy.sparse as sp

from mercer._core import sparse_rows
from mercer._typing import FloatArray
from mercer.data import CSR, Data, Dense
from mercer.gram.encodings.integers import LEAST_ENTRIES, LEAST_FEATURES
from mercer.kernels.program import PASSES, Op, Program
from mercer.kernels.views import View

_SAMPLE = 65  # rows that are checked first; an odd number, so that a median is one of the values
_SHARE = 0.25  # largest share of entries that differ from their column's value; above it, dense tiles are faster
_ENTRY_BYTES = 12  # bytes of a stored value and its index


@final
class SparseForm:
    """Dense rows minus `shift`, in sparse form; distances are the same as without the shift.

    It suits one-hot columns, standardised or not, pixels and counts. The shift is subtracted in double precision, so
    that kernel values are those of the given rows. For inner products the shift must be 0.

    Parameters
    ----------
    shift : ndarray of shape (p,)
    """

    def __init__(self, shift: FloatArray) -> None:
        self._shift = shift

    def of(self, data: Data) -> CSR:
        """Return the rows minus the shift; raise TypeError if they are not dense."""
        if not isinstance(data, Dense):
            raise TypeError(f"rows must be dense, as the training rows are, got {type(data).__name__}")
        return sparse_form(data, self._shift)


def prevailing_values(
    program: Program, data: Data, memory_limit: int | None, *, most_entries: float | None = None
) -> FloatArray | None:
    """Return the value that most entries of each column have, (p,); None if sparse rows would not be faster.

    A row may have `most_entries` other values on average, by default a quarter of its entries. It checks 65 rows. Only
    distances allow a shift, so the value is 0 if the program has other passes. Programs with views are not shifted.
    """
    if not isinstance(data, Dense) or data.p < LEAST_FEATURES or data.n * data.p < LEAST_ENTRIES:
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
    """Return the rows minus `shift`, in double precision, without zeros."""
    ends, columns, values = sparse_rows(data.array, shift)
    index = np.int32 if ends[-1] < 2**31 else np.int64
    stored = values, columns.astype(index, copy=False), ends.astype(index)
    return CSR(sp.csr_array(stored, shape=data.shape))
