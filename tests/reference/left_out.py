"""Solutions without one training variable (leave-one-out)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


LEFT_OUT, NEEDS_ROWS, NOT_FOUND, LOOSE = 0, 1, 2, 3
"""How the search for the solution without a row ends (mercer::LeaveOutEnd)."""

_ROUNDS = 12
"""Of exchanges at one length of the step: most points need two to five, and cycles are rare."""

_SPREADING, _AT_FIRST = 4, 16
"""An exchange of more variables than that multiple of what was wrong at first, and some more, leads away."""

_NEAR = 0.5
"""Places are looked at between looks at all of them if this multiple of what they have moved takes them across. With 2,
five times as many are looked at for hardly fewer looks at all."""

_SHORTEST = 1.0 / 4096.0
"""Share of the step below which the search is given up: what is left then is refitted."""

_NO_PIVOT = 1e-11
"""Of the typical k(x, x): a smaller pivot is rounding, its variable depends on the others."""


def leave_out(
    n_basic: int,
    values: FloatArray,
    point: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rows: FloatArray,
    slots: IndexArray,
    own_rows: FloatArray,
    own_slots: IndexArray,
    corner: FloatArray,
    gradient: FloatArray,
    main: IndexArray,
    partner: IndexArray,
    amount: FloatArray,
    drift: FloatArray,
    own_drift: FloatArray,
    total: FloatArray,
    size: float,
    tol_beta: float,
    tol_gradient: float,
    ends: IndexArray,
    numbers: FloatArray,
) -> IndexArray:
    """Find the solution without each of several variables, from the one with all; see native/dual/loo_update.hpp.

    `ends` says how that ended; `numbers` are the gradient at the variable left out, pivots, the squared length of what
    moved, that of the gradients of basic variables that left, and the largest violation. Returned are the places whose
    rows are missing.
    """
    missing: set[int] = set()
    for b in range(main.size):
        search = _WithoutOne(n_basic, values, point, lower, upper, rows, slots, size, tol_beta, tol_gradient)
        search.takes(
            own_rows[own_slots[b]], corner[b], gradient[b], int(main[b]), int(partner[b]), amount[b], drift * total[b],
            own_drift[b] * total[b],
        )  # fmt: skip
        ends[b], *numbers[b], needs = search.run()
        missing.update(needs)
    return np.array(sorted(missing), dtype=np.int64)


class _WithoutOne:
    """Exchange basic and nonbasic variables, all violating ones at a time, until none violates."""

    def __init__(
        self,
        n_basic: int,
        values: FloatArray,
        point: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        rows: FloatArray,
        slots: IndexArray,
        size: float,
        tol_beta: float,
        tol_gradient: float,
    ) -> None:
        self.n_basic, self.values, self.point, self.lower, self.upper = n_basic, values, point, lower, upper
        self.rows, self.slots, self.size = rows, slots, size
        self.tol_beta, self.tol_gradient = tol_beta, tol_gradient

    def takes(
        self,
        own_rows: FloatArray,
        corner: float,
        gradient: float,
        main: int,
        partner: int,
        amount: float,
        drift: FloatArray,
        own_drift: float,
    ) -> None:
        self.own_rows, self.corner, self.gradient, self.main, self.partner = own_rows, corner, gradient, main, partner
        self.amount, self.drift, self.own_drift = amount, drift, own_drift
        self.is_basic = 0 <= main < self.n_basic
        self.missing: list[int] = []
        self.near = np.zeros(self.values.size, dtype=bool)

    def row(self, a: int) -> FloatArray:
        """The change of all values if place `a` changes: its gradient if it is basic, else its beta."""
        stored = self.own_rows if a == self.main else self.rows[self.slots[a]]
        if a < self.n_basic:
            return stored
        return np.concatenate([-stored[: self.n_basic], stored[self.n_basic :]])

    def run(self) -> tuple[int, float, int, float, float, float, list[int]]:
        solved: dict[int, float] = {self.main: 0.0} if self.is_basic else {}
        moved: dict[int, float] = {}
        done, share = 0.0, 1.0
        while True:
            result = self.at(share, dict(solved), dict(moved))
            if self.missing:
                return NEEDS_ROWS, 0.0, 0, 0.0, 0.0, 0.0, self.missing
            if result is not None and share == 1.0:
                return result[2]
            if result is not None:
                solved, moved = result[:2]
                done, share = share, min(1.0, share + 2.0 * (share - done))
            else:
                share = 0.5 * (done + share)
                if share - done < _SHORTEST:
                    return NOT_FOUND, 0.0, 0, 0.0, 0.0, 0.0, []

    def at(self, share: float, solved: dict[int, float], moved: dict[int, float]) -> Any:
        """The solution after `share` of the variable's value is removed, from a nearby basis; None if not found."""
        most, turn, everywhere = len(self.values), 0, True
        while turn < _ROUNDS:
            if len(solved) > most:
                return None
            if turn == 1:
                most = _SPREADING * len(solved) + _AT_FIRST
            wanted = [*solved, *moved]
            self.missing = [a for a in wanted if a != self.main and self.slots[a] < 0]
            if self.missing:
                return None
            base = self.values + share * self.drift
            if self.is_basic:
                solved[self.main] = (1.0 - share) * self.point[self.main]
            else:
                sign = np.where(np.arange(self.values.size) < self.n_basic, -1.0, 1.0)
                base = base + share * self.amount * sign * self.own_rows
            for a, move in moved.items():
                base = base + move * self.row(a)
            unknown = list(solved)
            columns = np.array([self.row(a) for a in unknown]).reshape(len(unknown), base.size)
            system = columns[:, unknown].T
            right = np.array([solved[a] - base[a] for a in unknown])
            change, used = solve_by_diagonal(system, right, np.array(unknown) < self.n_basic, self.size)
            value = base + change @ columns
            changes = dict(zip(unknown, change.tolist(), strict=True))
            if everywhere:
                self.look_near(value)
            wrong, worst = self.exchange(value, changes, used, solved, moved, everywhere)
            if wrong:
                turn, everywhere = turn + 1, False
            elif not everywhere:
                everywhere = True
            else:
                end = LEFT_OUT if self.has_inside(value, changes, moved) else LOOSE
                return solved, moved, self.result(end, changes, moved, worst)
        return None

    def look_near(self, value: FloatArray) -> None:
        """Add places that are close to a change of sides to those that are checked between full checks."""
        basic = np.arange(value.size) < self.n_basic
        room = np.where(basic, np.minimum(value - self.lower, self.upper - value), np.abs(value))
        self.near |= room < _NEAR * np.abs(value - self.values)

    def exchange(
        self,
        value: FloatArray,
        change: dict[int, float],
        used: BoolArray,
        solved: dict[int, float],
        moved: dict[int, float],
        everywhere: bool,
    ) -> tuple[bool, float]:
        """Exchange all violating places; return whether there were any, and the largest violation of the others."""
        wrong, worst = False, 0.0
        dropped = {a for a, is_used in zip(list(solved), used, strict=True) if not is_used}
        for a in list(solved):
            if a == self.main:
                wrong |= a in dropped
                continue
            if a in dropped:
                del solved[a]
            elif a < self.n_basic:
                over = -change[a] if solved[a] == self.lower[a] else change[a]
                if over > self.tol_gradient:
                    del solved[a]
                    wrong = True
                worst = max(worst, min(over, self.tol_gradient))
            else:
                beta = self.point[a] + change[a]
                if beta < self.lower[a] - self.tol_beta or beta > self.upper[a] + self.tol_beta:
                    bound = self.lower[a] if beta < self.lower[a] else self.upper[a]
                    del solved[a]
                    if bound != self.point[a]:
                        moved[a] = bound - self.point[a]
                    wrong = True
        for a in range(value.size):
            if (a in change and a not in dropped) or a in (self.main, self.partner):
                continue
            if not (everywhere or self.near[a] or a in moved):
                continue
            if a < self.n_basic:
                if value[a] < self.lower[a] - self.tol_beta:
                    solved[a], wrong = self.lower[a], True
                elif value[a] > self.upper[a] + self.tol_beta:
                    solved[a], wrong = self.upper[a], True
                continue
            beta = self.point[a] + moved.get(a, 0.0)
            over = 0.0
            if beta < self.upper[a]:
                over = -value[a]
            if beta > self.lower[a]:
                over = max(over, value[a])
            if over > self.tol_gradient:
                solved[a], wrong = 0.0, True
                moved.pop(a, None)
            worst = max(worst, min(over, self.tol_gradient))
        return wrong, worst

    def has_inside(self, value: FloatArray, change: dict[int, float], moved: dict[int, float]) -> bool:
        """Whether a variable is strictly inside its box, so that the multiplier is unique and not an interval."""
        beta = np.concatenate([value[: self.n_basic], self.point[self.n_basic :]])
        for a, moves in {**change, **moved}.items():
            beta[a] = self.lower[a] if a < self.n_basic else self.point[a] + moves
        inside = (self.lower + self.tol_beta < beta) & (beta < self.upper - self.tol_beta)
        inside[[a for a in (self.main, self.partner) if a >= 0]] = False
        return bool(inside.any())

    def result(
        self,
        end: int,
        change: dict[int, float],
        moved: dict[int, float],
        worst: float,
    ) -> tuple[int, float, int, float, float, float, list[int]]:
        everything = {**change, **moved}
        outs = [c for a, c in everything.items() if a < self.n_basic]
        ins = {a: c for a, c in everything.items() if a >= self.n_basic}
        squared = sum(c * d * float(self.row(a)[k]) for a, c in ins.items() for k, d in ins.items())
        if self.is_basic:
            gradient = change[self.main]
        else:
            gradient = self.gradient + self.corner * self.amount + self.own_drift
            gradient += sum(self.own_rows[a] * c for a, c in everything.items())
            squared += self.amount * (
                self.corner * self.amount + 2.0 * sum(self.own_rows[a] * c for a, c in ins.items())
            )
        n_pivots = len(everything) - self.is_basic
        return end, gradient, n_pivots, max(0.0, squared), math.fsum(c * c for c in outs), worst, []


def solve_by_diagonal(
    system: FloatArray, right: FloatArray, basic: BoolArray, size: float
) -> tuple[FloatArray, BoolArray]:
    """Solve a system whose symmetric part is positive semidefinite, by pivots on its diagonal, the largest first.

    Units are made alike first: those of basic variables by `size`, a typical k(x, x). Variables without a pivot stay 0;
    the second array says which have one.
    """
    n = right.size
    scale = np.where(basic, size**0.5, size**-0.5)
    matrix, rest = system * scale[:, None] * scale[None, :], right * scale
    used, order = np.zeros(n, dtype=bool), []
    for _ in range(n):
        diagonal = np.where(used, -np.inf, np.diag(matrix))
        p = int(np.argmax(diagonal))
        if diagonal[p] <= _NO_PIVOT:
            break
        used[p] = True
        order.append(p)
        below = ~used
        factor = matrix[below, p] / matrix[p, p]
        matrix[np.ix_(below, below)] -= factor[:, None] * matrix[p, below]
        rest[below] -= factor * rest[p]
    solution = np.zeros(n)
    for k, p in reversed(list(enumerate(order))):
        later = order[k + 1 :]
        solution[p] = (rest[p] - matrix[p, later] @ solution[later]) / matrix[p, p]
    return solution * scale, used
