"""Words that mean "missing" in a table, and the columns in which they do."""

from __future__ import annotations

from mercer.studies.tables.date_text import ZERO_DATES

_FAULTS = frozenset(f"#{fault}" for fault in ("DIV/0!", "VALUE!", "REF!", "NAME?", "NUM!", "NULL!", "N/A", "NA"))
"""What spreadsheets show in place of a result."""

_NOT_A_NUMBER = frozenset(("nan", "NaN", "NAN", "-nan", "-NaN", "NaT"))

ALWAYS = (
    _FAULTS | _NOT_A_NUMBER | ZERO_DATES | {"", "?", "n/a", "N/A", "#n/a", "#N/A N/A", "<na>", "<NA>", "\\N", "(null)"}
)
"""Cells that mean "missing" in every column: they can hardly be meant as text."""

_WORDS = "na|nan|null|none|nil|n.a.|n.d.|nd|n/d|missing|unknown|no data|not available|not applicable"
_MARKS = "-|--|---|\N{EN DASH}|\N{EM DASH}|.|..|*|1.#ind|-1.#ind|1.#qnan|-1.#qnan"

AMONG_NUMBERS = frozenset(f"{_WORDS}|{_MARKS}".split("|"))
"""Cells, in any letter case, that mean "missing" in a column whose other cells are numbers or dates.

Elsewhere they are text: NA is Namibia or North America, Na is sodium, and None may be an answer.
"""
