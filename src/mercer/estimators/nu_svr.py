"""Support vector regression with the parameter nu instead of a tube width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer import problems, specs
from mercer.data.arguments import check_share
from mercer.estimators._dual import VectorRegressor
from mercer.estimators._validation import check_finite_penalty
from mercer.kernels import Gamma, Kernel
from mercer.solvers import Progress


class NuSVR(VectorRegressor):
    """Support vector regression that finds the width of its tube from nu, solved exactly and certified.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i (nu epsilon + max(0, |y_i - f(x_i)| - epsilon)),    f(x) = <w, phi(x)> + b,

    over w, b and epsilon >= 0, where C_i is C times the weight of the row, through the dual

        max  y' (alpha - alpha*) - 1/2 (alpha - alpha*)' K (alpha - alpha*)
        s.t. 0 <= alpha_i, alpha*_i <= C_i,   sum_i alpha_i = sum_i alpha*_i = nu/2 sum_i C_i.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound of the share of rows outside the tube, and lower bound of the share of support vectors; 0 < nu <= 1.
    C : float, default=1.0
        Penalty of a unit of deviation beyond the tube, > 0, as in scikit-learn.
    kernel, degree, gamma, coef0
        See :class:`SVC`.
    shrinking, cache_size
        These have no effect. They are accepted so that programs written for scikit-learn run unchanged.
    tol, verbose, max_iter, tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    epsilon_ : float
        Half of the width of the tube.
    dual_coef_, intercept_, support_, support_vectors_, n_support_, coef_, kernel_, function_, n_iter_
        See :class:`SVR`.
    fit_status_, spec_, shape_fit_, solution_, certificate_, n_features_in_, feature_names_in_
        See :class:`SVR`.

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
    Differs from scikit-learn's NuSVR as :class:`SVR` differs from scikit-learn's SVR. In addition, `epsilon_` holds the
    width that was found.

    Costs more than :class:`SVR` with the same width: between n * n_SV kernel values and, for large C, some fifty times
    as many. The two dual variables of a row share their kernel values.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> NuSVR:
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
        NuSVR
            The fitted machine itself.

        Raises
        ------
        ValueError, TypeError
            See :meth:`SVR.fit`.
        """
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, y, sample_weight):
            C, nu = check_finite_penalty(self.C), check_share("nu", self.nu, 1.0)
            self._train(X, y, sample_weight, specs.ForNuSVR(C=C, nu=nu))
            self.epsilon_ = problems.half_width(self._solutions[0].multipliers)
            return self
