"""Leave-one-out solutions of many rows by path following, in groups of rows that affect about as many variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mercer._core import RemovedVariables, TableauPlaces, leave_out
from mercer._typing import FloatArray, IndexArray
from mercer.data.checks import distinct
from mercer.gram import Gram
from mercer.problems import Problem
from mercer.solvers.paths.reduced_problem import TIGHT, inside_box
from mercer.solvers.paths.tableau import Part, Tableau

_NEAR = 1.0
"""A path is followed with a set of watched variables if the first step of the path changes each other gradient by less
than the distance to a sign change, divided by this factor. Later steps can change gradients too; the bound that proves
the result includes all steps."""

_ANSWERING = 0.1
"""Typical gradient of a variable that has left the basis, as a share of the step's length in units of sqrt k(x, x)."""

FINEST = 64.0 * float(np.finfo(np.float64).eps)
"""Smallest distance from a bound that is told from rounding, in units of the largest coefficient."""

_EMPTIED = 2  # how many times the row store may be emptied while one block of paths is followed
_FIRST_GROUP = 256  # variables; watched for the paths of least influence, four times as many for the next group
_TOGETHER = 1 << 20  # elements of tableau rows in one native call; `check` runs between two calls
_BLOCK_BYTES = 64 << 20  # bytes of the tableau rows of one block of paths

_LEFT_OUT, _NEEDS_ROWS, _LOOSE = 0, 1, 3  # values of mercer::LeaveOutEnd in native code


class Passes:
    """Follows the solution paths along which one variable is removed, for many variables.

    For each removed variable, `solved` gets its gradient, the number of pivots and the largest violation. `tol` is the
    largest allowed error of a gradient. `shares` says by how much the total of a group falls with each removed
    variable. `check` is called between parts of the work.
    """

    def __init__(
        self,
        problem: Problem,
        gram: Gram,
        tableau: Tableau,
        shares: FloatArray,
        tol: float,
        solved: dict[int, tuple[float, int, float]],
        check: Callable[[], None],
    ) -> None:
        self.problem, self.gram, self.tableau, self.shares, self.tol = problem, gram, tableau, shares, tol
        self.solved, self.check, self.beta = solved, check, tableau.beta
        beta = self.beta
        self.is_basic = np.zeros(problem.n, dtype=bool)
        self.is_basic[tableau.basic] = True
        self.place = np.full(problem.n, -1, dtype=np.int64)  # position in the basis
        self.place[tableau.basic] = np.arange(tableau.basic.size)
        self.others = np.flatnonzero(~self.is_basic)
        # A coefficient this far outside its bounds changes no gradient by more than `tol`, if float64 can tell.
        largest = float(np.abs(beta).max(initial=0.0)) or 1.0
        finest = max(tol / (gram.largest_diagonal or 1.0), FINEST * largest)
        self.tol_beta = min(TIGHT * largest, finest)
        self.inverse = tableau.inverse()
        self.lengths, self.answer = np.zeros(problem.n), np.zeros(problem.n)  # sqrt(T_jj), |X_j|
        self.nonbasic_part: Part | None = None  # part of all nonbasic variables, if it fits in memory
        if 16 * tableau.basic.size * self.others.size <= gram.room // 4:
            self.nonbasic_part = tableau.part(self.others)
        for batch in [self.others] if self.nonbasic_part is not None else tableau.chunks(self.others):
            part = self.part(batch)
            self.lengths[batch] = np.sqrt(part.diagonal())
            self.answer[batch] = np.sqrt(np.einsum("fj,fj->j", part.answers(), part.answers()))
            self.check()
        # Distance of each gradient from a sign change, in units of the largest change by a step of length 1.
        slack = _slack(problem, beta, tableau.gradient)
        reached = self.lengths + _ANSWERING * tableau.size**0.5 * self.answer
        with np.errstate(divide="ignore", invalid="ignore"):
            self.near = np.where(slack > 0.0, slack / reached, 0.0)
            self.distance = np.where(slack > 0.0, slack / self.lengths, 0.0)
            self.stiffness = np.where(slack > 0.0, self.answer / slack, np.inf)
        chunk = max((batch.size for batch in tableau.chunks(self.others)), default=0)
        width = self.others.size if self.nonbasic_part is not None else chunk
        # Each part holds two arrays of basic times nonbasic variables: `half` and `answers`.
        self.lasting_bytes = tableau.memory_bytes + self.inverse.nbytes + 16 * tableau.basic.size * width
        self.peak_bytes = self.lasting_bytes + 8 * tableau.basic.size * width  # while `answers` is computed
        self.drift = tableau.drift() if shares.any() else np.zeros(tableau.basic.size)

    def part(self, variables: IndexArray) -> Part:
        """Return the part of the tableau for some nonbasic variables."""
        if self.nonbasic_part is None:
            return self.tableau.part(variables)
        if np.array_equal(variables, self.others):
            return self.nonbasic_part
        return self.nonbasic_part[np.searchsorted(self.others, variables)]

    def run(self, chosen: IndexArray) -> Iterator[float]:
        """Find the solution without each of these variables; those that need a refit are not added to `solved`.

        The share of the work that is done is yielded.
        """
        beta, basic = self.beta[chosen], self.is_basic[chosen]
        lengths = self.lengths[chosen]
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths[basic] = 1.0 / np.sqrt(np.maximum(0.0, np.diag(self.inverse)[self.place[chosen[basic]]]))
            move_size = np.abs(beta) * lengths
        order = np.argsort(move_size, kind="stable")
        left, move_size = chosen[order], move_size[order]
        nearest = self.others[np.argsort(self.near[self.others], kind="stable")]
        sizes, limits = self.sizes(nearest)
        done, price = 0.0, np.asarray(sizes, dtype=np.float64) + self.tableau.basic.size
        for level, (size, limit) in enumerate(zip(sizes, limits, strict=True)):
            fits = int(np.searchsorted(move_size, limit / _NEAR, side="right"))
            if fits:
                later = np.searchsorted(limits, _NEAR * move_size[fits:], side="left")
                # A variable with an unknown reach (NaN) counts at the last level.
                left_over = float(price[np.minimum(later, price.size - 1)].sum())
                work = float(price[level]) * fits
                self.plan = done, work, left_over
                yield from self._solve_group(left[:fits], np.sort(nearest[:size]), nearest[size:])
                done += work
            open_ = ~np.isin(left, list(self.solved))
            left, move_size = left[open_], move_size[open_]

    def sizes(self, nearest: IndexArray) -> tuple[list[int], list[float]]:
        """Return the number of watched variables of each level, and the largest reach of the paths followed at it."""
        sizes = [_FIRST_GROUP]
        while sizes[-1] < nearest.size:
            sizes.append(4 * sizes[-1])
        sizes[-1] = nearest.size
        limits = [-1.0 if self.shares.any() else float(self.near[nearest[size]]) for size in sizes[:-1]]
        return sizes, [*limits, np.inf]

    def _solve_group(self, chosen: IndexArray, watched: IndexArray, rest: IndexArray) -> Iterator[float]:
        """Follow the paths of the `chosen` variables; basic and `watched` variables may enter or leave the basis.

        A result is added to `solved` only if a bound proves that no variable in `rest` changes its bound status.
        """
        problem, tableau, f = self.problem, self.tableau, self.tableau.basic.size
        if 24 * (f + 64) * (f + watched.size) > self.gram.room:
            return  # not enough memory: each variable is refitted
        part = self.part(watched)
        universe = np.concatenate([tableau.basic, watched])
        position = np.full(problem.n, -1, dtype=np.int64)
        position[universe] = np.arange(universe.size)
        store = _Rows(self, part)
        values = np.concatenate([self.beta[tableau.basic], tableau.gradient[watched]])
        drift = np.concatenate([self.drift, part.drift() if self.shares.any() else np.zeros(watched.size)])
        partner = _partners(problem)
        far = self.distance[rest].min(initial=np.inf)
        stiff = self.stiffness[rest].max(initial=0.0)
        width = max(1, min(_BLOCK_BYTES, self.gram.room // 8) // (8 * max(1, universe.size)))
        for first in range(0, chosen.size, width):
            block = chosen[first : first + width]
            block = block[np.argsort(~self.is_basic[block], kind="stable")]
            diagonal, corner = store.of(block, int(self.is_basic[block].sum()))
            beside = 0 if self.nonbasic_part is not None and watched.size == self.others.size else 16 * f * watched.size
            own_drift = np.zeros(block.size)
            if self.shares.any():
                outside = ~self.is_basic[block]
                own_drift[outside] = self.part(block[outside]).drift()
            pending, before = np.arange(block.size), store.n_emptied
            while pending.size and store.n_emptied <= before + _EMPTIED:  # else the rows they need do not fit together
                rows = block[pending]
                ends, numbers = np.empty(rows.size, dtype=np.int64), np.empty((rows.size, 5))
                missing = [np.zeros(0, dtype=np.int64)]
                places = TableauPlaces(
                    n_basic=f,
                    values=values,
                    point=self.beta[universe],
                    lower=problem.lower[universe],
                    upper=problem.upper[universe],
                    drift=drift,
                    rows=store.rows,
                    slots=store.slots,
                )
                together = max(1, _TOGETHER // universe.size)
                for start in range(0, rows.size, together):
                    some = slice(start, start + together)
                    missing.append(
                        leave_out(
                            places,
                            RemovedVariables(
                                own_rows=diagonal,
                                own_slots=pending[some],
                                corner=corner[pending[some]],
                                gradient=tableau.gradient[rows[some]],
                                main=position[rows[some]],
                                partner=np.where(partner[rows[some]] >= 0, position[partner[rows[some]]], -1),
                                amount=-self.beta[rows[some]],
                                own_drift=own_drift[pending[some]],
                                total=-self.shares[rows[some]],
                            ),
                            size=tableau.size,
                            tol_beta=self.tol_beta,
                            tol_gradient=self.tol,
                            ends=ends[some],
                            numbers=numbers[some],
                            n_threads=self.gram.n_threads,
                        )
                    )
                    self.check()
                decided = (ends == _LEFT_OUT) | ((ends == _LOOSE) & (problem.groups is None))
                gradient, pivots, squared, outs, violation = numbers.T
                decided &= np.sqrt(squared) / far + np.sqrt(outs) * stiff <= 1.0
                for k in np.flatnonzero(decided).tolist():
                    self.solved[int(rows[k])] = float(gradient[k]), int(pivots[k]), float(violation[k])
                store.add(distinct(np.concatenate(missing)))
                self.peak_bytes = max(
                    self.peak_bytes, self.lasting_bytes + beside + 2 * diagonal.nbytes + store.peak_bytes
                )
                pending = pending[ends == _NEEDS_ROWS]
                before_, here, after = self.plan
                share = (first + block.size - pending.size) / chosen.size
                yield (before_ + share * here) / (before_ + here + after)


class _Rows:
    """Rows of the tableau over the basic and the watched variables, computed on demand."""

    def __init__(self, passes: Passes, part: Part) -> None:
        self.passes, self.part, self.f = passes, part, passes.tableau.basic.size
        self.answers = part.answers()
        self.slots = np.full(self.f + part.variables.size, -1, dtype=np.int64)
        self.rows = np.zeros((64, self.slots.size))
        self.n_rows = self.n_emptied = 0
        self.peak_bytes = self.rows.nbytes

    def add(self, places: IndexArray) -> None:
        """Compute and store the rows of the variables at these positions."""
        limit = self.passes.gram.room
        if self.n_rows and 8 * (self.n_rows + places.size) * self.slots.size > limit // 2:
            self.slots[:], self.n_rows = -1, 0
            self.n_emptied += 1
        first, last = self.n_rows, self.n_rows + places.size
        if last > self.rows.shape[0]:
            grown = np.empty((max(last, 2 * first), self.slots.size))
            grown[:first] = self.rows[:first]
            self.peak_bytes = max(self.peak_bytes, grown.nbytes + self.rows.nbytes)
            self.rows = grown
        middle = first + int(np.searchsorted(places, self.f))  # positions are sorted, and basic variables come first
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
        """Return the tableau rows of variables and their diagonal elements; the first `n_basic` variables are basic."""
        rows, corner = np.empty((variables.size, self.slots.size)), np.empty(variables.size)
        places = self.passes.place[variables[:n_basic]]
        self.basic_rows(places, rows[:n_basic])
        corner[:n_basic] = self.passes.inverse[places, places]
        if n_basic < variables.size:
            some = self.passes.part(variables[n_basic:])
            self.other_rows(some, rows[n_basic:])
            corner[n_basic:] = some.diagonal()
        return rows, corner


def _slack(problem: Problem, beta: FloatArray, gradient: FloatArray) -> FloatArray:
    """Distance of each gradient from a sign change that violates optimality, (n,): 0 inside the box, inf if fixed."""
    fixed = problem.lower >= problem.upper
    return np.where(fixed, np.inf, np.where(inside_box(problem, beta), 0.0, np.abs(gradient)))


def _partners(problem: Problem) -> IndexArray:
    """Return the other variable of the same row for each variable, or -1 if there is no other, (n,)."""
    partner = np.full(problem.n, -1, dtype=np.int64)
    if problem.rows is not None:
        order = np.argsort(problem.rows, kind="stable")
        sorted_rows = problem.rows[order]
        twins = np.flatnonzero(sorted_rows[1:] == sorted_rows[:-1])
        partner[order[twins]], partner[order[twins + 1]] = order[twins + 1], order[twins]
    return partner
