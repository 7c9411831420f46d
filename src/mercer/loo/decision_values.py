"""Decision values without a row, of each machine for two classes or of one that estimates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray, TextArray
from mercer.gram import Gram
from mercer.loo.monitor import Ended
from mercer.loo.path_following import NO_SUPPORT, REFITTED, UNWANTED, Followed, Full, follow
from mercer.problems import Problem

Chooser = Callable[[Full], IndexArray]
"""Which rows' values are wanted of a machine, given its solution with all rows."""

_LOOSE = 1e-6
"""Violation, in units of the largest decision value, beyond which values are not called exact."""


def left_out(
    problems: Sequence[Problem],
    starts: Sequence[FloatArray],
    parts: Sequence[IndexArray],
    whole: Gram,
    rows: IndexArray,
    *,
    name: str = "leave_one_out",
    wanted: Chooser | None = None,
    check: Callable[[], None] = lambda: None,
    tell: Callable[[float], None] = lambda share: None,
) -> tuple[FloatArray, TextArray, list[Followed]]:
    """Return the decision value of every row by every machine trained without it.

    Parameters
    ----------
    problems : sequence of Problem
    starts : sequence of ndarray
        Their solutions.
    parts : sequence of ndarray of int64
        Rows of each problem, as numbers of places in `rows`.
    whole : Gram
        Of all rows.
    rows : ndarray of int64
        The training rows.
    name : str
        What is said to have failed where rounding does.
    wanted : Chooser, optional
        Asked once for each problem; by default all are wanted. Others are NaN where they are support vectors.
    check, tell : callable, optional
        See :func:`mercer.loo.path_following.follow`.

    Returns
    -------
    raw : ndarray of shape (n, n_machines)
        Of rows that a machine was not trained on, its decision values. NaN where none was wanted, or not found in time.
    rule : ndarray of str of shape (n, n_machines)
    found : list of Followed
        Fewer than there are problems where the pass was ended.

    Warns
    -----
    ConvergenceWarning
        If rounding leaves a larger violation than the claim allows.
    """
    gram = whole if rows.size == whole.n else whole.restrict(rows)
    raw = np.full((whole.n, len(parts)), np.nan)
    rule = np.full(raw.shape, "unknown", dtype="<U25")
    found: list[Followed] = []

    fulls: list[Full] = []
    try:
        for column, part in enumerate(parts):  # one after the other, while they share kernel values
            check()
            view = gram if part.size == gram.n else gram.restrict(part)
            full = Full.of(problems[column], view, starts[column], check)
            others = np.setdiff1d(np.arange(whole.n), rows[part])
            if others.size:
                coefficients = np.zeros(whole.n)
                coefficients[rows[part]] = problems[column].coefficients(full.beta)
                raw[others, column] = whole.matvec(coefficients, others) - full.level
                rule[others, column] = "not trained on"
            fulls.append(full)
        for column, (part, full) in enumerate(zip(parts, fulls, strict=True)):
            one = follow(full, wanted and wanted(full), check, _share_of(tell, column, len(parts)))
            raw[rows[part], column], rule[rows[part], column] = one.values, _names(one.pivots)
            found.append(one)
            if one.is_ended:
                break
            tell((column + 1) / len(parts))
    except Ended:
        pass
    largest = max((float(np.abs(one.full.values).max(initial=0.0)) for one in found), default=0.0)
    warn_of_rounding(name, max((one.violation for one in found), default=0.0), raw, largest)
    return raw, rule, found


def warn_of_rounding(name: str, violation: float, raw: FloatArray, largest: float = 0.0) -> None:
    """Warn where decision values are not as exact as is claimed; rules may have left none, `largest` is one too."""
    scale = max(1e-300, largest, float(np.nanmax(np.abs(raw), initial=0.0)))
    if not violation <= _LOOSE * scale:
        warnings.warn(
            f"{name}: rounding leaves a violation of {violation:.2g} of the optimality conditions, at decision "
            f"values up to {scale:.2g}: values are not exact to 1e-6. Scale the columns, or use a smaller C.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _share_of(tell: Callable[[float], None], column: int, n_machines: int) -> Callable[[float], None]:
    return lambda share: tell((column + share) / n_machines)


def _names(pivots: IndexArray) -> TextArray:
    names = ["unknown", "refitted", "not a support vector", "nothing changes"]
    return np.select([pivots == kind for kind in (UNWANTED, REFITTED, NO_SUPPORT, 0)], names, "followed")
