"""What names a row and tells why it is predicted as it is, for the rows that a page lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mercer.data import Table, cell_text
from mercer.studies.models import Model, explain
from mercer.studies.tables import IDENTIFIER, ColumnChoice

N_IDENTIFIERS = 2
"""Identifiers that are shown of a row."""

N_CELLS = 4
"""Cells that are shown of a row: those of the most important columns."""

N_EXPLAINED = 12
"""Columns, the most important ones, whose contributions to the prediction of a row are computed."""

N_REFERENCE = 2000
"""Rows whose cells those of a row are compared with, at most."""

MAX_DIGITS = 10
"""Characters of a number that is shown as it stands in the table."""

MAX_CHARACTERS = 60
"""Characters that are shown of a text."""

N_REASONS = 3
"""Contributions that are shown of a row: the largest ones."""


@dataclass(frozen=True)
class RowCard:
    """What a reader needs to find a row again and to understand its prediction.

    Attributes
    ----------
    row : int
        Position in the table, from 0.
    line : int or None
        The line of the file in which it begins, from 1, if that is known.
    identifiers, cells : tuple of (column, cell)
        The cells that identify it, and those of the most important columns, as text.
    reasons : tuple of (column, contribution)
        The largest contributions to its prediction, the largest first.
    """

    row: int
    line: int | None
    identifiers: tuple[tuple[str, str], ...]
    cells: tuple[tuple[str, str], ...]
    reasons: tuple[tuple[str, float], ...]


def row_cards(
    model: Model,
    table: Table,
    used: Table,
    choice: ColumnChoice,
    rows: Collection[int],
    important: Sequence[str],
    reference: Table,
    groups: str | None,
    *,
    with_reasons: bool = True,
) -> dict[int, RowCard]:
    """Return a card for each of some rows of a table.

    Parameters
    ----------
    model : Model
    table : Table
        The table as it was read.
    used : Table
        The rows and columns that are used.
    choice : ColumnChoice
        Which rows these are, and which columns are not used because they identify rows.
    rows : collection of int
        Positions in the table.
    important : sequence of str
        The columns, the most important first.
    reference : Table
        Rows to compare with: those that are not sealed.
    groups : str or None
        The column that names groups of rows.
    with_reasons : bool
        Whether contributions are computed.
    """
    wanted = np.unique(np.array(sorted(rows), dtype=np.int64))
    if not wanted.size:
        return {}
    out = {name: why for name, why in choice.left_out.items() if name in table}
    identifying = [name for name, why in out.items() if why.startswith(IDENTIFIER) or _all_differ(table, name)]
    names = list(dict.fromkeys([*([groups] if groups is not None else []), *identifying]))[:N_IDENTIFIERS]
    shown = [name for name in important if name in table and name not in names][:N_CELLS]
    encoded = {*model.encoder.column_names}
    explained = [name for name in important if name in encoded][:N_EXPLAINED]
    place = {int(row): number for number, row in enumerate(wanted)}
    part, lines = table.take(wanted), table.line_numbers(wanted)
    reasons: list[tuple[tuple[str, float], ...]] = [()] * len(wanted)
    if with_reasons and explained:
        drawn = np.sort(np.random.default_rng(0).permutation(reference.n_rows)[:N_REFERENCE])
        card_rows = used.take(np.searchsorted(choice.rows, wanted))
        explanation = explain(model, card_rows, reference.take(drawn), columns=explained)
        reasons = [tuple(explanation.largest(number, N_REASONS)) for number in range(len(wanted))]

    return {
        row: RowCard(
            row,
            None if lines is None else lines[k],
            tuple((name, _text(part, name, k)) for name in names),
            tuple((name, _shortened(part, name, k)) for name in shown),
            reasons[k],
        )
        for row, k in place.items()
    }


def _all_differ(table: Table, name: str) -> bool:
    return not table.missing(name).any() and len(set(table[name].tolist())) == table.n_rows


def _shortened(table: Table, name: str, row: int) -> str:
    """Return a cell as text that fits into a line: a number of six digits, or the beginning of a long text."""
    text = _text(table, name, row)
    if len(text) > MAX_DIGITS and table.is_numeric(name):
        return f"{table[name][row]:.6g}"
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _text(table: Table, name: str, row: int) -> str:
    """Return a cell as it stands in the table; "missing" for an empty one."""
    if table.missing(name)[row]:
        return "missing"
    cells = table.written[name] if name in table.written else table[name]
    return cell_text(cells[row])
