"""Kernels: functions that measure the similarity of two rows, independent of storage, caches and devices."""

from mercer.data.mixed_rows import REST as REST
from mercer.kernels.algebra import Exp, Power, Product, Scale, Shift, Sum, exp
from mercer.kernels.alignment import LocalAlignment
from mercer.kernels.column_parts import FINGERPRINTS as FINGERPRINTS
from mercer.kernels.column_parts import NUMBERS as NUMBERS
from mercer.kernels.column_parts import SEQUENCES as SEQUENCES
from mercer.kernels.column_parts import SYMBOLS as SYMBOLS
from mercer.kernels.column_parts import VALUES as VALUES
from mercer.kernels.column_parts import mixed_rows as mixed_rows
from mercer.kernels.column_parts import parts_of as parts_of
from mercer.kernels.column_parts import reading as reading
from mercer.kernels.column_parts import symbols_of_table as symbols_of_table
from mercer.kernels.diagnosis import Diagnosis, Witness, all_strings, diagnose, refute
from mercer.kernels.distances import RBF, ChiSquared, GeneralizedGaussian, Hamming, Laplacian, Matern, RationalQuadratic
from mercer.kernels.fingerprints import Dice, Tanimoto
from mercer.kernels.instruction_set import counts_bits as counts_bits
from mercer.kernels.instruction_set import multiplies_integers as multiplies_integers
from mercer.kernels.instruction_set import select_isa as select_isa
from mercer.kernels.kernel import Kernel, as_rows
from mercer.kernels.kernel import restored_rows as restored_rows
from mercer.kernels.maps import Bilinear, Cosine, FeatureKernel, HistogramIntersection
from mercer.kernels.parameters import FoundGamma, Gamma
from mercer.kernels.parsing import NAMES, as_kernel, from_dict
from mercer.kernels.program import PASSES as PASSES
from mercer.kernels.program import Op, Program, evaluate, stack_depth
from mercer.kernels.repairs import Repaired, clip, flip, shift
from mercer.kernels.rows_in_files import plain_rows as plain_rows
from mercer.kernels.rows_in_files import read_rows as read_rows
from mercer.kernels.sets import Jaccard, SetIntersection
from mercer.kernels.standard import Callable, Linear, Polynomial, Precomputed, Sigmoid
from mercer.kernels.strings import EditDistance, Subsequence
from mercer.kernels.transforms import Centered, Normalized, On, center, normalize
from mercer.kernels.weighted_degree import WeightedDegree
from mercer.kernels.words import GappedKmer, Mismatch, Spectrum

__all__ = [
    "NAMES",
    "RBF",
    "Bilinear",
    "Callable",
    "Centered",
    "ChiSquared",
    "Cosine",
    "Diagnosis",
    "Dice",
    "EditDistance",
    "Exp",
    "FeatureKernel",
    "FoundGamma",
    "Gamma",
    "GappedKmer",
    "GeneralizedGaussian",
    "Hamming",
    "HistogramIntersection",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocalAlignment",
    "Matern",
    "Mismatch",
    "Normalized",
    "On",
    "Op",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Program",
    "RationalQuadratic",
    "Repaired",
    "Scale",
    "SetIntersection",
    "Shift",
    "Sigmoid",
    "Spectrum",
    "Subsequence",
    "Sum",
    "Tanimoto",
    "WeightedDegree",
    "Witness",
    "all_strings",
    "as_kernel",
    "as_rows",
    "center",
    "clip",
    "counts_bits",
    "diagnose",
    "evaluate",
    "exp",
    "flip",
    "from_dict",
    "multiplies_integers",
    "normalize",
    "refute",
    "select_isa",
    "shift",
    "stack_depth",
]
