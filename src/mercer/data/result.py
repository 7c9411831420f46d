"""Results: printed as a short text, shown in a notebook as a card, and a data frame on request."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

_CARD = "border:1px solid #8888; border-radius:4px; padding:.4em .8em; display:inline-block; line-height:1.35"


class Result:
    """What a function computed.

    A subclass has `__str__`, a short text, and `_columns`, its numbers by the names of the columns of a data frame. It
    may have `_facts`, the lines of its card in a notebook; by default, the card shows the text.
    """

    def __repr__(self) -> str:
        return str(self)

    def _facts(self) -> Mapping[str, str]:
        """Return the lines of the card: texts by name."""
        return {}

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Return the columns of the data frame."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return card(type(self).__name__, self._facts() or str(self))

    def to_frame(self) -> Any:
        """Return the numbers as a data frame of pandas, or of polars if pandas is not installed.

        Raises
        ------
        ImportError
            If neither is installed.
        """
        columns = dict(self._columns())
        for package in ("pandas", "polars"):
            try:
                return import_module(package).DataFrame(columns)
            except ModuleNotFoundError as error:
                if error.name != package:
                    raise
        raise ImportError("to_frame() makes a data frame of pandas or polars: install one with pip install pandas")


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
