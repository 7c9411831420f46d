"""Columns of dates: how their cells are read, and the rule that encodes parts of dates.

A date becomes days since 1970, year, month, day of the month, weekday and, where there are times of day, hour. Month,
weekday and hour are points on a circle, so that December is next to January: two columns each, the sine and the cosine.
Opposite points have squared distance 4 and two random points 2 on average, as in a standardised column.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np

from mercer.data.arguments import check_choice
from mercer.tables.rules import Rule, flag, has_indicator, mean_and_scale, same_scale
from mercer.tables.table import Table, TableError, text_cells

DateOrder = Literal["dmy", "mdy"]
"""How dates such as 3/4/2024 are read: day first, or month first."""

LINEAR = ("days", "year", "day")
"""Parts of a date that are standardised as numbers."""

CYCLES = {"month": 12.0, "weekday": 7.0, "hour": 24.0}
"""Parts of a date that are points on a circle, and the number of units in the circle."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LAST_OF_2000 = 68  # a year of two digits up to this one is after 2000, as in POSIX

_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_WEEKDAY = r"((mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? +)?"
_TIME = (
    r"([T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2})([.,](?P<fraction>\d+))?)?"
    r"( ?(?P<half>[ap])m)?( ?(?P<zone>Z|UTC|GMT|[-+]\d{2}(:?\d{2})?))?)?"
)
_FORMS = [
    re.compile(f"{_WEEKDAY}{form}{_TIME}", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",  # 2024-01-31
        r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4})",  # 31.01.2024
        r"(?P<one>\d{1,2})/(?P<two>\d{1,2})/(?P<year>\d{2})",  # 1/31/24
        rf"(?P<day>\d{{1,2}})[. -]+{_MONTH}[ -]+(?P<year>\d{{4}}|\d{{2}})",  # 31 Jan 2024
        rf"{_MONTH} +(?P<day>\d{{1,2}}),? +(?P<year>\d{{4}})",  # January 31, 2024
    )
]


def read_date(cell: str, order: DateOrder) -> datetime | date | None:
    """Return the date in a cell, with its time of day if it has one; None if the cell is no date."""
    for form in _FORMS:
        if (match := form.fullmatch(cell.strip())) is not None:
            try:
                return _moment(match.groupdict(), order)
            except (ValueError, OverflowError):
                return None
    return None


def _moment(found: dict[str, str | None], order: DateOrder) -> datetime | date:
    """Return the date of the groups of a match; ValueError if there is no such day or time."""
    year = int(found["year"] or 0)
    if len(found["year"] or "") == 2:
        year += 2000 if year <= _LAST_OF_2000 else 1900
    if found.get("one") is not None:
        numbers = int(found["one"] or 0), int(found["two"] or 0)
        day, month = numbers if order == "dmy" else numbers[::-1]
    else:
        day = int(found["day"] or 0)
        month = int(found["month"] or 0) if found.get("month") else _MONTHS.index((found["name"] or "").lower()) + 1
    if found["hour"] is None:
        return date(year, month, day)
    hour = int(found["hour"])
    if found["half"] is not None:
        if not 1 <= hour <= 12:
            raise ValueError("hours before and after noon are 1 to 12")
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    micros = int((found["fraction"] or "")[:6].ljust(6, "0"))
    return datetime(
        year, month, day, hour, int(found["minute"] or 0), int(found["second"] or 0), micros, _zone(found["zone"])
    )


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


class Found(NamedTuple):
    """How the dates of a column are written: their order, whether another order is possible, and a date with both."""

    order: DateOrder
    ambiguous: bool
    example: str = ""


def find_dates(table: Table, name: str, stray_share: float, order: DateOrder | None = None) -> Found | None:
    """Return how the dates in a text column are written; None if they are not dates in (nearly) all cells.

    Parameters
    ----------
    stray_share : float
        Largest share of other cells.
    order : {"dmy", "mdy"}, optional
        The order of dates such as 3/4/2024; by default the one that all cells have. If both are possible, dates with
        slashes are taken for month first, and others for day first.

    Raises
    ------
    TableError
        If some cells have the day first and others the month.
    """
    cells = [cell for cell in table[name] if cell is not None]
    read = {cell: tuple(read_date(cell, one) for one in get_args(DateOrder)) for cell in dict.fromkeys(cells)}
    if not cells or sum(read[cell] == (None, None) for cell in cells) > stray_share * len(cells):
        return None
    if order is not None:
        return Found(order, False)
    one_way = [next((cell for cell, (a, b) in read.items() if (a, b)[k] and not (a, b)[1 - k]), None) for k in (0, 1)]
    if None not in one_way:
        raise TableError(
            f"column {name!r} holds dates with the day first, such as {one_way[0]!r}, and dates with the month first, "
            f"such as {one_way[1]!r}",
            f"write all dates one way, such as 2024-01-31, or leave the column out with drop={name}",
        )
    if one_way[0] is not None or one_way[1] is not None:
        return Found("dmy" if one_way[0] is not None else "mdy", False)
    both = [cell for cell, (a, b) in read.items() if a != b]
    if not both:
        return Found("dmy", False)
    return Found("mdy" if "/" in both[0] else "dmy", True, both[0])


def refuse_other_cells(table: Table, name: str, order: DateOrder) -> None:
    """Raise a TableError that names the first cell of a column of dates that is no date, if there is one."""
    read = {cell: read_date(cell, order) for cell in dict.fromkeys(table[name]) if cell is not None}
    known = [row for row, cell in enumerate(table[name]) if cell is not None]
    stray = [row for row in known if read[table[name][row]] is None]
    if stray:
        (number,) = table.row_numbers(stray[:1])
        raise TableError(
            f"column {name!r} holds dates in {len(known) - len(stray)} of {len(known)} cells, but row {number} holds "
            f"{table[name][stray[0]]!r}",
            f"mend or empty these cells, leave the column out with drop={name}, or say categorical={name}",
        )


class DatePart(NamedTuple):
    """A part of dates that varies in the training rows, and its mean and standard deviation there.

    Parts on a circle are not standardised: mean 0, standard deviation 1.
    """

    part: str
    mean: float
    scale: float


@dataclass(frozen=True)
class DateRule(Rule):
    """The rule of a column of dates: the order of its dates, and the parts that are encoded.

    A missing date takes the mean of each number, and the centre of each circle.
    """

    entry = "dates"

    name: str
    order: DateOrder
    parts: tuple[DatePart, ...]
    n_missing: int
    indicator: bool = False

    @classmethod
    def learn(cls, table: Table, name: str, order: DateOrder) -> Self | None:
        """Return the rule of these training rows; None if all dates are the same."""
        values, parts = _parts(table, name, order), []
        for part, numbers in values.items():
            known = numbers[~np.isnan(numbers)]
            if known.size and known.min() < known.max():
                mean, scale = (0.0, 1.0) if part in CYCLES else mean_and_scale(known)
                parts.append(DatePart(part, mean, scale))
        n_missing = int(table.missing(name).sum())
        return cls(name, order, tuple(parts), n_missing, has_indicator(n_missing, table.n_rows)) if parts else None

    def learnt_again(self, table: Table, max_levels: int) -> Self | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        found = self.learn(table, self.name, self.order)
        return None if found is None else replace(found, indicator=self.indicator)

    def agrees(self, other: Rule | None) -> bool:
        """Return whether another rule is the same, up to rounding of sums."""
        return (
            isinstance(other, DateRule)
            and replace(self, parts=()) == replace(other, parts=())
            and [part.part for part in self.parts] == [part.part for part in other.parts]
            and all(same_scale(*own[1:], *their[1:]) for own, their in zip(self.parts, other.parts, strict=True))
        )

    @property
    def values(self) -> list[str]:
        """Names of the encoded columns, except the indicator of missing cells."""
        return [
            f"{self.name}: {name}"
            for part, _, _ in self.parts
            for name in ([f"{part} (sine)", f"{part} (cosine)"] if part in CYCLES else [part])
        ]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return "the mean of the dates"

    def apply(self, table: Table) -> np.ndarray:
        """Return the encoded parts: numbers standardised, points on a circle as they are."""
        values, columns = _parts(table, self.name, self.order), []
        for part, mean, scale in self.parts:
            if part in CYCLES:
                angle = 2.0 * math.pi / CYCLES[part] * (values[part] - mean) / scale
                columns += [np.sin(angle), np.cos(angle)]
            else:
                columns.append((values[part] - mean) / scale)
        return np.nan_to_num(np.column_stack(columns), nan=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return asdict(self) | {"parts": [part._asdict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        parts = tuple(DatePart(one["part"], float(one["mean"]), float(one["scale"])) for one in data["parts"])
        for part, mean, scale in parts:
            if part not in (*LINEAR, *CYCLES) or not (math.isfinite(mean) and 0 < scale < math.inf):
                raise ValueError(f"column {data['name']!r} has an unknown part, or a mean or scale that is no number")
        if len({part for part, _, _ in parts}) != len(parts) or not parts:
            raise ValueError(f"column {data['name']!r} lists no part of dates, or lists one twice")
        check_choice("order", data["order"], get_args(DateOrder))
        return cls(str(data["name"]), data["order"], parts, int(data["n_missing"]), flag(data["indicator"]))


def _parts(table: Table, name: str, order: DateOrder) -> dict[str, np.ndarray]:
    """Return each part of the dates in a column, NaN for a missing cell; TableError for a cell that is no date."""
    cells = text_cells(table[name])
    read = {None: (math.nan,) * (len(LINEAR) + len(CYCLES))}
    for row, cell in enumerate(cells):
        if cell not in read:
            found = read_date(cell, order)
            if found is None:
                (number,) = table.row_numbers([row])
                raise TableError(
                    f"column {name!r} must hold dates, as it did in training, but row {number} holds {cell!r}",
                    "write dates as in training, or such as 2024-01-31",
                )
            read[cell] = _numbers_of(found)
    rows = np.array([read[cell] for cell in cells]).reshape(len(cells), -1)
    return dict(zip((*LINEAR, *CYCLES), rows.T, strict=True))


def _numbers_of(found: datetime | date) -> tuple[float, ...]:
    """Return the parts of a date, in the order of `LINEAR` and `CYCLES`; the hour of a date without one is NaN."""
    if isinstance(found, datetime):
        days, hour = (found - _EPOCH) / timedelta(days=1), found.hour + found.minute / 60.0
    else:
        days, hour = float(found.toordinal() - _EPOCH.toordinal()), math.nan
    return (days, found.year, found.day, found.month - 1.0, found.weekday(), hour)
