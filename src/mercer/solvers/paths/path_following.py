"""Leave-one-out decision values by path following: from the solution with all rows to the one without a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        StopWork
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
    peak_memory_bytes : int
        Peak memory of the solver, or of the tableau's factors and rows, in bytes.
    """

    full: Full
    values: FloatArray
    pivots: IndexArray
    violation: float
    errors: FloatArray
    peak_memory_bytes: int


class Following:
    """Follows the solution of a problem while one row after the other is removed.

    Parameters
    ----------
    full : Full
    wanted : ndarray of int64, optional
        Rows whose values are wanted; all by default. Other rows that are support vectors get NaN.
    check : callable, optional
        Function that is called within long parts of the work; an exception of it ends the work.
    """

    def __init__(self, full: Full, wanted: IndexArray | None = None, check: Callable[[], None] = lambda: None) -> None:
        self.full, self.problem, self.gram, self.check = full, full.problem, full.gram, check
        self.wanted = np.arange(full.problem.n_rows) if wanted is None else wanted
        self.beta, self.gradient = full.beta, full.gradient
        self.peak_memory_bytes = full.peak_memory_bytes
        is_hostile = c_times_kmax(full.problem, full.gram, full.beta, full.scale) > HOSTILE
        self.worst = max(full.violation, self.rounding()) if is_hostile else full.violation
        self.extended: Extended | None = None
        if is_hostile and full.problem.n_rows <= MAX_ROWS:
            self.extended = Extended(full.problem, full.gram, full.beta, check)
        self.solved: dict[int, tuple[float, int, float]] = {}

    def steps(self) -> Iterator[float]:
        """Find the values; yield the share of the work that is done."""
        problem, full = self.problem, self.full
        if self.extended is not None:
            yield from self.extended.run(self.wanted, TIGHT * full.scale)
            return
        if not self._open_support().size:
            return
        own_gram = self.gram if problem.rows is None else self.gram.restrict(problem.rows)
        tableau = Tableau.of(problem, own_gram, full.beta, full.gradient, self.check)
        self.beta = tableau.beta
        self.gradient = full.gradient if full.is_loose else tableau.gradient
        support, shares = self._open_support(), total_shares(problem)
        passes = Passes(problem, self.gram, tableau, shares, TIGHT * full.scale, self.solved, self.check)
        try:
            yield from passes.run(support)
        finally:
            self.peak_memory_bytes = max(self.peak_memory_bytes, passes.peak_bytes)
        rows, tol = rows_of(problem), TIGHT * full.scale
        for variable in [one for one in support.tolist() if one not in self.solved]:
            self.check()
            value, violation = refit(problem, self.gram, self.beta, int(rows[variable]), tol, self.check)
            self.solved[variable] = value + float(problem.linear[variable]), REFITTED, violation

    def result(self) -> Followed:
        """Return the values that were found so far."""
        if self.extended is not None:
            return self._result_extended(self.extended)
        problem, rows, worst = self.problem, rows_of(self.problem), self.worst
        values = np.empty(problem.n_rows)
        values[rows] = self.gradient - problem.linear
        values -= self.full.changes_of_others
        pivots = np.full(problem.n_rows, NO_SUPPORT, dtype=np.int64)
        support = self.support()
        values[rows[support]], pivots[rows[support]] = np.nan, UNWANTED
        for variable, (gradient_there, n_pivots, violation) in self.solved.items():
            values[rows[variable]] = gradient_there - problem.linear[variable]
            pivots[rows[variable]] = n_pivots
            worst = max(worst, violation)
        return Followed(self.full, values, pivots, worst, np.full(problem.n_rows, np.nan), self.peak_memory_bytes)

    def _result_extended(self, work: Extended) -> Followed:
        pivots = np.where(work.is_support, REFITTED, NO_SUPPORT)
        pivots[np.isnan(work.values)] = UNWANTED
        sizes = np.abs(work.values[np.isfinite(work.values)])
        scale = max(float(np.abs(self.full.values).max(initial=0.0)), float(sizes.max(initial=0.0)))
        work.errors[work.errors > _NOTHING_KNOWN * scale] = np.inf
        unsettled = np.isfinite(work.values) & ~(work.errors <= LOOSE * scale)
        pivots[unsettled] = STALLED
        errors = np.where(np.isnan(work.values), np.nan, work.errors)
        worst = float(errors[np.isfinite(work.values)].max(initial=0.0))
        return Followed(self.full, work.values, pivots, worst, errors, self.peak_memory_bytes)

    def wanted_support(self) -> IndexArray:
        """Return the variables whose removal changes the solution and whose values are wanted."""
        support = self.support()
        return support[np.isin(rows_of(self.problem)[support], self.wanted)]

    def _open_support(self) -> IndexArray:
        """Return those of :meth:`wanted_support` whose values were not found by an earlier pass."""
        support = self.wanted_support()
        return support[~np.isin(support, list(self.solved))]

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
