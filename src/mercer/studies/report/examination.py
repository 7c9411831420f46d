"""What a page shows of the examination of the table: which rows were examined, and small histograms."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from mercer.studies.examination import Examination, Histogram
from mercer.studies.report.numbers import count
from mercer.studies.report.overview import caption as caption

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
