"""Models of fitted machines, from their coefficients and the rows that these belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mercer.approximate import CellsMachine
from mercer.certificates import Solution
from mercer.data import Data, target_column
from mercer.estimators import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR
from mercer.kernels import Kernel
from mercer.multiclass import SCHEMES
from mercer.studies.models.cell_layout import layout_of
from mercer.studies.models.fitted_state import Approximated, Other, Trained, is_approximate, state_of_expansion
from mercer.studies.models.model import Model, Part
from mercer.studies.models.training_set import TrainingSet
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind, class_codes

Dual: TypeAlias = SVC | NuSVC | SVR | NuSVR | QuantileSVR | OneClassSVM | SVDD
"""Machines that solve and certify a box-constrained problem."""

CLASSIFIERS, NOVELTY = (SVC, NuSVC), (OneClassSVM, SVDD)


def model_of_dual(training: TrainingSet, machine: Dual, sample_weight: npt.NDArray[np.float64] | None = None) -> Model:
    """Return the model of a machine that solves a box-constrained problem on these rows and weights.

    Raises
    ------
    ValueError
        For a NuSVC whose nu was lowered.
    """
    prediction_kind, class_weight = _fitted_kind(training.prediction_kind, machine)
    if isinstance(machine, NuSVC) and machine.machines_.leanings is not None:
        raise ValueError(
            "a model cannot hold a NuSVC whose nu was lowered because class_weight made it infeasible: fit it with "
            f"nu={float(machine.nu_.min()):.6g} or less"
        )
    of_it = replace(training, prediction_kind=prediction_kind)
    model = of_it.model(machine.spec_, machine.kernel_, solutions_of(machine), class_weight, sample_weight)
    model = replace(model, calibration=getattr(machine, "calibration_", None))
    return model.chosen(str(machine.choice_)) if hasattr(machine, "choice_") else model


def model_of_other(
    training: TrainingSet, state: Trained, sample_weight: npt.NDArray[np.float64] | None = None
) -> Model:
    """Return the model of a machine that does not solve a box-constrained problem, from its fitted state."""
    prediction_kind = training.prediction_kind
    if isinstance(prediction_kind, Classes):
        prediction_kind = replace(prediction_kind, scheme=state.scheme)
    beta, rows = state.point.beta, state.rows
    multipliers, certificates = state.point.multipliers, [*state.certificates, *[None] * beta.shape[1]]
    parts = []
    for column, (bias, certificate) in enumerate(zip(state.point.bias.tolist(), certificates, strict=False)):
        used = (beta[:, column] != 0.0) | state.machine_spec.uses_all_rows
        if multipliers is not None:
            used |= multipliers[:, column] != 0.0
        support = np.flatnonzero(used)
        dual = None if multipliers is None else multipliers[support, column]
        of_rows = None if state.duals is None else state.duals[column]
        parts.append(
            Part(
                support if rows is None else rows[support],
                beta[support, column],
                bias,
                None,
                certificate,
                dual,
                of_rows,
            )
        )
    used_rows = np.zeros(0, dtype=np.int64)
    vectors = state.vectors
    if rows is not None:
        used_rows = np.unique(np.concatenate([part.support for part in parts]))
        vectors = state.vectors.rows(np.searchsorted(rows, used_rows))
    of_it = replace(training, prediction_kind=prediction_kind)
    return replace(
        of_it.assembled(state.machine_spec, state.kernel, used_rows, vectors, parts, state.class_weight, sample_weight),
        calibration=state.calibration,
        way=state.way,
    )


def model_of_cells(
    training: TrainingSet, of: Approximated, sample_weight: npt.NDArray[np.float64] | None = None
) -> Model:
    """Return the model of a machine that is approximated by cells, trained on these rows and weights."""
    kind, n_classes = training.prediction_kind, 0
    if isinstance(kind, Classes):
        kind, n_classes = replace(kind, scheme=of.scheme), len(kind.labels)
    elif isinstance(kind, Membership) and of.biases is not None:
        kind = Membership(-float(of.biases[0]))
    assert isinstance(of.machine, CellsMachine)
    used, layout, of_cells = layout_of(of.machine, n_classes)
    parts = [Part(one.rows, one.coefficients, one.bias, None, one.certificate) for one in of_cells]
    model = replace(training, prediction_kind=kind).assembled(
        of.spec, of.kernel, used, training.vectors(used), parts, of.class_weight, sample_weight
    )
    return replace(model, cells=layout, calibration=of.calibration, way=of.way)


def model_of_approximation(training: TrainingSet, of: Approximated) -> Model:
    """Return the model of an approximate machine that was trained on these rows."""
    if isinstance(of.machine, CellsMachine):
        return model_of_cells(training, of)
    return model_of_other(training, state_of_expansion(of))


def support_of_cells(machine: Any) -> tuple[npt.NDArray[np.int64], Data]:
    """Return the pivots and support vectors of all cells: their positions among the training rows, and the rows."""
    fitted = machine.approximation_
    data = fitted.cells[0].support.rows(np.zeros(0, dtype=np.int64))
    for one in (fitted.tree.pivots, *(cell.support for cell in fitted.cells)):
        data = data if one is None else data.followed_by(one)
    used, first = np.unique(np.concatenate([fitted.tree.rows, *(one.rows for one in fitted.cells)]), return_index=True)
    return used, data.rows(first)


def check_probabilities(machine: object) -> None:
    """Refuse a machine with probabilities that no model can hold.

    Raises
    ------
    ValueError
        If it has probabilities, and is not of machines for two classes.
    """
    if is_approximate(machine):
        return  # its machines are for two classes
    by_two = isinstance(machine, CLASSIFIERS) and machine.machines_.scheme in SCHEMES
    if hasattr(machine, "calibration_") and not by_two:
        raise ValueError(
            "a model holds the probabilities of an SVC or NuSVC of machines for two classes, and not those of this "
            f"{type(machine).__name__}: fit it with probability=False, or keep it by pickle"
        )


def as_it_was_fitted(machine: Dual | Other, learnt: Classes) -> Classes:
    """Return classes in the order of those of a fitted machine."""
    if machine.classes_.dtype == bool:
        learnt = learnt.as_booleans()
    order = class_codes(target_column(machine.classes_))[1]
    return replace(learnt, labels=learnt.labels[order])


def _fitted_kind(
    prediction_kind: PredictionKind, machine: Dual
) -> tuple[PredictionKind, npt.NDArray[np.float64] | None]:
    """Return the prediction kind with the scheme or offset of a fitted machine, and its class weights, if any."""
    if isinstance(machine, CLASSIFIERS):
        return replace(cast(Classes, prediction_kind), scheme=machine.machines_.scheme), machine.class_weight_
    if isinstance(machine, NOVELTY):
        if not isinstance(machine, SVDD):
            return Membership(float(machine.offset_[0])), None
        length = machine._length if machine.kernel_.takes_values or _has_matrices(machine.kernel_) else None
        return Membership(float(machine.offset_[0]), machine.squared_norm_, length), None
    return prediction_kind, None


def _has_matrices(kernel: Kernel) -> bool:
    """Return whether a kernel on a data frame reads a matrix of kernel values."""
    return any(part.takes_values for part, _ in kernel.named_columns)


def solutions_of(machine: Dual) -> list[Solution]:
    """Return the solution of each problem of a fitted machine."""
    fitted_solution = machine.solution_
    return list(fitted_solution) if isinstance(fitted_solution, tuple) else [fitted_solution]
