"""Comparison of a machine's claims with numbers recomputed from its training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates import Evaluation, Status, largest_rounding, worst_status
from mercer.gram import Gram
from mercer.problems import Problem
from mercer.specs import ApproximateSpec, InstanceBasedSpec, LossSpec, MachineSpec, Point

AGREEMENT = 1e-9
"""Relative difference up to which a recomputed objective counts as equal to the stored one."""


@dataclass(frozen=True)
class Slack:
    """Allowed differences between the numbers of an unchanged file and the recomputed ones.

    They depend only on recomputed values. `rounding` is for decision values, `dual` for the dual objective, and `gap`
    for the primal objective and the duality gap.
    """

    rounding: float
    dual: float
    gap: float

    @classmethod
    def of(cls, rounding: float, mass: float, engine: Gram) -> Slack:
        """Return the slack of decision values with this rounding; objectives have `mass` times as much."""
        doubled = 2.0 * rounding * max(1.0, engine.roundoff)
        return cls(doubled, doubled * mass, doubled * mass)

    @classmethod
    def of_point(cls, problem: Problem, evaluation: Evaluation, engine: Gram, beta: FloatArray) -> Slack:
        """Return the slack of a point of a box-constrained problem, whose bounds limit the error of the primal.

        It is at least twice the rounding that a fit with the kernel values of `engine` finds at this point.
        """
        slack = cls.of(evaluation.rounding, evaluation.mass, engine)
        of_fit = 2.0 * (largest_rounding(engine, beta, evaluation.values) + evaluation.offset_rounding)
        if of_fit > slack.rounding:
            slack = cls(of_fit, of_fit * evaluation.mass, of_fit * evaluation.mass)
        steepness = problem.steepness(evaluation.values, evaluation.multipliers, slack.rounding)
        return replace(slack, gap=slack.gap + slack.rounding * steepness)


def recomputed(
    machine_spec: MachineSpec,
    claim: Any,
    targets: FloatArray,
    weights: FloatArray,
    gram: Gram,
    engine: Gram,
    point: Point,
) -> tuple[Any, list[str]]:
    """Return what a machine without a box-constrained problem may claim, and where its claim disagrees.

    Parameters
    ----------
    machine_spec : LossSpec, InstanceBasedSpec or ApproximateSpec
    claim : Certificate, Separation or None
    targets : ndarray of shape (n, T)
    weights : ndarray of shape (n,)
    gram, engine : Gram
        Gram matrices of the n rows: `gram` gives the values, `engine` (native) gives their rounding bounds.
    point : Point

    Raises
    ------
    ValueError
        If there is no such machine, or numbers overflow.
    """
    if isinstance(machine_spec, InstanceBasedSpec | ApproximateSpec):
        return machine_spec.check(targets, weights, gram, point, claim)
    assert isinstance(machine_spec, LossSpec)
    evidence = machine_spec.evidence(targets, weights, gram, point)
    evaluation = evidence.evaluate(independent=True)
    scale = np.ones(1) if evidence.violation_scale is None else evidence.violation_scale
    slack = Slack.of(float(evaluation.decision_error.max()), float(weights.sum() * np.max(scale)), engine)
    both = 2.0 * (evaluation.rounding + evaluation.gap_rounding)
    slack = replace(slack, dual=slack.dual + both, gap=slack.gap + both)
    eased = evaluation._replace(
        violation=None if evaluation.violation is None else np.maximum(0.0, evaluation.violation - slack.rounding),
        gap=evaluation.gap - slack.gap,
        decision_error=0.5 * evaluation.decision_error,
    )
    certificate = recertified(claim, evidence, evaluation, eased)
    return certificate, disagreements(claim, certificate, slack)


def recertified(stored: Any, evidence: Any, evaluation: Any, eased: Any) -> Any:
    """Return the certificate that an evaluation supports; `optimal` must be proved again.

    The status may be worse than the stored one only by rounding, for instance if a violation was just within the
    tolerance. So if the evaluation `eased` (reduced by the rounding) supports the stored status, it is kept.
    """
    certificate = stored.with_evaluation(evidence, evaluation)
    if not is_worse(certificate.status, stored.status) or is_worse(
        stored.with_evaluation(evidence, eased).status, stored.status
    ):
        return certificate
    return replace(certificate, status=stored.status)


def is_worse(status: Status, than: Status) -> bool:
    """Return whether a status is worse than another."""
    return status is not than and worst_status([status, than]) is status


_OBJECTIVES = {
    "primal objective": "primal",
    "dual objective": "dual",
    "duality gap": "gap",
    "relative gap": "relative_gap",
}
_VIOLATIONS = {
    "KKT violation": "kkt_violation",
    "violation of stationarity": "gradient_violation",
    "dual infeasibility": "dual_infeasibility",
}
_COUNTS = {
    "support vectors": "n_support",
    "free support vectors": "n_free",
    "support vectors at their bound": "n_bounded",
}


def disagreements(stored: Any, recomputed_claim: Any, slack: Slack) -> list[str]:
    """Return a sentence for each claim that recomputation does not confirm; better numbers are accepted."""
    scale = max(
        [0.0, *(abs(value) for value in (recomputed_claim.primal, recomputed_claim.dual) if np.isfinite(value))]
    )
    findings = []
    for name, claimed, actual in _pairs(_OBJECTIVES, stored, recomputed_claim):
        unit = scale if name == "relative gap" else 1.0
        allowed = AGREEMENT * scale + (2.0 * slack.dual if name == "dual objective" else slack.gap)
        if claimed != actual and not abs(claimed - actual) * unit <= allowed:
            findings.append(f"the {name} is {claimed:.9g} in the file and {actual:.9g} recomputed")
    for name, claimed, actual in _pairs(_VIOLATIONS, stored, recomputed_claim):
        room = AGREEMENT * max(1.0, actual) if name == "dual infeasibility" else slack.rounding + AGREEMENT
        if actual is not None and not actual <= claimed + room:
            findings.append(f"the {name} is {claimed:.3g} in the file and {actual:.3g} recomputed")
    if stored.decision_error is not None and not stored.decision_error <= (1.0 + AGREEMENT) * slack.rounding:
        findings.append(
            f"the rounding error of a decision value is {stored.decision_error:.3g} in the file and at most "
            f"{slack.rounding:.3g} recomputed"
        )
    for name, claimed, actual in _pairs(_COUNTS, stored, recomputed_claim):
        if claimed != actual:
            findings.append(f"the number of {name} is {claimed} in the file and {actual} recomputed")
    if is_worse(recomputed_claim.status, stored.status):
        findings.append(f"the file says `{stored.status}`, recomputing says `{recomputed_claim.status}`")
    return findings


def _pairs(names: dict[str, str], stored: Any, recomputed_claim: Any) -> list[tuple[str, Any, Any]]:
    """Return the claims that the file makes; a file of an earlier version does not make all of them."""
    pairs = [
        (name, getattr(stored, key), getattr(recomputed_claim, key))
        for name, key in names.items()
        if hasattr(stored, key)
    ]
    return [(name, claimed, actual) for name, claimed, actual in pairs if claimed is not None]
