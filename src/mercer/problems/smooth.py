"""The objective of these machines: a penalty on ||w||² and a smooth loss of the decision values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from mercer._typing import FloatArray, IndexArray
from mercer.gram.threads import blas_threads

Linear = Callable[[FloatArray], FloatArray]


TOL = 1e-6
"""Largest residual of a least-squares system, relative to the largest target: more digits than data have, and reachable
for systems so badly conditioned that half of the digits of float64 are lost."""

_MOST_SHIFTS, _LEAST_SHIFT = 100, 1e-13  # Newton steps of the biases (about five are typical), and their least size
_FULL_SHIFT = 1e-3  # largest Newton step of the biases without a line search, which would see only rounding
_ROUNDED = 16.0 * float(np.finfo(np.float64).eps)  # rounding error of a sum of losses, relative to the sum
_BALANCE = 1e-10
"""Largest sum of weighted gradients that counts as rounding, relative to the sum of the weights and in units of the
loss. A dual point with this violation bounds the optimum to about ten digits."""


class SmoothLoss(ABC):
    """A convex, differentiable loss L_i(f_i) of the T decision values of each row.

    Attributes
    ----------
    scale : ndarray of shape (T,) or (1,)
        The scale with which derivatives of each output are compared.
    ignores_common_shift : bool
        Whether the loss stays the same if one number is added to all decision values of a row.
    """

    scale: FloatArray = np.ones(1)
    ignores_common_shift: bool = False

    @abstractmethod
    def values(self, f: FloatArray) -> FloatArray:
        """Return the loss of each row, (n,), for decision values of shape (n, T)."""

    @abstractmethod
    def gradient(self, f: FloatArray) -> FloatArray:
        """Return the derivatives with respect to the decision values, (n, T)."""

    @abstractmethod
    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """Return linear maps B and B' on each row of (n, T), such that B B' is the matrix of second derivatives."""

    def excess(self, residual: FloatArray) -> FloatArray | None:
        """Return L(f) + L*(u) - u f at u = L'(f) - `residual`, for each row and output.

        Return None if the conjugate L* may be infinite; then a dual point must be made from L'(f) itself.
        """
        del residual
        return None


@dataclass(frozen=True, eq=False)
class Squared(SmoothLoss):
    """Squared loss 1/2 (y - f)², for targets of shape (n, T)."""

    y: FloatArray

    @property
    def scale(self) -> FloatArray:  # type: ignore[override]
        """The largest target of each output."""
        largest = np.abs(self.y).max(axis=0, initial=0.0)
        return np.where(largest > 0.0, largest, 1.0)

    def values(self, f: FloatArray) -> FloatArray:
        """Half the squared residuals of each row."""
        return 0.5 * np.square(self.y - f).sum(axis=1)

    def gradient(self, f: FloatArray) -> FloatArray:
        """The residuals f - y."""
        return f - self.y

    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """The identity."""
        del f
        return lambda v: v, lambda v: v

    def excess(self, residual: FloatArray) -> FloatArray:
        """Half the squared residual."""
        return 0.5 * np.square(residual)


@dataclass(frozen=True, eq=False)
class Logistic(SmoothLoss):
    """Logistic loss ln(1 + exp(-y f)), for signs y of shape (n,) and one decision value."""

    y: FloatArray

    def values(self, f: FloatArray) -> FloatArray:
        """The negative log-likelihood of each row."""
        return np.logaddexp(0.0, -self.y * f[:, 0])

    def gradient(self, f: FloatArray) -> FloatArray:
        """Minus y times the probability of the other class."""
        return (-self.y * expit(-self.y * f[:, 0]))[:, None]

    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """Multiplication by the root of p (1 - p)."""
        factors = np.sqrt(expit(f) * expit(-f))
        return lambda v: factors * v, lambda v: factors * v


@dataclass(frozen=True, eq=False)
class Softmax(SmoothLoss):
    """Softmax loss ln sum_k exp(f_k) - f_y, for class numbers of shape (n,) and one decision value per class."""

    codes: IndexArray
    ignores_common_shift = True

    def values(self, f: FloatArray) -> FloatArray:
        """The negative log-likelihood of each row, without cancellation for small values."""
        every, top = np.arange(self.codes.size), f.argmax(axis=1)
        beside = np.exp(f - f[every, top, None])
        beside[every, top] = 0.0
        return np.asarray(f[every, top] - f[every, self.codes] + np.log1p(beside.sum(axis=1)))

    def gradient(self, f: FloatArray) -> FloatArray:
        """Probabilities; for the row's own class, minus the sum of the others, which avoids cancellation in p - 1."""
        every, p = np.arange(self.codes.size), softmax(f, axis=1)
        p[every, self.codes] = 0.0
        p[every, self.codes] = -p.sum(axis=1)
        return np.asarray(p)

    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """Diag(q) (I - q q') and its transpose, q being the roots of p: their product is diag(p) - p p'."""
        q = np.sqrt(softmax(f, axis=1))

        def across(v: FloatArray) -> FloatArray:
            return v - q * (q * v).sum(axis=1, keepdims=True)

        return lambda v: q * across(v), lambda v: across(q * v)


@dataclass(frozen=True, eq=False)
class Objective:
    """A penalty and a weighted loss.

    **Solves**

        min  sum_t penalty_t / 2 ||w_t||² + sum_i weights_i L_i(f(x_i)),    f_t(x) = <w_t, phi(x)> + b_t

    At the optimum, penalty_t beta_it = -weights_i dL_i/df_t with w_t = sum_i beta_it phi(x_i), and the beta_it of an
    output with a bias add up to 0.

    Parameters
    ----------
    loss : SmoothLoss
    weights : ndarray of shape (n,)
        All positive.
    penalty : ndarray of shape (T,)
        0 allows any w.
    has_bias : bool
    """

    loss: SmoothLoss
    weights: FloatArray
    penalty: FloatArray
    has_bias: bool

    def total_loss(self, f: FloatArray) -> float:
        """The weighted loss of all rows."""
        return float(np.einsum("i,i->", self.weights, self.loss.values(f)))

    @property
    def absolute_gap(self) -> float:
        """A duality gap that is small enough whatever the objective is: for squared loss, that of residuals of `TOL`.

        If a machine interpolates its targets, the objective itself may be smaller than this.
        """
        if not isinstance(self.loss, Squared):
            return 0.0
        return 0.5 * float(self.weights.sum()) * float(np.square(TOL * self.loss.scale).sum())

    def off_balance(self, gradients: FloatArray) -> bool:
        """Whether sums of weighted gradients, (T,), are larger than rounding."""
        bound = _BALANCE * float(self.weights.sum()) * self.loss.scale
        return not bool((np.abs(gradients) <= bound).all())

    def bregman(self, f: FloatArray, other: FloatArray) -> float:
        """By how much the weighted loss at f is larger than its tangent at `other`; at least 0."""
        tangent = (self.loss.gradient(other) * (f - other)).sum(axis=1)
        return float(self.weights @ np.maximum(0.0, self.loss.values(f) - self.loss.values(other) - tangent))

    def balanced(self, f: FloatArray) -> FloatArray:
        """Return decision values with optimal biases, for which the sums of the weighted gradients are 0.

        Newton's method in T variables is used. With one output, bisection follows if second derivatives are too small
        for Newton's method. If the sums are still not 0, `off_balance` detects that.
        """
        if not self.has_bias:
            return f
        with blas_threads(f.shape[1] ** 3):
            shifted = self._shifted(f)
        if f.shape[1] == 1 and self.off_balance((self.weights[:, None] * self.loss.gradient(shifted)).sum(axis=0)):
            shifted = self._bisected(f)
        return shifted

    def _bisected(self, f: FloatArray) -> FloatArray:
        def slope(shift: float) -> float:
            return float(self.weights @ self.loss.gradient(f + shift)[:, 0])

        high = 1.0
        while (slope(-high) > 0.0 or slope(high) < 0.0) and np.isfinite(high):
            high *= 2.0
        low = -high
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        return f + high

    def _shifted(self, f: FloatArray) -> FloatArray:
        value, units = self.total_loss(f), np.eye(f.shape[1])
        for _ in range(_MOST_SHIFTS):
            room = _ROUNDED * value  # progress below the rounding of the sum of losses is not visible
            gradient = (self.weights[:, None] * self.loss.gradient(f)).sum(axis=0)
            spread, gather = self.loss.root(f)
            curves = [spread(gather(np.broadcast_to(unit, f.shape))) for unit in units]
            second = np.array([self.weights @ curve for curve in curves])
            shift = -np.linalg.pinv(second, hermitian=True) @ gradient
            if self.loss.ignores_common_shift:  # this part of the step is rounding divided by rounding
                shift -= shift.mean()
            reached = self.total_loss(f + shift)
            while not reached <= value + room and np.abs(shift).max() > _FULL_SHIFT:
                shift = 0.5 * shift
                reached = self.total_loss(f + shift)
            f, value = f + shift, reached
            if np.abs(shift).max() <= _LEAST_SHIFT:
                break
        return f
