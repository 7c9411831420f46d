"""Predictions for arrays of other libraries: they are computed where the array is, and the result is there too."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier, is_outlier_detector
from sklearn.utils.validation import check_is_fitted

from mercer.cluster import is_array
from mercer.estimators._validation import refuse_device
from mercer.gram.array_kernel import ArrayKernel
from mercer.gram.places import Place, place_of, to_host
from mercer.multiclass.pairs import class_pairs

_NAMES = ("decision_function", "predict", "score_samples", "transform")
"""Methods that only multiply and sum."""


class _ScoresArrays:
    """Scores predictions for arrays of other libraries: the predictions, and targets, come to the host for it."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of scikit-learn: the accuracy of a classifier, R² of a regression.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            As for `predict`. For an array on a device, the predictions are copied to the host.
        y : array-like of shape (m,) or (m, n_outputs)
            The true classes or targets, on the host or on a device.
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
        """
        y, sample_weight = (to_host(one) if is_array(one) else one for one in (y, sample_weight))
        scored: Any = self
        if is_array(X):
            scored, X = _Predicted(scored, X), np.zeros((X.shape[0], 0))
        kind: Any = ClassifierMixin if is_classifier(self) else RegressorMixin
        return float(kind.score(scored, X, y, sample_weight=sample_weight))


DEFAULT_SCORES = (ClassifierMixin.score, RegressorMixin.score, _ScoresArrays.score)
"""The functions that return the accuracy or R²; other functions belong to machines with a score of their own."""


class _Predicted:
    """Stands for a machine, with its predictions for an array of another library, on the host."""

    def __init__(self, machine: Any, X: Any) -> None:
        self._predicted = to_host(machine.predict(X))

    def predict(self, X: Any) -> Any:
        """Return the predictions."""
        del X
        return self._predicted


class Classifier(_ScoresArrays, ClassifierMixin):
    """A classifier that scores arrays of other libraries, too."""


class Regressor(_ScoresArrays, RegressorMixin):
    """A regression that scores arrays of other libraries, too."""


def by_numpy(machine: BaseEstimator, name: str, X: Any) -> Any:
    """Return the result of a method that NumPy computes for an array in the memory of the host, in the array's library.

    Raises
    ------
    TypeError
        If the array is on a device, or its library cannot hold the result.
    """
    refuse_device(machine, X, name)
    place, result = place_of(X), getattr(machine, name)(to_host(X))
    if not isinstance(result, np.ndarray):  # sparse
        return result
    _refuse_text(result, place)
    return place.put(result)


def checked_array(machine: BaseEstimator, name: str, X: Any) -> tuple[Place, Any]:
    """Return where an array is, and the array in float64 there.

    Raises
    ------
    TypeError
        If the array does not hold real numbers, or the machine was not trained on a table of them.
    ValueError
        If it is not a table of the columns of `fit`, has no row, or holds NaN or infinity.
    """
    kind, p = type(machine).__name__, getattr(machine, "n_features_in_", None)
    if p is None:
        raise TypeError(
            f"{name} of this {kind}, which was trained on rows that are no table of numbers, computes on the host "
            "alone: give such rows."
        )
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
    and equal those for a NumPy array but for rounding. What is no sum of products is computed by NumPy, if the array is
    in the memory of the host.

    Raises
    ------
    TypeError
        If the machine or its kernel needs the host, or classes are text.
    ValueError
        See :func:`checked_array`.
    """
    check_is_fitted(machine)
    if name not in _NAMES or not (hasattr(machine, "_dense_coef") or _is_one_sum(machine)):
        return by_numpy(machine, name, X)
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
    _refuse_text(classes, place)
    winning = xp.astype(scores > 0.0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
    return xp.take(place.put(classes), winning, axis=0)


def _refuse_text(classes: Any, place: Place) -> None:
    if classes.dtype.kind not in "biuf":
        raise TypeError(
            f"classes are {classes.dtype}, which an array of {place.name} cannot hold: take decision_function, or "
            "train with classes that are numbers (sklearn.preprocessing.LabelEncoder)."
        )
