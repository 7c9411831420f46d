"""The claims of a machine in a model file: the fields of its certificate."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from mercer.certificates import Certificate, Status, largest_gap, relative_gap
from mercer.solvers.smooth import Separation
from mercer.specs import MachineSpec, QuadraticSpec
from mercer.studies.models.refusals import real, refuse, text

# These may be infinite: without a dual point, or for a machine that does not separate the classes, with C = inf.
_UNBOUNDED = {"primal", "dual", "gap", "relative_gap", "gradient_violation", "rounding"}
_UNBOUNDED |= {"exact_primal", "exact_dual", "estimated_dual"}  # of an approximate machine: nothing is proved
_NOT_NEGATIVE = (
    *("kkt_violation", "gradient_violation", "dual_infeasibility", "rounding", "decision_error", "seconds"),
    *("absolute_gap", "criterion", "tol", "tol_gap"),
)
_NOT_IN_FILES = ("parts", "evidence", "objective_error")
_BY_GAP = ("LinearSVC", "JointLinearSVC", "LinearSVR", "LogisticByRest", "GradientKernelSVC")
"""Machines whose certificates had the relative gap as `violation`, and its tolerance as `tol`, before version 5."""


def claim_dict(claim: Any) -> dict[str, Any] | None:
    """Return the claims of a machine as JSON values."""
    if claim is None:
        return None
    values = {one.name: getattr(claim, one.name) for one in fields(claim) if one.name not in _NOT_IN_FILES}
    return {name: number_of(value) if isinstance(value, float) else value for name, value in values.items()}


def claim_of_version_4(entry: dict[str, Any] | None, machine_spec: dict[str, Any]) -> dict[str, Any] | None:
    """Return the claims of a machine in the current version; before, the fields had a meaning for each kind of machine.

    What an earlier file did not state is None. A status that says more than the numbers prove becomes `stalled`.
    """
    if entry is None or "rounding" not in entry:  # a separation, which has no such fields
        return entry
    machine = machine_spec["type"]
    primal, dual, stated = (_read(entry[name]) for name in ("primal", "dual", "relative_gap"))
    relative = relative_gap(primal, dual)
    fields = {name: entry.get(name) for name in ("kkt_violation", "n_support", "n_free", "n_bounded", "tol_gap")}
    fields |= {"gradient_violation": None, "rounding": None, "decision_error": entry["rounding"], "absolute_gap": 0.0}
    if machine == "LogisticRegression":  # the gap decides now, and the objective is in units of 1 / C
        variance = _read(machine_spec["prior_variance"])
        unit = variance if math.isfinite(variance) else 1.0
        fields |= {name: number_of(unit * _read(entry[name])) for name in ("primal", "dual", "gap")}
        fields |= {"decision_error": None, "tol": None, "tol_gap": largest_gap(entry["tol"])}
    elif "violation" in entry and machine not in _BY_GAP:
        fields |= {"gradient_violation": entry["violation"]}
        if math.isfinite(relative):
            fields |= {"tol_gap": largest_gap(entry["tol"]), "absolute_gap": max(0.0, _read(entry["gap"]))}
    elif "violation" in entry:
        fields |= {"tol": None, "tol_gap": entry["tol"]}
        if machine != "GradientKernelSVC":  # its rounding was a share of the gap
            share = _read(entry["rounding"])
            rounding = share * (_read(entry["gap"]) / stated if stated > 0.0 and math.isfinite(stated) else 0.0)
            fields |= {"rounding": number_of(rounding), "decision_error": None}
        if entry["status"] == Status.OPTIMAL and not relative <= entry["tol"]:
            fields |= {"status": str(Status.STALLED)}
    entries = {name: value for name, value in entry.items() if name != "violation"}
    return {**entries, **fields, "relative_gap": number_of(relative)}


def _read(value: Any) -> float:
    return float(value)  # the name of infinity, too


def number_of(value: float) -> float | str:
    """Return a number, or the name of infinity, because JSON has no infinite numbers."""
    return value if math.isfinite(value) else str(value)


def read_claim(entry: Any, machine_spec: MachineSpec, *, has_one: bool) -> Any:
    """Return the claims of a machine, a value of type `machine_spec.claims`; all its fields must be in the file."""
    kind = machine_spec.certificate_type if has_one else None
    if kind is None:
        if entry is not None:
            refuse("a machine has a certificate, and should not have one")
        return None
    assert issubclass(kind, Certificate | Separation)
    wanted = {field.name: field.type for field in fields(kind) if field.name not in _NOT_IN_FILES}
    unbounded = _UNBOUNDED - {"dual", "rounding"} if isinstance(machine_spec, QuadraticSpec) else _UNBOUNDED
    entry = {"choice": "", **entry}  # files of earlier versions have no choice
    values = {name: _claimed(entry[name], name, str(of_type), name in unbounded) for name, of_type in wanted.items()}
    for name in machine_spec.stated:
        if values[name] is None:
            refuse(f"its certificate has no {name}, which that of a {machine_spec.machine} must have")
    for name in _NOT_NEGATIVE:
        value = values.get(name)
        if value is not None and (value < 0.0 or (value == 0.0 and name.startswith("tol"))):
            refuse(f"its certificate's {name} is {value!r}, which cannot be")
    return kind(**values)


def _claimed(value: Any, name: str, of_type: str, may_be_infinite: bool) -> Any:
    if of_type == "Status":
        return Status(value)
    if value is None and of_type.endswith("None"):
        return None
    if of_type == "str":
        return text(value, name)
    if of_type.startswith("int"):
        if type(value) is not int or not 0 <= value < 2**63:
            refuse(f"its certificate's {name} is {value!r}, which is no count")
        return value
    if of_type == "bool":
        if not isinstance(value, bool):
            refuse(f"its certificate's {name} is {value!r}, which is neither true nor false")
        return value
    return real(value, name, not may_be_infinite)
