"""Linear machines by the kernel engine: the exact solvers of kernel machines, with the kernel <x, x'> + constant²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.solution import Solution
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram
from mercer.gram.rows.table_rows import TableRows
from mercer.kernels import Kernel, Linear
from mercer.problems import Problem, Problems, c_svc_each, epsilon_svr
from mercer.problems.linear import Bias, LinearProblem
from mercer.problems.losses import EpsilonInsensitive, SquaredEpsilonInsensitive, SquaredHinge
from mercer.solvers import Control, solve, solve_each
from mercer.solvers.rows.dual_descent import DualPoint, recompute

MOST_ROWS = 30_000
"""Largest number of rows for which the kernel engine is used; its time grows at least with the square of n."""

VIOLATION = 1e-2
"""KKT violation at which the engine first looks at the gap, as a share of 1 or of the largest target. It is lowered
until the gap is met."""


def engine_solves(problem: LinearProblem) -> bool:
    """Whether the kernel engine can solve the problem: few rows in memory, the l2 penalty, and a loss with a power."""
    rows = problem.rows
    few = isinstance(rows, TableRows) and rows.n <= MOST_ROWS
    return few and problem.l1_ratio == 0.0 and problem.loss.power is not None


def linear_gram(
    problem: LinearProblem, *, memory_limit: int | None = None, n_jobs: int | None = None, shared: bool = False
) -> Gram:
    """Return the Gram matrix of the rows of a problem, whose products include the constant of a penalised bias.

    With `shared`, rows of the matrix are cached for the problems of other classes, if all of them fit.
    """
    rows = problem.rows
    assert isinstance(rows, TableRows)
    cache_policy = CachePolicy.FULL if shared else CachePolicy.NONE
    return Gram(
        kernel_of(problem), as_data(rows.table), memory_limit=memory_limit, n_jobs=n_jobs, cache_policy=cache_policy
    )


def kernel_of(problem: LinearProblem) -> Kernel:
    """Return the kernel <x, x'>, plus the square of the constant of a penalised bias."""
    kernel: Kernel = Linear()
    return kernel + problem.constant**2 if problem.bias is Bias.PENALISED else kernel


def finish(
    problems: Sequence[LinearProblem], points: Sequence[DualPoint], gram: Gram, control: Control
) -> list[Solution]:
    """Solve problems on the same rows, from `points`, which become the solutions.

    Parameters
    ----------
    problems : sequence of LinearProblem
        Problems that differ in their targets and charges only, such as those of the classes; see
        :func:`engine_solves`.
    points : sequence of DualPoint
        Warm starts; changed in place.
    gram : Gram
        See :func:`linear_gram`.
    control : Control
        Its `tol_gap` is the largest relative duality gap. Its limits are for all problems together.

    Returns
    -------
    list of Solution
        What the engine says of each problem. Its certificate is that of the engine, with kernel values; the point is
        to be certified again on the rows.

    Notes
    -----
    Rows whose charge is 0 are left out. If the same rows count in all problems, the problems are solved together and
    share kernel values. A free bias is the bias of the kernel machine.
    """
    parts = [_part_of(problem) for problem in problems]
    limits = replace(control.limits, tol=VIOLATION * max(scale for *_, scale in parts))
    control = control.with_limits(limits)
    same = all(np.array_equal(used, parts[0][0]) for used, *_ in parts)
    if same and len(problems) > 1 and problems[0].loss.classifies:
        solutions = _solve_together(problems, points, parts, gram, control)
    else:
        solutions = [_solve(*one, gram, control) for one in zip(problems, points, parts, strict=True)]
    for problem, point, (used, *_), solution in zip(problems, points, parts, solutions, strict=True):
        beta = np.zeros(problem.rows.n)
        beta[used] = _coefficients(problem, solution.beta, used.size)
        point.beta[slice(None)] = beta
        recompute(problem, point)
        if problem.bias is Bias.FREE:
            point.w[-1] = solution.bias
    return solutions


def _part_of(problem: LinearProblem) -> tuple[IndexArray, FloatArray, FloatArray, float]:
    """Return the rows that count, their targets and charges, and the size of a target."""
    (part,) = problem.parts()
    used = np.flatnonzero(part.charges > 0.0)
    y, charges = part.targets[used], part.charges[used]
    scale = 1.0 if problem.loss.classifies else float(np.abs(y).max(initial=0.0))
    return used, y, charges, scale or 1.0


def _solve(
    problem: LinearProblem,
    point: DualPoint,
    part: tuple[IndexArray, FloatArray, FloatArray, float],
    gram: Gram,
    control: Control,
) -> Solution:
    used, y, charges, _ = part
    dual = _dual_of(problem, y, charges)
    view = gram if used.size == gram.n else gram.restrict(used)
    return solve(dual, view, control=control, start=_start(problem, point, used))


def _solve_together(
    problems: Sequence[LinearProblem],
    points: Sequence[DualPoint],
    parts: Sequence[tuple[IndexArray, FloatArray, FloatArray, float]],
    gram: Gram,
    control: Control,
) -> list[Solution]:
    used = parts[0][0]
    signs, charges = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    sizes = np.full(len(parts), used.size)
    duals = _machines(problems[0], signs, charges, sizes)
    view = gram if used.size == gram.n else gram.restrict(used)
    pairs = np.tile([0, -1], (len(parts), 1))
    starts = [_start(problem, point, used) for problem, point in zip(problems, points, strict=True)]
    with control.interruption:
        return list(solve_each(duals, view, [np.arange(used.size)], pairs, control=control, starts=starts))


def _machines(problem: LinearProblem, signs: FloatArray, charges: FloatArray, sizes: npt.NDArray[Any]) -> Problems:
    squared = isinstance(problem.loss, SquaredHinge)
    return c_svc_each(signs, charges, sizes, squared=squared, bias=problem.bias is Bias.FREE, one_sided=True)


def _dual_of(problem: LinearProblem, y: FloatArray, charges: FloatArray) -> Problem:
    loss = problem.loss
    if isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive):
        squared = isinstance(loss, SquaredEpsilonInsensitive)
        dual = epsilon_svr(y, charges, loss.epsilon, squared=squared)
        return dual if problem.bias is Bias.FREE else dual.without_bias()
    return _machines(problem, y, charges, np.array([y.size]))[0]


def _start(problem: LinearProblem, point: DualPoint, used: IndexArray) -> FloatArray | None:
    """Return the variables of the kernel problem at `point`; None at 0."""
    beta = np.asarray(point.beta[slice(None)])[used]
    if not beta.any():
        return None
    if getattr(problem.loss, "epsilon", 0.0) > 0.0:
        return np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])
    return beta


def _coefficients(problem: LinearProblem, beta: FloatArray, n: int) -> FloatArray:
    return beta[:n] + beta[n:] if beta.size > n else beta
