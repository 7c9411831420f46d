"""How far kernel values evaluated in single precision may be from the exact ones: bounds, proved in the documentation.

The proof is in docs/concepts/certificate.md; each line of :func:`single_precision_error` is one of its steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.kernels.program import Op, Program

FloatArray = npt.NDArray[np.float64]

_U = 1.01 * 2.0**-24  # unit roundoff of float32, with room for the double roundings beside it and higher orders
_TINY = 2.0**-148  # of one operation, below the normal range of float32
_LEAST, _LARGEST = 2.0**-120, 3e38  # below the one, powers are cut off to 0; above the other, float32 overflows
_CLASSES = 16  # of columns, by norm: within a class all are bounded by the largest


def single_precision_error(
    program: Program, n_terms: int, left: FloatArray, right: float, centre: float = 0.0
) -> FloatArray:
    """Return a bound on the error of kernel values in single precision, (m,), one for each left row.

    Parameters
    ----------
    program : Program
    n_terms : int
        Most products that are added up in an inner product.
    left : ndarray of shape (m,)
        Norms of the left rows, as they are packed: minus the centre, if there is one.
    right : float
        Largest norm of a right row, likewise.
    centre : float
        Norm of the centre.

    Returns
    -------
    ndarray of shape (m,)
        Infinite where nothing can be said.
    """
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
                stack.append((*2 * (np.full_like(left, number),), np.full_like(left, abs(number) * _U)))
            elif op in (Op.ADD, Op.MUL):
                second, first = stack.pop(), stack.pop()
                stack.append((_add if op is Op.ADD else _multiply)(first, second))
            else:
                stack.append(_map(op, number, *stack.pop()))
            largest = np.maximum(largest, _size(*stack[-1][:2]) + stack[-1][2])
    error = stack.pop()[2] + _LEAST
    return np.where(largest < _LARGEST, error, np.inf)  # False for NaN


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
            relative = np.expm1(error + 4.0 * _U * (size + error) + 4.0 * _U)
            return np.zeros_like(high), largest, largest * relative
        case Op.TANH:
            return -np.ones_like(low), np.ones_like(high), error + 16.0 * _U * (1.0 + np.minimum(size, 1.0))
    raise ValueError(f"{op.name} is not an operation on tiles")


def bound_combination(
    program: Program, n_terms: int, left: FloatArray, right: FloatArray, weights: FloatArray, centre: float = 0.0
) -> FloatArray:
    """Return a bound on the error of sum_j weights_j k(x_i, z_j) where the kernel values are in single precision, (m,).

    Columns are taken in classes of similar norm, so that a few long rows do not spoil the bound for all.
    """
    sizes = np.abs(weights)
    order = np.argsort(right, kind="stable")
    bound = np.zeros(left.size)
    for chosen in np.array_split(order, min(_CLASSES, max(1, order.size))):
        if chosen.size and sizes[chosen].any():
            largest = float(right[chosen[-1]])
            bound += single_precision_error(program, n_terms, left, largest, centre) * float(sizes[chosen].sum())
    return bound * (1.0 + 2.0**-20)  # for the double precision of the sums, here and in the tiles

