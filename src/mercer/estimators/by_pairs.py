"""Machines for two classes on every row, put together for several."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from mercer.estimators.every_row import EveryRowMachine
from mercer.multiclass import class_scores, winners

FloatArray = npt.NDArray[np.float64]


class ByPairs(ClassifierMixin, EveryRowMachine):
    """Predictions of machines for two classes each; see :func:`mercer.multiclass.make_tasks`."""

    classes_: npt.NDArray[Any]
    _scheme: str

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes
            f(x), positive for ``classes_[1]``.
        ndarray of shape (m, n_classes) for more
            One score a class; the largest wins. One-versus-one: votes, ties broken by confidence.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.
        """
        raw = self._values(X)
        return class_scores(raw, self.classes_.size, self._scheme)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest score of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            Kernel values (m, n) with ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (m,)
            Labels, as in `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs what `decision_function` does: m n kernel values. Of equal scores, the smaller class wins.
        """
        scores = self.decision_function(X)
        return self.classes_[winners(scores)]
