"""The common form of all quadratic duals of kernel machines."""

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

_ROUNDED = float(np.finfo(np.float64).eps)  # share of the summed sizes; a smaller sum is a rounding error of 0
ROUNDED_SUM = 1e-12  # share of a sum of weights, penalties or counts that may be a rounding error
_LEAST_PART = 1e-12  # smallest share of all box widths that a subset counts as, so that factors stay finite
_ALIKE = 1e-9  # share of a box width that rounding of C and of weights may change
_SHORT = 2048  # elements; below this length BLAS uses one thread and is faster than einsum


def inner(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two vectors, computed by one thread and always in the same order.

    BLAS splits vectors of 10,000 elements over several threads. The sum then depends on the number of threads, and on
    busy processors the threads wait for each other a thousand times longer than the product takes.
    """
    return float(a @ b) if a.size < _SHORT else float(np.einsum("i,i->", a, b))


def growth(last: FloatArray, widths: FloatArray) -> float | None:
    """Return the common factor from the `last` box widths to the new ones; None if no finite factor exists."""
    with np.errstate(over="ignore"):
        ours, theirs = float(widths.sum()), float(last.sum())
    factor = ours / theirs if theirs > 0.0 else np.inf
    if not np.isfinite(factor):  # coefficients times this factor would not be finite
        return None
    expected = factor * last
    return factor if (np.abs(widths - expected) <= _ALIKE * expected).all() else None


def filled(order: npt.NDArray[np.integer], room: FloatArray, total: float | np.longdouble) -> FloatArray:
    """Return the point that fills variables up to their `room`, in `order`, until the sum is `total`."""
    point, rooms = np.zeros(room.size), room[order].astype(np.longdouble)
    before = np.cumsum(rooms) - rooms  # in extended precision, so that rounding leaves no variable between its bounds
    point[order] = np.clip(total - before, 0.0, rooms)
    return point


def check_penalties(C: FloatArray) -> None:
    """Raise ValueError unless all penalties are positive, and all or none are infinite."""
    if not (C > 0.0).all():
        raise ValueError(f"C must be positive for every sample, got {C[~(C > 0.0)][0]}.")
    if np.isinf(C).any() and not np.isinf(C).all():
        raise ValueError("C must be finite for every sample or infinite for every sample, got both.")


def scaled_to_margin(quadratic: float, margin: float) -> float:
    """Return 1/2 ||w||^2 of the machine divided by its smallest margin; infinite unless the margin is positive."""
    return 0.5 * quadratic / margin**2 if margin > 0.0 else float("inf")


def vertex(gradient: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return the point of the box with sum `total` that minimises gradient' beta; at most one variable is free.

    Among variables with equal gradients, the first is raised first.
    """
    gradient, lower, upper = (np.ascontiguousarray(array, dtype=np.float64) for array in (gradient, lower, upper))
    return find_vertex(gradient, lower, upper, total)


class Loss:
    """The losses of the rows in the primal objective; by default those that the dual's box and ridge imply.

    A box, a linear term q and a ridge d are the dual of the loss

        max  -t (f_u + q_u) - 1/2 d_u t^2   over  lower_u <= t <= upper_u

    of the decision value f_u, bias included. A box from 0 to C with q = -1 gives the hinge loss, and a box around 0
    gives the pinball loss. A box without an upper end and with a ridge gives the squared hinge loss. A box without an
    upper end and without a ridge would make the loss infinite; such losses have their own classes.
    """

    def side_determines_loss(self, problem: Problem) -> bool:
        """Whether the bound of a variable determines its loss: its coefficient times the margin shortfall.

        At the bound 0 the loss is 0. At another bound this holds for a box without a ridge.
        """
        return problem.ridge is not None or bool(np.isfinite(problem.upper - problem.lower).all())

    @property
    def charges_by_box(self) -> bool:
        """Whether :meth:`charge` is the loss that the box and the ridge imply, which native code also computes."""
        return type(self).charge is Loss.charge

    def part(self, chosen: slice | IndexArray) -> Self:
        """Return the loss of some of the variables."""
        del chosen
        return self

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective at ||w||^2 = `quadratic` and decision values f(x_u), bias included.

        The result is 1/2 ||w||^2 plus the losses. :meth:`Problem.primal` adds the term of the multipliers.
        """
        push = -(decision + problem.linear)
        point = _answer(problem, push)
        if problem.ridge is not None:
            return 0.5 * quadratic + inner(point, push - 0.5 * problem.ridge * point)
        return 0.5 * quadratic + inner(point, push)

    def steepness(self, problem: Problem, decision: FloatArray, error: float) -> float:
        """Return the largest growth of the losses per unit of error in decision values, for errors up to `error`."""
        push = -(decision + problem.linear)
        ends = (np.abs(_answer(problem, push + step)) for step in (error, -error))
        return float(np.maximum(*ends).sum())


def _answer(problem: Problem, push: FloatArray) -> FloatArray:
    """Return the maximiser of the loss within each variable's box; it is minus the slope of the loss."""
    if problem.ridge is not None:
        return np.clip(push / problem.ridge, problem.lower, problem.upper)
    return np.where(push > 0.0, problem.upper, problem.lower)


@dataclass(frozen=True, eq=False)
class Problem:
    """A quadratic dual, in signed coordinates.

    **Solves**

        min  1/2 beta' (K + diag(ridge)) beta + linear' beta
        s.t. lower <= beta <= upper,   sum of beta over each group = its total

    With beta_u = s_u a_u this is the form of textbooks, min 1/2 a'Qa + p'a with Q_uv = s_u s_v k(x_u, x_v). In signed
    coordinates the decision function f(x) = sum_u beta_u k(x_u, x) + b needs no signs. The quadratic term is then the
    Gram matrix itself, which problems on the same data share.

    Parameters
    ----------
    name : str
        Name of the machine, for messages.
    linear, lower, upper : ndarray of shape (n,)
        Linear term and bounds. `lower` and `upper` may be infinite; 0 need not lie between them.
    start : ndarray of shape (n,)
        A feasible point; its sums are the groups' totals.
    groups : ndarray of int64 of shape (n,), optional
        Group of each variable, numbered from 0; None without equality constraints (a machine without bias).
    ridge : ndarray of shape (n,), optional
        Values added to the diagonal of K (squared losses).
    loss : Loss
        The losses in the primal objective.
    rows : ndarray of int64 of shape (n,), optional
        Row of each variable, if rows have two variables (epsilon-insensitive losses). If None, variable u belongs to
        row u.
    n_outputs : int
        Number of decision values of the machine. With several outputs, each row has one variable for each output, and
        the variables of a row are adjacent. K then applies between variables of the same output and is 0 between
        outputs.
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
        """Number of training rows; rows can have several variables."""
        return self.n // self.n_outputs if self.rows is None else int(self.rows.max(initial=-1)) + 1

    def by_output(self, beta: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return variables in the shape that K multiplies: (n,), or (n_rows, n_outputs) with several outputs."""
        return beta if self.n_outputs == 1 else beta.reshape(-1, self.n_outputs)

    def bias(self, multipliers: FloatArray) -> float:
        """Return the bias: minus the mean of the groups' multipliers; 0 without groups or with several outputs."""
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

        By weak duality it is at least the dual objective of any feasible point, for any multipliers.
        """
        if not multipliers.size:
            return self.loss.charge(self, quadratic, values)
        return self.loss.charge(self, quadratic, values - self._levels(multipliers)) - float(multipliers @ self.totals)

    def steepness(self, values: FloatArray, multipliers: FloatArray, error: float) -> float:
        """Return the largest error of the primal objective per unit of error in K beta, for errors up to `error`.

        The multipliers are fixed. With large bounds C the result is far larger than the sum of |beta|, because the loss
        of a free variable changes by up to C per unit.
        """
        return self.loss.steepness(self, values - self._levels(multipliers), error)

    def _levels(self, multipliers: FloatArray) -> FloatArray | float:
        """Return the multiplier of each variable's group."""
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
        """The variables of each group; a single group is a slice of all variables."""
        if self.groups is None or not self.n_groups:
            return []
        if self.n_groups == 1:
            return [slice(None)]
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        return list(np.split(order, ends[:-1]))

    def part(self, chosen: slice | IndexArray) -> Problem:
        """Return the problem of some of the variables. Each variable must be a row."""
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
        """Return a smaller problem of every `step`-th row, and the indices of its variables.

        The boxes are widened so that the sum of their widths stays the same in each group. The decision values of its
        solution are therefore close to those of this problem. Each group keeps at least one variable. The smaller
        problem starts from 0 if this one does. The problem must have groups and no ridge.
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
        """Return the point of the box with these group totals that minimises gradient' beta."""
        point = np.empty(self.n)
        for members, total in zip(self.members, totals, strict=True):
            point[members] = vertex(gradient[members], self.lower[members], self.upper[members], float(total))
        return point

    def without_bias(self) -> Problem:
        """Return the problem of the same machine without a bias: it has no equality constraints."""
        return replace(self, groups=None)

    def group_totals(self, beta: FloatArray) -> FloatArray:
        """Return the sum of `beta` over each group, summed in twice the precision and rounded once."""
        return np.array([twofold_sum(np.ascontiguousarray(beta[members])) for members in self.members])

    def group_drift(self, beta: FloatArray) -> FloatArray:
        """Return by how much the sum of `beta` over each group exceeds its total."""
        return self.group_totals(beta) - self.totals

    @lazy_property
    def totals(self) -> FloatArray:
        """Required sum of `beta` over each group, (n_groups,): that of `start`, or 0 if it is only a rounding error."""
        if not self.start.any():
            return np.zeros(self.n_groups)
        sums, sizes = self.group_totals(self.start), self.group_totals(np.abs(self.start))
        return np.where(np.abs(sums) <= _ROUNDED * sizes, 0.0, sums)

    def balance(self, beta: FloatArray) -> None:
        """Restore each group's total, in place, after rounding errors of many steps have changed it.

        The surplus goes to the free variable of smallest size that can take it within its bounds, because a small
        number has the smallest rounding error. If no other variable is free, variables that only the drift or rounding
        keeps from their bounds are moved to the bounds. Any other group without such a variable is not changed. Groups
        of machines with several outputs are not changed either: there each step of the solver keeps the sums exact. An
        optimal point stays optimal: see native/dual/conditions.hpp.
        """
        if self.n_outputs > 1:
            return
        for members, total in zip(self.members, self.totals, strict=True):
            point = beta[members]
            balance(point, self.lower[members], self.upper[members], np.array([0, point.size]), np.array([total]))
            beta[members] = point

    def start_after(self, before: Problem, beta: FloatArray) -> FloatArray:
        """Return a warm start from `beta`, the solution of the problem `before`, which may have other bounds.

        If all bounds have changed by one factor, as with another C, and most coefficients are at their bounds, all
        coefficients are multiplied by this factor. Bounded ones are then at the new bounds, and every sum stays 0. If
        most coefficients are free, they hardly depend on the bounds and are not changed.
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
        # Bounded variables are set exactly to their bounds: rounding would make them free, and every round would then
        # process them.
        grown = np.where(beta <= before.lower, self.lower, factor * beta)
        return np.where(beta >= before.upper, self.upper, grown)

    def make_feasible(self, beta: FloatArray) -> FloatArray:
        """Return a feasible point near `beta`: clipped to the box, then each group's total restored.

        The surplus of a group is removed by moving variables towards `start`, all by the same share of the way.
        """
        point = np.clip(beta, self.lower, self.upper)
        if self.groups is None:
            return point
        surplus = self.group_drift(point)
        # The starting point is feasible, so moving all the way to it removes the surplus exactly.
        way = self.start - point
        helpful = np.where(np.sign(way) == -np.sign(surplus[self.groups]), way, 0.0)
        totals = np.bincount(self.groups, weights=helpful, minlength=self.n_groups)
        share = np.divide(-surplus, totals, out=np.zeros(self.n_groups), where=totals != 0.0)
        point += np.minimum(1.0, share)[self.groups] * helpful
        return np.clip(point, self.lower, self.upper)


@final
class Problems(Sequence[Problem]):
    """A sequence of problems of one kind, stored as one problem; each :class:`Problem` object is made on demand.

    There can be hundreds of small problems, and making an object can take longer than solving its problem.

    Parameters
    ----------
    whole : Problem
        All variables, problem after problem.
    sizes : sequence of int
        Number of variables of each problem.

    Examples
    --------
    >>> from mercer.problems import c_svc
    >>> Problems(c_svc([-1, 1, 1, 1, -1], 2.0), [2, 3])[1].upper.tolist()
    [2.0, 2.0, 0.0]
    """

    def __init__(self, stacked: Problem, sizes: Sequence[int] | IndexArray) -> None:
        self.stacked = stacked
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.edges: list[int] = list(accumulate(self.sizes.tolist(), initial=0))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __getitem__(self, number: int) -> Problem:  # type: ignore[override]
        if len(self) == 1 and number == 0:
            return self.stacked
        return self.stacked.part(self.variables(number))

    def variables(self, number: int) -> slice:
        """Return the slice of the variables of one problem."""
        return slice(self.edges[number], self.edges[number + 1])

    def balance(self, beta: FloatArray) -> None:
        """Restore the sum of each problem to 0, in place; see :meth:`Problem.balance`."""
        balance(beta, self.stacked.lower, self.stacked.upper, np.array(self.edges), np.zeros(len(self)))

    def take(self, numbers: Sequence[int]) -> Problems:
        """Return some of the problems."""
        if len(numbers) == len(self):
            return self
        chosen = np.concatenate([np.arange(self.edges[k], self.edges[k + 1]) for k in numbers])
        return Problems(self.stacked.part(chosen), self.sizes[numbers])
