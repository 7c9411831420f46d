"""Kernels that are inner products of transformed rows: the cosine, a bilinear form, minima, and explicit features."""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data import Data, Vectors, as_data
from mercer.kernels.kernel import Lowered, Schema, refuse_negative, vectors
from mercer.kernels.program import Op, Program
from mercer.kernels.standard import stored_rows
from mercer.kernels.views import Directions, Projected, View


@dataclass(frozen=True)
class Cosine(Lowered):
    """The cosine of the angle between two rows, k(x, z) = <x, z> / (|x| |z|); 0 if one of them is 0.

    It has no parameters. It costs the same as `Linear`, on a copy of the rows. It is native for dense and sparse rows.
    scikit-learn has the same function as ``cosine_similarity``.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Cosine().block(as_data([[1.0, 1.0]]), as_data([[0.0, 3.0]])).round(4)
    array([[0.7071]])
    """

    names = ("cosine",)
    schema: ClassVar[Schema] = {}
    takes_fingerprints = True
    rule = "an inner product of rows divided by their lengths"

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.DOT, Directions()),)


@dataclass(frozen=True)
class HistogramIntersection(Lowered):
    """The intersection of two histograms, k(x, z) = sum_k min(x_k, z_k).

    Entries must not be negative. It has no parameters. A value costs p minima. It is native for dense and sparse rows.

    Raises
    ------
    ValueError
        In `resolve`, `block` and `diag`, for negative entries.

    References
    ----------
    Barla, Odone & Verri (2003), Histogram intersection kernel for image classification; its features are the
    indicators of t < x_k.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> HistogramIntersection().block(as_data([[3, 0, 1]]), as_data([[1, 2, 1]]))
    array([[2.]])
    """

    names = ("histogram_intersection", "intersection")
    schema: ClassVar[Schema] = {}
    rule = "an inner product of indicators"

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of indicators."""
        return True

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> HistogramIntersection:
        """Return the kernel itself, after a check that these rows have no negative entries."""
        refuse_negative(self, self.lower(), vectors(self, X))
        return self

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.MINIMUM, 0.0),)


@dataclass(frozen=True)
class Bilinear(Lowered):
    """An inner product by a matrix, k(x, z) = x' A z with A positive semidefinite.

    Parameters
    ----------
    matrix : array-like of shape (p, p)
        A, which is checked to be symmetric and positive semidefinite up to rounding.

    Raises
    ------
    TypeError, ValueError
        If it is not such a matrix; in `block` and `diag`, if rows have another number of features.

    Notes
    -----
    Each row is multiplied by a root of A once, with p² multiplications. Native code then computes inner products of
    the results. Sparse rows become dense.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Bilinear([[2.0, 1.0], [1.0, 2.0]]).block(as_data([[1.0, 0.0]]), as_data([[0.0, 1.0]])).round(4)
    array([[1.]])
    """

    matrix: Any

    schema: ClassVar[Schema] = {"matrix": "matrix"}
    rule = "an inner product through a root of the matrix"

    def __post_init__(self) -> None:
        try:
            A = np.array(self.matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"matrix must be an array of numbers, got {type(self.matrix).__name__}") from None
        if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0 or not np.isfinite(A).all():
            raise ValueError(f"matrix must be square and finite, got shape {A.shape}")
        rounding = 8.0 * len(A) * np.finfo(np.float64).eps * float(np.abs(A).max())
        if np.abs(A - A.T).max() > rounding:
            raise ValueError("matrix must be symmetric, or x' A z is no kernel: take 0.5 * (A + A.T)")
        least = float(np.linalg.eigvalsh(0.5 * (A + A.T))[0])
        if least < -rounding:
            raise ValueError(
                f"matrix must be positive semidefinite, or x' A z is no kernel: its smallest eigenvalue is {least:g}"
            )
        object.__setattr__(self, "matrix", tuple(map(tuple, A.tolist())))

    @property
    def is_psd(self) -> bool:
        """True: the matrix is positive semidefinite."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        A = np.array(self.matrix)
        values, vectors = np.linalg.eigh(0.5 * (A + A.T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return ((Op.DOT, Projected(tuple(map(tuple, root.tolist())))),)

    def __repr__(self) -> str:
        return f"Bilinear({[list(row) for row in self.matrix]!r})"


@dataclass(frozen=True)
class FeatureKernel(Lowered, View):
    """An inner product of features that a function computes from rows, k(x, z) = <phi(x), phi(z)>.

    If the function returns one feature, this is f(x) f(z), and ``FeatureKernel(f) * k`` is f(x) k(x, z) f(z).

    Parameters
    ----------
    map : callable or fitted transformer
        ``map(rows)``, or ``map.transform(rows)``, returns the features of some rows: an array of shape (n,) or
        (n, D), or a sparse matrix. The rows are an ndarray or csr_array of float64. The features of a row must not
        depend on the other rows. The kernel can be pickled if the map can.

    Raises
    ------
    TypeError, ValueError
        If it is not callable; in `block` and `diag`, if it returns anything but finite numbers for each row.

    Notes
    -----
    The map is called once for each table of rows. Native code then computes inner products of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import as_data
    >>> xor = FeatureKernel(lambda X: np.column_stack([X, X[:, 0] * X[:, 1]]))
    >>> xor.block(as_data([[1.0, -1.0]]), as_data([[1.0, 1.0], [-1.0, 1.0]]))
    array([[-1., -1.]])
    """

    map: Any

    rule = "an inner product of features"

    def __post_init__(self) -> None:
        if not callable(self._function) or isinstance(self.map, type):
            raise TypeError(f"map must be a function of rows or a fitted transformer, got {self.map!r}")

    @property
    def _function(self) -> Function[[Any], Any]:
        function: Function[[Any], Any] = getattr(self.map, "transform", self.map)
        return function

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of features."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.DOT, self),)

    def of(self, rows: Vectors) -> Vectors:
        """Return the features of the rows.

        Raises
        ------
        ValueError
            If the map returns anything but finite real numbers for each row.
        """
        made = self._function(stored_rows(self, rows))
        made = made if sp.issparse(made) else np.asarray(made)
        made = made[:, None] if made.ndim == 1 else made
        if made.ndim != 2 or made.shape[0] != rows.n:
            raise ValueError(f"{self!r} must return features for each of {rows.n} rows, got shape {made.shape}")
        if made.dtype.kind not in "biuf":
            raise ValueError(f"{self!r} must return real numbers, got an array of {made.dtype}")
        features = as_data(made)
        problem = features.finite_problem()
        if problem is not None:
            raise ValueError(f"{self!r} must return finite numbers, but of its features, {problem}")
        return features

    def __repr__(self) -> str:
        return f"FeatureKernel({getattr(self.map, '__qualname__', repr(self.map))})"
