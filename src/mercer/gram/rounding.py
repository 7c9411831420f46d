"""Proved bounds on the error of kernel values that are evaluated in single precision.

The proof is in docs/concepts/certificate.md; each line of :func:`_follow` is one of its steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.kernels.program import OVERLAPS, PASSES, Op, Program

Norms = TypeVar("Norms", float, FloatArray)

Part: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Smallest value, largest value and error bound of a tile on the stack."""

LEAST_ENTRY = 2.0**-90
"""Smallest positive entry of rows whose sums are divided, so that no sum or quotient underflows in float32."""

_TERMS_PER_SUM = 64  # terms; length of the partial sums of dense rows (native/gram/dense_panels.hpp)
_OF_INTEGERS = 8  # roundings counted for a distance, at least 4; with fewer, the distance of rows from 0 counts more
_U = 1.01 * 2.0**-24  # unit roundoff of float32, with 1 % added for operations in double precision
_TINY = 2.0**-147  # larger than the underflow error of any product or conversion in float32
_CUT = 2.0**-123  # exponentials below this are set to 0
_LARGEST = 2.0**126  # largest intermediate number with a bound; float32 overflows at four times this
_CLASSES, _STEPS_PER_OCTAVE = (
    32,
    4,
)  # classes, and classes per octave; the last has all norms below 1/200 of the largest
_DOUBLE = 2.0**-52  # relative error of one multiplication and addition in float64, and of the bound's own arithmetic
_WORTH_A_GROUP = 0.5  # share of the bound; a second group must lower it below this, because its sums take time
_SMALLEST = 2.0**-1000  # larger than the underflow error of float64


class Sums(NamedTuple):
    """Summation of inner products: the number of terms, and the most roundings that one term passes through."""

    n_terms: int
    depth: int

    @classmethod
    def of_dense(cls, p: int) -> Sums:
        """Return the summation of dense rows: in parts of 64 terms, one term after the other."""
        n_sums = -(-p // _TERMS_PER_SUM)
        return cls(p, min(p, _TERMS_PER_SUM) + max(0, n_sums - 1))

    @classmethod
    def of_integers(cls, p: int, *, centred: bool) -> Sums:
        """Return the summation of integers, which is exact; see :func:`integer_norms` for what `centred` means."""
        return cls(p, _OF_INTEGERS - 4 if centred else 2)

    @classmethod
    def unbounded(cls, p: int) -> Sums:
        """Return a summation without a bound on its relative error."""
        return cls(p, 1 << 24)

    @classmethod
    def in_turn(cls, n_terms: int) -> Sums:
        """Return the summation of one term after the other."""
        return cls(n_terms, n_terms)


def integer_norms(norms: Norms, *, centred: bool) -> Norms:
    """Return the norms that bounds use for rows of integers; with a centre, they are added to the centred norms.

    The error of a multiple is a share of the number as given, wherever the centre is.
    """
    return norms / _OF_INTEGERS if centred else norms


def sq_distance_error(sums: Sums, left: Norms, right: Norms) -> Norms:
    """Return a bound on the error of squared distances in single precision; it assumes that nothing underflows."""
    return _gamma(sums.depth + 4) * (left + right) ** 2


def single_precision_error(
    program: Program, sums: Sums, left: FloatArray, right: FloatArray, centre: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the error and on the size of kernel values in single precision.

    Parameters
    ----------
    program : Program
    sums : Sums
    left, right : ndarrays that broadcast against each other
        Norms of the packed rows, from which the centre is subtracted if there is one.
    centre : float
        Norm of the centre.

    Returns
    -------
    error, size : ndarray
        Arrays of the shape of `left * right`; infinite if there is no bound. They never decrease if a norm grows.
    """
    largest, size, error = _follow(program, sums, left, right, centre)
    is_bounded = largest < _LARGEST  # False for NaN
    return np.where(is_bounded, error, np.inf), np.where(is_bounded, size, np.inf)


def _follow(
    program: Program, sums: Sums, left: FloatArray, right: FloatArray, centre: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the largest intermediate number, the largest result, and a bound on the error of the result."""
    stack: list[Part] = []
    with np.errstate(over="ignore", invalid="ignore"):
        product, squares = left * right, (left + right) ** 2
        lost = (sums.n_terms + 1) * _TINY * (1.0 + left + right + 2.0 * centre)
        absolute = math.sqrt(sums.n_terms) * (left + right)  # sums of |x_k| and |z_k| [Cauchy and Schwarz]
        largest = squares + centre**2
        for op, number in program:
            if op is Op.DOT:
                size = (left + centre) * (right + centre)
                offsets = _gamma(5) * centre * (left + right + 3.0 * centre)
                stack.append((-size, size, _gamma(sums.depth + 3) * product + offsets + lost))
            elif op is Op.SQDIST:
                stack.append((np.zeros_like(squares), squares, sq_distance_error(sums, left, right) + lost))
            elif op in (Op.L1, Op.CHI2):
                off = (2.0 if op is Op.L1 else 3.0) * _gamma(sums.depth + 9) * absolute
                stack.append((np.zeros_like(absolute), absolute, off + 8.0 * lost))
            elif op is Op.HAMMING:  # different numbers may become equal in single precision
                most = np.full_like(absolute, sums.n_terms if sums.n_terms < 2**20 else math.inf) * 2.0
                stack.append((np.zeros_like(absolute), most, most))
            elif op in (Op.MINIMUM, Op.SUM):
                stack.append((-absolute, absolute, _gamma(sums.depth + 3) * absolute + 4.0 * lost))
            elif op in OVERLAPS:
                one = np.ones_like(absolute)
                stack.append((0.0 * one, one, (_overlap_error(sums) + _TINY) * one))
            elif op is Op.CONST:
                value = np.full_like(product, number)
                stack.append((value, value, _U * abs(value) + _TINY))
            elif op in (Op.ADD, Op.MUL):
                second, first = stack.pop(), stack.pop()
                stack.append((_add if op is Op.ADD else _multiply)(first, second))
            else:
                stack.append(_map(op, number, *stack.pop()))
            low, high, error = stack[-1]
            largest = np.maximum(largest, _size(low, high) + error)
            if op is not Op.POWER and op not in PASSES:  # exponents are integers, all other numbers become float32
                largest = np.maximum(largest, abs(number))
    return largest, _size(low, high), error


def _gamma(n: float) -> float:
    """Return the relative error of n successive roundings [Higham, section 3.1]; infinite beyond 8 million."""
    return n * _U / (1.0 - n * _U) if n * _U <= 0.5 else math.inf


def _overlap_error(sums: Sums) -> float:
    """Return a bound on the error of m / (s + t - m) and of 2 m / (s + t), with sums m of minima and s, t of entries.

    Sums of nonnegative numbers have small relative errors, and s + t - m is at least m and at least (s + t) / 2. No
    positive entry may be below `LEAST_ENTRY`.
    """
    of_divisor = 3.0 * _gamma(sums.depth + 3)
    return 4.0 * _gamma(sums.depth + 3) / (1.0 - of_divisor) if of_divisor < 0.5 else math.inf


def _size(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.maximum(np.abs(low), np.abs(high))


def _add(a: Part, b: Part) -> Part:
    error = a[2] + b[2]
    return a[0] + b[0], a[1] + b[1], error + _U * (_size(*a[:2]) + _size(*b[:2]) + error)


def _multiply(a: Part, b: Part) -> Part:
    size_a, size_b = _size(*a[:2]), _size(*b[:2])
    size = size_a * size_b
    error = a[2] * size_b + b[2] * size_a + a[2] * b[2]
    return -size, size, error + _U * (size + error) + _TINY


def _map(op: Op, number: float, low: FloatArray, high: FloatArray, error: FloatArray) -> Part:
    size = _size(low, high)
    limit = size + error  # largest number that can occur here in single precision
    match op:
        case Op.SCALE:
            ends = (number * low, number * high)
            return (
                np.minimum(*ends),
                np.maximum(*ends),
                abs(number) * (error + 2.0 * _U * limit) + _TINY * (1.0 + limit),
            )
        case Op.SHIFT:
            return low + number, high + number, error + 2.0 * _U * (limit + abs(number)) + _TINY
        case Op.POWER:
            grown, underflows = limit**number, 2.0 * number * np.log2(max(2.0, number))
            return -(size**number), size**number, grown - size**number + _gamma(number) * grown + underflows * _TINY
        case Op.EXP:
            largest, relative = np.exp(high), np.expm1(error + 4.0 * _U)
            return np.zeros_like(high), largest, largest * relative + _CUT * (1.0 + relative)
        case Op.SQRT:
            # Rounded up by the float64 error of the bound itself, which a root magnifies near 0.
            low, root = np.sqrt(np.maximum(low, 0.0)), np.sqrt(np.maximum(high, 0.0) + _SMALLEST)
            with np.errstate(divide="ignore", invalid="ignore"):
                off = np.fmin(np.sqrt(error), error / low)  # both bound |sqrt(a) - sqrt(b)|
            return low, root, off + 2.0 * _U * (root + off)
        case Op.LOG:
            with np.errstate(divide="ignore", invalid="ignore"):
                # Widened by the float64 error of the bounds themselves, which a logarithm magnifies near 1.
                low, high = np.log(low * (1.0 - _DOUBLE)), np.log(high * (1.0 + _DOUBLE))
                least = np.exp(low) - error
                off = np.where(least > 0.0, error / least, np.inf)
            return low, high, off + 8.0 * _U * (_size(low, high) + off) + _TINY
        case Op.TANH:
            return -np.ones_like(low), np.ones_like(high), error + 8.0 * _U * np.minimum(1.0, 16.0 * limit) + _TINY
    raise ValueError(f"{op.name} is not an operation on tiles")


class NormClasses:
    """Rows in classes of similar norm. Error bounds are computed once for each class, from its largest norm.

    Parameters
    ----------
    norms : ndarray of shape (n,)

    Attributes
    ----------
    of_row : ndarray of int64 of shape (n,)
        The class of each row.
    largest : ndarray of shape (n_classes,)
        The largest norm of each class.
    """

    def __init__(self, norms: FloatArray) -> None:
        top = float(norms.max(initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = _STEPS_PER_OCTAVE * np.log2(top / norms)  # NaN where all norms are 0 or infinite
        self.of_row = np.minimum(np.fmax(steps, 0.0), _CLASSES - 1).astype(np.int64)  # fmax: 0 for NaN
        self.largest = top * np.exp2(-np.arange(_CLASSES) / _STEPS_PER_OCTAVE)

    def of(self, rows: IndexArray | None) -> IndexArray:
        """Return the classes of chosen rows; None means all."""
        return self.of_row if rows is None else self.of_row[rows]

    def masses(self, rows: IndexArray | None, weights: FloatArray) -> FloatArray:
        """Return the sums of |weights| of chosen rows by class."""
        return np.bincount(self.of(rows), np.abs(weights), _CLASSES).astype(np.float64, copy=False)  # int64 if empty


class Rounding:
    """Bounds on the error of sums of kernel values in single precision, between the rows of two tables.

    Parameters
    ----------
    program : Program
    sums : Sums
    left, right : NormClasses
        Classes of the packed rows, from which the centre is subtracted if there is one.
    centre : float
        Norm of the centre.

    Attributes
    ----------
    value_bound : float
        A bound on |k(x, z)|.
    """

    def __init__(
        self, program: Program, sums: Sums, left: NormClasses, right: NormClasses, centre: float = 0.0
    ) -> None:
        self._left, self._right = left, right
        norms = left.largest[:, None], right.largest
        self.value_bound = float(_follow(program, sums, left.largest[:1], right.largest[:1], centre)[1][0])
        self._error, self._size = single_precision_error(program, sums, *norms, centre)
        # Error relative to the computed value, in addition to 2^-121; only for exponentials.
        self._relative: FloatArray | None = None
        if program[-1][0] is Op.EXP:
            largest, _, error = _follow(program[:-1], sums, *norms, centre)
            with np.errstate(over="ignore", invalid="ignore"):
                relative = np.expm1(error + 4.0 * _U)
                is_bounded = (largest < _LARGEST) & (relative < 0.5)
                self._relative = np.where(is_bounded, relative / (1.0 - relative), np.inf)

    @property
    def is_relative(self) -> bool:
        """Whether :meth:`closer_bound` can be used: it is closer than :meth:`bound` if values are small."""
        return self._relative is not None

    def bound(self, left_rows: IndexArray | None, right_rows: IndexArray | None, weights: FloatArray) -> FloatArray:
        """Return a bound on the error of sum_j weights_j k(x_i, z_j) with kernel values in single precision.

        `weights` belong to `right_rows`; the result has one bound for each of `left_rows`.
        """
        mass = self._right.masses(right_rows, weights)
        used = np.flatnonzero(mass)
        error, size = self._error[:, used], self._size[:, used]
        with np.errstate(over="ignore", invalid="ignore"):
            of_value = error + (weights.size + 2) * _DOUBLE * (size + error)  # each addition rounds
            bound = of_value @ mass[used] + _SMALLEST
        bound[np.isnan(bound)] = np.inf
        return bound[self._left.of(left_rows)]

    def groups(self, right_rows: IndexArray | None, weights: FloatArray) -> IndexArray:
        """Return the group of each of `right_rows`, 0 or 1, with which :meth:`closer_bound` is closest.

        Both sides must be the same table; the bound of a row of typical norm decides. A few rows of large norm would
        raise the bound of all rows, so they form group 1.
        """
        assert self._relative is not None
        group, mass = self._right.of(right_rows), self._right.masses(right_rows, weights)
        inside = np.cumsum(mass)
        typical = np.searchsorted(inside, 0.5 * inside[-1])
        first = int(group.min(initial=_CLASSES - 1))  # class of the largest norm
        relative, outside = self._relative[typical, first:], (inside - mass)[first:]
        if not np.isfinite(relative).all():
            return np.zeros(group.size, dtype=np.int64)
        bound = relative[0] * outside + relative * (inside[-1] - outside)
        best = int(bound.argmin())
        return (
            (group < first + best).astype(np.int64) if bound[best] < _WORTH_A_GROUP * bound[0] else np.zeros_like(group)
        )

    def closer_bound(
        self,
        left_rows: IndexArray | None,
        right_rows: IndexArray | None,
        weights: FloatArray,
        groups: IndexArray,
        magnitudes: FloatArray,
    ) -> FloatArray:
        """Return bounds like :meth:`bound`, but from computed values: closer if the values are small.

        `magnitudes` are the sums of |weights_j| k(x_i, z_j) over each of the `groups`, (m, n_groups), with kernel
        values in single precision.
        """
        assert self._relative is not None
        added = 2.0 * (weights.size + 2) * _DOUBLE  # rounding of the magnitudes, and of the sum itself
        bound = np.full(magnitudes.shape[0], 4.0 * _CUT * float(np.abs(weights).sum()) + _SMALLEST)
        ours, theirs = self._left.of(left_rows), self._right.of(right_rows)
        for group, magnitude in enumerate(magnitudes.T):
            furthest = theirs[groups == group].min(initial=_CLASSES - 1)
            with np.errstate(over="ignore", invalid="ignore"):
                bound += (self._relative[ours, furthest] + added) * magnitude * (1.0 + added)
        return bound
