"""The second derivatives of a problem with many columns and an l1 norm: steps on a working set of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._core import column_descent
from mercer._typing import FloatArray, IndexArray
from mercer.gram.rows.row_terms import TermValues
from mercer.gram.rows.sweeps import add_gram, native_table, times, transposed_times
from mercer.gram.rows.table_rows import TableRows
from mercer.problems.linear import LinearProblem, Part
from mercer.problems.smooth_terms import SmoothTerms
from mercer.solvers.rows.costs import forms_model
from mercer.solvers.rows.curvature import Anchor, Curvature
from mercer.solvers.rows.lasso import LEAST_ENTERING, PRODUCTS_ON_SIGNS, best_along, minimise_lasso
from mercer.solvers.rows.systems import conjugate_gradients

_FORCING = 0.05  # share of the violations of optimality that may be left in the model of a Newton step
_SLOW = 2.0  # multiple of that share which, if it is left, tells that other solvers are faster
_MOST_EXACT = 2000  # columns of an exact step, which costs about their cube
_MATRICES = 5  # matrices that an exact step holds at a time: its own, the scaled one, and the factor with a copy
_EXACT_STEPS = 20  # active sets that an exact step tries
_FEW_EXACT_STEPS = 5  # the same where another solver follows if these are not enough
_CG_TOL = 0.1  # relative residual of conjugate gradients on the weights that are not 0
_RIDGE = 1e-12  # share of a second derivative that is added to it in an exact step
_MEMORY = 0.5  # share of a second derivative that a row keeps for the next step; steps would zigzag between kinks
_FADING = 0.25  # of that share after a step at its full length
_PASSES = 5  # passes over the columns before conjugate gradients
_ENTRIES = 5e6  # entries of the columns that one native call passes over, so that limits are checked in between
_ROUNDS = 200  # of passes and conjugate gradients for a Newton step
_FEW_ROUNDS = 6  # the same where another solver follows, also in excess of one a step for all steps
_FEW_ROUNDS_SPARSE = 60  # the same for a sparse table, where a pass costs little beside the steps of the other solver


class ColumnCurvature(Curvature):
    """No matrix of all columns: the model of a Newton step is minimised on a working set of columns.

    The working set has the columns whose weight is not 0, and those whose weight 0 is furthest from optimal. Where the
    matrix of its second derivatives costs less than many passes over its columns, the model is minimised with it.
    Otherwise, coordinate descent on a copy of the table by columns finds the signs, and conjugate gradients the weights
    of these signs. The other columns are looked at once in a step, in the sweep of the gradient.

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
        few = _FEW_ROUNDS_SPARSE if problem.rows.is_sparse else _FEW_ROUNDS
        self._rounds, self._more, self.gave_up = (few if gives_up else _ROUNDS), 0, False
        self._gives_up = gives_up
        self.weights, self._memory = np.zeros(problem.rows.n), _MEMORY
        assert isinstance(problem.rows, TableRows)
        self._copy = problem.rows.columns
        has_constant = [problem.rows.n] * (problem.constant != 0.0)
        self._counts = np.append(self._copy.counts, has_constant)  # entries of each column
        self._seed, self._aim = 0, np.empty(0)

    def begin(self) -> None:
        """Do nothing: the h_i are overwritten."""

    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Keep the h_i of a block. If they are piecewise constant, they do not fall at once."""
        memory = self._memory if self.terms.is_quadratic else 0.0
        self.weights = np.maximum(values.curvature, memory * self.weights)
        return transposed_times(part.block.table, self.problem.constant, values.beta, self.n_jobs)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Minimise the model on some columns, with their matrix if that is faster."""
        l1, anchor = self.problem.l1_weights, self._with_squares(w, anchor)
        gradient = anchor.weight * (w - anchor.centre) - pull
        violations = np.where(w == 0.0, np.maximum(0.0, np.abs(gradient) - l1), 0.0)
        nonzero, entering = np.flatnonzero(w), np.flatnonzero(violations)
        most = max(LEAST_ENTERING, nonzero.size)
        if entering.size > most:
            order = np.argpartition(-violations[entering] * self._scales[entering], most)
            entering = entering[order[:most]]
        chosen = np.union1d(nonzero, entering)
        left = violations[entering].sum() + np.abs(gradient + np.sign(w) * l1)[nonzero].sum()
        self._memory = _FADING * self._memory if np.array_equal(w, self._aim) else _MEMORY
        count = int(self._counts[chosen].sum())
        if chosen.size <= self._most_exact and forms_model(self.problem.rows.n, chosen.size, count):
            u = w.copy()
            u[chosen] = self._exact(w, gradient, anchor, chosen, _FORCING * float(left))
        else:
            u = self._descend(w, pull, anchor, chosen, _FORCING * float(left))
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
        at_once = max(1, int(_ENTRIES / max(1, self._counts[chosen].sum())))
        for number in range(self._rounds):
            for first in range(0, _PASSES, at_once):
                self._check()
                self._seed += 1
                _, left = column_descent(
                    native_table(self._copy.by_columns, self.problem.constant),
                    curvature=curvature,
                    pull=pull,
                    penalty=self.problem.l1_weights,
                    weight=anchor.weight,
                    centre=anchor.centre,
                    u=u,
                    change=change,
                    chosen=chosen,
                    target=target,
                    most=min(at_once, _PASSES - first),
                    seed=self._seed,
                )
                if left <= target:
                    self._more += number
                    self.gave_up = self._gives_up and self._more > self._rounds
                    return u
            self._step_on_signs(u, change, pull, anchor, chosen)
        self.gave_up = self._gives_up
        return u

    def _step_on_signs(
        self, u: FloatArray, change: FloatArray, pull: FloatArray, anchor: Anchor, chosen: IndexArray
    ) -> None:
        """Minimise the model over the weights that are not 0 by conjugate gradients, up to a change of signs, in place.

        Coordinate descent finds the signs fast, but is slow on columns that nearly depend on each other.
        """
        l1, curvature, n_jobs = self.problem.l1_weights, self.terms.factor * self.weights, self.n_jobs
        moving = chosen[(u[chosen] != 0.0) | (l1[chosen] == 0.0)]
        if not moving.size:
            return
        rows, places, constant = self._rows_of(moving)
        spread, scales = np.zeros(rows.shape[1] + (constant != 0.0)), self._scales[moving]
        weight = anchor.weight[moving] * np.square(scales)

        def values(vector: FloatArray) -> FloatArray:
            spread[places] = scales * vector
            return times(rows, constant, spread, n_jobs)

        def sums(of_rows: FloatArray) -> FloatArray:
            return scales * transposed_times(rows, constant, of_rows, n_jobs)[places]

        def product(vector: FloatArray) -> FloatArray:
            self._check()
            return weight * vector + sums(curvature * values(vector))

        squares = np.asarray((np.square(rows) if isinstance(rows, np.ndarray) else rows.power(2)).T @ curvature)
        squares = np.append(squares, np.square(constant) * curvature.sum())
        diagonal = weight + np.square(scales) * squares[places]
        safe = np.where(diagonal > 0.0, diagonal, 1.0)
        gradient = scales * (anchor.weight * (u - anchor.centre) - pull)[moving] + sums(curvature * change)
        start, penalty = u[moving] / scales, l1[moving] * scales
        step = conjugate_gradients(
            product, -(gradient + penalty * np.sign(start)), lambda r: r / safe, tol=_CG_TOL, max_iter=PRODUCTS_ON_SIGNS
        )
        along = values(step)
        bends = float(weight @ np.square(step) + curvature @ np.square(along))
        reached, length = best_along(start, step, gradient, penalty, bends)
        u[moving] = reached * scales
        change += length * along

    def _exact(
        self, w: FloatArray, gradient: FloatArray, anchor: Anchor, chosen: IndexArray, target: float
    ) -> FloatArray:
        """Minimise the model over the weights of chosen columns by their matrix of second derivatives."""
        rows, places, constant = self._rows_of(chosen)
        size = rows.shape[1] + (constant != 0.0)
        scales, matrix, lengths = self._scales[chosen], np.zeros((size, size)), np.ones(size)
        self._matrix_bytes = max(self._matrix_bytes, _MATRICES * matrix.nbytes + self._copy.cached_bytes)
        lengths[places] = scales
        add_gram(rows, constant, self.terms.factor * self.weights, lengths, matrix, self.n_jobs)
        if chosen.size < size:
            matrix = np.ascontiguousarray(matrix[np.ix_(places, places)])
        diagonal = np.einsum("jj->j", matrix)
        diagonal *= 1.0 + _RIDGE
        diagonal += anchor.weight[chosen] * np.square(scales)
        start, penalty = w[chosen] / scales, self.problem.l1_weights[chosen] * scales
        linear = gradient[chosen] * scales - matrix @ start
        about: dict[str, Any] = {
            "most_steps": _FEW_EXACT_STEPS if self._gives_up else _EXACT_STEPS,
            "check": self._check,
            "enough": target * float(scales.min()),
        }
        minimum = minimise_lasso(matrix, linear, penalty, start, **about)
        slope = matrix @ minimum + linear
        left = np.where(
            minimum != 0.0, np.abs(slope + np.sign(minimum) * penalty), np.maximum(0.0, np.abs(slope) - penalty)
        )
        self.gave_up = self._gives_up and float((left / scales).sum()) > _SLOW * target
        return minimum * scales

    def _rows_of(self, chosen: IndexArray) -> tuple[Any, IndexArray, float]:
        """Return a table by rows, the places of the chosen columns in it, and the constant if its column is chosen."""
        p = self.problem.rows.p
        has_constant = bool(chosen.size and chosen[-1] == p)
        if has_constant and chosen.size == 1:
            return np.full((self.problem.rows.n, 1), self.problem.constant), np.zeros(1, dtype=np.intp), 0.0
        rows, places = self._copy.rows_of(chosen[: chosen.size - has_constant])
        if not has_constant:
            return rows, places, 0.0
        return rows, np.append(places, rows.shape[1]), self.problem.constant

    def correction(self, w: FloatArray, pull: FloatArray) -> None:
        """Return None, because there is no matrix to solve a system with."""
        del w, pull

    @property
    def memory_bytes(self) -> int:
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
