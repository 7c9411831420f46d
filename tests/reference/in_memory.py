"""Problems on rows of a Gram matrix in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.pairs import pair_steps

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def solve_in_memory(
    matrix: FloatArray,
    rows: IndexArray,
    linear: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    ridge: FloatArray | None,
    groups: IndexArray | None,
    n_groups: int,
    beta: FloatArray,
    values: FloatArray,
    tol: float,
) -> tuple[int, int, float]:
    """Solve a problem on rows of a matrix by pair steps on all variables; `values` become the whole matrix times beta.

    Returns how it ended, steps and violation.
    """
    order = np.arange(rows.size) if groups is None else np.argsort(groups, kind="stable")
    starts = np.zeros(1, dtype=np.int64)
    if groups is not None:
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1))
    problem_rows = rows[order]
    added = np.zeros(rows.size) if ridge is None else ridge[order]
    point = beta[order]
    gradient = matrix[np.ix_(problem_rows, problem_rows)] @ point + added * point + linear[order]
    square = matrix[np.ix_(problem_rows, problem_rows)] + np.diag(added)
    ended = pair_steps(square, point, gradient, lower[order], upper[order], starts, tol, 10**6)
    beta[order] = point
    values[:] = matrix[:, rows] @ beta
    return ended
