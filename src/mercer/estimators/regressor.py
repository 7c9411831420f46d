"""What support vector regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from mercer.estimators.base import SingleMachine


class VectorRegressor(RegressorMixin, SingleMachine):
    """What regressors with support vectors share: `predict`."""

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
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._raw_decision(self._new_rows(X))[:, 0]
