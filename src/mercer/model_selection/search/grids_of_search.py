"""The grids of settings that a search is asked to try: values by the names of parameters, a list, or axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.model_selection import ParameterGrid

from mercer.data.phrasing import listing, nearest_names
from mercer.model_selection.search.pipelines import machine_of, path_of
from mercer.model_selection.search.settings import (
    PENALTIES,
    ZOOMED,
    axis,
    gamma_of,
    listed,
    refuse_axes,
    require_gamma,
)


def asks_nothing(search: Any) -> bool:
    """Return whether a search is asked for no settings at all."""
    names = ("param_grid", "candidates", "kernels", "gamma", *PENALTIES)
    return all(getattr(search, name) is None for name in names)


def grids_of(search: Any) -> list[dict[str, list[Any]]]:
    """Return the grids that GridSearchCV would be given for the same search, which zooms no axis.

    Raises
    ------
    ValueError
        If an axis is empty, or of something that the machine or all its kernels do not have.
    """
    machine, path = machine_of(search.estimator), path_of(search.estimator)
    if search.param_grid is not None:
        refuse_axes(search)
        return _asked_grids(search.param_grid, search.estimator)
    if search.candidates is not None:
        refuse_axes(search)
        return [{name: [value] for name, value in one.items()} for one in listed(search.candidates)]
    axes = {name: axis(name, getattr(search, name)) for name in ("C", "epsilon", "nu", "gamma")}
    kernels = axis("kernels", search.kernels)
    params = machine.get_params(deep=False)
    missing = [
        name for name, values in {**axes, "kernel": kernels}.items() if values is not None and name not in params
    ]
    if missing:
        raise ValueError(
            f"{type(machine).__name__} has no parameter {missing[0]!r} to search over: the axes here are kernels, "
            "C, gamma, epsilon and nu; give others by their names, as in param_grid={'alpha': [0.1, 1.0]}."
        )
    is_own = type(machine).__module__.startswith("mercer.") and "kernel" in params
    if axes["gamma"] is not None and is_own:
        require_gamma(params["kernel"], kernels, axes["gamma"][0])
    grids = []
    for kernel in kernels or [params.get("kernel")]:
        grid = {path + name: axes[name] for name in ("C", "epsilon", "nu") if axes[name] is not None}
        if kernels is not None:
            grid[path + "kernel"] = [kernel]
        name = gamma_of(kernel) if is_own else "gamma"
        if axes["gamma"] is not None and name:
            grid[path + name] = axes["gamma"]
        grids.append(grid)
    if not any(grids):
        raise ValueError("there is nothing to search: give values for kernels, C, gamma, epsilon or nu.")
    return grids  # type: ignore[return-value]


def _asked_grids(asked: Any, estimator: Any) -> list[dict[str, list[Any]]]:
    """Return the grids of `param_grid`, where names of the machine need no prefix."""
    grids = [asked] if isinstance(asked, Mapping) else asked
    if not (isinstance(grids, list | tuple) and grids and all(isinstance(one, Mapping) and one for one in grids)):
        raise ValueError(
            "param_grid must be a dict of values by the names of parameters, such as {'C': [1.0, 10.0], 'gamma': "
            f"[0.1]}}, or a list of these, got {asked!r}."
        )
    params, path = estimator.get_params(), path_of(estimator)
    checked = []
    for grid in grids:
        named = {str(name) if name in params else f"{path}{name}": values for name, values in grid.items()}
        for name, values in named.items():
            if name not in params:
                raise ValueError(_unknown(name.removeprefix(path), params, path, estimator))
            if isinstance(values, str):
                short = name.removeprefix(path)
                zoomed = f", or KernelSearchCV(..., {short}={values!r})" if short in ZOOMED and values == "zoom" else ""
                raise ValueError(f"param_grid[{name!r}] must be a sequence of values, got {values!r}{zoomed}.")
        ParameterGrid(named)  # its errors name a parameter without values
        checked.append({name: list(values) for name, values in named.items()})
    return checked


def _unknown(name: str, params: dict[str, Any], path: str, estimator: Any) -> str:
    other = {"kernels": "kernel"}.get(name)
    machine = [one.removeprefix(path) for one in params if one.startswith(path)]
    if name.startswith("kernel__") and isinstance(text := params.get(f"{path}kernel"), str):
        return (
            f"param_grid has {name!r}, but the kernel of the machine is a text, whose parts have no parameters: give "
            f"kernel=mercer.kernels.as_kernel({text!r})"
        )
    near = [other] if other in machine else nearest_names(name, [*machine, *params])
    meant = f"did you mean {listing(near, 'or')}?" if near else f"there are {listing(sorted(machine), most=12)}."
    return f"param_grid has {name!r}, which is no parameter of {type(machine_of(estimator)).__name__}: {meant}"
