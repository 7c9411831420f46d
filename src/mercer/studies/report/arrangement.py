"""Which rows a study kept together, in sentences."""

from __future__ import annotations

import numpy as np

from mercer.model_selection import Together
from mercer.studies.examination import Finding, Kind, Weight
from mercer.studies.report.numbers import count, percent
from mercer.studies.result import Study


def grouped_rows(study: Study) -> list[str]:
    """Copies, groups, or the order of time: a sentence each, as far as there are any."""
    arranged, equal = study.arranged, study.arranged.equal
    n, n_repeated = equal.groups.size, equal.n_repeated
    notes = []
    if arranged.keeps_copies:
        notes.append(
            f"{_of(n_repeated, n)} {'is a copy' if n_repeated == 1 else 'are copies'}, equal to an earlier row in all "
            "columns used. Copies stayed on one side of the seal and of each fold, so that no row was judged by a copy "
            "that had been learnt from."
        )
    elif n_repeated and equal.by_chance:
        notes.append(
            f"{_of(n_repeated, n)} {'equals' if n_repeated == 1 else 'equal'} an earlier row in all columns used. With "
            "so few different values this is to be expected of new rows, too, so such rows were not kept together."
        )
    if arranged.groups is not None and isinstance(arranged.arrangement, Together):
        n_groups, n_sealed = arranged.arrangement.n_groups, arranged.arrangement.n_groups - _n_units(study)
        notes.append(
            f"Rows with the same “{arranged.groups}” stayed together: {n_groups:,} groups, of which {n_sealed:,} are "
            "sealed."
        )
    if arranged.near is not None and isinstance(arranged.arrangement, Together):
        named = f", which “{arranged.near.column}” names" if arranged.near.column else ""
        notes.append(
            f"The rows come in groups of about {arranged.near.size:.0f} nearly equal ones, such as several rows of one "
            f"patient{named}. The {arranged.arrangement.n_groups:,} groups that were found stayed together on one side "
            "of the seal and of each fold (--copies apart treats each row as one of its own)."
        )
    if arranged.named is not None:
        notes.append(
            f"Rows with the same “{arranged.groups}” stayed together, and were as late as the last of them by "
            f"“{arranged.time}”: nothing was learnt from rows after the last row of a group that was judged by, but a "
            "group that was judged by may have earlier rows."
        )
    elif arranged.time is not None:
        notes.append(
            f"The sealed rows are the last ones by “{arranged.time}”, and in each fold the rows to judge by are later "
            "than those that were learnt from. So the figures are for predicting what comes next."
        )
    if arranged.units is not None:
        notes.append("Intervals and tests count rows that belong together as dependent.")
    return notes


def doubts(study: Study) -> list[Finding]:
    """A doubt if groups were found by nearness alone: some of their rows may be on both sides of the seal."""
    near = study.arranged.near
    if near is None or near.column:
        return []
    sentence = (
        f"The rows come in groups of nearly equal ones, such as several rows of one patient. Groups of about "
        f"{near.size:.0f} rows were found by nearness and kept together, but a group may have been found in parts, and "
        "the figures are then too good."
    )
    remedy = "Name the column that says which rows belong together with --groups COLUMN."
    return [Finding(Kind.GROUPS, Weight.DOUBT, (), sentence, remedy)]


def seen_before(study: Study) -> str:
    """How many of the sealed rows equal rows that were learnt from; "" if none do."""
    groups, rest = study.arranged.equal.groups, study.sealed.rest
    sealed = np.setdiff1d(np.arange(groups.size), rest)
    n_seen = int(np.isin(groups[sealed], groups[rest]).sum())
    if not n_seen:
        return ""
    return (
        f"{_of(n_seen, sealed.size, 'sealed row')} {'equals' if n_seen == 1 else 'equal'} a row that was learnt from, "
        "in all columns used"
    )


def _n_units(study: Study) -> int:
    """Number of groups that are not sealed."""
    arrangement = study.arranged.arrangement.of(study.sealed.rest)
    assert isinstance(arrangement, Together)
    return arrangement.n_groups


def _of(number: int, total: int, noun: str = "row") -> str:
    return f"{number:,} of {count(total, noun)} ({percent(number / total)})"
