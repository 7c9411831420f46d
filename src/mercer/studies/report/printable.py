"""Text of a table without the characters that a terminal or a browser obeys."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters (but tabs and line feeds), those that end a line or change the direction of writing, and
surrogates: bytes of a file name that are not UTF-8."""


def printable(text: str) -> str:
    """Return the text with control characters spelt out, as a terminal or a browser would obey them."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
