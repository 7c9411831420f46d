"""The interface of backends: evaluate a block of kernel values, and multiply a block by vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from math import inf
from typing import NamedTuple

from mercer._core import CompiledKernel, Table
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data


class Tiles(NamedTuple):
    """A compiled kernel and its table, for native code that evaluates kernel values.

    A second thread is not faster for up to `one_thread_values` kernel values.
    """

    isa: str
    kernel: CompiledKernel
    table: Table
    centre: FloatArray | None
    one_thread_values: int


class Backend(ABC):
    """Evaluates one kernel on blocks of rows. `None` for the rows of a table means all of them.

    Attributes
    ----------
    values_per_call : int
        Number of kernel values that take about 10 ms. A call for up to eight times as many stays interruptible. The
        number depends on the data alone, never on a clock.
    kernel_is_expensive : bool
        Whether looking up a kernel value is cheaper than evaluating it.
    values_are_slow : bool
        Whether even storing it in fresh memory is cheaper, as for kernels that Python evaluates.
    n_threads : int
    roundoff : float
        Estimate of the relative error of a kernel value, in units of roundoff.
    scratch_bytes, thread_bytes : int
        Peak memory of one call besides its operands and its result: in total, and in addition for each thread.
    form_bytes : int
        The part of `scratch_bytes` that an encoding of the rows takes as long as the backend exists.
    product_cost : tuple (float, float), optional
        Seconds of a product of all training rows without kernel values, and seconds of a kernel value; None if products
        need kernel values, or if the memory limit does not allow the table of such a product.
    product_rank : float
        A number that the rank of the kernel matrix does not exceed, as such products show; inf if it is not known.
    product_bytes : int
        Bytes of that table; 0 if products need kernel values.
    """

    values_per_call: int
    kernel_is_expensive: bool
    values_are_slow: bool = False
    n_threads: int
    roundoff: float = 1.0
    scratch_bytes: int = 0
    thread_bytes: int = 0
    form_bytes: int = 0
    product_cost: tuple[float, float] | None = None
    product_rank: float = inf
    product_bytes: int = 0

    @abstractmethod
    def block(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        out: RealArray,
        *,
        rounded: bool = False,
    ) -> None:
        """Write k(left_i, right_j) into `out`, (left rows, right rows), float64 or float32, with contiguous rows.

        If `out` is float32, values may be evaluated in single precision; with `rounded` they are evaluated in double
        precision and rounded.
        """

    def prepare(self) -> Iterator[None]:
        """Evaluate the values that are evaluated once, if there are any; yield after every piece of work."""
        return iter(())

    def diagonal(self) -> FloatArray | None:
        """Return k(x, x) of the training rows if all values are in memory, else None."""
        return None

    @abstractmethod
    def matvec(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        vectors: FloatArray,
        *,
        single: bool = False,
    ) -> FloatArray:
        """Return K(left, right) @ vectors, (left rows, t), for vectors of shape (right rows, t).

        With `single`, kernel values may be evaluated in single precision; sums are always in double precision.
        """

    def matvec_part(
        self,
        data: Data,
        rows: IndexArray | None,
        vectors: FloatArray,
        part: int,
        parts: int,
        *,
        single: bool = False,
    ) -> FloatArray | None:
        """Return one of `parts` summands of K(data, data) @ vectors; all summands cost about the same.

        None if the backend does not use the symmetry of K.
        """
        del data, rows, vectors, part, parts, single
        return None

    def products(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> Generator[None, None, FloatArray] | None:
        """Return work that returns K(left, right) @ vectors without kernel values; None if these cost less.

        It yields after bounded work.
        """
        del left, left_rows, right, right_rows, vectors
        return None

    @abstractmethod
    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)| over these rows; if none is known, over the values evaluated so far."""

    def tiles(self, data: Data) -> Tiles | None:
        """Return the compiled kernel and table of these rows for native code; None if there is no such code."""
        del data
        return None

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors from values in single precision, and a bound on the error of each row.

        None if there is no proved bound, or single precision is not faster.
        """
        del left, left_rows, right, right_rows, vectors
        return None

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return a bound on the error of K(left, right) @ weights in single precision, (left rows,).

        It holds for `matvec` with `single`, and for values that were stored in single precision. None if `single` has
        no effect, or if the backend has no proved bound.
        """
        del left, left_rows, right, right_rows, weights
        return None
