"""Leave-one-out decision values of the machines for two classes and of the regression and one-class machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray, TextArray
from mercer.data.files import Checkpoint
from mercer.data.user_warnings import warn_user
from mercer.gram import Gram
from mercer.gram.threads import blas_threads
from mercer.problems import Problem
from mercer.solvers.paths.loo_states import Solved, load_solved, name_of, state_of
from mercer.solvers.paths.path_following import (
    LOOSE,
    NO_SUPPORT,
    REFITTED,
    STALLED,
    UNWANTED,
    Followed,
    Following,
    Full,
)

Chooser = Callable[[Full], IndexArray]
"""Function that chooses the rows whose values are computed, from a machine's solution with all rows."""


class LooPass:
    """The leave-one-out decision value of every row, for every machine.

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
    check : callable, optional
        Function that is called within long parts of the work; an exception of it ends the work.
    checkpoint : Checkpoint, optional
        Where finished rows are written, and from where they are taken.

    Attributes
    ----------
    n_values_elsewhere : int
        Kernel values that other processes have evaluated for it.
    solved_before : sequence of dict
        Values of each machine that were found before.
    """

    n_values_elsewhere = 0
    solved_before: Sequence[Solved] = ()

    def __init__(
        self,
        problems: Sequence[Problem],
        starts: Sequence[FloatArray],
        parts: Sequence[IndexArray],
        full_gram: Gram,
        rows: IndexArray,
        *,
        name: str = "leave_one_out",
        wanted: Chooser | None = None,
        check: Callable[[], None] = lambda: None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.problems, self.starts, self.parts, self.full_gram, self.rows = problems, starts, parts, full_gram, rows
        self.name, self.wanted, self.check = name, wanted, check
        self.raw = np.full((full_gram.n, len(parts)), np.nan)
        self.rule = np.full(self.raw.shape, "unknown", dtype="<U25")
        self.works: list[Following] = []

    def steps(self) -> Iterator[float]:
        """Find the values; yield the share of the work that is done."""
        full_gram, rows, check, problems = self.full_gram, self.rows, self.check, self.problems
        gram = full_gram if rows.size == full_gram.n else full_gram.restrict(rows)
        fulls: list[Full] = []
        for column, part in enumerate(self.parts):  # machines with the same rows share kernel values
            yield 0.0
            view = gram if part.size == gram.n else gram.restrict(part)
            full = Full.of(problems[column], view, self.starts[column], check)
            others = np.setdiff1d(np.arange(full_gram.n), rows[part])
            if others.size:
                coefficients = np.zeros(full_gram.n)
                coefficients[rows[part]] = problems[column].coefficients(full.beta)
                self.raw[others, column] = full_gram.matvec(coefficients, others) - full.level
                self.rule[others, column] = "not trained on"
            fulls.append(full)
        for column, full in enumerate(fulls):
            work = Following(full, self.wanted and self.wanted(full), check)
            self.works.append(work)
            save = None
            if self.solved_before:
                work.solved.update(self.solved_before[column])
            if self.checkpoint is not None:
                work.solved.update(load_solved(self.checkpoint, column, full.problem.n))
                save = self.checkpoint.after_step(name_of(column))
            state = partial(state_of, work.solved)
            with blas_threads(full.problem.n**3 / 3):
                for share in work.steps():
                    if save is not None:
                        save(state)
                    yield (column + share) / len(fulls)
            if self.checkpoint is not None:
                self.checkpoint.store(name_of(column), state)
            yield (column + 1) / len(fulls)

    def followed(self) -> list[Followed]:
        """Return the results of the machines so far."""
        return [work.result() for work in self.works]

    def result(self) -> tuple[FloatArray, TextArray, list[Followed]]:
        """Return the values that were found so far.

        Returns
        -------
        raw : ndarray of shape (n, n_machines)
            Leave-one-out decision values; ordinary decision values for rows that the machine was not trained on. NaN
            where a value was not wanted, or not computed in time.
        rule : ndarray of str of shape (n, n_machines)
            How each value was found.
        solutions : list of Followed
            Result of each problem; shorter than `problems` if the pass was ended early.

        Warns
        -----
        ConvergenceWarning
            If rounding errors leave a violation that is too large for values exact to 1e-6.
        """
        raw, rule, solutions = self.raw, self.rule, self.followed()
        for column, one in enumerate(solutions):
            part_rows = self.rows[self.parts[column]]
            raw[part_rows, column], rule[part_rows, column] = one.values, _names(one.pivots)
        largest = max((float(np.abs(one.full.values).max(initial=0.0)) for one in solutions), default=0.0)
        n_stalled = int((rule == "stalled").sum())
        warn_of_rounding(self.name, max((one.violation for one in solutions), default=0.0), raw, largest, n_stalled)
        return raw, rule, solutions

    def run(self) -> tuple[FloatArray, TextArray, list[Followed]]:
        """Find all values and return :meth:`result`; exceptions of `check` are passed on."""
        for _ in self.steps():
            self.check()
        return self.result()


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


def _names(pivots: IndexArray) -> TextArray:
    names = ["stalled", "unknown", "refitted", "not a support vector", "nothing changes"]
    return np.select([pivots == kind for kind in (STALLED, UNWANTED, REFITTED, NO_SUPPORT, 0)], names, "followed")
