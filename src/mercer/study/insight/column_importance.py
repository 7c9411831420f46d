"""Which columns a machine goes by: how much worse its predictions get if the cells of a column are shuffled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.model_selection import Interval, mean_interval
from mercer.persistence import Model
from mercer.study.insight.kernel_parts import KernelParts
from mercer.study.time_budget import Deadline
from mercer.tables import Table

FloatArray = npt.NDArray[np.float64]

REPEATS = 5
"""Shuffles of a column, over which the increase of the cost is averaged."""

BUDGET = 5e8
"""Kernel values that may be computed for all columns together: a few seconds."""

MIN_ROWS = 100
"""Rows that are judged at least, if there are so many."""

OTHER = "sparse features"
"""Name of the columns of a sparse block, which are shuffled together."""


@dataclass(frozen=True)
class Importance:
    """By how much the mean cost of a prediction rises if a column is shuffled, with its interval."""

    column: str
    increase: Interval

    @property
    def matters(self) -> bool:
        """Whether the increase is more than chance explains."""
        return self.increase.low > 0.0


def column_importance(
    model: Model,
    part: Table,
    costs: Callable[[FloatArray, npt.NDArray[np.int64]], FloatArray],
    groups: npt.NDArray[Any] | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
) -> tuple[Importance, ...]:
    """Return the importance of each column, the largest first.

    Parameters
    ----------
    model : Model
    part : Table
        Rows that the machine was not trained on.
    costs : callable
        Takes decision values, and the positions in `part` of their rows; returns the cost of each prediction.
    groups : ndarray of shape (n,), optional
        Groups of dependent rows, for the intervals.
    seed : int
    max_seconds : float, optional
        No further column is begun after that; the others are left out.

    Notes
    -----
    A column that another one can stand in for looks unimportant, and shuffling makes combinations of cells that do not
    occur. If kernel values would be too many, fewer rows and shuffles are used.

    References
    ----------
    Breiman (2001), Random forests, Machine Learning 45, section 10; Fisher, Rudin & Dominici (2019), All models are
    wrong, but many are useful, JMLR 20.
    """
    columns, deadline = encoded_columns(model), Deadline(max_seconds)
    rng = np.random.default_rng(seed)
    cost_of_row = max(1, model.support_vectors.n) * len(columns) * (1 + len(model.parts) / 20)
    repeats = int(np.clip(BUDGET / (cost_of_row * part.n_rows), 1, REPEATS))
    n = int(min(part.n_rows, max(MIN_ROWS, BUDGET / (cost_of_row * repeats))))
    rows = np.sort(rng.permutation(part.n_rows)[:n])
    parts = KernelParts(model, model.encoder.transform(part.take(rows)))
    before = costs(parts.values(), rows)
    found = []
    for name, place in columns.items():
        if deadline.has_come:
            break
        orders = np.array([rng.permutation(n) for _ in range(repeats)])
        after = np.mean([costs(values, rows) for values in parts.values_shuffled(place, orders)], axis=0)
        found.append(Importance(name, mean_interval(after - before, None if groups is None else groups[rows])))
    return tuple(sorted(found, key=lambda one: -one.increase.value))


def encoded_columns(model: Model) -> dict[str, slice]:
    """Return where each column of the table is among the encoded ones; a sparse block is one column."""
    found, end = {}, 0
    for rule in model.encoder.rules_:
        begin, end = end, end + rule.n_features
        found[rule.name] = slice(begin, end)
    if model.encoder.sparse_ is not None:
        found[OTHER] = slice(end, model.encoder.n_features_)
    return found
