"""What is true of a result: recomputed in float64 over all training rows, in NumPy, by code shared with nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .peers import Model, Task

FloatArray = npt.NDArray[np.float64]

_BLOCK = 1 << 22  # kernel values at a time: 32 MiB
_AT_BOUND = 1e-6  # a coefficient this close to 0 or C, relative to C, is there: float32 cannot say it any better


@dataclass(frozen=True)
class Truth:
    """A result as it is.

    Attributes
    ----------
    violation : float
        M - m (in LIBSVM's notation m(alpha) - M(alpha)), the largest over the machines.
    dual : float
        Sum of the machines' dual objectives, to be maximised.
    infeasibility : float
        Largest distance of a coefficient from its box or of a machine's sum of coefficients from 0, as a share of C.
    n_support : int
        Rows that are support vectors of some machine.
    """

    violation: float
    dual: float
    infeasibility: float
    n_support: int


def judge(task: Task, models: Sequence[Model]) -> list[Truth]:
    """Return the truth about models of one task; kernel values that they need in common are evaluated once."""
    coefficients = [_scattered(task, model) for model in models]
    values = np.split(kernel_times(task, np.hstack(coefficients)), len(models), axis=1)
    return [_judge_one(task, beta, value) for beta, value in zip(coefficients, values, strict=True)]


def decision_errors(task: Task, model: Model, X: Any, decision: FloatArray) -> float:
    """Return the largest error of decision values on new rows, relative to the largest value; for two classes."""
    true = kernel_times(task, _scattered(task, model), X)[:, 0] + model.intercepts[0]
    return float(np.abs(decision - true).max() / np.abs(true).max())


def _scattered(task: Task, model: Model) -> FloatArray:
    """Coefficients over all rows, (n, n_machines)."""
    beta = np.zeros((task.y.size, model.coefficients.shape[1]))
    beta[model.support] = model.coefficients
    return beta


def kernel_times(task: Task, beta: FloatArray, X: Any = None) -> FloatArray:
    """Return K(X, training rows) @ beta in float64; X is the training rows by default."""
    rows = (task.X if X is None else X).astype(np.float64)
    used = np.flatnonzero(beta.any(axis=1))
    columns = task.X[used].astype(np.float64)
    out = np.zeros((rows.shape[0], beta.shape[1]))
    row_norms, column_norms = _sq_norms(rows), _sq_norms(columns)
    width = max(1, _BLOCK // rows.shape[0])
    for first in range(0, used.size, width):
        part = slice(first, first + width)
        # A dense block of columns beside sparse rows: the products of two sparse matrices would be slower by far.
        block = columns[part].toarray() if sp.issparse(columns) else columns[part]
        values = np.asarray(rows @ block.T)
        if task.kernel == "rbf":
            values *= -2.0
            values += row_norms[:, None]
            values += column_norms[part]
            np.maximum(values, 0.0, out=values)
            values *= -task.gamma
            np.exp(values, out=values)
        out += values @ beta[used[part]]
    return out


def _sq_norms(rows: Any) -> FloatArray:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def _machines(task: Task) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray]]:
    """Rows and signs of every machine, one-versus-one."""
    n_classes = int(task.y.max()) + 1
    if n_classes == 2:
        yield np.arange(task.y.size), np.where(task.y == 1, 1.0, -1.0)
        return
    for i, j in combinations(range(n_classes), 2):
        rows = np.flatnonzero((task.y == i) | (task.y == j))
        yield rows, np.where(task.y[rows] == i, 1.0, -1.0)


def _judge_one(task: Task, coefficients: FloatArray, values: FloatArray) -> Truth:
    violation = dual = infeasibility = 0.0
    for column, (rows, y) in enumerate(_machines(task)):
        beta, value = coefficients[rows, column], values[rows, column]
        alpha, gradient = beta * y, value - y  # of the objective to be minimised, by beta
        can_grow = np.where(y > 0.0, alpha < task.C * (1.0 - _AT_BOUND), alpha > task.C * _AT_BOUND)
        can_shrink = np.where(y > 0.0, alpha > task.C * _AT_BOUND, alpha < task.C * (1.0 - _AT_BOUND))
        most, least = gradient[can_shrink].max(initial=-np.inf), gradient[can_grow].min(initial=np.inf)
        violation = max(violation, float(most - least))
        dual += float(alpha.sum() - 0.5 * beta @ value)
        outside = max(float(-alpha.min()), float(alpha.max()) - task.C, abs(float(beta.sum())))
        infeasibility = max(infeasibility, outside / task.C)
    return Truth(violation, dual, infeasibility, int(np.count_nonzero(coefficients.any(axis=1))))
