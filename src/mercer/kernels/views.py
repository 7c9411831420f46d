"""Views of rows: columns of them, or what a map makes of them, in the place of the rows themselves.

A pass of a program says which view it looks at, so that a composite of kernels on different columns or features is one
program still. Views compare equal by value.
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
    """What a pass looks at in the place of the rows."""

    @abstractmethod
    def of(self, rows: Vectors) -> Vectors:
        """Return as many rows, of other features."""


def seen(view: View | float, rows: Vectors) -> Vectors:
    """Return what a pass with this argument looks at."""
    return view.of(rows) if isinstance(view, View) else rows


def through(view: View, program: Program) -> Program:
    """Return the program that looks at a view of the rows wherever it looked at the rows."""

    def turned(argument: View | float) -> View:
        return After(view, argument) if isinstance(argument, View) else view

    return tuple((op, turned(argument)) if op in PASSES else (op, argument) for op, argument in program)


@dataclass(frozen=True)
class Columns(View):
    """Some columns, in rising order."""

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
        """Return what the second sees of what the first sees."""
        return self.then.of(self.first.of(rows))


@dataclass(frozen=True)
class Directions(View):
    """Each row divided by its length; a row of zeros stays one."""

    def of(self, rows: Vectors) -> Vectors:
        """Return rows of length 1."""
        values = rows.float64()
        if sp.issparse(values):
            largest = np.asarray(abs(values).max(axis=1).todense()).reshape(rows.n)
        else:
            largest = np.abs(values).max(axis=1, initial=0.0)
        scaled = _divided(values, largest)  # whose squares neither overflow nor vanish
        return as_data(_divided(scaled, np.sqrt(as_data(scaled).sq_norms())))


@dataclass(frozen=True)
class Projected(View):
    """Each row times a matrix."""

    matrix: tuple[tuple[float, ...], ...]

    def of(self, rows: Vectors) -> Vectors:
        """Return the products, dense."""
        matrix = np.array(self.matrix)
        if rows.p != len(matrix):
            raise ValueError(f"a matrix of {len(matrix)} rows is for rows of so many features, got {rows.p}")
        return Dense(rows.float64() @ matrix)


@dataclass(frozen=True)
class Column(View):
    """One number for each row, which a function of the rows computes; `key` stands for it in comparisons."""

    key: Any
    numbers: Callable[[Data], FloatArray] = field(compare=False)

    def of(self, rows: Vectors) -> Vectors:
        """Return a single column."""
        return Dense(self.numbers(rows)[:, None])


def _divided(values: Any, by: FloatArray) -> Any:
    """Rows divided by one number each; as they are where that is 0."""
    safe = np.where(by > 0.0, by, 1.0)
    if sp.issparse(values):
        divided = values.data / np.repeat(safe, np.diff(values.indptr))
        return sp.csr_array((divided, values.indices, values.indptr), shape=values.shape)
    return values / safe[:, None]


def side_by_side(parts: list[Vectors]) -> Vectors:
    """Return rows that have the features of all parts, dense where all of them are."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Dense) for part in parts):
        return Dense(np.hstack([part.stored for part in parts]))
    return CSR(sp.hstack([part.stored for part in parts], format="csr"))
