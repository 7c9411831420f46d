"""Kernels of a distance: exp(-gamma D), and others that decrease with the distance."""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data, listing, nearest_names
from mercer.kernels.kernel import Kernel, Lowered, Schema, finite, refuse_negative, vectors
from mercer.kernels.parameters import DISTANCE_RULES, RULES, Gamma, gamma_or_rule, number, real, resolve_gamma
from mercer.kernels.program import NONNEGATIVE, Op, Program
from mercer.kernels.standard import Callable


@dataclass(frozen=True, init=False)
class OfDistance(Lowered):
    """exp(-gamma D(x, z)) for a distance D of negative type, which makes it positive semidefinite [Schoenberg 1938].

    Give at most one parameter. `sigma` and `width` are converted to gamma.
    """

    gamma: Gamma

    distance: ClassVar[Op]
    default: ClassVar[Gamma] = "scale"
    rules: ClassVar[tuple[str, ...]] = RULES
    schema: ClassVar[Schema] = {"gamma": "gamma"}
    rule = "exp(-gamma D) of a distance D of negative type"

    def __init__(self, gamma: Gamma | None = None, *, sigma: float | None = None, width: float | None = None) -> None:
        object.__setattr__(self, "gamma", given_gamma(self, gamma, sigma, width))

    @property
    def is_psd(self) -> bool:
        """True: it is positive semidefinite for every gamma >= 0."""
        return True

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Self:
        """Return the kernel with gamma as a number."""
        gamma = resolve_gamma(self.gamma, X, weights)
        resolved = self if gamma is self.gamma else type(self)(gamma=gamma)
        if self.distance in NONNEGATIVE:
            refuse_negative(self, resolved.lower(), vectors(self, X))
        return resolved

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((self.distance, 0.0), (Op.SCALE, -number(self.gamma, self)), (Op.EXP, 0.0))


class RBF(OfDistance):
    """The Gaussian kernel, k(x, z) = exp(-gamma |x - z|²).

    Give at most one parameter. `sigma` and `width` are converted to gamma.

    Parameters
    ----------
    gamma : float >= 0, "scale", "auto", "median" or "sigest", default="scale"
        "scale" is 1/(p * variance of X), "auto" is 1/p, "median" is 1/(the median squared distance of two different
        rows), and "sigest" is between the values for near and for far pairs: see
        :func:`mercer.kernels.parameters.resolve_gamma`. The resolved number has an attribute ``reason``.
    sigma : float > 0, optional
        Standard deviation: gamma = 1/(2 sigma²).
    width : float > 0, optional
        gamma = 1/width².

    Raises
    ------
    TypeError, ValueError
        If more than one parameter is given, or one is not allowed.

    Notes
    -----
    A value costs an inner product and an exponential. `gamma` is defined as in scikit-learn and LIBSVM.

    References
    ----------
    Schölkopf & Smola (2002), section 2.3.

    Examples
    --------
    >>> RBF(sigma=2)
    RBF(gamma=0.125)
    """

    names = ("rbf", "gaussian")
    distance = Op.SQDIST
    rules = DISTANCE_RULES
    rule = "f(x) exp(2 gamma <x, z>) f(z) with f(x) = exp(-gamma |x|²), and exp of a kernel is one"


class Laplacian(OfDistance):
    """The Laplacian kernel, k(x, z) = exp(-gamma |x - z|_1), which has the L1 distance.

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default="scale"
        As for `RBF`; "auto", 1/p, is the default of scikit-learn's ``laplacian_kernel``.
    sigma, width : float > 0, optional
        gamma = 1/(2 sigma²), or 1/width².

    Raises
    ------
    TypeError, ValueError
        If more than one parameter is given, or one is not allowed.

    Notes
    -----
    A value costs p differences and an exponential. It is native for dense and sparse rows.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Laplacian(gamma=0.5).block(as_data([[1.0, 2.0]]), as_data([[2.0, 1.0]])).round(4)
    array([[0.3679]])
    """

    names = ("laplacian", "laplace")
    distance = Op.L1


class Hamming(OfDistance):
    """A kernel of symbols, k(x, z) = exp(-gamma m), where m is the number of features in which x and z differ.

    It is meant for columns of codes, categories or text, which are only compared for equality. A missing cell is a
    symbol of its own. scikit-learn and SciPy define "hamming" as m/p.

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default=1.0
        "auto" is 1/p.
    sigma, width : float > 0, optional
        gamma = 1/(2 sigma²), or 1/width².

    Raises
    ------
    TypeError, ValueError
        If more than one parameter is given, or one is not allowed.

    Notes
    -----
    A value costs p comparisons and an exponential. It is native for dense and sparse rows. Text is read as a negative
    number from its hash, the same in every table; the number 1 and the text "1" are different symbols. Two different
    numbers may be equal in single precision; the certificate then evaluates all values in double precision.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Hamming(gamma=1.0).block(as_data([[1, 2, 3]]), as_data([[1, 0, 3]])).round(4)
    array([[0.3679]])
    """

    names = ("hamming",)
    takes_symbols = True
    distance = Op.HAMMING
    default = 1.0


class ChiSquared(OfDistance):
    """The exponential chi-squared kernel of histograms, k(x, z) = exp(-gamma sum_k (x_k - z_k)² / (x_k + z_k)).

    Entries must not be negative. If both entries are 0, the term is 0.

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default=1.0
        As for `RBF`; the default is that of scikit-learn's ``chi2_kernel``.
    sigma, width : float > 0, optional
        gamma = 1/(2 sigma²), or 1/width².

    Raises
    ------
    TypeError, ValueError
        If more than one parameter is given, or one is not allowed; in `resolve`, `block` and `diag`, for negative
        entries.

    Notes
    -----
    A value costs p divisions and an exponential. It is native for dense and sparse rows.

    References
    ----------
    Zhang, Marszałek, Lazebnik & Schmid (2007), Local features and kernels for classification of texture and object
    categories.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> ChiSquared(gamma=0.5).block(as_data([[0.5, 0.5, 0.0]]), as_data([[0.5, 0.0, 0.5]])).round(4)
    array([[0.6065]])
    """

    names = ("chi2", "chi_squared")
    distance = Op.CHI2
    default = 1.0


@dataclass(frozen=True, init=False)
class GeneralizedGaussian(Kernel):
    """exp(-gamma D(x, z)) for a distance D that a Python function computes for blocks of rows.

    For common distances there are native kernels: `RBF` (squared L2), `Laplacian` (L1), `Matern` with nu = 0.5 (L2),
    `ChiSquared`, `Hamming`. For any other distance it is unknown whether this is a kernel.

    Parameters
    ----------
    distance : callable or {"l1", "chi2", "hamming", "sqeuclidean"}
        ``distance(A_rows, B_rows)`` returns the distances between rows, as for `Callable`. A name gives the native
        kernel of this distance with this gamma: `Laplacian`, `ChiSquared`, `Hamming` or `RBF`. "manhattan" and
        "cityblock" are other names of "l1".
    gamma : float >= 0, default=1.0
    sigma, width : float > 0, optional
        gamma = 1/(2 sigma²), or 1/width².

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed; if the function returns something else, as for `Callable`.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> k = GeneralizedGaussian(lambda A, B: abs(A[:, None] - B).max(axis=-1), gamma=1.0)
    >>> k.block(as_data([[0.0, 3.0]]), as_data([[1.0, 1.0]])).round(4)
    array([[0.1353]])
    """

    distance: Function[[Any, Any], Any]
    gamma: float

    def __new__(cls, distance: Any = None, **gamma: Any) -> Any:
        """Return the native kernel of a named distance, or else a new object."""
        if not isinstance(distance, str):
            return super().__new__(cls)
        if distance not in _NAMED_DISTANCES:
            near = nearest_names(distance, _NAMED_DISTANCES)
            remedy = f"did you mean {listing(near, 'or')}?" if near else "or give a function of two blocks of rows"
            raise ValueError(f"distance must be {listing(list(_NAMED_DISTANCES), 'or')}, got {distance!r}: {remedy}")
        if all(value is None for value in gamma.values()):
            gamma = {"gamma": 1.0}
        return _NAMED_DISTANCES[distance](**gamma)

    def __init__(
        self,
        distance: Function[[Any, Any], Any],
        *,
        gamma: float | None = None,
        sigma: float | None = None,
        width: float | None = None,
    ) -> None:
        object.__setattr__(self, "distance", Callable(distance).function)
        object.__setattr__(self, "gamma", real("gamma", given_gamma(self, gamma, sigma, width), minimum=0.0))

    default: ClassVar[Gamma] = 1.0
    rules: ClassVar[tuple[str, ...]] = RULES

    def lower(self) -> None:
        """Return None: a Python function has no program."""
        return None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        return self._of(Callable(self.distance).block(A, B))

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        return self._of(Callable(self.distance).diag(A))

    def _of(self, distances: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return finite(self, np.exp(-self.gamma * distances))

    def __repr__(self) -> str:
        inside = repr(Callable(self.distance))[len("Callable(") : -1]
        return f"{type(self).__name__}({inside}, gamma={self.gamma!r})"


_NAMED_DISTANCES: dict[str, type[OfDistance]] = {
    "l1": Laplacian,
    "manhattan": Laplacian,
    "cityblock": Laplacian,
    "chi2": ChiSquared,
    "hamming": Hamming,
    "sqeuclidean": RBF,
}


@dataclass(frozen=True)
class RationalQuadratic(Lowered):
    """The rational quadratic kernel, k(x, z) = (1 + |x - z|² / (2 alpha length_scale²))^(-alpha).

    A mixture of Gaussians of different widths; for large alpha, it approaches the Gaussian with sigma = length_scale.

    Parameters
    ----------
    length_scale : float > 0, default=1.0
    alpha : float > 0, default=1.0
        For larger alpha, the mixture has less variation in the widths.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

    Notes
    -----
    A value costs an inner product, a logarithm and an exponential. It is native for dense and sparse rows. The
    parameters are those of scikit-learn's ``gaussian_process.kernels``.

    References
    ----------
    Rasmussen & Williams (2006), equation 4.19.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> RationalQuadratic().block(as_data([[0.0]]), as_data([[2.0]])).round(4)
    array([[0.3333]])
    """

    length_scale: float = 1.0
    alpha: float = 1.0

    names = ("rational_quadratic",)
    schema: ClassVar[Schema] = {"length_scale": "number", "alpha": "number"}
    rule = "a mixture of Gaussian kernels"

    def __post_init__(self) -> None:
        for name in self.schema:
            object.__setattr__(self, name, real(name, getattr(self, name), positive=True))
        inverse_square("length_scale", self.length_scale, 2.0 * self.alpha)

    @property
    def is_psd(self) -> bool:
        """True: it is a mixture of Gaussian kernels."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        scale = inverse_square("length_scale", self.length_scale, 2.0 * self.alpha)
        return (
            (Op.SQDIST, 0.0),
            (Op.SCALE, scale),
            (Op.SHIFT, 1.0),
            (Op.LOG, 0.0),
            (Op.SCALE, -self.alpha),
            (Op.EXP, 0.0),
        )


@dataclass(frozen=True)
class Matern(Lowered):
    """The Matérn kernel of smoothness nu = 0.5, 1.5 or 2.5.

    With t = sqrt(2 nu) |x - z| / length_scale: exp(-t), (1 + t) exp(-t) or (1 + t + t²/3) exp(-t).

    Parameters
    ----------
    length_scale : float > 0, default=1.0
    nu : 0.5, 1.5 or 2.5, default=1.5
        0.5 gives exp(-|x - z| / length_scale), a kernel of the L2 distance. Functions in its space are continuous,
        and nu - 1/2 times differentiable.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

    Notes
    -----
    A value costs p differences, a root and an exponential. Distances are computed from differences, because the root
    would halve the number of correct digits that inner products leave. It is native for dense rows; sparse rows are
    evaluated by NumPy. scikit-learn's ``gaussian_process.kernels`` has the same parameters and also other nu.

    References
    ----------
    Rasmussen & Williams (2006), equations 4.14 and 4.17.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Matern(nu=0.5).block(as_data([[0.0]]), as_data([[2.0]])).round(4)
    array([[0.1353]])
    """

    length_scale: float = 1.0
    nu: float = 1.5

    names = ("matern",)
    schema: ClassVar[Schema] = {"length_scale": "number", "nu": "number"}
    rule = "a mixture of Gaussian kernels"

    def __post_init__(self) -> None:
        for name in self.schema:
            object.__setattr__(self, name, real(name, getattr(self, name), positive=True))
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu:g}: for smoother functions take RBF")
        inverse_square("length_scale", self.length_scale, 0.5 / self.nu)

    @property
    def is_psd(self) -> bool:
        """True: it is a mixture of Gaussian kernels."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        scale = inverse_square("length_scale", self.length_scale, 0.5 / self.nu)
        t: Program = ((Op.SQDIST, 0.0), (Op.SCALE, scale), (Op.SQRT, 0.0))
        falling: Program = (*t, (Op.SCALE, -1.0), (Op.EXP, 0.0))
        if self.nu == 0.5:
            return falling
        polynomial: Program = (*t, (Op.SHIFT, 1.0))
        if self.nu == 2.5:
            polynomial = (*t, (Op.SCALE, 1.0 / 3.0), (Op.SHIFT, 1.0), *t, (Op.MUL, 0.0), (Op.SHIFT, 1.0))
        return (*polynomial, *falling, (Op.MUL, 0.0))


def given_gamma(kernel: Any, gamma: Gamma | None, sigma: float | None, width: float | None) -> Gamma:
    """Return gamma from the one parameter that is given, or the kernel's default; ValueError if several are given."""
    if (gamma is None) + (sigma is None) + (width is None) < 2:
        given = {"gamma": gamma, "sigma": sigma, "width": width}
        named = " and ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        raise ValueError(f"{type(kernel).__name__} takes only one of gamma, sigma and width, got {named}")
    if sigma is not None:
        return inverse_square("sigma", sigma, 2.0)
    if width is not None:
        return inverse_square("width", width, 1.0)
    return gamma_or_rule(kernel.default if gamma is None else gamma, kernel.rules)


def inverse_square(name: str, value: float, factor: float) -> float:
    """Return 1 / (factor value²), which must be a positive number."""
    length = real(name, value, positive=True)
    with np.errstate(over="ignore", divide="ignore"):
        gamma = float(1.0 / (factor * np.square(np.float64(length))))
    if not (0.0 < gamma < np.inf):
        raise ValueError(f"{name} must be such that gamma is a finite positive number, got {length:g}")
    return gamma
