"""Copies of rows, which are dangerous on both sides of a split."""

from __future__ import annotations

from mercer.data import Table
from mercer.model_selection import equal_rows
from mercer.studies.examination.finding import Finding, Kind, Weight

MIN_SHARE = 0.02
"""Share of copies from which they are a caution, not a remark: a single pair changes no verdict."""


def copies(table: Table) -> list[Finding]:
    """Return what there is to say about rows that are equal in every column of a table, unless chance explains them."""
    equal = equal_rows(table)
    if not equal.are_copies:
        return []
    n, n_copies = table.n_rows, equal.n_repeated
    are = "is a copy of an earlier row" if n_copies == 1 else "are copies of earlier rows"
    return [
        Finding(
            Kind.COPIES,
            Weight.CAUTION if n_copies >= MIN_SHARE * n else Weight.REMARK,
            (),
            f"{n_copies:,} of {n:,} rows {are} in every column that is used. A machine that is judged by a copy of a "
            "row that it has learnt from looks too good.",
            "mercer study and SealedSplit keep copies on one side of every split; other splits need GroupKFold with "
            "mercer.model_selection.equal_rows(X).groups.",
            {"rows": n_copies, "share": n_copies / n},
        )
    ]
