"""Platt's sequential minimal optimisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mercer._typing import BoolArray, FloatArray
from mercer.data import check_number
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.kernel_machine import KernelRows, KernelSVM

_FLAT = 1e-12  # smallest eta, relative to the diagonal: the curvature along a pair of equal rows is 0
_AT_BOUND = 1e-12  # an alpha within this share of C of a bound is at the bound; the rest is rounding


class Segment(NamedTuple):
    """The ends L <= alpha_2 <= H of the line on which two multipliers can move."""

    low: float
    high: float

    @classmethod
    def of(cls, y1: float, y2: float, a1: float, a2: float, end1: float, end2: float) -> Segment:
        """Return the values of alpha_2 for which both multipliers are in their boxes and their signed sum is kept."""
        if y1 == y2:
            return cls(max(0.0, a1 + a2 - end1), min(end2, a1 + a2))
        return cls(max(0.0, a2 - a1), min(end2, end1 + a2 - a1))

    def clip(self, unclipped: float) -> float:
        """Return H above H, L below L, and the value itself in between."""
        if unclipped > self.high:
            return self.high
        if unclipped < self.low:
            return self.low
        return unclipped


class PlattSMO(Optimiser):
    """Sequential minimal optimisation for a kernel SVM with a bias (Platt 1998).

    In a step, two multipliers move along the line on which sum_i alpha_i y_i stays 0. The first one violates its KKT
    condition most; rows with 0 < alpha < C are checked first. The second one has the largest |E_1 - E_2| of those that
    can move, where E_i = f(x_i) - y_i is kept in a table. The bias follows from the conditions of the two rows.

    Parameters
    ----------
    accuracy : float, default 1e-12
        A row violates its KKT condition if y_i f(x_i) is off by more than this. The algorithm ends if no row is.

    Notes
    -----
    Cost: O(n) a step, with two rows of the Gram matrix; memory 8 n^2 bytes at most. Guarantee: every step increases the
    dual objective, and the method converges (Keerthi & Gilbert 2002). No useful bound on the number of steps is known;
    in practice it grows between n and n^2. The bias is only a guess while both multipliers are at a
    bound, so that a row may seem to violate its condition although no pair can be improved (Keerthi et al. 2001): such
    a row is passed over.

    References
    ----------
    Platt (1998), Sequential minimal optimization; Keerthi, Shevade, Bhattacharyya & Murthy (2001).

    Examples
    --------
    >>> from mercer.optimisers import PlattSMO, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], kernel="linear", C=10.0)
    >>> abs(PlattSMO().minimise(problem, tol_gap=1e-8).point).round(6).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """

    name = "Platt's SMO"
    needs = "a kernel SVM with a bias"

    def __init__(self, accuracy: float = 1e-12) -> None:
        self.accuracy = check_number("accuracy", accuracy, above=0.0, finite=True)

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a kernel SVM with a bias."""
        return isinstance(problem, KernelSVM) and problem.has_bias

    def steps(self, problem: KernelSVM, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        y, C, K = problem.y, problem.C, KernelRows(problem.gram)
        alpha, b, n_steps = np.zeros(y.size), 0.0, 0
        E = -y.copy()  # the table of E_i = f(x_i) - y_i, for f = 0
        yield Step(n_steps, alpha * y, K.n_values)
        while True:
            pair = self._select(y, C, alpha, E)
            if pair is None:
                return
            one, two = pair
            # Optimise over the pair.
            a1, a2, y1, y2 = alpha[one], alpha[two], y[one], y[two]
            segment = Segment.of(y1, y2, a1, a2, C[one], C[two])
            eta = K.diagonal[one] + K.diagonal[two] - 2.0 * K[one][two]
            eta = max(eta, _FLAT * (K.diagonal[one] + K.diagonal[two]), np.finfo(np.float64).tiny)
            new2 = _to_bound(segment.clip(a2 + y2 * (E[one] - E[two]) / eta), C[two])
            new1 = _to_bound(a1 + y1 * y2 * (a2 - new2), C[one])
            alpha[one], alpha[two] = new1, new2
            # Update the bias, then the table.
            before = b
            changes = y1 * (new1 - a1), y2 * (new2 - a2)
            values = K.diagonal[one], K[one][two], K.diagonal[two]
            b = new_bias(b, (E[one], E[two]), changes, values, (0.0 < new1 < C[one], 0.0 < new2 < C[two]))
            E += changes[0] * K[one] + changes[1] * K[two] + (b - before)
            n_steps += 1
            yield Step(n_steps, alpha * y, K.n_values)

    def _select(self, y: FloatArray, C: FloatArray, alpha: FloatArray, E: FloatArray) -> tuple[int, int] | None:
        """Return the first and the second variable; None if no pair can be improved."""
        r = y * E  # y_i f(x_i) - 1
        short = np.where(alpha < C, np.maximum(0.0, -r), 0.0)  # y f < 1 although alpha < C
        violation = np.maximum(short, np.where(alpha > 0.0, np.maximum(0.0, r), 0.0))  # y f > 1 although alpha > 0
        free = (alpha > 0.0) & (alpha < C)
        can_grow, can_shrink = np.where(y > 0.0, alpha < C, alpha > 0.0), np.where(y > 0.0, alpha > 0.0, alpha < C)
        for checked in (np.where(free, violation, 0.0), violation):
            while checked.max() > self.accuracy:
                one = int(checked.argmax())
                two = _second(E, E[one], can_grow, can_shrink)
                if two is not None:
                    return one, two
                checked[one] = 0.0  # only the bias is off
        return None


def _second(E: FloatArray, first: float, can_grow: BoolArray, can_shrink: BoolArray) -> int | None:
    """Return the row with the largest |E_1 - E_2| of those whose alpha y can move against that of the first row.

    `first` is E_1. If it is positive, f at the first row must fall, and the second row is the one with the smallest E;
    if it is negative, the second row is the one with the largest E.
    """
    if first > 0.0:
        two = int(np.where(can_grow, E, np.inf).argmin())
        return two if can_grow[two] and E[two] < first else None
    two = int(np.where(can_shrink, E, -np.inf).argmax())
    return two if can_shrink[two] and E[two] > first else None


def new_bias(
    b: float,
    errors: tuple[float, float],
    changes: tuple[float, float],
    values: tuple[float, float, float],
    are_free: tuple[bool, bool],
) -> float:
    """Return the bias after a step: b_1 or b_2 of a free row, else the midpoint.

    Parameters
    ----------
    b : float
        The bias before.
    errors : E_1 and E_2, before
    changes : y_1 (alpha_1^new - alpha_1^old) and y_2 (alpha_2^new - alpha_2^old)
    values : K_11, K_12 and K_22
    are_free : whether 0 < alpha_1^new < C_1, and the same for alpha_2
    """
    k11, k12, k22 = values
    b1 = b - errors[0] - changes[0] * k11 - changes[1] * k12
    b2 = b - errors[1] - changes[0] * k12 - changes[1] * k22
    if are_free[0]:
        return b1
    return b2 if are_free[1] else 0.5 * (b1 + b2)


def _to_bound(alpha: float, C: float) -> float:
    """Return the bound that an alpha differs from only by rounding, or the alpha itself."""
    if alpha < _AT_BOUND * C:
        return 0.0
    return C if alpha > (1.0 - _AT_BOUND) * C else alpha
