"""The fitted state of machines without a box-constrained problem: vectors, coefficients, and claims."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate import ApproximateMachine, CellsMachine, Expansion, Way
from mercer.data import Data, Precomputed, as_data
from mercer.estimators import (
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelRidge,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    ParzenClassifier,
    PegasosSVC,
    RBFNetworkClassifier,
)
from mercer.kernels import Kernel, Linear, restored_rows
from mercer.multiclass import Calibration
from mercer.solvers.smooth import Separation
from mercer.specs import (
    ForLeastSquaresClassifier,
    ForLogisticRegression,
    MachineSpec,
    Point,
    QuadraticSpec,
    approximate_spec,
)

MOST_COLUMNS = 1 << 22
"""Columns of a model, which names each of them."""

OnRows = KernelRidge | LeastSquaresSVC | KernelLogisticRegression | GradientKernelSVC | KernelPerceptron
"""Machines whose decision function is a sum over the training rows."""

Linears = LogisticRegression | LeastSquaresClassifier

Swept = LinearSVC | LinearSVR | PegasosSVC
"""Linear machines with a dual coefficient for each row."""

Neighbours = KernelNeighborsClassifier | KernelNeighborsRegressor
"""Machines that predict by the nearest training rows."""

Other = OnRows | ParzenClassifier | Neighbours | Linears | Swept | RBFNetworkClassifier
"""Machines that do not solve a box-constrained problem."""


@dataclass(frozen=True, eq=False)
class Trained:
    """The state of a fitted machine that a model stores.

    Attributes
    ----------
    machine_spec : MachineSpec
    kernel : Kernel
    vectors : Data
        Vectors of the sum that gives decision values.
    rows : ndarray of int64 or None
        Indices of these vectors among the training rows of positive weight; None if they are not training rows.
    point : Point
        Coefficients of the vectors, (m, n_parts), biases, and multipliers (m, n_parts) if the machine has some.
    certificates : tuple
        One claim for each problem.
    class_weight : ndarray of shape (n_classes,) or None
    scheme : str
        Scheme for several classes.
    duals : ndarray of shape (n_parts, n) or None
        Dual coefficients of the training rows of positive weight, of linear machines that have them.
    calibration : Calibration or None
        The map from decision values to probabilities, of an approximate machine.
    way : Way or None
        How an approximate machine with such a map was trained.
    """

    machine_spec: MachineSpec
    kernel: Kernel
    vectors: Data
    rows: IndexArray | None
    point: Point
    certificates: tuple[Any, ...]
    class_weight: FloatArray | None
    scheme: str
    duals: FloatArray | None = None
    calibration: Calibration | None = None
    way: Way | None = None


def trained(machine: Other) -> Trained:
    """Return the state of a fitted machine.

    Raises
    ------
    ValueError
        If no model file can hold it: a machine on kernel values, or a network with a machine of another library.
    """
    if is_approximate(machine):
        return state_of_expansion(approximated(machine))
    if isinstance(machine, RBFNetworkClassifier):
        return _of_network(machine)
    if isinstance(machine, (LogisticRegression, LeastSquaresClassifier, LinearSVC, LinearSVR, PegasosSVC)):
        w = as_data(np.ascontiguousarray(np.atleast_2d(machine._dense_coef())))
        point = Point(np.eye(w.n), np.broadcast_to(machine.intercept_, w.n).astype(np.float64))
        state = _trained(machine, machine.spec_, Linear(), w, None, point, _claims(machine))
        return state if not machine.spec_.has_duals else replace(state, duals=machine._duals())
    kernel = machine.kernel_
    check_rows(machine)
    if isinstance(machine, (KernelNeighborsClassifier, KernelNeighborsRegressor)):
        if isinstance(machine, KernelNeighborsRegressor):
            votes = machine._targets[:, None]
        else:
            signs = _signs(machine._codes, machine.classes_.size)
            spoken = signs if signs.shape[1] == 1 else np.maximum(0.0, signs)
            votes = spoken * machine.class_weight_[machine._codes][:, None]
        point = Point(votes, np.zeros(votes.shape[1]))
        rows = machine.prototype_indices_
        return _trained(machine, machine.spec_, kernel, machine._prototypes("all").rows, rows, point, ())
    vectors = _rows_of_fit(kernel, machine.X_fit_).rows(machine._rows)
    multipliers = machine._multipliers if isinstance(machine, GradientKernelSVC) else None
    point = Point(machine._coefficients[machine._rows], machine._bias, multipliers=multipliers)
    return _trained(machine, machine.spec_, kernel, vectors, np.arange(vectors.n), point, _claims(machine))


def _trained(
    machine: Any,
    machine_spec: MachineSpec,
    kernel: Kernel,
    vectors: Any,
    rows: Any,
    point: Point,
    certificates: tuple[Any, ...],
) -> Trained:
    weights = getattr(machine, "class_weight_", None)
    if weights is None and hasattr(machine, "classes_"):
        weights = np.ones(machine.classes_.size)
    return Trained(
        machine_spec, kernel, vectors, rows, point, certificates, weights, getattr(machine, "_scheme", "ovr")
    )


def has_cells(machine: Any) -> bool:
    """Return whether a fitted machine is approximated by cells."""
    return is_approximate(machine) and isinstance(machine.approximation_, CellsMachine)


def is_approximate(machine: Any) -> bool:
    """Return whether a fitted machine is approximate: it then has no solution of a box-constrained problem."""
    return hasattr(machine, "approximation_")


@dataclass(frozen=True, eq=False)
class Approximated:
    """An approximate machine, and what it was trained for.

    Attributes
    ----------
    machine : ApproximateMachine
    way : Way
    spec : QuadraticSpec
        The exact machine.
    kernel : Kernel
    class_weight : ndarray of shape (n_classes,) or None
    scheme : str
        Scheme for several classes.
    biases : ndarray of shape (n_parts,), optional
        By default those of the machine.
    calibration : Calibration or None
    """

    machine: ApproximateMachine
    way: Way
    spec: QuadraticSpec
    kernel: Kernel
    class_weight: FloatArray | None
    scheme: str = "ovo"
    biases: FloatArray | None = None
    calibration: Calibration | None = None


def approximated(machine: Any) -> Approximated:
    """Return the approximate machine of a fitted estimator; that of a detector has minus its offset as the bias."""
    offset = getattr(machine, "offset_", None)
    return Approximated(
        machine.approximation_,
        machine._trained_way,
        machine.spec_,
        machine.kernel_,
        getattr(machine, "class_weight_", None),
        getattr(machine, "_scheme", "ovr"),
        machine.intercept_ if offset is None else -offset,
        getattr(machine, "calibration_", None),
    )


def state_of_expansion(of: Approximated) -> Trained:
    """Return the state of an approximate machine that is a sum over some training rows."""
    fitted = of.machine
    if not isinstance(fitted, Expansion):
        raise ValueError(
            f"no model file can hold this {of.spec.estimator}, whose {type(fitted).__name__} is of another library: "
            "keep it by pickle"
        )
    order = np.argsort(fitted.places)
    return Trained(
        approximate_spec(of.spec),
        of.kernel,
        fitted.support.rows(order),
        fitted.places[order],
        Point(fitted.coefficients[order], fitted.biases if of.biases is None else of.biases),
        tuple(fitted.certificate.parts or (fitted.certificate,)),
        of.class_weight,
        of.scheme,
        fitted.duals.toarray(),
        of.calibration,
        of.way,
    )


def _of_network(machine: RBFNetworkClassifier) -> Trained:
    inner = machine.machine_
    spec = getattr(inner, "spec_", None)
    if not isinstance(spec, (ForLogisticRegression, ForLeastSquaresClassifier)):
        raise ValueError(
            "a model holds an RBFNetworkClassifier whose machine is mercer's LogisticRegression or "
            f"LeastSquaresClassifier, and this one's is {inner!r}: keep it by pickle"
        )
    machine_spec = replace(spec, network=True)
    point = Point(np.ascontiguousarray(np.atleast_2d(inner._dense_coef()).T), inner.intercept_)
    vectors, certificates = as_data(machine.centers_), _claims(inner)
    state = _trained(machine, machine_spec, machine.kernel_, vectors, None, point, certificates)
    duals = inner._duals() if machine_spec.has_duals else None
    return replace(state, class_weight=machine.class_weight_ * inner.class_weight_, duals=duals)


def _claims(machine: Any) -> tuple[Any, ...]:
    if isinstance(machine, ParzenClassifier):
        return ()
    if isinstance(machine, KernelPerceptron):
        numbers = (machine.n_mistakes_, machine.n_passes_, machine.criterion_, machine.separated_)
        return tuple(
            Separation(int(mistakes), int(passes), float(criterion), bool(separated))
            for mistakes, passes, criterion, separated in zip(*numbers, strict=True)
        )
    certificate = getattr(machine, "certificate_", None)
    if certificate is None:
        raise ValueError(
            "a model remembers its certificate, which a machine that was read from a file or made by compact lacks: "
            "fit it again"
        )
    return (certificate,) if machine.spec_.is_whole else certificate.parts or (certificate,)


def _signs(codes: IndexArray, n_classes: int) -> FloatArray:
    """Return one column of -1 and +1 for two classes (+1 for the second), otherwise one column for each class."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def support_rows(machine: Any) -> Data:
    """Return the support vectors of a machine that solves a box-constrained problem."""
    if machine.kernel_.takes_values:
        return _places(machine.shape_fit_[1], machine.support_)
    return _rows_of_fit(machine.kernel_, machine.support_vectors_)


def _rows_of_fit(kernel: Kernel, stored: Any) -> Data:
    rows = restored_rows(kernel, stored)
    return _places(rows.p, np.arange(rows.n)) if isinstance(rows, Precomputed) else rows


def _places(width: int, places: IndexArray) -> Precomputed:
    """Return rows that stand for these columns of a matrix of kernel values."""
    return Precomputed(np.zeros((0, width)), np.zeros(0, dtype=np.int64)).standing_for(places)


def check_rows(machine: Any) -> None:
    """Refuse a fitted machine whose support vectors no model file can hold.

    Raises
    ------
    ValueError
        If it was fitted on objects that its kernel function reads, or by a search on kernel values; also if it has too
        many columns for a file that names each of them.
    """
    n_columns, kernel = getattr(machine, "n_features_in_", 0), getattr(machine, "kernel_", None)
    if n_columns > MOST_COLUMNS and not (kernel is not None and kernel.takes_values):
        as_column = (
            f", fit the rows as a column with a name, {kernel!r}.on('fp') on {{'fp': rows}}"
            if kernel is not None and kernel.takes_fingerprints
            else ""
        )
        raise ValueError(
            f"a model names every column, and this machine has {n_columns:,}: fold the columns to at most "
            f"{MOST_COLUMNS:,}{as_column}, or keep the machine by pickle"
        )
    if kernel is not None and kernel.calls_function and not hasattr(machine, "n_features_in_"):
        raise ValueError(
            f"a model has no place for the rows of a machine with {kernel!r}, which are no table of numbers and are "
            "read by a function: keep it by pickle"
        )
