"""The training rows that are nearest to a row in a machine's kernel space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data
from mercer.data.arguments import check_choice, check_count, check_flag
from mercer.estimators._validation import refuse_device
from mercer.geometry.matrices import blocks
from mercer.kernels import Kernel
from mercer.solvers.smooth.neighbours import nearest

PROTOTYPES = ("all", "support_vectors")


class Prototypes(NamedTuple):
    """Rows among which neighbours are searched.

    Attributes
    ----------
    rows : Data
    indices : ndarray of shape (n,)
        Their indices in the training rows.
    """

    rows: Data
    indices: IndexArray


class FindsNeighbours:
    """A machine with a kernel, which can name the nearest of its training rows."""

    kernel_: Kernel
    n_jobs: int | None

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        *,
        return_distance: bool = True,
        similarity: bool = False,
        prototypes: str = "all",
    ) -> tuple[FloatArray, IndexArray] | IndexArray:
        """Return the nearest training rows of each row, nearest first, and how far they are.

        It shows whether a prediction has similar training rows to rest on (the applicability domain).

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), optional
            Rows as for `predict`. None: the training rows, each without itself.
        n_neighbors : int, optional
            Number of neighbours, 5 by default (in `KernelNeighborsClassifier`, its own parameter); if there are fewer
            rows, all of them.
        return_distance : bool, default=True
        similarity : bool, default=False
            Return the kernel values k(x, z) instead of the distances. The neighbours are the same.
        prototypes : {"all", "support_vectors"}, default="all"
            Whether to search all training rows of positive weight, or the support vectors only. A machine that was
            pickled or read from a file has only its support vectors.

        Returns
        -------
        distances : ndarray of shape (m, n_neighbors)
            d(x, z) with d² = k(x, x) + k(z, z) - 2 k(x, z), or the similarities; only with `return_distance`. NaN for
            given kernel values, because k(x, x) of new rows is unknown.
        indices : ndarray of shape (m, n_neighbors)
            Indices of the neighbours in the training rows.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a parameter is not allowed, the machine does not have the training rows, or `X` is not as in `fit`.

        Notes
        -----
        Costs a kernel value for each row and prototype. For equal distances, the smaller index comes first.
        """
        self._check_is_fitted()  # type: ignore[attr-defined]
        refuse_device(self, X, "kneighbors")
        check_flag("return_distance", return_distance)
        check_flag("similarity", similarity)
        wanted = self._default_neighbours() if n_neighbors is None else check_count("n_neighbors", n_neighbors)
        of = self._prototypes(check_choice("prototypes", prototypes, PROTOTYPES))
        if X is None and getattr(of.rows, "lacks_values", False):
            raise ValueError("kneighbors needs X: this machine does not have the kernel values of its training rows.")
        data = of.rows if X is None else self._new_rows(X)  # type: ignore[attr-defined]
        squares, places = nearest(self.kernel_, data, of.rows, wanted + (X is None), n_jobs=self.n_jobs)
        if X is None:
            squares, places = _without_itself(squares, places)
        if not return_distance:
            return of.indices[places]
        if similarity:
            return self._similarities(data, of.rows, places), of.indices[places]
        if data.has_given_values and X is not None:
            squares = np.full_like(squares, np.nan)
        return np.sqrt(np.maximum(squares, 0.0)), of.indices[places]

    def _similarities(self, data: Data, rows: Data, places: IndexArray) -> FloatArray:
        """Return k(x, z) of each row and its neighbours."""
        chosen, columns = np.unique(places, return_inverse=True)
        columns = columns.reshape(places.shape)
        values = np.empty(places.shape)
        for part, block in blocks(self.kernel_, data.like(rows), rows.rows(chosen), n_jobs=self.n_jobs):
            values[part] = np.take_along_axis(block, columns[part], axis=1)
        return values

    def _default_neighbours(self) -> int:
        return 5

    def _prototypes(self, which: str) -> Prototypes:
        """Return the rows among which neighbours are searched; raise ValueError if the machine does not have them."""
        raise NotImplementedError


def _without_itself(squares: FloatArray, places: IndexArray) -> tuple[FloatArray, IndexArray]:
    """Remove each row from its own neighbours, or the last of these if equal rows come before it."""
    is_itself = places == np.arange(len(places))[:, None]
    is_itself[~is_itself.any(axis=1), -1] = True
    shape = len(places), places.shape[1] - 1
    return squares[~is_itself].reshape(shape), places[~is_itself].reshape(shape)
