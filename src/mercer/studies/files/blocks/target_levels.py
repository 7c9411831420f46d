"""The different values of the target of a file, without its other columns, and the classes that they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data import ReadingOptions, Table, TableError
from mercer.studies.files.arrow import pa
from mercer.studies.files.blocks.budget import Budget
from mercer.studies.files.blocks.layout import Levels
from mercer.studies.files.blocks.sources import source_of_target
from mercer.studies.files.text_columns import table_of_text
from mercer.studies.tables.missing_words import AMONG_NUMBERS
from mercer.studies.tables.number_text import number_of
from mercer.studies.tables.target import MAX_CLASSES


def target_levels(
    path: str | Path,
    target: str,
    reading: ReadingOptions,
    *,
    memory: str | int = "500MB",
    most: int | None = None,
    report: Callable[[int, int | None], object] = lambda done, total: None,
) -> list[str]:
    """Return the different texts of the target of a file, in the order of their appearance.

    The other columns of a delimited file are only split into cells, and those of a Parquet file are not read.

    Parameters
    ----------
    path : str or Path
    target : str
        Column of the labels; svmlight has one target, whatever this is.
    reading : ReadingOptions
    memory : str or int
        Memory for a piece of the file: text such as "500MB", or a number of bytes.
    most : int, optional
        If there are more, reading stops at the end of the piece that shows it.
    report : callable
        Called with the place that was reached in the file, and the place of its end.

    Raises
    ------
    TableError
        If a row cannot be read, or its target is missing; the message has the place.
    """
    budget = Budget.of("memory", memory)
    levels = Levels(budget.texts)
    source = source_of_target(Path(path), target, reading, budget)
    for block in source.blocks(None, levels, budget.chunk_bytes):
        report(block.span.end, source.n_bytes)
        if most is not None and len(levels.of[source.layout.target]) > most:
            break
    return [*levels.of.get(source.layout.target, ())]


def table_of_levels(target: str, texts: Sequence[str], head: Table) -> Table:
    """Return a table that has each of these texts of a target twice: as numbers if the first rows hold numbers."""
    column = np.array([*texts, *texts], dtype=object)
    if not head.is_numeric(target):
        return Table((target,), (column,))
    options = ReadingOptions(decimal=head.reading.decimal or ".")
    return table_of_text([target], [pa.chunked_array([pa.array(column.tolist(), pa.string())])], ",", options)


def labels_of_texts(texts: Sequence[str]) -> Any:
    """Return the labels of classes: integers if all texts are whole numbers, otherwise texts."""
    numbers = _plain_numbers(texts)
    if numbers is None:
        return np.array(texts, dtype=object)
    are_integers = (numbers == np.round(numbers)).all() and (np.abs(numbers) < 2**53).all()
    return (
        numbers.astype(np.int64)
        if are_integers and len({*numbers.tolist()}) == len(texts)
        else np.array(texts, dtype=object)
    )


def _plain_numbers(texts: Sequence[str]) -> np.ndarray | None:
    """Return the texts as numbers, if all are numbers with a decimal point or comma."""
    numbers = [number_of(text.replace(",", ".")) for text in texts]
    return None if None in numbers else np.array(numbers)


def refuse_missing_words(target: str, texts: Sequence[str]) -> None:
    """Raise TableError if some classes are words such as "NA" and all others are numbers: the words mean "missing"."""
    words = [text for text in texts if text.lower() in AMONG_NUMBERS]
    others = [text for text in texts if text.lower() not in AMONG_NUMBERS]
    if words and others and _plain_numbers(others) is not None:
        raise TableError(
            f"the target {target!r} is missing in some lines: it holds {words[0]!r} among numbers",
            "fill it in, or leave these lines out; if it is a class, write the others as words, too",
        )


def refuse_many_fractions(target: str, texts: Sequence[str]) -> None:
    """Raise TableError if the classes are many and some are fractions: a machine for each would take hours."""
    numbers = _plain_numbers(texts)
    if numbers is None:
        return
    if len(texts) > MAX_CLASSES and not (numbers == np.round(numbers)).all():
        raise TableError(
            f"the target {target!r} holds {len(texts):,} different numbers such as {texts[0]!r}, and every one of them "
            "would be a class with a machine of its own",
            "train LinearSVR (--task regression), which predicts numbers; if they are names of classes, write them as "
            "text or whole numbers",
        )
