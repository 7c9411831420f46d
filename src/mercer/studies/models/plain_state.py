"""The fitted state of known transformers as plain data, and back; nothing that is read is executed.

A transformer is written as the name of its class, which must be in `CLASSES`, and its attributes. These hold numbers,
texts, arrays, lists, dicts, kernels and other known transformers. No function is written, except those of scikit-learn
and NumPy whose name is in `_FUNCTIONS`; a class that is not listed is refused in both directions.
"""

from __future__ import annotations

import base64
import math
import re
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from mercer.kernels import Kernel, from_dict
from mercer.studies.models.refusals import refuse

CLASSES = {
    **dict.fromkeys(
        ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "Binarizer"),
        "sklearn.preprocessing",
    ),
    **dict.fromkeys(
        ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "LabelBinarizer", "KBinsDiscretizer"),
        "sklearn.preprocessing",
    ),
    **dict.fromkeys(
        ("PowerTransformer", "QuantileTransformer", "PolynomialFeatures", "FunctionTransformer"),
        "sklearn.preprocessing",
    ),
    **dict.fromkeys(("SimpleImputer", "MissingIndicator", "KNNImputer"), "sklearn.impute"),
    **dict.fromkeys(
        ("CountVectorizer", "TfidfVectorizer", "TfidfTransformer", "HashingVectorizer"),
        "sklearn.feature_extraction.text",
    ),
    "DictVectorizer": "sklearn.feature_extraction",
    **dict.fromkeys(("PCA", "TruncatedSVD"), "sklearn.decomposition"),
    **dict.fromkeys(("VarianceThreshold", "SelectKBest", "SelectPercentile"), "sklearn.feature_selection"),
    **dict.fromkeys(("ColumnTransformer", "make_column_selector"), "sklearn.compose"),
    **dict.fromkeys(("Pipeline", "FeatureUnion"), "sklearn.pipeline"),
    **dict.fromkeys(("PolynomialMap", "PolynomialBasis", "GaussianBasis"), "mercer.features"),
    **dict.fromkeys(("RandomFourier", "Nystroem"), "mercer.features"),
}
"""Classes that are written and read, and their modules."""

_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(("f_classif", "f_regression", "chi2"), "sklearn.feature_selection"),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "square", "abs", "cbrt"), "numpy"),
    **dict.fromkeys(("sin", "cos", "tanh", "sign", "negative", "reciprocal", "arcsinh", "sinh"), "numpy"),
}
_TYPES: dict[str, type] = {one.__name__: one for one in (bool, int, float, str, object)}
_TYPES |= {name: getattr(np, name) for name in ("float64", "float32", "int64", "int32", "uint8", "bool_", "number")}

_ATTRIBUTE = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")
_DTYPE = re.compile(r"[<>|=]?([biuf][1248]|U\d{1,9}|O)")
_DEEPEST = 60
"""Levels of lists within lists that are read."""


def written(value: Any) -> Any:
    """Return a value as plain data for JSON.

    Raises
    ------
    TypeError
        If it is or has an object of a class that is not listed; the message names it.
    """
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"is": "float", "value": repr(value)}
    if type(value) is list:
        return [written(one) for one in value]
    for kind, (types, write, _) in _KINDS.items():
        if isinstance(value, types) and (entry := write(value)) is not None:
            return {"is": kind, **entry}
    raise TypeError(f"holds {_named(value)}")


def _named(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        return f"a {type(value).__name__}"
    return f"the function {value.__name__}" if callable(value) and hasattr(value, "__name__") else f"{value!r:.80}"


def _write_object(value: Any) -> dict[str, Any] | None:
    name = type(value).__name__
    if name not in CLASSES or type(value) is not getattr(import_module(CLASSES[name]), name):
        return None
    state: dict[str, Any] = {}
    for attribute, one in vars(value).items():
        try:
            state[attribute] = written(one)
        except TypeError as error:
            inner = f"{error}"
            raise TypeError(inner if inner.startswith("its ") else f"its {name} {inner} as {attribute}") from error
    return {"class": name, "state": state}


def _read_object(entry: dict[str, Any], depth: int) -> Any:
    name, state = entry["class"], entry["state"]
    if name not in CLASSES or not isinstance(state, dict):
        refuse(f"it has a transformer of the class {name!r}, which is not known")
    kind = getattr(import_module(CLASSES[name]), name)
    value = kind.__new__(kind)
    for attribute, one in state.items():
        if not _ATTRIBUTE.fullmatch(attribute):
            refuse(f"its {name} has an attribute {attribute!r}, which no transformer has")
        vars(value)[attribute] = read(one, depth)
    words = vars(value).get("vocabulary_")
    if isinstance(words, dict) and sorted(words.values()) != list(range(len(words))):
        refuse(f"its {name} has words without a column of their own")
    return value


def _write_array(value: np.ndarray) -> dict[str, Any]:
    if value.dtype == object:
        return {"dtype": "O", "shape": list(value.shape), "items": [written(one) for one in value.ravel().tolist()]}
    if value.dtype.kind == "U":
        return {"dtype": value.dtype.str, "shape": list(value.shape), "items": value.ravel().tolist()}
    if not _DTYPE.fullmatch(value.dtype.str):
        raise TypeError(f"holds an array of {value.dtype}")
    data = np.ascontiguousarray(value).tobytes()
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": base64.b64encode(data).decode()}


def _read_array(entry: dict[str, Any], depth: int) -> np.ndarray:
    dtype, shape = _read_dtype(entry, depth), tuple(entry["shape"])
    if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 4:
        refuse(f"it has an array of shape {shape}, which cannot be")
    if "data" in entry:
        data = base64.b64decode(entry["data"], validate=True)
        if dtype.kind not in "biuf" or len(data) != math.prod(shape) * dtype.itemsize:
            refuse("it has an array whose numbers do not fit its shape")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    items = [read(one, depth) for one in entry["items"]]
    if len(items) != math.prod(shape):
        refuse("it has an array whose cells do not fit its shape")
    array = np.empty(len(items), dtype=dtype)
    array[:] = items
    return array.reshape(shape)


def _read_dtype(entry: dict[str, Any], depth: int) -> np.dtype[Any]:
    del depth
    if not _DTYPE.fullmatch(entry["dtype"]):
        refuse(f"it has an array of the type {entry['dtype']!r}, which is not known")
    return np.dtype(entry["dtype"])


def _write_matrix(value: Any) -> dict[str, Any]:
    matrix = sparse.csr_array(value)
    names = ("data", "indices", "indptr")
    return {"shape": list(matrix.shape)} | {name: _write_array(getattr(matrix, name)) for name in names}


def _read_matrix(entry: dict[str, Any], depth: int) -> Any:
    data, indices, indptr = (_read_array(entry[name], depth) for name in ("data", "indices", "indptr"))
    matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(entry["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _write_function(value: Any) -> dict[str, Any] | None:
    name = getattr(value, "__name__", "")
    module = _FUNCTIONS.get(name) or ("numpy" if name == "absolute" else None)
    return {"name": name} if module and getattr(import_module(module), name, None) is value else None


def _read_function(entry: dict[str, Any], depth: int) -> Any:
    del depth
    name = entry["name"]
    module = "numpy" if name == "absolute" else _FUNCTIONS.get(name)
    if module is None:
        refuse(f"it names a function {name!r}, which is not known")
    return getattr(import_module(module), name)


def _write_type(value: type) -> dict[str, Any] | None:
    type_name = next((name for name, one in _TYPES.items() if one is value), None)
    return None if type_name is None else {"name": type_name}


def _read_float(entry: dict[str, Any], depth: int) -> float:
    del depth
    if entry["value"] not in ("nan", "inf", "-inf"):
        refuse(f"it has {entry['value']!r}, which is no number")
    return float(entry["value"])


def _pairs(items: list[Any], depth: int) -> dict[Any, Any]:
    return {read(name, depth): read(one, depth) for name, one in items}


_Write = Callable[[Any], dict[str, Any] | None]
_Read = Callable[[dict[str, Any], int], Any]
_KINDS: dict[str, tuple[Any, _Write, _Read]] = {
    "scalar": (
        np.generic,
        lambda value: _write_array(np.asarray(value)),
        lambda entry, depth: _read_array(entry, depth)[()],
    ),
    "array": (np.ndarray, _write_array, _read_array),
    "matrix": ((sparse.spmatrix, sparse.sparray), _write_matrix, _read_matrix),
    "dict": (
        dict,
        lambda value: {"items": [[written(name), written(one)] for name, one in value.items()]},
        lambda entry, depth: _pairs(entry["items"], depth),
    ),
    "tuple": (
        tuple,
        lambda value: {"items": [written(one) for one in value]},
        lambda entry, depth: tuple(read(one, depth) for one in entry["items"]),
    ),
    "set": (
        (set, frozenset),
        lambda value: {"items": [written(one) for one in sorted(value, key=repr)]},
        lambda entry, depth: {read(one, depth) for one in entry["items"]},
    ),
    "slice": (
        slice,
        lambda value: {"items": [written(one) for one in (value.start, value.stop, value.step)]},
        lambda entry, depth: slice(*(read(one, depth) for one in entry["items"])),
    ),
    "dtype": (np.dtype, lambda value: {"dtype": value.str}, _read_dtype),
    "kernel": (Kernel, lambda value: {"kernel": value.to_dict()}, lambda entry, _: from_dict(entry["kernel"])),
    "type": (type, _write_type, lambda entry, _: _TYPES[entry["name"]]),
    "float": ((), lambda _: None, _read_float),
    "object": (object, _write_object, _read_object),
    "function": (object, _write_function, _read_function),
}
"""How values are written and read that JSON does not have, by the name in the file: classes, writer, reader."""


def read(entry: Any, depth: int = 0) -> Any:
    """Return the value that `written` described.

    Raises
    ------
    ModelFileError
        If the description names a class, a function or a type that is not listed, or does not fit.
    """
    if depth > _DEEPEST:
        refuse(f"it has lists within lists, more than {_DEEPEST} levels deep")
    if isinstance(entry, list):
        return [read(one, depth + 1) for one in entry]
    if not isinstance(entry, dict):
        return entry
    kind = entry.get("is")
    if kind not in _KINDS:
        refuse(f"it has a value of the kind {kind!r}, which is not known")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _KINDS[kind][2](entry, depth + 1)
