"""Kernel values of a machine whose columns are shuffled one at a time, without computing the other columns again.

Inner products and squared lengths are sums over columns. So if one column is shuffled, its part of the sum moves to
other rows, and the parts of all other columns stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer.data import CSR, Dense
from mercer.kernels import evaluate
from mercer.studies.models import Model

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
        m = model.support_vectors.n
        self.beta = np.zeros((m, len(model.parts)))
        for number, part in enumerate(model.parts):
            np.add.at(self.beta[:, number], part.support, part.beta)
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


def _part(X: Any, vectors: Any) -> _Part:
    inner = X @ vectors.T
    return _Part(np.asarray(inner.toarray() if sparse.issparse(inner) else inner), _squares(X))


def _squares(X: Any) -> FloatArray:
    return np.asarray(X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)).ravel()
