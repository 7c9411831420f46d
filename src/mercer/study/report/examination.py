"""What a page shows of the examination of the table: which rows were examined, and small histograms."""

from __future__ import annotations

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
    """The histogram as an <svg> element, which takes its colour from the page."""
    most = max(1, int(histogram.counts.max()))
    step = WIDTH / len(histogram.counts)
    bars = "".join(
        f"M{j * step:.1f} {HEIGHT}v{-max(1.0, HEIGHT * number / most):.1f}h{max(1.0, step - GAP):.1f}V{HEIGHT}z"
        for j, number in enumerate(histogram.counts)
        if number
    )
    return Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}"><path d="{}"/></svg>').format(
        f"Histogram of {histogram.name}: {caption(histogram)}", WIDTH, HEIGHT, bars
    )


def caption(histogram: Histogram) -> str:
    """The range of numbers, or the number of texts and the most frequent one."""
    missing = f"; {histogram.n_missing:,} missing" if histogram.n_missing else ""
    if histogram.low is not None and histogram.high is not None:
        return f"{quantity(histogram.low)} to {quantity(histogram.high)}{missing}"
    if not histogram.levels:
        return f"no value{missing}"
    if histogram.n_levels == 1:
        return f"“{histogram.levels[0]}” only{missing}"
    return f"{histogram.n_levels:,} values, mostly “{histogram.levels[0]}”{missing}"
