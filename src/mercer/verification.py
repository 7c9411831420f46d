"""Is a model what it says it is? Its certificate, recomputed from the model file and the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.backends import BlockBackend
from mercer.certificate import (
    Certificate,
    Evaluation,
    Evidence,
    at_bias,
    certify,
    combine,
    conclude,
    evaluate,
    worst_status,
)
from mercer.data import Vectors, as_data
from mercer.gram import Gram
from mercer.model import Model, Part, point_of
from mercer.outcome import Membership
from mercer.problems import half_width
from mercer.recipes import ForOneClassSVM
from mercer.status import Status
from mercer.table import Table, TableError, as_table

FloatArray = npt.NDArray[np.float64]

AGREEMENT = 1e-9
"""Relative difference up to which a recomputed objective counts as the stored one."""


@dataclass(frozen=True)
class Verification:
    """What recomputing a certificate from a model and a table found.

    Attributes
    ----------
    same_table : bool
        Whether the training rows are the ones that the model was trained on, cell by cell.
    stored, recomputed : Certificate or None
        The model's own, and the one computed anew; None if there was nothing to compute it from.
    findings : tuple of str
        What does not agree, a sentence each; empty if all does.
    """

    same_table: bool
    stored: Certificate
    recomputed: Certificate | None
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything agrees."""
        return not self.findings


@np.errstate(over="ignore", invalid="ignore")  # what a forger has made too large is a finding, and no warning
def verify(model: Model, table: Any) -> Verification:
    """Recompute primal, dual, gap and violation of a model from its training rows.

    Nothing is taken from the training but the dual coefficients: kernel values come from plain NumPy in float64, and
    labels, penalties and features from the table. Every number that the file claims of a machine is held against the
    recomputed one, with no more room than recomputed rounding leaves; only what is worse than claimed is a finding.
    What was asked for (`tol`, `tol_gap`) cannot be recomputed: a status is held against the tolerances that the file
    names, which have to be looked at. Takes n times the number of support vectors in kernel values.
    """
    table = as_table(table)
    another = _another_table(model, table)
    if another:
        return Verification(False, model.certificate, None, (another,))
    part = model.training_part(table)
    contradicted = model.outcome.contradicted(part)
    if contradicted:
        return Verification(True, model.certificate, None, (contradicted,))
    data, truth = as_data(model.encoder.transform(part)), model.outcome.truth(part)
    gram = Gram(model.kernel, data, backend=BlockBackend(model.kernel))
    engine = Gram(model.kernel, data)  # for how far its values may be off alone: none of them is used
    penalties = model.training.penalties(model.recipe.C, truth)
    findings = _check_support(model, data)
    recomputed = []
    for task, stored in zip(model.outcome.tasks(truth), model.parts, strict=True):
        place = np.full(data.n, -1)
        place[task.rows] = np.arange(task.rows.size)
        rows = place[model.support_rows[stored.support]]
        if (rows < 0).any():
            findings.append("a machine has support vectors of classes that it does not tell apart")
        view, values_of = gram.restrict(task.rows), engine.restrict(task.rows)
        try:
            problem = model.recipe.problem(task.targets, penalties[task.rows], view)
        except ValueError as error:
            return Verification(True, model.certificate, None, (f"there is no such machine of these rows: {error}",))
        beta = point_of(problem, rows[rows >= 0], stored.beta[rows >= 0])
        if problem.rows is not None:
            view, values_of = view.restrict(problem.rows), values_of.restrict(problem.rows)
        evaluation = evaluate(problem, view, beta)
        best = evaluation.bias
        if not np.isclose(best, stored.bias, rtol=AGREEMENT, atol=AGREEMENT):
            # A fit that was stopped before its bias was known goes on with a rough one, and is certified with that.
            evaluation = at_bias(stored.bias, evaluation, problem, view, beta)
            if not np.isclose(stored.certificate.primal, evaluation.primal, rtol=AGREEMENT, atol=AGREEMENT):
                findings.append(f"a bias is {stored.bias:.9g} in the file and {best:.9g} recomputed")
        slack = _slack(evaluation, values_of)
        evidence = Evidence.of(problem, view, beta, convex=view.is_convex)
        found = _recertified(stored.certificate, evidence, evaluation, slack)
        findings += _disagreements(stored.certificate, found, slack)
        findings += _check_width(stored, evaluation, slack)
        if isinstance(model.outcome, Membership):
            findings += _check_border(model, model.outcome, stored, evaluation, beta, view, penalties, slack)
        recomputed.append(found)
    return Verification(True, model.certificate, combine(recomputed), tuple(dict.fromkeys(findings)))


def _check_width(stored: Part, evaluation: Evaluation, slack: _Slack) -> list[str]:
    """Whether the two groups of a machine are as far apart as it says."""
    if stored.half_width is None:
        return []
    found = half_width(evaluation.multipliers)
    if abs(found - stored.half_width) <= slack.rounding + AGREEMENT * max(1.0, abs(found)):
        return []
    return [f"half of a machine's width is {stored.half_width:.9g} in the file and {found:.9g} recomputed"]


def _check_border(
    model: Model,
    claimed: Membership,
    stored: Part,
    evaluation: Evaluation,
    beta: FloatArray,
    gram: Gram,
    penalties: FloatArray,
    slack: _Slack,
) -> list[str]:
    """Whether the border lies where a machine of one class says, and no more rows are outside than it says."""
    lengths = gram.diag()
    size = float(np.abs(lengths).max(initial=0.0)) + abs(claimed.offset)
    room = 4.0 * slack.rounding + AGREEMENT * max(1.0, size)
    bias = stored.bias + stored.certificate.kkt_violation + 2.0 * stored.certificate.rounding
    scores, expected, norm = evaluation.values, -bias, claimed.squared_norm
    if norm is not None:
        scores = 2.0 * evaluation.values - lengths - norm
        expected = -(norm + 2.0 * bias)
        found = float(beta @ lengths) - 2.0 * evaluation.dual
        if not abs(norm - found) <= room + 2.0 * slack.gap:
            return [f"the squared norm of the centre is {norm:.9g} in the file and {found:.9g} recomputed"]
    if isinstance(model.recipe, ForOneClassSVM) and model.recipe.contamination > 0.0:
        outside, allowed = (
            float(penalties[scores < claimed.offset - room].sum()),
            model.recipe.contamination * float(penalties.sum()),
        )
        if outside > allowed * (1.0 + AGREEMENT):
            return [f"{outside:g} training rows by weight are outside, and no more than {allowed:g} should be"]
    elif not abs(claimed.offset - expected) <= room:
        return [f"the offset is {claimed.offset:.9g} in the file and {expected:.9g} recomputed"]
    return []


@dataclass(frozen=True)
class _Slack:
    """How far numbers of an untouched file may be from the recomputed ones, by what was recomputed alone.

    `rounding` is of a decision value, `gap` of the duality gap.
    """

    rounding: float
    gap: float


def _slack(evaluation: Evaluation, engine: Gram) -> _Slack:
    rounding = evaluation.rounding * max(1.0, engine.roundoff)
    return _Slack(2.0 * rounding, 2.0 * rounding * evaluation.mass)


def _another_table(model: Model, table: Table) -> str:
    """Why this is not the table that the model was trained on; "" if it is."""
    rows = model.training.rows
    if rows.max() >= table.n_rows:
        return f"{_ANOTHER}: it was trained on rows up to number {rows.max() + 1}, and this one has {table.n_rows}"
    try:
        checksum = model.training_part(table).checksum()
    except TableError as error:
        return f"{_ANOTHER}: {error}"
    if checksum != model.training.checksum:
        return f"{_ANOTHER}: the cells of its training rows differ"
    return ""


_ANOTHER = "this is not the table that the model was trained on"


def _check_support(model: Model, data: Vectors) -> list[str]:
    """Whether the support vectors in the file are the rows that they claim to be."""
    difference = data.rows(model.support_rows).float64() - model.support_vectors.float64()
    if difference.size and abs(difference).max() > 0.0:
        return ["the support vectors in the file are not the training rows that they claim to be"]
    return []


def _recertified(stored: Certificate, evidence: Evidence, evaluation: Evaluation, slack: _Slack) -> Certificate:
    """The certificate that the evaluation supports; a claim of optimality is not taken from the stored one.

    Its status is the stored one where rounding leaves that open: what was within a tolerance by a hair may now be
    beyond it.
    """
    ended = Status.STALLED if stored.status.is_final else stored.status
    certificate = certify(
        evidence,
        evaluation,
        ended,
        tol=stored.tol,
        tol_gap=stored.tol_gap,
        n_iter=stored.n_iter,
        n_kernel_values=stored.n_kernel_values,
        seconds=stored.seconds,
        peak_memory_bytes=stored.peak_memory_bytes,
    )
    if not _is_worse(certificate.status, stored.status):
        return certificate
    eased = replace(
        evaluation,
        violation=max(0.0, evaluation.violation - slack.rounding),
        excess=evaluation.excess - slack.rounding,
        primal=evaluation.primal - slack.gap,
        rounding=0.5 * slack.rounding,
    )
    best = conclude(ended, eased, tol=stored.tol, tol_gap=stored.tol_gap, convex=evidence.convex)
    return certificate if _is_worse(best, stored.status) else replace(certificate, status=stored.status)


def _is_worse(status: Status, than: Status) -> bool:
    return status is not than and worst_status([status, than]) is status


def _disagreements(stored: Certificate, found: Certificate, slack: _Slack) -> list[str]:
    """What the file claims of a machine and recomputing does not bear out; that it is better than claimed is fine."""
    scale = max([1.0, *(abs(value) for value in (found.primal, found.dual) if np.isfinite(value))])
    allowed = AGREEMENT * scale + slack.gap
    findings = []
    for name, attribute, unit in (
        ("primal objective", "primal", 1.0),
        ("dual objective", "dual", 1.0),
        ("duality gap", "gap", 1.0),
        ("relative gap", "relative_gap", scale),
    ):
        claimed, actual = getattr(stored, attribute), getattr(found, attribute)
        if claimed != actual and not abs(claimed - actual) * unit <= allowed:
            findings.append(f"the {name} is {claimed:.9g} in the file and {actual:.9g} recomputed")
    for name, attribute, room in (
        ("KKT violation", "kkt_violation", slack.rounding + AGREEMENT),
        ("dual infeasibility", "dual_infeasibility", AGREEMENT * max(1.0, found.dual_infeasibility)),
    ):
        claimed, actual = getattr(stored, attribute), getattr(found, attribute)
        if not actual <= claimed + room:
            findings.append(f"the {name} is {claimed:.3g} in the file and {actual:.3g} recomputed")
    if not stored.rounding <= (1.0 + AGREEMENT) * slack.rounding:
        findings.append(
            f"the rounding of a decision value is {stored.rounding:.3g} in the file and at most {slack.rounding:.3g} "
            "recomputed"
        )
    for name, attribute in (
        ("support vectors", "n_support"),
        ("free support vectors", "n_free"),
        ("support vectors at their bound", "n_bounded"),
    ):
        claimed, actual = getattr(stored, attribute), getattr(found, attribute)
        if claimed != actual:
            findings.append(f"the number of {name} is {claimed} in the file and {actual} recomputed")
    if _is_worse(found.status, stored.status):
        findings.append(f"the file says `{stored.status}`, recomputing says `{found.status}`")
    return findings
