"""Hashes of cells, and of rows as sums of them: equal for equal rows, whatever the order of rows and columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Hashes = npt.NDArray[np.uint64]

_MISSING = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1342543DE82EF95)


def mixed_hashes(values: Hashes, key: Any = 1) -> Hashes:
    """Return numbers of 64 random-looking bits (the finaliser of SplitMix64, applied to the value and its key).

    Sums of them, modulo 2**64, depend on every value, but not on the order of the values.
    """
    with np.errstate(over="ignore"):
        x = values + np.asarray(key, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def numbered_hashes(values: Hashes, numbers: npt.NDArray[np.int64]) -> Hashes:
    """Return hashes of equal values that differ if their numbers do."""
    return mixed_hashes(values + numbers.astype(np.uint64) * _STEP)


def bits_of(numbers: npt.NDArray[np.float64]) -> Hashes:
    """Return the bits of each number; missing ones have the same bits, and so have 0 and -0."""
    return np.where(np.isnan(numbers), _MISSING, np.ascontiguousarray(numbers + 0.0).view(np.uint64))


def text_hash(text: str) -> np.uint64:
    """Return the hash of a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def hashes_of_each(cells: npt.NDArray[Any], of: Callable[[Any], Hashable]) -> Hashes:
    """Return the hash of each cell of a column of text; it is computed once for each different cell."""
    values = cells.tolist()
    hash_of = {cell: of(cell) for cell in set(values)}
    return np.array([hash_of[cell] for cell in values], dtype=np.uint64)


def block_hashes(block: sparse.csr_array, before: int = 0) -> sparse.csr_array:
    """Return a sparse block with the hash of each cell that is not 0; `before` is the number of columns before it."""
    entries = block.copy()
    entries.sum_duplicates()
    entries.eliminate_zeros()
    hashed = mixed_hashes(bits_of(entries.data), entries.indices.astype(np.uint64) + np.uint64(before + 1))
    return sparse.csr_array((hashed, entries.indices, entries.indptr), entries.shape)


def row_hashes(block: sparse.csr_array) -> Hashes:
    """Return the sum of each row of a block of hashes."""
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(block.data, dtype=np.uint64)])
    return np.asarray(sums[block.indptr[1:]] - sums[block.indptr[:-1]])
