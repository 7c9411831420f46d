"""Units of the numbers of a column: whether they agree, and the factors that make them one unit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from mercer.studies.tables.number_text import ABOUT, CLOCK, LOWER, UPPER, WrittenNumber

_LIMITS = LOWER + UPPER + ABOUT

_THOUSANDS = {
    "k": 1e3, "tsd": 1e3, "m": 1e6, "mio": 1e6, "mn": 1e6, "mln": 1e6, "b": 1e9, "bn": 1e9, "mrd": 1e9, "g": 1e9,
    "t": 1e12, "tn": 1e12,
}  # fmt: skip
_ALWAYS_THOUSANDS = frozenset(("K", "k", "M", "tsd", "Tsd", "Mio", "mio", "Mrd", "mrd", "mln", "bn"))
"""Letters that stand for a power of ten also if all numbers of a column have them; others need a K or M beside them."""

_PREFIXES = {"n": 1e-9, "μ": 1e-6, "m": 1e-3, "c": 1e-2, "d": 1e-1, "": 1.0, "h": 1e2, "k": 1e3, "M": 1e6, "G": 1e9,
             "T": 1e12}  # fmt: skip
_BASES = ("m", "g", "l", "L", "W", "Wh", "V", "A", "Hz", "Pa", "J", "N", "bp", "eV", "mol", "cal", "bit", "Ω")
_BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "kb": 1e3, "MB": 1e6, "Mb": 1e6, "GB": 1e9, "Gb": 1e9, "TB": 1e12}
_BYTES |= {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "μs": 1e-6, "min": 60.0, "mins": 60.0, "h": 3600.0, "hr": 3600.0}
_SECONDS |= {"hrs": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0}
_SIZES: dict[str, tuple[str, float]] = {
    **{prefix + base: (base.lower(), size) for base in _BASES for prefix, size in _PREFIXES.items()},
    **{name: ("B", size) for name, size in _BYTES.items()},
    **{name: ("s", size) for name, size in _SECONDS.items()},
}
"""The quantity and the size of each unit that can be turned into another one."""


_DURATION = re.compile(
    r"duration|elapsed|(?:run|up|down|play|lap|split|travel|flight|waiting|total)[ _-]?time|length[ _-]of[ _-]stay"
    r"|time[ _-]taken|dauer|dur[ée]e|duraci[óo]n|durata|dura[çc][ãa]o|\bpace\b",
    re.IGNORECASE,
)
"""Names of columns of durations."""


def factors_of(units: Collection[str], base_unit: str | None = None) -> tuple[str, Mapping[str, float]] | None:
    """Return the unit of a column, and the factor of each unit of its cells; None if they are no one quantity.

    Parameters
    ----------
    units : collection of str
        The different units of the cells, "" for numbers without a unit.
    base_unit : str, optional
        The unit of the column in training, after the mark of a limit if all cells had one; cells without a unit are in
        it.
    """
    if base_unit is not None:
        return _in_known(units, base_unit)
    if _are_thousands(units):
        return "", {unit: _THOUSANDS[unit.lower()] if unit else 1.0 for unit in units}
    if len(units) == 1:
        return (unit := next(iter(units))), {unit: 1.0}
    if all(unit in _SIZES for unit in units) and len({_SIZES[unit][0] for unit in units}) == 1:
        least = min(units, key=lambda unit: (_SIZES[unit][1], unit))
        return least, {unit: _SIZES[unit][1] / _SIZES[least][1] for unit in units}
    return None


def _in_known(units: Collection[str], base_unit: str) -> tuple[str, Mapping[str, float]] | None:
    factors, plain_unit = {}, base_unit.lstrip(_LIMITS)
    for unit in units:
        if unit in ("", plain_unit):
            factors[unit] = 1.0
        elif plain_unit == "" and _are_thousands({unit, *units}):
            factors[unit] = _THOUSANDS[unit.lower()]
        elif unit in _SIZES and plain_unit in _SIZES and _SIZES[unit][0] == _SIZES[plain_unit][0]:
            factors[unit] = _SIZES[unit][1] / _SIZES[plain_unit][1]
        else:
            return None
    return plain_unit, factors


def _are_thousands(units: Collection[str]) -> bool:
    """Return whether the letters after numbers stand for powers of ten: 941K, 1.3M, 12."""
    named = {unit for unit in units if unit}
    return bool(named & _ALWAYS_THOUSANDS) and all(unit.lower() in _THOUSANDS for unit in named)


def are_surely_units(units: Iterable[str]) -> bool:
    """Return whether letters after numbers are units, and not parts of codes such as 12A."""
    named = [unit for unit in units if unit]
    are_named = all(
        unit in _SIZES or not unit.isalpha() or unit in _ALWAYS_THOUSANDS or len(unit) > 2 for unit in named
    )
    return are_named and any(len(unit) > 1 or not unit.isalpha() or unit in _ALWAYS_THOUSANDS for unit in named)


def of_main_unit(
    read: Mapping[str, WrittenNumber | None], counts: Mapping[str, int], stray_share: float
) -> dict[str, WrittenNumber]:
    """Return the cells that are numbers of the unit of nearly all cells; all numbers if there is no such unit.

    Parameters
    ----------
    read : mapping
        The number of each different cell, None for other text.
    counts : mapping
        Number of rows of each different cell.
    stray_share : float
        Largest share of other cells.
    """
    numbers = {cell: number for cell, number in read.items() if number is not None}
    of_unit: Counter[str] = Counter()
    for cell, number in numbers.items():
        of_unit[number.unit] += counts[cell]
    if not of_unit:
        return {}
    main, n = of_unit.most_common(1)[0]
    if n < (1.0 - stray_share) * sum(counts.values()):
        return numbers
    return {cell: number for cell, number in numbers.items() if factors_of({main, number.unit}) is not None}


def agree(
    numbers: Iterable[WrittenNumber | None], base_unit: str | None = None, *, any_limits: bool = False, name: str = ""
) -> bool:
    """Return whether all cells are numbers of one quantity, and all or none of them limits of the true value.

    With `any_limits`, some of them may be limits. Debits beside numbers without a mark do not agree if there are no
    credits, because their sign is not known. Cells such as 16:30:00 are durations if one of them has 24 hours or more,
    or if the name of the column says so; otherwise they are times of day.
    """
    numbers_found = set(numbers)
    if not numbers_found or None in numbers_found:
        return False
    known_numbers = [number for number in numbers_found if number is not None]
    limits = {number.limit for number in known_numbers}
    one_limit = (
        len(limits) == 1 if base_unit is None else limits == {base_unit[:1] if base_unit[:1] in {*_LIMITS} else ""}
    )
    is_signed = {number.account for number in known_numbers} != {"DR", ""}
    if base_unit is None and {number.unit for number in known_numbers} == {CLOCK}:
        return _DURATION.search(name) is not None or any(
            float(number.digits.replace(",", ".")) >= _SECONDS["d"] for number in known_numbers
        )
    return (
        (any_limits or one_limit)
        and is_signed
        and factors_of({number.unit for number in known_numbers}, base_unit) is not None
    )
