"""Kernel values between a row and given rows as a formula, from the kernel's own program over tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.export.formula import (
    Node,
    apply,
    choose,
    columns,
    concatenate,
    constant,
    join,
    largest,
    linear,
    pairs,
    total,
)
from mercer.gram.native import exponent_span_of
from mercer.kernels import Centered, Exp, Kernel, Normalized, On, Op
from mercer.kernels.algebra import Composite
from mercer.kernels.kernel import restored_rows
from mercer.kernels.program import OVERLAPS, PASSES, Program
from mercer.kernels.transforms import ZERO_SHARE
from mercer.kernels.views import After, Column, Columns, Directions, Projected, View, seen
from mercer.multiclass import Coefficients, PairCoefficients

_FUNCTIONS = {
    Op.SCALE: "scale",
    Op.SHIFT: "shift",
    Op.POWER: "power",
    Op.EXP: "exp",
    Op.TANH: "tanh",
    Op.SQRT: "sqrt",
    Op.LOG: "log",
}


_MAX_SPAN = 200.0
"""Largest change of the logarithm of a kernel value by squared distances to the mean. Distances are then computed from
inner products where that is faster: two roundings of 1.1e-16 each, times this, change a value by less than 1e-13."""


class NotExportableError(ValueError):
    """A machine, a kernel or a column that has no formula; the message names it, and what has one."""


EXPORTABLE = (
    "kernels of rows of numbers have a formula: RBF, Linear, Polynomial, Sigmoid, Laplacian, ChiSquared, Hamming, "
    "Matern, RationalQuadratic, Cosine, HistogramIntersection, Tanimoto, Dice, Bilinear, and their sums, products, "
    "powers, exponentials, restrictions to columns, normalize() and center()"
)


class RowFormulas:
    """Formulas of kernel values of one row; what several of them read, such as its length, is computed once."""

    def __init__(self, row: Node) -> None:
        self.row = row
        self._views: dict[View, Node] = {}

    def values(self, kernel: Kernel, rows: Vectors) -> Node:
        """Return the kernel values between the row and each of the given rows."""
        program = program_of(kernel)
        by_products = rows.n > 0 and exponent_span_of(program, rows) <= _MAX_SPAN

        def tile(op: Op, view: View | float) -> Node:
            viewed = self.view(view)
            given = _dense(seen(view, rows))
            if op is Op.SUM:
                return total(viewed) + constant(given.sum(axis=1))
            if op in OVERLAPS:
                both, shared = total(viewed) + constant(given.sum(axis=1)), pairs(Op.MINIMUM, viewed, given)
                above, below = (shared, both + shared * -1.0) if op is Op.TANIMOTO else (shared * 2.0, both)
                is_positive = join("exceeds", both, 0.0)
                return choose(is_positive, above / choose(is_positive, below, 1.0), 1.0)
            return pairs(op, viewed, given, by_products=by_products and op is Op.SQDIST)

        terms = _interpreted(program, tile)
        return terms if terms.width == rows.n else terms + constant(np.zeros(rows.n))

    def length(self, kernel: Kernel) -> Node:
        """Return k(x, x)."""
        return _interpreted(program_of(kernel), lambda op, view: _itself(op, self.view(view)))

    def view(self, view: View | float) -> Node:
        """Return the numbers of the row that a pass with this argument reads."""
        if not isinstance(view, View):
            return self.row
        if view not in self._views:
            self._views[view] = self._viewed(view)
        return self._views[view]

    def _viewed(self, view: View) -> Node:
        match view:
            case Columns():
                return columns(self.row, view.chosen)
            case After():
                return RowFormulas(self.view(view.first)).view(view.then)
            case Projected():
                return linear(self.row, np.array(view.matrix).T)
            case Directions():
                return _divided(_divided(self.row, largest(apply("abs", self.row))), None)
            case Column():
                if isinstance(view.key, Normalized):
                    return self._inverse_length(view.key.kernel)
                if isinstance(view.key, Centered):
                    return self._shift(view.key)
        raise NotExportableError(f"{view!r} calls a Python function, which has no formula; {EXPORTABLE}.")

    def _inverse_length(self, kernel: Kernel) -> Node:
        square = self.length(kernel)
        is_positive = join("exceeds", square, self._magnitude(kernel) * ZERO_SHARE)
        return choose(is_positive, constant(1.0) / apply("sqrt", choose(is_positive, square, 1.0)), 0.0)

    def _shift(self, kernel: Centered) -> Node:
        """Return what a centred kernel adds to a kernel value for this row."""
        assert kernel.reference is not None
        rows = kernel.reference.rows
        assert isinstance(rows, Vectors)
        mean = linear(self.values(kernel.evaluated, rows), kernel.reference.weights[None])
        return mean * -1.0 + 0.5 * kernel.level

    def _magnitude(self, kernel: Kernel) -> Node:
        """Return the rounding scale of k(x, x); see `Kernel.magnitudes`."""
        match kernel:
            case Centered():
                return self._magnitude(kernel.evaluated) + apply("abs", self._shift(kernel)) * 2.0 + abs(kernel.level)
            case Normalized():
                inverse = self._inverse_length(kernel.kernel)
                return self._magnitude(kernel.kernel) * inverse * inverse
            case On():
                return RowFormulas(columns(self.row, kernel.columns))._magnitude(kernel.kernel)
            case Exp():
                return self.length(kernel) * (self._magnitude(kernel.kernel) + 1.0)
            case Composite() if kernel.loses_digits:
                first, *others = [self._magnitude(part) for part in kernel.parts]
                if not others:
                    return _applied(kernel.step, first)
                for other in others:
                    first = _joined(kernel.step[0], first, other)
                return first
        return apply("abs", self.length(kernel))


def kernel_sum(
    row_formulas: RowFormulas, kernel: Kernel, rows: Vectors, coefficients: Coefficients, biases: FloatArray
) -> Node:
    """Return the decision values sum_j coefficients[j, k] k(x, s_j) + b_k."""
    if not rows.n:
        return constant(biases)
    if not isinstance(coefficients, PairCoefficients):
        return linear(row_formulas.values(kernel, rows), coefficients.T) + constant(biases)
    places = np.full((2, biases.size), -1)
    parts: list[Node] = []
    width = 0
    for group in coefficients.groups():
        assert group.vectors is not None
        sums = linear(row_formulas.values(kernel, rows.rows(group.vectors)), group.coefficients.T)
        for place, machine in enumerate(np.asarray(group.machines).tolist()):
            places[0 if places[0, machine] < 0 else 1, machine] = width + place
        parts.append(sums)
        width += sums.width
    # Every machine is the sum of two groups; the last column stands for a class without support vectors.
    every = concatenate([*parts, constant(0.0)])
    first, second = np.where(places < 0, width, places)
    return columns(every, first) + columns(every, second) + constant(biases)


def rows_of(kernel: Kernel, stored: Any) -> Vectors:
    """Return stored rows of numbers, such as support vectors."""
    rows = restored_rows(kernel, stored)
    if not isinstance(rows, Vectors):
        raise NotExportableError(f"{kernel!r} has no formula of the columns of a row: its rows are not numbers.")
    return rows


def program_of(kernel: Kernel) -> Program:
    """Return the program of a kernel of rows of numbers.

    Raises
    ------
    NotExportableError
        If the kernel has no program.
    """
    program = None if kernel.is_structured or kernel.takes_values or kernel.takes_any_rows else kernel.lower()
    if program is None:
        raise NotExportableError(f"{kernel!r} has no formula of the columns of a row; {EXPORTABLE}.")
    return program


def _interpreted(program: Program, tile: Callable[[Op, Any], Node]) -> Node:
    tiles: dict[object, Node] = {}
    stack: list[Node] = []
    for step in program:
        op, value = step
        if op in PASSES:
            if step not in tiles:
                tiles[step] = tile(op, value)
            stack.append(tiles[step])
        elif op is Op.CONST:
            stack.append(constant(value))
        elif op in (Op.ADD, Op.MUL):
            right = stack.pop()
            stack.append(_joined(op, stack.pop(), right))
        else:
            stack.append(_applied(step, stack.pop()))
    return stack.pop()


def _joined(op: Op, left: Node, right: Node) -> Node:
    return join("add" if op is Op.ADD else "multiply", left, right)


def _applied(step: tuple[Op, float], top: Node) -> Node:
    return apply(_FUNCTIONS[step[0]], top, step[1])


def _itself(op: Op, row: Node) -> Node:
    """Return the value of a pass between a row and itself."""
    match op:
        case Op.DOT:
            return total(row * row)
        case Op.MINIMUM:
            return total(row)
        case Op.SUM:
            return total(row) * 2.0
        case Op.TANIMOTO | Op.DICE:
            return constant(1.0)
    return constant(0.0)


def _divided(row: Node, by: Node | None) -> Node:
    """Return the numbers divided by one number, or by their length; unchanged if that is 0."""
    divisor = apply("sqrt", total(row * row)) if by is None else by
    return row / choose(join("exceeds", divisor, 0.0), divisor, 1.0)


def _dense(rows: Vectors) -> FloatArray:
    return np.asarray(rows.dense(), dtype=np.float64)
