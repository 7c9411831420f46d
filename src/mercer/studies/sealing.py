"""The first step of a study: a part of the rows is sealed, and columns are chosen by the other rows."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from mercer.data import Table, TableError
from mercer.model_selection import (
    MIN_ROWS_A_FOLD,
    MIN_TEST_ROWS,
    InTime,
    SealedTest,
    Split,
    check_class_counts,
    check_row_count,
    check_share,
    rows_enough,
)
from mercer.studies.arranged import GROUPS, TIME, Arranged, Arranger
from mercer.studies.tables import ColumnChoice, ColumnOptions, Labels, Truth, choose_columns, look_like_identifiers


def seal_rows(
    table: Table,
    truth: Truth,
    arranger: Arranger,
    columns: ColumnOptions,
    *,
    test_size: float,
    n_folds: int,
    seed: int,
    are_numbers: bool,
) -> tuple[SealedTest, Arranged, ColumnChoice]:
    """Return the seal over the rows that are used, their arrangement, and the columns and rows that are used.

    Copies are rows that are equal in all columns that are used, and they are kept on one side of the seal. The columns,
    however, are chosen by the rows that are not sealed. So rows are first sealed with all columns that may be used. If
    some of these are then not chosen, rows are sealed again without them, until all are chosen. No row then has a copy
    on the other side of the seal.

    Raises
    ------
    TableError
        If there are too few rows or groups for the protocol, or a column cannot be used.
    """
    check_share(test_size)
    removed = {name: reason for name, reason in ((arranger.groups, GROUPS), (arranger.time, TIME)) if name is not None}
    removed = {name: reason for name, reason in removed.items() if name not in columns.keep}
    options = replace(columns, drop=(*columns.drop, *removed))

    def chosen_by(sealed: SealedTest) -> ColumnChoice:
        choice = choose_columns(table, truth, open_rows=truth.rows[sealed.rest], **vars(options))
        return replace(choice, left_out=choice.left_out | removed)

    identifiers = look_like_identifiers(table.take(truth.rows), truth.target, options)
    names = [name for name in table.names if name not in {truth.target, *options.drop, *identifiers}]
    while True:
        arranged = arranger.by(names)
        try:
            sealed = _sealed(truth, arranged, are_numbers, test_size, n_folds, seed)
        except TableError:
            if arranged.near is None:
                raise
            arranged = arranger.by(names, find_near=False)  # too few groups for this protocol
            sealed = _sealed(truth, arranged, are_numbers, test_size, n_folds, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = chosen_by(sealed)
        chosen = set(choice.features)
        used = [name for name in names if name in chosen]
        if len(used) == len(names) or not used:
            break
        names = used
    choice = chosen_by(sealed)  # once more, with its warnings
    chosen_positions = np.searchsorted(truth.rows, choice.rows)
    sealed, arranged = sealed.restrict(chosen_positions), arranged.of(chosen_positions)
    cause = "missing=drop leaves" if len(chosen_positions) < len(truth.rows) else f"the split {_by(arranged)} leaves"
    _check_both_sides(sealed, choice.truth, n_folds, cause)
    return sealed, arranged, choice


def _sealed(
    truth: Truth, arranged: Arranged, are_numbers: bool, test_size: float, n_folds: int, seed: int
) -> SealedTest:
    """Seal a part of the rows; raise TableError if one of the two parts is too small."""
    strata = arranged.strata(truth, rows_enough(test_size, n_folds))
    if isinstance(arranged.arrangement, InTime):
        check_row_count(len(truth.rows), test_size, n_folds)
        return SealedTest(*arranged.arrangement.holdout(strata, test_size, seed))
    try:
        if isinstance(truth, Labels):
            counts = arranged.arrangement.counts(truth.codes)
            check_class_counts(truth.names, counts, test_size, n_folds, are_numbers=are_numbers)
        else:
            check_row_count(arranged.arrangement.n_groups, test_size, n_folds)
    except TableError as error:
        if arranged.arrangement.are_single:
            raise
        raise TableError(_counted(str(error), arranged), error.hint) from error
    return SealedTest(*arranged.arrangement.holdout(strata, test_size, seed))


def _counted(message: str, arranged: Arranged) -> str:
    """Return the message with a note that groups of rows are counted instead of rows."""
    if arranged.groups is None:
        return f"{message}, where rows that are equal in all columns used count once"
    also = ", and rows that are equal in all columns used, too" if arranged.keeps_copies else ""
    return f"{message}, where rows with the same {arranged.groups!r} count once{also}"


def folds_of(arranged: Arranged, truth: Truth, n_folds: int, seed: int) -> list[Split]:
    """Return the folds of the rows that are not sealed.

    Raises
    ------
    TableError
        If the training rows of a fold lack a class.
    """
    splits = arranged.arrangement.folds(arranged.strata(truth, n_folds), n_folds, seed)
    for train, _ in splits:
        if isinstance(truth, Labels) and (name := _lacking(truth, train)):
            raise TableError(
                f"the class {name!r} does not occur among the {len(train)} rows that one of the {n_folds} folds learns "
                "from",
                _FEW_PARTS,
            )
    return splits


_FEW_PARTS = "take fewer folds or another seed or test_size, or leave out or merge rare classes"


def _lacking(truth: Labels, rows: np.ndarray) -> str | None:
    """Return the name of a class that does not occur in these rows, or None."""
    counts = np.bincount(truth.codes[rows], minlength=len(truth.names))
    return truth.names[int(counts.argmin())] if counts.min() == 0 else None


def _by(arranged: Arranged) -> str:
    """Return, in words, what the rows are split by."""
    return "in time" if arranged.time is not None else "of groups" if arranged.groups is not None else "of copies"


def _check_both_sides(sealed: SealedTest, truth: Truth, n_folds: int, cause: str) -> None:
    """Raise a TableError if the sealed rows or the other rows are too few."""
    hint = _TOO_FEW_COMPLETE if cause.startswith("missing") else _FEW_PARTS
    if not isinstance(truth, Labels):
        if len(sealed.rest) < MIN_ROWS_A_FOLD * n_folds or sealed.n_test < MIN_TEST_ROWS:
            raise TableError(
                f"{cause} {len(sealed.rest)} rows to choose from and {sealed.n_test} sealed ones, and "
                f"regression needs {MIN_ROWS_A_FOLD * n_folds} and {MIN_TEST_ROWS}",
                hint,
            )
        return
    n_open = np.bincount(truth.codes[sealed.rest], minlength=len(truth.names))
    n_sealed = truth.counts - n_open
    for name, ours, theirs in zip(truth.names, n_open, n_sealed, strict=True):
        if ours < n_folds or not theirs:
            raise TableError(
                f"{cause} the class {name!r} with {ours} rows to choose from and {theirs} sealed ones, and "
                f"it needs {n_folds} and 1",
                hint,
            )


_TOO_FEW_COMPLETE = "fill cells in with missing=impute, or leave out columns with many missing cells"
