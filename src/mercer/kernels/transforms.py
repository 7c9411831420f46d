"""Kernels of transformed rows or points: on some columns, normalised, centred."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data, MixedRows
from mercer.data.lazy import lazy_property
from mercer.data.mixed_rows import REST
from mercer.data.rows import BLOCK_VALUES
from mercer.kernels.algebra import OfOne, formula
from mercer.kernels.column_parts import reading
from mercer.kernels.kernel import OPERATIONS, Kernel, Schema, finite, vectors
from mercer.kernels.origin import without_origin
from mercer.kernels.parameters import integer
from mercer.kernels.program import Op, Program
from mercer.kernels.rows_in_files import Plain, plain_rows, read_rows
from mercer.kernels.views import Column, Columns, through

_ALIKE = 1e-9  # relative difference up to which a mean in a model file counts as the one of the training rows
ZERO_SHARE = 16 * 2.0**-53  # a k(x, x) below this share of its magnitude is 0 up to rounding


@dataclass(frozen=True, repr=False)
class On(OfOne):
    """A kernel on some of the columns, ``k.on([0, 1])``: see `Kernel.on`.

    Parameters
    ----------
    kernel : Kernel
        A kernel of rows of features.
    columns : int, str, slice, list of int or str, or boolean mask
        The columns; a resolved kernel has their indices in ascending order.

    Raises
    ------
    TypeError, ValueError
        If they have another type, are empty, or repeat a column; in `resolve`, if the rows do not have such columns.

    Notes
    -----
    A composite of kernels on different columns is one program, which reads each group of columns from the same rows.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Linear
    >>> Linear().on([0, 2]).block(as_data([[1.0, 2.0, 3.0]]), as_data([[4.0, 5.0, 6.0]]))
    array([[22.]])
    """

    kernel: Kernel
    columns: Any

    schema: ClassVar[Schema] = {"kernel": "kernel", "columns": "plain"}
    rule = "a kernel on some columns"

    def __post_init__(self) -> None:
        self.take(self.kernel)
        object.__setattr__(self, "columns", _columns(self, self.columns))

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Return the kernel with column indices, and with its inner rules resolved on these columns."""
        if isinstance(X, MixedRows):
            columns = X.rest if self.columns == REST and X.rest is not None else self.columns
            return On(self.kernel.resolve(self.part_of(X), weights), columns)
        view = self._view(X)
        return On(self.kernel.resolve(view.of(vectors(self, X)), weights), view.chosen)

    @property
    def named_columns(self) -> tuple[tuple[Kernel, tuple[str, ...]], ...]:
        """The kernel and its columns, if these are names."""
        if isinstance(self.columns, slice) or not all(isinstance(one, str) for one in self.columns):
            return super().named_columns
        if self.kernel.named_columns:
            raise ValueError(f"{self!r} names columns twice: give each kernel its columns once")
        return ((self.kernel, self.columns),)

    def lower(self) -> Program | None:
        """Return the kernel's program on a view of the rows, the chosen columns; None for columns of a data frame."""
        if self.named_columns:
            return None
        program = self.kernel.lower()
        if isinstance(self.columns, slice) or not all(isinstance(k, int) and k >= 0 for k in self.columns):
            raise ValueError(f"{self!r} takes its columns from the data: call kernel.resolve(X) first")
        return None if program is None else through(Columns(self.columns), program)

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows restricted to the columns, (A.n, B.n) in float64."""
        return self.kernel.block(self.part_of(A), self.part_of(B))

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row of A restricted to the columns, (A.n,) in float64."""
        return self.kernel.diag(self.part_of(A))

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the rounding scale of k(x, x); see `Kernel.magnitudes`."""
        return self.kernel.magnitudes(self.part_of(A))

    def __hash__(self) -> int:
        return hash((self.kernel, repr(self.columns)))

    def __repr__(self) -> str:
        if self.columns == REST:
            return f"{formula(self.kernel, 4)}.on(REST)"
        listed = self.columns if isinstance(self.columns, slice) else list(self.columns)
        return f"{formula(self.kernel, 4)}.on({listed!r})"

    def disagreements(self, X: Data, weights: FloatArray | None = None) -> list[str]:
        """Return the disagreements of the kernel with the columns; see `Kernel.disagreements`."""
        return self.kernel.disagreements(self.part_of(X), weights)

    @property
    def takes_values(self) -> bool:
        """Whether the rows hold given kernel values only; not if these are a matrix among others, which has a name."""
        return super().takes_values and not self.named_columns

    def work(self, X: Data) -> float:
        """Return the approximate time per value in nanoseconds."""
        return self.kernel.work(self.part_of(X))

    def part_of(self, X: Data) -> Data:
        """Return the columns of these rows that the kernel reads."""
        if isinstance(X, MixedRows):
            return X.part((reading(self.kernel), self.columns))
        return self._view(X).of(vectors(self, X))

    def _view(self, X: Data) -> Columns:
        if isinstance(self.columns, slice):
            columns = tuple(range(X.p)[self.columns])
        else:
            columns = tuple(self._index(one, X) for one in self.columns)
        if not columns or len(set(columns)) < len(columns):
            raise ValueError(f"{self!r} needs at least one column and none twice, got {list(columns)} of {X.p}")
        return Columns(tuple(sorted(columns)))

    def _index(self, column: int | str, X: Data) -> int:
        if isinstance(column, str):
            if X.names is None:
                raise ValueError(f"{self!r} needs a table whose columns have names, got {X!r}")
            if column not in X.names:
                raise ValueError(f"{self!r} needs a column {column!r}, and the rows have {', '.join(X.names)}")
            return X.names.index(column)
        if not -X.p <= column < X.p:
            raise ValueError(f"{self!r} needs column {column}, and the rows have {X.p} columns")
        return column % X.p


def _columns(kernel: Kernel, columns: Any) -> slice | tuple[int | str, ...]:
    if isinstance(columns, slice):
        return columns
    if isinstance(columns, (str, Integral)):
        columns = [columns]
    index = np.asarray(columns)
    if index.ndim == 1 and index.dtype.kind == "b":
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iuUO":
        raise TypeError(
            f"the columns of a kernel must be indices, names, a slice or a boolean mask, at least one, got {columns!r}"
        )
    chosen = tuple(
        one if isinstance(one, str) else integer("a column", abs(one)) * (-1 if one < 0 else 1)
        for one in index.tolist()
    )
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"the columns of a kernel must be different, got {list(chosen)}")
    # Nonnegative indices are sorted now; all others are converted when the kernel is resolved.
    return tuple(sorted(chosen)) if all(isinstance(one, int) and one >= 0 for one in chosen) else chosen


@dataclass(frozen=True, repr=False)
class Normalized(OfOne):
    """A kernel divided by the lengths of its points, ``normalize(k)``: k(x, z) / sqrt(k(x, x) k(z, z)).

    It is the cosine of the angle in the kernel's space; 0 if one of the points has length 0.

    Parameters
    ----------
    kernel : Kernel
        A kernel of any kind of rows.

    Raises
    ------
    TypeError, ValueError
        If it is not a kernel; in `block` and `diag`, if k(x, x) is negative.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Polynomial, normalize
    >>> rows = as_data([[1.0, 0.0], [1.0, 1.0]])
    >>> normalize(Polynomial(degree=2, gamma=1.0)).block(rows, rows).round(3)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    kernel: Kernel

    schema: ClassVar[Schema] = {"kernel": "kernel"}
    rule = "a kernel divided by the lengths of its points"

    def __post_init__(self) -> None:
        self.take(self.kernel)

    @property
    def takes_any_rows(self) -> bool:
        """Whether the inner kernel takes rows of any kind, because a Python function reads them."""
        return self.kernel.takes_any_rows

    def lower(self) -> Program | None:
        """Return the kernel's program, times 1 / sqrt(k(x, x)) on either side."""
        program = self.kernel.lower()
        view = Column(self, self._inverse_lengths)
        return None if program is None else (*program, (Op.DOT, view), (Op.MUL, 0.0))

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        lengths = np.multiply.outer(self._inverse_lengths(A), self._inverse_lengths(B))
        return finite(self, self.kernel.block(A, B) * lengths)

    def diag(self, A: Data) -> FloatArray:
        """Return 1 for each row of A, or 0 if k(x, x) is 0, (A.n,)."""
        return (self._inverse_lengths(A) > 0.0).astype(np.float64)

    def _inverse_lengths(self, rows: Data) -> FloatArray:
        squares = self.kernel.diag(rows)
        nothing = ZERO_SHARE * self.kernel.magnitudes(rows)  # an exact 0 may be as large by rounding
        if (squares < -nothing).any():
            raise ValueError(
                f"{self!r} needs k(x, x) >= 0, got {squares.min():g} in row {int(squares.argmin())}: this is no kernel"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(squares > nothing, 1.0 / np.sqrt(squares), 0.0)

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the rounding scale of k(x, x); see `Kernel.magnitudes`."""
        return finite(self, self.kernel.magnitudes(A) * self._inverse_lengths(A) ** 2)

    def __repr__(self) -> str:
        return f"normalize({self.kernel!r})"


def normalize(kernel: Kernel) -> Kernel:
    """Return the kernel divided by the lengths of its points, k(x, z) / sqrt(k(x, x) k(z, z)).

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Normalized
        Its documentation says what happens for points of length 0.

    Examples
    --------
    >>> from mercer import Linear, gram_matrix
    >>> gram_matrix(normalize(Linear()), [[3.0, 4.0]], [[0.0, 2.0]])
    array([[0.8]])
    """
    return Normalized(kernel)


class Reference:
    """The weighted rows that a kernel is centred on; two are equal if rows and weights are equal."""

    def __init__(self, rows: Data, weights: npt.ArrayLike | None) -> None:
        given = np.ones(rows.n) if weights is None else np.asarray(weights, dtype=np.float64)
        used = np.flatnonzero(given)
        self.rows = rows if used.size == rows.n else rows.rows(used)
        self.weights = given[used] / given.sum()
        self.level: float | None = None  # the mean of two rows, where a model file says it

    def to_dict(self, kernel: Kernel, level: float) -> Plain:
        """Return the rows that the kernel reads, their weights and the level: see `Centered.level`."""
        columns = dict.fromkeys(name for _, names in kernel.named_columns for name in names)
        rows = plain_rows(self.rows, columns or None)
        return {"rows": rows, "weights": self.weights.tolist(), "level": level}

    @classmethod
    def from_dict(cls, kernel: Kernel, document: object) -> Reference:
        """Return what `to_dict` wrote; ValueError if an entry is missing or invalid."""
        if not isinstance(document, dict) or document.keys() != {"rows", "weights", "level"}:
            raise ValueError("the reference of a centred kernel must have rows, weights and a level")
        weights, level = document["weights"], document["level"]
        if not isinstance(weights, list) or not all(type(one) in (int, float) for one in (*weights, level)):
            raise ValueError("the weights and the level of a centred kernel must be numbers")
        reference = object.__new__(cls)
        reference.rows = read_rows(kernel, document["rows"])
        reference.weights, reference.level = np.array(weights, dtype=np.float64), float(level)
        shares = reference.weights
        if not (shares.size == reference.rows.n > 0 and (shares > 0.0).all() and abs(shares.sum() - 1.0) < 1e-6):
            raise ValueError("the weights of a centred kernel must be one positive number for each row, with sum 1")
        if not np.isfinite(reference.level):
            raise ValueError("the level of a centred kernel must be finite")
        return reference

    @lazy_property
    def _bytes(self) -> bytes:
        return pickle.dumps((getattr(self.rows, "array", None), getattr(self.rows, "stored", None), self.weights))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash((self.rows.shape, self.weights.tobytes()))

    def __repr__(self) -> str:
        return f"<{self.rows!r}>"

    def means(self, kernel: Kernel, rows: Data) -> FloatArray:
        """Return the weighted mean of k(x, r) over the reference rows r, for each row x."""
        means = np.empty(rows.n)
        step = max(1, BLOCK_VALUES // max(1, self.rows.n))
        for first in range(0, rows.n, step):
            part = slice(first, first + step)
            means[part] = kernel.block(rows.rows(part), self.rows) @ self.weights
        return means


@dataclass(frozen=True, repr=False)
class Centered(OfOne):
    """A kernel whose points have mean 0, ``center(k)``: <phi(x) - mu, phi(z) - mu>.

    mu is the weighted mean of phi over the training rows.

    Parameters
    ----------
    kernel : Kernel
        A kernel of any kind of rows.
    reference : Reference, optional
        The rows of a resolved kernel; they are written to model files, and not printed.

    Raises
    ------
    TypeError, ValueError
        If it is not a kernel; in `block` and `diag`, if it is not resolved.

    Notes
    -----
    Resolving costs n² kernel values, evaluated by NumPy. Every new row costs n kernel values. Inner products are
    centred as -|x - z|² / 2, which has the same centred values, and keeps its digits if rows are far from the origin.

    References
    ----------
    Schölkopf, Smola & Müller (1998), Nonlinear component analysis as a kernel eigenvalue problem, appendix A.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Linear, center
    >>> rows = as_data([[1.0], [3.0]])
    >>> center(Linear()).resolve(rows).block(rows, rows)
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    kernel: Kernel
    reference: Reference | None = None

    schema: ClassVar[Schema] = {"kernel": "kernel", "reference": "reference"}
    rule = "a kernel whose points are moved"

    def __post_init__(self) -> None:
        self.take(self.kernel)

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Kernel:
        """Return the kernel centred on these rows, unless it is centred already."""
        if self.reference is not None:
            return self
        return Centered(self.kernel.resolve(X, weights), Reference(X, weights))

    def lower(self) -> Program | None:
        """Return the kernel's program, minus the means of both sides."""
        self.level  # noqa: B018  raises a ValueError if the kernel is not resolved
        program = self.evaluated.lower()
        view = Column(self, self._shifts)
        return None if program is None else (*program, (Op.SUM, view), (Op.ADD, 0.0))

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        return finite(self, self.evaluated.block(A, B) + np.add.outer(self._shifts(A), self._shifts(B)))

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        return finite(self, self.evaluated.diag(A) + 2.0 * self._shifts(A))

    @lazy_property
    def evaluated(self) -> Kernel:
        """The function that is centred instead of the kernel, with equal results: see `without_origin`."""
        return without_origin(self.kernel)

    @property
    def loses_digits(self) -> bool:
        """True: means are subtracted."""
        return True

    def magnitudes(self, A: Data) -> FloatArray:
        """Return the rounding scale of k(x, x); see `Kernel.magnitudes`."""
        return finite(self, self.evaluated.magnitudes(A) + 2.0 * np.abs(self._shifts(A)) + abs(self.level))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, without `reference`: a changed kernel must be resolved again."""
        return {name: value for name, value in super().get_params(deep).items() if name != "reference"}

    def _shifts(self, rows: Data) -> FloatArray:
        if self.reference is not None and rows is self.reference.rows:
            return self._own_shifts
        level = self.level
        assert self.reference is not None
        return 0.5 * level - self.reference.means(self.evaluated, rows)

    @lazy_property
    def _own_means(self) -> FloatArray:
        if self.reference is None:
            raise ValueError(f"{self!r} takes its centre from the data: call kernel.resolve(X) first")
        return self.reference.means(self.evaluated, self.reference.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data, with the rows that it is centred on; see `Kernel.to_dict`."""
        document = super().to_dict()
        if self.reference is not None:
            document["reference"] = self.reference.to_dict(self.kernel, self.level)
        return document

    def disagreements(self, X: Data, weights: FloatArray | None = None) -> list[str]:
        """Return a sentence if the kernel is centred on other rows or weights; see `Kernel.disagreements`."""
        inner = super().disagreements(X, weights)
        if self.reference is None:
            return inner
        again = Reference(X, weights)
        if self.reference.to_dict(self.kernel, 0.0)["rows"] != again.to_dict(self.kernel, 0.0)["rows"]:
            return [*inner, f"{self!r} is centred on other rows than the training rows"]
        if not np.allclose(self.reference.weights, again.weights, rtol=_ALIKE, atol=0.0):
            return [*inner, f"{self!r} is centred with other weights than those of the training rows"]
        level = float(again.means(self.evaluated, again.rows) @ again.weights)
        size = float(self.evaluated.magnitudes(X).max(initial=0.0))
        if not abs(level - self.level) <= _ALIKE * max(size, abs(level)):
            return [*inner, f"the mean of {self!r} is {self.level:.9g} in the file and {level:.9g} recomputed"]
        return inner

    @lazy_property
    def level(self) -> float:
        """The mean of `evaluated` over pairs of reference rows."""
        if self.reference is not None and self.reference.level is not None:
            return self.reference.level
        means = self._own_means
        assert self.reference is not None
        return float(means @ self.reference.weights)

    @property
    def _own_shifts(self) -> FloatArray:
        return 0.5 * self.level - self._own_means

    def __repr__(self) -> str:
        return f"center({self.kernel!r})"


def center(kernel: Kernel) -> Kernel:
    """Return the kernel whose training points have mean 0 in its space.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Centered
        `fit` computes the mean from the training rows.

    Examples
    --------
    >>> from mercer import SVC
    >>> from mercer.kernels import Linear
    >>> SVC(kernel=center(Linear())).fit([[0.0], [2.0]], [0, 1]).predict([[1.5]])
    array([1])
    """
    return Centered(kernel)


OPERATIONS.update(On=On)
