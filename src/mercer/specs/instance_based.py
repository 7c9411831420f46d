"""Specifications of machines that solve no optimisation problem, and how they are checked."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.roundoff import rounding_error
from mercer.data import Data
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.kernels.kernel import finite
from mercer.multiclass.coefficients import Coefficients, table_of
from mercer.solvers.smooth.neighbours import counted_shares, mean_targets, nearest
from mercer.solvers.smooth.perceptron import Separation
from mercer.specs.machine_spec import BY_PAIRS_OR_CLASSES, MachineSpec, Point


@dataclass(frozen=True, kw_only=True)
class InstanceBasedSpec(MachineSpec):
    """The specification of an instance-based machine: its coefficients follow from the rows without optimisation."""

    checked: ClassVar[str]
    """What `check` checks, as a phrase for messages."""

    @abstractmethod
    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: Separation | None
    ) -> tuple[Separation | None, list[str]]:
        """Return the recomputed claim, and one sentence for each error that was found.

        Parameters
        ----------
        targets : ndarray of shape (n, T)
            Signs of classes.
        weights : ndarray of shape (n,)
            Weights of the rows, all positive.
        gram : Gram
            Gram matrix of the n rows.
        point : Point
        stated : Separation or None
            The claim in the model file.
        """


@dataclass(frozen=True, kw_only=True)
class ForKernelPerceptron(InstanceBasedSpec):
    """The perceptron: a coefficient is the number of mistakes on the row, times the weight of its class."""

    machine = "KernelPerceptron"
    checked = "the counts of mistakes, the perceptron criterion and whether the classes are separated"
    schemes = BY_PAIRS_OR_CLASSES
    certificate_type = Separation
    is_whole = False

    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: Separation | None
    ) -> tuple[Separation | None, list[str]]:
        """Recompute the mistakes, the criterion and the separation; see :class:`InstanceBasedSpec`."""
        assert stated is not None
        y, beta = targets[:, 0], point.beta[:, 0]
        counts = beta * y / weights
        values = finite(gram.kernel, gram.matvec(beta))
        room = rounding_error(gram, gram.value_bound(), beta, values) * float(np.sqrt(y.size))
        actual = Separation(
            n_mistakes=int(np.rint(counts).sum()) if abs(counts.sum()) < 2.0**63 else 0,
            n_passes=stated.n_passes,
            criterion=float(weights @ np.maximum(0.0, -y * values)),
            separated=bool((y * values > 0.0).all()),
        )
        findings = []
        if (counts < 0.0).any() or not np.allclose(counts, np.rint(counts), rtol=1e-12, atol=0.0) or point.bias.any():
            findings.append("the coefficients are no counts of mistakes")
        if actual.n_mistakes != stated.n_mistakes:
            findings.append(
                f"the number of mistakes is {stated.n_mistakes} in the file and {actual.n_mistakes} recomputed"
            )
        if not abs(actual.criterion - stated.criterion) <= weights.sum() * room:
            findings.append(
                f"the perceptron criterion is {stated.criterion:.9g} in the file and {actual.criterion:.9g} recomputed"
            )
        if stated.separated and not (y * values > -room).all():
            findings.append("the file says that the classes are separated, and they are not")
        return actual, findings


@dataclass(frozen=True, kw_only=True)
class ForParzenClassifier(InstanceBasedSpec):
    """The kernel density classifier: the coefficient of a row is its weight, in the column of its class."""

    machine = "ParzenClassifier"
    checked = "the rows and their weights"

    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: Separation | None
    ) -> tuple[Separation | None, list[str]]:
        """Compare the coefficients with the weights; see :class:`InstanceBasedSpec`."""
        same = np.allclose(point.beta, _unit_votes(targets) * weights[:, None], rtol=1e-12, atol=0.0)
        return None, [] if same and not point.bias.any() else ["the coefficients are not the weights of the rows"]


@dataclass(frozen=True, kw_only=True)
class ForKernelNeighborsClassifier(InstanceBasedSpec):
    """The nearest-neighbour classifier: the nearest stored rows vote for their classes with the class weights."""

    machine = "KernelNeighborsClassifier"
    checked = "the rows that vote, and their classes and weights"
    is_sum = False
    n_neighbors: int
    every_row: bool = True
    by_distance: bool = False

    def values(
        self, kernel: Kernel, data: Data, vectors: Data, coefficients: Coefficients, biases: FloatArray
    ) -> FloatArray:
        """Return the share of votes of each class; for two classes, the second share minus the first."""
        table = table_of(coefficients)
        several = table.shape[1] > 1
        codes = table.argmax(axis=1) if several else (table[:, 0] > 0.0).astype(np.int64)
        weights = np.abs(table).max(axis=0) if several else _weights_of_two(table[:, 0])
        squares, places = nearest(kernel, data, vectors, self.n_neighbors)
        shares = counted_shares(codes[places], weights, squares if self.by_distance else None)
        return shares if several else shares[:, 1:] - shares[:, :1]

    def probabilities(self, values: FloatArray) -> FloatArray:
        """Return the share of votes of each class; see :class:`MachineSpec`."""
        return values if values.shape[1] > 1 else np.column_stack([0.5 - 0.5 * values, 0.5 + 0.5 * values])

    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: Separation | None
    ) -> tuple[Separation | None, list[str]]:
        """Compare the votes with the classes and their weights; see :class:`InstanceBasedSpec`."""
        votes = point.beta.any(axis=1)
        same = np.allclose(point.beta[votes], (_unit_votes(targets) * weights[:, None])[votes], rtol=1e-12, atol=0.0)
        findings = [] if same and not point.bias.any() else ["the votes are not the weights of the rows' classes"]
        if self.every_row and not votes.all():
            findings.append("the file says that every row votes, and some do not")
        return None, findings


@dataclass(frozen=True, kw_only=True)
class ForKernelNeighborsRegressor(InstanceBasedSpec):
    """Nearest-neighbour regression: the coefficient of a row is its target, and predictions are means of targets."""

    machine = "KernelNeighborsRegressor"
    answers = "quantity"
    checked = "the rows and their targets"
    is_sum = False
    uses_all_rows = True
    n_neighbors: int
    by_distance: bool = False

    def values(
        self, kernel: Kernel, data: Data, vectors: Data, coefficients: Coefficients, biases: FloatArray
    ) -> FloatArray:
        """Return the mean target of the nearest rows, (n, 1)."""
        del biases
        squares, places = nearest(kernel, data, vectors, self.n_neighbors)
        return mean_targets(table_of(coefficients)[places, 0], squares if self.by_distance else None)[:, None]

    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: Separation | None
    ) -> tuple[Separation | None, list[str]]:
        """Compare the coefficients with the targets; see :class:`InstanceBasedSpec`."""
        same = np.array_equal(point.beta[:, 0], targets[:, 0]) and not point.bias.any()
        return None, [] if same else ["the coefficients are not the targets of the rows"]


def _unit_votes(signs: FloatArray) -> FloatArray:
    """Return the coefficients of rows of weight 1: the sign for two classes, or 1 in the column of the row's class."""
    return signs if signs.shape[1] == 1 else np.maximum(0.0, signs)


def _weights_of_two(votes: FloatArray) -> FloatArray:
    return np.array([np.max(-votes, initial=0.0), np.max(votes, initial=0.0)])
