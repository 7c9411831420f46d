"""What single columns look like: constant, very skewed, with cells far outside, nearly identifying the row."""

from __future__ import annotations

import numpy as np

from mercer.data import cell_text, listing
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.examination.skewness import skewness_on_log_scale

SIZES = ("numbers", "feature")
"""Kinds of columns whose numbers are sizes."""

FAR = 10.0
"""A cell is far outside if it is this many times the width of the middle 98% away from them."""

MOSTLY = 0.5
"""Share of missing cells from which a column is mostly missing."""

IDENTIFYING = 0.5
"""Share of different texts in a column from which they nearly identify the row."""

MIN_IDENTIFYING = 20
"""Rows; in fewer, cells may differ or rise by chance."""

MANY_DIGITS = 1e8
"""Whole numbers above this that all differ are numbers of accounts, calls or articles rather than measurements."""


def examine_shapes(columns: list[Column]) -> list[Finding]:
    """Return what there is to say about the shape of each column."""
    return [
        *_constant(columns),
        *_mostly_missing(columns),
        *_skewed(columns),
        *_outlying(columns),
        *_identifying(columns),
    ]


def _constant(columns: list[Column]) -> list[Finding]:
    names = tuple(column.name for column in columns if column.n_levels < 2)
    if not names:
        return []
    return [
        Finding(
            Kind.CONSTANT,
            Weight.REMARK,
            names,
            f"{_columns(names)} {'has' if len(names) == 1 else 'have'} the same value in every row.",
            f"Nothing can be learnt from {'it, so it is' if len(names) == 1 else 'them, so they are'} not used.",
            {"columns": len(names)},
        )
    ]


def _mostly_missing(columns: list[Column]) -> list[Finding]:
    shares = {column.name: float(column.missing.mean()) for column in columns if column.n_levels > 1}
    names = tuple(sorted((name for name in shares if shares[name] >= MOSTLY), key=lambda name: -shares[name]))
    if not names:
        return []
    return [
        Finding(
            Kind.MISSING,
            Weight.REMARK,
            names,
            f"{_columns(names)} {'is' if len(names) == 1 else 'are'} missing in most rows: {names[0]!r} in "
            f"{100 * shares[names[0]]:.0f}%. Most of {'its' if len(names) == 1 else 'their'} values are filled in.",
            "Find out what a missing cell means; leave such a column out with --drop if it means nothing.",
            {"columns": len(names), "share": shares[names[0]]},
        )
    ]


def _skewed(columns: list[Column]) -> list[Finding]:
    skewness = {}
    for column in columns:
        if column.kind in SIZES and column.n_levels >= 2:
            skew = skewness_on_log_scale(column.present)
            if skew is not None:
                skewness[column.name] = skew
    if not skewness:
        return []
    names = tuple(sorted(skewness, key=lambda name: -skewness[name][0]))
    plain, on_log = skewness[names[0]]
    which = f"skewness of {names[0]!r}" if len(names) > 1 else "skewness"
    return [
        Finding(
            Kind.SKEWED,
            Weight.REMARK,
            names,
            f"{_columns(names)} {'is' if len(names) == 1 else 'are'} very skewed ({which} {plain:.1f}; {on_log:.1f} on "
            "a logarithmic scale): most rows lie close together, and a few far away.",
            "Replace such a column by its logarithm (log(1 + x) if there are zeros).",
            {"columns": len(names), "skewness": plain, "skewness_of_logarithm": on_log},
        )
    ]


def _outlying(columns: list[Column]) -> list[Finding]:
    findings = []
    for column in columns:
        if column.kind not in SIZES or column.n_levels < 10:
            continue
        low, high = np.quantile(column.present, [0.01, 0.99])
        farthest = column.present[np.argmax(np.maximum(low - column.present, column.present - high))]
        times = max(low - farthest, farthest - high) / (high - low) if high > low else 0.0
        if times >= FAR:
            findings.append((times, column, float(farthest), float(low), float(high)))
    if not findings:
        return []
    findings.sort(key=lambda one: -one[0])
    times, column, farthest, low, high = findings[0]
    others = f" So are cells of {listing([one[1].name for one in findings[1:]])}." if len(findings) > 1 else ""
    return [
        Finding(
            Kind.OUTLYING,
            Weight.REMARK,
            tuple(one[1].name for one in findings),
            f"Column {column.name!r} has a cell far outside, {cell_text(farthest)}, while 98% of its cells lie between "
            f"{low:.4g} and {high:.4g}.{others} Such cells stretch the scale, so that the other rows look alike.",
            "Mend mistakes, empty cells that are codes such as 9999, or use logarithms.",
            {"columns": len(findings), "times": times, "cell": farthest},
        )
    ]


def _identifying(columns: list[Column]) -> list[Finding]:
    names = tuple(column.name for column in columns if _nearly_identifies(column))
    if not names:
        return []
    return [
        Finding(
            Kind.IDENTIFYING,
            Weight.REMARK,
            names,
            f"{_columns(names)} nearly {'identifies' if len(names) == 1 else 'identify'} the row: (almost) every row "
            f"has its own value. What is learnt from {'it' if len(names) == 1 else 'them'} may not hold for new rows.",
            "Leave out with --drop what is a number of a row, a person or a case.",
            {"columns": len(names)},
        )
    ]


def _nearly_identifies(column: Column) -> bool:
    n_known = int(np.count_nonzero(column.codes >= 0))
    if n_known < MIN_IDENTIFYING or column.kind in ("text", "sequences", "bits", "dates", "feature"):
        return False
    if column.numbers is None:
        return column.n_levels > IDENTIFYING * n_known
    numbers = column.present
    if column.n_levels < n_known or not (numbers == np.round(numbers)).all():
        return False
    steps = np.diff(numbers)
    has_many_digits = (
        np.abs(numbers).min() >= MANY_DIGITS and np.abs(numbers).max() < 2.0**53
    )  # larger ones are all whole
    return bool((steps > 0).all() or (steps < 0).all() or has_many_digits)


def _columns(names: tuple[str, ...]) -> str:
    return f"Column {names[0]!r}" if len(names) == 1 else f"{len(names)} columns ({listing(names, most=5)})"
