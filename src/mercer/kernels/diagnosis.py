"""Tests whether a function or matrix is a kernel: symmetry and positive semidefiniteness, with a witness if not."""

from __future__ import annotations

import warnings
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
from mercer.data.result import Result
from mercer.kernels.kernel import Kernel, as_rows
from mercer.kernels.parameters import integer
from mercer.kernels.parsing import as_kernel
from mercer.kernels.standard import Linear, Precomputed

MAX_POINTS = 2000
"""Points; with more rows only a sample is tested, which cannot show that the kernel is valid on all rows."""

MAX_FACTORED = 5000
"""Rows; largest matrix in memory that is factorised. The cost is n³/6 multiplications, about a second on two cores."""

_FIRST_POINTS = 128  # points in the first test
_ROUNDING_FACTOR = 10.0  # safety factor of the tolerance, relative to the unit roundoff
_WITNESS_SHARE = 0.01  # a smaller witness must keep this share of the smallest eigenvalue
_MOST_TRIMMED = 64  # points; a witness of at most this size is reduced one point at a time, an eigenvalue each
_ROWS_SHOWN = 6  # row numbers that a message lists


Values: TypeAlias = Function[[npt.NDArray[np.int64]], FloatArray]
"""A function from row indices to their Gram matrix."""


@dataclass(frozen=True, eq=False)
class Witness:
    """A few points and coefficients that refute a kernel: c'Gc < 0 for the symmetric part of their Gram matrix G.

    Attributes
    ----------
    idx : ndarray of int
        The points, as row indices of the tested data, in ascending order.
    points : Data
        The rows themselves: ``kernel.block(points, points)`` is G.
    c : ndarray of float
        One coefficient for each point; the Euclidean norm is 1.
    value : float
        c'Gc, computed in float64.
    bound : float
        Bound of the rounding error of `value` (the tolerance of a diagnosis of these points): value < -bound.
    """

    idx: npt.NDArray[np.intp]
    points: Data
    c: FloatArray
    value: float
    bound: float


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """The result of a test whether a function is a kernel on given points; ``str()`` gives it in one line.

    Attributes
    ----------
    verdict : "proved", "violated" or "not refuted"
        "proved" by the closure rules; "violated" on these points, with a witness; "not refuted" otherwise.
    proof : tuple of str
        The steps of a proof, each a kernel and the rule by which it is a kernel; empty without a proof.
    smallest_eigenvalue : float
        Smallest eigenvalue of the symmetric part of the Gram matrix of the tested points.
    rank : int
        Numerical rank of this matrix: the number of eigenvalues that exceed the tolerance in absolute value.
    tolerance : float
        Bound of the rounding error of an eigenvalue: only an eigenvalue below -tolerance refutes the kernel.
    witness : Witness or None
        A few points and a vector c with c'Gc < 0, if there are any.
    asymmetry : float
        Largest |k(x, z) - k(z, x)|.
    asymmetric_pair : tuple of int or None
        Two rows for which the kernel is asymmetric beyond rounding.
    n_points : int
        Number of tested rows.
    complete : bool
        Whether all rows were tested.
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
        """The verdict in full sentences: what was found, what follows from it, and what can be done."""
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
        assert self.witness is not None  # a symmetric matrix that is refuted has a witness
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
    """Test whether a function or matrix is a kernel, by closure rules and on given points.

    A function is a kernel if its Gram matrix is symmetric and positive semidefinite on *all* finite sets of points.
    The closure rules can prove this; points can only refute it.

    Parameters
    ----------
    kernel : Kernel, str, callable or array-like of shape (n, n)
        As for :class:`mercer.SVC`, or a matrix of kernel values. A rule for gamma is resolved on the points.
    data : Data, array-like of shape (n, p), or sequence of strings, lists of tokens or sets
        The points. With a matrix they are optional: the rows that a witness shall show.
    max_points : int, default=2000
        Largest number of points to test, evenly spaced over the rows. 128 are tested first, then four times as many
        each time, until some refute the kernel.

    Returns
    -------
    Diagnosis
        The result for the points tested last.

    Raises
    ------
    ValueError
        If there are no points, or kernel values are not finite; if a matrix is not square, or its number of rows
        differs from the number of points.
    TypeError
        If a function is given without points.

    Notes
    -----
    With n points of p features, an eigenvalue counts as negative if it is below -10 (n + p) u m. Here m bounds the
    absolute eigenvalues (the smaller of the Frobenius norm and the largest absolute row sum), n u m bounds the error of
    the eigenvalue solver up to a small factor, and p u bounds the error of an inner product. u is the unit roundoff of
    float64, or of float32 if the values were evidently computed in float32: by a function on float32 data, or if all
    values are float32 numbers. Asymmetry is compared with the same tolerance. The witness is reduced: points with small
    coefficients are removed while c'Gc stays below a hundredth of the smallest eigenvalue.

    Cost: n² kernel values, 16 n² bytes and O(n³) time, mostly for the eigenvalues, which :func:`first_refuted` does not
    compute.

    Examples
    --------
    >>> from mercer.kernels import Sigmoid
    >>> X = [[0.1, 0.0], [1.0, 0.5], [2.0, -1.0], [-1.0, 0.3]]
    >>> diagnosis = diagnose(Sigmoid(gamma=1, coef0=1), X)
    >>> diagnosis.verdict, diagnosis.witness.value < -diagnosis.witness.bound
    ('violated', True)
    >>> diagnose([[1.0, 2.0], [2.0, 1.0]]).smallest_eigenvalue
    -1.0
    """
    function, points, named = _kernel_and_points(kernel, data)
    return diagnosis_of(function, points, max_points, named=named)


def diagnosis_of(
    function: Kernel,
    points: Data,
    max_points: int = MAX_POINTS,
    *,
    named: Data | None = None,
    values: Values | None = None,
) -> Diagnosis:
    """Return what :func:`diagnose` returns, for a resolved kernel on points; a witness shows the rows of `named`.

    `values`, if given, returns the Gram matrix of chosen points, so that the kernel is not evaluated again.
    """
    sample, refuted = first_refuted(function, points, max_points, values=values)
    eigenvalues = linalg.eigvalsh(sample.G, check_finite=False)
    return Diagnosis(
        verdict="proved" if function.is_psd else "violated" if refuted else "not refuted",
        proof=function.proof,
        smallest_eigenvalue=float(eigenvalues[0]),
        rank=int(np.count_nonzero(np.abs(eigenvalues) > sample.tolerance)),
        tolerance=sample.tolerance,
        witness=_witness(sample, points if named is None else named) if eigenvalues[0] < -sample.tolerance else None,
        asymmetry=sample.asymmetry,
        asymmetric_pair=sample.pair if sample.asymmetry > sample.tolerance else None,
        n_points=sample.idx.size,
        complete=sample.idx.size == points.n,
    )


def refute(kernel: Kernel, alphabet: Sequence[Hashable] = "01", max_length: int = 4) -> Diagnosis:
    """Search all short strings over an alphabet for points that refute a kernel on strings.

    Short strings may refute a kernel that typical strings do not: they are close together, and all of them are tested.

    Parameters
    ----------
    kernel : Kernel
        A kernel on strings, with a number for every parameter.
    alphabet : str or sequence of tokens, default="01"
        Rows are strings for an alphabet that is a string, otherwise lists of tokens.
    max_length : int, default=4
        Largest number of letters. Strings of 0, 1, ... letters are added until they refute the kernel.

    Returns
    -------
    Diagnosis
        For all strings up to some length; the points of its witness are numbered as by :func:`all_strings`.

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
    >>> diagnosis = refute(EditDistance(gamma=1))
    >>> diagnosis.verdict, diagnosis.n_points, round(diagnosis.smallest_eigenvalue, 3)
    ('violated', 31, -0.043)
    """
    strings = all_strings(alphabet, max_length)
    length = 0
    while True:
        with warnings.catch_warnings():  # of strings that are shorter than the words of the kernel
            warnings.simplefilter("ignore", UserWarning)
            diagnosis = diagnose(kernel, as_structured([string for string in strings if len(string) <= length]))
        if diagnosis.verdict == "violated" or length == max_length:
            return diagnosis
        length += 1


def all_strings(alphabet: Sequence[Hashable], max_length: int) -> list[Any]:
    """Return all strings of at most `max_length` letters, or lists of tokens, the shorter ones first.

    Parameters
    ----------
    alphabet : str or sequence
        Its letters or tokens.
    max_length : int

    Returns
    -------
    list of str, or of lists of tokens

    Raises
    ------
    ValueError
        If the alphabet repeats a letter or is empty, or there are more than 2,000 strings.

    Examples
    --------
    >>> all_strings("01", 2)
    ['', '0', '1', '00', '01', '10', '11']
    """
    if len(set(alphabet)) != len(alphabet) or not alphabet:
        raise ValueError(f"alphabet must hold different letters, and at least one, got {alphabet!r}")
    lengths = range(integer("max_length", max_length) + 1)
    n_strings = sum(len(alphabet) ** length for length in lengths)
    if n_strings > MAX_POINTS:
        raise ValueError(
            f"max_length must be such that there are at most {MAX_POINTS} strings, got {max_length}: "
            f"{n_strings} strings over {len(alphabet)} letters"
        )
    rows = (row for length in lengths for row in product(alphabet, repeat=length))
    return ["".join(cast(tuple[str, ...], row)) if isinstance(alphabet, str) else list(row) for row in rows]


@dataclass(frozen=True, eq=False)
class SampledMatrix:
    """The symmetric part of a Gram matrix on some of the points, and a bound of the rounding error of its eigenvalues.

    Attributes
    ----------
    idx : ndarray of int
        The points, as row indices of the data.
    G : ndarray of float
    tolerance : float
        See :class:`Diagnosis`.
    asymmetry : float
    pair : tuple of int
        The rows with the largest asymmetry.
    n_values : int
        Number of kernel values that were evaluated for this test and the tests before it.
    """

    idx: npt.NDArray[np.intp]
    G: FloatArray
    tolerance: float
    asymmetry: float
    pair: tuple[int, int]
    n_values: int


def first_refuted(
    kernel: Kernel, data: Data, max_points: int = MAX_POINTS, *, values: Values | None = None
) -> tuple[SampledMatrix, bool]:
    """Test a growing number of points until they refute the kernel or no points remain; see :func:`diagnose`.

    Returns
    -------
    sample : Look
        The last test.
    refuted : bool
        Whether the kernel is not symmetric, or not positive semidefinite, on the points of the last test: then
        G + tolerance I has no Cholesky factor. Costs n³/3 multiplications, about a twentieth of the eigenvalues' cost.
    """
    if data.n == 0 or integer("max_points", max_points) == 0:
        raise ValueError(f"a kernel needs at least one point to be looked at, got {data!r} and max_points={max_points}")
    n_values, n_points = 0, min(data.n, max_points, _FIRST_POINTS)
    while True:
        sample = _sampled(kernel, data, n_points, n_values, values)
        refuted = sample.asymmetry > sample.tolerance or not _has_factor(sample.G, sample.tolerance)
        if refuted or n_points == min(data.n, max_points):
            return sample, refuted
        n_values, n_points = sample.n_values, min(data.n, max_points, 4 * n_points)


def _sampled(kernel: Kernel, data: Data, n_points: int, n_values: int, values: Values | None) -> SampledMatrix:
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
    tolerance = unit * (n_points + data.p) * _norm_bound(G) + _underflow_error(n_points, data.p)
    if isinstance(data, GivenValues):
        tolerance += data.error
    return SampledMatrix(idx, G, tolerance, asymmetry, (int(idx[i]), int(idx[j])), n_values + n_points**2)


def _underflow_error(n_points: int, p: int) -> float:
    """Return a bound of the eigenvalues' error by underflow: subnormal numbers have an absolute rounding error."""
    return float(n_points * (p + 4) * np.finfo(np.float64).smallest_subnormal)


def _norm_bound(G: FloatArray) -> float:
    """Return a bound of the absolute eigenvalues."""
    largest = float(np.abs(G).max())
    if largest == 0.0:
        return 0.0
    G = G / largest  # without scaling, the squares of small numbers would underflow
    return largest * min(float(np.linalg.norm(G)), float(np.abs(G).sum(axis=1).max()))


def _witness(sample: SampledMatrix, points: Data) -> Witness:
    """Return a few of the tested points, whose Gram matrix still has a clearly negative eigenvalue."""
    subset = np.arange(sample.idx.size)
    lowest, c = _lowest(sample.G, subset)
    lost = _underflow_error(sample.idx.size, points.p)
    unit = (sample.tolerance - lost) / _norm_bound(sample.G)  # valid for this number of points or fewer

    def bound(some: npt.NDArray[np.intp]) -> float:
        return unit * _norm_bound(sample.G[np.ix_(some, some)]) + lost

    order = np.argsort(-np.abs(c), kind="stable")

    def refutes(some: npt.NDArray[np.intp]) -> bool:
        value = linalg.eigvalsh(sample.G[np.ix_(some, some)], subset_by_index=[0, 0], check_finite=False)[0]
        return bool(value < min(_WITNESS_SHARE * lowest, -bound(some)))

    few = 1
    while few < order.size and not refutes(order[:few]):
        few *= 2
    chosen = order[:few]
    while 1 < chosen.size <= _MOST_TRIMMED and refutes(chosen[:-1]):
        chosen = chosen[:-1]
    chosen = np.sort(chosen)
    value, c = _lowest(sample.G, chosen)
    idx = sample.idx[chosen]
    return Witness(idx, points.rows(idx), c, value, bound(chosen))


def _lowest(G: FloatArray, some: npt.NDArray[np.intp]) -> tuple[float, FloatArray]:
    """Return the minimum of c'Gc over vectors c of length 1 on some points, and this c."""
    part = G[np.ix_(some, some)]
    _, vectors = linalg.eigh(part, subset_by_index=[0, 0], check_finite=False)
    c = vectors[:, 0] / np.linalg.norm(vectors[:, 0])
    c *= np.sign(c[np.abs(c).argmax()])
    return float(c @ part @ c), c


def _kernel_and_points(kernel: Any, data: Any) -> tuple[Kernel, Data, Data]:
    """Return the kernel, the points in the form that it takes, and the points that a witness shows."""
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
    """Return whether G + shift I has a Cholesky factor. It has one if no eigenvalue of G is below -shift."""
    if not G.any():
        return True
    shifted = G.copy()
    shifted.flat[:: G.shape[0] + 1] += shift
    _, failed_at = linalg.lapack.dpotrf(shifted.T, overwrite_a=True, clean=False)
    return failed_at == 0


def value_roundoff(kernel: Kernel, data: Data, G: npt.NDArray[Any]) -> float:
    """Return the unit roundoff of the precision in which the values were computed."""
    by_others = kernel.lower() is None
    with np.errstate(over="ignore"):  # values that overflow float32 were not computed in it
        fits = bool(np.array_equal(G, G.astype(np.float32))) and not np.array_equal(G, np.rint(G))  # integers are exact
    is_single = isinstance(data, GivenValues) and data.is_single
    single = by_others and (data.dtype == np.float32 or is_single or fits)
    return float(np.finfo(np.float32 if single else np.float64).eps) / 2
