"""Access to the parts of a pipeline: the machine at its end, and the steps before it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from mercer.approximate import Choice
from mercer.estimators._approximate import Approximates


def machine_of(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself if it is not a pipeline."""
    return machine_of(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def path_of(estimator: Any) -> str:
    """Return the prefix of the machine's parameter names, such as "svc__" if the last step is called "svc"."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{path_of(last)}"
    return ""


def steps_of(estimator: Any) -> list[Any]:
    """Return all steps of a pipeline, including the steps of nested pipelines at its end."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    *before, (_, last) = estimator.steps
    return [*(step for _, step in before), *steps_of(last)]


def rebuilt(estimator: Any, steps: Iterator[Any]) -> Any:
    """Return a copy of the pipeline with other steps, given in the order of :func:`steps_of`."""
    if not isinstance(estimator, Pipeline):
        return next(steps)
    *before, (name, last) = estimator.steps
    built = copy(estimator)
    built.steps = [*((name, next(steps)) for name, _ in before), (name, rebuilt(last, steps))]
    return built


def remembers(estimator: Any) -> bool:
    """Return whether a pipeline, or a nested one, has a cache, transforms inputs or is a subclass."""
    if not isinstance(estimator, Pipeline):
        return False
    more = type(estimator) is not Pipeline or estimator.memory is not None
    more = more or getattr(estimator, "transform_input", None) is not None
    return more or any(remembers(step) for _, step in estimator.steps)


def with_choice(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None
) -> tuple[Any, Choice | None]:
    """Return the estimator with what ``approximation="auto"`` chooses on these rows, and the choice; None without it.

    The steps before the machine of a pipeline are fitted to all rows. The choice is in a folder of its own in the
    folder `checkpoint`, because the states of a search belong to what was chosen.
    """
    machine = machine_of(estimator)
    if not isinstance(machine, Approximates) or not machine._is_auto:
        return estimator, None
    rows, one = X, estimator
    while isinstance(one, Pipeline):
        if len(one.steps) > 1:
            rows = clone(one[:-1]).fit_transform(rows, y)
        one = one.steps[-1][1]
    given = rows, "no_validation" if y is None else y, sample_weight
    chooser = clone(machine)
    with chooser._checkpointed(checkpoint, *given, inside="choice"):
        choice = chooser._choose(*given)
    return clone(estimator).set_params(**{f"{path_of(estimator)}approximation": choice.way}), choice
