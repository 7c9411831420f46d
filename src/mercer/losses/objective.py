"""What these machines minimise: a penalty on ||w||² and a smooth loss of the decision values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from mercer._typing import FloatArray, IndexArray
from mercer.gram.threads import blas_threads

Linear = Callable[[FloatArray], FloatArray]


_MOST_SHIFTS, _LEAST_SHIFT = 100, 1e-13  # of the biases: Newton's method takes some five to get there
_ROUNDED = 16.0 * float(np.finfo(np.float64).eps)  # of a sum of losses
_BALANCE = 1e-10
"""Largest sum of weighted gradients, over the sum of the weights and in units of the loss, that counts as rounding: a
dual point that is off by as much bounds the optimum to some ten digits."""


class SmoothLoss(ABC):
    """A convex, differentiable loss L_i(f_i) of the T decision values of each row.

    Attributes
    ----------
    scale : ndarray of shape (T,) or (1,)
        What the derivatives of each output are large against.
    """

    scale: FloatArray = np.ones(1)

    @abstractmethod
    def values(self, f: FloatArray) -> FloatArray:
        """Return the loss of each row, (n,), for decision values of shape (n, T)."""

    @abstractmethod
    def gradient(self, f: FloatArray) -> FloatArray:
        """Return the derivatives with respect to the decision values, (n, T)."""

    @abstractmethod
    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """Return maps B and B' of (n, T), row by row, such that B B' are the second derivatives."""

    def curve(self, f: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the second derivatives applied to a direction, (n, T)."""
        spread, gather = self.root(f)
        return spread(gather(direction))

    def excess(self, residual: FloatArray) -> FloatArray | None:
        """Return by how much L(f) + L*(u) exceeds u f at u = L'(f) - `residual`, by row and output.

        None where the conjugate L* is infinite in places, so that a dual point must be made of L'(f) itself.
        """
        del residual
        return None


@dataclass(frozen=True, eq=False)
class Squared(SmoothLoss):
    """1/2 (y - f)², for targets of shape (n, T)."""

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
        """Half the square."""
        return 0.5 * np.square(residual)


@dataclass(frozen=True, eq=False)
class Logistic(SmoothLoss):
    """ln(1 + exp(-y f)), for signs of shape (n,) and one decision value."""

    y: FloatArray

    def values(self, f: FloatArray) -> FloatArray:
        """Minus the log-likelihood of each row."""
        return np.logaddexp(0.0, -self.y * f[:, 0])

    def gradient(self, f: FloatArray) -> FloatArray:
        """Minus y times the probability of the other class."""
        return (-self.y * expit(-self.y * f[:, 0]))[:, None]

    def root(self, f: FloatArray) -> tuple[Linear, Linear]:
        """Factors: the root of p (1 - p)."""
        factors = np.sqrt(expit(f) * expit(-f))
        return lambda v: factors * v, lambda v: factors * v


@dataclass(frozen=True, eq=False)
class Softmax(SmoothLoss):
    """ln sum_k exp(f_k) - f_y, for class numbers of shape (n,) and one decision value a class."""

    codes: IndexArray

    def values(self, f: FloatArray) -> FloatArray:
        """Minus the log-likelihood of each row, to its last digits where that is small."""
        every, top = np.arange(self.codes.size), f.argmax(axis=1)
        beside = np.exp(f - f[every, top, None])
        beside[every, top] = 0.0
        return np.asarray(f[every, top] - f[every, self.codes] + np.log1p(beside.sum(axis=1)))

    def gradient(self, f: FloatArray) -> FloatArray:
        """Probabilities; for the row's own class, minus those of the others, which 1 would swallow."""
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
    def unit(self) -> float:
        """What a duality gap is large against, whatever the optimum is: the squared loss of f = 0, or 1."""
        return self.total_loss(self.loss.y * 0.0) or 1.0 if isinstance(self.loss, Squared) else 1.0

    def off_balance(self, gradients: FloatArray) -> bool:
        """Whether weighted gradients that have these sums, (T,), add up to more than rounding leaves of 0."""
        bound = _BALANCE * float(self.weights.sum()) * self.loss.scale
        return not bool((np.abs(gradients) <= bound).all())

    def bregman(self, f: FloatArray, other: FloatArray) -> float:
        """By how much the weighted loss at f exceeds its tangent at `other`: at least 0."""
        tangent = (self.loss.gradient(other) * (f - other)).sum(axis=1)
        return float(self.weights @ np.maximum(0.0, self.loss.values(f) - self.loss.values(other) - tangent))

    def balanced(self, f: FloatArray) -> FloatArray:
        """Return decision values with the biases that suit them best, so that the weighted gradients add up to 0.

        Newton's method in T variables; of one output, whose gradient grows with its bias, also by bisection where the
        rows are too certain for second derivatives to say how far to go. What that cannot reach is left.
        """
        if not self.has_bias:
            return f
        with blas_threads(f.shape[1] ** 3):
            found = self._shifted(f)
        if f.shape[1] == 1 and self.off_balance((self.weights[:, None] * self.loss.gradient(found)).sum(axis=0)):
            found = self._bisected(f)
        return found

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
        value = self.total_loss(f)
        for _ in range(_MOST_SHIFTS):
            room = _ROUNDED * value  # a sum of losses does not show what the last steps gain
            gradient = (self.weights[:, None] * self.loss.gradient(f)).sum(axis=0)
            units = np.eye(f.shape[1])
            curves = [self.loss.curve(f, np.broadcast_to(unit, f.shape)) for unit in units]
            second = np.array([self.weights @ curve for curve in curves])
            shift = -np.linalg.pinv(second, hermitian=True) @ gradient
            reached = self.total_loss(f + shift)
            while not reached <= value + room and np.abs(shift).max() > _LEAST_SHIFT:
                shift = 0.5 * shift
                reached = self.total_loss(f + shift)
            if not reached <= value + room:
                break
            f, value = f + shift, reached
            if np.abs(shift).max() <= _LEAST_SHIFT:
                break
        return f
