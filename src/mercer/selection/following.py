"""Decision values without a row: the known solution is followed to the one that the other rows have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.backends.threads import blas_threads
from mercer.evaluation import evaluate
from mercer.gram import Gram
from mercer.problems import Problem
from mercer.selection.passes import Passes
from mercer.selection.tableau import Tableau
from mercer.selection.watch import Ended
from mercer.selection.without import (
    TIGHT,
    inside_box,
    is_forced,
    level,
    level_ends,
    refit,
    rows_of,
    solved_tightly,
    total_shares,
)

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

UNWANTED, REFITTED, NO_SUPPORT = -3, -2, -1
"""What `Followed.pivots` says of rows that were not followed."""

Chooser = Callable[[FloatArray, FloatArray], IndexArray]
"""Which rows' values are wanted, given beta and the gradient of the solution with all rows."""


@dataclass(frozen=True, eq=False)
class Followed:
    """Solutions without each row of a problem.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
    bias : float
        The solution with all rows; its gradient, less the level of the group.
    values : ndarray of shape (n_rows,)
        Decision value of each row by the machine trained without it; NaN where it was not wanted, or not found in time.
    pivots : ndarray of int64 of shape (n_rows,)
        Variables that changed places on the way; or NO_SUPPORT, REFITTED, or UNWANTED, which is also said of rows that
        were not found in time.
    violation : float
        Largest by which the optimality conditions of a problem without a row are violated.
    n_kernel_values : int
    seconds : float
    """

    beta: FloatArray
    gradient: FloatArray
    bias: float
    values: FloatArray
    pivots: IndexArray
    violation: float
    n_kernel_values: int
    seconds: float
    is_ended: bool = False


def follow(
    problem: Problem,
    gram: Gram,
    start: FloatArray,
    wanted: IndexArray | Chooser | None = None,
    check: Callable[[], None] | None = None,
    tell: Callable[[float], None] | None = None,
) -> Followed:
    """Return the decision value of each row by the machine that the other rows train.

    Parameters
    ----------
    problem : Problem
        One group or none.
    gram : Gram
        Of the same rows (not variables, where rows have two).
    start : ndarray of shape (n,)
        A solution, as good as it may be: it is solved to float64's precision first.
    wanted : ndarray of int64 or Chooser, optional
        Rows whose values are wanted; all by default. Others have NaN where they are support vectors.
    check : callable, optional
        Called between pieces of work; what it raises ends it. After :class:`Ended`, what has been found is returned.
    tell : callable, optional
        Told which share of the work is done.
    """
    began, before = time.perf_counter(), gram.n_values
    with blas_threads(problem.n**3 / 3):
        work = _Work(problem, gram, start, check or (lambda: None), tell or (lambda share: None))
        rows = wanted(work.tableau.beta, work.gradient) if callable(wanted) else wanted
        values, pivots, violation = work.run(np.arange(problem.n_rows) if rows is None else rows)
    seconds, n_values = time.perf_counter() - began, gram.n_values - before
    found = work.tableau.beta, work.gradient, -work.level, values, pivots
    return Followed(*found, violation, n_values, seconds, work.is_ended)


class _Work:
    """The full solution, and what is left to do."""

    def __init__(
        self,
        problem: Problem,
        gram: Gram,
        start: FloatArray,
        check: Callable[[], None],
        tell: Callable[[float], None],
    ) -> None:
        self.problem, self.gram, self.check, self.tell, self.is_ended = problem, gram, check, tell, False
        self.own_gram = gram if problem.rows is None else gram.restrict(problem.rows)
        rough = float(np.abs(problem.linear).max(initial=0.0)) or gram.largest_diagonal
        self.scale = rough
        beta = solved_tightly(problem, gram, start, TIGHT * rough)
        self.evaluation = evaluate(problem, self.own_gram, beta)
        self.level = level(problem, beta, self.evaluation.gradient)
        self.gradient = self.evaluation.gradient - self.level
        self.tableau = Tableau.of(problem, self.own_gram, beta, self.gradient)

    def run(self, wanted: IndexArray) -> tuple[FloatArray, IndexArray, float]:
        problem, tableau = self.problem, self.tableau
        rows, beta = rows_of(problem), tableau.beta
        is_loose = problem.groups is not None and not inside_box(problem, beta).any()
        gradient = self.gradient if is_loose else tableau.gradient
        values = np.empty(problem.n_rows)
        values[rows] = gradient - problem.linear
        if is_loose:
            self.move_levels(values, gradient)
        pivots = np.full(problem.n_rows, NO_SUPPORT, dtype=np.int64)
        shares = total_shares(problem)
        inside = inside_box(problem, beta)
        alone = inside & (inside.sum() == 1)  # the level hangs on it, even where it is 0
        support = np.flatnonzero((beta != 0.0) | (shares != 0.0) | alone)
        values[rows[support]], pivots[rows[support]] = np.nan, UNWANTED
        support = support[np.isin(rows[support], wanted)]
        worst = self.evaluation.violation
        found: dict[int, tuple[float, int, float]] = {}
        try:
            passes = Passes(problem, self.gram, tableau, shares, TIGHT * self.scale, found, self.check, self.tell)
            passes.run(support[~is_forced(problem, support)])
            self.refit([variable for variable in support.tolist() if variable not in found], found)
        except Ended:
            self.is_ended = True
        for variable, (gradient_there, n_pivots, violation) in found.items():
            values[rows[variable]] = gradient_there - problem.linear[variable]
            pivots[rows[variable]] = n_pivots
            worst = max(worst, violation)
        return values, pivots, worst

    def refit(self, variables: list[int], found: dict[int, tuple[float, int, float]]) -> None:
        """Train anew without each of these."""
        problem, rows = self.problem, rows_of(self.problem)
        for variable in variables:
            self.check()
            value, violation = refit(problem, self.gram, self.tableau.beta, int(rows[variable]), TIGHT * self.scale)
            found[variable] = value + float(problem.linear[variable]), REFITTED, violation

    def move_levels(self, values: FloatArray, gradient: FloatArray) -> None:
        """Where an interval of levels is left, put right the values of rows that are an end of it by themselves."""
        problem, beta = self.problem, self.tableau.beta
        rows = rows_of(problem)
        grow, shrink = level_ends(problem, beta, gradient)
        for row in np.unique(rows[(grow == grow.min()) | (shrink == shrink.max())]):
            values[row] -= level(problem, beta, gradient, rows != row)
