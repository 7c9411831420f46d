"""The base class of kernels: a function k(x, z), evaluated in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable as Function
from collections.abc import Generator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import (
    CSR,
    Data,
    Dense,
    ObjectRows,
    Structured,
    Vectors,
    as_data,
    as_structured,
    fingerprint_table,
    is_table,
    looks_structured,
    table_of_bits_or_counts,
)
from mercer.data import Precomputed as GivenValues
from mercer.data.checks import FLOATS
from mercer.data.feature_sums import (
    CHI_SQUARED,
    HAMMING,
    MANHATTAN,
    MINIMUM,
    TOTAL,
    dice,
    least_entry,
    pair_sums,
    row_sums,
    tanimoto,
)
from mercer.kernels.column_parts import mixed_rows, symbols_of_table
from mercer.kernels.parameters import FoundGamma
from mercer.kernels.program import NONNEGATIVE, Op, Program, interpret
from mercer.kernels.views import seen

Schema: TypeAlias = Mapping[str, str]
"""Names of a kernel's parameters, and their kinds: number, integer, gamma, kernel, kernels, plain, matrix or reference.

A "plain" value is None, a bool, a number, a string or a list of these; a "matrix" is a list of lists of numbers. The
kernel checks both. A "reference" has the rows that the kernel before it is centred on."""

OPERATIONS: dict[str, Function[..., Kernel]] = {}
"""The classes of kernels that operators and methods of `Kernel` make, by name.

The modules that define these classes import this one, so each of them adds its classes here."""

MAX_DEPTH = 50
"""Largest nesting depth of a kernel in a model file."""


class ProductCost(NamedTuple):
    """The cost of a product of a kernel matrix with a vector without kernel values."""

    nanoseconds: float
    n_bytes: int
    rank: float
    """Number of features of a row, which the rank of the matrix does not exceed."""


class Kernel(ABC):
    """A function k(x, z) of two rows, as a value that does not depend on storage, caches or devices.

    Kernels add and multiply, with each other and with nonnegative numbers, and take integer powers:
    ``2 * k1 + k2 * k3 + 1`` and ``(k1 + 1) ** 3`` are kernels. They compare equal and hash by structure
    (``a + b != b + a``, though both are the same function), pickle, and print as the formula that makes them.

    Attributes
    ----------
    parts : tuple of Kernel
        The kernels that this one is made of; empty for an elementary kernel.
    is_psd : True or None
        True if the closure rules prove that it is positive semidefinite. None means unknown, not that it is indefinite.
        See `mercer.kernels.diagnose`.
    """

    # NumPy scalars on the left side must not handle the operators.
    __array_ufunc__ = None

    schema: ClassVar[Schema | None] = None
    """Names and kinds of the parameters in a model file; None if the kernel cannot be written without code."""

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the kernel for an estimator's ``kernel=``: scikit-learn's name first, if it has one."""

    binding: ClassVar[int] = 4
    """Precedence of the formula: 1 a sum, 2 a product, 3 a power, 4 a name or call."""

    rule: ClassVar[str] = ""
    """The reason why it is positive semidefinite, if `is_psd` is True."""

    parts: tuple[Kernel, ...] = ()

    @property
    def is_structured(self) -> bool:
        """Whether it takes strings, lists of tokens or sets instead of rows of features."""
        return any(part.is_structured for part in self.parts)

    @property
    def takes_fingerprints(self) -> bool:
        """Whether rows may be fingerprints: sets of on-bits, counts, vectors of RDKit (`mercer.fingerprints`)."""
        return any(part.takes_fingerprints for part in self.parts)

    @property
    def takes_symbols(self) -> bool:
        """Whether cells may be text, categories or missing, because they are only compared for equality."""
        return bool(self.parts) and all(part.takes_symbols for part in self.parts)

    @property
    def named_columns(self) -> tuple[tuple[Kernel, tuple[str, ...]], ...]:
        """The parts that read columns of a data frame by name, each with these names."""
        return tuple(one for part in self.parts for one in part.named_columns)

    @property
    def takes_values(self) -> bool:
        """Whether the rows hold given kernel values."""
        return any(part.takes_values for part in self.parts)

    @property
    def is_native(self) -> bool:
        """Whether `block` runs native code without Python's lock, so that other threads run at the same time."""
        return bool(self.parts) and all(part.is_native for part in self.parts)

    def work(self, X: Data) -> float:
        """Return the approximate time of `block` per value in nanoseconds, for kernels without a program."""
        return sum(part.work(X) for part in self.parts)

    @abstractmethod
    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, in float64.

        A kernel that has a program is evaluated by NumPy here, and native tiles are tested against this.

        Parameters
        ----------
        A, B : Data
            Rows on the left and on the right.

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
        """Return k(x, x) for each row x of A, (A.n,) in float64, without computing an n × n matrix."""

    def product_cost(self, A: Data) -> ProductCost | None:
        """Return the cost of a product by :meth:`products`; None if products need kernel values.

        The cost is that of all rows that are numbered with A, also if few of them take part.
        """
        del A
        return None

    def products(self, A: Data, B: Data, vectors: FloatArray, n_threads: int = 1) -> Generator[None, None, FloatArray]:
        """Return K(A, B) @ vectors in float64 without kernel values; yield after bounded work.

        For kernels whose :meth:`product_cost` is not None.
        """
        raise NotImplementedError(f"{self!r} multiplies by its values only")

    def magnitudes(self, A: Data) -> FloatArray:
        """Return, for each row x of A, the scale of the rounding error of k(x, x): about eps times this, (A.n,)."""
        return np.abs(self.diag(A))

    @property
    def loses_digits(self) -> bool:
        """Whether `magnitudes` may be larger than the values, for instance because numbers are subtracted."""
        return any(part.loses_digits for part in self.parts)

    @abstractmethod
    def lower(self) -> Program | None:
        """Return the kernel as a program over tiles, or None if it has no program (a function, given values)."""

    @property
    def is_psd(self) -> bool | None:
        """True if it is proved positive semidefinite, None if that is unknown."""
        return None

    @property
    def is_assumed(self) -> bool:
        """Whether it is positive semidefinite only by assertion: `Precomputed` or `Callable` with ``is_psd=True``."""
        return any(part.is_assumed for part in self.parts)

    @property
    def calls_function(self) -> bool:
        """Whether it is computed by a Python function of two blocks of rows."""
        return any(part.calls_function for part in self.parts)

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows may be objects of any kind, because only Python functions of the user read them."""
        return False

    @property
    def proof(self) -> tuple[str, ...]:
        """The steps that prove it positive semidefinite, each a kernel and its rule; empty if that is unknown."""
        if not self.is_psd:
            return ()
        steps = dict.fromkeys(step for part in self.parts for step in part.proof)
        return (*steps, f"{self!r} is {self.rule}")

    def resolve(self, X: Any, weights: npt.ArrayLike | None = None) -> Self:
        """Return the kernel with each rule that depends on data (gamma "scale", "median", ...) replaced by a number.

        `reasons` says how each number was found.

        Parameters
        ----------
        X : Data, array-like, sparse matrix, dataframe, strings or sets
            The rows that a machine is fitted on.
        weights : array-like of shape (n,), optional
            Weights of the rows: a weight acts as repetition, 0 as absence.

        Raises
        ------
        ValueError, TypeError
            If X does not hold rows that the kernel takes, or a rule finds no number in them.
        """
        return cast(Self, self._resolved(as_rows(self, X), weights))

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Do the work of `resolve`, for `Data`."""
        del X, weights  # this kernel has no rules
        return self

    @property
    def reasons(self) -> tuple[str, ...]:
        """For each parameter that `resolve` found in the data: its value and how it was found, as text."""
        gamma = getattr(self, "gamma", None)
        gamma_reason = (
            (f"gamma = {gamma:.6g} by {gamma.rule!r}: {gamma.reason}",) if isinstance(gamma, FoundGamma) else ()
        )
        return gamma_reason + tuple(reason for part in self.parts for reason in part.reasons)

    def disagreements(self, X: Data, weights: FloatArray | None = None) -> list[str]:
        """Return a sentence for each number of the kernel that these training rows contradict."""
        return [sentence for part in self.parts for sentence in part.disagreements(X, weights)]

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, and the parameters of the parts as ``part__name``, as in scikit-learn.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of the parts.
        """
        params: dict[str, Any] = (
            {one.name: getattr(self, one.name) for one in fields(self)} if is_dataclass(self) else {}
        )
        return params | (inner_params(params) if deep else {})

    def with_params(self, **params: Any) -> Kernel:
        """Return a new kernel with other values of some parameters, named as in `get_params`.

        Raises
        ------
        TypeError, ValueError
            If there is no such parameter, or a value is not allowed.

        Examples
        --------
        >>> from mercer.kernels import RBF, Linear
        >>> (RBF(gamma=1.0) + Linear()).with_params(left__gamma=0.5)
        RBF(gamma=0.5) + Linear()
        """
        current = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for path, value in params.items():
            name, _, rest = path.partition("__")
            if name not in current or (rest and not isinstance(params.get(name, current[name]), Kernel)):
                names = ", ".join(self.get_params()) or "none"
                raise ValueError(f"{self!r} has no parameter {path!r}; its parameters are: {names}")
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                current[name] = value
        return self._made_of(current | {name: current[name].with_params(**values) for name, values in inner.items()})

    def _made_of(self, params: dict[str, Any]) -> Kernel:
        return type(self)(**params)

    def __sklearn_clone__(self) -> Kernel:
        return self

    def __add__(self, other: Kernel | float) -> Kernel:
        _refuse_functions(other, f"{self!r} + ...")
        return OPERATIONS["Sum"]((self, other)) if isinstance(other, Kernel) else OPERATIONS["Shift"](self, other)

    def __radd__(self, other: float) -> Kernel:
        return self if isinstance(other, int) and other == 0 else self + other  # `sum` starts with 0

    def __mul__(self, other: Kernel | float) -> Kernel:
        _refuse_functions(other, f"{self!r} * ...")
        return OPERATIONS["Product"]((self, other)) if isinstance(other, Kernel) else OPERATIONS["Scale"](other, self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
        return OPERATIONS["Power"](self, exponent)

    def on(self, columns: Any) -> Kernel:
        """Return the kernel restricted to some columns.

        Parameters
        ----------
        columns : int, str, slice, list of int or str, or boolean mask
            Their indices or names, in any order, without repetition; names need a table with named columns in `fit`.
            Kernels on columns of a data frame may read strings, sets, fingerprints, categories and numbers; columns
            that no kernel names are not read.

        Examples
        --------
        >>> from mercer.kernels import RBF, Hamming
        >>> RBF(gamma=0.5).on([0, 1]) + Hamming(gamma=1.0).on(slice(2, 5))
        RBF(gamma=0.5).on([0, 1]) + Hamming(gamma=1.0).on(slice(2, 5, None))
        """
        return OPERATIONS["On"](self, columns)


class Lowered(Kernel):
    """A kernel that is defined by a program over tiles: inner products, distances, then pointwise operations."""

    @abstractmethod
    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        return block_of(self, self.lower(), A, B)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        return diag_of(self, self.lower(), A)


class Source(NamedTuple):
    """NumPy functions for a pass: sums over the features of two rows, and of a row with itself."""

    pairs: Function[[Vectors, Vectors], FloatArray]
    itself: Function[[Vectors], FloatArray]


def _zeros(rows: Vectors) -> FloatArray:
    return np.zeros(rows.n)


def _ones(rows: Vectors) -> FloatArray:
    return np.ones(rows.n)


SOURCES = {
    Op.DOT: Source(lambda a, b: a.inner(b), lambda a: a.sq_norms()),
    Op.SQDIST: Source(lambda a, b: a.sq_distances(b), _zeros),
    Op.L1: Source(partial(pair_sums, MANHATTAN), _zeros),
    Op.CHI2: Source(partial(pair_sums, CHI_SQUARED), _zeros),
    Op.HAMMING: Source(partial(pair_sums, HAMMING), _zeros),
    Op.MINIMUM: Source(partial(pair_sums, MINIMUM), row_sums),
    Op.SUM: Source(partial(pair_sums, TOTAL), lambda a: 2.0 * row_sums(a)),
    Op.TANIMOTO: Source(tanimoto, _ones),
    Op.DICE: Source(dice, _ones),
}


def block_of(kernel: Kernel, program: Program, A: Data, B: Data) -> FloatArray:
    """Return the block of a kernel that has a program."""
    a, b = _features(kernel, A, program), _features(kernel, B, program)
    if a.p != b.p:
        raise ValueError(f"{kernel!r} needs rows of the same number of features on both sides, got {a.p} and {b.p}")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return finite(
            kernel, interpret(program, lambda step: SOURCES[step[0]].pairs(seen(step[1], a), seen(step[1], b)))
        )


def diag_of(kernel: Kernel, program: Program, A: Data) -> FloatArray:
    """Return the diagonal of a kernel that has a program."""
    a = _features(kernel, A, program)
    constant = a.n > 0 and all(SOURCES[op].itself in (_zeros, _ones) for op, _ in program if op in SOURCES)
    some = a.rows(slice(0, 1)) if constant else a  # a kernel of distances has the same value for all rows
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        diagonal = finite(kernel, interpret(program, lambda step: SOURCES[step[0]].itself(seen(step[1], some))))
    return np.full(a.n, diagonal[0]) if constant else diagonal


def refuse_negative(what: object, program: Program, rows: Vectors) -> None:
    """Refuse rows with negative entries if a pass of the program is not defined for them.

    Raises
    ------
    ValueError
        If there are such entries.
    """
    for argument in {argument for op, argument in program if op in NONNEGATIVE}:
        least = least_entry(seen(argument, rows))
        if least < 0.0:
            raise ValueError(
                f"{what} is a kernel of rows without negative entries (counts, histograms), got {least:g}: shift or "
                "scale the columns (for example to 0 to 1), or choose another kernel"
            )


def finite(kernel: Kernel, values: FloatArray) -> FloatArray:
    """Return the values, or raise a ValueError if some are NaN or infinite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"values of {kernel!r} are not finite: they overflow double precision, or the rows hold NaN or infinity; "
            "scale the columns (for example to mean 0 and variance 1) or choose a smaller gamma or degree"
        )
    return values


def nesting(kernel: Kernel) -> int:
    """Return the nesting depth of a kernel: 1 for an elementary one."""
    return 1 + max(map(nesting, kernel.parts), default=0)


def inner_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the kernels among the given parameters, as ``name__inner``."""
    return {
        f"{name}__{inner}": inner_value
        for name, value in params.items()
        if isinstance(value, Kernel)
        for inner, inner_value in value.get_params().items()
    }


def _refuse_functions(other: object, where: str) -> None:
    if isinstance(other, type):
        raise TypeError(
            f"{where} takes a kernel or a number, got the class {other.__name__}: write {other.__name__}(...)"
        )
    if callable(other) and not isinstance(other, Kernel):
        raise TypeError(f"{where} takes a kernel or a number, got a function: write mercer.kernels.Callable(function)")


def _features(kernel: Kernel, data: Data, program: Program) -> Vectors:
    rows = vectors(kernel, data)
    refuse_negative(kernel, program, rows)
    return rows


def vectors(kernel: Kernel, data: Data) -> Vectors:
    """Return the data as rows of features, or raise a TypeError that names the kernel."""
    if not isinstance(data, Vectors):
        other = (
            "a kernel such as Spectrum(3)" if isinstance(data, Structured) else "kernel='precomputed' for kernel values"
        )
        raise TypeError(f"{kernel!r} needs rows of features, got {data!r}: use {other}")
    return data


def _plain(value: object) -> object:
    if isinstance(value, Kernel):
        return value.to_dict()
    if isinstance(value, slice):
        raise ValueError(f"{value} of columns is written once it is resolved: call kernel.resolve(X) first")
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def restored_rows(kernel: Kernel, stored: Any) -> Data:
    """Return the data whose `stored` attribute (or given kernel values) was `stored`, without checks."""
    if isinstance(stored, dict) and (mixed := mixed_rows(kernel, stored, fitted=True)) is not None:
        return mixed
    if kernel.takes_values:
        return GivenValues(stored)
    if kernel.is_structured:
        return as_structured(stored)
    is_numbers = sp.issparse(stored) or (isinstance(stored, np.ndarray) and stored.ndim == 2 and stored.dtype in FLOATS)
    return numbers_of(kernel, stored) if is_numbers or not kernel.takes_any_rows else ObjectRows(stored)


def numbers_of(kernel: Kernel, table: Any) -> Dense | CSR:
    """Return a table of numbers as the data that the kernel takes; kernels of fingerprints take packed bits."""
    return table_of_bits_or_counts(table) if kernel.takes_fingerprints else as_data(table)


def as_rows(kernel: Kernel, X: Any) -> Data:
    """Return X as the data that the kernel takes, with column names if it has some; `Data` are returned unchanged.

    Raises
    ------
    ValueError, TypeError
        If X does not hold rows of finite numbers, or strings or sets for a kernel of these.
    """
    if isinstance(X, Data):
        return X
    mixed = mixed_rows(kernel, X)
    if mixed is not None:
        return mixed
    if kernel.takes_symbols:
        X = symbols_of_table(X)
    if kernel.takes_any_rows and not is_table(X):
        return ObjectRows(X)
    if kernel.takes_fingerprints:
        X = fingerprint_table(X)
    if kernel.is_structured or looks_structured(X):
        return as_structured(X)
    rows = GivenValues(X) if kernel.takes_values else numbers_of(kernel, X)
    names = list(getattr(X, "columns", []))
    rows.names = names if names and all(isinstance(name, str) for name in names) else None
    problem = rows.finite_problem(rows.names)
    if problem is not None:
        raise ValueError(f"X must hold finite numbers: {problem}")
    return rows
