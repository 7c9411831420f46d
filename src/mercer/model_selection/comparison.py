"""Is one machine better than another? Paired tests on the same rows and splits, with intervals for the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import f as fisher
from scipy.stats import t as student
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import indexable

from mercer._typing import FloatArray
from mercer.data.arguments import check_level
from mercer.data.result import Result
from mercer.model_selection.folds import SplitLimits, folds, on_each_split, rows_for
from mercer.model_selection.metrics import Interval, mcnemar, wilson_interval
from mercer.solvers.progress import StageProgress

Split = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """A paired test of two machines.

    Attributes
    ----------
    test : str
        Its name.
    difference : Interval
        Score of the first less that of the second, and where it may lie; infinite ends where the test gives none.
    statistic : float
        Of the test; NaN where there was no difference at all.
    p_value : float
        Two-sided: how probable a statistic as large is, if the machines are equally good.

    Examples
    --------
    >>> from mercer.model_selection.comparison import corrected_t_test
    >>> print(corrected_t_test([0.02, 0.03, 0.01, 0.02], n_train=75, n_test=25))
    corrected resampled t test: difference 0.02, 95% interval 0.000154 to 0.03985, p = 0.049
    """

    test: str
    difference: Interval
    statistic: float
    p_value: float

    def __str__(self) -> str:
        interval = self.difference
        ends = (
            f", {100 * interval.level:g}% interval {interval.low:.4g} to {interval.high:.4g}"
            if np.isfinite(interval.low)
            else ""
        )
        return f"{self.test}: difference {interval.value:.4g}{ends}, p = {self.p_value:.2g}"


@dataclass(frozen=True, repr=False)
class FiveByTwo(Result):
    """Both tests of five times two-fold cross-validation.

    Attributes
    ----------
    t : Comparison
        Dietterich's paired t test, 5 degrees of freedom: its difference is that of the first fold.
    F : Comparison
        Alpaydin's combined F test, 10 and 5 degrees of freedom: its difference is the mean of all ten.
    differences : ndarray of shape (5, 2)
        Score of the first machine less that of the second, by repetition and fold.
    """

    t: Comparison
    F: Comparison
    differences: FloatArray

    def __str__(self) -> str:
        return f"{self.t}\n{self.F}"

    def _columns(self) -> dict[str, Any]:
        """Return a row for each test."""
        both = (self.t._columns(), self.F._columns())
        return {name: [cell for one in both for cell in one[name]] for name in both[0]}


def corrected_t_test(differences: Any, *, n_train: float, n_test: float, level: float = 0.95) -> Comparison:
    """Return the corrected resampled t test of differences from K splits of the same rows.

    **Says** t = d̄ / √((1/K + n_test/n_train) s²) has about K − 1 degrees of freedom. The usual 1/K takes the splits for
    independent, and finds differences that are not there, for training sets overlap.

    Parameters
    ----------
    differences : array-like of shape (K,)
        Score of the first machine less that of the second, on each split; K >= 2.
    n_train, n_test : float > 0
        Rows to train on and to test on, in a split.
    level : float, default=0.95
        Confidence of the interval.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Nadeau & Bengio (2003), Inference for the generalization error, equation (9) and section 5.
    """
    d = _differences(differences, (None,))
    check_level(level)
    if not (n_train > 0 and n_test > 0):
        raise ValueError(f"n_train and n_test must be positive numbers of rows, got {n_train!r} and {n_test!r}.")
    mean, scale = float(d.mean()), math.sqrt((1.0 / d.size + n_test / n_train) * float(d.var(ddof=1)))
    return _by_t("corrected resampled t test", mean, mean, scale, d.size - 1, level)


def five_by_two_tests(differences: Any, level: float = 0.95) -> FiveByTwo:
    """Return both tests of five times two-fold cross-validation.

    **Says** with differences pᵢⱼ and sᵢ² = Σⱼ (pᵢⱼ − p̄ᵢ)²: t = p₁₁ / √(Σ sᵢ² / 5) has about 5 degrees of freedom, and
    F = Σᵢⱼ pᵢⱼ² / (2 Σ sᵢ²) about 10 and 5.

    Parameters
    ----------
    differences : array-like of shape (5, 2)
        Score of the first machine less that of the second, by repetition and fold.
    level : float, default=0.95
        Confidence of the interval of t.

    Returns
    -------
    FiveByTwo

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    t turns on which of the ten differences comes first; F does not, and finds more of the differences that are there. F
    has no interval.

    References
    ----------
    Dietterich (1998), Approximate statistical tests for comparing supervised classification learning algorithms,
    section 3.5; Alpaydin (1999), Combined 5x2cv F test for comparing supervised classification learning algorithms.

    Examples
    --------
    >>> from mercer.model_selection.comparison import five_by_two_tests
    >>> tests = five_by_two_tests([[0.03, 0.01], [0.02, 0.02], [0.04, 0.02], [0.01, 0.03], [0.02, 0.00]])
    >>> round(tests.t.statistic, 4), round(tests.F.statistic, 4)
    (2.3717, 3.25)
    """
    p = _differences(differences, (5, 2))
    check_level(level)
    spread = float(((p - p.mean(axis=1, keepdims=True)) ** 2).sum())
    t = _by_t("5x2cv paired t test", float(p[0, 0]), float(p[0, 0]), math.sqrt(spread / 5.0), 5, level)
    mean = Interval(float(p.mean()), -math.inf, math.inf, level)
    squares = float((p**2).sum())
    ratio = _ratio(squares, 2.0 * spread)
    return FiveByTwo(t, Comparison("5x2cv combined F test", mean, ratio, _p(fisher.sf(ratio, 10, 5))), p)


def paired_difference(first_right: Any, second_right: Any, level: float = 0.95) -> Comparison:
    """Return McNemar's exact test of two classifiers on the same rows, with an interval for the difference.

    **Says** if both err equally often, the rows that only one of them gets right are heads or tails.

    Parameters
    ----------
    first_right, second_right : array-like of bool of shape (n,)
        Which rows each classified correctly.
    level : float, default=0.95
        Confidence of the interval.

    Returns
    -------
    Comparison
        Its statistic is the number of rows that only the first gets right, less that of the second.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    The interval is Newcombe's, from Wilson's for each classifier and their correlation, with his correction for
    continuity. It stays within [-1, 1] and has a width where no row differs; it need not agree with the test to the
    last percent.

    It says nothing of other training rows: it compares two machines as they are, not two ways to train.

    References
    ----------
    McNemar (1947); Newcombe (1998), Improved confidence intervals for the difference between binomial proportions based
    on paired data, method 10.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.model_selection.comparison import paired_difference
    >>> first, second = np.repeat([1, 1, 0, 0], [20, 12, 2, 16]), np.repeat([1, 0, 1, 0], [20, 12, 2, 16])
    >>> print(paired_difference(first == 1, second == 1))
    McNemar's exact test: difference 0.2, 95% interval 0.05616 to 0.3292, p = 0.013
    """
    a, b = np.asarray(first_right), np.asarray(second_right)
    for name, array in (("first_right", a), ("second_right", b)):
        if array.dtype != bool or array.ndim != 1 or not array.size:
            raise ValueError(
                f"{name} must be an array of True and False, one a row, got {array.dtype} of {array.shape}."
            )
    if a.size != b.size:
        raise ValueError(f"first_right and second_right must be about the same rows, got {a.size} and {b.size}.")
    check_level(level)
    test, n = mcnemar(a, b), a.size
    one, two = (wilson_interval(int(right.sum()), n, level) for right in (a, b))
    both, neither = int(np.sum(a & b)), int(np.sum(~a & ~b))
    apart = both * neither - test.only_first * test.only_second
    excess = max(apart - n / 2, 0.0) if apart > 0 else float(apart)
    sizes = int(a.sum()) * int((~a).sum()) * int(b.sum()) * int((~b).sum())
    phi = excess / math.sqrt(sizes) if sizes else 0.0

    def width(down: float, up: float) -> float:
        return math.sqrt(max(0.0, down * down - 2.0 * phi * down * up + up * up))

    value = one.value - two.value
    low = value - width(one.value - one.low, two.high - two.value)
    high = value + width(two.value - two.low, one.high - one.value)
    return Comparison(
        "McNemar's exact test",
        Interval(value, low, high, level),
        float(test.only_first - test.only_second),
        test.p_value,
    )


def compare(
    first: Any,
    second: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 10,
    groups: Any = None,
    scoring: Any = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    verbose: int = 0,
    callback: Callable[[StageProgress], object] | None = None,
) -> Comparison:
    """Return whether one way to train is better than another, by cross-validation on the same splits.

    **Solves** nothing of its own: it fits clones of both on the training rows of each split, scores them on the others,
    and puts the differences to :func:`corrected_t_test`.

    Parameters
    ----------
    first, second : estimator
        Not fitted; searches and pipelines too.
    X : array-like, sparse matrix, dataframe or sequence of n rows
        A matrix of kernel values (n, n) for ``kernel="precomputed"``: its rows and columns are split.
    y : array-like of shape (n,)
    cv : int, splitter or iterable, default=10
        Folds: stratified for classifiers, grouped where there are groups.
    groups : array-like of shape (n,), optional
        Groups that stay together.
    scoring : str or callable, optional
        As in scikit-learn: larger is better. By default the first one's `score`: accuracy, or R².
    level : float, default=0.95
        Confidence of the interval.
    n_jobs : int, optional
        Fits at a time, by joblib.
    max_seconds : float, optional
        Time limit. If it ends the work, the result is that of the splits that are finished, of which there must be two.
    verbose : int, default=0
        1 shows how many splits are finished, and the time left: a bar in a terminal and in a notebook, else lines.
    callback : callable, optional
        Called with a :class:`mercer.solvers.StageProgress` after each split; a true value that it returns ends the work
        as the time limit does.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError
        If one of them is no estimator, a class or a name, say.
    ValueError
        If K is larger than a class or than the number of groups; if groups or y have another length than X; if one
        machine is a classifier and the other is not, and `scoring` does not say how to judge both; if a score is not
        finite.

    Notes
    -----
    It is a test about rows like these and training sets of this size. Of many machines, compare two and say which
    beforehand: the largest of many differences is no test.

    Costs 2 K fits.

    References
    ----------
    Nadeau & Bengio (2003); Bouckaert & Frank (2004), Evaluating the replicability of significance tests, with the
    advice of ten times ten folds: ``cv=RepeatedStratifiedKFold(n_splits=10, n_repeats=10)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, compare
    >>> X, y = load_iris(return_X_y=True)
    >>> print(compare(SVC(), SVC(C=0.001), X, y, cv=5))
    corrected resampled t test: difference 0.04, 95% interval -0.04095 to 0.1209, p = 0.24
    """
    check_level(level)
    _check_machines(first, second)
    (X,) = indexable(X)
    splits = folds(cv, X, y, groups, classifier=is_classifier(first))
    limits = SplitLimits(max_seconds, verbose, callback)
    differences = _scored(first, second, X, np.asarray(y), splits, scoring, n_jobs, limits)
    n_train, n_test = (float(np.mean([len(split[side]) for split in splits])) for side in (0, 1))
    return corrected_t_test(differences, n_train=n_train, n_test=n_test, level=level)


def five_by_two_cv(
    first: Any,
    second: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    seed: int = 0,
    level: float = 0.95,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    verbose: int = 0,
    callback: Callable[[StageProgress], object] | None = None,
) -> FiveByTwo:
    """Return whether one way to train is better than another, by five times two-fold cross-validation.

    **Solves** nothing of its own: it shuffles and halves the rows five times, fits clones of both on each half, scores
    them on the other, and puts the differences to :func:`five_by_two_tests`.

    Parameters
    ----------
    first, second, X, y, scoring, level, n_jobs, verbose
        See :func:`compare`.
    max_seconds, callback
        See :func:`compare`; all ten halves make a result, and what ends the work earlier is an error.
    seed : int, default=0
        The same seed halves in the same way.

    Returns
    -------
    FiveByTwo

    Raises
    ------
    ValueError
        If a class has one row only; see :func:`compare`.

    Notes
    -----
    Training sets are half of the rows: the test is about machines that are trained on as few. Costs 20 fits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, five_by_two_cv
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(five_by_two_cv(SVC(), SVC(gamma=100.0), X, y).F.p_value < 0.01)
    True
    """
    check_level(level)
    _check_machines(first, second)
    (X,) = indexable(X)
    kind = StratifiedKFold if is_classifier(first) else KFold
    splits = [
        split
        for repetition in range(5)
        for split in folds(
            kind(2, shuffle=True, random_state=np.random.RandomState([seed, repetition])),
            X,
            y,
            None,
            classifier=is_classifier(first),
        )
    ]
    limits = SplitLimits(max_seconds, verbose, callback, least=10)
    differences = _scored(first, second, X, np.asarray(y), splits, scoring, n_jobs, limits)
    return five_by_two_tests(differences.reshape(5, 2), level)


def _check_machines(first: Any, second: Any) -> None:
    for name, machine in (("first", first), ("second", second)):
        if isinstance(machine, type) or not hasattr(machine, "fit"):
            raise TypeError(f"{name} must be a machine to fit, such as SVC(), got {machine!r}.")


def _scored(
    first: Any,
    second: Any,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    scoring: Any,
    n_jobs: int | None,
    limits: SplitLimits,
) -> FloatArray:
    """Score of the first less that of the second, on every split."""
    if scoring is None and is_classifier(first) != is_classifier(second):
        kinds = ("a classifier", "none")[:: 1 if is_classifier(first) else -1]
        raise ValueError(
            f"first is {kinds[0]} and second is {kinds[1]}: accuracy and R² cannot be compared. Give two machines of a "
            "kind, or a scoring that judges both."
        )
    scorer = check_scoring(first, scoring)

    def difference(train: Any, test: Any) -> float:
        def score(machine: Any) -> float:
            fitted = clone(machine).fit(rows_for(machine, X, train, train), y[train])
            return float(scorer(fitted, rows_for(machine, X, test, train), y[test]))

        return score(first) - score(second)

    differences = np.array(on_each_split("the comparison", difference, splits, n_jobs, limits))
    bad = np.flatnonzero(~np.isfinite(differences))
    if bad.size:
        raise ValueError(
            f"scoring must give finite numbers, but the difference on split {bad[0]} is {differences[bad[0]]}."
        )
    return differences


def _by_t(name: str, value: float, effect: float, scale: float, degrees: int, level: float) -> Comparison:
    width = float(student.ppf(0.5 + level / 2, degrees)) * scale
    statistic = _ratio(effect, scale)
    return Comparison(
        name,
        Interval(value, value - width, value + width, level),
        statistic,
        _p(2.0 * student.sf(abs(statistic), degrees)),
    )


def _ratio(above: float, below: float) -> float:
    if below > 0.0:
        return above / below
    return math.nan if above == 0.0 else math.copysign(math.inf, above)


def _p(value: Any) -> float:
    """A p-value; 1 where there was no difference at all."""
    return 1.0 if math.isnan(value) else float(value)


def _differences(values: Any, shape: tuple[int | None, ...]) -> FloatArray:
    differences = np.asarray(values, dtype=np.float64)
    fits = differences.ndim == len(shape) and all(m in (None, k) for k, m in zip(differences.shape, shape, strict=True))
    if not fits or differences.size < 2 or not np.isfinite(differences).all():
        wanted = "two numbers or more" if shape == (None,) else f"of shape {shape}"
        raise ValueError(
            f"differences must be finite and {wanted}, got {differences.tolist()!r} of shape {differences.shape}."
        )
    return differences
