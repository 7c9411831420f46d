"""Is it a kernel? Symmetry and positive semidefiniteness of a Gram matrix, and a witness where they fail."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from scipy import linalg

from mercer.data import Data, as_data, as_structured, looks_structured
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import whole
from mercer.kernels.program import FloatArray

MAX_POINTS = 2000
"""Of more rows than this, only some are looked at, and nothing can be concluded for all."""

_FIRST_POINTS = 128
_ROUNDING_FACTOR = 10.0


@dataclass(frozen=True, eq=False)
class Witness:
    """Points and coefficients that refute a kernel: c'Gc < 0 for the symmetric part of their Gram matrix G.

    Attributes
    ----------
    idx : ndarray of int
        The points, as rows of the data that were looked at.
    c : ndarray of float
        One coefficient for each, of Euclidean norm 1.
    value : float
        c'Gc, computed in float64.
    """

    idx: npt.NDArray[np.intp]
    c: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found out about a kernel on given points.

    Attributes
    ----------
    verdict : "proved", "violated" or "not refuted"
        Proved by the closure rules; violated on these points, with a witness; or neither.
    smallest_eigenvalue : float
        Of the symmetric part of the Gram matrix of the points looked at.
    tolerance : float
        What rounding can do to it: only an eigenvalue below -tolerance refutes the kernel.
    witness : Witness or None
        Points and a vector c with c'Gc < 0, where there are any.
    asymmetry : float
        Largest |k(x, z) - k(z, x)|.
    asymmetric_pair : tuple of int or None
        Two rows where the kernel is not symmetric beyond rounding.
    n_points : int
        How many rows were looked at.
    complete : bool
        Whether they were all.
    """

    verdict: Literal["proved", "violated", "not refuted"]
    smallest_eigenvalue: float
    tolerance: float
    witness: Witness | None
    asymmetry: float
    asymmetric_pair: tuple[int, int] | None
    n_points: int
    complete: bool

    def __str__(self) -> str:
        points = f"{'all' if self.complete else 'a choice of'} {self.n_points} points"
        spectrum = f"smallest eigenvalue {self.smallest_eigenvalue:.3g} on {points} (tolerance {self.tolerance:.1e})"
        if self.verdict == "proved":
            return f"proved: positive semidefinite by the closure rules; {spectrum}"
        if self.asymmetric_pair is not None:
            i, j = self.asymmetric_pair
            return f"violated: not symmetric, k(x_{i}, x_{j}) and k(x_{j}, x_{i}) differ by {self.asymmetry:.3g}"
        if self.witness is not None:
            return f"violated: c'Gc = {self.witness.value:.3g} for a vector c of length 1; {spectrum}"
        return f"not refuted: {spectrum}"


def diagnose(kernel: Kernel, data: Data | npt.ArrayLike | Sequence[Any], max_points: int = MAX_POINTS) -> Diagnosis:
    """Say whether a function is a kernel, as far as given points can tell.

    A function is a kernel where its Gram matrix is symmetric and positive semidefinite on *all* finite sets of
    points. The closure rules can prove that; points can only refute it.

    Parameters
    ----------
    kernel : Kernel
        Resolved: every gamma a number.
    data : Data, array-like of shape (n, p), or sequence of strings, lists of tokens or sets
        The points.
    max_points : int, default=2000
        At most so many are looked at, evenly spaced over the rows: 128 first, then four times as many, until some
        refute the kernel.

    Returns
    -------
    Diagnosis
        Of the points looked at last.

    Raises
    ------
    ValueError
        If there are no points, or kernel values are not finite.

    Notes
    -----
    With n points of p features, eigenvalues count as negative below -10 (n + p) u m: m is a bound on the absolute
    eigenvalues (the smaller of the Frobenius norm and the largest absolute row sum), n u m bounds the error of the
    eigenvalue solver up to a small factor, and p u that of each inner product. u is the unit roundoff of float64, or
    that of float32 where the values were evidently computed in it: by a function on float32 data, or all of them
    being float32 numbers. Asymmetry counts by the same measure. Cost: n² kernel values, 16 n² bytes and O(n³) time,
    most of it for the smallest eigenvalue; :func:`first_refuted` does without.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Sigmoid
    >>> diagnose(Sigmoid(gamma=1, coef0=1), as_data([[1.0], [2.0]])).verdict
    'violated'
    """
    if not isinstance(data, Data):
        data = as_structured(data) if kernel.is_structured or looks_structured(data) else as_data(data)
    look, refuted = first_refuted(kernel, data, max_points)
    eigenvalues, vectors = linalg.eigh(look.G, subset_by_index=[0, 0], check_finite=False)
    c = vectors[:, 0] / np.linalg.norm(vectors[:, 0])
    value = float(c @ look.G @ c)
    return Diagnosis(
        verdict="proved" if kernel.is_psd else "violated" if refuted else "not refuted",
        smallest_eigenvalue=float(eigenvalues[0]),
        tolerance=look.tolerance,
        witness=Witness(look.idx, c, value) if value < -look.tolerance else None,
        asymmetry=look.asymmetry,
        asymmetric_pair=look.pair if look.asymmetry > look.tolerance else None,
        n_points=look.idx.size,
        complete=look.idx.size == data.n,
    )


def refute(kernel: Kernel, alphabet: Sequence[Hashable] = "01", max_length: int = 4) -> Diagnosis:
    """Search all short strings over an alphabet for points that refute a kernel on strings.

    What typical strings do not refute, short ones may: they lie close together, and there are all of them.

    Parameters
    ----------
    kernel : Kernel
        On strings, with a number for every parameter.
    alphabet : str or sequence of tokens, default="01"
        Rows are strings where it is one, else lists of tokens.
    max_length : int, default=4
        Strings of 0, 1, ... letters are added, up to so many, until they refute the kernel.

    Returns
    -------
    Diagnosis
        On all strings of up to some length; the points of its witness are numbered as by :func:`all_strings`.

    Raises
    ------
    ValueError
        If there are more than 2,000 strings.

    Notes
    -----
    Costs n² kernel values and O(n³) time for n strings; an alphabet of l letters has (l^(m + 1) - 1) / (l - 1) strings
    of at most m letters, 31 by default.

    Examples
    --------
    >>> from mercer.kernels import EditDistance
    >>> found = refute(EditDistance(gamma=1))
    >>> found.verdict, found.n_points, round(found.smallest_eigenvalue, 3)
    ('violated', 31, -0.043)
    """
    strings = all_strings(alphabet, max_length)
    length = 0
    while True:
        found = diagnose(kernel, as_structured([string for string in strings if len(string) <= length]))
        if found.verdict == "violated" or length == max_length:
            return found
        length += 1


def all_strings(alphabet: Sequence[Hashable], max_length: int) -> list[Any]:
    """Return all strings of at most `max_length` letters, or lists of tokens, the shorter ones first.

    Raises
    ------
    ValueError
        If the alphabet repeats a letter or has none, or there are more than 2,000 strings.

    Examples
    --------
    >>> all_strings("01", 2)
    ['', '0', '1', '00', '01', '10', '11']
    """
    if len(set(alphabet)) != len(alphabet) or not alphabet:
        raise ValueError(f"alphabet must hold different letters, and at least one, got {alphabet!r}")
    lengths = range(whole("max_length", max_length) + 1)
    n_strings = sum(len(alphabet) ** length for length in lengths)
    if n_strings > MAX_POINTS:
        raise ValueError(
            f"max_length must be such that there are at most {MAX_POINTS} strings, got {max_length}: "
            f"{n_strings} strings over {len(alphabet)} letters"
        )
    rows = (row for length in lengths for row in product(alphabet, repeat=length))
    return ["".join(cast(tuple[str, ...], row)) if isinstance(alphabet, str) else list(row) for row in rows]


@dataclass(frozen=True, eq=False)
class Look:
    """The symmetric part of a Gram matrix on some of the points, and what rounding can do to it.

    Attributes
    ----------
    idx : ndarray of int
        The points, as rows of the data.
    G : ndarray of float
    tolerance : float
        See :class:`Diagnosis`.
    asymmetry : float
    pair : tuple of int
        The rows between which it is largest.
    n_values : int
        Kernel values evaluated for this and the looks before it.
    """

    idx: npt.NDArray[np.intp]
    G: FloatArray
    tolerance: float
    asymmetry: float
    pair: tuple[int, int]
    n_values: int


def first_refuted(kernel: Kernel, data: Data, max_points: int = MAX_POINTS) -> tuple[Look, bool]:
    """Look at more and more points until they refute the kernel or there are no more; see :func:`diagnose`.

    Returns
    -------
    look : Look
        The last one.
    refuted : bool
        Whether the kernel is not symmetric there, or not positive semidefinite: G + tolerance I has no Cholesky
        factor. Costs n³/3 multiplications, about a twentieth of what eigenvalues do.
    """
    if data.n == 0 or whole("max_points", max_points) == 0:
        raise ValueError(f"a kernel needs at least one point to be looked at, got {data!r} and max_points={max_points}")
    n_values, n_points = 0, min(data.n, max_points, _FIRST_POINTS)
    while True:
        look = _look(kernel, data, n_points, n_values)
        refuted = look.asymmetry > look.tolerance or not _has_factor(look.G, look.tolerance)
        if refuted or n_points == min(data.n, max_points):
            return look, refuted
        n_values, n_points = look.n_values, min(data.n, max_points, 4 * n_points)


def _look(kernel: Kernel, data: Data, n_points: int, n_values: int) -> Look:
    idx = np.arange(n_points) * data.n // n_points
    points = data.rows(idx)
    G = kernel.block(points, points)
    if not np.isfinite(G).all():
        raise ValueError(f"values of {kernel!r} are NaN or infinite on these points")
    difference = np.abs(G - G.T)
    i, j = np.unravel_index(int(difference.argmax()), G.shape)
    asymmetry = float(difference[i, j])
    G = 0.5 * (G + G.T)
    largest = min(float(np.linalg.norm(G)), float(np.abs(G).sum(axis=1).max()))
    tolerance = _ROUNDING_FACTOR * (n_points + data.p) * value_roundoff(kernel, data, G) * largest
    return Look(idx, G, tolerance, asymmetry, (int(idx[i]), int(idx[j])), n_values + n_points**2)


def _has_factor(G: FloatArray, shift: float) -> bool:
    """Whether G + shift I has a Cholesky factor: it has one where no eigenvalue of G is below -shift."""
    if not G.any():
        return True
    shifted = G + shift * np.eye(G.shape[0])
    _, failed_at = linalg.lapack.dpotrf(shifted.T, overwrite_a=True, clean=False)
    return failed_at == 0


def value_roundoff(kernel: Kernel, data: Data, G: npt.NDArray[Any]) -> float:
    """Unit roundoff of the precision that the values were computed in."""
    by_others = kernel.lower() is None
    single = by_others and (data.dtype == np.float32 or bool(np.array_equal(G, G.astype(np.float32))))
    return float(np.finfo(np.float32 if single else np.float64).eps) / 2
