"""Solutions without each of many rows, followed together where they reach about as many others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._core import leave_out
from mercer._typing import FloatArray, IndexArray
from mercer.gram import Gram
from mercer.loo.reduced_problem import TIGHT, inside_box
from mercer.loo.tableau import Part, Tableau
from mercer.problems import Problem

_NEAR = 1.0
"""Rows are watched while a point is followed if they are nearer to changing sides than this multiple of what the first
of its moves can do to them. What moves in answer takes away from it or adds to it: the bound that proves the others
safe counts all."""

_ANSWERING = 0.1
"""Of a move's length in units of sqrt k(x, x): about how large the gradients are of basic variables that left."""

_EMPTIED = 2  # times that room is made for rows while one block of points is followed
_FIRST_WATCH = 256  # rows watched for the points of least influence; four times as many for the next
_TOGETHER = 1 << 20  # elements of tableau rows that one native call follows, between two calls of `check`
_BLOCK_BYTES = 64 << 20  # of tableau rows of points that are followed at a time

_LEFT_OUT, _NEEDS_ROWS, _LOOSE = 0, 1, 3  # mercer::LeaveOutEnd


class Passes:
    """Points that are followed together, because they can reach about as many others.

    `found` gets, of each variable that is left out, the gradient there, pivots and the largest violation; `tol` is what
    gradients may be off by; `shares` of the total of its group go with a variable. `check` and `tell` are called
    between pieces of work.
    """

    def __init__(
        self,
        problem: Problem,
        gram: Gram,
        tableau: Tableau,
        shares: FloatArray,
        tol: float,
        found: dict[int, tuple[float, int, float]],
        check: Callable[[], None],
        tell: Callable[[float], None],
    ) -> None:
        self.problem, self.gram, self.tableau, self.shares, self.tol = problem, gram, tableau, shares, tol
        self.found, self.check, self.tell, self.beta = found, check, tell, tableau.beta
        beta = self.beta
        self.is_basic = np.zeros(problem.n, dtype=bool)
        self.is_basic[tableau.basic] = True
        self.place = np.full(problem.n, -1, dtype=np.int64)  # of basic variables
        self.place[tableau.basic] = np.arange(tableau.basic.size)
        self.others = np.flatnonzero(~self.is_basic)
        self.inverse = tableau.inverse()
        self.lengths, self.answer = np.zeros(problem.n), np.zeros(problem.n)  # sqrt(T_jj), |X_j|
        self.kept: Part | None = None  # of all others, where there is room
        if 16 * tableau.basic.size * self.others.size <= gram.room // 4:
            self.kept = tableau.part(self.others)
        for piece in [self.others] if self.kept is not None else tableau.chunks(self.others):
            part = self.part(piece)
            self.lengths[piece] = np.sqrt(part.diagonal())
            self.answer[piece] = np.sqrt(np.einsum("fj,fj->j", part.answers(), part.answers()))
            self.check()
        # How far a variable is from changing sides, in units of what a move of length 1 does to it at most.
        slack = _slack(problem, beta, tableau.gradient)
        reached = self.lengths + _ANSWERING * tableau.size**0.5 * self.answer
        with np.errstate(divide="ignore", invalid="ignore"):
            self.near = np.where(slack > 0.0, slack / reached, 0.0)
            self.distance = np.where(slack > 0.0, slack / self.lengths, 0.0)
            self.stiffness = np.where(slack > 0.0, self.answer / slack, np.inf)
        chunk = max((piece.size for piece in tableau.chunks(self.others)), default=0)
        whole = self.others.size if self.kept is not None else chunk
        # Of variables beside basic ones: what each part has of them, and how basic ones answer.
        self.lasting_bytes = tableau.held_bytes + self.inverse.nbytes + 16 * tableau.basic.size * whole
        self.peak_bytes = self.lasting_bytes + 8 * tableau.basic.size * whole  # while these are worked out
        self.drift = tableau.drift() if shares.any() else np.zeros(tableau.basic.size)

    def part(self, variables: IndexArray) -> Part:
        """Return what the tableau says of some of the others."""
        if self.kept is None:
            return self.tableau.part(variables)
        if np.array_equal(variables, self.others):
            return self.kept
        return self.kept[np.searchsorted(self.others, variables)]

    def run(self, chosen: IndexArray) -> None:
        """Find the solutions without each of these variables, but those that are to be refitted."""
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
                work = float(price[level]) * fits
                self.plan = done, work, left_over
                self.watch(left[:fits], np.sort(nearest[:size]), nearest[size:])
                done += work
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
        problem, tableau, f = self.problem, self.tableau, self.tableau.basic.size
        if 24 * (f + 64) * (f + watched.size) > self.gram.room:
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
        width = max(1, min(_BLOCK_BYTES, self.gram.room // 8) // (8 * max(1, universe.size)))
        for first in range(0, chosen.size, width):
            block = chosen[first : first + width]
            block = block[np.argsort(~self.is_basic[block], kind="stable")]
            own, corner = store.of(block, int(self.is_basic[block].sum()))
            beside = 0 if self.kept is not None and watched.size == self.others.size else 16 * f * watched.size
            own_drift = np.zeros(block.size)
            if self.shares.any():
                outside = ~self.is_basic[block]
                own_drift[outside] = self.part(block[outside]).drift()
            pending, before = np.arange(block.size), store.n_emptied
            while pending.size and store.n_emptied <= before + _EMPTIED:  # else their rows do not fit together
                rows = block[pending]
                ends, numbers = np.empty(rows.size, dtype=np.int64), np.empty((rows.size, 5))
                missing = [np.zeros(0, dtype=np.int64)]
                together = max(1, _TOGETHER // universe.size)
                for start in range(0, rows.size, together):
                    some = slice(start, start + together)
                    missing.append(
                        leave_out(
                            f,
                            values,
                            self.beta[universe],
                            problem.lower[universe],
                            problem.upper[universe],
                            store.rows,
                            store.slots,
                            own,
                            pending[some],
                            corner[pending[some]],
                            tableau.gradient[rows[some]],
                            position[rows[some]],
                            np.where(partner[rows[some]] >= 0, position[partner[rows[some]]], -1),
                            -self.beta[rows[some]],
                            drift,
                            own_drift[pending[some]],
                            -self.shares[rows[some]],
                            tableau.size,
                            TIGHT * (float(np.abs(self.beta).max()) or 1.0),
                            self.tol,
                            ends[some],
                            numbers[some],
                            self.gram.n_threads,
                        )
                    )
                    self.check()
                settled = (ends == _LEFT_OUT) | ((ends == _LOOSE) & (problem.groups is None))
                gradient, pivots, squared, outs, violation = numbers.T
                settled &= np.sqrt(squared) / far + np.sqrt(outs) * stiff <= 1.0
                for k in np.flatnonzero(settled).tolist():
                    self.found[int(rows[k])] = float(gradient[k]), int(pivots[k]), float(violation[k])
                store.add(np.unique(np.concatenate(missing)))
                self.peak_bytes = max(self.peak_bytes, self.lasting_bytes + beside + 2 * own.nbytes + store.peak_bytes)
                pending = pending[ends == _NEEDS_ROWS]
                before_, here, after = self.plan
                share = (first + block.size - pending.size) / chosen.size
                self.tell((before_ + share * here) / (before_ + here + after))
                self.check()


class _Rows:
    """Rows of the tableau over the basic and the watched variables, made when asked for."""

    def __init__(self, passes: Passes, part: Part) -> None:
        self.passes, self.part, self.f = passes, part, passes.tableau.basic.size
        self.answers = part.answers()
        self.slots = np.full(self.f + part.variables.size, -1, dtype=np.int64)
        self.rows = np.zeros((64, self.slots.size))
        self.n_rows = self.n_emptied = 0
        self.peak_bytes = self.rows.nbytes

    def add(self, places: IndexArray) -> None:
        """Keep the rows of variables at these places."""
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


def _slack(problem: Problem, beta: FloatArray, gradient: FloatArray) -> FloatArray:
    """How far each variable's gradient is from changing its sign, if that would be wrong, (n,); 0 inside the box."""
    fixed = problem.lower >= problem.upper
    return np.where(fixed, np.inf, np.where(inside_box(problem, beta), 0.0, np.abs(gradient)))


def _partners(problem: Problem, beta: FloatArray) -> IndexArray:
    """The other variable of each variable's row, -1 where it is alone."""
    partner = np.full(problem.n, -1, dtype=np.int64)
    if problem.rows is not None:
        order = np.argsort(problem.rows, kind="stable")
        sorted_rows = problem.rows[order]
        twins = np.flatnonzero(sorted_rows[1:] == sorted_rows[:-1])
        partner[order[twins]], partner[order[twins + 1]] = order[twins + 1], order[twins]
    return partner
