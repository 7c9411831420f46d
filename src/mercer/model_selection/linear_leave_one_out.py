"""Leave-one-out values of linear machines: in closed form while the active rows stay the same, else by a warm refit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from mercer._typing import FloatArray, IndexArray, TextArray
from mercer.certificates.status import Status
from mercer.cluster import Workers, while_wanted
from mercer.data.files import Checkpoint, DamagedFileError, State
from mercer.data.lazy import lazy_property
from mercer.gram.factorisation import cholesky
from mercer.gram.rows import DeviceRows
from mercer.gram.rows.sweeps import add_gram, times
from mercer.solvers import Control, Interruption, Limits
from mercer.solvers.loop import drive
from mercer.solvers.paths.loo_monitor import PassMonitor
from mercer.solvers.rows import Bias, LinearProblem, LinearSolution, Logistic, TableRows, solve
from mercer.solvers.rows.costs import MOST_COLUMNS
from mercer.solvers.rows.free_bias import best_changes, middle_change

_STATE = "rows"
_OPEN = "unknown"  # the rule of a row whose value is not found yet
_TOGETHER = 64  # rows whose values are found together
_TASKS_PER_BLOCK = 8  # of refits on workers; a task that is lost with its worker is short
_ONE_MORE_STEP = 1e-3  # factor of the gap with logistic loss: near the optimum a Newton step doubles the digits
_MOST_VALUES = 1 << 22  # decision values of rows times machines without a row that are in memory together
_LEFT = 1e-6  # of a curvature; what may remain of 1 - c h'H^-1 h before the formula loses its digits


class LinearLeftOut(NamedTuple):
    """Leave-one-out values.

    Attributes
    ----------
    raw : ndarray of shape (n, n_machines)
        Decision value of each row by each machine trained without it; NaN if the pass ended before.
    rule : ndarray of str of shape (n, n_machines)
    violation : float
        Largest relative gap of a machine without a row.
    """

    raw: FloatArray
    rule: TextArray
    violation: float


def linear_left_out(
    solutions: tuple[LinearSolution, ...],
    monitor: PassMonitor,
    tol_gap: float,
    n_jobs: int | None,
    checkpoint: Checkpoint | None = None,
    workers: Workers | None = None,
) -> LinearLeftOut:
    """Return the value of every row by the machines that are trained without it.

    Parameters
    ----------
    solutions : tuple of LinearSolution
        Machines on the same rows, in memory or on a device, solved to a small gap.
    monitor : PassMonitor
    tol_gap : float
        Relative gap of refits.
    n_jobs : int or None
    checkpoint : Checkpoint, optional
        Where finished rows are written, and from where they are taken.
    workers : Workers, optional
        They refit the machines, a task for some rows; by default this process does.

    Notes
    -----
    A row whose dual coefficient is 0 costs nothing: its loss is flat at the optimum, which is the same without it. For
    squared losses with the l2 penalty the objective is quadratic while no row enters or leaves the active rows. One
    Newton step from the full solution is then the exact solution without the row; it is checked by the decision values
    of all rows. All other rows are refitted from the full solution, and so are all rows with the logistic loss, whose
    objective is nowhere quadratic.
    """
    problems = [one.certificate.evidence.problem for one in solutions]
    n = problems[0].rows.n
    raw, rule = np.full((n, len(solutions)), np.nan), np.full((n, len(solutions)), _OPEN, dtype="<U21")
    worst = max(one.certificate.relative_gap for one in solutions)
    before = None if checkpoint is None else checkpoint.load(_STATE, partial(_decoded, raw.shape))
    if before is not None:
        raw[:], rule[:] = before.raw, before.rule
        worst = max(worst, before.violation)

    def state() -> State:
        names, codes = np.unique(rule, return_inverse=True)
        header = {"violation": worst, "rules": names.tolist()}
        return header, {"raw": np.where(np.isnan(raw), 0.0, raw), "rule": codes.reshape(rule.shape).astype(np.int32)}

    save = (lambda _: None) if checkpoint is None else checkpoint.after_step(_STATE)

    def steps() -> Iterator[float]:
        nonlocal worst
        for column, (problem, solution) in enumerate(zip(problems, solutions, strict=True)):
            rows = _Rows(problem, solution, raw[:, column], rule[:, column], monitor)
            for share in rows.passes(tol_gap, n_jobs, workers):
                worst = max(worst, rows.violation)
                save(state)
                yield (column + share) / len(solutions)
            worst = max(worst, rows.violation)

    drive(steps(), monitor)
    if checkpoint is not None:
        checkpoint.store(_STATE, state)
    return LinearLeftOut(raw, rule, worst)


def _decoded(shape: tuple[int, ...], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> LinearLeftOut:
    """Return the rows in the state of an earlier pass."""
    names, codes, raw = np.array(header["rules"], dtype="<U21"), arrays["rule"], arrays["raw"]
    if codes.shape != shape or raw.shape != shape or not 0 <= codes.min() <= codes.max() < len(names):
        raise DamagedFileError("its rows are not those of this machine")
    return LinearLeftOut(np.where(names[codes] == _OPEN, np.nan, raw), names[codes], float(header["violation"]))


class _Rows:
    """The rows of one machine, whose values and rules are written into arrays (n,)."""

    def __init__(
        self, problem: LinearProblem, solution: LinearSolution, raw: FloatArray, rule: TextArray, monitor: PassMonitor
    ) -> None:
        (self._part,) = problem.parts()
        self._problem, self._solution, self._raw, self._rule, self._monitor = problem, solution, raw, rule, monitor
        self._table, self.violation = self._part.block.table, 0.0
        self._z = times(self._table, problem.constant, solution.w)

    def passes(self, tol_gap: float, n_jobs: int | None, workers: Workers | None) -> Iterator[float]:
        """Find all values; yield the share of the rows that are done."""
        problem, part = self._problem, self._part
        loss, y, charges = problem.loss, part.targets, part.charges
        beta = loss.coefficient(self._z, y, charges) if loss.is_smooth else self._solution.beta[part.block.at]
        same = beta == 0.0
        self._raw[same] = self._z[same] + self._changes_without(np.flatnonzero(same), y, charges)
        self._rule[same] = np.where(charges[same] > 0.0, "not a support vector", "not trained on")
        if isinstance(loss, Logistic) and problem.bias is Bias.FREE:
            self._decide_without_a_class(y, charges)
        left = np.flatnonzero(np.isnan(self._raw))
        if (
            loss.is_smooth
            and not isinstance(loss, Logistic)
            and problem.l1_ratio == 0.0
            and problem.n_columns <= MOST_COLUMNS
        ):
            for rows in np.array_split(left, max(1, -(-left.size // _TOGETHER))):
                self._by_formula(rows, beta)
                yield 1.0 - float(np.isnan(self._raw).mean())
        for one in self._refitted(np.flatnonzero(np.isnan(self._raw)), tol_gap, n_jobs, workers):
            self._raw[one.rows], self._rule[one.rows] = one.values, "refitted"
            self.violation = max(self.violation, one.violation)
            yield 1.0 - float(np.isnan(self._raw).mean())

    def _refitted(
        self, left: IndexArray, tol_gap: float, n_jobs: int | None, workers: Workers | None
    ) -> Iterator[_Refitted]:
        """Yield the values of these rows by the machines that are fitted without them."""
        refits = _Refits(self._problem, self._solution, tol_gap)
        if workers is None:
            for row in left:
                yield refits.without(row[None], self._monitor, n_jobs)
        elif left.size:
            tasks = np.array_split(left, min(left.size, _TASKS_PER_BLOCK * workers.n_blocks))
            with closing(workers.in_order(_refits_of_task, refits, tasks, self._monitor.raise_if_stopped)) as done:
                yield from done

    def _changes_without(self, rows: IndexArray, y: FloatArray, charges: FloatArray) -> FloatArray:
        """Return by how much a free bias rises without each of these rows, whose coefficients are 0, (m,).

        It changes only without a row that alone determines an end of the interval of best biases.
        """
        changes, problem = np.zeros(rows.size), self._problem
        low, high = best_changes(problem, y, self._z, charges)
        if not high > low:
            return changes
        middle = middle_change(problem, y, self._z, charges)
        for place, row in enumerate(rows):
            change = best_changes(problem, y[[row]], self._z[[row]], charges[[row]])
            if charges[row] > 0.0 and {low, high} & set(change):
                others = charges.copy()
                others[row] = 0.0
                changes[place] = middle_change(problem, y, self._z, others) - middle
        return changes

    def _decide_without_a_class(self, y: FloatArray, charges: FloatArray) -> None:
        """Decide for the other class, by +1 or -1, in the only row of a class: without it, b would have no optimum."""
        for sign in (-1.0, 1.0):
            rows = np.flatnonzero((y == sign) & (charges > 0.0))
            if rows.size == 1:
                self._raw[rows], self._rule[rows] = -sign, "closed form"

    def _by_formula(self, rows: IndexArray, beta: FloatArray) -> None:
        """Take a Newton step without each of the rows, and keep those that change no other active row."""
        problem, part, constant = self._problem, self._part, self._problem.constant
        loss, y, charges = problem.loss, part.targets, part.charges
        curvature = loss.curvature(self._z, y, charges)
        if self._root is None or not rows.size:
            return
        half = times(self._table[rows], constant, self._root)
        remains = 1.0 - curvature[rows] * np.einsum("ij,ij->i", half, half)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = (half * (beta[rows] / remains)[:, None]) @ self._root.T  # w - w without the row
        fine = np.flatnonzero((remains > _LEFT) & np.isfinite(steps).all(axis=1))
        height = max(1, _MOST_VALUES // y.size)
        for some in (fine[first : first + height] for first in range(0, fine.size, height)):
            without = self._z[:, None] - times(self._table, constant, steps[some].T)
            for row, values in zip(rows[some], without.T, strict=True):
                changed = loss.curvature(values, y, charges) != curvature
                changed[row] = False
                if not changed.any():
                    self._raw[row], self._rule[row] = values[row], "closed form"

    @lazy_property
    def _root(self) -> FloatArray | None:
        """A matrix R with R R' = H^-1, (q, q), where H are the second derivatives; None if H is singular."""
        problem, part, q = self._problem, self._part, self._problem.n_columns
        curvature = problem.loss.curvature(self._z, part.targets, part.charges)
        second = np.zeros((q, q))
        add_gram(self._table, problem.constant, curvature, np.ones(q), second)
        second = np.triu(second) + np.triu(second, 1).T + np.diag(problem.counted)
        scales = 1.0 / np.sqrt(np.maximum(np.diag(second), np.finfo(np.float64).tiny))
        factor = second * scales * scales[:, None]
        if not cholesky(factor):
            return None
        return solve_triangular(factor, np.diag(scales), lower=True, check_finite=False).T


class _Refitted(NamedTuple):
    """Values of rows by machines without them, and the largest relative gap of these machines."""

    rows: IndexArray
    values: FloatArray
    violation: float


class _Refits(NamedTuple):
    """The problem of all rows and its solution, from which machines without a row are fitted."""

    problem: LinearProblem
    solution: LinearSolution
    tol_gap: float

    def without(self, left_out: IndexArray, monitor: PassMonitor, n_jobs: int | None) -> _Refitted:
        """Return the values of rows by the machines that are fitted without each of them."""
        problem, rows = self.problem, self.problem.rows
        assert isinstance(rows, TableRows | DeviceRows)
        (block,) = rows.blocks()
        tol_gap = self.tol_gap * (_ONE_MORE_STEP if isinstance(problem.loss, Logistic) else 1.0)
        values, violation = np.zeros(left_out.size), 0.0
        for place, row in enumerate(left_out):
            weights = block.weights.copy()
            weights[row] = 0.0
            without = replace(problem, rows=rows.with_weights(weights))
            limits = Limits(tol=tol_gap, tol_gap=tol_gap, max_seconds=monitor.seconds_left)
            control = Control(limits, None, monitor.control.interruption)
            solution = solve(without, control, start=self.solution, n_jobs=n_jobs)
            if solution.certificate.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
                monitor.raise_if_stopped()
            violation = max(violation, solution.certificate.relative_gap)
            values[place] = times(block.table[row : row + 1], problem.constant, solution.w)[0]
        return _Refitted(left_out, values, violation)


def _refits_of_task(refits: _Refits, rows: IndexArray) -> _Refitted:
    """Find the values of some rows, on a worker, as long as they are wanted."""
    interruption = Interruption()
    with while_wanted(interruption.request):
        return refits.without(rows, PassMonitor(interruption), 1)
