"""Programs in C99 and JavaScript that predict what a fitted machine predicts."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer.export.formula import Constant
from mercer.export.kernel_formulas import NotExportableError
from mercer.export.languages import C, JavaScript
from mercer.export.machine_formulas import MachineFormula, machine_formula
from mercer.export.source_code import SourceWriter, literal

_RESERVED = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main await "
    "class debugger delete export extends false finally function import in instanceof let new null super this throw "
    "true try typeof var with yield module exports require undefined NaN Infinity Math Array Float64Array"
)
_LONGEST_LABEL = 4000  # bytes; C99 promises literals of 4095
_SAFE_INTEGER = 2**53 - 1  # the largest integer that JavaScript's numbers hold exactly with all smaller ones


class _Function(NamedTuple):
    """A function that the user calls."""

    name: str
    about: str
    result: str  # "values", "number", "label" or "side"
    procedure: str
    width: int


def to_c(model: Any, *, name: str = "model") -> str:
    """Return C99 source that computes what a fitted machine predicts, in double precision, without libraries.

    Parameters
    ----------
    model : estimator
        A fitted classifier, regressor or novelty detector of mercer with a kernel of rows of numbers, a pipeline of
        scalers or feature maps that ends in one, or a search for one.
    name : str, default="model"
        Beginning of the names of all functions and tables.

    Returns
    -------
    str
        The source of one file. It needs ``math.h`` (``-lm``) only, allocates no memory and has no state: several
        threads may call its functions. The comment at its top lists the functions.

    Raises
    ------
    NotExportableError
        If a kernel or a step has no formula; the message names it, and what has one. It is a `ValueError`.
    NotFittedError
        Before `fit`.
    ValueError
        If `name` is not an identifier.

    Notes
    -----
    Results equal those of the machine up to the rounding of sums. The functions do not check their input: NaN in a
    column gives NaN or any class, and the kernels of histograms need columns that are not negative.

    Examples
    --------
    >>> from mercer import SVC, to_c
    >>> source = to_c(SVC().fit([[0.0], [1.0], [2.0]], ["low", "low", "high"]))
    >>> "const char *model_predict(const double *x)" in source
    True
    """
    formula, writer, functions = _written(model, SourceWriter(C(), _checked_name(name)))
    language, parts, heads = writer.language, [], []
    type_name, labels = _c_labels(formula.classes)
    if formula.classes is not None:
        parts.append(language.table(f"{name}_labels", labels, "char *const" if "*" in type_name else type_name))
    for one in functions:
        call, parameters = f"{one.procedure}(x, values);", "const double *x"
        last = {
            "number": "return values[0];",
            "label": f"return {name}_labels[(int)values[0]];",
            "side": "return values[0] > 0.0 ? 1 : -1;",
        }
        returns = {"values": "void", "number": "double", "label": type_name, "side": "int"}[one.result]
        if one.result == "values":
            parameters, body = f"{parameters}, double *values", [call]
        else:
            body = ["double values[1];", call, last[one.result]]
        parts.append(language.function(one.name, returns, parameters, body, is_static=False))
        head = parts[-1].splitlines()[0]
        heads.append(f"{head};  /{one.about}/")
    top = ["/*", *(f" * {line}".rstrip() for line in _about(formula, heads)), " */"]
    return "\n\n".join(["\n".join(top), "#include <math.h>", writer.text(), *parts]) + "\n"


def to_javascript(model: Any, *, name: str = "model") -> str:
    """Return JavaScript source that computes what a fitted machine predicts, in double precision, without libraries.

    Parameters
    ----------
    model : estimator
        See :func:`to_c`.
    name : str, default="model"
        Name of the object whose methods are `predict`, `decision` and `probabilities`; a method is missing if the
        machine has no such result. It also has `labels`, the classes in the order of the probabilities.

    Returns
    -------
    str
        The source of one file, for a ``script`` element, or for ``require`` of Node.js.

    Raises
    ------
    NotExportableError, NotFittedError, ValueError
        See :func:`to_c`.

    Notes
    -----
    See :func:`to_c`.

    Examples
    --------
    >>> from mercer import SVR, to_javascript
    >>> print(to_javascript(SVR().fit([[0.0], [1.0]], [0.0, 1.0]), name="price").splitlines()[-1])
    if (typeof module !== "undefined") module.exports = price;
    """
    formula, writer, functions = _written(model, SourceWriter(JavaScript(), _checked_name(name)))
    methods, heads = [], []
    for one in functions:
        result = {
            "values": "Array.from(values)",
            "number": "values[0]",
            "label": f"{name}_labels[values[0]]",
            "side": "values[0] > 0.0 ? 1 : -1",
        }[one.result]
        method = one.name.removeprefix(f"{name}_")
        body = [f"const values = new Float64Array({one.width});", f"{one.procedure}(x, values);", f"return {result};"]
        methods.append("\n".join([f"{method}(x) {{", *(f"    {line}" for line in body), "},"]))
        heads.append(f"{name}.{method}(x)  /{one.about}/")
    labels = ""
    if formula.classes is not None:
        labels = writer.language.table(f"{name}_labels", _javascript_labels(formula.classes), "any")
        methods.append(f"labels: {name}_labels,")
    inner = "\n\n".join(part for part in (writer.text(), labels) if part)
    members = "\n".join(f"    {line}".rstrip() for method in methods for line in method.splitlines())
    top = ["/*", *(f" * {line}".rstrip() for line in _about(formula, heads)), " */"]
    lines = ["\n".join(top), f"const {name} = (function () {{", '"use strict";', "", inner, "", "return {", members]
    return "\n".join([*lines, "};", "})();", f'if (typeof module !== "undefined") module.exports = {name};']) + "\n"


def _written(model: Any, writer: SourceWriter) -> tuple[MachineFormula, SourceWriter, list[_Function]]:
    """Write the tables and procedures of a model, and return the functions that the user calls."""
    formula, prefix = machine_formula(model), writer.prefix
    functions: list[_Function] = []
    if formula.shared is not None and not isinstance(formula.shared, Constant):
        writer.procedure("shared", formula.shared)
    if formula.values is not None:
        width = formula.values.width
        name = "predict" if formula.kind == "regressor" else "decision"
        about = "the prediction" if formula.kind == "regressor" else "the decision function"
        is_number = formula.kind == "regressor" and width == 1
        about += "" if width == 1 else f", {width} numbers"
        procedure = writer.procedure("of_values", formula.values)
        functions.append(_Function(f"{prefix}_{name}", about, "number" if is_number else "values", procedure, width))
    if formula.probabilities is not None:
        procedure, width = writer.procedure("of_probabilities", formula.probabilities), formula.probabilities.width
        about = f"the probabilities of the {width} classes, in the order of the labels"
        functions.append(_Function(f"{prefix}_probabilities", about, "values", procedure, width))
    if formula.place is not None:
        procedure = writer.procedure("of_place", formula.place)
        is_class = formula.classes is not None
        about = "the label of the predicted class" if is_class else "1 inside and -1 outside"
        functions.append(_Function(f"{prefix}_predict", about, "label" if is_class else "side", procedure, 1))
    return formula, writer, functions


def _about(formula: MachineFormula, heads: list[str]) -> list[str]:
    """Return the lines of the comment at the top of a source."""
    lines = [*formula.lines, "", *(head[:-1].replace("  /", "\n    ", 1) for head in heads)]
    plain = "\n".join(lines).replace("*/", "* /").replace("/*", "/ *")
    return re.sub(r"[^\n\x20-\x7e]", "?", plain).replace("??", "? ?").splitlines()


def _checked_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) is None or name in _RESERVED.split():
        raise ValueError(f"name must be an identifier of C and JavaScript such as 'model', got {name!r}.")
    return name


def _c_labels(classes: npt.NDArray[Any] | None) -> tuple[str, list[str]]:
    """Return the type of labels in C, and the labels."""
    values = [] if classes is None else classes.tolist()
    if all(isinstance(one, bool) for one in values):
        return "int", [str(int(one)) for one in values]
    if all(isinstance(one, int) for one in values):
        if any(abs(one) >= 2**63 for one in values):
            raise NotExportableError("labels beyond 63 bits have no type in C: fit on smaller labels, or on text.")
        return "long long", [f"{one}LL" for one in values]
    if all(isinstance(one, float) for one in values):
        return "double", [literal(one) for one in values]
    return "const char *", [_c_text(str(one)) for one in values]


def _c_text(text: str) -> str:
    """Return a literal of C: bytes of UTF-8, with escapes for all that is not plain."""
    encoded = text.encode(errors="surrogatepass")
    is_unicode = not any("\ud800" <= letter <= "\udfff" for letter in text)
    if b"\0" in encoded or len(encoded) > _LONGEST_LABEL or not is_unicode:
        raise NotExportableError(
            f"the label {text[:40]!r} holds a zero byte or half a character, or is too long for a literal of C."
        )
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in encoded)
    return f'"{"".join(plain)}"'


def _javascript_labels(classes: npt.NDArray[Any]) -> list[str]:
    values = classes.tolist()
    if any(isinstance(one, int) and abs(one) > _SAFE_INTEGER for one in values):
        raise NotExportableError(
            "labels beyond 53 bits are not exact in JavaScript: fit on smaller labels, or on text."
        )
    if any(isinstance(one, float) and not np.isfinite(one) for one in values):
        raise NotExportableError("labels that are not finite have no JavaScript: fit on text.")
    return [json.dumps(one if isinstance(one, bool | int | float) else str(one)) for one in values]
