"""Classifiers that combine two-class machines whose coefficients are nonzero for all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.cluster import by_blocks
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._labels import Labels
from mercer.estimators._probabilities import Check, HasProbabilities
from mercer.estimators._scores import ByScores
from mercer.gram import Gram
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds
from mercer.multiclass.training import Task, Tasks, class_scores, make_tasks


class ByPairs(ByScores, HasProbabilities, EveryRowMachine):
    """A classifier that combines two-class machines; see :func:`mercer.multiclass.training.make_tasks`."""

    _scheme: str

    def _calibrate_in_time(
        self,
        loo_values: Callable[[int, Task, Gram, Check], FloatArray],
        learnt: Callable[[Task, Gram, Check], tuple[FloatArray, float]],
        tasks: Tasks,
        labels: Labels,
        gram: Gram,
        max_seconds: float | None,
        began: float,
        *,
        refits: bool,
    ) -> None:
        """Fit the map from decision values to probabilities, if the time limit allows.

        `loo_values` is called for each machine with its number, its task, its Gram matrix and a function that raises
        an error when the fit must stop. It returns the leave-one-out decision values of the machine's rows. `learnt`
        trains a machine on a task and its Gram matrix, and returns coefficients and a bias. `refits` says whether
        leave-one-out needs a refit for almost every row.
        """
        self._choose_values(labels, sizes=tasks.sizes, refits=refits)
        codes, n_classes = labels.codes[labels.rows], labels.classes.size

        def without_rows(check: Check) -> FloatArray:
            # A machine that was not trained on a row gives the row's decision value as it is.
            raw = gram.matvec(self._coefficients[labels.rows]) + self._bias
            for number, task in enumerate(tasks):
                raw[task.rows, number] = loo_values(number, task, gram.restrict(task.rows), check)
            return raw

        def without_folds(check: Check) -> FloatArray:
            def fit(remaining: IndexArray, out: IndexArray) -> FloatArray:
                beta, biases = np.zeros((gram.n, len(tasks))), np.zeros(len(tasks))
                for number, task in enumerate(make_tasks(codes[remaining], n_classes, self._scheme)):
                    rows = remaining[task.rows]
                    if not rows.size:  # both classes have one row each, and these are in this fold
                        continue
                    beta[rows, number], biases[number] = learnt(replace(task, rows=rows), gram.restrict(rows), check)
                return gram.matvec(beta, out, check) + biases

            return by_folds(labels.folds, len(tasks), fit, check)

        left_out_rows = without_folds if self.calibration_values_ == FOLDS else without_rows
        raw = self._left_out_in_time(left_out_rows, max_seconds, began)
        if raw is not None:
            self._calibrate(raw, labels, self._scheme)

    @by_blocks
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
            One score for each class; the class with the largest score is predicted. With one-versus-one the scores are
            votes, and confidence breaks ties.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.
        """
        raw = self._values(X)
        return class_scores(raw, self.classes_.size, self._scheme)
