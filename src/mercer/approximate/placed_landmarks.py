"""Landmarks for rows that workers hold: a sample draws them, and the workers compute and hold the features."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from mercer._typing import FloatArray
from mercer.approximate.feature_table import LandmarkBasis, beyond_single
from mercer.approximate.landmarks import (
    Landmarks,
    LandmarkTraining,
    affordable_basis,
    certificate_of,
    drawn_before_or_now,
    improved,
    linear_problem,
)
from mercer.approximate.placed_dual import (
    DualChunk,
    dual_chunk_of,
    estimated_bounds,
    is_affordable,
    lower_bounds,
    reports,
)
from mercer.approximate.placed_task import PlacedTask, data_of, listener
from mercer.approximate.task import Task
from mercer.approximate.way import Expansion
from mercer.certificates.approximation import Distance, Machine, primal_of, proved_dual
from mercer.certificates.roundoff import rounding_error
from mercer.cluster.joining import chained
from mercer.data import Data
from mercer.gram import Gram
from mercer.gram.rows import Block, PlacedRows
from mercer.gram.rows.placed_rows import PlacedNumbers, leaf_rows
from mercer.multiclass.decision import decision_values
from mercer.solvers import Control
from mercer.solvers.loop import ProgressMonitor, StopWork
from mercer.solvers.rows import LinearSolution, solve_each

_EPS = float(np.finfo(np.float64).eps)


def landmarks_on_workers(way: Landmarks, task: PlacedTask, control: Control) -> Expansion:
    """Train a machine of landmarks on rows that are with workers.

    Landmarks are drawn from the sample; the linear machine on their features is certified over all rows.

    Raises
    ------
    ValueError
        If the machine needs the rows in memory; the message names the remedy.
    ClusterError
        If the workers cannot finish the work.
    """
    if task.sample.n_classes > 2 and task.maker.scheme != "ovr":
        raise ValueError("landmarks of lazy tables with several classes need multi_class='ovr': set it.")
    gram = task.sample.gram()
    way.refuse_indefinite(gram)
    with control.interruption:
        return way.doubled(_PlacedTraining(way, task, gram, control))


class _PlacedTraining(LandmarkTraining):
    """The training of machines with more and more landmarks; the features of each are released after it."""

    def __init__(self, way: Landmarks, task: PlacedTask, gram: Gram, control: Control) -> None:
        super().__init__(way, gram, ProgressMonitor(control))
        self.task = task

    def trained(self, n_landmarks: int) -> Expansion:
        """Return the machine with so many landmarks."""
        began, task, sample, maker = self.monitor.seconds, self.task, self.task.sample, self.task.maker
        self.asked = n_landmarks
        drawn = drawn_before_or_now(self.gram, self.way, self.monitor, n_landmarks)
        times = task.rows.n / sample.n / task.rows.workers.n_blocks
        basis, note = affordable_basis(self.gram, drawn, self.monitor.seconds_left, times)
        support = sample.data.rows(sample.rows[basis.landmarks])
        features = _features(task, basis, support)
        classes = list(range(sample.n_classes)) if sample.n_classes > 2 else [1]
        problems = [linear_problem(maker.spec, features, positive) for positive in classes]
        left = self.features_control(basis.size)
        solutions = solve_each(problems, left, n_jobs=1)
        split = [problem.split(solution.w) for problem, solution in zip(problems, solutions, strict=True)]
        coefficients = basis.coefficients(np.column_stack([w for w, _ in split]))
        expansion = _Sum(support, coefficients, np.array([bias for _, bias in split]))
        distances = self._distances(expansion, basis.among, features, solutions)
        features.release()
        text = f"{basis.size:,} landmarks represent {task.rows.n:,} rows"
        certificate = certificate_of(text, solutions, distances)
        positions = task.positions(basis.landmarks)
        self.seconds = self.monitor.seconds - began
        of_kernel = ", which gives the parameters of the kernel, too" if task.has_sampled_kernel else ""
        return Expansion(
            replace(certificate, seconds=self.monitor.seconds),
            f"{text}{note}, drawn from a sample of {sample.data.n:,} rows{of_kernel}. A linear machine of their "
            f"features, which workers hold, is trained: {solutions[0].reason}",
            maker.kernel,
            support,
            positions,
            coefficients,
            expansion.biases,
            np.argsort(np.argsort(positions)),  # only these rows are here
            csr_array((len(split), basis.size)),
        )

    def _distances(
        self, machine: _Sum, among: FloatArray, features: PlacedRows, solutions: Sequence[LinearSolution]
    ) -> list[Distance]:
        """Return the distance of each machine to the exact one; what no time is left for is unknown."""
        task, rows, workers = self.task, self.task.rows, self.task.rows.workers
        betas = [one.beta for one in solutions if isinstance(one.beta, PlacedNumbers)]
        if not task.is_convex or len(betas) < len(solutions):
            return [Distance()] * len(solutions)
        lists = [features.handles_of(beta) for beta in betas]
        payload = pickle.dumps((task.maker, machine, leaf_rows(rows.n)), protocol=pickle.HIGHEST_PROTOCOL)
        leaves = workers.map(_leaves_of, rows.placed, *lists, payload=payload)
        blocks = workers.map(_dual_chunks_of, leaves)
        check = listener(self.monitor, "distance to the exact machine")

        def look() -> None:
            check()
            self.monitor.raise_if_stopped()

        primals = np.full(len(betas), np.inf)
        try:
            losses = np.array(workers.fetch(workers.map(_losses_of, leaves), chained, look)).sum(axis=0)
            norms = np.einsum("jt,jt->t", machine.coefficients, among @ machine.coefficients)
            primals = losses + 0.5 * norms + _EPS * (4.0 + rows.n**0.5) * (losses + norms)
            chunk_reports = reports(workers, blocks, look)
            about = workers, blocks, chunk_reports, task.maker, rows.n
            if is_affordable(workers, chunk_reports):
                duals, n_values = lower_bounds(*about, look)
                if task.is_all_sampled:
                    duals = np.maximum(duals, self._improved(betas, look)).tolist()
                return [
                    Distance(primal, dual, None, 0 if number else n_values)
                    for number, (primal, dual) in enumerate(zip(primals.tolist(), duals, strict=True))
                ]
            estimates, n_values = estimated_bounds(*about, (machine.support, machine.coefficients), look)
            return [
                Distance(primal, -np.inf, estimate, 0 if number else n_values)
                for number, (primal, estimate) in enumerate(zip(primals.tolist(), estimates, strict=True))
            ]
        except StopWork:
            workers.cancel([*leaves, *blocks])
            return [Distance(primal) for primal in primals.tolist()]

    def _improved(self, betas: Sequence[PlacedNumbers], check: Callable[[], None]) -> list[float]:
        """Return lower bounds from dual points that the exact solver improves, of rows that are all here, too."""
        machines, at = list(self.task.sample.machines(self.gram)), self.task.positions(np.arange(self.gram.n))
        duals = [beta[:][at[one.rows]] for one, beta in zip(machines, betas, strict=True)]
        bounds = []
        for one, before, dual in zip(machines, duals, improved(machines, self.gram, duals, self.monitor), strict=True):
            view = self.gram if one.rows.size == self.gram.n else self.gram.restrict(one.rows)
            bounds.append(0.0 if dual is before else proved_dual(one.problem, view, dual, check))
        return bounds


class _Sum(NamedTuple):
    """A machine as a sum over landmarks: coefficients (k, n_machines) and biases (n_machines,)."""

    support: Data
    coefficients: FloatArray
    biases: FloatArray


def _features(task: PlacedTask, basis: LandmarkBasis, support: Data) -> PlacedRows:
    """Have the workers compute the coordinates of their rows in the span of the landmarks' images."""
    rows, workers, k = task.rows, task.rows.workers, basis.size
    workers.refuse_large_blocks(4 * k * -(-rows.n // len(rows.placed)))
    inverse = np.ascontiguousarray(solve_triangular(basis.triangle, np.eye(k), lower=False, check_finite=False))
    about = task.maker.kernel, support, inverse, task.maker.class_weight, leaf_rows(rows.n)
    payload = pickle.dumps(about, protocol=pickle.HIGHEST_PROTOCOL)
    return PlacedRows(workers, workers.map(_features_of, rows.placed, payload=payload), rows.n, k, is_sparse=False)


def _features_of(block: Block, payload: bytes) -> Block:
    """Return a block of features; the weights of its rows include those of their classes."""
    kernel, support, inverse, class_weight, height = pickle.loads(payload)
    n, none = block.table.shape[0], np.zeros(inverse.shape[1])
    table = np.empty((n, inverse.shape[1]), dtype=np.float32)
    for first in range(0, n, height):  # leaves, so that the last bits do not depend on the number of blocks
        part = slice(first, first + height)
        with np.errstate(over="ignore"):
            table[part] = decision_values(kernel, data_of(block.table[part]), support, inverse, none, n_jobs=1)
    if not np.isfinite(table).all():
        raise beyond_single(kernel)
    weights = block.weights
    if class_weight is not None:
        weights = weights * class_weight[block.labels.astype(np.int64)]
    return Block(block.at, table, block.labels, weights)


def _leaves_of(block: Block, *rest: Any) -> list[tuple[list[float], DualChunk]]:
    """Return for each leaf upper bounds of the losses of the machines, and the rows with a dual coefficient."""
    *numbers, payload = rest
    maker, machine, height = pickle.loads(payload)
    betas, leaves = np.column_stack([beta for (beta,) in numbers]), []
    for first in range(0, block.table.shape[0], height):
        part = slice(first, first + height)
        task = maker.of(data_of(block.table[part]), block.labels[part], block.weights[part])
        leaves.append((_losses(task, machine), dual_chunk_of(task, betas[part][task.rows])))
    return leaves


def _losses(task: Task, machine: _Sum) -> list[float]:
    """Return an upper bound of the sum of the losses of the rows, for each machine."""
    if not task.n:
        return [0.0] * machine.biases.size
    data = task.data if task.n == task.data.n else task.data.rows(task.rows)
    values = decision_values(task.kernel, data, machine.support, machine.coefficients, 0.0 * machine.biases, n_jobs=1)
    both = [Gram(task.kernel, one, n_jobs=1) for one in (data, machine.support)]
    size = max(float(np.sqrt(one.magnitudes()).max()) for one in both)
    losses = []
    for number, bias in enumerate(machine.biases.tolist()):
        targets = task.targets.astype(np.float64)
        if task.n_classes:
            targets = np.where(task.targets == (number if task.n_classes > 2 else 1), 1.0, -1.0)
        problem = task.spec.problem_of_some(targets, task.penalties, both[0])
        error = rounding_error(both[0], size, size * machine.coefficients[:, number], values[:, number])
        losses.append(primal_of(problem, Machine(0.0, values[:, number], bias, error)))
    return losses


def _losses_of(leaves: list[tuple[list[float], DualChunk]], payload: bytes) -> list[list[float]]:
    del payload
    return [losses for losses, _ in leaves]


def _dual_chunks_of(leaves: list[tuple[list[float], DualChunk]], payload: bytes) -> list[DualChunk]:
    del payload
    return [chunk for _, chunk in leaves]
