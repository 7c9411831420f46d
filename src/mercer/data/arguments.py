"""Checks of arguments that users pass; each error names the argument and says what it must be."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

NUMBER, WHOLE = (float, int, Real), (int, Integral)
"""Types of numbers and of integers. Python's own types come first, because the abstract ones are slow to test."""


def check_choice(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return the value, which must be one of the allowed strings.

    Raises
    ------
    InvalidParameterError
        If it is another value.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def check_number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None, finite: bool = False
) -> float:
    """Return a real number within bounds; infinity is allowed unless `finite` is True.

    Raises
    ------
    InvalidParameterError
        If it is not such a number.
    """
    bound = f"> {above:g}" if above is not None else f">= {at_least:g}"
    good = isinstance(value, NUMBER) and not isinstance(value, bool)
    try:
        number = float(value) if good else np.nan
    except OverflowError:  # an integer beyond float64
        raise InvalidParameterError(f"{name} must be a number {bound} that float64 can hold.") from None
    if not (number > above if above is not None else number >= (at_least or 0.0)):
        raise InvalidParameterError(f"{name} must be a number {bound}, got {value!r}.")
    if finite and np.isinf(number):
        raise InvalidParameterError(f"{name} must be a finite number {bound}, got {value!r}.")
    return number


def check_share(name: str, value: Any, most: float) -> float:
    """Return a share of rows as a float.

    Raises
    ------
    InvalidParameterError
        If it is not a number greater than 0 and at most `most`.
    """
    if not isinstance(value, NUMBER) or isinstance(value, bool) or not 0.0 < float(value) <= most:
        raise InvalidParameterError(f"{name} must be a number > 0 and <= {most:g}, got {value!r}.")
    return float(value)


def check_whole(name: str, value: Any, *, unit: str = "", at_least: int | None = None) -> int | None:
    """Return an integer within bounds, or None.

    Raises
    ------
    InvalidParameterError
        If the value is neither None nor an integer of at least `at_least`.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, WHOLE) or (at_least is not None and value < at_least):
        bound = "" if at_least is None else f" >= {at_least}"
        raise InvalidParameterError(f"{name} must be an integer{bound}{unit and f' ({unit})'} or None, got {value!r}.")
    return int(value)


def check_count(name: str, value: Any, *, at_least: int = 1) -> int:
    """Return a count, an integer of at least `at_least`.

    Raises
    ------
    InvalidParameterError
        If it is not an integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, WHOLE) or value < at_least:
        raise InvalidParameterError(f"{name} must be an integer >= {at_least}, got {value!r}.")
    return int(value)


def check_seconds(max_seconds: Any) -> float | None:
    """Return a time limit in seconds; None means no limit.

    Raises
    ------
    InvalidParameterError
        If it is neither None nor a number >= 0.
    """
    return None if max_seconds is None else check_number("max_seconds", max_seconds, at_least=0.0)


def check_learning_rate(learning_rate: Any) -> float | None:
    """Return a learning rate, the factor of the gradient; None means that the solver chooses it.

    Raises
    ------
    InvalidParameterError
        If it is neither None nor a finite number > 0.
    """
    return None if learning_rate is None else check_number("learning_rate", learning_rate, above=0.0, finite=True)


def check_flag(name: str, value: Any) -> bool:
    """Return a flag as a bool.

    Raises
    ------
    InvalidParameterError
        If the value is not True or False.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidParameterError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_callback(callback: Any) -> None:
    """Refuse a callback that is not callable.

    Raises
    ------
    InvalidParameterError
        If it is neither None nor callable.
    """
    if callback is not None and not callable(callback):
        raise InvalidParameterError(
            f"callback must be a function of one argument, the progress, or None, got {callback!r}."
        )


def check_level(level: float) -> None:
    """Refuse a confidence level outside the open interval (0, 1).

    Raises
    ------
    InvalidParameterError
        If it is outside.
    """
    if not 0.0 < level < 1.0:
        raise InvalidParameterError(f"level must lie between 0 and 1, got {level!r}.")
