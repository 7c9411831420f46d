"""Numbers as people read them."""

from __future__ import annotations

import math

from mercer.model_selection import Interval
from mercer.solvers import duration as duration

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f}%"


def interval(value: Interval, decimals: int | None = None) -> str:
    """An interval in brackets, as percentages or with the given number of decimals."""
    if decimals is None:
        return f"{percent(value.low)} to {percent(value.high)}"
    return f"{rounded(value.low, decimals)} to {rounded(value.high, decimals)}"


def rounded(value: float, decimals: int = 3) -> str:
    """A number with so many decimals; what rounds to 0 has no sign."""
    return f"{value:z.{decimals}f}"


def decimals_of(value: Interval) -> int:
    """Three decimals, and more where two digits of the interval's width take them."""
    width = value.high - value.low
    return max(3, 1 - math.floor(math.log10(width))) if width > 0.0 else 3


def capitalised(clause: str) -> str:
    """A clause with a capital at its beginning."""
    return clause[0].upper() + clause[1:]


def count(number: int, noun: str) -> str:
    """A number of things: 1 row, 2 rows."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """The ordinal of a number >= 1: first, second, ..., 11th, ..., 21st."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def small(value: float) -> str:
    """A number that may be near zero, then in powers of ten."""
    if value == 0 or not 0 < abs(value) < 1e-2:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def p_value(p: float) -> str:
    """A p-value with as many digits as it deserves, and its sign."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def quantity(value: float) -> str:
    """A number in a target's unit, with as many digits as can matter."""
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"


def quantities(value: Interval) -> str:
    """An interval in a target's unit."""
    return f"{quantity(value.low)} to {quantity(value.high)}"
