"""The encoded training rows of a table, from which a machine is fitted and a model is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.certificates import Solution
from mercer.data import Data, Reading, TableError, as_data, as_table
from mercer.kernels import Kernel, Linear
from mercer.problems import half_width
from mercer.specs import LinearMachines, MachineSpec
from mercer.studies.models.model import Model, Part, Training, used_part
from mercer.studies.models.row_reader import RowReader
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The encoded training rows of a table, and the data about them that a model stores.

    Attributes
    ----------
    encoder : TableEncoder or RowReader
        The encoder fitted on these rows.
    prediction_kind : PredictionKind
        The kind of prediction, with its labels or scale from these rows.
    truth : ndarray
        The target of each row: see `truth` of `PredictionKind`.
    X : ndarray, csr_array or Data
        The encoded rows.
    rows : ndarray of int64
        Indices of the rows in the table.
    checksum : str
        Checksum of their cells.
    reading : Reading
        How the table was read from a file.
    """

    encoder: TableEncoder | RowReader
    prediction_kind: PredictionKind
    truth: npt.NDArray[Any]
    X: Any
    rows: npt.NDArray[np.int64]
    checksum: str
    reading: Reading = field(default_factory=Reading)

    def model(
        self,
        machine_spec: MachineSpec,
        kernel: Kernel,
        solutions: list[Solution],
        class_weight: npt.NDArray[np.float64] | None = None,
        sample_weight: npt.NDArray[np.float64] | None = None,
    ) -> Model:
        """Return the model of solutions on these rows: one solution for each part, or one for all parts."""
        tasks, n = self.prediction_kind.tasks(self.truth), len(self.truth)
        if machine_spec.is_whole:
            betas = solutions[0].beta.reshape(n, len(tasks)).T
            certificates = [solutions[0].certificate, *[None] * (len(tasks) - 1)]
            parts = [
                Part(rows, beta[rows], 0.0, None, one)
                for beta, one in zip(betas, certificates, strict=True)
                for rows in [np.flatnonzero(beta)]
            ]
        else:
            parts = [
                Part(
                    *_variables(one, task.rows),
                    float(one.bias),
                    half_width(one.multipliers) if machine_spec.has_width else None,
                    one.certificate,
                )
                for task, one in zip(tasks, solutions, strict=True)
            ]
        rows = np.unique(np.concatenate([part.support for part in parts]))
        return self.assembled(machine_spec, kernel, rows, self.vectors(rows), parts, class_weight, sample_weight)

    def vectors(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return these rows, encoded."""
        return self.data.rows(rows)

    @property
    def data(self) -> Data:
        """The encoded rows."""
        return self.X if isinstance(self.X, Data) else as_data(self.X)

    def linear_model(
        self, machine_spec: MachineSpec, machines: LinearMachines, class_weight: npt.NDArray[np.float64] | None = None
    ) -> Model:
        """Return the model of linear machines on these rows, one for each part."""
        parts = []
        tasks = self.prediction_kind.tasks(self.truth)
        for number, (task, one) in enumerate(zip(tasks, machines.solutions, strict=True)):
            duals = np.zeros(len(self.truth))
            duals[task.rows] = one.beta[:]
            bias = float(machines.biases[number])
            parts.append(Part(np.array([number]), np.ones(1), bias, None, one.certificate, duals=duals))
        normals: Any = as_data(machines.normals).like(self.data)
        return self.assembled(machine_spec, Linear(), np.zeros(0, dtype=np.int64), normals, parts, class_weight, None)

    def assembled(
        self,
        machine_spec: MachineSpec,
        kernel: Kernel,
        support_rows: npt.NDArray[np.int64],
        vectors: Data,
        parts: list[Part],
        class_weight: npt.NDArray[np.float64] | None,
        sample_weight: npt.NDArray[np.float64] | None,
    ) -> Model:
        """Return the model of parts whose `support` are training rows (or vectors of the machine's own)."""
        if machine_spec.own_vectors is None:
            parts = [replace(part, support=np.searchsorted(support_rows, part.support)) for part in parts]
        return Model(
            encoder=self.encoder,
            prediction_kind=self.prediction_kind,
            machine_spec=machine_spec,
            kernel=kernel,
            support_rows=support_rows,
            support_vectors=vectors,
            parts=tuple(parts),
            training=Training(self.rows, self.checksum, class_weight, sample_weight),
            reading=self.reading,
        )


def _variables(
    solution: Solution, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the row and value of each nonzero variable, sorted by row; for two-sided rows, positive ones first."""
    chosen = np.flatnonzero(solution.beta)
    side, place = np.divmod(chosen, len(rows))
    order = np.lexsort((rows[place], side))
    return rows[place[order]], solution.beta[chosen[order]]


def encode_training_rows(
    table: Any,
    target: str | None,
    learn: Callable[[str, npt.NDArray[Any]], PredictionKind] = Classes.learnt,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    encoder: TableEncoder | RowReader | None = None,
) -> TrainingSet:
    """Fit the encoding of a table on its training rows, and encode these rows.

    Parameters
    ----------
    table : Table or data frame
        Table whose columns, except the target, are all used.
    target : str or None
        Column of classes or numbers, without missing cells in `rows`; None without a target.
    learn : callable, default=Classes.learnt
        Makes the prediction kind from the target's name and cells: `Classes.learnt` or `Quantity.learnt`.
    rows : ndarray of int, optional
        Training rows; by default all rows.
    encoder : TableEncoder, optional
        An encoder that is not fitted yet; by default one that refuses missing cells.

    Raises
    ------
    TableError
        If the target does not exist, has missing cells or is not usable, or the table cannot be encoded.
    """
    table = as_table(table)
    chosen = np.arange(table.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    part = table.take(chosen)
    if target is None:
        prediction_kind: PredictionKind = Membership(0.0)
    else:
        if part.missing(target).any():
            raise TableError(f"the target {target!r} has missing values in the training rows", "leave these rows out")
        prediction_kind = learn(target, part[target])
        if target in table.booleans and isinstance(prediction_kind, Classes):
            prediction_kind = prediction_kind.as_booleans()
        if prediction_kind.is_text:
            table, part = table.as_text(target), part.as_text(target)
    encoder = (encoder or TableEncoder()).unfitted().fit(part if target is None else part.without([target]))
    checksum = used_part(part, encoder, target, np.arange(part.n_rows)).checksum()
    truth, X = prediction_kind.truth(part), encoder.transform(part)
    return TrainingSet(encoder, prediction_kind, truth, X, chosen, checksum, table.reading)
