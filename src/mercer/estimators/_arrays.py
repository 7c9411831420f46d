"""Predictions for arrays of other libraries: they are computed where the array is, and the result is there too."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector
from sklearn.utils.validation import check_is_fitted

from mercer.gram.array_kernel import ArrayKernel
from mercer.gram.places import Place, place_of
from mercer.multiclass.pairs import class_pairs

_NAMES = ("decision_function", "predict", "score_samples", "transform")
"""Methods that only multiply and sum."""


def checked_array(machine: BaseEstimator, name: str, X: Any) -> tuple[Place, Any]:
    """Return where an array is, and the array in float64 there.

    Raises
    ------
    TypeError
        If the method is not offered on a device, or the array does not hold real numbers.
    ValueError
        If it is not a table of the columns of `fit`, has no row, or holds NaN or infinity.
    """
    kind = type(machine).__name__
    if name not in _NAMES:
        where = place_of(X).name
        raise TypeError(f"{name} of {kind} computes on the host, but X is an array of {where}: give to_host(X).")
    p = getattr(machine, "n_features_in_", None)
    if p is None:
        raise TypeError(f"this {kind} was trained on rows that are no table of numbers: it predicts on the host alone.")
    place = array_of_numbers(X, p)
    xp = place.xp
    table = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(table))):
        raise ValueError(f"X holds NaN or infinity: {kind} needs finite numbers. Fill them in, or leave the rows out.")
    return place, table


def array_of_numbers(X: Any, p: int | None = None) -> Place:
    """Return where a table of real numbers is, with at least one row and, if it is given, `p` columns.

    Raises
    ------
    TypeError
        If the array does not hold real numbers, or its library has no float64 there.
    ValueError
        If it is no table, has other columns or no row.
    """
    place = place_of(X)
    if not place.xp.isdtype(X.dtype, ("real floating", "integral", "bool")):
        raise TypeError(f"X must hold real numbers, got an array of {place.name} of {X.dtype}.")
    if place.xp.zeros(1, dtype=place.xp.float64, device=place.device).dtype != place.xp.float64:
        raise TypeError(
            f"{place.name} computes in float32 where float64 is asked for, which no certificate allows: switch float64 "
            "on in this library, or give mercer.to_host(X)."
        )
    if X.ndim != 2 or p not in (None, X.shape[1]):
        wanted = "be a table, (n, p)" if p is None else f"have the {p} columns of fit, (m, {p})"
        raise ValueError(f"X must {wanted}, got an array of shape {tuple(X.shape)}.")
    if not X.shape[0]:
        raise ValueError(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    return place


def result_of_array(machine: Any, name: str, X: Any) -> Any:
    """Return the result of a method of a fitted machine for an array of another library, on the device of the array.

    Support vectors, coefficients and classes are copied to the device; nothing is copied from it. Values are float64,
    and equal those for a NumPy array but for rounding.

    Raises
    ------
    TypeError
        If the machine or its kernel needs the host, or classes are text.
    ValueError
        See :func:`checked_array`.
    """
    check_is_fitted(machine)
    place, table = checked_array(machine, name, X)
    xp, (raw, biases) = place.xp, _raw_values(machine, place, table)
    if is_outlier_detector(machine):
        scores = raw[:, 0]
        if name == "score_samples":
            return scores
        decision = scores - float(np.ravel(machine.offset_)[0])
        one = xp.ones(decision.shape, dtype=xp.int64, device=place.device)
        return decision if name == "decision_function" else xp.where(decision >= 0.0, one, -one)
    raw = raw + biases
    if not is_classifier(machine):
        return raw if getattr(machine, "_has_columns", False) else raw[:, 0]
    if name == "decision_function" and raw.shape[1] > 1 and _wants_pairs(machine):
        return raw
    scores = _class_scores(machine, place, raw)
    return scores if name == "decision_function" else _labels(machine, place, scores)


def _raw_values(machine: Any, place: Place, table: Any) -> tuple[Any, Any]:
    """Return decision values without biases, (m, n_machines), and the biases."""
    if hasattr(machine, "_dense_coef"):
        normals = np.atleast_2d(machine._dense_coef())
        biases = np.broadcast_to(np.ravel(machine.intercept_), len(normals))
        return table @ place.put(normals.T), place.put(biases)
    if not _is_one_sum(machine):
        raise TypeError(
            f"this {type(machine).__name__} is not a sum of kernel values over support vectors, which is what "
            f"{place.name} can compute: give mercer.to_host(X)."
        )
    kernel, vectors, coefficients, biases = machine._expansion()
    values = ArrayKernel(kernel, vectors, place, getattr(machine, "memory_limit", None) or None)
    return values.times(table, coefficients), place.put(biases)


def _is_one_sum(machine: Any) -> bool:
    """Whether the machine is a sum of kernel values: neither neighbours, nor cells, nor a sphere."""
    if not hasattr(machine, "_expansion") or hasattr(machine, "squared_norm_"):
        return False
    return not getattr(machine, "_is_approximate", False) or hasattr(machine.approximation_, "coefficients")


def _wants_pairs(machine: Any) -> bool:
    return getattr(machine, "decision_function_shape", "ovr") == "ovo"


def _class_scores(machine: Any, place: Place, raw: Any) -> Any:
    """Return what :func:`mercer.multiclass.training.class_scores` returns, by products of arrays."""
    n_classes = machine.classes_.size
    if raw.shape[1] == 1:
        return raw[:, 0]
    if getattr(machine, "_scheme", "ovr") != "ovo":
        return raw
    xp, pairs = place.xp, class_pairs(n_classes)
    numbers = np.arange(n_classes)
    second = (pairs[:, 1:] == numbers).astype(np.float64)
    signs = place.put((pairs[:, :1] == numbers) - second)
    votes = xp.astype(raw > 0.0, xp.float64) @ signs + place.put(second.sum(axis=0))
    confidence = raw @ signs
    return votes + confidence / (3.0 * (xp.abs(confidence) + 1.0))


def _labels(machine: Any, place: Place, scores: Any) -> Any:
    """Return the class with the largest score of each row."""
    xp, classes = place.xp, machine.classes_
    if classes.dtype.kind not in "biuf":
        raise TypeError(
            f"classes are {classes.dtype}, which an array of {place.name} cannot hold: take decision_function, or "
            "train with classes that are numbers (sklearn.preprocessing.LabelEncoder)."
        )
    winning = xp.astype(scores > 0.0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
    labels = xp.take(place.put(classes), winning, axis=0)
    return xp.astype(labels, xp.bool) if classes.dtype.kind == "b" else labels
