"""Classifiers that remember rows: nearest neighbours in a kernel's space, and the kernel density classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arguments import check_choice, check_count, check_whole
from mercer.data import Data, Precomputed, Structured, Vectors, as_data, as_structured
from mercer.estimators.base import KernelMachine
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.labels import one_column_for_two
from mercer.estimators.probabilities import HasProbabilities
from mercer.estimators.svc import SVC
from mercer.kernels import Gamma, Kernel
from mercer.kernels import Precomputed as PrecomputedKernel
from mercer.kernels.base import finite
from mercer.machines.neighbours import counted_shares, nearest, nearest_by_values
from mercer.multiclass import JOINT, winners
from mercer.recipes import ForKernelNeighborsClassifier, ForParzenClassifier

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

PROTOTYPES = ("all", "support_vectors")


class KernelNeighborsClassifier(ClassifierMixin, KernelMachine):
    """Majority vote of the nearest rows, by the distance of a kernel's space.

    Of the `n_neighbors` rows with the smallest d(x, z)^2 = k(x, x) + k(z, z) - 2 k(x, z), each votes for its class.
    With ``prototypes="support_vectors"`` only the support vectors of an `SVC` with the same kernel are remembered. It
    minimises nothing and claims nothing.

    Parameters
    ----------
    n_neighbors : int, default=5
        How many rows vote; all prototypes where there are fewer.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`. The distances of "linear" are Euclidean; those of
        "rbf" order as these do, so that its votes are the same.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    prototypes : {"all", "support_vectors"}, default="all"
    C : float, default=1.0
        Of the `SVC` that chooses the prototypes.
    class_weight : {"balanced"} or dict, optional
        What the vote of a row of each class counts; the choice of prototypes does not depend on it, and where all
        voters are of one class, neither does the outcome. "balanced" counts the classes of all training rows.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    prototype_indices_ : ndarray of shape (n_prototypes,)
        Which training rows are remembered.
    X_fit_ : ndarray or csr_array of shape (n_prototypes, p)
    kernel_ : Kernel
    svc_ : SVC
        The machine that chose the prototypes; where there was one.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Notes
    -----
    Columns of different units are to be scaled first, for instance with StandardScaler; the linear kernel on one-hot
    columns counts differing symbols (Hamming). Dense rows with the linear or Gaussian kernel are searched by
    scikit-learn's trees; others cost a kernel value for each row and prototype.

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
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.prototypes = prototypes
        self.C = C
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> KernelNeighborsClassifier:
        """Remember the rows, or the support vectors among them.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)

        Returns
        -------
        KernelNeighborsClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class.
        """
        wanted = check_count("n_neighbors", self.n_neighbors)
        check_whole("n_jobs", self.n_jobs)
        check_choice("prototypes", self.prototypes, PROTOTYPES)
        kernel, data, labels = self._rows_of_classes(X, y, None, self.class_weight)
        self.__dict__.pop("svc_", None)
        chosen = np.arange(data.n)
        if self.prototypes == "support_vectors":
            self.svc_ = SVC(C=self.C, kernel=kernel, n_jobs=self.n_jobs).fit(X, y)
            chosen = np.sort(self.svc_.support_).astype(np.int64)
        kept = data.rows(chosen)
        self.recipe_ = ForKernelNeighborsClassifier(n_neighbors=wanted, every_row=self.prototypes == "all")
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.kernel_, self.prototype_indices_ = kernel, chosen
        self._codes, self._own = labels.codes[chosen], kernel.diag(kept)
        self.X_fit_ = kept.stored if isinstance(kept, (Structured, Vectors)) else np.empty((0, 0))
        return self

    def kneighbors(self, X: Any) -> tuple[FloatArray, IndexArray]:
        """Return the distances to the nearest prototypes, ascending, and their numbers among the training rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        distances : ndarray of shape (m, n_neighbors)
            NaN for a precomputed kernel, which does not tell k(x, x) of new rows.
        indices : ndarray of shape (m, n_neighbors)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.
        """
        squares, nearest_of = self._nearest(X)
        if isinstance(self.kernel_, PrecomputedKernel):
            squares = np.full_like(squares, np.nan)
        return np.sqrt(np.maximum(squares, 0.0)), self.prototype_indices_[nearest_of]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the share of votes of each class, times its weight.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            Kernel values (m, n) with ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of `classes_`; every row adds up to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs what `kneighbors` does.
        """
        _, nearest_of = self._nearest(X)
        return counted_shares(self._codes[nearest_of], self.class_weight_)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with most votes, by weight.

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
        Costs what `kneighbors` does. Of classes with as many votes, the smaller one wins.
        """
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def _nearest(self, X: Any) -> tuple[FloatArray, IndexArray]:
        check_is_fitted(self, "kernel_")
        data: Data = self._new_rows(X)
        count = min(self.recipe_.n_neighbors, self._own.size)
        if isinstance(data, Precomputed):
            return nearest_by_values(data, self.prototype_indices_, self._own, count)
        stored = self.X_fit_
        prototypes = as_structured(stored) if stored.dtype == object else as_data(stored)
        return nearest(self.kernel_, data, prototypes, self._own, count, n_jobs=self.n_jobs)


class ParzenClassifier(HasProbabilities, EveryRowMachine):
    """Kernel density classifier: every row speaks for its class, with alpha_i = 1.

    The score of class k is sum_i s_i k(x_i, x) over its rows, s_i being the weight of the row times that of its class;
    the largest one wins. For two classes, h(x) = sum_i s_i y_i k(x_i, x). With the Gaussian kernel these are Parzen's
    density estimates times the classes' frequencies. It minimises nothing and claims nothing.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    class_weight : {"balanced"} or dict, optional
        "balanced" compares mean kernel values in the place of their sums.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them.
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a leave-one-out pass in closed form: a
        row's score without what it says itself. That takes n² kernel values.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``: decision values of each row by machines trained without it; NaN
        for rows of weight 0. Class weights and gamma stay those of all rows.
    calibration_ : mercer.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    X_fit_ : ndarray or csr_array of shape (n, p)
    kernel_ : Kernel
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Notes
    -----
    `fit` evaluates nothing, unless there shall be probabilities; a prediction costs n kernel values. It is what a
    support vector machine improves upon: all coefficients equal, no support vectors.

    References
    ----------
    Parzen (1962); Schölkopf & Smola (2002), section 1.2.

    Examples
    --------
    >>> from mercer import ParzenClassifier
    >>> ParzenClassifier(gamma=1.0).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).predict([[2.0], [4.0]])
    array(['a', 'b'], dtype='<U1')
    """

    memory_limit: int | None = None
    verbose = 0

    def __init__(
        self,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        class_weight: str | Mapping[Any, float] | None = None,
        n_jobs: int | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.probability = probability
        self.calibration = calibration

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ParzenClassifier:
        """Remember the rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            >= 0; 0 leaves a row out.

        Returns
        -------
        ParzenClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights.
        """
        check_whole("n_jobs", self.n_jobs)
        self._begin_probabilities()
        self.kernel_, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight)
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.recipe_ = ForParzenClassifier()
        alpha = labels.signs if labels.classes.size == 2 else np.maximum(0.0, labels.signs)
        coefficients = (alpha * labels.weights[:, None])[labels.rows]
        self._keep(data, labels.rows, coefficients, np.zeros(alpha.shape[1]))
        if self._has_probabilities():
            gram = self._gram_of_fit()
            raw = finite(self.kernel_, gram.matvec(coefficients) - coefficients * gram.diag()[:, None])
            self._calibrate(raw, labels, JOINT)
        return self

    def _machine_values(self, X: Any) -> FloatArray:
        return self._values(X)

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes, positive for ``classes_[1]``; (m, n_classes) for more

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.
        """
        return one_column_for_two(self._values(X))

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
