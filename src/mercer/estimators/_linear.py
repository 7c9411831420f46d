"""Base class of machines that are linear in the columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.estimators._arrays import result_of_array
from mercer.estimators._callbacks import SupportsCallbacks
from mercer.estimators._card import WithCard
from mercer.estimators._linear_rows import read_linear_table
from mercer.gram.rows.sweeps import times


class LinearMachine(SupportsCallbacks, WithCard, BaseEstimator):
    """A machine f_t(x) = <w_t, x> + b_t."""

    coef_: Any
    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in ("predict_proba", "predict_log_proba") and hasattr(type(self), "decision_function"):
            raise AttributeError(
                f"{kind} has no probabilities: take LogisticRegression, which is as fast, or CalibratedClassifierCV("
                f"{kind}()) of sklearn.calibration"
            )
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def _values(self, X: Any) -> FloatArray:
        """Return the decision values of all outputs, (m, n_outputs)."""
        check_is_fitted(self, "coef_")
        table = read_linear_table(self, X, reset=False).values
        normals = np.atleast_2d(self._dense_coef())
        values = np.empty((table.shape[0], len(normals)))
        for output, normal in enumerate(normals):
            values[:, output] = times(table, 0.0, normal)
        values += self.intercept_
        return values

    def _of_array(self, name: str, X: Any) -> Any:
        """Return the result of a method for an array of another library; see :mod:`mercer.estimators._arrays`."""
        return result_of_array(self, name, X)

    def _dense_coef(self) -> FloatArray:
        return self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_


class WithSparseCoefficients(LinearMachine):
    """A linear machine whose coefficients can be stored as a sparse matrix."""

    def sparsify(self) -> Self:
        """Store `coef_` as a CSR matrix, which is smaller if most coefficients are 0, as with the l1 penalty.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "coef_")
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array again, as `fit` does.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "coef_")
        self.coef_ = self._dense_coef()
        return self
