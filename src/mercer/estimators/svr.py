"""Support vector regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from mercer import problems, recipes
from mercer.certificate import Evaluation
from mercer.estimators.base import SingleMachine
from mercer.estimators.row_changes import Change, ChangesRows, RowsHeld
from mercer.estimators.targets import check_targets
from mercer.estimators.validation import (
    check_choice,
    check_finite_penalty,
    check_number,
    check_quantile,
    check_share,
)
from mercer.gram import Gram
from mercer.kernels import Gamma, Kernel
from mercer.problems import Problem
from mercer.solvers import Progress

_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class VectorRegressor(RegressorMixin, SingleMachine):
    """What regressors with support vectors share: `predict`."""

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return f(x) for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._raw_decision(self._new_rows(X))[:, 0]


class SVR(ChangesRows, VectorRegressor):
    """Support vector regression: deviations within a tube cost nothing. Solved exactly and certified.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    f(x) = <w, phi(x)> + b,

    C_i being C times the weight of the row, or with the squares of what is beyond the tube, through the dual

        max  y' beta - epsilon sum_i |beta_i| - 1/2 beta' K beta
        s.t. |beta_i| <= C_i,   sum_i beta_i = 0;

    with squares, less sum_i beta_i^2 / (4 C_i) and without the box.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    C : float, default=1.0
        Penalty of a unit of deviation beyond the tube, > 0.
    epsilon : float, default=0.1
        Half of the width of the tube, >= 0, in units of y. 0 gives least absolute deviations, or with squares the
        least-squares support vector machine.
    shrinking, cache_size
        Without effect; accepted for programs written for scikit-learn.
    verbose, max_iter
        See :class:`SVC`.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    fit_intercept : bool, default=True
        Whether there is a bias b.
    tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Sparse where X was: a csr_array where ``sklearn.set_config(sparse_interface="sparray")`` asks for it. Empty for
        a precomputed kernel.
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray or csr_matrix of shape (1, n_SV)
        beta, signed: positive where the machine is below the target. Sparse where X was, with all its values stored.
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or csr_matrix of shape (1, n_features)
        Normal vector; for the linear kernel only. Read-only, sparse where X was.
    kernel_ : Kernel
        With all its parameters resolved to numbers.
    function_ : RKHSFunction
        f without its bias.
    n_iter_ : int
        Steps of the solver.
    fit_status_ : int
        0 if the result is certified optimal, else 1.
    recipe_ : Recipe
        What was solved: parameters as they were in `fit`, whatever they are set to since.
    shape_fit_ : tuple of int
    solution_ : Solution
        Two dual variables for each row, trace and status.
    certificate_ : Certificate
        Objectives, duality gap and violation, recomputed in float64 apart from the solver.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    Differs from scikit-learn's SVR: a weight of 0 is absence, a weight of k is k copies, also for gamma="scale";
    negative weights are errors; a fit ends.

    Costs what :class:`SVC` costs on as many rows: the two variables of a row share its kernel values.

    References
    ----------
    Vapnik (1998); Smola & Schölkopf (2004), A tutorial on support vector regression, equation (10).

    Examples
    --------
    >>> from mercer import SVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = SVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 2)
    ('optimal', 0.67)
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: int = False,
        max_iter: int = -1,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        SVR
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X or y that hold text, NaN or infinity; for y of another length or
            with several columns; for negative weights; and for kernel values that overflow.
        """
        self._train(X, y, sample_weight, self._asked())
        self.__dict__.pop("_held", None)
        return self

    def _asked(self) -> recipes.ForSVR:
        """What makes the problem, where all that is asked for exists."""
        C, epsilon = check_finite_penalty(self.C), check_number("epsilon", self.epsilon, at_least=0.0, finite=True)
        squared = check_choice("loss", self.loss, _LOSSES) == "squared_epsilon_insensitive"
        return recipes.ForSVR(C=C, epsilon=epsilon, squared=squared, bias=bool(self.fit_intercept))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train on more rows: the machine is then the one that all rows train that it was given.

        The known solution is followed to that with the rows, and certified over all of them: the order of batches and
        their sizes do not matter. See docs/concepts/changing_rows.md.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), or sequence of m strings, lists of tokens or sets
            See :meth:`fit`; copied.
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        SVR
            Itself. What stays as it is, and what limits do, see :meth:`forget`: a `gamma` such as "scale" is that of
            the first batch.

        Raises
        ------
        ValueError
            As in :meth:`fit`; for precomputed kernels, from the second call; if the training rows are not at hand, see
            :meth:`forget`. The machine is as it was.

        Warns
        -----
        ConvergenceWarning
            See :meth:`forget`.

        Notes
        -----
        Costs what :meth:`forget` does. The rows are kept, and pickled with the machine.
        """
        if not hasattr(self, "kernel_"):
            self._train(self._own_rows(X, y), y, sample_weight, self._asked())
            return self._keep_rows()
        self._change(*self._with_more(X, y, sample_weight, check_targets))
        return self

    def _told(self) -> tuple[Any, Any]:
        return self._targets, np.ones(self._targets.size) if self._weights is None else self._weights

    def _check_left(self, held: RowsHeld, later: RowsHeld) -> None:
        """Any rows train a regressor."""

    def _problem(self, held: RowsHeld, gram: Gram) -> tuple[Problem, Any]:
        rows = held.rows
        return self.recipe_.problem(held.targets[rows], self.recipe_.C * held.weights[rows], gram), np.arange(rows.size)

    def _solve_anew(self, change: Change) -> list[Evaluation | None]:
        limits, listener = self._limits(), self._listener()
        held = change.held
        last, now = self._problem(change.last, change.gram), self._problem(held, change.gram)
        solutions, evaluations = self._solve_nearby(change, [last], [now], limits, listener)
        self._targets, self._weights = held.targets, held.weights
        self._take(now[0], solutions, held.data, held.rows)
        return evaluations


class NuSVR(VectorRegressor):
    """Support vector regression that finds the width of its tube. Solved exactly and certified.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i (nu epsilon + max(0, |y_i - f(x_i)| - epsilon)),    f(x) = <w, phi(x)> + b,

    over w, b and epsilon >= 0, C_i being C times the weight of the row, through the dual

        max  y' (alpha - alpha*) - 1/2 (alpha - alpha*)' K (alpha - alpha*)
        s.t. 0 <= alpha_i, alpha*_i <= C_i,   sum_i alpha_i = sum_i alpha*_i = nu/2 sum_i C_i.

    Parameters
    ----------
    nu : float, default=0.5
        Bounds the share of rows outside the tube from above, and that of support vectors from below; 0 < nu <= 1.
    C : float, default=1.0
        Penalty of a unit of deviation beyond the tube, > 0. scikit-learn's problem is the same.
    kernel, degree, gamma, coef0
        See :class:`SVC`.
    shrinking, cache_size
        Without effect; accepted for programs written for scikit-learn.
    tol, verbose, max_iter, tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    epsilon_ : float
        Half of the width of the tube.
    dual_coef_, intercept_, support_, support_vectors_, n_support_, coef_, kernel_, function_, n_iter_
        See :class:`SVR`.
    fit_status_, recipe_, shape_fit_, solution_, certificate_, n_features_in_, feature_names_in_
        See :class:`SVR`.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    Differs from scikit-learn's NuSVR as :class:`SVR` from its SVR; it tells the width that it has found.

    References
    ----------
    Schölkopf, Smola, Williamson & Bartlett (2000), New support vector algorithms, section 3 and proposition 1; Chang &
    Lin (2002), Training nu-support vector regression, for the dual with equalities.

    Examples
    --------
    >>> from mercer import SVR, NuSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = NuSVR(nu=0.3, C=100.0, tol=1e-6).fit(X, y)
    >>> other = SVR(epsilon=machine.epsilon_, C=100.0, tol=1e-6).fit(X, y)
    >>> bool(abs(machine.predict(X) - other.predict(X)).max() < 1e-4)
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        verbose: int = False,
        max_iter: int = -1,
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuSVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        NuSVR
            Itself, fitted.

        Raises
        ------
        ValueError
            See :meth:`SVR.fit`.
        """
        C, nu = check_finite_penalty(self.C), check_share("nu", self.nu, 1.0)
        self._train(X, y, sample_weight, recipes.ForNuSVR(C=C, nu=nu))
        self.epsilon_ = problems.half_width(self._solutions[0].multipliers)
        return self


class QuantileSVR(VectorRegressor):
    """Kernel quantile regression by the pinball loss. Solved exactly and certified.

    **Solves**, with r_i = y_i - f(x_i) and q the quantile,

        min  1/2 ||w||^2 + sum_i C_i max(q r_i, (q - 1) r_i),    f(x) = <w, phi(x)> + b,

    C_i being C times the weight of the row, through the dual

        max  y' beta - 1/2 beta' K beta   s.t.  C_i (q - 1) <= beta_i <= C_i q,   sum_i beta_i = 0.

    Parameters
    ----------
    quantile : float, default=0.5
        q, 0 < q < 1. Of the training rows no more than this share, by weight, is below f, and no more than 1 - q above,
        by more than ``certificate_.kkt_violation``, at most `tol`, and rounding: many rows lie on f, to the tolerance.
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
    fit_status_, recipe_, shape_fit_, solution_, certificate_, n_features_in_, feature_names_in_
        See :class:`SVR`. All rows are support vectors but for some that f goes through.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    scikit-learn has the linear machine with another penalty (`QuantileRegressor`), and none with a kernel. With
    q = 1/2 it is :class:`SVR` with epsilon = 0 and half of its C. Curves of several quantiles, each fitted by itself,
    may cross.

    Costs some n * n kernel values.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantileSVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        QuantileSVR
            Itself, fitted.

        Raises
        ------
        ValueError
            See :meth:`SVR.fit`.
        """
        C, level = check_finite_penalty(self.C), check_quantile(self.quantile)
        self._train(X, y, sample_weight, recipes.ForQuantileSVR(C=C, quantile=level))
        return self
