"""What every backend can do with a kernel: evaluate a block, and apply a block to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from mercer._core import CompiledKernel, Table
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data


class Tiles(NamedTuple):
    """What native code needs to evaluate a kernel on a table by itself.

    Up to `one_thread_values` of them, a second thread does not pay.
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
        About how many kernel values a call takes some 10 ms for. Who asks for up to eight times as many stays
        interruptible. It depends on the data alone, never on a clock.
    values_are_dear : bool
        Whether looking a kernel value up costs less than evaluating it anew.
    values_are_slow : bool
        Whether writing one to fresh memory does, too, as where Python evaluates them and no tiles do.
    n_threads : int
    roundoff : float
        About how large the relative error of a kernel value is, in units of roundoff.
    scratch_bytes, thread_bytes : int
        Most memory that one call takes beside its operands and its result: in all, and for each thread besides.
    form_bytes : int
        Of `scratch_bytes`, what another form of the rows takes as long as the backend lives.
    """

    values_per_call: int
    kernel_is_expensive: bool
    values_are_slow: bool = False
    n_threads: int
    roundoff: float = 1.0
    scratch_bytes: int = 0
    thread_bytes: int = 0
    form_bytes: int = 0

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
        """Write k(left_i, right_j) into `out`, (left rows, right rows), of float64 or float32 and contiguous rows.

        What goes to float32 may be evaluated in single precision, unless it is to be values in double, `rounded`.
        """

    def diagonal(self) -> FloatArray | None:
        """Return k(x, x) of the training rows where the values are at hand; else None."""
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

        With `single`, kernel values may be evaluated in single precision; sums are double all the same.
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
        """Return one of so many summands of K(data, data) @ vectors, at about the same cost; together they are it.

        None where the backend does not make use of the symmetry of K.
        """
        del data, rows, vectors, part, parts, single
        return None

    @abstractmethod
    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)| over these rows, or over those evaluated so far where no other is known."""

    def tiles(self, data: Data) -> Tiles | None:
        """Return what native code needs to evaluate the kernel on these rows by itself; None where it cannot."""
        del data
        return None

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors from values in single precision, and how far each row may be off.

        None where there is no proof, or nothing to gain.
        """
        del left, left_rows, right, right_rows, vectors
        return None

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return how far K(left, right) @ weights may be off in single precision, (left rows,).

        By `matvec` with `single`, or from values that were stored in it.

        None where `single` changes nothing, or where the backend has no proof.
        """
        del left, left_rows, right, right_rows, weights
        return None
