"""Recomputation of the claims of a machine that solves a box-constrained problem, from its training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.certificates import Certificate, Evaluation, QuadraticEvidence, recompute
from mercer.gram import Gram
from mercer.problems import half_width
from mercer.specs import ForOneClassSVM, QuadraticSpec
from mercer.studies.models.claim_checks import AGREEMENT, Slack, disagreements, recertified
from mercer.studies.models.model import Model, Part, point_of
from mercer.studies.tables.prediction_kind import Membership


def check_dual(
    model: Model,
    machine_spec: QuadraticSpec,
    parts: tuple[Part, ...],
    rows: IndexArray,
    targets: FloatArray,
    truth: npt.NDArray[Any],
    view: Gram,
    values_of: Gram,
) -> tuple[Certificate, list[str]]:
    """Return the certificate of the solution of a box-constrained problem, and a sentence for each disagreement."""
    findings, stored = [], parts[0]
    penalties = model.training.penalties(machine_spec.C, truth)
    problem = machine_spec.problem(targets, penalties[rows], view)
    if machine_spec.is_whole:
        beta = model.point(parts, rows).beta.ravel()
    else:
        place = np.full(truth.size, -1)
        place[rows] = np.arange(rows.size)
        support = place[model.support_rows[stored.support]]
        if (support < 0).any():
            findings.append("a machine has support vectors of classes that it does not separate")
        beta = point_of(problem, support[support >= 0], stored.beta[support >= 0])
    if problem.rows is not None:
        view, values_of = view.restrict(problem.rows), values_of.restrict(problem.rows)
    evaluation = recompute(problem, view, beta)
    slack = Slack.of_point(problem, evaluation, values_of, beta)
    best = evaluation.bias
    for part in parts:
        if np.isclose(best, part.bias, rtol=AGREEMENT, atol=AGREEMENT + slack.rounding):
            continue
        # A fit that was stopped early may have only an approximate bias, and its certificate is computed with that.
        # Without a bias in the machine, the objective does not depend on it.
        fixed = machine_spec.is_whole or not problem.n_groups
        rough = None if fixed else recompute(problem, view, beta, part.bias)
        if rough is None or not np.isclose(stored.certificate.primal, rough.primal, rtol=AGREEMENT, atol=AGREEMENT):
            findings.append(f"a bias is {part.bias:.9g} in the file and {best:.9g} recomputed")
        evaluation = rough or evaluation
    evidence = QuadraticEvidence.of(problem, view, beta, convex=view.is_convex)
    eased = replace(
        evaluation,
        violation=max(0.0, evaluation.violation - slack.rounding),
        excess=evaluation.excess - slack.rounding,
        primal=evaluation.primal - slack.gap,
        rounding=0.5 * slack.rounding,
    )
    certificate = recertified(stored.certificate, evidence, evaluation, eased)
    findings += disagreements(stored.certificate, certificate, slack)
    findings += _check_width(stored, evaluation, slack)
    if isinstance(model.prediction_kind, Membership):
        findings += _check_border(model, model.prediction_kind, stored, evaluation, beta, view, penalties, slack)
    return certificate, findings


def _check_width(stored: Part, evaluation: Evaluation, slack: Slack) -> list[str]:
    """Return a finding if the distance of a machine's two groups differs from the stored width."""
    if stored.half_width is None:
        return []
    half_width_found = half_width(evaluation.multipliers)
    if abs(half_width_found - stored.half_width) <= slack.rounding + AGREEMENT * max(1.0, abs(half_width_found)):
        return []
    return [f"half of a machine's width is {stored.half_width:.9g} in the file and {half_width_found:.9g} recomputed"]


def _check_border(
    model: Model,
    claimed: Membership,
    stored: Part,
    evaluation: Evaluation,
    beta: FloatArray,
    gram: Gram,
    penalties: FloatArray,
    slack: Slack,
) -> list[str]:
    """Return a finding if the offset of a one-class machine, or its number of rows outside, differs from the claim."""
    lengths = gram.diag()
    size = float(np.abs(lengths).max(initial=0.0)) + abs(claimed.offset)
    room = 4.0 * slack.rounding + AGREEMENT * max(1.0, size)
    bias = stored.bias + stored.certificate.kkt_violation + 2.0 * stored.certificate.decision_error
    scores, expected, norm = evaluation.values, -bias, claimed.squared_norm
    if claimed.length is not None and not np.allclose(lengths, claimed.length, rtol=AGREEMENT, atol=AGREEMENT):
        return [f"k(x, x) of all training rows is {claimed.length:.9g} in the file, and differs from it"]
    if norm is not None:
        scores = 2.0 * evaluation.values - lengths - norm
        expected = -(norm + 2.0 * bias)
        offset = float(beta @ lengths) - 2.0 * evaluation.dual
        if not abs(norm - offset) <= room + 2.0 * slack.dual:
            return [f"the squared norm of the centre is {norm:.9g} in the file and {offset:.9g} recomputed"]
    if isinstance(model.machine_spec, ForOneClassSVM) and model.machine_spec.contamination > 0.0:
        outside, allowed = (
            float(penalties[scores < claimed.offset - room].sum()),
            model.machine_spec.contamination * float(penalties.sum()),
        )
        if outside > allowed * (1.0 + AGREEMENT):
            return [f"{outside:g} training rows by weight are outside, and no more than {allowed:g} should be"]
    elif not abs(claimed.offset - expected) <= room:
        return [f"the offset is {claimed.offset:.9g} in the file and {expected:.9g} recomputed"]
    return []
