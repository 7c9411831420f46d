"""The words of C99 and of JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from mercer.export.source_code import Language, wrapped


class C(Language):
    """C99, with ``math.h`` only."""

    integer, fixed_integer, number, fixed = "int", "const int", "double", "const double"
    functions: ClassVar = {"abs": "fabs", **{name: name for name in ("exp", "tanh", "sqrt", "log", "cos", "sin")}}
    unread = ("(void)x;",)

    def array(self, name: str, width: int) -> str:
        """Return the declaration of an array that changes."""
        return f"double {name}[{width}];"

    def index(self, value: str) -> str:
        """Return a number of type double as an index."""
        return f"(int){value}"

    def table(self, name: str, values: Iterable[str], type_name: str = "double") -> str:
        """Return the declaration of a constant table."""
        return "\n".join([f"static const {type_name} {name}[] = {{", *wrapped(values), "};"])

    def function(self, name: str, returns: str, parameters: str, body: list[str], *, is_static: bool = True) -> str:
        """Return a function."""
        head = f"{returns if returns.endswith('*') else f'{returns} '}{name}({parameters})"
        return "\n".join([f"static {head}" if is_static else head, "{", *(f"    {line}" for line in body), "}"])


class JavaScript(Language):
    """JavaScript, with ``Math`` only."""

    integer, fixed_integer, number, fixed = "let", "const", "let", "const"
    functions: ClassVar = {name: f"Math.{name}" for name in ("abs", "exp", "tanh", "sqrt", "log", "cos", "sin")}

    def array(self, name: str, width: int) -> str:
        """Return the declaration of an array that changes."""
        return f"const {name} = new Float64Array({width});"

    def index(self, value: str) -> str:
        """Return a number as an index."""
        return value

    def table(self, name: str, values: Iterable[str], type_name: str = "double") -> str:
        """Return the declaration of a constant table."""
        before, after = {"double": ("new Float64Array([", "])"), "int": ("new Int32Array([", "])")}.get(
            type_name, ("[", "]")
        )
        return "\n".join([f"const {name} = {before}", *wrapped(values), f"{after};"])

    def function(self, name: str, returns: str, parameters: str, body: list[str], *, is_static: bool = True) -> str:
        """Return a function; types are left out, and numbers are compared without conversion."""
        del returns, is_static
        names = ", ".join(re.findall(r"(\w+)(?:, |$)", parameters))
        lines = (re.sub(r" ([=!])= ", r" \1== ", f"    {line}") for line in body)
        return "\n".join([f"function {name}({names}) {{", *lines, "}"])
