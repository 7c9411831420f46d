"""Bounds of the leave-one-out error from a single fit: by support vectors, margins, and the influence of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data.arguments import check_count
from mercer.theory.bound import Bound, check_positive

_OF = "leave-one-out error"
_OPTIMAL = "the machine is optimal"
_FREE = "hinge loss, and some support vector is free: else the bias is a convention, and may move with any row"
_FIXED = "the kernel's parameters and the class weights are the same without a row"


def support_vector_bound(n_support: int, n: int) -> Bound:
    """Return the bound by the number of support vectors.

    **Says** leave-one-out error ≤ n_SV / n. Without a row that is not a support vector, the machine is the same.

    Parameters
    ----------
    n_support : int >= 0
        Number of support vectors.
    n : int >= 1
        Number of training rows.

    Returns
    -------
    Bound
        Vacuous if all rows are support vectors.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    A row that is not a support vector is not a leave-one-out error: it lies on or beyond its margin. Rows with
    coefficient 0 and y f = 1 are not counted. Another optimal solution may have other support vectors; the bound holds
    for each solution.

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
    return Bound("support vectors", _OF, count / rows, (_OPTIMAL, _FIXED), trivial=1.0)


def xi_alpha_bound(alpha: Any, slack: Any, radius_squared: float) -> Bound:
    """Return Joachims' estimate of the leave-one-out error.

    **Says** leave-one-out error ≤ #{i: 2 αᵢ R² + ξᵢ ≥ 1} / n, because all leave-one-out errors satisfy the condition.

    Parameters
    ----------
    alpha : array-like of shape (n,)
        Dual coefficients, >= 0.
    slack : array-like of shape (n,)
        Slacks ξ, >= 0.
    radius_squared : float > 0
        R², at least max k(x, x) − min k(x, z) over all training rows. For kernels without negative values, the largest
        k(x, x) is enough.

    Returns
    -------
    Bound
        Vacuous if all rows satisfy the condition.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    If kernel values may be negative, ‖xᵢ‖ ≤ R is not enough. A counterexample: the rows (1, −.05)+, (−1, .5)+,
    (−1, −.5)−, the linear kernel and C = 100 give α₁ = .275, ξ₁ = 0 and R² = 1.25, so 2 α₁ R² + ξ₁ = .69 < 1. Still,
    the first row is a leave-one-out error.

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
    """Return Joachims' estimate, given the share of rows that satisfy its condition."""
    assumptions = (_OPTIMAL, _FIXED, "R² >= max k(x, x) - min k(x, z) over the training rows", _FREE)
    return Bound("xi-alpha estimate", _OF, share, assumptions, trivial=1.0)


def span_estimate(alpha: Any, span_squared: Any, margins: Any) -> Bound:
    """Return the span estimate of the leave-one-out error.

    **Says** leave-one-out error ≈ #{i: αᵢ Sᵢ² ≥ yᵢ f(xᵢ)} / n. It is exact if removing a row does not change the case
    of any other row: α = 0, 0 < α < C or α = C.

    Parameters
    ----------
    alpha : array-like of shape (n,)
        Dual coefficients, >= 0.
    span_squared : array-like of shape (n,)
        Sᵢ², the squared distance of φ(xᵢ) from the affine span of the other free support vectors.
    margins : array-like of shape (n,)
        yᵢ f(xᵢ), positive or negative.

    Returns
    -------
    Bound
        Vacuous if all rows satisfy the condition.

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
    """Return the span estimate, given the share of rows that satisfy its condition."""
    assumptions = (_OPTIMAL, _FIXED, "without a row no other row changes sides")
    return Bound("span estimate", _OF, share, assumptions, trivial=1.0, relation="~")


def radius_margin_bound(radius: float, norm: float, n: int, *, bias: bool = True) -> Bound:
    """Return the bound of the leave-one-out error of a hard-margin machine by radius and margin.

    **Says** leave-one-out error ≤ R² ‖w‖² / n for a machine without bias, and ≤ 4 R² ‖w‖² / n with bias.

    Parameters
    ----------
    radius : float > 0
        R. Without bias, at least the largest ‖φ(xᵢ)‖; with bias, the radius of any ball that contains the training
        rows.
    norm : float > 0
        ‖w‖.
    n : int >= 1
        Number of training rows.
    bias : bool, default=True
        Whether the machine has a bias.

    Returns
    -------
    Bound
        Vacuous if it is 1 or more.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    R²‖w‖²/n was proved for hyperplanes through the origin. It is often quoted for other hyperplanes, for which it is
    false. A counterexample: for the corners of a regular tetrahedron, two in each class, all four are leave-one-out
    errors, and R²‖w‖² = 3. With a bias, the origin can be moved into the centre of the ball, and then
    max k(x, x) − min k(x, z) ≤ 2R². By Joachims' lemma, an error then has αᵢ ≥ 1/(4R²), and Σα = ‖w‖² for a hard
    margin. Without bias, an error has αᵢ k(xᵢ, xᵢ) ≥ 1.

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
    assumptions = (_OPTIMAL, _FIXED, "the classes are separated without slack")
    return Bound("radius and margin", _OF, factor * r * r * w * w / rows, assumptions, trivial=1.0)


def _vector(name: str, values: Any, *, signed: bool = False) -> FloatArray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be one number a row, got shape {vector.shape}.")
    bad = vector[~(np.isfinite(vector) & (signed | (vector >= 0.0)))]
    if bad.size:
        raise ValueError(f"{name} must hold finite numbers{'' if signed else ' >= 0'}, got {bad[0]:g}.")
    return vector


def _same_length(**vectors: FloatArray) -> None:
    sizes = {name: vector.size for name, vector in vectors.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"each must be one number a row, of the same rows, got {listed}.")
