"""The maximal-margin machine (C = inf): nearest points of the classes' hulls first, then the machine itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.gram import Gram
from mercer.problems import Problem, nearest_points
from mercer.solution import InseparableError, Status
from mercer.solvers.base import Callback, FloatArray, Limits, Solution, drive
from mercer.solvers.batch_smo import BatchSMO
from mercer.solvers.interruption import Interruption

_DECIDED = 0.05  # with a violation below this share of the squared distance, the distance is certainly positive

NAME = "hard margin by nearest points"


def solve_hard_margin(
    problem: Problem,
    gram: Gram,
    reason: str,
    *,
    limits: Limits,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    interruption: Interruption,
) -> Solution:
    """Solve C-SVC with C = inf, or prove that it has no solution.

    The dual of an inseparable problem is unbounded, so a solver let loose on it would run for ever. The distance of
    the classes' convex hulls in feature space always exists; it is positive exactly when the classes can be
    separated. If it is, its nearest points scaled by 2 / distance^2 are the optimal alpha, and a few steps on the
    dual itself bring them to the tolerance. If it is not, the two coinciding points are the proof.

    Raises
    ------
    InseparableError
        If the hulls meet, to rounding. It names a pair of equal rows, or the rows whose weighted means coincide.

    References
    ----------
    Keerthi, Shevade, Bhattacharyya & Murthy (2000), sections 2-3.
    """
    rounds: list[Solution] = []
    if start is None or not start.any():
        rounds = _nearest(problem, gram, limits, callback, interruption)
        hulls = rounds[-1]
        squared = _squared_distance(hulls)
        if hulls.ended.is_final and squared <= _indistinct(hulls):
            raise _inseparable(gram, hulls.beta, squared)
        start = 2.0 / squared * hulls.beta if squared > 0.0 else None
        if limits.max_seconds is not None:
            spent = sum(solution.seconds for solution in rounds)
            limits = replace(limits, max_seconds=max(0.0, limits.max_seconds - spent))
    solution = drive(
        BatchSMO(), reason, problem, gram, limits=limits, start=start, callback=callback, interruption=interruption
    )
    solution.solver = NAME
    for earlier in rounds:
        solution.add_effort(earlier)
    return solution


def _nearest(
    problem: Problem, gram: Gram, limits: Limits, callback: Callback | None, interruption: Interruption
) -> list[Solution]:
    """Approach the hulls' nearest points until their distance is certainly positive, or nothing but rounding."""
    rounds: list[Solution] = []
    hull_problem = nearest_points(-problem.linear)
    tol, start = 1e-3 * float(gram.diag().max()), None
    while True:
        hulls = drive(
            BatchSMO(),
            "nearest points",
            hull_problem,
            gram,
            limits=replace(limits, tol=tol, tol_gap=None),
            start=start,
            callback=callback,
            interruption=interruption,
        )
        rounds.append(hulls)
        # 1/2 ||w||^2 exceeds its optimum by at most the violation of each class, whose weights sum to 1.
        squared = _squared_distance(hulls)
        decided = hulls.certificate.kkt_violation <= _DECIDED * squared or squared <= _indistinct(hulls)
        if decided or hulls.status not in (Status.OPTIMAL, Status.STATIONARY):
            return rounds
        tol, start = 0.1 * min(tol, hulls.certificate.kkt_violation), hulls.beta


def _squared_distance(hulls: Solution) -> float:
    return max(0.0, -2.0 * hulls.certificate.dual)


def _indistinct(hulls: Solution) -> float:
    """Squared distance that rounding alone could have made: the weights sum to 2, each value is off by `rounding`."""
    return 2.0 * hulls.certificate.rounding


def _inseparable(gram: Gram, beta: FloatArray, squared: float) -> InseparableError:
    weights = np.abs(beta)
    positive, negative = np.flatnonzero(beta > 0.0), np.flatnonzero(beta < 0.0)
    diagonal = gram.diag()
    between = diagonal[positive, None] + diagonal[None, negative] - 2.0 * gram.block(positive, negative)
    i, j = np.unravel_index(int(np.argmin(between)), between.shape)
    if between[i, j] <= 1e-14 * float(diagonal.max()):
        what = f"rows {positive[i]} and {negative[j]} are equal for this kernel and belong to different classes"
    else:
        used = np.flatnonzero(weights)
        shown = ", ".join(str(row) for row in used[:6]) + (", ..." if used.size > 6 else "")
        what = (
            f"weighted means of the two classes coincide in feature space to the precision of float64 (distance "
            f"{squared**0.5:.2g}; {used.size} rows: {shown}; their weights are in this error's `weights`)"
        )
    message = (
        f"C = inf needs classes that can be separated, but {what}. "
        "Use a finite C or another kernel, and scale the columns if their units differ."
    )
    return InseparableError(message, weights, squared**0.5)
