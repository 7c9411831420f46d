"""Base classes of classifiers that predict the class with the largest score, or with the largest probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.cluster import by_blocks
from mercer.estimators._arrays import Classifier
from mercer.estimators._labels import Labels, one_column_for_two
from mercer.multiclass.training import winners
from mercer.problems.smooth import Logistic, Objective, Softmax
from mercer.specs import ForKernelLogisticRegression, ForLogisticRegression


class ByScores(Classifier):
    """A classifier that predicts the class with the largest score, or for two classes by the sign of one score."""

    classes_: npt.NDArray[Any]
    _values: Callable[[Any], FloatArray]
    """Scores of rows, (m, n_classes), or (m, 1) for two classes."""

    def _machine_values(self, X: Any) -> FloatArray:
        return self._values(X)

    @by_blocks
    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            With ``kernel="precomputed"``, the kernel values between these rows and the training rows, (m, n).

        Returns
        -------
        ndarray of shape (m,) for two classes, positive for ``classes_[1]``; (m, n_classes) for more

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m n kernel values; for a linear machine, m p multiplications for each output.
        """
        return one_column_for_two(self._values(X))

    @by_blocks
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest decision value of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            With ``kernel="precomputed"``, the kernel values between these rows and the training rows, (m, n).

        Returns
        -------
        ndarray of shape (m,)
            Labels, as in `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs as much as `decision_function`. If decision values are equal, the smaller class is predicted.
        """
        scores = self.decision_function(X)
        return self.classes_[winners(scores)]


def known_accuracy(decision: FloatArray, codes: npt.NDArray[np.int64], weights: FloatArray) -> float:
    """Return the weighted accuracy over the rows whose decision value is finite; NaN if there is no such row."""
    is_counted = np.isfinite(decision if decision.ndim == 1 else decision.sum(axis=1)) & (weights > 0.0)
    if not is_counted.any():
        return float("nan")
    return float(np.average(winners(decision[is_counted]) == codes[is_counted], weights=weights[is_counted]))


class ByLikelihood(ByScores):
    """A classifier whose decision values are log-odds."""

    spec_: ForKernelLogisticRegression | ForLogisticRegression

    @by_blocks
    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes
            Log-odds of ``classes_[1]``.
        ndarray of shape (m, n_classes) for more
            Logarithms of the probabilities, up to a constant for each row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.
        """
        return super().decision_function(X)

    @by_blocks
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns in the order of `classes_`. Every row sums to 1, and the class with the largest probability is the
            one that `predict` returns.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs as much as `decision_function`.
        """
        scores = self._values(X)
        return self.spec_.probabilities(scores)

    @by_blocks
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns in the order of `classes_`. The values are finite even if `predict_proba` underflows to 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs as much as `decision_function`.
        """
        scores = self._values(X)
        if scores.shape[1] == 1:
            return np.column_stack([-np.logaddexp(0.0, scores[:, 0]), -np.logaddexp(0.0, -scores[:, 0])])
        logarithms = self.spec_.log_shares(scores)
        return logarithms - np.logaddexp.reduce(logarithms, axis=1, keepdims=True)


def log_likelihood(labels: Labels, penalty: float, has_bias: bool) -> Objective:
    """Return the objective: minus the log-likelihood of the rows of positive weight, plus the penalty."""
    codes, weights = labels.codes[labels.rows], labels.weights[labels.rows]
    if labels.classes.size == 2:
        return Objective(Logistic(np.where(codes == 1, 1.0, -1.0)), weights, np.array([penalty]), has_bias)
    return Objective(Softmax(codes), weights, np.full(labels.classes.size, penalty), has_bias)
