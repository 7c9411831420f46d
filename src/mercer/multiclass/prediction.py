"""Classes of new rows, from decision values in single precision if an error bound proves them, or else in double."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data
from mercer.gram.backends import select_backend
from mercer.kernels import Kernel
from mercer.kernels.kernel import finite
from mercer.multiclass.coefficients import Coefficients, Group, groups_of, summed
from mercer.multiclass.decision import decision_values
from mercer.multiclass.pairs import against_later
from mercer.multiclass.training import class_scores, winners

_FEW_VALUES = 1_000_000  # kernel values; with fewer, everything is computed in double precision
_LEAST_ROWS, _AT_A_TIME = 128, 500_000  # least rows of a block, and decision values of a block that fit the caches
_ALLOWANCE = 1e-9  # relative to the error bound and to the largest value: rounding of decision values in double
_NO_ROWS = np.zeros(0, dtype=np.int64)


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
    """Return the predicted class of each row: the class with the largest score in double precision.

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
    Decision values are computed in single precision, with a proved bound of their error. If that error could change the
    class of a row, the row is computed again in double precision.
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
        error_bounds = np.zeros((n_classes, chosen.size))

        def product(one: Group) -> FloatArray:
            products = backend.matvec_bounded(rows, chosen, support, one.vectors, one.coefficients)
            assert products is not None
            machines = slice(None) if one.owner is None else one.owner
            error_bounds[machines] = products[1] * (0.5 if one.owner is None else 1.0)
            return products[0]

        raw = summed(groups, product, chosen.size, n_machines) + biases
        error_bounds *= 1.0 + _ALLOWANCE
        error_bounds += 0.5 * _ALLOWANCE * max(raw.max(initial=0.0), -raw.min(initial=0.0))
        with np.errstate(invalid="ignore"):  # NaN marks rows that are computed in double precision
            return winners(class_scores(raw, n_classes, scheme)), _is_open(raw, error_bounds, n_classes, scheme)

    winning, is_open = np.empty(data.n, dtype=np.int64), np.ones(data.n, dtype=bool)
    height = max(_LEAST_ROWS, _AT_A_TIME // n_machines)
    first = groups[0]
    if backend.matvec_bounded(rows, _NO_ROWS, support, first.vectors, first.coefficients) is not None:
        for chosen in _parts(np.arange(data.n), height):
            winning[chosen], is_open[chosen] = in_single(chosen)
    for chosen in _parts(np.flatnonzero(is_open), height):
        winning[chosen] = in_double(chosen)
    return winning


def _parts(rows: IndexArray, height: int) -> list[IndexArray]:
    return [rows[first : first + height] for first in range(0, rows.size, height)]


def _is_open(raw: FloatArray, error_bounds: FloatArray, n_classes: int, scheme: str) -> npt.NDArray[np.bool_]:
    """Return whether the errors of the decision values could change the class of each row; True for NaN.

    `error_bounds` has shape (n_classes, m). The error of a machine for two classes is at most the sum of the bounds of
    both classes; the error of a class's score is at most twice its bound.
    """
    if scheme != "ovo" and n_classes > 2:
        second, first = np.partition(raw, -2, axis=1)[:, -2:].T
        return ~(first - second > 4.0 * error_bounds.max(axis=0))
    if n_classes == 2:
        return ~(np.abs(raw[:, 0]) > error_bounds.sum(axis=0))
    # A class is certain if its least number of votes exceeds the most votes of every other class.
    least, most = np.zeros((2, n_classes, raw.shape[0]))
    for i, values in enumerate(against_later(raw.T, n_classes)):
        error_bound = error_bounds[i] + error_bounds[i + 1 :]
        won, lost = values > error_bound, values < -error_bound
        least[i] += np.count_nonzero(won, axis=0)
        least[i + 1 :] += lost
        most[i] += np.count_nonzero(~lost, axis=0)
        most[i + 1 :] += ~won
    np.put_along_axis(most, least.argmax(axis=0)[None], -1.0, axis=0)
    return ~(least.max(axis=0) > most.max(axis=0))
