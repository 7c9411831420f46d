"""Random Fourier features: waves at random frequencies, whose inner products approximate a kernel of differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from mercer.data import Data, Vectors
from mercer.estimators.kernel_parameters import HoldsKernel
from mercer.features.base import DenseMap, check_count
from mercer.kernels import RBF, Gamma, Kernel, as_kernel
from mercer.kernels.parameters import number

FloatArray = npt.NDArray[np.float64]

_BLOCK_ENTRIES = 1 << 20  # of a temporary: 8 MiB; less would not be worth the threads of a matrix product


class RandomFourier(HoldsKernel, DenseMap):
    """Random Fourier features of the Gaussian kernel: cosines and sines of random projections.

    By Bochner's theorem a continuous kernel k(x - z) with k(0) = 1 is the mean of cos(w'(x - z)) over random
    frequencies w. With m of them, the columns cos(w_i'x) / sqrt(m) and sin(w_i'x) / sqrt(m) have as inner products the
    average of m such cosines.

    Parameters
    ----------
    kernel : {"rbf"} or RBF, default="rbf"
        The kernel to approximate.
    n_frequencies : int, default=100
        Each gives two columns.
    gamma : float >= 0, "scale", "auto", "median" or "sigest", default="scale"
        Of a kernel given by name.
    orthogonal : bool, default=False
        Whether frequencies are orthogonal to each other, p at a time, which lowers the error.
    random_state : int, RandomState instance or None, default=None
        Makes the draw repeatable.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_frequencies, p)
    kernel_ : Kernel
        With all its parameters as numbers.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not of that kind, or the kernel is one whose frequencies are not known here.

    Notes
    -----
    An inner product is unbiased; its variance is (1 - k(x, z)²)² / (2 n_frequencies) for independent frequencies, so
    that the error falls with 1/sqrt(n_frequencies) whatever p; k(x, x) = 1 is exact. The columns depend on no data:
    where these have structure, :class:`Nystroem` needs fewer columns for the same error.

    Of X, `fit` takes the number of columns, and what a rule for gamma needs. It draws n_frequencies p random numbers;
    with `orthogonal`, QR decompositions of p x p matrices. `transform` costs p + 10 multiplications or so for each
    entry.

    Differs from scikit-learn's RBFSampler, whose `n_components` columns are cosines with random phases: that has a
    larger variance at small distances.

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines, algorithm 1; Sutherland & Schneider
    (2015), On the error of random Fourier features, for sines and cosines against phases; Yu, Suresh, Choromanski,
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
        if not isinstance(spec, RBF):
            raise TypeError(
                f"random Fourier features are known for RBF kernels, got {spec!r}: take Nystroem for others."
            )
        random = check_random_state(self.random_state)
        self.kernel_ = spec.resolve(rows)
        # The spectrum of exp(-gamma |d|²) is normal with variance 2 gamma in each direction.
        frequencies = random.normal(size=(m, rows.p)) * np.sqrt(2.0 * number(self.kernel_.gamma, spec))
        self.frequencies_ = _made_orthogonal(frequencies, random) if self.orthogonal else frequencies

    @property
    def _n_features_out(self) -> int:
        return 2 * self.frequencies_.shape[0]

    def _blocks(self, rows: Data) -> Iterator[tuple[slice, npt.NDArray[np.floating]]]:
        assert isinstance(rows, Vectors)
        m = self.frequencies_.shape[0]
        height = max(1, _BLOCK_ENTRIES // (2 * m))
        # Of single precision, cosines lose no more than the rows themselves have lost.
        block = np.empty((min(height, rows.n), 2 * m), dtype=rows.dtype)
        for first in range(0, rows.n, height):
            part = slice(first, min(first + height, rows.n))
            waves = (rows.rows(part).float64() @ self.frequencies_.T).astype(rows.dtype, copy=False)
            found = block[: part.stop - first]
            np.cos(waves, out=found[:, :m])
            np.sin(waves, out=found[:, m:])
            found /= np.sqrt(m)
            yield part, found


def _made_orthogonal(frequencies: FloatArray, random: np.random.RandomState) -> FloatArray:
    """Return vectors of the same lengths whose directions are uniform, and orthogonal to each other p at a time."""
    m, p = frequencies.shape
    directions = np.empty((m, p))
    for first in range(0, m, p):
        last = min(first + p, m)
        # Columns of Q are uniform once the signs are those of R's diagonal.
        Q, R = np.linalg.qr(random.normal(size=(p, last - first)))
        directions[first:last] = (Q * np.sign(np.diagonal(R))).T
    return directions * np.linalg.norm(frequencies, axis=1, keepdims=True)
