"""Machines of several classes that are trained in turn, each with an equal share of the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.dual_point import rounding_of_sums
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.linear_solution import LinearRun, LinearSolution, WarmStart
from mercer.certificates.smooth import Evaluation, KKTNumbers
from mercer.certificates.status import Status
from mercer.gram.rows.table_rows import ZeroNumbers, charges_of
from mercer.problems.linear import Bias, LinearProblem, Part
from mercer.problems.losses import LinearLoss
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor
from mercer.solvers.rows.certified import gap_tolerance

Train = Callable[[int, Control, "WarmStart | None"], LinearSolution]
"""Trains the machine of this number; the point is that of an earlier turn, if there was one."""


def in_turns(problems: Sequence[LinearProblem], control: Control, train: Train) -> list[LinearSolution]:
    """Train machines one after the other, and return their solutions.

    With a time limit, a machine that its share of the time does not suffice for is continued after all others had their
    turn. Machines for which no time is left are f = 0, so that the limit holds for any number of classes.
    """
    monitor, n_problems = SolverMonitor(control), len(problems)
    solutions: list[LinearSolution | None] = [None] * n_problems
    waiting = list(range(n_problems))
    while waiting:
        cut = []
        for place, number in enumerate(waiting):
            ending, earlier = monitor.stop_reason, solutions[number]
            if ending is not None and (number or place):  # the first one says why it ended
                break
            left = monitor.left().for_machine(number, n_problems)
            if left.limits.max_seconds is not None:
                share = left.limits.max_seconds / (len(waiting) - place)
                left = left.with_limits(replace(left.limits, max_seconds=share))
            solutions[number] = one = train(number, left, earlier)
            if one.certificate.status is Status.TIME_LIMIT:
                cut.append(number)
        else:
            waiting = [] if monitor.is_stopped() else cut
            continue
        break
    ending = monitor.stop_reason or Status.TIME_LIMIT
    tol = gap_tolerance(control)
    rest = iter(
        _untrained([problem for problem, one in zip(problems, solutions, strict=True) if one is None], ending, tol)
    )
    return [next(rest) if one is None else one for one in solutions]


def _untrained(problems: Sequence[LinearProblem], ending: Status, tol: float) -> list[LinearSolution]:
    """Return the machines f = 0 of problems on the same rows.

    The objective is the loss of f = 0, and the lower bound is that of dual coefficients of 0, which is 0. The labels
    are read once for all classes of a table.
    """
    solutions = list[LinearSolution]()
    masses = _masses(problems[0]) if problems and problems[0].loss.classifies else None
    for problem in problems:
        w, beta = np.zeros(problem.n_columns), ZeroNumbers(problem.rows.n)
        loss = _loss_at_zero(problem, masses)
        is_hard = np.isinf(loss)  # with C = inf
        rounding = 0.0 if is_hard else rounding_of_sums(problem.rows.n) * loss
        conditions, dual = _conditions_at_zero(problem), 0.0 if is_hard else None
        at_zero = Evaluation(loss, loss, rounding, 0.0, 0.0, np.zeros(1), kkt=conditions, dual=dual)
        run = LinearRun(0, 0.0, [], "no step", "The limits left no time for this machine.", w.nbytes)
        solutions.append(LinearSolution.certified(LinearEvidence(problem, w, beta), at_zero, ending, tol, run))
    return solutions


def _conditions_at_zero(problem: LinearProblem) -> KKTNumbers | None:
    """Return the KKT violation of f = 0 and of dual coefficients of 0; None for regression and logistic loss."""
    zeros = np.zeros(2)
    conditions = problem.loss.conditions(zeros, zeros, np.array([-1.0, 1.0]), np.ones(2))
    if conditions is None or not problem.loss.classifies:
        return None
    return KKTNumbers(conditions.violation(has_free_bias=problem.bias is Bias.FREE), 0, 0)


def _masses(problem: LinearProblem) -> FloatArray:
    """Return the sum of the weights of the rows of each class, (n_classes,)."""
    masses: _Masses = problem.total(_masses_of_part, reads_table=False)
    return masses.values


class _Masses(NamedTuple):
    """Sums for the first classes."""

    values: FloatArray

    def joined(self, other: _Masses) -> _Masses:
        """Return the sums over two sets of rows."""
        n_classes = max(len(self.values), len(other.values))
        first, second = (np.pad(one, (0, n_classes - len(one))) for one in (self.values, other.values))
        return _Masses(first + second)


def _masses_of_part(part: Part) -> _Masses:
    block, counted = part.block, part.block.weights > 0.0
    weights = np.asarray(block.weights[counted], dtype=np.float64)
    return _Masses(np.bincount(block.labels[counted].astype(np.intp), weights).astype(np.float64))


def _loss_at_zero(problem: LinearProblem, masses: FloatArray | None) -> float:
    """Return the loss of f = 0, which does not depend on the class that is positive."""
    if masses is None:
        return float(problem.total(_at_zero, problem.loss, reads_table=False))
    factors = None if problem.class_weights is None else problem.class_weights[: masses.size]
    return problem.loss.total_at_zero(np.ones(masses.size), charges_of(problem.C, masses, factors))


def _at_zero(part: Part, loss: LinearLoss) -> float:
    return loss.total_at_zero(part.targets, part.charges)
