"""Base class of classifiers with one score for each class, or one score for two classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from mercer._typing import FloatArray
from mercer.estimators.labels import one_column_for_two
from mercer.multiclass.training import winners


class ByScores(ClassifierMixin):
    """A classifier that predicts the class with the largest score, or for two classes by the sign of one score."""

    classes_: npt.NDArray[Any]
    _values: Callable[[Any], FloatArray]
    """Scores of rows, (m, n_classes), or (m, 1) for two classes."""

    def _machine_values(self, X: Any) -> FloatArray:
        return self._values(X)

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
    known = np.isfinite(decision if decision.ndim == 1 else decision.sum(axis=1)) & (weights > 0.0)
    if not known.any():
        return float("nan")
    return float(np.average(winners(decision[known]) == codes[known], weights=weights[known]))
