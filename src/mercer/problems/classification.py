"""Duals of classifiers for two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.problems.problem import (
    ROUNDED_SUM,
    Loss,
    Problem,
    Problems,
    check_penalties,
    filled,
    inner,
    scaled_to_margin,
)


@dataclass(frozen=True, eq=False)
class Hinge(Loss):
    """Hinge loss: the primal objective is 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)).

    With C_i = inf no slack is allowed, and the objective is that of the machine scaled so that all margins are >= 1.

    Parameters
    ----------
    y : ndarray of shape (n,), values -1 and +1
    C : ndarray of shape (n,)
        Penalty of each sample.
    """

    y: FloatArray
    C: FloatArray

    @property
    def charges_by_box(self) -> bool:
        """Whether :meth:`charge` is the loss that the box implies; see :class:`Loss`."""
        return not np.isinf(self.C).any()

    def part(self, chosen: slice | IndexArray) -> Hinge:
        """Return the loss of some of the variables."""
        return Hinge(self.y[chosen], self.C[chosen])

    def slacks(self, decision: FloatArray) -> FloatArray:
        """Return xi_i = max(0, 1 - y_i f(x_i))."""
        return np.maximum(0.0, 1.0 - self.y * decision)

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective; see :class:`Loss`."""
        del problem
        if np.isinf(self.C).any():
            return scaled_to_margin(quadratic, float((self.y * decision).min()))
        return 0.5 * quadratic + inner(self.C, self.slacks(decision))

    def steepness(self, problem: Problem, decision: FloatArray, error: float) -> float:
        """Return the largest growth of the loss per unit of error; see :class:`Loss`."""
        if np.isinf(self.C).any():
            return 0.0  # the caller adds the sum of alpha, which is ||w||^2
        return super().steepness(problem, decision, error)


@dataclass(frozen=True, eq=False)
class HullDistance(Loss):
    """Primal objective of :func:`nearest_points`: 1/2 ||w||^2 minus the distance of two separating planes."""

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return half of ||w||^2 plus each plane's move until its class is beyond it; see :class:`Loss`."""
        short = np.where(problem.lower == 0.0, -decision, decision)
        return 0.5 * quadratic + sum(max(0.0, float(short[members].max())) for members in problem.members)

    def steepness(self, problem: Problem, decision: FloatArray, error: float) -> float:
        """Return the number of planes: each moves at most as far as the decision values; see :class:`Loss`."""
        del decision, error
        return float(problem.n_groups)


def c_svc(y: npt.ArrayLike, C: npt.ArrayLike, *, squared: bool = False) -> Problem:
    """Dual of the soft-margin support vector machine with hinge loss; C = inf is the maximal-margin machine.

    **Solves** max sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
    s.t. 0 <= alpha_i <= C_i, sum_i alpha_i y_i = 0; as a :class:`Problem` with beta_i = alpha_i y_i.

    Parameters
    ----------
    y : array-like of shape (n,), values -1 and +1, both present
    C : float or array-like of shape (n,), > 0
        Penalty of each sample: C times its class weight and sample weight. Either all are infinite or none is.
    squared : bool, default False
        Whether the primal objective sums the squares of the slacks. The dual box then has no upper end, and
        sum_i alpha_i^2 / (4 C_i) is subtracted from the dual objective. With infinite C both machines are the same.

    Raises
    ------
    ValueError
        If `y` has other values or only one class, if C is not positive, or if only some C_i are infinite.

    References
    ----------
    Cortes & Vapnik (1995); Fan, Chen & Lin (2005), equation (1).

    Examples
    --------
    >>> c_svc([-1, 1], 10.0).upper.tolist()
    [0.0, 10.0]
    """
    signs = np.asarray(y, dtype=np.float64)
    penalties = np.empty(signs.shape)
    penalties[...] = C
    if signs.ndim != 1:
        raise ValueError("y must be a vector of -1 and +1 with both present.")
    return c_svc_each(signs, penalties, [signs.size], squared=squared)[0]


def c_svc_each(
    signs: FloatArray,
    penalties: FloatArray,
    sizes: Sequence[int] | IndexArray,
    *,
    squared: bool = False,
    bias: bool = True,
    one_sided: bool = False,
) -> Problems:
    """Return several problems, whose rows are stored one after the other; see :func:`c_svc`.

    `sizes` are their numbers of rows. With `one_sided`, a class may have no rows yet: a machine with a bias is then
    f = 1 or f = -1.
    """
    y, C = signs, penalties
    if not one_sided:
        _require_two_classes(y, sizes)
    check_penalties(C)
    soft = squared and not np.isinf(C).any()
    ridge, end = (0.5 / C, np.inf * y) if soft else (None, C * y)
    stacked = Problem(
        name="C-SVC, squared hinge" if soft else "C-SVC",
        linear=-y,
        lower=np.minimum(end, 0.0),
        upper=np.maximum(end, 0.0),
        start=np.zeros(y.size),
        groups=np.zeros(y.size, dtype=np.int64) if bias else None,
        ridge=ridge,
        loss=Loss() if soft else Hinge(y, C),
    )
    return Problems(stacked, sizes)


def nu_svc(y: npt.ArrayLike, weights: npt.ArrayLike, nu: float) -> Problem:
    """Dual of the nu-classifier, whose parameter bounds shares of rows; see :func:`nu_svc_each`.

    Examples
    --------
    >>> nu_svc([-1, 1, 1], 1.0, 0.5).start.tolist()
    [-0.75, 0.75, 0.0]
    """
    signs = np.array(y, dtype=np.float64)
    counts = np.empty(signs.shape)
    counts[...] = weights
    return nu_svc_each(signs, counts, [signs.size], nu)[0]


def nu_svc_each(
    signs: FloatArray, weights: FloatArray, sizes: Sequence[int] | IndexArray, nu: float, *, lower_nu: bool = False
) -> Problems:
    """Duals of nu-classifiers, whose parameter bounds shares of rows.

    **Solves** for each of them min 1/2 ||w||^2 + sum_i v_i max(0, rho - y_i f(x_i)) - nu rho sum_i v_i over w, b and
    rho >= 0, through

        min 1/2 beta' K beta   s.t.  0 <= y_i beta_i <= v_i,

    where the y_i beta_i of each class sum to nu/2 sum_i v_i. The machine divided by rho, its :func:`half_width`, is the
    C-SVC with C = 1 / rho, whose margins are compared with 1.

    Parameters
    ----------
    signs : ndarray of shape (n,), values -1 and +1, both present in every problem
    weights : ndarray of shape (n,), > 0 and finite
        v: weight of each row; a row of weight 2 counts twice.
    sizes : sequence of int
        Number of rows of each problem; problems are stored one after the other.
    nu : float, > 0
        Bounds the share of margin violations from above, and that of support vectors from below. Feasible up to
        :func:`largest_nu`.
    lower_nu : bool, default False
        Whether a problem uses its largest feasible nu if `nu` is larger. All rows of its smaller class are then margin
        errors.

    Raises
    ------
    ValueError
        If an argument is out of its range. The message names the feasible values of `nu`.

    References
    ----------
    Schölkopf, Smola, Williamson & Bartlett (2000), section 4; Crisp & Burges (2000) for the feasible interval; Chang &
    Lin (2001) for the equalities.
    """
    _require_two_classes(signs, sizes)
    if not (np.isfinite(weights) & (weights > 0.0)).all():
        raise ValueError("weights must be positive finite numbers.")
    positive, edges = signs > 0.0, [0, *np.cumsum(sizes).tolist()]
    sides = [(weights[first:end], positive[first:end]) for first, end in pairwise(edges)]
    most = [largest_nu(float(v[side].sum()), float(v[~side].sum())) for v, side in sides]
    if not nu > 0.0 or (nu > min(most) * (1.0 + ROUNDED_SUM) and not lower_nu):
        raise ValueError(
            f"nu is infeasible: it must be > 0 and at most {min(most)!r}, twice the share of the smaller class (by "
            f"weight; of several classes, in the most unbalanced pair), got {nu}. Lower nu, or set "
            "class_weight='balanced', with which all up to 1 are feasible."
        )
    starts = []
    for (v, side), feasible in zip(sides, most, strict=True):
        half = 0.5 * min(nu, feasible) * float(v.sum())
        starts.append(filled(np.flatnonzero(side), v, half) - filled(np.flatnonzero(~side), v, half))
    lower, upper = np.where(positive, 0.0, -weights), np.where(positive, weights, 0.0)
    groups, start = positive.astype(np.int64), np.concatenate(starts)
    return Problems(Problem("nu-SVC", np.zeros(signs.size), lower, upper, start, groups, None, Loss()), sizes)


def largest_nu(one: float, other: float) -> float:
    """Return the largest feasible nu of two classes: twice the share of the smaller one.

    Parameters
    ----------
    one, other : float
        Total weight of the rows of each class.
    """
    return 2.0 * min(one, other) / (one + other)


_LEAST_WIDTH = float(np.finfo(np.float64).tiny)  # smallest width whose reciprocal is finite


def half_width(multipliers: FloatArray) -> float:
    """Return half of the distance between the levels of the two sides: rho of nu-SVC, epsilon of nu-SVR.

    Parameters
    ----------
    multipliers : ndarray of shape (2,)
    """
    return 0.5 * float(multipliers[1] - multipliers[0])


def has_width(width: float, rounding: float) -> bool:
    """Return whether a :func:`half_width` is larger than its rounding error, so that one can divide by it.

    Parameters
    ----------
    width : float
    rounding : float
        Bound of the rounding error of decision values.
    """
    return width > max(2.0 * rounding, _LEAST_WIDTH)


def nearest_points(y: npt.ArrayLike) -> Problem:
    """Nearest points of the convex hulls of two classes, in feature space.

    **Solves** min 1/2 ||sum_i beta_i phi(x_i)||^2 s.t. beta_i y_i >= 0, and the |beta_i| of each class sum to 1.
    At the optimum ||w|| is the distance of the hulls. It is 0 if and only if the classes are not separable. Otherwise
    alpha = 2 |beta| / ||w||^2 is the maximal-margin machine.

    Parameters
    ----------
    y : array-like of shape (n,), values -1 and +1, both present

    References
    ----------
    Keerthi, Shevade, Bhattacharyya & Murthy (2000), A fast iterative nearest point algorithm, section 2.

    Examples
    --------
    >>> nearest_points([-1, 1, 1]).start.tolist()
    [-1.0, 1.0, 0.0]
    """
    signs = np.asarray(y, dtype=np.float64)
    _require_two_classes(signs, [signs.size])
    positive = signs > 0.0
    # The start is one row of each class: the solution has few support vectors, and rows at 0 need no removal.
    start = np.zeros(signs.size)
    start[np.flatnonzero(positive)[0]], start[np.flatnonzero(~positive)[0]] = 1.0, -1.0
    return Problem(
        name="nearest points",
        linear=np.zeros(signs.size),
        lower=np.where(positive, 0.0, -np.inf),
        upper=np.where(positive, np.inf, 0.0),
        start=start,
        groups=positive.astype(np.int64),
        ridge=None,
        loss=HullDistance(),
    )


def _require_two_classes(signs: FloatArray, sizes: Sequence[int] | IndexArray) -> None:
    """Raise ValueError unless each part of `signs`, of these sizes, has both -1 and +1 and no other value."""
    counts = np.asarray(sizes, dtype=np.int64)
    good = signs.ndim == 1 and signs.size > 0 and np.count_nonzero(np.abs(signs) == 1.0) == signs.size
    if not good or (np.abs(np.add.reduceat(signs, counts.cumsum() - counts)) == counts).any():
        raise ValueError("y must be a vector of -1 and +1 with both present.")
