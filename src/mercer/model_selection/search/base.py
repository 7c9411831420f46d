"""What the parts of a search read of `KernelSearchCV`, which is above them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

from mercer.solvers import Interruption
from mercer.solvers.progress import Progress


class Search(Protocol):
    """Parameters and results of a search; :class:`KernelSearchCV` documents them."""

    estimator: Any
    scoring: Any
    refit: Any
    verbose: int
    error_score: Any
    return_train_score: bool
    max_seconds: float | None
    callback: Callable[[Progress], object] | None
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
