"""The second derivatives of a linear problem, and the Newton directions that they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.gram.factorisation import Check, no_check
from mercer.gram.rows.newton_pass import MOST_PASS_COLUMNS, can_pass, newton_pass
from mercer.gram.rows.row_terms import TermValues
from mercer.gram.rows.sweeps import add_gram, collect, column_squares, times, transposed_times
from mercer.gram.rows.table_rows import Block, RowNumbers
from mercer.problems.linear import LinearProblem, Part
from mercer.problems.smooth_terms import ProximalTerms, SmoothTerms
from mercer.solvers.rows.lasso import LEVENBERG, minimise_lasso
from mercer.solvers.rows.systems import conjugate_gradients, solve_positive

_FORCING = 0.03  # norm of the residual of conjugate gradients relative to the gradient, in the preconditioner's norm
_MOST_CHANGES = 100.0  # ratio of all changes of the matrix to its size, after which it is computed from scratch
_PRODUCTS = 4e9  # squared columns times rows between two checks of the limits
_SPARSE = 10.0  # time of a product of two entries of a sparse row, relative to that of one in a dense row


@dataclass(eq=False)
class Anchor:
    """A term that is added to a penalty with the l1 norm: sum_j weight_j (w_j - centre_j)² / 2, with weights > 0."""

    weight: FloatArray
    centre: FloatArray

    def value(self, w: FloatArray) -> float:
        """Return the value at w."""
        return 0.5 * float(self.weight @ np.square(w - self.centre))

    def distance(self, w: FloatArray, pull: FloatArray, problem: LinearProblem) -> float:
        """Return by how much the penalty with this term, less <pull, w>, exceeds its minimum."""
        l1, l2 = problem.l1_weights, problem.l2_weights
        share = self.weight / (self.weight + l2)
        moved = share * (self.centre + pull / self.weight)
        best = np.sign(moved) * np.maximum(0.0, np.abs(moved) - share * (l1 / self.weight))
        change = l1 @ (np.abs(w) - np.abs(best)) - pull @ (w - best)
        change += 0.5 * (l2 @ (np.square(w) - np.square(best)))
        return float(change) + self.value(w) - self.value(best)


class Sweep(NamedTuple):
    """What a sweep finds at a point: sum_i beta_i x_i (q,), sums of the terms (see TermValues), and ||beta||²."""

    pull: FloatArray
    total: float
    loss: float
    excess: float
    squares: float


class Curvature(ABC):
    """The second derivatives, collected block by block in the sweep of the gradient.

    They are those of the terms: factor times sum_i h_i x_i x_i'.
    """

    problem: LinearProblem
    terms: SmoothTerms
    n_jobs: int | None
    check: Check = staticmethod(no_check)  # of the last sweep
    gave_up = False  # whether a direction was too slow to find, so that another solver should follow

    def store(self) -> None:  # noqa: B027
        """Store what the same rows with another penalty can use."""

    def sweep(self, w: FloatArray | None, z: RowNumbers, check: Callable[[], None]) -> Sweep:
        """Return the sums at the weights `w`, and collect the second derivatives there.

        The decision values are written to `z`; without `w`, they are read from it. `check` is called between blocks.
        """
        self.check = check
        self.begin()
        pull, numbers, elsewhere = self.problem.total(_sweep_part, self, w, z, check=check)
        if elsewhere is not None:
            self.take(elsewhere)
        return Sweep(pull, *(float(number) for number in numbers))

    def hand_over(self) -> Any:
        """Return what a copy of this object has collected since the last call, if it is one on a worker; else None."""
        return None

    def take(self, collected: Any) -> None:
        """Add what copies on workers have collected."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what only the process of the fit can check."""
        return {name: value for name, value in self.__dict__.items() if name != "check"}

    def chunks(self, part: Part) -> Iterator[Part]:
        """Return the pieces of a block between which limits are checked."""
        yield part

    def sums_of(self, part: Part, w: FloatArray | None, z: RowNumbers) -> tuple[FloatArray, FloatArray]:
        """Return the sums of a block, chunk by chunk; see :meth:`sweep`."""
        pull, numbers = np.zeros(self.problem.n_columns), np.zeros(4)
        for chunk in self.chunks(part):
            self.check()
            chunk_sums, sums = self.see(chunk, w, z)
            pull += chunk_sums
            numbers += sums
        return pull, numbers

    def see(
        self, part: Part, w: FloatArray | None, z: RowNumbers
    ) -> tuple[FloatArray, tuple[float, float, float, float]]:
        """Return the sums of a chunk; see :meth:`sweep`."""
        at = part.block.at
        if w is not None:
            z[at] = times(part.block.table, self.problem.constant, w, self.n_jobs)
        values = self.terms.values(part, z[at], self.n_jobs)
        squares = float(values.beta @ values.beta)
        return self.collect(part, values), (values.total, values.loss, values.excess, squares)

    @property
    def is_wide(self) -> bool:
        """Whether a sweep costs much more than the decision values, because it updates a matrix of many columns."""
        return False

    def multiply(self, w: FloatArray, z: RowNumbers, check: Callable[[], None]) -> None:
        """Write the products of the rows, which are in memory, with `w` to `z`."""
        for part in self.problem.parts():
            for chunk in self.chunks(part):
                check()
                z[chunk.block.at] = times(chunk.block.table, self.problem.constant, w, self.n_jobs)

    @abstractmethod
    def begin(self) -> None:
        """Prepare for a sweep."""

    @abstractmethod
    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Add the h_i of a block of rows, and return its sum of beta_i x_i, (q,)."""

    @abstractmethod
    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Return the Newton step at the weights w; `pull` is minus the gradient of the terms, sum_i beta_i x_i.

        An `anchor` is part of the objective.
        """

    def correction(self, w: FloatArray, pull: FloatArray) -> FloatArray | None:
        """Return the change of w whose change of the coefficients makes their sum optimal; None if it is not known.

        With the l1 penalty, only the weights that are not 0 change.
        """
        return self.direction(w, pull, None)

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes of the matrices and of the numbers of each row."""


def _sweep_part(
    part: Part, curvature: Curvature, w: FloatArray | None, z: RowNumbers
) -> tuple[FloatArray, FloatArray, Any]:
    """Return the sums of a block; see :meth:`Curvature.sweep`."""
    return *curvature.sums_of(part, w, z), curvature.hand_over()


CurvatureOf = Callable[[LinearProblem, SmoothTerms, FloatArray, int | None], Curvature]
"""Makes the second derivatives of a problem's terms, with the scales of the columns and the number of threads."""


class GramCurvature(Curvature):
    """The matrix itself, in columns that are multiplied by `scales`, powers of 2.

    Where second derivatives are piecewise constant, only rows whose derivative has changed are added or removed.
    """

    def __init__(self, problem: LinearProblem, terms: SmoothTerms, scales: FloatArray, n_jobs: int | None) -> None:
        self.problem, self.terms, self.scales, self.n_jobs = problem, terms, scales, n_jobs
        q = problem.n_columns
        self.gram = np.zeros((q, q))
        self.previous: RowNumbers | None = problem.rows.numbers() if terms.is_quadratic else None
        self.is_fresh, self.now, self.moved = True, 0.0, 0.0  # sums of the h_i in the matrix, and of their changes
        last = problem.rows.curvature
        if last is not None and self.previous is not None and self._continues(last):
            ratio = problem.C / last.problem.C  # the h_i are in proportion to C
            self.gram, self.previous = ratio * last.gram, ratio * last.previous
            self.is_fresh, self.now, self.moved = False, ratio * last.now, ratio * last.moved

    def _continues(self, last: GramCurvature) -> bool:
        """Return whether the matrix of another problem on the same rows differs in its penalty, and in no other way."""
        one, other = self.problem, last.problem
        alike = one.positive == other.positive and one.loss == other.loss and one.constant == other.constant
        ratio = one.C / other.C
        return (
            alike
            and np.array_equal(self.scales, last.scales)
            and all(
                np.allclose(ratio * before.charges, now.charges, rtol=1e-9, atol=0.0)
                for before, now in zip(other.row_parts(), one.row_parts(), strict=True)
            )
        )

    def store(self) -> None:
        """Store the matrix for the next penalty, if the rows ask for it."""
        rows = self.problem.rows
        if rows.is_shared and self.previous is not None:
            rows.curvature = self

    _is_copy = False  # on a worker

    def __getstate__(self) -> dict[str, Any]:
        """Leave the matrix behind: a copy on a worker collects one of its blocks."""
        return {**super().__getstate__(), "gram": None, "_is_copy": True, "now": 0.0, "moved": 0.0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.gram = np.zeros((self.problem.n_columns,) * 2)

    def hand_over(self) -> tuple[FloatArray, float, float] | None:
        """Return the sums of a copy on a worker, and begin again at 0."""
        if not self._is_copy:
            return None
        sums = self.gram, self.now, self.moved
        self.gram, self.now, self.moved = np.zeros_like(self.gram), 0.0, 0.0
        return sums

    def take(self, collected: Any) -> None:
        """Add the sums of all workers."""
        gram, now, moved = collected
        self.gram += gram
        self.now += now
        self.moved += moved

    def begin(self) -> None:
        """Forget the matrix, unless it is updated by changes whose rounding errors are small."""
        self.is_fresh = self.previous is None or self.moved > _MOST_CHANGES * self.now
        self.now = 0.0
        if self.is_fresh:
            self.moved = 0.0
            self.gram[:] = 0.0

    def chunks(self, part: Part) -> Iterator[Part]:
        """Return pieces whose sums take about 0.1 s."""
        m, block, each = part.targets.size, part.block, float(self.problem.n_columns**2)
        if self.problem.rows.is_sparse:
            each = min(each, _SPARSE * (block.table.nnz / max(1, m) + 1.0) ** 2)
        height = max(1, int(_PRODUCTS / each))
        if m <= height:
            yield part
            return
        first = block.at.start or 0
        for top in range(0, m, height):
            rows = slice(top, min(m, top + height))
            at = slice(first + rows.start, first + rows.stop)
            chunk = Block(at, block.table[rows], block.labels[rows], block.weights[rows])
            yield Part(chunk, part.targets[rows], part.charges[rows])

    def see(
        self, part: Part, w: FloatArray | None, z: RowNumbers
    ) -> tuple[FloatArray, tuple[float, float, float, float]]:
        """Return the sums of a block, in one native pass if it is dense."""
        table, constant, at = part.block.table, self.problem.constant, part.block.at
        bends = isinstance(self.terms, ProximalTerms) and self.terms.bend
        if bends or self.is_wide or not can_pass(table, constant):
            return super().see(part, w, z)
        m, pull = table.shape[0], np.empty(self.problem.n_columns)
        values = _place(z, at, m, is_read=w is None)
        curvature = None if self.previous is None else _place(self.previous, at, m, is_read=not self.is_fresh)
        sums = newton_pass(
            table,
            constant,
            self.terms.of_rows(part),
            w,
            values,
            curvature,
            self.scales,
            pull,
            self.gram,
            is_update=not self.is_fresh,
            n_jobs=self.n_jobs,
        )
        if w is not None and not isinstance(z, np.ndarray):
            z[at] = values
        if self.previous is not None and curvature is not None and not isinstance(self.previous, np.ndarray):
            self.previous[at] = curvature
        self.now += sums.curvature
        self.moved += sums.change
        return pull, (sums.total, sums.loss, sums.excess, sums.squares)

    @property
    def is_wide(self) -> bool:
        """Whether rows are in memory, dense, and too wide for one native pass."""
        rows = self.problem.rows
        is_in_memory = rows.keeps_blocks and not rows.is_elsewhere
        return is_in_memory and not rows.is_sparse and self.problem.n_columns > MOST_PASS_COLUMNS

    def sums_of(self, part: Part, w: FloatArray | None, z: RowNumbers) -> tuple[FloatArray, FloatArray]:
        """Return the sums of a block.

        Adding rows to a wide matrix costs as much as some hundred of them before the first: the rows of all chunks are
        added together.
        """
        if not self.is_wide:
            return super().sums_of(part, w, z)
        self._waiting = []
        try:
            sums = super().sums_of(part, w, z)
            self._add(part, np.concatenate(self._waiting))
        except BaseException:
            self.moved = np.inf  # some changes are not in the matrix: the next sweep computes it from scratch
            raise
        finally:
            self._waiting = None
        return sums

    def _add(self, part: Part, weights: FloatArray) -> None:
        """Add the rows of a block with their weights, in pieces that take about 0.1 s."""
        table, rows = part.block.table, np.flatnonzero(weights)
        height = max(1, int(_PRODUCTS / self.problem.n_columns**2))
        for first in range(0, rows.size, height):
            self.check()
            chunk = slice(rows[first], rows[min(first + height, rows.size) - 1] + 1)
            add_gram(table[chunk], self.problem.constant, weights[chunk], self.scales, self.gram, self.n_jobs)

    _waiting: list[FloatArray] | None = None  # the changes of the chunks of a block, which are added together

    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Add a chunk, or its changes."""
        curvature = change = values.curvature
        if self.previous is not None:
            if not self.is_fresh:
                change = curvature - self.previous[part.block.at]
            self.previous[part.block.at] = curvature
        self.now += float(curvature.sum())
        self.moved += float(np.abs(change).sum())
        table, constant = part.block.table, self.problem.constant
        if self._waiting is not None:
            self._waiting.append(change)
            return transposed_times(table, constant, values.beta, self.n_jobs)
        return collect(table, constant, values.beta, change, self.scales, self.gram, self.n_jobs)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Solve by Cholesky factorisation, or with the l1 penalty by the feature-sign method."""
        l1, l2, scales = self.problem.l1_weights, self.problem.l2_weights, self.scales
        matrix = self.terms.factor * self.gram
        diagonal = np.einsum("jj->j", matrix)
        diagonal += l2 * np.square(scales)
        pull = pull - l2 * w
        if self.problem.l1_ratio == 0.0:
            return solve_positive(matrix, pull * scales, self.check) * scales
        if anchor is None:  # keep the step short in directions without curvature, where it is not unique
            diagonal += np.where(diagonal > 0.0, LEVENBERG * diagonal, 1.0)
        else:
            diagonal += anchor.weight * np.square(scales)
            pull = pull - anchor.weight * (w - anchor.centre)
        u = w / scales
        return (minimise_lasso(matrix, -pull * scales - matrix @ u, l1 * scales, u, check=self.check) - u) * scales

    def correction(self, w: FloatArray, pull: FloatArray) -> FloatArray:
        """Solve the system of the columns whose weight is not 0, or of all with the l2 penalty."""
        problem, change = self.problem, np.zeros(w.size)
        if problem.l1_ratio == 0.0:
            return self.direction(w, pull, None)
        moving = np.flatnonzero((w != 0.0) | (problem.counted == 0.0))
        if moving.size:
            aim = (pull - problem.l1_weights * np.sign(w) - problem.l2_weights * w)[moving] * self.scales[moving]
            matrix = self.terms.factor * self.gram[np.ix_(moving, moving)]
            matrix.flat[:: moving.size + 1] += problem.l2_weights[moving] * np.square(self.scales[moving])
            change[moving] = solve_positive(matrix, aim, self.check) * self.scales[moving]
        return change

    @property
    def memory_bytes(self) -> int:
        """Bytes of the matrix and its factor, and of the curvature of each row."""
        return gram_bytes(self.problem)


def _column_squares(part: Part, constant: float, n_jobs: int | None) -> FloatArray:
    return column_squares(part.block.table, constant, n_jobs)


def _weighted_product(
    part: Part, constant: float, factor: float, weights: RowNumbers, vector: FloatArray, n_jobs: int | None
) -> FloatArray:
    """Return sum_i factor h_i x_i <x_i, vector>."""
    about = part.block.table, constant
    return transposed_times(*about, factor * weights[part.block.at] * times(*about, vector, n_jobs), n_jobs)


def _place(numbers: RowNumbers, at: slice, m: int, *, is_read: bool) -> FloatArray:
    """Return an array (m,) to which the numbers of a block are written: the place itself if it is in memory."""
    if isinstance(numbers, np.ndarray):
        return numbers[at]
    return np.array(numbers[at]) if is_read else np.empty(m)


def gram_bytes(problem: LinearProblem) -> int:
    """Return the bytes of :class:`GramCurvature`, with copies of the matrix for its factorisation."""
    return 8 * (4 * problem.n_columns**2 + (0 if problem.rows.limits_numbers else 2 * problem.rows.n))


class SweptCurvature(Curvature):
    """No matrix: its products with vectors are sweeps over the table. For the l2 penalty.

    A direction is found by conjugate gradients, with the diagonal as preconditioner, to a precision that is enough for
    the line search.
    """

    def __init__(self, problem: LinearProblem, terms: SmoothTerms, scales: FloatArray, n_jobs: int | None) -> None:
        self.problem, self.terms, self.scales, self.n_jobs = problem, terms, scales, n_jobs
        self.weights: RowNumbers = problem.rows.numbers()
        self.total = 0.0
        with np.errstate(over="ignore"):
            self.squares = problem.total(_column_squares, problem.constant, n_jobs) * np.square(scales)

    _is_copy = False  # on a worker

    def __getstate__(self) -> dict[str, Any]:
        """Leave the squares behind."""
        return {**super().__getstate__(), "squares": None, "_is_copy": True, "total": 0.0}

    def hand_over(self) -> float | None:
        """Return the sum of a copy on a worker, and begin again at 0."""
        total, self.total = self.total, 0.0 if self._is_copy else self.total
        return total if self._is_copy else None

    def take(self, collected: Any) -> None:
        """Add the sums of all workers."""
        self.total += collected

    def begin(self) -> None:
        """Start the sum of the h_i."""
        self.total = 0.0

    def collect(self, part: Part, values: TermValues) -> FloatArray:
        """Keep the h_i of a block."""
        self.weights[part.block.at] = values.curvature
        self.total += float(values.curvature.sum())
        return transposed_times(part.block.table, self.problem.constant, values.beta, self.n_jobs)

    def direction(self, w: FloatArray, pull: FloatArray, anchor: Anchor | None) -> FloatArray:
        """Solve by conjugate gradients; the diagonal is that of h_i that are all equal to their mean."""
        problem, scales, factor = self.problem, self.scales, self.terms.factor
        penalty = problem.counted * np.square(scales)
        mean = factor * self.total / max(1, problem.rows.n)
        diagonal = penalty + mean * np.where(np.isfinite(self.squares), self.squares, 1.0)
        diagonal = np.where(diagonal > 0.0, diagonal, 1.0)

        def product(vector: FloatArray) -> FloatArray:
            about = problem.constant, factor, self.weights, scales * vector, self.n_jobs
            return penalty * vector + scales * problem.total(_weighted_product, *about, check=self.check)

        right = (pull - problem.counted * w) * scales
        return scales * conjugate_gradients(product, right, lambda residual: residual / diagonal, tol=_FORCING)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the curvature of each row, and of some vectors of a number for each column."""
        return 8 * (self.problem.rows.n + 10 * self.problem.n_columns)
