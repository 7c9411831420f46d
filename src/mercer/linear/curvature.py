"""The second derivatives of a linear problem, and the Newton directions that they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray
from mercer.linear.lasso import minimise_lasso
from mercer.linear.problem import LinearProblem, Part, Penalty
from mercer.linear.rows import RowNumbers
from mercer.linear.smooth_terms import SmoothTerms
from mercer.linear.sweeps import add_gram
from mercer.linear.systems import solve_positive

_MOST_CHANGES = 100.0  # ratio of all changes of the matrix to its size, after which it is computed from scratch
_LEVENBERG = 1e-10  # ridge of the l1 problem, relative to the diagonal


@dataclass(eq=False)
class Anchor:
    """A term that is added to the l1 penalty: sum_j weight_j (w_j - centre_j)² / 2, with weights > 0."""

    weight: FloatArray
    centre: FloatArray

    def value(self, w: FloatArray) -> float:
        """Return the value at w."""
        return 0.5 * float(self.weight @ np.square(w - self.centre))

    def distance(self, w: FloatArray, pull: FloatArray, counted: FloatArray) -> float:
        """Return by how much the penalty with this term, less <pull, w>, exceeds its minimum."""
        moved = self.centre + pull / self.weight
        best = np.sign(moved) * np.maximum(0.0, np.abs(moved) - counted / self.weight)
        change = counted @ (np.abs(w) - np.abs(best)) - pull @ (w - best)
        return float(change) + self.value(w) - self.value(best)


class Curvature(ABC):
    """The second derivatives, collected block by block in the sweep of the gradient.

    They are those of the terms: factor times sum_i h_i x_i x_i'.
    """

    @abstractmethod
    def begin(self) -> None:
        """Prepare for a sweep."""

    @abstractmethod
    def add(self, part: Part, curvature: FloatArray) -> None:
        """Add the h_i of a block of rows."""

    @abstractmethod
    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Return the Newton step at the weights w; `pull` is minus the gradient of the terms, sum_i beta_i x_i.

        An `anchor` is part of the objective.
        """

    @property
    @abstractmethod
    def bytes_held(self) -> int:
        """Bytes of the matrices and of the numbers of each row."""


class GramCurvature(Curvature):
    """The matrix itself, in columns that are multiplied by `scales`, powers of 2.

    Where second derivatives are piecewise constant, only rows whose derivative has changed are added or removed.
    """

    def __init__(self, problem: LinearProblem, terms: SmoothTerms, scales: FloatArray) -> None:
        self.problem, self.terms, self.scales = problem, terms, scales
        q = problem.n_columns
        self.gram = np.zeros((q, q))
        self.previous: RowNumbers | None = problem.rows.numbers() if terms.is_quadratic else None
        self.is_fresh, self.now, self.moved = True, 0.0, 0.0  # sums of the h_i in the matrix, and of their changes

    def begin(self) -> None:
        """Forget the matrix, unless it is updated by changes whose rounding errors are small."""
        self.is_fresh = self.previous is None or self.moved > _MOST_CHANGES * self.now
        self.now = 0.0
        if self.is_fresh:
            self.moved = 0.0
            self.gram[:] = 0.0

    def add(self, part: Part, curvature: FloatArray) -> None:
        """Add a block, or its changes."""
        change = curvature
        if self.previous is not None:
            change = curvature if self.is_fresh else curvature - self.previous[part.block.at]
            self.previous[part.block.at] = curvature
        self.now += float(curvature.sum())
        self.moved += float(np.abs(change).sum())
        add_gram(part.block.table, self.problem.constant, change, self.scales, self.gram)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Solve by Cholesky factorisation, or with the l1 penalty by the feature-sign method."""
        counted, scales = self.problem.counted, self.scales
        matrix = self.terms.factor * self.gram
        diagonal = np.einsum("jj->j", matrix)
        if self.problem.penalty is Penalty.L2:
            diagonal += counted * np.square(scales)
            return solve_positive(matrix, (pull - counted * w) * scales) * scales
        if anchor is None:  # keep the step short in directions without curvature, where it is not unique
            diagonal += np.where(diagonal > 0.0, _LEVENBERG * diagonal, 1.0)
        else:
            diagonal += anchor.weight * np.square(scales)
            pull = pull - anchor.weight * (w - anchor.centre)
        u = w / scales
        return (minimise_lasso(matrix, -pull * scales - matrix @ u, counted * scales, u) - u) * scales

    @property
    def bytes_held(self) -> int:
        """Bytes of the matrix and its factor, and of the curvature of each row."""
        return 4 * self.gram.nbytes + (8 * self.problem.rows.n if self.previous is not None else 0)
