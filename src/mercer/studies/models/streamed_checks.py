"""Recomputation of the claims of a machine that was trained on a file, from its table in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray
from mercer.certificates import QuadraticEvidence, proved_dual, recompute
from mercer.data import CSR, Data, Table, TableError, as_data
from mercer.gram import BlockBackend, Gram
from mercer.gram.rows import Block, LinearRows
from mercer.problems import Problem
from mercer.specs import ApproximateSpec, Outside, QuadraticSpec, StreamedTask, look, numbers_of_all, status_of
from mercer.studies.models.claim_checks import AGREEMENT, Slack, disagreements, is_worse
from mercer.studies.models.model import Model, Part, point_of
from mercer.studies.models.row_reader import are_same_rows
from mercer.studies.tables.prediction_kind import Classes, Membership
from mercer.studies.tables.target_numbers import numbers

_VALUES_BYTES = 1 << 28  # for kernel values of a part of the table
_EPS = float(np.finfo(np.float64).eps)


class AnotherTableError(ValueError):
    """The table is not that of the training; the message says why."""


def can_be_checked(model: Model) -> bool:
    """Return whether the model has what the recomputation from its file needs."""
    spec, parts = model.machine_spec, model.parts
    if isinstance(spec, ApproximateSpec):
        is_bounded = any(np.isfinite(part.certificate.exact_dual) for part in parts)
        return not is_bounded or any(part.duals is not None and part.duals.any() for part in parts)
    return isinstance(spec, QuadraticSpec) and model.cells is None


def check_in_parts(model: Model, tables: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """Return the recomputed certificate of each machine, and a sentence for each disagreement; in one pass.

    Kernel values are computed by NumPy, and summed in longdouble. Cells are encoded by the rules in the model.

    Raises
    ------
    AnotherTableError
        If it is not the table of the training.
    """
    spec: Any = model.machine_spec
    exact = spec.exact if isinstance(spec, ApproximateSpec) else spec
    kind, parts, is_approximate = model.prediction_kind, model.parts, exact is not spec
    rows = _TableParts(model, tables)
    scheme = kind.scheme if isinstance(kind, Classes) else "ovo"
    weights = model.training.class_weight if isinstance(kind, Classes) else None
    task = StreamedTask(exact, model.kernel, rows, weights, scheme, 0, _VALUES_BYTES)
    support = model.support_vectors
    coefficients = np.zeros((support.n, len(parts)))
    for number, part in enumerate(parts):
        np.add.at(coefficients[:, number], part.support, part.beta)
    multipliers = [np.full(int(getattr(exact, "bias", True)), -part.bias) for part in parts]
    passed_over = np.zeros(0, dtype=np.int64) if is_approximate else model.training.rows
    outside = look(task, support, coefficients, multipliers, passed_over, independent=True)
    listed, labels, row_weights = rows.listed()
    task = replace(task, total_weight=rows.total_weight)
    if not are_same_rows(listed.rows(model.support_rows), support):
        raise AnotherTableError("the rows at the places of its support vectors are others")
    findings, certificates = list(dict.fromkeys(rows.findings)), []
    for number, (chosen, problem) in enumerate(task.machines(labels, row_weights)):
        if problem is None:
            raise AnotherTableError("a machine has no support vectors of its classes")
        if parts[number].bias and not problem.n_groups:
            findings.append(f"a bias is {parts[number].bias:.9g} in the file, and this machine has no bias")
        data = listed.rows(chosen)
        gram = Gram(model.kernel, data, backend=BlockBackend(model.kernel, data))
        if is_approximate:
            check = _check_landmarks(
                parts[number], problem, chosen, gram, support, coefficients[:, number], outside, number
            )
        else:
            engine = Gram(model.kernel, data)
            check = _check_exact(parts[number], problem, chosen, labels.size, gram, engine, outside, number)
        certificates.append(check[0])
        findings += check[1]
        if isinstance(kind, Membership):
            findings += _check_border(kind, parts[number], gram, outside)
    return certificates, findings


class _TableParts(LinearRows):
    """The rows of a table in parts, as a model encodes them; those that it lists are kept."""

    is_sparse = False

    def __init__(self, model: Model, tables: Iterable[Any]) -> None:
        self._model, self._tables, self.p = model, tables, model.support_vectors.p
        self.n, self.total_weight, self.findings = 0, 0.0, list[str]()
        self._listed: list[tuple[Any, FloatArray, FloatArray]] = []

    def blocks(self) -> Iterator[Block]:
        """Yield the rows of each part; the parts can be read once."""
        model, kind = self._model, self._model.prediction_kind
        for given in self._tables:
            table = model.as_given(given)
            of_part = replace(model, training=replace(model.training, rows=np.arange(table.n_rows)))
            try:
                part = of_part.training_part(table)
                data = of_part.training_rows(table, part)
            except (TableError, ValueError) as error:
                raise AnotherTableError(str(error)) from error
            contradicted = kind.contradicted(part)
            if contradicted:
                self.findings.append(contradicted)
            labels, weights = kind.truth(part).astype(np.float64), self._weights(table)
            if not np.isfinite(labels).all():
                raise AnotherTableError("it has rows without a target")
            if isinstance(kind, Classes):
                weights = np.where(labels < 0.0, 0.0, weights)
            at = slice(self.n, self.n + labels.size)
            self.n += labels.size
            self.total_weight += float(weights.sum())
            encoded = data.matrix if isinstance(data, CSR) else data.stored
            positions = model.training.rows
            first, last = np.searchsorted(positions, [at.start, at.stop])
            here = positions[first:last] - at.start
            if here.size:
                self._listed.append((encoded[here], labels[here], weights[here]))
            yield Block(at, encoded, labels, weights)
        if self.n != model.training.n_streamed:
            raise AnotherTableError(
                f"it was trained on {model.training.n_streamed:,} rows, and this one has {self.n:,}"
            )

    def _weights(self, table: Table) -> FloatArray:
        column = self._model.training.weight_column
        if column is None:
            return np.ones(table.n_rows)
        if column not in table:
            raise AnotherTableError(f"there is no column {column!r}, which held the weights of its rows")
        return numbers(table, column)

    def listed(self) -> tuple[Data, FloatArray, FloatArray]:
        """Return the rows that the model lists, their labels and weights."""
        tables = [table for table, _, _ in self._listed]
        is_sparse = bool(tables) and sparse.issparse(tables[0])
        stacked = sparse.csr_array(sparse.vstack(tables, format="csr")) if is_sparse else np.concatenate(tables)
        labels, weights = (np.concatenate([one[place] for one in self._listed]) for place in (1, 2))
        if not (weights > 0.0).all():
            raise AnotherTableError("the weights of its support vectors are 0, or their labels are unknown")
        return as_data(stacked), labels, weights


def _check_exact(
    stored: Part,
    problem: Problem,
    chosen: Any,
    n_listed: int,
    gram: Gram,
    engine: Gram,
    outside: Outside,
    number: int,
) -> tuple[Any, list[str]]:
    """Return the certificate of an exact machine over all rows, and a sentence for each disagreement."""
    place, findings = np.full(n_listed, -1), list[str]()
    place[chosen] = np.arange(chosen.size)
    support = place[stored.support]
    if (support < 0).any():
        findings.append("a machine has support vectors of classes that it does not separate")
    beta = point_of(problem, support[support >= 0], stored.beta[support >= 0])
    if problem.rows is not None:
        gram, engine = gram.restrict(problem.rows), engine.restrict(problem.rows)
    evaluation = recompute(problem, gram, beta, stored.bias if problem.n_groups else None)
    slack = Slack.of_point(problem, evaluation, engine, beta)
    rounding = max(slack.rounding, 2.0 * outside.rounding * max(1.0, engine.roundoff))
    slack = Slack(rounding, slack.dual, slack.gap + rounding * float(outside.steepness[number]))
    evidence = QuadraticEvidence.of(problem, gram, beta, convex=True)
    of_listed = stored.certificate.with_evaluation(evidence, evaluation)
    violation = float(of_listed.kkt_violation)
    violation = _violation(problem, beta, evaluation.values, stored.bias, violation, outside, number)
    recomputed = numbers_of_all(of_listed, outside, number)._replace(kkt_violation=violation)
    claim, mass = stored.certificate, float(np.abs(beta).sum())
    limits = claim.tol, claim.tol_gap, claim.ended, mass
    status = status_of(recomputed, *limits)
    eased = recomputed._replace(
        kkt_violation=max(0.0, violation - slack.rounding),
        primal=recomputed.primal - slack.gap,
        decision_error=0.5 * recomputed.decision_error,
    )
    if is_worse(status, claim.status) and not is_worse(status_of(eased, *limits), claim.status):
        status = claim.status
    certificate = replace(claim, status=status, **recomputed.fields())
    return certificate, findings + disagreements(claim, certificate, slack)


def _check_border(claimed: Membership, stored: Part, gram: Gram, outside: Outside) -> list[str]:
    """Return a finding if the offset of a one-class machine is not the level that its certificate gives."""
    claim = stored.certificate
    expected = -(stored.bias + claim.kkt_violation + 2.0 * claim.decision_error)
    size = float(np.abs(gram.diag()).max(initial=0.0)) + abs(claimed.offset)
    if abs(claimed.offset - expected) <= 4.0 * outside.rounding + AGREEMENT * max(1.0, size):
        return []
    return [f"the offset is {claimed.offset:.9g} in the file and {expected:.9g} recomputed"]


def _violation(
    problem: Problem, beta: FloatArray, values: FloatArray, bias: float, of_listed: float, outside: Outside, number: int
) -> float:
    """Return the violation of the optimality conditions by all rows, at any bias of the machine."""
    excess = values + problem.linear - (-bias if problem.n_groups else 0.0)
    if problem.ridge is not None:
        excess = excess + problem.ridge * beta
    above = float(excess[beta > problem.lower].max(initial=-np.inf))
    below = float((-excess[beta < problem.upper]).max(initial=-np.inf))
    too_large, too_small = float(outside.too_large[number]), float(outside.too_small[number])
    if not problem.n_groups:
        return max(of_listed, too_large, too_small)
    return max(of_listed, above + too_small, too_large + below, too_large + too_small)


def _check_landmarks(
    stored: Part,
    problem: Problem,
    chosen: Any,
    gram: Gram,
    support: Data,
    coefficients: FloatArray,
    outside: Outside,
    number: int,
) -> tuple[Any, list[str]]:
    """Return the certificate of landmarks with their distance to the exact machine, and each disagreement."""
    claim, findings = stored.certificate, list[str]()
    among = Gram(gram.kernel, support, backend=BlockBackend(gram.kernel, support)).block()
    squares, steepness = float(coefficients @ (among @ coefficients)), float(outside.steepness[number])
    primal = 0.5 * squares + float(outside.losses[number])
    primal += outside.rounding * steepness + _EPS * (4.0 + outside.n**0.5) * (abs(primal) + squares)
    dual = claim.exact_dual
    if np.isfinite(dual) and stored.duals is not None:
        dual = proved_dual(problem, gram, stored.duals[chosen])
    room = AGREEMENT * max(abs(primal), abs(dual) if np.isfinite(dual) else 0.0)
    room += 8.0 * outside.rounding * (steepness + float(np.abs(coefficients).sum()))
    for name, says, is_wrong, value in (
        ("objective in the exact problem", claim.exact_primal, claim.exact_primal < primal - room, primal),
        ("lower bound of the exact objective", claim.exact_dual, claim.exact_dual > dual + room, dual),
    ):
        if is_wrong:
            findings.append(f"the {name} is {says:.9g} in the file and {value:.9g} recomputed")
    return replace(claim, exact_primal=primal, exact_dual=dual), findings
