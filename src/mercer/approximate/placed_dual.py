"""A proved lower bound of the exact objective, from dual coefficients of rows that workers hold.

Rows with a coefficient are in **chunks**, whose number and order depend on the table alone. The quadratic term of the
dual objective is a sum over pairs of chunks, which the workers compute for pairs of their blocks. It is rounded once,
so that its digits depend neither on blocks nor on the order in which the workers end.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.expansion_evidence import PROVED_VALUES
from mercer.approximate.placed_task import TaskMaker
from mercer.approximate.task import Task
from mercer.certificates.approximation import DualSums, dual_of_sums, feasible_point, largest_linear
from mercer.certificates.roundoff import rounding_of_sums
from mercer.cluster import Workers, while_wanted
from mercer.cluster.joining import chained
from mercer.cluster.workers import Handle
from mercer.data import Data
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.multiclass.decision import decision_values
from mercer.problems import inner
from mercer.solvers import Interruption
from mercer.specs import ForOneClassSVM

_SAMPLE = 500  # rows from which the bound is estimated if its proof takes too long
_VALUES = 1 << 23  # kernel values between two looks at whether the result is still wanted; about 0.1 s


class Report(NamedTuple):
    """What is known of a chunk, apart from its rows.

    Attributes
    ----------
    n : int
        Number of rows.
    sums : ndarray of shape (n_machines, 2, 4)
        For each machine, for its positive and its negative variables: linear' beta, beta' R beta, beta' beta, and the
        sum of |beta|.
    size : float
        The largest sqrt(k(x, x)).
    roundoff : float
        Relative error of kernel values, in units of roundoff.
    target : float
        The largest size of the linear term of the dual problem.
    """

    n: int
    sums: FloatArray
    size: float
    roundoff: float
    target: float


class DualChunk(NamedTuple):
    """Rows with dual coefficients of the machines, (n, n_machines), within their bounds."""

    data: Data
    beta: FloatArray
    report: Report


def dual_chunk_of(task: Task, beta: FloatArray) -> DualChunk:
    """Return the chunk of the rows of a task with these coefficients, (n, n_machines), which are clipped to the box.

    For a detector of novelties, the sum of the coefficients becomes that of its rows: the share nu of their weights.
    """
    beta, spec, sums, target = beta.copy(), task.spec, np.zeros((beta.shape[1], 2, 4)), 0.0
    has_sum = isinstance(spec, ForOneClassSVM)
    for column, of_machine in enumerate(beta.T):
        used = np.flatnonzero(of_machine) if not has_sum else np.arange(task.n)
        if not used.size:
            continue
        targets = np.sign(of_machine[used]) if task.n_classes else task.targets[used]
        problem = spec.problem_of_some(targets.astype(np.float64), task.penalties[used], None)  # type: ignore[arg-type]
        if has_sum:
            point = feasible_point(problem, of_machine[used])
        else:
            spread = of_machine[used] if problem.rows is None else of_machine[used][problem.rows]
            point = np.clip(spread, problem.lower, problem.upper)
        target = max(target, largest_linear(problem))
        beta[used, column] = problem.coefficients(point)
        for side, part in enumerate((np.maximum(point, 0.0), np.minimum(point, 0.0))):
            ridge = 0.0 if problem.ridge is None else inner(problem.ridge, part**2)
            sums[column, side] = inner(problem.linear, part), ridge, inner(part, part), np.abs(part).sum()
    used = np.flatnonzero(beta.any(axis=1))
    data, size, roundoff = task.data.rows(task.rows[used]), 0.0, 0.0
    if used.size:
        gram = Gram(task.kernel, data, n_jobs=1)
        size, roundoff = float(np.sqrt(gram.magnitudes()).max()), gram.roundoff
    return DualChunk(data, beta[used], Report(used.size, sums, size, roundoff, target))


def reports(workers: Workers, blocks: Sequence[Handle], check: Callable[[], None]) -> list[Report]:
    """Return the reports of all chunks, in order; a block is a list of chunks that a worker holds."""
    return list(workers.fetch(workers.map(_reports_of, blocks), chained, check))


def is_affordable(workers: Workers, chunk_reports: Sequence[Report]) -> bool:
    """Return whether a fit proves a bound: it takes each thread of the workers some seconds at most."""
    return 0.5 * float(sum(one.n for one in chunk_reports)) ** 2 <= PROVED_VALUES * workers.n_blocks


def lower_bounds(
    workers: Workers,
    blocks: Sequence[Handle],
    chunk_reports: Sequence[Report],
    maker: TaskMaker,
    n_rows: int,
    check: Callable[[], None],
) -> tuple[list[float], int]:
    """Return for each machine a proved lower bound of the exact objective, and how many kernel values it took.

    Parameters
    ----------
    workers : Workers
    blocks : sequence of handles
        Each is a list of chunks, in the order of all chunks.
    chunk_reports : sequence of Report
    maker : TaskMaker
        The machine, whose kernel is positive semidefinite.
    n_rows : int
        Rows of the exact problem.
    check : callable
        Called several times a second; it raises to stop.
    """
    sums = np.sum([one.sums for one in chunk_reports], axis=0)
    factors = _factors_of(maker, sums)
    numbers = range(len(blocks))
    pairs = [([blocks[first], blocks[second]], first == second) for first in numbers for second in numbers[first:]]
    handles = workers.place(pairs, _quadratic_terms, maker.kernel, factors)
    try:
        terms = np.array(workers.fetch(handles, chained, check)).reshape(-1, sums.shape[0])
    except BaseException:
        workers.cancel(handles)
        raise
    n = [one.n for one in chunk_reports]
    n_values = (sum(n) ** 2 + sum(size**2 for size in n)) // 2
    size, roundoff, bounds = max(one.size for one in chunk_reports), max(one.roundoff for one in chunk_reports), []
    for column, (of_machine, factor) in enumerate(zip(sums, factors, strict=True)):
        mass, squares = float(factor @ of_machine[:, 3]), float(factor**2 @ of_machine[:, 2])
        error = rounding_of_sums(roundoff, size, size**2 * squares, size**2 * mass, size * mass, sum(n))
        quadratic = math.fsum(terms[:, column])
        bounds.append(_dual(maker, chunk_reports, of_machine, factor, quadratic, float(error), n_rows))
    return bounds, n_values


def has_bias(maker: TaskMaker) -> bool:
    """Return whether the dual coefficients must sum to 0."""
    return bool(getattr(maker.spec, "bias", False))


def _factors_of(maker: TaskMaker, sums: FloatArray) -> FloatArray:
    """Return factors of positive and negative coefficients, at most 1, that make the sum feasible, (n_machines, 2)."""
    masses = sums[:, :, 3]
    if not has_bias(maker):
        return np.ones(masses.shape)
    least = masses.min(axis=1, keepdims=True)
    return np.divide(least, masses, out=np.zeros_like(masses), where=masses > 0.0)


def _reports_of(dual_chunks: list[DualChunk], payload: bytes) -> list[Report]:
    del payload
    return [chunk.report for chunk in dual_chunks]


def _quadratic_terms(
    source: tuple[list[list[DualChunk]], bool], kernel: Kernel, factors: FloatArray
) -> list[tuple[float, ...]]:
    """Return the share of each pair of chunks of two blocks in beta' K beta, for each machine."""
    (firsts, seconds), is_same = source
    terms, stop = [], Interruption()
    with while_wanted(stop.request):
        scaled = [_scaled(chunk.beta, factors) for chunk in seconds]
        for number, first in enumerate(firsts):
            left = _scaled(first.beta, factors)
            for other, (second, right) in enumerate(zip(seconds, scaled, strict=True)):
                if (is_same and other < number) or not (first.data.n and second.data.n):
                    continue
                share = _product(kernel, first.data, left, second.data, right, stop)
                times = 1.0 if is_same and other == number else 2.0
                terms.append(tuple((times * share).tolist()))
    return terms


def _scaled(beta: FloatArray, factors: FloatArray) -> FloatArray:
    return np.where(beta > 0.0, factors[:, 0] * beta, factors[:, 1] * beta)


def _product(
    kernel: Kernel, rows: Data, left: FloatArray, others: Data, right: FloatArray, stop: Interruption
) -> FloatArray:
    """Return left' K right for each machine, with the kernel values between two chunks."""
    height, total, none = max(1, _VALUES // others.n), np.zeros(left.shape[1]), np.zeros(left.shape[1])
    for start in range(0, rows.n, height):
        if stop.requested:
            break
        part = slice(start, min(rows.n, start + height))
        values = decision_values(kernel, rows.rows(part), others, right, none, n_jobs=1)
        total += np.einsum("it,it->t", left[part], values)
    return total


def estimated_bounds(
    workers: Workers,
    blocks: Sequence[Handle],
    chunk_reports: Sequence[Report],
    maker: TaskMaker,
    n_rows: int,
    machine: tuple[Data, FloatArray],
    check: Callable[[], None],
) -> tuple[list[float], int]:
    """Return for each machine an estimate of the bound of :func:`lower_bounds`, from about 500 rows with a coefficient.

    `machine` has the vectors and coefficients, (k, n_machines), of the machines h. With g = sum_i beta_i k(x_i, .),
    beta' K beta is sum_i beta_i h(x_i) + sum_i beta_i (g - h)(x_i). Workers compute the first sum. The second is
    estimated from rows that are drawn in proportion to |beta_i|; three standard errors are added.
    """
    sums = np.sum([one.sums for one in chunk_reports], axis=0)
    factors = _factors_of(maker, sums)
    masses = (factors * sums[:, :, 3]).sum(axis=1)
    rates = np.divide(_SAMPLE, masses, out=np.zeros_like(masses), where=masses > 0.0)
    payload = pickle.dumps((maker.kernel, *machine, factors, rates), protocol=pickle.HIGHEST_PROTOCOL)
    drawn = workers.fetch(workers.map(_drawn_of, blocks, payload=payload), chained, check)
    first_sums = np.sum([one.first_sum for one in drawn], axis=0)
    data = drawn[0].data
    for one in drawn[1:]:
        data = data.followed_by(one.data)
    column, times = (np.concatenate([one[place] for one in drawn]) for place in (2, 3))
    payload = pickle.dumps((maker.kernel, data, column, factors), protocol=pickle.HIGHEST_PROTOCOL)
    values = np.sum(workers.fetch(workers.map(_values_at, blocks, payload=payload), chained, check), axis=0)
    values -= decision_values(maker.kernel, data, *machine, np.zeros(masses.size))[np.arange(column.size), column]
    bounds = []
    for number, (of_machine, factor) in enumerate(zip(sums, factors, strict=True)):
        terms = np.repeat((np.sign(times) * values)[column == number], np.abs(times[column == number]).astype(int))
        spread = 3.0 * float(terms.std()) * terms.size**0.5 if terms.size else 0.0
        scale = float(masses[number]) / _SAMPLE
        quadratic = float(first_sums[number]) + scale * (float(terms.sum()) + spread)
        bounds.append(_dual(maker, chunk_reports, of_machine, factor, quadratic, 0.0, n_rows))
    return bounds, data.n * sum(one.n for one in chunk_reports)


class _Drawn(NamedTuple):
    """Rows that were drawn from a chunk: each for one machine (`column`), some times, with the sign of beta_i."""

    first_sum: FloatArray  # sum of beta_i h(x_i), (n_machines,)
    data: Data
    column: IndexArray
    times: FloatArray


def _drawn_of(dual_chunks: list[DualChunk], payload: bytes) -> list[_Drawn]:
    """Draw rows of each chunk: each row about |beta_i| times `rate` times."""
    kernel, support, coefficients, factors, rates = pickle.loads(payload)
    drawn, none = [], np.zeros(rates.size)
    for chunk in dual_chunks:
        beta = _scaled(chunk.beta, factors)
        values = decision_values(kernel, chunk.data, support, coefficients, none, n_jobs=1)
        seed = int(beta.view(np.uint64)[0, 0]) if chunk.data.n else 0
        ends = rates * np.cumsum(np.abs(beta), axis=0) + np.random.default_rng(seed).random(rates.size)
        times = np.diff(np.floor(ends), axis=0, prepend=0.0) * np.sign(beta)
        rows, column = np.nonzero(times)
        first_sum = np.einsum("it,it->t", beta, values)
        drawn.append(_Drawn(first_sum, chunk.data.rows(rows), column, times[rows, column]))
    return drawn


def _values_at(dual_chunks: list[DualChunk], payload: bytes) -> list[FloatArray]:
    """Return the share of each chunk in the values of its machine at each row that was drawn."""
    kernel, data, column, factors = pickle.loads(payload)
    none, at = np.zeros(factors.shape[0]), np.arange(column.size)
    return [
        decision_values(kernel, data, chunk.data, _scaled(chunk.beta, factors), none, n_jobs=1)[at, column]
        for chunk in dual_chunks
    ]


def _dual(
    maker: TaskMaker,
    chunk_reports: Sequence[Report],
    of_machine: FloatArray,
    factor: FloatArray,
    quadratic: float,
    error: float,
    n_rows: int,
) -> float:
    """Return the lower bound from the sums over the chunks, the factors of both signs, and beta' K beta."""
    linear, mass = (float(factor @ of_machine[:, place]) for place in (0, 3))
    ridge, squares = (float(factor**2 @ of_machine[:, place]) for place in (1, 2))
    target, size = max(one.target for one in chunk_reports), max(one.size for one in chunk_reports)
    is_novelty = isinstance(maker.spec, ForOneClassSVM)
    about: dict[str, bool] = {"has_sum": has_bias(maker) or is_novelty, "can_shrink": not is_novelty}
    return dual_of_sums(DualSums(linear, ridge, squares, mass), quadratic, n_rows, error, target, size, **about)
