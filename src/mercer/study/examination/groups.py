"""Rows that belong together: nearly equal rows, or rows with the same patient.

If they are on both sides of a split, a machine is tested on rows that it nearly knows, and its score is too good.
"""

from __future__ import annotations

import re

from mercer.study.examination.finding import Finding, Kind, Weight, option
from mercer.study.examination.gaps import PURE, find_gaps, group_column, measured
from mercer.study.examination.rows import Sample
from mercer.tables import Truth

_MEMBER = re.compile(
    r"(patient|subject|participant|person|user|customer|client|household|family|donor|animal|speaker|student|player|"
    r"session|device)[ _.-]?(id|key|nr|no|num|number|name|code|#)?",
    re.IGNORECASE,
)


def groups(sample: Sample, truth: Truth | None) -> list[Finding]:
    """Return what there is to say about rows that belong together."""
    return _near_copies(sample, truth) or _named_so(sample)


def _near_copies(sample: Sample, truth: Truth | None) -> list[Finding]:
    gaps = find_gaps(measured(sample.used), truth, sample.target)
    if gaps is None:
        return []
    named = group_column(sample.columns, gaps)
    share, size, name = gaps.share, gaps.size, "" if named is None or gaps.purity(named.codes) < PURE else named.name
    but = f" in all numbers but {gaps.apart!r}" if gaps.apart else ""
    by = f"They go with the values of {name!r}. " if name else ""
    remedy = (
        f"Keep them on one side of every split with {option('--groups', name)}."
        if name
        else "Add a column that names the group of each row, and say --groups with its name."
    )
    return [
        Finding(
            Kind.GROUPS,
            Weight.DOUBT,
            (name,) if name else (),
            f"{'Nearly all' if share > 0.95 else f'{100 * share:.0f}% of'} rows come in groups of about {size:.0f} "
            f"that are nearly equal{but}, such as several rows of one patient. "
            f"{by}If a group is on both sides of a split, the test score is too good.",
            remedy,
            {"share": share, "size": size, "groups": sample.n_rows / size},
        )
    ]


def _named_so(sample: Sample) -> list[Finding]:
    names = [
        column.name
        for column in sample.columns
        if _MEMBER.fullmatch(column.name.strip()) and 5 <= column.n_levels <= sample.n_rows / 2
    ]
    if not names:
        return []
    return [
        Finding(
            Kind.GROUPS,
            Weight.REMARK,
            (names[0],),
            f"Several rows have the same {names[0]!r}. If new rows will have other values of it, the test score must "
            "be one for new values, too.",
            f"Keep rows with the same value on one side of every split with {option('--groups', names[0])}.",
            {"levels": next(column.n_levels for column in sample.columns if column.name == names[0])},
        )
    ]
