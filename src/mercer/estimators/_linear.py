"""Base class of machines that are linear in the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.estimators._validation import check_table


class LinearMachine(BaseEstimator):
    """A machine f_t(x) = <w_t, x> + b_t."""

    coef_: FloatArray
    intercept_: FloatArray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _values(self, X: Any) -> FloatArray:
        check_is_fitted(self, "coef_")
        rows = check_table(self, X, reset=False)
        return np.asarray(rows.float64() @ self.coef_.T + self.intercept_)
