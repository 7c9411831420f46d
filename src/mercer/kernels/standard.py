"""Kernels of an inner product, kernels by a Python function, and given kernel values."""

from __future__ import annotations

import inspect
from collections.abc import Callable as Function
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import CSR, Data, Dense, ObjectRows, Structured
from mercer.data import Precomputed as GivenValues
from mercer.kernels.kernel import Kernel, Lowered, Schema
from mercer.kernels.parameters import Gamma, gamma_or_rule, integer, number, real, resolve_gamma
from mercer.kernels.program import Op, Program, simplify

_DIAGONAL_ROWS = 64  # rows of a block from which the diagonal of a kernel function is taken
_ASSUMED = "positive semidefinite by the user's word"
_ASYMMETRY = 1e-3  # relative to the largest value; larger than the rounding of a function in float32


@dataclass(frozen=True)
class Linear(Lowered):
    """The inner product, k(x, z) = <x, z>.

    It has no parameters. A value costs p multiplications, or one per stored entry of a CSR row.

    Raises
    ------
    TypeError, ValueError
        In `block` and `diag`, as for all kernels of features: for data that are not rows of features, rows of different
        length, and values that overflow.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Linear().block(as_data([[1.0, 2.0]]), as_data([[3.0, 4.0]]))
    array([[11.]])
    """

    names = ("linear",)
    schema: ClassVar[Schema] = {}
    rule = "an inner product"

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product."""
        return True

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.DOT, 0.0),)


@dataclass(frozen=True)
class Polynomial(Lowered):
    """The polynomial kernel, k(x, z) = (gamma <x, z> + coef0)^degree.

    It is positive semidefinite for coef0 >= 0; with a negative coef0 `is_psd` is None (unknown).

    Parameters
    ----------
    degree : int, default=3
        At least 0; degree 0 gives the constant 1.
    gamma : float >= 0, "scale" or "auto", default="scale"
        "scale" is 1/(p * variance of X) and "auto" is 1/p, for the training rows.
    coef0 : float, default=0.0
        The constant term; with 0 the polynomial is homogeneous.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

    Notes
    -----
    A value costs an inner product and about log2(degree) multiplications. The parameters are those of scikit-learn.

    References
    ----------
    Boser, Guyon & Vapnik (1992); Schölkopf & Smola (2002), section 2.3.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Polynomial(degree=2, gamma=1, coef0=1).block(as_data([[1.0, 2.0]]), as_data([[3.0, 4.0]]))
    array([[144.]])
    """

    degree: int = 3
    gamma: Gamma = "scale"
    coef0: float = 0.0

    names = ("poly", "polynomial")
    schema: ClassVar[Schema] = {"degree": "integer", "gamma": "gamma", "coef0": "number"}
    rule = "a polynomial of an inner product with coefficients >= 0"

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", integer("degree", self.degree))
        object.__setattr__(self, "gamma", gamma_or_rule(self.gamma))
        object.__setattr__(self, "coef0", real("coef0", self.coef0))

    @property
    def is_psd(self) -> bool | None:
        """True for coef0 >= 0 or degree 0, else None."""
        return True if self.coef0 >= 0 or self.degree == 0 else None

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Polynomial:
        """Return the kernel with gamma as a number."""
        return Polynomial(self.degree, resolve_gamma(self.gamma, X, weights), self.coef0)

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        gamma = number(self.gamma, self)
        degree = float(self.degree)
        return simplify(((Op.DOT, 0.0), (Op.SCALE, gamma), (Op.SHIFT, self.coef0), (Op.POWER, degree)))


@dataclass(frozen=True)
class Sigmoid(Lowered):
    """The sigmoid kernel, k(x, z) = tanh(gamma <x, z> + coef0).

    It is not positive semidefinite in general, so `is_psd` is None (unknown). On many data sets a trained machine is
    at a stationary point, which need not be the optimum.

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default="scale"
        "scale" is 1/(p * variance of X) and "auto" is 1/p, for the training rows.
    coef0 : float, default=0.0
        Constant term inside the hyperbolic tangent.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.

    Notes
    -----
    A value costs an inner product and a hyperbolic tangent. The parameters are those of scikit-learn.

    References
    ----------
    Lin & Lin (2003), A study on sigmoid kernels for SVM and the training of non-PSD kernels by SMO-type methods.

    Examples
    --------
    >>> Sigmoid(gamma=1, coef0=1).is_psd is None
    True
    """

    gamma: Gamma = "scale"
    coef0: float = 0.0

    names = ("sigmoid", "tanh")
    schema: ClassVar[Schema] = {"gamma": "gamma", "coef0": "number"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", gamma_or_rule(self.gamma))
        object.__setattr__(self, "coef0", real("coef0", self.coef0))

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Sigmoid:
        """Return the kernel with gamma as a number."""
        return Sigmoid(resolve_gamma(self.gamma, X, weights), self.coef0)

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        gamma = number(self.gamma, self)
        return simplify(((Op.DOT, 0.0), (Op.SCALE, gamma), (Op.SHIFT, self.coef0), (Op.TANH, 0.0)))


@dataclass(frozen=True)
class Callable(Kernel):
    """A kernel that a Python function computes, for blocks of rows or for single pairs of rows.

    Parameters
    ----------
    function : callable
        ``function(A_rows, B_rows)`` returns the kernel values between all rows of the left block and all rows of the
        right block, as an array or sparse matrix of shape (len(A_rows), len(B_rows)). A table of numbers is passed as
        an ndarray or csr_array of float64 (also for float32 tables). Other rows are passed in a container of the same
        kind as in `fit`: a list or tuple of any objects, a Series or dataframe with a new index, an ndarray of the same
        dtype and trailing shape (rows of text, images, single numbers). A list of arrays stays a list. The function
        must be symmetric, k(x, z) = k(z, x), and must compute in double precision, because its values are taken as
        exact. The kernel can be pickled if the function can.
    is_psd : bool, optional
        True asserts that the function is symmetric and positive semidefinite on any rows. Solutions are then called
        `optimal` without a check. By default the library tests the kernel values.
    pairwise : bool, default=False
        True means that the function takes two single rows and returns one number, ``function(x, z)``. A row of a table
        is then an array of shape (p,), a row of a sparse table one of shape (1, p). The function is called
        n (n + 1) / 2 times for n training rows.

    Raises
    ------
    TypeError
        If it is not callable.

    Notes
    -----
    The function is called from one thread. If it takes blocks, a fit calls it once with all n training rows on both
    sides, if their matrix of 8 n² bytes is at most three quarters of `memory_limit` (1 GiB by default, so up to
    10,000 rows). Otherwise, and in prediction, it is called with blocks of rows. The library does not know whether the
    function is a kernel, so it tests the values (:func:`mercer.kernels.diagnose`).

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Callable(lambda A, B: A @ B.T + 1).block(as_data([[1.0, 2.0]]), as_data([[3.0, 4.0]]))
    array([[12.]])
    >>> Callable(lambda x, z: x @ z + 1, pairwise=True).block(as_data([[1.0, 2.0]]), as_data([[3.0, 4.0]]))
    array([[12.]])
    """

    function: Function[[Any, Any], Any]
    is_psd: bool | None = field(default=None, kw_only=True)
    pairwise: bool = field(default=False, kw_only=True)

    rule = _ASSUMED
    calls_function = True
    takes_any_rows = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", known_psd(self.is_psd))
        if not isinstance(self.pairwise, (bool, np.bool_)):
            raise TypeError(f"pairwise must be True or False, got {self.pairwise!r}")
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(f"a kernel function must be callable with two blocks of rows, got {self.function!r}")

    def __repr__(self) -> str:
        words = (", is_psd=True" if self.is_psd else "") + (", pairwise=True" if self.pairwise else "")
        return f"Callable({getattr(self.function, '__qualname__', repr(self.function))}{words})"

    @property
    def is_assumed(self) -> bool:
        """Whether the user asserts that it is positive semidefinite."""
        return self.is_psd is True

    def lower(self) -> None:
        """Return None: a Python function has no program."""
        return None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the values of the function, after a check that they are finite real numbers of shape (A.n, B.n).

        Raises
        ------
        ValueError
            If they have another shape or type, or include NaN or infinity.
        TypeError
            If the function does not take two arguments.
        """
        left, right = stored_rows(self, A), stored_rows(self, B)
        try:
            values: Any = self._values(left, right) if self.pairwise else self.function(left, right)
        except Exception as error:
            if self.pairwise:
                error.add_note(
                    f"in the kernel function of {self!r}: it gets two single rows and returns a number. A function of "
                    "two blocks of rows goes in as mercer.kernels.Callable(function)"
                )
                raise
            if isinstance(error, TypeError) and not self._takes_two(left, right, error):
                raise TypeError(
                    f"kernel must be a function of two blocks of rows: {self!r} gets both, here of {A.n} and {B.n} "
                    f"rows, and returns the ({A.n}, {B.n}) array of values between them, but {error}."
                ) from error
            error.add_note(
                f"in the kernel function of {self!r}: it gets two blocks of rows, here of {A.n} and {B.n} rows, "
                f"and returns the ({A.n}, {B.n}) array of values between them"
            )
            raise
        values = values.toarray() if sp.issparse(values) else np.asarray(values)
        if values.shape != (A.n, B.n):
            raise ValueError(
                f"the kernel function of {self!r} must return an array of shape {(A.n, B.n)} for {A.n} and {B.n} rows, "
                f"got {values.shape}"
            )
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"the kernel function of {self!r} must return real numbers, got an array of {values.dtype}"
            )
        bad = np.argwhere(~np.isfinite(values))
        if bad.size:
            i, j = (int(k) for k in bad[0])
            raise ValueError(
                f"the kernel function of {self!r} must return finite numbers, got {values[i, j]} for row {i} of the "
                f"left block and row {j} of the right one ({len(bad)} such value(s) of {values.size})"
            )
        return values.astype(np.float64, copy=False)

    def _values(self, left: Any, right: Any) -> FloatArray:
        """Call the function for each pair of rows; for each pair once if both sides are the same rows."""
        left, right = _each(left), _each(right)
        is_same = len(left) == len(right) and all(map(_is_same, left, right))
        values = np.empty((len(left), len(right)))
        for i, x in enumerate(left):
            for j in range(i if is_same else 0, len(right)):
                value = np.asarray(self.function(x, right[j]))
                if value.size != 1:
                    raise ValueError(f"the function must return one number for two rows, got shape {value.shape}")
                if value.dtype.kind not in "biuf":
                    raise ValueError(f"the function must return a real number for two rows, got {value.item()!r}")
                values[i, j] = value.item()
                if is_same:
                    values[j, i] = values[i, j]
        return values

    def _takes_two(self, left: Any, right: Any, error: TypeError) -> bool:
        """Return whether the function takes two blocks; True if the error arose inside it, or if this is unknown."""
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            return True
        try:
            inspect.signature(self.function, follow_wrapped=False).bind(left, right)
        except TypeError:
            return False
        except ValueError:  # some functions of compiled modules have no signature
            return True
        return True

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, from the diagonals of small blocks.

        Raises
        ------
        ValueError
            If such a block is not symmetric; also as in `block`.
        """
        diagonal = np.empty(A.n)
        if self.pairwise:
            for k in range(A.n):
                row = A.rows([k])
                diagonal[k] = self.block(row, row)[0, 0]
            return diagonal
        for start in range(0, A.n, _DIAGONAL_ROWS):
            part = A.rows(slice(start, start + _DIAGONAL_ROWS))
            values = self.block(part, part)
            difference = np.abs(values - values.T)
            if difference.max(initial=0.0) > _ASYMMETRY * np.abs(values).max(initial=0.0):
                i, j = np.unravel_index(int(difference.argmax()), values.shape)
                raise ValueError(
                    f"the kernel function of {self!r} must be symmetric, but it returned {values[i, j]:g} for rows "
                    f"{start + i} and {start + j} and {values[j, i]:g} for rows {start + j} and {start + i}"
                )
            diagonal[start : start + _DIAGONAL_ROWS] = np.diagonal(values)
        return diagonal


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Kernel values that are given as data: see `mercer.data.Precomputed`.

    A value costs no arithmetic. The library does not know whether the values belong to a kernel, so it tests them
    (:func:`mercer.kernels.diagnose`) by a Cholesky factorisation of up to 5,000 rows. With more rows, a solution is
    called `stationary`, unless `is_psd` is True.

    Parameters
    ----------
    name : str, optional
        The name of the matrix, if several are given: ``Precomputed("a") + 0.5 * Precomputed("b")`` is for
        ``{"a": K_a, "b": K_b}``, each square in `fit`, and of the new rows with the training rows in `predict`.
        ``Precomputed("a")`` is ``Precomputed().on("a")``.
    is_psd : bool, optional
        True asserts that the matrix is positive semidefinite. Solutions are then called `optimal` without a check.

    Raises
    ------
    TypeError
        In `block` and `diag`, for rows of features instead of kernel values.
    ValueError
        For rows without columns of their own, which serve for prediction only.

    Examples
    --------
    >>> from mercer.data import Precomputed as GivenValues
    >>> K = GivenValues([[2.0, 1.0], [1.0, 2.0]])
    >>> Precomputed().block(K.rows([0]), K.rows([1]))
    array([[1.]])
    """

    names = ("precomputed",)
    schema: ClassVar[Schema] = {}
    takes_values = True
    rule = _ASSUMED

    is_psd: bool | None = field(default=None, kw_only=True)

    def __new__(cls, name: str | None = None, **is_psd: Any) -> Any:
        """Return the kernel of a matrix, or of the matrix of this name."""
        return cls(**is_psd).on(name) if isinstance(name, str) else super().__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", known_psd(self.is_psd))

    def __repr__(self) -> str:
        return "Precomputed(is_psd=True)" if self.is_psd else "Precomputed()"

    @property
    def is_assumed(self) -> bool:
        """Whether the user asserts that the matrix is positive semidefinite."""
        return self.is_psd is True

    def lower(self) -> None:
        """Return None: given values have no program."""
        return None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the given values of the rows of A in the columns of the rows of B."""
        return _given_values(A).values(_given_values(B).own_columns())

    def diag(self, A: Data) -> FloatArray:
        """Return the given value of each row with itself."""
        return _given_values(A).diagonal()


def stored_rows(kernel: Kernel, rows: Data) -> Any:
    """Return the rows in the form that a user's function receives: an ndarray, a csr_array, or the user's container.

    Numbers are float64, because certificates assume float64 rounding. The arrays are copies, because the function may
    work in place. They are writable and in C order, because many compiled functions refuse other arrays.
    """
    if isinstance(rows, Dense):
        return rows.array.astype(np.float64, order="C")
    if isinstance(rows, CSR):
        return rows.matrix.astype(np.float64)
    if isinstance(rows, Structured):
        return rows.stored.copy()
    if isinstance(rows, ObjectRows):
        return rows.stored
    raise TypeError(f"{kernel!r} needs rows of features, got {rows!r}")


def _each(rows: Any) -> list[Any]:
    """Single rows of an array, a sparse matrix (of shape (1, p) each), a list, a Series or a dataframe."""
    if sp.issparse(rows):
        return [rows[[i], :] for i in range(rows.shape[0])]
    return [rows.iloc[i] for i in range(len(rows))] if hasattr(rows, "iloc") else list(rows)


def _is_same(x: Any, z: Any) -> bool:
    if x is z:
        return True
    if sp.issparse(x) and sp.issparse(z):
        return x.shape == z.shape and (x != z).nnz == 0
    return isinstance(x, np.ndarray) and isinstance(z, np.ndarray) and not x.dtype.hasobject and np.array_equal(x, z)


def known_psd(is_psd: Any) -> bool | None:
    """Return True if the user asserts that a kernel is positive semidefinite, None if that is unknown."""
    if is_psd is not None and not isinstance(is_psd, (bool, np.bool_)):
        raise TypeError(f"is_psd must be True, False or None, got {is_psd!r}")
    return True if is_psd else None


def _given_values(rows: Data) -> GivenValues:
    if not isinstance(rows, GivenValues):
        raise TypeError(f"Precomputed() needs precomputed kernel values, a mercer.data.Precomputed, got {rows!r}")
    return rows
