"""Nearest-neighbour classification with the distance of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from mercer._typing import FloatArray
from mercer.data import Precomputed
from mercer.data.arguments import check_choice, check_count, check_whole
from mercer.estimators._base import KernelMachine
from mercer.estimators._neighbours import PROTOTYPES, Prototypes
from mercer.estimators.svc import SVC
from mercer.kernels import Gamma, Kernel
from mercer.kernels.kernel import restored_rows
from mercer.solvers.smooth.neighbours import counted_shares
from mercer.specs import ForKernelNeighborsClassifier


class KernelNeighborsClassifier(ClassifierMixin, KernelMachine):
    """Nearest-neighbour classifier with the distance in the kernel's feature space.

    The `n_neighbors` rows with the smallest d(x, z)^2 = k(x, x) + k(z, z) - 2 k(x, z) vote for their classes. With
    ``prototypes="support_vectors"`` only the support vectors of an `SVC` with the same kernel are stored. The
    classifier solves no optimisation problem, so it has no certificate.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of rows that vote. If there are fewer prototypes, all of them vote.
    weights : {"uniform", "distance"}, default="uniform"
        "distance" weights each vote by 1/distance; neighbours at distance 0 then vote alone.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`. "linear" gives Euclidean distances; "rbf" sorts
        rows in the same order, so both kernels have the same neighbours.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    prototypes : {"all", "support_vectors"}, default="all"
        Which training rows are stored.
    C : float, default=1.0
        Penalty of the `SVC` that chooses the prototypes.
    class_weight : {"balanced"} or dict, optional
        Weight of a vote by class. The choice of prototypes does not depend on it. "balanced" uses the class
        frequencies of all training rows.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    prototype_indices_ : ndarray of shape (n_prototypes,)
        Indices of the stored training rows.
    X_fit_ : ndarray or csr_array of shape (n_prototypes, p)
        The stored rows.
    kernel_ : Kernel
    svc_ : SVC
        The machine that chose the prototypes, with ``prototypes="support_vectors"``.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Notes
    -----
    Scale columns of different units first, for instance with StandardScaler. On one-hot columns the linear kernel
    counts differing symbols (Hamming distance). For dense rows and a linear or Gaussian kernel, scikit-learn's trees
    search the neighbours; otherwise a prediction costs a kernel value for each row and prototype.

    References
    ----------
    Cover & Hart (1967); Schölkopf & Smola (2002), section 2.2, for the distance.

    Examples
    --------
    >>> from mercer import KernelNeighborsClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelNeighborsClassifier(prototypes="support_vectors").fit(X, y)
    >>> machine.prototype_indices_.size, round(machine.score(X, y), 2)
    (60, 0.97)
    """

    memory_limit: int | None = None
    verbose = 0

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: str = "uniform",
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        prototypes: str = "all",
        C: float = 1.0,
        class_weight: str | Mapping[Any, float] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.prototypes = prototypes
        self.C = C
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> KernelNeighborsClassifier:
        """Store the training rows, or their support vectors.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)

        Returns
        -------
        KernelNeighborsClassifier
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, or `y` has another length than `X` or holds
            one class only.
        """
        wanted = check_count("n_neighbors", self.n_neighbors)
        check_whole("n_jobs", self.n_jobs)
        check_choice("prototypes", self.prototypes, PROTOTYPES)
        check_choice("weights", self.weights, ("uniform", "distance"))
        kernel, data, labels = self._rows_of_classes(X, y, None, self.class_weight)
        self.__dict__.pop("svc_", None)
        chosen = labels.rows
        if self.prototypes == "support_vectors":
            self.svc_ = SVC(C=self.C, kernel=kernel, n_jobs=self.n_jobs).fit(X, y, labels.uneven_weights)
            chosen = np.sort(self.svc_.support_).astype(np.int64)
        stored_rows = data.rows(chosen)
        by_distance = self.weights == "distance"
        if by_distance and data.has_given_values:
            raise ValueError(
                "weights='distance' needs k(x, x) of new rows, which given kernel values do not hold: take 'uniform', "
                "or give the kernel and the rows."
            )
        self.spec_ = ForKernelNeighborsClassifier(
            n_neighbors=wanted, every_row=self.prototypes == "all", by_distance=by_distance
        )
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.kernel_, self.prototype_indices_ = kernel, chosen
        self._codes, self._diagonal = labels.codes[chosen], kernel.diag(stored_rows)
        self.X_fit_ = stored_rows.stored if not isinstance(stored_rows, Precomputed) else np.empty((0, 0))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return each class's share of the votes, weighted by `class_weight_`.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            With ``kernel="precomputed"``, the kernel values between these rows and the training rows, (m, n).

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns in the order of `classes_`; every row sums to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs as much as `kneighbors`.
        """
        data, of = self._new_rows(X), self._prototypes("all")
        squares, places, _ = self._searched(data, of, min(self.spec_.n_neighbors, of.indices.size))
        return counted_shares(self._codes[places], self.class_weight_, squares if self.spec_.by_distance else None)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest weighted share of votes.

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
        Costs as much as `kneighbors`. If classes have equal votes, the smaller class is predicted.
        """
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def _default_neighbours(self) -> int:
        return self.spec_.n_neighbors

    def _prototypes(self, which: str) -> Prototypes:
        if which != "all" and which != self.prototypes:
            raise ValueError("this machine chose no support vectors: fit it with prototypes='support_vectors'.")
        rows = None if self.kernel_.takes_values else restored_rows(self.kernel_, self.X_fit_)
        return Prototypes(rows, self.prototype_indices_, self._diagonal)
