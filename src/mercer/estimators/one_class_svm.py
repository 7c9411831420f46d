"""The one-class support vector machine: a region that holds most of the data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer import specs
from mercer.data.arguments import check_share
from mercer.estimators.contamination import Border, border_of, missing_below
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.told import check_sample_weight
from mercer.kernels import Gamma, Kernel
from mercer.solvers import Progress

_MOST_TRIES = 10  # of a larger nu, in longer and longer steps: up to nu = 1, where no row need be on the border
_NEAR_ZERO = 1e-6  # of k(x, x), a kernel value that leaves rows to themselves
_SAME = 1e-12  # of k(x, x), what tells no rows apart


class OneClassSVM(NoveltyDetector):
    """One-class support vector machine: a region that holds most of the data. Solved exactly and certified.

    **Solves**, v_i being the weight of a row,

        min  1/2 ||w||^2 + sum_i v_i max(0, rho - <w, phi(x_i)>) - nu rho sum_i v_i

    over w and rho, through the dual

        min  1/2 beta' K beta   s.t.  0 <= beta_i <= v_i,   sum_i beta_i = nu sum_i v_i.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    nu : float, default=0.5
        Bounds the share of training rows outside from above, and that of support vectors from below; 0 < nu <= 1.
    shrinking, cache_size
        Without effect; accepted for programs written for scikit-learn.
    verbose, max_iter
        See :class:`SVC`.
    contamination : float, optional
        Takes the place of `nu`, 0 < contamination <= 0.5, and is honoured: of the training rows, by weight, this share
        is outside and no more, down to the last row that fits. Rows that score the same share their side: equal rows,
        rows that lie alike to all others, and with an extreme gamma many more. Fewer are then outside; where it is for
        gamma, a warning says so.
    tol_gap : float or None, default=1e-3
        Largest relative duality gap, besides `tol`. That alone leaves one of up to a tenth where gamma is large: sums
        of few kernel values are small, and `tol` is not.
    max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    nu_ : float
        `nu`; with `contamination`, that of the machine that honours it.
    offset_ : ndarray of shape (1,)
        rho, less what the optimality conditions leave open, so that no more than `nu` of the training rows are outside;
        with `contamination`, on the border between two training rows.
    intercept_ : ndarray of shape (1,)
        -offset_.
    dual_coef_ : ndarray of shape (1, n_SV)
        beta.
    support_, support_vectors_, n_support_, coef_, kernel_, function_, n_iter_, fit_status_, recipe_,
    shape_fit_
        See :class:`SVR`.
    solution_, certificate_
        See :class:`SVR`; of the machine before `contamination` moved its offset. Seconds, iterations and kernel values
        are those of all its trainings together, and so is `n_iter_`.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    RuntimeWarning
        If scores of the training rows differ by little more than rounding, which then decides who is outside.
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.
    UserWarning
        Where `contamination` is not reached because the kernel, too narrow or too wide, has different rows score the
        same. It names both shares.

    Notes
    -----
    Differs from scikit-learn's: `contamination`; a weight of 0 is absence, a weight of k is k copies, also for
    gamma="scale"; negative weights are errors.

    At the optimum many rows lie on the border, and count as inside: of the training rows less than nu n are outside. No
    offset divides rows that score the same. So `contamination` starts from nu = contamination, and where the share
    ends among rows on the border, to the tolerance, it trains again with a nu that is larger by the share of rows
    that are missing outside or a multiple of it, up to 10 times. Each time costs n * n_SV kernel values besides the
    training. `max_seconds` is for all trainings together, `max_iter` for each.

    A training costs some 2 to 10 times n * n_SV kernel values, nu n rows at least being support vectors; up to 2,048
    rows, no less than n * n.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola & Williamson (2001), Estimating the support of a high-dimensional
    distribution, equations (3.4) and (3.8), proposition 3 for the bounds.

    Examples
    --------
    >>> from mercer import OneClassSVM
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> machine = OneClassSVM(contamination=0.1).fit(X)
    >>> int((machine.predict(X) == -1).sum()), str(machine.certificate_.status)
    (15, 'optimal')
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: int = False,
        max_iter: int = -1,
        contamination: float | None = None,
        tol_gap: float | None = 1e-3,
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
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.contamination = contamination
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassSVM:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            How often each row counts, >= 0; 0 leaves it out.

        Returns
        -------
        OneClassSVM
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for negative weights; and for
            kernel values that overflow.
        """
        del y
        with self._all_or_nothing():
            nu = check_share("nu", self.nu, 1.0)
            share = None if self.contamination is None else check_share("contamination", self.contamination, 0.5)
            machine_spec = specs.ForOneClassSVM(nu=nu if share is None else share, contamination=share or 0.0)
            began = time.perf_counter()
            data = self._train(X, "no_validation", sample_weight, machine_spec)
            self.intercept_ += self._doubt
            if share is not None:
                weights = check_sample_weight(sample_weight, data.n)
                for times in range(1, _MOST_TRIES + 1):
                    scores = self._scores(data)
                    missing = missing_below(scores, weights, share, data, -float(self.intercept_[0]), 2.0 * self._doubt)
                    if not missing or self.fit_status_ or machine_spec.nu == 1.0:
                        break
                    machine_spec = replace(machine_spec, nu=min(1.0, machine_spec.nu + times * missing))
                    spent = time.perf_counter() - began
                    self._train(
                        X, "no_validation", sample_weight, machine_spec, earlier=self._solutions[0], spent=spent
                    )
                    self.intercept_ += self._doubt
                border = border_of(self._scores(data), weights, share, data)
                self.intercept_ = np.array([-border.score])
            self.nu_, self.offset_ = machine_spec.nu, -self.intercept_
            has_ties = share is not None and border.tied.size > 0 and not self._silent
            if not (has_ties and self._warn_of_ties(border, share or 0.0)):
                self._warn_where_rounding_decides(data, self._rounding)
            return self

    def _warn_of_ties(self, border: Border, share: float) -> bool:
        """Say that fewer rows are outside than `share` asks for, where the kernel is why; return whether it is."""
        evidence = self._solutions[0].evidence
        assert evidence is not None
        gram = evidence.whole()
        values, lengths = gram.block(border.tied[:1], border.tied)[0], gram.diag()[border.tied]
        scale = np.sqrt(np.abs(lengths[0] * lengths))
        apart = np.abs(values - scale) > _SAME * scale
        has_gamma = hasattr(self.kernel_, "gamma")
        if not apart.any():
            why, mend = "the kernel does not tell them apart", "raise gamma" if has_gamma else "take a narrower one"
        elif (np.abs(values[apart]) <= _NEAR_ZERO * scale[apart]).all():
            why = "kernel values between different rows are near 0"
            mend = "lower gamma" if has_gamma else "take a wider kernel"
        else:
            return False
        warnings.warn(
            f"contamination={share:g} is not reached: {border.share:.3g} of the training rows, by weight, are outside, "
            f"for {border.tied.size} rows score the same, and no offset divides them. With {self.kernel_!r}, {why}: "
            f"{mend}.",
            UserWarning,
            stacklevel=3,
        )
        return True
