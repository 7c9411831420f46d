"""From what a user passes to what the layers below take; every refusal says what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from mercer.data import Data, Precomputed, Structured, Vectors, as_data, as_structured, looks_structured
from mercer.estimators.told import refuse_targets
from mercer.kernels import Callable, Kernel

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
SomeData = TypeVar("SomeData", bound=Data)

_DATES = (nw.Date, nw.Datetime, nw.Duration)

_UNBALANCED, _LARGE = 1e3, 1e4  # a column this many times the median column, or this large, is worth a hint


def check_rows(estimator: BaseEstimator, X: Any, kernel: Kernel, *, reset: bool, y: Any = "no_validation") -> Data:
    """Return `X` as the data that the kernel takes: a table, kernel values, or strings and the like.

    What is `Data` already has been looked at by who made it.

    Raises
    ------
    ValueError
        See :func:`check_table`; and if `X` does not hold the rows that a kernel on strings or sets takes.
    """
    if reset:
        drop_record(estimator)
    if isinstance(X, Data):
        return X
    if kernel.is_structured or (isinstance(kernel, Callable) and looks_structured(X)):
        return _check_structured(estimator, X, kernel, reset=reset, y=y)
    if kernel.takes_values:
        return _finite(estimator, Precomputed(_numbers(estimator, X, reset=reset, y=y)))
    return check_table(estimator, X, reset=reset, y=y)


def drop_record(estimator: BaseEstimator) -> None:
    """Forget which sealed rows judged a machine that is about to become another one."""
    estimator.__dict__.pop("seal_", None)


def _check_structured(estimator: BaseEstimator, X: Any, kernel: Kernel, *, reset: bool, y: Any) -> Structured:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    try:
        data = as_structured(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X does not hold rows for the kernel {kernel!r}: {error}.") from error
    if data.n == 0:
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {kernel!r}.")
    if not (isinstance(y, str) and y == "no_validation"):
        refuse_targets(estimator, y)
        validate_data(estimator, X="no_validation", y=y, reset=False)
        check_consistent_length(X, y)
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):  # strings have no columns
            estimator.__dict__.pop(name, None)
    return data


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool, y: Any = "no_validation") -> Vectors:
    """Return rows of features as data, after scikit-learn's checks of shape and names, in their own float type.

    Raises
    ------
    ValueError
        If `X` holds text, dates, NaN or infinity (rows and columns are named), is lazy, is empty or has another shape
        or other feature names than in fit.
    """
    if reset:
        drop_record(estimator)
    return _finite(estimator, as_data(_numbers(estimator, X, reset=reset, y=y)))


def _numbers(estimator: BaseEstimator, X: Any, *, reset: bool, y: Any) -> Any:
    """`X` as an array or a CSR matrix of floats that may be infinite, after scikit-learn's checks."""
    if _is_plain(estimator, X, y, reset):
        if reset:
            estimator.n_features_in_ = X.shape[1]
            if hasattr(estimator, "feature_names_in_"):
                del estimator.feature_names_in_
        return X
    if looks_structured(X):
        raise ValueError(
            "X must hold numbers, one row an example, got strings, lists or sets: these take a kernel such as "
            "Spectrum(3) or Jaccard() from mercer.kernels. Reshape your data where it is one column of a table."
        )
    _refuse_frames_of_dates(X)
    refuse_targets(estimator, y)
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_large_sparse=True,
            **({} if isinstance(y, str) and y == "no_validation" else {"y": y, "multi_output": True}),
        )
    except ValueError as error:
        if "could not convert" in str(error):
            raise ValueError(_text_message(X)) from error
        raise
    except TypeError as error:
        if "float() argument" in str(error):  # an object that is neither a number nor text
            raise TypeError(f"{_text_message(X)} ({error})") from error
        raise
    return checked[0] if isinstance(checked, tuple) else checked


def _is_plain(estimator: BaseEstimator, X: Any, y: Any, reset: bool) -> bool:
    """Whether all that scikit-learn would find out is known already: which takes longer than a small fit."""
    if type(X) is not np.ndarray or X.dtype not in (np.float64, np.float32) or X.ndim != 2 or X.size == 0:
        return False
    if isinstance(y, str):
        return reset or (
            getattr(estimator, "n_features_in_", None) == X.shape[1] and not hasattr(estimator, "feature_names_in_")
        )
    return reset and _has_plain_labels(y) and y.size == X.shape[0]


def _has_plain_labels(y: Any) -> bool:
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu"


def _finite(estimator: BaseEstimator, data: SomeData) -> SomeData:
    names = getattr(estimator, "feature_names_in_", None)
    data.names = None if names is None else list(names)
    problem = data.finite_problem(data.names)
    if problem is not None:
        raise ValueError(f"X must be finite, but {problem}. Impute or drop these rows first.")
    return data


def _refuse_frames_of_dates(X: Any) -> None:
    """Refuse dates, which would silently count as nanoseconds or the like, and frames that are not there yet."""
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            "X must have columns of different names, but some occur more than once. Rename them."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"X must hold numbers, got a lazy frame ({type(X).__name__}): call .collect() first.")
    if isinstance(frame, nw.DataFrame):
        for name, dtype in frame.schema.items():
            if isinstance(dtype, _DATES):
                raise ValueError(
                    f"X must hold numbers, but column {str(name)!r} holds dates or times ({dtype}). Derive numbers "
                    "from it first, such as year or month, or leave it out."
                )
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"X must hold numbers, got dates or times ({X.dtype}). Derive numbers from them first.")


def _text_message(X: Any) -> str:
    """Name the first cell that is text."""
    names = list(getattr(X, "columns", []))
    table = np.asarray(X, dtype=object)
    for column in range(table.shape[1]):
        for row in range(table.shape[0]):
            value = table[row, column]
            try:
                float(value)
            except (TypeError, ValueError):
                name = repr(names[column]) if names else str(column)
                return (
                    f"X must hold numbers, but could not convert row {row}, column {name}: {value!r}. "
                    "Encode categories first, for instance with OneHotEncoder."
                )
    return "X must hold numbers, but holds text that could not be converted."


def check_labels(y: Any) -> tuple[npt.NDArray[Any], IndexArray]:
    """Return the classes in sorted order and the class number of each row.

    Parameters
    ----------
    y : array-like of shape (n,)
        Finite and of the right length, as :func:`check_table` has made sure.

    Raises
    ------
    ValueError
        If `y` is not a classification target, holds text beside numbers, or one class only.
    """
    labels = y if _has_plain_labels(y) else column_or_1d(y, warn=True)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"y must hold classes of one kind, all numbers or all text, got {' and '.join(kinds)}. Convert them first."
        ) from error
    if not (_has_plain_labels(y) and 2 * classes.size <= y.size):  # else it would warn that there are many classes
        check_classification_targets(labels)
    if classes.size < 2:
        raise ValueError(
            f"y must hold at least two classes, but holds one class only: {classes.tolist()}. Add rows of another one; "
            "where there is none, OneClassSVM or SVDD learn what one class looks like."
        )
    return classes, codes.astype(np.int64)


def check_classes(classes: Any) -> npt.NDArray[Any]:
    """Return the classes that are named for a machine that learns by batches, in sorted order.

    Raises
    ------
    ValueError
        If they are fewer than two.
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
    labels = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    unknown = np.setdiff1d(labels, classes)
    if unknown.size:
        raise ValueError(
            f"y holds classes that the machine does not know: {unknown.tolist()}; it knows {classes.tolist()}. Name "
            "all classes at the first call of partial_fit, or fit it again."
        )
    return np.searchsorted(classes, labels).astype(np.int64)


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of several words.

    Raises
    ------
    InvalidParameterError
        If it is none of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return one weight a row, all ones for None.

    Raises
    ------
    ValueError
        If there is not one finite nonnegative number for each row.
    """
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one weight a row, got {weights.shape}.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise ValueError(
            f"sample_weight must hold finite numbers >= 0 (0 leaves a row out), got {weights[bad[0]]} in row {bad[0]}"
            + (f" and {bad.size - 1} more." if bad.size > 1 else ".")
        )
    return weights


def check_finite_penalty(C: Any) -> float:
    """Return C as a float.

    Raises
    ------
    InvalidParameterError
        If C is not a finite number greater than 0.
    """
    if not isinstance(C, Real) or isinstance(C, bool) or not 0.0 < float(C) < np.inf:
        raise InvalidParameterError(f"C must be a finite number > 0, got {C!r}.")
    return float(C)


def check_penalty(C: Any) -> float:
    """Return C as a float; infinity is the maximal-margin machine.

    Raises
    ------
    InvalidParameterError
        If C is not a number greater than 0.
    """
    if not isinstance(C, Real) or isinstance(C, bool) or not float(C) > 0.0:
        raise InvalidParameterError(f"C must be a number > 0, or infinity for the maximal margin, got {C!r}.")
    return float(C)


def check_number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None, finite: bool = False
) -> float:
    """Return a real number within bounds; infinity is one unless it must be `finite`.

    Raises
    ------
    InvalidParameterError
        If it is none.
    """
    bound = f"> {above:g}" if above is not None else f">= {at_least:g}"
    good = isinstance(value, Real) and not isinstance(value, bool)
    good = good and (float(value) > above if above is not None else float(value) >= (at_least or 0.0))
    if not good:
        raise InvalidParameterError(f"{name} must be a number {bound}, got {value!r}.")
    if finite and np.isinf(float(value)):
        raise InvalidParameterError(f"{name} must be a finite number {bound}, got {value!r}.")
    return float(value)


def check_share(name: str, value: Any, most: float) -> float:
    """Return a share of rows.

    Raises
    ------
    InvalidParameterError
        If it is not a number greater than 0 and at most `most`.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < float(value) <= most:
        raise InvalidParameterError(f"{name} must be a number > 0 and <= {most:g}, got {value!r}.")
    return float(value)


def check_quantile(quantile: Any) -> float:
    """Return a quantile.

    Raises
    ------
    InvalidParameterError
        If it is not a number between 0 and 1, both excluded.
    """
    if not isinstance(quantile, Real) or isinstance(quantile, bool) or not 0.0 < float(quantile) < 1.0:
        raise InvalidParameterError(f"quantile must be a number > 0 and < 1, got {quantile!r}.")
    return float(quantile)


def check_whole(name: str, value: Any, *, unit: str = "", at_least: int | None = None) -> int | None:
    """Return an integer within bounds, or None.

    Raises
    ------
    InvalidParameterError
        If it is neither.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or (at_least is not None and value < at_least):
        bound = "" if at_least is None else f" >= {at_least}"
        raise InvalidParameterError(f"{name} must be an integer{bound}{unit and f' ({unit})'} or None, got {value!r}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False.

    Raises
    ------
    InvalidParameterError
        If it is neither.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidParameterError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_without_effect(estimator: Any) -> None:
    """Refuse what scikit-learn would refuse of the parameters that have no meaning here, where there are such.

    Raises
    ------
    InvalidParameterError
        If one is out of its range.
    """
    given = vars(estimator)
    for name in ("shrinking", "break_ties"):
        if name in given:
            check_flag(name, given[name])
    if "cache_size" in given:
        check_number("cache_size", given["cache_size"], above=0.0)
    if given.get("random_state") is not None:
        try:
            check_random_state(given["random_state"])
        except ValueError as error:
            raise InvalidParameterError(
                f"random_state must be None, an integer >= 0 or a RandomState, got {given['random_state']!r}."
            ) from error
    probability = given.get("probability", False)
    if isinstance(probability, str) and probability == "deprecated":  # scikit-learn's default says False
        return
    check_flag("probability", probability)


def check_verbose(verbose: Any) -> None:
    """Refuse what is no level of verbosity.

    Raises
    ------
    InvalidParameterError
        If it is neither True, False nor an integer >= 0.
    """
    if not isinstance(verbose, (bool, np.bool_, Integral)) or verbose < 0:
        raise InvalidParameterError(f"verbose must be True, False or an integer >= 0, got {verbose!r}.")


def check_callback(callback: Any) -> None:
    """Refuse what cannot be called.

    Raises
    ------
    InvalidParameterError
        If it is neither None nor callable.
    """
    if callback is not None and not callable(callback):
        raise InvalidParameterError(
            f"callback must be a function of one argument, the progress, or None, got {callback!r}."
        )


def class_weights(
    class_weight: Any, classes: npt.NDArray[Any], codes: IndexArray, sample_weight: FloatArray
) -> FloatArray:
    """Return the weight of each class.

    "balanced" gives class k the weight n / (K n_k), in which a row counts as often as its sample weight says.

    Raises
    ------
    ValueError
        If `class_weight` is neither None, "balanced" nor a mapping of classes to finite numbers > 0; or names classes
        that `y` does not hold, and not all that it holds.
    """
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=sample_weight, minlength=classes.size)
        return totals.sum() / (classes.size * totals)
    if not isinstance(class_weight, Mapping):
        raise InvalidParameterError(
            f'class_weight must be None, "balanced" or a mapping of classes, got {class_weight!r}.'
        )
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown and any(label not in class_weight for label in known):  # else it is a fold that lacks a class
        raise ValueError(f"class_weight names classes that y does not hold: {unknown}; y holds {known}.")
    weights = np.array([check_number(f"class_weight[{k!r}]", class_weight.get(k, 1.0), above=0.0) for k in known])
    if not np.isfinite(weights).all():
        raise ValueError(f"class_weight must hold finite numbers > 0, got {dict(class_weight)!r}.")
    return weights


def scaling_hint(data: Data, names: npt.NDArray[Any] | None) -> str:
    """Return a sentence that names the largest column where scaling is likely to be the trouble, else ''."""
    scales = data.column_scales() if isinstance(data, Vectors) else np.zeros(0)
    nonzero = scales[scales > 0.0]
    if nonzero.size == 0 or scales.max() < min(_LARGE, _UNBALANCED * float(np.median(nonzero))):
        return ""
    largest = int(scales.argmax())
    name = repr(str(names[largest])) if names is not None else str(largest)
    return (
        f"Column {name} reaches {scales[largest]:.3g}, the median column {np.median(nonzero):.3g}: scale the columns, "
        "for instance with make_pipeline(StandardScaler(), SVC(...))."
    )
