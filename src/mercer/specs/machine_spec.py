"""The base class of specifications: checked parameters, and the properties of the machine."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, ClassVar

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels import Kernel, Linear
from mercer.multiclass.coefficients import Coefficients
from mercer.multiclass.decision import decision_values

BY_PAIRS_OR_CLASSES: tuple[str, ...] = ("ovo", "ovr")
BY_CLASSES: tuple[str, ...] = ("ovr",)
JOINTLY: tuple[str, ...] = ("joint",)
"""Schemes for several classes that a machine may have."""


@dataclass(frozen=True)
class Point:
    """The solution of one problem: f_t(x) = sum_j beta_jt k(v_j, x) + bias_t.

    Attributes
    ----------
    beta : ndarray of shape (n, T)
        Coefficients of the problem's n rows; of shape (m, T) if the machine has m own vectors.
    bias : ndarray of shape (T,)
    vectors : Data or None
        The machine's own vectors, if they are not the training rows.
    multipliers : ndarray of shape (n,) or None
        The dual point on the problem's rows, if `beta` does not determine it.
    """

    beta: FloatArray
    bias: FloatArray
    vectors: Data | None = None
    multipliers: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class MachineSpec(ABC):
    """The specification of a machine: its name and its parameters, as a model file stores them.

    The parameters are checked on creation, because a model file may hold invalid values.
    """

    machine: ClassVar[str]
    """Name in model files: the estimator's name, unless the estimator has several kinds of machines."""

    answers: ClassVar[str] = "classes"
    """Kind of prediction: "classes", "quantity" or "membership"."""

    schemes: ClassVar[tuple[str, ...]] = BY_CLASSES
    """Schemes for several classes."""

    certificate_type: ClassVar[type | None] = None
    """Type of the claim (for instance a certificate) that a model file stores and verification recomputes."""

    stated: ClassVar[tuple[str, ...]] = ()
    """Fields that the machine's certificate always has; others may be None."""

    is_whole: ClassVar[bool] = True
    """Whether all parts are outputs of one problem and share the claim that is stored with the first part."""

    is_scaled: ClassVar[bool] = False
    """Whether the machine is the solution divided by its margin."""

    has_width: ClassVar[bool] = False
    """Whether a part has a `half_width`."""

    has_multipliers: ClassVar[bool] = False
    """Whether a part has `multipliers`."""

    has_duals: ClassVar[bool] = False
    """Whether a part has a dual coefficient for each training row, beside vectors of its own."""

    derives_duals: ClassVar[bool] = False
    """Whether a model file may lack the dual coefficients, because verification computes them from the weights."""

    calibrated_on: ClassVar[tuple[str, ...]] = ()
    """Decision values on which the probabilities in a model file can be calibrated: names from `FITTED_ON`."""

    is_sum: ClassVar[bool] = True
    """Whether decision values are weighted sums of kernel values."""

    uses_all_rows: ClassVar[bool] = False
    """Whether all training rows are vectors of the machine, also those whose coefficient is 0."""

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
    def estimator(self) -> str:
        """Name of the estimator that trains this machine."""
        return self.machine

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two dual variables, one of each sign."""
        return False

    @property
    def own_vectors(self) -> type[Kernel] | None:
        """The kernel type of a machine with vectors of its own; None if the vectors are training rows."""
        return None

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that are stored but play no part."""
        return ()

    def row_weights(self, class_weights: FloatArray, targets: FloatArray, *, by_rest: bool) -> FloatArray:
        """Return the factor of each row in a part, (n,); `class_weights` has the weight of each row's class, (n,).

        `by_rest` says whether the part is one of several, each for a class against the rest.
        """
        del targets, by_rest
        return class_weights

    @property
    def is_linear(self) -> bool:
        """Whether the machine is a weighted sum of the features themselves, without a choice of kernel."""
        return self.own_vectors is Linear

    def values(
        self, kernel: Kernel, data: Data, vectors: Data, coefficients: Coefficients, biases: FloatArray
    ) -> FloatArray:
        """Return the value of every part, (n, n_parts)."""
        return decision_values(kernel, data, vectors, coefficients, biases)

    def probabilities(self, values: FloatArray) -> FloatArray | None:
        """Return the class probabilities from the values of the parts; None if the machine has no probabilities."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the machine's name and its parameters."""
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
    "scaling": (_TINY, math.inf),
    "l1_ratio": (0.0, 1.0),
    "n_neighbors": (1, 2**63 - 1),
}
"""Least and largest value of each numeric parameter."""
