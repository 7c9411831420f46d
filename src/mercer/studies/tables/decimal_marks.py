"""The decimal mark of a file: the one with which the numbers of all its columns can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mercer.data import Note, TableError
from mercer.studies.tables.number_text import written_number


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
    model_mark: str | None,
    separator: str,
    line_of: Callable[[int], str] | None = None,
) -> tuple[str | None, Note | None]:
    """Return the decimal mark of a file (None if it has no marks), and a note if it is a guess, or not the point.

    There is one decimal mark for all columns. Cells that are numbers only with one of the marks decide. If there are
    none, `model_mark` decides, the mark of the file that a model was trained on. Otherwise 1.928 is a number below 2 in
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
    if model_mark is not None and same:
        return model_mark, Note(f"Numbers have the decimal mark {model_mark!r}, as in training: {cells[0]}", _ASK)
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
