"""Linear logistic regression."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.cluster import is_lazy
from mercer.data.arguments import check_choice, check_flag, check_number
from mercer.data.user_warnings import warn_user
from mercer.estimators._device_training import host_targets, read_training_table
from mercer.estimators._from_file import FitsFiles
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._linear_rows import LinearTable
from mercer.estimators._linear_training import LinearSolutions
from mercer.estimators._scores import ByLikelihood
from mercer.gram.rows.placed_rows import PlacedRows
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers import Control, Progress
from mercer.solvers.rows import LinearPoint, LinearProblem, LinearRows, LinearSolution, TableRows, solve, solve_one
from mercer.specs import ForLogisticRegression

_SCHEMES = ("softmax", "ovr", "multinomial", "auto")
_SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "newton", "sag", "saga")
_UNSET = "deprecated"  # scikit-learn's default of `penalty`: `l1_ratio` and `C` say which penalty is meant
_VECTORS = 8  # numbers for each column that a fit needs at least
_RATIOS = {"l2": 0.0, "l1": 1.0}


class LogisticRegression(ByLikelihood, FitsFiles):
    """Linear logistic regression, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, x> + b and r = `l1_ratio`,

        min  r ||w||_1 + (1 - r)/2 ||w||^2 + C sum_i s_i ln(1 + exp(-y_i f(x_i))).

    For more classes, the softmax loss with one f_k for each class is minimised, or the loss of each class against the
    rest. s_i is the weight of the row times the weight of its class. The penalty does not count b. With the l2 penalty,
    C is the variance of a Gaussian prior of every element of w.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or None, optional
        By default `l1_ratio` says which penalty is meant. "l2" is ``l1_ratio=0``, "l1" is ``l1_ratio=1``, and None is
        ``C=inf``. scikit-learn has deprecated this parameter.
    C : float, default=1.0
        Factor of the losses. Infinity means no penalty: `fit` maximises the likelihood.
    l1_ratio : float, default=0.0
        Share of the l1 norm in the penalty, between 0 and 1. With 1, many elements of w are exactly 0.
    dual, intercept_scaling, random_state, solver
        Have no effect: the solver is chosen by the shape of the table, and the result does not depend on it. `solver`
        takes scikit-learn's names. The textbook's gradient descent is
        :class:`mercer.optimisers.LogisticGradientDescent`.
    tol : float, default=1e-4
        If it is below 1e-4, the relative duality gap must be at most `tol`, too.
    fit_intercept : bool, default=True
        Whether the machine has a bias b.
    class_weight : {"balanced"} or dict, optional
    max_iter : int, default=100
        Largest number of steps of the solver; -1 for no limit.
    verbose : int, default=0
        1 writes progress to stderr every five seconds; 2 writes every progress report.
    warm_start : bool, default=False
        Whether `fit` starts from the last solution, if the shapes are the same.
    n_jobs : int, optional
        Number of threads; by default, the number of cores.
    multi_class : {"softmax", "ovr"}, default="softmax"
        The loss of more than two classes. "ovr" trains a machine for each class against the rest; its probabilities are
        divided by their sum. "multinomial" and "auto" are other names of "softmax".
    prior_variance : float, optional
        Another name of `C`, which must then have its default.
    tol_gap : float, default=1e-4
        Largest relative duality gap.
    max_seconds, memory_limit, callback
        As for :class:`mercer.LinearSVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
        With the softmax loss, its sum over the classes is 0.
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : ndarray of shape (1,), or (n_classes,) with "ovr"
        Number of steps.
    trace_ : list of TraceRow
        Gap and objective over time.
    certificate_ : Certificate
        Objectives and duality gap over all rows, recomputed in float64.
    solution_ : LinearSolution or LinearSolutions
        The solution, with `solver` and `reason`.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. Also if C is infinite and the
        likelihood has no maximum, because a hyperplane separates the classes or some of their rows.

    Notes
    -----
    :mod:`mercer.solvers.rows` trains all machines; it does not copy the table. For K classes with the softmax loss, a
    step costs some 10 products of the table with K vectors, and some 5 to 10 steps are made. If these are slow to
    converge, a matrix of the columns, or of the rows if they are fewer, is factorised once or twice: n p min(n, p)
    multiplications for all classes together.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.4; Albert & Anderson (1984) for likelihoods without a maximum;
    Böhning (1992), Multinomial logistic regression algorithm, for one matrix for all classes.

    Examples
    --------
    >>> from mercer import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LogisticRegression().fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 3), bool(machine.certificate_.relative_gap < 1e-4)
    ('optimal', 0.973, True)
    """

    spec_: ForLogisticRegression
    n_iter_: Any
    penalty: str | None  # type: ignore[assignment]
    _task = "classification"
    _other_names_of_C: ClassVar[dict[str, Any]] = {"prior_variance": None}

    def __init__(
        self,
        penalty: str | None = "deprecated",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        dual: bool = False,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        multi_class: str = "softmax",
        prior_variance: float | None = None,
        tol_gap: float = 1e-4,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.multi_class = multi_class
        self.prior_variance = prior_variance
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> LogisticRegression:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            Float32, float64, int8 and bool arrays in C order and canonical CSR matrices are not copied; other small
            integers become float32, all other numbers float64.
            Dask arrays and data frames stay with their workers, also if `y` and `sample_weight` are lazy.
            Arrays of other libraries on a device stay there, and sums over their rows are computed there; `y` and
            `sample_weight` are copied to the host. More than two classes need ``multi_class="ovr"`` then.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of the loss by row, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.

        Returns
        -------
        LogisticRegression
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN, infinity or values whose squares overflow, `y` has
            another length than `X` or holds one class only, or a weight is negative.
        MemoryError
            If `memory_limit` is less than what a copy of `X`, or the least memory of the solver, needs.
        """
        if is_lazy(X):
            return self._fit_lazy(X, y, sample_weight, checkpoint)
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
        with self._checkpointed(checkpoint, X, y, sample_weight):
            spec, control = self._asked(), self._control()
            table = read_training_table(self, X, y, spec.C)
            labels = read_labels(y, sample_weight, self.class_weight, table.values.shape[0])
            _refuse_many_columns(table.values.shape[1])
            codes = labels.codes.astype(np.float64)
            rows = table.rows(codes, labels.sample_weight)
            spec = self._spec_for(spec, labels)
            if spec.joint and isinstance(rows, TableRows):
                self._train_jointly(spec, rows, labels, table, control)
            else:
                self._train_each(spec, rows, labels, table, control)
            self.classes_, self.class_weight_, self._used_rows = labels.classes, labels.class_weight, labels.rows
            self._warn()
            return self

    def _train_jointly(
        self, spec: ForLogisticRegression, rows: TableRows, labels: Labels, table: LinearTable, control: Control
    ) -> None:
        """Train one machine for all classes together."""
        problem = spec.softmax_problem(rows, labels.classes.size, labels.class_weight)
        start = self._starts([problem])[0]
        solution = solve_one(problem, control, start=start, memory_limit=self.memory_limit, n_jobs=self.n_jobs)
        self.spec_ = spec
        self._store([problem], LinearSolutions([solution]), table)

    def _train_each(
        self, spec: ForLogisticRegression, rows: LinearRows, labels: Labels, table: LinearTable, control: Control
    ) -> None:
        """Train a machine for two classes, or one for each class against the rest."""
        self.spec_ = spec
        if np.isfinite(spec.C) or not isinstance(rows, TableRows):
            problems = self._problems(spec, rows, labels)
            self._store(problems, self._solve(problems, control), table)
            return
        weights, began = labels.weights, time.perf_counter()
        positive = (1,) if labels.classes.size == 2 else range(labels.classes.size)
        started, solutions = self._starts([spec.problem(rows, k) for k in positive]), []
        with control.interruption:
            for number, k in enumerate(positive):
                class_rows = TableRows(rows.table, (labels.codes == k).astype(np.float64), weights, table.squares)
                last = started[number]
                start = None if last is None else _of_pair(last)
                left = control.after(time.perf_counter() - began, 0).for_machine(number, len(positive))
                about = {"memory_limit": self.memory_limit, "n_jobs": self.n_jobs}
                one = solve(spec.softmax_problem(class_rows, 2), left, start=start, **about)
                solutions.append(
                    replace(one, w=one.w[:, 1] - one.w[:, 0], beta=np.ascontiguousarray(np.asarray(one.beta[:])[:, 1]))
                )
        w = np.array([one.w for one in solutions])
        normals, biases = w[:, : rows.p], w[:, rows.p] if spec.bias else np.zeros(len(w))
        self._hold(normals, biases, LinearSolutions(solutions), rows, table)

    def _asked(self) -> ForLogisticRegression:
        """Check the parameters, and return the specification of the problem."""
        has_bias = check_flag("fit_intercept", self.fit_intercept)
        check_flag("dual", self.dual)
        check_number("intercept_scaling", self.intercept_scaling, at_least=-np.inf)
        check_choice("solver", self.solver, _SOLVERS)
        check_choice("multi_class", self.multi_class, _SCHEMES)
        C, ratio = self._penalty()
        return ForLogisticRegression(C=C, l1_ratio=ratio, bias=has_bias, free=has_bias)

    def _penalty(self) -> tuple[float, float]:
        """Check the parameters of the penalty, which has several names; return C and the share of the l1 norm."""
        if self.penalty is not None:
            check_choice("penalty", self.penalty, (_UNSET, *_RATIOS, "elasticnet"))
        C = check_number("C", self.C, above=0.0)
        if self.prior_variance is not None:
            variance = check_number("prior_variance", self.prior_variance, above=0.0)
            if C not in (1.0, variance):
                raise InvalidParameterError(
                    f"C and prior_variance are two names of one parameter, got C={self.C!r} and "
                    f"prior_variance={self.prior_variance!r}. Set one of them."
                )
            C = variance
        ratio = 0.0 if self.l1_ratio is None else check_number("l1_ratio", self.l1_ratio, at_least=0.0)
        if ratio > 1.0:
            raise InvalidParameterError(f"l1_ratio must be a number between 0 and 1, got {self.l1_ratio!r}.")
        named = _RATIOS.get(str(self.penalty), ratio)
        if ratio not in (0.0, named):
            warn_user(
                f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={self.penalty}). Leave "
                "penalty out.",
                UserWarning,
            )
        if self.penalty is None:
            if C != 1.0 or ratio != 0.0:
                warn_user("Setting penalty=None will ignore the C and l1_ratio parameters", UserWarning)
            return np.inf, 0.0
        return C, named

    def _spec_for(self, spec: ForLogisticRegression, labels: Labels | None) -> ForLogisticRegression:
        """Return the specification for these classes: several have one problem, but for one against the rest."""
        is_joint = labels is not None and labels.classes.size > 2 and self.multi_class != "ovr"
        return replace(spec, joint=True) if is_joint else spec

    def _problems(
        self, spec: ForLogisticRegression, rows: LinearRows, labels: Labels | None
    ) -> list[LinearProblem] | list[SoftmaxProblem]:
        """Return one problem for two classes and for the softmax loss, otherwise one for each class against the rest.

        Raises
        ------
        InvalidParameterError
            If the rows are not in memory, and what is asked for needs them there.
        """
        assert labels is not None
        n_classes = labels.classes.size
        if np.isinf(spec.C):
            raise InvalidParameterError("C must be finite if the rows are in a file, got inf.")
        if spec.joint:
            is_on_device = rows.is_elsewhere and not isinstance(rows, PlacedRows)
            if is_on_device or spec.l1_ratio:
                what = "rows on a device" if is_on_device else f"the l1 norm (l1_ratio={spec.l1_ratio:g}) of such rows"
                raise InvalidParameterError(
                    f'more than two classes of {what} need multi_class="ovr", got {self.multi_class!r}: the softmax '
                    "loss then needs the rows in memory, on the host, by `fit` on arrays."
                )
            return [spec.softmax_problem(rows, n_classes, labels.class_weight)]
        positive = (1,) if n_classes == 2 else range(n_classes)
        return [spec.problem(rows, number, labels.class_weight) for number in positive]

    def _hold(
        self, normals: FloatArray, biases: FloatArray, solutions: LinearSolutions, rows: LinearRows, table: LinearTable
    ) -> None:
        """Store what a fit has found; here the biases and the numbers of steps are always arrays."""
        super()._hold(normals, biases, solutions, rows, table)
        self.intercept_ = np.asarray(biases, dtype=np.float64)
        self.n_iter_ = np.array([one.n_iter for one in solutions], dtype=np.int32)

    def _advice(self) -> str:
        """What the status means; without a penalty, the reason may be that there is no maximum."""
        if np.isfinite(self.spec_.C) or self.certificate_.status is not Status.STALLED:
            return super()._advice()
        return (
            "A hyperplane separates the classes, or some rows of them, so that the likelihood has no maximum, or "
            "rounding hides it. Set a finite C."
        )


def _refuse_many_columns(n_columns: int) -> None:
    """Raise MemoryError at once if the operating system does not give memory for a few numbers of each column."""
    try:
        np.empty(_VECTORS * n_columns)
    except MemoryError as error:
        raise MemoryError(
            f"a fit on {n_columns:,} columns needs {8 * _VECTORS * n_columns:,} bytes for weights and gradients, and "
            "the operating system does not give them. Leave out columns without entries."
        ) from error


def _of_pair(solution: LinearSolution) -> LinearPoint:
    """Return the weights of two classes whose difference is a solution, (n_columns, 2)."""
    return LinearPoint(solution.w[:, None] * [-0.5, 0.5], solution.beta, solution.C)
