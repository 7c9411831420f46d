"""Nearest-neighbour classification and regression with the distance of a kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.cluster import by_blocks
from mercer.data import Data, Precomputed
from mercer.data.arguments import check_choice, check_count, check_whole
from mercer.data.mixed_rows import MatrixColumns
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import Classifier, Regressor
from mercer.estimators._base import KernelMachine
from mercer.estimators._neighbours import PROTOTYPES, Prototypes
from mercer.estimators._validation import check_targets, range_hint
from mercer.estimators.svc import SVC
from mercer.kernels import Gamma, Kernel
from mercer.kernels.kernel import restored_rows
from mercer.solvers.smooth.neighbours import counted_shares, mean_targets, nearest
from mercer.specs import ForKernelNeighborsClassifier, ForKernelNeighborsRegressor


class KernelNeighbors(KernelMachine):
    """A machine that stores training rows, and predicts by those that are nearest in the kernel's feature space."""

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
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training rows, or their support vectors.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)

        Returns
        -------
        KernelNeighborsClassifier or KernelNeighborsRegressor
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, or `y` has another length than `X`; also if
            `y` holds one class only, or the targets of a regression are not finite numbers.

        Warns
        -----
        UserWarning
            If one column has so large a spread that the distances depend on hardly any other.
        """
        check_whole("n_jobs", self.n_jobs)
        count = check_count("n_neighbors", self.n_neighbors)
        by_distance = check_choice("weights", self.weights, ("uniform", "distance")) == "distance"
        kernel, data, chosen = self._learn(X, y)
        if by_distance and data.has_given_values:
            raise ValueError(
                "weights='distance' needs k(x, x) of new rows, which given kernel values do not hold: take 'uniform', "
                "or give the kernel and the rows."
            )
        stored_rows = data.rows(chosen)
        self.kernel_, self.prototype_indices_ = kernel, chosen
        self._matrix_columns = MatrixColumns.of(stored_rows) if isinstance(stored_rows, Precomputed) else None
        self.X_fit_ = stored_rows.stored if self._matrix_columns is None else np.empty((0, 0))
        self.spec_ = self._spec(count, by_distance)
        hint = range_hint(data, getattr(self, "feature_names_in_", None)) if not kernel.parts else ""
        if hint and not (kernel.takes_fingerprints or kernel.takes_symbols):
            warn_user(f"{type(self).__name__}: {hint}")
        return self

    @abstractmethod
    def _learn(self, X: Any, y: Any) -> tuple[Kernel, Data, IndexArray]:
        """Store what the votes are; return the resolved kernel, the training rows, and which of them vote."""

    @abstractmethod
    def _spec(self, count: int, by_distance: bool) -> ForKernelNeighborsClassifier | ForKernelNeighborsRegressor:
        """Return the specification of the machine."""

    def _nearest(self, X: Any) -> tuple[IndexArray, FloatArray | None]:
        """Return the places of the neighbours that vote, and their squared distances if these weight the votes."""
        data = self._new_rows(X)
        squares, places = nearest(
            self.kernel_, data, self._prototypes("all").rows, self.spec_.n_neighbors, n_jobs=self.n_jobs
        )
        return places, squares if self.spec_.by_distance else None

    def _default_neighbours(self) -> int:
        return self.spec_.n_neighbors

    def _prototypes(self, which: str) -> Prototypes:
        if which != "all" and which != getattr(self, "prototypes", "all"):
            raise ValueError("this machine chose no support vectors: fit it with prototypes='support_vectors'.")
        columns = self._matrix_columns
        rows = restored_rows(self.kernel_, self.X_fit_) if columns is None else columns.data()
        return Prototypes(rows, self.prototype_indices_)


class KernelNeighborsClassifier(Classifier, KernelNeighbors):
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
        super().__init__(
            n_neighbors, weights=weights, kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, n_jobs=n_jobs
        )
        self.prototypes = prototypes
        self.C = C
        self.class_weight = class_weight

    def _learn(self, X: Any, y: Any) -> tuple[Kernel, Data, IndexArray]:
        check_choice("prototypes", self.prototypes, PROTOTYPES)
        kernel, data, labels = self._rows_of_classes(X, y, None, self.class_weight)
        self.__dict__.pop("svc_", None)
        chosen = labels.rows
        if self.prototypes == "support_vectors":
            self.svc_ = SVC(C=self.C, kernel=kernel, n_jobs=self.n_jobs).fit(X, y, labels.uneven_weights)
            chosen = np.sort(self.svc_.support_).astype(np.int64)
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self._codes = labels.codes[chosen]
        return kernel, data, chosen

    def _spec(self, count: int, by_distance: bool) -> ForKernelNeighborsClassifier:
        return ForKernelNeighborsClassifier(
            n_neighbors=count, every_row=self.prototypes == "all", by_distance=by_distance
        )

    @by_blocks
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
        places, squares = self._nearest(X)
        return counted_shares(self._codes[places], self.class_weight_, squares)

    @by_blocks
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


class KernelNeighborsRegressor(Regressor, KernelNeighbors):
    """Nearest-neighbour regression with the distance in the kernel's feature space.

    A prediction is the mean target of the `n_neighbors` rows with the smallest d(x, z)^2 = k(x, x) + k(z, z) -
    2 k(x, z). The regressor solves no optimisation problem, so it has no certificate.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of rows whose targets are averaged. If there are fewer training rows, all of them.
    weights : {"uniform", "distance"}, default="uniform"
        "distance" weights each target by 1/distance; the mean at distance 0 is that of the equal rows.
    kernel, degree, gamma, coef0, n_jobs
        See :class:`KernelNeighborsClassifier`.

    Attributes
    ----------
    prototype_indices_ : ndarray of shape (n,)
        Indices of the stored training rows: all of them.
    X_fit_ : ndarray or csr_array of shape (n, p)
        The stored rows.
    kernel_ : Kernel
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Notes
    -----
    See :class:`KernelNeighborsClassifier` for scales of columns, symbols, and the cost. `kneighbors` names the
    neighbours and their distances.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), The elements of statistical learning, section 2.3.2.

    Examples
    --------
    >>> from mercer import KernelNeighborsRegressor, Tanimoto
    >>> molecules, activity = [{1, 2, 3}, {1, 2, 4}, {7, 8}, {7, 8, 9}], [5.0, 5.5, 1.0, 1.5]
    >>> machine = KernelNeighborsRegressor(2, kernel=Tanimoto()).fit(molecules, activity)
    >>> machine.predict([{1, 2}, {8, 9}])
    array([5.25, 1.25])
    """

    def _learn(self, X: Any, y: Any) -> tuple[Kernel, Data, IndexArray]:
        spec, data = self._training_rows(X, y)
        self._targets = check_targets(y)
        return spec.resolve(data), data, np.arange(data.n)

    def _spec(self, count: int, by_distance: bool) -> ForKernelNeighborsRegressor:
        return ForKernelNeighborsRegressor(n_neighbors=count, by_distance=by_distance)

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return the mean target of the nearest training rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            With ``kernel="precomputed"``, the kernel values between these rows and the training rows, (m, n).

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
        Costs as much as `kneighbors`.
        """
        places, squares = self._nearest(X)
        return mean_targets(self._targets[places], squares)
