"""Which training rows of a machine are support vectors, and where their slacks end in the plane of two features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from mercer._typing import FloatArray, TextArray
from mercer.plot.display import fitted_machine
from mercer.plot.plane import Plane

CATEGORIES = {"support vectors": "o", "free support vectors": "o", "support vectors at the bound": "s"}
"""What a row can be, and the marker around it."""

_RAY = 200  # points on the way from a row to its margin, at which its slack ends
_INSIDE = 1e-3  # smallest slack whose line is drawn


def support_of(estimator: Any, X: Any, n: int, asked: bool | str) -> TextArray | None:
    """Return the category of each row as a support vector, "" for others; None if they are not drawn.

    A row of a machine with several parts is at the bound if it is at the bound in one of them.
    """
    machine = fitted_machine(estimator)
    if asked is False:
        return None
    try:
        examples = machine.certificate_.examples()
    except (AttributeError, TypeError):  # a machine of scikit-learn, or one with a smooth loss
        examples = ()
    parts = examples if isinstance(examples, tuple | list) else (examples,)
    rows = getattr(machine, "support_", None)
    if rows is None and not parts:
        if asked is True:
            raise ValueError(f"{type(machine).__name__} has no support vectors: leave out support=True.")
        return None
    if not _is_training(estimator, machine, X, n, parts):
        if asked is True:
            raise ValueError("support=True needs the training rows as X, and these are other rows.")
        return None
    categories = np.full(n, "", dtype="<U28")
    if not parts:
        categories[rows] = "support vectors"
    for part in parts:
        categories[part.rows[part.alpha > 0.0]] = "free support vectors"
    for part in parts:
        if not part.is_squared:
            categories[part.rows[(part.alpha > 0.0) & (part.alpha >= part.C)]] = "support vectors at the bound"
    return categories


def _is_training(estimator: Any, machine: Any, X: Any, n: int, parts: Any) -> bool:
    """Return whether the machine was trained on these rows: its vectors, or the values of its certificate, agree."""
    if any(part.rows.max(initial=-1) >= n for part in parts):
        return False
    vectors = getattr(machine, "support_vectors_", None)
    if vectors is not None:
        if machine.support_.max(initial=-1) >= n:
            return False
        pipeline = getattr(estimator, "best_estimator_", estimator)
        rows = pipeline[:-1].transform(X) if isinstance(pipeline, Pipeline) and len(pipeline) > 1 else X
        rows, vectors = (_dense(one) for one in (rows, vectors))
        return rows[machine.support_].shape == vectors.shape and np.allclose(rows[machine.support_], vectors)
    predict = getattr(estimator, "decision_function", None) or estimator.predict
    values = np.asarray(predict(X), dtype=np.float64).reshape(n, -1)
    if values.shape[1] != len(parts):
        return False
    certified = [part.f if hasattr(part, "f") else part.y * part.yf for part in parts]
    return all(
        np.allclose(column[part.rows], value, rtol=1e-6, atol=1e-6)
        for column, part, value in zip(values.T, parts, certified, strict=True)
    )


def _dense(rows: Any) -> FloatArray:
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def slack_ends(estimator: Any, plane: Plane, signs: FloatArray, level: float) -> FloatArray:
    """Return where the line from each row with a slack meets its margin, along the slope of f at the row.

    Parameters
    ----------
    estimator : estimator
        With a decision function f.
    plane : Plane
    signs : ndarray of shape (n,)
        y of each row, -1 or +1.
    level : float
        y f(x) at the margin, at which the slack begins.

    Returns
    -------
    ndarray of shape (n, 2)
        NaN for rows without a slack, and for rows whose line does not meet the margin.
    """

    def f(points: FloatArray) -> FloatArray:
        return np.asarray(estimator.decision_function(plane.rows(points)), dtype=np.float64)

    points, ends = plane.points, np.full_like(plane.points, np.nan)
    rows = np.flatnonzero(signs * f(points) < level - _INSIDE)
    if not rows.size:
        return ends
    span = np.ptp(points, axis=0)
    steps = 1e-4 * np.where(span > 0.0, span, 1.0)
    slope = np.stack([f(points[rows] + move) - f(points[rows] - move) for move in np.diag(steps)], axis=1) / steps
    slope *= signs[rows, None] / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), np.finfo(float).tiny)
    lengths = np.linspace(0.0, 1.5 * float(np.linalg.norm(span)), _RAY)
    lines = points[rows, None, :] + lengths[None, :, None] * slope[:, None, :]
    beyond = signs[rows, None] * f(lines.reshape(-1, 2)).reshape(len(rows), _RAY) - level
    for row, line, value in zip(rows, lines, beyond, strict=True):
        end = int(np.argmax(value >= 0.0))
        if end:  # 0 if no point of the line is beyond the margin
            part = value[end - 1] / (value[end - 1] - value[end])
            ends[row] = line[end - 1] + part * (line[end] - line[end - 1])
    return ends
