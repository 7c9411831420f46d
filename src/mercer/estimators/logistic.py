"""Linear logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.certificates.status import Status
from mercer.data.arguments import check_choice, check_learning_rate, check_number, check_whole
from mercer.estimators._base import Iterated
from mercer.estimators._labels import read_labels
from mercer.estimators._linear import WithSparseCoefficients
from mercer.estimators._scores import ByLikelihood, log_likelihood
from mercer.estimators._validation import check_table
from mercer.losses import logistic
from mercer.solvers import Progress
from mercer.specs import ForLogisticRegression


class LogisticRegression(ByLikelihood, Iterated, WithSparseCoefficients):
    """Linear logistic regression, by Newton's method or gradient descent, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, x> + b,

        min  1/(2 alpha) ||w||^2 + sum_i s_i ln(1 + exp(-y_i f(x_i))),

    where alpha is `prior_variance`. For more classes, the softmax loss with one f_k for each class is minimised. s_i is
    the weight of the row times the weight of its class. b has no prior.

    Parameters
    ----------
    prior_variance : float, default=1.0
        Variance of the Gaussian prior of every element of w. It corresponds to C of scikit-learn's LogisticRegression.
        Infinity means no prior: `fit` maximises the likelihood.
    solver : {"newton", "gradient"}, default="newton"
        "gradient" takes the textbook's steps w <- w - rate (dl/dw + w / alpha). It is meant for teaching, because it
        needs very many steps if columns differ in scale.
    learning_rate : float, optional
        The step size of "gradient". By default 1 / (a bound of the largest second derivative), so that every step
        decreases the objective.
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-6
        Largest element of the gradient, relative to the size of its column. It has the unit of a probability.
    max_iter : int, default=10000
        Largest number of steps; -1 for no limit.
    max_seconds : float, optional
        Time limit in seconds.
    verbose : int, default=0
        1 writes progress to stderr every five seconds; 2 writes every progress report.
    callback : callable, optional
        As for :class:`mercer.KernelLogisticRegression`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Number of steps.
    trace_ : list of TraceRow
        Violation and objective over time.
    certificate_ : LossCertificate
        Objectives, duality gap (infinite without a prior) and gradient, recomputed in float64.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. Also if the likelihood has no
        maximum, because a hyperplane separates the classes or some of their rows; the certificate then claims no
        optimum.

    Notes
    -----
    For K classes (K = 1 for two classes), a Newton step costs n p² K² / 2 + 9 (p K)³ multiplications, and a fit takes
    some 5 to 15 steps. A gradient step costs n p K multiplications. For wide sparse tables use
    ``KernelLogisticRegression(kernel="linear")``, which stores n² numbers instead of p².

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.4; Albert & Anderson (1984) for likelihoods without a maximum.

    Examples
    --------
    >>> from mercer import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LogisticRegression().fit(X, y)
    >>> machine.n_iter_, round(machine.score(X, y), 3), bool(machine.certificate_.relative_gap < 1e-9)
    (7, 0.973, True)
    """

    spec_: ForLogisticRegression

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss by row, >= 0; a row of weight 0 is ignored.

        Returns
        -------
        LogisticRegression
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, or a weight is negative.
        MemoryError
            If the second derivatives, (p n_outputs)² numbers, need more memory than the computer has; the message says
            how much.
        """
        control = self._control()
        variance = check_number("prior_variance", self.prior_variance, above=0.0)
        rate = check_learning_rate(self.learning_rate)
        check_choice("solver", self.solver, logistic.SOLVERS)
        check_whole("verbose", self.verbose)
        data = check_table(self, X, reset=True, y=y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n)
        objective = log_likelihood(labels, 1.0 / variance, bool(self.fit_intercept))
        found = logistic.minimise(
            objective,
            data.float64()[labels.rows],
            solver=self.solver,
            learning_rate=rate,
            control=control,
        )
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.spec_ = ForLogisticRegression(prior_variance=variance, bias=bool(self.fit_intercept))
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
                f"LogisticRegression {found.certificate.ending} {advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self
