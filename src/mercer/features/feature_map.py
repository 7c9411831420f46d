"""Base classes of feature maps: transformers from rows to columns, in blocks of rows and in the type of the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.cluster import by_blocks
from mercer.data import Data
from mercer.estimators._arrays import by_numpy
from mercer.estimators._validation import check_table


class FeatureMap(TransformerMixin, BaseEstimator):
    """A transformer of rows of numbers, dense or CSR, float32 or float64, which are not converted."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute from X what `transform` needs.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : ignored

        Returns
        -------
        Self
            The fitted transformer itself.

        Raises
        ------
        ValueError, TypeError
            For parameters out of their range; if X has text, NaN or infinity; if kernel values overflow.
        """
        self._learn(self._training_rows(X))
        return self

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Return the new columns of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray or csr_array of shape (m, n_features_out)
            float32 if X is float32, otherwise float64.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X has text, NaN or infinity, or other features than in `fit`; if values overflow.
        """
        return self._columns(self._new_rows(X))

    def _of_array(self, name: str, X: Any) -> Any:
        """Return the columns of an array of another library; see :mod:`mercer.estimators._arrays`."""
        check_is_fitted(self)
        return by_numpy(self, name, X)

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """Number of columns."""

    @abstractmethod
    def _learn(self, rows: Data) -> None:
        """Check the parameters, and compute from the training rows what `_columns` needs."""

    @abstractmethod
    def _columns(self, rows: Data) -> Any:
        """Return the new columns of checked rows."""

    def _training_rows(self, X: Any) -> Data:
        return check_table(self, X, reset=True)

    def _new_rows(self, X: Any) -> Data:
        check_is_fitted(self)
        return check_table(self, X, reset=False)


class DenseMap(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """A feature map whose columns have few zeros, so that the result is a dense array."""

    @abstractmethod
    def _blocks(self, rows: Data) -> Iterator[tuple[slice, npt.NDArray[np.floating]]]:
        """Yield slices of rows and their columns; a block may be overwritten by the next."""

    def _columns(self, rows: Data) -> npt.NDArray[np.floating]:
        return self._collected(rows, self._blocks(rows))

    def _collected(
        self, rows: Data, blocks: Iterable[tuple[slice, npt.NDArray[np.floating]]]
    ) -> npt.NDArray[np.floating]:
        columns = np.empty((rows.n, self._n_features_out), dtype=rows.dtype)
        for part, block in blocks:
            columns[part] = block
        return columns
