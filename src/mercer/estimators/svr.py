"""Support vector regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import specs
from mercer.approximate import Way
from mercer.certificates.evaluation import Evaluation
from mercer.data.arguments import check_choice, check_number
from mercer.estimators._approximate import ApproximatesOneMachine
from mercer.estimators._device_training import host_targets
from mercer.estimators._dual import VectorRegressor
from mercer.estimators._kernel_from_file import FitsKernelFiles
from mercer.estimators._row_changes import Change, ChangesRows, TrainingRows
from mercer.estimators._validation import check_finite_penalty, check_targets
from mercer.gram import Gram
from mercer.kernels import Gamma, Kernel
from mercer.problems import Problem
from mercer.solvers import Progress

_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class SVR(FitsKernelFiles, ApproximatesOneMachine, ChangesRows, VectorRegressor):
    """Support vector regression with the epsilon-insensitive loss, solved exactly and certified.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    f(x) = <w, phi(x)> + b,

    where C_i is C times the weight of the row, or with the squares of these losses, through the dual

        max  y' beta - epsilon sum_i |beta_i| - 1/2 beta' K beta
        s.t. |beta_i| <= C_i,   sum_i beta_i = 0;

    With squares the dual has the additional term - sum_i beta_i^2 / (4 C_i) and no bounds.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    C : float, default=1.0
        Penalty of a unit of deviation beyond the tube, > 0.
    epsilon : float, default=0.1
        Half of the width of the tube, >= 0, in units of y. With 0 the losses are absolute deviations, or with squares
        those of the least-squares support vector machine.
    shrinking, cache_size
        These have no effect. They are accepted so that programs written for scikit-learn run unchanged.
    verbose, max_iter
        See :class:`SVC`.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The loss that C multiplies: max(0, |y_i - f(x_i)| - epsilon), or its square.
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback, approximation
        See :class:`SVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in the training rows.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Sparse if `X` was sparse (a csr_array after ``sklearn.set_config(sparse_interface="sparray")``). Empty for a
        precomputed kernel.
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray or csr_matrix of shape (1, n_SV)
        Signed dual coefficients beta, positive if f(x_i) is below the target. Sparse, with zeros stored, if `X` was
        sparse.
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or csr_matrix of shape (1, n_features)
        The normal vector w, for the linear kernel only. It is read-only, and sparse if `X` was.
    kernel_ : Kernel
        The kernel with numbers for all its parameters.
    function_ : RKHSFunction
        The decision function f without its bias.
    n_iter_ : int
        Number of solver steps.
    fit_status_ : int
        0 if all machines are certified optimal, else 1.
    spec_ : MachineSpec
        The solved problem, with the parameter values that `fit` used; setting a parameter later does not change it.
    shape_fit_ : tuple of int
    solution_ : Solution
        Two dual variables for each row, trace and status.
    certificate_ : Certificate
        Objectives, duality gap and violation, recomputed in float64 independently of the solver.
    approximation_, choice_
        See :class:`SVC`.
    n_features_in_, feature_names_in_
        See scikit-learn.

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
    Differs from scikit-learn's SVR: a row of weight 0 is ignored, and a row of weight k counts as k copies, also for
    gamma="scale"; negative weights are errors; every fit ends.

    Costs as much as :class:`SVC` on as many rows: the two dual variables of a row share its kernel values.

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

    _task = "regression"

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
        approximation: str | Way | None = None,
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
        self.approximation = approximation

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> SVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`; Dask arrays and data frames, too.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.
            With an `approximation`, the choice, the landmarks, and the finished cells are in it, too.

        Returns
        -------
        SVR
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` or `y` holds text, NaN or infinity, `y` has another length than `X` or
            several columns, a weight is negative, or kernel values overflow.
        TypeError
            If `y` holds dates or times.
        """
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, y, sample_weight):
            machine_spec = self._asked()
            with self._way(machine_spec, X, y, sample_weight) as way:
                if way is None:
                    self._train(X, y, sample_weight, machine_spec)
                else:
                    self._train_by(way, machine_spec, X, y, sample_weight)
            self.__dict__.pop("_current_rows", None)
            return self

    def _asked(self) -> specs.ForSVR:
        """Check the parameters, and return the specification of the problem."""
        C, epsilon = check_finite_penalty(self.C), check_number("epsilon", self.epsilon, at_least=0.0, finite=True)
        squared = check_choice("loss", self.loss, _LOSSES) == "squared_epsilon_insensitive"
        return specs.ForSVR(C=C, epsilon=epsilon, squared=squared, bias=bool(self.fit_intercept))

    def _asked_spec(self) -> specs.ForSVR:
        return self._asked()

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Add training rows: the machine is then the one that all rows together train.

        The solution is updated to the solution with the new rows, and certified over all rows. The result does not
        depend on the order and the sizes of the batches. See docs/concepts/changing_rows.md.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), or sequence of m strings, lists of tokens or sets
            The new rows, as in :meth:`fit`. They are copied.
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        SVR
            The updated machine itself. :meth:`forget` explains which values do not change: a `gamma` such as "scale" is
            that of the first batch.

        Raises
        ------
        ValueError
            As in :meth:`fit`; for precomputed kernels, from the second call; and if the training rows are not
            available, see :meth:`forget`. The machine is then unchanged.

        Warns
        -----
        ConvergenceWarning
            See :meth:`forget`.

        Notes
        -----
        Costs as much as :meth:`forget`. The machine keeps the rows, and pickles them.
        """
        self._check_exact("partial_fit")
        if not hasattr(self, "kernel_"):
            with self._all_or_nothing():
                self._train(self._own_rows(X, y), y, sample_weight, self._asked())
                return self._keep_rows()
        self._change(*self._with_more(X, y, sample_weight, check_targets))
        return self

    def _fit_targets(self) -> tuple[Any, Any]:
        return self._targets, np.ones(self._targets.size) if self._weights is None else self._weights

    def _check_left(self, sample: TrainingRows, later: TrainingRows) -> None:
        """Accept any remaining rows: a regressor can be trained on them."""

    def _problem(self, sample: TrainingRows, gram: Gram) -> tuple[Problem, Any]:
        rows = sample.rows
        return self.spec_.problem(sample.targets[rows], self.spec_.C * sample.weights[rows], gram), np.arange(rows.size)

    def _solve_change(self, change: Change) -> list[Evaluation | None]:
        control = self._control()
        sample = change.now
        last, now = self._problem(change.last, change.gram), self._problem(sample, change.gram)
        solutions, evaluations = self._solve_incremental(change, [last], [now], control)
        self._targets, self._weights = sample.targets, sample.weights
        self._take(now[0], solutions, sample.data, sample.rows)
        return evaluations
