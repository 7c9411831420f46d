"""What the parts of a search share: the parameters that they read of `KernelSearchCV`, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

from mercer.solvers import Interruption
from mercer.solvers.loop import ProgressMonitor
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
    rounds: Any
    param_grid: Any
    grid: Any

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


class Allowance(NamedTuple):
    """Limits of a search and of each of its fits.

    Attributes
    ----------
    monitor : ProgressMonitor
        Of the search; the caller enters its interruption.
    max_seconds : float or None
        For one fit.
    memory_limit : int or None
        Bytes of kernel values at a time.
    """

    monitor: ProgressMonitor[Any]
    max_seconds: float | None
    memory_limit: int | None

    @property
    def interruption(self) -> Interruption:
        """A request to it ends the search."""
        return self.monitor.control.interruption

    def seconds_left(self) -> float | None:
        """Return the seconds that the next fit may take, or None without a limit."""
        limits = self.monitor.seconds_left, self.max_seconds
        return min((seconds for seconds in limits if seconds is not None), default=None)
