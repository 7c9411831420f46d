"""What the size of a class of classifiers tells of their errors: dimensions of Vapnik and Chervonenkis."""

from __future__ import annotations

import math

from mercer.data.arguments import check_count
from mercer.theory.bound import Bound, check_delta, check_error, check_positive, check_real

_DRAWN = "rows are drawn independently from one distribution, the one that future rows come from"


def vc_bound(error: float, n: int, h: float, delta: float = 0.05) -> Bound:
    """Return how large the error of any classifier of a class can be, given its error rate in training.

    **Says** ε ≤ ε̂ + √((h (ln(2n/h) + 1) + ln(4/δ)) / n) with probability at least 1 − δ, for all of the class at once.

    Parameters
    ----------
    error : float
        Share of the n training rows that are errors.
    n : int >= 1
        Training rows.
    h : float >= 1
        VC dimension of the class: an integer, or infinity.
    delta : float, default=0.05
        Probability of being wrong.

    Returns
    -------
    Bound
        Vacuous where it is 1 or more: surely for h >= n / 2.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    2n rows can be labelled in 2²ⁿ ways and no more, so that h counts as 2n where it is larger.

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

    **Says** h = p + 1: some p + 1 points can be labelled in every way by a hyperplane, and no p + 2 can.

    Parameters
    ----------
    p : int >= 1, or infinity
        Dimension of the space: features, or that of the feature space of a kernel.

    Returns
    -------
    Bound
        Vacuous where it is infinite, as for the Gaussian kernel.

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
        r, of a ball that holds all rows: those to come, too.
    margin : float > 0
        ρ = 2/‖w‖, the full width of the strip between the classes.
    p : int >= 1, or infinity, default=infinity
        Dimension of the space; infinite: the first term alone.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    It is a statement on hyperplanes whose margin was demanded before the rows were seen. A margin seen after training
    is not a priori: the VC bound at this h is then a figure to compare machines by, not a promise.

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
