"""Rows that are equal in all columns but have different targets: no machine can be right on all of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.tables import Labels, Truth

MIN_SHARE = 0.01
"""Share of errors that no machine can avoid from which it is a caution, not a remark."""


def contradictions(equal: npt.NDArray[np.int64], truth: Truth) -> list[Finding]:
    """Return what there is to say about equal rows with different targets.

    Parameters
    ----------
    equal : ndarray of int64
        The set of equal rows that each row is in whose target is known.
    truth : Labels or Quantities
    """
    if isinstance(truth, Labels):
        return _of_classes(equal, truth.codes, truth.rows)
    return _of_numbers(equal, truth.values, truth.rows)


def _example(
    group: npt.NDArray[np.int64], values: npt.NDArray[np.generic], rows: npt.NDArray[np.int64]
) -> tuple[int, int]:
    """Return two rows of a set with different targets, by their numbers in the table, from 1: of the first such set."""
    order = np.lexsort((rows, values, group))
    differ = (group[order][1:] == group[order][:-1]) & (values[order][1:] != values[order][:-1])
    pairs = np.stack([rows[order[:-1]], rows[order[1:]]], axis=1)[differ] + 1
    first, second = sorted(pairs[pairs.min(axis=1).argmin()].tolist())
    return first, second


def _of_classes(
    group: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> list[Finding]:
    n_classes = int(codes.max()) + 1
    pairs, counts = np.unique(group * n_classes + codes, return_counts=True)
    most = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs // n_classes, counts)
    n, wrong = len(codes), len(codes) - int(most.sum())
    if not wrong:
        return []
    n_rows = int(np.isin(group, np.flatnonzero(np.bincount(pairs // n_classes) > 1)).sum())
    return [
        Finding(
            Kind.CONTRADICTION,
            Weight.CAUTION if wrong >= MIN_SHARE * n else Weight.REMARK,
            (),
            f"{n_rows:,} rows are equal to rows of another class in every column that is used, such as rows "
            f"{_pair(_example(group, codes, rows))}. No machine can be right on more than "
            f"{np.floor(1000 * (1 - wrong / n)) / 10:.1f}% of the {n:,} rows.",
            "Mend wrong classes, or add a column that tells these rows apart.",
            {"rows": n_rows, "share_right": 1 - wrong / n},
        )
    ]


def _of_numbers(
    group: npt.NDArray[np.int64], values: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]
) -> list[Finding]:
    sizes = np.bincount(group)
    lowest, highest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(lowest, group, values)
    np.maximum.at(highest, group, values)
    n_rows = int(sizes[lowest < highest].sum())
    if not n_rows:
        return []
    size = float(np.abs(values).max())
    scaled = values / size
    means = np.bincount(group, scaled) / sizes
    total = float(((scaled - scaled.mean()) ** 2).sum())
    best = 1 - float(((scaled - means[group]) ** 2).sum()) / total
    return [
        Finding(
            Kind.CONTRADICTION,
            Weight.CAUTION if 1 - best >= MIN_SHARE else Weight.REMARK,
            (),
            f"{n_rows:,} rows are equal to rows with another target in every column that is used, such as rows "
            f"{_pair(_example(group, values, rows))}. No machine can have an R² above "
            f"{np.floor(1000 * best) / 1000:.3f} on the {len(values):,} rows.",
            "Mend wrong targets, or add a column that tells these rows apart.",
            {"rows": n_rows, "largest_r2": best},
        )
    ]


def _pair(rows: tuple[int, int]) -> str:
    return f"{rows[0]:,} and {rows[1]:,}"
