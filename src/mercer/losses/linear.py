"""Machines in coordinates of w: what their certificate says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.losses.certificate import Evaluation, Evidence, gap_of
from mercer.losses.columns import Columns, newton_step, second_derivatives
from mercer.losses.objective import Objective

_EPS = float(np.finfo(np.float64).eps)

_NEAR = 0.01
"""Farthest that a Newton step may move a decision value near an optimum. Where there is no optimum, as for the maximum
likelihood of separable classes, it moves some by about 1 however small the gradient has become."""

_BLOCK_VALUES = 1 << 22  # of columns that are made dense at a time: 32 MiB


@dataclass(frozen=True, eq=False)
class LinearEvidence(Evidence):
    """A point in coordinates of w: f_t(x) = <w_t, x> + bias_t; `w` has shape (p, T), `rows` (n, p), dense or CSR."""

    objective: Objective
    rows: Any
    w: FloatArray
    bias: FloatArray
    convex: bool = True

    @property
    def scale(self) -> FloatArray:
        """That of the loss."""
        return self.objective.loss.scale

    @property
    def has_gap(self) -> bool:
        """Without a penalty no dual point is at hand."""
        return bool(self.objective.penalty.all())

    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point; it takes plain NumPy either way."""
        del independent
        return evaluate(self.objective, self.rows, self.w, self.bias)


def evaluate(objective: Objective, rows: Any, w: FloatArray, bias: FloatArray) -> Evaluation:
    """Evaluate objective, duality gap and gradient of w (p, T) and its bias (T,) in float64.

    Notes
    -----
    Where there is a bias, the gradient is that about the weighted means of the columns, and an element is large against
    the column's spread: an offset changes neither. The dual point is that of L'(g), with g = f and the biases that
    suit w best. The gap is ||gradient||² / (2 penalty) at g, and what these biases gain; it is infinite where there is
    no penalty, unless the gradient is 0. There, a small gradient proves nothing by itself unless the loss is quadratic:
    the Newton step must be small too, and as many directions have curvature as where no row is certain yet, f = 0.
    """
    penalty, total = objective.penalty, float(objective.weights.sum())
    f = rows @ w + bias
    best = objective.balanced(f)
    slopes = [objective.weights[:, None] * objective.loss.gradient(at) for at in (f, best)]
    drift, left = (slope.sum(axis=0) * objective.has_bias for slope in slopes)
    worst, squares = np.abs(drift) / total, np.zeros(penalty.size)
    for part, block, size in _about_means(objective, rows):
        pull = penalty * w[part]
        own = np.abs(pull + block.T @ slopes[0]) / size[:, None]
        worst = np.maximum(worst, own.max(axis=0, initial=0.0))
        with np.errstate(over="ignore"):
            squares += np.square(pull + block.T @ slopes[1]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = float(np.where(squares == 0.0, 0.0, squares / (2.0 * penalty)).sum()) + objective.bregman(f, best)
    if not penalty.all() and objective.loss.excess(f) is None:
        worst = np.maximum(worst, _reach(objective, rows, f, slopes[0], drift))
    return Evaluation(
        primal=0.5 * float(np.square(np.sqrt(penalty) * w).sum()) + objective.total_loss(f),
        gap=gap_of(objective, gap, left),
        violation=worst,
        dual_infeasibility=float(np.abs(left).max(initial=0.0)),
        rounding=_EPS * ((abs(rows) @ np.abs(w)).max(axis=0, initial=0.0) + np.abs(f).max(axis=0, initial=0.0)),
        unit=objective.unit,
    )


def _about_means(objective: Objective, rows: Any) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Dense blocks of columns, about their means where there is a bias, and what their slopes are large against."""
    n, p = rows.shape
    total = float(objective.weights.sum())
    share = objective.weights / total
    width = max(1, _BLOCK_VALUES // max(1, n))
    columns = rows if isinstance(rows, np.ndarray) else rows.tocsc()
    for first in range(0, p, width):
        part = slice(first, min(first + width, p))
        block = columns[:, part]
        block = block.astype(np.float64) if isinstance(block, np.ndarray) else block.toarray()
        floor = _EPS * np.abs(block).max(axis=0, initial=0.0)
        for _ in range(2 if objective.has_bias else 0):  # the second takes what rounding has left of the first
            block = block - share @ block
        reach = np.maximum(np.abs(block).max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
        spread = reach * np.sqrt(share @ np.square(block / reach))
        yield part, block, np.maximum(np.maximum(spread, floor) * total, np.finfo(np.float64).tiny)


def _reach(objective: Objective, rows: Any, f: FloatArray, slopes: FloatArray, drift: FloatArray) -> float:
    """How far Newton's method would go on, 0 where that is not far; infinite where it cannot tell."""
    columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
    gradient = np.asarray(columns.table.T @ slopes)
    start = second_derivatives(objective, columns, np.zeros_like(f))
    step, shift, curved = newton_step(second_derivatives(objective, columns, f), gradient, drift)
    if curved < newton_step(start, gradient, drift)[2]:
        return float("inf")
    reach = float(np.abs(columns.table @ step + shift).max(initial=0.0))
    return reach if reach > _NEAR else 0.0
