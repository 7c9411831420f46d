"""Dual of the joint machine of Crammer and Singer: one problem for all classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.problems.problem import Loss, Problem, check_penalties, inner, scaled_to_margin


@dataclass(frozen=True, eq=False)
class JointHinge(Loss):
    """Joint hinge loss of all classes.

    The primal objective is 1/2 sum_k ||w_k||^2 + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)). With
    C_i = inf no slack is allowed, and the objective is that of the machine scaled so that all margins are >= 1.

    Parameters
    ----------
    codes : ndarray of int64 of shape (n,)
        y: the class of each row.
    C : ndarray of shape (n,)
        Penalty of each row.
    """

    codes: IndexArray
    C: FloatArray

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective, which does not depend on the multipliers; see :class:`Loss`."""
        if np.isinf(self.C).any():
            return scaled_to_margin(quadratic, float(self.margins(problem.by_output(decision)).min()))
        scores = problem.by_output(decision + problem.linear)
        true_scores = scores[np.arange(self.codes.size), self.codes]
        return 0.5 * quadratic + inner(self.C, scores.max(axis=1) - true_scores)

    def margins(self, scores: FloatArray) -> FloatArray:
        """Return the score of each row's class less the largest one of another class, (n,)."""
        rows, others = np.arange(self.codes.size), scores.copy()
        others[rows, self.codes] = -np.inf
        margins: FloatArray = scores[rows, self.codes] - others.max(axis=1)
        return margins

    def steepness(self, problem: Problem, decision: FloatArray, error: float) -> float:
        """Return the sum of 2 C_i over rows with a possible slack: two scores can be wrong; see :class:`Loss`."""
        if np.isinf(self.C).any():
            return 0.0  # the caller adds the sum of |beta|, which is 2 ||w||^2
        margins = self.margins(problem.by_output(decision))
        return float(2.0 * self.C[margins < 1.0 + 2.0 * error].sum())


def joint(codes: npt.ArrayLike, n_classes: int, C: npt.ArrayLike) -> Problem:
    """Dual of the joint multi-class machine, with one slack for each row and without biases.

    **Solves**

        min  1/2 sum_k ||w_k||^2 + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)),   f_k(x) = <w_k, phi(x)>,

    through its dual, with w_k = sum_i beta_ik phi(x_i),

        min  1/2 sum_k beta_k' K beta_k + sum_ik 1[k != y_i] beta_ik
        s.t. sum_k beta_ik = 0 for every row i,   beta_ik <= C_i 1[k = y_i].

    The sum and the upper bounds imply beta_ik >= -C_i 1[k != y_i], which are the lower bounds here.

    Parameters
    ----------
    codes : array-like of int of shape (n,), values 0 .. n_classes - 1
    n_classes : int, >= 2
    C : float or array-like of shape (n,), > 0
        Penalty of each row: C times its class weight and sample weight. Either all are infinite or none is.

    Returns
    -------
    Problem
        Problem of n * n_classes variables; the variables of a row are adjacent.

    Raises
    ------
    ValueError
        If a code is not a class number, C is not positive, or only some C_i are infinite.

    References
    ----------
    Crammer & Singer (2001), equations (5) and (8); Keerthi, Sundararajan, Chang, Hsieh & Lin (2008), equation (10).

    Examples
    --------
    >>> problem = joint([0, 2], 3, 10.0)
    >>> problem.upper.tolist(), problem.linear.tolist()
    ([10.0, 0.0, 0.0, 0.0, 0.0, 10.0], [0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    """
    y = np.asarray(codes, dtype=np.int64)
    if n_classes < 2 or y.ndim != 1 or not ((y >= 0) & (y < n_classes)).all():
        raise ValueError(
            f"codes must be a vector of class numbers from 0 to n_classes - 1, of n_classes = {n_classes}."
        )
    penalties = np.empty(y.shape)
    penalties[...] = C
    check_penalties(penalties)
    is_true_class = (y[:, None] == np.arange(n_classes)).ravel()
    most = np.repeat(penalties, n_classes)
    return Problem(
        name="joint",
        linear=np.where(is_true_class, 0.0, 1.0),
        lower=np.where(is_true_class, 0.0, -most),
        upper=np.where(is_true_class, most, 0.0),
        start=np.zeros(is_true_class.size),
        groups=np.repeat(np.arange(y.size), n_classes),
        ridge=None,
        loss=JointHinge(y, penalties),
        n_outputs=n_classes,
    )
