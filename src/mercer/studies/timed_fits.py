"""Fits and predictions of scikit-learn's machines in pieces, between which a time limit is heard."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mercer.studies.time_budget import Deadline

CHUNK_SECONDS = 0.2
"""Seconds that a piece of a fit or of predictions should take."""

_FIRST_ROWS = 200  # rows whose predictions are the first piece


def fit_in_time(estimator: Any, X: Any, truth: np.ndarray, deadline: Deadline) -> bool:
    """Fit an estimator, and return whether it ended before the deadline.

    An estimator with ``warm_start`` and ``max_iter`` is fitted in pieces of a few iterations, each from the one before,
    if there is a deadline. One that was stopped stays as it is. Other estimators are fitted in one piece.
    """
    # One thread: the matrices are small, and several threads can be twenty times slower.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # a machine that reached its limit is compared like others
        warnings.simplefilter("ignore", RuntimeWarning)  # scikit-learn's line searches
        parameters = estimator.get_params()
        if deadline.seconds_left is None or not parameters.get("warm_start"):
            estimator.fit(X, truth)
            return not deadline.has_come
        most, done, step = parameters["max_iter"], 0, 1
        grows = _is_of_trees(estimator)  # `max_iter` counts all trees, not those of this piece
        while done < most:
            step = min(step, most - done)
            began = time.perf_counter()
            estimator.set_params(max_iter=done + step if grows else step).fit(X, truth)
            done += step
            has_ended = estimator.n_iter_ < done if grows else np.max(estimator.n_iter_) < step
            if has_ended or deadline.has_come:
                break
            seconds = time.perf_counter() - began
            step = max(1, min(2 * step, int(step * CHUNK_SECONDS / max(seconds, 1e-9))))
        estimator.set_params(max_iter=most)
        return has_ended or done >= most


def predict_in_time(predict: Callable[[Any], np.ndarray], X: Any, deadline: Deadline) -> np.ndarray:
    """Return predictions of rows, computed in pieces.

    Boosted trees predict in one thread: each tree is so little work that several threads were 20 times slower.

    Raises
    ------
    TimeoutError
        If the deadline has come before all rows are predicted.
    """
    if _is_of_trees(getattr(predict, "__self__", None)):
        with threadpool_limits(1):
            return _predicted(predict, X, deadline)
    return _predicted(predict, X, deadline)


def _predicted(predict: Callable[[Any], np.ndarray], X: Any, deadline: Deadline) -> np.ndarray:
    n_rows = X.shape[0]
    if deadline.seconds_left is None:
        return predict(X)
    if sparse.issparse(X):
        X = X.tocsr()
    predictions, at, step = [], 0, _FIRST_ROWS
    while at < n_rows:
        if deadline.has_come:
            raise TimeoutError
        began = time.perf_counter()
        predictions.append(predict(X[at : at + step]))
        at += step
        step = max(1, min(4 * step, int(step * CHUNK_SECONDS / max(time.perf_counter() - began, 1e-9))))
    return np.concatenate(predictions)


def _is_of_trees(estimator: Any) -> bool:
    """Whether the estimator is gradient boosting of trees."""
    return hasattr(estimator, "max_leaf_nodes")
