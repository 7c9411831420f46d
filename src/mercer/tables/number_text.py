"""Numbers written as text: decimal and thousands marks, percent signs and currencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

from mercer.tables.note import Note
from mercer.tables.table import TableError

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
NUMBER_WITH_COMMA = re.compile(NUMBER.pattern.replace(r"\.", "[.,]"))
"""Patterns of numbers: with a decimal point, and with a decimal comma."""

PLAIN = {".": NUMBER, ",": re.compile(NUMBER.pattern.replace(r"\.", ","))}
"""Patterns of numbers without thousands marks and units, for each decimal mark."""

AMBIGUOUS = r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$"
"""A plain number whose point is a decimal point or a thousands mark."""

_CURRENCIES = "(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|kr|zł|Kč)"
_MONEY = rf"(?:[$€£¥₹₽₩₺₴₫₪฿]|R\$|US\$|{_CURRENCIES})"
_FORM = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+])? ?(?P<before>{_MONEY})? ?(?P<later_sign>[-+])?"
    r"(?P<digits>[0-9][0-9.,' ]*[0-9.,]|[0-9]|[.,][0-9]+)(?P<exponent>[eE][-+]?[0-9]+)?"
    rf" ?(?P<after>[%‰]|{_MONEY})?(?P<close>\))?"
)
_SAME_CHARACTER = str.maketrans(
    {"\N{MINUS SIGN}": "-", "\N{RIGHT SINGLE QUOTATION MARK}": "'"}
    | dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}", " ")
)
_GROUPED = r"[1-9][0-9]{0,2}(?:([MARK' ])[0-9]{3})(?:\1[0-9]{3})*|[1-9][0-9]?(?:MARK[0-9]{2})+MARK[0-9]{3}|[0-9]+"
_DIGITS = {
    decimal: re.compile(rf"(?:{_GROUPED.replace('MARK', mark)})(?:{decimal}[0-9]*)?|{decimal}[0-9]+")
    for decimal, mark in ((r"\.", ","), (",", r"\."))
}
_PATTERNS = {".": _DIGITS[r"\."], ",": _DIGITS[","]}


@dataclass(frozen=True)
class WrittenNumber:
    """A number as it is written: its digits and marks, its sign, its exponent, and its unit (% or a currency)."""

    digits: str
    sign: str
    exponent: str
    unit: str

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
    found = _FORM.fullmatch(cell.translate(_SAME_CHARACTER))
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    signs, units = (
        [found["sign"], found["later_sign"], "-" if found["open"] else None],
        [found["before"], found["after"]],
    )
    if sum(map(bool, signs)) > 1 or all(units):
        return None
    number = WrittenNumber(
        found["digits"],
        next(filter(None, signs), ""),
        found["exponent"] or "",
        next(filter(None, units), ""),
    )
    return number if number.decimals else None


@dataclass(frozen=True)
class Cell:
    """A cell, as messages name it."""

    column: str
    row: int  # counted from 1
    text: str

    def __str__(self) -> str:
        return f"row {self.row} of {self.column!r} holds {self.text!r}"


@dataclass(frozen=True)
class Evidence:
    """What a column of numbers tells about the decimal mark of the file: the first cell of each kind.

    Attributes
    ----------
    point, comma : Cell or None
        A cell that is a number only with a decimal point, or only with a decimal comma.
    either : tuple of Cell
        Cells whose mark may be a decimal mark or a thousands mark: the first with a point, the first with a comma.
    is_mixed : bool
        Whether the column has whole numbers below 1,000 without a mark beside cells with a mark, as columns of whole
        numbers with thousands marks have.
    """

    point: Cell | None = None
    comma: Cell | None = None
    either: tuple[Cell, ...] = ()
    is_mixed: bool = False


def decimal_mark(
    evidence: Iterable[Evidence],
    *,
    given: str | None,
    known: str | None,
    separator: str,
    line_of: Callable[[int], str] | None = None,
) -> tuple[str | None, Note | None]:
    """Return the decimal mark of a file (None if it has no marks), and a note if it is a guess, or not the point.

    There is one decimal mark for all columns. Cells that are numbers only with one of the marks decide. If there are
    none, `known` decides, the mark of the file that a model was trained on. Otherwise 1.928 is a number below 2 in
    files separated by commas or tabs, unless whole numbers without a mark stand beside it. `line_of` says in
    which line a row is, for a message.

    Raises
    ------
    TableError
        If cells contradict each other, or nothing decides: guessing would make numbers 1000 times too small or large.
        If cells contradict the mark that is `given`, and `line_of` says where they are.
    """
    columns = list(evidence)
    point = next((one.point for one in columns if one.point), None)
    comma = next((one.comma for one in columns if one.comma), None)
    if given is not None:
        other = point if given == "," else comma
        if other is not None and line_of is not None:
            raise TableError(
                f"decimal={given!r} contradicts a cell: {other}{line_of(other.row)}, which is a number with a decimal "
                f"{'point' if given == ',' else 'comma'} only",
                f"leave decimal= out, or mend the cells; text_columns={{{other.column!r}}} reads a column of names",
            )
        return given, None
    if point and comma:
        raise TableError(
            f"numbers have decimal points and decimal commas: {point}, {comma}",
            "mend the file; or say text_columns={'NAME'} for a column of names",
        )
    if comma:
        return ",", Note(f"Numbers have decimal commas: {comma}", "decimal='.' changes that")
    if point:
        return ".", None
    cells = [cell for one in columns for cell in one.either]
    if not cells:
        return None, None
    same = len({"," in cell.text for cell in cells}) == 1
    if known is not None and same:
        return known, Note(f"Numbers have the decimal mark {known!r}, as in training: {cells[0]}", _ASK)
    if same and "." in cells[0].text and separator in ",\t" and not any(one.is_mixed for one in columns if one.either):
        return ".", Note(
            f"Numbers such as {cells[0].text!r} in column {cells[0].column!r} are read with decimal points, as "
            f"{_value(cells[0].text, '.'):.10g}",
            f"decimal=',' takes the points for thousands marks, as in {_value(cells[0].text, ','):.10g}",
        )
    raise TableError(
        f"{cells[0]}, which may be {_two_readings(cells[0].text)}, and no other cell tells which",
        "say decimal='.' or decimal=','",
    )


_ASK = "decimal='.' or decimal=',' changes that"


def _two_readings(text: str) -> str:
    return " or ".join(f"{_value(text, mark):.10g}" for mark in ".,")


def _value(text: str, decimal: str) -> float:
    """Return the number of a cell that is a number with either decimal mark."""
    number = written_number(text)
    assert number is not None
    value = number.value(decimal)
    assert value is not None
    return value


def in_order(names: Collection[str]) -> list[str]:
    """Return different names sorted: by their values if all are numbers, otherwise alphabetically."""
    for pattern in (NUMBER, NUMBER_WITH_COMMA):
        if all(map(pattern.fullmatch, names)):
            with suppress(ArithmeticError):  # an exponent that Decimal does not hold
                return sorted(names, key=lambda name: (Decimal(name.replace(",", ".")), name))
    return sorted(names)
