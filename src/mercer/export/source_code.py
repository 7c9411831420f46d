"""Formulas as source code of C99 and of JavaScript: loops over constant tables, without libraries.

Values that are as wide as a table of support vectors are not stored: a loop over the vectors computes each of them and
adds it to the sums that use it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from mercer.export.formula import (
    Choice,
    Columns,
    Concatenation,
    Constant,
    Input,
    Interpolation,
    Join,
    Node,
    Pairs,
    Pointwise,
    Reduction,
    Solution,
    Sorted,
    Votes,
    operands,
)
from mercer.export.kernel_formulas import NotExportableError
from mercer.kernels import Op

_MAX_NUMBERS = 20_000_000  # constants of a source file; they take about 20 bytes of text each
_LINE = 110  # characters of a line of constants

_JOINED = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "smaller": "{0} < {1} ? {0} : {1}",
    "larger": "{0} > {1} ? {0} : {1}",
    "exceeds": "{0} > {1} ? 1.0 : 0.0",
    "equals": "{0} == {1} ? 1.0 : 0.0",
}

_TERMS = {
    Op.DOT: "{a} * {b}",
    Op.SQDIST: "({a} - {b}) * ({a} - {b})",
    Op.L1: "{abs}({a} - {b})",
    Op.CHI2: "{a} + {b} == 0.0 ? 0.0 : ({a} - {b}) * ({a} - {b}) / ({a} + {b})",
    Op.HAMMING: "{a} == {b} ? 0.0 : 1.0",
    Op.MINIMUM: "{a} < {b} ? {a} : {b}",
}
"""What each feature adds to a pass."""


class Helper(NamedTuple):
    """A function of the source: its type, its parameters and its statements."""

    returns: str
    parameters: str
    body: str


HELPERS = {
    "power": Helper(
        "double",
        "double base, int exponent",
        """{number} result = 1.0;
for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent % 2 == 1) result *= base;
return result;""",
    ),
    "sort": Helper(
        "void",
        "double *values, int n",
        """for ({integer} i = 1; i < n; ++i) {
    {fixed} value = values[i];
    {integer} j = i;
    for (; j > 0 && values[j - 1] < value; --j) values[j] = values[j - 1];
    values[j] = value;
}""",
    ),
    "solve": Helper(
        "void",
        "double *matrix, double *solution, int n",
        """for ({integer} i = 0; i < n; ++i) solution[i] = 1.0;
for ({integer} i = 0; i < n; ++i)
    for ({integer} j = i + 1; j < n; ++j) {
        {fixed} factor = matrix[j * n + i] / matrix[i * n + i];
        for ({integer} k = i; k < n; ++k) matrix[j * n + k] -= factor * matrix[i * n + k];
        solution[j] -= factor * solution[i];
    }
for ({integer} i = n - 1; i >= 0; --i) {
    for ({integer} j = i + 1; j < n; ++j) solution[i] -= matrix[i * n + j] * solution[j];
    solution[i] /= matrix[i * n + i];
}""",
    ),
    "interpolate": Helper(
        "double",
        "double value, const double *knots, const double *values, int n",
        """{integer} low = 0, high = n - 1;
if (value <= knots[0]) return values[0];
if (value >= knots[n - 1]) return values[n - 1];
while (high - low > 1) {
    {fixed_integer} middle = (low + high) >> 1;
    if (knots[middle] <= value) low = middle;
    else high = middle;
}
return values[low] + (values[low + 1] - values[low]) / (knots[low + 1] - knots[low]) * (value - knots[low]);""",
    ),
}
"""Functions that formulas call, written for every language: words in braces are those of the language."""


class Language(ABC):
    """How constants, arrays and functions are written."""

    integer: str  # declares an integer variable
    fixed_integer: str  # declares an integer that does not change
    number: str  # declares a variable that changes
    fixed: str  # declares a variable that does not change
    unread: tuple[str, ...] = ()  # statements of a function that does not read its row
    functions: ClassVar[dict[str, str]]  # names of functions of one number

    @abstractmethod
    def array(self, name: str, width: int) -> str:
        """Return the declaration of an array that changes."""

    @abstractmethod
    def index(self, value: str) -> str:
        """Return a number of type double as an index."""

    @abstractmethod
    def table(self, name: str, values: Iterable[str], type_name: str = "double") -> str:
        """Return the declaration of a constant table."""

    @abstractmethod
    def function(self, name: str, returns: str, parameters: str, body: list[str], *, is_static: bool = True) -> str:
        """Return a function; its types are those of C."""

    def helper(self, name: str, full_name: str) -> str:
        """Return one of `HELPERS` under another name."""
        returns, parameters, body = HELPERS[name]
        for word in ("fixed_integer", "integer", "number", "fixed"):
            body = body.replace(f"{{{word}}}", getattr(self, word))
        return self.function(full_name, returns, parameters, body.splitlines())


class SourceWriter:
    """Tables and functions of one source file."""

    def __init__(self, language: Language, prefix: str) -> None:
        self.language, self.prefix = language, prefix
        self.tables: list[str] = []
        self.procedures: list[str] = []
        self.helpers: dict[str, str] = {}
        self.called: dict[Node, str] = {}
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []
        self._count = 0

    def table(self, values: Any, type_name: str = "double") -> str:
        """Return the name of a constant table, which is written once."""
        if id(values) not in self._names:
            flat = values.ravel().tolist()
            self._count += len(flat)
            if self._count > _MAX_NUMBERS:
                raise NotExportableError(
                    f"the formula has more than {_MAX_NUMBERS:,} constants, too many for a source file: use "
                    "to_onnx, or fewer support vectors (mercer.compact)."
                )
            name = f"{self.prefix}_table{len(self.tables)}"
            written = map(literal, flat) if type_name == "double" else map(str, flat)
            self.tables.append(self.language.table(name, written, type_name))
            self._names[id(values)] = name
            self._alive.append(values)  # so that another array does not get its id
        return self._names[id(values)]

    def helper(self, name: str) -> str:
        """Return the name of a function that formulas call, which is written once."""
        full = f"{self.prefix}_{name}"
        self.helpers[name] = self.language.helper(name, full)
        return full

    def procedure(self, name: str, node: Node, *, calls: bool = True) -> str:
        """Write the function that computes a formula, and return its name."""
        function = f"{self.prefix}_{name}"
        body = _Body(self, calls)
        source = body.array(node)
        body.loop(node.width, [f"out[i] = {source}[i];"])
        lines = body.lines if body.reads_row else [*body.lines, *self.language.unread]
        self.procedures.append(self.language.function(function, "void", "const double *x, double *out", lines))
        self.called[node] = function
        return function

    def text(self) -> str:
        """Return tables, helpers and functions."""
        return "\n\n".join([*self.tables, *self.helpers.values(), *self.procedures])


class _Body:
    """The statements of one function."""

    def __init__(self, writer: SourceWriter, calls: bool) -> None:
        self.writer, self.language = writer, writer.language
        self.lines: list[str] = []
        self.reads_row = False
        self._arrays: dict[Node, str] = {}
        self._calls = writer.called if calls else {}
        self._count = 0

    def loop(self, width: int, statements: list[str], variable: str = "i") -> None:
        """Write a loop, or for a single value its statements in a block."""
        integer = self.language.integer
        self.lines.append(f"for ({integer} {variable} = 0; {variable} < {width}; ++{variable}) {{")
        self.lines.extend(f"    {line}" for line in statements)
        self.lines.append("}")

    def array(self, node: Node) -> str:
        """Return the array of the node's values, which the statements so far have computed."""
        if node not in self._arrays:
            self._arrays[node] = self._written(node)
        return self._arrays[node]

    def _written(self, node: Node) -> str:
        if isinstance(node, Input):
            self.reads_row = True
            return "x"
        if isinstance(node, Constant):
            return self.writer.table(node.values)
        name, writer, language = self._name("a"), self.writer, self.language
        if node in self._calls:
            self.reads_row = True
            self.lines += [language.array(name, node.width), f"{self._calls[node]}(x, {name});"]
            return name
        match node:
            case Pairs() if self._is_accumulated(node):
                self._prepare(node.of, node.of.width)
                table, rows = writer.table(node.table), node.width
                lines, value = self._value(node.of)
                lines.append(f"for ({language.integer} j = 0; j < {rows}; ++j) {{")
                lines += [f"    {name}[j] += {table}[j * {node.of.width} + i] * {value};", "}"]
                self._zeros(name, node.width)
                self.loop(node.of.width, lines)
            case Concatenation():
                sources = [(self.array(part), part.width) for part in node.parts]
                self.lines.append(language.array(name, node.width))
                first = 0
                for source, width in sources:
                    self.loop(width, [f"{name}[{first} + i] = {source}[i];"])
                    first += width
            case Reduction():
                self._prepare(node.of, node.of.width)
                lines, value = self._value(node.of)
                self._reduce(node.function, name, node.of.width, lines, value)
            case Sorted():
                source = self.array(node.of)
                self.lines.append(language.array(name, node.width))
                self.loop(node.width, [f"{name}[i] = {source}[i];"])
                self.lines.append(f"{writer.helper('sort')}({name}, {node.width});")
            case Solution():
                source = self.array(node.matrix)
                self.lines += [language.array(name, node.width), language.array(f"{name}m", node.matrix.width)]
                self.loop(node.matrix.width, [f"{name}m[i] = {source}[i];"])
                self.lines.append(f"{writer.helper('solve')}({name}m, {name}, {node.width});")
            case Interpolation():
                source, knots, values = self.array(node.of), writer.table(node.knots), writer.table(node.values)
                call = f"{writer.helper('interpolate')}({source}[0], {knots}, {values}, {node.knots.size})"
                self.lines += [language.array(name, 1), f"{name}[0] = {call};"]
            case Votes():
                self._count_votes(node, name)
            case _:
                self._prepare(node, node.width)
                lines, value = self._value(node)
                self.lines.append(language.array(name, node.width))
                self.loop(node.width, [*lines, f"{name}[i] = {value};"])
        return name

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _zeros(self, name: str, width: int) -> None:
        self.lines.append(self.language.array(name, width))
        self.loop(width, [f"{name}[i] = 0.0;"])

    def _reduce(self, function: str, name: str, width: int, lines: list[str], value: str) -> None:
        number, integer = self.language.number, self.language.integer
        self.lines.append(self.language.array(name, 1))
        if function == "sum":
            self.lines.append(f"{name}[0] = 0.0;")
            self.loop(width, [*lines, f"{name}[0] += {value};"])
            return
        best, place = self._name("best"), self._name("place")
        self.lines.append(f"{number} {best} = 0.0;")
        remember = f"{best} = {value};"
        if function == "place":
            self.lines.append(f"{integer} {place} = 0;")
            remember += f" {place} = i;"
        self.loop(width, [*lines, f"if (i == 0 || {value} > {best}) {{ {remember} }}"])
        self.lines.append(f"{name}[0] = {best if function == 'largest' else place};")

    def _count_votes(self, node: Votes, name: str) -> None:
        """Write a loop that remembers the smallest values, in order, and the classes of their places."""
        self._prepare(node.of, node.of.width)
        codes = self.writer.table(node.codes, "int")
        lines, value = self._value(node.of)
        near, votes, filled = self._name("near"), self._name("votes"), self._name("filled")
        integer, count = self.language.integer, node.count
        self.lines += [self.language.array(near, count), self.language.array(votes, count)]
        self.lines.append(f"{integer} {filled} = 0;")
        lines += [
            f"if ({filled} < {count} || {value} < {near}[{count - 1}]) {{",
            f"    {integer} j = {filled} < {count} ? {filled}++ : {count - 1};",
            f"    for (; j > 0 && {near}[j - 1] > {value}; --j) {{",
            f"        {near}[j] = {near}[j - 1];",
            f"        {votes}[j] = {votes}[j - 1];",
            "    }",
            f"    {near}[j] = {value};",
            f"    {votes}[j] = {codes}[i];",
            "}",
        ]
        self.loop(node.of.width, lines)
        self._zeros(name, node.width)
        self.loop(count, [f"{name}[{self.language.index(f'{votes}[i]')}] += 1.0;"])

    def _is_accumulated(self, node: Pairs) -> bool:
        """Whether the sums are computed in a loop over what they add, because that is not stored."""
        is_stored = node.of in self._arrays or isinstance(node.of, Input | Constant) or node.of in self._calls
        return node.op is Op.DOT and not is_stored and node.width <= node.of.width

    def _is_inline(self, node: Node, width: int) -> bool:
        """Whether the value is computed inside the loop that uses it."""
        if node in self._arrays or node in self._calls or node.width != width:
            return False
        if isinstance(node, Pairs):
            return not self._is_accumulated(node)
        return isinstance(node, Pointwise | Join | Choice | Columns)

    def _prepare(self, node: Node, width: int) -> None:
        """Compute the arrays that the values of the node read, before the loop over these values."""
        if isinstance(node, Constant):
            if node.width > 1:
                self.array(node)
            return
        if not self._is_inline(node, width):
            self.array(node)
            return
        for one in operands(node):
            if isinstance(node, Pairs | Columns):
                self.array(one)
            else:
                self._prepare(one, width)

    def _value(self, node: Node) -> tuple[list[str], str]:
        """Return the statements of a loop over i that compute the node's value, and the value."""
        lines: list[str] = []
        return lines, self._expression(node, lines, {})

    def _expression(self, node: Node, lines: list[str], name_of: dict[Node, str]) -> str:
        if isinstance(node, Constant) and node.width == 1:
            return literal(float(node.values[0]))
        if node in self._arrays:
            return f"{self._arrays[node]}[{'i' if node.width > 1 else '0'}]"
        if node not in name_of:
            name_of[node] = self._computed(node, lines, name_of)
        return name_of[node]

    def _computed(self, node: Node, lines: list[str], name_of: dict[Node, str]) -> str:
        language, name = self.language, self._name("v")
        if isinstance(node, Pairs):
            row, table, width = self._arrays[node.of], self.writer.table(node.table), node.of.width
            term = _TERMS[node.op].format(a=f"{row}[k]", b=f"{table}[i * {width} + k]", abs=language.functions["abs"])
            lines.append(f"{language.number} {name} = 0.0;")
            lines.append(f"for ({language.integer} k = 0; k < {width}; ++k) {name} += {term};")
            return name
        match node:
            case Columns():
                value = f"{self._arrays[node.of]}[{self.writer.table(node.places, 'int')}[i]]"
            case Pointwise():
                value = self._of_one(node, self._expression(node.of, lines, name_of))
            case Join():
                sides = (self._expression(one, lines, name_of) for one in (node.left, node.right))
                value = _JOINED[node.function].format(*sides)
            case Choice():
                condition, first, second = (self._expression(one, lines, name_of) for one in operands(node))
                value = f"{condition} != 0.0 ? {first} : {second}"
            case _:
                raise AssertionError(node)
        lines.append(f"{language.fixed} {name} = {value};")
        return name

    def _of_one(self, node: Pointwise, value: str) -> str:
        functions = self.language.functions
        match node.function:
            case "scale":
                return f"{value} * {literal(node.number)}"
            case "shift":
                return f"{value} + {literal(node.number)}"
            case "power":
                return f"{self.writer.helper('power')}({value}, {int(node.number)})"
            case "sqrt":
                return f"{functions['sqrt']}({value} > 0.0 ? {value} : 0.0)"
            case "is_nan":
                return f"{value} != {value} ? 1.0 : 0.0"
        return f"{functions[node.function]}({value})"


def literal(value: float) -> str:
    """Return a number with the digits that give the same float64 when read."""
    if not math.isfinite(value):
        raise NotExportableError(f"the formula has the constant {value!r}, which source code cannot hold.")
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def wrapped(values: Iterable[str]) -> list[str]:
    """Return lines of values with commas between them."""
    lines, line = [], ""
    for value in values:
        if line and len(line) + len(value) > _LINE:
            lines.append(line.rstrip())
            line = ""
        line += f"{value}, "
    return [*lines, line.rstrip(", ")]
