"""Checked numbers of kernels, and the rules that find gamma from the data."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mercer.data import Data, Vectors

Gamma: TypeAlias = float | Literal["scale", "auto"]
"""A number, or the rule by which the data give it."""

MAX_INTEGER = 2**31 - 1


def real(name: str, value: object, *, minimum: float | None = None, positive: bool = False) -> float:
    """Return a finite number, at least `minimum` or above 0 where that is asked.

    Raises
    ------
    TypeError, ValueError
        If it is not a number, or not one that is allowed.
    """
    wanted = "a positive number" if positive else "a number" if minimum is None else f"a number >= {minimum:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number) or (positive and number <= 0) or (minimum is not None and number < minimum):
        raise ValueError(f"{name} must be {wanted}{'' if np.isfinite(number) else ' and finite'}, got {number:g}")
    return number


def flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    TypeError
        If it is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def whole(name: str, value: object, *, minimum: int = 0) -> int:
    """Return an integer from `minimum` to `MAX_INTEGER`.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or not in that range.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer >= {minimum}, got {value!r}")
    if not minimum <= int(value) <= MAX_INTEGER:
        raise ValueError(f"{name} must be an integer from {minimum} to {MAX_INTEGER}, got {value}")
    return int(value)


def gamma_or_rule(value: object) -> Gamma:
    """Return gamma: a finite number >= 0, "scale" or "auto".

    Raises
    ------
    TypeError, ValueError
        If it is none of these.
    """
    if isinstance(value, str):
        if value not in ("scale", "auto"):
            raise ValueError(f"gamma must be a number >= 0, 'scale' or 'auto', got {value!r}")
        return cast(Gamma, value)
    try:
        return real("gamma", value, minimum=0.0)
    except TypeError:
        raise TypeError(f"gamma must be a number >= 0, 'scale' or 'auto', got {value!r}") from None


def resolve_gamma(gamma: Gamma, X: Data, weights: npt.ArrayLike | None = None) -> float:
    """Return gamma as a number.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        "scale" is 1/(p v) with v the variance of all entries of X (1 where v is 0), as in scikit-learn;
        "auto" is 1/p.
    X : Data
        The rows that a machine is fitted on.
    weights : array-like of shape (n,), optional
        Weights of the rows: a weight acts as repetition, 0 as absence.

    Raises
    ------
    TypeError
        If a rule is asked of precomputed kernel values.
    ValueError
        If the rule gives no finite positive number.
    """
    if not isinstance(gamma, str):
        return gamma
    if not isinstance(X, Vectors):
        raise TypeError(f"gamma={gamma!r} needs rows of features, got {X!r}")
    if X.p == 0:
        raise ValueError(f"gamma={gamma!r} needs at least one column, got {X!r}")
    if gamma == "auto":
        return 1.0 / X.p
    variance = X.variance(weights)
    with np.errstate(over="ignore"):
        found = 1.0 if variance == 0 else float(1.0 / (X.p * np.float64(variance)))
    if not (0.0 < found < np.inf):
        raise ValueError(
            f"gamma='scale' is 1/(p * variance of X), and the variance {variance:g} is out of range: scale the "
            "columns (for example to mean 0 and variance 1) or give gamma as a number"
        )
    return found


def number(gamma: Gamma, kernel: object) -> float:
    """Return a gamma that is a number already.

    Raises
    ------
    ValueError
        If it is still a rule.
    """
    if isinstance(gamma, str):
        raise ValueError(f"{kernel!r} takes gamma={gamma!r} from the data: call kernel.resolve(X) first")
    return gamma
