"""Rounds of the search on a large table: all candidates on few rows, fewer candidates on more rows.

The time of a fit grows faster than its number of rows, and few rows suffice to recognise a poor candidate. So every
kernel and every C is judged first on a part of the training rows. Only candidates that may still be the best are judged
on more rows. A round predicts at least twice as many rows as it has training rows in a fold, or all validation rows.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from mercer.model_selection import n_validated, spread, worse_than_best
from mercer.studies.candidates import Candidate, Cell
from mercer.studies.contenders import Fold


def part_of(fold: Fold, n_rows: int) -> Fold:
    """Return the fold of a round with about `n_rows` training rows, and enough validation rows to judge by.

    It has a table of these rows alone, so that the machines of a round take little memory.
    """
    train = spread(fold.train, fold.truth, n_rows)
    validation = spread(fold.validation, fold.truth, n_validated(n_rows))
    rows = np.union1d(train, validation)
    return Fold(fold.X[rows], fold.truth[rows], np.searchsorted(rows, train), np.searchsorted(rows, validation))


def clearly_worse(cells: Sequence[Cell], folds: Sequence[Fold]) -> set[Candidate]:
    """Return the candidates of a round that are significantly worse than the best one of it."""
    ranked = sorted(cells, key=lambda cell: cell.rank)
    sizes = np.array([len(fold.validation) for fold in folds])
    scores = -np.array([cell.errors for cell in ranked]) / sizes
    n_train = float(np.mean([len(fold.train) for fold in folds]))
    return {ranked[k].candidate for k in worse_than_best(scores, n_train, float(sizes.mean()))}


def survivors(cells: Sequence[Cell], worse: Set[Candidate], most: int, *, every_kernel: bool) -> list[Cell]:
    """Return the cells of a round that go on to the next one, the best first; cells of one kernel are neighbours.

    A cell is dropped if it is one of the `worse`, or if at least `most` other cells are better. With `every_kernel`,
    the best cell of each kernel is kept: a flexible kernel may need more rows to be the best.
    """
    ranked = sorted(cells, key=lambda cell: cell.rank)
    surviving = [cell for cell in ranked if cell.candidate not in worse][:most]
    if every_kernel:
        for cell in ranked:
            if all(cell.choice.simplicity != other.choice.simplicity for other in surviving):
                surviving.append(cell)
    paths = [cell.candidate.path for cell in surviving]
    return sorted(surviving, key=lambda cell: paths.index(cell.candidate.path))
