"""Estimators that are restored from support vectors, coefficients and biases, without a fit."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Vectors
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._dual import DualMachine, SingleMachine
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._linear import LinearMachine
from mercer.estimators._novelty import NoveltyDetector
from mercer.estimators.logistic import LogisticRegression
from mercer.kernels import Kernel
from mercer.multiclass.coefficients import Coefficients
from mercer.specs import ForLogisticRegression

Single = TypeVar("Single", bound=SingleMachine)
Linear = TypeVar("Linear", bound=LinearMachine)
Classifier = TypeVar("Classifier", bound=MarginClassifier)

_REMAINING = (
    *("kernel_", "n_features_in_", "feature_names_in_", "classes_", "class_weight_", "_scheme", "intercept_", "_bias"),
    *("offset_", "squared_norm_", "radius_", "_length", "_has_columns", "_dtype"),
    *("calibration_", "calibration_values_", "calibration_reason_"),
)
"""Attributes that do not depend on the choice of vectors."""

Support = Vectors | IndexArray
"""Support vectors, or for a precomputed kernel their indices in the training rows, (n_SV,)."""


def restored_machine(
    machine: Single, kernel: Kernel, support: Support, n_features: int, coefficients: FloatArray, bias: float
) -> Single:
    """Return the machine f(x) = sum_i coefficients[i] k(s_i, x) + bias, with attributes as after `fit`.

    It has no solution and no certificate, and `support_` only for a precomputed kernel.
    """
    _hold(machine, kernel, support, n_features, coefficients[:, None], np.array([bias]))
    if isinstance(machine, NoveltyDetector):
        machine.offset_ = -machine.intercept_
    return machine


def restored_classifier(
    machine: Classifier,
    kernel: Kernel,
    support: Support,
    n_features: int,
    coefficients: Coefficients,
    biases: FloatArray,
    classes: npt.NDArray[Any],
    codes: IndexArray,
) -> Classifier:
    """Return the one-versus-one classifier with these coefficients; see `make_tasks` for the order of the pairs.

    `codes` are the class numbers of the support vectors, which must be sorted by class.
    """
    machine.classes_ = classes
    _hold(machine, kernel, support, n_features, coefficients, biases)
    machine._arrange("ovo", codes)
    return machine


def restored_linear(
    machine: Linear, normals: FloatArray, biases: FloatArray, classes: npt.NDArray[Any] | None
) -> Linear:
    """Return the linear machine with these normal vectors, (n_machines, p), with attributes as after `fit`.

    It has no solution and no certificate. Without classes, it predicts one number.
    """
    machine.n_features_in_ = normals.shape[1]
    machine.intercept_ = biases
    if classes is None:
        machine.coef_ = normals[0]
        return machine
    machine.coef_, machine.classes_ = normals, classes
    if isinstance(machine, LogisticRegression):
        machine.spec_ = ForLogisticRegression(C=machine.C, joint=False)
    return machine


def with_vectors(
    machine: DualMachine | EveryRowMachine, vectors: Data, coefficients: Coefficients, codes: IndexArray
) -> Any:
    """Return a copy of a machine with other support vectors and coefficients, without a solution and a certificate.

    `codes` are the class numbers of the vectors of a `MarginClassifier`, which must be sorted by class.
    """
    other = clone(machine)
    for name in _REMAINING:
        if name in vars(machine):
            setattr(other, name, vars(machine)[name])
    if isinstance(other, EveryRowMachine):
        assert isinstance(coefficients, np.ndarray)
        other.spec_ = machine.spec_
        other._store_fit(vectors, np.arange(vectors.n), coefficients, other._bias)
        other.dual_coef_ = other._shaped(coefficients) if hasattr(other, "_shaped") else coefficients.T.copy()
        return other
    other._hold(coefficients, machine.intercept_, vectors)
    if isinstance(other, MarginClassifier):
        other._arrange(machine._scheme, codes)
    return other


def _hold(
    machine: DualMachine,
    kernel: Kernel,
    support: Support,
    n_features: int,
    coefficients: Coefficients,
    biases: FloatArray,
) -> None:
    machine.kernel_, machine.n_features_in_ = kernel, n_features
    if isinstance(support, Vectors):
        machine._hold(coefficients, biases, support)
    else:
        machine.support_ = support
        machine._hold(coefficients, biases, None)
