"""Kernels made of other kernels by operations that keep positive semidefiniteness: sums, products, powers and exp."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels.kernel import OPERATIONS, Kernel, Schema, block_of, diag_of, finite, inner_params
from mercer.kernels.parameters import integer, real
from mercer.kernels.program import Op, Program, Step, apply, simplify


class Derived(Kernel):
    """A kernel made of other kernels by an operation that keeps positive semidefiniteness."""

    @abstractmethod
    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same operation on other kernels."""

    @property
    def is_psd(self) -> bool | None:
        """True if all parts are proved positive semidefinite, because the operation keeps this property."""
        return True if all(part.is_psd for part in self.parts) else None

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Return the kernel with the rules in its parts replaced by numbers."""
        return self.with_parts(tuple(part.resolve(X, weights) for part in self.parts))


class Composite(Derived):
    """A kernel made of other kernels by an operation on their values.

    If all parts have programs, it has a program too, in which they share one inner product. Otherwise each part
    computes its own block.
    """

    @property
    @abstractmethod
    def step(self) -> Step:
        """The operation: it combines the parts in pairs from the left, or acts on a single part."""

    @property
    def takes_any_rows(self) -> bool:
        """Whether all parts take rows of any kind, because Python functions read them."""
        return all(part.takes_any_rows for part in self.parts)

    def lower(self) -> Program | None:
        """Return the kernel as a program over tiles, or None if a part has no program."""
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
        return self.joined([part.block(A, B) for part in self.parts])

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        program = self.lower()
        if program is not None:
            return diag_of(self, program, A)
        return self.joined([part.diag(A) for part in self.parts])

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the rounding scale of k(x, x); see `Kernel.magnitudes`."""
        if not self.loses_digits:
            return super().magnitudes(A)
        return self.joined([part.magnitudes(A) for part in self.parts])

    def joined(self, values: list[FloatArray]) -> FloatArray:
        """Return the operation on the values of the parts; ValueError if the result overflows."""
        first, *others = values
        if not others:
            return finite(self, apply(self.step, first))
        return finite(self, reduce(lambda left, right: apply(self.step, left, right), others, first))


@dataclass(frozen=True, repr=False)
class _Chain(Composite):
    """A sum or product of at least two kernels; a sum in a sum, or a product in a product, is merged into it."""

    parts: tuple[Kernel, ...]

    schema: ClassVar[Schema] = {"parts": "kernels"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return two parts as ``left`` and ``right``, three or more as ``0``, ``1``, ...; see `Kernel`."""
        names = ("left", "right") if len(self.parts) == 2 else map(str, range(len(self.parts)))
        params: dict[str, Any] = dict(zip(names, self.parts, strict=True))
        return params | (inner_params(params) if deep else {})

    def _made_of(self, params: dict[str, Any]) -> Kernel:
        return type(self)(tuple(params.values()))

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
        At least two kernels; a sum among them is merged.

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

    def weighted(self, weights: npt.ArrayLike) -> Kernel:
        """Return the sum with each part times a weight, which is then its parameter `factor`.

        Parameters
        ----------
        weights : array-like of float >= 0
            One for each part; a part that is scaled already has the product as its factor.

        Raises
        ------
        ValueError
            If there is not one weight for each part, or a weight is negative or not finite.

        Examples
        --------
        >>> from mercer.kernels import RBF, Linear
        >>> (RBF(gamma=0.5) + 2.0 * Linear()).weighted([1.0, 3.0])
        1.0 * RBF(gamma=0.5) + 6.0 * Linear()
        """
        factors = np.asarray(weights, dtype=np.float64)
        if factors.shape != (len(self.parts),):
            raise ValueError(f"weights must hold one number for each of the {len(self.parts)} parts, got {weights!r}")
        parts = [
            Scale(factor * part.factor, part.kernel) if isinstance(part, Scale) else Scale(factor, part)
            for factor, part in zip(factors.tolist(), self.parts, strict=True)
        ]
        return Sum(tuple(parts))

    def __repr__(self) -> str:
        first, *others = self.parts
        return " + ".join([formula(first, 1), *(formula(part, 2) for part in others)])


class Product(_Chain):
    """A product of kernels, ``k1 * k2``.

    Parameters
    ----------
    parts : tuple of Kernel
        At least two kernels; a product among them is merged.

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
        return " * ".join([formula(first, 2), *(formula(part, 3) for part in others)])


class OfOne(Derived):
    """A kernel made of one other kernel."""

    kernel: Kernel

    def take(self, kernel: object) -> None:
        """Set `parts` to the inner kernel; TypeError if it is not a kernel."""
        if not isinstance(kernel, Kernel):
            raise TypeError(f"{type(self).__name__} takes a kernel, got {kernel!r}")
        object.__setattr__(self, "parts", (kernel,))

    def with_parts(self, parts: tuple[Kernel, ...]) -> Kernel:
        """Return the same operation on another kernel."""
        return self._made_of(self.get_params(deep=False) | {"kernel": parts[0]})


class _Unary(OfOne, Composite):
    def _nonnegative(self, name: str, value: object, text: str) -> float:
        try:
            return real(name, value, minimum=0.0)
        except ValueError as error:
            made = text.format(value, formula(self.parts[0], 3))
            raise ValueError(
                f"{error}: the result, {made}, would not be a kernel (a positive semidefinite function)"
            ) from None


@dataclass(frozen=True, repr=False)
class Scale(_Unary):
    """A kernel times a nonnegative number, ``2.0 * k``.

    Parameters
    ----------
    factor : float >= 0
        The factor; a negative multiple of a kernel is not a kernel.
    kernel : Kernel
        The kernel to scale.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

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
        self.take(self.kernel)
        object.__setattr__(self, "factor", self._nonnegative("factor", self.factor, "{0!r} * {1}"))

    @property
    def step(self) -> Step:
        """Multiplication by the factor."""
        return Op.SCALE, self.factor

    def __repr__(self) -> str:
        return f"{self.factor!r} * {formula(self.kernel, 3)}"


@dataclass(frozen=True, repr=False)
class Shift(_Unary):
    """A kernel plus a nonnegative number, ``k + 1.0``.

    Parameters
    ----------
    kernel : Kernel
        The kernel to shift.
    offset : float >= 0
        The number to add; a kernel minus a number is in general not a kernel.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

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
        self.take(self.kernel)
        object.__setattr__(self, "offset", self._nonnegative("offset", self.offset, "{1} + {0!r}"))

    @property
    def step(self) -> Step:
        """Addition of the offset."""
        return Op.SHIFT, self.offset

    def __repr__(self) -> str:
        return f"{formula(self.kernel, 1)} + {self.offset!r}"


@dataclass(frozen=True, repr=False)
class Power(_Unary):
    """A kernel to an integer power, ``k ** 2``.

    Parameters
    ----------
    kernel : Kernel
        The base.
    exponent : int >= 0
        The exponent; 0 gives the constant 1, also if the kernel is 0.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

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
        self.take(self.kernel)
        object.__setattr__(self, "exponent", integer("exponent", self.exponent))

    @property
    def is_psd(self) -> bool | None:
        """True if the kernel is proved positive semidefinite, or if the exponent is 0."""
        return True if self.exponent == 0 else self.kernel.is_psd

    @property
    def step(self) -> Step:
        """Raising to the exponent."""
        return Op.POWER, float(self.exponent)

    def __repr__(self) -> str:
        return f"{formula(self.kernel, 4)} ** {self.exponent}"


@dataclass(frozen=True, repr=False)
class Exp(_Unary):
    """The exponential of a kernel, ``exp(k)``: a power series with positive coefficients.

    Parameters
    ----------
    kernel : Kernel
        The exponent.

    Raises
    ------
    TypeError
        If it is not a kernel.

    Examples
    --------
    >>> from mercer.kernels import Linear, exp
    >>> exp(0.5 * Linear())
    exp(0.5 * Linear())
    """

    kernel: Kernel

    schema: ClassVar[Schema] = {"kernel": "kernel"}
    rule = "the exponential of a kernel"

    def __post_init__(self) -> None:
        self.take(self.kernel)

    @property
    def step(self) -> Step:
        """The exponential."""
        return Op.EXP, 0.0

    @property
    def loses_digits(self) -> bool:
        """True: an absolute error of the exponent is a relative error of the value."""
        return True

    def magnitudes(self, A: Data) -> FloatArray:
        """Return k(x, x) (1 + rounding scale of the exponent); see `Kernel.magnitudes`."""
        return finite(self, self.diag(A) * (1.0 + self.kernel.magnitudes(A)))

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


def exp(kernel: Kernel) -> Kernel:
    """Return the exponential of a kernel, exp(k(x, z)).

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Exp
        It is positive semidefinite if `kernel` is.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> exp(Linear())
    exp(Linear())
    """
    return Exp(kernel)


def formula(kernel: Kernel, binding: int) -> str:
    """Return the kernel's formula, in parentheses if its precedence is lower than `binding`."""
    return repr(kernel) if kernel.binding >= binding else f"({kernel!r})"


OPERATIONS.update(Sum=Sum, Shift=Shift, Product=Product, Scale=Scale, Power=Power)
