"""Evaluated kernel values together with what is known about their kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels.kernel import Kernel, Schema
from mercer.kernels.standard import Precomputed


@final
@dataclass(frozen=True, repr=False)
class EvaluatedKernel(Precomputed):
    """Values of `kernel` between all rows of a table, in single precision, shared by many machines on these rows.

    The data are a `mercer.data.Precomputed` of a square, exactly symmetric matrix. The values need no test for positive
    semidefiniteness, because the proof for the kernel applies. Their float32 rounding is not counted as an error: the
    rounded values are taken as the exact kernel values.

    Parameters
    ----------
    kernel : Kernel
        The resolved kernel that was evaluated.
    """

    schema: ClassVar[Schema | None] = None  # type: ignore[assignment]  # a model file has `kernel` instead

    kernel: Kernel
    is_psd: bool | None = field(init=False, default=None)
    """Whether the kernel is proved positive semidefinite; None if that is unknown."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", self.kernel.is_psd)

    def __repr__(self) -> str:
        return repr(self.kernel)

    @property
    def is_assumed(self) -> bool:
        """Whether the user asserts that the kernel is positive semidefinite."""
        return self.kernel.is_assumed

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the absolute values k(x, x), because the given values count as exact."""
        return abs(self.diag(A))
