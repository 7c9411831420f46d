"""The table of features that landmarks give: coordinates of all rows in the span of the landmarks' images."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular

from mercer._typing import FloatArray, IndexArray
from mercer.gram import Gram
from mercer.kernels import Kernel

_NOISE = 1e-7  # share of the largest k(x, x): a landmark whose image is closer to the span of the others is not used
_SMALLEST, _LARGEST = 1e-28, 1e36  # k(x, x), with smaller values and with sums of these in single precision
_PROBED = 1 << 19  # kernel values by which the time of all of them is estimated
_WIDTH = 256  # columns that are multiplied together
_BLOCK = 1 << 21  # kernel values of a block of rows

Features = npt.NDArray[np.float32]


class LandmarkBasis:
    """An orthonormal basis of the span of landmarks, from the Cholesky factor of their kernel values.

    The coordinates of a row are F = k(x, L) T^-1, where K_LL = T' T: then F F' is the Nyström approximation of K.

    Parameters
    ----------
    gram : Gram
    landmarks : ndarray of int64
        Positions of the landmarks in `gram`. Those that the others represent but for rounding are left out.

    Attributes
    ----------
    landmarks : ndarray of int64 of shape (k,)
    among : ndarray of shape (k, k)
        Their kernel values.
    """

    def __init__(self, gram: Gram, landmarks: IndexArray) -> None:
        among = np.ascontiguousarray(gram.block(landmarks, landmarks))
        largest = float(np.abs(np.diag(among)).max(initial=0.0))
        _, order, rank, _ = lapack.dpstrf(among, tol=_NOISE * largest, lower=0)
        chosen = np.sort(order[: max(1, rank)] - 1)  # in the order of the draw, in which the first ones matter most
        self.gram, self.landmarks = gram, landmarks[chosen]
        self.among: FloatArray = np.ascontiguousarray(among[np.ix_(chosen, chosen)])
        # Without a kernel value other than 0 there is one feature, which is 0.
        root = np.linalg.cholesky(self.among).T if rank else np.eye(1)
        self.triangle = np.asarray(root, dtype=np.float64)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.landmarks.size

    def coefficients(self, weights: FloatArray) -> FloatArray:
        """Return the coefficients of the landmarks, (k, t), of the functions with these weights of coordinates."""
        return np.ascontiguousarray(solve_triangular(self.triangle, weights, lower=False, check_finite=False))

    def seconds(self) -> float:
        """Return the time that the features of all rows take, from a few of the rows."""
        rows = np.arange(min(self.gram.n, max(64, _PROBED // self.size)))
        began = time.perf_counter()
        np.matmul(self.gram.block(rows, self.landmarks).astype(np.float32), self.triangle.astype(np.float32))
        return (time.perf_counter() - began) * self.gram.n / rows.size

    def table(self, room: int, check: Callable[[], None]) -> Features:
        """Return the coordinates of all rows of the Gram matrix, (n, k), in single precision.

        They are in memory if they fit in `room` bytes, and else in a temporary file. `check` is called between blocks.

        Raises
        ------
        OSError
            If the file does not fit on the disk.
        ValueError
            If features are not finite.
        """
        n, k = self.gram.n, self.size
        table = allocated(n, k, room)
        inverse = solve_triangular(self.triangle, np.eye(k), lower=False, check_finite=False).astype(np.float32)
        height = max(1, _BLOCK // max(1, k))
        values = np.empty((min(n, height), k), dtype=np.float32)
        for first in range(0, n, height):
            rows = np.arange(first, min(n, first + height))
            block = values[: rows.size]
            for _ in self.gram.fill_block(block, rows, self.landmarks):
                check()
            for left in range(0, k, _WIDTH):  # the inverse is triangular: rows below the diagonal are 0
                right = min(k, left + _WIDTH)
                np.matmul(block[:, :right], inverse[:right, left:right], out=table[rows[0] : rows[-1] + 1, left:right])
            if not np.isfinite(table[rows[0] : rows[-1] + 1]).all():
                raise beyond_single(self.gram.kernel)
            check()
        return table


def check_range(gram: Gram) -> None:
    """Raise ValueError if the largest k(x, x) is too large or too small for single precision; all may be 0."""
    largest = float(gram.diag().max(initial=0.0))
    if largest > 0.0 and not _SMALLEST <= largest <= _LARGEST:
        raise beyond_single(gram.kernel)


def beyond_single(kernel: Kernel) -> ValueError:
    """Return the error of kernel values that single precision does not hold."""
    return ValueError(
        f"values of {kernel!r} are too large or too small for landmarks, whose features are in single precision: "
        "scale the columns (for example to mean 0 and variance 1), or set approximation=None."
    )


def allocated(n: int, k: int, room: int) -> Features:
    """Return an empty table in memory if it fits in `room` bytes, and else in a temporary file without a name."""
    if 4 * n * k <= room:
        return np.empty((n, k), dtype=np.float32)
    size = 4 * n * k
    with tempfile.TemporaryFile() as file:  # it has no name on the disk, and lasts as long as the map
        try:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and not a fault of the map later
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise OSError(
                error.errno,
                f"the features of {n:,} rows and {k:,} landmarks take {size:,} bytes, more than memory_limit allows in "
                f"memory, and {tempfile.gettempdir()} has no room for them ({error.strerror}): free space there, set "
                "TMPDIR to another folder, raise memory_limit, or take fewer landmarks",
            ) from error
        return np.asarray(np.memmap(file, dtype=np.float32, mode="r+", shape=(n, k)))
