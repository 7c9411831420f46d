"""Kernel logistic regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer.data.arguments import check_number
from mercer.estimators._base import Iterated
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._scores import ByLikelihood, log_likelihood
from mercer.kernels import Gamma, Kernel
from mercer.solvers import Progress
from mercer.solvers.smooth import kernel_newton
from mercer.specs import ForKernelLogisticRegression


class KernelLogisticRegression(ByLikelihood, Iterated, EveryRowMachine):
    """Kernel logistic regression by Newton's method with conjugate gradients, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, phi(x)> + b,

        min  1/(2 v) ||w||^2 + sum_i s_i ln(1 + exp(-y_i f(x_i))),

    and for more classes, with one f_k for each,

        min  1/(2 v) sum_k ||w_k||^2 + sum_i s_i (ln sum_k exp f_k(x_i) - f_{y_i}(x_i)):

    The minimum is the most probable w given the labels, if every coordinate of w has a Gaussian prior of variance v.
    s_i is the weight of the row times the weight of its class. b has no prior.

    Parameters
    ----------
    prior_variance : float, default=1.0
        The variance v, > 0 and finite. It corresponds to C of `SVC`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-6
        Largest violation of a row's optimality condition v⁻¹ beta_i = -s_i dL_i/df, relative to s_i. It has the unit
        of a probability.
    max_iter : int, default=200
        Largest number of Newton steps; -1 for no limit. Most fits take 5 to 30 steps, and about 100 if v is very large.
    max_seconds : float, optional
        Time limit of the training, in seconds. The certificate takes additional time.
    memory_limit : int, optional
        Largest size of the stored Gram matrix in bytes; default 1 GiB. A larger matrix is not stored: its values are
        computed again in each product.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them.
    verbose : int, default=0
        1 writes progress to stderr every five seconds; 2 writes every progress report.
    callback : callable, optional
        Function that is called about every 50 ms with a :class:`mercer.solvers.Progress`, whose `dual` is the
        objective. If it returns a true value, the fit stops.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (1 or n_classes, n)
        Coefficients of all training rows. Only rows of weight 0 have coefficients 0.
    intercept_ : ndarray of shape (1 or n_classes,)
    X_fit_ : ndarray or csr_array of shape (n, p)
        The training rows.
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Number of Newton steps.
    trace_ : list of TraceRow
        Violation and objective over time.
    certificate_ : Certificate
        Objectives, duality gap and violation, recomputed in float64 independently of the solver.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. The machine can still predict.
    IndefiniteKernelWarning
        If the kernel is not positive semidefinite on the training rows, or is not proved to be.

    Notes
    -----
    Costs n² kernel values, 8 n² bytes (at most `memory_limit`), and some 5 to 20 Newton steps. Each step takes some 5
    to 100 products with the Gram matrix, at most 1000.

    If the Gram matrix is singular (for instance with a linear kernel on few columns), many coefficient vectors give the
    same decision function. The stored coefficients are the only ones that meet the optimality condition of every row.

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

    spec_: ForKernelLogisticRegression

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
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss by row, >= 0; a row of weight 0 is ignored.

        Returns
        -------
        KernelLogisticRegression
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, a weight is negative, or kernel values overflow.
        """
        control = self._control()
        variance = check_number("prior_variance", self.prior_variance, above=0.0)
        if not np.isfinite(variance):
            raise ValueError(
                f"prior_variance must be a finite number > 0, got {self.prior_variance!r}: in a kernel's space the "
                "likelihood has no maximum."
            )
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight)
        gram = self._gram(kernel, data, labels.rows)
        objective = log_likelihood(labels, 1.0 / variance, bool(self.fit_intercept))
        solution = kernel_newton.minimise(objective, gram, control=control)
        self._keep_classes(kernel, data, labels, solution.beta, solution.bias)
        self.spec_ = ForKernelLogisticRegression(prior_variance=variance, bias=bool(self.fit_intercept))
        self.certificate_, self.n_iter_, self.trace_ = solution.certificate, solution.n_iter, solution.trace
        self._warn(gram, solution.certificate)
        return self
