"""Classes of new rows: from single precision where that settles them, else from double."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data
from mercer.gram.backends import select_backend
from mercer.kernels import Kernel
from mercer.kernels.base import finite
from mercer.multiclass.coefficients import Coefficients, Group, groups_of, summed
from mercer.multiclass.decision import decision_values
from mercer.multiclass.pairs import against_later
from mercer.multiclass.training import class_scores, winners

_FEW_VALUES = 1_000_000  # kernel values, below which it is not worth looking at what is open
_LEAST_ROWS, _AT_A_TIME = 128, 500_000  # rows, and decision values, that are looked at together: they stay in caches
_ROOM = 1e-9  # of the bound, and of the largest value there could be: decision values in double are rounded too
_NOBODY = np.zeros(0, dtype=np.int64)


def predicted_classes(
    kernel: Kernel,
    data: Data,
    support: Data,
    coefficients: Coefficients,
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
        See :func:`mercer.multiclass.decision.decision_values`.
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
    rows, groups, n_machines = data.like(support), groups_of(coefficients), biases.size

    def in_double(chosen: IndexArray) -> IndexArray:
        def product(one: Group) -> FloatArray:
            return backend.matvec(rows, chosen, support, one.vectors, one.coefficients)

        values = finite(kernel, summed(groups, product, chosen.size, n_machines) + biases)
        return winners(class_scores(values, n_classes, scheme))

    def in_single(chosen: IndexArray) -> tuple[IndexArray, npt.NDArray[np.bool_]]:
        doubts = np.zeros((n_classes, chosen.size))

        def product(one: Group) -> FloatArray:
            found = backend.matvec_bounded(rows, chosen, support, one.vectors, one.coefficients)
            assert found is not None
            doubts[slice(None) if one.owner is None else one.owner] = found[1] * (0.5 if one.owner is None else 1.0)
            return found[0]

        raw = summed(groups, product, chosen.size, n_machines) + biases
        doubts *= 1.0 + _ROOM
        doubts += 0.5 * _ROOM * max(raw.max(initial=0.0), -raw.min(initial=0.0))
        with np.errstate(invalid="ignore"):  # of rows that are open
            return winners(class_scores(raw, n_classes, scheme)), _is_open(raw, doubts, n_classes, scheme)

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


def _is_open(raw: FloatArray, doubts: FloatArray, n_classes: int, scheme: str) -> npt.NDArray[np.bool_]:
    """Whether errors could change a row's class; NaN is open.

    A machine that tells two classes apart is off by what `doubts`, (n_classes, m), says of both of them together; a
    score of a class by twice what it says of the class.
    """
    if scheme != "ovo" and n_classes > 2:
        second, first = np.partition(raw, -2, axis=1)[:, -2:].T
        return ~(first - second > 4.0 * doubts.max(axis=0))
    if n_classes == 2:
        return ~(np.abs(raw[:, 0]) > doubts.sum(axis=0))
    # A class has won where it has more votes for certain than any other could have; ties are for confidence to break.
    least, most = np.zeros((2, n_classes, raw.shape[0]))
    for i, values in enumerate(against_later(raw.T, n_classes)):
        doubt = doubts[i] + doubts[i + 1 :]
        won, lost = values > doubt, values < -doubt
        least[i] += np.count_nonzero(won, axis=0)
        least[i + 1 :] += lost
        most[i] += np.count_nonzero(~lost, axis=0)
        most[i + 1 :] += ~won
    np.put_along_axis(most, least.argmax(axis=0)[None], -1.0, axis=0)
    return ~(least.max(axis=0) > most.max(axis=0))
