"""How well two kernels agree on given rows, or a kernel with labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import type_of_target

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.data import Precomputed as GivenValues
from mercer.geometry.matrices import BLOCK_VALUES, KernelLike
from mercer.gram import Gram
from mercer.kernels import Kernel, Precomputed, as_kernel, as_rows


def alignment(K: KernelLike | npt.ArrayLike, other: Any, X: Any = None, *, n_jobs: int | None = None) -> float:
    """Return the alignment of two kernel matrices, or of one with labels: the cosine of the angle between them.

    A(K, L) = <K, L> / (|K| |L|), with <K, L> = sum_ij K_ij L_ij.

    Parameters
    ----------
    K : array-like of shape (n, n), Kernel, str or callable
        A matrix, or a kernel, which needs X.
    other : array-like of shape (n, n) or (n,), Kernel, str or callable
        Another of these, or labels. Labels of classes stand for the ideal matrix, 1 where two labels are the same and
        -1 / (n_classes - 1) where they are not, which for two classes is yy' with y = +1 or -1; real numbers y stand
        for yy'.
    X : array-like, sparse matrix or Data of shape (n, p), optional
        The rows, where K or other is a kernel.
    n_jobs : int, optional
        Threads; all processors by default.

    Returns
    -------
    float
        From -1 to 1; from 0 to 1 for two positive semidefinite matrices.

    Raises
    ------
    ValueError
        If a kernel comes without X, sizes differ, a matrix is not square, or one is zero, which has no direction.

    Notes
    -----
    Costs n² values of each kernel, by blocks: no matrix is formed. A constant added to a kernel changes the alignment,
    and kernels with values >= 0 are all much alike; :func:`centered_alignment` is free of that.

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

    A(HKH, HLH) with H = I - 11'/n, which takes the mean of the rows' images away.

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
        As for :func:`alignment`; a matrix that is constant is zero once it is centred.

    Notes
    -----
    Costs n² values of each kernel, twice: the means come first, for a difference of sums would lose the digits that
    centring leaves. Where it is high, there is a predictor in the kernel's space with small error, and it goes along
    with the accuracy of machines, which plain alignment often does not [Cortes, Mohri & Rostamizadeh 2012].

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


@dataclass(frozen=True)
class _Side:
    """A symmetric matrix, by rows, and about how large its entries are."""

    what: str
    n: int
    values: Callable[[npt.NDArray[np.int64]], FloatArray]
    size: float

    def rows(self, at: npt.NDArray[np.int64]) -> FloatArray:
        """Some rows, multiplied by a power of two that makes entries about 1, so that squares are in range."""
        unit = np.ldexp(1.0, int(np.clip(-np.frexp(self.size)[1], -1022, 1022)))
        return np.asarray(self.values(at) * unit)


def _alignment(K: Any, other: Any, X: Any, n_jobs: int | None, *, centered: bool) -> float:
    left, right = _side("K", K, X, n_jobs, labels=False), _side("other", other, X, n_jobs, labels=True)
    if left.n != right.n:
        raise ValueError(
            f"both sides must be of the same rows, but {left.what} has {left.n} and {right.what} {right.n}"
        )
    n = left.n
    height = max(1, BLOCK_VALUES // max(1, n))
    pieces = [np.arange(first, min(first + height, n)) for first in range(0, n, height)]
    sides = (left, right)
    means = [np.zeros(n), np.zeros(n)]
    if centered:
        means = [np.concatenate([side.rows(at).mean(axis=1) for at in pieces]) for side in sides]
    sizes = [0.0, 0.0]
    products = np.zeros(3)  # <K, L>, <K, K>, <L, L>
    for at in pieces:
        blocks = []
        for k, (side, mean) in enumerate(zip(sides, means, strict=True)):
            block = side.rows(at)
            sizes[k] = max(sizes[k], float(np.abs(block).max(initial=0.0)))
            blocks.append(block - mean[at, None] - mean + mean.mean() if centered else block)
        a, b = blocks
        products += [np.vdot(a, b), np.vdot(a, a), np.vdot(b, b)]
    if not np.isfinite(products).all():
        raise ValueError(f"values of {left.what} or {right.what} are too large for sums of their products")
    for side, size, square in zip(sides, sizes, products[1:], strict=True):
        # What is left of a constant matrix is its rounding.
        if square**0.5 <= 16.0 * np.finfo(np.float64).eps * size * n:
            raise ValueError(
                f"{side.what} must not be {'constant' if centered else 'zero'} on these rows: "
                "it has no direction to align"
            )
    return float(products[0] / np.sqrt(products[1]) / np.sqrt(products[2]))


def _side(name: str, value: Any, X: Any, n_jobs: int | None, *, labels: bool) -> _Side:
    if isinstance(value, (str, Kernel)) or callable(value):
        if X is None:
            raise ValueError(f"{name} is a kernel, {value!r}, and needs X, the rows to evaluate it on")
        spec = as_kernel(value)
        return _of_kernel(spec, as_rows(spec, X), n_jobs)
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


def _of_kernel(spec: Kernel, rows: Data, n_jobs: int | None) -> _Side:
    if isinstance(spec, Precomputed) and rows.n != rows.p:
        raise ValueError(f"a matrix of kernel values must be square, got shape {rows.shape}")
    gram = Gram(spec.resolve(rows), rows, n_jobs=n_jobs)
    return _Side(f"{spec!r}", rows.n, gram.block, float(np.abs(gram.kernel.diag(rows)).max(initial=0.0)))


def _of_labels(y: npt.NDArray[Any]) -> _Side:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("labels must be finite, got NaN or infinity")
    if type_of_target(y) == "continuous":
        numbers = y.astype(np.float64)
        numbers /= np.abs(numbers).max(initial=0.0) or 1.0  # factors do not count
        return _Side("the target", y.size, lambda at: np.outer(numbers[at], numbers), 1.0)
    classes, codes = np.unique(y, return_inverse=True)
    apart = -1.0 / max(1, classes.size - 1)
    return _Side("the matrix of labels", y.size, lambda at: np.where(codes[at, None] == codes, 1.0, apart), 1.0)
