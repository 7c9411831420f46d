"""Validation of targets and sample weights; error messages name the first invalid row."""

from __future__ import annotations

from datetime import date, time, timedelta
from reprlib import repr as shortened
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from mercer._typing import FloatArray
from mercer.data.checks import FLOATS, refuse_mask

_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
_WEIGHTS = "sample_weight must hold finite numbers >= 0 (0 leaves a row out)"


def refuse_targets(estimator: BaseEstimator, y: Any) -> None:
    """Refuse invalid targets, with messages that name the row; scikit-learn's checks do not, or accept the targets.

    Raises
    ------
    ValueError
        If `y` has missing or masked values, several columns although the estimator learns one target, or text although
        it is a regressor.
    TypeError
        If `y` holds dates or times and the estimator is a regressor; NumPy would convert them to counts of a time unit.
    """
    refuse_mask(y, "y")
    values = np.asarray(None if isinstance(y, str) else y)
    tags = get_tags(estimator)
    if values.ndim == 2 and values.shape[1] > 1 and not tags.target_tags.multi_output:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {values.shape} instead: {type(estimator).__name__} learns "
            "one target a row. Give one column, or fit a machine for each, as MultiOutputClassifier and "
            "MultiOutputRegressor of scikit-learn do (KernelRidge takes several targets)."
        )
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in "fOUSmM":
        return
    rows = values.reshape(len(values), -1)
    is_regressor = tags.estimator_type == "regressor"
    if is_regressor:
        _refuse_dates(rows)
    _refuse_gaps(rows)
    if is_regressor and rows.dtype.kind != "f":
        _refuse_text(rows)


def has_plain_labels(y: Any) -> bool:
    """Return whether `y` is a one-dimensional array of integers, which needs none of scikit-learn's checks."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu"


def has_plain_targets(y: Any) -> bool:
    """Return whether `y` is a one-dimensional array of integers or finite floats, which needs no further checks."""
    if has_plain_labels(y):
        return True
    is_plain = type(y) is np.ndarray and y.ndim == 1 and y.dtype in FLOATS
    return is_plain and bool(np.isfinite(y).all())


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return one weight for each row; all weights are 1 for None.

    Raises
    ------
    ValueError, TypeError
        If `sample_weight` is neither one finite number >= 0 nor one for each row.
    """
    if sample_weight is None:
        return np.ones(n)
    refuse_mask(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{_WEIGHTS}, got {_no_number(sample_weight)}.") from error
    except TypeError as error:
        raise TypeError(f"{_WEIGHTS}, got {_no_number(sample_weight)}.") from error
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one weight a row, got {weights.shape}.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise ValueError(
            f"{_WEIGHTS}, got {weights[bad[0]]} in row {bad[0]}"
            + (f" and {bad.size - 1} more." if bad.size > 1 else ".")
        )
    return weights


def _no_number(sample_weight: Any) -> str:
    """Return a text that names the first weight that is not a number, and its row if there is a weight for each row."""
    cells = np.asarray(sample_weight, dtype=object)
    for row, weight in enumerate(cells.tolist() if cells.ndim == 1 else []):
        try:
            float(weight)
        except (TypeError, ValueError):
            return f"{shortened(weight)} in row {row}"
    return shortened(sample_weight)


def _refuse_gaps(rows: Any) -> None:
    if rows.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        what = "infinity" if bad.size and not np.isnan(rows[bad[0]]).any() else "NaN"
    elif rows.dtype.kind in "mM":
        bad, what = np.flatnonzero(np.isnat(rows).any(axis=1)), "NaT"
    else:
        bad = np.flatnonzero([any(map(_is_missing, row)) for row in rows.tolist()])
        what = "NaN"
    if bad.size:
        more = f", and {bad.size - 1} more are not" if bad.size > 1 else ""
        raise ValueError(
            f"Input y contains {what}: it must be known in every row, but row {bad[0]} (counted from 0) is "
            f"{', '.join(map(str, rows[bad[0]]))}{more}. Leave such rows out."
        )


def _refuse_dates(rows: Any) -> None:
    kinds = [str(rows.dtype)] if rows.dtype.kind in "mM" else []
    if rows.dtype.kind == "O":  # dates with a time zone are objects
        kinds = [type(value).__name__ for row in rows.tolist() for value in row if _is_date(value)]
    if kinds:
        message = f"y must hold numbers, got dates or times ({kinds[0]}). Derive numbers from them first."
        raise np.exceptions.DTypePromotionError(message)  # the error of NumPy, and so of scikit-learn's KernelRidge


def _is_date(value: Any) -> bool:
    """Return whether `value` is a known date, time or time span, of Python, NumPy or a data frame."""
    is_one = isinstance(value, _DATES) or type(value).__name__ == "Period"
    return is_one and not _is_missing(value)


def _is_missing(value: Any) -> bool:
    """Return whether `value` is None, NaN, or the missing value of a data frame."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _refuse_text(rows: Any) -> None:
    for i, row in enumerate(rows.tolist()):
        try:
            list(map(float, row))
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers, but {error} (row {i}). Classes take a classifier.") from error
