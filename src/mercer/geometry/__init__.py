"""Kernels as geometry: matrices of values, distances, alignment, and the functions that kernels span."""

from mercer.geometry.alignments import alignment, alignment_weights, centered_alignment
from mercer.geometry.distances import kernel_distance
from mercer.geometry.functions import RKHSFunction
from mercer.geometry.matrices import blocks, gram_matrix

__all__ = [
    "RKHSFunction",
    "alignment",
    "alignment_weights",
    "blocks",
    "centered_alignment",
    "gram_matrix",
    "kernel_distance",
]
