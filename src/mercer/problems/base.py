"""The one form that every quadratic dual of a kernel machine takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


_SHORT = 2048  # BLAS is called at less cost, and uses one thread


def inner(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two long vectors, by one thread and always in the same order.

    BLAS hands vectors of 10,000 elements to several threads: the sum then depends on their number, and where the
    processors are busy, they wait for each other a thousand times longer than the product takes.
    """
    return float(a @ b) if a.size < _SHORT else float(np.einsum("i,i->", a, b))


class Loss(ABC):
    """The part of the primal objective that depends on the decision values.

    Attributes
    ----------
    settles_by_side : bool
        Whether a variable that is 0 and on the right side adds nothing to the primal objective, whatever its decision
        value is.
    """

    settles_by_side: bool = False

    @abstractmethod
    def primal(self, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective at ||w||^2 = `quadratic` and decision values f(x_i), bias included."""


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
    """

    name: str
    linear: FloatArray
    lower: FloatArray
    upper: FloatArray
    start: FloatArray
    groups: IndexArray | None
    ridge: FloatArray | None
    loss: Loss

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.linear.size

    @cached_property
    def n_groups(self) -> int:
        """Number of equality constraints."""
        return 0 if self.groups is None or self.groups.size == 0 else int(self.groups.max()) + 1

    @cached_property
    def members(self) -> list[slice | IndexArray]:
        """The variables of each group; of a single group, a slice of all."""
        if self.groups is None:
            return []
        if self.n_groups == 1:
            return [slice(None)]
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        return list(np.split(order, ends[:-1]))

    def group_totals(self, beta: FloatArray) -> FloatArray:
        """Return the sum of `beta` over each group, rounded once."""
        return np.array([math.fsum(beta[members]) for members in self.members])

    def group_drift(self, beta: FloatArray) -> FloatArray:
        """Return by how much the sum of `beta` over each group exceeds its total."""
        return self.group_totals(beta) - self._totals

    @cached_property
    def _totals(self) -> FloatArray:
        return self.group_totals(self.start)

    def balance(self, beta: FloatArray) -> None:
        """Put each group's total right, in place, where rounding over many steps has made it drift.

        The free variable of smallest size with room for the surplus takes it: there it can be told most exactly. A
        group without such a variable stays as it is, for its variables are at bounds that mean something.
        """
        for members, surplus in zip(self.members, self.group_drift(beta), strict=True):
            if surplus == 0.0:
                continue
            point, lower, upper = beta[members], self.lower[members], self.upper[members]
            moved = point - surplus
            fit = np.flatnonzero((lower < point) & (point < upper) & (lower < moved) & (moved < upper))
            if fit.size:
                least = fit[np.argmin(np.abs(point[fit]))]
                point[least] = moved[least]
                beta[members] = point

    def make_feasible(self, beta: FloatArray) -> FloatArray:
        """Return a feasible point near `beta`: clipped to the box, then each group's total restored.

        The surplus of a group is taken back from the variables on its side, in proportion to how far each can go.
        """
        point = np.clip(beta, self.lower, self.upper)
        if self.groups is None:
            return point
        surplus = self.group_drift(point)
        for group in np.flatnonzero(surplus):
            members = np.flatnonzero(self.groups == group)
            # Towards the starting point, which is feasible: the way there closes the gap exactly.
            way = self.start[members] - point[members]
            helpful = np.where(np.sign(way) == -np.sign(surplus[group]), way, 0.0)
            share = -surplus[group] / helpful.sum() if helpful.sum() != 0.0 else 0.0
            point[members] += min(1.0, share) * helpful
        return np.clip(point, self.lower, self.upper)
