"""The state that a Gram matrix and its views share: backend, counts and row cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from math import isqrt
from typing import final

import numpy as np

from mercer._core import gather_rows
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data
from mercer.data.lazy import lazy_property
from mercer.gram.arena import Arena
from mercer.gram.backends import Backend, EvaluatedBackend
from mercer.gram.cache_policy import CachePolicy
from mercer.gram.cached_rows import CachedRows, combined
from mercer.gram.threads import blas_threads
from mercer.kernels import Kernel
from mercer.kernels.diagnosis import MAX_FACTORED, MAX_POINTS, Diagnosis, diagnosis_of, first_refuted

_FEW_POINTS = 500  # rows; checked for a message if no conclusion for all rows is possible
_CACHE_SHARE = 0.75  # share of the memory limit for rows that problems share; the rest is for solvers
_THREADS = 16  # threads whose memory is counted, whatever their true number: what fits must not change the iterates
_ALLOCATOR_BYTES = 16 << 20  # bytes that the allocator keeps when short-lived arrays are freed


@final
class Store:
    """The backend, the counts and the row cache that a Gram matrix shares with its views."""

    def __init__(
        self,
        kernel: Kernel,
        data: Data,
        memory_limit: int,
        cache_policy: CachePolicy,
        backend: Backend,
        reason: str,
    ) -> None:
        self.kernel = kernel
        self.data = data
        self.backend = backend
        self.backend_reason = reason
        self.n_values = 0
        self.memory_limit = memory_limit
        reserved = _ALLOCATOR_BYTES + backend.scratch_bytes + _THREADS * backend.thread_bytes + data.copied_bytes
        left = max(0, memory_limit - reserved)
        most = int(_CACHE_SHARE * left) // max(1, 8 * data.n)
        pays = cache_policy is CachePolicy.FULL or (
            backend.values_are_slow if cache_policy is CachePolicy.NON_NATIVE else backend.kernel_is_expensive
        )
        fit = most >= data.n and not kernel.takes_values
        self.keeps_all = cache_policy in (CachePolicy.NON_NATIVE, CachePolicy.FULL) and pays and fit
        some = cache_policy in (CachePolicy.EXPENSIVE, CachePolicy.NON_NATIVE) and pays
        self.cached_rows = CachedRows(data.n, min(data.n, most) if self.keeps_all or some else 0)
        self.room = left - 8 * data.n * self.cached_rows.capacity
        self._by_thread = threading.local()

    @lazy_property
    def diagonal(self) -> FloatArray:
        """k(x_i, x_i) of all rows."""
        values = self.backend.diagonal()
        return self.kernel.diag(self.data) if values is None else values

    @lazy_property
    def magnitudes(self) -> FloatArray:
        """Sizes of the numbers whose rounding error the diagonal has, (n,)."""
        return self.kernel.magnitudes(self.data)

    @property
    def arena(self) -> Arena:
        """The arena of this thread: threads do not share the memory of a solver."""
        arena: Arena | None = getattr(self._by_thread, "arena", None)
        if arena is None:
            arena = self._by_thread.arena = Arena()
        return arena

    @property
    def cached_width(self) -> int:
        """Values that are evaluated for each requested row, whatever the columns; 0 if rows are not cached."""
        return self.data.n if self.cached_rows.capacity else 0

    def block(self, rows: IndexArray, cols: IndexArray | None, out: RealArray, *, rounded: bool = False) -> None:
        """Write K[rows, cols] into `out`, from cached rows if there is a cache."""
        slots = self.cached_rows.slots(rows, self._evaluate_rows)
        if slots is None:
            self.n_values += out.size
            self.backend.block(self.data, rows, self.data, cols, out, rounded=rounded)
        else:
            gather_rows(self.cached_rows.values, slots, cols, out, self.backend.n_threads)

    def combine(self, rows: IndexArray | None, cols: IndexArray, weights: FloatArray, single: bool) -> FloatArray:
        """K[rows, cols] @ weights, from cached rows (K is symmetric) if there is a cache."""
        slots = self.cached_rows.slots(cols, self._evaluate_rows)
        if slots is None:
            n_rows = self.data.n if rows is None else rows.size
            self.n_values += n_rows * cols.size
            stacked = weights[:, None] if weights.ndim == 1 else np.ascontiguousarray(weights)
            sums = self.backend.matvec(self.data, rows, self.data, cols, stacked, single=single)
            return sums[:, 0] if weights.ndim == 1 else sums
        return combined(self.cached_rows.values, slots, rows, weights, self.backend.n_threads)

    @lazy_property
    def is_convex(self) -> bool:
        """Whether the whole matrix is known to be positive semidefinite; False if it is too large to check."""
        return self.is_convex_on(None)

    def is_convex_on(self, idx: IndexArray | None) -> bool:
        """Whether the matrix of these rows is positive semidefinite; False if it is too large to check."""
        n = self.data.n if idx is None else idx.size
        most = MAX_FACTORED if self._is_in_memory else MAX_POINTS
        if n > most or 8 * n**2 > self.memory_limit:
            return False
        # Several threads of BLAS make small factorisations slower, a hundred times on a busy machine.
        with blas_threads(n**3 / 6):
            sample, refuted = first_refuted(self.kernel, self._rows(idx), most, values=self._values_of(idx))
        self.n_values += 0 if isinstance(self.backend, EvaluatedBackend) else sample.n_values
        return not refuted

    def diagnosis(self, idx: IndexArray | None) -> Diagnosis:
        """What is known about the definiteness on these rows, for messages; :meth:`is_convex_on` is cheaper."""
        rows = self._rows(idx)
        most = MAX_POINTS if rows.n <= MAX_POINTS else _FEW_POINTS
        most = max(2, min(most, isqrt(self.memory_limit // 8)))
        with blas_threads(most**3):
            return diagnosis_of(self.kernel, rows, most, values=self._values_of(idx))

    @property
    def _is_in_memory(self) -> bool:
        """Whether all kernel values are in memory, so that a check of many rows costs no evaluation."""
        return self.kernel.takes_values or isinstance(self.backend, EvaluatedBackend)

    def _rows(self, idx: IndexArray | None) -> Data:
        return self.data if idx is None else self.data.rows(idx)

    def _values_of(self, idx: IndexArray | None) -> Callable[[IndexArray], FloatArray] | None:
        """A function that returns values between some of these rows from memory; None if they are not in memory."""
        if not isinstance(self.backend, EvaluatedBackend):
            return None

        def values(chosen: IndexArray) -> FloatArray:
            rows = chosen if idx is None else idx[chosen]
            out = np.empty((rows.size, rows.size))
            self.backend.block(self.data, rows, self.data, rows, out)
            return out

        return values

    def evaluate(
        self, rows: IndexArray, cols: IndexArray | None, vectors: FloatArray, *, single: bool = False
    ) -> FloatArray:
        """K[rows, cols] @ vectors, evaluated without the cache."""
        n_cols = self.data.n if cols is None else cols.size
        self.n_values += rows.size * n_cols
        return self.backend.matvec(self.data, rows, self.data, cols, vectors, single=single)

    def products(
        self, rows: IndexArray | None, cols: IndexArray | None, vectors: FloatArray
    ) -> Generator[None, None, FloatArray] | None:
        """Work that returns K[rows, cols] @ vectors without kernel values; None if these cost less, or are cached."""
        if self.cached_rows.capacity:
            return None
        return self.backend.products(self.data, rows, self.data, cols, vectors)

    def evaluate_part(
        self, rows: IndexArray, vectors: FloatArray, part: int, parts: int, *, single: bool
    ) -> FloatArray | None:
        """One of `parts` summands of K[rows, rows] @ vectors, without the cache; None if the backend has no parts."""
        if parts == 1:
            return self.evaluate(rows, rows, vectors, single=single)
        part_sum = self.backend.matvec_part(self.data, rows, vectors, part, parts, single=single)
        self.n_values += 0 if part_sum is None else rows.size**2 // parts
        return part_sum

    def evaluate_bounded(
        self, rows: IndexArray, cols: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """K[rows, cols] @ vectors in single precision, without the cache, with bounds on the errors."""
        self.n_values += rows.size * (self.data.n if cols is None else cols.size)
        products = self.backend.matvec_bounded(self.data, rows, self.data, cols, vectors)
        assert products is not None
        return products

    def _evaluate_rows(self, rows: IndexArray, out: RealArray) -> None:
        self.n_values += out.size
        self.backend.block(self.data, rows, self.data, None, out)
