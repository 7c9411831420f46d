"""Kernel machines that are exact, fast and certified."""

from __future__ import annotations

from mercer.certificate import Certificate as Certificate
from mercer.estimators import SVC as SVC
from mercer.kernels import RBF as RBF
from mercer.kernels import Kernel as Kernel
from mercer.kernels import Linear as Linear
from mercer.kernels import Polynomial as Polynomial
from mercer.kernels import Sigmoid as Sigmoid
from mercer.status import IndefiniteKernelWarning as IndefiniteKernelWarning
from mercer.status import InseparableError as InseparableError
from mercer.status import Status as Status

__version__ = "0.1.0"
