"""What a kernel is: a function k(x, z), evaluated by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.data import Data, Structured, Vectors
from mercer.kernels.parameters import FoundGamma
from mercer.kernels.program import FloatArray, Program, interpret

Schema: TypeAlias = Mapping[str, str]
"""Names of a kernel's parameters, and their kinds: number, integer, gamma, kernel, kernels or plain.

What is plain is None, a bool, a number, a string or a list of such; the kernel checks it."""

MAX_DEPTH = 50
"""How deep kernels may be nested in a model file."""


class Kernel(ABC):
    """A function k(x, z) of two rows, as a value: it knows nothing of storage, caches or devices.

    Kernels add and multiply, with each other and with nonnegative numbers, and take integer powers:
    ``2 * k1 + k2 * k3 + 1`` and ``(k1 + 1) ** 3`` are kernels. They compare equal and hash by structure
    (``a + b != b + a``, though both are the same function), pickle, and print as the formula that makes them.

    Attributes
    ----------
    parts : tuple of Kernel
        The kernels that this one is made of; empty where it is elementary.
    is_psd : True or None
        True where the closure rules prove it positive semidefinite; None where they do not, which is no
        claim that it is not. See `mercer.kernels.diagnose`.
    """

    # A NumPy scalar on the left must leave the operators to us.
    __array_ufunc__ = None

    schema: ClassVar[Schema | None] = None
    """Names and kinds of the parameters in a model file; None where there is no safe way to write the kernel."""

    binding: ClassVar[int] = 4
    """How tightly its formula binds: 1 a sum, 2 a product, 3 a power, 4 a name or call."""

    rule: ClassVar[str] = ""
    """Why it is positive semidefinite where `is_psd` says so."""

    parts: tuple[Kernel, ...] = ()

    @property
    def is_structured(self) -> bool:
        """Whether it takes strings, lists of tokens or sets, and no rows of features."""
        return any(part.is_structured for part in self.parts)

    @property
    def is_native(self) -> bool:
        """Whether `block` runs native code that lets other threads run beside it."""
        return bool(self.parts) and all(part.is_native for part in self.parts)

    def work(self, X: Data) -> float:
        """Return about how many nanoseconds a value takes `block` on rows like these, for kernels without a program."""
        return sum(part.work(X) for part in self.parts)

    @abstractmethod
    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, by plain NumPy in float64: what native tiles are tested against.

        Parameters
        ----------
        A, B : Data
            Rows on either side.

        Returns
        -------
        ndarray of shape (A.n, B.n)

        Raises
        ------
        ValueError
            If gamma is still a rule ("scale", ...), the numbers of features differ, or values overflow.
        TypeError
            If the kernel needs another kind of data.
        """

    @abstractmethod
    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64; never by way of an n × n matrix."""

    @abstractmethod
    def lower(self) -> Program | None:
        """Return the kernel as a program over tiles, or None where it has none (a function, given values)."""

    @property
    def is_psd(self) -> bool | None:
        """True where it is proved positive semidefinite, None where that is unknown."""
        return None

    @property
    def proof(self) -> tuple[str, ...]:
        """The steps that prove it positive semidefinite, each a kernel and its rule; empty where that is unknown."""
        if not self.is_psd:
            return ()
        steps = dict.fromkeys(step for part in self.parts for step in part.proof)
        return (*steps, f"{self!r} is {self.rule}")

    def resolve(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Return the kernel with every rule that depends on data (gamma "scale", "median", ...) replaced by its number.

        What was found, and why, is in its `reasons`.

        Parameters
        ----------
        X : Data
            The rows that a machine is fitted on.
        weights : array-like of shape (n,), optional
            Weights of the rows: a weight acts as repetition, 0 as absence.
        """
        return self

    @property
    def reasons(self) -> tuple[str, ...]:
        """What `resolve` found in the data and from what, in words."""
        gamma = getattr(self, "gamma", None)
        own = (f"gamma = {gamma:.6g} by {gamma.rule!r}: {gamma.reason}",) if isinstance(gamma, FoundGamma) else ()
        return own + tuple(reason for part in self.parts for reason in part.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain strings, numbers, lists and dictionaries; `from_dict` reads it back.

        Raises
        ------
        ValueError
            If it holds a Python function, or is nested more than 50 deep.
        """
        if self.schema is None:
            raise ValueError(
                f"{self!r} cannot be written to a model file, which holds no code: build the kernel from the ones "
                "the library has, or keep the machine by pickle"
            )
        if nesting(self) > MAX_DEPTH:
            raise ValueError(f"a kernel nested more than {MAX_DEPTH} deep cannot be written to a model file")
        return {"type": type(self).__name__, **{name: _plain(getattr(self, name)) for name in self.schema}}

    # The operators' results are subclasses, so their module can only be imported once this one is complete.

    def __add__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.algebra import Shift, Sum

        return Sum((self, other)) if isinstance(other, Kernel) else Shift(self, other)

    def __radd__(self, other: float) -> Kernel:
        return self + other

    def __mul__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.algebra import Product, Scale

        return Product((self, other)) if isinstance(other, Kernel) else Scale(other, self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels.algebra import Power

        return Power(self, exponent)


class Lowered(Kernel):
    """A kernel of inner products and squared distances: its program is all that there is to it."""

    @abstractmethod
    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        return block_of(self, self.lower(), A, B)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        return diag_of(self, self.lower(), A)


def block_of(kernel: Kernel, program: Program, A: Data, B: Data) -> FloatArray:
    """Return the block of a kernel that has a program."""
    a, b = _features(kernel, A), _features(kernel, B)
    with np.errstate(over="ignore", invalid="ignore"):
        return finite(kernel, interpret(program, lambda: a.inner(b), lambda: a.sq_distances(b)))


def diag_of(kernel: Kernel, program: Program, A: Data) -> FloatArray:
    """Return the diagonal of a kernel that has a program."""
    a = _features(kernel, A)
    with np.errstate(over="ignore", invalid="ignore"):
        return finite(kernel, interpret(program, a.sq_norms, lambda: np.zeros(a.n)))


def finite(kernel: Kernel, values: FloatArray) -> FloatArray:
    """Return the values, or raise a ValueError where some are NaN or infinite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"values of {kernel!r} are not finite: they overflow double precision, or the rows hold NaN or infinity; "
            "scale the columns (for example to mean 0 and variance 1) or choose a smaller gamma or degree"
        )
    return values


def nesting(kernel: Kernel) -> int:
    """Return how deep a kernel is nested: 1 where it is elementary."""
    return 1 + max(map(nesting, kernel.parts), default=0)


def _features(kernel: Kernel, data: Data) -> Vectors:
    if not isinstance(data, Vectors):
        other = (
            "a kernel such as Spectrum(3)" if isinstance(data, Structured) else "kernel='precomputed' for kernel values"
        )
        raise TypeError(f"{kernel!r} needs rows of features, got {data!r}: use {other}")
    return data


def _plain(value: object) -> object:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
