"""Classes of new rows: from single precision where that settles them, else from double."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.backends import select_backend
from mercer.data import Data
from mercer.decision import decision_values
from mercer.kernels import Kernel
from mercer.multiclass import class_scores, winners

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_FEW_VALUES = 1_000_000  # below, it is not worth looking at what is open
_ROOM = 1e-9  # of the bound, and of the largest value there could be: decision values in double are rounded too


def predicted_classes(
    kernel: Kernel,
    data: Data,
    support: Data,
    coefficients: FloatArray,
    biases: FloatArray,
    *,
    n_classes: int,
    scheme: str,
    n_jobs: int | None = None,
) -> IndexArray:
    """Return the winning class of each row: the one that decision values in double precision have win.

    Parameters
    ----------
    kernel, data, support, coefficients, biases, n_jobs
        See :func:`mercer.decision.decision_values`.
    n_classes : int
    scheme : {"ovo", "ovr", "joint"}

    Returns
    -------
    ndarray of int64 of shape (m,)

    Notes
    -----
    Decision values are evaluated in single precision, with a proved bound on their error. Rows whose class they leave
    open, because a sign or an order could be another one, are evaluated again in double.
    """
    if data.n * support.n < _FEW_VALUES:
        exact = decision_values(kernel, data, support, coefficients, biases, n_jobs=n_jobs)
        return winners(class_scores(exact, n_classes, scheme))
    backend, _ = select_backend(kernel, support, n_jobs=n_jobs)
    rows = data.like(support)
    found = backend.matvec_bounded(rows, None, support, None, coefficients)
    if found is None:
        exact = backend.matvec(rows, None, support, None, coefficients) + biases
        return winners(class_scores(exact, n_classes, scheme))
    raw, bound = found[0] + biases, found[1]
    room = bound * (1.0 + _ROOM) + _ROOM * float(np.abs(raw).max(initial=0.0))
    open_rows = np.flatnonzero(_is_open(raw, room, n_classes, scheme))
    if open_rows.size:
        raw[open_rows] = backend.matvec(rows, open_rows, support, None, coefficients) + biases
    return winners(class_scores(raw, n_classes, scheme))


def _is_open(raw: FloatArray, room: FloatArray, n_classes: int, scheme: str) -> npt.NDArray[np.bool_]:
    """Whether errors within `room` could change a row's class."""
    if scheme != "ovo" and n_classes > 2:
        second, first = np.partition(raw, -2, axis=1)[:, -2:].T
        return ~(first - second > 2.0 * room)
    unsure = ~(np.abs(raw).min(axis=1) > room)  # NaN is unsure
    if n_classes > 2:  # votes are certain; where they tie, confidence decides, which is not
        votes = np.rint(class_scores(raw, n_classes, scheme))
        unsure |= (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return unsure
