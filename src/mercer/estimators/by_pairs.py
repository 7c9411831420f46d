"""Machines for two classes on every row, put together for several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.estimators.by_scores import ByScores
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.labels import Labels
from mercer.estimators.probabilities import Check, HasProbabilities
from mercer.gram import Gram
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds, fold_numbers
from mercer.multiclass.training import Task, Tasks, class_scores, make_tasks


class ByPairs(ByScores, HasProbabilities, EveryRowMachine):
    """Predictions of machines for two classes each; see :func:`mercer.multiclass.training.make_tasks`."""

    _scheme: str

    def _calibrate_in_time(
        self,
        left_out: Callable[[int, Task, Gram, Check], FloatArray],
        learnt: Callable[[Task, Gram, Check], tuple[FloatArray, float]],
        tasks: Tasks,
        labels: Labels,
        gram: Gram,
        max_seconds: float | None,
        began: float,
        *,
        refits: bool,
    ) -> None:
        """Fit the map from decision values to probabilities, where time is left.

        `left_out` gets the number of a machine, its task, its Gram matrix and what to call between pieces of work, and
        returns the decision value of each of the machine's rows by the machine without it. `learnt` gets a task of
        some of the rows and their Gram matrix, and returns what is learnt of them: coefficients and a bias. `refits`
        says whether almost every row is left out by learning anew.
        """
        self._choose_values(sizes=tasks.sizes, refits=refits)
        codes, n_classes = labels.codes[labels.rows], labels.classes.size

        def without_rows(check: Check) -> FloatArray:
            raw = gram.matvec(self._coefficients[labels.rows]) + self._bias  # of rows that a machine does not learn
            for number, task in enumerate(tasks):
                raw[task.rows, number] = left_out(number, task, gram.restrict(task.rows), check)
            return raw

        def without_folds(check: Check) -> FloatArray:
            def fit(kept: IndexArray, out: IndexArray) -> FloatArray:
                found, biases = np.zeros((gram.n, len(tasks))), np.zeros(len(tasks))
                for number, task in enumerate(make_tasks(codes[kept], n_classes, self._scheme)):
                    rows = kept[task.rows]
                    if not rows.size:  # two classes of one row each, both in this fold
                        continue
                    found[rows, number], biases[number] = learnt(replace(task, rows=rows), gram.restrict(rows), check)
                return gram.matvec(found, out, check) + biases

            return by_folds(fold_numbers(codes, n_classes), len(tasks), fit, check)

        left_out_rows = without_folds if self.calibration_values_ == FOLDS else without_rows
        raw = self._left_out_in_time(left_out_rows, max_seconds, began, depth=3)
        if raw is not None:
            self._calibrate(raw, labels, self._scheme)

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,) for two classes
            f(x), positive for ``classes_[1]``.
        ndarray of shape (m, n_classes) for more
            One score a class; the largest wins. One-versus-one: votes, ties broken by confidence.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.
        """
        raw = self._values(X)
        return class_scores(raw, self.classes_.size, self._scheme)
