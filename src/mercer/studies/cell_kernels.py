"""Kernels that a study tries on columns of sequences and of bits, as suits their letters and lengths."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mercer.data import Table
from mercer.studies.candidates import KernelChoice, given_kernels
from mercer.studies.tables import Kind, are_nucleotides

_SHORT = 12
"""Median number of letters below which sequences have short words only."""

_LONG = 20
"""Median number of letters from which words of nucleotides have gaps."""

_CODES = "RYSWKMBDHVN-"
"""Letters that stand for several nucleotides, and gaps: words that have them do not count."""


def kernels_of_cells(table: Table, kinds: Mapping[str, Kind]) -> tuple[KernelChoice, ...]:
    """Return kernels of words and bits for the columns of a table, each with a Gaussian kernel on the other columns.

    Parameters
    ----------
    table : Table
        The rows that are not sealed, with the columns to learn from.
    kinds : mapping of str to str
        What the columns hold.
    """
    of_kind = {
        kind: [name for name in table.names if kinds.get(name) == kind and not table.missing(name).any()]
        for kind in ("sequence", "bits")
    }
    sequences, bits = of_kind["sequence"], of_kind["bits"]
    if not sequences and not bits:
        return ()
    cells = [str(cell).strip() for name in sequences for cell in table[name]]
    others = [name for name in table.names if name not in (*sequences, *bits)]
    rest = ["RBF on rest"] if any(len(set(table[name].tolist())) > 1 for name in others) else []
    same = [*(f"Tanimoto on {quoted(name)}" for name in bits), *rest]
    texts = [
        " + ".join([*(f"{words} on {quoted(name)}" for name in sequences), *same])
        for words in (_suited(cells) if sequences else [""])
    ]
    return given_kernels(texts)


def _suited(cells: list[str]) -> list[str]:
    """Return the kernels of words for sequences, the simplest first."""
    lengths = [len(cell) for cell in cells]
    length, is_dna = float(np.median(lengths)), are_nucleotides(cells)
    if length < _SHORT:
        kernels = ["Spectrum(2)", "Spectrum(3)", "Mismatch(3, 1)"]
    elif is_dna:
        kernels = ["Spectrum(4)", "Spectrum(6)", "Mismatch(6, 1)"]
        if length >= _LONG:
            letters = frozenset().union(*(cell.upper() for cell in cells))
            alphabet = ", alphabet='ACGU'" if "U" in letters else ""
            kernels.append(f"GappedKmer(10, 6{alphabet}, wildcards='{_CODES}')")
    else:
        kernels = ["Spectrum(2)", "Spectrum(3)", "Mismatch(4, 1)"]
    if min(lengths) == max(lengths):  # aligned, so that places may matter
        kernels.append(f"WeightedDegree({min(6, max(lengths))})")
    return kernels


def quoted(name: str) -> str:
    """Return the name of a column as the text of a kernel has it."""
    if name.isidentifier() and name != "rest":
        return name
    return f'"{name}"' if "'" in name else f"'{name}'"
