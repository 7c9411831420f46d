"""Gradient projection with conjugate gradients: the solver of problems whose kernel matrix is only multiplied."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np

from mercer._typing import BoolArray, FloatArray
from mercer.certificates.evaluation import conditions_of
from mercer.gram import Gram
from mercer.problems import Problem, inner
from mercer.solvers.solver import Solver, State

_PRODUCTS = 150.0  # typical number of products of a fit (benchmarks/NOTES.md, "training from products")
_PROJECTIONS = 8  # projected gradient steps in a row, at most; they change the set of free variables
_STEADY = 0.02  # share of the free variables; if a projected step changes fewer, conjugate gradients follow
_CONJUGATE = 60  # conjugate gradient steps in a row, at most
_SLOW = 0.25  # share of the largest decrease of a step; conjugate gradients with smaller decreases end
_SHARPER = 0.1  # factor on this share as long as the set of free variables does not change, down to
_SHARPEST = 1e-6
_ALIKE = 10.0  # ratio of the violation to the error of the free variables, up to which the set of these may be final
_HALVING_PRODUCTS = 300  # products; if they do not halve the violation, the working-set solver continues
_SHARE = 0.1  # of the tolerance; conjugate gradients end at residuals that small
_SCALES = 1e-6  # of the largest curvature: the smallest one that a variable counts as
_ARRAYS = 12  # arrays of all variables besides those of every solver
_CORRECTIONS = 3  # of the rounding of a sum
_MOST_LEVELS = 200  # steps to the level of a group; Newton's method takes about five


@dataclass
class ProductState(State):
    """The state of gradient projection.

    Attributes
    ----------
    values : ndarray of shape (n,)
        K beta.
    is_current : bool
        Whether `values` and the gradient belong to the point.
    length : float
        Length of the next projected step.
    rounded : bool
        Whether no step decreased the objective, by the gradient before the last refresh.
    lowest : float
        Smallest violation so far.
    best, looked : float, int
        The smallest violation and the number of steps when progress was last measured.
    """

    values: FloatArray = field(default_factory=lambda: np.zeros(0))
    is_current: bool = False
    tol: float = 1e-3
    length: float = 1.0
    rounded: bool = False
    lowest: float = np.inf
    best: float = np.inf
    looked: int = 0


@final
class GradientProjection(Solver[ProductState]):
    """Minimises a quadratic with bounds, and with given sums of groups, by products of the kernel matrix with vectors.

    Two kinds of steps alternate, each of which costs one product and decreases the objective. Steps along the
    projected gradient change many variables from free to bounded and back; their lengths are those of Barzilai and
    Borwein. Conjugate gradients then minimise over the free variables. A step to the projection of their point follows.
    All lengths are exact minima along a segment between two feasible points, so that every point is feasible.

    References
    ----------
    Moré & Toraldo (1991), On the solution of large quadratic programming problems with bound constraints; Barzilai &
    Borwein (1988).
    """

    name = "gradient projection and conjugate gradients"

    @staticmethod
    def reason(problem: Problem, gram: Gram) -> str | None:
        """Return why products solve the problem faster than kernel values do; None if they do not.

        Without a ridge, a singular matrix takes too many steps.
        """
        cost, n_values = gram.product_cost, 0.5 * float(gram.n) ** 2
        if problem.ridge is None and gram.product_rank < gram.n:
            return None
        if cost is None or problem.n_outputs > 1 or not products_are_faster(cost, 1, n_values):
            return None
        seconds, of_value = cost
        return (
            f"a product with the kernel matrix takes {1e3 * seconds:.2g} ms without kernel values, and half of the "
            f"values would take {n_values * of_value:.2g} s"
        )

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> ProductState:
        """Return the state at `start`, or at the starting point of the problem."""
        self._problem, self._gram = problem, gram
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        curvature = gram.diag() if problem.ridge is None else gram.diag() + problem.ridge
        self._ridge = np.zeros(problem.n) if problem.ridge is None else problem.ridge
        self._scales = 1.0 / np.maximum(curvature, _SCALES * max(1.0, float(curvature.max(initial=0.0))))
        state = ProductState(beta, problem.linear + self._ridge * beta, values=np.zeros(problem.n), tol=tol)
        state.is_current = not beta.any()
        state.peak_bytes = _ARRAYS * beta.nbytes
        return state

    def refresh(self, state: ProductState, gradient: FloatArray, tol: float) -> None:
        """Continue from the true gradient; see :class:`Solver`."""
        state.gradient, state.tol, state.is_current = gradient.copy(), tol, True
        state.values = gradient - self._problem.linear - self._ridge * state.beta

    def steps(self, state: ProductState) -> Iterator[None]:
        """Work until the tolerance is met, or rounding allows no decrease; see :class:`Solver`."""
        if not state.is_current:
            state.values = yield from self._product(state.beta)
            state.gradient = state.values + self._problem.linear + self._ridge * state.beta
            state.is_current = True
        while True:
            decreased = yield from self._project(state)
            if self._is_solved(state):
                return
            decreased |= yield from self._conjugate_gradients(state)
            if self._is_solved(state) or self._gives_up(state, decreased=decreased):
                return

    def _gives_up(self, state: ProductState, *, decreased: bool) -> bool:
        """Whether to end: rounding allows no decrease, not even by the true gradient, or the violation hardly falls."""
        state.lowest = min(state.lowest, state.violation)
        if not decreased:
            state.gave_up, state.rounded = state.rounded, True
            return True
        state.rounded = False
        if state.n_iter - state.looked >= _HALVING_PRODUCTS:
            state.gave_up = state.lowest > 0.5 * state.best
            state.best, state.looked = state.lowest, state.n_iter
        return state.gave_up

    def _product(self, vector: FloatArray) -> Generator[None, None, FloatArray]:
        """Return K @ vector; yield after bounded work."""
        used, product = np.flatnonzero(vector), np.zeros(vector.size)
        yield from self._gram.accumulate(product, used, vector[used])
        return product

    def _is_solved(self, state: ProductState) -> bool:
        _, conditions = conditions_of(self._problem, state.beta, state.values)
        state.violation = max(0.0, conditions.excess)
        state.dual = -0.5 * (conditions.quadratic + conditions.linear)
        return state.violation <= 0.5 * state.tol

    def _free(self, beta: FloatArray) -> BoolArray:
        return (self._problem.lower < beta) & (beta < self._problem.upper)

    # Steps along the projected gradient.

    def _project(self, state: ProductState) -> Generator[None, None, bool]:
        """Make steps along the projected gradient until they free and bind few variables; return if one decreased."""
        free, decreased = self._free(state.beta), False
        for _ in range(_PROJECTIONS):
            target = self._projection(state.beta - state.length * self._scales * state.gradient)
            change = target - state.beta
            if not change.any():
                break
            product = yield from self._product(change)
            moved, curvature = self._move(state, change, product, target)
            yield
            if not moved:
                break
            decreased = True
            if curvature > 0.0:
                state.length = inner(change / self._scales, change) / curvature
            before, free = free, self._free(state.beta)
            if self._is_solved(state) or np.count_nonzero(free ^ before) <= _STEADY * np.count_nonzero(free):
                break
        return decreased

    def _projection(self, point: FloatArray) -> FloatArray:
        """Return the nearest feasible point, in the norm of the curvatures."""
        problem = self._problem
        if problem.groups is None:
            return np.clip(point, problem.lower, problem.upper)
        nearest = np.empty_like(point)
        for members, total in zip(problem.members, problem.totals, strict=True):
            box = problem.lower[members], problem.upper[members]
            nearest[members] = on_level(point[members], self._scales[members], *box, float(total))
        return nearest

    def _move(
        self, state: ProductState, change: FloatArray, product: FloatArray, target: FloatArray
    ) -> tuple[bool, float]:
        """Move to the minimum between the point and the target; return whether it moved, and the curvature."""
        of_change = product + self._ridge * change
        # Sums of changes are 0; without the level of the gradient, rounding of these sums does not count.
        weights = np.where(self._free(state.beta), self._scales, 0.0)
        without_level = state.gradient - self._levels(state.gradient, weights)
        slope, curvature = inner(without_level, change), inner(change, of_change)
        if not slope < 0.0:
            return False, curvature
        share = 1.0 if -slope >= curvature else -slope / curvature
        state.beta = (
            target if share == 1.0 else np.clip(state.beta + share * change, self._problem.lower, self._problem.upper)
        )
        state.values += share * product
        state.gradient += share * of_change
        state.n_iter += 1
        return True, curvature

    # Conjugate gradients on the free variables.

    def _conjugate_gradients(self, state: ProductState) -> Generator[None, None, bool]:
        """Minimise over the free variables, and go towards the projection of the minimum; return if it decreased."""
        free = self._free(state.beta)
        if not free.any():
            return False
        weights = np.where(free, self._scales, 0.0)
        residual = np.where(free, -state.gradient, 0.0)
        change, product = np.zeros(self._problem.n), np.zeros(self._problem.n)
        direction, last = np.zeros(self._problem.n), np.inf
        largest, slow = 0.0, _SLOW
        for _ in range(_CONJUGATE):
            across = np.where(free, residual - self._levels(residual, weights), 0.0)
            if float(np.abs(across).max()) <= _SHARE * state.tol:
                break
            scaled = weights * across
            square = inner(scaled, across)
            direction = scaled + square / last * direction
            along = yield from self._product(direction)
            yield
            state.n_iter += 1
            along += self._ridge * direction
            curvature, last = inner(direction, along), square
            if not curvature > 0.0:
                break
            length = square / curvature
            change += length * direction
            product += length * along
            residual -= length * np.where(free, along, 0.0)
            decrease = 0.5 * length * square
            largest = max(largest, decrease)
            if decrease < slow * largest:
                if slow <= _SHARPEST or not self._stays(state, change, product, free, float(np.abs(across).max())):
                    break
                slow *= _SHARPER
        target = self._projection(state.beta + change)
        part = target - state.beta
        if not part.any():
            return False
        inside = np.array_equal(self._free(state.beta + change), free)
        if inside:
            target, part, along = state.beta + change, change, product - self._ridge * change
        else:
            along = yield from self._product(part)
        moved, _ = self._move(state, part, along, target)
        yield
        return moved

    def _levels(self, gradient: FloatArray, weights: FloatArray) -> FloatArray:
        """Return, for each variable, the weighted mean of its group; 0 without groups or weights."""
        levels = np.zeros_like(gradient)
        for members in self._problem.members:
            by = weights[members]
            total = float(by.sum())
            if total > 0.0:
                levels[members] = inner(by, gradient[members]) / total
        return levels

    def _stays(
        self, state: ProductState, change: FloatArray, product: FloatArray, free: BoolArray, error: float
    ) -> bool:
        """Whether no variable leaves its set at the changed point, and the free ones violate as much as the others."""
        point = state.beta + change
        if not np.array_equal(self._free(point), free):
            return False
        values = state.values + product - self._ridge * change
        return conditions_of(self._problem, point, values)[1].excess <= _ALIKE * error


def products_are_faster(cost: tuple[float, float], n_fits: int, n_values: float) -> bool:
    """Whether this number of fits by products is faster than these kernel values; see `Gram.product_cost`."""
    of_product, of_value = cost
    return n_fits * _PRODUCTS * of_product <= n_values * of_value


def on_level(point: FloatArray, weights: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return clip(point - level * weights, lower, upper) for the level at which it sums to `total`.

    It is the nearest point of a box with this sum, in the norm of 1 / weights. The sum falls with the level, and is
    linear between kinks: Newton's method is used, and bisection where it leaves the bracket.
    """
    level, low, high, step = 0.0, -np.inf, np.inf, 1.0
    nearest = np.clip(point, lower, upper)
    for _ in range(_MOST_LEVELS):
        excess = float(nearest.sum()) - total
        if abs(excess) <= 4.0 * np.finfo(np.float64).eps * float(np.abs(nearest).sum()):
            break
        low, high = (level, high) if excess > 0.0 else (low, level)
        slope = float(weights[(lower < nearest) & (nearest < upper)].sum())
        level = level + excess / slope if slope > 0.0 else np.nan
        if not low < level < high:
            if np.isinf(low) or np.isinf(high):
                level, step = (low + step if np.isinf(high) else high - step), 2.0 * step
            else:
                level = 0.5 * (low + high)
                if not low < level < high:
                    break
        nearest = np.clip(point - level * weights, lower, upper)
    for _ in range(_CORRECTIONS):  # of the rounding of level times weights
        excess, free = float(nearest.sum()) - total, (lower < nearest) & (nearest < upper)
        slope = float(weights[free].sum())
        if excess == 0.0 or not slope > 0.0:
            break
        nearest[free] -= excess / slope * weights[free]
        np.clip(nearest, lower, upper, out=nearest)
    return nearest
