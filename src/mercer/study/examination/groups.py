"""Rows that belong together: nearly equal rows, such as several measurements of one patient.

If they are on both sides of a split, a machine is tested on rows that it nearly knows, and its score is too good.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from mercer.study.examination.columns import Column
from mercer.study.examination.finding import Finding, Kind, Weight, option
from mercer.study.examination.rows import Sample
from mercer.tables import Labels, Truth

MIN_ROWS = 40
"""Fewest rows in which groups are looked for."""

QUERIES = 300
"""Rows whose neighbours are looked at."""

MAX_EQUAL = 0.05
"""Largest share of equal pairs of cells in a column by which distances between rows are measured."""

MAX_NEIGHBOURS = 50
"""Largest group that is looked for, in rows."""

GAP = 2.5
"""Ratio of the distances to the next rows outside and inside a group.

If p columns are independent, the distance to neighbour k + 1 is GAP times that to neighbour k with probability
GAP ** (-p k).
"""

MIN_SHARE = 0.2
"""Share of rows with such a gap, beyond what independent columns have; ordinary tables have no more than these."""

ALIKE = 0.9
"""Smallest agreement of groups with the values of a column, or with classes, at which they are the same."""

_MEMBER = re.compile(
    r"(patient|subject|participant|person|user|customer|client|household|family|donor|animal|speaker|student|player|"
    r"session|device)[ _.-]?(id|key|nr|no|num|number|name|code|#)?",
    re.IGNORECASE,
)


def groups(sample: Sample, truth: Truth | None) -> list[Finding]:
    """Return what there is to say about rows that belong together."""
    return _near_copies(sample, truth) or _named_so(sample)


def _near_copies(sample: Sample, truth: Truth | None) -> list[Finding]:
    measured = [column for column in sample.used if column.numbers is not None and _tells_rows_apart(column)]
    most = min(MAX_NEIGHBOURS, sample.n_rows // 10)
    if not measured or sample.n_rows < MIN_ROWS:
        return []
    X = np.column_stack([_standardised(column) for column in measured])
    queries = np.random.default_rng(0).permutation(sample.n_rows)[:QUERIES]
    neighbours, distances = _nearest(X, queries, most + 1)
    positive = distances[distances > 0.0]
    if not len(positive):
        return []
    ratios = distances[:, 1:] / np.maximum(distances[:, :-1], positive.min())
    if len(measured) == 1:
        ratios[distances[:, :-1] == 0.0] = 1.0  # one number is often the same in several rows
    wide = ratios.max(axis=1) >= GAP
    share = float(wide.mean())
    if share < MIN_SHARE + 1.0 / (GAP ** len(measured) - 1.0):
        return []
    inside = ratios.argmax(axis=1)[wide] + 1
    size = float(np.median(inside)) + 1
    rows, neighbours = queries[wide], neighbours[wide]
    if isinstance(truth, Labels) and _agreement(sample.target, rows, neighbours, inside) > ALIKE:
        return []  # the groups are the classes, each of which is far from the others
    name = _group_column(sample, rows, neighbours, inside, size)
    by = f"They go with the values of {name!r}. " if name else ""
    remedy = (
        f"Keep them on one side of every split with {option('--groups', name)}."
        if name
        else "Add a column that names the group of each row, and say --groups with its name."
    )
    return [
        Finding(
            Kind.GROUPS,
            Weight.DOUBT,
            (name,) if name else (),
            f"{'Nearly all' if share > 0.95 else f'{100 * share:.0f}% of'} rows come in groups of about {size:.0f} "
            "that are nearly equal, such as several rows of one patient. "
            f"{by}If a group is on both sides of a split, the test score is too good.",
            remedy,
            {"share": share, "size": size, "groups": sample.n_rows / size},
        )
    ]


def _tells_rows_apart(column: Column) -> bool:
    """Return whether hardly two cells are equal, missing ones included."""
    n = len(column.codes)
    counts = np.bincount(column.codes + 1)
    return column.n_levels > n / 10 and float(counts @ counts) <= MAX_EQUAL * n * n


def _standardised(column: Column) -> npt.NDArray[np.float64]:
    assert column.numbers is not None
    known = ~column.missing
    size = float(np.abs(column.known).max()) or 1.0
    scaled = np.zeros(len(known))
    scaled[known] = column.known / size
    scaled[known] -= scaled[known].mean()
    spread = float(scaled[known].std())
    return scaled / spread if spread > 0.0 else scaled


def _nearest(
    X: npt.NDArray[np.float64], queries: npt.NDArray[np.int64], n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the n nearest other rows of each query, and their distances in ascending order."""
    squares = np.einsum("ij,ij->i", X, X)
    squared = squares[queries, None] + squares - 2.0 * (X[queries] @ X.T)
    squared[np.arange(len(queries)), queries] = np.inf
    nearest = np.argpartition(squared, n - 1, axis=1)[:, :n]
    # The differences are formed again, because the sum above loses small distances to rounding.
    distances = np.linalg.norm(X[nearest] - X[queries][:, None, :], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _group_column(
    sample: Sample,
    rows: npt.NDArray[np.int64],
    neighbours: npt.NDArray[np.int64],
    inside: npt.NDArray[np.int64],
    size: float,
) -> str:
    """Return the column whose levels are the groups; "" if there is none."""
    found = {
        column.name: _agreement(column.codes, rows, neighbours, inside)
        for column in sample.columns
        if sample.n_rows / (3 * size) <= column.n_levels <= sample.n_rows / 2
    }
    best = max(found, key=found.__getitem__, default="")
    return best if found.get(best, 0.0) > ALIKE else ""


def _agreement(
    codes: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    neighbours: npt.NDArray[np.int64],
    inside: npt.NDArray[np.int64],
) -> float:
    """Return how well codes name the groups: the share of neighbours inside with the same code, minus that outside."""
    member = np.arange(neighbours.shape[1]) < inside[:, None]
    same = codes[neighbours] == codes[rows][:, None]
    return float(same[member].mean()) - float(same[~member].mean())


def _named_so(sample: Sample) -> list[Finding]:
    names = [
        column.name
        for column in sample.columns
        if _MEMBER.fullmatch(column.name.strip()) and 5 <= column.n_levels <= sample.n_rows / 2
    ]
    if not names:
        return []
    return [
        Finding(
            Kind.GROUPS,
            Weight.REMARK,
            (names[0],),
            f"Several rows have the same {names[0]!r}. If new rows will have other values of it, the test score must "
            "be one for new values, too.",
            f"Keep rows with the same value on one side of every split with {option('--groups', names[0])}.",
            {"levels": next(column.n_levels for column in sample.columns if column.name == names[0])},
        )
    ]
