"""What a machine was asked for, as a value: its parameters, and what they make of targets and weights.

Machines of three kinds: whose dual is a quadratic problem with bounds (`duals`), that minimise another loss (`losses`),
and that minimise nothing (`memories`). A new machine is one class here: what a model file holds of it, how it predicts
and how `verify` proves it again follow.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from mercer.recipes.base import Point as Point
from mercer.recipes.base import Recipe as Recipe
from mercer.recipes.duals import DualRecipe as DualRecipe
from mercer.recipes.duals import ForJointSVC as ForJointSVC
from mercer.recipes.duals import ForNuSVC as ForNuSVC
from mercer.recipes.duals import ForNuSVR as ForNuSVR
from mercer.recipes.duals import ForOneClassSVM as ForOneClassSVM
from mercer.recipes.duals import ForQuantileSVR as ForQuantileSVR
from mercer.recipes.duals import ForSVC as ForSVC
from mercer.recipes.duals import ForSVDD as ForSVDD
from mercer.recipes.duals import ForSVR as ForSVR
from mercer.recipes.losses import ForGradientKernelSVC as ForGradientKernelSVC
from mercer.recipes.losses import ForKernelLogisticRegression as ForKernelLogisticRegression
from mercer.recipes.losses import ForKernelRidge as ForKernelRidge
from mercer.recipes.losses import ForLeastSquaresClassifier as ForLeastSquaresClassifier
from mercer.recipes.losses import ForLeastSquaresSVC as ForLeastSquaresSVC
from mercer.recipes.losses import ForLogisticRegression as ForLogisticRegression
from mercer.recipes.losses import LossRecipe as LossRecipe
from mercer.recipes.memories import ForKernelNeighborsClassifier as ForKernelNeighborsClassifier
from mercer.recipes.memories import ForKernelPerceptron as ForKernelPerceptron
from mercer.recipes.memories import ForParzenClassifier as ForParzenClassifier
from mercer.recipes.memories import MemoryRecipe as MemoryRecipe

RECIPES: dict[str, type[Recipe]] = {
    one.machine: one
    for one in (
        *(ForSVC, ForJointSVC, ForNuSVC, ForSVR, ForNuSVR, ForQuantileSVR, ForOneClassSVM, ForSVDD),
        *(ForKernelRidge, ForLeastSquaresSVC, ForKernelLogisticRegression, ForGradientKernelSVC),
        *(ForLogisticRegression, ForLeastSquaresClassifier),
        *(ForKernelPerceptron, ForParzenClassifier, ForKernelNeighborsClassifier),
    )
}


def from_dict(entry: Any) -> Recipe:
    """The recipe that `to_dict` described; ValueError, TypeError or KeyError where it describes none."""
    recipe = RECIPES[entry["type"]]
    wanted = {field.name: field.type for field in fields(recipe)}
    if entry.keys() != wanted.keys() | {"type"}:
        raise ValueError(
            f"the parameters of a {recipe.machine} are {sorted(wanted)}, got {sorted(entry.keys() - {'type'})}"
        )
    return recipe(**{name: _value(entry[name], kind) for name, kind in wanted.items()})


def _value(value: Any, kind: Any) -> Any:
    """A number of JSON as a float, other things as they are."""
    if kind != "float" or isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.inf if value == "inf" and kind == "float" else value
    return float(value)
