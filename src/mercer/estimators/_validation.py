"""Validation of what users pass: rows, targets, sample weights and parameters. Messages say what to do."""

from __future__ import annotations

from collections.abc import Callable as Function
from collections.abc import Sequence
from datetime import date, time, timedelta
from numbers import Integral
from reprlib import repr as shortened
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from mercer._typing import FloatArray, IndexArray
from mercer.cluster import is_array, is_lazy, loaded
from mercer.data import (
    Data,
    Dense,
    ObjectRows,
    Precomputed,
    Vectors,
    as_data,
    as_structured,
    fingerprint_table,
    is_table,
    looks_structured,
)
from mercer.data.arguments import NUMBER, check_flag, check_number, check_whole
from mercer.data.checks import FLOATS, is_missing_cell, refuse_mask, refuse_mixed_labels
from mercer.estimators._remedies import hint_on_columns, refuse_one_dimension
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.gram.places import is_on_host
from mercer.kernels import Kernel
from mercer.kernels.column_parts import mixed_rows, symbols_of_table
from mercer.kernels.kernel import numbers_of

SomeData = TypeVar("SomeData", bound=Data)

_COLUMNS_OF_TIMES = (nw.Date, nw.Datetime, nw.Duration)
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_BITS_AND_COUNTS = tuple(np.dtype(code) for code in np.typecodes["AllInteger"] + "?")  # of kernels that pack bits
_WEIGHTS = "sample_weight must hold finite numbers >= 0 (0 leaves a row out)"
_UNBALANCED, _LARGE = 1e3, 1e4  # a column this many times the median column, or this large, is worth a hint
_DECIDES = 100.0  # ratio of the ranges of two columns: the smaller one changes squared distances by about 1e-4


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
    X = in_memory(estimator, X)
    if kernel.named_columns and (mixed := _mixed_rows(estimator, X, kernel, reset=reset, y=y)) is not None:
        return mixed
    if kernel.takes_symbols:
        X = symbols_of_table(X)
    if kernel.takes_fingerprints:
        X = fingerprint_table(X, None if reset else getattr(estimator, "n_features_in_", None))
    if kernel.is_structured:
        return _check_objects(estimator, X, kernel, as_structured, reset=reset, y=y)
    if kernel.takes_any_rows and not (is_table(X) if reset else hasattr(estimator, "n_features_in_")):
        return _check_objects(estimator, X, kernel, ObjectRows, reset=reset, y=y)
    if kernel.takes_values:
        rows = Precomputed(table_of_numbers(estimator, X, reset=reset, y=y))
        return _finite(estimator, rows if reset else rows.as_new())
    if kernel.takes_fingerprints:
        table = table_of_numbers(estimator, X, reset=reset, y=y, types=(*FLOATS, *_BITS_AND_COUNTS))
        return _finite(estimator, numbers_of(kernel, table))
    return check_table(estimator, X, reset=reset, y=y)


def _mixed_rows(estimator: BaseEstimator, X: Any, kernel: Kernel, *, reset: bool, y: Any) -> Data | None:
    """Return the rows of a data frame for a kernel that names its columns; None if the data frame is a table."""
    rows = mixed_rows(kernel, X, fitted=not reset, training=reset)
    if rows is None:
        return None
    rows = rows if reset else rows.as_new()
    data = _check_objects(estimator, X, kernel, lambda _: rows, reset=reset, y=y)
    return _finite(estimator, data)


def check_square(shape: tuple[int, ...]) -> None:
    """Refuse given kernel values of the training rows that have not a row and a column for each.

    Raises
    ------
    ValueError
        If this is not the shape of a square matrix.
    """
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"a precomputed kernel matrix must be square in fit, got shape {shape}: give the kernel values of all "
            "training rows with all training rows, (n, n)."
        )


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
        check_consistent_length(range(data.n), y)
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
    return _finite(estimator, as_data(table_of_numbers(estimator, X, reset=reset, y=y)))


def table_of_numbers(
    estimator: BaseEstimator,
    X: Any,
    *,
    reset: bool,
    y: Any,
    types: Sequence[Any] = (np.float64, np.float32),
    in_order: bool = False,
) -> Any:
    """Return `X` as an array or a CSR matrix of numbers that may be infinite, after scikit-learn's checks.

    Numbers of other `types` become the first of them. `in_order` asks for an array in C order.
    """
    X = in_memory(estimator, X)
    has_none = isinstance(y, str) and y == "no_validation"
    is_known = has_none or has_plain_targets(y)
    if not (is_known and type(X) is np.ndarray and X.dtype in FLOATS):
        refuse_mask(X, "X")
        refuse_device(estimator, X, "fit" if reset else "this method")
        if looks_structured(X):
            raise ValueError(
                "X must hold numbers, one row an example, got strings, lists or sets: these take a kernel such as "
                "Spectrum(3) or Jaccard() from mercer.kernels. Reshape your data where it is one column of a table."
            )
        _refuse_frames_of_dates(X)
        refuse_targets(estimator, y)
    refuse_one_dimension(estimator, X, reset=reset)
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=list(types),
            order="C" if in_order else None,
            ensure_all_finite=False,
            accept_large_sparse=True,
            **({} if is_known else {"y": y, "multi_output": True}),
        )
    except ValueError as error:
        if "could not convert" in str(error):
            raise ValueError(_text_message(estimator, X)) from error
        if "feature names should match" in str(error) and (hint := hint_on_columns(estimator, X)):
            error.add_note(hint)
        raise
    except TypeError as error:
        if "float() argument" in str(error):  # an object that is neither a number nor text
            raise TypeError(f"{_text_message(estimator, X)} ({error})") from error
        raise
    if is_known and not has_none:
        check_consistent_length(checked, y)
    return checked[0] if isinstance(checked, tuple) else checked


def is_on_device(X: Any) -> bool:
    """Whether X is an array of another library that NumPy cannot read."""
    return is_array(X) and not is_on_host(X)


def _refuse_numbers_there(name: str, values: Any) -> None:
    """Raise TypeError if targets or weights are on a device."""
    if is_on_device(values):
        raise TypeError(
            f"{name} is on the device {str(values.device)!r}, but this machine reads it on the host: give "
            f"mercer.to_host({name})."
        )


def refuse_device(estimator: BaseEstimator, X: Any, method: str) -> None:
    """Raise TypeError if X is on a device, where the method cannot compute."""
    if is_on_device(X):
        raise TypeError(
            f"{method} of {type(estimator).__name__} computes on the host, but X is on the device {str(X.device)!r}: "
            "give mercer.to_host(X)."
        )


def _finite(estimator: BaseEstimator, data: SomeData) -> SomeData:
    names = getattr(estimator, "feature_names_in_", None)
    data.names = None if names is None else list(names)
    refuse_problem(estimator, data)
    return data


def refuse_problem(estimator: BaseEstimator, data: Data) -> None:
    """Refuse rows with NaN or infinity; their columns have the names that the estimator knows.

    Raises
    ------
    ValueError
        If an entry is not finite; the message names the first ones.
    """
    names = getattr(estimator, "feature_names_in_", None)
    problem = data.finite_problem(None if names is None else list(names))
    if problem is not None:
        raise ValueError(f"X must be finite, but {problem}. Impute or drop these rows first.")


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
            if isinstance(dtype, _COLUMNS_OF_TIMES):
                raise ValueError(
                    f"X must hold numbers, but column {str(name)!r} holds dates or times ({dtype}). Derive numbers "
                    "from it first, such as year or month, or leave it out."
                )
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"X must hold numbers, got dates or times ({X.dtype}). Derive numbers from them first.")


def in_memory(estimator: BaseEstimator, X: Any) -> Any:
    """Return rows, a lazy table loaded into this process, if `memory_limit` allows it.

    Raises
    ------
    MemoryError
        If it does not; nothing was loaded.
    """
    if not is_lazy(X):
        return X
    parameters = estimator.get_params(deep=False)
    limit = check_whole("memory_limit", parameters.get("memory_limit"), unit="bytes", at_least=0)
    remedies = [
        *(["raise memory_limit"] if "memory_limit" in parameters else []),
        *(
            ["set approximation='landmarks' or 'cells', which keep rows with workers"]
            if "approximation" in parameters
            else []
        ),
        "fit it to a sample of the rows",
    ]
    remedy = (
        f"{type(estimator).__name__} would train in this process: {', or '.join(remedies)}. LinearSVC, LinearSVR and "
        "LogisticRegression train on lazy tables where they are, also on landmarks, "
        "Nystroem(...).fit(sample).transform(X)."
    )
    if type(estimator).__name__ in ("KernelRidge", "LeastSquaresClassifier", "LeastSquaresSVC"):
        remedy += " Ridge regression there is LinearSVR(loss='squared_epsilon_insensitive', epsilon=0)."
    return loaded(X, DEFAULT_MEMORY_LIMIT if limit is None else limit, remedy)


def _text_message(estimator: BaseEstimator, X: Any) -> str:
    """Name the first cell that is text, where it is a table."""
    names = list(getattr(X, "columns", []))
    compared = ", or compare them by kernel='hamming'" if hasattr(estimator, "kernel") else ""
    table = np.asarray(X, dtype=object)
    if table.ndim != 2:
        description = f"an array of shape {table.shape}" if table.ndim else f"{shortened(X)} ({type(X).__name__})"
        return f"X must be a table of numbers, one row an example, got {description}."
    for column in range(table.shape[1]):
        for row in range(table.shape[0]):
            value = table[row, column]
            try:
                float(value)
            except (TypeError, ValueError):
                name = repr(names[column]) if names else str(column)
                return (
                    f"X must hold numbers, but could not convert row {row}, column {name}: {value!r}. "
                    f"Encode categories first, for instance with OneHotEncoder{compared}."
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


def range_hint(data: Data, names: npt.NDArray[Any] | None) -> str:
    """Return a sentence if one column varies so much more than most others that it decides distances, else ''."""
    if type(data) is not Dense or not data.array.size:
        return ""
    ranges = data.array.max(axis=0).astype(np.float64) - data.array.min(axis=0)
    present = np.sort(ranges[ranges > 0.0])
    if not present.size or present[-1] < _DECIDES * (median := present[(present.size - 1) // 2]):
        return ""
    largest = int(ranges.argmax())
    name = repr(str(names[largest])) if names is not None else str(largest)
    return (
        f"column {name} has values that span {present[-1]:.3g}, and half of the columns at most {median:.3g}, "
        "so that distances hardly depend on these columns: scale them, for instance with "
        "make_pipeline(StandardScaler(), ...)."
    )


def refuse_targets(estimator: BaseEstimator, y: Any) -> None:
    """Refuse invalid targets, with messages that name the row.

    scikit-learn's own checks accept some of these targets, or do not name the row.

    Raises
    ------
    ValueError
        If `y` has missing or masked values, several columns although the estimator learns one target, text although
        it is a regressor, or tuples or labels of several kinds although it is a classifier.
    TypeError
        If `y` holds dates or times and the estimator is a regressor; NumPy would convert them to counts of a time unit.
    """
    refuse_mask(y, "y")
    _refuse_numbers_there("y", y)
    values = np.asarray(None if isinstance(y, str) else y)
    tags = get_tags(estimator)
    if tags.estimator_type == "classifier":
        refuse_mixed_labels("y", y)
    if values.ndim == 2 and values.shape[1] > 1 and not tags.target_tags.multi_output:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {values.shape} instead: {type(estimator).__name__} learns "
            "one target a row. Give one column, or fit a machine for each, as MultiOutputClassifier and "
            "MultiOutputRegressor of scikit-learn do (KernelRidge takes several targets)."
        )
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in "fOUSmM":
        return
    rows = values.reshape(len(values), -1)
    is_regressor = tags.estimator_type == "regressor"
    if is_regressor:
        _refuse_dates(rows)
    refuse_gaps(rows)
    if is_regressor and rows.dtype.kind != "f":
        _refuse_text(rows)


def has_plain_labels(y: Any) -> bool:
    """Return whether `y` is a one-dimensional array of integers, which needs none of scikit-learn's checks."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu"


def has_plain_targets(y: Any) -> bool:
    """Return whether `y` is a one-dimensional array of integers or finite floats, which needs no further checks."""
    if has_plain_labels(y):
        return True
    is_plain = type(y) is np.ndarray and y.ndim == 1 and y.dtype in FLOATS
    return is_plain and bool(np.isfinite(y).all())


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return one weight for each row; all weights are 1 for None.

    Raises
    ------
    ValueError, TypeError
        If `sample_weight` is neither one finite number >= 0 nor one for each row.
    """
    _refuse_numbers_there("sample_weight", sample_weight)
    if sample_weight is None:
        return np.ones(n)
    refuse_mask(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{_WEIGHTS}, got {_no_number(sample_weight)}.") from error
    except TypeError as error:
        raise TypeError(f"{_WEIGHTS}, got {_no_number(sample_weight)}.") from error
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one weight a row, got {weights.shape}.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise ValueError(
            f"{_WEIGHTS}, got {weights[bad[0]]} in row {bad[0]}"
            + (f" and {bad.size - 1} more." if bad.size > 1 else ".")
        )
    return weights


def rows_of_weight(weights: FloatArray) -> IndexArray:
    """Return the rows of positive weight; without any, raise ValueError."""
    rows = weights.nonzero()[0]
    if not rows.size:
        raise ValueError("sample_weight must be positive in one row at least, but all weights are zero.")
    return rows


def _no_number(sample_weight: Any) -> str:
    """Return a text that names the first weight that is not a number, and its row if there is a weight for each row."""
    cells = np.asarray(sample_weight, dtype=object)
    for row, weight in enumerate(cells.tolist() if cells.ndim == 1 else []):
        try:
            float(weight)
        except (TypeError, ValueError):
            return f"{shortened(weight)} in row {row}"
    return shortened(sample_weight)


def refuse_gaps(rows: Any) -> None:
    """Refuse targets, (n, T), that are missing or infinite.

    Raises
    ------
    ValueError
        If one is; the message names the row.
    """
    if rows.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        what = "infinity" if bad.size and not np.isnan(rows[bad[0]]).any() else "NaN"
    elif rows.dtype.kind in "mM":
        bad, what = np.flatnonzero(np.isnat(rows).any(axis=1)), "NaT"
    else:
        bad = np.flatnonzero([any(map(is_missing_cell, row)) for row in rows.tolist()])
        what = "NaN"
    if bad.size:
        more = f", and {bad.size - 1} more are not" if bad.size > 1 else ""
        raise ValueError(
            f"Input y contains {what}: it must be known in every row, but row {bad[0]} (counted from 0) is "
            f"{', '.join(map(str, rows[bad[0]]))}{more}. Leave such rows out."
        )


def _refuse_dates(rows: Any) -> None:
    kinds = [str(rows.dtype)] if rows.dtype.kind in "mM" else []
    if rows.dtype.kind == "O":  # dates with a time zone are objects
        kinds = [type(value).__name__ for row in rows.tolist() for value in row if _is_date(value)]
    if kinds:
        message = f"y must hold numbers, got dates or times ({kinds[0]}). Derive numbers from them first."
        raise np.exceptions.DTypePromotionError(message)  # the error of NumPy, and so of scikit-learn's KernelRidge


def _is_date(value: Any) -> bool:
    """Return whether `value` is a known date, time or time span, of Python, NumPy or a data frame."""
    is_one = isinstance(value, _TIMES) or type(value).__name__ == "Period"
    return is_one and not is_missing_cell(value)


def _refuse_text(rows: Any) -> None:
    for i, row in enumerate(rows.tolist()):
        try:
            list(map(float, row))
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers, but {error} (row {i}). Classes take a classifier.") from error


def check_targets(y: Any) -> FloatArray:
    """Return the targets of a regression, one finite number for each row.

    Raises
    ------
    ValueError
        If `y` has several columns, or holds text, NaN or infinity.
    """
    targets = column_or_1d(y, warn=True).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(targets))
    if bad.size:
        raise ValueError(f"y must hold finite numbers, got {targets[bad[0]]} in row {bad[0]}.")
    return targets


def check_columns_of_targets(y: Any) -> FloatArray:
    """Return the targets of one or T regressions in float64, of shape (n,) or (n, T) as given.

    Raises
    ------
    ValueError
        If `y` has another number of dimensions, or holds text, NaN or infinity.
    """
    return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")


def check_finite_penalty(C: Any) -> float:
    """Return C as a float.

    Raises
    ------
    InvalidParameterError
        If C is not a finite number greater than 0.
    """
    return check_number("C", C, above=0.0, finite=True)


def check_penalty(C: Any) -> float:
    """Return C as a float; infinity is allowed and means a hard margin.

    Raises
    ------
    InvalidParameterError
        If C is not a number greater than 0.
    """
    number: Any = C
    if not isinstance(C, NUMBER) or isinstance(C, bool) or not number > 0.0:
        raise InvalidParameterError(f"C must be a number > 0, or infinity for the maximal margin, got {C!r}.")
    return check_number("C", C, above=0.0)


def check_quantile(quantile: Any) -> float:
    """Return a quantile.

    Raises
    ------
    InvalidParameterError
        If it is not a number between 0 and 1, both excluded.
    """
    if not isinstance(quantile, NUMBER) or isinstance(quantile, bool) or not 0.0 < float(quantile) < 1.0:
        raise InvalidParameterError(f"quantile must be a number > 0 and < 1, got {quantile!r}.")
    return float(quantile)


def generator_of(random_state: Any) -> np.random.RandomState:
    """Return the generator of random numbers that `random_state` means.

    Raises
    ------
    InvalidParameterError
        If it is neither None, an integer >= 0 nor a RandomState.
    """
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise InvalidParameterError(
            f"random_state must be None, an integer >= 0 or a RandomState, got {random_state!r}."
        ) from error


def check_without_effect(estimator: Any) -> None:
    """Check those parameters of the estimator that have no effect here, in the way scikit-learn checks them.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of its range.
    """
    given = vars(estimator)
    for name in ("shrinking", "break_ties"):
        if name in given:
            check_flag(name, given[name])
    if "cache_size" in given:
        check_number("cache_size", given["cache_size"], above=0.0)
    if given.get("random_state") is not None:
        generator_of(given["random_state"])
    probability = given.get("probability", False)
    if isinstance(probability, str) and probability == "deprecated":  # scikit-learn's default, which means False
        return
    check_flag("probability", probability)


def check_verbose(verbose: Any) -> None:
    """Check the parameter `verbose`.

    Raises
    ------
    InvalidParameterError
        If it is neither True, False nor an integer >= 0.
    """
    if not isinstance(verbose, (bool, np.bool_, Integral)) or verbose < 0:
        raise InvalidParameterError(f"verbose must be True, False or an integer >= 0, got {verbose!r}.")
