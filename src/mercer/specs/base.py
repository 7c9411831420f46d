"""What every machine's recipe has: its parameters, checked, and what kind of machine they make."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, ClassVar

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.kernels import Kernel
from mercer.multiclass.coefficients import Coefficients
from mercer.multiclass.decision import decision_values

BY_PAIRS_OR_CLASSES: tuple[str, ...] = ("ovo", "ovr")
BY_CLASSES: tuple[str, ...] = ("ovr",)
JOINTLY: tuple[str, ...] = ("joint",)
"""Schemes of several classes that a machine may have."""


@dataclass(frozen=True)
class Point:
    """What was found for one problem: f_t(x) = sum_j beta_jt k(v_j, x) + bias_t.

    Attributes
    ----------
    beta : ndarray of shape (n, T)
        Of the problem's n rows; of m vectors, (m, T), where a machine has vectors of its own.
    bias : ndarray of shape (T,)
    vectors : Vectors or None
        A machine's own, where they are no training rows.
    multipliers : ndarray of shape (n,) or None
        A dual point, where `beta` does not tell it.
    """

    beta: FloatArray
    bias: FloatArray
    vectors: Vectors | None = None
    multipliers: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class MachineSpec(ABC):
    """What a machine was asked for, as a value that a model file holds.

    Parameters are checked when one is made, for a model file may hold anything.
    """

    machine: ClassVar[str]
    """Name in model files: of the estimator, where it has but one kind of machine."""

    answers: ClassVar[str] = "classes"
    """Kind of outcome."""

    schemes: ClassVar[tuple[str, ...]] = BY_CLASSES
    """Of several classes."""

    claims: ClassVar[type | None] = None
    """What a machine claims to be, as a value that can be recomputed."""

    is_whole: ClassVar[bool] = True
    """Whether all parts are the outputs of one problem, whose claim stands with the first; else each has its own."""

    is_scaled: ClassVar[bool] = False
    """Whether the solution is divided by a margin that it finds, to give the machine."""

    has_width: ClassVar[bool] = False
    """Whether a part has a `half_width`."""

    has_multipliers: ClassVar[bool] = False
    """Whether a part has `multipliers`."""

    is_sum: ClassVar[bool] = True
    """Whether values are sums of kernel values."""

    endless: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be infinite."""

    def __post_init__(self) -> None:
        for field in _fields_of(type(self)):
            value = getattr(self, field.name)
            if field.type == "bool":
                good = isinstance(value, bool)
            else:
                low, high = _RANGES[field.name]
                kind = int if field.type == "int" else float
                good = type(value) is kind and low <= value <= high
                good = good and (field.name in self.endless or math.isfinite(value))
            if not good:
                raise ValueError(f"{field.name} of a {self.machine} cannot be {value!r}")

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two variables, one of each sign."""
        return False

    @property
    def own_vectors(self) -> type[Kernel] | None:
        """The kernel of a machine whose vectors are no training rows; None where they are."""
        return None

    def values(
        self, kernel: Kernel, data: Vectors, vectors: Vectors, coefficients: Coefficients, biases: FloatArray
    ) -> FloatArray:
        """Return the value of every part, (n, n_parts)."""
        return decision_values(kernel, data, vectors, coefficients, biases)

    def probabilities(self, values: FloatArray) -> FloatArray | None:
        """Return the probability of each class, of values of the parts; None where the machine knows none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The machine's name and its parameters."""
        return {"type": self.machine} | asdict(self)


_fields_of = cache(fields)
_TINY = math.ulp(0.0)
_RANGES = {
    "C": (_TINY, math.inf),
    "alpha": (0.0, math.inf),
    "prior_variance": (_TINY, math.inf),
    "penalty": (_TINY, math.inf),
    "epsilon": (0.0, math.inf),
    "nu": (_TINY, 1.0),
    "contamination": (0.0, 0.5),
    "quantile": (_TINY, math.nextafter(1.0, 0.0)),
    "n_neighbors": (1, 2**63 - 1),
}
"""Least and largest value of each parameter that is a number."""
