"""Linear support vector regression on tables of any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.cluster import by_blocks, is_lazy
from mercer.data.arguments import check_choice, check_number
from mercer.estimators._arrays import Regressor
from mercer.estimators._device_training import host_targets, read_training_table
from mercer.estimators._from_file import FitsFiles
from mercer.estimators._labels import Labels
from mercer.estimators._linear_rows import LinearTable, refuse_large_targets
from mercer.estimators._linear_training import LinearSolutions
from mercer.estimators._validation import check_finite_penalty, check_sample_weight, check_targets, rows_of_weight
from mercer.solvers import Progress
from mercer.solvers.rows import Bias, LinearProblem, LinearRows
from mercer.specs import ForLinearSVR

_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class LinearSVR(Regressor, FitsFiles):
    """Linear support vector regression for tables of any number of rows, certified.

    **Solves** with f(x) = <w, x> + b,

        min  1/2 ||w||^2 + 1/2 u^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    b = intercept_scaling * u,

    where C_i is C times the weight of the row. With ``loss="squared_epsilon_insensitive"`` the losses are squared; with
    ``penalty="l1"`` the penalty is the sum of |w_j| and |u|; with `l1_ratio` it is that sum times l1_ratio, plus the
    squares times 1 - l1_ratio (an elastic net); with ``bias="free"`` the penalty leaves b out.

    Parameters
    ----------
    epsilon : float, default=0.0
        Errors up to this size cost nothing; in the unit of the targets.
    tol : float, default=1e-4
        A value below the default lowers `tol_gap` to this value, but not below 1e-10, which rounding may hide. Larger
        values have no effect.
    C : float, default=1.0
        Penalty of a unit of loss, > 0.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    intercept_scaling : float, default=1.0
        Value of the column of a penalised bias; a larger one penalises the bias less. It has no effect if the bias is
        free.
    dual
        This has no effect: the solver is chosen by the shape of the table. It is accepted and checked so that programs
        written for scikit-learn run unchanged.
    verbose : int, default=0
        See :class:`mercer.LinearSVC`.
    random_state
        This has no effect on the optimum. It is accepted and checked as in scikit-learn.
    max_iter : int, default=1000
        Largest number of solver steps; -1 for no limit.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        With "l1" many coefficients are exactly 0; "elasticnet" needs `l1_ratio`. scikit-learn's LinearSVR has only
        "l2".
    bias : {"penalised", "free"}, default="penalised"
        Whether the penalty counts the bias, as in scikit-learn's LinearSVR, or not, as in :class:`mercer.SVR`. Free is
        better if the targets are far from 0.
    tol_gap, max_seconds, memory_limit, n_jobs, callback, warm_start, l1_ratio
        See :class:`mercer.LinearSVC`.

    Attributes
    ----------
    coef_ : ndarray of shape (p,)
        Normal vector w, in the units of the columns as they were passed.
    intercept_ : ndarray of shape (1,)
        Bias b; 0 without one.
    n_iter_ : int
        Number of solver steps.
    certificate_, solution_, trace_
        See :class:`mercer.LinearSVC`.
    spec_ : ForLinearSVR
        The solved problem, with the parameter values that `fit` used; setting a parameter later does not change it.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning, UserWarning
        See :class:`mercer.LinearSVC`.

    Notes
    -----
    Differs from scikit-learn's LinearSVR as :class:`mercer.LinearSVC` from its LinearSVC.

    References
    ----------
    Ho & Lin (2012), Large-scale linear support vector regression.

    Examples
    --------
    >>> from mercer import LinearSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = LinearSVR(C=100.0, bias="free").fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 2)
    ('optimal', 0.48)
    """

    spec_: ForLinearSVR
    _task = "regression"

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: bool | str = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        penalty: str = "l2",
        bias: str = "penalised",
        tol_gap: float = 1e-4,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        warm_start: bool = False,
        l1_ratio: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.penalty = penalty
        self.bias = bias
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.callback = callback
        self.warm_start = warm_start
        self.l1_ratio = l1_ratio

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> LinearSVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            See :meth:`mercer.LinearSVC.fit`.
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
        LinearSVR
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` or `y` holds text, NaN, infinity or values whose squares overflow, `y`
            has another length than `X` or several columns, or a weight is negative.
        TypeError
            If `y` holds dates or times.
        """
        if is_lazy(X):
            return self._fit_lazy(X, y, sample_weight, checkpoint)
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
        with self._checkpointed(checkpoint, X, y, sample_weight):
            spec, control = self._asked(), self._control()
            table = read_training_table(self, X, y, spec.C)
            weights = check_sample_weight(sample_weight, table.values.shape[0])
            used_rows = rows_of_weight(weights)
            targets = check_targets(y)
            refuse_large_targets(targets)
            problems = self._problems(spec, table.rows(targets, weights), None)
            solutions = self._solve(problems, control)
            self.spec_, self._used_rows = spec, used_rows
            self._store(problems, solutions, table)
            self._warn()
            return self

    def _asked(self) -> ForLinearSVR:
        """Check the parameters, and return the specification of the problem."""
        loss = check_choice("loss", self.loss, _LOSSES)
        self._check_dual()
        kind, scaling = self._bias()
        return ForLinearSVR(
            C=check_finite_penalty(self.C),
            epsilon=check_number("epsilon", self.epsilon, at_least=0.0, finite=True),
            squared=loss == "squared_epsilon_insensitive",
            l1_ratio=self._l1_ratio(),
            bias=kind is not Bias.NONE,
            free=kind is Bias.FREE,
            scaling=scaling,
        )

    def _problems(self, spec: ForLinearSVR, rows: LinearRows, labels: Labels | None) -> list[LinearProblem]:
        """Return the only problem."""
        return [spec.problem(rows)]

    def _store(self, problems: Sequence[Any], solutions: LinearSolutions, table: LinearTable) -> None:
        super()._store(problems, solutions, table)
        self.coef_ = self.coef_[0]

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return the predicted target of each row.

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
            If `X` holds NaN or infinity, or if its features are not those of `fit`.
        """
        return np.ascontiguousarray(self._values(X)[:, 0])
