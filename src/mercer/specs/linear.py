"""Specifications of the linear machines that are trained on rows of any number."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.gram import Gram
from mercer.kernels import Kernel, Linear
from mercer.linear import (
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
from mercer.linear.certificate import LinearCertificate, LinearEvidence
from mercer.linear.crammer_singer import JointEvidence
from mercer.linear.joint_problem import JointLinearProblem
from mercer.losses.certificate import Evidence
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.coupling import made_largest
from mercer.multiclass.training import winners
from mercer.specs.base import BY_PAIRS_OR_CLASSES, Point
from mercer.specs.losses import LossSpec, class_probabilities


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

    claims = LinearCertificate
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
        """Return the problem of one machine on these rows; see :class:`mercer.linear.LinearProblem`."""
        kind = (Bias.FREE if self.free else Bias.PENALISED) if self.bias else Bias.NONE
        return LinearProblem(rows, self.loss, self.C, self.l1_ratio, kind, self.scaling, positive, class_weights)

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> Evidence:
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
    schemes = BY_PAIRS_OR_CLASSES
    calibrated_on = (FOLDS,)
    squared: bool

    def row_weights(self, class_weights: FloatArray, targets: FloatArray, *, by_rest: bool) -> FloatArray:
        """Return the factor of each row in a part; rows of the rest have 1, as in LIBLINEAR."""
        return np.where(targets[:, 0] > 0.0, class_weights, 1.0) if by_rest else class_weights

    @property
    def loss(self) -> LinearLoss:
        """The loss of a row."""
        return SquaredHinge() if self.squared else Hinge()


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
    claims = LinearCertificate
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

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> Evidence:
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
class ForLogisticByRest(LinearSpec):
    """Logistic loss of two classes, or of each class against the rest."""

    machine = "LogisticByRest"

    @property
    def estimator(self) -> str:
        """Name of the estimator that trains this machine."""
        return "LogisticRegression"

    @property
    def loss(self) -> LinearLoss:
        """The loss of a row."""
        return Logistic()

    def log_shares(self, values: FloatArray) -> FloatArray:
        """Return the logarithm of each machine's probability of its class, (n, n_classes)."""
        return -np.logaddexp(0.0, -values)

    def probabilities(self, values: FloatArray) -> FloatArray:
        """Return the probability of each class: those of the machines, divided by their sum."""
        if values.shape[1] == 1:
            return class_probabilities(values)
        return made_largest(np.asarray(softmax(self.log_shares(values), axis=1)), winners(values))[0]
