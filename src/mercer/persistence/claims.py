"""The claims of a machine in a model file: the fields of its certificate."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from mercer.certificates.certificate import Certificate
from mercer.certificates.status import Status
from mercer.losses.certificate import LossCertificate
from mercer.losses.perceptron import Separation
from mercer.persistence.refusals import real, refuse

# These may be infinite for a machine that does not separate the classes, with C = inf.
_UNBOUNDED = {"primal", "gap", "relative_gap"}
_UNBOUNDED_LOSS = _UNBOUNDED | {"dual", "violation"}  # may also be infinite without a penalty
_NOT_NEGATIVE = (
    *("kkt_violation", "violation", "dual_infeasibility", "rounding", "seconds", "criterion"),
    *("tol", "tol_gap"),
)
_NOT_IN_FILES = ("parts", "evidence", "objective_error", "objective_rounding")


def claim_dict(claim: Any) -> dict[str, Any] | None:
    """Return the claims of a machine as JSON values."""
    if claim is None:
        return None
    values = {one.name: getattr(claim, one.name) for one in fields(claim) if one.name not in _NOT_IN_FILES}
    return {name: number_of(value) if isinstance(value, float) else value for name, value in values.items()}


def number_of(value: float) -> float | str:
    """Return a number, or the name of infinity, because JSON has no infinite numbers."""
    return value if math.isfinite(value) else str(value)


def read_claim(entry: Any, kind: type | None) -> Any:
    """Return the claims of a machine: a value of type `kind`; all its fields must be in the file."""
    if kind is None:
        if entry is not None:
            refuse("a machine has a certificate, and should not have one")
        return None
    assert issubclass(kind, Certificate | LossCertificate | Separation)
    wanted = {field.name: field.type for field in fields(kind) if field.name not in _NOT_IN_FILES}
    values = {name: _claimed(entry[name], name, str(of_type), kind) for name, of_type in wanted.items()}
    for name in _NOT_NEGATIVE:
        value = values.get(name)
        if value is not None and (value < 0.0 or (value == 0.0 and name.startswith("tol"))):
            refuse(f"its certificate's {name} is {value!r}, which cannot be")
    return kind(**values)


def _claimed(value: Any, name: str, of_type: str, kind: type) -> Any:
    if of_type == "Status":
        return Status(value)
    if of_type == "int":
        if type(value) is not int or not 0 <= value < 2**63:
            refuse(f"its certificate's {name} is {value!r}, which is no count")
        return value
    if of_type == "bool":
        if not isinstance(value, bool):
            refuse(f"its certificate's {name} is {value!r}, which is neither true nor false")
        return value
    if value is None and of_type.endswith("None"):
        return None
    of_loss = issubclass(kind, LossCertificate)
    unbounded = _UNBOUNDED if kind is Certificate else _UNBOUNDED_LOSS if of_loss else ()
    return real(value, name, name not in unbounded)
