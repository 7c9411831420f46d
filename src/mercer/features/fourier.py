"""Random Fourier features: cosines and sines at random frequencies; inner products approximate a kernel of x - z."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from mercer._typing import FloatArray
from mercer.data import Data, Vectors
from mercer.data.arguments import check_count
from mercer.data.rows import BLOCK_VALUES
from mercer.estimators._base import HoldsKernel
from mercer.features.feature_map import DenseMap
from mercer.kernels import RBF, Gamma, Kernel, Laplacian, Matern, RationalQuadratic, as_kernel
from mercer.kernels.parameters import number

Random: TypeAlias = np.random.RandomState


def _of_gaussian(kernel: Any, shape: tuple[int, int], random: Random) -> FloatArray:
    return random.normal(size=shape) * np.sqrt(2.0 * number(kernel.gamma, kernel))


def _of_laplacian(kernel: Any, shape: tuple[int, int], random: Random) -> FloatArray:
    return random.standard_cauchy(size=shape) * number(kernel.gamma, kernel)


def _of_matern(kernel: Any, shape: tuple[int, int], random: Random) -> FloatArray:
    stretch = np.sqrt(2.0 * kernel.nu / random.chisquare(2.0 * kernel.nu, size=(shape[0], 1)))
    return random.normal(size=shape) * stretch / kernel.length_scale


def _of_rational_quadratic(kernel: Any, shape: tuple[int, int], random: Random) -> FloatArray:
    stretch = np.sqrt(random.gamma(kernel.alpha, 1.0 / kernel.alpha, size=(shape[0], 1)))
    return random.normal(size=shape) * stretch / kernel.length_scale


_SPECTRA: dict[type[Kernel], Callable[[Any, tuple[int, int], Random], FloatArray]] = {
    RBF: _of_gaussian,
    Laplacian: _of_laplacian,
    Matern: _of_matern,
    RationalQuadratic: _of_rational_quadratic,
}
"""Functions that draw frequencies, such that the kernel is the mean of their cosines [Rahimi & Recht 2007, table 1;
Rasmussen & Williams 2006, section 4.2.1]."""


class RandomFourier(HoldsKernel, DenseMap):
    """Random Fourier features of a kernel of x - z: cosines and sines of random projections.

    By Bochner's theorem, a continuous kernel k(x - z) with k(0) = 1 is the mean of cos(w'(x - z)) over random
    frequencies w. With m frequencies, the columns are cos(w_i'x) / sqrt(m) and sin(w_i'x) / sqrt(m). Their inner
    products are the average of m such cosines.

    Parameters
    ----------
    kernel : str or Kernel, default="rbf"
        The kernel to approximate: RBF, Laplacian, Matern or RationalQuadratic.
    n_frequencies : int, default=100
        Number of frequencies; each gives two columns.
    gamma : float >= 0, "scale", "auto", "median" or "sigest", default="scale"
        Used for a kernel given by name.
    orthogonal : bool, default=False
        Whether frequencies are orthogonal to each other, in groups of p, which lowers the error. Only for kernels of
        |x - z|, whose frequencies have no preferred direction. Laplacian is not such a kernel.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_frequencies, p)
    kernel_ : Kernel
        The kernel, with all parameters as numbers.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not allowed, or the distribution of frequencies is unknown for the kernel.

    Notes
    -----
    Frequencies are normal for RBF, of independent Cauchy entries for Laplacian, and multivariate Student with 2 nu
    degrees of freedom for Matern; RationalQuadratic is a mixture of Gaussians.

    An inner product is unbiased. With independent frequencies, its variance is
    (1 + k(2 d) - 2 k(d)²) / (2 n_frequencies) with d = x - z; for RBF this is (1 - k(d)²)² / (2 n_frequencies). So the
    error decreases with 1/sqrt(n_frequencies) and does not depend on p; k(x, x) = 1 is exact. The frequencies do not
    depend on the data. If the data have structure, :class:`Nystroem` needs fewer columns for the same error.

    From X, `fit` uses the number of columns, and what a rule for gamma needs. It draws n_frequencies p random numbers;
    with `orthogonal`, it also computes QR decompositions of p x p matrices. `transform` costs about p + 10
    multiplications for each entry.

    In scikit-learn's RBFSampler, the `n_components` columns are cosines with random phases, which have a larger
    variance at small distances.

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines, algorithm 1; Sutherland & Schneider
    (2015), On the error of random Fourier features, for sines and cosines compared to phases; Yu, Suresh, Choromanski,
    Holtmann-Rice & Kumar (2016), Orthogonal random features.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, RandomFourier, gram_matrix
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Z = RandomFourier(RBF(gamma=0.2), n_frequencies=2000, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - gram_matrix(RBF(gamma=0.2), X)).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        *,
        n_frequencies: int = 100,
        gamma: Gamma = "scale",
        orthogonal: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_frequencies = n_frequencies
        self.gamma = gamma
        self.orthogonal = orthogonal
        self.random_state = random_state

    def _learn(self, rows: Data) -> None:
        m = check_count("n_frequencies", self.n_frequencies)
        spec = as_kernel(self.kernel, gamma=self.gamma)
        spectrum = _SPECTRA.get(type(spec))
        if spectrum is None:
            kernels = ", ".join(kernel.__name__ for kernel in _SPECTRA)
            raise TypeError(f"random Fourier features are known for {kernels}, got {spec!r}: take Nystroem for others.")
        if self.orthogonal and isinstance(spec, Laplacian):
            raise ValueError("orthogonal=True is for kernels of |x - z|, got a Laplacian: set orthogonal=False.")
        random = check_random_state(self.random_state)
        self.kernel_ = spec.resolve(rows)
        frequencies = spectrum(self.kernel_, (m, rows.p), random)
        self.frequencies_ = _made_orthogonal(frequencies, random) if self.orthogonal else frequencies

    @property
    def _n_features_out(self) -> int:
        return 2 * self.frequencies_.shape[0]

    def _blocks(self, rows: Data) -> Iterator[tuple[slice, npt.NDArray[np.floating]]]:
        assert isinstance(rows, Vectors)
        m = self.frequencies_.shape[0]
        height = max(1, BLOCK_VALUES // (2 * m))
        # If the rows are float32, their own rounding limits the accuracy, so cosines in float32 are enough.
        block = np.empty((min(height, rows.n), 2 * m), dtype=rows.dtype)
        for first in range(0, rows.n, height):
            part = slice(first, min(first + height, rows.n))
            with np.errstate(over="ignore", invalid="ignore"):
                waves = (rows.rows(part).float64() @ self.frequencies_.T).astype(rows.dtype, copy=False)
            if not np.isfinite(waves).all():
                raise ValueError(f"arguments of cosines of {self!r} overflow {rows.dtype}: scale the columns")
            features = block[: part.stop - first]
            np.cos(waves, out=features[:, :m])
            np.sin(waves, out=features[:, m:])
            features /= np.sqrt(m)
            yield part, features


def _made_orthogonal(frequencies: FloatArray, random: np.random.RandomState) -> FloatArray:
    """Return vectors of the same lengths with uniform directions; each group of p vectors is orthogonal."""
    m, p = frequencies.shape
    directions = np.empty((m, p))
    for first in range(0, m, p):
        last = min(first + p, m)
        # The columns of Q are uniformly distributed after their signs are set to those of R's diagonal.
        Q, R = np.linalg.qr(random.normal(size=(p, last - first)))
        directions[first:last] = (Q * np.sign(np.diagonal(R))).T
    return directions * np.linalg.norm(frequencies, axis=1, keepdims=True)
