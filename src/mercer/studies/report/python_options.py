"""Options of the command line in texts, as the parameters that they are in Python."""

from __future__ import annotations

import re
import shlex

_NAMES = (
    "approximation|categorical|class-weight|copies|cost|dates|date-order|drop|folds|groups|keep-sealed|keep|merge|missing|na|rare|"
    "repeats|scoring|task|text|time"
)
_VALUE = r"'[^']*'(?:\"'\"'[^']*')*|(?!(?:or|and|with|it|opens)\b)-?\w[\w.:=,%-]*"
_OPTION = re.compile(rf"(?<![\w-])--({_NAMES})(?![\w-])(?:[ =]({_VALUE}))?")
_FLAGS = ("keep-sealed",)


def in_python(text: str) -> str:
    """Return a text with options such as --class-weight balanced as parameters: class_weight="balanced"."""
    return _OPTION.sub(_parameter, text)


def _parameter(match: re.Match[str]) -> str:
    name, value = match[1].replace("-", "_"), match[2]
    if match[1] in _FLAGS:
        return f"{name}=True" + ("" if value is None else f" {value}")
    if value is None:
        return name
    end = "" if value.startswith("'") else value[len(value.rstrip(".,:")) :]
    (plain,) = shlex.split(value.removesuffix(end) if end else value)
    return f"{name}={plain if plain.isdigit() else repr(plain)}{end}"
