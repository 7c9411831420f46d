"""Texts that say what the fits of a search share, or why they share nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.estimators.linear_svc import LinearSVC
from mercer.estimators.linear_svr import LinearSVR
from mercer.estimators.logistic import LogisticRegression
from mercer.estimators.nu_svc import NuSVC
from mercer.estimators.nu_svr import NuSVR
from mercer.estimators.one_class_svm import OneClassSVM
from mercer.estimators.quantile_svr import QuantileSVR
from mercer.estimators.svc import SVC
from mercer.estimators.svdd import SVDD
from mercer.estimators.svr import SVR
from mercer.kernels import Kernel
from mercer.model_selection.search.pipelines import machine_of, path_of, remembers

SHARING = (SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM, SVDD)
"""Machines whose fits share kernel values and solutions. Subclasses do not, because they may change the rows."""


LINEAR = (LinearSVC, LinearSVR, LogisticRegression)
"""Machines whose folds are weights of one table, without a matrix of kernel values."""

BY_STEPS = (
    "steps before the machine are fitted once for each fold, and each setting starts at the solution of the last one"
)

FEW_PENALTIES = (
    "kernel values are not shared, only solutions are: with so few penalties a matrix for each fold is slower"
)

BY_PRODUCTS = (
    "machines are trained from products without kernel values, which are faster than matrices of these; "
    "penalties share solutions"
)

BY_WAY = "an approximate machine is trained for each fold and penalty; with landmarks, penalties share the features"

BY_WEIGHTS = "folds are weights of the rows of one table, and each setting starts at the solution of the last one"


def why_nothing_is_shared(estimator: Any, X: Any, fit_params: Mapping[str, Any]) -> str:
    """Return why the fits of this estimator share nothing, or "" if they can share."""
    machine = machine_of(estimator)
    if type(machine) not in SHARING:
        return _why_not(type(machine))
    if getattr(machine, "approximation", None) is not None:
        return BY_WAY
    if remembers(estimator):
        return "a pipeline with a memory, with transform_input or of a class of its own shares nothing between fits"
    if not set(fit_params) <= {path_of(estimator) + "sample_weight"}:
        return "parameters of fit other than sample weights are the estimator's own: nothing is shared"
    if machine._takes_values() and (estimator is not machine or not _is_symmetric(X)):
        return "given kernel values are shared where they are a dense matrix that is symmetric to the last digit"
    return ""


def what_is_shared(kernel: Kernel, *, by_folds: bool) -> str:
    """Return what fits on matrices share; with `by_folds` each fold has its own matrix."""
    what = "kernel values and solutions" if kernel.is_psd else "kernel values"
    return (
        f"penalties share {what}, and each fold has a matrix of its own"
        if by_folds
        else f"folds and penalties share {what}"
    )


def why_values_are_not(kernel: Kernel, n_matrices: int, n_bytes: int, limit: int) -> str:
    """Return what fits share if their matrices, of `n_bytes` each, exceed the memory limit."""
    matrices = "a matrix" if n_matrices == 1 else f"{n_matrices} matrices"
    only = ", only solutions are" if kernel.is_psd else ""
    are = "is" if n_matrices == 1 else "are"
    return f"kernel values are not shared{only}: {matrices} of {n_bytes:,} bytes {are} beyond memory_limit={limit:,}"


def _why_not(kind: type) -> str:
    for one in SHARING:
        if issubclass(kind, one):
            why = "a subclass may do anything: only the classes themselves share"
            return f"{_named(kind)} is made from {_named(one)}, and {why}"
    ours = next((one for one in SHARING if one.__name__ == kind.__name__), None)
    return f"{_named(kind)} shares nothing between fits" + (f"; {_named(ours)} does" if ours else "")


def _named(kind: type) -> str:
    """Return the name of a class with its public module."""
    if kind.__module__.startswith("mercer."):
        return f"mercer.{kind.__name__}"
    parts = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*parts, kind.__name__])


def _is_symmetric(X: Any) -> bool:
    dense = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    return dense and X.shape[0] == X.shape[1] and X.flags.c_contiguous and np.array_equal(X, X.T)
