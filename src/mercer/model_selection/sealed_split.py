"""A table with a sealed test part, for any scikit-learn estimator: one clean estimate, with a confidence interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples, check_is_fitted

from mercer._typing import FloatArray
from mercer.data import Precomputed as GivenValues
from mercer.data import is_table
from mercer.data.arguments import check_choice, check_flag, check_level
from mercer.data.cell_hashes import hashes_of_each, text_hash
from mercer.data.checks import checked_length
from mercer.data.result import Result
from mercer.estimators._validation import check_square
from mercer.model_selection.arrangement import InTime, Split, Together
from mercer.model_selection.copies import content_ranks, equal_rows
from mercer.model_selection.folds import cut
from mercer.model_selection.metrics import Interval, grouped_share, mean_interval, wilson_interval
from mercer.model_selection.rows_learnt import sealed_rows_learnt
from mercer.model_selection.seal import Opening, Seal, SealedTest
from mercer.model_selection.splits import grouped_holdout

Loss = Callable[[Any, Any], Any]

LOSSES: dict[str, Loss] = {
    "zero_one": lambda truth, predicted: predicted != truth,
    "squared": lambda truth, predicted: np.square(predicted - truth),
    "absolute": lambda truth, predicted: np.abs(predicted - truth),
}


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    """The mean loss of one machine on the sealed rows, from one look: one opening of the seal.

    Attributes
    ----------
    loss : str
        Name of the loss; "zero_one" gives the share of errors.
    interval : Interval
        The mean loss and its confidence interval.
    n : int
        Number of sealed rows.
    opening : Opening
        Purpose, time and number of the look.
    grouped : bool
        Whether rows belong to groups or are copies of others. The interval then counts groups instead of rows.
    losses : ndarray of shape (n,)
        The loss of each sealed row.
    unknown : str
        Kind of the machine if it cannot be known whether it was fitted to sealed rows too, else "".
    """

    loss: str
    interval: Interval
    n: int
    opening: Opening
    grouped: bool
    losses: FloatArray = field(repr=False, compare=False)
    unknown: str = ""

    @property
    def value(self) -> float:
        """Mean loss on the sealed rows."""
        return self.interval.value

    @property
    def clean(self) -> bool:
        """Whether this is the first look, so that no choice could depend on the rows.

        If `unknown` is not empty, it must also be true that the machine was fitted to free rows alone.
        """
        return self.opening.clean

    @property
    def look(self) -> str:
        """Number and purpose of the look, as text."""
        return f"look number {self.opening.number} ({self.opening.purpose})"

    def __str__(self) -> str:
        name = "error" if self.loss == "zero_one" else f"{self.loss} loss"
        interval = self.interval
        verdict = "clean" if self.clean else "no longer clean: these rows had been seen before"
        if self.clean and self.unknown:
            verdict = f"clean if the machine was fitted to free rows alone, which cannot be known of a {self.unknown}"
        return (
            f"{name} {interval.value:.4g}, {100 * interval.level:g}% interval {interval.low:.4g} to "
            f"{interval.high:.4g}, on {self.n} sealed rows; {self.look}, {verdict}"
        )


class SealedSplit:
    """A table with a sealed test part. It gives one clean estimate, and records every look: every opening of the seal.

    `X_rest` and `y_rest` are free to use, for search, cross-validation, comparison and training. The sealed rows are
    not returned. `open` lets a fitted machine predict them, and returns its loss with a confidence interval.

    Parameters
    ----------
    X : array-like, sparse matrix, dataframe or sequence of n rows
    y : array-like of shape (n,)
        Classes or numbers.
    test_size : float, default=0.25
        Share of the rows, or of the groups, to seal.
    stratify : bool, optional
        Whether both parts have the same shares of classes. The default is True if there are no groups and y holds
        text, booleans, integers or two values only, else False.
    groups : array-like of shape (n,), optional
        Rows of one group (a patient, a day) are sealed together or not at all.
    time : array-like of shape (n,), optional
        Numbers or dates by which the last rows are sealed, those of one time together: the estimate is for predicting
        what comes next. Copies are then not kept together, and classes have the shares that time gives them. With
        `groups`, each row counts as late as the last one of its group.
    seed : int, default=0
        The same seed seals the same rows.
    copies : {"together", "apart"}, default="together"
        With "together", equal rows are all sealed or all free, because a copy among the free rows makes the estimate
        too good. Rows that are equal by chance, because there are few distinct values, are not kept together; see
        `equal_rows` of `mercer.model_selection`. With "apart", equal rows may be separated.
    pairwise : bool, optional
        Whether X is a Gram matrix, for ``kernel="precomputed"``: the columns of sealed rows are then sealed too. The
        default is True if X is a symmetric matrix, else False.

    Attributes
    ----------
    X_rest, y_rest, groups_rest
        The rows that are not sealed; `groups_rest` is None without groups.
    rest : ndarray of int
        Their indices.
    n_test : int
        Number of sealed rows.
    n_copies : int
        Number of rows that equal an earlier row and are kept with it.
    openings : tuple of Opening
        Every look so far.

    Raises
    ------
    ValueError
        If `y` or `groups` has another length than `X` or missing values. If `test_size` is not a share, or leaves a
        part without a class or with fewer than two groups. If `pairwise` is True and X is not square.

    Notes
    -----
    Differs from scikit-learn's `train_test_split`, which returns the test rows, so that their uses are not counted. The
    seal is not a lock: the rows are still in your X.

    A pickled `SealedSplit` keeps the record of its looks.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mercer import SVC, SealedSplit
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sealed = SealedSplit(X, y)
    >>> machine = make_pipeline(StandardScaler(), SVC()).fit(sealed.X_rest, sealed.y_rest)
    >>> print(sealed.open(machine))
    error 0.04196, 95% interval 0.01937 to 0.08851, on 143 sealed rows; look number 1 (final estimate), clean
    >>> sealed.open(machine, purpose="another look").clean
    False
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        test_size: float = 0.25,
        stratify: bool | None = None,
        groups: Any = None,
        time: Any = None,
        seed: int = 0,
        copies: Literal["together", "apart"] = "together",
        pairwise: bool | None = None,
    ) -> None:
        (self._X,) = indexable(X)
        n = _num_samples(X)
        if pairwise is not None:
            check_flag("pairwise", pairwise)
        if pairwise:
            check_square(np.shape(X))
        self._is_pairwise = _is_symmetric(self._X) if pairwise is None else bool(pairwise)
        self._y = checked_length("y", y, n, "class or number")
        self._groups = None if groups is None else checked_length("groups", groups, n, "group")
        self._moments = None if time is None else _moments(checked_length("time", time, n, "time"))
        check_choice("copies", copies, ("together", "apart"))
        if stratify is None:
            stratify = groups is None and time is None and _holds_classes(self._y)
        if stratify and groups is not None:
            raise ValueError("stratify must be False or None where there are groups, got True: groups go as they are.")
        if stratify and time is not None:
            raise ValueError("stratify must be False or None where there is time, got True: the last rows are sealed.")
        equal = equal_rows(self._X) if copies == "together" and time is None else None
        if equal is not None and not equal.are_copies:
            equal = None
        self.n_copies = 0 if equal is None else equal.n_repeated
        self._units = self._groups
        if equal is not None:
            names = None if self._groups is None else self._groups.astype(str)
            hashes = content_ranks(self._X) if names is None else hashes_of_each(names, text_hash)
            self._units = Together.by(equal.groups, *_given(names), hashes=hashes).groups
        self._seal = SealedTest(*self._parts(stratify, test_size, seed))
        if self.n_test < 2:
            raise ValueError(f"test_size must seal at least 2 rows, but {test_size:g} of {n} rows seals {self.n_test}.")

    def _parts(self, stratify: bool, test_size: float, seed: int) -> Split:
        """Return the free rows and the sealed rows."""
        if self._moments is not None:
            order = InTime(self._moments)
            if self._groups is not None:
                order = InTime.of_groups(self._moments, np.unique(self._groups, return_inverse=True)[1])
            return order.holdout(np.zeros(len(self._y), dtype=np.int64), test_size, seed)
        if self._groups is not None:
            return grouped_holdout(np.asarray(self._units), test_size, seed)
        codes = np.unique(self._y, return_inverse=True)[1] if stratify else np.zeros(len(self._y), dtype=np.int64)
        together = Together(np.arange(len(self._y)) if self._units is None else self._units)
        counts = together.counts(codes)
        if stratify and counts.min() < 2:
            rare = self._y[codes == int(counts.argmin())][0]
            raise ValueError(
                "every class must have 2 rows at least, one for either side, but "
                f"{rare.item() if hasattr(rare, 'item') else rare!r} has {_rows(int(counts.min()), self.n_copies)}: "
                "merge or leave out rare classes, or set stratify=False where y holds numbers."
            )
        return together.holdout(codes, test_size, seed)

    def __repr__(self) -> str:
        n_openings = len(self.openings)
        state = "unopened" if not n_openings else f"opened {'once' if n_openings == 1 else f'{n_openings} times'}"
        return f"SealedSplit({len(self.rest)} rows free, {self.n_test} sealed, {state})"

    @property
    def rest(self) -> npt.NDArray[np.int64]:
        """Indices of the rows that are not sealed."""
        return self._seal.rest

    @property
    def X_rest(self) -> Any:
        """The rows that are not sealed; for kernel values, also without the columns of the sealed rows."""
        return cut(self._X, self.rest, self.rest) if self._is_pairwise else _safe_indexing(self._X, self.rest)

    @property
    def y_rest(self) -> Any:
        """Classes or numbers of the rows that are not sealed."""
        return self._y[self.rest]

    @property
    def groups_rest(self) -> Any:
        """Groups of the rows that are not sealed."""
        return None if self._groups is None else self._groups[self.rest]

    @property
    def n_test(self) -> int:
        """Number of sealed rows."""
        return self._seal.n_test

    @property
    def openings(self) -> tuple[Opening, ...]:
        """Every look so far, in the order of time."""
        return self._seal.openings

    def open(
        self,
        *machines: Any,
        loss: str | Loss | None = None,
        purpose: str = "final estimate",
        level: float = 0.95,
    ) -> Any:
        """Let fitted machines predict the sealed rows, and return their losses. The call is recorded as one look.

        Parameters
        ----------
        *machines : estimator
            Machines fitted to `X_rest` or a part of it. Several machines are judged in one look. If you then take the
            best of them, your choice depends on the sealed rows.
        loss : "zero_one", "squared", "absolute" or callable, optional
            Loss of a row. A callable takes the truth and the predictions, and returns one number for each row. The
            default is "squared" for regressors, else "zero_one".
        purpose : str, default="final estimate"
            Purpose of the look, for the record.
        level : float, default=0.95
            Confidence of the interval.

        Returns
        -------
        Estimate, or tuple of Estimate
            One for each machine.

        Raises
        ------
        NotFittedError
            If a machine is not fitted. The test part stays sealed.
        TypeError
            If there is no machine, or a machine cannot predict. The test part stays sealed.
        ValueError
            If `loss` or `level` is invalid, if a machine was fitted to other columns or to sealed rows, or if `loss` is
            "zero_one" and no class of the machine occurs in `y`; the test part stays sealed. Also, after the look, if a
            loss is not one finite number for each row.

        Notes
        -----
        A share of errors has Wilson's interval, if there are no groups. Other losses have the interval of Student's t
        for a ratio of means over the groups, or over the rows if there are no groups.

        The rows that a machine was fitted to are compared with the sealed rows, if they can be found: kernel machines
        keep or refer to them. Of other machines, and of most unpickled ones, this cannot be known, and the estimate
        says so.

        A look is recorded before the prediction, so a failed look counts too. The machines keep the record as the
        attribute `seal_`, which includes later looks; model files store it as well.

        References
        ----------
        Wilson (1927); Cochran (1977), Sampling Techniques, section 9A.
        """
        chosen = [self._checked(machine) for machine in machines]
        if not chosen:
            raise TypeError("open needs a fitted machine: open(machine). The test part was not opened.")
        losses = [_loss(loss, machine) for machine in chosen]
        check_level(level)
        for machine, (name, _) in zip(chosen, losses, strict=True):
            if name == "zero_one":
                self._require_a_class(machine)
        unknown = [self._require_free_rows(machine) for machine in chosen]

        def judge(rows: npt.NDArray[np.int64]) -> list[tuple[str, FloatArray, Interval]]:
            truth = self._y[rows]
            groups = None if self._units is None else self._units[rows]
            estimates = []
            for machine, (name, of) in zip(chosen, losses, strict=True):
                each = _one_a_row(of(truth, np.asarray(machine.predict(self._asked(machine, rows)))), len(rows))
                estimates.append((name, each, _interval(each, groups, name == "zero_one", level)))
            return estimates

        for machine in chosen:
            _hand_record(machine, self._seal.seal)
        unsealed = self._seal.open(judge, purpose)
        estimates = tuple(
            Estimate(name, interval, self.n_test, unsealed.opening, self._units is not None, each, kind)
            for (name, each, interval), kind in zip(unsealed.value, unknown, strict=True)
        )
        return estimates[0] if len(estimates) == 1 else estimates

    def _takes_cut(self, machine: Any) -> bool:
        """Whether a machine was fitted on a Gram matrix of the free rows: X is one, or the machine needs one."""
        return self._is_pairwise or bool(get_tags(machine).input_tags.pairwise)

    def _asked(self, machine: Any, rows: npt.NDArray[np.int64]) -> Any:
        """Return the chosen rows, with the columns that a fitted machine takes."""
        return cut(self._X, rows, self.rest) if self._takes_cut(machine) else _safe_indexing(self._X, rows)

    def _checked(self, machine: Any) -> Any:
        kind = machine.__name__ if isinstance(machine, type) else type(machine).__name__
        if isinstance(machine, type) or not hasattr(machine, "fit"):
            raise TypeError(f"open needs a fitted machine, got {machine!r}. The test part was not opened.")
        try:
            check_is_fitted(machine)
        except NotFittedError as error:
            raise NotFittedError(
                f"open needs a fitted machine, but this {kind} is not fitted: call fit(sealed.X_rest, sealed.y_rest) "
                "first. The test part was not opened."
            ) from error
        if not hasattr(machine, "predict"):
            raise TypeError(
                f"open needs a machine that predicts, but {kind} has no predict. The test part was not opened."
            )
        given, width = np.shape(self._X)[1:] if is_table(self._X) else (), getattr(machine, "n_features_in_", None)
        if self._takes_cut(machine):
            check_square(np.shape(self._X))
            if width is not None and width != len(self.rest):
                raise ValueError(
                    f"open needs machines for kernel values with the {len(self.rest)} free rows, but this {kind} takes "
                    f"{width} columns: fit it to sealed.X_rest, or to X without the rows and columns of sealed rows "
                    "(X[np.ix_(sealed.rest, sealed.rest)]). If X holds features, say pairwise=False to SealedSplit. "
                    "The test part was not opened."
                )
        elif given and width is not None and given[0] != width:
            raise ValueError(
                f"open needs machines for the {given[0]} columns of X, but this {kind} takes {width}: put what it does "
                "to the columns into a Pipeline with it. The test part was not opened."
            )
        return machine

    def _require_free_rows(self, machine: Any) -> str:
        """Refuse a machine that was fitted to sealed rows; return its kind if that cannot be known, else ""."""
        kind = type(machine).__name__
        if self._takes_cut(machine):
            return ""  # the number of its columns was checked
        counts: list[int | None] = []

        def compare(sealed: npt.NDArray[np.int64]) -> None:
            counts.append(sealed_rows_learnt(machine, self._X, self.rest, sealed))

        self._seal.check(compare)
        if counts[0]:
            raise ValueError(
                f"open needs machines fitted to free rows alone, but {counts[0]} of the {self.n_test} sealed rows are "
                f"among those that this {kind} was fitted to: fit it to sealed.X_rest, sealed.y_rest. The test part "
                "was not opened."
            )
        return kind if counts[0] is None else ""

    def _require_a_class(self, machine: Any) -> None:
        """Refuse a classifier that was trained on none of the classes of y: every prediction would be an error."""
        classes = getattr(machine, "classes_", None)
        if classes is None or np.ndim(classes) != 1:
            return
        classes, present = np.asarray(classes).tolist(), np.unique(self._y).tolist()
        if not set(classes) & set(present):
            raise ValueError(
                f"open needs machines for the classes of y, {_some(present)}, but this {type(machine).__name__} was "
                f"fitted to {_some(classes)}: fit it to sealed.y_rest. The test part was not opened."
            )


def _moments(time: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return times as numbers in their order."""
    if time.dtype.kind == "M":
        return time.astype("datetime64[us]").astype(np.float64)
    if time.dtype.kind == "O" and all(hasattr(one, "timestamp") for one in time):
        return np.array([one.timestamp() for one in time])
    try:
        return time.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"time must hold numbers or dates (datetime64), got {time[0]!r}: convert texts with pandas.to_datetime."
        ) from error


def _given(groups: Any) -> tuple[Any, ...]:
    return () if groups is None else (groups,)


def _rows(count: int, n_copies: int) -> str:
    rows = "1" if count == 1 else str(count)
    return f"{rows} besides copies" if n_copies else rows


def _is_symmetric(X: Any) -> bool:
    """Whether X is a symmetric matrix of numbers, such as kernel values or distances."""
    if not is_table(X) or np.shape(X)[0] != np.shape(X)[1]:
        return False
    matrix = X if sparse.issparse(X) else np.asarray(X)
    if matrix.dtype.kind not in "biuf":
        return False
    given = GivenValues(matrix)
    return given.finite_problem() is None and given.asymmetry() is None


def _some(classes: list[Any]) -> str:
    """Return up to five classes as text, for a message."""
    return ", ".join(map(repr, classes[:5])) + (", ..." if classes[5:] else "")


def _hand_record(machine: Any, seal: Seal) -> None:
    """Set `seal_`, the record of the sealed part, of a machine and of the machines that it contains."""
    machine.seal_ = seal
    for inner in (getattr(machine, "best_estimator_", None), getattr(machine, "steps", [(None, None)])[-1][1]):
        if hasattr(inner, "fit"):
            _hand_record(inner, seal)


def _holds_classes(y: npt.NDArray[Any]) -> bool:
    """Whether y probably holds classes rather than numbers."""
    kinds = ("binary",) if y.dtype.kind == "f" else ("binary", "multiclass")
    return type_of_target(y) in kinds


def _loss(loss: str | Loss | None, machine: Any) -> tuple[str, Loss]:
    if callable(loss):
        return getattr(loss, "__name__", "given"), loss
    name = ("squared" if is_regressor(machine) else "zero_one") if loss is None else loss
    if name not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, a function, or None, got {loss!r}.")
    return name, LOSSES[name]


def _one_a_row(losses: Any, n: int) -> FloatArray:
    losses_of_rows = np.asarray(losses, dtype=np.float64)
    if losses_of_rows.shape != (n,) or not np.isfinite(losses_of_rows).all():
        raise ValueError(
            f"loss must give one finite number for each of the {n} rows, got shape {losses_of_rows.shape}."
        )
    return losses_of_rows


def _interval(losses: FloatArray, groups: Any, zero_one: bool, level: float) -> Interval:
    if zero_one:
        if groups is None:
            return wilson_interval(int(losses.sum()), losses.size, level)
        return grouped_share(losses, groups, level)
    return mean_interval(losses, groups, level)
