"""What one fit tells of the leave-one-out error: counts of support vectors, margins, and influence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data.arguments import check_count
from mercer.theory.bound import Bound, check_positive

_OF = "leave-one-out error"
_OPTIMAL = "the machine is the optimum"
_FREE = "hinge loss, and some support vector is free: else the bias is a convention, and may move with any row"
_HELD = "the kernel's parameters and the class weights are the same without a row"


def support_vector_bound(n_support: int, n: int) -> Bound:
    """Return the bound by the number of support vectors.

    **Says** leave-one-out error ≤ n_SV / n: the machine without a row that is no support vector is the same machine.

    Parameters
    ----------
    n_support : int >= 0
        Support vectors.
    n : int >= 1
        Training rows.

    Returns
    -------
    Bound
        Vacuous where all rows are support vectors.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    A row that is no support vector is no error: it is at or beyond its margin. Rows of coefficient 0 with y f = 1 do
    not count; another solution may have other support vectors, and this holds for each.

    References
    ----------
    Vapnik (1995), theorem 5.2.

    Examples
    --------
    >>> print(support_vector_bound(12, 100))
    support vectors: leave-one-out error <= 0.12
    """
    rows = check_count("n", n)
    count = check_count("n_support", n_support, at_least=0)
    if count > rows:
        raise ValueError(f"n_support must be at most n = {rows}, got {count}.")
    return Bound("support vectors", _OF, count / rows, (_OPTIMAL, _HELD), trivial=1.0)


def xi_alpha_bound(alpha: Any, slack: Any, radius_squared: float) -> Bound:
    """Return Joachims' estimate of the leave-one-out error.

    **Says** leave-one-out error ≤ #{i: 2 αᵢ R² + ξᵢ ≥ 1} / n, for every leave-one-out error is among these rows.

    Parameters
    ----------
    alpha : array-like of shape (n,)
        Dual coefficients, >= 0.
    slack : array-like of shape (n,)
        ξ, >= 0.
    radius_squared : float > 0
        R², no less than max k(x, x) − min k(x, z) over all training rows; for kernels that are never negative, the
        largest k(x, x) will do.

    Returns
    -------
    Bound
        Vacuous where all rows count.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    That ‖xᵢ‖ ≤ R does not suffice where kernel values may be negative: with (1, −.05)+, (−1, .5)+, (−1, −.5)−, the
    linear kernel and C = 100, α₁ = .275, ξ₁ = 0 and R² = 1.25 give .69 < 1, and yet the first row is an error when left
    out.

    References
    ----------
    Joachims (2000), Estimating the generalization performance of an SVM efficiently, lemma 1 and definition 2.

    Examples
    --------
    >>> print(xi_alpha_bound([0.1, 0.6, 0.0, 0.5], [0.0, 0.0, 0.0, 1.2], radius_squared=1.0))
    xi-alpha estimate: leave-one-out error <= 0.5
    """
    a, s = _vector("alpha", alpha), _vector("slack", slack)
    r = check_positive("radius_squared", radius_squared)
    _same_length(alpha=a, slack=s)
    return of_xi_alpha(float(np.mean(2.0 * a * r + s >= 1.0)))


def of_xi_alpha(share: float) -> Bound:
    """Return Joachims' estimate, given the share of rows that count."""
    assumptions = (_OPTIMAL, _HELD, "R² >= max k(x, x) - min k(x, z) over the training rows", _FREE)
    return Bound("xi-alpha estimate", _OF, share, assumptions, trivial=1.0)


def span_estimate(alpha: Any, span_squared: Any, margins: Any) -> Bound:
    """Return the span estimate of the leave-one-out error.

    **Says** leave-one-out error ≈ #{i: αᵢ Sᵢ² ≥ yᵢ f(xᵢ)} / n; exactly so where without a row the others keep their
    sides: at 0, at C, or in between.

    Parameters
    ----------
    alpha : array-like of shape (n,)
        Dual coefficients, >= 0.
    span_squared : array-like of shape (n,)
        Sᵢ², squared distance of φ(xᵢ) from the affine span of the other free support vectors.
    margins : array-like of shape (n,)
        yᵢ f(xᵢ), of any sign.

    Returns
    -------
    Bound
        Vacuous where all rows count.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Vapnik & Chapelle (2000), Bounds on error expectation for support vector machines, theorem 3.

    Examples
    --------
    >>> print(span_estimate([0.5, 0.0, 0.5], [4.0, 1.0, 1.0], [1.0, 3.0, 1.0]))
    span estimate: leave-one-out error ~ 0.3333
    """
    a, s = _vector("alpha", alpha), _vector("span_squared", span_squared)
    m = _vector("margins", margins, signed=True)
    _same_length(alpha=a, span_squared=s, margins=m)
    return of_span(float(np.mean(s * a >= m)))


def of_span(share: float) -> Bound:
    """Return the span estimate, given the share of rows that count."""
    assumptions = (_OPTIMAL, _HELD, "without a row no other row changes sides")
    return Bound("span estimate", _OF, share, assumptions, trivial=1.0, relation="~")


def radius_margin_bound(radius: float, norm: float, n: int, *, bias: bool = True) -> Bound:
    """Return the bound on the leave-one-out error of a hard margin by radius and margin.

    **Says** leave-one-out error ≤ R² ‖w‖² / n for machines without bias, and ≤ 4 R² ‖w‖² / n with one.

    Parameters
    ----------
    radius : float > 0
        R. Without bias, no less than any ‖φ(xᵢ)‖; with one, that of any ball that holds the training rows.
    norm : float > 0
        ‖w‖.
    n : int >= 1
        Training rows.
    bias : bool, default=True
        Whether the machine has a bias.

    Returns
    -------
    Bound
        Vacuous where it is 1 or more.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    R²‖w‖²/n was proved for hyperplanes through the origin, and is often quoted for others, for which it is false: of
    the corners of a regular tetrahedron, two in each class, all four are errors when left out, and R²‖w‖² = 3. With a
    bias, a shift of the origin changes nothing, and in a ball of radius R around it max k(x, x) − min k(x, z) ≤ 2R²; by
    Joachims' lemma an error then has αᵢ ≥ 1/(4R²), and Σα = ‖w‖² in a hard margin. Without one an error has
    αᵢ k(xᵢ, xᵢ) ≥ 1.

    References
    ----------
    Vapnik (1998), section 10.4; Jaakkola & Haussler (1999), Probabilistic kernel regression models, theorem 1;
    Chapelle, Vapnik, Bousquet & Mukherjee (2002), Choosing multiple parameters for support vector machines, section 3.

    Examples
    --------
    >>> print(radius_margin_bound(radius=1.0, norm=2.0, n=100))
    radius and margin: leave-one-out error <= 0.16
    >>> print(radius_margin_bound(radius=1.0, norm=2.0, n=100, bias=False))
    radius and margin: leave-one-out error <= 0.04
    """
    r, w, rows = check_positive("radius", radius), check_positive("norm", norm), check_count("n", n)
    factor = 4.0 if bias else 1.0
    assumptions = (_OPTIMAL, _HELD, "the classes are separated without slack")
    return Bound("radius and margin", _OF, factor * r * r * w * w / rows, assumptions, trivial=1.0)


def _vector(name: str, values: Any, *, signed: bool = False) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not found.size:
        raise ValueError(f"{name} must be one number a row, got shape {found.shape}.")
    bad = found[~(np.isfinite(found) & (signed | (found >= 0.0)))]
    if bad.size:
        raise ValueError(f"{name} must hold finite numbers{'' if signed else ' >= 0'}, got {bad[0]:g}.")
    return found


def _same_length(**vectors: FloatArray) -> None:
    sizes = {name: vector.size for name, vector in vectors.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"each must be one number a row, of the same rows, got {listed}.")
