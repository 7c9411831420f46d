"""The one form that every quadratic dual of a kernel machine takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from mercer._core import balance, find_vertex, twofold_sum
from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property

_ROUNDED = float(np.finfo(np.float64).eps)  # of numbers that sum to 0: what is left of them
_LEAST_PART = 1e-12  # of all boxes, that some of them are taken for at least: factors have to be finite
_ALIKE = 1e-9  # of a box, what rounding of C and of weights may change
_SHORT = 2048  # BLAS is called at less cost, and uses one thread


def inner(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two long vectors, by one thread and always in the same order.

    BLAS hands vectors of 10,000 elements to several threads: the sum then depends on their number, and where the
    processors are busy, they wait for each other a thousand times longer than the product takes.
    """
    return float(a @ b) if a.size < _SHORT else float(np.einsum("i,i->", a, b))


def growth(last: FloatArray, widths: FloatArray) -> float | None:
    """Return how many times as wide boxes are as the last ones, up to rounding; None where no finite number says it."""
    with np.errstate(over="ignore"):
        ours, theirs = float(widths.sum()), float(last.sum())
    factor = ours / theirs if theirs > 0.0 else np.inf
    if not np.isfinite(factor):  # nor is what was summed with coefficients, times it
        return None
    expected = factor * last
    return factor if (np.abs(widths - expected) <= _ALIKE * expected).all() else None


def filled(order: npt.NDArray[np.integer], room: FloatArray, total: float | np.longdouble) -> FloatArray:
    """Return what fills the `room` of the first in `order`, up to `total`: a point at bounds, but for one variable."""
    point, rooms = np.zeros(room.size), room[order].astype(np.longdouble)
    before = np.cumsum(rooms) - rooms  # where there are more digits, so that rounding leaves nobody between bounds
    point[order] = np.clip(total - before, 0.0, rooms)
    return point


def vertex(gradient: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return the point of this sum within a box that minimises gradient' beta: at bounds, but for one variable.

    Of equal gradients the first goes up first.
    """
    gradient, lower, upper = (np.ascontiguousarray(array, dtype=np.float64) for array in (gradient, lower, upper))
    return find_vertex(gradient, lower, upper, total)


class Loss:
    """What the primal objective charges for decision values: by default, what the dual's box and ridge say.

    A box, a linear term q and a ridge d are the dual of the charge

        max  -t (f_u + q_u) - 1/2 d_u t^2   over  lower_u <= t <= upper_u

    on the decision value f_u, bias included: the hinge of a box from 0 to C with q = -1, the pinball of a box around
    0, the squared hinge of a box without an upper end and a ridge, and so on. Losses that a box without an upper end
    makes infinite have classes of their own.
    """

    def settles_by_side(self, problem: Problem) -> bool:
        """Whether its side says what a variable at a bound adds to the primal: its coefficient times what is short.

        At 0 that is nothing. At another bound it holds for a box without a ridge.
        """
        return problem.ridge is not None or bool(np.isfinite(problem.upper - problem.lower).all())

    @property
    def charges_by_box(self) -> bool:
        """Whether :meth:`charge` is what the box and the ridge say, which native code knows too."""
        return type(self).charge is Loss.charge

    def part(self, chosen: slice | IndexArray) -> Self:
        """Return what is charged for some of the variables."""
        del chosen
        return self

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective at ||w||^2 = `quadratic` and decision values f(x_u), bias included.

        That is 1/2 ||w||^2 and what is charged for the decision values; the multipliers' share comes on top.
        """
        push = -(decision + problem.linear)
        point = _answer(problem, push)
        if problem.ridge is not None:
            return 0.5 * quadratic + inner(point, push - 0.5 * problem.ridge * point)
        return 0.5 * quadratic + inner(point, push)

    def steepness(self, problem: Problem, decision: FloatArray, reach: float) -> float:
        """Return how much more may be charged, for each unit by which all decision values are off, up to `reach`."""
        push = -(decision + problem.linear)
        ends = (np.abs(_answer(problem, push + step)) for step in (reach, -reach))
        return float(np.maximum(*ends).sum())


def _answer(problem: Problem, push: FloatArray) -> FloatArray:
    """Where in its box each variable is charged most: the slope of the charge."""
    if problem.ridge is not None:
        return np.clip(push / problem.ridge, problem.lower, problem.upper)
    return np.where(push > 0.0, problem.upper, problem.lower)


@dataclass(frozen=True, eq=False)
class Problem:
    """A quadratic dual, in signed coordinates.

    **Solves**

        min  1/2 beta' (K + diag(ridge)) beta + linear' beta
        s.t. lower <= beta <= upper,   sum of beta over each group = its total

    With beta_u = s_u a_u this is min 1/2 a'Qa + p'a with Q_uv = s_u s_v k(x_u, x_v), the form of textbooks; in
    signed coordinates the decision function is f(x) = sum_u beta_u k(x_u, x) + b without any further sign, and
    Q is the Gram matrix itself, which problems on the same data share.

    Parameters
    ----------
    name : str
        For messages.
    linear, lower, upper : ndarray of shape (n,)
        `lower` and `upper` may be infinite. 0 need not lie between them.
    start : ndarray of shape (n,)
        A feasible point; it also fixes the groups' totals.
    groups : ndarray of int64 of shape (n,), optional
        Group of each variable, from 0 on; None where there is no equality constraint (a machine without bias).
    ridge : ndarray of shape (n,), optional
        Added to the diagonal of K (squared losses).
    loss : Loss
        For the primal objective.
    rows : ndarray of int64 of shape (n,), optional
        Row that each variable belongs to, where a row has two (epsilon-insensitive losses); None: one each, in order.
    n_outputs : int
        Decision values of the machine, of which each variable belongs to one: those of a row follow one another, one
        for each output. K is then between variables of the same output, and 0 between others.
    """

    name: str
    linear: FloatArray
    lower: FloatArray
    upper: FloatArray
    start: FloatArray
    groups: IndexArray | None
    ridge: FloatArray | None
    loss: Loss
    rows: IndexArray | None = None
    n_outputs: int = 1

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.linear.size

    @lazy_property
    def n_rows(self) -> int:
        """Number of rows that the variables belong to."""
        return self.n // self.n_outputs if self.rows is None else int(self.rows.max(initial=-1)) + 1

    def by_output(self, beta: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return variables as K is applied to them: (n,), or (n_rows, n_outputs) where there are several outputs."""
        return beta if self.n_outputs == 1 else beta.reshape(-1, self.n_outputs)

    def bias(self, multipliers: FloatArray) -> float:
        """Return the bias: minus the multiplier, or the mean of those of both sides; 0 without any, or of rows."""
        if self.n_outputs > 1 or not multipliers.size:
            return 0.0
        return -float(multipliers[0]) if multipliers.size == 1 else -float(multipliers.mean())

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Return the coefficient of each row, (n_rows,): the sum of its variables."""
        if self.rows is None:
            return beta
        sums = np.zeros(self.n_rows)
        np.add.at(sums, self.rows, beta)
        return sums

    def primal(self, quadratic: float, values: FloatArray, multipliers: FloatArray) -> float:
        """Return the primal objective at ||w||^2 = `quadratic`, K beta = `values` and the multiplier of each group.

        For any multipliers it is no less than the dual objective of any feasible point: weak duality.
        """
        if not multipliers.size:
            return self.loss.charge(self, quadratic, values)
        return self.loss.charge(self, quadratic, values - self._levels(multipliers)) - float(multipliers @ self.totals)

    def steepness(self, values: FloatArray, multipliers: FloatArray, reach: float) -> float:
        """Return how far the primal objective may be off, for each unit that all of K beta are off, up to `reach`.

        With multipliers as they are. Where the bounds C are large, that is far more than the sum of |beta|: a free
        variable is off by C for a unit.
        """
        return self.loss.steepness(self, values - self._levels(multipliers), reach)

    def _levels(self, multipliers: FloatArray) -> FloatArray | float:
        """The multiplier of each variable's group."""
        if multipliers.size < 2:
            return float(multipliers[0]) if multipliers.size else 0.0
        levels: FloatArray = multipliers[self.groups]
        return levels

    @lazy_property
    def n_groups(self) -> int:
        """Number of equality constraints."""
        return 0 if self.groups is None or self.groups.size == 0 else int(self.groups.max()) + 1

    @lazy_property
    def members(self) -> list[slice | IndexArray]:
        """The variables of each group; of a single group, a slice of all."""
        if self.groups is None or not self.n_groups:
            return []
        if self.n_groups == 1:
            return [slice(None)]
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        return list(np.split(order, ends[:-1]))

    def part(self, chosen: slice | IndexArray) -> Problem:
        """Return the problem of some of the variables, of one whose variables are rows."""
        assert self.rows is None
        assert self.n_outputs == 1
        return Problem(
            self.name,
            self.linear[chosen],
            self.lower[chosen],
            self.upper[chosen],
            self.start[chosen],
            None if self.groups is None else self.groups[chosen],
            None if self.ridge is None else self.ridge[chosen],
            self.loss.part(chosen),
        )

    def thinned(self, step: int) -> tuple[Problem, IndexArray]:
        """Return the problem of every `step`-th row, which stands for those left out, and its variables.

        Boxes are wider by as much as they are fewer: its solution has about the decision values of this problem's. Of
        each group there is a variable at least. It starts from 0 where this one does. For sums that are fixed, and
        without a ridge.
        """
        assert self.n_outputs == 1
        assert self.ridge is None
        assert self.groups is not None
        if self.rows is None:
            chosen, rows = (
                np.sort(np.concatenate([np.arange(self.n)[members][::step] for members in self.members])),
                None,
            )
        else:
            chosen = np.flatnonzero(self.rows % step == 0)
            rows = self.rows[chosen] // step
        groups, widths = self.groups[chosen], self.upper - self.lower
        room, part_room = (
            np.bincount(of, weights=some, minlength=self.n_groups)
            for of, some in ((self.groups, widths), (groups, widths[chosen]))
        )
        shares = np.divide(room, np.maximum(part_room, _LEAST_PART * room), out=np.ones_like(room), where=room > 0.0)
        share = shares[groups]
        part = Problem(
            self.name,
            self.linear[chosen],
            share * self.lower[chosen],
            share * self.upper[chosen],
            np.zeros(chosen.size),
            groups,
            None,
            self.loss.part(chosen),
            rows,
        )
        if self.start.any():
            part = replace(part, start=part.vertex(part.linear, self.totals))
        return part, chosen

    def vertex(self, gradient: FloatArray, totals: FloatArray) -> FloatArray:
        """Return the point with these group totals and the least gradient' beta."""
        point = np.empty(self.n)
        for members, total in zip(self.members, totals, strict=True):
            point[members] = vertex(gradient[members], self.lower[members], self.upper[members], float(total))
        return point

    def without_bias(self) -> Problem:
        """Return the problem of the machine whose decision function has no bias: no sum is fixed."""
        return replace(self, groups=None)

    def group_totals(self, beta: FloatArray) -> FloatArray:
        """Return the sum of `beta` over each group, in twice the precision but for the last rounding."""
        return np.array([twofold_sum(np.ascontiguousarray(beta[members])) for members in self.members])

    def group_drift(self, beta: FloatArray) -> FloatArray:
        """Return by how much the sum of `beta` over each group exceeds its total."""
        return self.group_totals(beta) - self.totals

    @lazy_property
    def totals(self) -> FloatArray:
        """What `beta` sums to over each group, (n_groups,): as `start` does, 0 where all but rounding cancels."""
        if not self.start.any():
            return np.zeros(self.n_groups)
        sums, sizes = self.group_totals(self.start), self.group_totals(np.abs(self.start))
        return np.where(np.abs(sums) <= _ROUNDED * sizes, 0.0, sums)

    def balance(self, beta: FloatArray) -> None:
        """Put each group's total right, in place, where rounding over many steps has made it drift.

        The free variable of smallest size with room for the surplus takes it, up to its bound: there it can be told
        most exactly. Where no other is free, those that only the drift or rounding keeps from their bounds go there;
        any other group without such a variable stays as it is, for its variables are at bounds that mean something. So
        do the groups of machines with several outputs, a row each, whose sums are put right by every step. An optimum
        is one afterwards: see native/qp/conditions.hpp.
        """
        if self.n_outputs > 1:
            return
        for members, total in zip(self.members, self.totals, strict=True):
            point = beta[members]
            balance(point, self.lower[members], self.upper[members], np.array([0, point.size]), np.array([total]))
            beta[members] = point

    def start_after(self, before: Problem, beta: FloatArray) -> FloatArray:
        """Return a point to start from, where `beta` has solved `before`, which may have other bounds.

        Where all bounds have grown or shrunk by one factor, as with another C, and most coefficients were at them,
        all coefficients do so too: bounded ones are at the new bounds, and every sum stays 0. Coefficients that are
        mostly free hardly depend on the bounds, and stay.
        """
        finite = np.isfinite(before.upper - before.lower).all() and np.isfinite(self.upper - self.lower).all()
        if before.start.any() or self.start.any() or not finite:
            return beta
        free = np.count_nonzero((before.lower < beta) & (beta < before.upper))
        if 2 * free > np.count_nonzero(beta):
            return beta
        factor = growth(before.upper - before.lower, self.upper - self.lower)
        if factor is None:
            return beta
        # At a bound, not next to it: what rounding leaves free would be a variable more for every round to look at.
        grown = np.where(beta <= before.lower, self.lower, factor * beta)
        return np.where(beta >= before.upper, self.upper, grown)

    def make_feasible(self, beta: FloatArray) -> FloatArray:
        """Return a feasible point near `beta`: clipped to the box, then each group's total restored.

        The surplus of a group is taken back from the variables on its side, in proportion to how far each can go.
        """
        point = np.clip(beta, self.lower, self.upper)
        if self.groups is None:
            return point
        surplus = self.group_drift(point)
        # Towards the starting point, which is feasible: the way there closes the gap exactly.
        way = self.start - point
        helpful = np.where(np.sign(way) == -np.sign(surplus[self.groups]), way, 0.0)
        found = np.bincount(self.groups, weights=helpful, minlength=self.n_groups)
        share = np.divide(-surplus, found, out=np.zeros(self.n_groups), where=found != 0.0)
        point += np.minimum(1.0, share)[self.groups] * helpful
        return np.clip(point, self.lower, self.upper)


@final
class Problems(Sequence[Problem]):
    """Problems of one kind, their variables one after the other; each is made when it is asked for.

    There may be hundreds, and small: an object takes longer than a machine.

    Parameters
    ----------
    whole : Problem
        Of all variables.
    sizes : sequence of int
        How many each problem has.

    Examples
    --------
    >>> from mercer.problems import c_svc
    >>> Problems(c_svc([-1, 1, 1, 1, -1], 2.0), [2, 3])[1].upper.tolist()
    [2.0, 2.0, 0.0]
    """

    def __init__(self, whole: Problem, sizes: Sequence[int] | IndexArray) -> None:
        self.whole = whole
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.edges: list[int] = list(accumulate(self.sizes.tolist(), initial=0))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __getitem__(self, number: int) -> Problem:  # type: ignore[override]
        if len(self) == 1 and number == 0:
            return self.whole
        return self.whole.part(self.variables(number))

    def variables(self, number: int) -> slice:
        """Return which variables are those of a problem."""
        return slice(self.edges[number], self.edges[number + 1])

    def balance(self, beta: FloatArray) -> None:
        """Put the sums of all right, in place; see :meth:`Problem.balance`. Each has one, that is 0."""
        balance(beta, self.whole.lower, self.whole.upper, np.array(self.edges), np.zeros(len(self)))

    def take(self, numbers: Sequence[int]) -> Problems:
        """Return some of the problems."""
        if len(numbers) == len(self):
            return self
        chosen = np.concatenate([np.arange(self.edges[k], self.edges[k + 1]) for k in numbers])
        return Problems(self.whole.part(chosen), self.sizes[numbers])
