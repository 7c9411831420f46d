"""The lengths of the columns, and the scales with which the solvers multiply them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.cluster import Largest
from mercer.gram.rows.device_table import DeviceTable
from mercer.problems.joint_linear import JointLinearProblem
from mercer.problems.linear import LinearProblem

_LARGEST_SCALE, _LEAST_SCALE = 2.0**500, 2.0**-1000  # scales of columns, whose squares may be 0 but not infinite
_LARGEST_SUM = 1e140  # largest sum of C times the values of a column, whose square is computed


def column_lengths(problem: LinearProblem | JointLinearProblem) -> FloatArray:
    """Return the Euclidean length of each column, or an upper bound if its square overflows, (q,)."""
    return lengths_of(problem, problem.total(_squares, problem.constant))


def lengths_of(problem: LinearProblem | JointLinearProblem, squares: FloatArray) -> FloatArray:
    """Return the roots of the sums of squares; where they overflow, root n times the largest value of the column."""
    if np.isfinite(squares).all():
        return np.sqrt(squares)
    largest = np.zeros(problem.n_columns)
    largest[: problem.rows.p] = problem.total(_largest).value
    return np.where(np.isfinite(squares), np.sqrt(squares), np.sqrt(problem.rows.n) * largest)


def _squares(part: Any, constant: float) -> FloatArray:
    squares: FloatArray = part.block.squares(constant)
    return squares


def _largest(part: Any) -> Largest:
    """Return the largest absolute value of each column, (p,)."""
    table = part.block.table
    if isinstance(table, DeviceTable):
        return Largest(table.largest())
    if not table.shape[0]:
        return Largest(np.zeros(table.shape[1]))
    high, low = table.max(axis=0), table.min(axis=0)
    if not isinstance(table, np.ndarray):
        high, low = high.toarray().ravel(), low.toarray().ravel()
    return Largest(np.maximum(high.astype(np.float64), -low.astype(np.float64)))


def scales_of(problem: LinearProblem | JointLinearProblem, lengths: FloatArray) -> FloatArray:
    """Return a power of 2 for each column that makes its root mean square about 1, (q,); 1 for a column of zeros.

    Raises
    ------
    ValueError
        If the sum of C times the values of a column may overflow.
    """
    charge = problem.total_charge
    sizes = lengths / max(1, problem.rows.n) ** 0.5
    if charge > 0.0 and not (lengths <= _LARGEST_SUM / max(1.0, charge)).all():
        worst = int(np.argmax(lengths))
        raise ValueError(
            f"the values of column {worst} are about {sizes[worst]:.3g}, so that squares of C times its sum are not "
            "finite in float64. Divide the column by a power of 10, or lower C."
        )
    exponents = np.frexp(np.where(sizes > 0.0, sizes, 1.0))[1]
    return np.clip(np.ldexp(1.0, np.clip(-exponents, -1000, 1000)), _LEAST_SCALE, _LARGEST_SCALE)
