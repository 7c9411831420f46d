"""Bounds of the error by the VC dimension (Vapnik and Chervonenkis) of a class of classifiers."""

from __future__ import annotations

import math

from mercer.data.arguments import check_count
from mercer.theory.bound import Bound, check_delta, check_error, check_positive, check_real

_DRAWN = "rows are drawn independently from one distribution, the one that future rows come from"


def vc_bound(error: float, n: int, h: float, delta: float = 0.05) -> Bound:
    """Return the VC bound of the error of a classifier, given its training error.

    **Says** ε ≤ ε̂ + √((h (ln(2n/h) + 1) + ln(4/δ)) / n) with probability at least 1 − δ, for all classifiers of the
    class at once.

    Parameters
    ----------
    error : float
        Error rate on the n training rows.
    n : int >= 1
        Number of training rows.
    h : float >= 1
        VC dimension of the class: an integer, or infinity.
    delta : float, default=0.05
        Probability that the bound is wrong.

    Returns
    -------
    Bound
        Vacuous if it is 1 or more, which is certain for h >= n / 2.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    2n rows have only 2²ⁿ labellings, so a larger h counts as 2n.

    References
    ----------
    Vapnik (1998), Statistical Learning Theory, section 4.9; Vapnik (1995), equation (3.10).

    Examples
    --------
    >>> print(vc_bound(0.02, n=10_000, h=11))
    VC bound, h = 11: error <= 0.119 with probability >= 0.95
    >>> print(vc_bound(0.0, n=100, h=1000))
    VC bound, h = 1000: error <= 1.43 with probability >= 0.95 -- vacuous
    """
    seen, rows, risk = check_error("error", error), check_count("n", n), check_delta(delta)
    size = check_real("h", h, 1.0, math.inf)
    counted = min(size, 2.0 * rows)
    return Bound(
        f"VC bound, h = {size:g}",
        "error",
        seen + math.sqrt((counted * (math.log(2.0 * rows / counted) + 1.0) + math.log(4.0 / risk)) / rows),
        (_DRAWN, "h is the VC dimension of a class that was fixed before the rows were looked at"),
        trivial=1.0,
        confidence=1.0 - risk,
    )


def vc_dimension_linear(p: float) -> Bound:
    """Return the VC dimension of linear classifiers with a bias.

    **Says** h = p + 1: hyperplanes can label some p + 1 points in every way, but no p + 2 points.

    Parameters
    ----------
    p : int >= 1, or infinity
        Number of features, or dimension of a kernel's feature space.

    Returns
    -------
    Bound
        Vacuous if it is infinite, as for the Gaussian kernel.

    Raises
    ------
    ValueError
        If p is out of its range.

    References
    ----------
    Vapnik & Chervonenkis (1971).

    Examples
    --------
    >>> print(vc_dimension_linear(2))
    VC dimension, linear: h <= 3
    """
    return Bound("VC dimension, linear", "h", _dimension(p) + 1.0, ("classifiers are sign(<w, x> + b), all of them",))


def vapnik_margin_bound(radius: float, margin: float, p: float = math.inf) -> Bound:
    """Return a bound on the VC dimension of hyperplanes with a margin.

    **Says** h ≤ min(⌈4r²/ρ²⌉, p) + 1.

    Parameters
    ----------
    radius : float > 0
        r, the radius of a ball that contains all rows, including future ones.
    margin : float > 0
        ρ = 2/‖w‖, the full width of the strip between the classes.
    p : int >= 1, or infinity, default=infinity
        Dimension of the space; if infinite, only the first term is used.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    The theorem is about hyperplanes whose margin is fixed before the rows are seen. A margin that is observed after
    training is not. The VC bound at this h is then a number for comparing machines, not a guarantee.

    References
    ----------
    Vapnik (1982), Estimation of Dependences Based on Empirical Data; Vapnik (1998), theorem 8.4, whose Δ is ρ/2.

    Examples
    --------
    >>> print(vapnik_margin_bound(radius=1.0, margin=0.5, p=100))
    Vapnik's margin bound: h <= 17
    >>> int(vapnik_margin_bound(radius=1.0, margin=0.5, p=2).value)
    3
    """
    r, rho, size = check_positive("radius", radius), check_positive("margin", margin), _dimension(p)
    ratio = 4.0 * (r / rho) ** 2
    return Bound(
        "Vapnik's margin bound",
        "h",
        min(float(math.ceil(ratio)) if math.isfinite(ratio) else ratio, size) + 1.0,
        (
            "hyperplanes that separate with this margin, demanded before the rows were seen: one seen after training "
            "is not a priori",
            "all rows lie in the ball, those to come too",
        ),
    )


def _dimension(p: float) -> float:
    return p if p == math.inf else float(check_count("p", int(p) if isinstance(p, float) and p.is_integer() else p))
