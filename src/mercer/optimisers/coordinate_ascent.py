"""Coordinate ascent on a concave quadratic function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from mercer._typing import FloatArray
from mercer.data.checks import float_values
from mercer.data.lazy import lazy_property
from mercer.optimisers.base import Measure, MeasuredProblem, Optimiser, Step
from mercer.optimisers.rounding import growth


@dataclass(frozen=True, eq=False)
class Quadratic(MeasuredProblem):
    """A quadratic function, W(x) = b'x - 1/2 x'Ax, to be maximised; its objective is -W. A point is x, (p,).

    Parameters
    ----------
    A : ndarray of shape (p, p)
        Symmetric and positive definite.
    b : ndarray of shape (p,)
    """

    A: FloatArray
    b: FloatArray

    def __post_init__(self) -> None:
        A, b = _numbers("A", self.A), _numbers("b", self.b)
        if A.ndim != 2 or not A.size or b.shape != A.shape[:1] or not np.array_equal(A, A.T):
            raise ValueError(
                f"A must be a symmetric matrix and b a vector of its size, got shapes {A.shape} and {b.shape}."
            )
        try:
            cho_factor(A)
        except (LinAlgError, ValueError) as error:
            raise ValueError("A must be positive definite, so that the function has one maximum.") from error

    @property
    def name(self) -> str:
        """The name of the problem, with its article."""
        return "a quadratic function"

    def measure(self, point: Any) -> Measure:
        """Return -W(x), a lower bound of its minimum, and the largest element of the gradient.

        At the solution x* of A x = b by a Cholesky factor, with residual r, the minimum is at least
        -W(x*) - ||r||^2 / (2 lambda), lambda being the smallest eigenvalue. Both values are moved by their rounding.
        """
        x = np.asarray(point)
        _, lowest = self._minimum
        objective, error = self._value(x)
        return Measure(objective + error, lowest, float(np.abs(self.b - self.A @ x).max(initial=0.0)))

    @lazy_property
    def _minimum(self) -> tuple[FloatArray, float]:
        """A point near the minimum, and a lower bound of the minimum."""
        best = cho_solve(cho_factor(self.A), self.b)
        eigenvalues = eigvalsh(self.A)
        least = float(eigenvalues[0]) - growth(self.b.size) * self.b.size * float(np.abs(eigenvalues).max())
        residual = np.abs(self.b - self.A @ best) + growth(self.b.size) * (np.abs(self.A) @ np.abs(best) + abs(self.b))
        value, error = self._value(best)
        short = 0.5 * float(residual @ residual) / least if least > 0.0 else np.inf
        return best, value - error - short

    def _value(self, x: FloatArray) -> tuple[float, float]:
        """Return -W(x) and a bound of its rounding error."""
        value, sizes = 0.5 * float(x @ self.A @ x) - float(self.b @ x), np.abs(x)
        return value, 2.0 * growth(x.size) * float(0.5 * (sizes @ np.abs(self.A) @ sizes) + np.abs(self.b) @ sizes)


def _numbers(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return a copy in float64, of numbers that must be finite."""
    array = np.array(float_values(values, name)[0], dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        place = ", ".join(map(str, bad[0]))
        raise ValueError(f"{name} must hold finite numbers, got {array[tuple(bad[0])]} at [{place}].")
    return array


def quadratic(A: npt.ArrayLike, b: npt.ArrayLike) -> Quadratic:
    """Return the problem max b'x - 1/2 x'Ax.

    Parameters
    ----------
    A : array-like of shape (p, p)
        Symmetric and positive definite.
    b : array-like of shape (p,)

    Raises
    ------
    ValueError
        If the shapes do not fit, or if A is not symmetric and positive definite.

    Examples
    --------
    >>> from mercer.optimisers import CoordinateAscent, quadratic
    >>> run = CoordinateAscent().minimise(quadratic([[2.0, 1.0], [1.0, 2.0]], [3.0, 3.0]), tol_gap=1e-10)
    >>> run.point.round(4).tolist()
    [1.0, 1.0]
    """
    return Quadratic(_numbers("A", A), _numbers("b", b))


class CoordinateAscent(Optimiser):
    """Coordinate ascent: maximise over one coordinate at a time, and hold the others fixed.

    In a step, x_i <- x_i + (b_i - (Ax)_i) / A_ii, for i = 1, ..., p and again.

    Parameters
    ----------
    start : array-like of shape (p,), optional
        By default 0.

    Notes
    -----
    Cost: O(p) a step. Guarantee: W never decreases, and the method converges at a linear rate: it is the Gauss-Seidel
    method for Ax = b.

    References
    ----------
    Boyd & Vandenberghe (2004), section 9; Luo & Tseng (1992).

    Examples
    --------
    >>> from mercer.optimisers import CoordinateAscent, quadratic
    >>> problem = quadratic([[2.0, 1.0], [1.0, 2.0]], [0.0, 0.0])
    >>> [step.point.tolist() for step, _ in zip(CoordinateAscent([2.0, -2.0]).steps(problem, None), range(3))]
    [[2.0, -2.0], [1.0, -2.0], [1.0, -0.5]]
    """

    name = "coordinate ascent"
    needs = "a quadratic function"

    def __init__(self, start: npt.ArrayLike | None = None) -> None:
        if start is not None:
            _numbers("start", start)
        self.start = start

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a quadratic function."""
        return isinstance(problem, Quadratic)

    def steps(self, problem: Quadratic, rng: np.random.Generator | None) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        A, b, n_steps = problem.A, problem.b, 0
        x = np.zeros(b.size) if self.start is None else _numbers("start", self.start)
        if x.shape != b.shape:
            raise ValueError(f"start must have {b.size} numbers, as b has, got shape {x.shape}.")
        yield Step(n_steps, x.copy())
        while True:
            before = x.copy()
            for i in range(b.size):
                x[i] += (b[i] - A[i] @ x) / A[i, i]
                n_steps += 1
                yield Step(n_steps, x.copy())
            if np.array_equal(x, before):
                return
