"""Numbers written as text: what counts as a number, and the order of names that are all numbers."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
NUMBER_WITH_COMMA = re.compile(NUMBER.pattern.replace(r"\.", "[.,]"))
"""Patterns of numbers: with a decimal point, and with a decimal comma."""


def in_order(names: Collection[str]) -> list[str]:
    """Return different names sorted: by their values if all are numbers, otherwise alphabetically."""
    for pattern in (NUMBER, NUMBER_WITH_COMMA):
        if all(map(pattern.fullmatch, names)):
            return sorted(names, key=lambda name: (Decimal(name.replace(",", ".")), name))
    return sorted(names)
