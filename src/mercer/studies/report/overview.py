"""What a table looks like, as text: its size, its classes, and a line with a small histogram for each column."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import numpy as np

from mercer.data import Table
from mercer.studies.examination import Examination, Histogram
from mercer.studies.report.numbers import count, percent, quantity
from mercer.studies.tables import Labels, Truth

MAX_CLASSES = 8
"""Classes that are named: the most frequent ones."""

MAX_COLUMNS = 40
"""Columns that have a line each: the first ones."""

WIDTH = 24
"""Characters of a histogram: one for each bar."""

NAME = 24
"""Characters of a column's name."""

_BARS = " ▁▂▃▄▅▆▇█"

_KINDS = {
    "numbers": "of numbers",
    "categories": "of categories",
    "dates": "of dates",
    "text": "of free text",
    "sequences": "of sequences",
    "bits": "of strings of bits",
}
_UNITS = {"text": "texts of {} words", "sequences": "{} letters", "bits": "{} ones"}


def overview(table: Table, truth: Truth | None, examination: Examination) -> list[str]:
    """Return the lines of an overview: of the whole table, of its target, and of each column that is used."""
    histograms = [one for one in examination.histograms if truth is None or one.name != truth.target]
    lines = [_of_table(table, examination)]
    if truth is not None:
        lines.append(_of_target(truth, examination))
    lines.append("")
    for histogram in histograms[:MAX_COLUMNS]:
        name = histogram.name if len(histogram.name) <= NAME else f"{histogram.name[: NAME - 1]}…"
        lines.append(f"{name:<{NAME}} {sketch(histogram):<{WIDTH}} {histogram.kind}, {caption(histogram)}")
    if (more := len(examination.columns) - min(len(histograms), MAX_COLUMNS)) > 0:
        lines.append(f"and {count(more, 'more column')}")
    return lines


def _of_table(table: Table, examination: Examination) -> str:
    """Rows, columns, what the columns hold, and how many cells are missing."""
    kinds = Counter(column.kind for column in examination.columns)
    listed = ", ".join(f"{number:,} {_KINDS[kind]}" for kind, number in kinds.most_common() if kind in _KINDS)
    n_missing = [int(np.count_nonzero(table.missing(name))) for name in table.names]
    missing = f"{sum(n_missing):,} cells in {count(int(np.count_nonzero(n_missing)), 'column')} are missing"
    if not any(n_missing):
        missing = "no cell is missing"
    sparse = f", {count(table.sparse.shape[1], 'sparse column')}" if table.sparse is not None else ""
    used = f" ({count(len(examination.columns), 'column')} to learn from: {listed})" if listed else ""
    return f"{count(table.n_rows, 'row')}, {count(len(table.names), 'column')}{sparse}{used}; {missing}."


def _of_target(truth: Truth, examination: Examination) -> str:
    """The classes with their rows, or the range of numbers and a histogram."""
    n = len(truth.rows)
    if isinstance(truth, Labels):
        order = np.argsort(-truth.counts, kind="stable")
        shown = [
            f"{truth.names[k]!r} {truth.counts[k]:,} ({percent(truth.counts[k] / n)})" for k in order[:MAX_CLASSES]
        ]
        more = [f"{len(order) - MAX_CLASSES:,} more"] if len(order) > MAX_CLASSES else []
        return f"Target {truth.target!r}: {len(order):,} classes in {count(n, 'row')}: {', '.join([*shown, *more])}."
    drawn = next((sketch(one) for one in examination.histograms if one.name == truth.target), "")
    values = truth.values
    return (
        f"Target {truth.target!r}: numbers in {count(n, 'row')}, {quantity(float(values.min()))} to "
        f"{quantity(float(values.max()))}, mean {quantity(float(values.mean()))}  {drawn}".rstrip()
    )


def sketch(histogram: Histogram) -> str:
    """The histogram in a line of characters."""
    counts = histogram.counts.sum(axis=0)
    if not counts.any():
        return ""
    heights = np.ceil(counts / counts.max() * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def caption(histogram: Histogram) -> str:
    """The range of numbers, or the number of texts and the most frequent one."""
    missing = f"; {histogram.n_missing:,} missing" if histogram.n_missing else ""
    if histogram.low is not None and histogram.high is not None:
        shown = _day if histogram.kind == "dates" else quantity
        ends = f"{shown(histogram.low)} to {shown(histogram.high)}"
        return f"{_UNITS.get(histogram.kind, '{}').format(ends)}{missing}"
    if not histogram.levels:
        return f"no value{missing}"
    if histogram.n_levels == 1:
        return f"“{histogram.levels[0]}” only{missing}"
    return f"{histogram.n_levels:,} values, mostly “{histogram.levels[0]}”{missing}"


def _day(days: float) -> str:
    """A date, from days since 1970."""
    return str(date(1970, 1, 1) + timedelta(days=int(days // 1)))
