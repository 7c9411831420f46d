"""Models of linear machines that were trained on files larger than memory."""

from __future__ import annotations

import numpy as np

from mercer.data import as_data, cell_text
from mercer.estimators import LinearSVC, LinearSVR, LogisticRegression
from mercer.kernels import Linear
from mercer.studies.models.model import Model, Part, Training
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, PredictionKind, Quantity
from mercer.studies.tables.rules import SparseRule


def model_of_file(machine: LinearSVC | LinearSVR | LogisticRegression) -> Model:
    """Return the model of a machine that `fit_file` has trained, with its encoding, to be saved or to predict tables.

    The model has the certificate, but neither training rows nor dual coefficients, of which there may be more than fit
    into memory. Therefore :func:`mercer.studies.models.verify` cannot recompute the certificate.

    Parameters
    ----------
    machine : LinearSVC, LinearSVR or LogisticRegression

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
    normals = np.atleast_2d(machine._dense_coef()) / quantity.scale
    biases = np.broadcast_to(quantity.scaled(np.asarray(machine.intercept_, dtype=np.float64)), len(normals))
    kind: PredictionKind = quantity
    if not isinstance(machine, LinearSVR):
        are_integers = machine.classes_.dtype.kind in "iu"
        labels = (
            machine.classes_ if are_integers else np.array([cell_text(one) for one in machine.classes_], dtype=object)
        )
        kind = Classes(file.target, labels, "ovr")
        kind = kind.as_booleans() if machine.classes_.dtype == np.bool_ else kind
    certificates = machine.certificate_.parts or (machine.certificate_,)
    parts = tuple(
        Part(np.array([number]), np.ones(1), float(bias), None, certificate, duals=np.zeros(0))
        for number, (bias, certificate) in enumerate(zip(biases, certificates, strict=True))
    )
    return Model(
        encoder=machine.encoder_ or _unscaled(normals.shape[1]),
        prediction_kind=kind,
        machine_spec=machine.spec_,
        kernel=Linear(),
        support_rows=np.zeros(0, dtype=np.int64),
        support_vectors=as_data(np.ascontiguousarray(normals)),
        parts=parts,
        training=Training(
            np.zeros(0, dtype=np.int64),
            file.checksum,
            None if isinstance(machine, LinearSVR) else machine.class_weight_,
            n_streamed=file.n_rows,
        ),
        reading=file.reading,
    )


def _unscaled(width: int) -> TableEncoder:
    """Return the encoder of sparse tables that changes nothing."""
    encoder = TableEncoder()
    encoder.rules_, encoder.constant_, encoder.dense_block_ = (), (), None
    encoder.sparse_ = SparseRule(width, 1.0)
    return encoder
