"""Machines in coordinates of w: what their certificate says, and the Newton step that it may need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from mercer.machines.certificate import Evaluation, Evidence
from mercer.machines.objective import Objective

FloatArray = npt.NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

_NEAR = 0.01
"""Farthest that a Newton step may move a decision value near an optimum. Where there is no optimum, as for the maximum
likelihood of separable classes, it moves some by about 1 however small the gradient has become."""


@dataclass(frozen=True, eq=False)
class LinearEvidence(Evidence):
    """A point in coordinates of w: f_t(x) = <w_t, x> + bias_t; `w` has shape (p, T), `rows` (n, p), dense or CSR."""

    objective: Objective
    rows: Any
    w: FloatArray
    bias: FloatArray
    convex: bool = True

    @property
    def scale(self) -> float:
        """That of the loss."""
        return self.objective.loss.scale

    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point; it takes plain NumPy either way."""
        del independent
        return evaluate(self.objective, self.rows, self.w, self.bias)


def evaluate(objective: Objective, rows: Any, w: FloatArray, bias: FloatArray) -> Evaluation:
    """Evaluate objective, duality gap and gradient of w (p, T) and its bias (T,) in float64.

    Notes
    -----
    The dual point is that of L'(g), with g = f and the biases that suit w best. The gap is ||gradient||² / (2 penalty)
    at g, and what these biases gain; it is infinite where there is no penalty, unless the gradient is 0. There, a small
    gradient proves nothing by itself unless the loss is quadratic: the Newton step must be small too.
    """
    penalty = objective.penalty
    f = rows @ w + bias
    gradient, drift = slopes(objective, rows, w, f)
    best = objective.balanced(f)
    at_best, left = slopes(objective, rows, w, best)
    squares = np.square(at_best).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = float(np.where(squares == 0.0, 0.0, squares / (2.0 * penalty)).sum()) + objective.bregman(f, best)
    violation = largest(objective, column_sizes(objective, rows), gradient, drift)
    if not penalty.all() and objective.loss.excess(f) is None:
        step, shift = newton_step(objective, rows, f, gradient, drift)
        reach = float(np.abs(rows @ step + shift).max(initial=0.0))
        violation = violation if reach <= _NEAR else max(violation, reach)
    return Evaluation(
        primal=0.5 * float((penalty * np.square(w)).sum()) + objective.total_loss(f),
        gap=gap,
        violation=violation,
        dual_infeasibility=float(np.abs(left).max(initial=0.0)),
        rounding=_EPS * float((abs(rows) @ np.abs(w)).max(initial=0.0) + np.abs(f).max(initial=0.0)),
    )


def slopes(objective: Objective, rows: Any, w: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradients with respect to w (p, T) and to the biases (T,), 0 where there are none."""
    by_row = objective.weights[:, None] * objective.loss.gradient(f)
    return objective.penalty * w + rows.T @ by_row, by_row.sum(axis=0) * objective.has_bias


def column_sizes(objective: Objective, rows: Any) -> FloatArray:
    """Return what a column's part of the gradient is large against, (p,)."""
    sizes = np.sqrt((objective.weights @ (rows * rows)) * objective.weights.sum())
    return np.maximum(sizes, np.finfo(np.float64).tiny)


def largest(objective: Objective, sizes: FloatArray, gradient: FloatArray, drift: FloatArray) -> float:
    """Return the largest element of a gradient, in units of targets or probabilities."""
    own = float(np.abs(gradient / sizes[:, None]).max(initial=0.0))
    return max(own, float(np.abs(drift).max(initial=0.0)) / float(objective.weights.sum()))


def newton_step(
    objective: Objective, rows: Any, f: FloatArray, gradient: FloatArray, drift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the step of Newton's method for w (p, T) and the biases (T,); the shortest where there are many.

    Notes
    -----
    Costs n p² T² / 2 multiplications for the matrix of second derivatives and some 9 (p T)³ for its eigenvalues:
    columns are brought to one scale first, and directions without curvature are left alone.
    """
    p, n_outputs = gradient.shape
    width = p + int(objective.has_bias)
    hessian = np.zeros((n_outputs, width, n_outputs, width))
    for t in range(n_outputs):
        unit = np.zeros((1, n_outputs))
        unit[0, t] = 1.0
        curvature = objective.weights[:, None] * objective.loss.curve(f, np.broadcast_to(unit, f.shape))
        for u in range(t, n_outputs):
            column = curvature[:, u]
            moved = rows.multiply(column[:, None]).tocsr() if hasattr(rows, "multiply") else rows * column[:, None]
            product = rows.T @ moved
            block = hessian[t, :, u, :]
            block[:p, :p] = product.toarray() if hasattr(product, "toarray") else product
            if objective.has_bias:
                block[:p, p] = block[p, :p] = rows.T @ column
                block[p, p] = column.sum()
            hessian[u, :, t, :] = block
        hessian[t, :p, t, :p] += objective.penalty[t] * np.eye(p)
    matrix = hessian.reshape(n_outputs * width, n_outputs * width)
    scale = 1.0 / np.sqrt(np.where(np.diagonal(matrix) > 0.0, np.diagonal(matrix), 1.0))
    values, vectors = eigh(matrix * scale * scale[:, None], overwrite_a=True, check_finite=False)
    known = values > values.size * _EPS * values[-1]
    right = np.concatenate([gradient, drift[None]])[:width].T.ravel() * scale
    step = -scale * (vectors[:, known] @ ((vectors[:, known].T @ right) / values[known]))
    both = step.reshape(n_outputs, width).T
    return np.ascontiguousarray(both[:p]), both[p] if objective.has_bias else np.zeros(n_outputs)
