"""A memory budget: its size in words, and what each part of a fit on a file gets of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([KMGT]?I?)B?\s*", re.IGNORECASE)
_LEAST, _MAX_CHUNK, _MIN_CHUNK = 10**6, 8 << 20, 1 << 13  # bytes
_LEAST_HEAD, _LARGEST_HEAD = 1 << 15, 1 << 20  # bytes


@dataclass(frozen=True)
class Budget:
    """Bytes that a fit on a file may take, beside the interpreter and its libraries.

    Attributes
    ----------
    total : int
    """

    total: int

    @classmethod
    def of(cls, name: str, value: object) -> Budget:
        """Return the budget of an argument: a number of bytes, or text such as "500MB" or "2 GiB".

        Raises
        ------
        ValueError
            If it is neither, or less than 1 MB.
        """
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is not None and match[2].upper() in _UNITS:
            total = float(match[1]) * _UNITS[match[2].upper()]
        elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**62:
            total = float(value)
        else:
            raise ValueError(f"{name} must be a number of bytes, or text such as '500MB' or '2GiB', got {value!r}")
        if not _LEAST <= total < 2**62:
            raise ValueError(f"{name} must be at least 1 MB, got {value!r}")
        return cls(int(total))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of text that are parsed at a time; text, cells and numbers of a piece need about 15 times as much."""
        return max(_MIN_CHUNK, min(_MAX_CHUNK, self.total // 64))

    @property
    def head(self) -> int:
        """Bytes of text at the beginning of a file that decide what columns hold."""
        return max(_LEAST_HEAD, min(_LARGEST_HEAD, self.total // 64))

    @property
    def reading(self) -> int:
        """Bytes for the pages of a Parquet file, while it is parsed."""
        return self.total // 2

    @property
    def texts(self) -> int:
        """Bytes for the different texts of categories and classes."""
        return self.total // 4

    @property
    def rows(self) -> int:
        """Bytes for blocks and for numbers of the rows."""
        return self.total * 5 // 8

    @property
    def solver(self) -> int:
        """Bytes for the matrices of a solver and for products of a block."""
        return self.total * 3 // 8
