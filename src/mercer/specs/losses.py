"""Specifications of machines that minimise another loss, and the evidence for their certificates."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, softmax

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate
from mercer.certificates.least_squares import LeastSquaresEvidence
from mercer.certificates.smooth import EvaluatedEvidence, KernelEvidence
from mercer.data import Vectors
from mercer.geometry.matrices import gram_matrix
from mercer.gram import Gram
from mercer.kernels import RBF, Kernel, Linear
from mercer.multiclass.coupling import made_largest
from mercer.multiclass.training import winners
from mercer.problems.smooth import Logistic, Objective, Softmax, Squared
from mercer.solvers.smooth import descent
from mercer.specs.machine_spec import BY_PAIRS_OR_CLASSES, MachineSpec, Point


@dataclass(frozen=True, kw_only=True)
class LossSpec(MachineSpec):
    """The specification of a machine with a loss function."""

    certificate_type = Certificate
    stated: ClassVar[tuple[str, ...]] = ("gradient_violation", "decision_error", "tol")

    @abstractmethod
    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence from which the certificate of a point is computed.

        Parameters
        ----------
        targets : ndarray of shape (n, T)
            Signs of classes, or numbers.
        weights : ndarray of shape (n,)
            Weights of the rows, all positive.
        gram : Gram
            Gram matrix of the n rows.
        point : Point

        Raises
        ------
        ValueError
            If the point is not feasible for this machine.
        """


@dataclass(frozen=True, kw_only=True)
class KernelLoss(LossSpec):
    """A smooth loss of a function in the kernel's space."""

    @abstractmethod
    def objective(self, targets: FloatArray, weights: FloatArray) -> Objective:
        """Return the objective; see :meth:`evidence` for the arguments."""

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        return KernelEvidence.of(self.objective(targets, weights), gram, point.beta, point.bias, convex=gram.is_convex)


def class_probabilities(log_odds: FloatArray) -> FloatArray:
    """Return the class probabilities from one column of log-odds, or from one score for each class.

    The class with the largest score gets the largest probability. Near 1/2, different log-odds can round to equal
    probabilities; the last digit is then adjusted.
    """
    if log_odds.shape[1] == 1:
        scores = log_odds[:, 0]
        probabilities = np.column_stack([expit(-scores), expit(scores)])
    else:
        scores, probabilities = log_odds, np.asarray(softmax(log_odds, axis=1))
    return made_largest(probabilities, winners(scores))[0]


@dataclass(frozen=True, kw_only=True)
class ForKernelRidge(KernelLoss):
    """Squared loss of numeric targets, without a bias."""

    machine = "KernelRidge"
    answers = "quantity"
    alpha: float

    def objective(self, targets: FloatArray, weights: FloatArray) -> Objective:
        """Return the objective; see :class:`KernelLoss`."""
        return Objective(Squared(targets), weights, np.full(targets.shape[1], self.alpha), False)


@dataclass(frozen=True, kw_only=True)
class ForLeastSquaresSVC(KernelLoss):
    """Squared loss of the signs of the classes, with a bias."""

    machine = "LeastSquaresSVC"
    C: float

    def objective(self, targets: FloatArray, weights: FloatArray) -> Objective:
        """Return the objective; see :class:`KernelLoss`."""
        return Objective(Squared(targets), weights, np.full(targets.shape[1], 1.0 / self.C), True)


@dataclass(frozen=True, kw_only=True)
class ForKernelLogisticRegression(KernelLoss):
    """Minus the log-likelihood of a function in the kernel's space."""

    machine = "KernelLogisticRegression"
    prior_variance: float
    bias: bool = True

    def objective(self, targets: FloatArray, weights: FloatArray) -> Objective:
        """Return the objective; see :class:`KernelLoss`."""
        n_outputs = targets.shape[1]
        loss = Logistic(targets[:, 0]) if n_outputs == 1 else Softmax(targets.argmax(axis=1))
        return Objective(loss, weights, np.full(n_outputs, 1.0 / self.prior_variance), self.bias)

    def log_shares(self, values: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities of more than two classes, up to a constant for each row."""
        return values

    def probabilities(self, values: FloatArray) -> FloatArray:
        """Return the probability of each class; see :class:`MachineSpec`."""
        return class_probabilities(values)


@dataclass(frozen=True, kw_only=True)
class ForLeastSquaresClassifier(LossSpec):
    """Squared loss of the signs of the classes, for a linear function with a bias.

    Without a network the vectors are the normal vectors w_t of the outputs: f_t(x) = 1 k(w_t, x) + b_t with the linear
    kernel. In a network (an RBF network) the vectors are the centres, and the function is linear in the kernel values.
    """

    machine = "LeastSquaresClassifier"
    alpha: float
    network: bool = False

    @property
    def own_vectors(self) -> type[Kernel]:
        """The kernel type; the vectors are not the training rows."""
        return RBF if self.network else Linear

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        assert point.vectors is not None
        data = gram.data
        vectors = point.vectors.like(data)
        assert isinstance(data, Vectors)
        assert isinstance(vectors, Vectors)
        if self.network:
            rows, w = gram_matrix(gram.kernel, data, vectors), point.beta
        else:
            rows, w = data.float64(), np.asarray(vectors.float64().T @ point.beta)
        objective = Objective(Squared(targets), weights, np.full(targets.shape[1], self.alpha), True)
        return LeastSquaresEvidence(objective, rows, w, point.bias)


@dataclass(frozen=True, kw_only=True)
class ForGradientKernelSVC(LossSpec):
    """Hinge loss, and a penalty on the squares of the coefficients alpha_i = beta_i y_i / weight_i."""

    machine = "GradientKernelSVC"
    stated = ("decision_error", "tol_gap")
    schemes = BY_PAIRS_OR_CLASSES
    is_whole = False
    has_multipliers = True
    penalty: float

    def evidence(self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point) -> EvaluatedEvidence:
        """Return the evidence for the certificate of a point; see :class:`LossSpec`."""
        y, multipliers = targets[:, 0], point.multipliers
        assert multipliers is not None
        alpha = point.beta[:, 0] * y / weights
        if (alpha < 0.0).any():
            raise ValueError("a coefficient has the sign of the other class")
        inside = (multipliers >= 0.0) & (multipliers <= weights * (1.0 + _ROOM))
        if not inside.all() or not abs(float(y @ multipliers)) <= _ROOM * float(multipliers.sum()):
            raise ValueError("its multipliers are no dual point")
        at = descent.Point(alpha, float(point.bias[0]), multipliers)
        rows = gram.kernel, gram.data, gram.idx
        return descent.CoefficientEvidence(*rows, y, weights, self.penalty, at, gram.n_threads, gram.memory_limit)


_ROOM = 1e-9  # relative to the multipliers; allows for rounding, and is too small to change the printed gap
