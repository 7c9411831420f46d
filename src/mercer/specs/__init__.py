"""Specifications of machines: the parameters of a fitted machine, and the problem that they define.

There are three kinds of machines: those whose dual is a quadratic problem with bounds (`quadratic`), those that
minimise another loss (`losses`), and those that solve no optimisation problem (`instance_based`). A new machine is one
class here; from it follow the content of its model file, its prediction and its verification.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from mercer.specs.approximate import ApproximateSpec as ApproximateSpec
from mercer.specs.approximate import ForApproximateOneClassSVM as ForApproximateOneClassSVM
from mercer.specs.approximate import ForApproximateSVC as ForApproximateSVC
from mercer.specs.approximate import ForApproximateSVR as ForApproximateSVR
from mercer.specs.approximate import approximate_spec as approximate_spec
from mercer.specs.instance_based import ForKernelNeighborsClassifier as ForKernelNeighborsClassifier
from mercer.specs.instance_based import ForKernelNeighborsRegressor as ForKernelNeighborsRegressor
from mercer.specs.instance_based import ForKernelPerceptron as ForKernelPerceptron
from mercer.specs.instance_based import ForParzenClassifier as ForParzenClassifier
from mercer.specs.instance_based import InstanceBasedSpec as InstanceBasedSpec
from mercer.specs.linear import ForJointLinearSVC as ForJointLinearSVC
from mercer.specs.linear import ForLinearSVC as ForLinearSVC
from mercer.specs.linear import ForLinearSVR as ForLinearSVR
from mercer.specs.linear import ForLogisticRegression as ForLogisticRegression
from mercer.specs.linear import LinearSpec as LinearSpec
from mercer.specs.linear_training import LinearMachines as LinearMachines
from mercer.specs.linear_training import LinearTask as LinearTask
from mercer.specs.linear_training import class_tasks as class_tasks
from mercer.specs.linear_training import linear_values_by_folds as linear_values_by_folds
from mercer.specs.linear_training import train_linear as train_linear
from mercer.specs.losses import ForGradientKernelSVC as ForGradientKernelSVC
from mercer.specs.losses import ForKernelLogisticRegression as ForKernelLogisticRegression
from mercer.specs.losses import ForKernelRidge as ForKernelRidge
from mercer.specs.losses import ForLeastSquaresClassifier as ForLeastSquaresClassifier
from mercer.specs.losses import ForLeastSquaresSVC as ForLeastSquaresSVC
from mercer.specs.losses import LossSpec as LossSpec
from mercer.specs.machine_spec import MachineSpec as MachineSpec
from mercer.specs.machine_spec import Point as Point
from mercer.specs.quadratic import ForJointSVC as ForJointSVC
from mercer.specs.quadratic import ForNuSVC as ForNuSVC
from mercer.specs.quadratic import ForNuSVR as ForNuSVR
from mercer.specs.quadratic import ForOneClassSVM as ForOneClassSVM
from mercer.specs.quadratic import ForQuantileSVR as ForQuantileSVR
from mercer.specs.quadratic import ForSVC as ForSVC
from mercer.specs.quadratic import ForSVDD as ForSVDD
from mercer.specs.quadratic import ForSVR as ForSVR
from mercer.specs.quadratic import QuadraticSpec as QuadraticSpec
from mercer.specs.streamed import Outside as Outside
from mercer.specs.streamed import StreamedTask as StreamedTask
from mercer.specs.streamed import look as look
from mercer.specs.streamed import numbers_of_all as numbers_of_all
from mercer.specs.streamed import status_of as status_of

SPECS_BY_NAME: dict[str, type[MachineSpec]] = {
    one.machine: one
    for one in (
        *(ForSVC, ForJointSVC, ForNuSVC, ForSVR, ForNuSVR, ForQuantileSVR, ForOneClassSVM, ForSVDD),
        *(ForKernelRidge, ForLeastSquaresSVC, ForKernelLogisticRegression, ForGradientKernelSVC),
        *(ForLogisticRegression, ForLeastSquaresClassifier, ForLinearSVC, ForLinearSVR),
        *(ForJointLinearSVC, ForApproximateSVC, ForApproximateSVR, ForApproximateOneClassSVM),
        *(ForKernelPerceptron, ForParzenClassifier, ForKernelNeighborsClassifier, ForKernelNeighborsRegressor),
    )
}


def from_dict(entry: Any) -> MachineSpec:
    """Return the specification that `to_dict` wrote; raise ValueError, TypeError or KeyError if `entry` is invalid."""
    machine_spec = SPECS_BY_NAME[entry["type"]]
    wanted = {field.name: field.type for field in fields(machine_spec)}
    given = entry.keys() - {"type"}
    added = _ADDED.get(machine_spec.machine, set())  # files that are older than these parameters lack them
    if not wanted.keys() - added <= given <= wanted.keys():
        raise ValueError(f"the parameters of a {machine_spec.machine} are {sorted(wanted)}, got {sorted(given)}")
    return machine_spec(**{name: _value(entry[name], kind) for name, kind in wanted.items() if name in given})


_ADDED = {ForKernelNeighborsClassifier.machine: {"by_distance"}}
"""Parameters that are not in all files of the current version, by machine; they have defaults."""


def _value(value: Any, kind: Any) -> Any:
    """Return a JSON number or "inf" as a float if the field is a float; return other values unchanged."""
    if kind != "float" or isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.inf if value == "inf" and kind == "float" else value
    return float(value)
