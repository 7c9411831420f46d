"""Estimates of the rounding error of decision values, objectives and conditions in float64."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.problems import inner

Some = TypeVar("Some", float, npt.NDArray[np.float64])

_EPS = float(np.finfo(np.float64).eps)
_ADDED = 0.25  # units of roundoff per square root of the number of additions (0.03 was measured on tiles)
_FEASIBLE = 1e-9  # largest infeasibility of a feasible point, as a share of the sum of absolute coefficients


def rounding_of(gram: Gram, beta: FloatArray, values: FloatArray) -> float:
    """Return an estimate of the error of `values`, which are K beta, for `beta` of shape (n,) or (n, n_outputs)."""
    if gram.kernel.is_psd:
        lengths = np.sqrt(gram.magnitudes())
        size, terms = float(lengths.max(initial=0.0)), (lengths * beta.T).T
    else:
        size, terms = gram.value_bound(), beta
    if terms.ndim == 1:
        return rounding_error(gram, size, terms, values)
    return max(
        rounding_error(gram, size, column, at)
        for column, at in zip(terms.T, values.reshape(terms.shape).T, strict=True)
    )


def rounding_error(gram: Gram, size: float, terms: FloatArray, values: FloatArray) -> float:
    """Return an estimate of the error of `values`, which are sums of kernel values times coefficients.

    Parameters
    ----------
    gram : Gram
    size : float
        The largest sqrt(k(x_i, x_i)); or 1 if `terms` are coefficients and kernel values are at most 1.
    terms : ndarray of shape (n,)
        sqrt(k(x_j, x_j)) times the coefficient of each row; a term of the sum is at most `size` times that.
    values : ndarray
    """
    mass, largest = float(np.abs(terms).sum()), float(np.abs(values).max(initial=0.0))
    return float(rounding_of_sums(gram.roundoff, size, inner(terms, terms), largest, mass, np.count_nonzero(terms)))


def rounding_of_sums(roundoff: float, size: Some, squares: Some, largest: Some, mass: Some, n: Any) -> Any:
    """Return an estimate of the error of sums of n terms, for one point or for several.

    Parameters
    ----------
    roundoff : float
        Relative error of kernel values, in units of roundoff.
    size, squares, mass : float or ndarray
        A term is at most `size` times a number; `squares` and `mass` are the sum of squares and the sum of the numbers.
    largest : float or ndarray
        The largest of the sums.
    n : int or ndarray

    Notes
    -----
    Errors of terms are taken as independent: their sum is about the root of the sum of their squares, times a safety
    factor of 8. Errors of n additions are proportional to partial sums, which are at most `size` times `mass`. Tiles
    add in at least four lanes.
    """
    return _EPS * (size * (8.0 * roundoff * squares**0.5 + _ADDED * np.sqrt(n) * mass) + largest)


def rounding_of_offsets(linear: Some, offset: Some) -> Some:
    """Return the error of gradients and the bias from the terms that are added to K beta.

    Parameters
    ----------
    linear, offset : float or ndarray
        The largest sizes of the linear term, and of the linear term and the ridge together.

    Notes
    -----
    Four roundings of half a unit in the last place: of the linear term as the problem has it (targets plus epsilon),
    of the ridge and its sum with the linear term, of the sum with K beta, and of the bias when it is added again.
    """
    return _EPS * (linear + offset)


def rounding_of_objectives(rounding: Some, mass: Some, steepness: Some, primal: Some, n: Any) -> Any:
    """Return an estimate of the error of each objective and of their difference, for one point or for several.

    Parameters
    ----------
    rounding : float or ndarray
        Error of decision values.
    mass : float or ndarray
        Sum of |beta|, which multiplies the error in products of beta with decision values and with the linear term.
    steepness : float or ndarray
        Largest increase of the loss for each unit of error in all decision values.
    primal : float or ndarray
        Primal objective, a sum of n losses, each rounded when it is added.
    n : int or ndarray
    """
    size = np.where(np.isfinite(primal), np.abs(primal), 0.0)
    return rounding * (mass + steepness) + _EPS * (4.0 + np.sqrt(n)) * size


def rounding_of_dual(rounding: Some, length: Some, dual: Some, n: Any) -> Any:
    """Return an estimate of the error of a dual objective, for one point or for several.

    Losses play no part, so that it is far smaller than :func:`rounding_of_objectives` if C is large.

    Parameters
    ----------
    rounding : float or ndarray
        Error of decision values. Errors of different rows are taken as independent.
    length : float or ndarray
        Euclidean norm of beta.
    dual : float or ndarray
    n : int or ndarray
    """
    return 2.0 * rounding * length + _EPS * (4.0 + np.sqrt(n)) * np.abs(dual)


def largest_rounding(gram: Gram, beta: FloatArray, values: FloatArray) -> float:
    """Return the largest estimate of the error of `values`, which are K beta, that a fit may state.

    Small problems that are solved together bound each term by the largest sqrt(k(x_i, x_i)), squared, times |beta|.
    """
    size = float(np.sqrt(gram.magnitudes()).max(initial=0.0)) if gram.kernel.is_psd else gram.value_bound() ** 0.5
    squares, mass = size**2 * inner(beta.ravel(), beta.ravel()), size * float(np.abs(beta).sum())
    largest = float(np.abs(values).max(initial=0.0))
    return float(rounding_of_sums(gram.roundoff, size, squares, largest, mass, np.count_nonzero(beta)))


def is_certain(excess: Some, rounding: Some, tol: float) -> Any:
    """Return whether a violation of more than `tol` cannot be hidden by rounding, for one point or for several."""
    return (rounding <= tol) | (excess + 2.0 * rounding <= tol)


def is_feasible(infeasibility: Some, mass: Some) -> Any:
    """Return whether coefficients are within their bounds and have the right sums, up to rounding.

    `mass` is the sum of absolute coefficients. For one point, or for several.
    """
    return infeasibility <= _FEASIBLE * mass


def sum_rounding(start: FloatArray) -> float:
    """Return the rounding error of group sums that are defined by the starting point."""
    return 4.0 * _EPS * float(np.abs(start).sum())
