"""Kernels of an inner product, and values that a function or somebody else computes."""

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
from mercer.kernels.base import Kernel, Lowered, Schema
from mercer.kernels.parameters import Gamma, gamma_or_rule, number, real, resolve_gamma, whole
from mercer.kernels.program import Op, Program, simplify

_DIAGONAL_ROWS = 64  # rows of the small blocks whose diagonals make up that of a function
_ASSUMED = "positive semidefinite by the user's word"
_ASYMMETRY = 1e-3  # of the largest value: beyond what rounding does to a function in single precision


@dataclass(frozen=True)
class Linear(Lowered):
    """The inner product, k(x, z) = <x, z>.

    Has no parameters. Costs p multiplications a value, in a CSR row, one for each stored entry.

    Raises
    ------
    TypeError, ValueError
        In `block` and `diag`, as for all kernels of features: for data that are no rows of features, rows of different
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

    It is positive semidefinite where coef0 >= 0; with a negative coef0 the answer is "unknown".

    Parameters
    ----------
    degree : int, default=3
        From 0; degree 0 is the constant 1.
    gamma : float >= 0, "scale" or "auto", default="scale"
        "scale" is 1/(p * variance of X) and "auto" is 1/p, once they are resolved.
    coef0 : float, default=0.0
        0 makes it homogeneous.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind.

    Notes
    -----
    Costs an inner product and some log2(degree) multiplications a value. The parameters are those of scikit-learn.

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
        object.__setattr__(self, "degree", whole("degree", self.degree))
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

    Not positive semidefinite in general, so the answer is always "unknown"; on many data a machine trained with
    it is at a stationary point, with no claim that it is the optimum.

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default="scale"
        "scale" is 1/(p * variance of X) and "auto" is 1/p, once they are resolved.
    coef0 : float, default=0.0
        Shift inside the hyperbolic tangent.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind.

    Notes
    -----
    Costs an inner product and a hyperbolic tangent a value. The parameters are those of scikit-learn.

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
    """A kernel computed by a Python function, by block.

    Parameters
    ----------
    function : callable
        ``function(A_rows, B_rows)`` returns the kernel values of every row on the left with every row on the
        right, as an array (or sparse matrix) of shape (len(A_rows), len(B_rows)). Tables of numbers come as an ndarray
        or csr_array of float64, float32 tables too. Other rows come in a container of the kind that they were given in:
        a list or tuple of any objects, a Series or dataframe with a new index, an ndarray of the same dtype and
        trailing shape (rows of text, images, single numbers). A list of arrays stays a list. The function must be
        symmetric: k(x, z) = k(z, x), and compute in double precision: what it returns is taken as
        true. The kernel pickles if the function does.
    is_psd : bool, optional
        True says that the function is symmetric and positive semidefinite on any rows: solutions are then called
        `optimal`, by your word, and nothing is checked. By default the library looks at the values.

    Raises
    ------
    TypeError
        If it is not callable.

    Notes
    -----
    It is called from one thread and never pair by pair: in a fit once with all n training rows on both sides, if their
    matrix of 8 n² bytes takes no more than three quarters of `memory_limit` (1 GiB by default, so up to 10,000 rows);
    else, and in prediction, with blocks of rows. Whether it is a kernel is unknown to the library, which looks at its
    values (:func:`mercer.kernels.diagnose`).

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Callable(lambda A, B: A @ B.T + 1).block(as_data([[1.0, 2.0]]), as_data([[3.0, 4.0]]))
    array([[12.]])
    """

    function: Function[[Any, Any], Any]
    is_psd: bool | None = field(default=None, kw_only=True)

    rule = _ASSUMED
    calls_function = True
    takes_any_rows = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", known_psd(self.is_psd))
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(f"a kernel function must be callable with two blocks of rows, got {self.function!r}")

    def __repr__(self) -> str:
        word = ", is_psd=True" if self.is_psd else ""
        return f"Callable({getattr(self.function, '__qualname__', repr(self.function))}{word})"

    @property
    def is_assumed(self) -> bool:
        """Whether the user says that it is positive semidefinite."""
        return self.is_psd is True

    def lower(self) -> None:
        """Return None: a Python function has no program."""
        return None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return what the function returns, once it is an (A.n, B.n) block of finite real numbers.

        Raises
        ------
        ValueError
            If it is of another shape or type, or holds NaN or infinity.
        TypeError
            If the function does not take two arguments.
        """
        left, right = stored_rows(self, A), stored_rows(self, B)
        try:
            values = self.function(left, right)
        except Exception as error:
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

    def _takes_two(self, left: Any, right: Any, error: TypeError) -> bool:
        """Whether the function can be called with two blocks; True where the error arose in it, or none can tell."""
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
            If such a block is not symmetric; and as in `block`.
        """
        diagonal = np.empty(A.n)
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

    Looking a value up costs no arithmetic. Whether the values are a kernel's is unknown to the library, which looks at
    them (:func:`mercer.kernels.diagnose`): a Cholesky factorisation of up to 5,000 rows. With more rows a solution is
    called `stationary`, unless `is_psd` says what the values are.

    Parameters
    ----------
    is_psd : bool, optional
        True says that the matrix is positive semidefinite: solutions are then called `optimal`, by your word, and
        nothing is checked.

    Raises
    ------
    TypeError
        In `block` and `diag`, for rows of features in the place of kernel values.
    ValueError
        For rows that have no columns of their own, which serve for prediction only.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_psd", known_psd(self.is_psd))

    def __repr__(self) -> str:
        return "Precomputed(is_psd=True)" if self.is_psd else "Precomputed()"

    @property
    def is_assumed(self) -> bool:
        """Whether the user says that the matrix is positive semidefinite."""
        return self.is_psd is True

    def lower(self) -> None:
        """Return None: given values have no program."""
        return None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the given values of the rows of A in the columns that stand for the rows of B."""
        return _given_values(A).values(_given_values(B).own_columns())

    def diag(self, A: Data) -> FloatArray:
        """Return the given value of each row with itself."""
        return _given_values(A).diagonal()


def stored_rows(kernel: Kernel, rows: Data) -> Any:
    """Return the rows as a function of rows gets them: an ndarray, a csr_array, or the container of the user's objects.

    Numbers are in double precision, or values would have the rounding of single, which certificates do not know. They
    are copies: a function that works in place would change the user's table. Read-only arrays, or arrays in any other
    order than C, would shut out compiled functions, many of which refuse them.
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


def known_psd(is_psd: Any) -> bool | None:
    """Return True where the user says that a kernel is positive semidefinite, None where that is unknown."""
    if is_psd is not None and not isinstance(is_psd, (bool, np.bool_)):
        raise TypeError(f"is_psd must be True, False or None, got {is_psd!r}")
    return True if is_psd else None


def _given_values(rows: Data) -> GivenValues:
    if not isinstance(rows, GivenValues):
        raise TypeError(f"Precomputed() needs precomputed kernel values, a mercer.data.Precomputed, got {rows!r}")
    return rows
