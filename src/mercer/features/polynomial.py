"""Feature maps of polynomial kernels, and plain products of columns (monomials)."""

from __future__ import annotations

from math import comb, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mercer._typing import FloatArray
from mercer.data import Data, Vectors
from mercer.data.arguments import check_choice
from mercer.features.feature_map import FeatureMap
from mercer.features.monomials import Monomials, Rule
from mercer.kernels import Gamma, Polynomial
from mercer.kernels.parameters import integer, number

_RULES: dict[str, Rule] = {"monomials": "repeated", "ordered": "ordered", "harmonic": "repeated"}


class _Polynomials(FeatureMap):
    """Products of columns of some degrees, each multiplied by a factor, and optionally rotated."""

    _products: Monomials
    _scales: dict[int, float]
    """The factor of each degree that has columns."""

    _weighted: bool
    """Whether a product is multiplied by the square root of the number of different orders of its factors."""

    _rotation: sp.csr_array | None = None

    @property
    def _n_features_out(self) -> int:
        return sum(self._products.count(k) for k in self._scales)

    def _columns(self, rows: Data) -> Any:
        assert isinstance(rows, Vectors)
        return self._sparse(rows) if sp.issparse(rows.stored) else self._dense(rows)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the products as text, "x0^2 x1", without their numerical factors.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X. By default the names seen in `fit`, or else "x0", "x1", ...

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the names differ from the names seen in `fit`.
        """
        check_is_fitted(self)
        columns = [str(name) for name in _check_feature_names_in(self, input_features)]
        return np.array(self._names(columns), dtype=object)

    def _names(self, columns: list[str]) -> list[str]:
        return [name or "1" for k in self._scales for name in self._products.names(k, columns)]

    def column_products(self) -> list[tuple[tuple[int, ...], float]]:
        """Return the product of columns of each new column, before a rotation, and its factor."""
        products = [factors for k in self._scales for factors in self._products.factors(k)]
        return list(zip(products, self._column_weights().tolist(), strict=True))

    def _dense(self, rows: Vectors) -> npt.NDArray[np.floating]:
        columns = np.empty((rows.n, self._n_features_out), dtype=rows.dtype)
        weights = self._column_weights() if self._weighted or set(self._scales.values()) != {1.0} else None
        for part, block in self._products.dense(rows.stored, min(self._scales)):
            with np.errstate(over="ignore", invalid="ignore"):
                if weights is not None:
                    block *= weights
                columns[part] = block if self._rotation is None else block @ self._rotation
            self._check_finite(columns[part])
        return columns

    def _column_weights(self) -> FloatArray:
        orders = self._products.multinomials() if self._weighted else None
        return np.concatenate(
            [
                np.full(self._products.count(k), scale) if orders is None else scale * np.sqrt(orders[k])
                for k, scale in self._scales.items()
            ]
        )

    def _sparse(self, rows: Vectors) -> sp.csr_array:
        chunks = []
        for levels, orders in self._products.sparse(rows.stored):
            with np.errstate(over="ignore", invalid="ignore"):
                for k, scale in self._scales.items():
                    levels[k].data *= scale * np.sqrt(orders[k]) if self._weighted else scale
                block = sp.hstack([levels[k] for k in self._scales], format="csr")
                block = block if self._rotation is None else block @ self._rotation
                chunks.append(block.astype(rows.dtype))
            self._check_finite(chunks[-1].data)
        columns = sp.vstack(chunks, format="csr")
        columns.sort_indices()
        return columns

    def _check_finite(self, values: npt.NDArray[np.floating]) -> None:
        if not np.isfinite(values).all():
            raise ValueError(
                f"values of {self!r} overflow {values.dtype}: scale the columns (for example to mean 0 and variance 1) "
                "or lower the degree"
            )


class PolynomialMap(_Polynomials):
    """The feature map of the polynomial kernel: inner products of its columns are (gamma <x, z> + coef0)^degree.

    By the multinomial theorem, (gamma <x, z> + c)^d is the sum over k <= d, and over the monomials x^e of degree k, of

        (d over k) c^(d-k) gamma^k  k! / (e_1! ... e_p!)  x^e z^e,

    so a column is a monomial times the square root of its coefficient. With c = 0, only degree d remains.

    Parameters
    ----------
    degree : int, default=3
        At least 0; degree 0 gives one column of ones.
    gamma : float >= 0, "scale" or "auto", default="scale"
        As for :class:`mercer.Polynomial`.
    coef0 : float >= 0, default=0.0
        The constant c; with 0 the polynomial is homogeneous.
    basis : {"monomials", "ordered", "harmonic"}, default="monomials"
        Columns with the same inner products in three forms. "monomials": each monomial once. "ordered": one column for
        each order of the factors (x0 x1 and x1 x0), p^k of degree k. "harmonic", for degree 2: the squares are rotated
        so that the last column is |x|²/sqrt(p), which a rotation of x does not change, and the others have mean 0 on
        every sphere.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel of this map, with gamma as a number.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not allowed; a negative coef0 has no real feature map.

    Notes
    -----
    There are C(p + degree, degree) columns, or C(p + degree - 1, degree) in the homogeneous case. Columns are ordered
    by degree, then as in ``itertools.combinations_with_replacement``. CSR rows stay CSR, and their cost depends on the
    stored entries, not on p.

    The map is useful for small p and degree with many rows, because a linear machine on the columns is then faster than
    a kernel machine. It also makes the coefficients readable. A linear machine needs inner products of all these
    columns, while the kernel needs inner products of p columns.

    scikit-learn's PolynomialFeatures has the monomials without their factors, as :class:`PolynomialBasis` has. Its
    PolynomialCountSketch is an approximation.

    References
    ----------
    Schölkopf & Smola (2002), proposition 2.1. In the plane, "monomials" gives the textbook map to R³,
    x -> (x0², sqrt(2) x0 x1, x1²); "harmonic" gives (x0² - x1², 2 x0 x1, x0² + x1²)/sqrt(2), and "ordered" a map to R⁴.

    Examples
    --------
    >>> from mercer import PolynomialMap
    >>> plane = PolynomialMap(degree=2, gamma=1.0).fit([[1.0, 2.0]])
    >>> plane.transform([[1.0, 2.0], [3.0, 4.0]]).round(3)
    array([[ 1.   ,  2.828,  4.   ],
           [ 9.   , 16.971, 16.   ]])
    >>> plane.get_feature_names_out().tolist()
    ['x0^2', 'x0 x1', 'x1^2']
    """

    def __init__(
        self, degree: int = 3, *, gamma: Gamma = "scale", coef0: float = 0.0, basis: str = "monomials"
    ) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.basis = basis

    def _learn(self, rows: Data) -> None:
        check_choice("basis", self.basis, tuple(_RULES))
        spec = Polynomial(self.degree, self.gamma, self.coef0)
        if spec.is_psd is None:
            raise ValueError(
                f"coef0 must be >= 0, got {self.coef0!r}: {spec!r} is not known to be positive semidefinite, so there "
                "may be no map of it."
            )
        if self.basis == "harmonic" and spec.degree != 2:
            raise ValueError(f"basis='harmonic' is for degree 2, got degree={spec.degree}; take 'monomials'.")
        kernel = spec.resolve(rows)
        gamma, d, c = number(kernel.gamma, kernel), kernel.degree, kernel.coef0
        self._products = Monomials(rows.p, d, _RULES[self.basis])
        degrees = [d] if c == 0.0 or d == 0 else range(d + 1)
        try:
            # Roots are computed separately, because the product of the factors may overflow or underflow.
            self._scales = {k: sqrt(comb(d, k)) * sqrt(c) ** (d - k) * sqrt(gamma) ** k for k in degrees}
        except OverflowError:
            raise ValueError(f"coefficients of {kernel!r} overflow: choose a smaller degree, gamma or coef0.") from None
        self._weighted = self.basis != "ordered"
        self._rotation = _harmonic_rotation(rows.p, self._n_features_out) if self.basis == "harmonic" else None
        self.kernel_ = kernel

    def _names(self, columns: list[str]) -> list[str]:
        names = super()._names(columns)
        if self._rotation is None:
            return names
        squares = _harmonic_names(columns)
        cross = [name for name in names[-self._products.count(2) :] if not name.endswith("^2")]
        return [*names[: -self._products.count(2)], *squares[:-1], *cross, squares[-1]]


class PolynomialBasis(_Polynomials):
    """Products of columns up to a degree, without factors: x0, x1, x0^2, x0 x1, x1^2.

    Parameters
    ----------
    degree : int, default=2
        Largest number of factors of a product, at least 1.
    interaction_only : bool, default=False
        If True, a product has each column at most once: (x0, x1, x0 x1). This makes exclusive-or linearly separable.
    include_bias : bool, default=False
        Whether to add a column of ones; mercer's machines have a bias of their own.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not allowed.

    Notes
    -----
    There are C(p + degree, degree) columns, one fewer without `include_bias`, ordered by degree, then as in
    ``itertools.combinations_with_replacement``. Scale the columns first, because high powers become very large. The
    inner products are not a polynomial kernel, which weights the monomials: see :class:`PolynomialMap`.

    Differences from scikit-learn's PolynomialFeatures: there is no bias column by default, and the cost of CSR rows
    depends on their stored entries for every degree, in the same column order as for dense rows.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 5.1.

    Examples
    --------
    >>> from mercer import PolynomialBasis
    >>> xor = PolynomialBasis(interaction_only=True).fit([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> xor.transform([[1, 0], [1, 1]])
    array([[1., 0., 0.],
           [1., 1., 1.]])
    >>> xor.get_feature_names_out().tolist()
    ['x0', 'x1', 'x0 x1']
    """

    def __init__(self, degree: int = 2, *, interaction_only: bool = False, include_bias: bool = False) -> None:
        self.degree = degree
        self.interaction_only = interaction_only
        self.include_bias = include_bias

    def _learn(self, rows: Data) -> None:
        degree = integer("degree", self.degree)
        if degree < 1:
            raise ValueError(f"degree must be >= 1, got {degree}: degree 0 leaves nothing of the columns.")
        self._products = Monomials(rows.p, degree, "distinct" if self.interaction_only else "repeated")
        self._scales = dict.fromkeys(range(0 if self.include_bias else 1, degree + 1), 1.0)
        self._weighted = False


def _harmonic_rotation(p: int, n_columns: int) -> sp.csr_array:
    """Return the orthogonal matrix from monomials to harmonic columns; it changes the last p (p + 1) / 2 columns.

    The squares are rotated by Helmert's matrix: contrast j compares the first j squares with the next one.
    """
    first = n_columns - p * (p + 1) // 2
    squares = first + np.cumsum([0, *range(p, 1, -1)])
    cross = np.setdiff1d(np.arange(first, n_columns), squares)
    helmert = np.zeros((p, p))
    for j in range(1, p):
        helmert[:j, j - 1], helmert[j, j - 1] = 1.0, -j
        helmert[:, j - 1] /= sqrt(j * (j + 1))
    helmert[:, -1] = 1.0 / sqrt(p)
    places = np.append(first + np.arange(p - 1), n_columns - 1)
    row, column = np.nonzero(helmert)
    rows = np.concatenate([np.arange(first), squares[row], cross])
    columns = np.concatenate([np.arange(first), places[column], first + p - 1 + np.arange(cross.size)])
    values = np.concatenate([np.ones(first), helmert[row, column], np.ones(cross.size)])
    return sp.csr_array((values, (rows, columns)), shape=(n_columns, n_columns))


def _harmonic_names(columns: list[str]) -> list[str]:
    squares = [f"{name}^2" for name in columns]
    contrasts = ("+".join(squares[:j]) + "-" + ("" if j == 1 else f"{j} ") + squares[j] for j in range(1, len(columns)))
    return [*contrasts, "+".join(squares)]
