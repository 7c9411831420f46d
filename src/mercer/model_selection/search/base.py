"""What the parts of a search share: the parameters that they read of `KernelSearchCV`, and its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

from mercer.solvers import Interruption
from mercer.solvers.progress import StageProgress


class Search(Protocol):
    """Parameters and results of a search; :class:`KernelSearchCV` documents them."""

    estimator: Any
    scoring: Any
    refit: Any
    verbose: int
    error_score: Any
    return_train_score: bool
    max_seconds: float | None
    callback: Callable[[StageProgress], object] | None
    early_stopping: str | None

    cv_results_: dict[str, Any]
    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    scorer_: Any
    multimetric_: bool
    n_splits_: int
    stopped_: str
    reason_: str

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do."""

    def _search_grid(
        self,
        X: Any,
        y: Any,
        splits: list[tuple[Any, Any]],
        routed: Any,
        scorers: Any,
        metric: Any,
        interruption: Interruption,
    ) -> None:
        """Try every setting of the grid on every fold."""


class Allowance(NamedTuple):
    """Limits of a search and of each of its fits.

    Attributes
    ----------
    interruption : Interruption
        Entered by the caller; a request ends the search.
    until : float or None
        Time at which the search ends, by `time.perf_counter`.
    max_seconds : float or None
        For one fit.
    memory_limit : int or None
        Bytes of kernel values at a time.
    """

    interruption: Interruption
    until: float | None
    max_seconds: float | None
    memory_limit: int | None

    @property
    def stopped(self) -> str:
        """Why the search must end, or ""."""
        if self.interruption.requested:
            return "interrupted"
        return "time limit" if self.until is not None and time.perf_counter() >= self.until else ""

    def seconds_left(self) -> float | None:
        """Return the seconds that the next fit may take, or None without a limit."""
        left = None if self.until is None else max(0.0, self.until - time.perf_counter())
        return min((seconds for seconds in (left, self.max_seconds) if seconds is not None), default=None)
