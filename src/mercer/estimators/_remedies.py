"""What to write instead of rows of one dimension, or of columns that are not those of `fit`."""

from __future__ import annotations

from numbers import Real
from typing import Any

import narwhals as nw
from sklearn.base import BaseEstimator

from mercer.data.phrasing import listing, nearest_names


def refuse_one_dimension(estimator: BaseEstimator, X: Any, *, reset: bool) -> None:
    """Refuse rows that are one sequence of numbers, and say how one row or one column is written."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and all(isinstance(cell, Real) for cell in X):
        shape = (len(X),)
    if shape is None or len(shape) != 1 or type(X).__name__.endswith(("_array", "_matrix")):
        return
    column = f'X.to_frame() or frame[["{X.name}"]]' if hasattr(X, "to_frame") else "np.reshape(X, (-1, 1))"
    row, n = "np.reshape(X, (1, -1))", shape[0]
    said = f"for one row write {row}, for one column {column}"
    if not reset and n == getattr(estimator, "n_features_in_", None) != 1:
        said = f"for one row of {n} features write {row}"
    raise ValueError(
        "Expected 2D array, got 1D array instead: X must have a row for each example and a column for each feature, "
        f"got {n:,} numbers. Reshape your data: {said}."
    )


def hint_on_columns(estimator: BaseEstimator, X: Any) -> str:
    """Return what may be meant by columns that do not match those of `fit`; "" if nothing is like them."""
    try:
        given = [str(name) for name in nw.from_native(X, eager_only=True).columns]
    except TypeError:
        return ""
    wanted = [str(name) for name in estimator.feature_names_in_]
    near = {name: nearest_names(name, sorted({*given} - {*wanted})) for name in wanted if name not in given}
    meant = [f"{listing(alike, 'or')} for {name!r}" for name, alike in near.items() if alike]
    if meant:
        return f"Did you mean {'; '.join(meant[:3])}? Rename the columns."
    if not near:
        return "Put the columns into the order of fit, and leave out the others: X[machine.feature_names_in_]."
    return ""
