"""scikit-learn's face of the machines: parameters, documentation and validation, no mathematics."""

from __future__ import annotations

from mercer.estimators.novelty import SVDD as SVDD
from mercer.estimators.novelty import OneClassSVM as OneClassSVM
from mercer.estimators.nu_svc import NuSVC as NuSVC
from mercer.estimators.svc import SVC as SVC
from mercer.estimators.svr import SVR as SVR
from mercer.estimators.svr import NuSVR as NuSVR
from mercer.estimators.svr import QuantileSVR as QuantileSVR
