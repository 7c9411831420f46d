"""Which columns a machine goes by: how much worse its predictions get if the cells of a column are shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import Table
from mercer.model_selection import Interval, mean_interval
from mercer.studies.insight.kernel_parts import parts_of, shuffles_cells
from mercer.studies.models import Model, RowReader
from mercer.studies.time_budget import Deadline

FloatArray = npt.NDArray[np.float64]

_MAX_SECONDS = 60.0  # seconds; tables of tens of thousands of columns would take many minutes

REPEATS = 5
"""Shuffles of a column, over which the increase of the cost is averaged."""

BUDGET = 5e8
"""Kernel values that may be computed for all columns together: a few seconds."""

MIN_ROWS = 100
"""Rows that are judged at least, if there are so many."""

OTHER = "sparse features"
"""Name of the columns of a sparse block, which are shuffled together."""


SMALL = 0.02
"""Largest upper end of an interval at which a rise of the cost is shown to be small."""


@dataclass(frozen=True)
class Importance:
    """By how much the mean cost of a prediction rises if a column is shuffled, with its interval.

    Columns that say the same stand in for each other. They are shuffled together.
    """

    columns: tuple[str, ...]
    increase: Interval

    @property
    def column(self) -> str:
        """The name of the column, or of the columns that were shuffled together."""
        return " + ".join(self.columns)

    @property
    def matters(self) -> bool:
        """Whether it is shown that predictions get worse: the rise is more than chance explains."""
        return self.increase.low > 0.0

    @property
    def is_small(self) -> bool:
        """Whether it is shown that predictions get little worse, if at all."""
        return not self.matters and self.increase.high <= SMALL


def column_importance(
    model: Model,
    part: Table,
    costs: Callable[[FloatArray, npt.NDArray[np.int64]], FloatArray],
    groups: npt.NDArray[Any] | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
    *,
    together: Iterable[tuple[str, ...]] = (),
    largest_cost: float | None = None,
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
        No further column is begun after that, or after a minute without a limit; the others are left out.
    together : iterable of tuple of str
        Sets of columns that say the same, which are shuffled together.
    largest_cost : float, optional
        The largest cost of a prediction, if there is one.

    Notes
    -----
    A column that others together can stand in for looks unimportant, and shuffling makes combinations of cells that do
    not occur. If kernel values would be too many, fewer rows and shuffles are used.

    If few predictions change, Student's t interval is too narrow. With a largest cost, its upper end is at least the
    one for a change that was not seen in any row, or group of rows (Clopper & Pearson).

    References
    ----------
    Breiman (2001), Random forests, Machine Learning 45, section 10; Fisher, Rudin & Dominici (2019), All models are
    wrong, but many are useful, JMLR 20.
    """
    columns, deadline = (
        _sets_of_columns(model, together),
        Deadline(_MAX_SECONDS if max_seconds is None else max_seconds),
    )
    rng = np.random.default_rng(seed)
    cost_of_row = max(1, model.support_vectors.n) * len(columns) * (1 + len(model.parts) / 20)
    n_repeats = int(np.clip(BUDGET / (cost_of_row * part.n_rows), 1, REPEATS))
    n = int(min(part.n_rows, max(MIN_ROWS, BUDGET / (cost_of_row * n_repeats))))
    rows = np.sort(rng.permutation(part.n_rows)[:n])
    parts = parts_of(model, part.take(rows))
    values_of_all, units = parts.values(), None if groups is None else groups[rows]
    before, importance = costs(values_of_all, rows), []
    unseen = 0.0  # upper end for a change that no row has shown
    if largest_cost is not None:
        unseen = largest_cost * (1.0 - 0.025 ** (1.0 / (n if units is None else len(np.unique(units)))))
    for names, place in columns.items():
        if deadline.has_come:
            break
        orders = np.array([rng.permutation(n) for _ in range(n_repeats)])
        shuffled = parts.values_shuffled(place, orders)
        rise = np.mean([costs(values, rows) for values in shuffled], axis=0) - before
        increase = mean_interval(rise, units)
        if all(np.array_equal(values, values_of_all) for values in shuffled):  # the machine does not use the column
            increase = Interval(0.0, 0.0, 0.0)
        elif increase.low <= 0.0:
            increase = replace(increase, high=max(increase.high, unseen))
        importance.append(Importance(names, increase))
    return tuple(sorted(importance, key=lambda one: -one.increase.value))


def _sets_of_columns(model: Model, together: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """Return what is shuffled for each column, or set of columns that say the same: encoded columns, or names."""
    if shuffles_cells(model):
        names_of = {name: names for names in together for name in names}
        read = model.encoder.column_names
        sets = [tuple(one for one in names_of.get(name, (name,)) if one in read) for name in read]
        return {names: names for names in sets}
    places = {name: np.arange(place.start, place.stop) for name, place in encoded_columns(model).items()}
    set_of = {name: names for names in together for name in names}
    places_of: dict[tuple[str, ...], list[npt.NDArray[np.int64]]] = {}
    for name, place in places.items():
        names = tuple(one for one in set_of.get(name, (name,)) if one in places)
        places_of.setdefault(names, []).append(place)
    return {names: np.concatenate(parts) for names, parts in places_of.items()}


def encoded_columns(model: Model) -> dict[str, slice]:
    """Return where each column of the table is among the encoded ones; a sparse block is one column.

    The columns of a kernel that reads cells are counted.
    """
    if isinstance(model.encoder, RowReader):
        return {name: slice(place, place + 1) for place, name in enumerate(model.encoder.column_names)}
    places_of, end = {}, 0
    for rule in model.encoder.rules_:
        begin, end = end, end + rule.n_features
        places_of[rule.name] = slice(begin, end)
    if model.encoder.sparse_ is not None:
        places_of[OTHER] = slice(end, model.encoder.n_features_)
    return places_of
