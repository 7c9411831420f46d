"""Values of a kernel that have been evaluated, and what is known of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels.base import Kernel, Schema
from mercer.kernels.standard import Precomputed


@final
@dataclass(frozen=True, repr=False)
class EvaluatedKernel(Precomputed):
    """Values of `kernel` between all rows of a table, in single precision: what many machines on these rows share.

    The rows are a `mercer.data.Precomputed` of a square matrix that is symmetric to the bit. That they are a kernel's
    need not be looked at: what is proved of the kernel holds for them, but for their own rounding, which nothing here
    counts: they are what they are.

    Parameters
    ----------
    kernel : Kernel
        Whose values they are; resolved.
    """

    schema: ClassVar[Schema | None] = None  # type: ignore[assignment]  # in a file, it is the kernel that counts

    kernel: Kernel
    is_psd: bool | None = field(init=False, default=None)
    """What is known of the kernel."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", self.kernel.is_psd)

    def __repr__(self) -> str:
        return repr(self.kernel)

    @property
    def is_assumed(self) -> bool:
        """Whether the user says that the kernel is positive semidefinite."""
        return self.kernel.is_assumed

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the sizes of the values themselves: they are what they are."""
        return abs(self.diag(A))
