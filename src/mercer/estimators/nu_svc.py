"""Support vector classification with the parameter nu."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer import problems, specs
from mercer._typing import FloatArray, IndexArray
from mercer.data.arguments import check_share
from mercer.data.user_warnings import warn_user
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._labels import Labels
from mercer.kernels import Gamma, Kernel
from mercer.multiclass.training import Duals, Machines
from mercer.solvers import Progress


class NuSVC(MarginClassifier):
    """Support vector classifier with the parameter nu instead of C, solved exactly and certified.

    **Solves** for each pair of classes, with y_i = +1 or -1 and v_i the weight of the row times that of its class,

        min  1/2 ||w||^2 + sum_i v_i max(0, rho - y_i f(x_i)) - nu rho sum_i v_i,    f(x) = <w, phi(x)> + b,

    over w, b and rho >= 0, through the dual

        min  1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
        s.t. 0 <= alpha_i <= v_i,   the alpha_i of each class sum to nu/2 sum_i v_i.

    The machine predicts with f / rho, whose margin is 1. This is the machine of :class:`SVC` with C = 1 / rho, which
    `C_` holds.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound of the share of margin errors and lower bound of the share of support vectors, by weight. Every pair
        of classes, with total weights n_1 and n_2, needs 0 < nu <= 2 min(n_1, n_2) / (n_1 + n_2).
    kernel, degree, gamma, coef0
        See :class:`SVC`.
    shrinking, cache_size, probability, break_ties, random_state
        See :class:`SVC`.
    tol, verbose, max_iter, decision_function_shape
        See :class:`SVC`.
    class_weight : {"balanced"} or dict, optional
        Factors of the row weights by class. With "balanced" every nu up to 1 is feasible. If class weights alone make
        `nu` infeasible for a pair of classes, that pair uses the largest feasible value nu_max, with a warning. Its
        decision values are then shifted towards the class with the larger weight: f becomes
        (nu_max / nu) f + (1 - nu_max / nu) times the sign of that class.
    multi_class, tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback, calibration,
    calibration_values
        See :class:`SVC`. Leave-one-out values for the calibration come from :class:`SVC` with C = 1 / rho, where rho is
        that of all rows.

    Attributes
    ----------
    dual_coef_, intercept_
        Coefficients and biases divided by rho, in LIBSVM's layout; see :class:`SVC`.
    C_ : ndarray of shape (n_machines,)
        1 / rho of each machine; NaN if rho is 0. With this penalty :class:`SVC` has the same decision values for the
        two classes, except for the shift that `class_weight` describes. For two classes, this is ``SVC(C=C_[0])`` with
        the same kernel and weights.
    nu_ : ndarray of shape (n_machines,)
        The nu of each machine: `nu`, or the largest value that is feasible with `class_weight`.
    solution_, certificate_
        Solution and certificate of the problem above with `nu_`, before the division by rho; see :class:`SVC`.
    classes_, support_, support_vectors_, n_support_, coef_, kernel_, function_, class_weight_, n_iter_, fit_status_,
    spec_, shape_fit_, machines_, loo_decision_, cross_fitted_decision_, calibration_, calibration_values_,
    calibration_reason_, n_features_in_, feature_names_in_
        See :class:`SVC`.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        As for :class:`SVC`; also if rho is 0, which means that `nu` is too small for the classes to be separated. Such
        a machine is not divided by rho, and does not separate the classes.
    UserWarning
        If `class_weight` makes `nu` infeasible; the message names the largest feasible value.
    IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    Differs from scikit-learn's NuSVC as :class:`SVC` differs from scikit-learn's SVC. In addition, `class_weight` is
    not ignored. Decision 8 of the documentation explains why an infeasible nu is lowered only if class weights alone
    make it infeasible.

    Costs as much as :class:`SVC` with C = 1 / rho on the same rows: between n * n_SV kernel values and, for small nu,
    some twenty times as many.

    References
    ----------
    Schölkopf, Smola, Williamson & Bartlett (2000), New support vector algorithms, section 4 and proposition 5; Chang &
    Lin (2001), Training nu-support vector classifiers, for the dual with equalities and the feasible interval.

    Examples
    --------
    >>> from mercer import NuSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = NuSVC(nu=0.1).fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 3)
    ('optimal', 0.987)

    For two classes, :class:`SVC` with ``C_`` predicts the same:

    >>> from mercer import SVC
    >>> machine = NuSVC(nu=0.1, tol=1e-6).fit(X[:100], y[:100])
    >>> other = SVC(C=machine.C_[0], tol=1e-6).fit(X[:100], y[:100])
    >>> bool(abs(machine.decision_function(X) - other.decision_function(X)).max() < 1e-4)
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: str | Mapping[Any, float] | None = None,
        verbose: int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        multi_class: str = "ovo",
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback
        self.calibration = calibration
        self.calibration_values = calibration_values

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, checkpoint: Any = None) -> NuSVC:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Class labels of any type that can be sorted.
        sample_weight : array-like of shape (n,), optional
            How often each row counts, >= 0; a row of weight 0 is ignored.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.

        Returns
        -------
        NuSVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If `nu` is infeasible (the message names the largest feasible value), and as in :meth:`SVC.fit`.
        """
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, y, sample_weight):
            nu = check_share("nu", self.nu, 1.0)

            def duals(labels: Labels) -> Duals:
                return partial(problems.nu_svc_each, nu=nu, lower_nu=self._may_be_lowered(nu, labels))

            self._train(X, y, sample_weight, 1.0, duals, problems.half_width, groups=groups)
            self.spec_ = specs.ForNuSVC(nu=nu)
            margins, rhos = self.machines_.margins, [problems.half_width(one.multipliers) for one in self._solutions]
            assert margins is not None
            self.C_ = np.where(margins == rhos, 1.0 / margins, np.nan)  # NaN if rho is 0; the margin is then 1
            return self

    def _may_be_lowered(self, nu: float, labels: Labels) -> bool:
        """Return whether `nu` may be lowered: there are class weights, and without them it would be feasible."""
        if self.class_weight is None:
            return False
        counts = np.bincount(labels.codes[labels.rows], weights=labels.sample_weight[labels.rows])
        if self.multi_class == "ovr" and counts.size > 2:
            return nu <= min(problems.largest_nu(count, counts.sum() - count) for count in counts.tolist())
        return nu <= problems.largest_nu(counts.min(), counts.max())

    def _adjusted(self, machines: Machines, penalties: FloatArray) -> Machines:
        """Shift the decision values of machines with a lowered nu towards the class with the larger weight."""
        sides = np.array(
            [
                [penalties[task.rows][task.signs > 0.0].sum(), penalties[task.rows][task.signs < 0.0].sum()]
                for task in machines.tasks
            ]
        )
        most = np.array([problems.largest_nu(one, other) for one, other in sides.tolist()])
        self.nu_ = np.minimum(self.nu, most)
        lowered = self.nu > most * (1.0 + 1e-9)  # sums of weights have rounding errors
        if not lowered.any():
            return machines
        warn_user(
            f"nu={self.nu:g} is infeasible with this class_weight: it must be > 0 and at most {most.min():.6g}, twice "
            f"the share of the smaller class by weight. {np.count_nonzero(lowered)} of {most.size} machines took the "
            "largest feasible nu, and their decision values are moved towards the class that outweighs the other "
            "(nu_ holds the nu of each machine). Use a smaller nu, or class weights that differ less.",
            UserWarning,
        )
        heavier = np.sign(sides[:, 0] - sides[:, 1])
        return replace(machines, leanings=np.where(lowered, heavier * (1.0 - most / self.nu), 0.0))

    def _followed_problems(self, penalties: FloatArray) -> tuple[list[problems.Problem], list[FloatArray]]:
        """Return the problems of :class:`SVC` with C = 1 / rho, and their solutions (coefficients divided by rho)."""
        margins = self.machines_.margins
        assert margins is not None
        scaled = list(zip(self.machines_.tasks, self._solutions, margins, strict=True))
        followed = [problems.c_svc(task.signs, penalties[task.rows] / margin) for task, _, margin in scaled]
        return followed, [solution.beta / margin for _, solution, margin in scaled]

    def _fold_duals(self) -> Duals:
        """Return a function that makes the problems of all rows except a fold: those of :class:`SVC` with C = 1 / rho.

        Here rho is that of the machine on all rows.
        """
        margins = self.machines_.margins
        assert margins is not None

        def made(signs: FloatArray, penalties: FloatArray, sizes: IndexArray) -> problems.Problems:
            return problems.c_svc_each(signs, penalties / margins.repeat(sizes), sizes, one_sided=True)

        return made

    def _as_predicted(self, raw: FloatArray) -> FloatArray:
        leanings = self.machines_.leanings
        return raw if leanings is None else raw * (1.0 - np.abs(leanings)) + leanings
