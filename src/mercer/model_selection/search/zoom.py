"""A search that refines its grid: a coarse grid, then finer grids around the best cell."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from mercer.certificates.status import StoppedError
from mercer.data import as_data
from mercer.data.user_warnings import warn_user
from mercer.kernels.parameters import resolve_gamma
from mercer.model_selection.search.cv_results import columns, ranks
from mercer.model_selection.search.search_parameters import Search
from mercer.model_selection.search.settings import ZOOMED, equal_values
from mercer.solvers import Control, Limits
from mercer.solvers.loop import ProgressMonitor

if TYPE_CHECKING:
    from mercer.solvers import Interruption

ZOOM = "zoom"
"""Value of a parameter axis that asks for this search."""

_COARSE = {
    "C": (1.0, 100.0, (-1, 0, 1, 2)),
    "epsilon": (0.1, 10.0, (-1, 0, 1)),
    "gamma": (np.nan, 16.0, (-2, -1, 0, 1, 2)),
}
"""Coarse grid of each axis: centre (for gamma found from the rows), factor, and powers of the factor. The grid covers
nearly all optima: C from 0.01 to 10^4, and gamma from 1/256 to 256 times the inverse of a typical squared distance."""

_STAGES = 3
"""Number of grids. Each finer grid uses the square root of the factor before: C is found up to a factor of about 3 and
gamma up to 2. Folds of some hundred rows cannot distinguish finer values."""


def zooms(search: Search) -> list[str]:
    """Return the axes of the search that are set to "zoom"."""
    return [name for name in ZOOMED if isinstance(getattr(search, name), str) and getattr(search, name) == ZOOM]


def zoom(
    search: Search,
    X: Any,
    y: Any,
    splits: list[tuple[Any, Any]],
    routed: Any,
    scorers: Any,
    metric: Any,
    interruption: Interruption,
) -> None:
    """Search a coarse grid, then finer grids around the best cell, and store the results of all in `search`.

    The coarse grid has all values of the other axes and all kernels; the finer grids have those of the best cell only.

    Raises
    ------
    ValueError
        If no single score decides which setting is best.
    """
    if callable(search.refit):
        raise ValueError(
            f'"{ZOOM}" follows one score: refit must be True, False or the name of a score, not a function.'
        )
    if callable(search.scoring) and isinstance(search.refit, str):
        metric = search.refit
    monitor = ProgressMonitor[Any](Control(Limits(max_seconds=search.max_seconds), interruption=interruption))
    axes: dict[str, list[float] | None] = {name: _coarse(name, search, X, y) for name in zooms(search)}
    factors = {name: _COARSE[name][1] for name in axes}
    stages: list[Search] = []
    stopped = ""
    fixed: dict[str, Any] = {}
    for stage in range(_STAGES):
        part = copy(search).set_params(refit=False, max_seconds=monitor.seconds_left, **fixed, **axes)
        try:
            part._search_grid(X, y, splits, routed, scorers, metric, interruption)
        except StoppedError:
            if not stages:
                raise
            stopped = monitor.stopped or "time limit"
            warn_user(f"the search was stopped ({stopped}): no setting of stage {stage} was finished.")
            break
        stages.append(part)
        if f"mean_test_{metric}" not in part.cv_results_:
            raise ValueError(f'"{ZOOM}" follows one score: with several, refit must name one, got {search.refit!r}.')
        stopped = part.stopped_
        if stopped or stage == _STAGES - 1:
            break
        results = _gathered(stages)
        best = _by_axis(results["params"][int(np.argmin(results[f"rank_test_{metric}"]))])
        fixed = {name: [value] for name, value in best.items() if name not in axes}
        for name in axes:
            if name not in best:  # the best kernel has no gamma
                axes[name] = None
                continue
            factors[name] **= 0.5
            axes[name] = [best[name] / factors[name], best[name], best[name] * factors[name]]
    search.cv_results_ = results = _gathered(stages)
    first = stages[0]
    search.reason_ = "; later: ".join(dict.fromkeys(part.reason_ for part in stages))
    search.stopped_, search.n_splits_ = stopped, first.n_splits_
    search.multimetric_, search.scorer_ = first.multimetric_, first.scorer_
    search.best_index_ = int(np.argmin(results[f"rank_test_{metric}"]))
    search.best_score_ = results[f"mean_test_{metric}"][search.best_index_]
    search.best_params_ = results["params"][search.best_index_]


def _coarse(name: str, search: Search, X: Any, y: Any) -> list[float]:
    centre, factor, powers = _COARSE[name]
    if name == "gamma":
        rows, estimator = X, search.estimator
        if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
            rows = clone(estimator[:-1]).fit_transform(X, y)
        table = check_array(rows, accept_sparse="csr", dtype=[np.float64, np.float32])
        centre = float(resolve_gamma("scale", as_data(table)))
    return [centre * factor**power for power in powers]


def _by_axis(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a setting by the names of the search's parameters."""
    named = {name.rsplit("__", 1)[-1]: value for name, value in setting.items()}
    return {"kernels" if name == "kernel" else name: value for name, value in named.items()}


def _gathered(stages: list[Search]) -> dict[str, Any]:
    """Return the results of all stages; a cell that occurs in several stages is taken from the first."""
    settings = [setting for part in stages for setting in part.cv_results_["params"]]
    distinct = [k for k, setting in enumerate(settings) if not any(equal_values(setting, one) for one in settings[:k])]
    chosen = [settings[k] for k in distinct]
    results: dict[str, Any] = {}
    for name in stages[0].cv_results_:
        if name == "params":
            results.update(columns(chosen))
        elif not name.startswith(("param", "rank_")):
            results[name] = np.concatenate([part.cv_results_[name] for part in stages])[distinct]
            if name.startswith("mean_test_"):
                results[f"rank_{name[5:]}"] = ranks(results[name])
    sizes = [len(part.cv_results_["params"]) for part in stages]
    results["stage"] = np.repeat(np.arange(len(stages)), sizes)[distinct]
    return results
