"""Columns of a piece of a table as the numbers of a raw block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.data import TableError, cell_text, one_spelling
from mercer.studies.files.arrow import pa, pc
from mercer.studies.files.blocks.layout import MAX_VALUE, Layout, Levels, Locate, RawBlock, Span, narrow
from mercer.studies.tables.target_numbers import MAX_TARGET


def columns_of(layout: Layout) -> tuple[list[str], list[str]]:
    """Return the columns that are read as text, and those that are read as numbers."""
    assert layout.names is not None
    is_text = set(layout.categories) | ({layout.target} if layout.task == "classification" else set())
    every = [
        *layout.names,
        *([layout.target] if layout.target else []),
        *([] if layout.weights is None else [layout.weights]),
    ]
    return [name for name in every if name in is_text], [name for name in every if name not in is_text]


def number_codes(name: str, cells: np.ndarray, levels: Levels) -> np.ndarray:
    """Return the number of the text of each cell of numbers; NaN for a missing cell."""
    different, codes = np.unique(cells, return_inverse=True)
    numbers = levels.number(name, [cell_text(value) for value in different[~np.isnan(different)].tolist()])
    return np.append(numbers, np.full(len(different) - len(numbers), np.nan))[codes]


def text_codes(
    name: str, cells: Any, missing: Sequence[str], levels: Levels, *, trim: bool = True, merge: bool = False
) -> np.ndarray:
    """Return the number of the text of each cell; NaN for a missing cell.

    Parameters
    ----------
    name : str
        The column.
    cells : pyarrow array of text, or ndarray of str and None
    missing : sequence of str
        Cells that are missing.
    levels : Levels
        Unknown texts are added.
    trim : bool
        Whether blanks around a text are removed.
    merge : bool
        Whether spellings are merged.
    """
    if isinstance(cells, np.ndarray):
        cells = pa.chunked_array([pa.array(cells.tolist(), pa.string())])
    trimmed = pc.utf8_trim_whitespace(cells) if trim else cells
    trimmed = pc.if_else(pc.is_in(trimmed, value_set=pa.array([*missing], pa.string())), None, trimmed)
    coded = pc.dictionary_encode(trimmed).combine_chunks()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.chunk(0) if coded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    numbers = np.append(levels.number(name, [*map(one_spelling, texts)] if merge else texts), np.nan)
    return numbers[pc.fill_null(coded.indices, len(numbers) - 1).to_numpy(zero_copy_only=False)]


def raw_block(layout: Layout, columns: Mapping[str, np.ndarray], span: Span, where: Locate) -> RawBlock:
    """Return the block of columns of numbers and codes.

    Raises
    ------
    TableError
        If the target is missing, a number is infinite or too large, or a weight is negative or missing.
    """
    assert layout.names is not None
    labels = columns[layout.target] if layout.target else np.zeros(len(columns[layout.names[0]]))
    _refuse(np.isnan(labels), where, f"the target {layout.target!r} is missing", "fill it in, or leave the line out")
    if layout.task == "regression":
        _refuse(
            ~(np.abs(labels) <= MAX_TARGET),
            where,
            f"the target {layout.target!r} is infinite or too large to compute with",
            "mend the cell",
        )
    table = np.empty((len(labels), len(layout.names)))
    for j, name in enumerate(layout.names):
        _refuse(
            np.abs(columns[name]) > MAX_VALUE,
            where,
            f"the column {name!r} is infinite or too large to compute with",
            "mend or empty the cell",
        )
        table[:, j] = columns[name]
    weights = None
    if layout.weights is not None:
        weights = np.asarray(columns[layout.weights], dtype=np.float64)
        _refuse(
            ~(np.isfinite(weights) & (weights >= 0.0)),
            where,
            f"the column {layout.weights!r} of weights must hold a finite number >= 0",
            "mend the cell; a weight of 0 leaves a row out",
        )
    return RawBlock(narrow(table), np.asarray(labels, dtype=np.float64), weights, span)


def _refuse(bad: np.ndarray, where: Locate, fault: str, hint: str) -> None:
    if bad.any():
        raise TableError(f"{where(int(bad.argmax()))}: {fault}", hint)
