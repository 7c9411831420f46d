"""The certificate of a linear machine: a duality gap over all rows, from weights and dual coefficients alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.dual_point import rounding_of_sums
from mercer.certificates.examples import margin_of
from mercer.certificates.kkt import Cases, KKTCases, TubeCases
from mercer.certificates.quadratic import QuadraticEvidence
from mercer.certificates.smooth import EvaluatedEvidence, Evaluation, KKTNumbers
from mercer.cluster import join
from mercer.data import as_data
from mercer.data.rows import BLOCK_VALUES
from mercer.gram import Gram
from mercer.gram.rows.device_table import DeviceTable
from mercer.gram.rows.exact_sums import exact_products
from mercer.gram.rows.sweeps import column_squares, times, transposed_times
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.kernels import Kernel, Linear
from mercer.problems import c_svc_each
from mercer.problems.column_lengths import lengths_of
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.losses import SAME, Extremes, Hinge, LinearLoss

OFF_BALANCE = 1e-9  # largest |sum of beta| that counts as rounding, as a share of the sum of |beta|; free bias only
CANCELLED = 1e-12  # share of the lengths of coefficients and of a column, below which their product counts as 0
_AT_A_TIME = 16  # problems whose points are evaluated in one sweep

Products = tuple[FloatArray, FloatArray]
"""The products of the rows with w, (n,), and the sum of beta_i x_i for feasible coefficients, (q,)."""

_EPS = float(np.finfo(np.float64).eps)


_TILE = 1 << 13  # rows whose losses are computed at a time


class _Sums(NamedTuple):
    """Sums over the rows: losses at w, and what the dual coefficients give."""

    loss: float
    of_targets: float  # change of the losses if each target of a regression changes by a unit roundoff
    excess: float  # of the losses over their lower bounds by the coefficients: sum of C l(z) + C l*(-beta / C) + beta z
    terms: float  # sum of the sizes of the numbers in `excess`
    mass: float  # sum of |beta|
    square: float  # sum of squares of beta
    rounding: float  # of `excess` apart from the losses, from the rounding errors of the decision values
    of_losses: float  # the rounding error of the losses, which appears in the primal objective alone
    deviation: float  # rounding error of the decision values in float64, even if sums are exact
    infeasibility: float  # largest distance of a coefficient from the feasible ones
    margin: float  # least y z of a row with an infinite charge, less its rounding error; infinite if C is finite
    conditions: Extremes | None
    squares: FloatArray  # sum of squares of each column, (q,)
    v: FloatArray  # sum of beta_i x_i, (q,)
    v_low: FloatArray  # what is to be added to v
    error: FloatArray | None  # of v + v_low, if sums are exact

    @property
    def length(self) -> float:
        """Euclidean norm of beta."""
        return self.square**0.5

    def joined(self, other: _Sums) -> _Sums:
        """Return the sums over two sets of rows."""
        largest = {name: max(getattr(self, name), getattr(other, name)) for name in ("deviation", "infeasibility")}
        return _Sums(*(join(one, two) for one, two in zip(self, other, strict=True)))._replace(
            **largest,
            margin=min(self.margin, other.margin),
            conditions=None if self.conditions is None else self.conditions.joined(other.conditions),
        )

    @property
    def stretch(self) -> float:
        """The factor of w that makes its margins 1, if they must be; infinite if they are not certainly positive."""
        return 1.0 / min(1.0, self.margin) if self.margin > 0.0 else float("inf")


class WeightsEvidence(EvaluatedEvidence):
    """Evidence whose point has weights of columns; the gap alone decides its status."""

    convex = True

    @abstractmethod
    def ball(self, gap: float) -> tuple[FloatArray, FloatArray] | None:
        """Return the centre of a ball that contains the optimal weights of the columns, and its radius for each.

        The radii include the rounding errors of the centre. The result is None if there is no such ball.
        """

    def proved_signs(self, gap: float) -> FloatArray:
        """Return the proved signs of the optimal weights; see :meth:`mercer.Certificate.proved_signs`."""
        with np.errstate(all="ignore"):
            ball = self.ball(gap)
            if ball is None:
                return np.zeros_like(self.weights)
            centre, radii = ball
            return np.where(np.abs(centre) > radii, np.sign(centre), 0.0)

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """The weights of the columns, without those of biases."""


def ball_of_objective(w: FloatArray, gap: float, l1_ratio: float) -> tuple[FloatArray, FloatArray] | None:
    """Return the ball around w in which the optimal weights are, because the objective is strongly convex; or None."""
    if l1_ratio == 1.0 or not np.isfinite(gap):
        return None
    return w, np.full(w.shape, (2.0 * gap / (1.0 - l1_ratio)) ** 0.5 * (1.0 + 8.0 * _EPS))


def radius_of(gap: float, w: FloatArray, v: FloatArray, errors: FloatArray) -> FloatArray:
    """Return the radius of the ball around (w + v) / 2 that contains the optimal weights, and its rounding.

    By strong convexity, ||w* - w||² <= 2 (P(w) - P*) and ||w* - v||² <= 2 (P* - D), where v = sum_i beta_i x_i. The sum
    of both is ||w* - (w + v) / 2||² <= G - ||w - v||² / 4. `errors` are those of the elements of v.
    """
    apart = np.abs(w - v)
    least = np.maximum(0.0, apart * (1.0 - 4.0 * _EPS) - errors)  # the true distance is at least this
    square = max(0.0, gap - 0.25 * float(np.square(least).sum()) * (1.0 - w.size * _EPS))
    return (square**0.5) * (1.0 + 8.0 * _EPS) + 0.5 * errors + _EPS * (np.abs(w) + np.abs(v))


@dataclass(frozen=True, eq=False)
class LinearEvidence(WeightsEvidence):
    """A point of a linear problem: its weights, and one dual coefficient for each row.

    Attributes
    ----------
    problem : LinearProblem
    w : ndarray of shape (n_columns,)
    beta : RowNumbers
        Coefficients in signed coordinates. For the l1 penalty, they are scaled so that |sum_i beta_i x_ij| <= 1.
    low : RowNumbers, optional
        Second parts of the coefficients, which are beta + low: where columns have huge values, the dual value needs
        more digits than float64 has.
    is_exact : bool
        Whether sums are computed without rounding errors; see :mod:`mercer.gram.rows.exact_sums`.
    """

    problem: LinearProblem
    w: FloatArray
    beta: RowNumbers
    low: RowNumbers | None = None
    is_exact: bool = False

    @property
    def weights(self) -> FloatArray:
        """The normal vector, (p,)."""
        return self.w[: self.problem.rows.p]

    def ball(self, gap: float) -> tuple[FloatArray, FloatArray] | None:
        """Return a ball around the optimal weights; None with the l1 penalty alone.

        With a penalised bias, the distance of its weights counts, too. A free bias is left out: its element of v is the
        sum of the coefficients. If this is not 0 but for rounding, the gap has been computed for coefficients that are
        scaled down, by up to `scaled`, which counts as an error of v.
        """
        problem = self.problem
        if problem.l1_ratio == 1.0 or not np.isfinite(gap):
            return None
        sums = _sums(self, None, independent=False)
        w = sums.stretch * self.w
        if problem.l1_ratio > 0.0:
            return ball_of_objective(w[: problem.rows.p], gap, problem.l1_ratio)
        errors = self._errors(sums)
        counted = problem.counted > 0.0
        w, v, errors = w[counted], (sums.v + sums.v_low)[counted], errors[counted]
        p = problem.rows.p
        radii = radius_of(gap, w, v, errors)
        return (0.5 * (w + v))[:p], radii[:p]

    def _errors(self, sums: _Sums) -> FloatArray:
        """Return the errors of the elements of v, with those of the scaling that makes its last one 0."""
        lengths = lengths_of(self.problem, sums.squares)
        errors = rounding_of_sums(self.problem.rows.n) * sums.length * lengths if sums.error is None else sums.error
        if self.problem.bias is Bias.FREE and sums.mass > 0.0:
            imbalance = abs(float(sums.v[-1] + sums.v_low[-1]))
            errors = errors + 2.0 * (imbalance + float(errors[-1])) / sums.mass * sums.length * lengths
        return errors

    def proves_inseparable(self) -> bool:
        """Whether sum_i beta_i x_i is 0 to 12 digits in every column, for coefficients that are not all 0.

        The sum of y_i beta_i is at most |<w, sum_i beta_i x_i>| for every w whose margins are 1. Such weights then do
        not exist, but for weights whose terms |w_j x_ij| are larger than the margin by a factor of about 10^12.
        """
        sums = _sums(self, None, independent=False)
        sizes = sums.length * lengths_of(self.problem, sums.squares)
        return sums.mass > 0.0 and bool((np.abs(sums.v) <= CANCELLED * sizes).all())

    def as_quadratic(self) -> QuadraticEvidence | None:
        """Return the evidence of the same machine with the linear kernel; None for losses other than the hinge loss.

        It is also None with another penalty than l2, and for rows in a file. A penalised bias is a part of the kernel.
        """
        problem = self.problem
        if not isinstance(problem.loss, Hinge) or problem.l1_ratio or not isinstance(problem.rows, TableRows):
            return None
        (part,) = problem.parts()
        used = np.flatnonzero(part.charges > 0.0)
        y, C = part.targets[used], part.charges[used]
        is_free = problem.bias is Bias.FREE
        kernel: Kernel = Linear()
        if problem.constant and not is_free:
            kernel = kernel + problem.constant**2
        beta = problem.loss.feasible(np.asarray(self.beta[part.block.at], dtype=np.float64)[used], y, C)
        beta = np.where(np.abs(beta) >= (1.0 - SAME) * C, np.copysign(C, beta), beta)
        dual = c_svc_each(y, C, [y.size], bias=is_free)[0]
        gram = Gram(kernel, as_data(part.block.table)).restrict(used)
        bias = float(self.w[-1]) if is_free else 0.0
        return replace(QuadraticEvidence.of(dual, gram, beta, convex=True), bias=bias)

    def examples(self, full_gram: Any = None) -> Cases:
        """Return the optimality condition of each row; see :meth:`mercer.Certificate.examples`."""
        problem, loss = self.problem, self.problem.loss
        if loss.power is None:
            return super().examples(full_gram)  # an error
        sums, parts = _sums(self, None, independent=False), []
        assert sums.conditions is not None
        tolerance = sums.conditions.violation(has_free_bias=problem.bias is Bias.FREE) + sums.deviation
        for part in problem.parts():
            used = np.flatnonzero(part.charges > 0.0)
            z = times(part.block.table, problem.constant, self.w)[used]
            part_beta = np.asarray(self.beta[part.block.at], dtype=np.float64)
            beta = loss.feasible(part_beta, part.targets, part.charges)[used]
            rows = used + (part.block.at.start or 0)
            parts.append((rows, part.targets[used], z, beta, part.charges[used]))
        rows, y, z, beta, C = (np.concatenate(each) for each in zip(*parts, strict=True))
        beta = np.where(np.abs(beta) >= (1.0 - SAME) * C, np.copysign(C, beta), beta) if loss.kind.bounded else beta
        if not loss.classifies:
            return TubeCases(rows, y, z, beta, C, loss.kind.epsilon, tolerance, not loss.kind.bounded)
        margin = margin_of(float(self.weights @ self.weights), 0.0, convex=True)
        return KKTCases(rows, y, y * beta, C, y * z, margin, tolerance, not loss.kind.bounded)

    def evaluate(self, *, independent: bool = False, products: Products | None = None) -> Evaluation:
        """Evaluate the point in one sweep over the rows; with `independent`, by NumPy alone.

        Parameters
        ----------
        independent : bool
            Sums are in longdouble then.
        products : tuple of ndarray, optional
            The products of the sweep, if the problem has one block and they are known; see :func:`evaluate_each`.

        Notes
        -----
        The gap is a sum of terms >= 0, which do not cancel. With v = sum_i beta_i x_i, it is

            ||w - v||² / 2 + sum_i (C_i l(z_i) + C_i l*(-beta_i / C_i) + beta_i z_i),

        or with the l1 penalty, sum_j (|w_j| - w_j v_j) instead of the first term. With an elastic net, c_j is the
        number of [-r, r] next to v_j, and the first term is sum_j (r |w_j| - w_j c_j + (1 - r)/2 (w_j - u_j)²), where
        u_j = (v_j - c_j) / (1 - r) is the best weight for v. The solver's v and z are not used.
        Coefficients outside their bounds are moved to the bounds first. Rounding errors of the sums are estimated from
        the lengths of the columns and added to the gap, so that it stays an upper bound:

        - A rounding error e of a decision value changes its loss by at most e times the steepest slope within e. This
          matters at kinks: a row whose margin is 1 after rounding has no loss, but its exact loss may be C e. It is an
          error of the primal objective alone: the loss cancels in the difference of the objective and the gap.
        - v may be farther from w by its own error.
        - With a free bias, the coefficients of the sign with the larger sum are scaled down so that the sum is 0, and
          with the l1 penalty, all are scaled down so that |v_j| <= 1. A factor 1 - t costs at most t times the losses,
          or t times the dual value.

        With C = inf, the objective is that of w divided by the smallest margin, if this is below 1, and infinite if it
        is not certainly positive. The lower bound is then 0, that of coefficients of 0.
        """
        problem = self.problem
        n = problem.rows.n
        with np.errstate(all="ignore"):  # huge columns overflow; the gap is infinite then
            sums = _sums(self, products, independent=independent)
            lengths = lengths_of(problem, sums.squares)
            errors = rounding_of_sums(n) * sums.length * lengths if sums.error is None else sums.error
            unsure = sums.rounding + rounding_of_sums(n) * sums.terms
            imbalance = scaled = 0.0
            if problem.bias is Bias.FREE and sums.mass > 0.0:
                imbalance = abs(float(sums.v[-1] + sums.v_low[-1]))
                scaled = 2.0 * (imbalance + float(errors[-1])) / sums.mass
                errors = errors + scaled * sums.length * lengths
                unsure += scaled * sums.loss
            penalty, apart, of_penalty, excess = self._penalty(sums, errors)
            stretch = sums.stretch
            if stretch > 1.0:
                longer = problem.penalty(stretch * self.w) if stretch < np.inf else stretch
                sums = sums._replace(loss=longer - penalty)
                apart += sums.loss
                of_penalty += (stretch - 1.0) * float((problem.counted * np.abs(self.w)) @ errors)
            primal = penalty + sums.loss
            rounding = rounding_of_sums(self.w.size) * penalty
            unsure += of_penalty + rounding
            gap = max(0.0, apart + sums.excess)
            unsure += excess / (1.0 + excess) * max(0.0, primal - gap)
            gap += unsure
            rounding += sums.of_losses + (rounding_of_sums(n) * sums.loss if stretch < np.inf else 0.0)
        infeasibility = max(sums.infeasibility, excess, imbalance)
        if scaled > 2.0 * OFF_BALANCE or excess > 1.0 or not np.isfinite(gap):
            gap = float("inf")
        rows, kkt = sums.conditions, None
        if rows is not None:
            violation = rows.violation(has_free_bias=problem.bias is Bias.FREE)
            kkt = KKTNumbers(violation, rows.n_free, rows.n_bounded)
        return Evaluation(
            primal=primal,
            gap=gap,
            rounding=rounding,
            gap_rounding=unsure,
            dual_infeasibility=infeasibility,
            decision_error=np.array([sums.deviation]),
            kkt=kkt,
            absolute_gap=sums.of_targets,
            dual=0.0 if stretch == np.inf else None,
        )

    def _penalty(self, sums: _Sums, errors: FloatArray) -> tuple[float, float, float, float]:
        """Return the penalty, its part of the gap, the rounding error of that, and by how much |v_j| may exceed 1."""
        problem, counted, w, ratio = self.problem, self.problem.counted, self.w, self.problem.l1_ratio
        penalty = problem.penalty(w)
        if ratio == 1.0:
            beyond = np.maximum(0.0, (np.abs(sums.v) - 1.0) + np.sign(sums.v) * sums.v_low + errors)
            apart = float(counted @ (np.abs(w) - w * sums.v - w * sums.v_low))
            unsure = float((counted * np.abs(w)) @ errors) + rounding_of_sums(w.size) * penalty
            return penalty, apart, unsure, float(beyond[counted > 0.0].max(initial=0.0))
        # v = inside + outside: the first belongs to the sum of |w_j|, and the second to the sum of squares.
        is_outside = np.abs(sums.v) > ratio
        inside = np.where(is_outside, np.copysign(ratio, sums.v), sums.v)
        outside = np.where(is_outside, sums.v - inside, 0.0)
        second = np.where(is_outside, sums.v_low, 0.0)
        away = np.abs(((1.0 - ratio) * w - outside) - second)
        unsure = float((counted * (away + errors)) @ errors) / (1.0 - ratio)
        apart = 0.5 * float(counted @ np.square(away)) / (1.0 - ratio)
        if ratio > 0.0:
            apart += float(counted @ (ratio * np.abs(w) - w * inside - w * (sums.v_low - second)))
            unsure += rounding_of_sums(w.size) * penalty
        return penalty, apart, unsure, 0.0


def evaluate_each(evidences: Sequence[LinearEvidence], n_jobs: int | None = None) -> list[Evaluation]:
    """Evaluate the points of problems on the same rows in memory, in one sweep for every few of them."""
    evaluations = []
    for first in range(0, len(evidences), _AT_A_TIME):
        some = evidences[first : first + _AT_A_TIME]
        (part,) = some[0].problem.parts()
        table, constant = part.block.table, some[0].problem.constant
        near = np.empty((table.shape[0], len(some)))
        for k, evidence in enumerate(some):
            (part,) = evidence.problem.parts()
            near[:, k] = evidence.problem.loss.feasible(evidence.beta[slice(None)], part.targets, part.charges)
        z = times(table, constant, np.column_stack([evidence.w for evidence in some]), n_jobs)
        v = transposed_times(table, constant, near, n_jobs)
        products = zip(np.ascontiguousarray(z.T), np.ascontiguousarray(v.T), strict=True)
        evaluations += [evidence.evaluate(products=sums) for evidence, sums in zip(some, products, strict=True)]
    return evaluations


def _sums(evidence: LinearEvidence, products: Products | None, *, independent: bool) -> _Sums:
    """Return the sums of a sweep; all of them are 0 for rows whose charge is 0."""
    sums: _Sums = evidence.problem.total(_sums_of_part, evidence, products, independent)
    return sums._replace(v=sums.v.astype(np.float64), v_low=sums.v_low.astype(np.float64))


def _sums_of_part(part: Part, evidence: LinearEvidence, products: Products | None, independent: bool) -> _Sums:
    """Return the sums of a block of rows; with `independent`, v is in longdouble."""
    problem, w = evidence.problem, evidence.w
    loss, constant = problem.loss, problem.constant
    numbers = np.zeros(6)  # loss, of_targets, excess, terms, mass, square
    infeasibility, is_hard, margin = 0.0, np.isinf(problem.C), float("inf")
    conditions: Extremes | None = Extremes()
    table, y, charge = part.block.table, part.targets, part.charges
    part_beta = np.asarray(evidence.beta[part.block.at], dtype=np.float64)
    near = np.empty(part_beta.shape)
    for rows in _tiles(part_beta.size):
        near[rows] = loss.feasible(part_beta[rows], y[rows], charge[rows])
        infeasibility = max(infeasibility, float(np.abs(part_beta[rows] - near[rows]).max(initial=0.0)))
    squares = column_squares(table, constant) if independent else part.block.squares(constant)
    low, error = np.zeros(y.shape), None
    v_low: Any = np.zeros(squares.shape)
    v: Any
    if evidence.is_exact:
        more = None if evidence.low is None else _second(loss, evidence.low[part.block.at], near, y, charge)
        exact = exact_products(table, constant, w, near, more)
        z, low, v, v_low, error = exact.z, exact.z_low, exact.v, exact.v_low, exact.error
    elif products is not None:
        z, v = products
    elif independent:
        z, v = long_products(table, constant, w, near)
    else:
        z, v = times(table, constant, w), transposed_times(table, constant, near)
    lost = 0.0 if error is None else 4.0 * _EPS**2 * (float(z @ z) ** 0.5 + float(y @ y) ** 0.5)  # of z + low
    if not loss.classifies:  # the loss depends on z - y only
        z, y = (z - y) + low, np.zeros(y.shape)
    deviation = _EPS * float(np.sqrt(z @ z)) + lost
    of_products = rounding_of_sums(w.size) * float(np.abs(w[w != 0.0]) @ np.sqrt(squares[w != 0.0]))
    largest_deviation = deviation + of_products
    if error is None:
        deviation += of_products
    steepness = length = 0.0
    for rows in _tiles(part_beta.size):
        used = np.zeros(charge[rows].size) if is_hard else charge[rows]  # hard margins have no losses
        numbers += _row_sums(loss, z[rows], near[rows], y[rows], used)
        if conditions is not None:
            conditions = conditions.joined(loss.conditions(near[rows], z[rows], y[rows], charge[rows]))
        if not loss.classifies:
            step = _EPS * np.abs(part.targets[rows])
            numbers[1] += float(np.abs(_steepest(loss, z[rows], y[rows], charge[rows], step)) @ step)
        slopes = np.abs(_steepest(loss, z[rows], y[rows], used, deviation))
        steepness += float(slopes @ slopes)
        if is_hard:
            counted = charge[rows] > 0.0
            margin = min(margin, float((y[rows] * z[rows])[counted].min(initial=np.inf)) - deviation)
        length += float(near[rows] @ near[rows])
    total, of_targets, excess, terms, mass, square = (float(number) for number in numbers)
    return _Sums(
        loss=total,
        of_targets=of_targets,
        excess=excess,
        terms=terms,
        mass=mass,
        square=square,
        rounding=length**0.5 * deviation,  # of beta z, which the excess has besides the loss
        of_losses=steepness**0.5 * deviation,
        deviation=largest_deviation,
        infeasibility=infeasibility,
        margin=margin,
        conditions=conditions,
        squares=squares,
        v=v,
        v_low=v_low,
        error=error,
    )


def _second(loss: LinearLoss, low: FloatArray, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
    """Return second parts of coefficients, limited to rounding errors of the first ones and to their bounds."""
    most = 0.5 * _EPS * np.abs(beta)
    beyond = np.nextafter(beta, np.where(low > 0.0, np.inf, -np.inf))
    return np.where(loss.feasible(beyond, y, charge) == beyond, np.clip(low, -most, most), 0.0)


def _tiles(n: int) -> Iterator[slice]:
    """Return consecutive slices of rows whose temporary arrays stay in the cache."""
    return (slice(first, min(n, first + _TILE)) for first in range(0, n, _TILE))


def _row_sums(loss: LinearLoss, z: FloatArray, beta: FloatArray, y: FloatArray, charge: FloatArray) -> FloatArray:
    """Return the loss, 0, the excess, the sizes of its terms, the sum of |beta|, and that of its squares."""
    total, dual, moved = loss.total(z, y, charge), loss.dual(beta, y, charge), float(beta @ z)
    sizes = total + abs(dual) + 2.0 * float(np.abs(beta) @ np.abs(z))
    return np.array([total, 0.0, total - dual + moved, sizes, float(np.abs(beta).sum()), float(beta @ beta)])


def _steepest(
    loss: LinearLoss, z: FloatArray, y: FloatArray, charge: FloatArray, error: float | FloatArray
) -> FloatArray:
    """Return the steepest slope of each loss within the rounding error `error` of the decision values.

    Losses are convex and least on one side of the target, so that it is where the error makes the loss larger.
    """
    return loss.coefficient(z - np.copysign(error, y if loss.classifies else y - z), y, charge)


def long_products(table: Any, constant: float, w: FloatArray, beta: FloatArray) -> tuple[FloatArray, Any]:
    """Return the products of the rows with `w` in float64, and sum_i beta_i x_i, by sums in longdouble.

    They have the shapes of `beta` and of `w`: (m,) and (q,), or (m, K) and (q, K). Sums over a table on a device are in
    float64, computed there: it has no longer numbers, and its rows do not come to the host.
    """
    if isinstance(table, DeviceTable):
        return times(table, constant, w), transposed_times(table, constant, beta).astype(np.longdouble)
    m, p = table.shape
    long_w, long_beta = w.astype(np.longdouble), beta.astype(np.longdouble)
    z, v = np.empty(beta.shape), np.zeros(w.shape, dtype=np.longdouble)
    height = max(1, BLOCK_VALUES // max(1, p))
    for first in range(0, m, height):
        rows = slice(first, first + height)
        tile = table[rows].astype(np.longdouble)
        values = tile @ long_w[:p]
        v[:p] += tile.T @ long_beta[rows]
        z[rows] = values + constant * long_w[p] if constant else values
    if constant:
        v[p] = constant * long_beta.sum(axis=0)
    return z, v
