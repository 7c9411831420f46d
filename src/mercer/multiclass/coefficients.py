"""Coefficients of several machines over the same vectors: a table, or, of pairs of classes, LIBSVM's layout of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.multiclass.pairs import class_pairs, pairs_with, place_among_others

_FEW_MACHINES = 10  # that a value is multiplied by in no time


@final
@dataclass(frozen=True, eq=False)
class PairCoefficients:
    """Signed coefficients in LIBSVM's layout: of k (k - 1) / 2 machines, k - 1 numbers a support vector.

    Attributes
    ----------
    table : ndarray of shape (n, k - 1)
        A row for each support vector, those of a class one after the other: its coefficients against each of the
        others, in order.
    counts : ndarray of int64 of shape (k,)
        Rows of each class.
    vectors : ndarray of int64 of shape (n,), optional
        Which vector each row is of; by default they are in this order.
    n_vectors : int, optional
        How many there are; by default as many as rows.
    """

    table: FloatArray
    counts: IndexArray
    vectors: IndexArray | None = None
    n_vectors: int | None = None

    @classmethod
    def of_entries(cls, entries: Entries, n_classes: int) -> PairCoefficients:
        """Return those that are listed one by one, each vector with the class that its machines share.

        A vector whose machines share no class has a row in the table for each of several.
        """
        vectors, machines, values, n_vectors, _ = entries
        first, second = class_pairs(n_classes)[machines].T
        by_sign = np.where(values > 0.0, first, second)  # of a vector in one machine alone
        votes = np.zeros((n_vectors, n_classes))
        for classes, vote in ((first, 1.0), (second, 1.0), (by_sign, 0.25)):
            np.add.at(votes, (vectors, classes), vote)
        own = votes.argmax(axis=1)[vectors]
        own = np.where((own == first) | (own == second), own, first)
        other = first + second - own
        keys, rows = np.unique(own * n_vectors + vectors, return_inverse=True)
        table = np.zeros((keys.size, n_classes - 1))
        np.add.at(table, (rows, place_among_others(own, other)), values)
        return cls(table, np.bincount(keys // n_vectors, minlength=n_classes), keys % n_vectors, n_vectors)

    @property
    def n_machines(self) -> int:
        """Number of machines."""
        return self.counts.size * (self.counts.size - 1) // 2

    def changed(self, change: Callable[[FloatArray, IndexArray], FloatArray]) -> PairCoefficients:
        """Return what `change` makes of coefficients (n_vectors, n_chosen) of chosen machines (n_chosen,)."""
        machines = pairs_with(self.counts.size).repeat(self.counts, axis=0)
        return replace(self, table=change(self.table, machines))

    def of_rows(self, kept: npt.NDArray[np.bool_]) -> PairCoefficients:
        """Return chosen rows of the table, whose vectors are in order, as if there were no others."""
        assert self.vectors is None
        classes = np.arange(self.counts.size).repeat(self.counts)
        return PairCoefficients(self.table[kept], np.bincount(classes[kept], minlength=self.counts.size))

    def groups(self) -> list[Group]:
        """Return the vectors of each class that has some, with the machines that they are in."""
        rows = np.arange(len(self.table)) if self.vectors is None else self.vectors
        edges = pairwise(accumulate(self.counts.tolist(), initial=0))
        return [
            Group(rows[first:end], machines, self.table[first:end], own)
            for own, (machines, (first, end)) in enumerate(zip(pairs_with(self.counts.size), edges, strict=True))
            if first < end
        ]

    def whole(self) -> FloatArray:
        """Return all coefficients, (n_vectors, n_machines), most of them 0."""
        found = np.zeros((len(self.table) if self.n_vectors is None else self.n_vectors, self.n_machines))
        for group in self.groups():
            assert group.vectors is not None
            found[np.ix_(group.vectors, group.machines)] += group.coefficients  # type: ignore[arg-type]
        return found

    def columns(self) -> Iterator[tuple[IndexArray, FloatArray]]:
        """The vectors of each machine and their coefficients, some of which may be 0."""
        rows = np.arange(len(self.table)) if self.vectors is None else self.vectors
        edges = list(accumulate(self.counts.tolist(), initial=0))
        for i, j in class_pairs(self.counts.size).tolist():
            one, other = slice(edges[i], edges[i + 1]), slice(edges[j], edges[j + 1])
            values = np.concatenate([self.table[one, j - 1], self.table[other, i]])
            yield np.concatenate([rows[one], rows[other]]), values


class Entries(NamedTuple):
    """Coefficients that are listed one by one; what is listed twice adds up.

    Attributes
    ----------
    vectors, machines, values : ndarray of shape (n_entries,)
        Which vector has what coefficient in which machine.
    n_vectors, n_machines : int
    """

    vectors: IndexArray
    machines: IndexArray
    values: FloatArray
    n_vectors: int
    n_machines: int

    def table(self) -> FloatArray:
        """Return all of them, (n_vectors, n_machines)."""
        found = np.zeros((self.n_vectors, self.n_machines))
        np.add.at(found, (self.vectors, self.machines), self.values)
        return found


Coefficients: TypeAlias = FloatArray | PairCoefficients
"""Of several machines over the same vectors: (n_vectors, n_machines), or those of pairs of classes."""


class Group(NamedTuple):
    """Support vectors that are in the same machines.

    Attributes
    ----------
    vectors : ndarray of int64 of shape (n_vectors,), or None
        Which; None for all of them.
    machines : ndarray of int64 of shape (n_machines,), or slice
    coefficients : ndarray of shape (n_vectors, n_machines)
    owner : int, optional
        The class that they are of.
    """

    vectors: IndexArray | None
    machines: IndexArray | slice
    coefficients: FloatArray
    owner: int | None = None


def table_of(coefficients: Coefficients) -> FloatArray:
    """Return all of them, (n_vectors, n_machines)."""
    return coefficients.whole() if isinstance(coefficients, PairCoefficients) else coefficients


def groups_of(coefficients: Coefficients) -> list[Group]:
    """Return the support vectors in groups: by class where there are many pairs, else all of them."""
    if not isinstance(coefficients, PairCoefficients):
        return [Group(None, slice(None), coefficients)]
    if coefficients.n_machines < _FEW_MACHINES:
        return [Group(None, slice(None), coefficients.whole())]
    return coefficients.groups()


def columns_of(coefficients: Coefficients) -> Iterator[tuple[IndexArray, FloatArray]]:
    """The vectors of each machine, and their coefficients other than 0."""
    if isinstance(coefficients, PairCoefficients):
        columns = coefficients.columns()
    else:
        columns = ((np.arange(len(coefficients)), column) for column in coefficients.T)
    for vectors, values in columns:
        used = np.flatnonzero(values)
        yield vectors[used], values[used]


def summed(groups: list[Group], product: Callable[[Group], FloatArray], n_rows: int, n_machines: int) -> FloatArray:
    """Add up what groups make of each machine's values, (n_rows, n_machines)."""
    if len(groups) == 1 and groups[0].vectors is None:
        return product(groups[0])
    sums = np.zeros((n_machines, n_rows))  # whole machines in memory
    for one in groups:
        sums[one.machines] += product(one).T
    return sums.T
