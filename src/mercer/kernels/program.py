"""A kernel as a short program over tiles.

A tile is the block of values between some rows and some other rows. A kernel of inner products, distances and similar
sums is lowered to a postfix program, which native code runs over a tile. The parts of a composite kernel share one
matrix product. This module has the operations and the reference interpreter; native code is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray


class Op(IntEnum):
    """An operation of a program; native code uses the same numbers."""

    DOT = 0
    """Push the inner products <x, z>."""
    SQDIST = 1
    """Push the squared distances |x - z|²."""
    CONST = 2
    """Push a constant."""
    ADD = 3
    """Replace the two top tiles by their sum."""
    MUL = 4
    """Replace the two top tiles by their elementwise product."""
    SCALE = 5
    """Multiply the top tile by a number."""
    SHIFT = 6
    """Add a number to the top tile."""
    POWER = 7
    """Raise the top tile to a nonnegative integer; 0 to the power 0 is 1."""
    EXP = 8
    """Exponential of the top tile."""
    TANH = 9
    """Hyperbolic tangent of the top tile."""
    SQRT = 10
    """Square root of the top tile; 0 for negative values."""
    LOG = 11
    """Natural logarithm of the top tile."""
    L1 = 12
    """Push sum_k |x_k - z_k|."""
    CHI2 = 13
    """Push sum_k (x_k - z_k)² / (x_k + z_k), for rows without negative entries; 0 / 0 counts as 0."""
    HAMMING = 14
    """Push the number of features in which x and z differ."""
    MINIMUM = 15
    """Push sum_k min(x_k, z_k), for rows without negative entries."""
    SUM = 16
    """Push sum_k (x_k + z_k)."""
    TANIMOTO = 17
    """Push sum_k min(x_k, z_k) / sum_k max(x_k, z_k), for rows without negative entries; 1 for two rows of zeros."""
    DICE = 18
    """Push 2 sum_k min(x_k, z_k) / sum_k (x_k + z_k), for rows without negative entries; 1 for two rows of zeros."""


OVERLAPS = (Op.TANIMOTO, Op.DICE)
"""Passes that are quotients of sums, between 0 and 1."""
PASSES = (Op.DOT, Op.SQDIST, Op.L1, Op.CHI2, Op.HAMMING, Op.MINIMUM, Op.SUM, *OVERLAPS)
"""Operations that read rows (passes). The argument is 0.0 for the rows themselves, or a view of them."""
NONNEGATIVE = (Op.CHI2, Op.MINIMUM, *OVERLAPS)
"""Passes that are not defined for negative entries."""

Step: TypeAlias = tuple[Op, Any]
"""An operation and its argument: a number (0.0 if unused), or for a pass 0.0 or a `mercer.kernels.views.View`."""
Program: TypeAlias = tuple[Step, ...]
"""Steps in postfix order: passes and CONST push a tile, ADD and MUL pop two and push one, others change the top."""

_PUSHES = (*PASSES, Op.CONST)
_JOINS = (Op.ADD, Op.MUL)
_LENGTHS = (Op.SQDIST, Op.L1, Op.CHI2, Op.HAMMING, Op.MINIMUM, *OVERLAPS)  # passes whose values are never negative
_IDENTITIES = {(Op.SCALE, 1.0), (Op.SHIFT, 0.0), (Op.POWER, 1.0)}


def stack_depth(program: Program) -> int:
    """Return the largest number of tiles that the program holds at once.

    Raises
    ------
    ValueError
        If the program is malformed: an operation without its operands, an exponent that is not a nonnegative
        integer, or anything but one tile left at the end.
    """
    depth = deepest = 0
    for op, value in program:
        needed = 0 if op in _PUSHES else 2 if op in _JOINS else 1
        if depth < needed:
            raise ValueError(f"malformed kernel program: {op.name} needs {needed} tile(s), found {depth}")
        if op is Op.POWER and (value < 0 or value != int(value)):
            raise ValueError(f"malformed kernel program: POWER takes an integer >= 0, got {value}")
        depth += 1 - needed
        deepest = max(deepest, depth)
    if depth != 1:
        raise ValueError(f"malformed kernel program: it must leave one tile, it leaves {depth}")
    return deepest


def simplify(program: Program) -> Program:
    """Return the program without steps that have no effect: scaling by 1, adding 0, the power 1."""
    return tuple(step for step in program if step not in _IDENTITIES)


def evaluate(program: Program, dot: npt.ArrayLike, sq_a: npt.ArrayLike, sq_b: npt.ArrayLike) -> FloatArray:
    """Run a program on one tile, as native code does; native code is tested against this function.

    Parameters
    ----------
    program : Program
        What to compute.
    dot : array-like of shape (m, n)
        Inner products of m rows with n rows.
    sq_a, sq_b : array-like of shape (m,) and (n,)
        Squared norms of the rows on the left and on the right. Squared distances are |x|² + |z|² - 2 <x, z>, at least
        0; so they lose digits if the distance is small relative to the norms.

    Returns
    -------
    ndarray of shape (m, n)
        Kernel values in float64.

    Raises
    ------
    ValueError
        If the program is malformed.

    Examples
    --------
    >>> evaluate(((Op.SQDIST, 0.0), (Op.SCALE, -0.5), (Op.EXP, 0.0)), [[1.0]], [1.0], [1.0])
    array([[1.]])
    """
    products = np.array(dot, dtype=np.float64)
    norms = np.add.outer(np.asarray(sq_a, dtype=np.float64), np.asarray(sq_b, dtype=np.float64))
    tiles = {(Op.DOT, 0.0): products, (Op.SQDIST, 0.0): np.maximum(norms - 2.0 * products, 0.0)}
    return interpret(program, tiles.__getitem__)


def interpret(program: Program, tile_of: Callable[[Step], Any], xp: Any = np) -> Any:
    """Run a program over tiles, each of which is computed at its first use.

    Parameters
    ----------
    program : Program
        What to compute.
    tile_of : callable
        Returns the tile of a pass; called at most once for each pass. All tiles, and the result, have the same shape.
    xp : module, default numpy
        The namespace of the tiles, by the array API standard.

    Returns
    -------
    ndarray, or array of `xp`
        Kernel values in float64; infinite or NaN if they overflow.

    Raises
    ------
    ValueError
        If the program is malformed.
    """
    stack_depth(program)
    tiles: dict[Step, FloatArray] = {}
    stack: list[Any] = []
    for step in program:
        if step[0] in PASSES:
            if step not in tiles:
                tiles[step] = tile_of(step)
            stack.append(tiles[step])
        elif step[0] is Op.CONST:
            stack.append(np.float64(step[1]) if xp is np else xp.full_like(tile_of((Op.DOT, 0.0)), step[1]))
        else:
            operands = [stack.pop() for _ in range(2 if step[0] in _JOINS else 1)]
            stack.append(apply(step, *reversed(operands), xp=xp))
    return stack.pop() if tiles or xp is not np else np.full_like(tile_of((Op.DOT, 0.0)), stack.pop())


def is_nonnegative(program: Program) -> bool:
    """Return whether the program proves that no value is negative.

    Examples
    --------
    >>> is_nonnegative(((Op.SQDIST, 0.0), (Op.SCALE, -0.5), (Op.EXP, 0.0)))
    True
    >>> is_nonnegative(((Op.DOT, 0.0), (Op.SHIFT, 1.0)))
    False
    """
    stack: list[bool] = []
    for op, value in program:
        if op in _PUSHES:
            stack.append(value >= 0.0 if op is Op.CONST else op in _LENGTHS)
        elif op in _JOINS:
            second, first = stack.pop(), stack.pop()
            stack.append(first and second)
        elif op in (Op.EXP, Op.SQRT) or (op is Op.POWER and value % 2 == 0):
            stack[-1] = True
        elif op in (Op.SCALE, Op.SHIFT):
            stack[-1] = stack[-1] and value >= 0.0
        elif op is Op.LOG:
            stack[-1] = False
    return stack[-1]


def apply(step: Step, top: Any, *others: Any, xp: Any = np) -> Any:
    """Return the result of a step on its one or two operands, which are not changed; passes and CONST are refused."""
    op, value = step
    # Overflow is found in the result (by `finite`); a warning could not name the rows.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        match op:
            case Op.ADD:
                return top + others[0]
            case Op.MUL:
                return top * others[0]
            case Op.SCALE:
                return top * value
            case Op.SHIFT:
                return top + value
            case Op.POWER:
                return xp.pow(top, value)
            case Op.EXP:
                return xp.exp(top)
            case Op.TANH:
                return xp.tanh(top)
            case Op.SQRT:
                return xp.sqrt(xp.where(top < 0.0, 0.0, top))
            case Op.LOG:
                return xp.log(top)
    raise ValueError(f"{op.name} is not an operation on tiles")
