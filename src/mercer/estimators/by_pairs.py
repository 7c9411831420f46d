"""Machines for two classes on every row, put together for several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer._typing import FloatArray
from mercer.estimators.by_scores import ByScores
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.labels import Labels
from mercer.estimators.probabilities import Check, HasProbabilities
from mercer.gram import Gram
from mercer.multiclass.training import Task, Tasks, class_scores


class ByPairs(ByScores, HasProbabilities, EveryRowMachine):
    """Predictions of machines for two classes each; see :func:`mercer.multiclass.training.make_tasks`."""

    _scheme: str

    def _calibrate_in_time(
        self,
        left_out: Callable[[int, Task, Gram, Check], FloatArray],
        tasks: Tasks,
        labels: Labels,
        gram: Gram,
        max_seconds: float | None,
        began: float,
    ) -> None:
        """Fit the map from decision values to probabilities, where time is left.

        `left_out` gets the number of a machine, its task, its Gram matrix and what to call between pieces of work, and
        returns the decision value of each of the machine's rows by the machine without it.
        """

        def without_rows(check: Check) -> FloatArray:
            raw = gram.matvec(self._coefficients[labels.rows]) + self._bias  # of rows that a machine does not learn
            for number, task in enumerate(tasks):
                raw[task.rows, number] = left_out(number, task, gram.restrict(task.rows), check)
            return raw

        raw = self._left_out_in_time(without_rows, max_seconds, began, depth=3)
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
