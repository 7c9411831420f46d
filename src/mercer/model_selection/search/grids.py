"""A grid of values for C and gamma, by a rule of thumb."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from mercer.data import Vectors, as_data

_DOUBLINGS = 6  # doublings of the width of the Gaussian kernel
_ROWS_AT_A_TIME = 512  # rows in a block of distances
_LEAST, _LARGEST = 1e-150, 1e150  # range of distances whose squares neither underflow nor overflow


def rule_of_thumb_grid(X: Any) -> dict[str, list[float]]:
    """Return values of C and gamma for a grid search with a Gaussian kernel, by a rule of thumb.

    C goes from 1e-5 to 1e5 by factors of 10. The width of k(x, z) = exp(-|x - z|² / width²) goes from s to 64 s by
    factors of 2, where s is the smallest distance of two different rows.

    Parameters
    ----------
    X : array-like, sparse matrix or dataframe of shape (n, p)

    Returns
    -------
    dict
        11 values of ``C`` and 7 values of ``gamma`` (descending), for :class:`mercer.KernelSearchCV` or GridSearchCV.

    Raises
    ------
    ValueError
        If all rows are equal, the square of the smallest distance is out of range, or `X` holds NaN or infinity.

    Notes
    -----
    gamma is 1 / width². The smallest distance depends on two rows only and decreases with the number of rows. With very
    many rows, all 7 values of gamma are too large; ``KernelSearchCV(gamma="zoom")`` starts from the spread of all rows
    instead.

    Costs n² p / 2 multiplications. The smallest distance is found despite rounding: all pairs that could be closest,
    by an error bound, are compared again.

    The rule is used with a hold-out of half of the rows, scikit-learn's ``ShuffleSplit(1, test_size=0.5)``.

    Examples
    --------
    >>> grid = rule_of_thumb_grid([[0.0], [0.5], [0.5], [4.0]])
    >>> grid["gamma"][:3], grid["C"][0], len(grid["C"])
    ([4.0, 1.0, 0.25], 1e-05, 11)
    """
    width = _smallest_distance(as_data(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])))
    if not _LEAST < width < _LARGEST:
        raise ValueError(
            f"the smallest distance of two rows of X must be between {_LEAST:g} and {_LARGEST:g}, for gamma to be a "
            f"number, got {width:g}: scale X."
        )
    return {
        "C": [float(f"1e{k}") for k in range(-5, 6)],
        "gamma": [1.0 / (2.0**k * width) ** 2 for k in range(_DOUBLINGS + 1)],
    }


def _smallest_distance(data: Vectors) -> float:
    """Return the smallest nonzero distance of two rows."""
    rows: Any = data.float64()
    size = np.ldexp(1.0, int(np.frexp(float(abs(rows).max()))[1]) - 1)  # a power of two, so that dividing is exact
    rows = rows[_first_of_each(rows)] / size
    n, p = rows.shape
    if n < 2:
        raise ValueError("X must have two rows at least that differ, for otherwise all distances are 0.")
    squares = as_data(rows).sq_norms()
    rounding = (
        4.0 * (p + 8) * np.finfo(np.float64).eps * squares
    )  # the error of |x|² + |z|² - 2 x'z is at most the sum of both rows' bounds
    least, candidates = np.inf, []
    for first in range(0, n, _ROWS_AT_A_TIME):
        part = slice(first, min(first + _ROWS_AT_A_TIME, n))
        products = rows[part] @ rows[first:].T
        products = products.toarray() if hasattr(products, "toarray") else products
        distances = squares[part, None] + squares[None, first:] - 2.0 * products
        error_bound = rounding[part, None] + rounding[None, first:]
        later = np.arange(first, n)[None, :] > np.arange(part.start, part.stop)[:, None]
        least = min(least, float(np.where(later, distances + error_bound, np.inf).min()))
        i, j = np.nonzero(later & (distances - error_bound <= least))
        candidates.append(np.column_stack([i + first, j + first, (distances - error_bound)[i, j]]))
    pairs = np.concatenate(candidates)
    i, j = pairs[pairs[:, 2] <= least, :2].astype(np.int64).T
    chunks = np.array_split(np.arange(i.size), 1 + i.size // 4096)
    return float(size * np.sqrt(min(float(as_data(rows[i[k]] - rows[j[k]]).sq_norms().min()) for k in chunks)))


def _first_of_each(rows: Any) -> npt.NDArray[np.int64]:
    """Return the index of the first row of each set of equal rows."""
    if not hasattr(rows, "indptr"):
        return np.sort(np.unique(rows + 0.0, axis=0, return_index=True)[1])
    seen: dict[bytes, int] = {}
    for i in range(rows.shape[0]):
        entries = slice(rows.indptr[i], rows.indptr[i + 1])
        used = rows.data[entries] != 0.0
        seen.setdefault(rows.indices[entries][used].astype(np.int64).tobytes() + rows.data[entries][used].tobytes(), i)
    return np.array(list(seen.values()), dtype=np.int64)
