"""Sweeps over the rows of linear machines, and the terms of rows: the native functions in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from mercer.gram.rows.row_terms import TermKind, TermValues

FloatArray = npt.NDArray[np.float64]


def as_rows(table: Any, constant: float) -> FloatArray:
    """Return the table as float64 with the column of the constant, (m, q)."""
    rows = (table if isinstance(table, np.ndarray) else table.toarray()).astype(np.float64)
    return np.column_stack([rows, np.full(rows.shape[0], constant)]) if constant else rows


def times(table: Any, constant: float, v: FloatArray) -> FloatArray:
    """Return the product of every row with `v`."""
    return as_rows(table, constant) @ v


def transposed_times(table: Any, constant: float, a: FloatArray) -> FloatArray:
    """Return the sum of a_i x_i over the rows."""
    return as_rows(table, constant).T @ a


def gram(table: Any, constant: float, weights: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the sum of weights_i (scales x_i)(scales x_i)'."""
    rows = as_rows(table, constant) * scales
    return (rows.T * weights) @ rows


def column_squares(table: Any, constant: float) -> FloatArray:
    """Return the sum of squares of each column."""
    return np.square(as_rows(table, constant)).sum(axis=0)


def row_squares(table: Any, constant: float) -> FloatArray:
    """Return the sum of squares of each row."""
    return np.square(as_rows(table, constant)).sum(axis=1)


def row_terms(
    kind: TermKind, targets: FloatArray, charges: FloatArray, z: FloatArray, shares: FloatArray | None = None
) -> TermValues:
    """Return the terms of rows, and their derivatives."""
    if kind.is_logistic:
        total = float(charges @ np.logaddexp(0.0, -targets * z))
        beta = charges * targets * expit(-targets * z)
        return TermValues(beta, charges * expit(z) * expit(-z), total, total, 0.0)
    share = np.zeros_like(z) if shares is None else shares
    rest = targets - z
    moved = share + kind.factor * rest
    shrunken = np.sign(moved) * np.maximum(0.0, np.abs(moved) - kind.factor * kind.epsilon)
    bound = 1.0 if kind.bounded else np.inf
    lower = np.where(targets < 0.0, -bound, 0.0) if kind.one_sided else np.full(z.shape, -bound)
    upper = np.where(targets > 0.0, bound, 0.0) if kind.one_sided else np.full(z.shape, bound)
    m = np.clip(shrunken, lower, upper)
    is_free = (m == shrunken) & ((shrunken != 0.0) | (kind.epsilon == 0.0))
    linear = m * rest - kind.epsilon * np.abs(m)
    total = float(charges @ (linear - np.square(m - share) / (2.0 * kind.factor)))
    values = TermValues(charges * m, charges * kind.unit * is_free, total, total, 0.0)
    if not kind.bounded:
        return values
    loss = np.maximum(0.0, np.maximum(upper * (rest - kind.epsilon), lower * (rest + kind.epsilon)))
    return values._replace(loss=float(charges @ loss), excess=float(charges @ (loss - linear)))


def term_line(
    kind: TermKind,
    targets: FloatArray,
    charges: FloatArray,
    z: FloatArray,
    change: FloatArray,
    lengths: FloatArray,
    shares: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the first and second derivatives of the sum of the terms at z + t change, for every t in `lengths`."""
    points = [row_terms(kind, targets, charges, z + length * change, shares) for length in lengths]
    slopes = np.array([-float(point.beta @ change) for point in points])
    return slopes, np.array([float(point.curvature @ np.square(change)) for point in points])


def newton_pass(
    table: Any,
    constant: float,
    kind: TermKind,
    targets: FloatArray,
    charges: FloatArray,
    shares: FloatArray | None,
    z: FloatArray,
    old: FloatArray,
    scales: FloatArray,
) -> tuple[TermValues, FloatArray, FloatArray, tuple[float, ...]]:
    """Return the terms, the sum of beta_i x_i, that of (h_i - old_i)(scales x_i)(scales x_i)', and the sums."""
    X, values = as_rows(table, constant), row_terms(kind, targets, charges, z, shares)
    change = values.curvature - old
    sums = (*values[2:], values.beta @ values.beta, values.curvature.sum(), np.abs(change).sum())
    return values, X.T @ values.beta, (X * scales).T @ (change[:, None] * (X * scales)), sums


def class_epoch(
    table: Any,
    constant: float,
    *,
    is_squared: bool,
    order: Any,
    squares: FloatArray,
    charges: FloatArray,
    beta: FloatArray,
    w: FloatArray,
    active: Any,
    up: FloatArray,
    down: FloatArray,
) -> tuple[FloatArray, Any]:
    """Make a step of dual descent for each visited row and each class whose bit of `active` is set.

    The sign of a charge is the class of the row. `beta`, `w` and `active` are changed. Returns, for each class, the
    sum of the gaps of the rows before their steps, the largest and the smallest gradient, and the growth of the dual
    objective, and the number of rows that were shrunk.
    """
    X, measures = as_rows(table, constant), np.zeros((4, w.shape[1]))
    n_shrunken = np.zeros(w.shape[1], dtype=np.int64)
    for i in order:
        for k in np.flatnonzero([int(active[i]) >> k & 1 for k in range(w.shape[1])]):
            y, charge = np.sign(charges[i, k]), abs(charges[i, k])
            alpha, margin = y * beta[i, k], y * (X[i] @ w[:, k])
            bend, most = (0.5 / charge, np.inf) if is_squared else (0.0, charge)
            gradient = margin - 1.0 + bend * alpha
            best = min(max(0.0, alpha - gradient / (squares[i] + bend)), most)
            primal = charge * max(0.0, 1.0 - margin) ** (2 if is_squared else 1)
            measures[0, k] += primal + alpha * (margin - 1.0) + bend * alpha**2 / 2.0
            if not (alpha <= 0.0 and gradient >= 0.0) and not (alpha >= most and gradient <= 0.0):
                measures[1, k], measures[2, k] = max(measures[1, k], gradient), min(measures[2, k], gradient)
            step = best - alpha
            measures[3, k] -= step * gradient + step**2 * (squares[i] + bend) / 2.0
            if (alpha <= 0.0 and gradient > up[k]) or (alpha >= most and gradient < down[k]):
                active[i] &= ~np.uint16(1 << k)
                n_shrunken[k] += 1
            beta[i, k] = y * best
            w[:, k] += y * step * X[i]
    return measures, n_shrunken


def class_step(
    table: Any,
    constant: float,
    *,
    is_squared: bool,
    charges: FloatArray,
    beta: FloatArray,
    w: FloatArray,
    beta_before: FloatArray,
    w_before: FloatArray,
    beta_change: FloatArray,
    w_change: FloatArray,
) -> FloatArray:
    """Move each class to the best combination of its last two changes, and return the growth of the dual objectives.

    Changes of coefficients that are at a bound are dropped, and coefficients stop at their bounds. All arrays but
    `charges` are changed.
    """
    X, growth = as_rows(table, constant), np.zeros(w.shape[1])
    for k in range(w.shape[1]):
        size, y, old = np.abs(charges[:, k]), np.where(charges[:, k] < 0.0, -1.0, 1.0), beta[:, k].copy()
        bends = np.zeros_like(size)
        if is_squared:
            bends[size > 0.0] = 0.5 / size[size > 0.0]
        most = np.full_like(size, np.inf) if is_squared else size
        free = (old != 0.0) & (np.abs(old) < most)
        changes = np.where(free, [old - beta_before[:, k], beta_change[:, k]], 0.0).T

        def dual(b, y=y, bends=bends):
            return y @ b - 0.5 * bends @ b**2 - 0.5 * np.sum((b @ X) ** 2)

        bend = changes.T @ (bends[:, None] * changes) + (X.T @ changes).T @ (X.T @ changes)
        slope = changes.T @ (y - bends * old - X @ (X.T @ old))
        angle = bend[0, 0] * bend[1, 1] - bend[0, 1] ** 2
        lengths = np.zeros(2)
        if angle > 1e-8 * bend[0, 0] * bend[1, 1]:
            lengths = np.linalg.solve(bend, slope)
        elif bend[0, 0] > 0.0:
            lengths[0] = slope[0] / bend[0, 0]
        step = changes @ lengths
        new = np.clip(old + step, -most, most)
        new = np.where(old * (old + step) <= 0.0, 0.0, new)
        if dual(new) - dual(old) > 1e-11 * (w[:, k] @ w[:, k]):
            growth[k], beta[:, k] = dual(new) - dual(old), new
        beta_change[:, k] = changes[:, 0] + beta[:, k] - old
        w[:, k], w_change[:, k] = X.T @ beta[:, k], X.T @ beta_change[:, k]
        beta_before[:, k], w_before[:, k] = beta[:, k], w[:, k]
    return growth


def lasso_descent(
    matrix: FloatArray, penalty: FloatArray, gradient: FloatArray, u: FloatArray, *, target: float, most: int
) -> tuple[int, float]:
    """Coordinate descent on u' M u / 2 + c' u + sum penalty_j |u_j|; `gradient` is M u + c and is changed with `u`."""
    passes, violations = 0, np.inf
    while passes < most and violations > target:
        passes, violations = passes + 1, 0.0
        for j in np.flatnonzero(np.diagonal(matrix) > 0.0):
            slope, bend = gradient[j], matrix[j, j]
            violations += abs(slope + np.sign(u[j]) * penalty[j]) if u[j] else max(0.0, abs(slope) - penalty[j])
            push = bend * u[j] - slope
            best = np.sign(push) * max(0.0, abs(push) - penalty[j]) / bend
            gradient += (best - u[j]) * matrix[j]
            u[j] = best
    return passes, violations


def column_descent(
    columns: FloatArray,
    *,
    curvature: FloatArray,
    pull: FloatArray,
    penalty: FloatArray,
    weight: FloatArray,
    centre: FloatArray,
    u: FloatArray,
    change: FloatArray,
    chosen: Any,
    target: float,
    most: int,
) -> tuple[int, float]:
    """Coordinate descent on sum h_i s_i² / 2 - <pull, u - w> + sum penalty_j |u_j| + weight_j (u_j - centre_j)² / 2.

    `columns` is the transpose of X, dense, with the column of the constant; s = X (u - w). `u` and `change` (s) are
    changed. Returns the number of passes, and the sum of the violations of optimality in the last one.
    """
    passes, violations = 0, np.inf
    while passes < most and violations > target:
        passes, violations = passes + 1, 0.0
        for j in chosen:
            x = columns[j]
            bend = x @ (curvature * x) * (1.0 + 1e-12) + weight[j]
            if not bend > 0.0:
                continue
            gradient = weight[j] * (u[j] - centre[j]) - pull[j] + x @ (curvature * change)
            if u[j] == 0.0:
                violations += max(0.0, abs(gradient) - penalty[j])
            else:
                violations += abs(gradient + np.sign(u[j]) * penalty[j])
            push = bend * u[j] - gradient
            best = np.sign(push) * max(0.0, abs(push) - penalty[j]) / bend
            change += (best - u[j]) * x
            u[j] = best
    return passes, violations
