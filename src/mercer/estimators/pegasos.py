"""Linear support vector classification of rows that come one by one or in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate
from mercer.certificates.status import Status
from mercer.data.arguments import check_callback, check_count, check_flag, check_number, check_seconds
from mercer.data.user_warnings import warn_user
from mercer.estimators._labels import Labels, check_classes, read_labels
from mercer.estimators._linear import LinearMachine
from mercer.estimators._linear_rows import read_linear_table
from mercer.estimators._scores import ByScores
from mercer.estimators._validation import generator_of, refuse_device
from mercer.gram.rows.sweeps import column_squares
from mercer.solvers import Control, Interruption, Limits, Progress
from mercer.solvers.loop import ProgressMonitor, drive
from mercer.solvers.rows import LinearProblem, TableRows
from mercer.solvers.rows.pegasos import Pegasos, ProgressiveLoss, Steps, Visits, check_range
from mercer.solvers.rows.pegasos_epochs import Training, certify, rows_at_a_time
from mercer.specs import ForLinearSVC

_LARGEST_BATCH = 1 << 40  # rows; more than any table has
_UNEVEN = 100.0  # ratio of the sizes of the largest and the smallest column from which the columns are called unscaled


class PegasosSVC(ByScores, LinearMachine):
    """Linear support vector classification by stochastic subgradient steps (Pegasos), also for streams of rows.

    **Solves**, for two classes, or for each class against the others,

        min  alpha/2 (||w||^2 + b^2) + (1/n) sum_i c_i max(0, 1 - y_i f(x_i)),   f(x) = <w, x> + b

    where c_i is the factor of the class and n the number of rows (the sum of the sample weights). This is
    ``LinearSVC(loss="hinge")`` with C = 1 / (alpha n). The bias is the weight of one more column of ones, so that it is
    penalised, as in `LinearSVC`.

    Use it if rows come as a stream, or if one pass must do. If all rows are at hand, `LinearSVC` is more exact and
    usually faster.

    Parameters
    ----------
    alpha : float, default=1e-4
        The factor lambda of the penalty, > 0, named as in scikit-learn's SGDClassifier. The number of rows needed grows
        as 1/alpha.
    fit_intercept : bool, default=True
        Whether f has a bias, whose square is penalised like those of the other weights.
    max_iter : int, default=1000
        Largest number of epochs of `fit`, >= 1. An epoch visits every row once.
    tol_gap : float, default=1e-2
        `fit` ends when the relative duality gap is proved to be at most this. It is computed after 1, 2, 4, 8, ...
        epochs.
    batch_size : int, default=1
        Number of rows of a step, >= 1.
    projection : bool, default=True
        Whether each step moves w to the ball that holds the optimum. Without it, the first steps, which are long, are
        forgotten more slowly.
    average : bool, default=True
        Whether the machine is the average of w over the steps, in which later steps count more. Otherwise it is the
        last w, which varies from row to row.
    shuffle : bool, default=True
        Whether `fit` visits the rows in a new random order in each epoch. `partial_fit` takes rows as they come.
    random_state : int, RandomState or None, default=None
        Determines the orders.
    class_weight : {"balanced"} or dict, optional
        Factors of the loss by class. With more than two classes, the factor is for the rows of the class in its own
        machine, where the rows of the others have factor 1, as in `LinearSVC`. "balanced" is n / (K n_k) for a class
        with n_k rows, if K classes have rows; in `partial_fit`, counts are those of all rows so far.
    max_seconds : float, optional
        Time limit of `fit`, or of a call of `partial_fit`, in seconds.
    callback : callable, optional
        Called about every 50 ms in `fit` with a :class:`mercer.solvers.Progress`: `n_iter` is the epoch, and
        `violation` and `dual` are the relative gap and the dual value when they were last computed. If it returns
        a true value, the fit stops.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, p) for two classes, (n_classes, p) for more
    intercept_ : ndarray of shape (1,) or (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
        Factors of the loss by class; 1 for a class that had no rows yet.
    progressive_loss_ : mercer.solvers.rows.pegasos.ProgressiveLoss
        Losses of the rows before the machine learnt from them: `hinge` and `error_rate` over all rows, `recent_hinge`
        and `recent_error_rate` over the last 1,000. In `fit`, only the first epoch counts.
    certificate_ : mercer.Certificate
        After `fit`: the duality gap over the training rows. `partial_fit` removes it, see :meth:`certify`.
    t_ : float
        The sum of the sample weights of the rows visited. The step length is 1/(alpha t), for the sum of the
        subgradients of the rows of a batch.
    n_rows_seen_ : int
        Number of rows visited, over all epochs and calls; those of weight 0 do not count.
    n_iter_ : int
        Epochs of `fit`; 1 after `partial_fit` alone.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If `fit` ends before the gap is at most `tol_gap`. The message and `certificate_` say how far the machine is.

    Notes
    -----
    Sparse rows cost as many operations as they have entries, whatever the number of columns: hashed features work as
    they are. The state is three numbers in float64 for each column and machine. Tables of
    float32, float64, bool or int8 in C order, and CSR matrices, are read in place; others are copied.

    Steps are long for columns of large values, and short for those of small ones: scale the columns first, for
    instance by StandardScaler or MaxAbsScaler.

    See docs/concepts/online_learning.md.

    References
    ----------
    Shalev-Shwartz, Singer & Srebro (2007), Pegasos: Primal Estimated sub-GrAdient SOlver for SVM.

    Examples
    --------
    >>> from mercer import PegasosSVC
    >>> machine = PegasosSVC(alpha=1.0, random_state=0).fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1])
    >>> machine.predict([[-0.5], [0.5]]).tolist(), machine.certificate_.status
    ([0, 1], <Status.OPTIMAL: 'optimal'>)
    """

    _search: Interruption | None = None  # the interruption of the search that this fit belongs to

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol_gap: float = 1e-2,
        batch_size: int = 1,
        projection: bool = True,
        average: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        max_seconds: float | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol_gap = tol_gap
        self.batch_size = batch_size
        self.projection = projection
        self.average = average
        self.shuffle = shuffle
        self.random_state = random_state
        self.class_weight = class_weight
        self.max_seconds = max_seconds
        self.callback = callback

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    @property
    def coef_(self) -> FloatArray:
        """The weights of the columns, (n_machines, p). The same array until the machine learns again."""
        return self._machines()[:, :-1]

    @property
    def intercept_(self) -> FloatArray:
        """The biases, (n_machines,)."""
        return self._machines()[:, -1]

    @property
    def t_(self) -> float:
        """The sum of the sample weights of the rows visited."""
        self._machines()
        return self._learner.t

    def _machines(self) -> FloatArray:
        if not hasattr(self, "_learner"):
            raise NotFittedError("This PegasosSVC is not fitted yet: call fit or partial_fit first.")
        return self._learner.weights

    def _asked(self) -> tuple[Steps, Limits]:
        """Return the checked parameters."""
        check_callback(self.callback)
        check_flag("shuffle", self.shuffle)
        generator_of(self.random_state)
        has_bias = check_flag("fit_intercept", self.fit_intercept)
        steps = Steps(
            alpha=check_number("alpha", self.alpha, above=0.0, finite=True),
            constant=1.0 if has_bias else 0.0,
            batch_size=min(check_count("batch_size", self.batch_size), _LARGEST_BATCH),
            projects=check_flag("projection", self.projection),
            averages=check_flag("average", self.average),
        )
        limits = Limits(
            tol_gap=check_number("tol_gap", self.tol_gap, above=0.0, finite=True),
            max_iter=check_count("max_iter", self.max_iter),
            max_seconds=check_seconds(self.max_seconds),
        )
        return steps, limits

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PegasosSVC:
        """Train the machine, in epochs over the rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, >= 0. A row of weight 2 counts as two rows; one of weight 0 is ignored.

        Returns
        -------
        PegasosSVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN, infinity or values whose squares overflow, `y` has
            another length than `X` or holds one class only, or a weight is negative.

        Warns
        -----
        ConvergenceWarning
            If the relative duality gap is larger than `tol_gap` at the end.

        Notes
        -----
        An epoch costs as many operations as `X` has entries, times the number of machines. A certificate costs about
        as much as ten epochs.
        """
        steps, limits = self._asked()
        table = read_linear_table(self, X, reset=True, y=y).values
        labels = read_labels(y, sample_weight, self.class_weight, table.shape[0])
        check_range(table, labels.sample_weight[labels.rows], labels.class_weight, steps.alpha)
        spec = _spec(labels, steps)
        training = Training(
            _problems(spec, table, labels, labels.class_weight),
            table,
            Visits(labels.codes, labels.sample_weight, labels.class_weight, labels.rows),
            steps,
            Pegasos(table.shape[1], labels.classes.size, averages=steps.averages),
            generator_of(self.random_state) if self.shuffle else None,
            Control(limits, self.callback, Interruption(self._search)),
        )
        training.run()
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self._totals = _totals(labels)
        self._learner, self._constant = training.learner, steps.constant
        self.spec_, self._used_rows, self._coefficients = spec, labels.rows, training.beta
        self.certificate_, self.n_iter_ = training.certificate, training.n_epochs
        self.n_rows_seen_, self.progressive_loss_ = training.n_visits, training.losses
        if self.certificate_.status is not Status.OPTIMAL:
            advice = _scales_of(table) or "The gap falls as 1/(alpha t): raise max_iter, alpha or tol_gap"
            warn_user(
                f"PegasosSVC ended as `{self.certificate_.status}` after {self.n_iter_} epochs: the relative duality "
                f"gap is {self.certificate_.relative_gap:.3g}, but tol_gap={limits.tol_gap:g}. {advice}, or use "
                'LinearSVC(loss="hinge"), which is exact.',
                ConvergenceWarning,
            )
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> PegasosSVC:
        """Learn from more rows, each of them once, in their order.

        Without shuffling, calls with consecutive parts of a table give the machine of one epoch of `fit`, if the sizes
        of the parts are multiples of `batch_size` and class weights are not balanced.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
            The new rows. They are not kept.
        y : array-like of shape (m,)
        classes : array-like of shape (n_classes,), optional
            All classes of all batches. Needed at the first call unless `fit` was called before; optional later.
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        PegasosSVC
            The machine itself.

        Raises
        ------
        ValueError
            As in :meth:`fit`, but one class in `y` suffices. Also if `classes` is missing at the first call or differs
            later, if `y` holds a class that is not in `classes`, or if the number of columns or `average` changed. The
            machine is then unchanged.
        KeyboardInterrupt
            For Ctrl-C. The machine has then learnt from the first rows only; the message says how many.

        Warns
        -----
        ConvergenceWarning
            If `max_seconds` ended the call before all rows were learnt; it says how many were.

        Notes
        -----
        Costs as many operations as `X` has entries, times the number of machines.
        """
        refuse_device(self, X, "partial_fit")
        steps, limits = self._asked()
        is_first = not hasattr(self, "_learner")
        if is_first and classes is None:
            raise ValueError("classes must name all classes at the first call of partial_fit, got None.")
        named = check_classes(classes) if is_first else self.classes_
        if not is_first and classes is not None and not np.array_equal(check_classes(classes), named):
            raise ValueError(
                f"classes must be those of the first call, {named.tolist()}, got {check_classes(classes).tolist()}. "
                "Fit the machine again to change them."
            )
        if not is_first and steps.averages != self._learner.averages:
            raise ValueError(
                f"average must stay {self._learner.averages} from the first call of partial_fit on, got "
                f"{steps.averages}: the sum of the earlier vectors is either kept or lost. Fit the machine again."
            )
        table = read_linear_table(self, X, reset=is_first, y=y).values
        is_balanced = isinstance(self.class_weight, str) and self.class_weight == "balanced"
        labels = read_labels(y, sample_weight, None if is_balanced else self.class_weight, table.shape[0], named)
        before = np.zeros(named.size) if is_first else self._totals
        if is_balanced:
            labels = labels._replace(class_weight=_balanced(before + _totals(labels)))
        check_range(table, labels.sample_weight[labels.rows], labels.class_weight, steps.alpha)
        if is_first:
            self.classes_, self._learner = named, Pegasos(table.shape[1], named.size, averages=steps.averages)
            self.n_rows_seen_, self.progressive_loss_, self.n_iter_ = 0, ProgressiveLoss(), 1
        control = Control(limits, interruption=Interruption(self._search))
        learnt, late = self._learn(table, labels, steps, control)
        totals = before + _totals(labels._replace(rows=labels.rows[:learnt]))
        self.class_weight_, self._totals, self._constant = labels.class_weight, totals, steps.constant
        for name in ("certificate_", "spec_", "_used_rows", "_coefficients"):  # those of the machine of `fit`
            self.__dict__.pop(name, None)
        if late is not None:
            said = (
                f"partial_fit learnt from {learnt:,} of {labels.rows.size:,} rows, up to row "
                f"{labels.rows[learnt - 1] if learnt else 'none'}; pass the rest again to go on."
            )
            if late is Status.INTERRUPTED:
                raise KeyboardInterrupt(said)
            warn_user(f"max_seconds={limits.max_seconds:g}: {said}", ConvergenceWarning)
        return self

    def _learn(self, table: Any, labels: Labels, steps: Steps, control: Control) -> tuple[int, Status | None]:
        """Learn from rows in their order; return from how many, and what ended it before the last row, if anything."""
        rows, learnt = labels.rows, 0
        height = rows_at_a_time(table, len(self._learner.scale), steps.batch_size)

        def chunks() -> Iterator[int]:
            nonlocal learnt
            while learnt < rows.size:
                yield learnt
                order = rows[learnt : learnt + height]
                visits = Visits(labels.codes, labels.sample_weight, labels.class_weight, order)
                losses = self._learner.learn(table, visits, steps, losses=True)
                assert losses is not None
                self.progressive_loss_ = self.progressive_loss_.followed_by(labels.sample_weight[order], *losses)
                self.n_rows_seen_ += order.size
                learnt += order.size

        ended = drive(chunks(), ProgressMonitor[int](control))
        return learnt, ended

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Return the duality gap of the machine as it is now, for the problem on these rows.

        The problem is that of the class, with `alpha`, these rows, and the class weights `class_weight_`. The machine
        is not changed. To learn how far a stream has come, certify on all its rows, or on a sample of them: the gap is
        then exact for the problem on the sample.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)
        y : array-like of shape (m,)
            Classes of `classes_`; a class may be missing.
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        mercer.Certificate
            With more than two classes, sums over the machines, which are in its `parts`. The status is `optimal` if the
            relative gap of each is at most `tol_gap`, and `max_iter` otherwise.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            As in :meth:`partial_fit`.

        Notes
        -----
        Costs about as much as ten epochs, and one number in float64 for each row and machine.
        """
        refuse_device(self, X, "certify")
        began = time.perf_counter()
        machines = self._machines()
        steps, limits = self._asked()
        table = read_linear_table(self, X, reset=False, y=y).values
        labels = read_labels(y, sample_weight, None, table.shape[0], self.classes_)
        assert limits.tol_gap is not None
        certificate, _ = certify(
            _problems(_spec(labels, steps), table, labels, self.class_weight_),
            machines,
            Status.MAX_ITER,
            tol=limits.tol_gap,
            n_iter=self.n_rows_seen_,
            began=began,
        )
        return certificate

    def _duals(self) -> FloatArray:
        """Return the dual coefficients of the rows of positive weight, (n_machines, n)."""
        return self._coefficients[:, self._used_rows]


def _spec(labels: Labels, steps: Steps) -> ForLinearSVC:
    """Return the problem of `LinearSVC` that has the same solution on these rows."""
    C = 1.0 / (steps.alpha * float(labels.sample_weight.sum()))
    return ForLinearSVC(C=C, squared=False, bias=steps.constant != 0.0)


def _problems(spec: ForLinearSVC, table: Any, labels: Labels, factors: FloatArray) -> list[LinearProblem]:
    """Return the problem of each machine on these rows; `factors` are those of the classes."""
    rows = TableRows(table, labels.codes.astype(np.float64), labels.sample_weight)
    n_classes = labels.classes.size
    if n_classes == 2:
        return [spec.problem(rows, 1, factors)]
    class_factors = np.where(np.eye(n_classes, dtype=bool), factors, 1.0)
    return [spec.problem(rows, number, class_factors[number]) for number in range(n_classes)]


def _scales_of(table: Any) -> str:
    """Return advice to scale the columns if their sizes differ much, otherwise an empty text."""
    sizes = np.sqrt(column_squares(table, 0.0)[: table.shape[1]] / table.shape[0])
    sizes = sizes[sizes > 0.0]
    if not sizes.size or sizes.max() < _UNEVEN * sizes.min():
        return ""
    return (
        f"Scale the columns, for instance by StandardScaler or MaxAbsScaler: their root mean squares range from "
        f"{sizes.min():.2g} to {sizes.max():.2g}, and steps are far too long for the largest"
    )


def _totals(labels: Labels) -> FloatArray:
    """Return the sum of the sample weights of each class."""
    rows = labels.rows
    counts = np.bincount(labels.codes[rows], weights=labels.sample_weight[rows], minlength=labels.classes.size)
    return counts.astype(np.float64)


def _balanced(totals: npt.NDArray[np.float64]) -> FloatArray:
    """Return the factor of each class that gives all classes with rows the same weight; 1 for the others."""
    has_rows = totals > 0.0
    return np.divide(totals.sum() / has_rows.sum(), totals, out=np.ones(totals.size), where=has_rows)
