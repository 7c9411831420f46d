"""Leave-one-out decision values by path following: from the solution with all rows to the one without a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import evaluate
from mercer.data.checks import distinct
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.gram.threads import blas_threads
from mercer.problems import Problem
from mercer.solvers.paths.loo_extended import HOSTILE, MAX_ROWS, Extended, c_times_kmax
from mercer.solvers.paths.loo_monitor import Ended
from mercer.solvers.paths.loo_passes import FINEST, Passes
from mercer.solvers.paths.reduced_problem import (
    TIGHT,
    inside_box,
    level,
    level_ends,
    refit,
    rows_of,
    solved_tightly,
    total_shares,
)
from mercer.solvers.paths.tableau import Tableau

STALLED, UNWANTED, REFITTED, NO_SUPPORT = -4, -3, -2, -1
"""Codes in `Followed.pivots` for rows whose path was not followed; STALLED: rounding leaves the value unsettled."""

_NOTHING_KNOWN = 1e-2
"""Error, in units of the largest value, above which its bound to first order may be wrong and is called infinite."""

LOOSE = 1e-6
"""Largest violation or error, in units of the largest decision value, at which values are called exact."""


@dataclass(frozen=True, eq=False)
class Full:
    """The solution of a problem with all its rows, to the precision of float64.

    Attributes
    ----------
    problem : Problem
        A problem with at most one group.
    gram : Gram
        Kernel values of the same rows (rows, even if a row has two variables).
    beta : ndarray of shape (n,)
    gradient : ndarray of shape (n,)
        Gradient minus `level`.
    level : float
        Multiplier of the group; 0 without a group.
    violation : float
    scale : float
        A typical decision value.
    peak_memory_bytes : int
        Peak memory of the solver, in bytes.
    """

    problem: Problem
    gram: Gram
    beta: FloatArray
    gradient: FloatArray
    level: float
    violation: float
    scale: float
    peak_memory_bytes: int

    @classmethod
    def of(cls, problem: Problem, gram: Gram, start: FloatArray, check: Callable[[], None] = lambda: None) -> Full:
        """Solve a problem from `start`, a solution of any accuracy.

        Raises
        ------
        Ended
            If the solver was interrupted. `check` is called while the solver runs; its exceptions are passed on.
        """
        scale = float(np.abs(problem.linear).max(initial=0.0)) or gram.largest_diagonal
        with blas_threads(problem.n**3 / 3):
            solution = solved_tightly(problem, gram, start, TIGHT * scale, check)
            beta = solution.beta
            own_gram = gram if problem.rows is None else gram.restrict(problem.rows)
            evaluation = evaluate(problem, own_gram, beta)
            check()
        own_level = level(problem, beta, evaluation.gradient)
        return cls(
            problem,
            gram,
            beta,
            evaluation.gradient - own_level,
            own_level,
            evaluation.violation,
            scale,
            solution.peak_memory_bytes,
        )

    @property
    def values(self) -> FloatArray:
        """Decision value of each row by the machine trained on all rows, (n_rows,)."""
        values = np.empty(self.problem.n_rows)
        values[rows_of(self.problem)] = self.gradient - self.problem.linear
        return values

    @lazy_property
    def is_loose(self) -> bool:
        """Whether the optimality conditions leave the level undetermined within an interval."""
        return self.problem.groups is not None and not inside_box(self.problem, self.beta).any()

    @property
    def changes_of_others(self) -> FloatArray:
        """By how much the decision value of each row that is not a support vector falls when it is removed, (n_rows,).

        It changes only for a row that alone determines an end of the interval of levels.
        """
        falls, rows = np.zeros(self.problem.n_rows), rows_of(self.problem)
        if self.is_loose:
            grow, shrink = level_ends(self.problem, self.beta, self.gradient)
            for row in distinct(rows[(grow == grow.min()) | (shrink == shrink.max())]):
                falls[row] = level(self.problem, self.beta, self.gradient, rows != row)
        return falls


@dataclass(frozen=True, eq=False)
class Followed:
    """Leave-one-out values of the rows of a problem.

    Attributes
    ----------
    full : Full
        The solution with all rows.
    values : ndarray of shape (n_rows,)
        Leave-one-out decision value of each row; NaN where it was not wanted, or not computed in time.
    pivots : ndarray of int64 of shape (n_rows,)
        Number of basis changes on the path; or NO_SUPPORT, REFITTED or UNWANTED. UNWANTED also marks rows that were not
        computed in time.
    violation : float
        Largest violation of the optimality conditions over the problems without a row.
    errors : ndarray of shape (n_rows,)
        Bound of the error of each value, if they were computed in extended precision; else NaN.
    is_ended : bool
        Whether `check` ended the work before all values were found.
    peak_memory_bytes : int
        Peak memory of the solver, or of the tableau's factors and rows, in bytes.
    """

    full: Full
    values: FloatArray
    pivots: IndexArray
    violation: float
    errors: FloatArray
    is_ended: bool
    peak_memory_bytes: int


def follow(
    full: Full,
    wanted: IndexArray | None = None,
    check: Callable[[], None] | None = None,
    tell: Callable[[float], None] | None = None,
) -> Followed:
    """Return the decision value of each row by the machine that is trained on all other rows.

    Parameters
    ----------
    full : Full
    wanted : ndarray of int64, optional
        Rows whose values are wanted; all by default. Other rows that are support vectors get NaN.
    check : callable, optional
        Function that is called between parts of the work; an exception of it ends the work. After :class:`Ended`, the
        values found so far are returned.
    tell : callable, optional
        Function that is called with the share of the work that is done.
    """
    problem = full.problem
    with blas_threads(problem.n**3 / 3):
        work = _Work(full, check or (lambda: None), tell or (lambda share: None))
        values, pivots, violation = work.run(np.arange(problem.n_rows) if wanted is None else wanted)
    return Followed(full, values, pivots, violation, work.errors, work.is_ended, work.peak_memory_bytes)


class _Work:
    """The steps of :func:`follow` and their shared state."""

    def __init__(self, full: Full, check: Callable[[], None], tell: Callable[[float], None]) -> None:
        self.full, self.problem, self.gram = full, full.problem, full.gram
        self.check, self.tell, self.is_ended = check, tell, False
        self.beta, self.gradient = full.beta, full.gradient
        self.peak_memory_bytes = full.peak_memory_bytes
        self.errors = np.full(full.problem.n_rows, np.nan)

    def run(self, wanted: IndexArray) -> tuple[FloatArray, IndexArray, float]:
        problem, full = self.problem, self.full
        is_hostile = c_times_kmax(problem, self.gram, self.beta, full.scale) > HOSTILE
        if is_hostile and problem.n_rows <= MAX_ROWS:
            return self.run_extended(wanted)
        rows, shares = rows_of(problem), total_shares(problem)
        asked = self.support()
        tableau = None
        if np.isin(rows[asked], wanted).any():
            own_gram = self.gram if problem.rows is None else self.gram.restrict(problem.rows)
            try:
                tableau = Tableau.of(problem, own_gram, full.beta, full.gradient, self.check)
            except Ended:
                self.is_ended = True
        if tableau is not None:
            self.beta = tableau.beta
            self.gradient = full.gradient if full.is_loose else tableau.gradient
        values = np.empty(problem.n_rows)
        values[rows] = self.gradient - problem.linear
        values -= full.changes_of_others
        pivots = np.full(problem.n_rows, NO_SUPPORT, dtype=np.int64)
        support = self.support()
        values[rows[support]], pivots[rows[support]] = np.nan, UNWANTED
        support = support[np.isin(rows[support], wanted)]
        worst = full.violation
        if is_hostile:
            worst = max(worst, self.rounding())
        found: dict[int, tuple[float, int, float]] = {}
        if tableau is not None:
            try:
                passes = Passes(problem, self.gram, tableau, shares, TIGHT * full.scale, found, self.check, self.tell)
                try:
                    passes.run(support)
                finally:
                    self.peak_memory_bytes = max(self.peak_memory_bytes, passes.peak_bytes)
                self.refit([variable for variable in support.tolist() if variable not in found], found)
            except Ended:
                self.is_ended = True
        for variable, (gradient_there, n_pivots, violation) in found.items():
            values[rows[variable]] = gradient_there - problem.linear[variable]
            pivots[rows[variable]] = n_pivots
            worst = max(worst, violation)
        return values, pivots, worst

    def run_extended(self, wanted: IndexArray) -> tuple[FloatArray, IndexArray, float]:
        """Return what `run` returns, by solving each problem in extended precision."""
        work = Extended(self.problem, self.gram, self.beta, self.check)
        try:
            work.run(wanted, TIGHT * self.full.scale, self.tell)
        except Ended:
            self.is_ended = True
        pivots = np.where(work.is_support, REFITTED, NO_SUPPORT)
        pivots[np.isnan(work.values)] = UNWANTED
        known = np.abs(work.values[np.isfinite(work.values)])
        scale = max(float(np.abs(self.full.values).max(initial=0.0)), float(known.max(initial=0.0)))
        work.errors[work.errors > _NOTHING_KNOWN * scale] = np.inf
        unsettled = np.isfinite(work.values) & ~(work.errors <= LOOSE * scale)
        pivots[unsettled] = STALLED
        self.errors = np.where(np.isnan(work.values), np.nan, work.errors)
        return work.values, pivots, float(self.errors[np.isfinite(work.values)].max(initial=0.0))

    def rounding(self) -> float:
        """Return the rounding error of a gradient, where bounds are so large that it may matter."""
        beta, finest = np.abs(self.beta), FINEST * float(np.abs(self.beta).max(initial=0.0))
        eps = float(np.finfo(np.float64).eps)
        return self.gram.largest_diagonal * max(finest, eps * float(beta.sum()))

    def support(self) -> IndexArray:
        """Return the variables whose removal changes the solution."""
        inside = inside_box(self.problem, self.beta)
        alone = inside & (inside.sum() == 1)  # it alone determines the level, even if its coefficient is 0
        return np.flatnonzero((self.beta != 0.0) | (total_shares(self.problem) != 0.0) | alone)

    def refit(self, variables: list[int], found: dict[int, tuple[float, int, float]]) -> None:
        """Solve the problem again without each of these variables."""
        problem, rows = self.problem, rows_of(self.problem)
        for variable in variables:
            self.check()
            tol = TIGHT * self.full.scale
            value, violation = refit(problem, self.gram, self.beta, int(rows[variable]), tol, self.check)
            found[variable] = value + float(problem.linear[variable]), REFITTED, violation
