"""Linear logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.data.arguments import check_choice, check_flag, check_learning_rate, check_number
from mercer.estimators._from_file import FitsFiles
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._linear_rows import LinearTable, read_linear_table, refuse_overflow
from mercer.estimators._linear_training import LinearSolutions
from mercer.estimators._scores import ByLikelihood, log_likelihood
from mercer.estimators._validation import check_verbose
from mercer.linear import LinearProblem, LinearRows, TableRows
from mercer.losses import logistic
from mercer.solvers import Control, Limits, Progress
from mercer.specs import ForLogisticByRest, ForLogisticRegression

_PENALTIES = ("l2", "l1")
_SCHEMES = ("softmax", "ovr")
_MANY_COLUMNS = 2_000  # columns; above it the matrix of second derivatives takes more than 32 MB
_MANY_VALUES = 500_000  # numbers of a table; above it sweeps over the rows as they are beat a copy in float64

_VECTORS = 8  # numbers for each column that a fit by sweeps needs at least


class LogisticRegression(ByLikelihood, FitsFiles):
    """Linear logistic regression, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, x> + b,

        min  1/(2 alpha) ||w||^2 + sum_i s_i ln(1 + exp(-y_i f(x_i))),

    where alpha is `prior_variance`. For more classes, the softmax loss with one f_k for each class is minimised, or the
    loss of each class against the rest. s_i is the weight of the row times the weight of its class. b has no prior.
    With ``penalty="l1"`` the first term is 1/alpha times the sum of |w_j|.

    Parameters
    ----------
    prior_variance : float, default=1.0
        Variance of the Gaussian prior of every element of w; C of scikit-learn's LogisticRegression. Infinity means no
        prior: `fit` maximises the likelihood.
    solver : {"newton", "gradient"}, default="newton"
        "newton" is Newton's method, and for large tables another solver that :mod:`mercer.linear` chooses (see Notes).
        "gradient" takes the textbook's steps w <- w - rate (dl/dw + w / alpha). It is meant for teaching, because it
        needs very many steps if columns differ in scale.
    learning_rate : float, optional
        The step size of "gradient". By default 1 / (a bound of the largest second derivative), so that every step
        decreases the objective.
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-6
        Largest element of the gradient, relative to the size of its column. It has the unit of a probability.
    max_iter : int, default=10000
        Largest number of steps; -1 for no limit.
    max_seconds : float, optional
        Time limit in seconds.
    verbose : int, default=0
        1 writes progress to stderr every five seconds; 2 writes every progress report.
    callback : callable, optional
        As for :class:`mercer.KernelLogisticRegression`.
    penalty : {"l2", "l1"}, default="l2"
        "l2" is the Gaussian prior. "l1" is Laplace's: many elements of w are exactly 0. With more than two classes "l1"
        needs ``multi_class="ovr"``.
    multi_class : {"softmax", "ovr"}, default="softmax"
        The loss of more than two classes. "ovr" trains a machine for each class against the rest, which needs less
        memory with many columns; its probabilities are divided by their sum.
    tol_gap : float, default=1e-4
        Largest relative duality gap of machines that :mod:`mercer.linear` trains.
    memory_limit, n_jobs, warm_start
        As for :class:`mercer.LinearSVC`, for machines that :mod:`mercer.linear` trains.
    C : float, optional
        scikit-learn's name of `prior_variance`, which must then have its default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Number of steps.
    trace_ : list of TraceRow
        Violation and objective over time.
    certificate_ : LossCertificate or LinearCertificate
        Objectives, duality gap (infinite without a prior) and gradient, recomputed in float64. A LinearCertificate has
        the objectives of :class:`mercer.LinearSVC`, with C = alpha: alpha times those above.
    solution_ : LinearSolution or LinearSolutions
        The solution, for machines that :mod:`mercer.linear` trains, with `solver` and `reason`.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. Also if the likelihood has no
        maximum, because a hyperplane separates the classes or some of their rows; the certificate then claims no
        optimum.

    Notes
    -----
    For K classes (K = 1 for two classes), a Newton step costs n p² K² / 2 + 9 (p K)³ multiplications, and a fit takes
    some 5 to 15 steps. A gradient step costs n p K multiplications.

    :mod:`mercer.linear` trains machines for two classes on large tables (more than 2,000 columns, or 4,000,000
    numbers), each class against the rest, and machines with the l1 penalty; `solver` must be "newton", and the prior
    proper. It does not copy the table, needs no p² numbers for many columns, and certifies the relative gap `tol_gap`.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.4; Albert & Anderson (1984) for likelihoods without a maximum.

    Examples
    --------
    >>> from mercer import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LogisticRegression().fit(X, y)
    >>> machine.n_iter_, round(machine.score(X, y), 3), bool(machine.certificate_.relative_gap < 1e-9)
    (7, 0.973, True)
    """

    spec_: ForLogisticRegression | ForLogisticByRest
    _task = "classification"
    _other_names_of_C: ClassVar[dict[str, float]] = {"prior_variance": 1.0}
    _always_sweeps = False  # True if the caller needs solutions of `mercer.linear`, also of small tables

    def __init__(
        self,
        prior_variance: float = 1.0,
        *,
        solver: str = "newton",
        learning_rate: float | None = None,
        fit_intercept: bool = True,
        class_weight: str | Mapping[Any, float] | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
        penalty: str = "l2",
        multi_class: str = "softmax",
        tol_gap: float = 1e-4,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        C: float | None = None,
    ) -> None:
        self.prior_variance = prior_variance
        self.solver = solver
        self.learning_rate = learning_rate
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.verbose = verbose
        self.callback = callback
        self.penalty = penalty
        self.multi_class = multi_class
        self.tol_gap = tol_gap
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.C = C

    def _limits(self) -> Limits:
        check_verbose(self.verbose)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("warm_start", self.warm_start)
        return self._checked_limits()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss by row, >= 0; a row of weight 0 is ignored.

        Returns
        -------
        LogisticRegression
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, or a weight is negative.
        MemoryError
            If the second derivatives, (p n_outputs)² numbers, need more memory than the computer has; the message says
            how much.
        """
        control = self._control()
        variance = self._variance()
        rate = check_learning_rate(self.learning_rate)
        check_choice("solver", self.solver, logistic.SOLVERS)
        penalty = check_choice("penalty", self.penalty, _PENALTIES)
        by_rest = check_choice("multi_class", self.multi_class, _SCHEMES) == "ovr"
        table = read_linear_table(self, X, reset=True, y=y, squares=False)
        labels = read_labels(y, sample_weight, self.class_weight, table.values.shape[0])
        several = labels.classes.size > 2
        if (by_rest and several) or penalty == "l1" or (not several and self._is_large(table, variance)):
            refuse_overflow(self, table.values)
            self._check_swept(penalty, variance, refused=several and not by_rest)
            return self._sweep(self._by_rest(penalty, variance), table, labels, control)
        data = as_data(table.values)
        objective = log_likelihood(labels, 1.0 / variance, bool(self.fit_intercept))
        found = logistic.minimise(
            objective,
            data.float64()[labels.rows],
            solver=self.solver,
            learning_rate=rate,
            control=control,
        )
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.__dict__.pop("_solutions", None)
        self._forget_file()
        self.spec_ = ForLogisticRegression(prior_variance=variance, bias=bool(self.fit_intercept))
        self.coef_, self.intercept_ = np.ascontiguousarray(found.w.T), found.bias
        self.certificate_, self.n_iter_, self.trace_ = found.certificate, found.n_iter, found.trace
        status = found.certificate.status
        if status is not Status.OPTIMAL:
            advice = status.advice
            if status is Status.STALLED and np.isinf(variance):
                advice = (
                    "A hyperplane separates the classes, or some rows of them, so that the likelihood has no maximum, "
                    "or rounding hides it. Set a finite prior_variance."
                )
            warnings.warn(
                f"LogisticRegression {found.certificate.ending} {advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _variance(self) -> float:
        """Check the variance of the prior, by either of its names, and return it."""
        if self.C is None:
            return check_number("prior_variance", self.prior_variance, above=0.0)
        variance = check_number("C", self.C, above=0.0)
        if self.prior_variance not in (1.0, self.C):
            raise InvalidParameterError(
                f"C and prior_variance are two names of one parameter, got C={self.C!r} and "
                f"prior_variance={self.prior_variance!r}. Set one of them."
            )
        return variance

    def _by_rest(self, penalty: str, variance: float) -> ForLogisticByRest:
        has_bias = bool(self.fit_intercept)
        return ForLogisticByRest(C=variance, l1_ratio=float(penalty == "l1"), bias=has_bias, free=has_bias)

    def _asked(self) -> ForLogisticByRest:
        """Check the parameters, and return the specification of the problem for rows of a file."""
        variance = self._variance()
        check_choice("solver", self.solver, logistic.SOLVERS)
        penalty = check_choice("penalty", self.penalty, _PENALTIES)
        check_choice("multi_class", self.multi_class, _SCHEMES)
        self._check_swept(penalty, variance, refused=False)
        return self._by_rest(penalty, variance)

    def _problems(self, spec: ForLogisticByRest, rows: LinearRows, labels: Labels | None) -> list[LinearProblem]:
        """Return one problem for two classes, otherwise one for each class against the rest."""
        assert labels is not None
        n_classes = labels.classes.size
        if n_classes > 2 and self.multi_class != "ovr":
            raise InvalidParameterError(
                f'more than two classes in a file need multi_class="ovr", got multi_class={self.multi_class!r}.'
            )
        positive = (1,) if n_classes == 2 else range(n_classes)
        return [spec.problem(rows, number, labels.class_weight) for number in positive]

    def _store(self, problems: Sequence[LinearProblem], solutions: LinearSolutions, table: LinearTable) -> None:
        super()._store(problems, solutions, table)
        self.intercept_ = np.broadcast_to(self.intercept_, len(problems)).astype(np.float64)

    def _is_large(self, table: LinearTable, variance: float) -> bool:
        """Whether a machine for two classes is trained by sweeps over the rows."""
        n, p = table.values.shape
        is_large = self._always_sweeps or p > _MANY_COLUMNS or n * p > _MANY_VALUES
        return is_large and self.solver == "newton" and np.isfinite(variance)

    def _check_swept(self, penalty: str, variance: float, *, refused: bool) -> None:
        if refused:
            raise InvalidParameterError(
                'penalty="l1" with more than two classes needs multi_class="ovr", got multi_class="softmax".'
            )
        if self.solver != "newton" or np.isinf(variance):
            raise InvalidParameterError(
                f'penalty={penalty!r} and multi_class={self.multi_class!r} need solver="newton" and a finite '
                f"prior_variance, got solver={self.solver!r} and prior_variance={variance!r}."
            )

    def _sweep(
        self, spec: ForLogisticByRest, table: LinearTable, labels: Labels, control: Control
    ) -> LogisticRegression:
        """Train a machine for two classes, or one for each class against the rest, by sweeps over the rows."""
        codes = labels.codes.astype(np.float64)
        rows = TableRows(table.values, codes, labels.sample_weight, table.squares)
        problems = self._problems(spec, rows, labels)
        limits = replace(control.limits, tol=float(self.tol_gap))
        n_columns = table.values.shape[1]
        try:
            np.empty(_VECTORS * n_columns)
        except MemoryError as error:
            raise MemoryError(
                f"a fit on {n_columns:,} columns needs {8 * _VECTORS * n_columns:,} bytes for weights and gradients, "
                "and the operating system does not give them. Leave out columns without entries."
            ) from error
        solutions = self._solve(problems, control.with_limits(limits))
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.spec_, self._used_rows = spec, labels.rows
        self._store(problems, solutions, table)
        self._warn(depth=4)
        return self
