"""What linear machines are measured on: rows, losses, penalties, and the primal objective that judges every result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp

from . import datasets, shape_tables

FloatArray = npt.NDArray[np.float64]

EPSILON = 0.1
"""Half of the width of the tube in regression."""

ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Workload:
    """A problem: minimise penalty(w) + C sum loss, where the last column of the rows is 1 and stands for the bias.

    Attributes
    ----------
    section : str
        The line of the goals that it belongs to.
    table : str
    loss : {"squared_hinge", "hinge", "logistic", "softmax", "epsilon_insensitive", "squared_epsilon_insensitive"}
        Of several classes, all but "softmax" have a machine for each class against the rest.
    C : float
    penalty : {"l2", "l1"}
    """

    section: str
    table: str
    loss: str
    C: float
    penalty: str = "l2"

    @property
    def name(self) -> str:
        """What it is called on the command line and in the page."""
        return f"{self.table}, {self.loss.replace('_', ' ')}, {self.penalty}, C = {self.C:g}"

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return self.loss.endswith("epsilon_insensitive")


def objective(workload: Workload, X: Any, y: npt.NDArray[Any], w: FloatArray) -> float:
    """Return the primal objective in float64; of several classes the sum over the machines, each against the rest.

    Parameters
    ----------
    workload : Workload
    X : ndarray or csr_array of shape (n, p)
    y : ndarray of shape (n,)
        Classes 0 .. k-1, or targets.
    w : ndarray of shape (n_machines, p)
        Of two classes the one machine that is positive for class 1.
    """
    w = np.atleast_2d(np.asarray(w, dtype=np.float64))
    total = 0.5 * float(np.sum(w * w)) if workload.penalty == "l2" else float(np.abs(w).sum())
    for begin in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        values = np.asarray(X[rows].astype(np.float64) @ w.T)
        total += workload.C * _loss_of_rows(workload, values, y[rows])
    return total


def _loss_of_rows(workload: Workload, values: FloatArray, y: npt.NDArray[Any]) -> float:
    if workload.loss == "softmax":
        return float(np.sum(logsumexp(values, axis=1) - values[np.arange(len(y)), y]))
    return float(np.sum(_losses(workload.loss, values, _targets(workload, y, values.shape[1]))))


def _targets(workload: Workload, y: npt.NDArray[Any], n_machines: int) -> FloatArray:
    if workload.is_regression:
        return np.asarray(y, dtype=np.float64)[:, None]
    positive = (y == 1)[:, None] if n_machines == 1 else y[:, None] == np.arange(n_machines)
    return np.where(positive, 1.0, -1.0)


def _losses(loss: str, values: FloatArray, targets: FloatArray) -> FloatArray:
    if loss == "logistic":
        return np.logaddexp(0.0, -targets * values)
    if loss.endswith("epsilon_insensitive"):
        beyond = np.maximum(0.0, np.abs(values - targets) - EPSILON)
    else:
        beyond = np.maximum(0.0, 1.0 - targets * values)
    return beyond**2 if loss.startswith("squared") else beyond


def susy_like(n: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return n rows of 18 correlated, partly skewed columns, and classes that a linear machine tells apart in part."""
    rng = np.random.default_rng(5)
    mixing = rng.standard_normal((18, 18)).astype(np.float32) / np.float32(np.sqrt(18.0))
    X = np.empty((n, 18), dtype=np.float32)
    for begin in range(0, n, ROWS_AT_ONCE):
        X[begin : begin + ROWS_AT_ONCE] = rng.standard_normal((min(ROWS_AT_ONCE, n - begin), 18), np.float32) @ mixing
    X[:, :9] = np.exp(0.5 * X[:, :9])
    score = X @ rng.standard_normal(18).astype(np.float32)
    y = (score + 1.5 * score.std() * rng.standard_normal(n, np.float32) > np.median(score)).astype(np.int64)
    return X, y


def _standardised(X: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the columns with mean 0 and deviation 1; sums in float64, without a copy of the rows in float64."""
    X = X - X.mean(axis=0, dtype=np.float64).astype(np.float32)
    deviation = X.std(axis=0, dtype=np.float64)
    X /= np.where(deviation > 0.0, deviation, 1.0).astype(np.float32)
    return X


TABLES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ijcnn1": (partial(datasets.load, "ijcnn1"), ("ijcnn1.npz",)),
    "skin": (partial(datasets.load, "skin"), ("skin_nonskin.npz",)),
    "covtype": (partial(datasets.load, "covtype 2"), ("covtype_ramp93k.npz",)),
    "susy-like": (partial(susy_like, 5_000_000), ()),
    "susy-like 1m": (partial(susy_like, 1_000_000), ()),
    "small": (partial(susy_like, 2_000), ()),
    "20 newsgroups": (partial(datasets.load, "20 newsgroups"), ("20newsgroups.jsonl.gz",)),
    "reuters acq": (partial(datasets.load, "reuters acq"), ("reuters21578.jsonl.gz",)),
    **{name: (make, ()) for name, make in shape_tables.TABLES.items()},
}
"""How each table is made, and the files of the data folder that it needs."""


def rows_of(workload: Workload) -> tuple[Any, npt.NDArray[Any]]:
    """Return the rows in float32 with a last column of ones, and classes, or targets of mean 0 and deviation 1."""
    made = TABLES[workload.table][0]()
    X, y = (made.X, made.y) if isinstance(made, datasets.Table) else made
    if workload.is_regression and y.dtype.kind == "f":
        y = (y - y.mean()) / y.std()
    if not sp.issparse(X):
        X = _standardised(X)
    if workload.is_regression and y.dtype.kind != "f":  # the first column with more than two values is predicted
        target = next(j for j in range(X.shape[1]) if np.unique(X[:, j]).size > 2)
        X, y = np.delete(X, target, axis=1), np.asarray(X[:, target], dtype=np.float64)
    if workload.table == "skin" and not workload.is_regression:
        y = 1 - y
    ones = np.ones((X.shape[0], 1), dtype=np.float32)
    if sp.issparse(X):
        return sp.csr_matrix(sp.hstack([X, ones]), dtype=np.float32), y
    return np.ascontiguousarray(np.hstack([X, ones]), dtype=np.float32), y


def is_available(workload: Workload) -> bool:
    """Whether the files of the table are in the data folder."""
    folder, files = datasets.data_folder(), TABLES[workload.table][1]
    return not files or (folder is not None and all((folder / name).exists() for name in files))
