"""Decision values of each row by an approximate machine that was trained without its fold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.task import Task
from mercer.approximate.way import Way
from mercer.solvers import Control


def values_without_folds(
    way: Way, task: Task, folds: IndexArray, control: Callable[[int], Control], check: Callable[[], None]
) -> FloatArray:
    """Return the decision values of the rows of a task, (n, n_machines), each by a machine without the row's fold.

    Parameters
    ----------
    way : Way
    task : Task
    folds : ndarray of int64 of shape (n,)
        The fold of each row; every class must have rows in two folds.
    control : callable
        Returns what may end the training for a fold, given the number of folds that are left.
    check : callable
        It is called before each fold, and may raise.
    """
    values, several = np.empty((task.n, task.n_machines)), np.unique(folds).tolist()
    for place, fold in enumerate(several):
        check()
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        machine = way.train(task.of_rows(outside), control(len(several) - place).in_part(f"fold-{fold}"))
        values[inside] = machine.values(task.data.rows(task.rows[inside]), task.n_jobs)
    return values
