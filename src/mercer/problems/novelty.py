"""Duals of machines that describe one class."""

from __future__ import annotations

from math import ceil, floor, log10

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.problems.problem import ROUNDED_SUM, Loss, Problem, filled


def one_class(weights: npt.ArrayLike, nu: float) -> Problem:
    """Dual of the one-class support vector machine.

    **Solves** min 1/2 ||w||^2 + sum_i v_i max(0, rho - <w, phi(x_i)>) - nu rho sum_i v_i over w and rho, through

        min 1/2 beta' K beta   s.t.  0 <= beta_i <= v_i,   sum_i beta_i = nu sum_i v_i.

    A row is outside if its decision value without bias is less than rho = -b. The scale of beta is that of LIBSVM and
    scikit-learn.

    Parameters
    ----------
    weights : array-like of shape (n,), > 0 and finite
        v: weight of each row; a row of weight 2 counts twice.
    nu : float, 0 < nu <= 1
        Bounds the share of rows outside from above, and that of support vectors from below.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola & Williamson (2001), equations (3.4) and (3.8).

    Examples
    --------
    >>> one_class([1.0, 1.0, 2.0], 0.5).start.tolist()
    [1.0, 1.0, 0.0]
    """
    most = _positive("weights", weights)
    if not 0.0 < nu <= 1.0:
        raise ValueError(f"nu must be > 0 and <= 1, got {nu}.")
    return _of_sum("one-class", np.zeros(most.size), most, nu * float(most.sum()))


def svdd(diagonal: npt.ArrayLike, C: npt.ArrayLike, unit: float | None = None) -> Problem:
    """Dual of support vector data description, the smallest ball that leaves few rows outside.

    **Solves** half of min R^2 + sum_i C_i max(0, ||phi(x_i) - c||^2 - R^2) over the centre c and R^2, through

        min 1/2 beta' K beta - 1/2 sum_i beta_i k(x_i, x_i)   s.t.  0 <= beta_i <= C_i,   sum_i beta_i = 1,

    with c = sum_i beta_i phi(x_i) and R^2 = ||c||^2 + 2 b. If all C_i >= 1, no row is outside, and the ball is the
    minimal enclosing ball.

    Parameters
    ----------
    diagonal : array-like of shape (n,)
        k(x_i, x_i).
    C : float or array-like of shape (n,), > 0
        Penalty of each row; may be infinite. The sum of all penalties must be at least 1.
    unit : float, optional
        Penalty of a row of weight 1; the error message names a sufficient value of it. By default the largest C_i.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the penalties sum to less than 1, so that no ball exists.

    References
    ----------
    Tax & Duin (2004), equations (8) to (11); Chang, Lee & Lin (2013), A revisit to support vector data description, for
    C_i whose sum is small.

    Examples
    --------
    >>> svdd([1.0, 4.0], 10.0).upper.tolist()
    [1.0, 1.0]
    """
    lengths = np.array(diagonal, dtype=np.float64)
    penalties = np.empty(lengths.shape)
    penalties[...] = C
    if not (penalties > 0.0).all():
        raise ValueError(f"C must be positive for every sample, got {penalties[~(penalties > 0.0)][0]}.")
    total, unit = float(penalties.sum()), float(penalties.max()) if unit is None else unit
    if total < 1.0 - ROUNDED_SUM:
        raise ValueError(
            f"the penalties of all rows (n_samples = {lengths.size}) must sum to at least 1, or the smallest ball is "
            f"no ball at all, but they sum to {total:.6g}: C must be at least {_rounded_up(unit / total)} (got "
            f"{unit:g})."
        )
    # No variable exceeds the sum of all, which is 1. A larger C therefore gives the same minimum as C = 1.
    return _of_sum("SVDD", -0.5 * lengths, np.minimum(penalties, 1.0), min(1.0, total))


def _rounded_up(value: float) -> str:
    """Return the number rounded up to three digits."""
    last = 10.0 ** (floor(log10(value)) - 2)
    return f"{ceil(value / last * (1.0 - ROUNDED_SUM)) * last:.3g}"


def _of_sum(name: str, linear: FloatArray, most: FloatArray, total: float) -> Problem:
    return Problem(
        name=name,
        linear=linear,
        lower=np.zeros(most.size),
        upper=most,
        start=filled(np.arange(most.size), most, total),
        groups=np.zeros(most.size, dtype=np.int64),
        ridge=None,
        loss=Loss(),
    )


def _positive(name: str, values: npt.ArrayLike) -> FloatArray:
    numbers = np.array(values, dtype=np.float64)
    bad = ~((numbers > 0.0) & np.isfinite(numbers))
    if numbers.ndim != 1 or not numbers.size or bad.any():
        raise ValueError(f"{name} must be a vector of positive finite numbers.")
    return numbers
