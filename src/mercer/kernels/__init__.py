"""Kernels: what is similar. Pure mathematics, which knows nothing of storage, caches or devices."""

from mercer.kernels.algebra import Power, Product, Scale, Shift, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.diagnosis import Diagnosis, Witness, diagnose
from mercer.kernels.parameters import Gamma
from mercer.kernels.program import Op, Program, evaluate, stack_depth
from mercer.kernels.reading import NAMES, as_kernel, from_dict
from mercer.kernels.standard import RBF, Callable, Linear, Polynomial, Precomputed, Sigmoid

__all__ = [
    "NAMES",
    "RBF",
    "Callable",
    "Diagnosis",
    "Gamma",
    "Kernel",
    "Linear",
    "Op",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Program",
    "Scale",
    "Shift",
    "Sigmoid",
    "Sum",
    "Witness",
    "as_kernel",
    "diagnose",
    "evaluate",
    "from_dict",
    "stack_depth",
]
