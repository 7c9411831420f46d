"""The certificate of a linear machine: a duality gap over all rows, from weights and dual coefficients alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.linear.column_lengths import lengths_of
from mercer.linear.dual_point import rounding_of_sums
from mercer.linear.exact_sums import exact_products
from mercer.linear.losses import LinearLoss
from mercer.linear.problem import Bias, LinearProblem
from mercer.linear.rows import RowNumbers
from mercer.linear.sweeps import column_squares, times, transposed_times
from mercer.losses.certificate import Evaluation, Evidence, LossCertificate, certify

_OFF_BALANCE = 1e-9  # largest |sum of beta| that counts as rounding, as a share of the sum of |beta|; free bias only
_LEAST_OBJECTIVE = 1e-8
"""Share of the objective of f = 0 with which a gap is compared at least. An objective below it is 0 to rounding."""

_AT_A_TIME = 16  # problems whose points are evaluated in one sweep

Products = tuple[FloatArray, FloatArray]
"""The products of the rows with w, (n,), and the sum of beta_i x_i for feasible coefficients, (q,)."""

_EPS = float(np.finfo(np.float64).eps)
_LONG_VALUES = 1 << 20  # values of a table that are converted to longdouble at a time: 16 MiB


_TILE = 1 << 13  # rows whose losses are computed at a time


class _Sums(NamedTuple):
    """Sums over the rows: losses at w and at f = 0, and what the dual coefficients give."""

    loss: float
    loss_at_zero: float
    excess: float  # of the losses over their lower bounds by the coefficients: sum of C l(z) + C l*(-beta / C) + beta z
    terms: float  # sum of the sizes of the numbers in `excess`
    mass: float  # sum of |beta|
    length: float  # Euclidean norm of beta
    rounding: float  # of the losses and of `excess`, from the rounding errors of the decision values
    infeasibility: float  # largest distance of a coefficient from the feasible ones
    squares: FloatArray  # sum of squares of each column, (q,)
    v: FloatArray  # sum of beta_i x_i, (q,)
    v_low: FloatArray  # what is to be added to v
    error: FloatArray | None  # of v + v_low, if sums are exact


def evaluation_of(primal: float, gap: float, rounding: float, infeasibility: float, at_zero: float) -> Evaluation:
    """Return the evaluation of a point.

    Parameters
    ----------
    primal, gap : float
        The gap includes `rounding`, the estimated rounding error of both objectives.
    infeasibility : float
        Largest violation of the constraints of the dual problem.
    at_zero : float
        Objective of f = 0.
    """
    unit, gap = _LEAST_OBJECTIVE * at_zero, gap if np.isfinite(gap) else float("inf")
    found = Evaluation(primal, gap, np.zeros(1), infeasibility, np.zeros(1), unit)
    if gap == 0.0:
        return found
    largest = max(unit, abs(primal), abs(primal - gap)) if np.isfinite(gap) else 1.0
    return found._replace(violation=np.array([found.relative_gap]), rounding=np.array([min(rounding, gap) / largest]))


class WeightsEvidence(Evidence):
    """Evidence whose point has weights of columns; the violation of its certificate is the relative gap."""

    convex = True

    @property
    def scale(self) -> FloatArray:
        """1: the violation is the relative gap."""
        return np.ones(1)

    @property
    @abstractmethod
    def signs_from(self) -> FloatArray:
        """The weights of the columns, if they are at most sqrt(2 gap) from those of the optimum; otherwise zeros."""


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
        Whether sums are computed without rounding errors; see :mod:`mercer.linear.exact_sums`.
    """

    problem: LinearProblem
    w: FloatArray
    beta: RowNumbers
    low: RowNumbers | None = None
    is_exact: bool = False

    @property
    def signs_from(self) -> FloatArray:
        """The normal vector, (p,); zeros with the l1 penalty."""
        weights = self.w[: self.problem.rows.p]
        return weights if self.problem.l1_ratio == 0.0 else np.zeros_like(weights)

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
          matters at kinks: a row whose margin is 1 after rounding has no loss, but its exact loss may be C e.
        - v may be farther from w by its own error.
        - With a free bias, the coefficients of the sign with the larger sum are scaled down so that the sum is 0, and
          with the l1 penalty, all are scaled down so that |v_j| <= 1. A factor 1 - t costs at most t times the losses,
          or t times the dual value.
        """
        problem = self.problem
        n = problem.rows.n
        with np.errstate(all="ignore"):  # huge columns overflow; the gap is infinite then
            sums = _sums(self, products, independent=independent)
            lengths = lengths_of(problem, sums.squares)
            errors = rounding_of_sums(n) * sums.length * lengths if sums.error is None else sums.error
            rounding = sums.rounding + rounding_of_sums(n) * sums.terms
            imbalance = scaled = 0.0
            if problem.bias is Bias.FREE and sums.mass > 0.0:
                imbalance = abs(float(sums.v[-1] + sums.v_low[-1]))
                scaled = 2.0 * (imbalance + float(errors[-1])) / sums.mass
                errors = errors + scaled * sums.length * lengths
                rounding += scaled * sums.loss
            penalty, apart, unsure, excess = self._penalty(sums, errors)
            primal = penalty + sums.loss
            rounding += unsure + rounding_of_sums(self.w.size) * penalty
            gap = max(0.0, apart + sums.excess)
            rounding += excess / (1.0 + excess) * max(0.0, primal - gap)
            gap += rounding
        infeasibility = max(sums.infeasibility, excess, imbalance)
        if scaled > 2.0 * _OFF_BALANCE or excess > 1.0:
            gap = float("inf")
        return evaluation_of(primal, gap, rounding, infeasibility, sums.loss_at_zero)

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
    found = []
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
        found += [evidence.evaluate(products=own) for evidence, own in zip(some, products, strict=True)]
    return found


def _sums(evidence: LinearEvidence, products: Products | None, *, independent: bool) -> _Sums:
    """Return the sums of a sweep; all of them are 0 for rows whose charge is 0."""
    problem, w, beta = evidence.problem, evidence.w, evidence.beta
    loss, q, constant = problem.loss, problem.n_columns, problem.constant
    v: Any = np.zeros((2, q), dtype=np.longdouble if independent else np.float64)
    squares, error = np.zeros(q), np.zeros(q) if evidence.is_exact else None
    numbers = np.zeros(6)  # loss, loss_at_zero, excess, terms, mass, length²
    infeasibility = rounding = 0.0
    for part in problem.parts():
        table, y, charge = part.block.table, part.targets, part.charges
        own = np.asarray(beta[part.block.at], dtype=np.float64)
        near = np.empty(own.shape)
        for rows in _tiles(own.size):
            near[rows] = loss.feasible(own[rows], y[rows], charge[rows])
            infeasibility = max(infeasibility, float(np.abs(own[rows] - near[rows]).max(initial=0.0)))
        own_squares = column_squares(table, constant) if independent else part.block.squares(constant)
        squares += own_squares
        low = np.zeros(y.shape)
        if error is not None:
            more = None if evidence.low is None else _second(loss, evidence.low[part.block.at], near, y, charge)
            found = exact_products(table, constant, w, near, more)
            z, low, sums = found.z, found.z_low, np.array([found.v, found.v_low])
            error += found.error
        elif products is not None:
            z, sums = products
        elif independent:
            z, sums = long_products(table, constant, w, near)
        else:
            z, sums = times(table, constant, w), transposed_times(table, constant, near)
        v[0] += sums if error is None else sums[0]
        v[1] += 0.0 if error is None else sums[1]
        if not loss.classifies:  # the loss depends on z - y only
            z, y = (z - y) + low, np.zeros(y.shape)
        deviation = _EPS * float(np.sqrt(z @ z))
        if error is None:
            deviation += rounding_of_sums(w.size) * float(np.abs(w[w != 0.0]) @ np.sqrt(own_squares[w != 0.0]))
        steepness = 0.0
        for rows in _tiles(own.size):
            numbers += _row_sums(loss, z[rows], near[rows], y[rows], charge[rows])
            numbers[1] += loss.total_at_zero(part.targets[rows], charge[rows])
            slopes = np.abs(_steepest(loss, z[rows], y[rows], charge[rows], deviation))
            slopes = 2.0 * slopes + np.abs(near[rows])  # of the loss, and of its excess over beta z
            steepness += float(slopes @ slopes)
        rounding += steepness**0.5 * deviation
    total, at_zero, excess, terms, mass, length = (float(number) for number in numbers)
    high, second = v.astype(np.float64)
    return _Sums(
        total, at_zero, excess, terms, mass, length**0.5, rounding, infeasibility, squares, high, second, error
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


def _steepest(loss: LinearLoss, z: FloatArray, y: FloatArray, charge: FloatArray, error: float) -> FloatArray:
    """Return the steepest slope of each loss within the rounding error `error` of the decision values.

    Losses are convex and least on one side of the target, so that it is where the error makes the loss larger.
    """
    return loss.coefficient(z - np.copysign(error, y if loss.classifies else y - z), y, charge)


def long_products(table: Any, constant: float, w: FloatArray, beta: FloatArray) -> tuple[FloatArray, Any]:
    """Return the products of the rows with `w` in float64, and sum_i beta_i x_i, by sums in longdouble.

    They have the shapes of `beta` and of `w`: (m,) and (q,), or (m, K) and (q, K).
    """
    m, p = table.shape
    long_w, long_beta = w.astype(np.longdouble), beta.astype(np.longdouble)
    z, v = np.empty(beta.shape), np.zeros(w.shape, dtype=np.longdouble)
    height = max(1, _LONG_VALUES // max(1, p))
    for first in range(0, m, height):
        rows = slice(first, first + height)
        tile = table[rows].astype(np.longdouble)
        values = tile @ long_w[:p]
        v[:p] += tile.T @ long_beta[rows]
        z[rows] = values + constant * long_w[p] if constant else values
    if constant:
        v[p] = constant * long_beta.sum(axis=0)
    return z, v


@dataclass(frozen=True)
class LinearCertificate(LossCertificate):
    """How far a linear machine is from the optimum of its problem, over all rows.

    Every number is computed in float64, in one sweep over the rows, from the weights and the dual coefficients alone.

    Attributes
    ----------
    status : Status
        `optimal` if the relative gap, rounding included, is at most `tol`. Otherwise it says how the fit ended.
    primal, dual : float
        The objective P, and the lower bound P - gap on the optimum.
    gap : float
        P minus the dual objective, plus an estimate of the rounding errors of both: no other machine has an objective
        that is smaller by more than this. Infinite if the dual coefficients are not feasible.
    relative_gap, violation : float
        gap / max(|P|, |P - gap|), where the denominator is at least 1e-8 times the objective of f = 0.
    dual_infeasibility : float
        Largest violation of the constraints of the dual problem: for a free bias the sum of the coefficients, for the
        l1 penalty by how much |sum_i beta_i x_ij| exceeds 1. The gap includes what it costs.
    rounding : float
        The part of the relative gap that estimates rounding errors.
    n_iter : int
        Steps of the solver.
    n_kernel_values : int
        0.
    seconds : float
        Time of the fit, including this certificate.
    peak_memory_bytes : int
        Largest memory of the matrices and of the numbers of each row of the fit, without the table.
    tol : float
        The tolerance for the relative gap, `tol_gap`.
    parts : tuple of LinearCertificate
        Certificates of the machines for two classes, if there are several.
    """

    @property
    def advice(self) -> str:
        """What the status means and what to do about it."""
        if self.status is not Status.STALLED:
            return super().advice
        if self.rounding > 0.5 * self.tol:
            return (
                f"Rounding errors in float64 alone may be {self.rounding:.2g} of the objective, so that a gap of "
                f"{self.tol:g} cannot be proved. Subtract a constant from columns or targets that are far from 0, "
                "divide large columns, lower C, or set a larger tol_gap."
            )
        return (
            "Rounding errors of the steps or of the weights in float64, or columns that nearly depend on each other, "
            "prevented further progress; the gap is a true bound. Subtract a constant from columns or targets that "
            "are far from 0, scale the columns (StandardScaler), lower C, or set a larger tol_gap."
        )

    def proved_signs(self) -> FloatArray:
        """Return the proved sign of each weight of the exact optimum: -1.0 or +1.0, and 0.0 if it is not proved.

        With the l2 penalty, the weights are at most sqrt(2 gap) from those of the optimum, in Euclidean distance. The
        sign of each larger weight is therefore proved. The bias is left out. With the l1 penalty there is no such
        bound, and no sign is proved. For several machines, the result has shape (n_parts, p), and for the
        joint machine of several classes (n_classes, p).

        Raises
        ------
        ValueError
            If the weights are missing, because pickling a certificate does not store them.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import LinearSVC
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> machine = LinearSVC(loss="hinge", C=0.01, tol_gap=0.1).fit(X, X[:, 0] - X[:, 1] > 0)
        >>> machine.certificate_.proved_signs()[:2]  # the third coefficient is about 0
        array([ 1., -1.])
        """
        if self.parts:
            return np.array([part.proved_signs() for part in self.parts])  # type: ignore[attr-defined]
        if not isinstance(self.evidence, WeightsEvidence):
            raise ValueError(
                "this certificate does not have the weights, because it was pickled, which leaves them behind. Fit "
                "again, or ask before pickling."
            )
        weights = self.evidence.signs_from
        return np.where(np.abs(weights) > (2.0 * self.gap) ** 0.5, np.sign(weights), 0.0)


def certify_linear(
    evidence: WeightsEvidence,
    ended: Status,
    *,
    tol: float,
    n_iter: int,
    seconds: float,
    peak_memory_bytes: int,
    found: Evaluation | None = None,
) -> LinearCertificate:
    """Return the certificate of a point, in one sweep over the rows unless its evaluation is `found`."""
    certificate = certify(
        evidence,
        evidence.evaluate() if found is None else found,
        ended,
        tol=tol,
        n_iter=n_iter,
        n_kernel_values=0,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
    )
    return LinearCertificate(**{name: getattr(certificate, name) for name in certificate.__dataclass_fields__})
