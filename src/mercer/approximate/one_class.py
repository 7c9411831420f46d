"""The one-class machine on features, by hinge losses: its level rho is found by a search along a convex function."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.approximation import level_of
from mercer.certificates.certificate import Certificate, relative_gap
from mercer.certificates.status import Status
from mercer.data.files import DamagedFileError, State
from mercer.gram.rows import LinearRows
from mercer.gram.rows.sweeps import times, transposed_times
from mercer.solvers import Control
from mercer.solvers.rows import Bias, Hinge, LinearPoint, LinearProblem, solve_each

_MOST_LEVELS = 40  # levels that are tried; 5 to 12 were enough in tests
_MARGIN = 0.02  # share of the interval of levels that a step keeps from its ends
_LEAST = 1e-90  # level that features in single precision can have
_GROWTH = 1.5  # of the level while none is known to be too large
_SMALL = 1e-3  # times the gap asked for: share of the objective of equal coefficients that counts as 0
_FINER = 0.1  # gap of a problem at a level, as a share of the gap that is asked for
_NARROW = 1e-3  # share of the level: a narrower interval whose gap is too large has an end that is not exact enough


class OneClass(NamedTuple):
    """The weights of a one-class machine, the dual coefficients of the rows, and its certificate."""

    w: FloatArray
    beta: FloatArray
    certificate: Certificate


def _state_of(level: float) -> State:
    return {}, {"level": np.array([level])}


def _decoded_level(header: Any, arrays: Mapping[str, FloatArray]) -> float:
    del header
    (level,) = arrays["level"].tolist()
    if not _LEAST < level < np.inf:
        raise DamagedFileError("its number is not a level")
    return float(level)


class _End(NamedTuple):
    """A dual point with its sum, and the weights that belong to it: an end of the interval of levels."""

    level: float
    beta: FloatArray
    total: float
    w: FloatArray


def solve_one_class(
    rows: LinearRows, weights: FloatArray, nu: float, control: Control, tol_gap: float, n_jobs: int | None = None
) -> OneClass:
    """Minimise 1/2 ||w||^2 + sum_i v_i max(0, rho - <w, x_i>) - nu rho sum_i v_i over w and rho.

    For a fixed rho, w / rho minimises 1/2 ||u||^2 + sum_i v_i / rho max(0, 1 - <u, x_i>), hinge losses of rows of one
    class. With the dual point beta of that problem, times rho, the optimal rho is where sum_i beta_i = nu sum_i v_i,
    and the sum grows with rho. A mixture of the points of two levels has this sum exactly, so that it is feasible: it
    gives the lower bound of the gap. The labels of the rows are 1.
    """
    began = time.perf_counter()
    needed = nu * float(weights.sum())
    beta = nu * weights
    w = _sum_of(rows, beta, n_jobs)
    low = none = _End(0.0, np.zeros_like(beta), 0.0, np.zeros_like(w))
    high = all_rows = _End(np.inf, weights, float(weights.sum()), w / nu)
    level = max(level_of(_values(rows, w, n_jobs), weights, nu), 1e-3 * float(w @ w) / needed)
    level = level if level > _LEAST else 1.0  # all features are 0, and so is the objective
    reached = None if control.checkpoint is None else control.checkpoint.load("level", _decoded_level)
    level = level if reached is None else reached
    best_w, best, point, lower, gap = np.zeros_like(w), 0.0, beta, -0.5 * float(w @ w), np.inf  # f = 0 and rho = 0
    small, repeated = _SMALL * tol_gap * abs(lower), 0
    start: LinearPoint | None = None
    inner_gap, n_iter, status = _FINER * tol_gap, 0, Status.STALLED
    for _ in range(_MOST_LEVELS):
        if control.checkpoint is not None:
            control.checkpoint.pend("level", partial(_state_of, level))
        problem = LinearProblem(rows, Hinge(), C=1.0 / level, bias=Bias.NONE, positive=1)
        left = control.after(time.perf_counter() - began, n_iter)
        (solution,) = solve_each(
            [problem], left.with_limits(replace(left.limits, tol_gap=inner_gap)), starts=[start], n_jobs=n_jobs
        )
        start = LinearPoint(solution.w, solution.beta, solution.C)
        n_iter += solution.n_iter
        w, beta = level * solution.w, level * np.asarray(solution.beta[:], dtype=np.float64)
        beta = np.clip(beta, 0.0, weights)
        end = _End(level, beta, float(beta.sum()), _sum_of(rows, beta, n_jobs))
        repeated = abs(repeated) + 1 if repeated * (needed - end.total) > 0.0 else 1  # on the side of the last level
        if end.total <= needed:
            low = end
        else:
            high, repeated = end, -abs(repeated)
        share = (
            (needed - low.total) / (high.total - low.total) if low.total < needed else 0.0
        )  # they are equal if nu = 1
        mixed = (1.0 - share) * low.w + share * high.w
        if -0.5 * float(mixed @ mixed) >= lower:
            lower, point = -0.5 * float(mixed @ mixed), (1.0 - share) * low.beta + share * high.beta
        values = [_values(rows, candidate, n_jobs) for candidate in (w, mixed)]
        levels = [level_of(one, weights, nu) for one in values]
        for candidate, value, rho in zip((w, mixed), values, levels, strict=True):
            primal = 0.5 * float(candidate @ candidate) + float(weights @ np.maximum(0.0, rho - value)) - rho * needed
            if primal <= best:
                best, best_w = primal, candidate
        gap = relative_gap(best, lower)
        ended, is_small = control.out_of_time(began), gap <= tol_gap or best - lower <= small
        if is_small or ended is not None:
            status = Status.OPTIMAL if is_small else ended or Status.STALLED
            break
        if high.level - low.level < _NARROW * level:
            low, high, inner_gap, repeated = none, all_rows, _FINER * inner_gap, 0
        if np.isinf(high.level):
            level = max(levels[0], _GROWTH * level)
            continue
        # Interpolated; after levels on the same side, the other end counts half (the Illinois method).
        below, above = needed - low.total, high.total - needed
        halved = 0.5 ** max(0, abs(repeated) - 1)
        below, above = (below, halved * above) if repeated > 0 else (halved * below, above)
        share = below / (below + above)
        level = low.level + min(1.0 - _MARGIN, max(_MARGIN, share)) * (high.level - low.level)
    numbers: dict[str, Any] = {
        "primal": best,
        "dual": lower,
        "gap": max(0.0, best - lower),
        "relative_gap": max(0.0, gap),
        "absolute_gap": small,
    }
    certificate = replace(
        solution.certificate,
        status=status,
        n_iter=n_iter,
        tol_gap=tol_gap,
        kkt_violation=None,
        evidence=None,
        **numbers,
    )
    return OneClass(best_w, point, certificate)


def _values(rows: LinearRows, w: FloatArray, n_jobs: int | None) -> FloatArray:
    """Return the products of all rows with weights."""
    return np.concatenate([times(block.table, 0.0, w, n_jobs) for block in rows.blocks()])


def _sum_of(rows: LinearRows, beta: FloatArray, n_jobs: int | None) -> FloatArray:
    """Return the sum of all rows with these coefficients."""
    return sum(transposed_times(block.table, 0.0, beta[block.at], n_jobs) for block in rows.blocks())  # type: ignore[return-value]
