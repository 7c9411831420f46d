"""What the commands refuse or assume about a table: cells, columns that are not used, too few rows for a study."""

from __future__ import annotations

from collections.abc import Collection

from mercer.data import Table, TableError
from mercer.model_selection import check_class_counts, check_row_count
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.tables import ColumnOptions, Labels, TableChoice, Truth, choose_columns, choose_without_target


def choose_or_refuse(
    table: Table, truth: Truth | None, options: ColumnOptions
) -> tuple[TableChoice | None, list[Finding]]:
    """Return the choice of columns, and what was assumed for it; or None, and the refusal. See `choose_columns`."""
    try:
        if truth is None:
            choice = choose_without_target(table, **vars(options))
        else:
            choice = choose_columns(table, truth, **vars(options))
    except TableError as error:
        return None, [refusal("mercer study and mercer fit refuse", error)]
    return choice, [*_assumptions(choice), *_left_out(choice, asked=set(options.drop))]


def too_few_rows(table: Table, truth: Truth, test_size: float, n_folds: int) -> list[Finding]:
    """Return what there is to say if a study with this test part and these folds would have too few rows."""
    try:
        if isinstance(truth, Labels):
            are_numbers = table.is_numeric(truth.target)
            check_class_counts(truth.names, truth.counts, test_size, n_folds, are_numbers=are_numbers)
        else:
            check_row_count(len(truth.rows), test_size, n_folds)
    except TableError as error:
        return [refusal("mercer study refuses", error)]
    return []


def _assumptions(choice: TableChoice) -> list[Finding]:
    return [
        Finding(Kind.ASSUMED, Weight.REMARK, (), f"{note.text}.", f"Otherwise: {note.remedy}.") for note in choice.notes
    ]


def _left_out(choice: TableChoice, asked: Collection[str]) -> list[Finding]:
    return [
        Finding(
            Kind.ASSUMED,
            Weight.REMARK,
            (name,),
            f"Column {name!r} is not used: {reason}.",
            f"Use it all the same with {option('--keep', name)}.",
        )
        for name, reason in choice.left_out.items()
        if name not in asked
    ]


def refusal(commands: str, error: TableError) -> Finding:
    """Return the finding that commands refuse a table."""
    hint = "" if error.hint is None else f"Remedy: {error.hint}."
    return Finding(Kind.REFUSED, Weight.ERROR, (), f"{commands} this table: {error}.", hint)
