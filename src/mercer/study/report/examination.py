"""What a page shows of the examination of the table: which rows were examined, and small histograms."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from markupsafe import Markup

from mercer.study.examination import Examination, Histogram
from mercer.study.report.numbers import count, quantity

WIDTH, HEIGHT = 120, 36  # pixels of a small histogram
GAP = 1  # pixels between bars


def rows_examined(examination: Examination) -> str:
    """Which rows were examined, as a sentence."""
    n, examined = examination.n_rows, examination.n_examined
    if n == examined:
        return f"The {count(n, 'row')} that were not sealed were examined before anything was learnt from them."
    return (
        f"Of the {count(n, 'row')} that were not sealed, {examined:,} different ones were examined before anything was "
        "learnt from them."
    )


def small_histogram(histogram: Histogram) -> Markup:
    """The histogram as an <svg> element, which takes its colours from the page: one for each class, stacked."""
    tops = np.cumsum(histogram.counts, axis=0)
    scale = HEIGHT / max(1, int(tops[-1].max()))
    step = WIDTH / histogram.counts.shape[1]
    paths = []
    for group, (counts, top) in enumerate(zip(histogram.counts, tops, strict=True)):
        bars = "".join(
            f"M{j * step:.1f} {HEIGHT - scale * (end - number):.1f}v{-max(0.5, scale * number):.1f}"
            f"h{max(1.0, step - GAP):.1f}v{max(0.5, scale * number):.1f}z"
            for j, (number, end) in enumerate(zip(counts, top, strict=True))
            if number
        )
        paths.append(Markup('<path class="class-{}" d="{}"/>').format(group, bars))
    return Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        f"Histogram of {histogram.name}: {caption(histogram)}", WIDTH, HEIGHT, Markup("").join(paths)
    )


def caption(histogram: Histogram) -> str:
    """The range of numbers, or the number of texts and the most frequent one."""
    missing = f"; {histogram.n_missing:,} missing" if histogram.n_missing else ""
    if histogram.low is not None and histogram.high is not None:
        shown = _day if histogram.kind == "dates" else quantity
        ends = f"{shown(histogram.low)} to {shown(histogram.high)}"
        return f"texts of {ends} words{missing}" if histogram.kind == "text" else f"{ends}{missing}"
    if not histogram.levels:
        return f"no value{missing}"
    if histogram.n_levels == 1:
        return f"“{histogram.levels[0]}” only{missing}"
    return f"{histogram.n_levels:,} values, mostly “{histogram.levels[0]}”{missing}"


def _day(days: float) -> str:
    """A date, from days since 1970."""
    return str(date(1970, 1, 1) + timedelta(days=int(days // 1)))
