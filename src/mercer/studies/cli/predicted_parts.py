"""The rows of tables in parts, with their predictions as the columns that `mercer predict` writes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from mercer.studies.cli.files import read
from mercer.studies.cli.in_parts import Messages, is_large, read_in_parts, warnings_of
from mercer.studies.cli.messages import Failure, say

if TYPE_CHECKING:
    import numpy as np

    from mercer.data import Table
    from mercer.studies.models import Model

_ROW, _TABLE = "row", "table"


class Asked(NamedTuple):
    """What is predicted, and how tables are read."""

    reading: dict[str, Any]
    text: tuple[str, ...]  # columns
    threshold: float | None
    columns_beside: list[str]
    memory: str | None  # None: tables are read as a whole, if they are not large
    names_tables: bool


def predicted_parts(
    model: Model, table: str, asked: Asked, messages: Messages, name: str | None = None
) -> Iterator[tuple[Table, np.ndarray, dict[str, list[Any]]]]:
    """Yield the rows of a table in parts, with their predictions and the columns that are written.

    `name` is what the column of several tables says, by default the path.
    """
    name = table if name is None else name
    memory = "500MB" if asked.memory is None and is_large(table) else asked.memory
    about: dict[str, Any] = {"text": asked.text, "model": model}
    from mercer.data import TableError

    if memory is None:
        parts = iter([read(table, asked.reading, report=messages.report, **about)])
    else:
        parts = read_in_parts(table, asked.reading, memory=memory, messages=messages, **about)
    is_part, place = memory is not None or asked.names_tables, f"{name}, " if asked.names_tables else ""
    for rows in parts:
        with warnings_of(rows, messages, place) if is_part else nullcontext():
            try:
                answers, columns = _predicted(model, rows, asked.threshold)
            except TableError as error:
                raise TableError(f"{place and f'in {place}'}{error}", error.hint) from error
        yield rows, answers, _named(rows, asked, name, columns)


def _named(rows: Table, asked: Asked, table: str, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the columns that are written: the table and number of each row, columns to keep, and the predictions."""
    import numpy as np

    names: dict[str, list[Any]] = {_TABLE: [table] * rows.n_rows} if asked.names_tables else {}
    names[_ROW] = rows.row_numbers(np.arange(rows.n_rows))
    for name in asked.columns_beside:
        if name in columns or name in names:
            raise Failure(
                f"--keep-columns {name}: the predictions have a column of this name", "rename it in the table"
            )
        cells = rows.as_text(name)[name]
        names[name] = ["" if cell is None else cell for cell in cells]
    return names | columns


def _predicted(model: Model, rows: Table, threshold: float | None) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """Return the predictions of rows, and the columns that are written."""
    from mercer.studies.tables import Classes

    answers, scores = model.answer(rows)
    if threshold is not None:
        answers = _answers_at(threshold, model, scores)
    columns = model.prediction_kind.columns(scores, answers)
    if isinstance(model.prediction_kind, Classes) and model.has_probabilities:
        shares = model.probabilities(rows).T.tolist()
        columns |= {f"probability_{name}": one for name, one in zip(model.prediction_kind.names, shares, strict=True)}
    return answers, columns


def _answers_at(threshold: float, model: Model, scores: np.ndarray) -> np.ndarray:
    """Return the labels of two classes: the second one where the decision value is above the threshold."""
    from mercer.studies.tables import Classes

    kind = model.prediction_kind
    if not isinstance(kind, Classes) or len(kind.labels) > 2:
        raise Failure("--threshold is for models of two classes, and this model is not one of these", "leave it out")
    if math.isnan(threshold):
        raise Failure("--threshold must be a number, got nan", "name a number")
    if model.costs is not None:
        say("note", "the threshold decides, and not the costs in the model")
    return kind.outcomes[(scores > threshold).astype(int)]
