"""Columns of bit strings, such as fingerprints of molecules: how they are recognised, and their bits as columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer.data import Table, TableError, text_cells
from mercer.studies.tables.free_text import MAX_REPEATS
from mercer.studies.tables.rules import TransformRule

_SHORTEST = 16
"""Smallest number of bits; shorter strings of 0 and 1 are codes or numbers."""

_ZERO_AND_ONE = frozenset("01")


def is_bit_strings(cells: Iterable[str | None]) -> bool:
    """Return whether all cells of a text column are strings of 0 and 1 of one length, and do not repeat often."""
    present = [cell.strip() for cell in cells if cell]
    if not present or len(present[0]) < _SHORTEST or len(present) >= MAX_REPEATS * len(set(present)):
        return False
    return all(len(cell) == len(present[0]) and _ZERO_AND_ONE.issuperset(cell) for cell in present)


@dataclass(frozen=True, repr=False)
class BitsRule(TransformRule):
    """The rule of a column of bit strings: a column of 0 and 1 for each bit. A missing cell has zeros only.

    Attributes
    ----------
    n_bits : int
    """

    entry = "bits"
    indicator = False

    name: str
    n_bits: int
    n_missing: int

    @classmethod
    def learn(cls, table: Table, name: str) -> Self | None:
        """Return the rule of these training rows; None if all strings are the same."""
        cells = text_cells(table[name])
        if len(set(cells)) < 2:
            return None
        return cls(name, max(len(cell.strip()) for cell in cells if cell), int(table.missing(name).sum()))

    def learnt_again(self, table: Table, max_levels: int) -> Self | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        return self.learn(table, self.name)

    def __repr__(self) -> str:
        return f"BitsRule(name={self.name!r}, {self.n_bits} bits)"

    @property
    def values(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name}: bit {bit}" for bit in range(self.n_bits)]

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return "a string of zeros"

    def apply(self, table: Table) -> sparse.csr_array:
        """Return the bits, (n, n_bits), as 0 and 1.

        Raises
        ------
        TableError
            If a cell is not a string of so many bits.
        """
        rows = []
        for place, cell in enumerate(text_cells(table[self.name])):
            text = "" if cell is None else cell.strip()
            if cell is not None and (len(text) != self.n_bits or not _ZERO_AND_ONE.issuperset(text)):
                raise TableError(
                    f"column {self.name!r} holds strings of {self.n_bits} bits, and row "
                    f"{table.row_numbers([place])[0]} holds {text[:40]!r}",
                    "write each bit as a letter 0 or 1",
                )
            rows.append([bit for bit, letter in enumerate(text) if letter == "1"])
        ends = np.cumsum([0, *map(len, rows)])
        places = np.array([bit for row in rows for bit in row], dtype=np.int64)
        return sparse.csr_array((np.ones(len(places)), places, ends), shape=(len(rows), self.n_bits))

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return {"name": self.name, "n_bits": self.n_bits, "n_missing": self.n_missing}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        n_bits = int(data["n_bits"])
        if not 0 < n_bits <= MAX_BITS:
            raise ValueError(f"column {data['name']!r} must have 1 to {MAX_BITS:,} bits, got {n_bits}")
        return cls(str(data["name"]), n_bits, int(data["n_missing"]))


MAX_BITS = 1 << 20
"""Largest number of bits of a string in a model file."""
