"""The dual coefficients that belong to the decision values of a machine, made feasible."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray
from mercer.linear.problem import Bias, LinearProblem, Penalty
from mercer.linear.rows import RowNumbers
from mercer.linear.smooth_terms import SmoothTerms
from mercer.linear.sweeps import transposed_times

_INSIDE = 1.0 - 1e-13  # largest |sum_i beta_i x_ij| with the l1 penalty; the limit is 1, and sums are rounded


def dual_point(problem: LinearProblem, terms: SmoothTerms, z: RowNumbers, n_jobs: int | None = None) -> RowNumbers:
    """Return feasible dual coefficients for the decision values `z`.

    With a free bias, the coefficients of the sign with the larger sum are scaled down so that the sum is 0. With the l1
    penalty, all are scaled down so that |sum_i beta_i x_ij| <= 1, which costs a sweep over the table.
    """
    beta = problem.rows.numbers()
    positive = negative = 0.0
    for part in problem.row_parts():
        own = terms.slopes(part, z[part.block.at]).beta
        beta[part.block.at] = own
        positive += float(own[own > 0.0].sum())
        negative -= float(own[own < 0.0].sum())
    if problem.bias is Bias.FREE and positive != negative:
        above, below = (
            min(1.0, negative / positive if positive else 1.0),
            min(1.0, positive / negative if negative else 1.0),
        )
        _scale(problem, beta, above, below)
    if problem.penalty is Penalty.L1:
        pull = np.zeros(problem.n_columns)
        for part in problem.parts():
            pull += transposed_times(part.block.table, problem.constant, beta[part.block.at], n_jobs)
        share = scale_inside(problem, pull)
        if share < 1.0:
            _scale(problem, beta, share, share)
    return beta


def scale_inside(problem: LinearProblem, pull: FloatArray) -> float:
    """Return the factor that makes sum_i beta_i x_i, which is `pull`, feasible with the l1 penalty; at most 1."""
    largest = float((problem.counted * np.abs(pull)).max(initial=0.0))
    return 1.0 if largest <= _INSIDE else _INSIDE / largest


def _scale(problem: LinearProblem, beta: RowNumbers, above: float, below: float) -> None:
    """Multiply the positive coefficients by `above` and the negative ones by `below`."""
    for part in problem.row_parts():
        own = beta[part.block.at]
        beta[part.block.at] = own * np.where(own > 0.0, above, below)
