"""Quantile regression with a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer import specs
from mercer.estimators._dual import VectorRegressor
from mercer.estimators._validation import check_finite_penalty, check_quantile
from mercer.kernels import Gamma, Kernel
from mercer.solvers import Progress


class QuantileSVR(VectorRegressor):
    """Kernel quantile regression with the pinball loss, solved exactly and certified.

    **Solves**, with residuals r_i = y_i - f(x_i) and the quantile q,

        min  1/2 ||w||^2 + sum_i C_i max(q r_i, (q - 1) r_i),    f(x) = <w, phi(x)> + b,

    where C_i is C times the weight of the row, through the dual

        max  y' beta - 1/2 beta' K beta   s.t.  C_i (q - 1) <= beta_i <= C_i q,   sum_i beta_i = 0.

    Parameters
    ----------
    quantile : float, default=0.5
        The quantile q, 0 < q < 1. At most a share q of the training rows, by weight, lies below f, and at most 1 - q
        lies above f. Rows within ``certificate_.kkt_violation`` (at most `tol`) plus rounding of f count as neither.
    C : float, default=1.0
        Penalty of a unit of loss, > 0.
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    verbose, max_iter, tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    dual_coef_, intercept_, support_, support_vectors_, n_support_, coef_, kernel_, function_, n_iter_
        See :class:`SVR`.
    fit_status_, spec_, shape_fit_, solution_, certificate_, n_features_in_, feature_names_in_
        See :class:`SVR`. All rows are support vectors, except some rows with f(x_i) = y_i.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    scikit-learn has only a linear quantile regression, with an L1 penalty (`QuantileRegressor`). With q = 1/2, this
    machine is :class:`SVR` with epsilon = 0 and C / 2. Quantiles are fitted independently, so their curves may cross.

    Costs about n * n kernel values.

    References
    ----------
    Takeuchi, Le, Sears & Smola (2006), Nonparametric quantile estimation, equation (8) and lemma 3.

    Examples
    --------
    >>> from mercer import QuantileSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = QuantileSVR(quantile=0.9, C=10.0).fit(X, y)
    >>> round(float((y <= machine.predict(X)).mean()), 1)
    0.9
    """

    def __init__(
        self,
        *,
        quantile: float = 0.5,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        verbose: int = False,
        max_iter: int = -1,
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.quantile = quantile
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.verbose = verbose
        self.max_iter = max_iter
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> QuantileSVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.

        Returns
        -------
        QuantileSVR
            The fitted machine itself.

        Raises
        ------
        ValueError, TypeError
            See :meth:`SVR.fit`.
        """
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, y, sample_weight):
            C, level = check_finite_penalty(self.C), check_quantile(self.quantile)
            self._train(X, y, sample_weight, specs.ForQuantileSVR(C=C, quantile=level))
            return self
