"""Specifications of the linear machines that are trained on rows of any number."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from mercer._typing import FloatArray
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.smooth import EvaluatedEvidence
from mercer.certificates.softmax import SoftmaxEvidence
from mercer.data import Vectors
from mercer.geometry.matrices import gram_matrix
from mercer.gram import Gram
from mercer.kernels import RBF, Kernel, Linear
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.coupling import made_largest
from mercer.multiclass.training import winners
from mercer.problems.joint_linear import JointLinearProblem
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers.rows import (
    Bias,
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    LinearProblem,
    LinearRows,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
)
from mercer.solvers.rows.joint import JointEvidence
from mercer.solvers.rows.softmax import softmax_duals
from mercer.specs.losses import LossSpec, class_probabilities
from mercer.specs.machine_spec import BY_PAIRS_OR_CLASSES, Point


@dataclass(frozen=True, kw_only=True)
class LinearSpec(LossSpec):
    """The specification of a linear machine: its loss, its penalty and its bias.

    Attributes
    ----------
    C : float
    l1_ratio : float
        Share of the sum of |w_j| in the penalty; the rest is ||w||^2 / 2.
    bias, free : bool
        Whether there is a bias, and whether the penalty leaves it out.
    scaling : float
        Value of the column of a penalised bias.
    """

    stated = ("tol_gap",)
    is_whole = False
    has_duals = True
    C: float
    l1_ratio: float = 0.0
    bias: bool = True
    free: bool = False
    scaling: float = 1.0

    @property
    @abstractmethod
    def loss(self) -> LinearLoss:
        """The loss of a row."""

    @property
    def own_vectors(self) -> type[Kernel]:
        """The linear kernel; the vectors are the normal vectors of the parts."""
        return Linear

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that are stored but play no part."""
        return ("scaling",) if self.free or not self.bias else ()

    def problem(
        self, rows: LinearRows, positive: int | None = None, class_weights: FloatArray | None = None
    ) -> LinearProblem:
        """Return the problem of one machine on these rows; see :class:`mercer.solvers.rows.LinearProblem`."""
        kind = (Bias.FREE if self.free else Bias.PENALISED) if self.bias else Bias.NONE
        return LinearProblem(rows, self.loss, self.C, self.l1_ratio, kind, self.scaling, positive, class_weights)

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        assert point.vectors is not None
        assert point.multipliers is not None
        data, y = gram.data, targets[:, 0]
        vectors = point.vectors.like(data)
        assert isinstance(data, Vectors)
        data = data if gram.idx is None else data.rows(gram.idx)
        assert isinstance(vectors, Vectors)
        rows = TableRows(table_of(data), y, weights)
        problem = self.problem(rows, 1)
        w = np.asarray(vectors.float64().T @ point.beta)[:, 0]
        if self.bias:
            w = np.append(w, point.bias[0] / problem.constant)
        return LinearEvidence(problem, w, point.multipliers[:, 0])


@dataclass(frozen=True, kw_only=True)
class ForLinearSVC(LinearSpec):
    """Hinge loss or its square."""

    machine = "LinearSVC"
    endless = ("C",)
    schemes = BY_PAIRS_OR_CLASSES
    calibrated_on = (FOLDS,)
    squared: bool

    def row_weights(self, class_weights: FloatArray, targets: FloatArray, *, by_rest: bool) -> FloatArray:
        """Return the factor of each row in a part; rows of the rest have 1, as in LIBLINEAR."""
        return np.where(targets[:, 0] > 0.0, class_weights, 1.0) if by_rest else class_weights

    @property
    def loss(self) -> LinearLoss:
        """The loss of a row."""
        return SquaredHinge() if self.squared and math.isfinite(self.C) else Hinge()


@dataclass(frozen=True, kw_only=True)
class ForJointLinearSVC(LossSpec):
    """The joint linear machine of all classes (Crammer and Singer), ``LinearSVC(multi_class="crammer_singer")``.

    Attributes
    ----------
    C : float
    bias : bool
        Whether there are biases; they are penalised.
    scaling : float
        Value of the column of the biases.
    """

    machine = "JointLinearSVC"
    endless = ("C",)
    stated = ("tol_gap",)
    has_duals = True
    C: float
    bias: bool = True
    scaling: float = 1.0

    @property
    def estimator(self) -> str:
        """Name of the estimator that trains this machine."""
        return "LinearSVC"

    @property
    def own_vectors(self) -> type[Kernel]:
        """The linear kernel; the vectors are the normal vectors of the parts."""
        return Linear

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        assert point.vectors is not None
        assert point.multipliers is not None
        data = gram.data
        vectors = point.vectors.like(data)
        assert isinstance(data, Vectors)
        assert isinstance(vectors, Vectors)
        w, beta = np.asarray(vectors.float64().T @ point.beta), point.multipliers
        if self.bias:
            w = np.vstack([w, point.bias / self.scaling])
        codes = targets.argmax(axis=1)
        if targets.shape[1] == 1:  # the part is the second class minus the first, whose sum is 0
            w, beta, codes = w * [-0.5, 0.5], beta * [-1.0, 1.0], (targets[:, 0] > 0.0).astype(np.intp)
        rows = TableRows(table_of(data), codes.astype(np.float64), weights)
        constant = self.scaling if self.bias else 0.0
        return JointEvidence(JointLinearProblem(rows, w.shape[1], self.C, constant), w, beta)


def table_of(data: Vectors) -> Any:
    """Return the rows in C order, or CSR."""
    return np.ascontiguousarray(data.stored) if isinstance(data.stored, np.ndarray) else data.stored


@dataclass(frozen=True, kw_only=True)
class ForLinearSVR(LinearSpec):
    """Epsilon-insensitive loss or its square."""

    machine = "LinearSVR"
    answers = "quantity"
    squared: bool
    epsilon: float

    @property
    def loss(self) -> LinearLoss:
        """The loss of a row."""
        return SquaredEpsilonInsensitive(self.epsilon) if self.squared else EpsilonInsensitive(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ForLogisticRegression(LinearSpec):
    """Logistic loss of two classes or of each class against the rest, or the softmax loss of several classes.

    Attributes
    ----------
    joint : bool
        Whether several classes have one softmax loss together.
    network : bool
        Whether the columns are kernel values at centres (an RBF network); the vectors are the centres then.
    """

    machine = "LogisticRegression"
    endless = ("C",)
    derives_duals = True
    joint: bool = False
    network: bool = False

    @property
    def is_whole(self) -> bool:  # type: ignore[override]
        """Whether the classes are outputs of one problem."""
        return self.joint

    @property
    def own_vectors(self) -> type[Kernel]:
        """The kernel type; the vectors are not the training rows."""
        return RBF if self.network else Linear

    @property
    def loss(self) -> LinearLoss:
        """The loss of a row."""
        return Logistic()

    def softmax_problem(
        self, rows: LinearRows, n_classes: int, class_weights: FloatArray | None = None
    ) -> SoftmaxProblem:
        """Return the problem of several classes together, or if C is infinite, of two."""
        is_penalised = math.isfinite(self.C)
        C, constant = self.C if is_penalised else 1.0, 1.0 if self.bias else 0.0
        return SoftmaxProblem(rows, n_classes, C, constant, class_weights, True, self.l1_ratio, is_penalised)

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        assert point.vectors is not None
        data = gram.data
        vectors = point.vectors.like(data)
        assert isinstance(data, Vectors)
        assert isinstance(vectors, Vectors)
        data = data if gram.idx is None else data.rows(gram.idx)
        table = gram_matrix(gram.kernel, data, vectors) if self.network else table_of(data)
        w = point.beta if self.network else np.asarray(vectors.float64().T @ point.beta)
        if self.bias:
            w = np.vstack([w, point.bias])
        return self._evidence_of(table, targets, weights, w, point.multipliers)

    def _evidence_of(
        self, table: Any, targets: FloatArray, weights: FloatArray, w: FloatArray, beta: FloatArray | None
    ) -> EvaluatedEvidence:
        if self.joint:
            rows = TableRows(table, targets.argmax(axis=1).astype(np.float64), weights)
            problem = self.softmax_problem(rows, w.shape[1])
            return SoftmaxEvidence(problem, w, softmax_duals(problem, w) if beta is None else beta)
        rows = TableRows(table, (targets[:, 0] > 0.0).astype(np.float64), weights)
        problem, of_each = self.softmax_problem(rows, 2), w * [-0.5, 0.5]
        beta = softmax_duals(problem, of_each)[:, 1:] if beta is None else beta
        if math.isinf(self.C):
            return SoftmaxEvidence(problem, of_each, beta * [-1.0, 1.0])
        return LinearEvidence(self.problem(TableRows(table, targets[:, 0], weights), 1), w[:, 0], beta[:, 0])

    def log_shares(self, values: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities of more than two classes, up to a constant for each row."""
        return values if self.joint else -np.logaddexp(0.0, -values)

    def probabilities(self, values: FloatArray) -> FloatArray:
        """Return the probability of each class; those of one machine for each class are divided by their sum."""
        if self.joint or values.shape[1] == 1:
            return class_probabilities(values)
        return made_largest(np.asarray(softmax(self.log_shares(values), axis=1)), winners(values))[0]
