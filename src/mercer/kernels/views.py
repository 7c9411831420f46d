"""Views of rows: some of their columns, or features that a map computes, used instead of the rows.

A pass of a program names the view that it reads. So a composite of kernels on different columns or features is still
one program. Views compare equal by value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import CSR, Data, Dense, Vectors, as_data
from mercer.kernels.program import PASSES, Program


class View(ABC):
    """A function from rows to other features of the same rows, for a pass to read."""

    @abstractmethod
    def of(self, rows: Vectors) -> Vectors:
        """Return the same number of rows, with the features of this view."""


def seen(view: View | float, rows: Vectors) -> Vectors:
    """Return the rows that a pass with this argument reads."""
    return view.of(rows) if isinstance(view, View) else rows


def through(view: View, program: Program) -> Program:
    """Return the program that reads a view of the rows instead of the rows."""

    def turned(argument: View | float) -> View:
        return After(view, argument) if isinstance(argument, View) else view

    return tuple((op, turned(argument)) if op in PASSES else (op, argument) for op, argument in program)


@dataclass(frozen=True)
class Columns(View):
    """Some of the columns, in ascending order."""

    chosen: tuple[int, ...]

    def of(self, rows: Vectors) -> Vectors:
        """Return these columns, a copy."""
        return rows.with_columns(np.array(self.chosen, dtype=np.int64))


@dataclass(frozen=True)
class After(View):
    """A view of a view."""

    first: View
    then: View

    def of(self, rows: Vectors) -> Vectors:
        """Return the second view of the first view of the rows."""
        return self.then.of(self.first.of(rows))


@dataclass(frozen=True)
class Directions(View):
    """Each row divided by its length; a row of zeros stays a row of zeros."""

    def of(self, rows: Vectors) -> Vectors:
        """Return rows of length 1."""
        values = rows.float64()
        if sp.issparse(values):
            largest = np.asarray(abs(values).max(axis=1).todense()).reshape(rows.n)
        else:
            largest = np.abs(values).max(axis=1, initial=0.0)
        scaled = _divided(values, largest)  # so that squares neither overflow nor underflow
        return as_data(_divided(scaled, np.sqrt(as_data(scaled).sq_norms())))


@dataclass(frozen=True)
class Projected(View):
    """Each row times a matrix."""

    matrix: tuple[tuple[float, ...], ...]

    def of(self, rows: Vectors) -> Vectors:
        """Return the products, as dense rows."""
        matrix = np.array(self.matrix)
        if rows.p != len(matrix):
            raise ValueError(f"a matrix of {len(matrix)} rows is for rows of so many features, got {rows.p}")
        return Dense(rows.float64() @ matrix)


@dataclass(frozen=True)
class Column(View):
    """One number for each row, computed by a function of the rows; `key` is compared instead of the function."""

    key: Any
    numbers: Callable[[Data], FloatArray] = field(compare=False)

    def of(self, rows: Vectors) -> Vectors:
        """Return a single column."""
        return Dense(self.numbers(rows)[:, None])


def _divided(values: Any, by: FloatArray) -> Any:
    """Return each row divided by its number in `by`; unchanged if that is 0."""
    safe = np.where(by > 0.0, by, 1.0)
    if sp.issparse(values):
        divided = values.data / np.repeat(safe, np.diff(values.indptr))
        return sp.csr_array((divided, values.indices, values.indptr), shape=values.shape)
    return values / safe[:, None]


def side_by_side(parts: list[Vectors]) -> Vectors:
    """Return rows with the features of all parts; dense if all parts are dense."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Dense) for part in parts):
        return Dense(np.hstack([part.stored for part in parts]))
    return CSR(sp.hstack([part.stored for part in parts], format="csr"))
