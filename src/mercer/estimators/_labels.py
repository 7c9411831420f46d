"""Labels, weights and class weights of a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer._typing import FloatArray, IndexArray
from mercer.data.arguments import check_number
from mercer.data.checks import checked_length, fits_float64
from mercer.estimators._validation import check_sample_weight, has_plain_labels, rows_of_weight
from mercer.multiclass.cross_fitting import fold_numbers

_LARGEST_INTEGER = np.iinfo(np.int64).max


_NO_CLASS = -1  # class number of the rows whose class has no row of positive weight


class Labels(NamedTuple):
    """Classes and weights of the n rows that `fit` was given.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Classes that have a row of positive weight, sorted; in `partial_fit`, all named classes.
    codes : ndarray of shape (n,)
        Number of each row's class; -1 if the class has no row of positive weight.
    sample_weight : ndarray of shape (n,)
        Weight of each row; 0 also if the weight of its class is 0.
    rows : ndarray
        Indices of the rows of positive weight.
    class_weight : ndarray of shape (n_classes,)
    groups : ndarray of int64 of shape (n,) or None
        Number of each row's group. Probabilities are then calibrated on folds that keep each group together.
    """

    classes: npt.NDArray[Any]
    codes: IndexArray
    sample_weight: FloatArray
    rows: IndexArray
    class_weight: FloatArray
    groups: IndexArray | None = None

    @property
    def weights(self) -> FloatArray:
        """Sample weights times class weights, of all rows."""
        return self.sample_weight * self.class_weight[self.codes]

    @property
    def uneven_weights(self) -> FloatArray | None:
        """The sample weights, or None if all are 1."""
        return None if (self.sample_weight == 1.0).all() else self.sample_weight

    @property
    def has_class_weights(self) -> bool:
        """Whether rows of one class count more than rows of another one."""
        return bool((self.class_weight != self.class_weight[0]).any())

    @property
    def group_folds(self) -> IndexArray | None:
        """Fold of each of `rows`, with each group in one fold; None if there are no groups."""
        if self.groups is None:
            return None
        return fold_numbers(self.codes[self.rows], self.classes.size, self.groups[self.rows])

    @property
    def folds(self) -> IndexArray:
        """Fold of each of `rows`."""
        fold_of = self.group_folds
        return fold_numbers(self.codes[self.rows], self.classes.size) if fold_of is None else fold_of

    def penalties(self, C: float) -> FloatArray:
        """C times the weights of `rows`; infinity stays infinity."""
        if not isfinite(C):
            return np.full(self.rows.size, C)
        # Model files multiply in this order; another order would change the last bit of the bounds.
        return C * self.class_weight[self.codes[self.rows]] * self.sample_weight[self.rows]

    @property
    def signs(self) -> FloatArray:
        """Targets -1 and +1: one column for two classes, positive for the second, or else one column for each class."""
        if self.classes.size == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[:, None]
        return np.where(self.codes[:, None] == np.arange(self.classes.size), 1.0, -1.0)


def read_labels(y: Any, sample_weight: Any, class_weight: Any, n: int, named: Any = None, groups: Any = None) -> Labels:
    """Return the classes, their numbers, and the weight of each row.

    A class whose rows all have weight 0, or whose class weight is 0, is absent: the labels are those of the other
    rows. Classes that are `named` are never absent. If `y` is a `Labels` already, it is returned.

    Raises
    ------
    ValueError
        If `y` holds one class only or a class that is not `named`, if a weight is negative, if fewer than two classes
        have a row of positive weight, or if `groups` do not name two groups of such rows.
    """
    if isinstance(y, Labels):
        return y
    if named is None:
        classes, codes = check_labels(y)
    else:
        classes = check_classes(named)
        codes = class_numbers(y, classes)
    weights = check_sample_weight(sample_weight, n)
    by_class = class_weights(class_weight, classes, may_be_zero=named is None)
    if named is None and (sample_weight is not None or not by_class.all()):
        weights = np.where(by_class[codes] > 0.0, weights, 0.0)
        is_present = np.bincount(codes[weights > 0.0], minlength=classes.size) > 0
        _refuse_less_than_two(classes[is_present])
        classes, by_class = classes[is_present], by_class[is_present]
        codes = np.where(is_present, is_present.cumsum() - 1, _NO_CLASS)[codes]
    rows = rows_of_weight(weights)
    if isinstance(class_weight, str):
        by_class = _balanced(classes, codes[rows], weights[rows])
    return Labels(classes, codes, weights, rows, by_class, _group_numbers(groups, n, rows))


def labels_of_sums(classes: npt.NDArray[Any], sums: FloatArray, class_weight: Any) -> tuple[Labels, FloatArray]:
    """Return the classes of rows that are elsewhere, and the number of the class for each of `classes`, (n_classes,).

    `sums` are the sums of the weights of their rows. The number is -1 for a class that has no row of positive weight.

    Raises
    ------
    ValueError
        See :func:`read_labels`.
    """
    size = classes.size  # each class is named three times, so that the number of classes is small beside that of rows
    weights = np.concatenate([sums, np.zeros(2 * size)])
    labels = read_labels(np.concatenate([classes] * 3), weights, class_weight, 3 * size)
    return labels, labels.codes[:size].astype(np.float64)


def _group_numbers(groups: Any, n: int, rows: IndexArray) -> IndexArray | None:
    if groups is None:
        return None
    numbers = np.unique(checked_length("groups", groups, n, "group"), return_inverse=True)[1].astype(np.int64)
    if (numbers[rows] == numbers[rows[0]]).all():
        raise ValueError("groups must name at least two groups of rows of positive weight, but all are in one.")
    return numbers


def _refuse_less_than_two(present: npt.NDArray[Any]) -> None:
    if present.size < 2:
        problem = (
            f"every row of positive weight is of class {present.tolist()[0]!r}" if present.size else "all are zero"
        )
        raise ValueError(
            f"sample_weight must be positive in rows of at least two classes, but {problem} (sample_weight times "
            "class_weight counts). Give positive weights to rows of another class."
        )


def check_labels(y: Any) -> tuple[npt.NDArray[Any], IndexArray]:
    """Return the classes in sorted order and the class number of each row.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, already checked to be finite and of the right length by :func:`check_table`.

    Raises
    ------
    ValueError
        If `y` is not a classification target, mixes text with numbers, or holds one class only.
    """
    labels = _one_column(y)
    try:
        classes, codes = _numbered(labels) or np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"y must hold classes of one kind, all numbers or all text, got {' and '.join(kinds)}. Convert them first."
        ) from error
    if not (has_plain_labels(y) and 2 * classes.size <= y.size):  # scikit-learn warns if there are many classes
        _refuse_other_targets(labels)
    if classes.size < 2:
        raise ValueError(
            f"y must hold at least two classes, but holds one class only: {classes.tolist()}. Add rows of another one; "
            "if there is no other class, OneClassSVM or SVDD learn what one class looks like."
        )
    return classes, codes.astype(np.int64, copy=False)


def _one_column(y: Any) -> npt.NDArray[Any]:
    """Return labels as a one-dimensional array, as scikit-learn does, but without rounding large integers."""
    if has_plain_labels(y):
        return y
    values = np.asarray(y)
    return values if has_plain_labels(values) and not fits_float64(values) else column_or_1d(y, warn=True)


def _numbered(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IndexArray] | None:
    """Return what `np.unique` returns, without sorting; None unless the labels are integers in a small range."""
    if labels.dtype.kind not in "iu" or not labels.size:
        return None
    least, largest = int(labels.min()), int(labels.max())
    if largest - least > labels.size or largest > _LARGEST_INTEGER:
        return None
    places = labels.astype(np.int64) - least
    is_class = np.bincount(places) > 0
    classes = (is_class.nonzero()[0] + least).astype(labels.dtype)
    return classes, places if classes.size == is_class.size else (is_class.cumsum() - 1)[places]


def check_classes(classes: Any) -> npt.NDArray[Any]:
    """Return the `classes` argument of `partial_fit` as a sorted array.

    Raises
    ------
    ValueError
        If there are fewer than two classes.
    """
    named = np.unique(np.asarray(classes))
    if named.size < 2:
        raise ValueError(f"classes must name at least two classes, got {named.tolist()}.")
    return named


def class_numbers(y: Any, classes: npt.NDArray[Any]) -> IndexArray:
    """Return the number of each row's class among `classes`, which are sorted.

    Raises
    ------
    ValueError
        If `y` is not a classification target, or holds other classes.
    """
    labels = _one_column(y)
    _refuse_other_targets(labels)
    unknown = np.setdiff1d(labels, classes)
    if unknown.size:
        raise ValueError(
            f"y holds classes that the machine does not know: {unknown.tolist()}; it knows {classes.tolist()}. Name "
            "all classes at the first call of partial_fit, or fit it again."
        )
    return np.searchsorted(classes, labels).astype(np.int64)


def _refuse_other_targets(labels: npt.NDArray[Any]) -> None:
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if labels.dtype != object:
            raise
        kind = type(labels[0]).__name__
        raise ValueError(
            f"Unknown label type: y holds Python objects ({kind}) in an array of dtype object. Give classes as "
            "integers or text, for instance y.astype(int) or y.astype(str)."
        ) from error


def class_weights(class_weight: Any, classes: npt.NDArray[Any], *, may_be_zero: bool) -> FloatArray:
    """Return the weight of each class, before balancing: 1 if none is given.

    Raises
    ------
    ValueError
        If `class_weight` is neither None, "balanced" nor a mapping of classes to finite numbers >= 0 (or > 0), or if it
        names a class that `y` lacks while another class of `y` is not named.
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return np.ones(classes.size)
    if not isinstance(class_weight, Mapping):
        raise InvalidParameterError(
            f'class_weight must be None, "balanced" or a mapping of classes, got {class_weight!r}.'
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and any(label not in class_weight for label in labels):  # a fold may lack a class: that is no error
        raise ValueError(f"class_weight names classes that y does not hold: {unknown}; y holds {labels}.")
    bound: dict[str, Any] = {"at_least": 0.0} if may_be_zero else {"above": 0.0}
    return np.array(
        [check_number(f"class_weight[{k!r}]", class_weight.get(k, 1.0), **bound, finite=True) for k in labels]
    )


def _balanced(classes: npt.NDArray[Any], codes: IndexArray, weights: FloatArray) -> FloatArray:
    """Return n / (K n_k) for each of K classes, where n and n_k are sums of sample weights."""
    totals = np.bincount(codes, weights=weights, minlength=classes.size)
    if not totals.all():
        raise ValueError(
            f"class_weight='balanced' weighs the classes by the rows of the first batch, which has no row of class "
            f"{classes[totals == 0.0].tolist()[0]!r}: give a mapping of classes to weights, or a batch of all."
        )
    return totals.sum() / (classes.size * totals)


def one_column_for_two(values: FloatArray) -> FloatArray:
    """Return decision values in scikit-learn's shape: (m,) instead of (m, 1)."""
    return values[:, 0] if values.shape[1] == 1 else values
