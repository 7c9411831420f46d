"""Sums over the features of two rows that are not inner products: L1, chi-squared and Hamming distances, minima.

The native code (native/gram/feature_sums.hpp) is tested against these definitions. For sparse rows, a distance is
computed as norm + norm - 2 shared, where "shared" is a sum over the features that are nonzero in both rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data.bit_rows import BitRows
from mercer.data.rows import Vectors
from mercer.data.vectors import CSR, Dense, same_features, without_empty_columns

_SMALLEST = 1e-100  # an entry whose square does not underflow


class Pairing(NamedTuple):
    """A sum over the features of two rows, and its parts for sparse rows."""

    term: Callable[[Any, Any], FloatArray]
    """The summand of one feature."""
    shared: Callable[[Any, Any], FloatArray] | None
    """(norm(x) + norm(z) - term(x, z)) / 2 for nonzero x and z, or the term if there are no norms; None: always 0."""
    norm: Callable[[FloatArray], FloatArray] | None
    """The summand of the norm of a row; None if the sum has only shared features."""


def _chi2(x: Any, z: Any) -> FloatArray:
    both = x + z
    return np.where(both != 0.0, (x - z) * ((x - z) / np.where(both != 0.0, both, 1.0)), 0.0)


MANHATTAN = Pairing(
    lambda x, z: np.abs(x - z),
    lambda x, z: np.maximum(np.minimum(x, z), 0.0) - np.minimum(np.maximum(x, z), 0.0),
    np.abs,
)
CHI_SQUARED = Pairing(_chi2, lambda x, z: 2.0 * x * (z / (x + z)), lambda x: x)
HAMMING = Pairing(
    lambda x, z: (x != z).astype(np.float64),
    lambda x, z: np.where(x == z, 1.0, 0.5),
    lambda x: np.ones_like(x),
)
MINIMUM = Pairing(np.minimum, np.minimum, None)
TOTAL = Pairing(np.add, None, lambda x: x)


def pair_sums(pairing: Pairing, a: Vectors, b: Vectors) -> FloatArray:
    """Return the sums over the features of the rows of `a` with those of `b`, (a.n, b.n) in float64."""
    same_features(a, b)
    out = np.zeros((a.n, b.n))
    if isinstance(a, Dense) and isinstance(b, Dense):
        x, z = a.float64(), b.float64()
        for k in range(a.p):
            out += pairing.term(x[:, k, None], z[:, k])
        return out
    if isinstance(a, CSR) and isinstance(b, CSR):
        a, b = without_empty_columns(a, b)
    sides = [_by_column(rows) for rows in (a, b)]
    if pairing.shared is not None:
        for column in np.flatnonzero(np.logical_and(*(np.diff(side.indptr) for side in sides))).tolist():
            at = [slice(side.indptr[column], side.indptr[column + 1]) for side in sides]
            i, j = (side.indices[part] for side, part in zip(sides, at, strict=True))
            x, z = (side.data[part] for side, part in zip(sides, at, strict=True))
            out[np.ix_(i, j)] += pairing.shared(x[:, None], z)
    if pairing.norm is None:
        return out
    norms = [np.bincount(s.indices, pairing.norm(s.data), minlength=s.shape[0]) for s in sides]
    total = np.add.outer(*norms)
    # Rounding can make the distance of close rows negative: such values become 0.
    return total if pairing.shared is None else np.maximum(total - 2.0 * out, 0.0)


def tanimoto(a: Vectors, b: Vectors) -> FloatArray:
    """Return sum min(x, z) / sum max(x, z) for the rows of `a` and of `b`; 1 for two rows of zeros."""
    shared, total = _minima(a, b), np.add.outer(row_sums(a), row_sums(b))
    return np.divide(shared, total - shared, out=np.ones_like(total), where=total > 0.0)


def dice(a: Vectors, b: Vectors) -> FloatArray:
    """Return 2 sum min(x, z) / sum (x + z) for the rows of `a` and of `b`; 1 for two rows of zeros."""
    total = np.add.outer(row_sums(a), row_sums(b))
    return np.divide(2.0 * _minima(a, b), total, out=np.ones_like(total), where=total > 0.0)


def _minima(a: Vectors, b: Vectors) -> FloatArray:
    """Return the sums of minima; for bits, these are inner products, which one matrix product computes."""
    value, other = _only_value(a), _only_value(b)
    if value is not None and value == other:
        return a.inner(b) / value
    return pair_sums(MINIMUM, a, b)


def _only_value(rows: Vectors) -> float | None:
    """Return the only entry of the rows beside 0, if it is positive; None for several entries, or an extreme one."""
    stored = rows.stored.data if sp.issparse(rows.stored) else rows.stored
    largest = float(np.max(stored, initial=0.0))
    return largest if _SMALLEST < largest < 1.0 / _SMALLEST and ((stored == 0.0) | (stored == largest)).all() else None


def row_sums(rows: Vectors) -> FloatArray:
    """Return the sum of the entries of each row, (n,) in float64."""
    if not isinstance(rows, CSR):
        return np.asarray(rows.stored.sum(axis=1, dtype=np.float64))
    entries = rows.matrix  # its method sum needs memory for a number per column
    row = np.repeat(np.arange(rows.n), np.diff(entries.indptr))
    sums = np.bincount(row, entries.data.astype(np.float64, copy=False), minlength=rows.n)
    return sums.astype(np.float64, copy=False)  # with no rows, bincount returns integers


def least_entry(rows: Vectors) -> float:
    """Return the smallest entry, or 0 if all entries are positive."""
    if isinstance(rows, BitRows):
        return 0.0
    stored = rows.stored.data if sp.issparse(rows.stored) else rows.stored
    return float(np.min(stored, initial=0.0))


def least_positive_entry(rows: Vectors) -> float:
    """Return the smallest positive entry, or infinity if no entry is positive."""
    if isinstance(rows, BitRows):
        return 1.0
    stored = rows.stored.data if sp.issparse(rows.stored) else rows.stored
    return float(np.min(stored, initial=np.inf, where=stored > 0.0))


def _by_column(rows: Vectors) -> Any:
    columns = sp.csc_array(rows.float64())
    columns.eliminate_zeros()
    return columns
