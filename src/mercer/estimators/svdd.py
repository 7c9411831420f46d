"""Support vector data description: the smallest ball around the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import specs
from mercer._typing import FloatArray
from mercer.certificates.quadratic import dual_objective
from mercer.data import Data
from mercer.estimators._novelty import NoveltyDetector
from mercer.estimators._validation import check_penalty
from mercer.gram.backends import InMemoryRows
from mercer.kernels import Gamma, Kernel, Linear
from mercer.solvers import Progress

_UNITS = 10.0  # sum of the penalties of all rows, by default
_SAME = 1e-9  # relative to the largest k(x, x); smaller differences between values k(x, x) count as rounding errors


class SVDD(NoveltyDetector):
    """Support vector data description: the smallest ball in feature space that leaves few rows outside.

    **Solves**, over the centre c and R^2,

        min  R^2 + sum_i C_i max(0, ||phi(x_i) - c||^2 - R^2),

    where C_i is C times the weight of the row, through the dual

        max  sum_i beta_i k(x_i, x_i) - beta' K beta   s.t.  0 <= beta_i <= C_i,   sum_i beta_i = 1.

    With C >= 1 no row is outside, and the ball is the minimal enclosing ball. With C = 1 / (nu n) and a kernel whose
    k(x, x) is equal for all x, the machine is that of :class:`OneClassSVM`.

    Parameters
    ----------
    C : float, optional
        Penalty of a unit of squared distance outside the ball, > 0; infinity is allowed. The penalties of all rows must
        sum to at least 1. At most a share of 1 / (C n) of n rows lies outside. The default is 10 / n, by weight: at
        most a tenth.
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    tol_gap : float or None, default=1e-3
        Largest relative duality gap, in addition to `tol`. If coefficients are small, `tol` alone is a weak criterion.
    verbose, max_iter, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    radius_ : float
        The radius R, enlarged by the KKT violation and the rounding error so that rows on the border are inside.
    offset_ : ndarray of shape (1,)
        -R^2; scores are minus the squared distances from the centre.
    squared_norm_ : float
        The squared norm ||c||^2 of the centre.
    function_ : RKHSFunction
        The centre c, as a function in the kernel's space.
    center_ : ndarray of shape (n_features,)
        The centre c, for the linear kernel only.
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients beta: the centre is the sum of beta_i phi(x_i).
    intercept_ : ndarray of shape (1,)
        The bias b of the dual problem, (R^2 - ||c||^2) / 2.
    support_, support_vectors_, n_support_, coef_, kernel_, n_iter_, fit_status_, spec_,
    shape_fit_
        See :class:`SVR`.
    solution_, certificate_
        See :class:`SVR`. The objectives are half of those above.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    RuntimeWarning
        If the scores of the training rows differ by little more than rounding errors, so that rounding decides which
        rows are outside.
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    `tol` bounds the KKT violation in units of half squared distances, so squared distances of rows on the border are
    accurate to 2 tol.

    With a precomputed kernel, k(x, x) of new rows is unknown. It is assumed to be that of the training rows, which must
    be equal for all of them.

    Costs as much as :class:`OneClassSVM` with as many support vectors. If C is large, there are few support vectors.

    References
    ----------
    Tax & Duin (2004), Support vector data description, equations (8) to (14).

    Examples
    --------
    >>> from mercer import SVDD
    >>> ball = SVDD(kernel="linear", tol=1e-6).fit([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0]])
    >>> round(ball.radius_, 6), ball.center_.round(6).tolist()
    (2.0, [2.0, 0.0])
    """

    def __init__(
        self,
        C: float | None = None,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        verbose: int = False,
        max_iter: int = -1,
        tol_gap: float | None = 1e-3,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> SVDD:
        """Find the ball.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.

        Returns
        -------
        SVDD
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, the penalties sum to less than 1, `X` holds text, NaN or infinity, a weight
            is negative, or kernel values overflow.
        """
        del y
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, None, sample_weight):
            given = None if self.C is None else check_penalty(self.C)

            def asked(weights: FloatArray) -> specs.ForSVDD:
                return specs.ForSVDD(C=_UNITS / float(weights.sum()) if given is None else given)

            data = self._train(X, "no_validation", sample_weight, asked)
            evidence = self._solutions[0].evidence
            assert evidence is not None
            lengths = -2.0 * evidence.problem.linear
            self.intercept_ += self._border_error
            self._length = float(lengths[0]) if np.ptp(lengths) <= _SAME * lengths.max() else None
            certificate = self.certificate_
            # The dual objective is D = 1/2 (sum beta k(x, x) - ||c||^2), so ||c||^2 = sum beta k(x, x) - 2 D.
            beta = self._solutions[0].beta
            self.squared_norm_ = float(beta @ lengths) - 2.0 * dual_objective(certificate, beta)
            squared = self.squared_norm_ + 2.0 * float(self.intercept_[0])
            self.radius_, self.offset_ = max(0.0, squared) ** 0.5, np.array([-squared])
            self._warn_if_rounding_decides(data, 2.0 * self._rounding)
            return self

    @property
    def center_(self) -> FloatArray:
        """The centre, for the linear kernel."""
        self._check_is_fitted()
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                "center_ exists for the linear kernel only; with others the centre is a function of the kernel's "
                "space, which function_ holds."
            )
        return self.coef_[0]

    def _scores(self, data: Data) -> FloatArray:
        """Return minus the squared distances from the centre."""
        if isinstance(data, InMemoryRows) or not data.has_given_values:
            lengths: FloatArray | float = self.kernel_.diag(data)
        elif self._length is None:
            raise ValueError(
                "distances of new rows need k(x, x), which a precomputed matrix between them and the training rows "
                "does not hold, and which differs between the training rows; normalise the kernel so that it is 1, or "
                "pass the kernel and the rows."
            )
        else:
            lengths = self._length
        return 2.0 * super()._scores(data) - lengths - self.squared_norm_
