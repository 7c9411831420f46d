"""Classes of new rows: from single precision where that settles them, else from double."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from mercer.backends import select_backend
from mercer.data import Data
from mercer.decision import decision_values
from mercer.kernels import Kernel
from mercer.machine_groups import Group, group, summed
from mercer.multiclass import class_scores, winners

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_FEW_VALUES = 1_000_000  # kernel values, below which it is not worth looking at what is open
_LEAST_ROWS, _AT_A_TIME = 1024, 500_000  # rows, and decision values, that are looked at together: they stay in caches
_ROOM = 1e-9  # of the bound, and of the largest value there could be: decision values in double are rounded too
_NOBODY = np.zeros(0, dtype=np.int64)


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
    rows, groups, n_machines = data.like(support), group(coefficients, data.n), biases.size

    def in_double(chosen: IndexArray) -> IndexArray:
        def product(one: Group) -> FloatArray:
            return backend.matvec(rows, chosen, support, one.vectors, one.coefficients)

        return winners(class_scores(summed(groups, product, chosen.size, n_machines) + biases, n_classes, scheme))

    def in_single(chosen: IndexArray) -> tuple[IndexArray, npt.NDArray[np.bool_]]:
        bound = np.zeros((n_machines, chosen.size))

        def product(one: Group) -> FloatArray:
            found = backend.matvec_bounded(rows, chosen, support, one.vectors, one.coefficients)
            assert found is not None
            bound[one.machines] += found[1]
            return found[0]

        raw = summed(groups, product, chosen.size, n_machines) + biases
        room = bound.T * (1.0 + _ROOM) + _ROOM * float(np.abs(raw).max(initial=0.0))
        with np.errstate(invalid="ignore"):  # of rows that are open
            return winners(class_scores(raw, n_classes, scheme)), _is_open(raw, room, n_classes, scheme)

    winning, is_open = np.empty(data.n, dtype=np.int64), np.ones(data.n, dtype=bool)
    height = max(_LEAST_ROWS, _AT_A_TIME // n_machines)
    first = groups[0]
    if backend.matvec_bounded(rows, _NOBODY, support, first.vectors, first.coefficients) is not None:
        for chosen in _parts(np.arange(data.n), height):
            winning[chosen], is_open[chosen] = in_single(chosen)
    for chosen in _parts(np.flatnonzero(is_open), height):
        winning[chosen] = in_double(chosen)
    return winning


def _parts(rows: IndexArray, height: int) -> list[IndexArray]:
    return [rows[first : first + height] for first in range(0, rows.size, height)]


def _is_open(raw: FloatArray, room: FloatArray, n_classes: int, scheme: str) -> npt.NDArray[np.bool_]:
    """Whether errors within `room`, of shape (m, n_machines), could change a row's class; NaN is open."""
    if scheme != "ovo" and n_classes > 2:
        second, first = np.partition(raw, -2, axis=1)[:, -2:].T
        return ~(first - second > 2.0 * room.max(axis=1))
    if n_classes == 2:
        return ~(np.abs(raw[:, 0]) > room[:, 0])
    # A class has won where it has more votes for certain than any other could have; ties are for confidence to break.
    least, most = np.zeros((2, n_classes, raw.shape[0]))
    for (i, j), values, doubt in zip(combinations(range(n_classes), 2), raw.T, room.T, strict=True):
        won, lost = values > doubt, values < -doubt
        least[i] += won
        least[j] += lost
        most[i] += ~lost
        most[j] += ~won
    np.put_along_axis(most, least.argmax(axis=0)[None], -1.0, axis=0)
    return ~(least.max(axis=0) > most.max(axis=0))
