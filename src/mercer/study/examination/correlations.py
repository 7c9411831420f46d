"""Pairs of columns that hold nearly the same information."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from mercer.study.examination.columns import Column
from mercer.study.examination.finding import Finding, Kind, Weight

CORRELATED = 0.95
"""Smallest absolute rank correlation at which two columns hold nearly the same information."""

MAX_COLUMNS = 3_000
"""Largest number of numeric columns that are compared; with more, the correlation matrix takes too long."""

MAX_NAMED = 4  # pairs


def correlations(columns: list[Column]) -> list[Finding]:
    """Return a finding about redundant pairs of columns: numbers are compared by rank correlation, texts by levels."""
    columns = [column for column in columns if column.n_levels > 1]
    pairs = _numbers([one for one in columns if one.numbers is not None])
    pairs += _texts([one for one in columns if one.numbers is None])
    if not pairs:
        return []
    pairs.sort(key=lambda pair: -abs(pair[2]))
    shown = ", ".join(f"{a!r} and {b!r} ({value:z.2f})" for a, b, value in pairs[:MAX_NAMED])
    more = f", and {len(pairs) - MAX_NAMED} more pairs" if len(pairs) > MAX_NAMED else ""
    names = tuple(dict.fromkeys(name for a, b, _ in pairs for name in (a, b)))
    return [
        Finding(
            Kind.CORRELATED,
            Weight.REMARK,
            names,
            f"{'Two columns say' if len(pairs) == 1 else f'{len(pairs)} pairs of columns say'} nearly the same, by "
            f"their rank correlation: {shown}{more}.",
            "This harms no prediction, but which of the two matters cannot be told; one of them is enough.",
            {"pairs": len(pairs), "largest": pairs[0][2]},
        )
    ]


def _numbers(columns: list[Column]) -> list[tuple[str, str, float]]:
    if not 2 <= len(columns) <= MAX_COLUMNS:
        return []
    ranks = np.column_stack([_standardised_ranks(column) for column in columns])
    matrix = np.triu(ranks.T @ ranks, 1)
    return [
        (columns[i].name, columns[j].name, float(matrix[i, j])) for i, j in np.argwhere(np.abs(matrix) >= CORRELATED)
    ]


def _standardised_ranks(column: Column) -> npt.NDArray[np.float64]:
    """Return ranks with mean 0 and length 1; a missing cell has the mean rank."""
    known = ~column.missing
    ranks = np.zeros(len(known))
    ranks[known] = rankdata(column.codes[known])
    ranks[known] -= ranks[known].mean()
    return ranks / np.sqrt((ranks * ranks).sum())


def _texts(columns: list[Column]) -> list[tuple[str, str, float]]:
    """Return the pairs of text columns whose levels correspond one to one: each occurs with one other level only."""
    found = []
    for i, one in enumerate(columns):
        for other in columns[i + 1 :]:
            if one.n_levels == other.n_levels <= len(one.codes) // 2:
                pairs = np.unique((one.codes + 1) * (other.n_levels + 1) + other.codes + 1)
                if len(pairs) == len(np.unique(one.codes)) == len(np.unique(other.codes)):
                    found.append((one.name, other.name, 1.0))
    return found
