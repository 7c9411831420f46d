"""Calibrations (maps from decision values to probabilities) in a model file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._typing import IndexArray
from mercer.multiclass import FITTED_ON, LEAVE_ONE_OUT, METHODS, N_FOLDS, Calibration, Isotonic, Map, Sigmoid

_FOLD_DIGITS = frozenset(map(str, range(N_FOLDS)))


def calibration_dict(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as JSON values."""
    return {
        "method": calibration.method,
        "free": calibration.free,
        "values": next(values for values, words in FITTED_ON.items() if words == calibration.fitted_on),
        "n_rows": list(calibration.n_rows),
        "n_moved": calibration.n_moved,
        "maps": [_map_dict(one) for one in calibration.maps],
        **({} if calibration.folds is None else {"folds": "".join(map(str, calibration.folds.tolist()))}),
    }


def _map_dict(one: Map) -> dict[str, Any]:
    if isinstance(one, Isotonic):
        return {"values": list(one.values), "probabilities": list(one.probabilities)}
    return {"slope": one.slope, "intercept": one.intercept, "violation": one.violation}


def read_calibration(entry: Any, scheme: str, n_classes: int, n_parts: int) -> Calibration:
    """Return the calibration that `calibration_dict` described; ValueError, TypeError or KeyError if it is invalid."""
    method, free, maps, n_rows = entry["method"], entry["free"], entry["maps"], entry["n_rows"]
    if method not in METHODS or not isinstance(free, bool):
        raise ValueError(f"its method is {method!r}, free {free!r}")
    values = entry.get("values", LEAVE_ONE_OUT)  # which files of version 3 had without saying so
    if values not in FITTED_ON:
        raise ValueError(f"it was fitted to {values!r}, not to decision values of {' or '.join(FITTED_ON)}")
    if len(maps) != n_parts or len(n_rows) != n_parts or not all(_is_count(n) for n in (*n_rows, entry["n_moved"])):
        raise ValueError(f"it should have {n_parts} maps, and their numbers of rows")
    folds = _folds(entry.get("folds"))
    read = _isotonic if method == "isotonic" else _sigmoid
    maps_read = tuple(read(one, free) for one in maps)
    words, n_moved = FITTED_ON[values], entry["n_moved"]
    return Calibration(method, free, scheme, n_classes, maps_read, tuple(n_rows), words, n_moved, folds)


def _folds(digits: Any) -> IndexArray | None:
    """Return the fold of each training row from a text with one digit for each; None without a text."""
    if digits is None:
        return None
    if not isinstance(digits, str) or not digits or not set(digits) <= _FOLD_DIGITS:
        raise ValueError("its folds are not a text of one digit from 0 to 4 for each training row")
    return np.frombuffer(digits.encode(), dtype=np.uint8).astype(np.int64) - ord("0")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _sigmoid(entry: Any, free: bool) -> Sigmoid:
    slope, intercept, violation = (_number(entry[name]) for name in ("slope", "intercept", "violation"))
    if min(slope, violation) < 0.0:
        raise ValueError("a slope is negative")
    return Sigmoid(slope, intercept, not free, violation)


def _isotonic(entry: Any, free: bool) -> Isotonic:
    values, probabilities = (np.array([_number(one) for one in entry[name]]) for name in ("values", "probabilities"))
    rising = values.size > 0 and values.shape == probabilities.shape and (np.diff(values) > 0.0).all()
    if not rising or (np.diff(probabilities) < 0.0).any() or not ((probabilities > 0.0) & (probabilities < 1.0)).all():
        raise ValueError("a function through points does not rise, or gives no probabilities")
    isotonic = Isotonic(tuple(values.tolist()), tuple(probabilities.tolist()))
    if not free and isotonic(0.0)[0, 1] != 0.5:
        raise ValueError("a function through points is not 1/2 at 0")
    return isotonic


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)
