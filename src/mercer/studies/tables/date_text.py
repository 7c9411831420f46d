"""Dates and times written as text: their forms, and names of months and weekdays in several languages."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import Literal, TypeAlias

DateOrder = Literal["dmy", "mdy"]
"""How dates such as 3/4/2024 are read: day first, or month first."""

DateKind = Literal["dmy", "mdy", "ymd"]
"""The order of the dates of a column; "ymd" if all its dates are read in one way only, as 2024-01-31 is."""

Moment: TypeAlias = datetime | date | time
"""A date with or without a time of day, or a time of day."""

ZERO_DATES = frozenset(
    f"{day}{clock}"
    for day in ("0000-00-00", "0000/00/00", "00.00.0000", "00/00/0000", "00-00-0000", "0000-00-00T00:00:00")
    for clock in ("", " 00:00", " 00:00:00", " 00:00:00.000", " 00:00:00.000000")
)
"""Dates without a day, by which databases mean a missing one."""

_LAST_OF_2000 = 68  # a year of two digits up to this one is after 2000, as in POSIX
_MAX_CACHED = 1 << 17  # cells whose dates are kept in memory, because folds read the same cells again

_MONTHS_BY_LANGUAGE = (
    "january february march april may june july august september october november december",  # English
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar marz april mai juni juli august september oktober november dezember",  # German
    "jan feb mrz apr mai jun jul aug sept okt nov dez",
    "janner feber maerz - - - - - - - - -",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",  # French
    "janv fevr mars avr mai juin juil aou sept oct nov dec",
    "jan fev mar avr mai jui jul aout sep oct nov dec",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",  # Spanish
    "ene feb mar abr may jun jul ago sep oct nov dic",
    "- - - - - - - - setiembre - - -",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",  # Italian
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",  # Portuguese
    "jan fev mar abr mai jun jul ago set out nov dez",
    "januari februari maart april mei juni juli augustus september oktober november december",  # Dutch
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
    "januari februari mars april maj juni juli augusti september oktober november december",  # Swedish
    "januar februar marts april maj juni juli august september oktober november december",  # Danish, Norwegian
    "jan feb mar apr maj jun jul aug sep okt nov des",
    "- - - - - - - - - - - desember",
    "styczen luty marzec kwiecien maj czerwiec lipiec sierpien wrzesien pazdziernik listopad grudzien",  # Polish
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia wrzesnia pazdziernika listopada grudnia",
    "sty lut mar kwi maj cze lip sie wrz paz lis gru",
    "ocak subat mart nisan mayis haziran temmuz agustos eylul ekim kasim aralik",  # Turkish
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",  # Russian
    "январь февраль март апрель маи июнь июль август сентябрь октябрь ноябрь декабрь",
    "янв фев мар апр мая июн июл авг сен окт ноя дек",
)
_MONTHS = {
    name: number for line in _MONTHS_BY_LANGUAGE for number, name in enumerate(line.split(), start=1) if name != "-"
}
_WEEKDAYS_BY_LANGUAGE = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun",
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag mo di mi do fr sa so",
    "lundi mardi mercredi jeudi vendredi samedi dimanche lun mar mer jeu ven sam dim",
    "lunes martes miercoles jueves viernes sabado domingo mie jue vie sab dom",
    "lunedi martedi mercoledi giovedi venerdi gio segunda terca quarta quinta sexta seg ter qua qui sex",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag ma wo vr za zo",
)
_WEEKDAYS = frozenset(name for line in _WEEKDAYS_BY_LANGUAGE for name in line.split())

_NAME = r"(?P<name>[^\W\d_]{3,12})\.?"
_OF = r"(?:(?:de|of) )?"
_WEEKDAY = r"(?:(?P<weekday>[^\W\d_]{2,10})\.?,? +)?"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2})([.,](?P<fraction>\d+))?)?"
    r"( ?(?P<half>[ap])m)?( ?(?P<zone>Z|UTC|GMT|[-+]\d{2}(:?\d{2})?))?"
)
_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        *(
            f"{_WEEKDAY}{day}([T ]+{_TIME})?"
            for day in (
                r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",  # 2024-01-31
                r"(?P<year>(19|20)\d{2})(?P<month>\d{2})(?P<day>\d{2})",  # 20240131
                r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})",  # 31.01.2024
                rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|º)?[. -]*{_OF}{_NAME},?[ -]*{_OF}(?P<year>\d{{4}}|\d{{2}})",
                rf"{_NAME} +(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<year>\d{{4}})",  # January 31, 2024
            )
        ),
        r"(?P<year>(19|20)\d{2})-(?P<month>\d{2})",  # 2024-01
        rf"{_NAME},?[ -]+{_OF}(?P<year>\d{{4}})",  # January 2024
        r"(?P<year>(19|20)\d{2})[- /.]?[qQtT](?P<quarter>[1-4])",  # 2024Q3
        r"[qQtT](?P<quarter>[1-4])[- /.]?(?P<year>(19|20)\d{2})",  # Q3 2024
        r"(?P<year>(19|20)\d{2})[- ]?(W|KW)(?P<week>\d{2})(-(?P<of_week>[1-7]))?",  # 2024-W31
        _TIME,  # 16:30
    )
]
_WEAK = re.compile(r"(?!\d\d[-.]\d\d[-.])\d{1,2}([-.])\d{1,2}\1\d{2}")
"""Dates that may be versions or codes, such as 1.2.10: not those with days and months of two digits."""


def read_date(cell: str, order: DateKind) -> Moment | None:
    """Return the date in a cell, with its time of day if it has one, or the time of day alone.

    A month, quarter or week without a day is its first day. None stands for a cell that is no date, and in the order
    "ymd" also for a date such as 3/4/2024, which can be read in two ways.
    """
    day_first, month_first = both_ways(cell)
    if order == "ymd":
        return day_first or month_first if None in (day_first, month_first) or day_first == month_first else None
    return month_first if order == "mdy" else day_first


def is_weak(cell: str) -> bool:
    """Return whether a cell is a date that may be a version or a code as well."""
    return _WEAK.fullmatch(cell.strip()) is not None


@lru_cache(maxsize=_MAX_CACHED)
def both_ways(cell: str) -> tuple[Moment | None, Moment | None]:
    """Return the date in a cell, read with the day first and with the month first."""
    for form in _FORMS:
        if (match := form.fullmatch(cell.strip())) is not None:
            groups = match.groupdict()
            day_first = _moment(groups, "dmy")
            return day_first, _moment(groups, "mdy") if "one" in groups else day_first
    return None, None


def _moment(groups: dict[str, str | None], order: DateOrder) -> Moment | None:
    """Return the date of the groups of a match; None if there is no such day or time."""
    weekday = groups.get("weekday")
    if weekday is not None and _plain(weekday) not in _WEEKDAYS:
        return None
    try:
        clock = None if groups.get("hour") is None else _clock(groups)
        day = _day(groups, order) if "year" in groups else None
    except (ValueError, OverflowError, KeyError):
        return None
    return clock if day is None else day if clock is None else datetime.combine(day, clock)


def _day(groups: dict[str, str | None], order: DateOrder) -> date:
    """Return the day of the groups of a match; ValueError or KeyError if there is no such day."""
    year = int(groups["year"] or 0)
    if len(groups["year"] or "") == 2:
        year += 2000 if year <= _LAST_OF_2000 else 1900
    if groups.get("week"):
        return date.fromisocalendar(year, int(groups["week"] or 0), int(groups["of_week"] or 1))
    if groups.get("quarter"):
        return date(year, 3 * int(groups["quarter"] or 0) - 2, 1)
    if groups.get("one") is not None:
        numbers = int(groups["one"] or 0), int(groups["two"] or 0)
        return date(year, *(numbers[::-1] if order == "dmy" else numbers))
    month = int(groups["month"] or 0) if groups.get("month") else _MONTHS[_plain(groups["name"] or "")]
    return date(year, month, int(groups.get("day") or 1))


def _plain(name: str) -> str:
    """Return a name in lower case without accents."""
    apart = unicodedata.normalize("NFKD", name.casefold())
    return "".join(one for one in apart if not unicodedata.combining(one)).replace("ı", "i")


def _clock(groups: dict[str, str | None]) -> time:
    """Return the time of day of the groups of a match."""
    hour, half = int(groups["hour"] or 0), groups["half"]
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError("hours before and after noon are 1 to 12")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    micros = int((groups["fraction"] or "")[:6].ljust(6, "0"))
    return time(hour, int(groups["minute"] or 0), int(groups["second"] or 0), micros, _zone(groups["zone"]))


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
