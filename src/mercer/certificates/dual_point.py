"""The dual coefficients that belong to the decision values of a machine, made feasible."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray
from mercer.gram.rows.sweeps import transposed_times
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.smooth_terms import SmoothTerms

_EPS = float(np.finfo(np.float64).eps)
_ADDED = 0.25  # units of roundoff per square root of the number of additions (as in mercer.certificates.roundoff)
_INSIDE = 1.0 - 1e-13  # largest |sum_i beta_i x_ij| with the l1 penalty; the limit is 1, and sums are rounded


def dual_point(
    problem: LinearProblem, terms: SmoothTerms, z: RowNumbers, column_lengths: FloatArray, n_jobs: int | None = None
) -> RowNumbers:
    """Return feasible dual coefficients for the decision values `z`.

    It costs a sweep with the l1 penalty; see :func:`make_feasible`.
    """
    beta = problem.rows.numbers()
    problem.each(_write_coefficients, terms, z, beta, n_jobs, reads_table=False)
    make_feasible(problem, beta, column_lengths, n_jobs)
    return beta


def make_feasible(
    problem: LinearProblem, beta: RowNumbers, column_lengths: FloatArray, n_jobs: int | None = None
) -> None:
    """Change coefficients that are within their bounds so that they are feasible, in place.

    With a free bias, the coefficients of the sign with the larger sum are scaled down so that the sum is 0: those
    between their bounds, if they are large enough, so that the others stay exactly at their bounds. With the l1
    penalty, all are scaled down so that |sum_i beta_i x_ij| <= 1 but for rounding errors, which costs a sweep.
    """
    if problem.bias is Bias.FREE:
        _balance(problem, beta)
    if problem.l1_ratio == 1.0:
        squares, pull = problem.total(_length_and_pull, beta, problem.constant, n_jobs)
        pull = without_rounding(problem, pull, pull, pull_errors(problem.rows.n, squares**0.5, column_lengths))
        share = scale_inside(problem, pull)
        if share < 1.0:
            problem.each(_scale, beta, share, reads_table=False)


def rounding_of_sums(n: int) -> float:
    """Return the relative rounding error of a sum over n rows, as a share of the length of its summands."""
    return _EPS * (2.0 + _ADDED * n**0.5)


def pull_errors(n: int, length: float, column_lengths: FloatArray) -> FloatArray:
    """Return an estimate of the rounding errors of sum_i beta_i x_i, (q,), for coefficients of this length."""
    return rounding_of_sums(n) * length * column_lengths


def without_rounding(problem: LinearProblem, w: FloatArray, pull: FloatArray, errors: FloatArray) -> FloatArray:
    """Return sum_i beta_i x_i, which is `pull`, with elements replaced that are optimal but for their rounding errors.

    They become w_j with the l2 penalty, the nearest number of [-1, 1] with the l1 penalty, and the slope of the penalty
    with an elastic net. For a column of huge
    values, float64 has no coefficients with a smaller difference: a change of the column by a unit roundoff removes it.
    """
    if problem.l1_ratio == 1.0:
        return np.where(np.abs(pull) <= 1.0 + errors, np.clip(pull, -1.0, 1.0), pull)
    l1, l2 = problem.l1_weights, problem.l2_weights
    best = l2 * w + np.where(w != 0.0, l1 * np.sign(w), np.clip(pull, -l1, l1))
    return np.where(np.abs(pull - best) <= errors, best, pull)


def scale_inside(problem: LinearProblem, pull: FloatArray) -> float:
    """Return the factor that makes sum_i beta_i x_i, which is `pull`, feasible with the l1 penalty; at most 1."""
    largest = float(np.abs(pull[problem.counted > 0.0]).max(initial=0.0))
    return 1.0 if largest <= _INSIDE else _INSIDE / largest


def _balance(problem: LinearProblem, beta: RowNumbers) -> None:
    """Scale down the coefficients of the sign with the larger sum so that the sum is 0; see :func:`make_feasible`."""
    bounded = problem.loss.kind.bounded
    sums, free_sums = problem.total(_signed_sums, beta, bounded, reads_table=False)
    larger = int(sums[1] > sums[0])
    surplus = float(sums[larger] - sums[1 - larger])
    if surplus == 0.0:
        return
    some = free_sums[larger] > surplus
    share = 1.0 - surplus / float(free_sums[larger]) if some else float(sums[1 - larger] / sums[larger])
    problem.each(_scale_sign, beta, share, bool(larger), some and bounded, reads_table=False)


def _write_coefficients(part: Part, terms: SmoothTerms, z: RowNumbers, beta: RowNumbers, n_jobs: int | None) -> None:
    beta[part.block.at] = terms.values(part, z[part.block.at], n_jobs).beta


def _length_and_pull(part: Part, beta: RowNumbers, constant: float, n_jobs: int | None) -> tuple[float, FloatArray]:
    """Return the sum of squares of the coefficients, and the sum of beta_i x_i."""
    part_beta = beta[part.block.at]
    return float(part_beta @ part_beta), transposed_times(part.block.table, constant, part_beta, n_jobs)


def _signed_sums(part: Part, beta: RowNumbers, bounded: bool) -> tuple[FloatArray, FloatArray]:
    """Return the sums of the positive and of the negative coefficients, and of those between their bounds."""
    part_beta = beta[part.block.at]
    free = part_beta * (np.abs(part_beta) < part.charges) if bounded else part_beta
    return (
        np.array([part_beta[part_beta > 0.0].sum(), -part_beta[part_beta < 0.0].sum()]),
        np.array([free[free > 0.0].sum(), -free[free < 0.0].sum()]),
    )


def _scale_sign(part: Part, beta: RowNumbers, share: float, is_negative: bool, only_free: bool) -> None:
    """Multiply the coefficients of a sign by `share`, or those of them that are between their bounds."""
    part_beta = beta[part.block.at]
    chosen = part_beta < 0.0 if is_negative else part_beta > 0.0
    if only_free:
        chosen &= np.abs(part_beta) < part.charges
    beta[part.block.at] = np.where(chosen, share * part_beta, part_beta)


def _scale(part: Part, beta: RowNumbers, share: float) -> None:
    """Multiply the coefficients by `share`."""
    beta[part.block.at] = share * beta[part.block.at]
