"""A trained machine as a value: all that predicting and verifying need, and nothing that only training needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.backends import BlockBackend, select_backend
from mercer.certificate import Certificate, Evaluation, Evidence, certify, combine, evaluate
from mercer.data import Vectors, as_data
from mercer.encoding import Missing, TableEncoder, class_codes
from mercer.estimators import SVC
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.problems import c_svc
from mercer.solution import Status
from mercer.table import Table, TableError, as_table, cell_text, target_column

AGREEMENT = 1e-6
"""Relative difference up to which a recomputed objective counts as the stored one."""


@dataclass(frozen=True, eq=False)
class Part:
    """One machine for two classes.

    Attributes
    ----------
    positive, negative : int
        Class numbers on either side; `negative` is None where it is all the others.
    support : ndarray of int64
        Its support vectors, as positions in the model's `support_rows`.
    beta : ndarray of float64
        Their signed dual coefficients.
    bias : float
    certificate : Certificate
        As computed when it was trained.
    """

    positive: int
    negative: int | None
    support: np.ndarray
    beta: np.ndarray
    bias: float
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Training:
    """What a model was trained on, so that it can be verified against it.

    Attributes
    ----------
    rows : ndarray of int64
        Indices of the training rows in the table.
    checksum : str
        Of the cells of these rows in the columns that the model uses, the target included.
    C : float
    class_weight : ndarray of float64
        One weight a class.
    sample_weight : ndarray of float64, or None
        One weight a training row; None stands for all ones.
    """

    rows: np.ndarray
    checksum: str
    C: float
    class_weight: np.ndarray
    sample_weight: np.ndarray | None

    def penalties(self, codes: np.ndarray) -> np.ndarray:
        """C_i of each training row."""
        weights = self.class_weight[codes]
        return self.C * (weights if self.sample_weight is None else weights * self.sample_weight)


@dataclass(frozen=True, eq=False)
class Model:
    """A trained support vector machine for the rows of a table.

    Attributes
    ----------
    encoder : TableEncoder
        From a table to a matrix, as learnt on the training rows.
    target : str
        Column that it predicts.
    classes : ndarray
        Labels (str or numbers), in the order of the class numbers.
    kernel : Kernel
    scheme : {"ovo", "ovr"}
    support_rows : ndarray of int64
        The support vectors of all parts, as positions among the training rows.
    support_vectors : Vectors
        The same, as encoded rows.
    parts : tuple of Part
    training : Training
    """

    encoder: TableEncoder
    target: str
    classes: np.ndarray
    kernel: Kernel
    scheme: str
    support_rows: np.ndarray
    support_vectors: Vectors
    parts: tuple[Part, ...]
    training: Training

    @property
    def labels(self) -> list[str]:
        """Names of the classes."""
        return [cell_text(label) for label in self.classes.tolist()]

    @property
    def certificate(self) -> Certificate:
        """Certificate of the whole."""
        return combine([part.certificate for part in self.parts])

    def decision_values(self, table: Any) -> np.ndarray:
        """Decision value of every part, (n, number of parts), in float64."""
        return self._decision_values(as_data(self.encoder.transform(table)))

    def _decision_values(self, data: Vectors) -> np.ndarray:
        beta = np.zeros((self.support_vectors.n, len(self.parts)))
        for column, part in enumerate(self.parts):
            beta[part.support, column] = part.beta
        biases = np.array([part.bias for part in self.parts])
        if not self.support_vectors.n:
            return np.tile(biases, (data.n, 1))
        backend, _ = select_backend(self.kernel, self.support_vectors)
        return backend.matvec(data, None, self.support_vectors, None, beta) + biases

    def scores(self, table: Any) -> np.ndarray:
        """Scores that decide: (n,), positive for the second class, or (n, n_classes), the largest one wins."""
        return multiclass.class_scores(self.decision_values(table), len(self.classes), self.scheme)

    def predict(self, table: Any) -> np.ndarray:
        """Label of each row of a table or data frame."""
        return self.classes[multiclass.winners(self.scores(table))]

    def margins(self, table: Any, codes: np.ndarray) -> np.ndarray:
        """Margin y f(x) of each row, whose class number is given; below 0 it is misclassified.

        With several classes it is the smallest margin over the parts that tell the row's class from others.
        """
        values = self.decision_values(table)
        margins = np.full(len(codes), np.inf)
        for part, value in zip(self.parts, values.T, strict=True):
            ours = codes == part.positive
            theirs = ~ours if part.negative is None else codes == part.negative
            margins[ours] = np.minimum(margins[ours], value[ours])
            margins[theirs] = np.minimum(margins[theirs], -value[theirs])
        return margins

    def codes(self, table: Table) -> np.ndarray:
        """Class number of each row of a table that holds the target; -1 for a label that the model does not know."""
        known = {label: code for code, label in enumerate(self.labels)}
        return np.array(
            [
                -1 if gone else known.get(cell_text(cell), -1)
                for cell, gone in zip(table[self.target], table.missing(self.target), strict=True)
            ]
        )

    def training_part(self, table: Table) -> Table:
        """The training rows of the table, with the columns that the model uses and the target."""
        return _used_part(table, self.encoder, self.target, self.training.rows)


def _used_part(table: Table, encoder: TableEncoder, target: str, rows: np.ndarray) -> Table:
    if encoder.dense_block_ is not None:
        table = table.densified(encoder.dense_block_)
    return table.take(rows).select([*(rule.name for rule in encoder.rules_), target])


def fit_model(
    table: Any,
    target: str,
    machine: SVC,
    *,
    rows: np.ndarray | None = None,
    missing: Missing = "error",
) -> Model:
    """Encode a table, train a machine on it, and keep what predicting and verifying need.

    Parameters
    ----------
    table : Table or data frame
        All its columns but the target are used.
    target : str
        Column of labels, without missing cells in `rows`.
    machine : SVC
        The parameters; it is not fitted itself, a copy of it is.
    rows : ndarray of int, optional
        Rows to train on; all of them by default.
    missing : {"error", "impute"}, default="error"
        See `TableEncoder`.

    Raises
    ------
    TableError
        If the target does not exist, has missing cells or fewer than two classes, or the table cannot be encoded.
    ValueError
        For parameters that the machine refuses.
    """
    table = as_table(table)
    chosen = np.arange(table.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    part = table.take(chosen)
    if part.missing(target).any():
        raise TableError(f"the target {target!r} has missing values in the training rows", "leave these rows out")
    classes, codes = class_codes(part[target])
    if len(classes) < 2:
        raise TableError(f"the target {target!r} must have at least two classes, but is {classes[0]!r} in every row")
    encoder = TableEncoder(missing=missing)
    X = encoder.fit(part.without([target])).transform(part)
    trained = clone(machine).fit(X, classes[codes])
    used, support_rows = _used_part(table, encoder, target, chosen), np.sort(trained.support_).astype(np.int64)
    return _assemble(trained, encoder, target, as_data(X), codes, chosen, used, support_rows)


def as_model(machine: SVC, X: Any, y: Any, sample_weight: Any = None) -> Model:
    """The model of a machine that was fitted on arrays, for instance to save it to a file.

    Its columns are called after the features, or "0", "1", ... where these have no names, and its target "y".

    Parameters
    ----------
    machine : SVC
        Fitted, with a kernel that is no Python function and not precomputed.
    X, y, sample_weight
        What it was fitted on.
    """
    check_is_fitted(machine, "support_")
    names = getattr(machine, "feature_names_in_", None)
    table = as_table(X if sparse.issparse(X) else np.asarray(X))
    if names is not None:
        table = Table(tuple(map(str, names)), table.columns, table.sparse)
    encoder = TableEncoder.identity(table)
    target = target_column(y)
    _, codes = class_codes(target)
    table = Table((*table.names, "y"), (*table.columns, target), table.sparse)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    # A weight of 0 is absence: such a row is no training row.
    rows = np.arange(table.n_rows) if weights is None else np.flatnonzero(weights)
    data = as_data(encoder.transform(table)).rows(rows)
    weights = None if weights is None else weights[rows]
    support_rows = np.searchsorted(rows, np.sort(machine.support_))
    return _assemble(machine, encoder, "y", data, codes[rows], rows, table.take(rows), support_rows, weights)


def _assemble(
    machine: SVC,
    encoder: TableEncoder,
    target: str,
    data: Vectors,
    codes: np.ndarray,
    rows: np.ndarray,
    used: Table,
    support_rows: np.ndarray,
    sample_weight: np.ndarray | None = None,
) -> Model:
    """The model of a trained machine; data, codes, `used` and `support_rows` are about its training rows alone."""
    solutions = machine.solution_ if isinstance(machine.solution_, tuple) else (machine.solution_,)
    tasks = multiclass.make_tasks(codes, len(machine.classes_), machine.multi_class)
    parts = []
    for task, solution in zip(tasks, solutions, strict=True):
        certificate = solution.certificate  # first, as it settles the bias of an interrupted machine
        moved = np.flatnonzero(solution.beta)
        support = np.searchsorted(support_rows, task.rows[moved])
        parts.append(
            Part(task.positive, task.negative, support, solution.beta[moved], float(solution.bias), certificate)
        )
    return Model(
        encoder=encoder,
        target=target,
        classes=class_codes(target_column(machine.classes_))[0],
        kernel=machine.kernel_,
        scheme=machine.multi_class,
        support_rows=support_rows,
        support_vectors=data.rows(support_rows),
        parts=tuple(parts),
        training=Training(rows, used.checksum(), float(machine.C), machine.class_weight_, sample_weight),
    )


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


def verify(model: Model, table: Any) -> Verification:
    """Recompute primal, dual, gap and violation of a model from its training rows.

    Nothing is taken from the training but the dual coefficients: kernel values come from plain NumPy in float64, and
    labels, penalties and features from the table. Takes n times the number of support vectors in kernel values.
    """
    table = as_table(table)
    another = _another_table(model, table)
    if another:
        return Verification(False, model.certificate, None, (another,))
    part = model.training_part(table)
    data = as_data(model.encoder.transform(part))
    codes = model.codes(part)
    gram = Gram(model.kernel, data, backend=BlockBackend(model.kernel))
    penalties = model.training.penalties(codes)
    findings = _check_support(model, data)
    recomputed = []
    for task, stored in zip(multiclass.make_tasks(codes, len(model.classes), model.scheme), model.parts, strict=True):
        beta = np.zeros(data.n)
        beta[model.support_rows[stored.support]] = stored.beta
        if np.setdiff1d(np.flatnonzero(beta), task.rows).size:
            findings.append("a machine has support vectors of classes that it does not tell apart")
        problem, view = c_svc(task.signs, penalties[task.rows]), gram.restrict(task.rows)
        evaluation = evaluate(problem, view, beta[task.rows])
        recomputed.append(
            _recertified(
                stored.certificate,
                Evidence(problem, model.kernel, data, task.rows, beta[task.rows], gram.is_convex),
                evaluation,
            )
        )
        if not np.isclose(evaluation.bias, stored.bias, rtol=AGREEMENT, atol=AGREEMENT):
            findings.append(f"a bias is {stored.bias:.9g} in the file and {evaluation.bias:.9g} recomputed")
    found = combine(recomputed)
    return Verification(True, model.certificate, found, (*findings, *_disagreements(model.certificate, found)))


def _another_table(model: Model, table: Table) -> str:
    """Why this is not the table that the model was trained on; "" if it is."""
    rows = model.training.rows
    if rows.max() >= table.n_rows:
        return f"the model was trained on rows up to number {rows.max() + 1}, this table has {table.n_rows}"
    try:
        checksum = model.training_part(table).checksum()
    except TableError as error:
        return f"this is not the table that the model was trained on: {error}"
    if checksum != model.training.checksum:
        return "this is not the table that the model was trained on: the cells of its training rows differ"
    return ""


def _check_support(model: Model, data: Vectors) -> list[str]:
    """Whether the support vectors in the file are the rows that they claim to be."""
    difference = data.rows(model.support_rows).float64() - model.support_vectors.float64()
    if difference.size and abs(difference).max() > 0.0:
        return ["the support vectors in the file are not the training rows that they claim to be"]
    return []


def _recertified(stored: Certificate, evidence: Evidence, evaluation: Evaluation) -> Certificate:
    """The certificate that the evaluation supports; a claim of optimality is not taken from the stored one."""
    return certify(
        evidence,
        evaluation,
        Status.STALLED if stored.status.is_final else stored.status,
        tol=stored.tol,
        tol_gap=stored.tol_gap,
        n_iter=stored.n_iter,
        n_kernel_values=stored.n_kernel_values,
        seconds=stored.seconds,
        peak_memory_bytes=stored.peak_memory_bytes,
    )


def _disagreements(stored: Certificate, found: Certificate) -> list[str]:
    findings = []
    for name in ("primal", "dual"):
        claimed, actual = getattr(stored, name), getattr(found, name)
        if not np.isclose(claimed, actual, rtol=AGREEMENT, atol=AGREEMENT):
            findings.append(f"the {name} objective is {claimed:.9g} in the file and {actual:.9g} recomputed")
    for name, slack in (("kkt_violation", stored.rounding + found.rounding), ("dual_infeasibility", 0.0)):
        claimed, actual = getattr(stored, name), getattr(found, name)
        if actual > claimed + slack + AGREEMENT * max(1.0, claimed):
            findings.append(f"the {name.replace('_', ' ')} is {claimed:.3g} in the file and {actual:.3g} recomputed")
    if stored.status is not found.status:
        findings.append(f"the file says `{stored.status}`, recomputing says `{found.status}`")
    return findings
