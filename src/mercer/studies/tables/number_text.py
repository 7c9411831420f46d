"""Numbers written as text: the one description of them, for files, tables in memory, warnings and targets.

A number may have decimal and thousands marks, a sign before or after it, brackets for a negative number, an exponent,
a currency, a percent sign or another unit, a mark of a limit (<, >, ~) and the marks by which spreadsheets keep text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""The pattern of plain numbers with a decimal point."""

PLAIN = {".": NUMBER, ",": re.compile(NUMBER.pattern.replace(r"\.", ","))}
"""Patterns of numbers without thousands marks and units, for each decimal mark."""

_WITH_EITHER_MARK = re.compile(NUMBER.pattern.replace(r"\.", "[.,]"))

AMBIGUOUS = r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$"
"""A plain number whose point is a decimal point or a thousands mark."""

LOWER, UPPER, ABOUT = "<", ">", "~"
"""Marks of limits: the true value is below, above, or near the number."""

_CURRENCIES = "(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|kr|zł|Kč)"
_MONEY = rf"(?:[$€£¥₹₽₩₺₴₫₪฿]|R\$|US\$|{_CURRENCIES})"
_LETTERS = r"(?:°?[^\W\d_]{1,5}[²³]?|°)"
_UNIT = rf"(?:[%‰]|{_MONEY}|{_LETTERS}(?:/{_LETTERS})?)"
_FORM = re.compile(
    rf"(?P<limit><=?|>=?|[≤≥~≈])? ?(?P<open>\()?(?P<sign>[-+])? ?(?P<before>{_MONEY})? ?(?P<later_sign>[-+])?"
    r"(?P<digits>[0-9][0-9.,' ]*[0-9.,]|[0-9]|[.,][0-9]+)"
    r"(?:(?P<exponent>[eE][-+]?[0-9]+|[dD][-+][0-9]+)| ?[x×·*] ?10(?:\^|\*\*)(?P<power>[-+]?[0-9]+))?"
    rf"(?P<last_sign>[-+])? ?(?:(?P<account>CR|DR|DB)|(?P<after>{_UNIT}))?(?P<final_sign>[-+])?(?P<close>\))?",
)
_CLOCK = re.compile(r"(?:([0-9]+) ?d(?:ays?)?,? )?([0-9]{1,5}):([0-5][0-9])(?::([0-5][0-9])(?:([.,])([0-9]+))?)?")
_PARTS = re.compile(
    r"(?:([0-9]+) ?d(?:ays?)?)?,? ?(?:([0-9]+) ?h(?:(?:ou)?rs?)?)?,? ?(?:([0-9]+) ?m(?:ins?|inutes?)?)?,? ?"
    r"(?:([0-9]+)(?:([.,])([0-9]+))? ?s(?:ecs?|econds?)?)?"
)
CLOCK = "h:mm:ss"
"""The unit of durations that are written like times of day; their numbers are seconds."""

_ORDINALS = frozenset(("st", "nd", "rd", "th", "e", "er", "ème", "a", "o"))
_LIMITS = {"<=": LOWER, "≤": LOWER, ">=": UPPER, "≥": UPPER, "≈": ABOUT}
_DASHES = (
    "\N{MINUS SIGN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}\N{EN DASH}\N{EM DASH}\N{SMALL HYPHEN-MINUS}"
    "\N{FULLWIDTH HYPHEN-MINUS}"
)
_SAME_CHARACTER = str.maketrans(
    {
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{FULLWIDTH FULL STOP}": ".",
        "\N{FULLWIDTH COMMA}": ",",
        "\N{ARABIC DECIMAL SEPARATOR}": ".",
        "\N{ARABIC THOUSANDS SEPARATOR}": ",",
        "\N{FULLWIDTH PERCENT SIGN}": "%",
        "\N{FULLWIDTH PLUS SIGN}": "+",
        "\N{MICRO SIGN}": "\N{GREEK SMALL LETTER MU}",
    }
    | dict.fromkeys(_DASHES, "-")
    | dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\N{FIGURE SPACE}", " ")
)
_GROUPED = r"[1-9][0-9]{0,2}(?:([MARK' ])[0-9]{3})(?:\1[0-9]{3})*|[1-9][0-9]?(?:MARK[0-9]{2})+MARK[0-9]{3}|[0-9]+"
_DIGITS = {
    decimal: re.compile(rf"(?:{_GROUPED.replace('MARK', mark)})(?:{decimal}[0-9]*)?|{decimal}[0-9]+")
    for decimal, mark in ((r"\.", ","), (",", r"\."))
}
_PATTERNS = {".": _DIGITS[r"\."], ",": _DIGITS[","]}


@dataclass(frozen=True)
class WrittenNumber:
    """A number as it is written.

    Attributes
    ----------
    digits : str
        Its digits with their marks.
    sign, exponent : str
    unit : str
        %, a currency or another unit; "" without one.
    limit : str
        "<", ">" or "~" if the number is a limit of the true value, otherwise "".
    account : str
        "CR" for a credit, which is negative, "DR" for a debit, otherwise "".
    """

    digits: str
    sign: str
    exponent: str
    unit: str
    limit: str = ""
    account: str = ""

    @property
    def decimals(self) -> str:
        """The decimal marks with which these digits are a number: ".", ",", or ".," if both are possible."""
        return "".join(mark for mark in ".," if self.value(mark) is not None)

    @property
    def has_mark(self) -> bool:
        """Whether there is a point or a comma, so that the decimal mark matters."""
        return "." in self.digits or "," in self.digits

    @property
    def is_ambiguous(self) -> bool:
        """Whether the point or comma is either a decimal mark or a thousands mark, as in 1.928."""
        return self.has_mark and len(self.decimals) == 2

    def value(self, decimal: str) -> float | None:
        """Return the number if `decimal` is the decimal mark; None if it is no number then."""
        if not _PATTERNS[decimal].fullmatch(self.digits):
            return None
        other = "," if decimal == "." else "."
        if self.exponent and other in self.digits:  # numbers with an exponent have no thousands marks
            return None
        plain = re.sub(rf"[{other}' ]", "", self.digits).replace(decimal, ".")
        return float(f"{self.sign}{plain}{self.exponent}")


def written_number(cell: str) -> WrittenNumber | None:
    """Return the number that a cell holds, or None if it holds something else."""
    if not cell or not any(map(str.isdecimal, cell)):
        return None
    if ":" in cell:
        return _duration(_CLOCK.fullmatch(cell), CLOCK)
    match = _FORM.fullmatch(_bare(cell))
    if match is None and cell[0].isdecimal():
        return _duration(_PARTS.fullmatch(cell), "s")
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    account = "" if match["account"] is None else "CR" if match["account"] == "CR" else "DR"
    last = match["last_sign"] or match["final_sign"]
    limit, sign = match["limit"] or "", match["sign"] or match["later_sign"]
    limit = _LIMITS.get(limit, limit)
    if last == "+":  # 90+ is 90 or more
        if limit:
            return None
        limit, last = UPPER, None
    signs = [match["sign"], match["later_sign"], match["last_sign"], match["final_sign"], match["open"], account]
    if sum(map(bool, signs)) > 1 or (match["before"] and match["after"]):
        return None
    unit = match["before"] or match["after"] or ""
    if unit in _ORDINALS and not match["before"]:  # 1st
        return None
    number = WrittenNumber(
        match["digits"],
        "-" if match["open"] or account == "CR" or last == "-" else sign or "",
        (match["exponent"] or (f"e{match['power']}" if match["power"] else "")).lower().replace("d", "e"),
        unit,
        limit,
        account,
    )
    return number if number.decimals else None


def _duration(match: re.Match[str] | None, unit: str) -> WrittenNumber | None:
    """Return the seconds of a duration such as 26:10:05 or 1h 20m; None without a match."""
    if match is None or (unit == "s" and sum(part is not None for part in match.groups()[:4]) < 2):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    seconds_in_all = ((24 * days + hours) * 60 + minutes) * 60 + seconds
    return WrittenNumber(f"{seconds_in_all}{match[5] or ''}{match[6] or ''}", "", "", unit)


def _bare(cell: str) -> str:
    """Return a cell with usual characters, and without the marks of text of spreadsheets: '123 and ="123"."""
    text = cell.translate(_SAME_CHARACTER)
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)
    if len(text) > 3 and text.startswith('="') and text.endswith('"'):
        text = text[2:-1]
    elif len(text) > 1 and text[0] == "'":
        text = text[1:]
    return text.strip()


def number_of(cell: str | None, decimal: str = ".") -> float | None:
    """Return the number of a cell; None if it is missing, has a unit, is a limit, or no number."""
    if cell is None:
        return None
    if (decimal == "." and NUMBER.fullmatch(cell)) or cell.strip().lstrip("+-").lower() in ("inf", "infinity"):
        return float(cell)
    number = written_number(cell.strip())
    return None if number is None or number.limit or number.unit else number.value(decimal)


def shapes_of(cells: Iterable[str | None], most: int = 3) -> str:
    """Return the most frequent shapes of cells, with counts: every digit is a 9 and every letter an a or A."""
    filled = [cell for cell in cells if cell is not None]
    counts = Counter(_shape(cell) for cell in filled)
    shown = ", ".join(f"{shape!r} ({count:,})" for shape, count in counts.most_common(most))
    return shown + (", ..." if len(counts) > most else "")


def _shape(cell: str) -> str:
    text = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", _letters, cell))
    return text if len(text) <= 20 else text[:17] + "..."


def _letters(match: re.Match[str]) -> str:
    return "A" if match[0].isupper() else "a"


def in_order(names: Collection[str]) -> list[str]:
    """Return different names sorted: by their values if all are plain numbers, otherwise alphabetically."""
    for pattern in (NUMBER, _WITH_EITHER_MARK):
        if all(map(pattern.fullmatch, names)):
            with suppress(ArithmeticError):  # an exponent that Decimal does not hold
                return sorted(names, key=lambda name: (Decimal(name.replace(",", ".")), name))
    return sorted(names)
