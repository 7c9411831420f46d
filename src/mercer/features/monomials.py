"""Products of columns, by degree and in lexicographic order.

In the list of degree k, the products that start with column j are x_j times a suffix of the list of degree k - 1: the
products that start with a column that may follow j. So a list is computed by p multiplications of slices. The position
of a product follows from the positions of its parts, without a table of exponents.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, product
from math import comb
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray

Rule = Literal["repeated", "distinct", "ordered"]

_BLOCK_ENTRIES = 1 << 18  # entries of a temporary array: 2 MiB, so that two successive degrees fit in the cache
_MAX_COLUMNS = 2**62  # positions are 64-bit integers


class Monomials:
    """All products of k columns, for k from 0 to a degree; products that overflow are infinite.

    Parameters
    ----------
    p : int
        Number of columns.
    degree : int
        Largest number of factors.
    rule : {"repeated", "distinct", "ordered"}
        The columns that may follow column j in a product. "repeated": j and later ones (every monomial once);
        "distinct": later ones only (no column twice); "ordered": all (a product for each order of its factors).

    Raises
    ------
    ValueError
        If there are too many products for 64-bit places.
    """

    def __init__(self, p: int, degree: int, rule: Rule) -> None:
        self.p, self.degree, self.rule = p, degree, rule
        if sum(map(self.count, range(degree + 1))) >= _MAX_COLUMNS:
            raise ValueError(f"degree {degree} of {p} columns makes too many products: lower the degree")
        self._starts, self._suffixes = [np.zeros(p + 1, dtype=np.int64)], [np.zeros(p, dtype=np.int64)]
        for k in range(1, degree + 1):
            starts = np.concatenate([[0], np.cumsum(self.count(k - 1) - self._suffixes[-1])])
            followers = {"repeated": starts[:-1], "distinct": starts[1:], "ordered": np.zeros(p, dtype=np.int64)}
            self._starts.append(starts)
            self._suffixes.append(followers[rule])

    def count(self, k: int) -> int:
        """Return the number of products of k columns."""
        if self.rule == "repeated":
            return comb(self.p + k - 1, k) if k else 1
        return comb(self.p, k) if self.rule == "distinct" else self.p**k

    def names(self, k: int, columns: list[str]) -> Iterator[str]:
        """Yield the products of k columns as text, "x0^2 x1"."""
        for factors in self.factors(k):
            if self.rule == "ordered":
                yield " ".join(columns[j] for j in factors)
                continue
            powers = [(j, factors.count(j)) for j in sorted(set(factors))]
            yield " ".join(columns[j] if e == 1 else f"{columns[j]}^{e}" for j, e in powers)

    def factors(self, k: int) -> Iterator[tuple[int, ...]]:
        """Yield the columns that each product of k columns multiplies."""
        if self.rule == "repeated":
            return combinations_with_replacement(range(self.p), k)
        return combinations(range(self.p), k) if self.rule == "distinct" else product(range(self.p), repeat=k)

    def multinomials(self) -> list[FloatArray]:
        """Return, for each degree, the number of different orders of the factors of each product."""
        orders, runs, firsts = [np.ones(1)], np.zeros(1), np.full(1, -1)
        for k in range(1, self.degree + 1):
            # A run of r equal factors at the front was one of r - 1: k! / (... r!) = (k-1)! / (... (r-1)!) * k / r.
            chunks = [slice(start, None) for start in self._suffixes[k - 1]]
            runs = np.concatenate([np.where(firsts[at] == j, runs[at] + 1.0, 1.0) for j, at in enumerate(chunks)])
            orders.append(np.concatenate([orders[-1][at] for at in chunks]) * k / runs)
            firsts = np.repeat(np.arange(self.p), np.diff(self._starts[k]))
        return orders

    def dense(self, rows: npt.NDArray[np.floating], lowest: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of rows and their products, one column for each product of degree `lowest` or more.

        A block is overwritten by the next.
        """
        counts = [self.count(k) for k in range(self.degree + 1)]
        ends = np.cumsum(counts)
        height = min(rows.shape[0], max(1, _BLOCK_ENTRIES // int(ends[-1])))
        room = np.empty((height, int(ends[-1])))
        for first in range(0, rows.shape[0], height):
            part = slice(first, min(first + height, rows.shape[0]))
            factors = np.asarray(rows[part], dtype=np.float64)
            block = room[: factors.shape[0]]
            levels = [block[:, end - count : end] for count, end in zip(counts, ends, strict=True)]
            levels[0][:] = 1.0
            for k in range(1, self.degree + 1):
                starts = self._starts[k]
                with np.errstate(over="ignore"):
                    for j, start in enumerate(self._suffixes[k - 1]):
                        column = factors[:, j : j + 1]
                        np.multiply(column, levels[k - 1][:, start:], out=levels[k][:, starts[j] : starts[j + 1]])
            yield part, block[:, ends[lowest] - counts[lowest] :]

    def sparse(self, matrix: Any) -> Iterator[tuple[list[sp.csr_array], list[FloatArray]]]:
        """Yield the products of each degree as CSR, in blocks of rows.

        For each entry, the number of different orders of its factors (a multinomial coefficient) is yielded too.

        Parameters
        ----------
        matrix : csr_array of shape (n, p)
            A canonical CSR matrix.
        """
        for part in self._sparse_parts(np.diff(matrix.indptr)):
            chosen = matrix[part]
            n = chosen.shape[0]
            level = sp.csr_array((np.ones(n), np.zeros(n, np.int64), np.arange(n + 1)), shape=(n, 1))
            orders, runs, firsts = np.ones(n), np.zeros(n), np.full(n, -1)
            levels, all_orders = [level], [orders]
            for k in range(1, self.degree + 1):
                # Each stored entry of a row is multiplied by each product of degree k - 1 of the same row.
                entry_rows = np.repeat(np.arange(n), np.diff(chosen.indptr))
                counts = np.diff(level.indptr)[entry_rows]
                entry = np.repeat(np.arange(chosen.nnz), counts)
                below = np.arange(entry.size) - np.repeat(np.cumsum(counts) - counts, counts)
                below += level.indptr[entry_rows][entry]
                column = chosen.indices[entry].astype(np.int64)
                place = level.indices[below] - self._suffixes[k - 1][column]
                allowed = place >= 0
                entry, below, column, place = entry[allowed], below[allowed], column[allowed], place[allowed]
                runs = np.where(firsts[below] == column, runs[below] + 1.0, 1.0)
                orders = orders[below] * k / runs
                with np.errstate(over="ignore"):
                    values = chosen.data[entry].astype(np.float64) * level.data[below]
                ends = np.concatenate([[0], np.cumsum(np.bincount(entry_rows[entry], minlength=n))])
                level = sp.csr_array((values, self._starts[k][column] + place, ends), shape=(n, self.count(k)))
                firsts = column
                levels.append(level)
                all_orders.append(orders)
            yield levels, all_orders

    def _sparse_parts(self, lengths: npt.NDArray[Any]) -> Iterator[slice]:
        """Yield slices of rows with a bounded number of products."""
        whole_blocks = np.minimum(np.maximum(1.0, lengths) ** self.degree / _BLOCK_ENTRIES, 1.0)
        group = np.floor(np.cumsum(whole_blocks))
        ends = np.flatnonzero(np.diff(group, append=-1)) + 1
        start = 0
        for end in ends.tolist():
            yield slice(start, end)
            start = end
