"""Results: printed as a short text, shown in a notebook as a card, and a data frame on request."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

_CARD = "border:1px solid #8888; border-radius:4px; padding:.4em .8em; display:inline-block; line-height:1.35"


class Result:
    """What a function computed, a dataclass with `__str__`, a short text.

    `_facts` has the lines of the card in a notebook, by default the text. `_columns` has the columns of the data frame,
    by default the fields that have an element for each row, or one row of all other fields.
    """

    def __repr__(self) -> str:
        return str(self)

    def _facts(self) -> Mapping[str, str]:
        """Return the lines of the card: texts by name."""
        return {}

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Return the columns of the data frame."""
        return columns_of_fields(self)

    def _repr_html_(self) -> str:
        return card(type(self).__name__, self._facts() or str(self))

    def to_frame(self) -> Any:
        """Return the numbers as a data frame of pandas, or of polars if pandas is not installed.

        Raises
        ------
        ImportError
            If neither is installed.
        """
        return frame_of(dict(self._columns()))


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return columns as a data frame of pandas, or of polars if pandas is not installed; ImportError without both."""
    for package in ("pandas", "polars"):
        try:
            return import_module(package).DataFrame(columns)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
    raise ImportError("to_frame() makes a data frame of pandas or polars: install one with pip install pandas")


def columns_of_fields(result: Any) -> dict[str, Sequence[Any]]:
    """Return the shown fields of a dataclass as columns: those that have an element for each row, else one row."""
    values: dict[str, Any] = {}
    for one in fields(result):
        value = getattr(result, one.name)
        if one.repr and value is not None:
            values |= _parts(one.name, value)
    rows = {name: value for name, value in values.items() if isinstance(value, list)}
    if not rows:
        return {name: [_short(value)] for name, value in values.items()}
    n_rows = len(next(iter(rows.values())))
    return {name: column for name, column in rows.items() if len(column) == n_rows}


def columns_of_rows(rows: Iterable[Any], names: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Return attributes of objects as columns, one row for each object."""
    listed = list(rows)
    return {name: [_short(getattr(row, name)) for row in listed] for name in names}


def _parts(name: str, value: Any) -> dict[str, Any]:
    """Return a field as one column, or a matrix and a small dataclass as several."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return {f"{name}_{number}": column.tolist() for number, column in enumerate(value.T)}
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return {name: value.tolist()}
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return {name: "; ".join(value)}
    if isinstance(value, list | tuple):
        return {name: [_short(one) for one in value]}
    if is_dataclass(value) and not isinstance(value, type | Result):
        return {f"{name}_{one.name}": getattr(value, one.name) for one in fields(value)}
    return {name: value}


def _short(value: Any) -> Any:
    """Return a value as a cell: numbers and texts as they are, other objects as text."""
    return value if isinstance(value, bool | int | float | str | dict | np.generic) or value is None else str(value)


def card(title: str, content: Mapping[str, str] | str) -> str:
    """Return a card in HTML: a title above lines of facts, or above a text."""
    if isinstance(content, str):
        body = f'<pre style="margin:.2em 0; white-space:pre-wrap">{html.escape(content)}</pre>'
    else:
        rows = "".join(
            f'<tr><td style="text-align:left; opacity:.7; padding-right:1em">{html.escape(name)}</td>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for name, text in content.items()
        )
        body = f"<table>{rows}</table>"
    return f'<div style="{_CARD}"><b>{html.escape(title)}</b>{body}</div>'
