"""Duals of regressors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.problems.problem import Loss, Problem, vertex


def epsilon_svr(y: npt.ArrayLike, C: npt.ArrayLike, epsilon: float, *, squared: bool = False) -> Problem:
    """Dual of support vector regression with epsilon-insensitive loss.

    **Solves** min 1/2 ||w||^2 + sum_i C_i loss(max(0, |y_i - f(x_i)| - epsilon)), where loss(t) is t, or t^2 if
    `squared`, through its dual

        max  y' beta - epsilon sum_i |beta_i| - 1/2 beta' K beta - sum_i beta_i^2 / (4 C_i)
        s.t. |beta_i| <= C_i,   sum_i beta_i = 0,

    where the last term is present, and the box absent, only if `squared`. As a :class:`Problem`, beta_i is the sum of
    two variables, one of each sign. If epsilon is 0, beta_i is one variable.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    C : float or array-like of shape (n,), > 0 and finite
        Penalty of each row.
    epsilon : float, >= 0
        Half of the width of the tube; deviations up to it cost nothing.
    squared : bool, default False
        Whether the squares of the deviations outside the tube are summed.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Vapnik (1998); Smola & Schölkopf (2004), A tutorial on support vector regression, equation (10).

    Examples
    --------
    >>> problem = epsilon_svr([1.0, 3.0], 10.0, 0.5)
    >>> problem.rows.tolist(), problem.linear.tolist(), problem.lower.tolist()
    ([0, 1, 0, 1], [-0.5, -2.5, -1.5, -3.5], [0.0, 0.0, -10.0, -10.0])
    """
    targets, penalties = _checked(y, C)
    if not epsilon >= 0.0 or np.isinf(epsilon):
        raise ValueError(f"epsilon must be a number >= 0, got {epsilon}.")
    n = targets.size
    ridge = 0.5 / penalties if squared else None
    box = np.full(n, np.inf) if squared else penalties
    name = "squared epsilon-SVR" if squared else "epsilon-SVR"
    if epsilon == 0.0:
        start = np.zeros(n) if squared else vertex(-targets, -box, box, 0.0)
        return Problem(name, -targets, -box, box, start, np.zeros(n, dtype=np.int64), ridge, Loss())
    return Problem(
        name=name,
        linear=np.concatenate([epsilon - targets, -epsilon - targets]),
        lower=np.concatenate([np.zeros(n), -box]),
        upper=np.concatenate([box, np.zeros(n)]),
        start=np.zeros(2 * n),
        groups=np.zeros(2 * n, dtype=np.int64),
        ridge=None if ridge is None else np.tile(ridge, 2),
        loss=Loss(),
        rows=np.tile(np.arange(n), 2),
    )


def nu_svr(y: npt.ArrayLike, C: npt.ArrayLike, nu: float) -> Problem:
    """Dual of nu-support vector regression, which determines the width of its tube.

    **Solves** min 1/2 ||w||^2 + sum_i C_i (nu epsilon + max(0, |y_i - f(x_i)| - epsilon)) over w, b and epsilon >= 0,
    through the dual of :func:`epsilon_svr` without its term in epsilon. The positive variables sum to nu/2 sum_i C_i,
    and the negative ones to -nu/2 sum_i C_i.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    C : float or array-like of shape (n,), > 0 and finite
        Penalty of each row.
    nu : float, 0 < nu <= 1
        Bounds the share of rows outside the tube from above, and that of support vectors from below.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Schölkopf, Smola, Williamson & Bartlett (2000), section 3; Chang & Lin (2002) for the equalities.
    """
    targets, penalties = _checked(y, C)
    if not 0.0 < nu <= 1.0:
        raise ValueError(f"nu must be > 0 and <= 1, got {nu}.")
    n, zeros = targets.size, np.zeros(targets.size)
    half = 0.5 * nu * float(penalties.sum())
    above, below = vertex(-targets, zeros, penalties, half), vertex(-targets, -penalties, zeros, -half)
    return Problem(
        name="nu-SVR",
        linear=-np.tile(targets, 2),
        lower=np.concatenate([zeros, -penalties]),
        upper=np.concatenate([penalties, zeros]),
        start=np.concatenate([above, below]),
        groups=np.repeat(np.array([0, 1]), n),
        ridge=None,
        loss=Loss(),
        rows=np.tile(np.arange(n), 2),
    )


def quantile(y: npt.ArrayLike, C: npt.ArrayLike, level: float) -> Problem:
    """Dual of quantile regression by the pinball loss.

    **Solves** min 1/2 ||w||^2 + sum_i C_i max(q r_i, (q - 1) r_i) with r_i = y_i - f(x_i) and q = `level`, through

        max  y' beta - 1/2 beta' K beta   s.t.  C_i (q - 1) <= beta_i <= C_i q,   sum_i beta_i = 0.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    C : float or array-like of shape (n,), > 0 and finite
        Penalty of each row.
    level : float, 0 < q < 1
        The quantile: about this share of rows has y_i <= f(x_i).

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Takeuchi, Le, Sears & Smola (2006), Nonparametric quantile estimation, equation (8).
    """
    targets, penalties = _checked(y, C)
    if not 0.0 < level < 1.0:
        raise ValueError(f"quantile must be > 0 and < 1, got {level}.")
    lower, upper = (level - 1.0) * penalties, level * penalties
    return Problem(
        name="quantile regression",
        linear=-targets,
        lower=lower,
        upper=upper,
        start=vertex(-targets, lower, upper, 0.0),
        groups=np.zeros(targets.size, dtype=np.int64),
        ridge=None,
        loss=Loss(),
    )


def _checked(y: npt.ArrayLike, C: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    targets = np.array(y, dtype=np.float64)
    if targets.ndim != 1 or not targets.size or not np.isfinite(targets).all():
        raise ValueError("y must be a vector of finite numbers.")
    penalties = np.empty(targets.shape)
    penalties[...] = C
    bad = ~((penalties > 0.0) & np.isfinite(penalties))
    if bad.any():
        raise ValueError(f"C must be positive and finite for every sample, got {penalties[bad][0]}.")
    return targets, penalties
