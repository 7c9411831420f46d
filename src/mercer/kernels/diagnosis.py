"""Is it a kernel? Symmetry and positive semidefiniteness of a Gram matrix, and a witness where they fail."""

from __future__ import annotations

from collections.abc import Callable as Function
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from scipy import linalg

from mercer._typing import FloatArray
from mercer.data import Data, as_structured
from mercer.data import Precomputed as GivenValues
from mercer.kernels.base import Kernel, as_rows
from mercer.kernels.parameters import whole
from mercer.kernels.parsing import as_kernel
from mercer.kernels.standard import Linear, Precomputed

MAX_POINTS = 2000
"""Of more rows than this, only some are looked at, and nothing can be concluded for all."""

MAX_FACTORED = 5000
"""Of a matrix in memory, so many rows are factorised: n³/6 multiplications, about a second of two cores."""

_FIRST_POINTS = 128
_ROUNDING_FACTOR = 10.0
_LEFT = 0.01  # of the smallest eigenvalue: so much a smaller witness keeps, to be more than a hair's breadth
_FEW = 64  # points of a witness are left out one by one from here on, at an eigenvalue each
_ROWS_SHOWN = 6


Values: TypeAlias = Function[[npt.NDArray[np.int64]], FloatArray]
"""The Gram matrix of the points with these numbers."""


@dataclass(frozen=True, eq=False)
class Witness:
    """Few points and coefficients that refute a kernel: c'Gc < 0 for the symmetric part of their Gram matrix G.

    Attributes
    ----------
    idx : ndarray of int
        The points, as rows of the data that were looked at, in ascending order.
    points : Data
        These rows: ``kernel.block(points, points)`` is G again.
    c : ndarray of float
        One coefficient for each, of Euclidean norm 1.
    value : float
        c'Gc, computed in float64.
    bound : float
        What rounding can do to it (the tolerance of a diagnosis of these points alone): value < -bound.
    """

    idx: npt.NDArray[np.intp]
    points: Data
    c: FloatArray
    value: float
    bound: float


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found out about a kernel on given points; printed, it is the verdict in one line.

    Attributes
    ----------
    verdict : "proved", "violated" or "not refuted"
        Proved by the closure rules; violated on these points, with a witness; or neither.
    proof : tuple of str
        The steps of a proof, each a kernel and the rule by which it is one; empty where there is none.
    smallest_eigenvalue : float
        Of the symmetric part of the Gram matrix of the points looked at.
    rank : int
        Its numerical rank: eigenvalues beyond the tolerance, of either sign.
    tolerance : float
        What rounding can do to an eigenvalue: only one below -tolerance refutes the kernel.
    witness : Witness or None
        Few points and a vector c with c'Gc < 0, where there are any.
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
    proof: tuple[str, ...]
    smallest_eigenvalue: float
    rank: int
    tolerance: float
    witness: Witness | None
    asymmetry: float
    asymmetric_pair: tuple[int, int] | None
    n_points: int
    complete: bool

    def __str__(self) -> str:
        if self.verdict == "proved":
            return f"proved: positive semidefinite by the closure rules ({'; '.join(self.proof)}); {self._spectrum}"
        if self.asymmetric_pair is not None:
            i, j = self.asymmetric_pair
            return f"violated: not symmetric, k(x_{i}, x_{j}) and k(x_{j}, x_{i}) differ by {self.asymmetry:.3g}"
        if self.witness is not None:
            w = self.witness
            return f"violated: c'Gc = {w.value:.3g} for a vector c of length 1 on {w.idx.size} points; {self._spectrum}"
        return f"not refuted: {self._spectrum}"

    @property
    def words(self) -> str:
        """The verdict in plain words: what was found, what follows from it, and what can be done."""
        if self.verdict == "proved":
            return (
                "It is a kernel: its Gram matrix is positive semidefinite on any points. The proof: "
                f"{'; '.join(self.proof)}. On {self._points} its matrix has numerical rank {self.rank}."
            )
        if self.verdict == "violated":
            return (
                f"It is not a kernel: {self._failure}. So there is no space in which it is an inner product, and a "
                "machine trained with it on such points satisfies the optimality conditions at best. What can be done: "
                "take a kernel that is proved to be one, or a matrix repaired by clip, flip or shift (mercer.kernels)."
            )
        return (
            f"It may be a kernel: on {self._points} its matrix has no negative eigenvalue beyond rounding, and "
            f"numerical rank {self.rank}. Other points may refute it still; for a function of strings, "
            "mercer.kernels.refute looks for them."
        )

    @property
    def _failure(self) -> str:
        if self.asymmetric_pair is not None:
            i, j = self.asymmetric_pair
            return f"k(x, z) and k(z, x) differ by {self.asymmetry:.3g} where x is row {i} and z is row {j}"
        assert self.witness is not None  # what is symmetric and refuted has one
        w = self.witness
        shown = ", ".join(map(str, w.idx[:_ROWS_SHOWN])) + (", ..." if w.idx.size > _ROWS_SHOWN else "")
        return (
            f"on {w.idx.size} of the {self.n_points} points looked at (rows {shown}) there are coefficients c of "
            f"length 1 with c'Gc = {w.value:.3g}, where a kernel has the squared length of a vector; rounding accounts "
            f"for {w.bound:.1e} at most"
        )

    @property
    def _points(self) -> str:
        return f"{'all' if self.complete else 'a choice of'} {self.n_points} points"

    @property
    def _spectrum(self) -> str:
        return (
            f"smallest eigenvalue {self.smallest_eigenvalue:.3g} on {self._points} (tolerance {self.tolerance:.1e}), "
            f"rank {self.rank}"
        )


def diagnose(
    kernel: Kernel | str | Function[[Any, Any], Any] | npt.ArrayLike,
    data: Data | npt.ArrayLike | Sequence[Any] | None = None,
    max_points: int = MAX_POINTS,
) -> Diagnosis:
    """Say whether a function or matrix is a kernel, as far as rules and given points can tell.

    A function is a kernel where its Gram matrix is symmetric and positive semidefinite on *all* finite sets of
    points. The closure rules can prove that; points can only refute it.

    Parameters
    ----------
    kernel : Kernel, str, callable or array-like of shape (n, n)
        As for :class:`mercer.SVC`, or a matrix of kernel values. Rules for gamma are resolved on the points.
    data : Data, array-like of shape (n, p), or sequence of strings, lists of tokens or sets
        The points. For a matrix, those that its rows stand for, if they are to appear in the witness.
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
        If there are no points, or kernel values are not finite; if a matrix is not square or has not as many rows as
        there are points.
    TypeError
        If a function comes without points.

    Notes
    -----
    With n points of p features, eigenvalues count as negative below -10 (n + p) u m: m is a bound on the absolute
    eigenvalues (the smaller of the Frobenius norm and the largest absolute row sum), n u m bounds the error of the
    eigenvalue solver up to a small factor, and p u that of each inner product. u is the unit roundoff of float64, or
    that of float32 where the values were evidently computed in it: by a function on float32 data, or all of them
    being float32 numbers. Asymmetry counts by the same measure. The witness is made small: points whose coefficients
    are small are left out while a hundredth of the smallest eigenvalue remains.

    Cost: n² kernel values, 16 n² bytes and O(n³) time, most of it for the eigenvalues; :func:`first_refuted` does
    without.

    Examples
    --------
    >>> from mercer.kernels import Sigmoid
    >>> X = [[0.1, 0.0], [1.0, 0.5], [2.0, -1.0], [-1.0, 0.3]]
    >>> found = diagnose(Sigmoid(gamma=1, coef0=1), X)
    >>> found.verdict, found.witness.value < -found.witness.bound
    ('violated', True)
    >>> diagnose([[1.0, 2.0], [2.0, 1.0]]).smallest_eigenvalue
    -1.0
    """
    function, points, named = _taken(kernel, data)
    return diagnosis_of(function, points, max_points, named=named)


def diagnosis_of(
    function: Kernel,
    points: Data,
    max_points: int = MAX_POINTS,
    *,
    named: Data | None = None,
    values: Values | None = None,
) -> Diagnosis:
    """Return what :func:`diagnose` says of a resolved kernel on points, which are `named` in a witness.

    `values` returns the Gram matrix of chosen points where it is at hand, so that none is evaluated again.
    """
    look, refuted = first_refuted(function, points, max_points, values=values)
    eigenvalues = linalg.eigvalsh(look.G, check_finite=False)
    return Diagnosis(
        verdict="proved" if function.is_psd else "violated" if refuted else "not refuted",
        proof=function.proof,
        smallest_eigenvalue=float(eigenvalues[0]),
        rank=int(np.count_nonzero(np.abs(eigenvalues) > look.tolerance)),
        tolerance=look.tolerance,
        witness=_witness(look, points if named is None else named) if eigenvalues[0] < -look.tolerance else None,
        asymmetry=look.asymmetry,
        asymmetric_pair=look.pair if look.asymmetry > look.tolerance else None,
        n_points=look.idx.size,
        complete=look.idx.size == points.n,
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

    Parameters
    ----------
    alphabet : str or sequence
        Its letters, or tokens.
    max_length : int

    Returns
    -------
    list of str, or of lists of tokens

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


def first_refuted(
    kernel: Kernel, data: Data, max_points: int = MAX_POINTS, *, values: Values | None = None
) -> tuple[Look, bool]:
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
        look = _look(kernel, data, n_points, n_values, values)
        refuted = look.asymmetry > look.tolerance or not _has_factor(look.G, look.tolerance)
        if refuted or n_points == min(data.n, max_points):
            return look, refuted
        n_values, n_points = look.n_values, min(data.n, max_points, 4 * n_points)


def _look(kernel: Kernel, data: Data, n_points: int, n_values: int, values: Values | None) -> Look:
    idx = np.arange(n_points) * data.n // n_points
    if values is None:
        points = data.rows(idx)
        G = kernel.block(points, points)
    else:
        G = values(idx)
    if not np.isfinite(G).all():
        raise ValueError(f"values of {kernel!r} are NaN or infinite on these points")
    difference = np.abs(G - G.T)
    i, j = np.unravel_index(int(difference.argmax()), G.shape)
    asymmetry = float(difference[i, j])
    G = 0.5 * (G + G.T)
    unit = _ROUNDING_FACTOR * value_roundoff(kernel, data, G)
    tolerance = unit * (n_points + data.p) * _norm_bound(G) + _lost(n_points, data.p)
    if isinstance(data, GivenValues):
        tolerance += data.error
    return Look(idx, G, tolerance, asymmetry, (int(idx[i]), int(idx[j])), n_values + n_points**2)


def _lost(n_points: int, p: int) -> float:
    """What eigenvalues may be off below the normal range of float64, where roundings are no share of the values."""
    return float(n_points * (p + 4) * np.finfo(np.float64).smallest_subnormal)


def _norm_bound(G: FloatArray) -> float:
    """A bound on the absolute eigenvalues."""
    largest = float(np.abs(G).max())
    if largest == 0.0:
        return 0.0
    G = G / largest  # the squares of small numbers would be 0
    return largest * min(float(np.linalg.norm(G)), float(np.abs(G).sum(axis=1).max()))


def _witness(look: Look, points: Data) -> Witness:
    """Few of the points looked at, on which something is left of the smallest eigenvalue."""
    whole = np.arange(look.idx.size)
    lowest, c = _lowest(look.G, whole)
    lost = _lost(look.idx.size, points.p)
    unit = (look.tolerance - lost) / _norm_bound(look.G)  # for as many points or fewer

    def bound(some: npt.NDArray[np.intp]) -> float:
        return unit * _norm_bound(look.G[np.ix_(some, some)]) + lost

    order = np.argsort(-np.abs(c), kind="stable")

    def refutes(some: npt.NDArray[np.intp]) -> bool:
        value = linalg.eigvalsh(look.G[np.ix_(some, some)], subset_by_index=[0, 0], check_finite=False)[0]
        return bool(value < min(_LEFT * lowest, -bound(some)))

    few = 1
    while few < order.size and not refutes(order[:few]):
        few *= 2
    chosen = order[:few]
    while 1 < chosen.size <= _FEW and refutes(chosen[:-1]):
        chosen = chosen[:-1]
    chosen = np.sort(chosen)
    value, c = _lowest(look.G, chosen)
    idx = look.idx[chosen]
    return Witness(idx, points.rows(idx), c, value, bound(chosen))


def _lowest(G: FloatArray, some: npt.NDArray[np.intp]) -> tuple[float, FloatArray]:
    """C'Gc and c, of length 1, where it is smallest."""
    part = G[np.ix_(some, some)]
    _, vectors = linalg.eigh(part, subset_by_index=[0, 0], check_finite=False)
    c = vectors[:, 0] / np.linalg.norm(vectors[:, 0])
    c *= np.sign(c[np.abs(c).argmax()])
    return float(c @ part @ c), c


def _taken(kernel: Any, data: Any) -> tuple[Kernel, Data, Data]:
    """The kernel, the points that it takes, and those that people know them by."""
    if isinstance(kernel, (Kernel, str)) or callable(kernel):
        function = as_kernel(kernel)
        if data is None:
            raise TypeError(f"diagnose needs points for {function!r}: give them as data")
        points = as_rows(function, data)
        return function.resolve(points), points, points
    values = GivenValues(kernel)
    if values.n != values.p:
        raise ValueError(f"a matrix of kernel values must be square, got shape {values.shape}")
    if data is None:
        return Precomputed(), values, values
    named = as_rows(Linear(), data)
    if named.n != values.n:
        raise ValueError(f"data must hold the {values.n} points that the rows of the matrix stand for, got {named.n}")
    return Precomputed(), values, named


def _has_factor(G: FloatArray, shift: float) -> bool:
    """Whether G + shift I has a Cholesky factor: it has one where no eigenvalue of G is below -shift."""
    if not G.any():
        return True
    shifted = G.copy()
    shifted.flat[:: G.shape[0] + 1] += shift
    _, failed_at = linalg.lapack.dpotrf(shifted.T, overwrite_a=True, clean=False)
    return failed_at == 0


def value_roundoff(kernel: Kernel, data: Data, G: npt.NDArray[Any]) -> float:
    """Unit roundoff of the precision that the values were computed in."""
    by_others = kernel.lower() is None
    with np.errstate(over="ignore"):  # what is too large for single precision was not computed in it
        fits = bool(np.array_equal(G, G.astype(np.float32))) and not np.array_equal(G, np.rint(G))  # those are exact
    known = isinstance(data, GivenValues) and data.is_single
    single = by_others and (data.dtype == np.float32 or known or fits)
    return float(np.finfo(np.float32 if single else np.float64).eps) / 2
