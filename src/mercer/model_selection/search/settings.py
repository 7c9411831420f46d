"""The settings of a search: axes of a grid, lists of candidates, and which settings share kernel values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid

from mercer.data import listing
from mercer.kernels import Kernel, as_kernel

PENALTIES = ("C", "epsilon", "nu")
"""Parameters in which settings may differ that share kernel values and solutions."""

ZOOMED = ("C", "epsilon", "gamma")
"""Parameter axes that can be zoomed."""


def settings_of(grids: list[dict[str, list[Any]]]) -> list[dict[str, Any]]:
    """Return all settings in the order of scikit-learn's grid."""
    return [setting for grid in grids for setting in ParameterGrid(grid)]


def heads_of(candidates: list[dict[str, Any]], path: str, *, and_gamma: bool = False) -> list[int]:
    """Number the settings so that settings which differ in penalties (and gamma) only have the same number."""
    penalties = {path + name for name in (*PENALTIES, *(("gamma", "kernel__gamma") if and_gamma else ()))}
    distinct_heads: list[dict[str, Any]] = []
    heads = []
    for candidate in candidates:
        head = {name: value for name, value in candidate.items() if name not in penalties}
        number = next(
            (number for number, one in enumerate(distinct_heads) if equal_values(head, one)), len(distinct_heads)
        )
        if number == len(distinct_heads):
            distinct_heads.append(head)
        heads.append(number)
    return heads


def listed(candidates: Any) -> list[dict[str, Any]]:
    """Return the candidates as a list of dicts."""
    settings: list[Any] = [candidates] if isinstance(candidates, (Mapping, str)) else list(candidates)
    for one in settings:
        is_setting = isinstance(one, Mapping) and all(isinstance(name, str) for name in one)
        if isinstance(candidates, Mapping) or not is_setting:
            raise ValueError(
                "candidates must be a sequence of dicts of parameters, such as [{'C': 1.0}, {'C': 10.0}], got "
                f"{one!r}."
            )
    if not settings:
        raise ValueError("candidates must hold at least one setting to try, but is empty.")
    return [dict(one) for one in settings]


def refuse_axes(search: Any) -> None:
    """Refuse axes of a grid next to a list of candidates, or to a grid by names of parameters."""
    one = "candidates" if search.param_grid is None else "param_grid"
    given = [name for name in ("kernels", *PENALTIES, "gamma") if getattr(search, name) is not None]
    given += ["candidates"] if one == "param_grid" and search.candidates is not None else []
    if given:
        raise ValueError(f"{one} and a grid exclude each other: leave out {listing(given)}, or {one}.")


def axis(name: str, values: Any) -> list[Any] | None:
    """The values of one axis of the grid."""
    if values is None:
        return None
    several = isinstance(values, np.ndarray) and values.ndim == 1
    several = several or (isinstance(values, Collection) and not isinstance(values, (str, bytes, Kernel, np.ndarray)))
    if not several:
        zoomed = ' or "zoom"' if name in ZOOMED else ""
        one = "" if isinstance(values, str) and name != "kernels" else f"; give [{values!r}] for one value"
        raise ValueError(f"{name} must be a sequence of values to try{zoomed}, got {values!r}{one}.")
    listed = list(values)
    if not listed:
        raise ValueError(f"{name} must hold at least one value to try, but is empty.")
    return listed


def gamma_of(kernel: Any) -> str:
    """Name of the parameter of a machine that is this kernel's gamma; "" if the kernel has no gamma."""
    if isinstance(kernel, Kernel):
        return "kernel__gamma" if hasattr(kernel, "gamma") else ""
    if not isinstance(kernel, str):
        return ""
    return "gamma" if as_kernel(kernel, gamma=1.0) != as_kernel(kernel, gamma=2.0) else ""


def require_gamma(own_kernel: Any, kernels: list[Any] | None, value: Any) -> None:
    """Refuse a gamma that neither the machine's own kernel nor, where these are given, one of `kernels` takes."""
    asked = [own_kernel] if kernels is None else kernels
    if any(map(gamma_of, asked)):
        return
    for kernel in asked:
        inner = kernel.get_params() if isinstance(kernel, Kernel) else {}
        if name := next((name for name in inner if name.endswith("__gamma")), ""):
            raise ValueError(
                f"gamma reaches none of the kernels; {kernel!r} has it as kernel__{name}: give kernels="
                f"[{kernel.with_params(**{name: value})!r}, ...], or take scikit-learn's GridSearchCV."
            )
    if kernels is None:
        raise ValueError(
            f"gamma was given, but the kernel {own_kernel!r} has no gamma: set kernel='rbf', or give kernels=['rbf']."
        )
    raise ValueError(
        f"gamma was given, but none of the kernels {kernels!r} has one: leave it out, or add 'rbf' to them."
    )


def equal_values(one: Any, other: Any) -> bool:
    """Return whether two parameters are equal: also estimators with equal parameters, and lists, dicts and arrays."""
    if one is other:
        return True
    if type(one) is not type(other):
        return isinstance(one, Real) and isinstance(other, Real) and one == other
    if isinstance(one, BaseEstimator):
        return equal_values(one.get_params(deep=False), other.get_params(deep=False))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_values(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal_values, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    try:
        return bool(one == other)
    except ValueError:  # a value without one truth, such as a data frame
        return False
