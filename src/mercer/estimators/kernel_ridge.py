"""Kernel ridge regression."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import MultiOutputMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate
from mercer.cluster import by_blocks
from mercer.data import Data
from mercer.data.arguments import check_number
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import Regressor
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._validation import check_columns_of_targets, check_sample_weight
from mercer.gram import Gram
from mercer.kernels import Callable as FunctionKernel
from mercer.kernels import Gamma, Kernel, Laplacian, as_kernel
from mercer.kernels.parameters import DISTANCE_RULES, gamma_or_rule, integer, real
from mercer.problems.smooth import Objective, Squared
from mercer.solvers.smooth import ridge
from mercer.specs import ForKernelRidge


def _additive_chi2(a: Any, b: Any) -> Any:
    from sklearn.metrics.pairwise import additive_chi2_kernel  # takes long

    return additive_chi2_kernel(a, b)


_ADDITIVE = FunctionKernel(_additive_chi2)


class KernelRidge(MultiOutputMixin, Regressor, EveryRowMachine):
    """Kernel ridge regression, in closed form and certified.

    **Solves** for each target, with f(x) = <w, phi(x)> and s_i the sample weights,

        min  alpha/2 ||w||^2 + 1/2 sum_i s_i (y_i - f(x_i))^2

    by the linear system (K + alpha diag(1/s)) beta = y, f(x) = sum_i beta_i k(x_i, x).

    Parameters
    ----------
    alpha : float >= 0 or array-like of shape (n_targets,), default=1
        Penalty, one for all targets or one for each. 0 interpolates.
    kernel : str, Kernel or callable, default="linear"
        "linear", "poly" or "polynomial", "rbf", "sigmoid", "precomputed", "additive_chi2", "chi2", "cosine",
        "laplacian", and all others of `mercer.kernels.NAMES`. A function gets two single rows and returns a number, as
        in scikit-learn; kernels of Gaussian processes, and a function given as ``mercer.kernels.Callable(function)``,
        get two blocks of rows and return the matrix of values between them.
    gamma : float, {"scale", "auto"} or None, default=None
        None is 1 / n_features ("auto"), and 1 for the chi2 kernel.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict, optional
        Further arguments of a callable kernel.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    max_seconds : float, optional
        Ends `fit` or `path` with a StoppedError, and leaves the machine as it was. Ctrl-C does so with
        KeyboardInterrupt.
    memory_limit : int, optional
        Bytes that the linear system may take beside the input. None or 0: no limit.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n,) or (n, n_targets)
        beta; 0 for rows of weight 0.
    X_fit_ : ndarray, csr_array or csr_matrix of shape (n, p)
        The training rows; the kernel matrix where that was given.
    kernel_ : Kernel
        The kernel with numbers for all its parameters.
    alpha_ : float or ndarray of shape (n_targets,)
        The penalty used.
    loo_residuals_ : ndarray of shape (n,) or (n, n_targets)
        y_i - f(x_i) with f trained without row i, in closed form; computed on first use (a second factorisation and an
        inverse). NaN for rows of weight 0, and where the system has no inverse. What depends on the data as a whole,
        gamma="scale" say, stays as it is.
    certificate_ : Certificate
        Objectives, duality gap and residual, recomputed in float64 apart from the solver.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, StoppedError, MemoryError
        In `fit`, which says when.

    Warns
    -----
    UserWarning
        If K + alpha diag(1/s) is singular or indefinite: the coefficients are the least-squares solution of least norm.
    IndefiniteKernelWarning
        If the kernel is not positive semidefinite on the training rows, or is not proved to be.

    Notes
    -----
    Differs from scikit-learn's: a weight of 0 is absence; negative weights are errors; there is a
    certificate. Where the system is singular, weights are taken into account.

    Costs n²/2 kernel values, n³/3 multiplications in LAPACK, and 8 n² bytes; different penalties, and
    :meth:`path`, an eigendecomposition in their place: some 9 n³ and 24 n².

    References
    ----------
    Saunders, Gammerman & Vovk (1998); Cawley & Talbot (2004) for leave-one-out; Hastie, Tibshirani & Friedman (2009),
    section 5.8.

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> machine = KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> machine.predict([[1.0]]).round(3), machine.loo_residuals_.round(3)
    (array([0.883]), array([-0.37,  1.  , -0.37]))
    """

    verbose = 0

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: str | Kernel | Callable[..., Any] = "linear",
        gamma: Gamma | None = None,
        degree: int = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma  # type: ignore[assignment]
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit

    def _kernel_asked_for(self) -> Kernel:
        asked = self.kernel
        integer("degree", self.degree)
        real("coef0", self.coef0)
        if self.gamma is not None:
            gamma_or_rule(self.gamma, DISTANCE_RULES)
        if not isinstance(self.kernel_params, dict | None):
            raise TypeError(f"kernel_params must be a dict or None, got {self.kernel_params!r}")
        if isinstance(asked, str) and asked == "additive_chi2":  # no kernel, but scikit-learn has it
            return _ADDITIVE
        if callable(asked) and not isinstance(asked, (Kernel, type)):
            from sklearn.gaussian_process.kernels import Kernel as OfGaussianProcess  # takes long

            function = partial(asked, **self.kernel_params) if self.kernel_params else asked
            return FunctionKernel(function, pairwise=not isinstance(asked, OfGaussianProcess))
        unknown: Gamma = 1.0 if isinstance(asked, str) and asked == "chi2" else "auto"
        gamma = unknown if self.gamma is None else self.gamma
        return as_kernel(asked, degree=self.degree, gamma=gamma, coef0=self.coef0)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Solve the system.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``.
        y : array-like of shape (n,) or (n, n_targets)
        sample_weight : float or array-like of shape (n,), optional
            Factors of the squared residuals, >= 0; 0 leaves a row out.

        Returns
        -------
        KernelRidge
            The fitted machine itself.

        Raises
        ------
        ValueError
            For parameters out of their range; for X or y that hold text, NaN or infinity; for y of another length; for
            negative weights; and for kernel values that overflow.
        TypeError
            For y that holds dates or times.
        StoppedError
            If `max_seconds` came before the linear system was solved.
        MemoryError
            If `memory_limit`, or the memory of the system, does not suffice. It says how much is needed.
        """
        check = self._raise_when_stopped(self.max_seconds, time.perf_counter())
        kernel, data, gram, targets, weights = self._read(X, y, sample_weight)
        is_table, columns = targets.ndim == 2, targets.reshape(data.n, -1)
        rows = np.flatnonzero(weights > 0.0)
        penalty = self._penalties(columns.shape[1])
        solved = ridge.solve(
            gram,
            Objective(Squared(columns[rows]), weights[rows], penalty, has_bias=False),
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
            check=check,
        )
        self.kernel_, self._solved, self._has_columns = kernel, solved, is_table
        self._dtype = _precision(kernel, data, y, sample_weight).name
        self.__dict__.pop("_loo", None)
        self.spec_ = ForKernelRidge(alpha=float(penalty[0]))  # of one target
        self.alpha_ = float(penalty[0]) if (penalty == penalty[0]).all() else penalty
        self._store_fit(data, rows, solved.beta, solved.bias)
        if sp.isspmatrix(X):
            self.X_fit_ = sp.csr_matrix(self.X_fit_)
        self.dual_coef_ = self._shaped(self._coefficients)
        if not solved.is_definite:
            warn_user(
                "the matrix K + alpha diag(1 / sample_weight) is not positive definite: the coefficients are its "
                "least-squares solution of least norm. Raise alpha for a unique one.",
                UserWarning,
            )
        self._warn(gram, solved.certificate)
        return self

    def path(self, X: Any, y: Any, alphas: Any, sample_weight: Any = None) -> ridge.RidgePath:
        """Return the machines for several penalties and their leave-one-out errors; nothing is fitted.

        Parameters
        ----------
        X, y, sample_weight
            See :meth:`fit`.
        alphas : array-like of shape (n_penalties,)
            All >= 0.

        Returns
        -------
        RidgePath
            `coefficients` of shape (n_penalties, n, n_targets), `leave_one_out_errors` of shape (n_penalties,
            n_targets): weighted means of the squared leave-one-out residuals; `best`, which penalty has the least; and
            `solved`, whether residuals are within the tolerance.

        Raises
        ------
        ValueError, StoppedError, MemoryError
            As :meth:`fit`.

        Warns
        -----
        UserWarning
            If a system is singular, or too badly conditioned to be solved.

        Notes
        -----
        Costs one eigendecomposition, some 9 n³ multiplications and 24 n² bytes, whatever the number of penalties.
        """
        check = self._raise_when_stopped(self.max_seconds, time.perf_counter())
        chosen = np.array([check_number("alphas", one, at_least=0.0, finite=True) for one in np.ravel(alphas).tolist()])
        if not chosen.size:
            raise ValueError("alphas must hold at least one penalty, got none.")
        _, data, gram, targets, weights = clone(self)._read(X, y, sample_weight)
        columns = targets.reshape(data.n, -1)
        rows = np.flatnonzero(weights > 0.0)
        points = ridge.path(
            gram,
            columns[rows],
            chosen,
            weights[rows],
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
            check=check,
        )
        if not points.solved.all():
            warn_user(
                f"the systems of alphas {chosen[~points.solved].tolist()} are singular or too badly conditioned to be "
                "solved in float64: do not rely on their coefficients and errors. Raise these alphas.",
                UserWarning,
            )
        coefficients = np.zeros((chosen.size, data.n, columns.shape[1]))
        coefficients[:, rows] = points.coefficients
        return replace(points, coefficients=coefficients)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Kernel, Data, Gram, FloatArray, FloatArray]:
        """The resolved kernel, the rows, the Gram matrix of those of positive weight, targets and weights."""
        spec, data = self._training_rows(X, y)
        targets = check_columns_of_targets(y)
        weights = check_sample_weight(sample_weight, data.n)
        rows = np.flatnonzero(weights > 0.0)
        if not rows.size:
            raise ValueError("sample_weight must be positive somewhere, but all weights are zero.")
        kernel = spec.resolve(data, None if sample_weight is None else weights)
        return kernel, data, self._gram(kernel, data, rows), targets, weights

    def _penalties(self, n_targets: int) -> FloatArray:
        if np.ndim(self.alpha) == 0:
            return np.full(n_targets, check_number("alpha", self.alpha, at_least=0.0, finite=True))
        penalties = np.array(
            [check_number("alpha", one, at_least=0.0, finite=True) for one in np.ravel(self.alpha).tolist()]
        )
        if penalties.size not in (1, n_targets):
            raise ValueError(
                f"alpha must be one number or one for each of the {n_targets} targets, got {penalties.size}."
            )
        return np.broadcast_to(penalties, (n_targets,)).copy()

    def _shaped(self, columns: FloatArray) -> FloatArray:
        return np.ascontiguousarray(columns if self._has_columns else columns[:, 0])

    @property
    def certificate_(self) -> Certificate:
        """Objectives, duality gap and residual, recomputed in float64 apart from the solver."""
        check_is_fitted(self, "X_fit_")
        return self._solved.certificate

    @property
    def loo_residuals_(self) -> FloatArray:
        """Residuals of machines each trained without its row, in closed form."""
        check_is_fitted(self, "X_fit_")
        if not hasattr(self, "_loo"):
            residuals = np.full(self._coefficients.shape, np.nan)
            residuals[self._rows] = ridge.leave_one_out(
                self._gram_of_fit(),
                self._solved,
                n_jobs=self.n_jobs,
                memory_limit=self.memory_limit,
            )
            self._loo = residuals
        return self._shaped(self._loo)

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return f(x) of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            With ``kernel="precomputed"``, the kernel values between these rows and the training rows, (m, n).

        Returns
        -------
        ndarray of shape (m,) or (m, n_targets)
            Summed in float64; float32 if `X`, and rows, targets and weights of `fit`, are.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m n kernel values.
        """
        data = self._new_rows(X)
        return self._shaped(self._values(data)).astype(np.result_type(self._dtype, data.dtype), copy=False)


def _precision(kernel: Kernel, data: Data, y: Any, sample_weight: Any) -> np.dtype[Any]:
    """The type of predictions, as in scikit-learn: float32 if all that `fit` gets is, and kernel values are.

    Values of the Laplacian kernel, and of a function that gets blocks (a Gaussian process's kernel), are float64.
    """
    targets = np.asarray(y).dtype
    weights = np.dtype(np.float32) if sample_weight is None else getattr(sample_weight, "dtype", None)
    is_single = targets.kind in "biuf" and np.result_type(targets, np.float32) == np.float32 and weights == np.float32
    of_blocks = isinstance(kernel, FunctionKernel) and not kernel.pairwise and kernel != _ADDITIVE
    is_single = is_single and not of_blocks and not isinstance(kernel, Laplacian)
    return np.dtype(np.float32) if is_single and data.dtype == np.float32 else np.dtype(np.float64)
