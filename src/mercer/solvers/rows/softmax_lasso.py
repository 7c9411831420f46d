"""Newton's method on working sets of weights, for softmax regression with the l1 penalty or an elastic net."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import relative_gap
from mercer.certificates.softmax import penalty_gap
from mercer.gram.rows.sweeps import transposed_times
from mercer.problems import inner
from mercer.problems.softmax import SoftmaxProblem, balanced, beta_of, near_softmax, shares_of, softmax_terms
from mercer.solvers.loop import HALVINGS, Step
from mercer.solvers.rows.lasso import LEAST_ENTERING, LEVENBERG, PRODUCTS_ON_SIGNS, best_along, minimise_lasso
from mercer.solvers.rows.row_solver import PROXIMAL_IDLE, StallCounter
from mercer.solvers.rows.softmax_newton import SoftmaxNewton
from mercer.solvers.rows.systems import conjugate_gradients

_INSIDE = 1.0 - 1e-13  # largest |sum_i beta_i x_ij| with the l1 penalty; the limit is 1, and sums are rounded
_LARGEST_BLOCK = 1_600  # weights whose second derivatives are factorised together; their matrix has 20 MB
_DECREASE = 1e-4  # share of the decrease by the model that a step must reach
_WORK = 1 << 27  # multiplications between two checks of the limits
_GROWTH = 10.0  # of C from one problem to the next, before the problem itself
_ROUGH, _ROUGH_STEPS = 0.03, 10  # relative gap, and most steps, of problems with a smaller C
_FORCING = 1e-3  # largest share of the violations of optimality that may be left in a model; the relative gap if less
_ACTIVE_SETS = 100  # that are tried for a model
_CG_TOL = 0.01  # relative residual of conjugate gradients on the weights that are not 0
_SIGN_STEPS = 3  # on these weights, after a visit of all blocks


class SoftmaxLasso(SoftmaxNewton):
    """Newton steps for the weights that are not 0, and for those whose weight 0 is furthest from optimal.

    The matrix of their second derivatives is formed, and descent with the feature-sign method minimises the quadratic
    model with its absolute values. More than 1,600 weights are divided into blocks, which are visited in
    turn.

    References
    ----------
    Friedman, Hastie & Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent
    (quadratic models and active sets); Lee, Battle, Raina & Ng (2007) for the feature-sign method.
    """

    name = "newton on working sets"

    def __init__(
        self,
        problem: SoftmaxProblem,
        start: FloatArray | None,
        check: Callable[[], None],
        memory_limit: int | None,
        n_jobs: int | None,
    ) -> None:
        super().__init__(problem, None, check, memory_limit, n_jobs)
        if start is not None:
            self.w, self.z = start.copy(), self.times(start)
        table = self.part.block.table
        self._columns = table if isinstance(table, np.ndarray) else sp.csc_array(table)
        self._squares = np.square(table) if isinstance(table, np.ndarray) else table.power(2)
        self._is_fresh = start is None
        self._relative_gap = 1.0  # of the last step

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps until the relative gap is at most `tol`, or rounding prevents progress.

        With a large C, quadratic models are good only near the optimum: the problem is solved roughly for smaller C.
        """
        full = self.part
        for factor in self._factors():
            self.part = full._replace(charges=factor * full.charges)
            try:
                yield from self._stage(_ROUGH, _ROUGH_STEPS)
            finally:
                self.part = full
        self._is_fresh = False
        yield from self._stage(tol, None)

    def _factors(self) -> FloatArray:
        """Return the factors of C before the problem itself, from about the least one with weights that are not 0."""
        if not self._is_fresh:
            return np.zeros(0)
        beta = beta_of(self.shares()[0], self.part.codes, self.part.charges)
        largest = float((np.abs(self.pulled(beta)) * self.counted).max(initial=0.0))
        count = np.log(max(1.0, largest / self.problem.l1_ratio)) / np.log(_GROWTH)
        return _GROWTH ** -np.arange(np.floor(count), 0.0, -1.0)

    def _stage(self, tol: float, most: int | None) -> Iterator[Step]:
        """Make Newton steps until the relative gap is at most `tol`, at most `most` of them."""
        stalls, r, first = StallCounter(share=0.99), self.problem.l1_ratio, self.n_iter
        while True:
            self.balance(3)
            part = self.part
            shares, losses = self.shares()
            v = self.pulled(beta_of(shares, part.codes, part.charges))
            loss = inner(part.charges, losses)
            primal = loss + self._penalty_of(self.w)
            gap = self._gap(shares, v)
            relative = relative_gap(primal, primal - gap, gap=gap)
            self._relative_gap = relative
            yield Step(self.n_iter, relative, primal)
            if relative <= tol or self.n_iter - first == most:
                return
            if stalls.count(gap) > PROXIMAL_IDLE:
                return
            violations = np.where(self.w == 0.0, np.maximum(0.0, np.abs(v) - r), 0.0) * self.counted
            active = (self.w != 0.0) | (self.counted == 0.0)
            nonzero = int(active.sum())
            entering = np.flatnonzero(violations)
            room = max(LEAST_ENTERING, nonzero)
            if entering.size > room:
                sizes = (violations * self._scales[:, None]).ravel()[entering]
                entering = entering[np.argpartition(-sizes, room)[:room]]
            active.ravel()[entering] = True
            if self._has_free_bias:  # a common shift of the biases changes nothing, so that one of them stays
                active[-1, 0] = False
            chosen = np.flatnonzero(active.T)  # class by class
            blocks = np.array_split(chosen, max(1, -(-chosen.size // _LARGEST_BLOCK)))
            moved = [self._visit(block // active.shape[0], block % active.shape[0]) for block in blocks if block.size]
            for _ in range(_SIGN_STEPS if len(blocks) > 1 else 0):
                moved.append(self._step_on_signs())
                if not moved[-1]:
                    break
            if not any(moved):
                return
            self.n_iter += 1

    def _penalty_of(self, w: FloatArray) -> float:
        r = self.problem.l1_ratio
        return float((self.counted * (r * np.abs(w) + 0.5 * (1.0 - r) * np.square(w))).sum())

    def _share(self, v: FloatArray) -> float:
        """Return the factor that makes coefficients feasible whose sums of beta_i x_i are v."""
        if self.problem.l1_ratio < 1.0:
            return 1.0
        largest = float((np.abs(v) * self.counted).max(initial=0.0))
        return 1.0 if largest <= _INSIDE else _INSIDE / largest

    def _gap(self, shares: FloatArray, v: FloatArray) -> float:
        """Return the duality gap of the point and the coefficients that belong to it, made feasible."""
        part, share = self.part, self._share(v)
        terms = softmax_terms(self.z, share * shares, part.codes)
        excess = inner(part.charges, terms.losses - terms.entropies + terms.moved)
        apart = penalty_gap(self.w, share * v, np.zeros_like(v), self.counted, self.problem.l1_ratio)[1]
        imbalance = np.abs(v) * (1.0 + np.abs(self.w)) * (self.counted == 0.0)
        return max(0.0, excess) + apart + float(imbalance.sum())

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights, and feasible dual coefficients."""
        w, beta = super().solution()
        share = self._share(self.pulled(beta))
        if share < 1.0:
            part = self.part
            beta = beta_of(share * near_softmax(beta, part.codes, part.charges), part.codes, part.charges)
            if self._has_free_bias:
                beta = balanced(beta, part.codes, part.charges)
        return w, beta

    def _visit(self, classes: IndexArray, columns: IndexArray) -> bool:
        """Make a Newton step for some weights with a line search; return whether the point has moved."""
        self.check()
        part, r = self.part, self.problem.l1_ratio
        shares = self.shares()[0]
        all_shares, beta = self.all_shares(shares), beta_of(shares, part.codes, part.charges)
        groups = [(int(k), np.flatnonzero(classes == k)) for k in np.unique(classes)]
        tables = [self._table_of(columns[at]) for _, at in groups]
        m = classes.size
        matrix, pull = np.zeros((m, m)), np.zeros(m)
        for number, (k, at) in enumerate(groups):
            pull[at] = np.asarray(tables[number].T @ beta[:, k]).ravel()
            for other in range(number + 1):
                second, there = groups[other]
                bends = part.charges * all_shares[:, k] * ((1.0 if k == second else 0.0) - all_shares[:, second])
                block = self._products(tables[number], bends, tables[other])
                matrix[np.ix_(at, there)] = block
                matrix[np.ix_(there, at)] = block.T
        scales = self._scales[columns]
        counted = self.counted[columns, 0]
        w = self.w[columns, classes]
        diagonal = np.einsum("jj->j", matrix)
        diagonal += LEVENBERG * diagonal + (1.0 - r) * counted * np.square(scales)
        diagonal += np.where(diagonal > 0.0, 0.0, 1.0)
        u = w / scales
        gradient = ((1.0 - r) * counted * w) * scales - pull
        penalty = r * counted * scales
        minimum = self._model_minimum(matrix, gradient, penalty, u)
        model = float(gradient @ (minimum - u)) + float(penalty @ (np.abs(minimum) - np.abs(u)))
        if not model < 0.0:
            return False
        change = np.zeros_like(self.z)
        for (k, at), table in zip(groups, tables, strict=True):
            change[:, k] = table @ (minimum - u)[at]
        return self._go((columns, classes), w, minimum * scales, change, model)

    def _step_on_signs(self) -> bool:
        """Make a Newton step for all weights that are not 0, found by conjugate gradients, up to a change of signs.

        Blocks that are visited in turn find the signs, but are slow where columns of several blocks nearly depend on
        each other.
        """
        part, r, is_free = self.part, self.problem.l1_ratio, (self.w != 0.0) | (self.counted == 0.0)
        if self._has_free_bias:
            is_free[-1, 0] = False
        columns, classes = np.nonzero(is_free)
        at = columns, classes
        all_shares = self.all_shares(self.shares()[0])
        scales, counted, w = self._scales[columns], self.counted[columns, 0], self.w[at]
        squares = transposed_times(
            self._squares,
            np.square(self.problem.constant),
            part.charges[:, None] * all_shares * (1.0 - all_shares),
            self.n_jobs,
        )[at] * np.square(scales)
        weight = (1.0 - r) * counted * np.square(scales)
        safe = np.where(weight + squares > 0.0, weight + squares, 1.0)

        def spread(vector: FloatArray) -> FloatArray:
            d = np.zeros_like(self.w)
            d[at] = scales * vector
            return d

        def product(vector: FloatArray) -> FloatArray:
            return np.asarray(weight * vector + scales * self.bent(all_shares, spread(vector))[at])

        beta = beta_of(self.shares()[0], part.codes, part.charges)
        u, penalty = w / scales, r * counted * scales
        gradient = scales * ((1.0 - r) * counted * w - self.pulled(beta)[at])
        step = conjugate_gradients(
            product, -(gradient + penalty * np.sign(u)), lambda s: s / safe, tol=_CG_TOL, max_iter=PRODUCTS_ON_SIGNS
        )
        reached, _ = best_along(u, step, gradient, penalty, float(step @ product(step)))
        model = float(gradient @ (reached - u)) + float(penalty @ (np.abs(reached) - np.abs(u)))
        return model < 0.0 and self._go(at, w, reached * scales, self.times(spread(reached - u)), model)

    def _go(
        self, at: tuple[IndexArray, IndexArray], w: FloatArray, aim: FloatArray, change: FloatArray, model: float
    ) -> bool:
        """Move weights toward their aim until the objective falls enough for the model; return whether they move.

        At the aim, the decision values have changed by `change`, and the objective by `model`, by its slope at w.
        """
        part, step = self.part, aim - w
        value = inner(part.charges, self.shares()[1]) + self._penalty_of(self.w)
        length = 1.0
        for _ in range(HALVINGS):
            self.check()
            moved = self.w.copy()
            moved[at] = aim if length == 1.0 else w + length * step
            z = self.z + length * change
            shares = shares_of(z, part.codes)
            reached = inner(part.charges, shares[1]) + self._penalty_of(moved)
            if reached <= value + _DECREASE * length * model + 1e-15 * abs(value):
                self.w, self.z, self._evaluated = moved, z, shares
                return True
            length *= 0.5
        return False

    def _model_minimum(
        self, matrix: FloatArray, gradient: FloatArray, penalty: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Minimise the model: coordinate descent finds the weights that are 0, and an exact method the others."""
        zero = np.maximum(0.0, np.abs(gradient) - penalty)
        left = np.where(u == 0.0, zero, np.abs(gradient + penalty * np.sign(u)))
        aim = min(_FORCING, self._relative_gap) * float(left.sum())
        about: dict[str, Any] = {"most_steps": _ACTIVE_SETS, "check": self.check, "enough": aim}
        return minimise_lasso(matrix, gradient - matrix @ u, penalty, u, **about)

    def _table_of(self, columns: IndexArray) -> Any:
        """Return chosen columns, scaled, with that of the constant if its number is among them."""
        problem, p, scales = self.problem, self.problem.rows.p, self._scales
        inside = columns[columns < p]
        if isinstance(self._columns, np.ndarray):
            table = self._columns[:, inside].astype(np.float64) * scales[inside]
            if inside.size == columns.size:
                return table
            return np.column_stack([table, np.full(problem.rows.n, problem.constant * scales[p])])
        table = sp.csc_array(self._columns[:, inside].astype(np.float64) @ sp.diags_array(scales[inside]))
        if inside.size == columns.size:
            return table
        return sp.csc_array(sp.hstack([table, np.full((problem.rows.n, 1), problem.constant * scales[p])]))

    def _products(self, first: Any, bends: FloatArray, second: Any) -> FloatArray:
        """Return first' diag(bends) second."""
        if not isinstance(first, np.ndarray):
            self.check()
            return np.asarray((first.T @ sp.csc_array(second.multiply(bends[:, None]))).toarray())
        n, products = first.shape[0], np.zeros((first.shape[1], second.shape[1]))
        height = max(1, _WORK // max(1, products.size))
        for top in range(0, n, height):
            self.check()
            rows = slice(top, top + height)
            products += first[rows].T @ (second[rows] * bends[rows, None])
        return products
