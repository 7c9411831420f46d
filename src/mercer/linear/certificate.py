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
from mercer.linear.dual_point import rounding_of_sums, without_rounding
from mercer.linear.losses import LinearLoss
from mercer.linear.problem import Bias, LinearProblem, Penalty
from mercer.linear.rows import RowNumbers
from mercer.linear.sweeps import column_squares, times, transposed_times
from mercer.losses.certificate import Evaluation, Evidence, LossCertificate, certify

_OFF_BALANCE = 1e-9  # largest |sum of beta| that counts as rounding, as a share of the sum of |beta|; free bias only
_LEAST_OBJECTIVE = 1e-8
"""Share of the objective of f = 0 with which a gap is compared at least. An objective below it is 0 to rounding."""

_AT_A_TIME = 16  # problems whose points are evaluated in one sweep

Products = tuple[FloatArray, FloatArray]
"""The products of the rows with w, (n,), and the sum of beta_i x_i for feasible coefficients, (q,)."""

_LONG_VALUES = 1 << 20  # values of a table that are converted to longdouble at a time: 16 MiB


_TILE = 1 << 13  # rows whose losses are computed at a time


class _Sums(NamedTuple):
    """Sums over the rows: losses at w and at f = 0, and what the dual coefficients give."""

    loss: float
    loss_at_zero: float
    dual: float
    v: FloatArray  # sum of beta_i x_i, (q,)
    total: float  # sum of beta, without the constant
    mass: float  # sum of |beta|
    length: float  # Euclidean norm of beta
    slope: float  # Euclidean norm of the steepest slopes of the losses within the rounding errors of f
    infeasibility: float  # largest distance of a coefficient from the feasible ones
    squares: FloatArray  # sum of squares of each column, (q,)


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
    """

    problem: LinearProblem
    w: FloatArray
    beta: RowNumbers

    @property
    def signs_from(self) -> FloatArray:
        """The normal vector, (p,); zeros with the l1 penalty."""
        weights = self.w[: self.problem.rows.p]
        return weights if self.problem.penalty is Penalty.L2 else np.zeros_like(weights)

    def evaluate(self, *, independent: bool = False, products: Products | None = None) -> Evaluation:
        """Evaluate the point in one sweep over the rows; with `independent`, in longdouble by NumPy alone.

        Parameters
        ----------
        independent : bool
        products : tuple of ndarray, optional
            The products of the sweep, if the problem has one block and they are known; see :func:`evaluate_each`.

        Notes
        -----
        The dual value uses v = sum_i beta_i x_i, never the solver's w. Rounding errors of the sums are estimated from
        the lengths of the columns and added to the gap, so that it stays an upper bound. Coefficients outside their
        bounds are moved to the bounds first.

        Where v_j differs from its optimal value, w_j, by no more than its own rounding error, the optimal value is
        taken, at the cost of |w_j| times that error. For columns of huge values nothing else is possible, because
        float64 has no coefficients with a smaller difference. The gap is then that of a table that differs from the
        given one by a few units of roundoff.

        A rounding error e of a decision value changes its loss by at most e times the steepest slope within e. This
        matters at kinks: a row whose margin is 1 after rounding has no loss, but its exact loss may be C e.
        """
        problem = self.problem
        counted = problem.counted
        with np.errstate(all="ignore"):  # huge columns overflow; the gap is infinite then
            sums = _sums(problem, self.w, self.beta, products, independent=independent)
            lengths = lengths_of(problem, sums.squares)
            errors = rounding_of_sums(problem.rows.n) * sums.length * lengths  # of the elements of v
            v = without_rounding(problem, self.w, sums.v, errors)
            penalty, dual, slack, excess = self._penalties(sums, v, counted)
            primal = penalty + sums.loss
            rounding = sums.slope * rounding_of_sums(self.w.size) * float(np.abs(self.w) @ lengths)
            if problem.penalty is Penalty.L2:
                is_exact = np.abs(sums.v - self.w) <= errors
                rounding += float((counted * np.where(is_exact, np.abs(self.w), np.abs(v) + errors)) @ errors)
            else:
                rounding += float((counted * np.abs(self.w)) @ errors)
            rounding += rounding_of_sums(problem.rows.n) * (primal + sums.loss + abs(sums.dual)) + slack
            gap = max(0.0, primal - dual) + rounding
        infeasibility = max(sums.infeasibility, excess)
        if problem.bias is Bias.FREE:
            infeasibility = max(infeasibility, abs(sums.total))
        if not self._is_feasible(sums, excess):
            gap = float("inf")
        return evaluation_of(primal, gap, rounding, infeasibility, sums.loss_at_zero)

    def _penalties(self, sums: _Sums, v: FloatArray, counted: FloatArray) -> tuple[float, float, float, float]:
        """Return the penalty, the dual value, what an imbalance costs, and by how much v exceeds its bound."""
        problem, w = self.problem, self.w
        drift = abs(float(w[-1]) * sums.total) if problem.bias is Bias.FREE else 0.0
        if problem.penalty is Penalty.L2:
            return 0.5 * float(counted @ np.square(w)), sums.dual - 0.5 * float(counted @ np.square(v)), drift, 0.0
        excess = max(0.0, float(np.abs(v[counted > 0.0]).max(initial=0.0)) - 1.0)
        penalty = float(counted @ np.abs(w))
        # The optimum has sum |w_j| <= P(w), so a violation of the bound by `excess` costs at most this.
        return penalty, sums.dual, drift + excess * (penalty + sums.loss), excess

    def _is_feasible(self, sums: _Sums, excess: float) -> bool:
        """Whether the dual point is feasible up to rounding."""
        balanced = self.problem.bias is not Bias.FREE or abs(sums.total) <= _OFF_BALANCE * sums.mass
        return bool(balanced and excess <= 1.0)


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


def _sums(
    problem: LinearProblem, w: FloatArray, beta: RowNumbers, products: Products | None, *, independent: bool
) -> _Sums:
    """Return the sums of a sweep; all of them are 0 for rows whose charge is 0."""
    loss, q, constant = problem.loss, problem.n_columns, problem.constant
    v: Any = np.zeros(q, dtype=np.longdouble if independent else np.float64)
    squares = np.zeros(q)
    numbers = np.zeros(7)  # loss, loss_at_zero, dual, total, mass, length², slope²
    infeasibility = 0.0
    for part in problem.parts():
        table, y, charge = part.block.table, part.targets, part.charges
        own = np.asarray(beta[part.block.at], dtype=np.float64)
        near = np.empty(own.shape)
        for rows in _tiles(own.size):
            near[rows] = loss.feasible(own[rows], y[rows], charge[rows])
            infeasibility = max(infeasibility, float(np.abs(own[rows] - near[rows]).max(initial=0.0)))
        if products is not None:
            z, sums = products
        elif independent:
            z, sums = long_products(table, constant, w, near)
        else:
            z, sums = times(table, constant, w), transposed_times(table, constant, near)
        v += sums
        own_squares = column_squares(table, constant) if independent else part.block.squares(constant)
        squares += own_squares
        error = rounding_of_sums(w.size) * float(np.abs(w[w != 0.0]) @ np.sqrt(own_squares[w != 0.0]))
        for rows in _tiles(own.size):
            numbers += _row_sums(loss, z[rows], near[rows], y[rows], charge[rows], error)
    total, at_zero, dual, sum_beta, mass, length, slope = (float(number) for number in numbers)
    return _Sums(
        total,
        at_zero,
        dual,
        v.astype(np.float64),
        sum_beta,
        mass,
        length**0.5,
        slope**0.5,
        infeasibility,
        squares,
    )


def _tiles(n: int) -> Iterator[slice]:
    """Return consecutive slices of rows whose temporary arrays stay in the cache."""
    return (slice(first, min(n, first + _TILE)) for first in range(0, n, _TILE))


def _row_sums(
    loss: LinearLoss, z: FloatArray, beta: FloatArray, y: FloatArray, charge: FloatArray, error: float
) -> tuple[float, ...]:
    """Return loss, loss at f = 0, dual value, sum of beta, of |beta|, of its squares and of those of the slopes.

    The slopes are the steepest ones within the rounding error `error` of the decision values: losses are convex and
    least on one side of the target, so that these are where the error makes the loss larger.
    """
    slopes = loss.coefficient(z - np.copysign(error, y if loss.classifies else y - z), y, charge)
    return (
        loss.total(z, y, charge),
        loss.total_at_zero(y, charge),
        loss.dual(beta, y, charge),
        float(beta.sum()),
        float(np.abs(beta).sum()),
        float(beta @ beta),
        float(slopes @ slopes),
    )


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
            "Rounding errors, or columns that nearly depend on each other, prevented further progress; the gap is a "
            "true bound. Scale the columns (StandardScaler), lower C, or set a larger tol_gap."
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
