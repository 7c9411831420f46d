"""Categories that differ only in case and blanks, and are learnt as different ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mercer.data import Table
from mercer.model_selection import alike_labels
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight, option

MAX_SETS = 4
"""Sets of alike categories that are shown for a column."""


def spellings(table: Table, columns: Sequence[Column]) -> list[Finding]:
    """Return the columns of categories with different spellings of the same one, with counts over these rows."""
    findings = []
    for column in columns:
        if column.kind != "categories":
            continue
        counts = Counter(cell for cell in table[column.name] if cell is not None)
        alike = alike_labels(sorted(counts))
        if not alike:
            continue
        shown = ["; ".join(f"{name!r} ({counts[name]:,})" for name in names[:5]) for names in alike[:MAX_SETS]]
        more = f", and {len(alike) - MAX_SETS} more such sets" if len(alike) > MAX_SETS else ""
        findings.append(
            Finding(
                Kind.ALIKE_CATEGORIES,
                Weight.REMARK,
                (column.name,),
                f"Categories of {column.name!r} differ only in case or blanks (rows in brackets): {', '.join(shown)}"
                f"{more}. Each is learnt as a category of its own.",
                f"If they mean the same, {option('--merge', column.name)} makes one of them.",
                {"categories": sum(map(len, alike))},
            )
        )
    return findings
