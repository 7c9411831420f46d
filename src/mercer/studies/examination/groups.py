"""Rows that belong together: nearly equal rows, or rows with the same patient.

If they are on both sides of a split, a machine is tested on rows that it nearly knows, and its score is too good.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.examination.gaps import PURE, find_gaps, group_column, measured
from mercer.studies.examination.rows import Sample
from mercer.studies.tables import Labels, Truth

_NUMBERED = r"[ _.-]?(id|key|nr|no|num|number|name|code|#)?"

_LIVING = re.compile(
    r"(patient|pat|subject|subj|participant|proband|person|customer|client|household|family|donor|animal|speaker|student|"
    rf"pupil|player|employee|member){_NUMBERED}|mrn|pid",
    re.IGNORECASE,
)
"""Names of columns that say which patient, customer or animal a row is about."""

_OTHERS = re.compile(rf"(user|session|device|machine|account|case|visit|sample|id){_NUMBERED}", re.IGNORECASE)
"""Names of columns that may say so: rows with the same value must have like targets, too."""

MIN_REPEATED = 0.2
"""Smallest share of rows whose value other rows have, too."""

MIN_VALUES = 5
"""Fewest values of a column that names groups."""

MAX_SIZE, MANY_VALUES = 20, 200
"""Largest mean size of groups that numbers name, in rows; and the number of values from which this does not matter."""

SURPRISE = 4.0
"""Standard errors beyond which rows with the same value have like targets."""


def groups(sample: Sample, truth: Truth | None) -> list[Finding]:
    """Return what there is to say about rows that belong together."""
    return _near_copies(sample, truth) or _named_so(sample, truth)


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


def _named_so(sample: Sample, truth: Truth | None) -> list[Finding]:
    for column in sample.columns:
        name, codes = column.name.strip(), column.codes[~column.missing]
        is_living = _LIVING.fullmatch(name) is not None
        if not (is_living or _OTHERS.fullmatch(name)) or column.n_levels < MIN_VALUES:
            continue
        if np.count_nonzero(np.bincount(codes)[codes] > 1) < MIN_REPEATED * sample.n_rows:
            continue
        is_sure = is_living and column.numbers is None
        if not is_sure and column.n_levels < min(sample.n_rows / MAX_SIZE, MANY_VALUES):  # a count, or a kind of device
            continue
        if not is_living and (truth is None or not _have_like_targets(column, sample.target, truth)):
            continue
        return [
            Finding(
                Kind.GROUPS,
                Weight.DOUBT,
                (column.name,),
                f"Several rows have the same {column.name!r} ({column.n_levels:,} values in {sample.n_rows:,} rows). A "
                "random split has rows with the same value on both sides, so a test score is one for known values. For "
                "new ones it is too good.",
                f"Keep rows with the same value on one side of every split with {option('--groups', column.name)}.",
                {"levels": column.n_levels},
            )
        ]
    return []


def _have_like_targets(column: Column, target: npt.NDArray[Any], truth: Truth) -> bool:
    """Return whether rows with the same value have more like targets than others, beyond what chance explains."""
    is_present = ~column.missing
    codes, values = column.codes[is_present], target[is_present]
    numbers = np.eye(int(values.max()) + 1)[values] if isinstance(truth, Labels) else rankdata(values)[:, None]
    off = numbers - numbers.mean(axis=0)
    counts = np.bincount(codes, minlength=column.n_levels)
    sums = np.column_stack([np.bincount(codes, one, minlength=column.n_levels) for one in off.T])
    degrees = np.count_nonzero(counts) - 1
    between = float((sums**2 / np.maximum(counts, 1)[:, None]).sum()) / float((off**2).sum())
    expected = degrees / (len(codes) - 1)
    spread = np.sqrt(2.0 * expected * (1.0 - expected) / len(codes))
    return between - expected > SURPRISE * spread
