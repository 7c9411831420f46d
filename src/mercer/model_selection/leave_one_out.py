"""Exact leave-one-out: the prediction of each row by the machine trained without it, without n fits."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from mercer._typing import BoolArray, FloatArray, IndexArray, TextArray
from mercer.certificates.status import Status
from mercer.cluster import Workers, workers_of
from mercer.data.arguments import check_callback, check_choice, check_seconds
from mercer.data.files import Checkpoint
from mercer.data.result import Result
from mercer.data.user_warnings import warn_user
from mercer.estimators import LinearSVC, LogisticRegression
from mercer.estimators._base import about_fit
from mercer.estimators._device_training import host_targets
from mercer.estimators._linear_training import TrainedLinearMachine
from mercer.estimators._validation import is_on_device, refuse_device
from mercer.gram import Gram
from mercer.model_selection.copies import warn_of_copies
from mercer.model_selection.linear_leave_one_out import linear_left_out
from mercer.multiclass.training import Machines, class_scores, winners
from mercer.problems import Hinge
from mercer.solvers import Interruption
from mercer.solvers.loop import drive
from mercer.solvers.paths.loo_bounds import RIGHT, WRONG, DecidedErrors
from mercer.solvers.paths.loo_monitor import PassMonitor
from mercer.solvers.paths.loo_on_workers import SpreadLooPass
from mercer.solvers.paths.loo_values import LooPass
from mercer.solvers.progress import StageProgress
from mercer.solvers.progress_bar import reported

_TIGHT, _LOGISTIC = 1e-12, 1e-9  # relative duality gaps of linear machines, with all rows and without one
_ENOUGH = 1e-9  # relative gap above which a machine with all rows that does not reach these gaps is reported

_FIXED = (
    "kernel parameters that depend on the data, balanced class weights, and whatever was done to the rows before are "
    "those of all rows"
)


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(Result):
    """Leave-one-out values and predictions of all rows.

    Attributes
    ----------
    decision : ndarray of shape (n,) or (n, n_classes)
        Of a classifier: what `decision_function` of the machine without the row gives for it; for several classes, the
        scores, as with ``decision_function_shape="ovr"``. Of a regressor: the prediction. Of a novelty detector: the
        decision value, negative outside. NaN where it is not known.
    raw : ndarray of shape (n, n_machines)
        Decision values of the machines for two classes; the same as `decision` where there is one.
    predicted : ndarray of shape (n,)
        Class or prediction for each row; +1 or -1 of a novelty detector. Of no meaning where `known` is False.
    wrong : ndarray of bool of shape (n,) or None
        Which rows of a classifier or of a novelty detector (those outside) count as errors; None for regressors.
    error : float
        Their share; of a regressor, the mean squared error. Rows count equally; those of weight 0 do not. NaN where the
        pass was stopped before all rows were known; `error_bounds` says what is.
    rule : ndarray of str of shape (n, n_machines)
        How each value was found: "not a support vector", "nothing changes" (the span rule: no other row changes
        sides), "followed", "refitted", "not trained on", or "closed form"; "stalled" where rounding leaves an error
        above 1e-6 of the largest value (`rounding` bounds it); "unknown" where the pass was stopped before.
        With ``what="errors"``, also the rule that settles a row without a value; see `error_rule`.
    error_rule : ndarray of str of shape (n,) or None
        Which rule would settle first whether a row is an error, for a machine with hinge loss for two classes: "not a
        support vector", "misclassified in training", "Joachims", or that of `rule`.
    pivots : int
        How often variables changed sides, in all.
    violation : float
        Largest violation of the optimality conditions among all machines without a row, or largest element of
        `rounding`.
    rounding : ndarray of shape (n, n_machines)
        Bound of the error of each value of kernel machines for which C k(x, x) exceeds 10,000 and whose values were
        therefore computed in extended precision (up to 160 rows); NaN for other values.
    n_kernel_values, seconds : int, float
        What that took, beyond the fit.
    fit_seconds : float
    known : ndarray of bool of shape (n,)
        Of which rows it is known what is predicted: by their value, or by `error_rule` where that needs none.
    stopped : str
        Why some are not: "interrupted", "time limit" or "".
    held : str
        What is estimated from all rows and not again without each row.
    """

    decision: FloatArray
    raw: FloatArray
    predicted: npt.NDArray[Any]
    wrong: npt.NDArray[np.bool_] | None
    error: float
    rule: TextArray
    error_rule: TextArray | None
    pivots: int
    violation: float
    rounding: FloatArray
    n_kernel_values: int
    seconds: float
    fit_seconds: float
    known: BoolArray
    stopped: str = ""
    held: str = field(default=_FIXED, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many values each rule has found."""
        return dict(Counter(self.rule.ravel().tolist()))

    @property
    def error_counts(self) -> dict[str, int]:
        """How many rows each rule settles as errors or not; empty where `error_rule` is None."""
        return {} if self.error_rule is None else dict(Counter(self.error_rule.tolist()))

    @property
    def error_bounds(self) -> tuple[float, float]:
        """Between what the share of errors lies, whatever rows that are not known turn out to be; NaN of regressors."""
        if self.wrong is None:
            return np.nan, np.nan
        counted = ~(self.rule == "not trained on").all(axis=1)
        n_wrong, n_open = int((self.wrong & self.known & counted).sum()), int((counted & ~self.known).sum())
        return n_wrong / int(counted.sum()), (n_wrong + n_open) / int(counted.sum())

    def _facts(self) -> dict[str, str]:
        low, high = self.error_bounds
        error = f"{self.error:.4g}" if not self.stopped else f"between {low:.4g} and {high:.4g}, {self.stopped}"
        how = ", ".join(f"{count:,} {rule}" for rule, count in sorted(self.counts.items()))
        return {
            "error": error,
            "rows": f"{self.raw.shape[0]:,}",
            "values": how,
            "violation": f"{self.violation:.1g}",
            "seconds": f"{self.seconds:.3g} after a fit of {self.fit_seconds:.3g}",
            "as with all rows": self.held,
        }

    def __str__(self) -> str:
        how = ", ".join(f"{count} {rule}" for rule, count in sorted(self.counts.items()))
        low, high = self.error_bounds
        error = f"{self.error:.4g}" if not self.stopped else f"between {low:.4g} and {high:.4g}, {self.stopped}"
        return (
            f"leave-one-out error {error} ({self.raw.shape[0]} rows; {how}; {self.pivots} pivots; violation "
            f"{self.violation:.1g}; {self.seconds:.3g} s after a fit of {self.fit_seconds:.3g} s)"
        )


def leave_one_out(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    what: str = "values",
    max_seconds: float | None = None,
    verbose: int = 0,
    callback: Callable[[StageProgress], object] | None = None,
    checkpoint: Any = None,
    cluster: Any = None,
) -> LeaveOneOut:
    """Return the leave-one-out value of every row: its decision value by the machine trained without it.

    **Solves** the problem of the estimator n times, each time without one row: the numbers are those of n refits at a
    tight tolerance, to about 1e-6 of the margin. Kernel parameters such as gamma="scale", balanced class weights and
    preprocessing are those of all rows, see `held`.

    Parameters
    ----------
    estimator : estimator
        An SVC, SVR, QuantileSVR, OneClassSVM, SVDD, KernelRidge, LeastSquaresSVC, LeastSquaresClassifier, LinearSVC,
        LinearSVR or LogisticRegression. It is cloned and fitted to all rows; itself it is not changed.
    X : array-like, sparse matrix or dataframe of shape (n, p), or what the kernel takes
        Linear machines also take an array on a device, where copies of rows are not looked for.
    y : array-like of shape (n,), optional
        None for novelty detectors.
    sample_weight : array-like of shape (n,), optional
        As in `fit`.
    what : {"values", "errors"}, default="values"
        "errors" asks for no more than which rows are errors. A machine with hinge loss for two classes then finds
        values only for rows that neither their training error nor Joachims' lemma settles; the others' are NaN.
        Machines of other kinds have no such rules, and find all values.
    max_seconds : float, optional
        Ends the pass that long after the fit, with what is known by then; so does Ctrl-C.
    verbose : int, default=0
        1 shows how far the pass is, and the time left: a bar in a terminal and in a notebook, else lines on stderr.
    callback : callable, optional
        Called with a :class:`mercer.solvers.StageProgress` about every 50 ms, in hundredths of the work;
        a true value that it returns ends the pass.
    checkpoint : str or PathLike, optional
        Folder where the values of finished rows are written, every few seconds. If the process is killed, the same call
        continues with the other rows. A folder that belongs to other data, parameters or another version is refused.
    cluster : str or distributed.Client, optional
        The address of a Dask scheduler, such as "tcp://10.0.0.1:8786", or a client. All rows are fitted in this
        process; the workers then find the values. A task has one machine for two classes, as of each pair of classes,
        or some of the rows that a linear machine is refitted without. The result is that of this process, to every
        digit, also after a worker was lost. It needs `mercer[dask]`.

    Returns
    -------
    LeaveOneOut

    Raises
    ------
    TypeError
        If the estimator is of another kind, or `cluster` is neither an address nor a client.
    ClusterError
        If the workers cannot go on. With `checkpoint`, finished rows are kept.
    InvalidParameterError
        If `what`, `max_seconds` or `callback` is invalid.
    ValueError
        If the kernel is not positive semidefinite on these rows, or `contamination` is set; and as in `fit`.
    InseparableError
        If C is infinite and the classes cannot be separated.

    Warns
    -----
    ConvergenceWarning
        If rounding leaves a larger violation than the claim allows; if the pass was stopped before all was known.
    CopiesWarning
        If rows are judged by machines that have learnt from equal rows, and it is not by chance.

    Notes
    -----
    Rows that are no support vectors cost nothing: the machine without them is the same. Those of a support vector are
    found by moving its coefficient to 0, in steps in which whole blocks of other variables change sides, until the
    optimality conditions hold; the factorisation of the full solution's free variables serves all of them. Every
    solution's violation is measured. If rounding errors could matter, the row is refitted, and counted as "refitted".

    A machine for two classes of which one has a single row has no other class left without it: it then decides for
    the class that is there, with decision value +1 or -1, and the row is an error. LogisticRegression without a bias is
    refitted there, too.

    Linear machines with squared losses have a closed form for each row, as long as no other row enters or leaves the
    active rows; all other rows with a coefficient are refitted, from the full solution. LogisticRegression is refitted
    without every row, mostly by one or two Newton steps; several classes need ``multi_class="ovr"``.

    Where no support vector is free, the bias is the middle of the interval that the conditions leave, in the full
    machine and without a row.

    Costs n times the number of support vectors in kernel values, about once, f² (n + n_SV) multiplications for f free
    support vectors, and some f + m numbers for each row that is watched, m being a few hundred or thousand. Memory
    stays within the estimator's `memory_limit`; where the f + m numbers do not fit, rows are refitted.

    scikit-learn has `cross_val_predict(estimator, X, y, cv=LeaveOneOut())`, which fits n times, and estimates gamma and
    class weights again each time.

    References
    ----------
    Cauwenberghs & Poggio (2001), Incremental and decremental support vector machine learning; Joachims (2000),
    Estimating the generalization performance of an SVM efficiently; Chapelle & Vapnik (2000), Model selection for
    support vector machines, for the span; Júdice & Pires (1994), for exchanges of blocks of variables.

    Examples
    --------
    >>> from mercer import SVC, leave_one_out
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> loo = leave_one_out(SVC(), scale(X), y)
    >>> round(loo.error, 4), int(loo.wrong.sum())
    (0.0228, 13)
    """
    require_followed(estimator)
    check_choice("what", what, ("values", "errors"))
    check_seconds(max_seconds)
    check_callback(callback)
    if cluster is None and is_on_device(X) and isinstance(estimator, TrainedLinearMachine):
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
    else:
        refuse_device(estimator, X, "leave_one_out" if cluster is None else "leave_one_out(cluster=...)")
        warn_of_copies(X)
    limits: dict[str, Any] = {"max_seconds": max_seconds, "verbose": verbose, "callback": callback}
    with ExitStack() as stack:
        workers = None if cluster is None else stack.enter_context(workers_of(cluster))
        states = stack.enter_context(
            Checkpoint.opened(checkpoint, lambda: _about(estimator, X, y, sample_weight, what))
        )
        limits |= {"checkpoint": states, "workers": workers}
        return values_without_each_row(estimator, X, y, sample_weight, what=what, **limits)


def _about(estimator: Any, X: Any, y: Any, sample_weight: Any, what: str) -> dict[str, Any]:
    """Return what decides the values, as JSON values: a checkpoint of anything else is refused."""
    return about_fit(estimator, X, y, sample_weight) | {"work": "leave_one_out", "what": what}


def values_without_each_row(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    what: str,
    max_seconds: float | None,
    verbose: int = 0,
    callback: Callable[[StageProgress], object] | None = None,
    checkpoint: Checkpoint | None = None,
    workers: Workers | None = None,
) -> LeaveOneOut:
    """Return what `leave_one_out` returns, for parameters that were checked and rows whose copies were looked for."""
    began = time.perf_counter()
    given = {} if sample_weight is None else {"sample_weight": sample_weight}
    grams: list[Gram] = []
    machine = clone(estimator)
    if checkpoint is not None and has_fit_parameter(machine, "checkpoint"):
        given["checkpoint"] = checkpoint.folder / "fit"
    machine._take_gram = grams.append
    if isinstance(machine, TrainedLinearMachine):
        machine.set_params(tol=_gap_of(machine))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            machine.fit(X, y, **given)
        is_close = max(one.certificate.relative_gap for one in machine._solutions) <= _ENOUGH
        for one in caught:  # a gap below what float64 can resolve need not be reached
            if not (is_close and issubclass(one.category, ConvergenceWarning)):
                warn_user(str(one.message), one.category)
    else:
        machine.fit(X, y, **given)
    fit_seconds = time.perf_counter() - began
    if isinstance(machine, LogisticRegression) and machine.spec_.joint:
        raise ValueError(
            f"leave_one_out follows machines for two classes each, but multi_class is 'softmax' and y has "
            f"{machine.classes_.size} classes; set it to 'ovr'."
        )
    if not hasattr(machine, "_solutions"):  # nor is there a path to follow: machines of least squares
        return _closed_form(machine, X, np.asarray(y), fit_seconds)
    with Interruption() as interruption, reported(verbose, callback) as report:
        monitor = PassMonitor(interruption, max_seconds, report)
        if isinstance(machine, TrainedLinearMachine):
            result = _of_linear(machine, np.ravel(y), fit_seconds, monitor, checkpoint, workers)
        else:
            targets = y if y is None else np.ravel(y)
            matrix = grams[-1].afresh()
            about: dict[str, Any] = {"errors_only": what == "errors", "checkpoint": checkpoint, "workers": workers}
            result = _followed(machine, matrix, targets, fit_seconds, monitor, **about)
    if result.stopped:
        warn_user(
            f"leave_one_out was ended ({result.stopped}) when {int(result.known.sum())} of {result.known.size} rows "
            "were known; `known` says which, `error_bounds` what that says of the error. Raise max_seconds, or let it "
            "run.",
            ConvergenceWarning,
        )
    return result


def _gap_of(machine: TrainedLinearMachine) -> float:
    """Return the relative gap to which a linear machine is solved, with all rows and without one."""
    return float(min(machine.tol, _LOGISTIC if isinstance(machine, LogisticRegression) else _TIGHT))


def _of_linear(
    machine: TrainedLinearMachine,
    y: npt.NDArray[Any],
    fit_seconds: float,
    monitor: PassMonitor,
    checkpoint: Checkpoint | None,
    workers: Workers | None,
) -> LeaveOneOut:
    """Return the result of a linear machine that sweeps over rows."""
    began = time.perf_counter()
    about = machine.tol, machine.n_jobs, checkpoint, workers
    result = linear_left_out(machine._solutions, monitor, *about)
    raw, wrong = result.raw, None
    is_known: BoolArray = np.isfinite(raw.sum(axis=1))
    trained = ~(result.rule == "not trained on").all(axis=1)
    decision = raw[:, 0] if raw.shape[1] == 1 else raw
    if is_regressor(machine):
        predicted = decision
        error = float(np.mean(np.square(decision - y)[trained]))
    else:
        assert isinstance(machine, LinearSVC | LogisticRegression)
        predicted = machine.classes_[winners(decision)]
        wrong = (predicted != y) & is_known
        error = float(wrong[trained].mean())
    return LeaveOneOut(
        decision=decision,
        raw=raw,
        predicted=predicted,
        wrong=wrong,
        error=error if is_known[trained].all() else np.nan,
        rule=result.rule,
        error_rule=None,
        pivots=0,
        violation=result.violation,
        rounding=np.full(raw.shape, np.nan),
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        fit_seconds=fit_seconds,
        known=is_known,
        stopped="" if is_known.all() else monitor.stopped or "interrupted",
    )


def _followed(
    machine: Any,
    full_gram: Gram,
    y: Any,
    fit_seconds: float,
    monitor: PassMonitor,
    *,
    errors_only: bool,
    checkpoint: Checkpoint | None,
    workers: Workers | None,
) -> LeaveOneOut:
    """Return the result of a machine whose solutions are followed while a row is removed."""
    began = time.perf_counter()
    rows: IndexArray = machine._rows
    n_before = full_gram.n_values
    gram = full_gram if rows.size == full_gram.n else full_gram.restrict(rows)
    _require_convex(machine, gram)
    machines: Machines | None = getattr(machine, "machines_", None)
    parts = [np.arange(rows.size)] if machines is None else [task.rows for task in machines.tasks]
    problems = [solution.evidence.problem for solution in machine._solutions]
    rules = DecidedErrors(gram) if len(problems) == 1 and isinstance(problems[0].loss, Hinge) else None
    if any(solution.status is Status.INTERRUPTED for solution in machine._solutions):
        monitor.control.interruption.request()
    of_machines = problems, [solution.beta for solution in machine._solutions], parts, full_gram, rows
    about: dict[str, Any] = {"check": monitor.raise_if_stopped, "checkpoint": checkpoint}
    chooses = rules if errors_only else None
    one_by_one: LooPass
    if workers is None:
        one_by_one = LooPass(*of_machines, wanted=None if chooses is None else chooses.open_rows, **about)
    else:
        one_by_one = SpreadLooPass(*of_machines, workers=workers, rules=chooses, **about)
    drive(one_by_one.steps(), monitor)
    raw, rule, solutions = one_by_one.result()
    rounding = np.full(raw.shape, np.nan)
    for column, one in enumerate(solutions):
        rounding[rows[parts[column]], column] = one.errors
    error_rule = None if rules is None or not solutions else rules.named(rule[:, 0], rows, solutions[0].full)
    if error_rule is not None and errors_only:
        rule[:, 0] = error_rule
    deciding_rule = rule if error_rule is None else error_rule[:, None]
    is_known = (deciding_rule != "unknown").all(axis=1)
    decision, predicted, wrong, error = _judged(machine, machines, full_gram, raw, deciding_rule, rows, y, is_known)
    return LeaveOneOut(
        decision=decision,
        raw=raw,
        predicted=predicted,
        wrong=wrong,
        error=error,
        rule=rule,
        error_rule=error_rule,
        pivots=int(sum(np.maximum(one.pivots, 0).sum() for one in solutions)),
        violation=max((one.violation for one in solutions), default=np.inf),
        rounding=rounding,
        n_kernel_values=full_gram.n_values - n_before + one_by_one.n_values_elsewhere,
        seconds=time.perf_counter() - began,
        fit_seconds=fit_seconds,
        known=is_known,
        stopped="" if is_known.all() else monitor.stopped or "interrupted",  # by Ctrl-C while a machine was solved
    )


_KINDS = (
    "SVC, SVR, QuantileSVR, OneClassSVM, SVDD, KernelRidge, LeastSquaresSVC, LeastSquaresClassifier, LinearSVC, "
    "LinearSVR and LogisticRegression"
)
_FOLLOWED = frozenset(_KINDS.replace(" and", ",").split(", "))
_INSTEAD_OF = {
    "NuSVC": "margin changes with every row left out; use SVC with the same kernel and weights and C=machine.C_[0], "
    "machine being the fitted mercer.NuSVC: for two classes it predicts the same, unless class weights have lowered nu "
    "(of several classes, C_ has one C for each pair)",
    "NuSVR": "tube changes with every row left out; use SVR with the same kernel and weights, C=machine.C and "
    "epsilon=machine.epsilon_, machine being the fitted mercer.NuSVR: it predicts the same",
}


def require_followed(estimator: Any) -> None:
    """Refuse what has no exact leave-one-out, and say what to do.

    Raises
    ------
    TypeError
        If the estimator is of another kind.
    ValueError
        If a parameter of it stands in the way.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be a machine, got the class {estimator.__name__}: {estimator.__name__}() is one."
        )
    kind, home = type(estimator).__name__, type(estimator).__module__
    if not (home.startswith("mercer.") and kind in _FOLLOWED):
        public = ".".join(part for part in home.split(".") if not part.startswith("_"))
        followed = [one.__name__ for one in type(estimator).__mro__[1:] if one.__module__.startswith("mercer.")]
        is_known = home.startswith(("mercer.", "sklearn."))
        if is_known and kind in _INSTEAD_OF:
            but = f"a {kind}, whose {_INSTEAD_OF[kind]}"
        elif is_known and kind in _FOLLOWED:
            but = f"{public}.{kind}: mercer.{kind} takes its place"
        elif followed and followed[0] in _FOLLOWED:
            but = (
                f"a {kind}, a subclass of mercer.{followed[0]}, and a subclass may do anything: only the classes "
                "themselves are followed"
            )
        elif hasattr(estimator, "steps"):
            but = (
                f"a {kind}: give its last step, and the rows as the steps before it have made them: "
                "leave_one_out(pipeline[-1], pipeline[:-1].fit_transform(X), y)"
            )
        else:
            but = (
                f"a {kind}: cross_val_predict(estimator, X, y, cv=LeaveOneOut()) of scikit-learn fits any estimator n "
                "times"
            )
        raise TypeError(f"leave_one_out follows machines of {_KINDS}, but estimator is {but}.")
    if getattr(estimator, "approximation", None) is not None:
        raise ValueError(
            "leave_one_out follows the solution of an exact machine, which an approximate one does not have, but "
            f"approximation is {estimator.approximation!r}: set approximation=None, or take folds (cross_val_predict)."
        )
    if getattr(estimator, "contamination", None) is not None:
        raise ValueError(
            f"leave_one_out needs contamination=None, got {estimator.contamination}: the border would "
            "have to be found again without every row; set nu."
        )
    if isinstance(estimator, LogisticRegression) and np.isinf(estimator._asked().C):
        raise ValueError("leave_one_out of LogisticRegression needs a finite C and a penalty, got C=inf.")
    scheme = getattr(estimator, "multi_class", "ovo")
    if scheme not in ("ovo", "ovr", "softmax", "multinomial", "auto"):  # of two classes, softmax has the same problem
        schemes = "'ovr'" if isinstance(estimator, TrainedLinearMachine) else "'ovo' or 'ovr'"
        raise ValueError(
            f"leave_one_out follows machines for two classes each, but multi_class is {scheme!r}; set it to {schemes}."
        )


def _require_convex(machine: Any, gram: Gram) -> None:
    if not gram.is_convex:
        raise ValueError(
            f"leave_one_out needs a kernel that is positive semidefinite, but {machine.kernel_!r} is not known "
            f"to be on these rows ({gram.diagnosis}): the solutions without a row would not be unique."
        )


def _judged(
    machine: Any,
    machines: Machines | None,
    full_gram: Gram,
    raw: FloatArray,
    rule: TextArray,
    rows: IndexArray,
    y: Any,
    is_known: BoolArray,
) -> tuple[FloatArray, npt.NDArray[Any], BoolArray | None, float]:
    """Decision values as the estimator has them, what they predict, which are wrong, and the error."""
    decision, wrong = raw[:, 0], None
    if machines is not None:
        decision = class_scores(raw, machines.n_classes, machines.scheme)
        chosen, class_number = winners(decision), np.searchsorted(machine.classes_, np.asarray(y))
        decided = np.isnan(raw[:, 0]) & np.isin(rule[:, 0], (RIGHT, WRONG))
        chosen[decided] = np.where(rule[decided, 0] == WRONG, 1 - class_number[decided], class_number[decided])
        predicted = machine.classes_[chosen]
        wrong = (predicted != np.asarray(y)) & is_known
    elif is_regressor(machine):
        predicted = decision
    else:
        if hasattr(machine, "radius_"):  # R^2 less the squared distance from the centre
            decision = 2.0 * decision - full_gram.diag()
        predicted, wrong = np.where(decision < 0.0, -1, 1), decision < 0.0
    if wrong is not None:
        error = float(wrong[rows].mean())
    else:
        error = float(np.mean(np.square(decision - np.asarray(y, dtype=np.float64))[rows]))
    return decision, predicted, wrong, error if is_known[rows].all() else np.nan


def _closed_form(machine: Any, X: Any, y: npt.NDArray[Any], fit_seconds: float) -> LeaveOneOut:
    """Of machines of least squares, whose residuals without the row have a formula."""
    began = time.perf_counter()
    regressor = is_regressor(machine)
    decision = y - np.asarray(machine.loo_residuals_) if regressor else np.array(machine.loo_decision_)
    raw = decision if decision.ndim == 2 else decision[:, None]
    trained = ~np.isnan(raw).any(axis=1)
    if not trained.all():  # the machine is the same without them
        decision[~trained] = (machine.predict if regressor else machine.decision_function)(X)[~trained]
    wrong: npt.NDArray[np.bool_] | None = None
    if regressor:
        predicted = decision
        error = float(np.square(y - predicted)[trained].mean())
    else:
        predicted = machine.classes_[winners(decision)]
        wrong = predicted != y
        error = float(wrong[trained].mean())
    return LeaveOneOut(
        decision=decision,
        raw=raw,
        predicted=predicted,
        wrong=wrong,
        error=error,
        rule=np.where(trained[:, None], np.full(raw.shape, "closed form"), "not trained on"),
        error_rule=None,
        pivots=0,
        violation=machine.certificate_.gradient_violation,
        rounding=np.full(raw.shape, np.nan),
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        fit_seconds=fit_seconds,
        known=np.ones(raw.shape[0], dtype=bool),
    )
