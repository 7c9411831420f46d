"""Which fits of a search share anything, and why others do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.estimators.nu_svc import NuSVC
from mercer.estimators.nu_svr import NuSVR
from mercer.estimators.one_class_svm import OneClassSVM
from mercer.estimators.pipelines import machine_of, path_of, remembers
from mercer.estimators.quantile_svr import QuantileSVR
from mercer.estimators.svc import SVC
from mercer.estimators.svdd import SVDD
from mercer.estimators.svr import SVR

SHARING = (SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM, SVDD)
"""Machines whose fits share what they can; a class made from one of them may do anything with its rows."""


def what_is_shared(estimator: Any, X: Any, fit_params: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether fits share anything, and why."""
    machine = machine_of(estimator)
    if type(machine) not in SHARING:
        return False, f"{type(machine).__name__} shares nothing between fits"
    if remembers(estimator):
        return (
            False,
            "a pipeline with a memory, with transform_input or of a class of its own shares nothing between fits",
        )
    if not set(fit_params) <= {path_of(estimator) + "sample_weight"}:
        return False, "parameters of fit other than sample weights are the estimator's own: nothing is shared"
    if machine._takes_values() and (estimator is not machine or not _is_symmetric(X)):
        return False, "given kernel values are shared where they are a dense matrix that is symmetric to the last digit"
    return True, "folds and penalties share kernel values and solutions"


def _is_symmetric(X: Any) -> bool:
    dense = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    return dense and X.shape[0] == X.shape[1] and X.flags.c_contiguous and np.array_equal(X, X.T)
