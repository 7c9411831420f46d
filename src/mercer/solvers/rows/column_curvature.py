"""The second derivatives of a problem with many columns and an l1 norm: steps on a working set of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer._core import column_descent
from mercer._typing import FloatArray, IndexArray
from mercer.gram.rows.row_terms import TermValues
from mercer.gram.rows.sweeps import add_gram, native_table, transposed_times
from mercer.gram.rows.table_rows import TableRows
from mercer.problems.linear import LinearProblem, Part
from mercer.problems.smooth_terms import SmoothTerms
from mercer.solvers.rows.curvature import Anchor, Curvature
from mercer.solvers.rows.lasso import minimise_lasso

_FORCING = 0.05  # share of the violations of optimality that may be left in the model of a Newton step
_LEAST_ENTERING = 100  # zero weights that may become nonzero in a step; with more nonzero weights, as many as these
_SETTLED = 0.1  # share of the nonzero weights below which zero weights that are not optimal are few: steps are exact
_MOST_EXACT = 2000  # columns of an exact step, which costs about their cube
_MATRICES = 5  # matrices that an exact step holds at a time: its own, the scaled one, and the factor with a copy
_EXACT_STEPS = 20  # active sets that an exact step tries
_RIDGE = 1e-12  # share of a second derivative that is added to it in an exact step
_MEMORY = 0.5  # share of a second derivative that a row keeps for the next step; steps would zigzag between kinks
_FADING = 0.25  # of that share after a step at its full length
_PASSES = 5  # passes over the columns in one native call, so that limits are checked in between
_CALLS = 200  # native calls for a Newton step
_FEW_CALLS = 6  # the same where another solver follows if these are not enough
_FEW_CALLS_SPARSE = 60  # the same for a sparse table, where a pass costs little beside the steps of the other solver


class ColumnCurvature(Curvature):
    """No matrix of all columns: the model of a Newton step is minimised on a working set of columns.

    The working set has the columns whose weight is not 0, and those whose weight 0 is furthest from optimal. Coordinate
    descent on a copy of the table by columns minimises the model roughly. If few columns enter the working set, an
    exact step with its matrix follows: the duality gap depends on the largest violation of optimality, which rough
    steps reduce slowly. The other columns are looked at once in a step, in the sweep of the gradient.

    References
    ----------
    Yuan, Ho & Lin (2012), An improved GLMNET for l1-regularized logistic regression; Massias, Gramfort & Salmon (2018),
    Celer: a fast solver for the lasso with dual extrapolation (working sets).
    """

    def __init__(
        self,
        problem: LinearProblem,
        terms: SmoothTerms,
        scales: FloatArray,
        n_jobs: int | None,
        *,
        check: Callable[[], None],
        spare_bytes: int | None = None,
        gives_up: bool = False,
    ) -> None:
        self.problem, self.terms, self.n_jobs, self._check = problem, terms, n_jobs, check
        self._scales, self._matrix_bytes, self._most_exact = scales, 0, _MOST_EXACT
        if spare_bytes is not None:
            self._most_exact = min(_MOST_EXACT, int((spare_bytes / (8 * _MATRICES)) ** 0.5))
        few = _FEW_CALLS_SPARSE if problem.rows.is_sparse else _FEW_CALLS
        self._calls, self.gave_up = (few if gives_up else _CALLS), False
        self._gives_up = gives_up
        self.weights, self._memory = np.zeros(problem.rows.n), _MEMORY
        (part,) = problem.parts()
        table = part.block.table
        self._columns = sp.csr_array((sp.csc_array(table) if isinstance(table, np.ndarray) else table.tocsc()).T)
        self._seed, self._aim = 0, np.empty(0)

    def begin(self) -> None:
        """Do nothing: the h_i are overwritten."""

    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Keep the h_i of a block. If they are piecewise constant, they do not fall at once."""
        memory = self._memory if self.terms.is_quadratic else 0.0
        self.weights = np.maximum(values.curvature, memory * self.weights)
        return transposed_times(part.block.table, self.problem.constant, values.beta, self.n_jobs)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Minimise the model on some columns: roughly by coordinate descent, and then exactly if they hardly change."""
        l1, anchor = self.problem.l1_weights, self._with_squares(w, anchor)
        gradient = anchor.weight * (w - anchor.centre) - pull
        violations = np.where(w == 0.0, np.maximum(0.0, np.abs(gradient) - l1), 0.0)
        nonzero, entering = np.flatnonzero(w), np.flatnonzero(violations)
        is_settled = entering.size <= _SETTLED * nonzero.size and nonzero.size + entering.size <= self._most_exact
        most = max(_LEAST_ENTERING, nonzero.size)
        if entering.size > most:
            order = np.argpartition(-violations[entering] * self._scales[entering], most)
            entering = entering[order[:most]]
        chosen = np.union1d(nonzero, entering)
        left = violations[entering].sum() + np.abs(gradient + np.sign(w) * l1)[nonzero].sum()
        self._memory = _FADING * self._memory if np.array_equal(w, self._aim) else _MEMORY
        u = self._descend(w, pull, anchor, chosen, _FORCING * float(left))
        if is_settled and chosen.size:
            u[chosen] = self._exact(w, gradient, anchor, chosen, u[chosen])
        self._aim = w + (u - w)  # rounded as by the caller, which may shorten the step
        return u - w

    def _with_squares(self, w: FloatArray, anchor: Anchor | None) -> Anchor:
        """Return the squares of the penalty and the anchor as one term."""
        l2 = self.problem.l2_weights
        if anchor is None:
            return Anchor(l2, np.zeros(w.size) if self.problem.l1_ratio < 1.0 else w)
        weight = anchor.weight + l2
        return Anchor(weight, anchor.centre * (anchor.weight / weight))

    def _descend(
        self, w: FloatArray, pull: FloatArray, anchor: Anchor, chosen: IndexArray, target: float
    ) -> FloatArray:
        """Return weights at which the sum of the model's violations of optimality is at most `target`."""
        u, change, curvature = w.copy(), np.zeros(self.problem.rows.n), self.terms.factor * self.weights
        for _ in range(self._calls):
            self._check()
            self._seed += 1
            _, left = column_descent(
                native_table(self._columns, self.problem.constant),
                curvature=curvature,
                pull=pull,
                penalty=self.problem.l1_weights,
                weight=anchor.weight,
                centre=anchor.centre,
                u=u,
                change=change,
                chosen=chosen,
                target=target,
                most=_PASSES,
                seed=self._seed,
            )
            if left <= target:
                return u
        self.gave_up = self._gives_up
        return u

    def _exact(
        self, w: FloatArray, gradient: FloatArray, anchor: Anchor, chosen: IndexArray, start: FloatArray
    ) -> FloatArray:
        """Minimise the model over the weights of chosen columns by their matrix of second derivatives."""
        rows, constant = self._rows_of(chosen)
        scales, matrix = self._scales[chosen], np.zeros((chosen.size, chosen.size))
        self._matrix_bytes = max(self._matrix_bytes, _MATRICES * matrix.nbytes)
        add_gram(rows, constant, self.terms.factor * self.weights, scales, matrix, self.n_jobs)
        diagonal = np.einsum("jj->j", matrix)
        diagonal *= 1.0 + _RIDGE
        diagonal += anchor.weight[chosen] * np.square(scales)
        linear, penalty = (
            gradient[chosen] * scales - matrix @ (w[chosen] / scales),
            self.problem.l1_weights[chosen] * scales,
        )
        return minimise_lasso(matrix, linear, penalty, start / scales, most_steps=_EXACT_STEPS) * scales

    def _rows_of(self, chosen: IndexArray) -> tuple[Any, float]:
        """Return the table of chosen columns by rows, and the constant if its column is chosen."""
        p = self.problem.rows.p
        has_constant = bool(chosen.size and chosen[-1] == p)
        if has_constant and chosen.size == 1:
            return np.full((self.problem.rows.n, 1), self.problem.constant), 0.0
        rows = sp.csr_array(self._columns[chosen[: chosen.size - has_constant]].T.tocsr())
        return rows, self.problem.constant if has_constant else 0.0

    def correction(self, w: FloatArray, pull: FloatArray) -> None:
        """Return None, because there is no matrix to solve a system with."""
        del w, pull

    @property
    def bytes_held(self) -> int:
        """Bytes of the copy of the table by columns, of the numbers of each row and column, and of matrices."""
        numbers = 2 * self.problem.rows.n + 7 * self.problem.n_columns
        return column_bytes(self.problem) + 8 * numbers + self._matrix_bytes


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
