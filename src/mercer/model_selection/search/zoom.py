"""A search that refines its grid: a coarse grid, then finer grids around the best cell."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from mercer.data import as_data
from mercer.kernels.parameters import resolve_gamma
from mercer.model_selection.search.search_parameters import Search
from mercer.model_selection.search.settings import ZOOMED, settings_of

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


class Zoom:
    """Finds the settings of a coarse grid, then those of finer grids around the best cell.

    The coarse grid has all values of the other axes and all kernels; the finer grids have those of the best cell only.

    Parameters
    ----------
    search : Search
    X, y : array-like
    metric : str
        Name of the score that decides which cell is best.
    """

    def __init__(self, search: Search, X: Any, y: Any, metric: str) -> None:
        self.search, self.metric, self._stage = search, metric, 0
        self._factors = {name: _COARSE[name][1] for name in zooms(search)}
        self._axes: dict[str, Any] = {name: coarse_values(name, search, X, y) for name in self._factors}

    def __call__(self, results: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Return the settings of the next grid, by the results so far; none after the last grid."""
        self._stage += 1
        fixed: dict[str, Any] = {}
        if results is not None:
            if self._stage > _STAGES:
                return []
            best = _by_axis(results["params"][int(np.argmin(results[f"rank_test_{self.metric}"]))])
            fixed = {name: [value] for name, value in best.items() if name not in self._axes}
            for name in self._axes:
                if name not in best:  # the best kernel has no gamma
                    self._axes[name] = None
                    continue
                self._factors[name] **= 0.5
                self._axes[name] = [best[name] / self._factors[name], best[name], best[name] * self._factors[name]]
        return settings_of(copy(self.search).set_params(**fixed, **self._axes).grid)


def coarse_values(name: str, search: Search, X: Any, y: Any) -> list[float]:
    """Return the values of the coarse grid of an axis."""
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
