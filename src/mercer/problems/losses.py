"""The losses of linear machines, row by row, with their dual coefficients in signed coordinates.

A row has a target y, a decision value z and a charge C >= 0. The dual coefficient beta of a row is minus the slope of
C times its loss, so that w = sum_i beta_i x_i at the optimum. All functions take and return arrays of shape (m,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from mercer._typing import FloatArray
from mercer.gram.rows.row_terms import TermKind

SAME = 1e-12  # share of a bound; a coefficient that is nearer to it is at the bound, because C is rounded


class Extremes(NamedTuple):
    """The smallest gradient among dual coefficients that can grow, and the largest among those that can shrink.

    Then the numbers of coefficients other than 0: between their bounds, and at a bound.
    """

    least: float = np.inf
    most: float = -np.inf
    n_free: int = 0
    n_bounded: int = 0

    def joined(self, other: Extremes | None) -> Extremes | None:
        """Return the extremes over two sets of rows."""
        if other is None:
            return None
        counts = self.n_free + other.n_free, self.n_bounded + other.n_bounded
        return Extremes(min(self.least, other.least), max(self.most, other.most), *counts)

    def violation(self, *, has_free_bias: bool) -> float:
        """Return LIBSVM's m(alpha) - M(alpha); without a free bias, each coefficient can move alone."""
        return max(0.0, self.most - self.least if has_free_bias else max(self.most, -self.least))


class LinearLoss(ABC):
    """A convex loss l(z; y) of the decision value z of a row.

    Attributes
    ----------
    is_smooth : bool
        Whether the slope is continuous, so that Newton steps need no proximal term.
    classifies : bool
        Whether the targets are -1 and +1.
    power : int or None
        1 for a hinge or a tube, and 2 for their squares, which have dual solvers, interior points and examples. None
        for other losses, which must be smooth; Newton's method minimises them.
    """

    is_smooth: ClassVar[bool]
    classifies: ClassVar[bool]
    power: ClassVar[int | None] = None

    @property
    @abstractmethod
    def kind(self) -> TermKind:
        """The loss for native code; for losses that are not smooth, their smoothed form for an arbitrary factor.

        A smooth loss other than the logistic one has its own factor, which is also the unit.
        """

    @abstractmethod
    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of charge_i l(z_i; y_i)."""

    def total_at_zero(self, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of charge_i l(0; y_i), which is the same for both classes."""
        if self.classifies:
            return float(charge.sum()) * self.total(np.zeros(1), np.ones(1), np.ones(1))
        return self.total(np.zeros_like(y), y, charge)

    def conditions(self, beta: FloatArray, z: FloatArray, y: FloatArray, charge: FloatArray) -> Extremes | None:
        """Return the extremes of the gradients of the dual objective; None for losses without a power.

        A row has one dual variable, or with an epsilon > 0 one of each sign.
        """
        kind = self.kind
        if self.power is None:
            return None
        end = np.where(charge > 0.0, charge if kind.bounded else np.inf, 0.0)
        low, high = (np.minimum(y * end, 0.0), np.maximum(y * end, 0.0)) if kind.one_sided else (-end, end)
        grows, shrinks = beta < (1.0 - SAME * np.sign(high)) * high, beta > (1.0 + SAME * np.sign(low)) * low
        slope = z - y
        if not kind.bounded:
            slope = slope + np.divide(beta, 2.0 * charge, out=np.zeros_like(beta), where=charge > 0.0)
        growing, shrinking = slope[grows], slope[shrinks]
        if kind.epsilon > 0.0:  # the variable of the other sign is 0
            growing = np.where(beta >= 0.0, slope + kind.epsilon, slope - kind.epsilon)[grows]
            shrinking = np.where(beta <= 0.0, slope - kind.epsilon, slope + kind.epsilon)[shrinks]
        n_free = int(np.count_nonzero(grows & shrinks & (beta != 0.0)))
        return Extremes(
            float(growing.min(initial=np.inf)),
            float(shrinking.max(initial=-np.inf)),
            n_free,
            int(np.count_nonzero(beta)) - n_free,
        )

    @abstractmethod
    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return minus a slope of charge l at z: the dual coefficient that belongs to z. It is always feasible."""

    @abstractmethod
    def curvature(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the second derivative of charge l at z (a generalised one at kinks); smooth losses only."""

    @abstractmethod
    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest coefficients whose dual value is finite."""

    @abstractmethod
    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of -charge_i l*(-beta_i / charge_i; y_i) at feasible coefficients.

        With the l2 penalty, the dual objective is this minus ||sum_i beta_i x_i||^2 / 2.
        """


class BoxLoss(LinearLoss):
    """A loss max over m of m (y - z) - epsilon |m|, where m has bounds: it is piecewise linear."""

    epsilon: float
    is_smooth: ClassVar[bool] = False
    power: ClassVar[int | None] = 1

    def curvature(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the second derivatives."""
        raise NotImplementedError("this loss is not smooth")


@dataclass(frozen=True)
class EpsilonInsensitive(BoxLoss):
    """max(0, |y - z| - epsilon): linear support vector regression."""

    epsilon: float = 0.0
    classifies: ClassVar[bool] = False

    @property
    def kind(self) -> TermKind:
        """The smoothed loss for native code."""
        return TermKind(bounded=True, epsilon=self.epsilon, unit=1.0)

    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of the charged losses."""
        return float(charge @ np.maximum(0.0, np.abs(y - z) - self.epsilon))

    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the dual coefficients that belong to z."""
        return charge * np.sign(y - z) * (np.abs(y - z) > self.epsilon)

    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest feasible coefficients."""
        return np.clip(beta, -charge, charge)

    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the dual value without the penalty."""
        return float(y @ beta) - self.epsilon * float(np.abs(beta).sum())


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(LinearLoss):
    """max(0, |y - z| - epsilon)^2."""

    epsilon: float = 0.0
    is_smooth: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    power: ClassVar[int | None] = 2

    @property
    def kind(self) -> TermKind:
        """The loss for native code."""
        return TermKind(epsilon=self.epsilon)

    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of the charged losses."""
        return float(charge @ np.square(np.maximum(0.0, np.abs(y - z) - self.epsilon)))

    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the dual coefficients that belong to z."""
        return 2.0 * charge * np.sign(y - z) * np.maximum(0.0, np.abs(y - z) - self.epsilon)

    def curvature(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the second derivatives."""
        return 2.0 * charge * (np.abs(y - z) > self.epsilon)

    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest feasible coefficients."""
        return np.where(charge > 0.0, beta, 0.0)

    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the dual value without the penalty."""
        bent = np.divide(np.square(beta), 4.0 * charge, out=np.zeros_like(beta), where=charge > 0.0)
        return float(y @ beta) - self.epsilon * float(np.abs(beta).sum()) - float(bent.sum())


@dataclass(frozen=True)
class Hinge(BoxLoss):
    """max(0, 1 - y z)."""

    epsilon: ClassVar[float] = 0.0  # type: ignore[misc]
    classifies: ClassVar[bool] = True

    @property
    def kind(self) -> TermKind:
        """The smoothed loss for native code."""
        return TermKind(one_sided=True, bounded=True, unit=1.0)

    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of the charged losses."""
        return float(charge @ np.maximum(0.0, 1.0 - y * z))

    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the dual coefficients that belong to z."""
        return charge * y * (y * z < 1.0)

    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest feasible coefficients."""
        return y * np.clip(y * beta, 0.0, charge)

    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the dual value without the penalty."""
        return float(y @ beta)


@dataclass(frozen=True)
class SquaredHinge(LinearLoss):
    """max(0, 1 - y z)^2."""

    is_smooth: ClassVar[bool] = True
    classifies: ClassVar[bool] = True
    power: ClassVar[int | None] = 2

    @property
    def kind(self) -> TermKind:
        """The loss for native code."""
        return TermKind(one_sided=True)

    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of the charged losses."""
        return float(charge @ np.square(np.maximum(0.0, 1.0 - y * z)))

    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the dual coefficients that belong to z."""
        return 2.0 * charge * y * np.maximum(0.0, 1.0 - y * z)

    def curvature(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the second derivatives."""
        return 2.0 * charge * (y * z < 1.0)

    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest feasible coefficients."""
        return np.where(charge > 0.0, y * np.maximum(0.0, y * beta), 0.0)

    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the dual value without the penalty."""
        bent = np.divide(np.square(beta), 4.0 * charge, out=np.zeros_like(beta), where=charge > 0.0)
        return float(y @ beta) - float(bent.sum())


@dataclass(frozen=True)
class Logistic(LinearLoss):
    """ln(1 + exp(-y z))."""

    is_smooth: ClassVar[bool] = True
    classifies: ClassVar[bool] = True

    @property
    def kind(self) -> TermKind:
        """The loss for native code."""
        return TermKind(is_logistic=True)

    def total(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the sum of the charged losses."""
        return float(charge @ np.logaddexp(0.0, -y * z))

    def coefficient(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the dual coefficients that belong to z."""
        return charge * y * expit(-y * z)

    def curvature(self, z: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the second derivatives."""
        return charge * expit(z) * expit(-z)

    def feasible(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the nearest feasible coefficients."""
        return y * np.clip(y * beta, 0.0, charge)

    def dual(self, beta: FloatArray, y: FloatArray, charge: FloatArray) -> float:
        """Return the dual value without the penalty."""
        share = np.divide(y * beta, charge, out=np.zeros_like(beta), where=charge > 0.0)
        return -float(charge @ (xlogy(share, share) + xlog1py(1.0 - share, -share)))
