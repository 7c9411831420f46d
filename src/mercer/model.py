"""A trained machine as a value: all that predicting and verifying need, and nothing that only training needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.certificate import Certificate, combine
from mercer.data import Vectors, as_data
from mercer.decision import decision_values
from mercer.encoding import Missing, TableEncoder, class_codes
from mercer.estimators import SVC
from mercer.intake import doubtful_columns
from mercer.kernels import Kernel
from mercer.prediction import predicted_classes
from mercer.solution import Solution
from mercer.table import Table, TableError, TableWarning, as_table, cell_text, target_column


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
        by_class = self.C * self.class_weight[codes]  # in the order of the fit, so that bounds are equal to the bit
        return by_class if self.sample_weight is None else by_class * self.sample_weight


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
        return decision_values(self.kernel, as_data(self.encoder.transform(table)), *self._machines)

    @property
    def _machines(self) -> tuple[Vectors, np.ndarray, np.ndarray]:
        """Support vectors, and the coefficients and biases of all parts."""
        beta = np.zeros((self.support_vectors.n, len(self.parts)))
        for column, part in enumerate(self.parts):
            beta[part.support, column] = part.beta
        return self.support_vectors, beta, np.array([part.bias for part in self.parts])

    def scores(self, table: Any) -> np.ndarray:
        """Scores that decide: (n,), positive for the second class, or (n, n_classes), the largest one wins."""
        return multiclass.class_scores(self.decision_values(table), len(self.classes), self.scheme)

    def predict(self, table: Any) -> np.ndarray:
        """Label of each row of a table or data frame.

        Warns
        -----
        TableWarning
            If the table holds categories, or features of a sparse block, that no training row had.
        """
        for sentence in self.encoder.strangers(table):
            warnings.warn(sentence, TableWarning, stacklevel=2)
        data = as_data(self.encoder.transform(table))
        winning = predicted_classes(self.kernel, data, *self._machines, n_classes=len(self.classes), scheme=self.scheme)
        return self.classes[winning]

    def margins(self, table: Any, codes: np.ndarray) -> np.ndarray:
        """Margin y f(x) of each row, whose class number is given; with two classes, below 0 it is misclassified.

        With several classes it is the smallest margin over the parts that tell the row's class from others; below 0 at
        least one of them decides against the row, though their vote may still be right.
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


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The training rows of a table, encoded, and what a model has to remember of them.

    Attributes
    ----------
    encoder : TableEncoder
        As learnt on these rows.
    target : str
    classes : ndarray
        Labels, in the order of the class numbers.
    codes : ndarray of int64
        Class number of each row.
    X : ndarray or csr_array
        The encoded rows.
    rows : ndarray of int64
        Which rows of the table these are.
    checksum : str
        Of their cells.
    """

    encoder: TableEncoder
    target: str
    classes: np.ndarray
    codes: np.ndarray
    X: Any
    rows: np.ndarray
    checksum: str

    def model(
        self,
        machines: multiclass.Machines,
        kernel: Kernel,
        C: float,
        class_weight: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> Model:
        """The model made of machines that were trained on these rows."""
        beta = machines.coefficients
        support_rows = np.flatnonzero(beta.any(axis=1))
        parts = []
        for task, solution, own in zip(machines.tasks, machines.solutions, beta[support_rows].T, strict=True):
            support = np.flatnonzero(own)
            parts.append(
                Part(task.positive, task.negative, support, own[support], float(solution.bias), solution.certificate)
            )
        by_class = np.ones(len(self.classes)) if class_weight is None else class_weight
        return Model(
            encoder=self.encoder,
            target=self.target,
            classes=self.classes,
            kernel=kernel,
            scheme=machines.scheme,
            support_rows=support_rows,
            support_vectors=as_data(self.X).rows(support_rows),
            parts=tuple(parts),
            training=Training(self.rows, self.checksum, float(C), by_class, sample_weight),
        )

    def model_of(self, machine: SVC, sample_weight: np.ndarray | None = None) -> Model:
        """The model of an estimator that was fitted on these rows with these weights, by what it was fitted with."""
        machines = machine.machines_
        _check_rows(machines, self.codes)
        model = self.model(machines, machine.kernel_, machine.C_, machine.class_weight_, sample_weight)
        _check_weights(machines, model.training.penalties(self.codes))
        return model


def _check_rows(machines: multiclass.Machines, codes: np.ndarray) -> None:
    tasks = multiclass.make_tasks(codes, machines.n_classes, machines.scheme)
    if any(
        not np.array_equal(ours.rows, task.rows) or not np.array_equal(ours.signs, task.signs)
        for ours, task in zip(machines.tasks, tasks, strict=True)
    ):
        raise ValueError("X, y and sample_weight must be what the machine was fitted on, but rows or labels differ")


def _check_weights(machines: multiclass.Machines, penalties: np.ndarray) -> None:
    if not all(_holds(one, penalties[task.rows]) for task, one in zip(machines.tasks, machines.solutions, strict=True)):
        raise ValueError(
            "sample_weight must be what the machine was fitted with, but its bounds are not those of these weights"
        )


def _holds(solution: Solution, penalties: np.ndarray) -> bool:
    """Whether these are the bounds that a solution was found within, as far as can be told."""
    if solution.evidence is not None:
        problem = solution.evidence.problem
        return np.array_equal(problem.upper - problem.lower, penalties)
    sizes = np.abs(solution.beta)
    n_bounded = np.count_nonzero((sizes >= penalties) & (sizes > 0.0))
    return bool((sizes <= penalties).all()) and n_bounded == solution.certificate.n_bounded


def training_set(table: Any, target: str, *, rows: np.ndarray | None = None, missing: Missing = "error") -> TrainingSet:
    """Learn the encoding of a table from its training rows, and encode them.

    Parameters
    ----------
    table : Table or data frame
        All its columns but the target are used.
    target : str
        Column of labels, without missing cells in `rows`.
    rows : ndarray of int, optional
        Rows to train on; all of them by default.
    missing : {"error", "impute"}, default="error"
        See `TableEncoder`.

    Raises
    ------
    TableError
        If the target does not exist, has missing cells or fewer than two classes, or the table cannot be encoded.
    """
    table = as_table(table)
    chosen = np.arange(table.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    part = table.take(chosen)
    if part.missing(target).any():
        raise TableError(f"the target {target!r} has missing values in the training rows", "leave these rows out")
    classes, codes = class_codes(part[target])
    if len(classes) < 2:
        raise TableError(f"the target {target!r} must have at least two classes, but is {classes[0]!r} in every row")
    encoder = TableEncoder(missing=missing).fit(part.without([target]))
    checksum = _used_part(table, encoder, target, chosen).checksum()
    return TrainingSet(encoder, target, classes, codes, encoder.transform(part), chosen, checksum)


def fit_model(
    table: Any,
    target: str,
    machine: SVC,
    *,
    rows: np.ndarray | None = None,
    keep: Iterable[str] = (),
    missing: Missing = "error",
) -> Model:
    """Encode a table, train a machine on it, and keep what predicting and verifying need.

    Columns that look like row identifiers or dates are left out, as on the command line.

    Parameters
    ----------
    table, target, rows, missing
        See `training_set`.
    machine : SVC
        The parameters; it is not fitted itself, a copy of it is.
    keep : iterable of str
        Columns to use although they look like row identifiers or dates.

    Raises
    ------
    TableError
        If the table cannot be used; see `training_set`.
    ValueError
        For parameters that the machine refuses.

    Warns
    -----
    TableWarning
        If columns are left out.
    """
    table = _without_doubtful(as_table(table), target, rows, keep)
    training = training_set(table, target, rows=rows, missing=missing)
    return training.model_of(clone(machine).fit(training.X, training.classes[training.codes]))


def _without_doubtful(table: Table, target: str, rows: np.ndarray | None, keep: Iterable[str]) -> Table:
    training = table if rows is None else table.take(np.asarray(rows, dtype=np.int64))
    doubtful = doubtful_columns(training.without({target, *keep}))
    for name, reason in doubtful.items():
        warnings.warn(
            f"column {name!r} was left out: {reason}; say keep=[{name!r}] to use it", TableWarning, stacklevel=3
        )
    return table.without(doubtful)


def as_model(machine: SVC, X: Any, y: Any, sample_weight: Any = None) -> Model:
    """The model of a machine that was fitted on arrays, for instance to save it to a file.

    Its columns are called after the features, or "0", "1", ... where these have no names, and its target "y".

    Parameters
    ----------
    machine : SVC
        Fitted, with a kernel that is no Python function and not precomputed.
    X, y, sample_weight
        What it was fitted on.

    Raises
    ------
    ValueError
        If the rows, labels or weights are not those of the fit. Parameters that were set since then play no part.
    """
    check_is_fitted(machine, "kernel_")
    if not hasattr(machine, "machines_"):
        raise ValueError(
            "a model remembers its training rows and certificate, and this machine, read from a file, has none: fit it "
            "again."
        )
    table = as_table(X if sparse.issparse(X) else np.asarray(X))
    if hasattr(machine, "feature_names_in_"):
        table = Table(tuple(map(str, machine.feature_names_in_)), table.columns, table.sparse)
    encoder = TableEncoder.identity(table)
    target = target_column(y)
    classes, codes = class_codes(target)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    # A weight of 0 is absence: such a row is no training row.
    rows = np.arange(table.n_rows) if weights is None else np.flatnonzero(weights)
    used = Table((*table.names, "y"), (*table.columns, target), table.sparse).take(rows)
    training = TrainingSet(encoder, "y", classes, codes[rows], encoder.transform(used), rows, used.checksum())
    return training.model_of(machine, None if weights is None else weights[rows])
