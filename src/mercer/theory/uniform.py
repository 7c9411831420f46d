"""Bounds of error probabilities by error rates: Hoeffding's inequality, for one or finitely many classifiers."""

from __future__ import annotations

import math

from mercer.data.arguments import check_count
from mercer.theory.bound import Bound, check_delta, check_error, check_positive, check_real

_DRAWN = "rows are drawn independently from one distribution, the one that future rows come from"
_FIXED = "the classifier was fixed before these rows were looked at"
_CLASS = "the classifiers were fixed before these rows were looked at"


def hoeffding_bound(gamma: float, n: int) -> Bound:
    """Return a bound of the probability that an observed error rate on n rows deviates by more than gamma.

    **Says** P(|ε̂ − ε| > γ) ≤ 2 exp(−2γ²n), for one classifier.

    Parameters
    ----------
    gamma : float > 0
        Deviation of the error rate.
    n : int >= 1
        Number of rows.

    Returns
    -------
    Bound
        Vacuous if it is 1 or more.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Hoeffding (1963), Probability inequalities for sums of bounded random variables, theorem 2.

    Examples
    --------
    >>> print(hoeffding_bound(0.1, 100))
    Hoeffding's bound: P(|error observed - error| > 0.1) <= 0.2707
    """
    return _deviation("Hoeffding's bound", gamma, n, 1)


def uniform_bound(gamma: float, n: int, k: int) -> Bound:
    """Return a bound of the probability that the error rate of any of k classifiers deviates by more than gamma.

    **Says** P(∃ h: |ε̂(h) − ε(h)| > γ) ≤ 2k exp(−2γ²n).

    Parameters
    ----------
    gamma : float > 0
        Deviation of an error rate.
    n : int >= 1
        Number of rows.
    k : int >= 1
        Number of classifiers of which one is chosen by these rows, for instance the cells of a grid.

    Returns
    -------
    Bound
        Vacuous if it is 1 or more.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> print(uniform_bound(0.1, 500, k=100))
    uniform bound, 100 classifiers: P(|error observed - error| > 0.1) <= 0.00908
    """
    count = check_count("k", k)
    return _deviation(f"uniform bound, {count} classifiers", gamma, n, count)


def _deviation(name: str, gamma: float, n: int, k: int) -> Bound:
    width, rows = check_positive("gamma", gamma), check_count("n", n)
    return Bound(
        name,
        f"P(|error observed - error| > {width:g})",
        2.0 * k * math.exp(-2.0 * width * width * rows),
        (_DRAWN, _FIXED if k == 1 else _CLASS),
        trivial=1.0,
    )


def hoeffding_interval(error: float, n: int, delta: float = 0.05) -> Bound:
    """Return an interval for the error probability of a classifier, from its error rate on n test rows.

    **Says** |ε − ε̂| ≤ √((1/2n) ln(2/δ)) with probability at least 1 − δ, for any n.

    Parameters
    ----------
    error : float
        Error rate on the n rows.
    n : int >= 1
        Number of rows.
    delta : float, default=0.05
        Probability that the interval is wrong.

    Returns
    -------
    Bound
        An interval within [0, 1]; vacuous if it is [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Wilson's interval (`mercer.SealedSplit`) is shorter, because it uses that an error is 0 or 1. Its level is
    approximate, while the level of this interval is guaranteed.

    Examples
    --------
    >>> print(hoeffding_interval(0.1, n=200))
    Hoeffding's interval: 0.003968 <= error <= 0.196 with probability >= 0.95
    """
    return _interval("Hoeffding's interval", "error", error, n, 1, delta)


def uniform_interval(error: float, n: int, k: int, delta: float = 0.05) -> Bound:
    """Return an interval for the error of the classifier chosen from k, from its error rate on the same rows.

    **Says** |ε(h) − ε̂(h)| ≤ √((1/2n) ln(2k/δ)) for all k at once, with probability at least 1 − δ.

    Parameters
    ----------
    error : float
        Error rate of the chosen classifier on the n rows.
    n : int >= 1
        Number of rows.
    k : int >= 1
        Number of compared classifiers.
    delta : float, default=0.05
        Probability that the interval is wrong.

    Returns
    -------
    Bound
        An interval within [0, 1]; vacuous if it is [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> print(uniform_interval(0.1, n=500, k=100))
    uniform interval, 100 classifiers: 0.008928 <= error <= 0.1911 with probability >= 0.95
    """
    count = check_count("k", k)
    return _interval(f"uniform interval, {count} classifiers", "error", error, n, count, delta)


def _interval(name: str, of: str, error: float, n: int, k: int, delta: float) -> Bound:
    seen, rows, risk = check_error("error", error), check_count("n", n), check_delta(delta)
    width = _width(rows, k, risk)
    return Bound(
        name,
        of,
        min(1.0, seen + width),
        (_DRAWN, _FIXED if k == 1 else _CLASS),
        trivial=1.0,
        low=max(0.0, seen - width),
        confidence=1.0 - risk,
    )


def sample_complexity(gamma: float, k: int = 1, delta: float = 0.05) -> Bound:
    """Return the number of rows for which the error rates of k classifiers deviate by at most gamma.

    **Says** n ≥ (1/2γ²) ln(2k/δ) rows suffice for |ε − ε̂| ≤ γ for all k at once, with probability at least 1 − δ.

    Parameters
    ----------
    gamma : float > 0
        Deviation of an error rate.
    k : int >= 1, default=1
        Number of compared classifiers.
    delta : float, default=0.05
        Probability of a larger deviation.

    Returns
    -------
    Bound
        An integer number of rows.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> print(sample_complexity(0.05))
    sample complexity for |error observed - error| <= 0.05: rows >= 738 with probability >= 0.95
    >>> int(sample_complexity(0.05, k=100).value)
    1659
    """
    width, count, risk = check_positive("gamma", gamma), check_count("k", k), check_delta(delta)
    return Bound(
        f"sample complexity for |error observed - error| <= {width:g}",
        "rows",
        float(max(1, math.ceil(math.log(2.0 * count / risk) / (2.0 * width * width)))),
        (_DRAWN, _FIXED if count == 1 else _CLASS),
        relation=">=",
        confidence=1.0 - risk,
    )


def empirical_risk_bound(best: float, n: int, k: int, delta: float = 0.05) -> Bound:
    """Return a bound of the error of the classifier that has the fewest errors on n rows, among k classifiers.

    **Says** ε(ĥ) ≤ min ε(h) + 2√((1/2n) ln(2k/δ)) with probability at least 1 − δ, where ĥ has the smallest ε̂.

    Parameters
    ----------
    best : float
        min ε(h), the error of the best of the k classifiers: known, or assumed.
    n : int >= 1
        Number of rows.
    k : int >= 1
        Number of classifiers.
    delta : float, default=0.05
        Probability that the bound is wrong.

    Returns
    -------
    Bound
        Vacuous if it is 1 or more.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> print(empirical_risk_bound(0.05, n=1000, k=100))
    empirical risk minimisation, 100 classifiers: error of the chosen one <= 0.1788 with probability >= 0.95
    """
    least, rows = check_real("best", best, 0.0, 1.0), check_count("n", n)
    count, risk = check_count("k", k), check_delta(delta)
    return Bound(
        f"empirical risk minimisation, {count} classifiers",
        "error of the chosen one",
        least + 2.0 * _width(rows, count, risk),
        (_DRAWN, _CLASS, "the one with the fewest errors on these rows was chosen"),
        trivial=1.0,
        confidence=1.0 - risk,
    )


def _width(n: int, k: int, delta: float) -> float:
    return math.sqrt(math.log(2.0 * k / delta) / (2.0 * n))
