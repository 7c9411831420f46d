"""Models of machines that were trained on files larger than memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from mercer._typing import IndexArray
from mercer.approximate import Task
from mercer.data import Vectors, as_data, cell_text
from mercer.estimators import SVC, SVR, LinearSVC, LinearSVR, LogisticRegression, OneClassSVM
from mercer.kernels import Linear
from mercer.multiclass import columns_of
from mercer.specs import approximate_spec
from mercer.studies.models.assembling import support_of_cells
from mercer.studies.models.cell_layout import CellLayout, layout_of, renumbered
from mercer.studies.models.fitted_state import has_cells, is_approximate
from mercer.studies.models.model import Model, Part, Training
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind, Quantity
from mercer.studies.tables.rules import SparseRule


def model_of_file(machine: LinearSVC | LinearSVR | LogisticRegression | SVC | SVR | OneClassSVM) -> Model:
    """Return the model of a machine that `fit_file` has trained, with its encoding, to be saved or to predict tables.

    The model has the certificate. It has no training rows and no dual coefficients of a linear machine, of which there
    may be more than fit into memory. Therefore :func:`mercer.studies.models.verify` cannot recompute its certificate.
    Of a kernel machine it has those of the support vectors, from which it can.

    Parameters
    ----------
    machine : LinearSVC, LinearSVR, LogisticRegression, SVC, SVR or OneClassSVM

    Raises
    ------
    ValueError
        If the machine was not trained by `fit_file`, or on an svmlight file without ``zero_based=True``: columns of
        tables have the numbers of the features in the file.
    """
    file = getattr(machine, "training_file_", None)
    if file is None:
        raise ValueError(
            f"this {type(machine).__name__} was not trained by fit_file; as_model(machine, X, y) makes its model"
        )
    if not file.keeps_numbers:
        raise ValueError(
            "column j of a table is feature j of an svmlight file, and this machine counts features from 1: train it "
            "with fit_file(..., zero_based=True)"
        )
    quantity = Quantity(file.target, file.centre, file.scale)
    kind: PredictionKind = quantity
    if isinstance(machine, OneClassSVM):
        kind = Membership(float(machine.offset_[0]))
    elif not isinstance(machine, (LinearSVR, SVR)):
        are_integers = machine.classes_.dtype.kind in "iu"
        labels = (
            machine.classes_ if are_integers else np.array([cell_text(one) for one in machine.classes_], dtype=object)
        )
        kind = Classes(file.target, labels, machine._scheme if isinstance(machine, SVC) else "ovr")
        kind = kind.as_booleans() if machine.classes_.dtype == np.bool_ else kind
    layout = None
    if isinstance(machine, (SVC, SVR)) and has_cells(machine) and not hasattr(machine, "calibration_"):
        vectors, rows, parts, layout, used = _of_cells(machine, quantity)
    elif isinstance(machine, (SVC, SVR, OneClassSVM)):
        vectors, rows, parts = _support_of(machine, quantity)
    else:
        rows = np.zeros(0, dtype=np.int64)
        vectors, parts = _normals_of(machine, quantity)
    spec, support_rows = machine.spec_, np.arange(rows.size) if layout is None else used
    if isinstance(machine, (SVC, SVR)) and is_approximate(machine) and layout is None:
        spec = approximate_spec(machine.spec_)
        rows, support_rows, parts = _with_duals(machine, rows, parts)
    model = Model(
        encoder=machine.encoder_ or _unscaled(vectors.p),
        prediction_kind=kind,
        machine_spec=spec,
        kernel=machine.kernel_ if isinstance(machine, (SVC, SVR, OneClassSVM)) else Linear(),
        support_rows=support_rows,
        support_vectors=vectors,
        parts=parts,
        training=Training(
            rows,
            file.checksum,
            machine.class_weight_ if isinstance(kind, Classes) else None,
            weight_column=file.weights,
            n_streamed=file.n_rows,
        ),
        reading=file.reading,
        cells=layout,
    )
    return model.chosen(str(machine.choice_)) if hasattr(machine, "choice_") else model


def _normals_of(
    machine: LinearSVC | LinearSVR | LogisticRegression, quantity: Quantity
) -> tuple[Vectors, tuple[Part, ...]]:
    """Return the normal vectors of a linear machine, and its parts."""
    normals = np.atleast_2d(machine._dense_coef()) / quantity.scale
    biases = np.broadcast_to(quantity.scaled(np.asarray(machine.intercept_, dtype=np.float64)), len(normals))
    certificates: tuple[Any, ...] = tuple(machine.certificate_.parts) or (machine.certificate_,)
    if machine.spec_.is_whole:  # the first output has the claim of all
        certificates = (certificates[0], *[None] * (len(normals) - 1))
    parts = tuple(
        Part(np.array([number]), np.ones(1), float(bias), None, certificate, duals=np.zeros(0))
        for number, (bias, certificate) in enumerate(zip(biases, certificates, strict=True))
    )
    return as_data(np.ascontiguousarray(normals)), parts


def _of_cells(
    machine: SVC | SVR, quantity: Quantity
) -> tuple[Vectors, IndexArray, tuple[Part, ...], CellLayout, IndexArray]:
    """Return the vectors of a machine of cells, the positions in the file of the rows that it has, and its parts.

    The last two say which parts belong to which cell, and the places of the vectors among the rows.
    """
    present, data = support_of_cells(machine)
    cells = renumbered(machine.approximation_, present, data)
    used, layout, of_cells = layout_of(cells, machine.classes_.size if isinstance(machine, SVC) else 0)
    parts = []
    for one in of_cells:
        bias = float(quantity.scaled(np.asarray(one.bias, dtype=np.float64)))
        parts.append(
            Part(np.searchsorted(used, one.rows), one.coefficients / quantity.scale, bias, None, one.certificate)
        )
    vectors = data.rows(used)
    assert isinstance(vectors, Vectors)
    return vectors, present, tuple(parts), layout, used


def _support_of(machine: SVC | SVR | OneClassSVM, quantity: Quantity) -> tuple[Vectors, IndexArray, tuple[Part, ...]]:
    """Return the support vectors of a kernel machine, their positions in the file, and its parts.

    Raises
    ------
    ValueError
        If the machine has cells or probabilities.
    """
    is_novelty = isinstance(machine, OneClassSVM)
    is_moved = is_novelty and (is_approximate(machine) or machine.contamination is not None)
    if has_cells(machine) or hasattr(machine, "calibration_") or is_moved:
        raise ValueError(
            "model_of_file makes models of machines without probabilities, cells and contamination, and of exact "
            "one-class machines: as_model(machine, X, y) takes the encoded rows of others"
        )
    order = np.argsort(machine.support_)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    intercept: Any = machine.intercept_
    if is_novelty:  # whose offset is moved by the violation of the optimality conditions
        of_memory: Any = None if hasattr(machine, "_streamed") else machine.solution_
        intercept = machine._streamed.biases if of_memory is None else [of_memory.bias]
    biases = quantity.scaled(np.asarray(intercept, dtype=np.float64))
    certificates = machine.certificate_.parts or (machine.certificate_,)
    parts = []
    for (rows, coefficients), bias, certificate in zip(
        columns_of(machine._coefficients), biases.tolist(), certificates, strict=True
    ):
        at, beta = place[rows], np.asarray(coefficients, dtype=np.float64) / quantity.scale
        by_row = np.argsort(at)
        if isinstance(machine, SVR) and not is_approximate(machine):  # rows of positive variables first
            by_row = by_row[np.argsort(beta[by_row] <= 0.0, kind="stable")]
        used = by_row[beta[by_row] != 0.0]
        parts.append(Part(at[used], beta[used], bias, None, certificate))
    vectors = machine._support_rows().rows(order)
    assert isinstance(vectors, Vectors)
    return vectors, machine.support_[order].astype(np.int64), tuple(parts)


def _with_duals(
    machine: Any, landmarks: IndexArray, parts: tuple[Part, ...]
) -> tuple[IndexArray, IndexArray, tuple[Part, ...]]:
    """Return the positions of landmarks and rows with dual coefficients, and the places of the landmarks among them.

    The third value are the parts with the dual coefficients of these rows.
    """
    duals, evidence = machine.approximation_.duals, machine.approximation_.certificate.evidence
    if evidence is not None and isinstance(evidence.task, Task):  # of rows in memory, without those of weight 0
        of_rows = evidence.task.rows[duals.indices], duals.indptr
        duals = sparse.csr_array((duals.data, *of_rows), shape=(duals.shape[0], evidence.task.data.n))
    rows = np.union1d(landmarks, duals.indices).astype(np.int64)
    table = duals[:, rows].toarray()
    parts = tuple(replace(part, duals=one) for part, one in zip(parts, table, strict=True))
    return rows, np.searchsorted(rows, landmarks), parts


def _unscaled(width: int) -> TableEncoder:
    """Return the encoder of sparse tables that changes nothing."""
    encoder = TableEncoder()
    encoder.rules_, encoder.constant_, encoder.dense_block_ = (), (), None
    encoder.sparse_ = SparseRule(width, 1.0)
    return encoder
