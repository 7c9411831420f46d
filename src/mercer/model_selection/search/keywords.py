"""Other names that are written for what a search tries: ``kernel=[...]``, and ``svc__C=[...]`` of a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from mercer.data.phrasing import listing, nearest_names
from mercer.model_selection.search.pipelines import machine_of, path_of

Init = TypeVar("Init", bound=Callable[..., None])


def with_other_names(init: Init) -> Init:
    """Return the `__init__` of a search that also takes these names, and says what to write for others."""
    names = tuple(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
        others = {name: kwargs.pop(name) for name in [*kwargs] if name not in names}
        if others:
            kwargs |= _translated(others, kwargs, kwargs.get("estimator", args[0] if args else None))
        init(self, *args, **kwargs)

    return cast(Init, initialised)


def _translated(others: dict[str, Any], given: dict[str, Any], estimator: Any) -> dict[str, Any]:
    """Return keywords of other names as those of the search; TypeError if there is no such keyword."""
    kernels = {"kernels": others.pop("kernel")} if "kernel" in others and "kernels" not in given else {}
    if others and all("__" in name for name in others) and given.get("param_grid") is None:
        return {**kernels, "param_grid": others}
    if not others:
        return kernels
    name = next(iter(others))
    raise TypeError(f"KernelSearchCV has no keyword {name!r}: {_remedy(name, given, estimator)}")


def _remedy(name: str, given: dict[str, Any], estimator: Any) -> str:
    if "__" in name:
        return f"write it into param_grid, beside {listing(sorted(map(str, given['param_grid'])))}"
    if name == "kernel":
        return "kernels has the values of the machine's kernel; give one of them"
    params = {} if estimator is None or not hasattr(estimator, "get_params") else estimator.get_params()
    path = path_of(estimator)
    if path + name in params:
        return f"write KernelSearchCV(..., {{{path + name!r}: [...]}}) to try values of it"
    keywords = ("kernels", "C", "gamma", "epsilon", "nu", "candidates", "param_grid", "max_seconds", "scoring", "cv")
    near = nearest_names(name, (*keywords, *machine_of(estimator).get_params()) if params else keywords)
    return f"did you mean {listing(near, 'or')}?" if near else f"to search there are {listing(keywords[:7])}"
