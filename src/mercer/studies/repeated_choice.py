"""The whole choice of a study again on other splits, to see how much the split matters; no sealed row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mercer.data import Table, TableError
from mercer.data.files import Checkpoint
from mercer.model_selection import InTime, rows_enough
from mercer.solvers import Interruption
from mercer.studies.approximation import exact_part, judged_again, share_of_exact
from mercer.studies.candidates import KernelChoice
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import encoded_folds
from mercer.studies.preparation import Prepared, SplitOptions
from mercer.studies.sealing import folds_of
from mercer.studies.search import SearchStopped, folder_of_search, search
from mercer.studies.searching import grid_for
from mercer.studies.tables import Labels
from mercer.studies.time_budget import REPEATS, Deadline, TimeBudget


def repeated(
    rows: Prepared,
    table: Table,
    kernels: Sequence[KernelChoice],
    n_repeats: int,
    split: SplitOptions,
    tol: float,
    budget: TimeBudget,
    checkpoint: Checkpoint | None = None,
) -> tuple[float, ...]:
    """Return a figure of merit for each repetition of the choice; larger is better.

    Each repetition puts away a part of the rows that are not sealed, chooses kernel and settings by folds of the
    others, trains the chosen machine on these, and judges it by the part that was put away. This is nested
    cross-validation with random splits.

    Parameters
    ----------
    rows : Prepared
    table : Table
        With all rows and the target.
    kernels : sequence of KernelChoice
    n_repeats : int
        With a time limit there may be fewer.
    split : SplitOptions
        Those of the study; each repetition has a seed of its own.
    tol : float
        KKT violation of each machine.
    budget : TimeBudget
    checkpoint : Checkpoint, optional
        Where the figures are written.
    """
    arrangement, goal = rows.arranged.of(rows.sealed.rest), rows.goal
    if len(rows.searched) < rows.rest.n_rows:
        budget.cuts.append("The choice was not repeated on other splits, because the table is large.")
        return ()
    if isinstance(arrangement.arrangement, InTime):
        budget.cuts.append("The choice was not repeated on other splits, because time gives the split.")
        return ()
    if isinstance(goal, ToClassify) and goal.needs_probabilities:
        budget.cuts.append("The choice was not repeated on other splits, because its score needs probabilities.")
        return ()
    test_size, n_folds, seed, target = split.test_size, split.n_folds, split.seed, rows.column_choice.truth
    table = table.as_written(target.target) if isinstance(target, Labels) else table
    truth, figures = target.of(table, rows.rest_rows), list[float]()
    deadline = Deadline(budget.share(REPEATS))
    n_asked = sum(len(validation) for _, validation in rows.splits)
    with Interruption() as interruption:
        for number in range(1, n_repeats + 1):
            name = f"repeat-{number}"
            before = None if checkpoint is None else checkpoint.load(name, lambda _, arrays: arrays["figure"].item())
            if before is not None:
                figures.append(before)
                continue
            try:
                strata = arrangement.strata(truth, rows_enough(test_size, n_folds))
                inner, outer = arrangement.arrangement.holdout(strata, test_size, seed + number)
                splits = folds_of(arrangement.of(inner), truth.of(table, rows.rest_rows[inner]), n_folds, seed + number)
                folds = encoded_folds(rows.rest.take(inner), rows.truth[inner], splits, rows.encoder, rows.readers)
                parts, exact = exact_part(folds, kernels)
                judged = partial(search, tol=tol, interruption=interruption)
                first = judged(
                    parts,
                    goal,
                    kernels=exact,
                    C_grid=grid_for(folds[0], kernels),
                    max_seconds=share_of_exact(kernels, deadline.seconds_left),
                    checkpoint=folder_of_search(checkpoint, name),
                )
                of_repeat = TimeBudget(None)  # what is cut short in a repetition is not said
                search_result = judged_again(
                    first, folds, goal, kernels, judged, deadline, of_repeat, checkpoint, f"{name}-all-rows"
                ).best
            except (TableError, SearchStopped):  # too few rows of a class, or no time
                break
            (fold,) = encoded_folds(rows.rest, rows.truth, [(inner, outer)], rows.encoder, rows.readers)
            fold = replace(fold, train=inner, validation=outer)
            answers = goal.answers_on(
                fold, search_result.candidate, tol=tol, max_seconds=deadline.seconds_left, interruption=interruption
            )
            if interruption.requested or deadline.has_come:
                break
            error = goal.error_of(fold.truth[outer], answers.values, answers.scheme)
            figure = float(goal.figure(error * n_asked / len(outer)))
            figures.append(figure)
            if checkpoint is not None:
                checkpoint.store(name, partial(lambda one: ({}, {"figure": np.array([one])}), figure))
    if interruption.insisted:
        raise KeyboardInterrupt
    if len(figures) < n_repeats:
        budget.cuts.append(f"The choice was repeated on {len(figures)} of {n_repeats} other splits.")
    return tuple(figures)
