"""What `mercer fit` says of the machine that it trained, in paragraphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.certificates import Status
from mercer.data import listing
from mercer.persistence import Model
from mercer.specs import InstanceBasedSpec, QuadraticSpec
from mercer.study.report import prose
from mercer.study.report.decisions import by_costs
from mercer.study.report.numbers import count, percent, small
from mercer.tables import Classes, Table


def setting(model: Model) -> str:
    """The kernel, the parameters and the number of training rows, in a line."""
    parameters = [f"{name} = {value:g}" for name, value in prose.parameters(model.machine_spec).items()]
    kernel = [] if model.machine_spec.is_linear else [repr(model.kernel)]
    return ", ".join([model.machine_spec.machine, *kernel, *parameters, count(model.training.n_rows, "row")])


def paragraphs(model: Model, table: Table | None) -> list[str]:
    """The machine and what is certified of it; `table` holds the training rows, if they are in memory."""
    if isinstance(model.machine_spec, QuadraticSpec):
        said = [prose.support(model), *_decision(model, table), prose.certainty(model), prose.numbers(model)]
        return said if model.target is not None or table is None else [_outside(model, table), *said]
    if isinstance(model.machine_spec, InstanceBasedSpec):
        return [_kept(model), *_of_mistakes(model), f"This machine claims no optimum. {_VERIFIED}"]
    return [_kept(model), *_decision(model, table), _certainty_of_loss(model), _numbers_of_loss(model)]


def _decision(model: Model, table: Table | None) -> list[str]:
    """How predictions follow from costs, if there are any, and which classes are never predicted."""
    kind = model.prediction_kind
    if not isinstance(kind, Classes):
        return []
    said = [] if model.costs is None else [by_costs(kind.names, model.costs)]
    rows = model.training.rows
    if table is None or len(rows) > MAX_PREDICTED:
        return said
    found = set(model.predict(table.take(rows)).tolist())
    missed = [name for name, label in zip(kind.names, kind.labels.tolist(), strict=True) if label not in found]
    if missed:
        remedy = "--class-weight balanced" if model.costs is None else "other costs"
        said.append(f"No training row is predicted to be {listing(missed, last='or')}; {remedy} may change this.")
    return said


MAX_PREDICTED = 20_000
"""Training rows up to which they are predicted to see which classes are found."""


_VERIFIED = "`mercer verify` checks what it claims instead."


def _outside(model: Model, table: Table) -> str:
    """How many training rows are outside, for a machine that learns what rows have in common."""
    rows, weights = model.training.rows, model.training.sample_weight
    outside = model.predict(table.take(rows)) < 0
    share = percent(float(np.average(outside, weights=weights))) + ("" if weights is None else " by weight")
    return f"{np.count_nonzero(outside):,} of {len(rows):,} training rows ({share}) lie outside."


def _kept(model: Model) -> str:
    """Which vectors the machine keeps."""
    if model.machine_spec.is_linear:
        return f"The machine is linear in {count(model.support_vectors.p, 'feature')}."
    if model.machine_spec.own_vectors is not None:
        return f"The machine has {count(model.support_vectors.n, 'centre')}."
    n, n_rows = len(model.support_rows), len(model.training.rows)
    return f"The machine keeps {n:,} of {n_rows:,} training rows ({percent(n / n_rows)})."


def _of_mistakes(model: Model) -> list[str]:
    """What a perceptron claims: whether it came to an end, and after how many mistakes."""
    claims: list[Any] = [part.certificate for part in model.parts if part.certificate is not None]
    if not claims:
        return []
    n_apart, n_mistakes = sum(one.separated for one in claims), sum(one.n_mistakes for one in claims)
    n_passes = max(one.n_passes for one in claims)
    effort = f"{count(n_mistakes, 'mistake')} in {'one pass' if n_passes == 1 else f'at most {n_passes:,} passes'}"
    return [f"It separates the classes in {n_apart} of {count(len(claims), 'machine')}, after {effort}."]


def _certainty_of_loss(model: Model) -> str:
    """What the certificate of a machine with another loss says."""
    certificate = model.certificate
    if certificate.status is not Status.OPTIMAL:
        return (
            f"The machine is not certified optimal but ended as “{certificate.status}” (relative duality gap "
            f"{small(certificate.relative_gap)}, violation {small(certificate.violation)}). {certificate.advice}"
        )
    if not math.isfinite(certificate.relative_gap):
        return (
            "The machine is certified to meet the optimality conditions: no condition is broken by more than "
            f"{small(certificate.violation)}, and {small(certificate.tol)} was allowed."
        )
    gap = abs(certificate.relative_gap)
    how_much = "at all, to within rounding" if gap < prose.ROUNDING else f"by more than {small(100 * gap)} percent"
    return (
        f"The machine is certified optimal: no other machine with {prose.fixed(model)} can lower its training "
        f"objective {how_much}."
    )


def _numbers_of_loss(model: Model) -> str:
    """The certificate's numbers in a line."""
    certificate = model.certificate
    return (
        f"Certificate: {certificate.status}; duality gap {certificate.gap:.3g} (relative "
        f"{certificate.relative_gap:.3g}), violation {certificate.violation:.3g} (tolerance {certificate.tol:g})."
    )
