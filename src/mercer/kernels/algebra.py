"""Kernels made of kernels, by the rules under which positive semidefinite ones stay so."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy.typing as npt

from mercer.data import Data
from mercer.kernels.base import Kernel, Schema, block_of, diag_of, finite
from mercer.kernels.parameters import real, whole
from mercer.kernels.program import FloatArray, Op, Program, Step, apply, simplify


class Composite(Kernel):
    """A kernel made of others by one operation.

    Where all its parts have programs it has one too, and they share one inner product; otherwise each part
    computes its own block.
    """

    @property
    @abstractmethod
    def step(self) -> Step:
        """The operation: it joins the parts in pairs from the left, or acts on the only one."""

    @abstractmethod
    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same operation on other kernels."""

    @property
    def is_psd(self) -> bool | None:
        """True where all parts are proved positive semidefinite: the operation keeps it."""
        return True if all(part.is_psd for part in self.parts) else None

    def resolve(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Return the kernel with the rules in its parts replaced by numbers."""
        return self.with_parts(tuple(part.resolve(X, weights) for part in self.parts))

    def lower(self) -> Program | None:
        """Return the kernel as a program over tiles, or None where a part has none."""
        programs = [part.lower() for part in self.parts]
        first, *others = programs
        if first is None:
            return None
        joined = first if others else (*first, self.step)
        for other in others:
            if other is None:
                return None
            joined = (*joined, *other, self.step)
        return simplify(joined)

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        program = self.lower()
        if program is not None:
            return block_of(self, program, A, B)
        return self._joined([part.block(A, B) for part in self.parts])

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        program = self.lower()
        if program is not None:
            return diag_of(self, program, A)
        return self._joined([part.diag(A) for part in self.parts])

    def _joined(self, values: list[FloatArray]) -> FloatArray:
        first, *others = values
        if not others:
            return finite(self, apply(self.step, first))
        return finite(self, reduce(lambda left, right: apply(self.step, left, right), others, first))


@dataclass(frozen=True, repr=False)
class _Chain(Composite):
    """A sum or product of at least two kernels; one nested in another of its kind is merged into it."""

    parts: tuple[Kernel, ...]

    schema: ClassVar[Schema] = {"parts": "kernels"}

    def __post_init__(self) -> None:
        merged: list[Kernel] = []
        for part in self.parts:
            if not isinstance(part, Kernel):
                raise TypeError(f"{type(self).__name__} takes kernels, got {part!r}")
            merged.extend(part.parts if type(part) is type(self) else (part,))
        if len(merged) < 2:
            raise ValueError(f"{type(self).__name__} takes at least two kernels, got {len(merged)}")
        object.__setattr__(self, "parts", tuple(merged))

    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same operation on other kernels."""
        return type(self)(parts)


class Sum(_Chain):
    """A sum of kernels, ``k1 + k2``.

    Parameters
    ----------
    parts : tuple of Kernel
        At least two; a sum among them is merged.

    Raises
    ------
    TypeError, ValueError
        If they are not kernels, or fewer than two.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> RBF(gamma=0.5) + 2.0 * Linear()
    RBF(gamma=0.5) + 2.0 * Linear()
    """

    binding = 1
    rule = "a sum of kernels"

    @property
    def step(self) -> Step:
        """Addition."""
        return Op.ADD, 0.0

    def __repr__(self) -> str:
        first, *others = self.parts
        return " + ".join([_formula(first, 1), *(_formula(part, 2) for part in others)])


class Product(_Chain):
    """A product of kernels, ``k1 * k2``.

    Parameters
    ----------
    parts : tuple of Kernel
        At least two; a product among them is merged.

    Raises
    ------
    TypeError, ValueError
        If they are not kernels, or fewer than two.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> Linear() * RBF(gamma=0.5)
    Linear() * RBF(gamma=0.5)
    """

    binding = 2
    rule = "a product of kernels"

    @property
    def step(self) -> Step:
        """Multiplication."""
        return Op.MUL, 0.0

    def __repr__(self) -> str:
        first, *others = self.parts
        return " * ".join([_formula(first, 2), *(_formula(part, 3) for part in others)])


class _Unary(Composite):
    kernel: Kernel

    def _take(self, kernel: object) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"{type(self).__name__} takes a kernel, got {kernel!r}")
        object.__setattr__(self, "parts", (kernel,))


@dataclass(frozen=True, repr=False)
class Scale(_Unary):
    """A kernel times a nonnegative number, ``2.0 * k``.

    Parameters
    ----------
    factor : float >= 0
        A negative multiple of a kernel is not a kernel.
    kernel : Kernel
        What is scaled.

    Raises
    ------
    TypeError, ValueError
        If they are not of that kind.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear() * 2
    2.0 * Linear()
    """

    factor: float
    kernel: Kernel

    schema: ClassVar[Schema] = {"factor": "number", "kernel": "kernel"}
    binding = 2
    rule = "a kernel times a number >= 0"

    def __post_init__(self) -> None:
        self._take(self.kernel)
        object.__setattr__(self, "factor", _nonnegative("factor", self.factor))

    @property
    def step(self) -> Step:
        """Multiplication by the factor."""
        return Op.SCALE, self.factor

    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same multiple of another kernel."""
        return Scale(self.factor, parts[0])

    def __repr__(self) -> str:
        return f"{self.factor!r} * {_formula(self.kernel, 3)}"


@dataclass(frozen=True, repr=False)
class Shift(_Unary):
    """A kernel plus a nonnegative number, ``k + 1.0``.

    Parameters
    ----------
    kernel : Kernel
        What is shifted.
    offset : float >= 0
        A kernel less a number is in general not a kernel.

    Raises
    ------
    TypeError, ValueError
        If they are not of that kind.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> (1 + Linear()) ** 2
    (Linear() + 1.0) ** 2
    """

    kernel: Kernel
    offset: float

    schema: ClassVar[Schema] = {"kernel": "kernel", "offset": "number"}
    binding = 1
    rule = "a kernel plus a number >= 0"

    def __post_init__(self) -> None:
        self._take(self.kernel)
        object.__setattr__(self, "offset", _nonnegative("offset", self.offset))

    @property
    def step(self) -> Step:
        """Addition of the offset."""
        return Op.SHIFT, self.offset

    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return another kernel plus the same number."""
        return Shift(parts[0], self.offset)

    def __repr__(self) -> str:
        return f"{_formula(self.kernel, 1)} + {self.offset!r}"


@dataclass(frozen=True, repr=False)
class Power(_Unary):
    """A kernel to an integer power, ``k ** 2``.

    Parameters
    ----------
    kernel : Kernel
        What is raised.
    exponent : int >= 0
        0 gives the constant 1, also where the kernel is 0.

    Raises
    ------
    TypeError, ValueError
        If they are not of that kind.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> RBF(gamma=0.5) ** 2
    RBF(gamma=0.5) ** 2
    """

    kernel: Kernel
    exponent: int

    schema: ClassVar[Schema] = {"kernel": "kernel", "exponent": "integer"}
    binding = 3
    rule = "a product of kernels, or the constant 1"

    def __post_init__(self) -> None:
        self._take(self.kernel)
        object.__setattr__(self, "exponent", whole("exponent", self.exponent))

    @property
    def is_psd(self) -> bool | None:
        """True where the kernel is proved positive semidefinite, or the exponent is 0."""
        return True if self.exponent == 0 else self.kernel.is_psd

    @property
    def step(self) -> Step:
        """Raising to the exponent."""
        return Op.POWER, float(self.exponent)

    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same power of another kernel."""
        return Power(parts[0], self.exponent)

    def __repr__(self) -> str:
        return f"{_formula(self.kernel, 4)} ** {self.exponent}"


def _formula(kernel: Kernel, binding: int) -> str:
    """Return the kernel's formula, in parentheses where it binds less tightly than its place demands."""
    return repr(kernel) if kernel.binding >= binding else f"({kernel!r})"


def _nonnegative(name: str, value: object) -> float:
    try:
        return real(name, value, minimum=0.0)
    except ValueError as error:
        raise ValueError(f"{error}: the result would not be a kernel (a positive semidefinite function)") from None
