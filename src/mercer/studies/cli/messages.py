"""How the command line talks: in the language of its options, and on stderr one line at a time."""

from __future__ import annotations

import re
import sys

import click

from mercer.studies.report.printable import printable as printable

_OPTIONS = {
    "copies": "--copies",
    "cache": "--cache",
    "categorical": "--categorical",
    "checkpoint": "--checkpoint",
    "class_weight": "--class-weight",
    "cost": "--cost",
    "date_order": "--date-order",
    "dates": "--dates",
    "decimal": "--decimal",
    "drop": "--drop",
    "encoding": "--encoding",
    "format": "--format",
    "keep": "--keep",
    "limits": "--limits",
    "max_levels": "--max-levels",
    "max_seconds": "--max-seconds",
    "memory": "--memory",
    "merge": "--merge",
    "missing": "--missing",
    "multi_class": "--multi-class",
    "n_folds": "--folds",
    "na": "--na",
    "rare": "--rare",
    "scoring": "--scoring",
    "sep": "--sep",
    "sheet": "--sheet",
    "task": "--task",
    "test_size": "--test-size",
    "text": "--text",
    "text_columns": "--categorical",
}
"""Parameters of Python, as they occur in messages, and the options that they are on the command line."""

_SETTING = re.compile(rf"(?<![\w'-])({'|'.join(_OPTIONS)})=(?:[\[{{]?(\w+|'[^']*'|\"[^\"]*\")[\]}}]?)?")
_PARAMETER = re.compile(r"(?<![\w'-])(class_weight|max_seconds|n_folds|test_size)(?![\w'])")


class Failure(click.ClickException):
    """An error that ends the command: a line, perhaps with a hint, and an exit status."""

    def __init__(self, message: str, hint: str | None = None, status: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


def say(kind: str, message: str) -> None:
    """One line to stderr, in the language of the options."""
    print(f"{kind}: {printable(in_options(' '.join(message.split())))}", file=sys.stderr, flush=True)


def say_error(message: str, hint: str | None) -> None:
    """An error and what to do about it, in one line."""
    say("error", message if hint is None else f"{message.rstrip('.')}; {hint}")


def in_options(text: str) -> str:
    """The text with options for Python's parameters: what is missing="impute" there is --missing impute here."""
    text = text.replace("approximation=None", "--approximation exact")
    text = _SETTING.sub(lambda match: " ".join([_OPTIONS[match[1]], *filter(None, [match[2]])]), text)
    return _PARAMETER.sub(lambda match: _OPTIONS[match[1]], text)
