"""Functions of a reproducing kernel Hilbert space, as vectors."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.geometry.distances import ROUNDING
from mercer.gram.backends import select_backend
from mercer.kernels import Kernel, as_rows
from mercer.kernels.kernel import finite
from mercer.kernels.parameters import real


@final
class RKHSFunction:
    """A function in a kernel's space (its RKHS), f = sum_i c_i k(., x_i).

    Functions of the same kernel can be added, subtracted and multiplied by numbers. Their inner product is defined by
    <k(., x), k(., z)> = k(x, z), and gives a norm. Evaluation is also an inner product, f(x) = <f, k(., x)>: this is
    the reproducing property.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel: gamma is a number.
    points : array-like, sparse matrix or Data of shape (m, p)
        The x_i; for a precomputed kernel, rows of the matrix of kernel values.
    coefficients : array-like of shape (m,)
        The c_i.

    Attributes
    ----------
    kernel : Kernel
    points : Data
    coefficients : ndarray of shape (m,), float64

    Raises
    ------
    ValueError, TypeError
        If the kernel has an unresolved rule, or the number of finite coefficients differs from the number of points.

    Notes
    -----
    Evaluation at n rows costs n m kernel values, and an inner product m1 m2; no matrix is formed. A sum has the points
    of both functions, one after the other, unless both use the same `points` object.

    The decision function of a trained machine, without the bias, is ``machine.function_``. Its squared norm is the
    |w|² of the certificate.

    References
    ----------
    Aronszajn (1950), Theory of reproducing kernels; Schölkopf & Smola (2002), section 2.2.

    Examples
    --------
    >>> from mercer import RBF, RKHSFunction
    >>> f = RKHSFunction(RBF(gamma=0.5), [[0.0], [2.0]], [1.0, -1.0])
    >>> f([[0.0], [1.0]]).round(4)
    array([0.8647, 0.    ])
    >>> round(f @ f, 4), round((f - 2 * f).norm, 4), f + f
    (1.7293, 1.315, RKHSFunction(RBF(gamma=0.5), 2 points))
    """

    def __init__(self, kernel: Kernel, points: Any, coefficients: npt.ArrayLike) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel, got {kernel!r}: mercer.kernels.as_kernel makes one of a name")
        rows = as_rows(kernel, points)
        kernel = kernel.resolve(rows)
        values = np.array(coefficients, dtype=np.float64)
        if values.shape != (rows.n,):
            raise ValueError(f"coefficients must be one number for each of the {rows.n} points, got {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("coefficients must be finite, got NaN or infinity")
        self.kernel, self.points, self.coefficients = kernel, rows, values

    def __call__(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return f(x) for each row of X, (n,) in float64.

        Parameters
        ----------
        X : array-like, sparse matrix or Data of shape (n, p)
            For a precomputed kernel, kernel values of the rows against all training rows.
        n_jobs : int, optional
            Threads; all processors by default. The values do not depend on it.

        Raises
        ------
        ValueError
            If the rows have another number of features than the points, or values overflow.
        """
        rows = as_rows(self.kernel, X)
        if not self.points.n:
            return np.zeros(rows.n)
        points = self.points.like(rows)
        if isinstance(rows, Vectors) and rows.p != points.p:
            raise ValueError(f"X must have {points.p} columns, as the points of {self!r} have, got {rows.p}")
        backend, _ = select_backend(self.kernel, points, n_jobs=n_jobs)
        return finite(self.kernel, backend.matvec(rows, None, points, None, self.coefficients[:, None])[:, 0])

    def inner(self, other: RKHSFunction) -> float:
        """Return the inner product <f, g> = sum_ij c_i d_j k(x_i, z_j); also ``f @ g``.

        Parameters
        ----------
        other : RKHSFunction
            A function of the same kernel.

        Raises
        ------
        TypeError, ValueError
            If it is not an RKHS function, or has another kernel.
        """
        if not isinstance(other, RKHSFunction):
            raise TypeError(f"an inner product takes two RKHS functions, got {other!r}")
        self._check_same_space(other)
        return float(self.coefficients @ other(self.points))

    @property
    def norm(self) -> float:
        """The norm, sqrt(<f, f>).

        Raises
        ------
        ValueError
            If <f, f> is negative beyond rounding, which proves that the kernel is not positive semidefinite.
        """
        square = self.inner(self)
        if square < 0.0:
            size = float(np.abs(self.coefficients) @ np.sqrt(np.abs(self.kernel.diag(self.points)))) ** 2
            if square < -ROUNDING * size:
                raise ValueError(
                    f"{self!r} has no norm: <f, f> must be >= 0, got {square:g}, so the kernel is not positive "
                    "semidefinite on these points"
                )
        return max(0.0, square) ** 0.5

    def __add__(self, other: object) -> RKHSFunction:
        if not isinstance(other, RKHSFunction):
            return NotImplemented
        self._check_same_space(other)
        if other.points is self.points:
            return self._with(self.coefficients + other.coefficients)
        joined = np.concatenate([self.coefficients, other.coefficients])
        return RKHSFunction(self.kernel, self.points.followed_by(other.points), joined)

    def __radd__(self, other: object) -> RKHSFunction:
        # sum() starts with 0, which is the zero function of every space.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> RKHSFunction:
        return self._with(real("a factor of a function", factor) * self.coefficients)

    def __rmul__(self, factor: float) -> RKHSFunction:
        return self * factor

    # NumPy scalars on the left side must not handle the operators.
    __array_ufunc__ = None

    def __truediv__(self, divisor: float) -> RKHSFunction:
        return self._with(self.coefficients / real("a divisor of a function", divisor))

    def __neg__(self) -> RKHSFunction:
        return self._with(-self.coefficients)

    def __sub__(self, other: object) -> RKHSFunction:
        return self + -other if isinstance(other, RKHSFunction) else NotImplemented

    def __matmul__(self, other: object) -> float:
        return self.inner(other) if isinstance(other, RKHSFunction) else NotImplemented

    def __repr__(self) -> str:
        return f"RKHSFunction({self.kernel!r}, {self.points.n} point{'' if self.points.n == 1 else 's'})"

    def _with(self, coefficients: FloatArray) -> RKHSFunction:
        return RKHSFunction(self.kernel, self.points, coefficients)

    def _check_same_space(self, other: RKHSFunction) -> None:
        if self.kernel != other.kernel:
            raise ValueError(
                f"functions of different kernels are in different spaces, got {self.kernel!r} and {other.kernel!r}"
            )
