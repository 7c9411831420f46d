"""Certificates of linear least squares, whose solution is the vector w."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.smooth import EvaluatedEvidence, Evaluation, gap_of, objective_rounding
from mercer.data.rows import BLOCK_VALUES
from mercer.problems.smooth import Objective

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class LeastSquaresEvidence(EvaluatedEvidence):
    """A point given by w: f_t(x) = <w_t, x> + bias_t; `w` has shape (p, T), `rows` (n, p), dense or CSR."""

    objective: Objective
    rows: Any
    w: FloatArray
    bias: FloatArray
    convex: bool = True

    @property
    def violation_scale(self) -> FloatArray:
        """The scale of the loss."""
        return self.objective.loss.scale

    @property
    def has_gap(self) -> bool:
        """False without a penalty, because no dual point is known then."""
        return bool(self.objective.penalty.all())

    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point, by NumPy in both cases."""
        del independent
        return evaluate(self.objective, self.rows, self.w, self.bias)


def evaluate(objective: Objective, rows: Any, w: FloatArray, bias: FloatArray) -> Evaluation:
    """Evaluate objective, duality gap and gradient of w (p, T) and its bias (T,) in float64.

    Notes
    -----
    With a bias, the gradient is computed about the weighted means of the columns, and each element is compared with the
    spread of its column, so that an offset changes neither. The dual point is L'(g), where g is f with the biases that
    are optimal for w. The gap is ||gradient||² / (2 penalty) at g plus the gain by these biases. Without a penalty it
    is infinite, unless the gradient is 0.
    """
    penalty, total = objective.penalty, float(objective.weights.sum())
    f = rows @ w + bias
    best = objective.balanced(f)
    slopes = [objective.weights[:, None] * objective.loss.gradient(at) for at in (f, best)]
    drift, left = (slope.sum(axis=0) * objective.has_bias for slope in slopes)
    worst, squares = np.abs(drift) / total, np.zeros(penalty.size)
    for part, block, size in _about_means(objective, rows):
        pull = penalty * w[part]
        gradient_size = np.abs(pull + block.T @ slopes[0]) / size[:, None]
        worst = np.maximum(worst, gradient_size.max(axis=0, initial=0.0))
        with np.errstate(over="ignore"):
            squares += np.square(pull + block.T @ slopes[1]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = float(np.where(squares == 0.0, 0.0, squares / (2.0 * penalty)).sum()) + objective.bregman(f, best)
    error = _EPS * ((abs(rows) @ np.abs(w)).max(axis=0, initial=0.0) + np.abs(f).max(axis=0, initial=0.0))
    primal = 0.5 * float(np.square(np.sqrt(penalty) * w).sum()) + objective.total_loss(f)
    rounding = objective_rounding(objective, f, error, primal)
    return Evaluation(
        primal=primal,
        gap=gap_of(objective, gap, left) + rounding,
        rounding=rounding,
        gap_rounding=rounding,
        dual_infeasibility=float(np.abs(left).max(initial=0.0)),
        decision_error=error,
        violation=worst,
        absolute_gap=objective.absolute_gap,
    )


def _about_means(objective: Objective, rows: Any) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield dense blocks of columns, centred if there is a bias, and the scale of their gradient elements."""
    n, p = rows.shape
    total = float(objective.weights.sum())
    share = objective.weights / total
    width = max(1, BLOCK_VALUES // max(1, n))
    columns = rows if isinstance(rows, np.ndarray) else rows.tocsc()
    for first in range(0, p, width):
        part = slice(first, min(first + width, p))
        block = columns[:, part]
        block = block.astype(np.float64) if isinstance(block, np.ndarray) else block.toarray()
        floor = _EPS * np.abs(block).max(axis=0, initial=0.0)
        for _ in range(2 if objective.has_bias else 0):  # the second pass removes the rounding error of the first mean
            block = block - share @ block
        largest_abs = np.maximum(np.abs(block).max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
        spread = largest_abs * np.sqrt(share @ np.square(block / largest_abs))
        yield part, block, np.maximum(np.maximum(spread, floor) * total, np.finfo(np.float64).tiny)
