"""Checks of parameters that only estimators have: penalties, quantiles, and parameters without effect."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError

from mercer.data.arguments import NUMBER, check_flag, check_number


def check_finite_penalty(C: Any) -> float:
    """Return C as a float.

    Raises
    ------
    InvalidParameterError
        If C is not a finite number greater than 0.
    """
    if not isinstance(C, NUMBER) or isinstance(C, bool) or not 0.0 < float(C) < np.inf:
        raise InvalidParameterError(f"C must be a finite number > 0, got {C!r}.")
    return float(C)


def check_penalty(C: Any) -> float:
    """Return C as a float; infinity is allowed and means a hard margin.

    Raises
    ------
    InvalidParameterError
        If C is not a number greater than 0.
    """
    if not isinstance(C, NUMBER) or isinstance(C, bool) or not float(C) > 0.0:
        raise InvalidParameterError(f"C must be a number > 0, or infinity for the maximal margin, got {C!r}.")
    return float(C)


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
        try:
            check_random_state(given["random_state"])
        except ValueError as error:
            raise InvalidParameterError(
                f"random_state must be None, an integer >= 0 or a RandomState, got {given['random_state']!r}."
            ) from error
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
