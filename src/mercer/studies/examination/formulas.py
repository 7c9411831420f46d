"""A target that is computed from columns: a sum, a difference or another linear formula, or a product."""

from __future__ import annotations

import numpy as np

from mercer.data import listing
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.examination.rows import Sample
from mercer.studies.tables import Labels, Truth

EXACT = 1e-4
"""Largest unexplained share of the target's variance; what remains is rounding of the cells."""

ROWS_A_COLUMN = 5
"""Fewest rows for each column; with fewer, noise fits too well."""

MAX_COLUMNS = 200
"""Most columns of numbers among which a formula is looked for."""

MAX_TERMS = 5
"""Columns of a formula that are written out."""

MISSING, COMPLETE = 0.3, 0.5
"""Largest share of missing cells of a column in a formula, and smallest share of rows without any."""

NEGLIGIBLE = 0.01
"""A term counts if its standard deviation is at least this share of the target's."""


def formulas(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about a target of numbers that is a linear formula, or a product, of used columns.

    Classes whose names are numbers, such as the points of a test, may be a sum, too.
    """
    target = _numbers(sample, truth)
    if target is None:
        return []
    numbers = [one for one in sample.used if one.numbers is not None and one.n_levels > 1]
    complete_columns = [one for one in numbers if not one.missing.any()]
    formula = _formula(complete_columns, target, slice(None))
    if formula is None and len(complete_columns) < len(numbers):
        numbers = [one for one in numbers if one.missing.mean() <= MISSING]
        complete = ~np.any([one.missing for one in numbers], axis=0) if numbers else np.zeros(0, dtype=bool)
        formula = _formula(numbers, target, complete) if complete.mean() >= COMPLETE else None
    if formula is None and (target > 0.0).all():
        positive = [one for one in complete_columns if (one.present > 0.0).all()]
        formula = _formula(positive, target, slice(None), of_logarithms=True)
    return [] if formula is None else [formula]


def _formula(
    columns: list[Column], target: np.ndarray, rows: slice | np.ndarray, *, of_logarithms: bool = False
) -> Finding | None:
    """Return the finding that the target of some rows is a sum of columns, or a product; None if it is not."""
    y = target[rows]
    if not 2 <= len(columns) <= min(MAX_COLUMNS, len(y) // ROWS_A_COLUMN):
        return None
    form = np.log if of_logarithms else np.asarray
    cells = [form(column.numbers[rows]) for column in columns]  # type: ignore[index]
    varying = [j for j, one in enumerate(cells) if np.ptp(one) > 0.0]
    columns, cells, y = [columns[j] for j in varying], [cells[j] for j in varying], form(y)
    if len(columns) < 2:
        return None
    X, spreads = _standardised(cells)
    y = y - y.mean()
    size = float(np.linalg.norm(y)) / np.sqrt(len(y))
    if size == 0.0:
        return None
    weights = np.linalg.lstsq(X.T @ X, X.T @ (y / size), rcond=1e-10)[0]
    unexplained = float(np.mean((y / size - X @ weights) ** 2))
    terms = [j for j in np.argsort(-np.abs(weights)) if abs(weights[j]) >= NEGLIGIBLE]
    if unexplained > EXACT or len(terms) < 2:
        return None
    names = tuple(columns[j].name for j in terms)
    slopes = [(weights[j] * size / spreads[j], columns[j].name) for j in terms[:MAX_TERMS]]
    if of_logarithms:
        what, written = "up to a factor", " · ".join(f"{name!r}^{slope:.4g}" for slope, name in slopes)
    else:
        what, written = "up to a constant", " ".join(f"{slope:+.4g}·{name!r}" for slope, name in slopes)
    return Finding(
        Kind.FORMULA,
        Weight.DOUBT,
        names,
        f"The target is computed from {len(names)} columns: {what} it is {written}"
        f"{' ...' if len(names) > MAX_TERMS else ''}, to {100 * (1 - unexplained):.3f}% of its variance"
        f"{' on a logarithmic scale' if of_logarithms else ''}.",
        "If one of them is not known when a prediction is made, a test score with it is worthless: leave out "
        f"{listing(names)} with --drop as far as they are not.",
        {"unexplained": unexplained, "columns": len(names)},
    )


def _numbers(sample: Sample, truth: Truth) -> np.ndarray | None:
    """Return the target as numbers; None for two classes, and for classes whose names are no numbers."""
    if not isinstance(truth, Labels):
        return sample.target
    if len(truth.names) < 3:
        return None
    try:
        return np.array([float(name) for name in truth.names])[sample.target]
    except ValueError:
        return None


def _standardised(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns with mean 0 and standard deviation 1, and their standard deviations."""
    X = np.column_stack(columns)
    sizes = np.abs(X).max(axis=0)  # squares of the quotients neither overflow nor underflow
    X = X / sizes - (X / sizes).mean(axis=0)
    spreads = np.maximum(np.linalg.norm(X, axis=0) / np.sqrt(len(X)), np.finfo(float).eps)
    return X / spreads, spreads * sizes
