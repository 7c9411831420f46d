"""Kernels without their origin: inner products are replaced by distances, which keep their digits far from zero."""

from __future__ import annotations

from dataclasses import dataclass

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels.algebra import OfOne, Scale, Shift, Sum
from mercer.kernels.kernel import OPERATIONS, Kernel, Lowered
from mercer.kernels.program import PASSES, Op, Program


@dataclass(frozen=True, repr=False)
class OfPass(Lowered):
    """A program on the rows that a kernel reads, under the name of this kernel.

    Parameters
    ----------
    kernel : Kernel
    program : tuple
    """

    kernel: Kernel
    program: Program

    @property
    def takes_fingerprints(self) -> bool:
        """As the kernel."""
        return self.kernel.takes_fingerprints

    @property
    def takes_symbols(self) -> bool:
        """As the kernel."""
        return self.kernel.takes_symbols

    def __repr__(self) -> str:
        return repr(self.kernel)

    def lower(self) -> Program:
        """Return the program."""
        return self.program

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the rounding scale of a distance from a row to itself: that of features, if the rows have some.

        Differences of rows, and of features that a user's function returns, are rounded once, relative to the distance.
        Computed features, such as rows of length 1, were rounded before, relative to their own length.
        """
        is_computed = any(view not in (0.0, self.kernel) for op, view in self.program if op in PASSES)
        return self.kernel.magnitudes(A) if is_computed else super().magnitudes(A)


def distance_of(kernel: Kernel) -> tuple[float, OfPass] | None:
    """Return c and |x - z|² of a kernel c <x, z> + constant, where x may be features of a row; None for other kernels.

    It is the squared distance in the kernel's space, and is computed from differences of rows.
    """
    if not isinstance(kernel, Lowered) or isinstance(kernel, OfPass):
        return None
    factor, ((op, argument), *others) = 1.0, kernel.lower()
    if op is not Op.DOT or any(step not in (Op.SCALE, Op.SHIFT) for step, _ in others):
        return None
    for step, number in others:
        factor *= number if step is Op.SCALE else 1.0
    return factor, OfPass(kernel, ((Op.SQDIST, argument),))


def without_origin(kernel: Kernel) -> Kernel:
    """Return a function of two rows that is equal to the kernel after centring, and keeps its digits at an offset.

    An inner product <x, z> becomes -|x - z|² / 2: the difference of both is a function of x plus a function of z, which
    centring removes. Constants are removed, too. Other kernels stay as they are, also as parts of a sum.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    """
    if (inner_product := distance_of(kernel)) is not None:
        factor, distance = inner_product
        return OfPass(kernel, (*distance.program, (Op.SCALE, -0.5 * factor)))
    if isinstance(kernel, Shift):
        return without_origin(kernel.kernel)
    if isinstance(kernel, (Scale, Sum)) or (isinstance(kernel, OfOne) and type(kernel) is OPERATIONS["On"]):
        return kernel.with_parts(tuple(map(without_origin, kernel.parts)))
    return kernel
