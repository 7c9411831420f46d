"""What a search tries if nothing is asked for: values of the parameters that matter most for the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from mercer.model_selection.search.pipelines import machine_of, path_of
from mercer.model_selection.search.settings import gamma_of
from mercer.model_selection.search.zoom import ZOOM, coarse_values

_PENALTIES = (0.1, 1.0, 10.0, 100.0)  # times the spread of the targets; of machines that predict numbers
_TUBES = (0.01, 0.1)  # times the spread of the targets; half the width of the tube
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # times the largest nu that is feasible
_OTHERS = {
    "n_neighbors": (1, 3, 5, 9, 15, 25),
    "alpha": tuple(10.0**k for k in range(-4, 3)),
    "prior_variance": tuple(10.0**k for k in range(-1, 5)),
}
"""Values of the parameter that matters most for machines without C."""


def default_axes(search: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return the parameters of a search that nothing was asked of: axes, or a grid of other parameters.

    For classes, C is zoomed; for numbers, C and epsilon are multiples of the standard deviation of the targets. Gamma
    is zoomed from the spread of the rows, if the kernel has one.

    Raises
    ------
    ValueError
        If the machine has no parameter of which it is known what to try.
    """
    machine, path = machine_of(search.estimator), path_of(search.estimator)
    params = machine.get_params(deep=False)
    is_mercer = type(machine).__module__.startswith("mercer.")
    gamma = gamma_of(params["kernel"]) if is_mercer and "kernel" in params else ""
    spread = 1.0
    if is_regressor(machine) and y is not None:
        spread = float(np.std(np.asarray(y, dtype=np.float64))) or 1.0
    gammas = {f"{path}{gamma}": coarse_values("gamma", search, X, y)} if gamma else {}
    other = next((name for name in _OTHERS if name in params and is_mercer), "")
    if other and ("C" not in params or other == "n_neighbors"):
        return {"param_grid": {f"{path}{other}": list(_OTHERS[other]), **gammas}}
    axes: dict[str, Any] = {"gamma": ZOOM} if gamma else {}
    if "C" in params:
        axes["C"] = [spread * value for value in _PENALTIES] if is_regressor(machine) else ZOOM
    if "epsilon" in params and is_regressor(machine):
        axes["epsilon"] = [spread * value for value in _TUBES]
    if "nu" in params:
        axes["nu"] = [_largest_nu(machine, y) * share for share in _SHARES]
    if not axes:
        raise ValueError(
            f"there is nothing to search of {type(machine).__name__} by default: give param_grid={{...}}, or values "
            "for kernels, C, gamma, epsilon or nu."
        )
    return axes


def _largest_nu(machine: Any, y: Any) -> float:
    """Return the largest nu of a machine that is feasible on most of the rows; for classes, by the sizes of a pair."""
    if y is None or is_regressor(machine):
        return 1.0
    counts = np.sort(np.unique(np.asarray(y), return_counts=True)[1])
    return float(2.0 * counts[0] / (counts[0] + counts[-1]))
