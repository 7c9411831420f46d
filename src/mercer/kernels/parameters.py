"""Checks of kernel parameters, and the rules that find gamma from the data."""

from __future__ import annotations

from math import inf, isfinite
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mercer.data import Data, Vectors, distinct_pairs
from mercer.data.arguments import NUMBER, WHOLE

Gamma: TypeAlias = float | Literal["scale", "auto", "median", "sigest"]
"""A number, or the name of the rule that computes it from the data."""

RULES = ("scale", "auto")
"""Rules for a gamma that multiplies inner products."""

DISTANCE_RULES = (*RULES, "median", "sigest")
"""Rules for a gamma that multiplies squared distances."""

MAX_INTEGER = 2**31 - 1  # largest integer parameter; native code reads 32-bit integers


def real(name: str, value: object, *, minimum: float | None = None, positive: bool = False) -> float:
    """Return a finite number, which must be at least `minimum` if that is given, or above 0 if `positive`.

    Raises
    ------
    TypeError, ValueError
        If it is not a number, or not an allowed one.
    """

    def wanted() -> str:
        return "a positive number" if positive else "a number" if minimum is None else f"a number >= {minimum:g}"

    if isinstance(value, (bool, np.bool_)) or not isinstance(value, NUMBER):
        raise TypeError(f"{name} must be {wanted()}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number) or (positive and number <= 0) or (minimum is not None and number < minimum):
        raise ValueError(f"{name} must be {wanted()}{'' if isfinite(number) else ' and finite'}, got {number:g}")
    return number


def flag(name: str, value: object) -> None:
    """Refuse a value that is neither True nor False.

    Raises
    ------
    TypeError
        If it is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def integer(name: str, value: object, *, minimum: int = 0) -> int:
    """Return an integer from `minimum` to `MAX_INTEGER`.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or not in that range.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, WHOLE):
        raise TypeError(f"{name} must be an integer >= {minimum}, got {value!r}")
    if not minimum <= int(value) <= MAX_INTEGER:
        raise ValueError(f"{name} must be an integer from {minimum} to {MAX_INTEGER}, got {value}")
    return int(value)


class FoundGamma(float):
    """A gamma that a rule found in data: a float with attributes that say how it was found.

    Attributes
    ----------
    rule : str
        "scale", "auto", "median" or "sigest".
    reason : str
        Text that says from what it was computed.
    """

    rule: str
    reason: str

    def __new__(cls, value: float, rule: str = "", reason: str = "") -> FoundGamma:
        """Return the number with its rule and reason."""
        number = super().__new__(cls, value)
        number.rule, number.reason = rule, reason
        return number


def gamma_or_rule(value: object, rules: tuple[str, ...] = RULES) -> Gamma:
    """Return gamma: a finite number >= 0, or one of the rules.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if isinstance(value, str) and value in rules:
        return cast(Gamma, value)
    if isinstance(value, (bool, np.bool_, str)) or not isinstance(value, NUMBER):
        allowed = ", ".join(["a number >= 0", *map(repr, rules[:-1])])
        wanted = f"gamma must be {allowed} or {rules[-1]!r}, got {value!r}"
        if not isinstance(value, str):
            raise TypeError(wanted)
        raise ValueError(wanted + (", which is for kernels of squared distances" if value in DISTANCE_RULES else ""))
    checked = real("gamma", value, minimum=0.0)
    return value if isinstance(value, FoundGamma) else checked


def resolve_gamma(gamma: Gamma, X: Data, weights: npt.ArrayLike | None = None) -> float:
    """Return gamma as a number; if a rule found it, the number has an attribute ``reason``.

    Parameters
    ----------
    gamma : float, "scale", "auto", "median" or "sigest"
        "scale" is 1/(p v), where v is the variance of all entries of X (1 if v is 0), as in scikit-learn. "auto" is
        1/p. "median" is 1/m, where m is the median squared distance between two different rows; the Gaussian is 1/e at
        this distance. "sigest" is the mean of 1/q and 1/r, where q and r are the 10 % and 90 % quantiles of these
        squared distances. "median" and "sigest" are 1 if all rows are equal, because then gamma has no effect.
    X : Data
        The rows that a machine is fitted on.
    weights : array-like of shape (n,), optional
        Weights of the rows. A weight of k is exactly the same as k copies, a weight of 0 as absence.

    Returns
    -------
    float or FoundGamma

    Raises
    ------
    TypeError
        If a rule is used with precomputed kernel values.
    ValueError
        If the rule does not give a finite positive number.

    Notes
    -----
    "scale" costs two passes over X. "median" and "sigest" cost one pass, a sort of n numbers and at most 65,536 p
    multiplications. With more than 362 different rows they use 65,536 pairs, which are always the same for the same
    rows and weights (`mercer.data.distinct_pairs`).

    References
    ----------
    Garreau, Jitkrittum & Kanagawa (2017), Large sample analysis of the median heuristic; Caputo, Sim, Furesjö & Smola
    (2002), Appearance-based object recognition using SVMs: which kernel should I use?, for "sigest", as in
    kernlab.
    """
    if not isinstance(gamma, str):
        return gamma
    if not isinstance(X, Vectors):
        raise TypeError(f"gamma={gamma!r} needs rows of features, got {X!r}")
    if X.p == 0:
        raise ValueError(f"gamma={gamma!r} needs at least one column, got {X!r}")
    with np.errstate(over="ignore", divide="ignore"):
        return _in_range(gamma, *_FOUND_BY[gamma](X, weights))


def gamma_of_variance(p: int, variance: float) -> FoundGamma:
    """Return what the rule "scale" finds for rows of p columns whose entries have this variance."""
    with np.errstate(over="ignore", divide="ignore"):
        return _in_range("scale", *_scaled(p, variance))


def _in_range(rule: str, value: float, reason: str) -> FoundGamma:
    if not (0.0 < value < np.inf):
        raise ValueError(
            f"gamma={rule!r} is {reason}, which is out of range: scale the columns (for example to mean 0 and "
            "variance 1) or give gamma as a number"
        )
    return FoundGamma(value, rule, reason)


def _by_columns(X: Vectors, weights: npt.ArrayLike | None) -> tuple[float, str]:
    return 1.0 / X.p, f"1 / {X.p} columns"


def _by_variance(X: Vectors, weights: npt.ArrayLike | None) -> tuple[float, str]:
    return _scaled(X.p, X.variance(weights))


def _scaled(p: int, variance: float) -> tuple[float, str]:
    if variance == 0:
        return 1.0, "1, for all entries are equal"
    return float(1.0 / (p * np.float64(variance))), f"1 / ({p} columns * variance {variance:.6g})"


def _by_median(X: Vectors, weights: npt.ArrayLike | None) -> tuple[float, str]:
    pairs = distinct_pairs(X, weights)
    if pairs.n_distinct == 1:
        return 1.0, _ALL_EQUAL
    median = pairs.quantile(0.5)
    return float(1.0 / np.float64(median)), f"1 / {median:.6g}, the median squared distance {pairs}"


def _by_quantiles(X: Vectors, weights: npt.ArrayLike | None) -> tuple[float, str]:
    pairs = distinct_pairs(X, weights)
    if pairs.n_distinct == 1:
        return 1.0, _ALL_EQUAL
    near, far = pairs.quantile(0.1), pairs.quantile(0.9)
    gamma_value = 0.5 * (1.0 / np.float64(near) + 1.0 / np.float64(far))
    return float(
        gamma_value
    ), f"the mean of 1 / {near:.6g} and 1 / {far:.6g}, deciles 1 and 9 of squared distances {pairs}"


_ALL_EQUAL = "1, for all rows are equal, where every gamma gives the same values"
_FOUND_BY = {"auto": _by_columns, "scale": _by_variance, "median": _by_median, "sigest": _by_quantiles}


def number(gamma: Gamma, kernel: object) -> float:
    """Return gamma, which must be a number already.

    Raises
    ------
    ValueError
        If it is still a rule.
    """
    if isinstance(gamma, str):
        raise ValueError(f"{kernel!r} takes gamma={gamma!r} from the data: call kernel.resolve(X) first")
    return gamma
