"""Base class of the support vector regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from mercer.estimators.base import SingleMachine


class VectorRegressor(RegressorMixin, SingleMachine):
    """A support vector regressor: `predict` returns the decision function."""

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return f(x) for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._raw_decision(self._new_rows(X))[:, 0]
