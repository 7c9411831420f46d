"""Kernel machines that are exact, fast and certified."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.certificates.certificate import Certificate as Certificate
    from mercer.certificates.status import IndefiniteKernelWarning as IndefiniteKernelWarning
    from mercer.certificates.status import InseparableError as InseparableError
    from mercer.certificates.status import Status as Status
    from mercer.certificates.status import StoppedError as StoppedError
    from mercer.estimators import SVC as SVC
    from mercer.estimators import SVDD as SVDD
    from mercer.estimators import SVR as SVR
    from mercer.estimators import GradientKernelSVC as GradientKernelSVC
    from mercer.estimators import KernelLogisticRegression as KernelLogisticRegression
    from mercer.estimators import KernelNeighborsClassifier as KernelNeighborsClassifier
    from mercer.estimators import KernelPerceptron as KernelPerceptron
    from mercer.estimators import KernelRidge as KernelRidge
    from mercer.estimators import LeastSquaresClassifier as LeastSquaresClassifier
    from mercer.estimators import LeastSquaresSVC as LeastSquaresSVC
    from mercer.estimators import LogisticRegression as LogisticRegression
    from mercer.estimators import NuSVC as NuSVC
    from mercer.estimators import NuSVR as NuSVR
    from mercer.estimators import OneClassSVM as OneClassSVM
    from mercer.estimators import ParzenClassifier as ParzenClassifier
    from mercer.estimators import QuantileSVR as QuantileSVR
    from mercer.estimators import RBFNetworkClassifier as RBFNetworkClassifier
    from mercer.features import GaussianBasis as GaussianBasis
    from mercer.features import Nystroem as Nystroem
    from mercer.features import PolynomialBasis as PolynomialBasis
    from mercer.features import PolynomialMap as PolynomialMap
    from mercer.features import RandomFourier as RandomFourier
    from mercer.geometry import RKHSFunction as RKHSFunction
    from mercer.geometry import alignment as alignment
    from mercer.geometry import centered_alignment as centered_alignment
    from mercer.geometry import gram_matrix as gram_matrix
    from mercer.geometry import kernel_distance as kernel_distance
    from mercer.kernels import RBF as RBF
    from mercer.kernels import EditDistance as EditDistance
    from mercer.kernels import Jaccard as Jaccard
    from mercer.kernels import Kernel as Kernel
    from mercer.kernels import Linear as Linear
    from mercer.kernels import Mismatch as Mismatch
    from mercer.kernels import Polynomial as Polynomial
    from mercer.kernels import SetIntersection as SetIntersection
    from mercer.kernels import Sigmoid as Sigmoid
    from mercer.kernels import Spectrum as Spectrum
    from mercer.kernels import Subsequence as Subsequence
    from mercer.kernels import diagnose as diagnose
    from mercer.loo.bounds import joachims_bound as joachims_bound
    from mercer.loo.bounds import span_bound as span_bound
    from mercer.model_selection.comparison import compare as compare
    from mercer.model_selection.comparison import five_by_two_cv as five_by_two_cv
    from mercer.model_selection.comparison import paired_difference as paired_difference
    from mercer.model_selection.leave_one_out import leave_one_out as leave_one_out
    from mercer.model_selection.nested import nested_cross_validate as nested_cross_validate
    from mercer.model_selection.sealed_split import SealedSplit as SealedSplit
    from mercer.model_selection.search.grids import rule_of_thumb_grid as rule_of_thumb_grid
    from mercer.model_selection.search.kernel_search import KernelSearchCV as KernelSearchCV
    from mercer.multiclass.thresholds import tune_threshold as tune_threshold
    from mercer.persistence import as_model as as_model
    from mercer.persistence import fit_model as fit_model
    from mercer.persistence.libsvm_data import LibsvmFileError as LibsvmFileError
    from mercer.persistence.libsvm_data import load_libsvm_data as load_libsvm_data
    from mercer.persistence.libsvm_data import save_libsvm_data as save_libsvm_data
    from mercer.persistence.libsvm_model import load_libsvm_model as load_libsvm_model
    from mercer.persistence.libsvm_model import save_libsvm_model as save_libsvm_model
    from mercer.persistence.model_file import load_model as load_model
    from mercer.persistence.model_file import save_model as save_model

__version__ = "0.1.0"

# Imported when first asked for, so that `mercer --help` need not wait for NumPy, SciPy and scikit-learn.
_HOMES = {
    "Certificate": "certificates.certificate",
    "SVC": "estimators",
    "SVDD": "estimators",
    "SVR": "estimators",
    "NuSVC": "estimators",
    "NuSVR": "estimators",
    "OneClassSVM": "estimators",
    "QuantileSVR": "estimators",
    "GradientKernelSVC": "estimators",
    "KernelLogisticRegression": "estimators",
    "KernelNeighborsClassifier": "estimators",
    "KernelPerceptron": "estimators",
    "KernelRidge": "estimators",
    "KernelSearchCV": "model_selection.search.kernel_search",
    "LeastSquaresClassifier": "estimators",
    "LeastSquaresSVC": "estimators",
    "LogisticRegression": "estimators",
    "ParzenClassifier": "estimators",
    "RBFNetworkClassifier": "estimators",
    "rule_of_thumb_grid": "model_selection.search.grids",
    "GaussianBasis": "features",
    "Nystroem": "features",
    "PolynomialBasis": "features",
    "PolynomialMap": "features",
    "RandomFourier": "features",
    "RKHSFunction": "geometry",
    "alignment": "geometry",
    "centered_alignment": "geometry",
    "gram_matrix": "geometry",
    "kernel_distance": "geometry",
    "LibsvmFileError": "persistence.libsvm_data",
    "load_libsvm_data": "persistence.libsvm_data",
    "save_libsvm_data": "persistence.libsvm_data",
    "load_libsvm_model": "persistence.libsvm_model",
    "save_libsvm_model": "persistence.libsvm_model",
    "load_model": "persistence.model_file",
    "save_model": "persistence.model_file",
    "RBF": "kernels",
    "EditDistance": "kernels",
    "Jaccard": "kernels",
    "Kernel": "kernels",
    "Linear": "kernels",
    "Mismatch": "kernels",
    "Polynomial": "kernels",
    "SetIntersection": "kernels",
    "Sigmoid": "kernels",
    "Spectrum": "kernels",
    "Subsequence": "kernels",
    "diagnose": "kernels",
    "as_model": "persistence",
    "fit_model": "persistence",
    "joachims_bound": "loo.bounds",
    "span_bound": "loo.bounds",
    "compare": "model_selection.comparison",
    "five_by_two_cv": "model_selection.comparison",
    "paired_difference": "model_selection.comparison",
    "leave_one_out": "model_selection.leave_one_out",
    "nested_cross_validate": "model_selection.nested",
    "SealedSplit": "model_selection.sealed_split",
    "IndefiniteKernelWarning": "certificates.status",
    "InseparableError": "certificates.status",
    "Status": "certificates.status",
    "StoppedError": "certificates.status",
    "tune_threshold": "multiclass.thresholds",
}
_MODULES = ("data", "estimators", "features", "geometry", "kernels", "problems", "solvers", "theory")
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"mercer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}{_whereabouts(name)}")
    value = globals()[name] = getattr(import_module(f"mercer.{_HOMES[name]}"), name)
    return value


def _whereabouts(name: str) -> str:
    """Where a name is that stands in `mercer.kernels` only."""
    found = None if name.startswith("_") else getattr(import_module("mercer.kernels"), name, None)
    if found is None or isinstance(found, ModuleType):
        return ""
    return f": it is in mercer.kernels (from mercer.kernels import {name})"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
