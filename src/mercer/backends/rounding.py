"""How far kernel values evaluated in single precision may be from the exact ones: bounds, proved in the documentation.

The proof is in docs/concepts/certificate.md; each line of :func:`single_precision_error` is one of its steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.kernels.program import Op, Program

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_U = 1.01 * 2.0**-24  # unit roundoff of float32, with room for the double roundings beside it and higher orders
_TINY = 2.0**-148  # of one operation, below the normal range of float32
LEAST, _LARGEST = 2.0**-120, 3e38  # below the one, powers are cut off to 0; above the other, float32 overflows
_CLASSES, _STEPS_PER_OCTAVE = 32, 4  # of norms: the last class has all that are 200 times smaller than the largest
_SUMS = 1.0 + 2.0**-20  # for the double precision of the sums, here and in the tiles


def single_precision_error(
    program: Program, n_terms: int, left: FloatArray, right: FloatArray, centre: float = 0.0
) -> FloatArray:
    """Return a bound on the error of kernel values in single precision, of the shape of `left` times `right`.

    Parameters
    ----------
    program : Program
    n_terms : int
        Most products that are added up in an inner product.
    left, right : ndarrays that broadcast against each other
        Norms of rows, as they are packed: minus the centre, if there is one.
    centre : float
        Norm of the centre.

    Returns
    -------
    ndarray
        Infinite where nothing can be said. It does not fall where a norm rises.
    """
    largest, last, error = _follow(program, n_terms, left, right, centre)
    del last
    return np.where(largest < _LARGEST, error + LEAST, np.inf)  # False for NaN


def relative_error(
    program: Program, n_terms: int, left: FloatArray, right: FloatArray, centre: float = 0.0
) -> FloatArray | None:
    """Return a bound on the error of kernel values relative to the values found, None unless they are exponentials.

    See :func:`single_precision_error`. Besides, a value can be off by `LEAST`.
    """
    if not program or program[-1][0] is not Op.EXP:
        return None
    largest, size, error = _follow(program[:-1], n_terms, left, right, centre)
    with np.errstate(over="ignore", invalid="ignore"):
        relative = _relative_error_of_exp(size, error)
        return np.where((largest < _LARGEST) & (relative < 0.5), relative / (1.0 - relative), np.inf)


def _relative_error_of_exp(size: FloatArray, error: FloatArray) -> FloatArray:
    return np.expm1(error + 4.0 * _U * (size + error) + 4.0 * _U)


def value_bound(program: Program, norm: float, centre: float = 0.0) -> float:
    """Return a bound on |k(x, z)| over rows of at most this norm, as they are packed."""
    norms = np.array([norm])
    return float(_follow(program, 1, norms, norms, centre)[1][0])


def _follow(
    program: Program, n_terms: int, left: FloatArray, right: FloatArray, centre: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Largest size of any number on the way, largest size of the result, and bound on its error."""
    product, squares = left * right, (left + right) ** 2
    lost = n_terms * _TINY * (1.0 + left + right)
    largest = squares + centre**2
    stack: list[tuple[FloatArray, FloatArray, FloatArray]] = []  # least value, largest value, error
    with np.errstate(over="ignore", invalid="ignore"):
        for op, number in program:
            if op is Op.DOT:
                size = (left + centre) * (right + centre)
                offsets = 24.0 * _U * size if centre > 0.0 else 0.0
                stack.append((-size, size, (n_terms + 2) * _U * product + offsets + lost))
            elif op is Op.SQDIST:
                stack.append((np.zeros_like(squares), squares, (n_terms + 6) * _U * squares + 2.0 * lost))
            elif op is Op.CONST:
                stack.append(
                    (
                        np.full_like(product, number),
                        np.full_like(product, number),
                        np.full_like(product, abs(number) * _U),
                    )
                )
            elif op in (Op.ADD, Op.MUL):
                second, first = stack.pop(), stack.pop()
                stack.append((_add if op is Op.ADD else _multiply)(first, second))
            else:
                stack.append(_map(op, number, *stack.pop()))
            largest = np.maximum(largest, _size(*stack[-1][:2]) + stack[-1][2])
    low, high, error = stack.pop()
    return largest, _size(low, high), error


def _size(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.maximum(np.abs(low), np.abs(high))


def _add(
    a: tuple[FloatArray, FloatArray, FloatArray], b: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    error = a[2] + b[2]
    return a[0] + b[0], a[1] + b[1], error + _U * (_size(*a[:2]) + _size(*b[:2]) + error)


def _multiply(
    a: tuple[FloatArray, FloatArray, FloatArray], b: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    size_a, size_b = _size(*a[:2]), _size(*b[:2])
    size = size_a * size_b
    error = a[2] * size_b + b[2] * size_a + a[2] * b[2]
    return -size, size, error + _U * (size + error)


def _map(
    op: Op, number: float, low: FloatArray, high: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    size = _size(low, high)
    match op:
        case Op.SCALE:
            ends = (number * low, number * high)
            return np.minimum(*ends), np.maximum(*ends), abs(number) * (error + 2.0 * _U * (size + error))
        case Op.SHIFT:
            return low + number, high + number, error + 2.0 * _U * (size + abs(number) + error)
        case Op.POWER:
            grown = (size + error) ** number
            steps = 2.0 * np.log2(max(2.0, number)) + 1.0
            return -(size**number), size**number, grown - size**number + number * steps * _U * grown
        case Op.EXP:
            largest = np.exp(high)
            return np.zeros_like(high), largest, largest * _relative_error_of_exp(size, error)
        case Op.TANH:
            return -np.ones_like(low), np.ones_like(high), error + 16.0 * _U * (1.0 + np.minimum(size, 1.0))
    raise ValueError(f"{op.name} is not an operation on tiles")


class NormClasses:
    """Rows in classes of similar norm, each bounded by its largest: bounds are then found once a class.

    Parameters
    ----------
    norms : ndarray of shape (n,)

    Attributes
    ----------
    of_row : ndarray of int64 of shape (n,)
    largest : ndarray of shape (n_classes,)
    """

    def __init__(self, norms: FloatArray) -> None:
        top = float(norms.max(initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = _STEPS_PER_OCTAVE * np.log2(top / norms)  # NaN where all norms are 0 or infinite
        self.of_row = np.nan_to_num(np.floor(steps), nan=0.0).clip(0, _CLASSES - 1).astype(np.int64)
        self.largest = top * np.exp2(-np.arange(_CLASSES) / _STEPS_PER_OCTAVE)


def bound_combination(
    program: Program,
    n_terms: int,
    left: NormClasses,
    left_rows: IndexArray | None,
    right: NormClasses,
    right_rows: IndexArray | None,
    weights: FloatArray,
    centre: float = 0.0,
) -> FloatArray:
    """Return a bound on the error of sum_j weights_j k(x_i, z_j) where the kernel values are in single precision, (m,).

    `weights` belong to `right_rows`; see :func:`single_precision_error` for the other arguments.
    """
    of_left = left.of_row if left_rows is None else left.of_row[left_rows]
    of_right = right.of_row if right_rows is None else right.of_row[right_rows]
    mass = np.bincount(of_right, weights=np.abs(weights), minlength=_CLASSES)
    used = np.flatnonzero(mass)
    bound = np.zeros(_CLASSES)
    if used.size:
        errors = single_precision_error(program, n_terms, left.largest[:, None], right.largest[used], centre)
        bound = (errors * mass[used]).sum(axis=1)
    return bound[of_left] * _SUMS


def bound_magnitudes(
    program: Program,
    n_terms: int,
    left: NormClasses,
    left_rows: IndexArray | None,
    right: NormClasses,
    right_rows: IndexArray | None,
    magnitudes: FloatArray,
    mass: float,
    centre: float = 0.0,
) -> FloatArray | None:
    """Return a bound on the error of sum_j weights_j k(x_i, z_j) from the values found themselves, (m,).

    `magnitudes` are sum_j |weights_j| k(x_i, z_j) by values in single precision, `mass` is sum_j |weights_j|. None
    unless the values are exponentials.
    """
    of_left = left.of_row if left_rows is None else left.of_row[left_rows]
    of_right = right.of_row if right_rows is None else right.of_row[right_rows]
    furthest = right.largest[of_right.min(initial=_CLASSES - 1)]
    relative = relative_error(program, n_terms, left.largest, np.asarray(furthest), centre)
    return None if relative is None else (relative[of_left] * magnitudes + LEAST * mass) * _SUMS
