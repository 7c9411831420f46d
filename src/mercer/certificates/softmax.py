"""The certificate of softmax regression: a duality gap over all rows, from weights and dual coefficients alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.dual_point import rounding_of_sums
from mercer.certificates.linear import OFF_BALANCE, WeightsEvidence, ball_of_objective, long_products
from mercer.certificates.smooth import Evaluation
from mercer.cluster import Largest
from mercer.gram.rows.sweeps import column_squares, times, transposed_times
from mercer.problems import inner
from mercer.problems.joint_linear import JointPart
from mercer.problems.softmax import (
    DualsOfWeights,
    SoftmaxProblem,
    beta_of,
    near_softmax,
    row_blocks,
    softmax_terms,
)

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SoftmaxEvidence(WeightsEvidence):
    """A point of a softmax problem: weights (n_columns, n_classes) and dual coefficients (n, n_classes)."""

    problem: SoftmaxProblem
    w: FloatArray
    beta: FloatArray | DualsOfWeights

    @property
    def weights(self) -> FloatArray:
        """The normal vectors, (n_classes, p)."""
        return self.problem.split(self.w)[0]

    def ball(self, gap: float) -> tuple[FloatArray, FloatArray] | None:
        """Return a ball around the optimal weights; None without a penalty and with the l1 penalty alone."""
        return ball_of_objective(self.weights, gap, self.problem.l1_ratio) if self.problem.is_penalised else None

    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point in one sweep over the rows; with `independent`, in longdouble by NumPy alone.

        Notes
        -----
        The coefficients of a row belong to probabilities p_i: beta_ik = C_i ([k = y_i] - p_ik). With
        v_k = sum_i beta_ik x_i, r = `l1_ratio`, c = v limited to [-r, r] and u = (v - c) / (1 - r), the gap is

            sum_jk (1 - r) (w_jk - u_jk)² / 2 + r |w_jk| - w_jk c_jk  +  sum_i C_i KL(p_i, softmax f(x_i)),

        whose terms are not negative and do not cancel. For r = 1, v must be within [-1, 1]. With free biases, the sum
        of the coefficients of a class must be 0. A mixture with equal probabilities for all rows, of weight t, removes
        what is missing, with t the largest missing share of a class's charges. What this may cost is counted as
        rounding, as are the rounding errors of all sums. Without a penalty, v must be 0 for all columns. It is 0 up to
        rounding errors e for coefficients that a Newton step has corrected, and a further step would change the dual
        value by sum_jk w_jk e_jk.
        """
        problem, w = self.problem, self.w
        with np.errstate(all="ignore"):
            sums = _swept(self, independent=independent)
            v, lengths, charge_size = sums.v, np.sqrt(sums.squares), sums.charge_square**0.5
            spread, beyond_box = rounding_of_sums(problem.rows.n), sums.infeasibility
            of_products = rounding_of_sums(len(w)) * float(np.abs(w).max(axis=1) @ lengths)
            deviation = 2.0 * (_EPS * sums.z_square**0.5 + of_products)
            of_losses = sums.slopes**0.5 * deviation * np.exp(2.0 * deviation)
            rounding = 2.0 * of_losses + spread * sums.size
            errors = spread * np.outer(lengths, np.sqrt(sums.beta_squares))
            shift = 0.0
            if problem.free and problem.constant:
                missing, totals = np.abs(v[-1]) + errors[-1], sums.totals
                shift = float(np.divide(missing, totals, out=np.zeros_like(missing), where=totals > 0.0).max())
                beyond_box = max(beyond_box, float(np.abs(v[-1]).max()))
                errors = errors + shift * (charge_size * lengths[:, None] + np.abs(v))
                rounding += shift * (sums.loss + abs(sums.excess))
            if not problem.is_penalised:
                left = np.abs(v) + errors
                is_balanced = bool((left <= OFF_BALANCE * charge_size * lengths[:, None]).all())
                shift = shift if is_balanced else 1.0
                rounding += 2.0 * float((np.abs(w) * left).sum())
                beyond_box = max(beyond_box, float(np.abs(v).max(initial=0.0)))
            penalty, apart, unsure, beyond = penalty_gap(w, v, errors, problem.counted, problem.l1_ratio)
            primal = penalty + sums.loss
            rounding += unsure + rounding_of_sums(w.size) * penalty
            gap = apart + max(0.0, sums.excess)
            rounding += beyond / (1.0 + beyond) * max(0.0, primal - gap)
            gap += rounding
            of_losses += spread * sums.loss + rounding_of_sums(w.size) * penalty
            if not problem.is_penalised:  # a loss of 0 is underflow, because no weights reach it
                gap = max(gap, float(sums.totals.sum()) * float(np.finfo(np.float64).tiny))
        if shift > OFF_BALANCE or beyond > 1.0 or not np.isfinite(gap):
            gap = float("inf")
        return Evaluation(
            primal=float(primal),
            gap=float(gap),
            rounding=float(of_losses),
            gap_rounding=float(rounding),
            dual_infeasibility=max(beyond_box, beyond),
            decision_error=np.array([float(deviation)]),
        )


class _Sums(NamedTuple):
    """Sums over the rows."""

    loss: float
    excess: float  # of the losses over their lower bounds by the coefficients
    size: float  # of the numbers whose sum the excess is
    slopes: float  # squares of the slopes of the losses
    charge_square: float
    z_square: float  # of the decision values
    v: Any  # sum of beta_i x_i, (q, n_classes)
    squares: FloatArray  # of each column, (q,)
    beta_squares: FloatArray  # of each class, (n_classes,)
    totals: FloatArray  # of the charges of each class, (n_classes,)
    infeasibility: Any  # largest distance of a coefficient from the feasible ones


def _swept(evidence: SoftmaxEvidence, *, independent: bool) -> _Sums:
    """Return the sums of a sweep over the rows."""
    problem = evidence.problem
    sums: _Sums = problem.total(_sums_of_part, evidence.w, evidence.beta, problem.constant, independent)
    return sums._replace(v=sums.v.astype(np.float64), infeasibility=sums.infeasibility.value)


def _sums_of_part(part: JointPart, w: FloatArray, duals: Any, constant: float, independent: bool) -> _Sums:
    """Return the sums over the rows of a block."""
    n_classes, block = w.shape[1], part.block
    v: Any = np.zeros(w.shape, dtype=np.longdouble if independent else np.float64)
    squares = column_squares(block.table, constant) if independent else block.squares(constant)
    beta_squares, numbers, infeasibility = np.zeros(n_classes), np.zeros(6), 0.0
    given = None if isinstance(duals, DualsOfWeights) else duals[block.at]
    for rows, table in row_blocks(block.table, 2 * n_classes):
        codes, charges = part.codes[rows], part.charges[rows]
        z = times(table, constant, w)
        point = duals.of_rows(z, codes, charges) if given is None else given[rows]
        shares = near_softmax(point, codes, charges)
        beta = beta_of(shares, codes, charges)
        infeasibility = max(infeasibility, float(np.abs(point - beta).max(initial=0.0)))
        if independent:
            z, sums = long_products(table, constant, w, beta)
        else:
            sums = transposed_times(table, constant, beta)
        v += sums
        beta_squares += np.square(beta).sum(axis=0)
        one = softmax_terms(z, shares, codes)
        steep = charges * (1.0 - np.exp(-one.losses) + one.others)
        apart = (shares * np.abs(z - z[np.arange(codes.size), codes][:, None])).sum(axis=1)
        numbers += (
            inner(charges, one.losses),
            inner(charges, one.losses - one.entropies + one.moved),
            inner(charges, one.losses + one.entropies + apart),
            inner(steep, steep),
            inner(charges, charges),
            inner(z.ravel(), z.ravel()),
        )
    totals: Any = np.bincount(part.codes, part.charges, minlength=n_classes)
    loss, excess, size, slopes, charge_square, z_square = numbers.tolist()
    of_columns = v, squares, beta_squares, totals, Largest(infeasibility)
    return _Sums(loss, excess, size, slopes, charge_square, z_square, *of_columns)


def penalty_gap(
    w: FloatArray, v: FloatArray, errors: FloatArray, counted: FloatArray, l1_ratio: float
) -> tuple[float, float, float, float]:
    """Return the penalty, its part of the duality gap, the rounding error of that, and by how much |v| may exceed 1.

    `errors` are those of v. The last number is 0 unless `l1_ratio` is 1.
    """
    r = l1_ratio
    clipped = np.clip(v, -r, r)
    penalty = float((counted * (r * np.abs(w) + 0.5 * (1.0 - r) * np.square(w))).sum())
    apart = counted * (r * np.abs(w) - w * clipped)
    unsure = counted * np.abs(w) * errors if r else 0.0 * errors
    if r == 1.0:
        beyond = np.maximum(0.0, np.abs(v) - 1.0 + errors) * counted
        unsure = unsure + _EPS * np.abs(w)
        return penalty, float(np.maximum(0.0, apart).sum()), float(unsure.sum()), float(beyond.max(initial=0.0))
    away = np.abs(w - (v - clipped) / (1.0 - r))
    apart = np.maximum(0.0, apart) + 0.5 * counted * (1.0 - r) * np.square(away)
    unsure = unsure + counted * (away + errors / (1.0 - r)) * errors
    return penalty, float(apart.sum()), float(unsure.sum()), 0.0
