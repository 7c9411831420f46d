"""The joint linear problem of several classes, and points of its dual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.gram.rows.table_rows import Block, LinearRows, charges_of
from mercer.problems.row_sums import SumsOverRows


class JointPart(NamedTuple):
    """A block of rows with the classes and the charges of the rows, (m,) each."""

    block: Block
    codes: IndexArray
    charges: FloatArray


@dataclass(frozen=True, eq=False)
class JointLinearProblem(SumsOverRows):
    """A linear machine of several classes with one loss for each row.

    **Solves**

        min  1/2 sum_k ||w_k||^2 + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)),   f_k(x) = <w_k, x> + b_k,

    where C_i is C times the weight of the row times that of its class. The weights of the biases are penalised as in
    :class:`mercer.solvers.rows.LinearProblem`.

    Parameters
    ----------
    rows : LinearRows
        Their labels are the numbers of the classes.
    n_classes : int, >= 2
    C : float
        With C = inf, no loss is allowed: the machine has the maximal margin.
    constant : float
        Value of the column of the biases; 0 without biases.
    class_weights : ndarray of shape (n_classes,), optional
        The factor of C of each class.
    """

    rows: LinearRows
    n_classes: int
    C: float = 1.0
    constant: float = 1.0
    class_weights: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns, including that of the biases."""
        return self.rows.p + (self.constant != 0.0)

    def parts(self) -> Iterator[JointPart]:
        """Return the blocks of rows with their classes and charges."""
        return map(self.part_of, self.rows.blocks())

    def part_of(self, block: Block) -> JointPart:
        """Return a block of rows with its classes and charges."""
        codes = np.maximum(0, block.labels.astype(np.int64))  # rows without a class have -1 and the weight 0
        factors = None if self.class_weights is None else self.class_weights[codes]
        return JointPart(block, codes, charges_of(self.C, block.weights, factors))

    def split(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the normal vectors (n_classes, p) and the biases (n_classes,) of weights (n_columns, n_classes)."""
        p = self.rows.p
        return w[:p].T.copy(), self.constant * w[p] if self.constant else np.zeros(self.n_classes)


@dataclass(eq=False)
class JointPoint:
    """A point of the dual problem.

    Attributes
    ----------
    beta : ndarray of shape (n, n_classes)
        Feasible dual coefficients: rows with sum 0, where only the element of the row's class is positive, and at most
        the charge of the row.
    w : ndarray of shape (n_columns, n_classes)
        Column k is sum_i beta_ik x_i.
    epochs_left, epochs_made : float
        As in :class:`mercer.solvers.rows.dual_descent.DualPoint`.
    """

    beta: FloatArray
    w: FloatArray
    epochs_left: float = 0.0
    epochs_made: float = 0.0


def bounds(part: JointPart, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper bounds of the dual coefficients, (m, n_classes) each."""
    is_true_class = part.codes[:, None] == np.arange(n_classes)
    charges = part.charges[:, None]
    return np.where(is_true_class, 0.0, -charges), np.where(is_true_class, charges, 0.0)


def near(beta: FloatArray, part: JointPart) -> FloatArray:
    """Return feasible coefficients near `beta`."""
    rows = np.arange(part.codes.size)
    given = np.maximum(0.0, -beta)
    given[rows, part.codes] = 0.0
    totals = given.sum(axis=1)
    factors = np.divide(part.charges, totals, out=np.ones_like(totals), where=totals > part.charges)
    given *= factors[:, None]
    near = -given
    near[rows, part.codes] = given.sum(axis=1)
    return near
