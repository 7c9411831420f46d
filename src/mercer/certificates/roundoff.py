"""How far decision values may be off because float64 rounds, and what that may hide."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.problems import inner

Some = TypeVar("Some", float, npt.NDArray[np.float64])

_EPS = float(np.finfo(np.float64).eps)
_ADDED = 0.25  # units of roundoff for each root of the number of additions: measured are 0.03 on tiles
_FEASIBLE = 1e-9  # of all coefficients, added up


def rounding_of(gram: Gram, beta: FloatArray, values: FloatArray) -> float:
    """Return about how far `values`, which are K beta, may be off, for `beta` of shape (n,) or (n, n_outputs)."""
    if gram.kernel.is_psd:
        lengths = np.sqrt(gram.magnitudes())
        size, terms = float(lengths.max(initial=0.0)), (lengths * beta.T).T
    else:
        size, terms = gram.value_bound(), beta
    if terms.ndim == 1:
        return rounding_error(gram, size, terms, values)
    return max(
        rounding_error(gram, size, own, at) for own, at in zip(terms.T, values.reshape(terms.shape).T, strict=True)
    )


def rounding_error(gram: Gram, size: float, terms: FloatArray, values: FloatArray) -> float:
    """Return about how far `values` may be off, which are sums of terms, each a kernel value times a coefficient.

    Parameters
    ----------
    gram : Gram
    size : float
        The largest sqrt(k(x_i, x_i)), or 1 where `terms` are coefficients and kernel values are at most 1.
    terms : ndarray of shape (n,)
        sqrt(k(x_j, x_j)) times the coefficient of each row: a term is at most `size` times that.
    values : ndarray
    """
    mass, largest = float(np.abs(terms).sum()), float(np.abs(values).max(initial=0.0))
    return float(rounding_of_sums(gram.roundoff, size, inner(terms, terms), largest, mass, np.count_nonzero(terms)))


def rounding_of_sums(roundoff: float, size: Some, squares: Some, largest: Some, mass: Some, n: Any) -> Any:
    """Return about how far sums of n terms may be off; of one point, or of several.

    Parameters
    ----------
    roundoff : float
        Relative error of kernel values, in units of roundoff.
    size, squares, mass : float or ndarray
        A term is at most `size` times a number; of these numbers, the sum of squares and the sum.
    largest : float or ndarray
        The largest of the sums.
    n : int or ndarray

    Notes
    -----
    Errors of terms are independent: together they are as large as the root of the sum of their squares, and eight times
    that leaves room. Errors of n additions are shares of partial sums, which are at most `size` times `mass` (and are
    half as large where one class comes before the other). Tiles add in at least four lanes.
    """
    return _EPS * (size * (8.0 * roundoff * squares**0.5 + _ADDED * np.sqrt(n) * mass) + largest)


def rounding_of_offsets(linear: Some, offset: Some) -> Some:
    """Return how far gradients and the bias may be off by what is added to K beta, beside what K beta is off.

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
    """Return how far each of two objectives, and their difference, may be off. Of one point, or of several.

    Parameters
    ----------
    rounding : float or ndarray
        How far decision values may be off.
    mass : float or ndarray
        Sum of |beta|: products of beta with decision values and with the linear term are off by so many roundings.
    steepness : float or ndarray
        How much more the loss may charge for each unit that all decision values are off.
    primal : float or ndarray
        Primal objective, a sum of n charges that are rounded as they are added.
    n : int or ndarray
    """
    size = np.where(np.isfinite(primal), np.abs(primal), 0.0)
    return rounding * (mass + steepness) + _EPS * (4.0 + np.sqrt(n)) * size


def is_certain(excess: Some, rounding: Some, tol: float) -> Any:
    """Return whether rounding cannot have hidden a violation of more than `tol`. Of one point, or of several."""
    return (rounding <= tol) | (excess + 2.0 * rounding <= tol)


def is_feasible(infeasibility: Some, mass: Some) -> Any:
    """Return whether coefficients are in their box and their sums right, but for rounding; `mass` is their sizes' sum.

    Of one point, or of several.
    """
    return infeasibility <= _FEASIBLE * mass


def sum_rounding(start: FloatArray) -> float:
    """Return how far sums that are given by a point may be off what it was meant to say."""
    return 4.0 * _EPS * float(np.abs(start).sum())
