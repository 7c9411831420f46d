"""Columns of dates and times: how their cells are read, and the rule that encodes parts of dates.

A date becomes days since 1970, year, month, day of the month, weekday and, where there are times of day, hour. Month,
weekday and hour are points on a circle, so that December is next to January: two columns each, the sine and the cosine.
Opposite points have squared distance 4 and two random points 2 on average, as in a standardised column.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple, Self, get_args

import numpy as np

from mercer.data import Table, TableError, check_choice, text_cells
from mercer.studies.tables.date_text import ZERO_DATES, DateKind, DateOrder, Moment, both_ways, is_weak, read_date
from mercer.studies.tables.learning import mean_and_scale
from mercer.studies.tables.rules import Rule, TransformRule, flag, has_indicator, same_scale

LINEAR = ("days", "year", "day")
"""Parts of a date that are standardised as numbers."""

CYCLES = {"month": 12.0, "weekday": 7.0, "hour": 24.0}
"""Parts of a date that are points on a circle, and the number of units in the circle."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_since_1970(moment: Moment) -> float:
    """Return the days from 1 January 1970 (UTC) to a date; of a time of day alone, the share of the day before it."""
    if isinstance(moment, time):
        moment = datetime.combine(_EPOCH, moment)
    if isinstance(moment, datetime):
        return (moment - _EPOCH) / timedelta(days=1)
    return float(moment.toordinal() - _EPOCH.toordinal())


class Found(NamedTuple):
    """How the dates of a column are written: their order, whether another order is possible, and a date with both."""

    order: DateKind
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
    counts = Counter(cell for cell in table[name] if cell is not None and cell not in ZERO_DATES)
    read, n_stray, most = {}, 0, stray_share * counts.total()
    for cell, count in counts.items():
        read[cell] = both_ways(cell)
        n_stray += count if read[cell] == (None, None) else 0
        if n_stray > most:
            return None
    if not read or (stray_share < 1.0 and all(map(is_weak, counts))):
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
        return Found("ymd", False)
    return Found("mdy" if any("/" in cell for cell in both) else "dmy", True, both[0])


def refuse_other_cells(table: Table, name: str, order: DateKind) -> None:
    """Raise a TableError that names the first cell of a column of dates that is no date, if there is one."""
    rows = [row for row, cell in enumerate(table[name]) if cell is not None and cell not in ZERO_DATES]
    read = {cell: read_date(cell, order) for cell in dict.fromkeys(table[name][rows])}
    stray = [row for row in rows if read[table[name][row]] is None]
    if stray:
        (number,) = table.row_numbers(stray[:1])
        raise TableError(
            f"column {name!r} holds dates in {len(rows) - len(stray)} of {len(rows)} cells, but row {number} holds "
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
class DateRule(TransformRule):
    """The rule of a column of dates: the order of its dates, and the parts that are encoded.

    A missing date takes the mean of each number, and the centre of each circle.
    """

    entry = "dates"

    name: str
    order: DateKind
    parts: tuple[DatePart, ...]
    n_missing: int
    indicator: bool = False

    @classmethod
    def learn(cls, table: Table, name: str, order: DateKind) -> Self | None:
        """Return the rule of these training rows; None if all dates are the same."""
        values, parts = _parts(table, name, order), []
        for part, numbers in values.items():
            present = numbers[~np.isnan(numbers)]
            if present.size and present.min() < present.max():
                mean, scale = (0.0, 1.0) if part in CYCLES else mean_and_scale(present)
                parts.append(DatePart(part, mean, scale))
        n_missing = int(table.missing(name).sum())
        return cls(name, order, tuple(parts), n_missing, has_indicator(n_missing, table.n_rows)) if parts else None

    def learnt_again(self, table: Table, max_levels: int) -> Self | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        rule = self.learn(table, self.name, self.order)
        return None if rule is None else replace(rule, indicator=self.indicator)

    def agrees(self, other: Rule | None) -> bool:
        """Return whether another rule is the same, up to rounding of sums."""
        return (
            isinstance(other, DateRule)
            and replace(self, parts=()) == replace(other, parts=())
            and [part.part for part in self.parts] == [part.part for part in other.parts]
            and all(same_scale(*scale[1:], *their[1:]) for scale, their in zip(self.parts, other.parts, strict=True))
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
        check_choice("order", data["order"], get_args(DateKind))
        return cls(str(data["name"]), data["order"], parts, int(data["n_missing"]), flag(data["indicator"]))


def _parts(table: Table, name: str, order: DateKind) -> dict[str, np.ndarray]:
    """Return each part of the dates in a column, NaN for a missing cell; TableError for a cell that is no date."""
    cells = text_cells(table[name])
    parts = (*LINEAR, *CYCLES)
    read = dict.fromkeys((None, *ZERO_DATES), (math.nan,) * len(parts))
    for row, cell in enumerate(cells):
        if cell not in read:
            moment = read_date(cell, order)
            if moment is None:
                (number,) = table.row_numbers([row])
                if None not in both_ways(cell):
                    days = " or ".join(dict.fromkeys(str(one) for one in both_ways(cell)))
                    raise TableError(
                        f"column {name!r} holds {cell!r} in row {number}, which may be {days}: no date of training "
                        "tells whether the day or the month is first",
                        "write dates as in training, or such as 2024-01-31",
                    )
                raise TableError(
                    f"column {name!r} must hold dates, as it did in training, but row {number} holds {cell!r}",
                    "write dates as in training, or such as 2024-01-31",
                )
            read[cell] = _numbers_of(moment)
    rows = np.array([read[cell] for cell in cells]).reshape(len(cells), len(parts))
    return dict(zip(parts, rows.T, strict=True))


def _numbers_of(moment: Moment) -> tuple[float, ...]:
    """Return the parts of a date, in the order of `LINEAR` and `CYCLES`; a part that it does not have is NaN."""
    hour = math.nan if not isinstance(moment, datetime | time) else moment.hour + moment.minute / 60.0
    if isinstance(moment, time):
        return (*(math.nan,) * (len(LINEAR) + len(CYCLES) - 1), hour)
    return (days_since_1970(moment), moment.year, moment.day, moment.month - 1.0, moment.weekday(), hour)
