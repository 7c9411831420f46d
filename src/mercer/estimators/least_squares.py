"""Classifiers by least squares: regression on labels, linear and with a kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.arguments import check_number
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.labels import one_column_for_two, read_labels
from mercer.estimators.probabilities import HasProbabilities
from mercer.estimators.rows import check_table
from mercer.kernels import Gamma, Kernel
from mercer.machines import least_squares, ridge
from mercer.machines.certificate import LossCertificate
from mercer.multiclass import winners
from mercer.recipes import ForLeastSquaresClassifier, ForLeastSquaresSVC
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]


class LeastSquaresSVC(HasProbabilities, EveryRowMachine):
    """Least-squares support vector classifier: a linear system in the place of a quadratic program.

    **Solves** for two classes, y_i = +1 or -1, or else for each class against the rest,

        min  1/2 ||w||^2 + 1/2 sum_i C_i (y_i - f(x_i))^2,    f(x) = <w, phi(x)> + b,

    by (K + diag(1/C)) beta + 1 b = y, sum_i beta_i = 0, C_i being C times the weights of the row and of its class. The
    objectives of `certificate_` are those of `KernelRidge` with alpha = 1/C: 1/C times this, summed over the machines.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, > 0 and finite.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    class_weight : {"balanced"} or dict, optional
        Factors of C by class.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them.
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a leave-one-out pass in closed form.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (1 or n_classes, n)
        beta of every machine; 0 for rows of weight 0. It is rarely 0 anywhere else: there are no support vectors.
    intercept_ : ndarray of shape (1 or n_classes,)
    X_fit_ : ndarray or csr_array of shape (n, p)
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        Decision values of each row by machines trained without it, in closed form; computed on first use. NaN for rows
        of weight 0. Class weights and gamma stay those of all rows.
    loo_score_ : float
        Accuracy of these, rows counted by their sample weights times class weights.
    calibration_ : mercer.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    certificate_ : LossCertificate
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Notes
    -----
    Costs n²/2 kernel values, n³/3 multiplications in LAPACK and 8 n² bytes, whatever the number of classes.

    References
    ----------
    Suykens & Vandewalle (1999); Cawley & Talbot (2004) for leave-one-out.

    Examples
    --------
    >>> from mercer import LeastSquaresSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LeastSquaresSVC(C=10.0).fit(X, y)
    >>> round(machine.score(X, y), 3), round(machine.loo_score_, 3)
    (0.987, 0.98)
    """

    memory_limit: int | None = None
    verbose = 0

    def __init__(
        self,
        C: float = 1.0,
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
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.probability = probability
        self.calibration = calibration

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LeastSquaresSVC:
        """Solve the system.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        LeastSquaresSVC
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights; and for kernel values that overflow.
        """
        C = check_number("C", self.C, above=0.0)
        if not np.isfinite(C):
            raise ValueError(f"C must be a finite number > 0, got {self.C!r}; SVC has a maximal margin.")
        self._begin_probabilities()
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight)
        gram = self._gram(kernel, data, labels.rows)
        targets = labels.signs
        penalty = np.full(targets.shape[1], 1.0 / C)
        solved = ridge.solve(
            gram, targets[labels.rows], penalty, labels.weights[labels.rows], has_bias=True, n_jobs=self.n_jobs
        )
        self._keep_classes(kernel, data, labels, solved.beta, solved.bias)
        self._solved, self._labels, self._penalty = solved, labels, penalty
        self.recipe_ = ForLeastSquaresSVC(C=C)
        self.__dict__.pop("_loo", None)
        self._warn(gram, solved.certificate)
        if self._has_probabilities():
            raw = self._without_rows()[labels.rows]
            unknown = np.isnan(raw).any(axis=1)
            if unknown.any():
                raise ValueError(
                    "probability=True needs decision values without each row, but without row "
                    f"{labels.rows[unknown][0]} (counted from 0) the system is singular. Use another kernel or C."
                )
            self._calibrate(raw, labels, "ovr")
        return self

    def _machine_values(self, X: Any) -> FloatArray:
        return self._values(X)

    @property
    def certificate_(self) -> LossCertificate:
        """Objectives, duality gap and residual, recomputed in float64 apart from the solver."""
        check_is_fitted(self, "X_fit_")
        return self._solved.certificate

    @property
    def loo_decision_(self) -> FloatArray:
        """Decision values of machines each trained without its row, in closed form."""
        check_is_fitted(self, "X_fit_")
        return one_column_for_two(self._without_rows())

    def _without_rows(self) -> FloatArray:
        """Decision values of machines each trained without its row, (n, n_machines)."""
        if not hasattr(self, "_loo"):
            rows = self._labels.rows
            self._loo = np.full(self._coefficients.shape, np.nan)
            self._loo[rows] = self._labels.signs[rows] - ridge.leave_one_out(
                self._gram_of_fit(),
                self._solved.beta,
                self._penalty,
                self._labels.weights[rows],
                has_bias=True,
                n_jobs=self.n_jobs,
            )
        return self._loo

    @property
    def loo_score_(self) -> float:
        """Accuracy of the leave-one-out decisions."""
        return _weighted_accuracy(self.loo_decision_, self._labels.codes, self._labels.weights)

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

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
        """Return the class with the largest decision value of each row.

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
        Costs what `decision_function` does: m n kernel values. Of equal ones, the smaller class wins.
        """
        scores = self.decision_function(X)
        return self.classes_[winners(scores)]


class LeastSquaresClassifier(HasProbabilities, BaseEstimator):
    """Linear classifier by regression on the labels.

    **Solves** for two classes, y_i = +1 or -1, or else for each class against the rest,

        min  alpha/2 ||w||^2 + 1/2 sum_i s_i (y_i - <w, x_i> - b)^2,

    s_i being the weights of the row times that of its class.

    Parameters
    ----------
    alpha : float >= 0, default=0.0
        Penalty. With 0 and fewer rows than columns, the solution of least norm.
    class_weight : {"balanced"} or dict, optional
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a leave-one-out pass in closed form.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        Decision values of each row by machines trained without it, in closed form; NaN for rows of weight 0.
    loo_score_ : float
        Accuracy of these, rows counted by their weights.
    calibration_ : mercer.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    certificate_ : LossCertificate
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning
        If rounding hides the optimum, as where columns are of very different sizes. The machine is usable.

    Notes
    -----
    Costs some 4 n p min(n, p) multiplications. Sparse rows are made dense, 8 n p bytes; for wide sparse tables use
    ``LeastSquaresSVC(kernel="linear")``, which takes n² numbers instead.

    The squared loss also penalises rows that are far on the right side: `SVC` and `LogisticRegression` do not.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.2.

    Examples
    --------
    >>> from mercer import LeastSquaresClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LeastSquaresClassifier().fit(X, y)
    >>> round(machine.score(X, y), 3), round(machine.loo_score_, 3)
    (0.965, 0.958)
    """

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        class_weight: str | Mapping[Any, float] | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
    ) -> None:
        self.alpha = alpha
        self.class_weight = class_weight
        self.probability = probability
        self.calibration = calibration

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LeastSquaresClassifier:
        """Solve the least-squares problem.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            >= 0; 0 leaves a row out.

        Returns
        -------
        LeastSquaresClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            For a negative alpha; for X that holds text, NaN or infinity; for y of another length or of one class; for
            negative weights.
        """
        alpha = check_number("alpha", self.alpha, at_least=0.0, finite=True)
        self._begin_probabilities()
        table = check_table(self, X, reset=True, y=y).dense()
        labels = read_labels(y, sample_weight, self.class_weight, table.shape[0])
        rows = labels.rows
        fitted = least_squares.solve(table[rows], labels.signs[rows], alpha, labels.weights[rows])
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.recipe_ = ForLeastSquaresClassifier(alpha=alpha)
        self.coef_, self.intercept_ = np.ascontiguousarray(fitted.w.T), fitted.bias
        decision = np.full((table.shape[0], fitted.bias.size), np.nan)
        decision[rows] = labels.signs[rows] - fitted.leave_one_out
        self.loo_decision_ = one_column_for_two(decision)
        self.loo_score_ = _weighted_accuracy(self.loo_decision_, labels.codes, labels.weights)
        self.certificate_ = fitted.certificate
        if fitted.certificate.status is not Status.OPTIMAL:
            warnings.warn(
                f"LeastSquaresClassifier ended as `{fitted.certificate.status}`: violation "
                f"{fitted.certificate.violation:.3g} (tolerance {fitted.certificate.tol:g}), relative duality gap "
                f"{fitted.certificate.relative_gap:.3g}. {fitted.certificate.status.advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        if self._has_probabilities():
            self._calibrate(decision[rows], labels, "ovr")
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values <w, x> + b.

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
        return one_column_for_two(self._machine_values(X))

    def _machine_values(self, X: Any) -> FloatArray:
        check_is_fitted(self, "coef_")
        rows = check_table(self, X, reset=False)
        return np.asarray(rows.float64() @ self.coef_.T + self.intercept_)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest decision value of each row.

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
        Costs m p multiplications for each output. Of equal decision values, the smaller class wins.
        """
        scores = self.decision_function(X)
        return self.classes_[winners(scores)]


def _weighted_accuracy(decision: FloatArray, codes: npt.NDArray[np.int64], weights: FloatArray) -> float:
    """Share of rows on the right side, among those that have a decision."""
    known = np.isfinite(decision if decision.ndim == 1 else decision.sum(axis=1)) & (weights > 0.0)
    if not known.any():
        return float("nan")
    return float(np.average(winners(decision[known]) == codes[known], weights=weights[known]))
