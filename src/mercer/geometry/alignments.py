"""The alignment of two kernels on given rows, or of a kernel with labels; weights of a sum of kernels by alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from sklearn.utils.multiclass import type_of_target

from mercer._typing import FloatArray
from mercer.data import Data, refuse_mixed_labels
from mercer.data import Precomputed as GivenValues
from mercer.data.arguments import check_choice
from mercer.data.checks import checked_length
from mercer.geometry.matrices import BLOCK_VALUES, KernelLike
from mercer.gram import Gram
from mercer.kernels import Kernel, Precomputed, Sum, as_kernel, as_rows
from mercer.kernels.origin import without_origin


def alignment(K: KernelLike | npt.ArrayLike, other: Any, X: Any = None, *, n_jobs: int | None = None) -> float:
    """Return the alignment of two kernel matrices, or of a kernel matrix with labels: the cosine of their angle.

    A(K, L) = <K, L> / (|K| |L|), with <K, L> = sum_ij K_ij L_ij.

    Parameters
    ----------
    K : array-like of shape (n, n), Kernel, str or callable
        A matrix, or a kernel that is evaluated on X.
    other : array-like of shape (n, n) or (n,), Kernel, str or callable
        A second matrix or kernel, or labels. Class labels stand for the ideal matrix: 1 for two rows of the same class
        and -1 / (n_classes - 1) for rows of different classes. With two classes this is yy', where y = +1 or -1. Real
        numbers y stand for yy'.
    X : array-like, sparse matrix or Data of shape (n, p), optional
        The rows, needed if K or other is a kernel.
    n_jobs : int, optional
        Threads; all processors by default.

    Returns
    -------
    float
        From -1 to 1; from 0 to 1 for two positive semidefinite matrices.

    Raises
    ------
    ValueError
        If a kernel is given without X, sizes differ, a matrix is not square, or a matrix is zero.

    Notes
    -----
    The cost is n² values of each kernel, evaluated in blocks; no matrix is formed. Adding a constant to a kernel
    changes the alignment, and two kernels with values >= 0 always have a high alignment. :func:`centered_alignment`
    does not have these two problems.

    References
    ----------
    Cristianini, Shawe-Taylor, Elisseeff & Kandola (2001), On kernel-target alignment.

    Examples
    --------
    >>> from mercer import Linear, alignment
    >>> alignment(Linear(), [0, 0, 1, 1], X=[[-1.0], [-1.0], [1.0], [1.0]])
    1.0
    """
    return _alignment(K, other, X, n_jobs, centered=False)


def centered_alignment(K: KernelLike | npt.ArrayLike, other: Any, X: Any = None, *, n_jobs: int | None = None) -> float:
    """Return the alignment of two kernel matrices, each centred in its feature space.

    It is A(HKH, HLH) with H = I - 11'/n, which subtracts the mean of the rows' images.

    Parameters
    ----------
    K, other, X, n_jobs
        As for :func:`alignment`.

    Returns
    -------
    float
        From -1 to 1; from 0 to 1 for two positive semidefinite matrices.

    Raises
    ------
    ValueError
        As for :func:`alignment`; a constant matrix is zero after centring.

    Notes
    -----
    The cost is n² values of each kernel, twice: the means are computed first, because subtracting them from the sums
    would lose digits. If the value is high, a predictor with small error exists in the kernel's space. It correlates
    with the accuracy of machines, while plain alignment often does not [Cortes, Mohri & Rostamizadeh 2012].

    References
    ----------
    Cortes, Mohri & Rostamizadeh (2012), Algorithms for learning kernels based on centered alignment.

    Examples
    --------
    >>> from mercer import Linear, centered_alignment
    >>> X = [[1.0], [1.1], [3.0], [3.1]]
    >>> round(centered_alignment(Linear(), [0, 0, 1, 1], X), 4), round(alignment(Linear(), [0, 0, 1, 1], X), 4)
    (0.9975, 0.1921)
    """
    return _alignment(K, other, X, n_jobs, centered=True)


def alignment_weights(
    kernels: Kernel | Sequence[KernelLike | npt.ArrayLike],
    other: Any,
    X: Any = None,
    *,
    method: str = "joint",
    n_jobs: int | None = None,
) -> FloatArray:
    """Return weights >= 0 for the parts of a sum of kernels, such that the weighted sum is aligned with labels.

    They are a start for a search: see :meth:`mercer.kernels.Sum.weighted`.

    Parameters
    ----------
    kernels : Sum, or sequence of kernels or matrices
        The parts. Those of a sum that are scaled (``2.0 * k``) stay so, and get a weight besides.
    other : array-like of shape (n,) or (n, n), Kernel or str
        Labels or targets, or what they are to be replaced by, as for :func:`alignment`.
    X : array-like, dataframe, dict of matrices, or Data, optional
        The rows, needed if parts are kernels.
    method : {"joint", "independent"}, default="joint"
        "joint" maximises the centred alignment of the weighted sum. "independent" gives each part a weight proportional
        to its own centred alignment, or 0 if this is negative, divided by the norm of its centred matrix: two equal
        parts then get equal weights.
    n_jobs : int, optional
        Threads; all processors by default.

    Returns
    -------
    ndarray of shape (number of parts,)
        Scaled so that the rows have variance 1 in the space of the weighted sum: C then means the same as for
        standardised rows.

    Raises
    ------
    ValueError
        As for :func:`alignment`; if there are fewer than two parts; if no part is aligned with the labels.

    Notes
    -----
    "joint" solves a nonnegative least squares problem, min |sum_k v_k K_k - L|² over v >= 0 with centred matrices
    [Cortes, Mohri & Rostamizadeh 2012, proposition 9]. The cost is n² values of each part, twice.

    References
    ----------
    Cortes, Mohri & Rostamizadeh (2012), Algorithms for learning kernels based on centered alignment, sections 4.1, 4.2.

    Examples
    --------
    >>> from mercer import RBF, Linear, alignment_weights
    >>> X, y = [[0.0, 3.0], [0.1, -3.0], [1.0, 3.0], [1.1, -3.0]], [0, 0, 1, 1]
    >>> alignment_weights(Linear().on([0]) + Linear().on([1]), y, X).round(2)
    array([3.96, 0.  ])
    """
    check_choice("method", method, ("joint", "independent"))
    sides = [*_parts(kernels, X, n_jobs), _side("other", other, X, n_jobs, labels=True, centered=True)]
    products, variances = _products(sides, centered=True)
    norms = np.sqrt(np.diag(products))
    cosines = products / norms / norms[:, None]
    target = np.where(np.abs(cosines[:-1, -1]) > _ROUNDING, cosines[:-1, -1], 0.0)
    weights = np.maximum(target, 0.0) if method == "independent" else _nearest_combination(cosines[:-1, :-1], target)
    if not weights.any():
        raise ValueError("no part is aligned with the labels: take the plain sum, or other kernels")
    weights /= norms[:-1]
    total = weights @ variances[:-1]
    units = np.array([side.unit for side in sides[:-1]])
    return np.asarray(weights / total * units if total > 0.0 else weights / weights.max() * units)


_ROUNDING = 1e-14  # rounding error of the cosine of two centred matrices


def _nearest_combination(cosines: FloatArray, target: FloatArray) -> FloatArray:
    """Return v >= 0 that minimises v' M v - 2 v' a, where M has the cosines of the parts and a those with the target.

    M = R' R and a is in the range of M, so that this is least squares with R, also if parts depend on each other.
    """
    values, vectors = np.linalg.eigh(cosines)
    nonzero = values > 1e-13 * values[-1]
    root = np.sqrt(values[nonzero])
    return np.asarray(nnls(root[:, None] * vectors[:, nonzero].T, vectors[:, nonzero].T @ target / root)[0])


def _parts(kernels: Any, X: Any, n_jobs: int | None) -> list[_Side]:
    if isinstance(kernels, Sum):
        if X is None:
            raise ValueError(f"kernels is a sum, {kernels!r}, and needs X, the rows to evaluate it on")
        rows = as_rows(kernels, X)
        return [_of_kernel(part, rows, n_jobs, centered=True) for part in kernels.parts]
    if isinstance(kernels, (str, Kernel)) or callable(kernels) or len(kernels) < 2:
        raise ValueError(
            f"kernels must be a sum of kernels, or a list of at least two kernels or matrices, got {kernels!r}"
        )
    return [_side(f"part {k}", part, X, n_jobs, centered=True) for k, part in enumerate(kernels)]


@dataclass(frozen=True)
class _Side:
    """A symmetric matrix that is evaluated by rows; `size` is the approximate size of its entries."""

    what: str
    n: int
    values: Callable[[npt.NDArray[np.int64]], FloatArray]
    size: float

    @property
    def unit(self) -> float:
        """A power of two that makes entries about 1, so that their squares do not overflow."""
        return float(np.ldexp(1.0, int(np.clip(-np.frexp(self.size)[1], -1022, 1022))))

    def rows(self, at: npt.NDArray[np.int64]) -> FloatArray:
        """Return some rows, times `unit`."""
        return np.asarray(self.values(at) * self.unit)


def _alignment(K: Any, other: Any, X: Any, n_jobs: int | None, *, centered: bool) -> float:
    left = _side("K", K, X, n_jobs, centered=centered)
    sides = [left, _side("other", other, X, n_jobs, labels=True, centered=centered)]
    products, _ = _products(sides, centered=centered)
    return float(products[0, 1] / np.sqrt(products[0, 0]) / np.sqrt(products[1, 1]))


def _products(sides: Sequence[_Side], *, centered: bool) -> tuple[FloatArray, FloatArray]:
    """Return <K, L> of all pairs of matrices, and the mean diagonal entry of each; they are centred if asked for.

    Raises
    ------
    ValueError
        If the matrices are of different rows, one is zero, or products overflow.
    """
    n, count = sides[0].n, len(sides)
    for one in sides[1:]:
        if one.n != n:
            raise ValueError(f"all sides must be of the same rows, but {sides[0].what} has {n} and {one.what} {one.n}")
    height = max(1, BLOCK_VALUES // max(1, n * count // 2))
    chunks = [np.arange(first, min(first + height, n)) for first in range(0, n, height)]
    means = [np.zeros(n)] * count
    if centered:
        means = [np.concatenate([side.rows(at).mean(axis=1) for at in chunks]) for side in sides]
    sizes, diagonals, products = np.zeros(count), np.zeros(count), np.zeros((count, count))
    for at in chunks:
        blocks = []
        for k, (side, mean) in enumerate(zip(sides, means, strict=True)):
            block = side.rows(at)
            sizes[k] = max(sizes[k], float(np.abs(block).max(initial=0.0)))
            blocks.append(block - mean[at, None] - mean + mean.mean() if centered else block)
            diagonals[k] += blocks[k][np.arange(at.size), at].sum()
        flat = np.array([block.ravel() for block in blocks])
        with np.errstate(over="ignore", invalid="ignore"):
            products += flat @ flat.T
    if not np.isfinite(products).all():
        large = " or ".join(side.what for side in sides)
        raise ValueError(f"values of {large} are too large for sums of their products")
    for side, size, square in zip(sides, sizes, np.diag(products), strict=True):
        # By rounding, a constant matrix is not exactly 0 after centring.
        if square**0.5 <= 16.0 * np.finfo(np.float64).eps * size * n:
            raise ValueError(
                f"{side.what} must not be {'constant' if centered else 'zero'} on these rows: "
                "it has no direction to align"
            )
    return products, diagonals / n


def _side(name: str, value: Any, X: Any, n_jobs: int | None, *, centered: bool, labels: bool = False) -> _Side:
    if isinstance(value, (str, Kernel)) or callable(value):
        if X is None:
            raise ValueError(f"{name} is a kernel, {value!r}, and needs X, the rows to evaluate it on")
        spec = as_kernel(value)
        return _of_kernel(spec, as_rows(spec, X), n_jobs, centered=centered)
    if labels:
        refuse_mixed_labels(name, value)
    array = np.asarray(value)
    if labels and array.ndim == 1:
        return _of_labels(array)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        wanted = "a square matrix, labels or a kernel" if labels else "a square matrix or a kernel"
        raise ValueError(f"{name} must be {wanted}, got an array of shape {array.shape}")
    given = GivenValues(array)
    problem = given.finite_problem()
    if problem is not None:
        raise ValueError(f"{name} must be finite, but {problem}")
    size = max(float(array.max(initial=0)), -float(array.min(initial=0)))
    return _Side(f"{name}, a matrix,", given.n, lambda at: given.array[at].astype(np.float64, copy=False), size)


def _of_kernel(spec: Kernel, rows: Data, n_jobs: int | None, *, centered: bool) -> _Side:
    if isinstance(spec, Precomputed) and rows.n != rows.p:
        raise ValueError(f"a matrix of kernel values must be square, got shape {rows.shape}")
    resolved = spec.resolve(rows)
    gram = Gram(without_origin(resolved) if centered else resolved, rows, n_jobs=n_jobs)
    some = (gram.kernel.diag(rows), gram.block(np.arange(min(1, rows.n))))
    return _Side(f"{spec!r}", rows.n, gram.block, max(float(np.abs(one).max(initial=0.0)) for one in some))


def _of_labels(y: npt.NDArray[Any]) -> _Side:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("labels must be finite, got NaN or infinity")
    if y.dtype == object:
        checked_length("labels", y, y.size, "label")
    if type_of_target(y) == "continuous":
        numbers = y.astype(np.float64)
        numbers /= np.abs(numbers).max(initial=0.0) or 1.0  # scaling does not change the alignment
        return _Side("the target", y.size, lambda at: np.outer(numbers[at], numbers), 1.0)
    classes, codes = np.unique(y, return_inverse=True)
    apart = -1.0 / max(1, classes.size - 1)
    return _Side("the matrix of labels", y.size, lambda at: np.where(codes[at, None] == codes, 1.0, apart), 1.0)
