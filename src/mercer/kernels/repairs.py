"""Repair of a matrix that is not positive semidefinite, by a change of its eigenvalues: clip, flip and shift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy import linalg

from mercer._typing import FloatArray
from mercer.data import Precomputed


@dataclass(frozen=True, eq=False)
class Repaired:
    """A positive semidefinite matrix that replaces an indefinite one.

    Attributes
    ----------
    how : "clip", "flip" or "shift"
    matrix : ndarray of shape (n, n)
        Symmetric, and positive semidefinite up to rounding.
    change : float
        Frobenius norm of the change.
    eigenvalues : ndarray of shape (n,)
        Eigenvalues of the symmetric part of the given matrix, ascending.
    skew : float
        Frobenius norm of the antisymmetric part, which was removed.
    """

    how: str
    matrix: FloatArray
    change: float
    eigenvalues: FloatArray
    skew: float
    _turn: FloatArray | None

    def new_rows(self, values: npt.ArrayLike) -> FloatArray:
        """Return the repaired kernel values of new rows against the n rows of the matrix.

        Clip and flip multiply the rows of the matrix by a fixed matrix, and new rows are multiplied by the same one.
        So a new row that equals one of the n rows gets the same values as in `matrix`. Shift changes only the
        diagonal, so the values of new rows stay as they are.

        Parameters
        ----------
        values : array-like of shape (m, n)

        Returns
        -------
        ndarray of shape (m, n)

        Raises
        ------
        ValueError
            If there are not n columns.
        """
        rows = np.asarray(values, dtype=np.float64)
        n = self.matrix.shape[0]
        if rows.ndim != 2 or rows.shape[1] != n:
            raise ValueError(f"values must have shape (m, {n}), a row's with each row of the matrix, got {rows.shape}")
        return rows.copy() if self._turn is None else rows @ self._turn

    def __str__(self) -> str:
        negative = int(np.count_nonzero(self.eigenvalues < 0.0))
        done = {
            "clip": f"{negative} negative eigenvalues were set to 0: the nearest positive semidefinite matrix",
            "flip": f"the signs of {negative} negative eigenvalues were turned",
            "shift": f"{max(0.0, -float(self.eigenvalues[0])):.3g} was added to the diagonal",
        }
        first = "both sides were made equal, to their mean, and " if self.skew > 0.0 else ""
        return f"{self.how}: {first}{done[self.how]}, a change of {self.change:.3g} in Frobenius norm"


def clip(matrix: Any) -> Repaired:
    """Set negative eigenvalues to 0: the negative part is treated as noise.

    The result is the positive semidefinite matrix nearest in Frobenius norm [Higham 1988]. It suits similarities that
    are kernel values plus noise. If the negative part has information, that information is lost.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (n, n)
        A matrix of finite numbers. Its symmetric part is repaired.

    Returns
    -------
    Repaired

    Raises
    ------
    ValueError
        If the matrix is not square, or holds NaN or infinity.

    Notes
    -----
    The cost is about 10 n³ multiplications and 32 n² bytes.

    References
    ----------
    Higham (1988), Computing a nearest symmetric positive semidefinite matrix; Chen, Garcia, Gupta, Rahimi & Cazzanti
    (2009), Similarity-based classification: concepts and algorithms, section 3, for all three repairs and for new rows.

    Examples
    --------
    >>> clip([[1.0, 2.0], [2.0, 1.0]]).matrix
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """
    return _turned("clip", matrix)


def flip(matrix: Any) -> Repaired:
    """Change the sign of negative eigenvalues: the negative part is treated as structure, and kept with its size.

    The result is the square root of the squared matrix. Errors and cost are those of :func:`clip`.

    Parameters
    ----------
    matrix : array-like of shape (n, n)
        Symmetric.

    Returns
    -------
    Repaired

    Examples
    --------
    >>> flip([[1.0, 2.0], [2.0, 1.0]]).matrix
    array([[2., 1.],
           [1., 2.]])
    """
    return _turned("flip", matrix)


def shift(matrix: Any) -> Repaired:
    """Subtract the most negative eigenvalue from the diagonal, so that the similarity of two rows does not change.

    Only the value of each row with itself grows. In the dual problem of a machine this is a penalty on the squared
    coefficients, as a squared hinge loss has it. Errors are those of :func:`clip`. Only eigenvalues are needed, which
    cost about n³ multiplications.

    Parameters
    ----------
    matrix : array-like of shape (n, n)
        Symmetric.

    Returns
    -------
    Repaired

    Examples
    --------
    >>> shift([[1.0, 2.0], [2.0, 1.0]]).matrix
    array([[2., 2.],
           [2., 2.]])
    """
    G, skew = _symmetric(matrix)
    eigenvalues = linalg.eigvalsh(G, check_finite=False)
    by = max(0.0, -float(eigenvalues[0]))
    G[np.diag_indices_from(G)] += by
    return Repaired("shift", G, float(np.hypot(skew, by * np.sqrt(G.shape[0]))), eigenvalues, skew, None)


def _turned(how: str, matrix: Any) -> Repaired:
    G, skew = _symmetric(matrix)
    eigenvalues, V = linalg.eigh(G, check_finite=False)
    negative = eigenvalues < 0.0
    factor = 1.0 if how == "clip" else 2.0
    # Only the negative part changes, so a positive semidefinite matrix is returned unchanged.
    N = V[:, negative]
    turn = np.eye(G.shape[0]) - factor * (N @ N.T)
    repaired = G - factor * ((N * eigenvalues[negative]) @ N.T)
    change = float(np.hypot(skew, factor * np.linalg.norm(eigenvalues[negative])))
    return Repaired(how, 0.5 * (repaired + repaired.T), change, eigenvalues, skew, turn)


def _symmetric(matrix: Any) -> tuple[FloatArray, float]:
    """Return the symmetric part of a matrix, and the Frobenius norm of the antisymmetric part."""
    given = Precomputed(matrix)
    if given.n != given.p or given.n == 0:
        raise ValueError(f"a matrix to be repaired must be square, got shape {given.shape}")
    problem = given.finite_problem()
    if problem is not None:
        raise ValueError(f"a matrix to be repaired must be finite, but {problem}")
    G = given.array.toarray() if sp.issparse(given.array) else given.array
    G = G.astype(np.float64, copy=False)
    return 0.5 * (G + G.T), 0.5 * float(np.linalg.norm(G - G.T))
