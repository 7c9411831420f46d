"""Base class of linear and kernel logistic regression: the objective, and probabilities from log-odds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.estimators.by_scores import ByScores
from mercer.estimators.labels import Labels
from mercer.losses.objective import Logistic, Objective, Softmax
from mercer.specs import ForKernelLogisticRegression, ForLogisticRegression


class ByLikelihood(ByScores):
    """A classifier whose decision values are log-odds."""

    spec_: ForKernelLogisticRegression | ForLogisticRegression

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
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def log_likelihood(labels: Labels, penalty: float, has_bias: bool) -> Objective:
    """Return the objective: minus the log-likelihood of the rows of positive weight, plus the penalty."""
    codes, weights = labels.codes[labels.rows], labels.weights[labels.rows]
    if labels.classes.size == 2:
        return Objective(Logistic(np.where(codes == 1, 1.0, -1.0)), weights, np.array([penalty]), has_bias)
    return Objective(Softmax(codes), weights, np.full(labels.classes.size, penalty), has_bias)
