"""Coefficients of several machines over the same vectors: a dense table, or LIBSVM's layout for pairs of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.multiclass.pairs import class_pairs, pairs_with, place_among_others

_FEW_MACHINES = 10  # machines; with fewer, a dense table is as fast as groups by class


@final
@dataclass(frozen=True, eq=False)
class PairCoefficients:
    """Signed coefficients of k (k - 1) / 2 machines in LIBSVM's layout: k - 1 numbers for each support vector.

    Attributes
    ----------
    table : ndarray of shape (n, k - 1)
        One row for each support vector, sorted by class: its coefficients in the machines against the other classes,
        in the order of these classes.
    counts : ndarray of int64 of shape (k,)
        Number of rows of each class.
    vectors : ndarray of int64 of shape (n,), optional
        Index of the vector of each row; by default 0, 1, ..., n - 1.
    n_vectors : int, optional
        Number of vectors; by default n.
    """

    table: FloatArray
    counts: IndexArray
    vectors: IndexArray | None = None
    n_vectors: int | None = None

    @classmethod
    def of_entries(cls, entries: Entries, n_classes: int) -> PairCoefficients:
        """Return the listed coefficients in this layout. The class of a vector is the one that its machines share.

        If its machines share no class, the vector has several rows in the table.
        """
        vectors, machines, values, n_vectors, _ = entries
        first, second = class_pairs(n_classes)[machines].T
        by_sign = np.where(values > 0.0, first, second)  # decides the class of a vector in a single machine
        votes = np.zeros((n_vectors, n_classes))
        for classes, vote in ((first, 1.0), (second, 1.0), (by_sign, 0.25)):
            np.add.at(votes, (vectors, classes), vote)
        class_of = votes.argmax(axis=1)[vectors]
        class_of = np.where((class_of == first) | (class_of == second), class_of, first)
        other = first + second - class_of
        keys, rows = np.unique(class_of * n_vectors + vectors, return_inverse=True)
        table = np.zeros((keys.size, n_classes - 1))
        np.add.at(table, (rows, place_among_others(class_of, other)), values)
        return cls(table, np.bincount(keys // n_vectors, minlength=n_classes), keys % n_vectors, n_vectors)

    @property
    def n_machines(self) -> int:
        """Number of machines."""
        return self.counts.size * (self.counts.size - 1) // 2

    def changed(self, change: Callable[[FloatArray, IndexArray], FloatArray]) -> PairCoefficients:
        """Return coefficients changed by a function of the table and of the machine number of each entry."""
        machines = pairs_with(self.counts.size).repeat(self.counts, axis=0)
        return replace(self, table=change(self.table, machines))

    def of_rows(self, rows: npt.NDArray[np.bool_]) -> PairCoefficients:
        """Return the coefficients of the chosen rows only; the vectors must be in their default order."""
        assert self.vectors is None
        classes = np.arange(self.counts.size).repeat(self.counts)
        return PairCoefficients(self.table[rows], np.bincount(classes[rows], minlength=self.counts.size))

    def groups(self) -> list[Group]:
        """Return a group for each class with vectors: its vectors, and the machines that use the class."""
        rows = np.arange(len(self.table)) if self.vectors is None else self.vectors
        edges = pairwise(accumulate(self.counts.tolist(), initial=0))
        return [
            Group(rows[first:end], machines, self.table[first:end], class_machines)
            for class_machines, (machines, (first, end)) in enumerate(
                zip(pairs_with(self.counts.size), edges, strict=True)
            )
            if first < end
        ]

    def dense(self) -> FloatArray:
        """Return a dense table of all coefficients, (n_vectors, n_machines); most of them are 0."""
        table = np.zeros((len(self.table) if self.n_vectors is None else self.n_vectors, self.n_machines))
        for group in self.groups():
            assert group.vectors is not None
            table[np.ix_(group.vectors, group.machines)] += group.coefficients  # type: ignore[arg-type]
        return table

    def columns(self) -> Iterator[tuple[IndexArray, FloatArray]]:
        """Yield, for each machine, its vectors and their coefficients; some of these may be 0."""
        rows = np.arange(len(self.table)) if self.vectors is None else self.vectors
        edges = list(accumulate(self.counts.tolist(), initial=0))
        for i, j in class_pairs(self.counts.size).tolist():
            one, other = slice(edges[i], edges[i + 1]), slice(edges[j], edges[j + 1])
            values = np.concatenate([self.table[one, j - 1], self.table[other, i]])
            yield np.concatenate([rows[one], rows[other]]), values


class Entries(NamedTuple):
    """A list of single coefficients; coefficients with the same vector and machine are added.

    Attributes
    ----------
    vectors, machines, values : ndarray of shape (n_entries,)
        Index of the vector, index of the machine, and coefficient of each entry.
    n_vectors, n_machines : int
    """

    vectors: IndexArray
    machines: IndexArray
    values: FloatArray
    n_vectors: int
    n_machines: int

    def table(self) -> FloatArray:
        """Return a dense table of all coefficients, (n_vectors, n_machines)."""
        dense = np.zeros((self.n_vectors, self.n_machines))
        np.add.at(dense, (self.vectors, self.machines), self.values)
        return dense


Coefficients: TypeAlias = FloatArray | PairCoefficients
"""Coefficients of several machines over the same vectors: a dense table (n_vectors, n_machines), or LIBSVM's layout."""


class Group(NamedTuple):
    """Support vectors that the same machines use.

    Attributes
    ----------
    vectors : ndarray of int64 of shape (n_vectors,), or None
        Indices of the vectors; None for all vectors.
    machines : ndarray of int64 of shape (n_machines,), or slice
    coefficients : ndarray of shape (n_vectors, n_machines)
    owner : int, optional
        The class of the vectors, if they have one class.
    """

    vectors: IndexArray | None
    machines: IndexArray | slice
    coefficients: FloatArray
    owner: int | None = None


def table_of(coefficients: Coefficients) -> FloatArray:
    """Return a dense table of all coefficients, (n_vectors, n_machines)."""
    return coefficients.dense() if isinstance(coefficients, PairCoefficients) else coefficients


def groups_of(coefficients: Coefficients) -> list[Group]:
    """Return the support vectors in groups: by class if there are many pairs of classes, or else in one group."""
    if not isinstance(coefficients, PairCoefficients):
        return [Group(None, slice(None), coefficients)]
    if coefficients.n_machines < _FEW_MACHINES:
        return [Group(None, slice(None), coefficients.dense())]
    return coefficients.groups()


def columns_of(coefficients: Coefficients) -> Iterator[tuple[IndexArray, FloatArray]]:
    """Yield, for each machine, the vectors with nonzero coefficients, and these coefficients."""
    if isinstance(coefficients, PairCoefficients):
        columns = coefficients.columns()
    else:
        columns = ((np.arange(len(coefficients)), column) for column in coefficients.T)
    for vectors, values in columns:
        used = np.flatnonzero(values)
        yield vectors[used], values[used]


def summed(groups: list[Group], product: Callable[[Group], FloatArray], n_rows: int, n_machines: int) -> FloatArray:
    """Return the sum of `product` over the groups, (n_rows, n_machines)."""
    if len(groups) == 1 and groups[0].vectors is None:
        return product(groups[0])
    sums = np.zeros((n_machines, n_rows))  # transposed, so that each machine's values are contiguous
    for one in groups:
        sums[one.machines] += product(one).T
    return sums.T
