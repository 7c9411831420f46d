"""The value class of a bound, with its assumptions, and checks of the arguments of bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from mercer.data.result import Result, columns_of_rows


@dataclass(frozen=True, repr=False)
class Bound(Result):
    """A bound of learning theory, with its assumptions.

    Attributes
    ----------
    name : str
        Name of the bound.
    of : str
        The bounded quantity, as a formula.
    value : float
        The bound; NaN if it does not apply.
    assumptions : tuple of str
        Conditions under which it holds.
    trivial : float
        The value that always holds; a bound that is not smaller is vacuous.
    low : float or None
        Lower end of an interval, or None.
    relation : str
        Relation of the quantity to `value`: "<=", ">=", or "~" for an estimate that is not a bound.
    confidence : float or None
        Least probability, over the draw of the rows, with which it holds; None for a statement without probability.
    reason : str
        Why it does not apply; "" if it applies.

    Examples
    --------
    >>> from mercer.theory import hoeffding_interval
    >>> bound = hoeffding_interval(0.1, n=500)
    >>> print(bound)
    Hoeffding's interval: 0.03926 <= error <= 0.1607 with probability >= 0.95
    >>> bound.vacuous, hoeffding_interval(0.1, n=1).vacuous
    (False, True)
    """

    name: str
    of: str
    value: float
    assumptions: tuple[str, ...]
    trivial: float = math.inf
    low: float | None = None
    relation: str = "<="
    confidence: float | None = None
    reason: str = ""

    @property
    def applicable(self) -> bool:
        """Whether its assumptions hold, as far as they can be checked."""
        return not self.reason

    @property
    def vacuous(self) -> bool:
        """Whether it applies but says no more than what always holds."""
        return self.applicable and self.value >= self.trivial and (self.low is None or self.low <= 0.0)

    def _columns(self) -> dict[str, Any]:
        """Return one row, with the assumptions as one text."""
        return columns_of_bounds([self])

    def __str__(self) -> str:
        if not self.applicable:
            return f"{self.name}: not applicable ({self.reason})"
        ends = "" if self.low is None else f"{_number(self.low)} <= "
        text = f"{self.name}: {ends}{self.of} {self.relation} {_number(self.value)}"
        if self.confidence is not None:
            text += f" with probability >= {self.confidence:g}"
        return text + (" -- vacuous" if self.vacuous else "")


def columns_of_bounds(bounds: Sequence[Bound]) -> dict[str, Any]:
    """Return bounds as columns, one row each."""
    names = ("name", "of", "relation", "value", "low", "confidence", "vacuous", "reason")
    columns = dict(columns_of_rows(bounds, names))
    return columns | {"assumptions": ["; ".join(one.assumptions) for one in bounds]}


def not_applicable(name: str, of: str, reason: str, assumptions: tuple[str, ...]) -> Bound:
    """Return a bound without value, with the reason why it does not apply."""
    return Bound(name, of, math.nan, assumptions, reason=reason)


def check_real(
    name: str, value: Any, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> float:
    """Return a number within bounds.

    Raises
    ------
    ValueError
        If it is not a number in this range.
    """
    good = isinstance(value, Real) and not isinstance(value, bool)
    if good:
        good = (low < value if open_low else low <= value) and (value < high if open_high else value <= high)
    if not good:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(f"{name} must be a number in {left}{low:g}, {high:g}{right}, got {value!r}.")
    return float(value)


def check_delta(delta: Any) -> float:
    """Return delta, the probability with which a bound may fail.

    Raises
    ------
    ValueError
        If it is not in the open interval (0, 1).
    """
    return check_real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)


def check_error(name: str, value: Any) -> float:
    """Return an error rate.

    Raises
    ------
    ValueError
        If it is not in [0, 1].
    """
    return check_real(name, value, 0.0, 1.0)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number greater than 0.

    Raises
    ------
    ValueError
        If it is not such a number.
    """
    return check_real(name, value, 0.0, math.inf, open_low=True, open_high=True)


def _number(value: float) -> str:
    return (
        str(int(value)) if value == round(value, 0) and abs(value) < 1e15 and math.isfinite(value) else f"{value:.4g}"
    )
