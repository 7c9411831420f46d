"""The model of a fitted machine alone, without its training rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import is_regressor

from mercer.data import CSR, Data, Table, Vectors, as_data, target_column
from mercer.estimators import SVDD, LogisticRegression, OneClassSVM
from mercer.studies.models.assembling import (
    Dual,
    as_it_was_fitted,
    check_probabilities,
    model_of_cells,
    model_of_dual,
    model_of_other,
    support_of_cells,
)
from mercer.studies.models.cell_layout import renumbered
from mercer.studies.models.fitted_state import approximated, has_cells, is_approximate, support_rows, trained
from mercer.studies.models.model import Model
from mercer.studies.models.row_reader import reader_of
from mercer.studies.models.training_set import TrainingSet
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind, Quantity

NO_TABLE = ""
"""The checksum of training rows that a model does not know."""


@dataclass(frozen=True, eq=False)
class SupportOnly(TrainingSet):
    """Training rows of which only the support vectors are at hand.

    Attributes
    ----------
    place : ndarray of int64
        Positions of the support vectors among the training rows, ascending; `X` has the support vectors in this order.
    """

    place: npt.NDArray[np.int64] = field(kw_only=True)

    def vectors(self, rows: npt.NDArray[np.int64]) -> Data:
        """Return these training rows, which must be support vectors."""
        return self.data.rows(np.searchsorted(self.place, rows))


def model_of_machine(machine: Any) -> Model:
    """Return the model of a fitted machine; :func:`mercer.studies.models.verify` cannot compare it with a table.

    Columns have the names of the features, or "0", "1", ... without names. The target is named "y".

    Raises
    ------
    ValueError
        If no model file can hold the machine: see :func:`mercer.as_model`.
    """
    check_probabilities(machine)
    kind, is_elsewhere = _prediction_kind(machine), getattr(machine, "_of_lazy_table", False)
    if has_cells(machine):
        at, vectors = support_of_cells(machine)
        cells = machine.approximation_
        if is_elsewhere:
            rows, cells, at = at, renumbered(cells, at, vectors), np.arange(at.size)
        n = sum(int(np.count_nonzero(one.cell.is_home)) for one in cells.cells)
        training = _training(machine, kind, np.zeros(n), vectors, at)
        model = model_of_cells(training, replace(approximated(machine), machine=cells))
    elif isinstance(machine, Dual) and not is_approximate(machine):
        rows = np.asarray(machine._rows, dtype=np.int64)
        place = np.searchsorted(rows, machine.support_)
        order = np.argsort(place)
        truth = machine._codes[rows] if isinstance(kind, Classes) else np.zeros(rows.size)
        weights = machine._weights
        support = support_rows(machine).rows(order)
        training = _training(machine, kind, truth, support, place[order])
        model = model_of_dual(training, machine, None if weights is None else weights[rows])
    else:
        state = trained(machine)
        if getattr(machine, "_sparse", False):
            empty = as_data(sparse.csr_array((1, machine.n_features_in_)))
            state = replace(state, vectors=cast(Vectors, state.vectors.like(empty)))
        place = np.zeros(0, dtype=np.int64) if state.rows is None else np.asarray(state.rows, dtype=np.int64)
        training = _training(machine, kind, np.zeros(_n_rows(machine, state)), state.vectors, place)
        model = model_of_other(training, state)
        rows = np.sort(machine.support_) if is_elsewhere else place
    if is_elsewhere:
        training_rows = replace(model.training, rows=rows.astype(np.int64), n_streamed=machine.shape_fit_[0])
        model = replace(model, training=training_rows)
    return replace(model, seal=getattr(machine, "seal_", None))


def _training(
    machine: Any, kind: PredictionKind, truth: npt.NDArray[Any], support: Data, place: npt.NDArray[np.int64]
) -> SupportOnly:
    """Return the training set of a machine, encoded by an encoder that changes nothing."""
    rows = np.arange(truth.size)
    if not isinstance(support, Vectors):
        return SupportOnly(reader_of(machine.kernel_, support), kind, truth, support, rows, NO_TABLE, place=place)
    names = tuple(map(str, getattr(machine, "feature_names_in_", range(machine.n_features_in_))))
    if isinstance(support, CSR):
        table = Table((), (), sparse.csr_array((1, machine.n_features_in_)))
    else:
        table = Table(names, tuple(np.zeros(1) for _ in names))
    return SupportOnly(TableEncoder.identity(table), kind, truth, support, rows, NO_TABLE, place=place)


def _prediction_kind(machine: Any) -> PredictionKind:
    if isinstance(machine, OneClassSVM | SVDD):
        return Membership(float(machine.offset_[0]) if is_approximate(machine) else 0.0)
    if is_regressor(machine):
        return Quantity("y")
    return as_it_was_fitted(machine, Classes.learnt("y", target_column(machine.classes_)))


def _n_rows(machine: Any, state: Any) -> int:
    """Return the number of training rows, or of those that the machine still has."""
    if state.duals is not None:
        return int(state.duals.shape[1])
    if state.rows is not None:
        return int(state.rows[-1]) + 1
    if isinstance(machine, LogisticRegression):  # on rows that are elsewhere
        return len(machine._solutions[0].beta)
    return len(getattr(machine, "machine_", machine).loo_decision_)
