"""Kernels: what is similar. Pure mathematics, which knows nothing of storage, caches or devices."""

from mercer.kernels.algebra import Power, Product, Scale, Shift, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.diagnosis import Diagnosis, Witness, all_strings, diagnose, refute
from mercer.kernels.parameters import FoundGamma, Gamma
from mercer.kernels.program import Op, Program, evaluate, stack_depth
from mercer.kernels.reading import NAMES, as_kernel, from_dict
from mercer.kernels.repairs import Repaired, clip, flip, shift
from mercer.kernels.standard import RBF, Callable, Linear, Polynomial, Precomputed, Sigmoid
from mercer.kernels.structured import EditDistance, Jaccard, Mismatch, SetIntersection, Spectrum, Subsequence

__all__ = [
    "NAMES",
    "RBF",
    "Callable",
    "Diagnosis",
    "EditDistance",
    "FoundGamma",
    "Gamma",
    "Jaccard",
    "Kernel",
    "Linear",
    "Mismatch",
    "Op",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Program",
    "Repaired",
    "Scale",
    "SetIntersection",
    "Shift",
    "Sigmoid",
    "Spectrum",
    "Subsequence",
    "Sum",
    "Witness",
    "all_strings",
    "as_kernel",
    "clip",
    "diagnose",
    "evaluate",
    "flip",
    "from_dict",
    "refute",
    "shift",
    "stack_depth",
]
