"""How decision values become predictions, in words: the least expected cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mercer.study.report.numbers import percent

MAX_COSTS = 6
"""Wrong predictions whose costs are named."""


def by_costs(names: Sequence[str], costs: npt.NDArray[np.float64]) -> str:
    """How a prediction follows from costs, in a sentence or two."""
    pairs = [(k, j) for k, j in np.ndindex(costs.shape) if k != j]
    usual = Counter(float(costs[k, j]) for k, j in pairs).most_common(1)[0][0] if len(names) > 2 else np.nan
    others = [(k, j) for k, j in pairs if costs[k, j] != usual]
    shown = [f"“{names[k]}” taken for “{names[j]}” costs {costs[k, j]:g}" for k, j in others[:MAX_COSTS]]
    if len(others) > MAX_COSTS:
        shown.append(f"{len(others) - MAX_COSTS} more have other costs")
    if len(others) < len(pairs):
        shown.append(f"any {'other ' if others else ''}wrong prediction costs {usual:g}")
    text = f"The prediction is the class with the least expected cost: {', '.join(shown)}."
    if len(names) > 2:
        return text
    dear = int(costs[1, 0] > costs[0, 1])
    share = costs[1 - dear, dear] / costs.sum()
    return f"{text} So “{names[dear]}” is predicted where its probability is at least {percent(float(share))}."
