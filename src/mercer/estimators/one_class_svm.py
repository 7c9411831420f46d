"""The one-class support vector machine: a region that holds most of the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer import specs
from mercer.approximate import Way
from mercer.certificates.status import Status
from mercer.data.arguments import check_share
from mercer.data.user_warnings import warn_user
from mercer.estimators._approximate import ApproximatesOneMachine
from mercer.estimators._contamination import Border, border_of, missing_below
from mercer.estimators._device_training import host_targets
from mercer.estimators._kernel_from_file import FitsKernelFiles
from mercer.estimators._labels import Labels
from mercer.estimators._novelty import NoveltyDetector
from mercer.estimators._validation import check_sample_weight
from mercer.kernels import Gamma, Kernel
from mercer.solvers import Progress
from mercer.specs.streamed import StreamedMachine, StreamedTask

_MOST_TRIES = 10  # retrainings with a larger nu, at most; the steps grow up to nu = 1, where the border can be empty
_NEAR_ZERO = 1e-6  # times k(x, x); for smaller kernel values, different rows hardly influence each other
_SAME = 1e-12  # times k(x, x); rows whose kernel value differs from k(x, x) by less are equal for the kernel


class OneClassSVM(FitsKernelFiles, ApproximatesOneMachine, NoveltyDetector):
    """One-class support vector machine: a region that holds most of the data, solved exactly and certified.

    **Solves**, where v_i is the weight of a row,

        min  1/2 ||w||^2 + sum_i v_i max(0, rho - <w, phi(x_i)>) - nu rho sum_i v_i

    over w and rho, through the dual

        min  1/2 beta' K beta   s.t.  0 <= beta_i <= v_i,   sum_i beta_i = nu sum_i v_i.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    nu : float, default=0.5
        Upper bound of the share of training rows outside, and lower bound of the share of support vectors; 0 < nu <= 1.
    shrinking, cache_size
        These have no effect. They are accepted so that programs written for scikit-learn run unchanged.
    verbose, max_iter
        See :class:`SVC`.
    contamination : float, optional
        Share of the training rows, by weight, that shall be outside; 0 < contamination <= 0.5. It replaces `nu`. As
        many rows are outside as fit into this share, exactly. Rows with equal scores are on the same side: equal rows,
        rows in symmetric positions, and many more rows if gamma is extreme. Fewer rows are then outside; if gamma is
        the reason, a warning is given.
    tol_gap : float or None, default=1e-3
        Largest relative duality gap, in addition to `tol`. If gamma is large, decision values are small compared with
        `tol`, so that `tol` alone allows relative gaps of up to 0.1.
    max_seconds, memory_limit, warm_start, n_jobs, callback, approximation
        See :class:`SVC`.

    Attributes
    ----------
    nu_ : float
        The nu of the machine: the parameter `nu`, or with `contamination` the value that was found.
    offset_ : ndarray of shape (1,)
        rho minus the KKT violation and the rounding error, so that at most a share `nu` of the training rows is
        outside. With `contamination`, a threshold between the scores of two training rows.
        `certificate_` is about `solution_`, which has the bias before this change.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients beta of the support vectors.
    support_, support_vectors_, n_support_, coef_, kernel_, function_, n_iter_, fit_status_, spec_,
    shape_fit_
        See :class:`SVR`.
    solution_, certificate_
        See :class:`SVR`. They describe the machine before `contamination` moved its offset. Their seconds, iterations
        and kernel values, and `n_iter_`, are sums over all trainings.
    approximation_, choice_
        See :class:`SVC`. With `contamination`, an approximate machine is trained once, with nu = contamination, and
        only its offset is moved.
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
    UserWarning
        If `contamination` is not reached because the kernel is too narrow or too wide and gives different rows the same
        score. The message names both shares.

    Notes
    -----
    Differs from scikit-learn's OneClassSVM: there is `contamination`; a row of weight 0 is ignored, and a row of weight
    k counts as k copies, also for gamma="scale"; negative weights are errors.

    At the optimum many rows lie on the border and count as inside, so that fewer than nu n training rows are outside.
    No offset separates rows with equal scores. `contamination` therefore trains first with nu = contamination. If too
    few rows are outside because of rows on the border, it trains again with a larger nu, up to 10 times; nu grows by
    multiples of the missing share. Each time costs n * n_SV kernel values in addition to the training. `max_seconds`
    limits all trainings together, `max_iter` limits each training.

    A training costs some 2 to 10 times n * n_SV kernel values, where n_SV >= nu n. With up to 2,048 rows it costs at
    least n * n kernel values.

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

    _task = "regression"  # of which the targets are 0
    _has_target = False

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
        approximation: str | Way | None = None,
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
        self.approximation = approximation

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> OneClassSVM:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`; Dask arrays and data frames, too.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            How often each row counts, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.
            With an `approximation`, the choice, the landmarks, and the finished cells are in it, too.

        Returns
        -------
        OneClassSVM
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, a weight is negative, or kernel values
            overflow.
        """
        del y
        _, sample_weight = host_targets(X, None, sample_weight, checkpoint)
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, None, sample_weight):
            machine_spec = self._asked_spec()
            with self._way(machine_spec, X, "no_validation", sample_weight) as way:
                if way is not None:
                    return self._fit_by(way, machine_spec, X, sample_weight)
                return self._fit_exactly(machine_spec, X, sample_weight)

    def _asked_spec(self) -> specs.ForOneClassSVM:
        nu = check_share("nu", self.nu, 1.0)
        share = None if self.contamination is None else check_share("contamination", self.contamination, 0.5)
        return specs.ForOneClassSVM(nu=nu if share is None else share, contamination=share or 0.0)

    def _fit_exactly(self, machine_spec: specs.ForOneClassSVM, X: Any, sample_weight: Any) -> OneClassSVM:
        """Train the exact machine; with `contamination`, several times."""
        share = machine_spec.contamination or None
        began = time.perf_counter()
        data = self._train(X, "no_validation", sample_weight, machine_spec)
        self.intercept_ += self._border_error
        if share is not None:
            weights = check_sample_weight(sample_weight, data.n)
            for times in range(1, _MOST_TRIES + 1):
                scores = self._scores(data)
                missing = missing_below(
                    scores, weights, share, data, -float(self.intercept_[0]), 2.0 * self._border_error
                )
                if not missing or self.fit_status_ or machine_spec.nu == 1.0:
                    break
                machine_spec = replace(machine_spec, nu=min(1.0, machine_spec.nu + times * missing))
                spent = time.perf_counter() - began
                self._train(X, "no_validation", sample_weight, machine_spec, earlier=self._solutions[0], spent=spent)
                self.intercept_ += self._border_error
            border = border_of(self._scores(data), weights, share, data)
            self.intercept_ = np.array([-border.score])
        self.nu_, self.offset_ = machine_spec.nu, -self.intercept_
        has_ties = share is not None and border.tied.size > 0 and not self._silent
        if self._warn_if_origin_is_among_rows():
            return self
        if not (has_ties and self._warn_of_ties(border, share or 0.0)):
            self._warn_if_rounding_decides(data, self._rounding)
        return self

    def _fit_by(self, way: Way, machine_spec: specs.ForOneClassSVM, X: Any, sample_weight: Any) -> OneClassSVM:
        """Train the machine approximately; with `contamination`, only its offset is moved."""
        data = self._train_by(way, machine_spec, X, "no_validation", sample_weight)
        if data is not None and machine_spec.contamination > 0.0:
            weights = check_sample_weight(sample_weight, data.n)
            border = border_of(self._scores(data), weights, machine_spec.contamination, data)
            self.intercept_ = np.array([-border.score])
        self.nu_, self.offset_ = machine_spec.nu, -self.intercept_
        return self

    def _store_streamed(self, task: StreamedTask, machine: StreamedMachine, labels: Labels | None) -> None:
        super()._store_streamed(task, machine, labels)
        certificate = machine.certificate
        self.intercept_ = (
            self.intercept_ + (certificate.kkt_violation or 0.0) + 2.0 * (certificate.decision_error or 0.0)
        )
        self.nu_, self.offset_ = task.spec.nu, -self.intercept_  # type: ignore[attr-defined]

    def _warn_if_origin_is_among_rows(self) -> bool:
        """Warn if w = 0 is the optimum, and return whether it is: then all rows score 0, and count as inside."""
        certified = self._solutions[0].certified
        if certified is None or certified.status is not Status.OPTIMAL or not certified.absolute_gap > 0.0:
            return False
        if not self._silent:
            warn_user(
                f"w = 0 is the optimum of this machine: with {self.kernel_!r}, the origin cannot be told from the "
                "training rows, so that no plane separates them from it, and every row scores 0 and is inside. Centred "
                "columns cause this with a linear kernel. Take kernel='rbf' or SVDD, or do not centre the columns.",
                UserWarning,
            )
        return True

    def _warn_of_ties(self, border: Border, share: float) -> bool:
        """Warn if the kernel is the reason that fewer rows than `share` are outside; return whether it is."""
        evidence = self._solutions[0].evidence
        assert evidence is not None
        gram = evidence.full_gram()
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
        warn_user(
            f"contamination={share:g} is not reached: {border.share:.3g} of the training rows, by weight, are outside, "
            f"for {border.tied.size} rows score the same, and no offset divides them. With {self.kernel_!r}, {why}: "
            f"{mend}.",
            UserWarning,
        )
        return True
