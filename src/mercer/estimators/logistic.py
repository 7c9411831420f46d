"""Logistic regression, with a kernel and linear."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.arguments import check_choice, check_number, check_whole
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.iterated import Iterated
from mercer.estimators.labels import Labels, one_column_for_two, read_labels
from mercer.estimators.rows import check_table
from mercer.kernels import Gamma, Kernel
from mercer.machines import kernel_newton, logistic
from mercer.machines.objective import Logistic, Objective, Softmax
from mercer.multiclass import winners
from mercer.recipes import ForKernelLogisticRegression, ForLogisticRegression
from mercer.solvers import Progress
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]


class _Likelihood(ClassifierMixin, ABC):
    """Predictions of machines whose decision values are log-odds."""

    classes_: npt.NDArray[Any]

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes
            Log-odds of ``classes_[1]``.
        ndarray of shape (m, n_classes) for more
            Logarithms of the probabilities, up to a constant for each row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.
        """
        return one_column_for_two(self._scores(X))

    @abstractmethod
    def _scores(self, X: Any) -> FloatArray:
        """Decision values, one column for two classes."""

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

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
        Costs what `decision_function` does; of equal ones, the smaller class wins.
        """
        scores = self.decision_function(X)
        return self.classes_[winners(scores)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

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
        Costs what `decision_function` does.
        """
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of `classes_`. Finite where `predict_proba` is 0 because float64 ends.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs what `decision_function` does.
        """
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return np.column_stack([-np.logaddexp(0.0, scores[:, 0]), -np.logaddexp(0.0, -scores[:, 0])])
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def _objective(labels: Labels, penalty: float, has_bias: bool) -> Objective:
    """Minus the log-likelihood of the rows that take part, and the penalty."""
    codes, weights = labels.codes[labels.rows], labels.weights[labels.rows]
    if labels.classes.size == 2:
        return Objective(Logistic(np.where(codes == 1, 1.0, -1.0)), weights, np.array([penalty]), has_bias)
    return Objective(Softmax(codes), weights, np.full(labels.classes.size, penalty), has_bias)


class KernelLogisticRegression(_Likelihood, Iterated, EveryRowMachine):
    """Logistic regression in a kernel's space, by Newton's method with conjugate gradients, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, phi(x)> + b,

        min  1/(2 v) ||w||^2 + sum_i s_i ln(1 + exp(-y_i f(x_i))),

    and for more classes, with one f_k for each,

        min  1/(2 v) sum_k ||w_k||^2 + sum_i s_i (ln sum_k exp f_k(x_i) - f_{y_i}(x_i)):

    the most probable w given the labels, under a Gaussian prior of variance v on every coordinate of w. s_i is the
    weight of the row times that of its class. b has no prior.

    Parameters
    ----------
    prior_variance : float, default=1.0
        v, > 0 and finite; what C is to `SVC`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    fit_intercept : bool, default=True
        Whether there is a b.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-6
        Largest deviation of a row from its optimality condition v⁻¹ beta_i = -s_i dL_i/df, relative to s_i: it is one
        of a probability.
    max_iter : int, default=200
        Most Newton steps; -1 for no limit. Most fits take 5 to 30, those with hardly any penalty some 100.
    max_seconds : float, optional
        Wall-clock limit of the training; the certificate comes on top.
    memory_limit : int, optional
        Bytes that the Gram matrix may take; default 1 GiB. A larger one is evaluated anew for each product with it.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them.
    verbose : int, default=0
        2 shows progress on stderr.
    callback : callable, optional
        Called about every 50 ms with a :class:`mercer.solvers.Progress`, whose `dual` is the objective; returning True
        stops the fit.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (1 or n_classes, n)
        Coefficients of all rows: none is 0 but for rows of weight 0.
    intercept_ : ndarray of shape (1 or n_classes,)
    X_fit_ : ndarray or csr_array of shape (n, p)
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Newton steps.
    trace_ : list of TraceRow
        Violation and objective over time.
    certificate_ : LossCertificate
        Objectives, duality gap and violation, recomputed in float64 apart from the solver.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. The machine is usable.
    IndefiniteKernelWarning
        If the kernel is not positive semidefinite on the training rows, or not known to be.

    Notes
    -----
    Costs n² kernel values and 8 n² bytes within `memory_limit`, and some 5 to 20 Newton steps of some 5 to 100 products
    with the matrix each; never more than 1000.

    Where the kernel has fewer directions than there are rows (a linear one on few columns), many coefficients give the
    same machine; these are the only ones that meet the optimality condition of every row.

    References
    ----------
    Zhu & Hastie (2005); Keerthi, Duan, Shevade & Poo (2005) for the dual; Bishop (2006), sections 4.3 and 6.4.

    Examples
    --------
    >>> from mercer import KernelLogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelLogisticRegression(prior_variance=10.0).fit(X, y)
    >>> str(machine.certificate_.status), machine.predict_proba(X[:1]).round(2)
    ('optimal', array([[0.99, 0.01, 0.  ]]))
    """

    def __init__(
        self,
        prior_variance: float = 1.0,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        fit_intercept: bool = True,
        class_weight: str | Mapping[Any, float] | None = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.prior_variance = prior_variance
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelLogisticRegression:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss, >= 0; 0 leaves a row out.

        Returns
        -------
        KernelLogisticRegression
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights; and for kernel values that overflow.
        """
        limits, listener = self._limits(), self._listener()
        variance = check_number("prior_variance", self.prior_variance, above=0.0)
        if not np.isfinite(variance):
            raise ValueError(
                f"prior_variance must be a finite number > 0, got {self.prior_variance!r}: in a kernel's space the "
                "likelihood has no maximum."
            )
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight)
        gram = self._gram(kernel, data, labels.rows)
        objective = _objective(labels, 1.0 / variance, bool(self.fit_intercept))
        found = kernel_newton.minimise(objective, gram, limits=limits, callback=listener)
        self._keep_classes(kernel, data, labels, found.beta, found.bias)
        self.recipe_ = ForKernelLogisticRegression(prior_variance=variance, bias=bool(self.fit_intercept))
        self.certificate_, self.n_iter_, self.trace_ = found.certificate, found.n_iter, found.trace
        self._warn(gram, found.certificate)
        return self

    def _scores(self, X: Any) -> FloatArray:
        return self._values(X)


class LogisticRegression(_Likelihood, Iterated, BaseEstimator):
    """Linear logistic regression, by Newton's method or gradient descent, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, x> + b,

        min  1/(2 alpha) ||w||^2 + sum_i s_i ln(1 + exp(-y_i f(x_i))),

    alpha being `prior_variance`, and for more classes the same with one f_k for each (softmax). s_i is the weight of
    the row times that of its class. b has no prior.

    Parameters
    ----------
    prior_variance : float, default=1.0
        Variance of the Gaussian prior on every element of w: what C is to scikit-learn's LogisticRegression. Infinity
        asks for the maximum of the likelihood.
    solver : {"newton", "gradient"}, default="newton"
        "gradient" takes steps w <- w - rate (dl/dw + w / alpha), as textbooks have it: to be looked at. On columns of
        different scales it needs very many.
    learning_rate : float, optional
        The rate. By default 1 / (a bound on the largest second derivative), with which the objective always falls.
    fit_intercept : bool, default=True
        Whether there is a b.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-6
        Largest element of the gradient, relative to the column's size: it is one of a probability.
    max_iter : int, default=10000
        Most steps; -1 for no limit.
    max_seconds : float, optional
        Wall-clock limit.
    verbose : int, default=0
        2 shows progress on stderr.
    callback : callable, optional
        As for :class:`mercer.KernelLogisticRegression`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Steps.
    trace_ : list of TraceRow
        Violation and objective over time.
    certificate_ : LossCertificate
        Objectives, duality gap (infinite without a prior) and gradient, recomputed in float64.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met; and where the likelihood has no
        maximum, for a hyperplane separates the classes, or some rows of them: no optimum is claimed then.

    Notes
    -----
    A step of Newton's method costs n p² K² / 2 multiplications and some 9 (p K)³ for K classes (K = 1 for two), for
    some 5 to 15 steps; one of gradient descent n p K. For wide sparse tables
    ``KernelLogisticRegression(kernel="linear")`` takes n² numbers instead of p².

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.4; Albert & Anderson (1984) for where there is no maximum.

    Examples
    --------
    >>> from mercer import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LogisticRegression().fit(X, y)
    >>> machine.n_iter_, round(machine.score(X, y), 3), bool(machine.certificate_.relative_gap < 1e-9)
    (7, 0.973, True)
    """

    def __init__(
        self,
        prior_variance: float = 1.0,
        *,
        solver: str = "newton",
        learning_rate: float | None = None,
        fit_intercept: bool = True,
        class_weight: str | Mapping[Any, float] | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.prior_variance = prior_variance
        self.solver = solver
        self.learning_rate = learning_rate
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss, >= 0; 0 leaves a row out.

        Returns
        -------
        LogisticRegression
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights.
        """
        limits, listener = self._limits(), self._listener()
        variance = check_number("prior_variance", self.prior_variance, above=0.0)
        rate = None if self.learning_rate is None else check_number("learning_rate", self.learning_rate, above=0.0)
        check_choice("solver", self.solver, logistic.SOLVERS)
        check_whole("verbose", self.verbose)
        data = check_table(self, X, reset=True, y=y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n)
        objective = _objective(labels, 1.0 / variance, bool(self.fit_intercept))
        found = logistic.minimise(
            objective,
            data.float64()[labels.rows],
            solver=self.solver,
            learning_rate=rate,
            limits=limits,
            callback=listener,
        )
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.recipe_ = ForLogisticRegression(prior_variance=variance, bias=bool(self.fit_intercept))
        self.coef_, self.intercept_ = np.ascontiguousarray(found.w.T), found.bias
        self.certificate_, self.n_iter_, self.trace_ = found.certificate, found.n_iter, found.trace
        status = found.certificate.status
        if status is not Status.OPTIMAL:
            advice = status.advice
            if status is Status.STALLED and np.isinf(variance):
                advice = (
                    "A hyperplane separates the classes, or some rows of them, so that the likelihood has no maximum, "
                    "or rounding hides it. Set a finite prior_variance."
                )
            warnings.warn(
                f"LogisticRegression ended as `{status}`: violation {found.certificate.violation:.3g} (tolerance "
                f"{limits.tol:g}), relative duality gap {found.certificate.relative_gap:.3g}. {advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self, "coef_")
        rows = check_table(self, X, reset=False)
        return np.asarray(rows.float64() @ self.coef_.T + self.intercept_)
