"""A radial basis function network: Gaussian functions around centres, and a linear machine on their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.cluster import by_blocks
from mercer.data import Vectors, as_data
from mercer.data.arguments import check_count, check_whole
from mercer.estimators._arrays import Classifier, by_numpy
from mercer.estimators._callbacks import SupportsCallbacks
from mercer.estimators._labels import read_labels
from mercer.estimators._probabilities import HasProbabilities
from mercer.estimators._validation import check_table
from mercer.estimators.logistic import LogisticRegression
from mercer.geometry import gram_matrix
from mercer.kernels import RBF, Gamma
from mercer.kernels.parameters import gamma_or_rule


def _can(method: str) -> Any:
    return available_if(lambda self: hasattr(LogisticRegression if self.machine is None else self.machine, method))


def _has_probabilities(network: RBFNetworkClassifier) -> bool:
    machine = network.machine
    if machine is not None and not hasattr(machine, "predict_proba"):
        raise AttributeError(
            f"predict_proba is that of the linear machine, and {machine!r} has no predict_proba: take "
            "LogisticRegression(), or a machine of this library with probability=True."
        )
    return True


class RBFNetworkClassifier(SupportsCallbacks, Classifier, BaseEstimator):
    """Radial basis function network: a linear machine on exp(-gamma |x - c_j|^2), the columns of `GaussianBasis`.

    **Solves**, for fixed centres c_j, the problem of its linear machine on phi_j(x) = exp(-gamma |x - c_j|^2). By
    default, for two classes and with v the `prior_variance`, that is

        min  1/(2 v) ||w||^2 + sum_i s_i ln(1 + exp(-y_i (<w, phi(x_i)> + b))),

    where s_i is the weight of the row times the weight of its class.

    Parameters
    ----------
    n_components : int, default=100
        Largest number of centres. There are never more centres than distinct rows.
    centers : {"kmeans", "random"} or array-like of shape (m, p), default="kmeans"
        The centres, or how they are found: by k-means clustering, or as distinct rows at random.
    gamma : float >= 0, "scale" or "auto", default="scale"
        See :class:`mercer.RBF`.
    machine : classifier, optional
        The linear machine, of which a clone is fitted; :class:`mercer.LogisticRegression` by default. The network's
        probabilities are those of this machine. A machine with ``probability=True`` calibrates on exact leave-one-out
        decision values, with the centres of all rows.
    class_weight : {"balanced"} or dict, optional
        Factors of the row weights by class, as for :class:`mercer.SVC`. The linear machine gets them as sample weights,
        in addition to its own class weights; with ``probability=True`` and no class weights, as its class weights.
    random_state : int, RandomState instance or None, default=0
        Seed of the choice of centres.
    n_jobs : int, optional
        Number of threads for the evaluation of the columns.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    centers_ : ndarray of shape (m, p)
    kernel_ : RBF
        The Gaussian kernel, with a number for gamma.
    machine_ : classifier
        The fitted linear machine. Its certificate, if it has one, holds for fixed centres: the problem of centres and
        weights together is not convex.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Notes
    -----
    The centres are found from the distinct rows, each with the sum of its weights, so that a row of weight k counts as
    k copies. Sparse rows are made dense for this, which takes 8 n p bytes.

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
            Weights >= 0; a row of weight 0 is ignored.

        Returns
        -------
        RBFNetworkClassifier
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, or a weight is negative.
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
        weights = labels.weights
        if isinstance(machine, HasProbabilities) and machine._has_probabilities() and machine.class_weight is None:
            # Its probabilities are those of the rows as they are, so it must tell class weights from row weights.
            machine.set_params(class_weight=dict(zip(labels.classes.tolist(), labels.class_weight, strict=True)))
            weights = labels.sample_weight
        if sample_weight is None and self.class_weight is None:
            self.machine_ = machine.fit(columns, targets)
        else:
            self.machine_ = machine.fit(columns, targets, sample_weight=weights[labels.rows])
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
        from sklearn.cluster import KMeans  # takes long

        total = np.bincount(which.ravel(), weights=weights)
        clusters = KMeans(wanted, n_init=1, random_state=random).fit(distinct, sample_weight=total)
        return np.unique(clusters.cluster_centers_, axis=0)

    def _columns(self, data: Vectors) -> FloatArray:
        return gram_matrix(self.kernel_, data, as_data(self.centers_).like(data), n_jobs=self.n_jobs)

    def _new_columns(self, X: Any) -> FloatArray:
        check_is_fitted(self, "machine_")
        data = check_table(self, X, reset=False)
        return self._columns(data)

    def _of_array(self, name: str, X: Any) -> Any:
        """Return the result of a method for an array of another library; see :mod:`mercer.estimators._arrays`."""
        return by_numpy(self, name, X)

    @by_blocks
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
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs a kernel value for each row and centre, and the prediction of the linear machine.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict(columns))

    @_can("decision_function")  # type: ignore[untyped-decorator]
    @by_blocks
    def decision_function(self, X: Any) -> FloatArray:
        """Return the linear machine's decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes, positive for ``classes_[1]``; (m, n_classes) for more
            Another linear machine may return another shape for more than two classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs a kernel value for each row and centre. The method exists only if `machine` has it.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.decision_function(columns))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the linear machine's probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns in the order of `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs a kernel value for each row and centre. The method exists only if `machine` has it.
        """
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict_proba(columns))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the linear machine's probabilities, (m, n_classes)."""
        columns = self._new_columns(X)
        return np.asarray(self.machine_.predict_log_proba(columns))
