"""Models of machines that were trained on files larger than memory."""

from __future__ import annotations

import numpy as np

from mercer._typing import IndexArray
from mercer.data import Vectors, as_data, cell_text
from mercer.estimators import SVC, SVR, LinearSVC, LinearSVR, LogisticRegression
from mercer.kernels import Linear
from mercer.multiclass import columns_of
from mercer.studies.models.model import Model, Part, Training
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, PredictionKind, Quantity
from mercer.studies.tables.rules import SparseRule


def model_of_file(machine: LinearSVC | LinearSVR | LogisticRegression | SVC | SVR) -> Model:
    """Return the model of a machine that `fit_file` has trained, with its encoding, to be saved or to predict tables.

    The model has the certificate. It has no training rows and no dual coefficients of a linear machine, of which there
    may be more than fit into memory, and of a kernel machine it has those of the support vectors. Therefore
    :func:`mercer.studies.models.verify` cannot recompute the certificate.

    Parameters
    ----------
    machine : LinearSVC, LinearSVR, LogisticRegression, SVC or SVR

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
    if not isinstance(machine, (LinearSVR, SVR)):
        are_integers = machine.classes_.dtype.kind in "iu"
        labels = (
            machine.classes_ if are_integers else np.array([cell_text(one) for one in machine.classes_], dtype=object)
        )
        kind = Classes(file.target, labels, machine._scheme if isinstance(machine, SVC) else "ovr")
        kind = kind.as_booleans() if machine.classes_.dtype == np.bool_ else kind
    if isinstance(machine, (SVC, SVR)):
        vectors, rows, parts = _support_of(machine, quantity)
    else:
        rows = np.zeros(0, dtype=np.int64)
        vectors, parts = _normals_of(machine, quantity)
    return Model(
        encoder=machine.encoder_ or _unscaled(vectors.p),
        prediction_kind=kind,
        machine_spec=machine.spec_,
        kernel=machine.kernel_ if isinstance(machine, (SVC, SVR)) else Linear(),
        support_rows=np.arange(rows.size),
        support_vectors=vectors,
        parts=parts,
        training=Training(
            rows,
            file.checksum,
            None if isinstance(machine, (LinearSVR, SVR)) else machine.class_weight_,
            n_streamed=file.n_rows,
        ),
        reading=file.reading,
    )


def _normals_of(
    machine: LinearSVC | LinearSVR | LogisticRegression, quantity: Quantity
) -> tuple[Vectors, tuple[Part, ...]]:
    """Return the normal vectors of a linear machine, and its parts."""
    normals = np.atleast_2d(machine._dense_coef()) / quantity.scale
    biases = np.broadcast_to(quantity.scaled(np.asarray(machine.intercept_, dtype=np.float64)), len(normals))
    certificates = machine.certificate_.parts or (machine.certificate_,)
    parts = tuple(
        Part(np.array([number]), np.ones(1), float(bias), None, certificate, duals=np.zeros(0))
        for number, (bias, certificate) in enumerate(zip(biases, certificates, strict=True))
    )
    return as_data(np.ascontiguousarray(normals)), parts


def _support_of(machine: SVC | SVR, quantity: Quantity) -> tuple[Vectors, IndexArray, tuple[Part, ...]]:
    """Return the support vectors of a kernel machine, their positions in the file, and its parts.

    Raises
    ------
    ValueError
        If the machine is approximate, or has probabilities.
    """
    if machine.approximation is not None or hasattr(machine, "calibration_"):
        raise ValueError(
            "model_of_file makes models of exact machines without probabilities: as_model(machine, X, y) takes the "
            "encoded rows of others"
        )
    order = np.argsort(machine.support_)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    biases = quantity.scaled(np.asarray(machine.intercept_, dtype=np.float64))
    certificates = machine.certificate_.parts or (machine.certificate_,)
    parts = []
    for (rows, coefficients), bias, certificate in zip(
        columns_of(machine._coefficients), biases.tolist(), certificates, strict=True
    ):
        at, beta = place[rows], np.asarray(coefficients, dtype=np.float64) / quantity.scale
        by_row = np.argsort(at)
        if isinstance(machine, SVR):  # rows of positive variables first
            by_row = by_row[np.argsort(beta[by_row] <= 0.0, kind="stable")]
        used = by_row[beta[by_row] != 0.0]
        parts.append(Part(at[used], beta[used], bias, None, certificate))
    vectors = machine._support_rows().rows(order)
    assert isinstance(vectors, Vectors)
    return vectors, machine.support_[order].astype(np.int64), tuple(parts)


def _unscaled(width: int) -> TableEncoder:
    """Return the encoder of sparse tables that changes nothing."""
    encoder = TableEncoder()
    encoder.rules_, encoder.constant_, encoder.dense_block_ = (), (), None
    encoder.sparse_ = SparseRule(width, 1.0)
    return encoder
