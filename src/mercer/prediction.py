"""Classes of new rows: from single precision where that settles them, else from double."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from mercer.backends import select_backend
from mercer.data import Data
from mercer.decision import Block, blocks, decision_values, summed
from mercer.kernels import Kernel
from mercer.multiclass import class_scores, winners

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_FEW_VALUES = 1_000_000  # below, it is not worth looking at what is open
_LEAST_ROWS, _AT_A_TIME = 1024, 500_000  # rows, and decision values, that are looked at together: they stay in caches
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
        values = decision_values(kernel, data, support, coefficients, biases, n_jobs=n_jobs)
        return winners(class_scores(values, n_classes, scheme))
    backend, _ = select_backend(kernel, support, n_jobs=n_jobs)
    rows, parts, n_machines = data.like(support), blocks(coefficients, data.n), biases.size

    def in_double(chosen: IndexArray) -> FloatArray:
        def product(block: Block) -> FloatArray:
            return backend.matvec(rows, chosen, support, block.vectors, block.coefficients)

        return summed(parts, product, chosen.size, n_machines) + biases

    def classes(chosen: IndexArray) -> IndexArray:
        bound = np.zeros((n_machines, chosen.size))

        def in_single(block: Block) -> FloatArray:
            found = backend.matvec_bounded(rows, chosen, support, block.vectors, block.coefficients)
            if found is None:
                raise _Unbounded
            bound[block.machines] += found[1]
            return found[0]

        try:
            raw = summed(parts, in_single, chosen.size, n_machines) + biases
        except _Unbounded:
            return winners(class_scores(in_double(chosen), n_classes, scheme))
        room = bound.T * (1.0 + _ROOM) + _ROOM * float(np.abs(raw).max(initial=0.0))
        is_open = np.flatnonzero(_is_open(raw, room, n_classes, scheme))
        if is_open.size:
            raw[is_open] = in_double(chosen[is_open])
        return winners(class_scores(raw, n_classes, scheme))

    height = max(_LEAST_ROWS, _AT_A_TIME // n_machines)
    return np.concatenate([classes(np.arange(k, min(k + height, data.n))) for k in range(0, data.n, height)])


class _Unbounded(Exception):  # noqa: N818 - a reason, not an error
    """Raised where nobody knows how far values in single precision are off."""


def _is_open(raw: FloatArray, room: FloatArray, n_classes: int, scheme: str) -> npt.NDArray[np.bool_]:
    """Whether errors within `room`, of shape (m, n_machines), could change a row's class."""
    if scheme != "ovo" and n_classes > 2:
        second, first = np.partition(raw, -2, axis=1)[:, -2:].T
        return ~(first - second > 2.0 * room.max(axis=1))
    unsure = ~(np.abs(raw) > room)  # NaN is unsure
    if n_classes == 2:
        return unsure[:, 0]
    # A class has won where it has more votes for certain than any other could have; ties are for confidence to break.
    least, most = np.zeros((2, n_classes, raw.shape[0]))
    for (i, j), values, doubt in zip(combinations(range(n_classes), 2), raw.T, unsure.T, strict=True):
        won, lost = (values > 0.0) & ~doubt, (values <= 0.0) & ~doubt
        least[i] += won
        least[j] += lost
        most[i] += ~lost
        most[j] += ~won
    np.put_along_axis(most, least.argmax(axis=0)[None], -1.0, axis=0)
    return ~(least.max(axis=0) > most.max(axis=0))
