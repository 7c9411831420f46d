"""What is certified of a trained machine, in sentences, and how many support vectors it has."""

from __future__ import annotations

import math

from mercer.certificates import LARGE_GAP, ApproximateCertificate, Certificate, Status, share_of_primal
from mercer.specs import MachineSpec, QuadraticSpec
from mercer.studies.models import CellLayout, Model
from mercer.studies.report.numbers import count, percent, small

ROUNDING = 1e-12
"""Relative duality gaps below are what rounding leaves of none."""


def support(model: Model) -> str:
    """How many of the training rows are support vectors, each counted once, or what the machine has instead."""
    if not isinstance(model.machine_spec, QuadraticSpec):
        return _stored_certificate(model)
    if model.cells is not None:
        return _support_of_cells(model, model.cells)
    n, n_rows = len(model.support_rows), model.training.n_rows
    of_what, n_support = "", [len(part.support) for part in model.parts]
    if len(n_support) > 1 and not model.machine_spec.is_whole:
        of_what = f" of at least one of the {len(n_support)} machines, which have {_range(n_support)} each"
    # Of a machine that is not optimal, other rows than the support vectors may be what another fit would need.
    rest = n < n_rows and model.certificate.status is Status.OPTIMAL
    others = "; the others could be deleted without changing the machine" if rest else ""
    return f"{n:,} of {n_rows:,} training rows ({percent(n / n_rows)}) are support vectors{of_what}{others}."


def _support_of_cells(model: Model, cells: CellLayout) -> str:
    """How many training rows are support vectors of machines of cells."""
    used = {row for part in model.parts for row in part.support.tolist()}
    n_rows = model.training.n_rows
    constant = sum(cells.kind_of(cell, model.prediction_kind) is None for cell in range(cells.n_cells))
    same = f", {constant:,} of which have rows of one class only" if constant else ""
    of_all = f"{len(used):,} of {n_rows:,} training rows ({percent(len(used) / n_rows)})"
    return f"{of_all} are support vectors in {count(cells.n_cells, 'cell')}{same}."


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _stored_certificate(model: Model) -> str:
    """Which vectors the machine keeps."""
    if model.machine_spec.is_linear:
        return f"The machine is linear in {count(model.support_vectors.p, 'feature')}."
    if model.machine_spec.own_vectors is not None:
        return f"The machine has {count(model.support_vectors.n, 'centre')}."
    n, n_rows = len(model.support_rows), model.training.n_rows
    return f"The machine keeps {n:,} of {n_rows:,} training rows ({percent(n / n_rows)})."


def parameters(machine_spec: MachineSpec) -> dict[str, float]:
    """The numbers that a machine was trained with, by the names that the estimators give them."""
    parameters_found = machine_spec.to_dict().items()
    numbers = {
        name: one for name, one in parameters_found if isinstance(one, (int, float)) and not isinstance(one, bool)
    }
    named = {"scaling": "intercept_scaling"}
    return {named.get(name, name): one for name, one in numbers.items() if name not in machine_spec.unused}


def fixed(model: Model) -> str:
    """What machines have in common with which a certificate compares this one."""
    machine_spec = model.machine_spec
    kernel = [] if machine_spec.is_linear else ["this kernel"]
    names = [name for name, one in parameters(machine_spec).items() if name != "l1_ratio" or one]
    return listed([*kernel, *(f"this {name.replace('_', ' ')}" for name in names)])


def certainty(model: Model) -> str:
    """What a model's certificate says, and what it does not."""
    certificate, machine_spec = model.certificate, model.machine_spec
    if isinstance(certificate, ApproximateCertificate):
        return _certainty_of_approximation(model, certificate)
    if not isinstance(machine_spec, QuadraticSpec):
        return _certainty_of_loss(model)
    gap = share_of_primal(abs(certificate.relative_gap), certificate.primal, certificate.dual)
    if certificate.status is Status.OPTIMAL and gap > LARGE_GAP:
        smaller = "A smaller C, or a" if "C" in parameters(machine_spec) else "A"
        return (
            "The machine is certified to meet the optimality conditions: no training row breaks them by more than "
            f"{small(certificate.kkt_violation)}, and {small(certificate.tol)} was allowed. That its training "
            f"objective is the lowest is not certified: the relative duality gap is {small(gap)}, so another "
            f"machine with {fixed(model)} may have one that is lower by up to {small(100 * gap)} percent. {smaller} "
            f"tolerance for the gap (tol_gap of mercer.{machine_spec.estimator}, --tol-gap of mercer fit), makes it "
            "small, too."
        )
    if certificate.status is Status.OPTIMAL:
        how_much = (
            "at all, to within rounding" if is_rounding(certificate) else f"by more than {small(100 * gap)} percent"
        )
        return (
            f"The machine is certified optimal: no other machine with {fixed(model)} can lower its training objective "
            f"{how_much}."
        )
    advice = _stalled(certificate) if certificate.status is Status.STALLED else certificate.status.advice
    return (
        f"The machine is not certified optimal (relative duality gap "
        f"{small(beyond_rounding(certificate, certificate.relative_gap))}, violation "
        f"{small(certificate.kkt_violation)}). {advice}"
    )


def _certainty_of_approximation(model: Model, certificate: ApproximateCertificate) -> str:
    """What the certificate of an approximate machine says."""
    distance = share_of_primal(certificate.distance_to_exact, certificate.exact_primal, certificate.exact_dual)
    proved = (
        f"no machine with {fixed(model)} can lower its training objective by more than {small(100 * distance)} percent"
        if math.isfinite(distance)
        else f"its distance to the exact machine is {certificate.distance_in_words}"
    )
    ended = "" if certificate.status is Status.OPTIMAL else f" It ended as “{certificate.status}”. {certificate.advice}"
    return f"The machine is approximate: {certificate.approximation}, and {proved}.{ended}"


def _stalled(certificate: Certificate) -> str:
    """Why a fit went no further: what it reached cannot be told from rounding, or rounding lets it reach no more."""
    assert certificate.kkt_violation is not None
    assert certificate.tol is not None
    if certificate.kkt_violation > certificate.tol:
        why = (
            f"Rounding in float64 lets the violation come no further down towards the {small(certificate.tol)} allowed"
        )
    elif certificate.tol_gap is not None and certificate.relative_gap > certificate.tol_gap:
        why = (
            f"The violation is within the {small(certificate.tol)} allowed, but rounding in float64 lets the gap come "
            f"no further down towards the {small(certificate.tol_gap)} allowed"
        )
    else:
        why = (
            f"The violation is within the {small(certificate.tol)} allowed as far as it can be told, but rounding in "
            f"float64 may hide as much as {small(certificate.decision_error or 0.0)}"
        )
    return f"{why}. A larger tolerance asks for less; a lower C, gamma or degree leaves less to rounding."


def in_short(certificate: Certificate) -> str:
    """The gap, or the distance of an approximate machine to the exact one."""
    if not isinstance(certificate, ApproximateCertificate):
        return f"relative gap {small(beyond_rounding(certificate, certificate.relative_gap))}"
    distance = certificate.distance_to_exact
    return (
        f"distance to exact at most {small(100 * distance)} %"
        if math.isfinite(distance)
        else "distance to exact unknown"
    )


def beyond_rounding(certificate: Certificate, gap: float) -> float:
    """A gap of the certificate, 0 where it is no more than rounding."""
    return 0.0 if is_rounding(certificate) else gap


def is_rounding(certificate: Certificate) -> bool:
    """Whether the gap is no more than rounding, which it includes."""
    return abs(certificate.relative_gap) < ROUNDING or certificate.gap <= certificate.absolute_gap


def numbers(model: Model) -> str:
    """The certificate's numbers in a line."""
    certificate = model.certificate
    if not isinstance(model.machine_spec, QuadraticSpec) or model.cells is not None:
        return _numbers_of_loss(model)
    return (
        f"Certificate: {certificate.status}; duality gap {beyond_rounding(certificate, certificate.gap):.3g} "
        f"(relative {beyond_rounding(certificate, certificate.relative_gap):.3g}), KKT violation "
        f"{certificate.kkt_violation:.3g} (tolerance {certificate.tol:g}); {len(model.support_rows):,} support vectors "
        f"of {model.training.n_rows:,} training rows."
    )


def _certainty_of_loss(model: Model) -> str:
    """What the certificate of a machine with another loss says."""
    certificate = model.certificate
    if certificate.status is not Status.OPTIMAL:
        return (
            f"The machine is not certified optimal but ended as “{certificate.status}” (relative duality gap "
            f"{small(certificate.relative_gap)}{_violated(certificate)}). {certificate.advice}"
        )
    if not math.isfinite(certificate.relative_gap):
        return (
            "The machine is certified to meet the optimality conditions: no condition is broken by more than "
            f"{small(certificate.gradient_violation)}, and {small(certificate.tol)} was allowed."
        )
    gap = share_of_primal(abs(certificate.relative_gap), certificate.primal, certificate.dual)
    how_much = "at all, to within rounding" if is_rounding(certificate) else f"by more than {small(100 * gap)} percent"
    return (
        f"The machine is certified optimal: no other machine with {fixed(model)} can lower its training "
        f"objective {how_much}."
    )


def _numbers_of_loss(model: Model) -> str:
    """The certificate's numbers in a line."""
    certificate = model.certificate
    why = (
        ""
        if model.seal is None or isinstance(certificate, ApproximateCertificate)
        else " A study trains its final linear machine to its own tolerance and, where that takes little time, further "
        "to 1/10,000 of it, so that the signs of more weights are proved."
    )
    of_features = " of its own problem on features" if isinstance(certificate, ApproximateCertificate) else ""
    of_features = " of all cells together" if model.cells is not None else of_features
    return (
        f"Certificate{of_features}: {certificate.status}; duality gap {certificate.gap:.3g} (relative "
        f"{certificate.relative_gap:.3g}{_tolerance(certificate.tol_gap)}){_violated(certificate)}"
        f"{_tolerance(certificate.tol, ' (', ')')}.{why}"
    )


def _violated(certificate: Certificate) -> str:
    """The violation that the machine's tolerance limits, if it limits one."""
    if certificate.named_violation is None or certificate.tol is None:
        return ""
    name, value = certificate.named_violation
    return f", {name} {small(value)}"


def _tolerance(tol: float | None, before: str = ", ", after: str = "") -> str:
    return "" if tol is None else f"{before}tolerance {tol:g}{after}"


def listed(parts: list[str]) -> str:
    """A list in words: C, epsilon and gamma."""
    if not parts:
        return ""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
