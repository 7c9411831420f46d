"""The table of features that landmarks give: coordinates of all rows in the span of the landmarks' images."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular

from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.gram.device_backend import DeviceData
from mercer.gram.rows import DeviceRows, DeviceTable, MappedRows, MappedTable, RowNumbers, TableRows, linear_rows
from mercer.kernels import Kernel

_NOISE = 1e-7  # share of the largest k(x, x): a landmark whose image is closer to the span of the others is not used
_SMALLEST, _LARGEST = 1e-28, 1e36  # k(x, x), with smaller values and with sums of these in single precision
_PROBED = 1 << 19  # kernel values by which the time of all of them is estimated
_WIDTH = 256  # columns that are multiplied together
_BLOCK = 1 << 21  # kernel values of a block of rows

Features = npt.NDArray[np.float32]
FeatureTable: TypeAlias = Features | MappedTable | DeviceTable


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

    def value_seconds(self) -> float:
        """Return the time of a kernel value in products with coefficients of the landmarks, from a few of the rows."""
        rows, spread = np.arange(min(self.gram.n, max(64, _PROBED // self.size))), np.zeros(self.gram.n)
        spread[self.landmarks] = 1.0
        began = time.perf_counter()
        self.gram.matvec(spread, rows)
        return (time.perf_counter() - began) / (rows.size * self.size)

    def seconds(self) -> float:
        """Return the time that the features of all rows take, from a few of the rows."""
        rows = np.arange(min(self.gram.n, max(64, _PROBED // self.size)))
        began = time.perf_counter()
        np.matmul(self.gram.block(rows, self.landmarks).astype(np.float32), self.triangle.astype(np.float32))
        return (time.perf_counter() - began) * self.gram.n / rows.size

    @lazy_property
    def inverse(self) -> Features:
        """T^-1 in single precision."""
        inverse = solve_triangular(self.triangle, np.eye(self.size), lower=False, check_finite=False)
        return np.asarray(inverse, dtype=np.float32)

    def table(self, room: int, check: Callable[[], None]) -> FeatureTable:
        """Return the coordinates of all rows of the Gram matrix, (n, k), in single precision.

        They are in memory if they fit in `room` bytes, and else in a temporary file; of rows on a device, they are
        there. `check` is called between blocks.

        Raises
        ------
        OSError
            If the file does not fit on the disk.
        ValueError
            If features are not finite.
        """
        n, k = self.gram.n, self.size
        if isinstance(self.gram.data, DeviceData):
            there = self.gram.table_there(self.landmarks, self.inverse, check)
            if not np.isfinite(there.largest()).all():
                raise beyond_single(self.gram.kernel)
            return there
        table = np.empty((n, k), dtype=np.float32) if 4 * n * k <= room else MappedTable(n, k, room)
        height = max(1, _BLOCK // max(1, k))
        for first in range(0, n, height):
            rows = np.arange(first, min(n, first + height))
            out = (table.array if isinstance(table, MappedTable) else table)[first : first + rows.size]
            self.fill(out, self.gram, rows, self.landmarks, check)
            if isinstance(table, MappedTable):
                table.release(first, first + rows.size)
        return table

    def fill(
        self, out: Features, gram: Gram, rows: IndexArray, landmarks: IndexArray, check: Callable[[], None]
    ) -> None:
        """Write the coordinates of some rows of a Gram matrix that has the landmarks at these positions.

        Raises
        ------
        ValueError
            If features are not finite.
        """
        values = np.empty((rows.size, self.size), dtype=np.float32)
        for _ in gram.fill_block(values, rows, landmarks):
            check()
        for left in range(0, self.size, _WIDTH):  # the inverse is triangular: rows below the diagonal are 0
            right = min(self.size, left + _WIDTH)
            np.matmul(values[:, :right], self.inverse[:right, left:right], out=out[:, left:right])
        if not np.isfinite(out).all():
            raise beyond_single(gram.kernel)
        check()


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


def feature_rows(
    table: FeatureTable,
    labels: RowNumbers,
    weights: RowNumbers,
    pair: tuple[int, int] | None = None,
    zeros: Callable[[int], RowNumbers] | None = None,
) -> TableRows | MappedRows | DeviceRows:
    """Return features as rows of a linear machine: all of them, or with a `pair` of classes the rows of these.

    `zeros` returns storage for numbers of rows of a table in a file.
    """
    if isinstance(table, MappedTable):
        return MappedRows(table, labels, weights, pair, zeros)
    labels, weights = labels[:], weights[:]
    if pair is None:
        return linear_rows(table, labels, weights)
    rows = np.flatnonzero((labels == pair[0]) | (labels == pair[1]))
    return linear_rows(table[rows], (labels[rows] == pair[0]).astype(np.float64), weights[rows])
