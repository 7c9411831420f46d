"""Whether a fitted machine has learnt from sealed rows, as far as this can be known from what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import _safe_indexing

from mercer.data import Vectors
from mercer.model_selection.copies import content_ranks

_ALL_ROWS = ("X_fit_", "_fit_X", "X_train_")  # attributes that hold all training rows, here and in scikit-learn
_SOME_ROWS = ("support_vectors_",)


def sealed_rows_learnt(machine: Any, X: Any, free: npt.NDArray[np.int64], sealed: npt.NDArray[np.int64]) -> int | None:
    """Return how many sealed rows are among the rows that a machine was fitted to; None if this cannot be known.

    Kernel machines keep their training rows or refer to them, until they are pickled; support vectors are some of them.
    They are compared by content, with what the steps of a pipeline make of the rows. A sealed row that equals a free
    row does not count.
    """
    steps: list[Any] = []
    while hasattr(machine, "best_estimator_") or hasattr(machine, "steps"):
        if hasattr(machine, "best_estimator_"):
            machine = machine.best_estimator_
        else:
            steps += [step for _, step in machine.steps[:-1] if hasattr(step, "transform")]
            machine = machine.steps[-1][1]
    learnt, is_all = _rows_of(machine)
    if learnt is None:
        return None
    transformed = _safe_indexing(X, np.concatenate([free, sealed]))
    try:
        for step in steps:
            transformed = step.transform(transformed)
        both = _stacked(transformed, learnt)
    except (TypeError, ValueError):  # rows that cannot be compared
        return None
    ranks = content_ranks(both)
    ours, theirs = ranks[: free.size + sealed.size], ranks[free.size + sealed.size :]
    hidden = ours[free.size :]
    n_sealed = int(np.count_nonzero(np.isin(hidden, theirs) & ~np.isin(hidden, ours[: free.size])))
    return n_sealed if n_sealed or is_all else None


def _rows_of(machine: Any) -> tuple[Any, bool]:
    """Return rows that the machine was fitted to, or None, and whether these are all."""
    solutions = getattr(machine, "_solutions", None)
    solution = solutions[0] if solutions else machine
    for evidence in (getattr(solution, "evidence", None), _evidence(getattr(solution, "certificate", None))):
        data = getattr(evidence, "data", None)
        if isinstance(data, Vectors):
            return data.stored, True
        table = getattr(getattr(getattr(evidence, "problem", None), "rows", None), "table", None)
        if table is not None:
            return table, True
    certified = _evidence(getattr(machine, "certificate_", None))
    if isinstance(data := getattr(certified, "data", None), Vectors):  # the certificate of a cell refers to all rows
        return data.stored, True
    rows: Any = getattr(certified, "rows", None)
    if getattr(rows, "ndim", 0) == 2:
        return rows, True
    for names, is_all in ((_ALL_ROWS, True), (_SOME_ROWS, False)):
        for name in names:
            rows = getattr(machine, name, None)
            if rows is not None and getattr(rows, "ndim", 0) == 2 and rows.shape[0]:
                return rows, is_all
    return None, False


def _evidence(certificate: Any) -> Any:
    """Return the evidence of a certificate, or of its first part; None without evidence."""
    parts = getattr(certificate, "parts", ())
    return getattr(parts[0] if parts else certificate, "evidence", None)


def _stacked(one: Any, other: Any) -> Any:
    """Return two tables of numbers below each other; raise ValueError if they have other columns."""
    if sparse.issparse(one) or sparse.issparse(other):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(one), sparse.csr_array(other)]))
    return np.vstack([np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)])
