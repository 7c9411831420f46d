"""What a machine computes from one row, as a formula: a graph of values that a printer writes in another language.

A node is one number, or several numbers, of every row. Sums and products of nodes are nodes. A node with one
number is repeated where another node has more. Operations on constants alone are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.kernels import Op

FUNCTIONS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "scale": lambda values, number: values * number,
    "shift": lambda values, number: values + number,
    "power": lambda values, number: values**number,
    "exp": lambda values, _: np.exp(values),
    "tanh": lambda values, _: np.tanh(values),
    "sqrt": lambda values, _: np.sqrt(np.maximum(values, 0.0)),
    "log": lambda values, _: np.log(values),
    "abs": lambda values, _: np.abs(values),
    "cos": lambda values, _: np.cos(values),
    "sin": lambda values, _: np.sin(values),
    "is_nan": lambda values, _: np.isnan(values).astype(np.float64),
}
"""Functions of one number and a constant; "sqrt" is 0 for negative numbers."""

JOINS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "smaller": np.minimum,
    "larger": np.maximum,
    "exceeds": lambda left, right: np.greater(left, right).astype(np.float64),
    "equals": lambda left, right: np.equal(left, right).astype(np.float64),
}
"""Functions of two numbers; the last two are 1 or 0."""


@dataclass(frozen=True, eq=False)
class Node:
    """Some numbers of a row.

    Attributes
    ----------
    width : int
        How many there are.
    """

    width: int

    def __add__(self, other: Node | float) -> Node:
        return join("add", self, other) if isinstance(other, Node) else apply("shift", self, other)

    def __sub__(self, other: Node | float) -> Node:
        return join("subtract", self, other) if isinstance(other, Node) else apply("shift", self, -other)

    def __mul__(self, other: Node | float) -> Node:
        return join("multiply", self, other) if isinstance(other, Node) else apply("scale", self, other)

    def __truediv__(self, other: Node) -> Node:
        return join("divide", self, other)


@dataclass(frozen=True, eq=False)
class Input(Node):
    """The columns of the row."""


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """The same numbers for every row, (width,)."""

    values: FloatArray


@dataclass(frozen=True, eq=False)
class Pairs(Node):
    """A pass of a kernel program: an inner product or a distance to every row of a table, (width, of.width).

    `by_products` says that squared distances may be computed from inner products of the rows minus their mean, which
    is faster with matrices: the rounding of this does not matter to the kernel.
    """

    op: Op
    of: Node
    table: FloatArray
    by_products: bool = False


@dataclass(frozen=True, eq=False)
class Pointwise(Node):
    """A function of every number; `function` is a key of `FUNCTIONS`."""

    function: str
    of: Node
    number: float


@dataclass(frozen=True, eq=False)
class Join(Node):
    """A function of two numbers at a time; `function` is a key of `JOINS`."""

    function: str
    left: Node
    right: Node


@dataclass(frozen=True, eq=False)
class Choice(Node):
    """The first number if the condition is not 0, otherwise the second."""

    condition: Node
    first: Node
    second: Node


@dataclass(frozen=True, eq=False)
class Columns(Node):
    """Some of the numbers, in the order of `places`."""

    of: Node
    places: IndexArray


@dataclass(frozen=True, eq=False)
class Concatenation(Node):
    """The numbers of all parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Reduction(Node):
    """One number of all: their "sum", the "largest", or the "place" of the largest (the first if several are)."""

    function: str
    of: Node


@dataclass(frozen=True, eq=False)
class Sorted(Node):
    """The numbers in descending order."""

    of: Node


@dataclass(frozen=True, eq=False)
class Solution(Node):
    """The x with M x = 1, where the numbers of `matrix` are the rows of a positive definite M."""

    matrix: Node


@dataclass(frozen=True, eq=False)
class Interpolation(Node):
    """The function through (knots, values), linear between them and constant beyond, of one number."""

    of: Node
    knots: FloatArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Votes(Node):
    """How many of the `count` smallest numbers belong to each class; of equal numbers the first are taken first."""

    of: Node
    codes: IndexArray
    count: int


def constant(values: npt.ArrayLike) -> Constant:
    """Return a node of constant numbers."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return Constant(array.size, array)


def pairs(op: Op, of: Node, table: npt.ArrayLike, *, by_products: bool = False) -> Node:
    """Return the values of a pass between the row and every row of a table."""
    rows = np.ascontiguousarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != of.width:
        raise ValueError(f"the table of a pass must have {of.width} columns, got shape {rows.shape}")
    return Pairs(len(rows), op, of, rows, by_products)


def linear(of: Node, coefficients: npt.ArrayLike) -> Node:
    """Return the sums of the numbers times coefficients, one sum for each row of coefficients."""
    return pairs(Op.DOT, of, coefficients)


def apply(function: str, of: Node, number: float = 0.0) -> Node:
    """Return a function of every number."""
    if isinstance(of, Constant):
        with np.errstate(all="ignore"):
            return constant(FUNCTIONS[function](of.values, number))
    if (function, number) in (("scale", 1.0), ("shift", 0.0), ("power", 1.0)):
        return of
    return Pointwise(of.width, function, of, float(number))


def join(function: str, left: Node | float, right: Node | float) -> Node:
    """Return a function of two numbers at a time."""
    one, other = (side if isinstance(side, Node) else constant(side) for side in (left, right))
    width = max(one.width, other.width)
    if {one.width, other.width} - {1, width}:
        raise ValueError(f"numbers of {one.width} and {other.width} columns cannot be joined")
    if isinstance(one, Constant) and isinstance(other, Constant):
        with np.errstate(all="ignore"):
            return constant(JOINS[function](one.values, other.values))
    return Join(width, function, one, other)


def choose(condition: Node, first: Node | float, second: Node | float) -> Node:
    """Return the first number if the condition is not 0, otherwise the second."""
    one, other = (side if isinstance(side, Node) else constant(side) for side in (first, second))
    width = max(condition.width, one.width, other.width)
    if isinstance(condition, Constant) and isinstance(one, Constant) and isinstance(other, Constant):
        return constant(np.where(condition.values != 0.0, one.values, other.values))
    return Choice(width, condition, one, other)


def columns(of: Node, places: npt.ArrayLike) -> Node:
    """Return some of the numbers, in this order."""
    chosen = np.atleast_1d(np.asarray(places, dtype=np.int64))
    if chosen.size == of.width and (chosen == np.arange(of.width)).all():
        return of
    return constant(of.values[chosen]) if isinstance(of, Constant) else Columns(chosen.size, of, chosen)


def concatenate(parts: Sequence[Node]) -> Node:
    """Return the numbers of all parts."""
    if len(parts) == 1:
        return parts[0]
    return Concatenation(sum(part.width for part in parts), tuple(parts))


def total(of: Node) -> Node:
    """Return the sum of the numbers."""
    return constant(of.values.sum()) if isinstance(of, Constant) else Reduction(1, "sum", of)


def largest(of: Node) -> Node:
    """Return the largest number."""
    return of if of.width == 1 else Reduction(1, "largest", of)


def place_of_largest(of: Node) -> Node:
    """Return the place of the largest number, counted from 0; of the first if several are."""
    return Reduction(1, "place", of)


def is_not_negative(of: Node) -> Node:
    """Return 1 if a number is at least 0, otherwise 0."""
    return join("exceeds", constant(0.0), of) * -1.0 + 1.0


def logistic(of: Node) -> Node:
    """Return 1 / (1 + exp(-z))."""
    return constant(1.0) / (apply("exp", of * -1.0) + 1.0)


def operands(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node is computed from."""
    match node:
        case Join():
            return node.left, node.right
        case Choice():
            return node.condition, node.first, node.second
        case Concatenation():
            return node.parts
        case Solution():
            return (node.matrix,)
        case Pairs() | Pointwise() | Columns() | Reduction() | Sorted() | Interpolation() | Votes():
            return (node.of,)
    return ()
