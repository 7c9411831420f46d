"""What Newton's method minimises beside the penalty: a sum of smooth functions of the decision values, row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.linear.losses import BoxLoss, LinearLoss, Logistic
from mercer.linear.problem import Part
from mercer.linear.rows import RowNumbers


class Slopes(NamedTuple):
    """Derivatives of the terms of a block of rows, (m,) each; the second ones are `curvature` times the `factor`."""

    beta: FloatArray  # minus the first derivatives: feasible dual coefficients
    curvature: FloatArray


class SmoothTerms(ABC):
    """A convex function of the decision value of each row, with a continuous slope.

    Attributes
    ----------
    is_quadratic : bool
        Whether second derivatives are piecewise constant, so that only those of few rows change in late steps.
    factor : float
        Common factor of all second derivatives.
    """

    is_quadratic: bool
    factor: float = 1.0

    @abstractmethod
    def slopes(self, part: Part, z: FloatArray) -> Slopes:
        """Return the derivatives at z."""

    @abstractmethod
    def total(self, part: Part, z: FloatArray) -> float:
        """Return the sum of the terms at z."""

    @abstractmethod
    def duality(self, part: Part, z: FloatArray, beta: FloatArray) -> tuple[float, float]:
        """Return the sum of the losses at z, and what the rows add to the duality gap for the coefficients `beta`.

        The latter is the sum of C l(z) + z beta - (dual value of beta), >= 0 for each row.
        """


@dataclass(frozen=True, eq=False)
class LossTerms(SmoothTerms):
    """The losses themselves, if they are smooth."""

    loss: LinearLoss

    @property
    def is_quadratic(self) -> bool:  # type: ignore[override]
        """True but for logistic loss."""
        return not isinstance(self.loss, Logistic)

    def slopes(self, part: Part, z: FloatArray) -> Slopes:
        """Return the derivatives at z."""
        about = z, part.targets, part.charges
        return Slopes(self.loss.coefficient(*about), self.loss.curvature(*about))

    def total(self, part: Part, z: FloatArray) -> float:
        """Return the sum of the losses."""
        return self.loss.total(z, part.targets, part.charges)

    def duality(self, part: Part, z: FloatArray, beta: FloatArray) -> tuple[float, float]:
        """Return the losses, and 0 because `beta` is the slope of the loss."""
        return self.total(part, z), 0.0


@dataclass(eq=False)
class ProximalTerms(SmoothTerms):
    """The losses of a proximal step from the dual point `shares` times the charges.

    The term of a row is max over m of C (m (y - z) - epsilon |m| - (m - share)² / (2 factor)), where m has the bounds
    of the loss for C = 1. It is C times the loss, smoothed; the maximum is at m = clip(shrink(share + factor (y - z))).
    """

    loss: BoxLoss
    shares: RowNumbers
    factor: float
    is_quadratic = True

    def _best(self, part: Part, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the maximisers, and whether each is free to move with z."""
        lower, upper = self.loss.bounds(part.targets)
        moved = self.shares[part.block.at] + self.factor * (part.targets - z)
        shrunken = np.sign(moved) * np.maximum(0.0, np.abs(moved) - self.factor * self.loss.epsilon)
        best = np.clip(shrunken, lower, upper)
        is_free = (best == shrunken) & (shrunken != 0.0) if self.loss.epsilon else (best == shrunken)
        return best, is_free.astype(np.float64)

    def slopes(self, part: Part, z: FloatArray) -> Slopes:
        """Return the derivatives at z."""
        best, is_free = self._best(part, z)
        return Slopes(part.charges * best, part.charges * is_free)

    def total(self, part: Part, z: FloatArray) -> float:
        """Return the sum of the smoothed losses."""
        best, _ = self._best(part, z)
        away = np.square(best - self.shares[part.block.at]) / (2.0 * self.factor)
        return float(part.charges @ (best * (part.targets - z) - self.loss.epsilon * np.abs(best) - away))

    def duality(self, part: Part, z: FloatArray, beta: FloatArray) -> tuple[float, float]:
        """Return the losses, and what the rows add to the gap."""
        loss = self.loss.total(z, part.targets, part.charges)
        return loss, loss + float(z @ beta) - self.loss.dual(beta, part.targets, part.charges)

    def move(self, part: Part, z: FloatArray) -> None:
        """Make the maximisers at z the point from which the next proximal step starts."""
        self.shares[part.block.at] = self._best(part, z)[0]
