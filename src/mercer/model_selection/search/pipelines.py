"""What a pipeline is made of: the machine that ends it, and the steps before it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from sklearn.pipeline import Pipeline


def machine_of(estimator: Any) -> Any:
    """The estimator, or what ends the pipeline that it is."""
    return machine_of(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def path_of(estimator: Any) -> str:
    """What the names of the machine's parameters begin with: "svc__" in a pipeline that a step "svc" ends."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{path_of(last)}"
    return ""


def steps_of(estimator: Any) -> list[Any]:
    """The steps of a pipeline, with those of the pipeline that ends it; an estimator alone is one step."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    *before, (_, last) = estimator.steps
    return [*(step for _, step in before), *steps_of(last)]


def rebuilt(estimator: Any, steps: Iterator[Any]) -> Any:
    """A pipeline of other steps, those of :func:`steps_of` one after the other."""
    if not isinstance(estimator, Pipeline):
        return next(steps)
    *before, (name, last) = estimator.steps
    built = copy(estimator)
    built.steps = [*((own, next(steps)) for own, _ in before), (name, rebuilt(last, steps))]
    return built


def remembers(estimator: Any) -> bool:
    """Whether a pipeline, or one in it, does more than its steps."""
    if not isinstance(estimator, Pipeline):
        return False
    more = type(estimator) is not Pipeline or estimator.memory is not None
    more = more or getattr(estimator, "transform_input", None) is not None
    return more or any(remembers(step) for _, step in estimator.steps)
