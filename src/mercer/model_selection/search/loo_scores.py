"""Scores of a search by exact leave-one-out, with an estimator that returns its leave-one-out predictions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from mercer.certificates.status import Status, StoppedError
from mercer.estimators._base import Iterated
from mercer.estimators._dual import DualMachine
from mercer.model_selection.leave_one_out import LeaveOneOut, require_followed, values_without_each_row
from mercer.model_selection.search.pipelines import machine_of, path_of
from mercer.model_selection.search.search_parameters import Allowance
from mercer.solvers.progress import most_steps

LEAVE_ONE_OUT = "leave_one_out"
"""Value of `cv` that asks for exact leave-one-out."""

FIXED = (
    "exact leave-one-out: settings share nothing; kernel parameters that depend on rows, balanced class weights and "
    "what comes before the machine are those of all rows"
)
"""Text of `reason_`: what the fits share, and what the scores mean."""

_NO_PROBABILITIES = (
    f'with cv="{LEAVE_ONE_OUT}" scores are of predictions and decision values: there are no probabilities, for their '
    "map is itself fitted to leave-one-out values"
)


def refuse_besides(estimator: Any, fit_params: Mapping[str, Any], scorers: Any, *, return_train_score: bool) -> None:
    """Refuse searches that exact leave-one-out does not support.

    Raises
    ------
    TypeError
        If the machine has no exact leave-one-out.
    ValueError
        If training scores or scores of probabilities are requested, or if `fit` gets parameters other than the
        machine's sample weights.
    """
    require_followed(machine_of(estimator))
    if return_train_score:
        raise ValueError(
            f'return_train_score must be False with cv="{LEAVE_ONE_OUT}": each row is scored by the machine without it.'
        )
    for scorer in getattr(scorers, "_scorers", {"": scorers}).values():
        asked = getattr(scorer, "_response_method", "")
        if all("proba" in name for name in ([asked] if isinstance(asked, str) else asked)):
            raise ValueError(f"{_NO_PROBABILITIES}, which {scorer!r} needs: give folds, as by cv=5.")
    weights = path_of(estimator) + "sample_weight"
    if others := sorted(set(fit_params) - {weights}):
        raise ValueError(
            f'with cv="{LEAVE_ONE_OUT}" fit takes no other parameter than {weights}, the weights of the machine, got '
            f"{others[0]!r}."
        )


class WithoutRows(BaseEstimator):
    """Stands in for `estimator`; after `fit` it returns the leave-one-out prediction of each training row.

    In a pipeline, the steps before the machine are fitted to all rows, and leave-one-out applies to the machine only.
    """

    def __init__(self, estimator: Any, what: str, allowance: Allowance) -> None:
        self.estimator, self.what, self.allowance = estimator, what, allowance

    def __sklearn_clone__(self) -> WithoutRows:
        return WithoutRows(clone(self.estimator), self.what, self.allowance)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        return dict(self.estimator.get_params(deep=deep))

    def set_params(self, **params: Any) -> WithoutRows:
        """Set parameters of the estimator."""
        self.estimator.set_params(**params)
        return self

    def fit(self, X: Any, y: Any = None, **params: Any) -> WithoutRows:
        """Compute the leave-one-out values of all rows."""
        rows, machine = X, self.estimator
        while isinstance(machine, Pipeline):
            if len(machine.steps) > 1:
                rows = clone(machine[:-1]).fit_transform(rows, y)
            machine = machine.steps[-1][1]
        weights = next(iter(params.values()), None)  # `refuse_besides` admits sample weights only
        results = self._pass(clone(machine), rows, y, weights)
        if results.stopped and self.allowance.monitor.stopped:
            raise StoppedError(f"the search was stopped ({results.stopped}) in a leave-one-out pass")
        if results.stopped:
            raise TimeoutError(f"the leave-one-out pass was ended ({results.stopped}): raise max_seconds_per_fit.")
        self._n, self._results, self._tol = results.decision.shape[0], results, getattr(machine, "tol", np.inf)
        if not is_regressor(self.estimator) and y is not None:
            self.classes_ = np.unique(y)
        return self

    def _pass(self, machine: Any, rows: Any, y: Any, weights: Any) -> LeaveOneOut:
        allowance, n = self.allowance, rows.shape[0] if hasattr(rows, "shape") else len(rows)
        left = allowance.seconds_left()
        began = time.perf_counter()

        also = getattr(machine, "callback", None)

        def listen(progress: Any) -> object:
            return True if allowance.interruption.requested or also is None else also(progress)

        def ends(progress: Any) -> bool:
            del progress
            return allowance.interruption.requested

        if isinstance(machine, Iterated):
            if isinstance(machine, DualMachine) and machine.max_iter == -1:
                machine.max_iter = most_steps(n)
            limits = [seconds for seconds in (machine.max_seconds, left) if seconds is not None]
            machine.max_seconds, machine.verbose = min(limits, default=None), 0
            machine.callback = ends if also is None else listen
        if allowance.memory_limit is not None and getattr(machine, "memory_limit", 0) is None:
            machine.memory_limit = allowance.memory_limit
        rest = None if left is None else max(0.0, left - (time.perf_counter() - began))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `cv_results_` reports how each setting ended
            return values_without_each_row(machine, rows, y, weights, what=self.what, max_seconds=rest, callback=ends)

    @property
    def ended(self) -> tuple[Status, float]:
        """Status of the pass, and the largest KKT violation of the machines without a row."""
        violation = self._results.violation
        return Status.OPTIMAL if violation <= self._tol else Status.STALLED, violation

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the leave-one-out prediction of each row."""
        return self._of(X, self._results.predicted)

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the leave-one-out decision value of each row."""
        if is_regressor(self.estimator):
            raise AttributeError("a regressor has no decision values.")
        return self._of(X, self._results.decision)

    @property
    def predict_proba(self) -> Any:
        """Raise AttributeError; `refuse_besides` cannot see what a scoring function will call."""
        raise AttributeError(f"{_NO_PROBABILITIES}: give folds, as by cv=5.")

    predict_log_proba = predict_proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, or R² for a regressor."""
        of = r2_score if is_regressor(self.estimator) else accuracy_score
        return float(of(y, self.predict(X), sample_weight=sample_weight))

    def _of(self, X: Any, values: Any) -> Any:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n != self._n:
            raise ValueError(f"only the {self._n} rows that are left out have values, got {n} rows.")
        return values
