"""Machines with kernels on the folds of a study: `KernelSearchCV` trains them, and the goal judges them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from mercer import KernelSearchCV, StoppedError
from mercer.certificates import Status
from mercer.solvers import StageProgress
from mercer.studies.candidates import Candidate
from mercer.studies.contenders import Fold
from mercer.studies.goal import Goal

_WORTH_A_MATRIX = 3
"""Values of C from which a matrix of kernel values for each fold is faster than evaluation where values are needed."""

_MANY_ROWS = 2000
"""Rows of a fold up to which a matrix is fast in any case."""

JudgedFolds = tuple[tuple[float, ...], float, tuple[Status, ...]]
"""What the answers in each fold cost, the seconds of training and judging, and how unfinished machines ended."""


def judged_on_folds(
    candidates: Sequence[Candidate],
    folds: Sequence[Fold],
    goal: Goal,
    usual_gamma: float,
    *,
    tol: float,
    memory_limit: int,
    max_seconds: float | None,
    after_candidate: Callable[[Candidate], bool],
    sign_of_life: Callable[[Candidate], None],
) -> dict[Candidate, JudgedFolds]:
    """Train machines with kernels on all folds, and judge them; candidates that a stop left out are missing.

    Parameters
    ----------
    candidates : sequence of Candidate
    folds : sequence of Fold
    goal : Goal
    usual_gamma : float
        The gamma that is multiplied by the factors of the candidates.
    tol : float
        KKT violation to which each machine is solved.
    memory_limit : int
        Bytes of kernel values.
    max_seconds : float, optional
    after_candidate : callable
        Called after each candidate is trained on all folds; a true value stops the search.
    sign_of_life : callable
        Called several times a second with the candidate that is being trained.
    """
    kernels = list(dict.fromkeys(one.choice for one in candidates))
    ordered = sorted(candidates, key=lambda one: (kernels.index(one.choice), one.epsilon or 0.0, one.C))
    judge, at = _Judge(folds, goal), _Place()
    each = len(candidates) / len({one.path for one in candidates})
    if each < _WORTH_A_MATRIX and max(len(fold.truth) for fold in folds) > _MANY_ROWS:
        memory_limit = 0

    def after_each(progress: StageProgress) -> bool:
        current = ordered[at.number]
        at.number += 1
        return after_candidate(current)

    def during(progress: object) -> None:
        sign_of_life(ordered[min(at.number, len(ordered) - 1)])

    machine = goal.estimator(tol).set_params(callback=_Shared(during))
    settings = []
    for one in ordered:
        setting = {"kernel": one.choice.kernel_at(usual_gamma), "C": one.C}
        setting |= {} if one.epsilon is None else {"epsilon": one.epsilon}
        settings.append({f"machine__{name}": value for name, value in setting.items()})
    search = KernelSearchCV(
        Pipeline([("rows", RowsOfFolds(judge.folds)), ("machine", machine)]),
        candidates=settings,
        scoring=judge,
        n_jobs=1,
        refit=False,
        cv=judge.splits,
        error_score="raise",
        memory_limit=memory_limit,
        max_seconds=max_seconds,
        callback=after_each,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the study says what was stopped, and which machines are not optimal
        try:
            search.fit(judge.numbers, judge.targets)
        except StoppedError:
            return {}
    results, n_folds, found = search.cv_results_, len(folds), dict[Candidate, JudgedFolds]()
    for number, (candidate, errors) in enumerate(zip(ordered, judge.errors, strict=False)):
        seconds = n_folds * float(results["mean_fit_time"][number] + results["mean_score_time"][number])
        n_unfinished = int(results["n_unfinished"][number])
        found[candidate] = errors, seconds, (Status(results["status"][number]),) * n_unfinished
    return found


class _Place:
    """The place of the candidate that is being trained."""

    number = 0


class _Shared:
    """A function or value that copies of an estimator share."""

    def __init__(self, shared: Any) -> None:
        self.shared = shared

    def __call__(self, *arguments: Any) -> Any:
        return self.shared(*arguments)

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class RowsOfFolds(TransformerMixin, BaseEstimator):
    """Turns numbers of rows into the encoded rows of their fold.

    Parameters
    ----------
    folds : _Shared
        The folds. Their rows are numbered one fold after the other.
    """

    def __init__(self, folds: _Shared) -> None:
        self.folds = folds

    def fit(self, X: npt.NDArray[np.int64], y: object = None) -> Self:
        """Do nothing: the rows are encoded already."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: npt.NDArray[np.int64]) -> Any:
        """Return the encoded rows, which are of one fold."""
        folds: Sequence[Fold] = self.folds.shared
        first = _first_numbers(folds)
        fold = int(np.searchsorted(first, X[0, 0], side="right")) - 1
        return folds[fold].X[X[:, 0] - first[fold]]


def _first_numbers(folds: Sequence[Fold]) -> npt.NDArray[np.int64]:
    """Return the number of the first row of each fold, and the number of all rows at the end."""
    return np.cumsum([0, *(len(fold.truth) for fold in folds)])


class _Judge:
    """A scorer that has the goal judge the predictions of all folds together.

    Attributes
    ----------
    numbers, targets, splits
        Rows, targets and folds for `KernelSearchCV`.
    errors : list of tuple of float
        What the predictions of each candidate cost, by folds.
    """

    def __init__(self, folds: Sequence[Fold], goal: Goal) -> None:
        first = _first_numbers(folds)
        self.folds, self.goal, self.errors = _Shared(folds), goal, list[tuple[float, ...]]()
        self.numbers = np.arange(first[-1])[:, None]
        self.splits = [(fold.train + start, fold.validation + start) for start, fold in zip(first, folds, strict=False)]
        learnt = [goal.learnable(fold.truth[fold.train]) for fold in folds]
        self.units = [unit for _, unit in learnt]
        self.targets = np.zeros(first[-1], dtype=learnt[0][0].dtype)
        for (train, _), (targets, _) in zip(self.splits, learnt, strict=True):
            self.targets[train] = targets
        self._values = list[npt.NDArray[np.float64]]()

    def __call__(self, machine: Any, X: Any, y: Any) -> float:
        """Keep the decision values of a fold; judge them when those of all folds are there.

        The score means nothing: the study ranks candidates by all folds together.
        """
        known = machine.decision_function(X) if self.goal.task == "classification" else machine.predict(X)
        unit = self.units[len(self._values)]
        self._values.append(unit(known[:, None] if known.ndim == 1 else known))
        folds = self.folds.shared
        if len(self._values) == len(folds):
            truths = [fold.truth[fold.validation] for fold in folds]
            self.errors.append(self.goal.errors(self._values, truths))
            self._values = []
        return 0.0
