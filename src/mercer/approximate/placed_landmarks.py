"""Landmarks for rows that workers hold: a sample draws them, and the workers compute and hold the features."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from mercer._typing import IndexArray
from mercer.approximate.feature_table import LandmarkBasis, beyond_single
from mercer.approximate.landmarks import Landmarks, draw, linear_problem, tol_gap_of
from mercer.approximate.placed_cells import PlacedTask, data_of
from mercer.approximate.task import Task
from mercer.approximate.way import Expansion
from mercer.certificates.approximation import ApproximateCertificate, Distance
from mercer.certificates.certificate import combine
from mercer.gram.rows import Block, PlacedRows
from mercer.gram.rows.placed_rows import leaf_rows
from mercer.multiclass.decision import decision_values
from mercer.solvers import Control
from mercer.solvers.loop import ProgressMonitor
from mercer.solvers.rows import solve_each


def landmarks_on_workers(
    way: Landmarks, task: PlacedTask, rows: PlacedRows, sample: Task, sampled: IndexArray, control: Control
) -> Expansion:
    """Train a machine of landmarks on rows that are with workers.

    Landmarks are drawn from the sample; the linear machine on their features is certified over all rows. The distance
    to the exact machine is unknown: it needs kernel values between all support vectors, which are on all workers.

    Parameters
    ----------
    way : Landmarks
    task : PlacedTask
    rows : PlacedRows
    sample : Task
        That of the sample.
    sampled : ndarray of int64
        The positions of the sample in the whole table.
    control : Control

    Raises
    ------
    ValueError
        If the machine needs the rows in memory; the message names the remedy.
    ClusterError
        If the workers cannot finish the work.
    """
    if way.distance is not None:
        raise ValueError(
            "Landmarks(distance=...) needs the rows in memory, because the distance to the exact machine is not known "
            "of lazy tables: set n_landmarks alone."
        )
    if sample.n_classes > 2 and task.scheme != "ovr":
        raise ValueError("landmarks of lazy tables with several classes need multi_class='ovr': set it.")
    gram = sample.gram()
    way.refuse_indefinite(gram)
    monitor = ProgressMonitor[Any](control)
    with control.interruption:
        basis = LandmarkBasis(gram, draw(gram, way, monitor))
        support = sample.data.rows(sample.rows[basis.landmarks])
        features = _features(task, rows, basis, support)
        classes = list(range(sample.n_classes)) if sample.n_classes > 2 else [1]
        problems = [linear_problem(task.spec, features, positive) for positive in classes]
        limits = replace(control.limits, tol_gap=tol_gap_of(way, control.limits))
        solutions = solve_each(problems, control.with_limits(limits).after(monitor.seconds, 0), n_jobs=1)
    split = [problem.split(solution.w) for problem, solution in zip(problems, solutions, strict=True)]
    text = f"{basis.size:,} landmarks represent {rows.n:,} rows"
    certificate: Any = combine(
        [ApproximateCertificate.of(replace(one.certificate, evidence=None), text, [Distance()]) for one in solutions]
    )
    features.release()
    positions = sampled[sample.rows[basis.landmarks]]
    return Expansion(
        replace(certificate, seconds=monitor.seconds),
        f"{text}, drawn from a sample of {sample.data.n:,} rows, which gives gamma, too. A linear machine of their "
        f"features, which workers hold, is trained: {solutions[0].reason}",
        task.kernel,
        support,
        positions,
        basis.coefficients(np.column_stack([w for w, _ in split])),
        np.array([bias for _, bias in split]),
        positions,
        csr_array((len(split), rows.n)),
    )


def _features(task: PlacedTask, rows: PlacedRows, basis: LandmarkBasis, support: Any) -> PlacedRows:
    """Have the workers compute the coordinates of their rows in the span of the landmarks' images."""
    workers, k = rows.workers, basis.size
    workers.refuse_large_blocks(4 * k * -(-rows.n // len(rows.placed)))
    inverse = np.ascontiguousarray(solve_triangular(basis.triangle, np.eye(k), lower=False, check_finite=False))
    about = task.kernel, support, inverse, task.class_weight, leaf_rows(rows.n)
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
