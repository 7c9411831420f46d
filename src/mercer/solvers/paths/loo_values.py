"""Leave-one-out decision values of the machines for two classes and of the regression and one-class machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray, TextArray
from mercer.data.user_warnings import warn_user
from mercer.gram import Gram
from mercer.problems import Problem
from mercer.solvers.paths.loo_monitor import Ended
from mercer.solvers.paths.path_following import (
    LOOSE,
    NO_SUPPORT,
    REFITTED,
    STALLED,
    UNWANTED,
    Followed,
    Full,
    follow,
)

Chooser = Callable[[Full], IndexArray]
"""Function that chooses the rows whose values are computed, from a machine's solution with all rows."""


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
    """Return the leave-one-out decision value of every row, for every machine.

    Parameters
    ----------
    problems : sequence of Problem
    starts : sequence of ndarray
        The solution of each problem.
    parts : sequence of ndarray of int64
        Rows of each problem, as positions in `rows`.
    whole : Gram
        Kernel values of all rows.
    rows : ndarray of int64
        The training rows.
    name : str
        Name of the computation in the warning about rounding errors.
    wanted : Chooser, optional
        Chooses the rows of each problem whose values are computed; by default all. Other rows that are support vectors
        get NaN.
    check, tell : callable, optional
        See :func:`mercer.solvers.paths.path_following.follow`.

    Returns
    -------
    raw : ndarray of shape (n, n_machines)
        Leave-one-out decision values; ordinary decision values for rows that the machine was not trained on. NaN where
        a value was not wanted, or not computed in time.
    rule : ndarray of str of shape (n, n_machines)
        How each value was found.
    found : list of Followed
        Result of each problem; shorter than `problems` if the pass was ended early.

    Warns
    -----
    ConvergenceWarning
        If rounding errors leave a violation that is too large for values exact to 1e-6.
    """
    gram = whole if rows.size == whole.n else whole.restrict(rows)
    raw = np.full((whole.n, len(parts)), np.nan)
    rule = np.full(raw.shape, "unknown", dtype="<U25")
    found: list[Followed] = []

    fulls: list[Full] = []
    try:
        for column, part in enumerate(parts):  # machines with the same rows share kernel values
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
    n_stalled = int((rule == "stalled").sum())
    warn_of_rounding(name, max((one.violation for one in found), default=0.0), raw, largest, n_stalled)
    return raw, rule, found


def warn_of_rounding(name: str, violation: float, raw: FloatArray, largest: float = 0.0, n_stalled: int = 0) -> None:
    """Warn if decision values are not exact to 1e-6 of the largest one, in `raw` or given as `largest`."""
    if n_stalled:
        size = f"by up to {violation:.2g}" if np.isfinite(violation) else "by an unknown amount"
        warn_user(
            f"{name}: rounding leaves {n_stalled} of {raw.size} values inexact, {size}, even in extended precision "
            "(rule 'stalled'). Scale the columns, or use a smaller C.",
            ConvergenceWarning,
        )
        return
    scale = max(1e-300, largest, float(np.nanmax(np.abs(raw), initial=0.0)))
    if not violation <= LOOSE * scale:
        warn_user(
            f"{name}: rounding leaves a violation of {violation:.2g} of the optimality conditions, at decision "
            f"values up to {scale:.2g}: values are not exact to 1e-6. Scale the columns, or use a smaller C.",
            ConvergenceWarning,
        )


def _share_of(tell: Callable[[float], None], column: int, n_machines: int) -> Callable[[float], None]:
    return lambda share: tell((column + share) / n_machines)


def _names(pivots: IndexArray) -> TextArray:
    names = ["stalled", "unknown", "refitted", "not a support vector", "nothing changes"]
    return np.select([pivots == kind for kind in (STALLED, UNWANTED, REFITTED, NO_SUPPORT, 0)], names, "followed")
