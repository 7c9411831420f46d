"""Pegasos: stochastic subgradient steps of length 1/(lambda t) on the hinge loss, for rows that come one by one.

**Minimises**, for one machine or for each class against the others,

    lambda/2 ||w||^2 + (1 / sum_i s_i) sum_i c_i max(0, 1 - y_i <w, x_i>)

where s_i is the weight of a row and its charge c_i is s_i times the factor of its class. (In a machine of one class
against the others, the others have factor 1, as in LIBLINEAR.) This is the linear machine with
C = 1 / (lambda sum_i s_i).

**Steps**, with w = 0 and t = 0 at first (t is the sum of the weights of the rows visited so far):

    1. take the next rows, a mini-batch B;         t <- t + sum_{i in B} s_i
    2. the violators are V = {i in B : y_i <w, x_i> < 1}
    3. step of length eta = 1/(lambda t) against the subgradient of the batch:
       w <- (1 - sum_{i in B} s_i / t) w  +  eta sum_{i in V} c_i y_i x_i
    4. project on the ball that holds the optimum:  w <- min(1, radius / ||w||) w,  radius = 1/sqrt(lambda)
       (with factors of the classes: the root of their mean over the rows so far, divided by lambda)
    5. average:  w_mean <- (sum over the steps of (weight of the batch) t w) / (sum of the same without w)

If all weights are 1 and the batches have one row, then 1 - sum s_i / t is 1 - eta lambda, and this is the
algorithm of Shalev-Shwartz et al. (2007). A weight of 2 shortens w as two rows do, so that weights are repetitions.
Later vectors count more in the average, which removes the factor ln t from the bound.

**Guarantee**: with rows drawn at random and ||x|| <= R, the expected objective is within
O((sqrt(lambda) + R)^2 / (lambda t)) of the optimum. A step costs as many operations as the rows of its batch have
entries, times the number of machines.

The steps are in native/rows/pegasos.hpp: w is stored as scale * v, so that step 3 changes only the columns that the
violators use. tests/reference/pegasos.py has them as written above.

References
----------
Shalev-Shwartz, Singer & Srebro (2007); Lacoste-Julien, Schmidt & Bach (2012) for the weighted average.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer import _core
from mercer._typing import FloatArray, IndexArray
from mercer.gram.rows.sweeps import native_table

_RECENT = 1000  # rows; the length of the window of the recent losses
_LARGEST = 1e150  # squares of larger numbers overflow


@dataclass(frozen=True)
class Steps:
    """How the steps are made.

    Attributes
    ----------
    alpha : float
        lambda, the factor of ||w||^2 / 2.
    constant : float
        Value of the column of the bias, whose weight is penalised like the others; 0 without a bias.
    batch_size : int
    projects, averages : bool
    """

    alpha: float
    constant: float
    batch_size: int
    projects: bool
    averages: bool


@dataclass(frozen=True, eq=False)
class Visits:
    """Class numbers and weights of the rows of a table, factors of the classes, and the order of the visits."""

    codes: IndexArray
    weights: FloatArray
    factors: FloatArray
    order: IndexArray


@dataclass(frozen=True, eq=False, repr=False)
class ProgressiveLoss:
    """Losses of rows before the machine learnt from them: progressive validation.

    Every row is predicted first, by the machine as it then was, and learnt afterwards. The means are honest estimates
    for new rows, as long as no row is visited twice: in `fit`, only the first epoch counts.

    Attributes
    ----------
    n_rows : int
        Number of rows of positive weight.
    hinge, error_rate : float
        Mean hinge loss (with more than two classes: the sum over the machines) and share of wrong predictions over all
        rows, by sample weight. NaN before the first row.
    recent_hinge, recent_error_rate : float
        The same over the last 1,000 rows.
    """

    n_rows: int = 0
    weight: float = 0.0
    hinge_sum: float = 0.0
    error_sum: float = 0.0
    recent: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))  # weight, loss and error of the last rows

    @property
    def hinge(self) -> float:
        """Mean hinge loss over all rows."""
        return self.hinge_sum / self.weight if self.weight else float("nan")

    @property
    def error_rate(self) -> float:
        """Share of wrong predictions over all rows."""
        return self.error_sum / self.weight if self.weight else float("nan")

    @property
    def recent_hinge(self) -> float:
        """Mean hinge loss over the last rows."""
        return self._recent_mean(1)

    @property
    def recent_error_rate(self) -> float:
        """Share of wrong predictions over the last rows."""
        return self._recent_mean(2)

    def _recent_mean(self, column: int) -> float:
        return float(np.average(self.recent[:, column], weights=self.recent[:, 0])) if self.n_rows else float("nan")

    def followed_by(self, weights: FloatArray, hinge: FloatArray, wrong: FloatArray) -> ProgressiveLoss:
        """Return the losses with those of further rows, whose weights are positive."""
        added = np.column_stack([weights[-_RECENT:], hinge[-_RECENT:], wrong[-_RECENT:]])
        return ProgressiveLoss(
            self.n_rows + weights.size,
            self.weight + float(weights.sum()),
            self.hinge_sum + float(weights @ hinge),
            self.error_sum + float(weights @ wrong),
            np.vstack([self.recent, added])[-_RECENT:],
        )

    def __repr__(self) -> str:
        return f"<ProgressiveLoss of {self}>"

    def __str__(self) -> str:
        return (
            f"{self.n_rows:,} rows: hinge loss {self.hinge:.4g}, error rate {self.error_rate:.4g}; last "
            f"{len(self.recent):,}: hinge loss {self.recent_hinge:.4g}, error rate {self.recent_error_rate:.4g}"
        )


class Pegasos:
    """The state of the algorithm: w of each machine, as scale * v, and the sum of all w for the average.

    Parameters
    ----------
    p : int
        Number of columns of the table.
    n_classes : int
        Two classes have one machine, whose y is +1 for class 1. More have a machine for each class.
    averages : bool
        Whether the weights are the average over the steps, or those after the last one.
    """

    def __init__(self, p: int, n_classes: int, *, averages: bool) -> None:
        n_machines = 1 if n_classes == 2 else n_classes
        self.averages = averages
        self.v = np.zeros((p + 1, n_machines))
        self.lag = np.zeros_like(self.v) if averages else None
        self.scale, self.sq_norm, self.mass = np.ones(n_machines), np.zeros(n_machines), np.zeros(n_machines)
        self.charged = np.zeros(n_machines)  # sum of the charges of the rows
        self.totals = np.zeros(3)  # t, weight of the average, steps since the norms were exact
        self._weights: FloatArray | None = None

    @property
    def t(self) -> float:
        """Sum of the weights of the rows visited so far."""
        return float(self.totals[0])

    @property
    def weights(self) -> FloatArray:
        """Weights of the columns and last of the constant, for each machine, (n_machines, p + 1)."""
        if self._weights is None:
            if self.lag is None or not self.t:
                vectors = self.scale * self.v
            else:
                vectors = (self.mass * self.v - self.lag) / self.totals[1]
            self._weights = np.ascontiguousarray(vectors.T)
        return self._weights

    def learn(self, table: Any, visits: Visits, steps: Steps, *, losses: bool) -> tuple[FloatArray, FloatArray] | None:
        """Make steps on rows of a table, in batches of the order of the visits.

        Parameters
        ----------
        table : ndarray or csr_array of shape (m, p)
            As in :class:`mercer.solvers.rows.Block`. :func:`check_range` must have accepted it.
        visits : Visits
        steps : Steps
            With the same `averages` as the state.
        losses : bool
            Whether to return the hinge loss and the error (0 or 1) of each visited row before its step.
        """
        self._weights = None
        count = visits.order.size
        losses_and_margins = (np.empty(count), np.empty(count)) if losses else None
        hinge, wrong = losses_and_margins if losses_and_margins is not None else (None, None)
        _core.pegasos_steps(
            native_table(table, steps.constant),
            _core.PegasosVisits(**vars(visits), hinge=hinge, wrong=wrong),
            _core.PegasosState(
                v=self.v,
                lag=self.lag,
                scale=self.scale,
                sq_norm=self.sq_norm,
                mass=self.mass,
                charged=self.charged,
                totals=self.totals,
            ),
            alpha=steps.alpha,
            batch_size=steps.batch_size,
            projects=steps.projects,
        )
        return losses_and_margins


def check_range(table: Any, weights: FloatArray, factors: FloatArray, alpha: float) -> None:
    """Refuse rows and weights with which sums of squares could overflow or underflow, before a step has been made.

    Parameters
    ----------
    table : ndarray or csr_array of shape (m, p)
    weights : ndarray
        The positive sample weights.
    factors : ndarray
        The factors of the classes.
    alpha : float

    Raises
    ------
    ValueError
        The message names the column with the largest value, or the weight.
    """
    if weights.size and not (weights.min() > 1.0 / _LARGEST and weights.sum() < _LARGEST):
        raise ValueError(
            f"sample_weight must lie between {1.0 / _LARGEST:g} and {_LARGEST:g} in sum where it is not 0, got "
            f"{weights.min():g} to {weights.max():g}. Divide all weights by their mean: only their ratios matter."
        )
    values = table if isinstance(table, np.ndarray) else table.data
    if not values.size:
        return
    largest = max(float(values.max()), -float(values.min()))
    if largest * table.shape[1] ** 0.5 < _LARGEST * min(1.0, alpha / max(1.0, float(factors.max()))):
        return
    place = int(np.abs(values, dtype=np.float64).argmax())
    column = place % table.shape[1] if isinstance(table, np.ndarray) else int(table.indices[place])
    raise ValueError(
        f"X reaches {largest:.3g} in column {column}: with alpha={alpha:g}, sums of squares overflow. Scale the "
        "columns, for instance with MaxAbsScaler."
    )
