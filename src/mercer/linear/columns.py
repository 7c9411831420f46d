"""The second derivatives of a problem with many columns and the l1 penalty: descent on the columns that count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from mercer._core import column_descent
from mercer._typing import FloatArray
from mercer.linear.curvature import Anchor, Curvature
from mercer.linear.problem import LinearProblem, Part
from mercer.linear.row_terms import TermValues
from mercer.linear.rows import TableRows
from mercer.linear.smooth_terms import SmoothTerms
from mercer.linear.sweeps import native_table, transposed_times

_FORCING = 0.05  # share of the violations of optimality that may be left in the model of a Newton step
_MEMORY = 0.5  # share of a second derivative that a row keeps for the next step; steps would zigzag between kinks
_PASSES = 5  # passes over the columns in one native call, so that limits are checked in between
_CALLS = 200  # native calls for a Newton step


class ColumnCurvature(Curvature):
    """No matrix: the model of a Newton step is minimised by coordinate descent on a copy of the table by columns.

    Only columns whose weight is not 0, or whose weight 0 is not optimal, take part in a step; they are few if C is
    small. The other columns are looked at once in a step, in the sweep of the gradient.

    References
    ----------
    Yuan, Ho & Lin (2012), An improved GLMNET for l1-regularized logistic regression.
    """

    def __init__(
        self,
        problem: LinearProblem,
        terms: SmoothTerms,
        scales: FloatArray,
        n_jobs: int | None,
        *,
        check: Callable[[], None],
    ) -> None:
        del scales  # a step on a column does not depend on its scale
        self.problem, self.terms, self.n_jobs, self._check = problem, terms, n_jobs, check
        self.weights = np.zeros(problem.rows.n)
        (part,) = problem.parts()
        table = part.block.table
        self._columns = sp.csr_array((sp.csc_array(table) if isinstance(table, np.ndarray) else table.tocsc()).T)
        self._seed = 0

    def begin(self) -> None:
        """Do nothing: the h_i are overwritten."""

    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Keep the h_i of a block. If they are piecewise constant, they do not fall at once."""
        at, memory = part.block.at, _MEMORY if self.terms.is_quadratic else 0.0
        self.weights[at] = np.maximum(values.curvature, memory * self.weights[at])
        return transposed_times(part.block.table, self.problem.constant, values.beta, self.n_jobs)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Minimise the model by coordinate descent, up to a share of the violations of optimality at w."""
        counted = self.problem.counted
        weight, centre = (np.zeros(w.size), w) if anchor is None else (anchor.weight, anchor.centre)
        gradient = weight * (w - centre) - pull
        violations = np.where(w == 0.0, np.maximum(0.0, np.abs(gradient) - counted), 0.0)
        violations = np.where(w != 0.0, np.abs(gradient + np.sign(w) * counted), violations)
        chosen = np.flatnonzero((w != 0.0) | (violations > 0.0))
        target = _FORCING * float(violations.sum())
        u, change, curvature = w.copy(), np.zeros(self.problem.rows.n), self.terms.factor * self.weights
        for _ in range(_CALLS):
            self._check()
            self._seed += 1
            _, left = column_descent(
                native_table(self._columns, self.problem.constant),
                curvature=curvature,
                pull=pull,
                penalty=counted,
                weight=weight,
                centre=centre,
                u=u,
                change=change,
                chosen=chosen,
                target=target,
                most=_PASSES,
                seed=self._seed,
            )
            if left <= target:
                break
        return u - w

    def correction(self, w: FloatArray, pull: FloatArray) -> None:
        """Return None, because there is no matrix to solve a system with."""
        del w, pull

    @property
    def bytes_held(self) -> int:
        """Bytes of the copy of the table by columns, and of the numbers of each row and column."""
        return column_bytes(self.problem) + 8 * (2 * self.problem.rows.n + 6 * self.problem.n_columns)


def column_bytes(problem: LinearProblem) -> int:
    """Return the bytes of a copy of the table by columns.

    Raises
    ------
    ValueError
        If the rows are not a table in memory.
    """
    if not isinstance(problem.rows, TableRows):
        raise ValueError(
            f"the l1 penalty with {problem.rows.p:,} columns needs a table in memory, because steps are made by "
            "columns. Use the l2 penalty, or fewer columns."
        )
    table = problem.rows.table
    if isinstance(table, np.ndarray):
        return int(np.count_nonzero(table)) * (table.itemsize + 4) + 8 * (table.shape[1] + 1)
    return int(table.data.nbytes + table.indices.nbytes + table.indptr.itemsize * (table.shape[1] + 1))
