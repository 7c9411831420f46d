"""Parameters of an estimator, from what a user passes; every refusal names the parameter and says what it must be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError


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
