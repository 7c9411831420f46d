"""Formulas of fitted machines, feature maps and pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._version import __version__
from mercer.estimators import SVDD, KernelNeighborsClassifier, KernelNeighborsRegressor, RBFNetworkClassifier
from mercer.estimators._dual import DualMachine
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._linear import LinearMachine
from mercer.estimators._novelty import NoveltyDetector
from mercer.estimators._scores import ByLikelihood
from mercer.estimators.neighbours import KernelNeighbors
from mercer.export.class_formulas import calibration_formula, likelihood_formula, place_formula, score_formula
from mercer.export.formula import (
    Input,
    Node,
    Votes,
    constant,
    is_not_negative,
    linear,
    pairs,
    place_of_largest,
    total,
)
from mercer.export.kernel_formulas import NotExportableError, RowFormulas, kernel_sum, program_of, rows_of
from mercer.export.step_formulas import transformed
from mercer.export.table_formulas import is_table_model, table_outputs
from mercer.kernels import RBF, Kernel, Linear, Op

MACHINES = (DualMachine, EveryRowMachine, LinearMachine, KernelNeighbors, RBFNetworkClassifier)
"""Machines that have a formula if their kernel has one."""


@dataclass(frozen=True, eq=False)
class MachineFormula:
    """What a machine computes from a row.

    Attributes
    ----------
    title : str
        The machine in words.
    n_columns : int
        Number of columns of a row.
    values : Node or None
        The decision function, or the prediction of a regressor; None for a classifier that only has probabilities.
    place : Node or None
        The place of the predicted class in `classes`, or for novelty detectors 1 inside and 0 outside; None for
        regressors.
    probabilities : Node or None
    classes : ndarray or None
        Labels of a classifier.
    shared : Node or None
        What several of these are computed from: it is computed by a function of its own.
    columns : tuple of str
        Names of the columns, if they are known.
    levels : dict of int to tuple of str
        Columns of categories: their levels, in the order of the numbers that stand for them.
    """

    title: str
    n_columns: int
    values: Node | None
    place: Node | None = None
    probabilities: Node | None = None
    classes: npt.NDArray[Any] | None = None
    shared: Node | None = None
    columns: tuple[str, ...] = ()
    levels: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """What the machine is, the columns of a row in their order, and the labels, as lines of text."""
        lines = [f"Written by mercer {__version__}: {self.title}.", "", f"A row x has {self.n_columns} columns."]
        for number, name in enumerate(self.columns):
            levels = self.levels.get(number)
            numbers = "" if levels is None else ", ".join(f"{place} = {level}" for place, level in enumerate(levels))
            lines.append(f"  x[{number}] is {name}" + (f": {numbers}; -1 = another level" if numbers else ""))
        if self.classes is not None:
            lines.append(f"The labels are {', '.join(map(str, self.classes.tolist()))}.")
        return lines

    @property
    def kind(self) -> str:
        """What is predicted: "classifier", "regressor" or "outlier_detector"."""
        if self.classes is not None:
            return "classifier"
        return "regressor" if self.place is None else "outlier_detector"


@dataclass(frozen=True, eq=False)
class Outputs:
    """Formulas of a machine's results; see `MachineFormula`."""

    values: Node | None
    place: Node | None = None
    probabilities: Node | None = None
    classes: npt.NDArray[Any] | None = None
    shared: Node | None = None


def machine_formula(model: Any) -> MachineFormula:
    """Return the formula of a fitted machine, of a pipeline that ends in one, of a search for one, or of a model.

    Raises
    ------
    NotExportableError
        If a part has no formula; the message names it.
    NotFittedError
        Before `fit`.
    """
    model = final_model(model)
    if is_table_model(model):
        return MachineFormula(**table_outputs(model))
    check_is_fitted(model)
    n_columns = getattr(model, "n_features_in_", None)
    if n_columns is None:
        if isinstance(getattr(model, "kernel_", None), Kernel):
            program_of(model.kernel_)  # raises the error that names a kernel of other rows
        raise NotExportableError(f"{type(model).__name__} does not know how many columns its rows have: fit it again.")
    row: Node = Input(int(n_columns))
    machine = model
    if isinstance(model, Pipeline):
        *steps, (_, machine) = model.steps
        for _, step in steps:
            row = transformed(step, row)
    outputs = machine_outputs(final_model(machine), row)
    names = tuple(map(str, getattr(model, "feature_names_in_", ())))
    title = " in a ".join(_title(one) for one in dict.fromkeys((machine, model)))
    return MachineFormula(title, int(n_columns), columns=names, **vars(outputs))


def _title(model: Any) -> str:
    kernel = getattr(model, "kernel_", None)
    of = f" with the kernel {kernel!r}" if isinstance(kernel, Kernel) else ""
    return f"{type(model).__name__}{of}"


def final_model(model: Any) -> Any:
    """Return the fitted model inside a search or a study."""
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "estimator_") and type(model).__module__.startswith("mercer.studies."):
            model = model.estimator_
        else:
            return model


def machine_outputs(machine: Any, row: Node) -> Outputs:
    """Return the formulas of a fitted machine's results for a row.

    Raises
    ------
    NotExportableError
        If the machine has no formula.
    """
    if isinstance(machine, Pipeline):
        for _, step in machine.steps[:-1]:
            row = transformed(step, row)
        return machine_outputs(final_model(machine.steps[-1][1]), row)
    if is_table_model(machine):
        fields = table_outputs(machine, row)
        return Outputs(**{name: fields.get(name) for name in Outputs.__dataclass_fields__})
    if not isinstance(machine, MACHINES):
        names = "the classifiers, regressors and novelty detectors of mercer"
        raise NotExportableError(f"{type(machine).__name__} has no formula; {names} have one, alone or in a Pipeline.")
    check_is_fitted(machine)
    if isinstance(machine, RBFNetworkClassifier):
        centres = RowFormulas(row).values(machine.kernel_, rows_of(machine.kernel_, machine.centers_))
        return machine_outputs(machine.machine_, centres)
    if isinstance(machine, (KernelNeighborsClassifier, KernelNeighborsRegressor)):
        return _neighbour_outputs(machine, row)
    raw, row_formulas = _raw_values(machine, row)
    if isinstance(machine, NoveltyDetector):
        return _novelty_outputs(machine, raw, row_formulas)
    if not hasattr(machine, "classes_"):
        return Outputs(raw)
    k, scheme = machine.classes_.size, getattr(machine, "_scheme", "ovr")
    scores = score_formula(raw, k, scheme)
    probabilities = None
    if isinstance(machine, ByLikelihood):
        joint = getattr(machine.spec_, "joint", True)
        probabilities = likelihood_formula(raw, joint=joint)
    elif hasattr(machine, "calibration_"):
        probabilities = calibration_formula(machine.calibration_, raw)
    is_by_pairs = getattr(machine, "decision_function_shape", "ovr") == "ovo" and raw.width > 1
    return Outputs(raw if is_by_pairs else scores, place_formula(scores), probabilities, machine.classes_, raw)


def _raw_values(machine: Any, row: Node) -> tuple[Node, RowFormulas]:
    """Return the decision values of all machines for two classes, or of all outputs."""
    formulas = RowFormulas(row)
    if isinstance(machine, LinearMachine):
        normals = np.atleast_2d(machine._dense_coef()).astype(np.float64)
        biases = np.broadcast_to(np.asarray(machine.intercept_, dtype=np.float64), len(normals))
        return linear(row, normals) + constant(biases), formulas
    kernel = machine.kernel_
    is_dual = isinstance(machine, DualMachine)
    vectors = rows_of(kernel, machine.support_vectors_ if is_dual else machine.X_fit_)
    biases = machine.intercept_ if is_dual else machine._bias
    if isinstance(machine, NoveltyDetector):
        biases = np.zeros(1)
    return kernel_sum(formulas, kernel, vectors, machine._coefficients, biases), formulas


def _novelty_outputs(machine: Any, raw: Node, formulas: RowFormulas) -> Outputs:
    scores = raw
    if isinstance(machine, SVDD):
        scores = raw * 2.0 - formulas.length(machine.kernel_) - float(machine.squared_norm_)
    decision = scores - float(machine.offset_[0])
    return Outputs(decision, is_not_negative(decision), shared=decision)


def _neighbour_outputs(machine: KernelNeighborsClassifier | KernelNeighborsRegressor, row: Node) -> Outputs:
    if machine.spec_.by_distance:
        raise NotExportableError("votes by weights='distance' have no formula: export with weights='uniform'.")
    formulas, kernel = RowFormulas(row), machine.kernel_
    prototypes = rows_of(kernel, machine.X_fit_)
    if isinstance(kernel, RBF | Linear):  # distances between the rows have the same order, and more digits
        away = pairs(Op.SQDIST, row, prototypes.dense())
    else:
        away = formulas.values(kernel, prototypes) * -2.0 + constant(kernel.diag(prototypes))
    count = min(machine.spec_.n_neighbors, prototypes.n)
    if isinstance(machine, KernelNeighborsRegressor):  # a row votes for itself
        n = machine._targets.size
        return Outputs(linear(Votes(n, away, np.arange(n), count), machine._targets[None] / count))
    votes = Votes(machine.classes_.size, away, machine._codes, count)
    weighted = votes * constant(machine.class_weight_)
    shares = weighted / total(weighted)
    return Outputs(None, place_of_largest(shares), shares, machine.classes_, shares)
