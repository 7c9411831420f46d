"""The true violation and objective of a result, recomputed in float64 over all training rows by plain NumPy."""

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
        M - m (in LIBSVM's notation m(alpha) - M(alpha)), the largest over the machines; of KernelRidge the largest
        residual of its equations.
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


def prediction_errors(
    task: Task, model: Model, X: Any, decision: FloatArray, classes: npt.NDArray[np.int64]
) -> tuple[float, int]:
    """Return how far off predictions on new rows are, for two classes.

    Returns
    -------
    error : float
        The largest error of decision values, relative to the largest value.
    n_other : int
        Rows that were given another class than the true decision value speaks for.
    """
    true = kernel_times(task, _scattered(task, model), X)[:, 0] + model.intercepts[0]
    return float(np.abs(decision - true).max() / np.abs(true).max()), int(np.count_nonzero(classes != (true > 0.0)))


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


@dataclass(frozen=True)
class _Dual:
    """min 1/2 beta' (K + ridge I) beta + linear' beta within a box, with the sum of each group given."""

    beta: FloatArray
    values: FloatArray  # K beta, row by row
    linear: FloatArray
    lower: FloatArray
    upper: FloatArray
    totals: tuple[float, ...] = (0.0,)
    groups: npt.NDArray[np.int64] | int = 0
    ridge: float = 0.0

    def judge(self) -> tuple[float, float, float]:
        """Return the violation, the dual objective and the infeasibility."""
        gradient = self.values + self.ridge * self.beta + self.linear
        width = np.where(np.isfinite(self.upper - self.lower), self.upper - self.lower, 1.0)
        can_grow = self.beta < self.upper - _AT_BOUND * width
        can_shrink = self.beta > self.lower + _AT_BOUND * width
        if not self.totals:  # no box either: every gradient is to be 0
            return float(np.abs(gradient).max()), -0.5 * float(self.beta @ (gradient + self.linear)), 0.0
        violation, outside = 0.0, float(np.maximum(self.lower - self.beta, self.beta - self.upper).max())
        for group, total in enumerate(self.totals):
            members = np.broadcast_to(self.groups == group, self.beta.shape)
            most = gradient[members & can_shrink].max(initial=-np.inf)
            least = gradient[members & can_grow].min(initial=np.inf)
            violation = max(violation, float(most - least))
            outside = max(outside, abs(float(self.beta[members].sum()) - total))
        return violation, -0.5 * float(self.beta @ (gradient + self.linear)), outside / float(width.max())


def _duals(task: Task, coefficients: FloatArray, values: FloatArray) -> Iterator[_Dual]:
    """The dual of every machine: one-versus-one where there are classes."""
    n, nu = task.y.size, task.parameter
    beta, value, zero = coefficients[:, 0], values[:, 0], np.zeros(n)
    if task.machine == "OneClassSVM":
        yield _Dual(beta, value, zero, zero, zero + 1.0, (nu * n,))
    elif task.machine == "KernelRidge":
        yield _Dual(beta, value, -task.y, zero - np.inf, zero + np.inf, (), ridge=task.parameter)
    elif task.machine in ("SVR", "NuSVR"):
        split, groups = np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)]), np.repeat([0, 1], n)
        epsilon, half = (task.parameter, 0.0) if task.machine == "SVR" else (0.0, 0.5 * nu * task.C * n)
        linear = np.concatenate([epsilon - task.y, -epsilon - task.y])
        lower, upper = np.repeat([0.0, -task.C], n), np.repeat([task.C, 0.0], n)
        ends = ((0.0,), 0) if task.machine == "SVR" else ((half, -half), groups)
        yield _Dual(split, np.tile(value, 2), linear, lower, upper, *ends)
    elif task.machine == "NuSVC":  # scaled so that margins are held against 1
        y, half = np.where(task.y == 1, 1.0, -1.0), 0.5 * nu * n
        scale = 2.0 * half / float(np.abs(beta).sum())
        box = np.minimum(y, 0.0), np.maximum(y, 0.0)
        yield _Dual(scale * beta, scale * value, zero, *box, (-half, half), (y > 0.0).astype(np.int64))
    else:
        for column, (rows, y) in enumerate(_pairs(task)):
            box = task.C * np.minimum(y, 0.0), task.C * np.maximum(y, 0.0)
            yield _Dual(coefficients[rows, column], values[rows, column], -y, *box)


def _pairs(task: Task) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray]]:
    """Rows and signs of every machine, one-versus-one."""
    n_classes = int(task.y.max()) + 1
    if n_classes == 2:
        yield np.arange(task.y.size), np.where(task.y == 1, 1.0, -1.0)
        return
    for i, j in combinations(range(n_classes), 2):
        rows = np.flatnonzero((task.y == i) | (task.y == j))
        yield rows, np.where(task.y[rows] == i, 1.0, -1.0)


def _judge_one(task: Task, coefficients: FloatArray, values: FloatArray) -> Truth:
    judged = [dual.judge() for dual in _duals(task, coefficients, values)]
    violation, infeasibility = (float(np.max([0.0, *(one[k] for one in judged)])) for k in (0, 2))  # NaN stays
    return Truth(
        violation=violation,
        dual=sum(dual for _, dual, _ in judged),
        infeasibility=infeasibility,
        n_support=int(np.count_nonzero(coefficients.any(axis=1))),
    )
