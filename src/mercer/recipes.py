"""What a machine solves, as a value: its parameters, and the dual problem that they make of targets and penalties."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mercer import problems
from mercer.gram import Gram
from mercer.problems import Problem

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """What a machine was asked to solve.

    A machine of several classes solves its problem for each part. Parameters are checked when one is made, for a model
    file may hold anything.
    """

    machine: ClassVar[str]
    """Name of the estimator."""

    C: float = 1.0
    """Penalty of a row of weight 1, where the machine has one."""

    endless_C: ClassVar[bool] = False
    """Whether C may be infinite."""

    is_scaled: ClassVar[bool] = False
    """Whether the solution is divided by a margin that it finds, to give the machine."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool":
                good = isinstance(value, bool)
            else:
                low, high = _RANGES[field.name]
                endless = field.name == "C" and self.endless_C
                good = isinstance(value, float) and low <= value <= high and (endless or math.isfinite(value))
            if not good:
                raise ValueError(f"{field.name} of a {self.machine} cannot be {value!r}")

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two variables, one of each sign."""
        return False

    @abstractmethod
    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem.

        Parameters
        ----------
        targets : ndarray of shape (n,)
            Signs of classes, or numbers; of no account where there is no target.
        penalties : ndarray of shape (n,)
            C times the weights of the rows.
        gram : Gram
            Of these rows.
        """

    def to_dict(self) -> dict[str, Any]:
        """The machine's name and its parameters."""
        return {"type": self.machine} | asdict(self)


_TINY = math.ulp(0.0)
_RANGES = {
    "C": (_TINY, math.inf),
    "epsilon": (0.0, math.inf),
    "nu": (_TINY, 1.0),
    "contamination": (0.0, 0.5),
    "quantile": (_TINY, math.nextafter(1.0, 0.0)),
}
"""Least and largest value of each parameter that is a number."""


@dataclass(frozen=True, kw_only=True)
class ForSVC(Recipe):
    """Hinge loss, or its square; with or without a bias."""

    machine = "SVC"
    endless_C = True
    squared: bool = False
    bias: bool = True

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.c_svc_each(targets, penalties, [targets.size], squared=self.squared, bias=self.bias)[0]


@dataclass(frozen=True, kw_only=True)
class ForNuSVC(Recipe):
    """Hinge loss against a margin that is found; the solution is divided by it to give the machine."""

    machine = "NuSVC"
    is_scaled = True
    nu: float

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.nu_svc_each(targets, penalties, [targets.size], self.nu)[0]


@dataclass(frozen=True, kw_only=True)
class ForSVR(Recipe):
    """Epsilon-insensitive loss, or its square; with or without a bias."""

    machine = "SVR"
    epsilon: float
    squared: bool = False
    bias: bool = True

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two variables, one of each sign."""
        return self.epsilon > 0.0

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        made = problems.epsilon_svr(targets, penalties, self.epsilon, squared=self.squared)
        return made if self.bias else made.without_bias()


@dataclass(frozen=True, kw_only=True)
class ForNuSVR(Recipe):
    """Epsilon-insensitive loss whose epsilon is found."""

    machine = "NuSVR"
    nu: float

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two variables, one of each sign."""
        return True

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.nu_svr(targets, penalties, self.nu)


@dataclass(frozen=True, kw_only=True)
class ForQuantileSVR(Recipe):
    """Pinball loss."""

    machine = "QuantileSVR"
    quantile: float

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.quantile(targets, penalties, self.quantile)


@dataclass(frozen=True, kw_only=True)
class ForOneClassSVM(Recipe):
    """A half-space that holds most of the rows; with `contamination`, all but that share, down to the last row."""

    machine = "OneClassSVM"
    nu: float
    contamination: float = 0.0

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.one_class(penalties, self.nu)


@dataclass(frozen=True, kw_only=True)
class ForSVDD(Recipe):
    """The smallest ball that leaves few rows outside."""

    machine = "SVDD"
    endless_C = True

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`Recipe`."""
        return problems.svdd(gram.diag(), penalties)


RECIPES: dict[str, type[Recipe]] = {
    one.machine: one for one in (ForSVC, ForNuSVC, ForSVR, ForNuSVR, ForQuantileSVR, ForOneClassSVM, ForSVDD)
}


def from_dict(entry: Any) -> Recipe:
    """The recipe that `to_dict` described; ValueError, TypeError or KeyError where it describes none."""
    recipe = RECIPES[entry["type"]]
    wanted = {field.name: field.type for field in fields(recipe)}
    if entry.keys() != wanted.keys() | {"type"}:
        raise ValueError(
            f"the parameters of a {recipe.machine} are {sorted(wanted)}, got {sorted(entry.keys() - {'type'})}"
        )
    return recipe(**{name: _value(entry[name], kind) for name, kind in wanted.items()})


def _value(value: Any, kind: Any) -> Any:
    """A number of JSON as a float, other things as they are."""
    if kind == "bool" or isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.inf if value == "inf" else value
    return float(value)
