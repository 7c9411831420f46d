"""Spellings of categories: cells that differ only in case and blanks are one category if they are merged."""

from __future__ import annotations

import unicodedata

import numpy as np


def one_spelling(cell: str) -> str:
    """Return a cell in lower case, with one blank between words and composed characters."""
    return " ".join(unicodedata.normalize("NFKC", cell).casefold().split())


def in_one_spelling(column: np.ndarray) -> np.ndarray:
    """Return a column of text with each cell in one spelling; a column of numbers is left as it is."""
    if column.dtype != object:
        return column
    spelt = {cell: None if cell is None else one_spelling(cell) for cell in dict.fromkeys(column)}
    merged = np.empty(len(column), dtype=object)
    merged[:] = [spelt[cell] for cell in column]
    return merged
