"""From the X that a user passes to the data that the layers below take; every refusal says what to do."""

from __future__ import annotations

from collections.abc import Callable as Function
from reprlib import repr as shortened
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, validate_data

from mercer.data import (
    Data,
    ObjectRows,
    Precomputed,
    Vectors,
    as_data,
    as_structured,
    is_table,
    looks_structured,
)
from mercer.data.checks import FLOATS, refuse_mask
from mercer.estimators.told import has_plain_targets, refuse_targets
from mercer.kernels import Kernel

SomeData = TypeVar("SomeData", bound=Data)

_DATES = (nw.Date, nw.Datetime, nw.Duration)

_UNBALANCED, _LARGE = 1e3, 1e4  # a column this many times the median column, or this large, is worth a hint


def check_rows(estimator: BaseEstimator, X: Any, kernel: Kernel, *, reset: bool, y: Any = "no_validation") -> Data:
    """Return `X` as the data that the kernel takes: a table, kernel values, strings and the like, or any objects.

    If `X` is `Data`, the caller has checked it. Only a kernel computed by functions takes objects that are no table; a
    machine that was fitted on such objects takes `X` as it is.

    Raises
    ------
    ValueError
        See :func:`check_table`; and if `X` does not hold the rows that a kernel on strings or sets takes.
    """
    if reset:
        drop_record(estimator)
    if isinstance(X, Data):
        return X
    if kernel.is_structured:
        return _check_objects(estimator, X, kernel, as_structured, reset=reset, y=y)
    if kernel.takes_any_rows and not (is_table(X) if reset else hasattr(estimator, "n_features_in_")):
        return _check_objects(estimator, X, kernel, ObjectRows, reset=reset, y=y)
    if kernel.takes_values:
        return _finite(estimator, Precomputed(_numbers(estimator, X, reset=reset, y=y)))
    return check_table(estimator, X, reset=reset, y=y)


def check_square(shape: tuple[int, ...]) -> None:
    """Refuse given kernel values of the training rows that have not a row and a column for each.

    Raises
    ------
    ValueError
        If this is not the shape of a square matrix.
    """
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"a precomputed kernel matrix must be square in fit, got shape {shape}.")


def drop_record(estimator: BaseEstimator) -> None:
    """Forget which sealed rows judged a machine that is about to become another one."""
    estimator.__dict__.pop("seal_", None)


def _check_objects(
    estimator: BaseEstimator, X: Any, kernel: Kernel, read: Function[[Any], SomeData], *, reset: bool, y: Any
) -> SomeData:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    refuse_mask(X, "X")
    try:
        data = read(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X does not hold rows for the kernel {kernel!r}: {error}.") from error
    if data.n == 0:
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {kernel!r}.")
    if not (isinstance(y, str) and y == "no_validation"):
        refuse_targets(estimator, y)
        validate_data(estimator, X="no_validation", y=y, multi_output=True, reset=False)
        check_consistent_length(X, y)
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):  # such rows have no columns
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
    has_none = isinstance(y, str) and y == "no_validation"
    is_known = has_none or has_plain_targets(y)
    if not (is_known and type(X) is np.ndarray and X.dtype in FLOATS):
        refuse_mask(X, "X")
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
            **({} if is_known else {"y": y, "multi_output": True}),
        )
    except ValueError as error:
        if "could not convert" in str(error):
            raise ValueError(_text_message(X)) from error
        raise
    except TypeError as error:
        if "float() argument" in str(error):  # an object that is neither a number nor text
            raise TypeError(f"{_text_message(X)} ({error})") from error
        raise
    if is_known and not has_none:
        check_consistent_length(checked, y)
    return checked[0] if isinstance(checked, tuple) else checked


def _finite(estimator: BaseEstimator, data: SomeData) -> SomeData:
    names = getattr(estimator, "feature_names_in_", None)
    data.names = None if names is None else list(names)
    problem = data.finite_problem(data.names)
    if problem is not None:
        raise ValueError(f"X must be finite, but {problem}. Impute or drop these rows first.")
    return data


def _refuse_frames_of_dates(X: Any) -> None:
    """Refuse dates, which would silently count as nanoseconds or the like, and frames that are not there yet."""
    if issparse(X):
        return
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
    """Name the first cell that is text, where it is a table."""
    names = list(getattr(X, "columns", []))
    table = np.asarray(X, dtype=object)
    if table.ndim != 2:
        found = f"an array of shape {table.shape}" if table.ndim else f"{shortened(X)} ({type(X).__name__})"
        return f"X must be a table of numbers, one row an example, got {found}."
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


def scaling_hint(data: Data, names: npt.NDArray[Any] | None) -> str:
    """Return a sentence that names the largest column where scaling is likely to be the trouble, else ''."""
    columns, scales = data.column_scales() if isinstance(data, Vectors) else (np.zeros(0, dtype=np.int64), np.zeros(0))
    nonzero = scales[scales > 0.0]
    if nonzero.size == 0 or scales.max() < min(_LARGE, _UNBALANCED * float(np.median(nonzero))):
        return ""
    largest = int(columns[scales.argmax()])
    name = repr(str(names[largest])) if names is not None else str(largest)
    return (
        f"Column {name} reaches {scales.max():.3g}, the median column {np.median(nonzero):.3g}: scale the columns, "
        "for instance with make_pipeline(StandardScaler(), SVC(...))."
    )
