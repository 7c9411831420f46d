"""The rows of a study before the search: those that are sealed, and all that is known of the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from mercer.data import Data, Table, TableError, listing
from mercer.kernels import Kernel, as_kernel
from mercer.model_selection import SealedTest, check_judging_numbers, spread
from mercer.studies.arranged import Arranged, Arranger, Copies
from mercer.studies.candidates import KERNELS, KernelChoice
from mercer.studies.cell_kernels import kernels_of_cells
from mercer.studies.contenders import Matrix
from mercer.studies.examination import Examination, examine
from mercer.studies.goal import Goal
from mercer.studies.models import (
    RowReader,
    TrainingSet,
    cell_columns,
    cell_kernel,
    encode_training_rows,
    named_columns,
    reader_of_table,
)
from mercer.studies.sealing import folds_of, seal_rows
from mercer.studies.tables import ColumnChoice, ColumnOptions, DateOrder, Labels, TableEncoder, Truth
from mercer.studies.time_budget import EXAMINATION, TimeBudget

FOLD_BYTES = 2**30
"""Largest number of bytes of all encoded folds together."""

FEWEST_SEARCHED = 2000
"""Rows that are in folds at least, however wide they are."""


@dataclass(frozen=True)
class SplitOptions:
    """How the rows of a study are split; see the parameters of :func:`mercer.studies.protocol.study`."""

    groups: str | None
    time_column: str | None
    copies: Copies
    date_order: DateOrder | None
    test_size: float
    n_folds: int
    seed: int


@dataclass(frozen=True, eq=False)
class Prepared:
    """The rows of a study.

    Attributes
    ----------
    sealed : SealedTest
    arranged : Arranged
    column_choice : ColumnChoice
    used : Table
        All rows that are used, with the columns to learn from.
    rest : Table
        The rows of `used` that are not sealed.
    rest_rows : ndarray of int64
        Their positions in the table.
    truth : ndarray
        Their targets.
    searched : ndarray of int64
        The rows of `rest` that are in folds, as positions in it: all, or a part of them if the encoded folds of all
        would take more memory than `FOLD_BYTES`.
    splits : list
        Training and validation rows of each fold, as positions in `searched`.
    goal : Goal
    examination : Examination
    encoder : TableEncoder
        It has learnt nothing yet.
    training : TrainingSet
        The rows that are not sealed, encoded.
    kernels : tuple of KernelChoice
        The kernels to try. Given kernels have the names of the columns that they read.
    of_cells : mapping of str to TrainingSet
        The rows that are not sealed as kernels read their cells, by the texts of these kernels.
    """

    sealed: SealedTest
    arranged: Arranged
    column_choice: ColumnChoice
    used: Table
    rest: Table
    rest_rows: np.ndarray
    truth: np.ndarray
    searched: np.ndarray
    splits: Any
    goal: Goal
    examination: Examination
    encoder: TableEncoder
    training: TrainingSet
    kernels: tuple[KernelChoice, ...]
    of_cells: Mapping[str, TrainingSet]

    @property
    def units(self) -> np.ndarray | None:
        """The group of each row that is not sealed; None if every row is alone."""
        of_all = self.arranged.units
        return None if of_all is None else of_all[self.sealed.rest]

    @property
    def readers(self) -> dict[str, RowReader]:
        """The readers of cells, by the texts of kernels; they have learnt nothing yet."""
        return {text: cast(RowReader, one.encoder).unfitted() for text, one in self.of_cells.items()}

    def training_of(self, choice: KernelChoice) -> TrainingSet:
        """Return the rows that are not sealed as a kernel reads them."""
        return self.of_cells.get(choice.family, self.training)


def prepare(
    table: Table,
    target_truth: Truth,
    columns: ColumnOptions,
    kernels: Sequence[KernelChoice] | None,
    split: SplitOptions,
    goal_of: Callable[[Truth, np.ndarray], Goal],
    budget: TimeBudget,
) -> Prepared:
    """Seal rows, examine and encode the others.

    Parameters
    ----------
    table : Table
    target_truth : Truth
        The target.
    columns : ColumnOptions
    kernels : sequence of KernelChoice or None
        The kernels to try; by default the usual ones, and kernels of words on sequences.
    split : SplitOptions
    goal_of : callable
        Returns the goal from the targets of rows, and the rows that are predicted in the folds.
    budget : TimeBudget
        What was not examined is among its cuts.

    Raises
    ------
    TableError
        If the table cannot be used.
    """
    target, are_numbers = target_truth.target, table.is_numeric(target_truth.target)
    goal_of(target_truth, np.arange(len(target_truth.values)))  # for its errors, before any work
    if isinstance(target_truth, Labels):
        table = table.as_written(target)
    table = table.as_text(*columns.as_text)
    columns = _with_cells(table, target, kernels or (), columns)
    sealed, arranged, column_choice = seal_rows(
        table,
        target_truth,
        Arranger(table, target_truth, split.groups, split.time_column, split.copies, split.date_order),
        columns,
        test_size=split.test_size,
        n_folds=split.n_folds,
        seed=split.seed,
        are_numbers=are_numbers,
    )
    used = table.select(column_choice.features).take(column_choice.rows)
    rest_rows = column_choice.rows[sealed.rest]
    known_rest = column_choice.truth.of(table, rest_rows)
    splits = folds_of(arranged.of(sealed.rest), known_rest, split.n_folds, split.seed)
    goal = goal_of(known_rest, np.concatenate([validation for _, validation in splits]))
    examination = examine(
        table,
        known_rest,
        column_choice.features,
        kinds=column_choice.kinds,
        grouped=split.groups is not None or split.time_column is not None or arranged.near is not None,
        group_column="" if arranged.near is None else arranged.near.column,
        max_seconds=budget.share(EXAMINATION),
    )
    if examination.left_out:
        budget.cuts.append(f"The table was not examined for {', '.join(examination.left_out)}.")
    encoder = column_choice.encoder()
    training = encode_training_rows(
        table.select([*column_choice.features, target]), target, goal.learn, rows=rest_rows, encoder=encoder
    )
    rest = used.take(sealed.rest)
    if kernels is None:
        kernels = (*_kernels_of_cells(rest, column_choice, budget), *KERNELS)
    kernels, readers = _readers(rest, kernels, encoder)
    of_cells = {
        text: encode_training_rows(
            table.select([*reader.column_names, target]), target, goal.learn, rows=rest_rows, encoder=reader
        )
        for text, reader in readers.items()
    }
    truth = column_choice.truth.values[sealed.rest]
    most = max(FEWEST_SEARCHED, FOLD_BYTES // _bytes_a_row(training.X, splits))
    searched = spread(np.arange(rest.n_rows), truth, most)
    if len(searched) < rest.n_rows:
        splits = [
            (np.flatnonzero(np.isin(searched, one)), np.flatnonzero(np.isin(searched, two))) for one, two in splits
        ]
        goal = goal_of(known_rest, searched[np.concatenate([validation for _, validation in splits])])
        budget.cuts.append(
            f"The table is large: the settings of all machines were chosen by {len(searched):,} of the {rest.n_rows:,} "
            "rows that are not sealed. The final fits have all of them, unless another sentence says otherwise."
        )
    if not isinstance(target_truth, Labels):
        sealed.check(lambda rows: check_judging_numbers(target, column_choice.truth.values[rows]))
    for one in of_cells.values():
        _check_letters(cast(RowReader, one.encoder).kernel, one.data, rest)
    for one in (training, *of_cells.values()):
        sealed.check(partial(_transformed, one, used))
    return Prepared(
        sealed,
        arranged,
        column_choice,
        used,
        rest,
        rest_rows,
        truth,
        searched,
        splits,
        goal,
        examination,
        encoder,
        training,
        kernels,
        of_cells,
    )


def _kernels_of_cells(rest: Table, choice: ColumnChoice, budget: TimeBudget) -> tuple[KernelChoice, ...]:
    """Return the kernels of words and bits, which cannot read columns with missing cells."""
    incomplete = [name for name in choice.missing_cells if choice.kinds.get(name) in ("sequence", "bits")]
    if incomplete:
        budget.cuts.append(
            f"Kernels that compare the cells of {listing(incomplete)} were not tried, because some are missing: "
            "missing=drop leaves such rows out."
        )
    return kernels_of_cells(rest, {name: kind for name, kind in choice.kinds.items() if name not in incomplete})


def _transformed(training: TrainingSet, used: Table, rows: np.ndarray) -> None:
    """Encode rows, for the errors of cells that cannot be used."""
    training.encoder.transform(used.take(rows))


def _check_letters(kernel: Kernel, encoded: Data, table: Table) -> None:
    """Raise a TableError that names the row of the table if the kernel cannot read the letters of a row."""
    try:
        kernel.resolve(encoded).diag(encoded)
    except ValueError as error:
        said = re.sub(r"\brow (\d+)", lambda row: f"row {table.row_numbers([int(row[1])])[0]}", str(error))
        raise TableError(said) from error


def _with_cells(table: Table, target: str, kernels: Sequence[KernelChoice], options: ColumnOptions) -> ColumnOptions:
    """Return the options with the columns that kernels name: they are used, whatever they look like."""
    named, cells = [*options.keep], [*options.cells]
    available = table.without([name for name in options.drop if name in table])
    for choice in kernels:
        kernel = None if choice.given is None else cell_kernel(choice.given, available, target)
        if kernel is not None:
            cells += cell_columns(kernel)
            named += [*named_columns(as_kernel(cast(Any, choice.given))), *cell_columns(kernel)]
    return replace(options, keep=dict.fromkeys(named), cells=dict.fromkeys(cells))


def _readers(
    rest: Table, kernels: Sequence[KernelChoice], encoder: TableEncoder
) -> tuple[tuple[KernelChoice, ...], dict[str, RowReader]]:
    """Return the kernels with the names of their columns, and the readers of those that read cells."""
    choices, readers = list[KernelChoice](), dict[str, RowReader]()
    for choice in kernels:
        kernel = None if choice.given is None else cell_kernel(choice.given, rest, None)
        choices.append(choice if kernel is None else replace(choice, given=kernel))
        if kernel is not None and choice.family not in readers:
            readers[choice.family] = reader_of_table(kernel, rest, encoder)
    return tuple(choices), readers


def _bytes_a_row(X: Matrix, splits: Sequence[Any]) -> int:
    """Return about how many bytes a row takes in all encoded folds."""
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return max(1, len(splits) * n_bytes // X.shape[0])
