"""A radial basis function network: Gaussian bumps around centres, and a linear machine on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.data import Vectors, as_data
from mercer.data.arguments import check_count, check_whole
from mercer.estimators.labels import read_labels
from mercer.estimators.logistic import LogisticRegression
from mercer.estimators.rows import check_table
from mercer.geometry import gram_matrix
from mercer.kernels import RBF, Gamma
from mercer.kernels.parameters import gamma_or_rule


def _can(method: str) -> Any:
    return available_if(lambda self: hasattr(LogisticRegression if self.machine is None else self.machine, method))


def _has_probabilities(network: RBFNetworkClassifier) -> bool:
    machine = network.machine
    if machine is not None and not hasattr(machine, "predict_proba"):
        raise AttributeError(
            f"predict_proba is that of the linear machine, and {machine!r} has none: take LogisticRegression(), or a "
            "machine of this library with probability=True."
        )
    return True


class RBFNetworkClassifier(ClassifierMixin, BaseEstimator):
    """Radial basis function network: a linear machine on exp(-gamma |x - c_j|^2), the columns of `GaussianBasis`.

    **Solves**, once the centres c_j are found, what its linear machine does on phi_j(x) = exp(-gamma |x - c_j|^2); by
    default, with v its `prior_variance` and for two classes,

        min  1/(2 v) ||w||^2 + sum_i s_i ln(1 + exp(-y_i (<w, phi(x_i)> + b))),

    s_i being the weight of the row times that of its class.

    Parameters
    ----------
    n_components : int, default=100
        Most centres to be found; there are no more than distinct rows.
    centers : {"kmeans", "random"} or array-like of shape (m, p), default="kmeans"
        The centres themselves, or how they are found: those of a k-means clustering, or distinct rows at random.
    gamma : float >= 0, "scale" or "auto", default="scale"
        As for :class:`mercer.RBF`.
    machine : classifier, optional
        The linear machine; a copy of it is fitted. :class:`mercer.LogisticRegression` by default. Its probabilities are
        the network's: of a machine with ``probability=True``, calibrated on exact leave-one-out decision values, with
        the centres of all rows.
    class_weight : {"balanced"} or dict, optional
        Factors of the weights of rows, as for :class:`mercer.SVC`. The machine gets them as weights of rows, besides
        class weights of its own.
    random_state : int, RandomState instance or None, default=0
        Makes the choice of centres repeatable.
    n_jobs : int, optional
        Threads of the columns' evaluation.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    centers_ : ndarray of shape (m, p)
    kernel_ : RBF
        With gamma as a number.
    machine_ : classifier
        The fitted one. Its certificate, where it has one, is that of the weights given the centres: the whole network
        is no convex problem.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Notes
    -----
    The centres are found on the distinct rows, each with the sum of its weights, so that a weight of k is k copies.
    Sparse rows are made dense for that, 8 n p bytes.

    References
    ----------
    Broomhead & Lowe (1988); Moody & Darken (1989).

    Examples
    --------
    >>> from mercer import RBFNetworkClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(RBFNetworkClassifier(20).fit(X, y).score(X, y), 2)
    0.93
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        centers: Any = "kmeans",
        gamma: Gamma = "scale",
        machine: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.centers = centers
        self.gamma = gamma
        self.machine = machine
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RBFNetworkClassifier:
        """Find the centres, and fit the linear machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            >= 0; 0 leaves a row out.

        Returns
        -------
        RBFNetworkClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights.
        """
        spec = RBF(gamma=gamma_or_rule(self.gamma))
        check_whole("n_jobs", self.n_jobs)
        data = check_table(self, X, reset=True, y=y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n)
        self.kernel_ = spec.resolve(data, labels.uneven_weights)
        self.centers_ = self._found_centers(data.rows(labels.rows), labels.weights[labels.rows])
        machine = LogisticRegression() if self.machine is None else clone(self.machine)
        targets = labels.classes[labels.codes[labels.rows]]
        columns = self._columns(data.rows(labels.rows))
        if sample_weight is None and self.class_weight is None:
            self.machine_ = machine.fit(columns, targets)
        else:
            self.machine_ = machine.fit(columns, targets, sample_weight=labels.weights[labels.rows])
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        return self

    def _found_centers(self, data: Vectors, weights: FloatArray) -> FloatArray:
        if not isinstance(self.centers, str):
            given = as_data(self.centers)
            problem = given.finite_problem()
            if problem is not None:
                raise ValueError(f"centers must be finite, but {problem}.")
            if given.p != data.p:
                raise ValueError(f"centers must have the {data.p} columns of X, got {given.p}.")
            return given.dense()
        if self.centers not in ("kmeans", "random"):
            raise ValueError(f'centers must be "kmeans", "random" or an array of shape (m, p), got {self.centers!r}.')
        wanted = check_count("n_components", self.n_components)
        distinct, which = np.unique(data.dense(), axis=0, return_inverse=True)
        if distinct.shape[0] <= wanted:
            return distinct
        random = check_random_state(self.random_state)
        if self.centers == "random":
            return distinct[np.sort(random.choice(distinct.shape[0], wanted, replace=False))]
        total = np.bincount(which.ravel(), weights=weights)
        found = KMeans(wanted, n_init=1, random_state=random).fit(distinct, sample_weight=total)
        return np.unique(found.cluster_centers_, axis=0)

    def _columns(self, data: Vectors) -> FloatArray:
        return gram_matrix(self.kernel_, data, as_data(self.centers_).like(data), n_jobs=self.n_jobs)

    def _new_columns(self, X: Any) -> FloatArray:
        check_is_fitted(self, "machine_")
        data = check_table(self, X, reset=False)
        return self._columns(data)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class that the linear machine predicts for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

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
        Costs a kernel value for each row and centre, and what the linear machine takes.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict(columns))

    @_can("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Return the linear machine's decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes, positive for ``classes_[1]``; (m, n_classes) for more
            Or what the machine makes of more classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs a kernel value for each row and centre. There where `machine` has it.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.decision_function(columns))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the linear machine's probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs a kernel value for each row and centre. There where `machine` has it.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict_proba(columns))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the linear machine's probabilities, (m, n_classes)."""
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict_log_proba(columns))
