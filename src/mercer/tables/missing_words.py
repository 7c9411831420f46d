"""Words that mean "missing" in a table, and the columns in which they do."""

from __future__ import annotations

ALWAYS = frozenset(
    (
        "",
        "nan",
        "NaN",
        "NAN",
        "-nan",
        "n/a",
        "N/A",
        "#n/a",
        "#N/A",
        "#N/A N/A",
        "<na>",
        "<NA>",
        "NaT",
        "?",
        "\\N",
        "(null)",
    )
) | {f"#{fault}" for fault in ("DIV/0!", "VALUE!", "REF!", "NAME?", "NUM!", "NULL!")}
"""Cells that mean "missing" in every column: they can hardly be meant as text."""

AMONG_NUMBERS = frozenset(
    (
        "na",
        "nan",
        "null",
        "none",
        "nil",
        "n.a.",
        "n.d.",
        "nd",
        "n/d",
        "missing",
        "unknown",
        "-",
        "--",
        "---",
        ".",
        "..",
        "*",
    )
)
"""Cells, in any letter case, that mean "missing" in a column whose other cells are numbers or dates.

Elsewhere they are text: NA is Namibia or North America, Na is sodium, and None may be an answer.
"""

DATE = r"^([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})([T ]|$)"
"""The beginning of a date, for the question whether the other cells of a column are dates."""
