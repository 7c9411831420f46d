"""Gaussian basis functions around centres: the hidden layer of an RBF network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from mercer._typing import FloatArray
from mercer.data import Data, Vectors, as_data
from mercer.data.arguments import check_count, check_whole
from mercer.features.feature_map import DenseMap
from mercer.geometry import blocks
from mercer.kernels import RBF, Gamma
from mercer.kernels.parameters import DISTANCE_RULES, gamma_or_rule


class GaussianBasis(DenseMap):
    """Gaussian basis functions around centres: column j is exp(-gamma |x - c_j|²).

    Followed by a linear machine, this is a radial basis function network:
    ``make_pipeline(GaussianBasis(), SVC(kernel="linear"))``.

    Parameters
    ----------
    centers : {"kmeans", "random"} or array-like of shape (m, p), default="kmeans"
        The centres, or the method to find them: the centres of a k-means clustering started by k-means++, or rows
        chosen at random without replacement.
    n_components : int, default=100
        Largest number of centres to find, at most the number of rows, and for k-means at most the number of distinct
        rows. If centres are given, all of them are used.
    gamma : float >= 0, "scale", "auto", "median" or "sigest", default="scale"
        As for :class:`mercer.RBF`.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of centres.
    n_jobs : int, optional
        Threads. None: all processors, or their share in a joblib worker. Results do not depend on it.

    Attributes
    ----------
    centers_ : ndarray or csr_array of shape (m, p)
    kernel_ : RBF
        The kernel, with gamma as a number.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not allowed, or centres have another number of columns than X.

    Notes
    -----
    `transform` costs m exponentials and inner products per row, by native code, and no memory besides its result.

    This map does not approximate the Gaussian kernel: inner products of its columns are sum_j k(x, c_j) k(c_j, z).
    :class:`Nystroem` approximates k(x, z) by inner products; it rotates and scales these columns.

    References
    ----------
    Broomhead & Lowe (1988); Arthur & Vassilvitskii (2007) for k-means++; Bishop (2006), section 6.3.

    Examples
    --------
    >>> from mercer import GaussianBasis
    >>> GaussianBasis(centers=[[0.0], [2.0]], gamma=1.0).fit_transform([[0.0], [1.0]]).round(3)
    array([[1.   , 0.018],
           [0.368, 0.368]])
    """

    def __init__(
        self,
        centers: Any = "kmeans",
        *,
        n_components: int = 100,
        gamma: Gamma = "scale",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.centers = centers
        self.n_components = n_components
        self.gamma = gamma
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(self, rows: Data) -> None:
        spec = RBF(gamma=gamma_or_rule(self.gamma, DISTANCE_RULES))
        check_whole("n_jobs", self.n_jobs)
        assert isinstance(rows, Vectors)
        self.kernel_ = spec.resolve(rows)
        self.centers_ = self._found_centers(rows)

    @property
    def _n_features_out(self) -> int:
        return self.centers_.shape[0]

    def _found_centers(self, rows: Vectors) -> Any:
        if not isinstance(self.centers, str):
            given = as_data(self.centers)
            problem = given.finite_problem()
            if problem is not None:
                raise ValueError(f"centers must be finite, but {problem}.")
            if given.n == 0:
                raise ValueError("centers must be at least one row, got none.")
            if given.p != rows.p:
                raise ValueError(f"centers must have the {rows.p} columns of X, got {given.p}.")
            return given.stored
        wanted = check_count("n_components", self.n_components)
        random = check_random_state(self.random_state)
        match self.centers:
            case "random":
                return rows.rows(np.sort(random.choice(rows.n, min(wanted, rows.n), replace=False))).stored
            case "kmeans":
                from sklearn.cluster import KMeans  # takes long

                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Number of distinct clusters", ConvergenceWarning)
                    clusters = KMeans(min(wanted, rows.n), n_init=1, random_state=random).fit(_narrow(rows.stored))
                return np.unique(clusters.cluster_centers_, axis=0)
        raise ValueError(f'centers must be "kmeans", "random" or an array of shape (m, p), got {self.centers!r}.')

    def _blocks(self, rows: Data) -> Iterator[tuple[slice, FloatArray]]:
        return blocks(self.kernel_, rows, as_data(self.centers_), n_jobs=self.n_jobs)


def _narrow(stored: Any) -> Any:
    """Return the table, with 32-bit indices if it is sparse, because scikit-learn's clustering requires them."""
    if not sp.issparse(stored):
        return stored
    indices, starts = stored.indices.astype(np.int32, copy=False), stored.indptr.astype(np.int32, copy=False)
    return sp.csr_array((stored.data, indices, starts), shape=stored.shape)
