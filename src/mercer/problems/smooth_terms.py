"""What Newton's method minimises beside the penalty: a sum of smooth functions of the decision values, row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mercer._core import RowTerms
from mercer._typing import FloatArray
from mercer.gram.rows.row_terms import TermKind, TermValues, native_terms, row_terms, term_line
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.linear import Part
from mercer.problems.losses import LinearLoss


class SmoothTerms(ABC):
    """A convex function of the decision value of each row, with a continuous slope.

    Attributes
    ----------
    loss : LinearLoss
    factor : float
        Common factor of all second derivatives.
    """

    loss: LinearLoss
    factor: float = 1.0

    @property
    def is_quadratic(self) -> bool:
        """Whether second derivatives are piecewise constant, so that only those of few rows change in late steps."""
        return not self.loss.kind.is_logistic

    @property
    @abstractmethod
    def kind(self) -> TermKind:
        """The function for native code."""

    @abstractmethod
    def shares_of(self, part: Part) -> FloatArray | None:
        """Return the dual points of a block of rows from which a proximal step starts; None without a proximal step."""

    def of_rows(self, part: Part) -> RowTerms:
        """Return the functions of a block of rows."""
        return native_terms(self.kind, part.targets, part.charges, self.shares_of(part))

    def values(self, part: Part, z: FloatArray, n_jobs: int | None = None) -> TermValues:
        """Return the derivatives and sums at z; the second derivatives are `curvature` times the `factor`."""
        return row_terms(self.of_rows(part), z, n_jobs)

    def line(
        self, part: Part, z: FloatArray, change: FloatArray, lengths: FloatArray, n_jobs: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the slopes and second derivatives of the sum of the terms at z + t change, for t in `lengths`."""
        slopes, bends = term_line(self.of_rows(part), z, change, lengths, n_jobs)
        return slopes, self.factor * bends


@dataclass(frozen=True, eq=False)
class LossTerms(SmoothTerms):
    """The losses themselves, if they are smooth."""

    loss: LinearLoss

    @property
    def kind(self) -> TermKind:
        """That of the loss."""
        return self.loss.kind

    def shares_of(self, part: Part) -> None:
        """Return None."""
        del part


@dataclass(eq=False)
class ProximalTerms(SmoothTerms):
    """The losses of a proximal step from the dual point `shares` times the charges.

    The term of a row is max over m of C (m (y - z) - epsilon |m| - (m - share)² / (2 step)), where m has the bounds
    of the loss for C = 1. It is C times the loss, smoothed; the maximum is at m = clip(shrink(share + step (y - z))).

    A smooth loss with bounds subtracts bend m² / 2 itself. Both squares are one, up to a constant, with another share
    and another step, the `factor`.
    """

    loss: LinearLoss
    shares: RowNumbers
    step: float

    @property
    def factor(self) -> float:  # type: ignore[override]
        """The step whose square is both squares."""
        return self.step / (1.0 + self.bend * self.step)

    @property
    def bend(self) -> float:
        """Factor of m² / 2 in the loss itself; 0 for losses with kinks."""
        return 1.0 / self.loss.kind.factor if self.loss.is_smooth else 0.0

    @property
    def kind(self) -> TermKind:
        """That of the loss, smoothed."""
        return self.loss.kind._replace(factor=self.factor, unit=1.0)

    def shares_of(self, part: Part) -> FloatArray:
        """Return the shares of the block."""
        shares = self.shares[part.block.at]
        return shares / (1.0 + self.bend * self.step) if self.bend else shares

    def values(self, part: Part, z: FloatArray, n_jobs: int | None = None) -> TermValues:
        """Return the derivatives and sums at z; the native losses are those without the bend."""
        terms = super().values(part, z, n_jobs)
        if not self.bend:
            return terms
        loss = self.loss.total(z, part.targets, part.charges)
        dual = self.loss.dual(terms.beta, part.targets, part.charges)
        return terms._replace(loss=loss, excess=max(0.0, loss - dual + float(terms.beta @ z)))

    def move(self, part: Part, z: FloatArray) -> None:
        """Make the maximisers at z the point from which the next proximal step starts."""
        best = row_terms(native_terms(self.kind, part.targets, np.ones(z.shape), self.shares_of(part)), z)
        self.shares[part.block.at] = best.beta
