"""Estimators that are restored from support vectors, coefficients and biases, without a fit."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Vectors
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._dual import DualMachine, SingleMachine
from mercer.estimators._novelty import NoveltyDetector
from mercer.kernels import Kernel
from mercer.multiclass.coefficients import Coefficients

Single = TypeVar("Single", bound=SingleMachine)
Classifier = TypeVar("Classifier", bound=MarginClassifier)

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
