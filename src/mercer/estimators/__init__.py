"""scikit-learn's face of the machines: parameters, documentation and validation, no mathematics."""

from __future__ import annotations

from mercer.estimators.kernel_ridge import KernelRidge as KernelRidge
from mercer.estimators.svc import SVC as SVC
