"""Kernels from an estimator's ``kernel=`` (a name or function) and from a dictionary in a model file."""

from __future__ import annotations

import inspect
from collections.abc import Callable as Function
from collections.abc import Iterable, Sequence
from typing import Any

from mercer.data.phrasing import nearest_names
from mercer.kernels import (
    algebra,
    alignment,
    distances,
    fingerprints,
    maps,
    sets,
    standard,
    strings,
    transforms,
    weighted_degree,
    words,
)
from mercer.kernels.formulas import parse, spelled
from mercer.kernels.kernel import MAX_DEPTH, Kernel
from mercer.kernels.parameters import RULES, Gamma, gamma_or_rule
from mercer.kernels.standard import Callable
from mercer.kernels.structured import StructuredKernel

_MODULES = (
    *(standard, distances, maps, fingerprints, algebra, transforms),
    *(words, weighted_degree, strings, alignment, sets),
)

# Only these classes can be named in a file, which may come from an untrusted source.
_CLASSES: dict[str, Any] = {
    name: member
    for module in _MODULES
    for name, member in vars(module).items()
    if isinstance(member, type) and issubclass(member, Kernel) and member.__module__ == module.__name__
    if member.schema is not None and not name.startswith("_") and not inspect.isabstract(member)
}
_NAMED = {name: member for member in _CLASSES.values() for name in member.names}
_SPELLED = {spelled(name): member for member in _NAMED.values() for name in (*member.names, member.__name__)}

_IN_TEXT: dict[str, type[Kernel]] = {
    **_NAMED,
    **{name: member for name, member in _CLASSES.items() if not issubclass(member, algebra.Derived)},
    "GeneralizedGaussian": distances.GeneralizedGaussian,
}
del _IN_TEXT["OfDistance"]  # the base class of several kernels
"""The classes that a kernel as text may name; sums and the like have signs there."""

NAMES = tuple(dict.fromkeys(member.names[0] for member in _NAMED.values()))
"""The kernels that `as_kernel` knows by name: scikit-learn's name if it has one. Some kernels have further names."""


def as_kernel(
    spec: str | Kernel | Function[[Any, Any], Any],
    *,
    degree: int = 3,
    gamma: Gamma = "scale",
    coef0: float = 0.0,
) -> Kernel:
    """Return the kernel that an estimator's parameters describe.

    Parameters
    ----------
    spec : str, Kernel or callable
        One of `NAMES` ("linear", "poly", "rbf", "sigmoid", "laplacian", ...), another of the kernel's ``names``
        ("gaussian", ...) or its class ("RBF"), in any case, with spaces, hyphens or "_" between words; a text such as
        ``"Spectrum(3) on seq + 0.5 * RBF(gamma=2) on age, dose + Hamming on rest"``, with kernels, numbers, ``+``,
        ``*``, ``**``, parentheses, ``normalize(...)``, ``center(...)``, ``exp(...)`` and the columns that a kernel
        reads (names with spaces or signs in quotes; ``rest`` is all columns that are not named); a kernel, returned as
        it is; or a function of two blocks of rows (see `Callable`).
    degree, gamma, coef0
        Parameters of a kernel given by one name, used if it has them. In a text, kernels have their own.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError, TypeError
        If there is no kernel of this name, or one of its parameters is not allowed.

    Examples
    --------
    >>> as_kernel("poly", degree=2, gamma="auto")
    Polynomial(degree=2, gamma='auto', coef0=0.0)
    >>> as_kernel("Tanimoto on fp + 0.5 * RBF(gamma=2) on 'body mass', age")
    Tanimoto().on(['fp']) + 0.5 * RBF(gamma=2.0).on(['body mass', 'age'])
    """
    if isinstance(spec, str) and spelled(spec) in _SPELLED:
        kernel_class = _SPELLED[spelled(spec)]
        given: dict[str, Any] = {"degree": degree, "gamma": gamma, "coef0": coef0}
        if issubclass(kernel_class, StructuredKernel):  # the degree of WeightedDegree is a length, with its own default
            del given["degree"]
        accepted = {name: value for name, value in given.items() if name in kernel_class.schema}
        rules = getattr(kernel_class, "rules", RULES)
        if gamma == "scale" and "scale" not in rules:  # the default of machines, which is not that of the kernel
            accepted.pop("gamma", None)
        if "gamma" in accepted:
            accepted["gamma"] = gamma_or_rule(gamma, rules)
        kernel: Kernel = kernel_class(**accepted)
        return kernel
    if isinstance(spec, Kernel):
        return spec
    if isinstance(spec, type) and issubclass(spec, Kernel):
        raise TypeError(f"kernel must be a kernel, got the class {spec.__name__}: write {spec.__name__}(...)")
    if callable(spec):
        return Callable(spec)
    if isinstance(spec, str) and (spec in _IN_TEXT or not spec.replace("-", "_").isidentifier()):
        return parse(spec, _IN_TEXT)
    wanted = f"kernel must be {_one_of(NAMES)}, a text of several, a Kernel or a function of two blocks of rows"
    if not isinstance(spec, str):
        raise TypeError(f"{wanted}, got {spec!r}")
    near = nearest_names(spec, _NAMED, likeness=0.5)
    raise ValueError(f"{wanted}, got {spec!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def from_dict(document: object) -> Kernel:
    """Return the kernel that `Kernel.to_dict` wrote; every entry is checked, because the file may be untrusted.

    Parameters
    ----------
    document : dict
        The result of `Kernel.to_dict`, for instance read from a JSON file.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        If anything is missing, unknown, of the wrong type or out of range, or nested more than 50 deep.

    Examples
    --------
    >>> from_dict({"type": "RBF", "gamma": 0.5})
    RBF(gamma=0.5)
    """
    return _read_kernel("kernel", document, 1)


def _read_kernel(path: str, document: object, depth: int) -> Kernel:
    if depth > MAX_DEPTH:
        raise ValueError(f"a kernel in a model file must be nested at most {MAX_DEPTH} deep")
    if not isinstance(document, dict):
        raise ValueError(f"{path} must be a dictionary, got {_short(document)}")
    name = document.get("type")
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(f"{path}.type must be {_one_of(tuple(_CLASSES))}, got {_short(name)}")
    schema = _CLASSES[name].schema or {}
    if document.keys() != {"type", *schema}:
        keys = [_short(key) for key in document if key != "type"]
        raise ValueError(
            f"{path} of type {name} must have exactly the parameters {_list(schema)}, got {_list(keys[:10])}"
        )
    parameters = {
        key: _read_value(kind, f"{path}.{key}", document[key], depth)
        for key, kind in schema.items()
        if kind != "reference"
    }
    try:
        if "reference" in schema and document["reference"] is not None:
            parameters["reference"] = transforms.Reference.from_dict(parameters["kernel"], document["reference"])
        return _CLASSES[name](**parameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _read_value(kind: str, path: str, value: object, depth: int) -> Any:
    if kind == "kernel":
        return _read_kernel(path, value, depth + 1)
    if kind == "kernels":
        if not isinstance(value, list):
            raise ValueError(f"{path} must be a list of kernels, got {_short(value)}")
        return tuple(_read_kernel(f"{path}[{i}]", part, depth + 1) for i, part in enumerate(value))
    if kind == "plain":
        return _read_plain(path, value)
    if kind == "matrix":
        rows = value if isinstance(value, list) else []
        if not rows or not all(isinstance(row, list) and all(type(x) in (int, float) for x in row) for row in rows):
            raise ValueError(f"{path} must be a list of lists of numbers, got {_short(value)}")
        return value
    if kind == "gamma" and isinstance(value, str):
        return value
    wanted = int if kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise ValueError(f"{path} must be {'an integer' if kind == 'integer' else 'a number'}, got {_short(value)}")
    return value


def _read_plain(path: str, value: object) -> Any:
    if isinstance(value, list):
        value = tuple(value)
    scalars = value if isinstance(value, tuple) else (value,)
    if not all(one is None or isinstance(one, (bool, int, float, str)) for one in scalars):
        raise ValueError(f"{path} must be a number, text, true, false, null or a list of these, got {_short(value)}")
    return value


def _short(value: object) -> str:
    """Return a short description of a value for a message, however large or deep the value is."""
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    return f"something of type {type(value).__name__}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _one_of(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"
