"""How decision values become predictions, in words: the least expected cost, and other thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mercer.multiclass import Threshold
from mercer.studies.classification import ToClassify
from mercer.studies.report.numbers import percent
from mercer.studies.result import Study
from mercer.studies.thresholds import Thresholds, tuned_thresholds

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
    costly = int(costs[1, 0] > costs[0, 1])
    share = costs[1 - costly, costly] / costs.sum()
    return f"{text} So “{names[costly]}” is predicted where its probability is at least {percent(float(share))}."


def thresholds_of(study: Study) -> Thresholds | None:
    """Thresholds on the decision value of two classes; None for more classes, or without values of held-out rows."""
    goal, test, held_out = study.goal, study.svm.test, study.insight.curve.held_out
    if not isinstance(goal, ToClassify) or goal.n_classes > 2 or held_out is None or test.scores is None:
        return None
    judged = ~np.isnan(held_out[:, 0])
    codes = study.column_choice.truth.values[study.sealed.rest][judged]
    if len(np.unique(codes)) < 2:
        return None
    return tuned_thresholds(goal, held_out[judged, 0], codes, test)


def condition(thresholds: Thresholds, threshold: float) -> str:
    """Where the rarer class is predicted, by the decision value that `mercer predict` writes."""
    if np.isinf(threshold):
        return "everywhere" if threshold < 0.0 else "nowhere"
    return f"{'above' if thresholds.sign > 0 else 'below'} {thresholds.sign * threshold + 0.0:.4g}"


def figures(one: Threshold) -> tuple[str, str, str]:
    """Recall, precision and false positive rate of a threshold."""
    precision = "–" if one.true_positive + one.false_positive == 0.0 else percent(one.precision)
    return percent(one.recall), precision, percent(one.false_positive_rate)
