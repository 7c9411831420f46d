"""Recomputation of the claims of a machine that is approximated by cells, from its training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.approximate import own_distances
from mercer.certificates import ApproximateCertificate, Distance, combine, proved_dual
from mercer.gram import Gram
from mercer.specs import QuadraticSpec
from mercer.studies.models.cell_layout import CellLayout
from mercer.studies.models.claim_checks import AGREEMENT
from mercer.studies.models.dual_checks import check_dual
from mercer.studies.models.model import Model, grouped
from mercer.studies.tables.prediction_kind import Classes

_NEAR = 1e-9  # relative distance of a row from a cut within which rounding decides its side


def check_cells(
    model: Model, gram: Gram, engine: Gram, truth: npt.NDArray[Any]
) -> tuple[ApproximateCertificate, list[str]]:
    """Return the certificate of all cells as recomputed, and a sentence for each disagreement.

    The tree must send each training row to the cell that is its home. The machines of each cell are certified again as
    exact machines of the rows of the cell. The lower bound of the exact objective is proved again by their dual points.

    Raises
    ------
    ValueError
        If there is no such machine.
    """
    layout, kind, spec = model.cells, model.prediction_kind, model.machine_spec
    assert layout is not None
    assert isinstance(spec, QuadraticSpec)
    findings = check_tree(model, engine)
    of_parts = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(part.support for part in model.parts)]))
    if isinstance(kind, Classes) and (layout.codes[of_parts] != truth[model.support_rows[of_parts]]).any():
        findings.append("the classes of support vectors in the file are not those of the training rows")
    recomputed_parts: list[Any] = []
    glued = np.zeros((kind.n_parts, truth.size))
    for number in range(layout.n_cells):
        rows, cell = layout.rows_of(number), model.of_cell(number)
        codes = truth[rows]
        if isinstance(kind, Classes):
            classes, codes = np.unique(codes, return_inverse=True)
            if not np.array_equal(classes, layout.classes_of(number)):
                findings.append(f"the rows of cell {number} have other classes than the file says")
                continue
        if cell is None:
            continue
        at, place = cell.support_rows, np.full(truth.size, -1)
        place[rows] = np.arange(rows.size)
        columns = layout.columns_of(number, kind)
        views = gram.restrict(rows), engine.restrict(rows)
        tasks = grouped(spec, cell.prediction_kind.tasks(codes))
        for (of_task, targets), part in zip(tasks, cell.parts, strict=True):
            inside = [view.restrict(of_task) for view in views]
            certificate, part_findings = check_dual(cell, spec, (part,), of_task, targets, codes, inside[0], inside[1])
            recomputed_parts.append(certificate)
            findings += part_findings
        for column, machine, sign in zip(columns.filled, columns.machines, columns.signs, strict=True):
            part = cell.parts[machine]
            vectors = rows[at[part.support]]
            home = layout.home[vectors] == number
            np.add.at(glued[column], vectors[home], sign * part.beta[home])
    stated = layout.certificate
    total = combine(recomputed_parts) if recomputed_parts else stated
    dual = -np.inf
    if np.isfinite(stated.exact_dual):
        dual = _bound(model, gram, truth, glued)
        # A point that is a little off its bounds by the rounding of the file is moved inside, which changes the bound.
        if stated.exact_dual > dual + AGREEMENT * max(abs(dual), abs(stated.exact_dual)) + _room(gram, glued):
            findings.append(
                f"the lower bound of the exact objective is {stated.exact_dual:.9g} in the file and {dual:.9g} "
                "recomputed"
            )
    distances = [Distance(dual=dual)]
    if layout.n_cells == 1 and np.isfinite(dual):  # the exact machine
        distances = own_distances(recomputed_parts)
        primal = sum(one.primal for one in distances)
        if stated.exact_primal < primal - AGREEMENT * abs(primal) - 2.0 * (total.rounding or 0.0):
            findings.append(
                f"the objective in the exact problem is {stated.exact_primal:.9g} in the file and {primal:.9g} "
                "recomputed"
            )
    elif np.isfinite(stated.exact_primal):
        findings.append(
            f"the objective in the exact problem is {stated.exact_primal:.9g} in the file, but for "
            "several cells it is not defined"
        )
    certificate = ApproximateCertificate.of(total, stated.approximation, distances)
    return replace(certificate, seconds=stated.seconds, peak_memory_bytes=stated.peak_memory_bytes), findings


def check_tree(model: Model, gram: Gram) -> list[str]:
    """Return a finding if the tree sends a training row to another cell than its home."""
    layout = cast(CellLayout, model.cells)
    tree = layout.tree(model.kernel, model.support_vectors)
    wrong = np.ones(layout.home.size, dtype=bool)
    for shift in (0.0, _NEAR, -_NEAR):
        moved = replace(tree, thresholds=tree.thresholds + shift * np.maximum(1.0, np.abs(tree.thresholds)))
        wrong &= moved.cells_of(gram.data) != layout.home
        if not wrong.any():
            return []
    row = int(model.training.rows[wrong.argmax()]) + 1
    return [f"the tree sends {int(wrong.sum()):,} training rows to another cell than the file says, first row {row:,}"]


def _bound(model: Model, gram: Gram, truth: npt.NDArray[Any], glued: FloatArray) -> float:
    """Return the proved lower bound of the exact objective of all machines."""
    spec = cast(QuadraticSpec, model.machine_spec)
    penalties, total = model.training.penalties(spec.C, truth), 0.0
    for (rows, targets), coefficients in zip(grouped(spec, model.prediction_kind.tasks(truth)), glued, strict=True):
        view = gram.restrict(rows)
        total += proved_dual(spec.problem(targets, penalties[rows], view), view, coefficients[rows])
    return total


def _room(gram: Gram, glued: FloatArray) -> float:
    """Return how far rounding in other kernel values may move the bound."""
    size = float(np.abs(gram.diag()).max(initial=0.0))
    return 1e-13 * size * float((np.abs(glued).sum(axis=1) ** 2).sum())
