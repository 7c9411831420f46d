"""Kernel values of a machine whose columns are shuffled one at a time.

Inner products and squared lengths are sums over encoded columns. So if one column is shuffled, its part of the sum
moves to other rows, and the parts of all other columns stay. A kernel that reads the cells itself is evaluated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer.data import CSR, Dense, Table
from mercer.kernels import PASSES, Op, evaluate
from mercer.studies.models import Model, RowReader

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of some columns: inner products with the support vectors, and squared lengths of rows and vectors."""

    inner: FloatArray
    squares: FloatArray

    def shuffled(self, order: npt.NDArray[np.int64]) -> _Part:
        return _Part(self.inner[order], self.squares[order])


class KernelParts:
    """Decision values of a model on rows, with the cells of a column taken from other rows.

    Parameters
    ----------
    model : Model
        With a kernel of inner products and squared lengths.
    X : ndarray or csr_array of shape (n, p)
        The encoded rows.
    """

    def __init__(self, model: Model, X: Any) -> None:
        program = model.kernel.lower()
        assert program is not None, "kernels of inner products have a program"
        self.program, self.X = program, X
        vectors = model.support_vectors
        assert isinstance(vectors, (Dense, CSR))
        self.vectors = vectors.array if isinstance(vectors, Dense) else vectors.matrix
        self.vector_squares = _squares(self.vectors)
        self.beta = _coefficients(model)
        self.biases = np.array([part.bias for part in model.parts])
        self.all_columns = _part(X, self.vectors)

    def values(self) -> FloatArray:
        """Return the decision values, (n, number of machines)."""
        return self._values(self.all_columns)

    def values_shuffled(
        self, columns: slice | npt.NDArray[np.int64], orders: npt.NDArray[np.int64]
    ) -> list[FloatArray]:
        """Return the decision values with these columns of each row taken from another row, for each of the orders."""
        chosen_part = _part(self.X[:, columns], self.vectors[:, columns])
        values = []
        for order in orders:
            moved = chosen_part.shuffled(order)
            changed = _Part(
                self.all_columns.inner - chosen_part.inner + moved.inner,
                self.all_columns.squares - chosen_part.squares + moved.squares,
            )
            values.append(self._values(changed))
        return values

    def kernel_values(self) -> FloatArray:
        """Return k(x, s) of each row x and support vector s."""
        return self._kernel_values(self.all_columns)

    def _values(self, part: _Part) -> FloatArray:
        return np.asarray(self._kernel_values(part) @ self.beta + self.biases)

    def _kernel_values(self, part: _Part) -> FloatArray:
        return evaluate(self.program, part.inner, part.squares, self.vector_squares)


class CellParts:
    """Decision values of a model whose kernel reads cells, with the cells of a column taken from other rows.

    Parameters
    ----------
    model : Model
    table : Table
        The rows.
    """

    def __init__(self, model: Model, table: Table) -> None:
        self.model, self.table, self.beta = model, table, _coefficients(model)

    def values(self) -> FloatArray:
        """Return the decision values, (n, number of machines)."""
        return self.model.decision_values(self.table)

    def values_shuffled(self, columns: Sequence[str], orders: npt.NDArray[np.int64]) -> list[FloatArray]:
        """Return the decision values with these columns of each row taken from another row, for each of the orders."""
        shuffled = [self.table.with_columns_of(self.table.take(order), columns) for order in orders]
        return [self.model.decision_values(table) for table in shuffled]

    def kernel_values(self) -> FloatArray:
        """Return k(x, s) of each row x and support vector s."""
        vectors = self.model.support_vectors
        return self.model.kernel.block(self.model.encoded(self.table), vectors)


def shuffles_cells(model: Model) -> bool:
    """Return whether decision values are not sums of inner products and squared lengths of the encoded rows alone."""
    if model.cells is not None:  # a row whose cells are shuffled may be of another cell of the tree
        return True
    program = None if isinstance(model.encoder, RowReader) else model.kernel.lower()
    return program is None or any(op in PASSES and step not in _PARTS for step in program for op in step[:1])


_PARTS = ((Op.DOT, 0.0), (Op.SQDIST, 0.0))


def parts_of(model: Model, table: Table) -> KernelParts | CellParts:
    """Return the kernel values of a model on the rows of a table."""
    if shuffles_cells(model):
        return CellParts(model, table)
    return KernelParts(model, model.encoder.transform(table))


def _coefficients(model: Model) -> FloatArray:
    """Return the coefficient of each support vector in each machine."""
    beta = np.zeros((model.support_vectors.n, len(model.parts)))
    for number, part in enumerate(model.parts):
        np.add.at(beta[:, number], part.support, part.beta)
    return beta


def _part(X: Any, vectors: Any) -> _Part:
    inner = X @ vectors.T
    return _Part(np.asarray(inner.toarray() if sparse.issparse(inner) else inner), _squares(X))


def _squares(X: Any) -> FloatArray:
    return np.asarray(X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)).ravel()
