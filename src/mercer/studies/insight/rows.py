"""Which rows a machine goes by: the most influential and the most suspicious ones, and the nearest to a prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.data import Table
from mercer.studies.insight.kernel_parts import parts_of
from mercer.studies.models import Model

FloatArray = npt.NDArray[np.float64]

N_SHOWN = 8
"""Rows of each kind that are named."""

N_NEAREST = 3
"""Support vectors that are named beside a prediction."""

N_SAMPLE = 500
"""Training rows over which the effect of a support vector is averaged."""


@dataclass(frozen=True)
class NotedRow:
    """A row worth a look, by its position in the table, and what makes it so.

    Attributes
    ----------
    row : int
        Position in the table, from 0.
    amount : float
        Share of the decision values that is due to an influential row; cost of the prediction of a suspicious one, as
        the caller measures it.
    """

    row: int
    amount: float


def influential_rows(model: Model, training: Table, seed: int = 0) -> tuple[NotedRow, ...]:
    """Return the support vectors that contribute most to decision values, and their shares of all contributions.

    The contribution of a support vector is its coefficient times its kernel values, in absolute value, averaged over a
    sample of the training rows and summed over the machines. Machines of cells have no such sum.

    Parameters
    ----------
    model : Model
    training : Table
        All training rows.
    """
    if not len(model.support_rows) or model.cells is not None:
        return ()
    sample = np.sort(np.random.default_rng(seed).permutation(training.n_rows)[:N_SAMPLE])
    parts = parts_of(model, training.take(sample))
    contributions = np.abs(parts.kernel_values()).mean(axis=0) * np.abs(parts.beta).sum(axis=1)
    shares = contributions / max(float(contributions.sum()), np.finfo(np.float64).tiny)
    most = np.argsort(-shares, kind="stable")[:N_SHOWN]
    rows = model.training.rows[model.support_rows[most]]
    return tuple(NotedRow(int(row), float(share)) for row, share in zip(rows, shares[most], strict=True))


def suspicious_rows(rows: npt.NDArray[np.int64], costs: FloatArray) -> tuple[NotedRow, ...]:
    """Return the rows whose targets a machine that had not learnt from them predicts worst.

    Parameters
    ----------
    rows : ndarray of int64
        Positions in the table.
    costs : ndarray of float64
        What each prediction costs by a machine that did not learn from the row; only positive ones count.
    """
    worst = np.argsort(-costs, kind="stable")[:N_SHOWN]
    return tuple(NotedRow(int(rows[one]), float(costs[one])) for one in worst if costs[one] > 0.0)


def nearest_support_vectors(model: Model, part: Table) -> npt.NDArray[np.int64]:
    """Return, for each row, the training rows of its nearest support vectors, the nearest first.

    The distance is that of the kernel, sqrt(k(x, x) + k(s, s) - 2 k(x, s)).

    Returns
    -------
    ndarray of int64 of shape (n, up to 3)
        Positions in the table that the model was trained on. (n, 0) for a linear machine, which keeps no rows.
    """
    if not len(model.support_rows):
        return np.zeros((part.n_rows, 0), dtype=np.int64)
    kernel, vectors = model.kernel, model.support_vectors
    values = kernel.block(model.encoded(part), vectors)
    distances = kernel.diag(vectors) - 2.0 * values  # k(x, x) is the same for all vectors
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :N_NEAREST]
    return np.asarray(model.training.rows[model.support_rows[nearest]])
