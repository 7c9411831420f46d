"""Decision values without a row: the known solution is followed to the one that the other rows have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mercer._core import leave_out
from mercer.backends.threads import blas_threads
from mercer.certificate import evaluate
from mercer.gram import Gram
from mercer.problems import Hinge, Problem
from mercer.problems.base import filled
from mercer.selection.tableau import Part, Tableau
from mercer.solution import Limits
from mercer.solvers import solve
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

TIGHT = 1e-9
"""Violation, relative to the largest decision value, to which the full solution and refits are solved: three digits
more than what is claimed of values, since a violation v moves them by more than v."""

_NEAR = 1.0
"""Rows are watched while a point is followed if they are nearer to changing sides than this multiple of what the first
of its moves can do to them. What moves in answer takes away from it or adds to it: the bound that proves the others
safe counts all."""

_ANSWERING = 0.1
"""Of a move's length in units of sqrt k(x, x): about how large the gradients are of basic variables that left."""

_HAIR = 1e-11
"""Of the width of a variable's box: what rounding leaves between it and its bound."""


_EMPTIED = 2  # times that room is made for rows while one block of points is followed
_FIRST_WATCH = 256  # rows watched for the points of least influence; four times as many for the next
_BLOCK_BYTES = 64 << 20  # of tableau rows of points that are followed at a time


_LEFT_OUT, _NEEDS_ROWS, _LOOSE = 0, 1, 3  # mercer::LeaveOutEnd


UNWANTED, REFITTED, NO_SUPPORT = -3, -2, -1
"""What `Followed.pivots` says of rows that were not followed."""


class Ended(Exception):  # noqa: N818
    """Raised by a `check` that wants no more than has been found so far; no error."""


Chooser = Callable[[FloatArray, FloatArray], IndexArray]
"""Which rows' values are wanted, given beta and the gradient of the solution with all rows."""


@dataclass(frozen=True, eq=False)
class Followed:
    """Solutions without each row of a problem.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
    bias : float
        The solution with all rows; its gradient, less the level of the group.
    values : ndarray of shape (n_rows,)
        Decision value of each row by the machine trained without it; NaN where it was not wanted, or not found in time.
    pivots : ndarray of int64 of shape (n_rows,)
        Variables that changed places on the way; or NO_SUPPORT, REFITTED, or UNWANTED, which is also said of rows that
        were not found in time.
    violation : float
        Largest by which the optimality conditions of a problem without a row are violated.
    n_kernel_values : int
    seconds : float
    """

    beta: FloatArray
    gradient: FloatArray
    bias: float
    values: FloatArray
    pivots: IndexArray
    violation: float
    n_kernel_values: int
    seconds: float
    is_ended: bool = False


def follow(
    problem: Problem,
    gram: Gram,
    start: FloatArray,
    wanted: IndexArray | Chooser | None = None,
    check: Callable[[], None] | None = None,
    tell: Callable[[float], None] | None = None,
) -> Followed:
    """Return the decision value of each row by the machine that the other rows train.

    Parameters
    ----------
    problem : Problem
        One group or none.
    gram : Gram
        Of the same rows (not variables, where rows have two).
    start : ndarray of shape (n,)
        A solution, as good as it may be: it is solved to float64's precision first.
    wanted : ndarray of int64 or Chooser, optional
        Rows whose values are wanted; all by default. Others have NaN where they are support vectors.
    check : callable, optional
        Called between pieces of work; what it raises ends it. After :class:`Ended`, what has been found is returned.
    tell : callable, optional
        Told which share of the work is done.
    """
    began, before = time.perf_counter(), gram.n_values
    with blas_threads(problem.n**3 / 3):
        work = _Work(problem, gram, start, check or (lambda: None), tell or (lambda share: None))
        rows = wanted(work.tableau.beta, work.gradient) if callable(wanted) else wanted
        values, pivots, violation = work.run(np.arange(problem.n_rows) if rows is None else rows)
    seconds, n_values = time.perf_counter() - began, gram.n_values - before
    found = work.tableau.beta, work.gradient, -work.level, values, pivots
    return Followed(*found, violation, n_values, seconds, work.is_ended)


class _Work:
    """The full solution, and what is left to do."""

    def __init__(
        self,
        problem: Problem,
        gram: Gram,
        start: FloatArray,
        check: Callable[[], None],
        tell: Callable[[float], None],
    ) -> None:
        self.problem, self.gram, self.check, self.tell, self.is_ended = problem, gram, check, tell, False
        self.own_gram = gram if problem.rows is None else gram.restrict(problem.rows)
        rough = float(np.abs(problem.linear).max(initial=0.0)) or float(np.abs(gram.diag()).max())
        self.scale = rough
        beta = _solved(problem, gram, start, TIGHT * rough)
        self.evaluation = evaluate(problem, self.own_gram, beta)
        self.level = level(problem, beta, self.evaluation.gradient)
        self.gradient = self.evaluation.gradient - self.level
        self.tableau = Tableau.of(problem, self.own_gram, beta, self.gradient)

    def run(self, wanted: IndexArray) -> tuple[FloatArray, IndexArray, float]:
        problem, tableau = self.problem, self.tableau
        rows, beta = _rows_of(problem), tableau.beta
        is_loose = problem.groups is not None and not _inside(problem, beta).any()
        gradient = self.gradient if is_loose else tableau.gradient
        values = np.empty(problem.n_rows)
        values[rows] = gradient - problem.linear
        if is_loose:
            self.move_levels(values, gradient)
        pivots = np.full(problem.n_rows, NO_SUPPORT, dtype=np.int64)
        shares = total_shares(problem)
        inside = _inside(problem, beta)
        alone = inside & (inside.sum() == 1)  # the level hangs on it, even where it is 0
        support = np.flatnonzero((beta != 0.0) | (shares != 0.0) | alone)
        values[rows[support]], pivots[rows[support]] = np.nan, UNWANTED
        support = support[np.isin(rows[support], wanted)]
        worst = self.evaluation.violation
        found: dict[int, tuple[float, int, float]] = {}
        try:
            _Passes(self, tableau, shares, found).run(support[~is_forced(problem, support)])
            self.refit([variable for variable in support.tolist() if variable not in found], found)
        except Ended:
            self.is_ended = True
        for variable, (gradient_there, n_pivots, violation) in found.items():
            values[rows[variable]] = gradient_there - problem.linear[variable]
            pivots[rows[variable]] = n_pivots
            worst = max(worst, violation)
        return values, pivots, worst

    def refit(self, variables: list[int], found: dict[int, tuple[float, int, float]]) -> None:
        """Train anew without each of these."""
        problem, rows = self.problem, _rows_of(self.problem)
        for variable in variables:
            self.check()
            value, violation = refit(problem, self.gram, self.tableau.beta, int(rows[variable]), TIGHT * self.scale)
            found[variable] = value + float(problem.linear[variable]), REFITTED, violation

    def move_levels(self, values: FloatArray, gradient: FloatArray) -> None:
        """Where an interval of levels is left, put right the values of rows that are an end of it by themselves."""
        problem, beta = self.problem, self.tableau.beta
        rows = _rows_of(problem)
        grow, shrink = _ends(problem, beta, gradient)
        for row in np.unique(rows[(grow == grow.min()) | (shrink == shrink.max())]):
            values[row] -= level(problem, beta, gradient, rows != row)


class _Passes:
    """Points that are followed together, because they can reach about as many others."""

    def __init__(
        self, work: _Work, tableau: Tableau, shares: FloatArray, found: dict[int, tuple[float, int, float]]
    ) -> None:
        beta, self.found = tableau.beta, found
        self.work, self.tableau, self.beta, self.shares = work, tableau, beta, shares
        problem = work.problem
        self.is_basic = np.zeros(problem.n, dtype=bool)
        self.is_basic[tableau.basic] = True
        self.place = np.full(problem.n, -1, dtype=np.int64)  # of basic variables
        self.place[tableau.basic] = np.arange(tableau.basic.size)
        self.others = np.flatnonzero(~self.is_basic)
        self.inverse = tableau.inverse()
        self.lengths, self.answer = np.zeros(problem.n), np.zeros(problem.n)  # sqrt(T_jj), |X_j|
        self.kept: Part | None = None  # of all others, where there is room
        if 16 * tableau.basic.size * self.others.size <= work.gram.memory_limit // 4:
            self.kept = tableau.part(self.others)
        for piece in [self.others] if self.kept is not None else tableau.chunks(self.others):
            part = self.part(piece)
            self.lengths[piece] = np.sqrt(part.diagonal())
            self.answer[piece] = np.sqrt(np.einsum("fj,fj->j", part.answers(), part.answers()))
            work.check()
        # How far a variable is from changing sides, in units of what a move of length 1 does to it at most.
        slack = _slack(problem, beta, tableau.gradient)
        reached = self.lengths + _ANSWERING * tableau.size**0.5 * self.answer
        with np.errstate(divide="ignore", invalid="ignore"):
            self.near = np.where(slack > 0.0, slack / reached, 0.0)
            self.distance = np.where(slack > 0.0, slack / self.lengths, 0.0)
            self.stiffness = np.where(slack > 0.0, self.answer / slack, np.inf)
        self.drift = tableau.drift() if shares.any() else np.zeros(tableau.basic.size)

    def part(self, variables: IndexArray) -> Part:
        """Return what the tableau says of some of the others."""
        if self.kept is None:
            return self.tableau.part(variables)
        if np.array_equal(variables, self.others):
            return self.kept
        return self.kept[np.searchsorted(self.others, variables)]

    def run(self, chosen: IndexArray) -> None:
        beta, basic = self.beta[chosen], self.is_basic[chosen]
        lengths = self.lengths[chosen]
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths[basic] = 1.0 / np.sqrt(np.maximum(0.0, np.diag(self.inverse)[self.place[chosen[basic]]]))
            reach = np.abs(beta) * lengths
        order = np.argsort(reach, kind="stable")
        left, reach = chosen[order], reach[order]
        nearest = self.others[np.argsort(self.near[self.others], kind="stable")]
        sizes, limits = self.sizes(nearest)
        done, price = 0.0, np.asarray(sizes, dtype=np.float64) + self.tableau.basic.size
        for level, (size, limit) in enumerate(zip(sizes, limits, strict=True)):
            fits = int(np.searchsorted(reach, limit / _NEAR, side="right"))
            if fits:
                later = np.searchsorted(limits, _NEAR * reach[fits:], side="left")
                left_over = float(
                    price[np.minimum(later, price.size - 1)].sum()
                )  # a reach that is not known is the last's
                self.plan = done, price[level] * fits, left_over
                self.watch(left[:fits], np.sort(nearest[:size]), nearest[size:])
                done += price[level] * fits
            open_ = ~np.isin(left, list(self.found))
            left, reach = left[open_], reach[open_]

    def sizes(self, nearest: IndexArray) -> tuple[list[int], list[float]]:
        """How many of the nearest are watched, and how far points may reach to be followed among them."""
        sizes = [_FIRST_WATCH]
        while sizes[-1] < nearest.size:
            sizes.append(4 * sizes[-1])
        sizes[-1] = nearest.size
        limits = [-1.0 if self.shares.any() else float(self.near[nearest[size]]) for size in sizes[:-1]]
        return sizes, [*limits, np.inf]

    def watch(self, chosen: IndexArray, watched: IndexArray, rest: IndexArray) -> None:
        """Follow these points, with all basic variables and the `watched` ones free to change places.

        Those whose bound does not prove that no other variable does are not found.
        """
        problem, tableau, f = self.work.problem, self.tableau, self.tableau.basic.size
        if 24 * (f + 64) * (f + watched.size) > self.work.gram.memory_limit:
            return  # each is refitted
        part = self.part(watched)
        universe = np.concatenate([tableau.basic, watched])
        position = np.full(problem.n, -1, dtype=np.int64)
        position[universe] = np.arange(universe.size)
        store = _Rows(self, part)
        values = np.concatenate([self.beta[tableau.basic], tableau.gradient[watched]])
        drift = np.concatenate([self.drift, part.drift() if self.shares.any() else np.zeros(watched.size)])
        partner = _partners(problem, self.beta)
        far = self.distance[rest].min(initial=np.inf)
        stiff = self.stiffness[rest].max(initial=0.0)
        width = max(1, min(_BLOCK_BYTES, self.work.gram.memory_limit // 8) // (8 * max(1, universe.size)))
        for first in range(0, chosen.size, width):
            block = chosen[first : first + width]
            block = block[np.argsort(~self.is_basic[block], kind="stable")]
            own, corner = store.of(block, int(self.is_basic[block].sum()))
            own_drift = np.zeros(block.size)
            if self.shares.any():
                outside = ~self.is_basic[block]
                own_drift[outside] = self.part(block[outside]).drift()
            pending, before = np.arange(block.size), store.n_emptied
            while pending.size and store.n_emptied <= before + _EMPTIED:  # else their rows do not fit together
                rows = block[pending]
                ends, numbers = np.empty(rows.size, dtype=np.int64), np.empty((rows.size, 5))
                missing = leave_out(
                    f,
                    values,
                    self.beta[universe],
                    problem.lower[universe],
                    problem.upper[universe],
                    store.rows,
                    store.slots,
                    own,
                    pending,
                    corner[pending],
                    tableau.gradient[rows],
                    position[rows],
                    np.where(partner[rows] >= 0, position[partner[rows]], -1),
                    -self.beta[rows],
                    drift,
                    own_drift[pending],
                    -self.shares[rows],
                    tableau.size,
                    TIGHT * (float(np.abs(self.beta).max()) or 1.0),
                    TIGHT * self.work.scale,
                    ends,
                    numbers,
                    self.work.gram.n_threads,
                )
                settled = (ends == _LEFT_OUT) | ((ends == _LOOSE) & (problem.groups is None))
                gradient, pivots, squared, outs, violation = numbers.T
                settled &= np.sqrt(squared) / far + np.sqrt(outs) * stiff <= 1.0
                for k in np.flatnonzero(settled).tolist():
                    self.found[int(rows[k])] = float(gradient[k]), int(pivots[k]), float(violation[k])
                store.add(missing)
                pending = pending[ends == _NEEDS_ROWS]
                before_, here, after = self.plan
                share = min(first + width - pending.size, chosen.size) / chosen.size
                self.work.tell((before_ + share * here) / (before_ + here + after))
                self.work.check()


class _Rows:
    """Rows of the tableau over the basic and the watched variables, made when asked for."""

    def __init__(self, passes: _Passes, part: Part) -> None:
        self.passes, self.part, self.f = passes, part, passes.tableau.basic.size
        self.answers = part.answers()
        self.slots = np.full(self.f + part.variables.size, -1, dtype=np.int64)
        self.rows = np.zeros((64, self.slots.size))
        self.n_rows = self.n_emptied = 0

    def add(self, places: IndexArray) -> None:
        """Keep the rows of variables at these places."""
        limit = self.passes.work.gram.memory_limit
        if self.n_rows and 8 * (self.n_rows + places.size) * self.slots.size > limit // 2:
            self.slots[:], self.n_rows = -1, 0
            self.n_emptied += 1
        first, last = self.n_rows, self.n_rows + places.size
        if last > self.rows.shape[0]:
            grown = np.empty((max(last, 2 * first), self.slots.size))
            grown[:first] = self.rows[:first]
            self.rows = grown
        middle = first + int(np.searchsorted(places, self.f))  # places are sorted: the basic ones come first
        self.basic_rows(places[: middle - first], self.rows[first:middle])
        self.other_rows(self.part[places[middle - first :] - self.f], self.rows[middle:last])
        self.slots[places] = np.arange(first, last)
        self.n_rows = last

    def basic_rows(self, places: IndexArray, out: FloatArray) -> None:
        out[:, : self.f] = self.passes.inverse[places]
        out[:, self.f :] = self.answers[places]

    def other_rows(self, some: Part, out: FloatArray) -> None:
        out[:, : self.f] = some.answers().T
        out[:, self.f :] = some.rows(self.part)

    def of(self, variables: IndexArray, n_basic: int) -> tuple[FloatArray, FloatArray]:
        """Return the rows of variables, of which so many are basic and come first, and the elements on the diagonal."""
        rows, corner = np.empty((variables.size, self.slots.size)), np.empty(variables.size)
        places = self.passes.place[variables[:n_basic]]
        self.basic_rows(places, rows[:n_basic])
        corner[:n_basic] = self.passes.inverse[places, places]
        if n_basic < variables.size:
            some = self.passes.part(variables[n_basic:])
            self.other_rows(some, rows[n_basic:])
            corner[n_basic:] = some.diagonal()
        return rows, corner


def level(problem: Problem, beta: FloatArray, gradient: FloatArray, among: BoolArray | None = None) -> float:
    """Return the multiplier of the one group at a solution: the gradient of variables inside their box.

    Where there are none, the middle of the interval that the conditions leave, or its one end.
    """
    if problem.groups is None:
        return 0.0
    among = np.ones(problem.n, dtype=bool) if among is None else among
    inside = among & _inside(problem, beta)
    if inside.any():
        return float(gradient[inside].mean())
    grow, shrink = _ends(problem, beta, gradient)
    ends = [end for end in (grow[among].min(initial=np.inf), shrink[among].max(initial=-np.inf)) if np.isfinite(end)]
    return float(sum(ends)) / max(1, len(ends))


def _ends(problem: Problem, beta: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Levels that variables which can grow, and those which can shrink, do not allow to be exceeded or undercut."""
    return np.where(beta < problem.upper, gradient, np.inf), np.where(beta > problem.lower, gradient, -np.inf)


def _rows_of(problem: Problem) -> IndexArray:
    return np.arange(problem.n) if problem.rows is None else problem.rows


def _inside(problem: Problem, beta: FloatArray) -> BoolArray:
    return (problem.lower < beta) & (beta < problem.upper)


def _slack(problem: Problem, beta: FloatArray, gradient: FloatArray) -> FloatArray:
    """How far each variable's gradient is from changing its sign, if that would be wrong, (n,); 0 inside the box."""
    fixed = problem.lower >= problem.upper
    return np.where(fixed, np.inf, np.where(_inside(problem, beta), 0.0, np.abs(gradient)))


def _partners(problem: Problem, beta: FloatArray) -> IndexArray:
    """The other variable of each variable's row, -1 where it is alone."""
    partner = np.full(problem.n, -1, dtype=np.int64)
    if problem.rows is not None:
        order = np.argsort(problem.rows, kind="stable")
        sorted_rows = problem.rows[order]
        twins = np.flatnonzero(sorted_rows[1:] == sorted_rows[:-1])
        partner[order[twins]], partner[order[twins + 1]] = order[twins + 1], order[twins]
    return partner


def total_shares(problem: Problem) -> FloatArray:
    """By how much the total of its group falls when a variable is left out, (n,): where nu is a share of the rows."""
    if problem.name != "one-class":
        return np.zeros(problem.n)
    return problem.upper * (float(problem.start.sum()) / float(problem.upper.sum()))


def is_forced(problem: Problem, variables: IndexArray) -> BoolArray:
    """Whether the others have no choice without each of these: all their bounds together just make the total."""
    if problem.groups is None:
        return np.zeros(variables.size, dtype=bool)
    total = problem.group_totals(problem.start)[0] - total_shares(problem)[variables]
    below, above = _bounds_without(problem.lower, variables), _bounds_without(problem.upper, variables)
    slack = 1e-12 * (1.0 + np.abs(total))
    return (below >= total - slack) | (above <= total + slack)


def _bounds_without(bounds: FloatArray, variables: IndexArray) -> FloatArray:
    """Sum of all bounds but each of these; rows with two variables have 0 as the bound of the other."""
    infinite = np.isinf(bounds)
    finite = np.where(infinite, 0.0, bounds)
    some = infinite.sum() - infinite[variables] > 0
    sign = np.sign(bounds[infinite][0]) if infinite.any() else 1.0
    return np.where(some, sign * np.inf, finite.sum() - finite[variables])


def without(problem: Problem, row: int) -> tuple[Problem, IndexArray]:
    """Return the problem of all rows but one, and which variables it has."""
    rows = _rows_of(problem)
    kept = np.flatnonzero(rows != row)
    loss = problem.loss
    if isinstance(loss, Hinge):
        loss = replace(loss, y=loss.y[kept], C=loss.C[kept])
    lower, upper = problem.lower[kept], problem.upper[kept]
    start = problem.start[kept]
    if problem.groups is not None and problem.start.any():
        gone = np.setdiff1d(np.arange(problem.n), kept)
        total = problem.group_totals(problem.start)[0] - total_shares(problem)[gone].sum()
        start = lower + filled(np.argsort(-start, kind="stable"), upper - lower, total - float(lower.sum()))
    return replace(
        problem,
        linear=problem.linear[kept],
        lower=lower,
        upper=upper,
        start=start,
        groups=None if problem.groups is None else problem.groups[kept],
        ridge=None if problem.ridge is None else problem.ridge[kept],
        loss=loss,
        rows=None if problem.rows is None else rows[kept] - (rows[kept] > row),
    ), kept


def refit(problem: Problem, gram: Gram, beta: FloatArray, row: int, tol: float) -> tuple[float, float]:
    """Return the decision value of a row by the machine that is trained anew without it, and its violation."""
    smaller, kept = without(problem, row)
    others = np.delete(np.arange(gram.n), row)
    view = gram.restrict(others)
    found = _solved(smaller, view, beta[kept], tol)
    evaluation = evaluate(smaller, view if smaller.rows is None else view.restrict(smaller.rows), found)
    coefficients = np.zeros(gram.n)
    coefficients[others] = smaller.coefficients(found)
    value = float(gram.matvec(coefficients, np.array([row]))[0]) - level(smaller, found, evaluation.gradient)
    return value, evaluation.violation


def _solved(problem: Problem, gram: Gram, start: FloatArray, tol: float) -> FloatArray:
    """Solve a problem, and put variables at the bound that only rounding keeps from it."""
    solution = solve(problem, gram, start=start, limits=Limits(tol=tol))
    if solution.status is Status.INTERRUPTED:
        raise Ended
    beta = solution.beta.copy()
    width = problem.upper - problem.lower
    hair = _HAIR * np.where(np.isfinite(width), width, np.abs(beta).max(initial=0.0))
    beta = np.where(beta - problem.lower <= hair, problem.lower, beta)
    return np.where(problem.upper - beta <= hair, problem.upper, beta)
