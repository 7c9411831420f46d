"""Kernels without a tile program (strings, Python functions, precomputed matrices), by blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import numpy as np

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, Dense, Vectors
from mercer.data.work_in_parts import finished
from mercer.gram.backend import Backend
from mercer.gram.layout import Layout
from mercer.gram.native import exponent_span_of, roundoff_of
from mercer.gram.threads import n_threads
from mercer.kernels import Kernel, Precomputed

_MOST_VALUES = 1 << 21  # 16 MiB of float64
_LEAST_VALUES = 1 << 10
_CALL_NANOSECONDS = 4e7
_PRODUCT_SECONDS = 3e-5  # of a product without kernel values, however few rows there are
_CHUNKS = 4  # of a call that threads take: a number that does not depend on theirs, so that sums do not either
_SPARSE_LOSS = 2.0**9  # of squared distances of CSR rows: closer rows are subtracted (mercer.data.vectors)
_PRODUCT_BYTES = 1 << 28  # of a product without kernel values, if there is no memory limit
_LEAST_COLUMNS = 256  # of a piece: native code looks at each column before it looks at pairs


@final
class BlockBackend(Backend):
    """Calls `kernel.block` on blocks of rows: never pair by pair, never one whole n x n matrix.

    Parameters
    ----------
    kernel : Kernel
    data : Data, optional
        The rows that say what a value costs.
    memory_limit : int, optional
        Bytes that a block of kernel values may take.
    n_jobs : int, optional
        Threads for kernels that run native code; Python functions are called from one thread.
    """

    def __init__(
        self,
        kernel: Kernel,
        data: Data | None = None,
        *,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._kernel = kernel
        self.kernel_is_expensive = self.values_are_slow = not isinstance(kernel, Precomputed)  # the caller keeps those
        self.n_threads = n_threads(n_jobs) if kernel.is_native else 1
        self._chunks = _CHUNKS if kernel.is_native else 1
        work = 0.0 if data is None else kernel.work(data)
        cost = None if data is None else kernel.product_cost(data)
        if cost is not None:
            self.product_bytes, self.product_rank = cost.n_bytes, cost.rank
            if cost.n_bytes <= (_PRODUCT_BYTES if memory_limit is None else memory_limit):
                self.product_cost = 1e-9 * cost.nanoseconds, 1e-9 * work
        most = _MOST_VALUES if memory_limit is None else min(_MOST_VALUES, max(_LEAST_VALUES, memory_limit // 8))
        self.values_per_call = int(min(most, max(_LEAST_VALUES, _CALL_NANOSECONDS / max(1.0, work))))
        self._largest = 0.0
        self.roundoff = self._roundoff(data)
        self.scratch_bytes = 8 * self.values_per_call
        if self.product_cost is not None:
            self.scratch_bytes += self.product_bytes

    def _roundoff(self, data: Data | None) -> float:
        """Of kernels that NumPy evaluates pass by pass; 1 of all others, whose values are taken as they are."""
        program = self._kernel.lower() if isinstance(data, Vectors) and data.n else None
        if program is None or data is None:
            return 1.0
        layout = Layout(program, data)
        rows = layout.rows(data)
        lost = 0.0 if isinstance(rows, Dense) else min(_SPARSE_LOSS, exponent_span_of(program, data, layout))
        return roundoff_of(program, layout, rows) + 2.0 * lost

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
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        del rounded  # they always are
        n_rows, n_columns = out.shape
        width = n_columns
        if self._chunks > 1:
            width = max(_LEAST_COLUMNS, self.values_per_call // (self._chunks * max(1, n_rows)))
        chunks = [
            (rows, columns)
            for columns in _parts(n_columns, width)
            for rows in self._row_parts(n_rows, min(width, n_columns))
        ]

        def evaluate(chunk: tuple[slice, slice]) -> float:
            rows, columns = chunk
            block = self._kernel.block(_part(left, left_rows, rows), _part(right, right_rows, columns))
            out[rows, columns] = block
            return _largest_size(block)

        self._largest = max([self._largest, *self._each(evaluate, chunks, left, right)])

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
        """Return K(left, right) @ vectors; see :class:`Backend`."""
        del single  # the kernel's own precision is all there is
        n = left.n if left_rows is None else left_rows.size
        columns = right if right_rows is None else right.rows(right_rows)
        out = np.zeros((n, vectors.shape[1]))
        if not n or not columns.n:  # of which many functions want to hear nothing
            return out

        products = self.products(left, left_rows, right, right_rows, vectors)
        if products is not None:
            return finished(products)

        def evaluate(rows: slice) -> float:
            block = self._kernel.block(_part(left, left_rows, rows), columns)
            out[rows] = block @ vectors
            return _largest_size(block)

        self._largest = max([self._largest, *self._each(evaluate, self._row_parts(n, columns.n), left, columns)])
        return out

    def products(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> Generator[None, None, FloatArray] | None:
        """Return work that returns K(left, right) @ vectors; see :class:`Backend`."""
        if self.product_cost is None:
            return None
        n_left = left.n if left_rows is None else left_rows.size
        n_right = right.n if right_rows is None else right_rows.size
        seconds, of_value = self.product_cost
        if _PRODUCT_SECONDS + seconds * vectors.shape[1] > of_value * n_left * n_right:
            return None
        a, b = _part(left, left_rows, slice(0, n_left)), _part(right, right_rows, slice(0, n_right))
        self._largest = max(self._largest, float(self._kernel.diag(b).max(initial=0.0)))  # as the kernel is one
        return self._kernel.products(a, b, vectors, self.n_threads)

    def value_bound(self, data: Data) -> float:
        """Return the largest |k(x, z)| that was evaluated so far; see :class:`Backend`."""
        del data
        return self._largest

    def _row_parts(self, n_rows: int, n_columns: int) -> list[slice]:
        return _parts(n_rows, self.values_per_call // (self._chunks * max(1, n_columns)))

    def _each(self, evaluate: Callable[[Any], Any], chunks: Sequence[Any], left: Data, right: Data) -> list[Any]:
        n_helpers = min(self.n_threads, len(chunks)) - 1
        if n_helpers < 1:
            return [evaluate(chunk) for chunk in chunks]
        # Ctrl-C reaches this thread alone: what the kernel derives from all rows is found here, by one value.
        self._kernel.block(left.rows([0]), right.rows([0]))
        results: list[Any] = [None] * len(chunks)
        waiting = iter(range(len(chunks)))  # advanced by one thread at a time: the interpreter sees to that

        def work() -> None:
            try:
                for i in waiting:
                    results[i] = evaluate(chunks[i])
            except BaseException:
                for _ in waiting:  # no thread is to begin another part
                    pass
                raise

        with ThreadPoolExecutor(n_helpers) as threads:
            helpers = [threads.submit(work) for _ in range(n_helpers)]
            work()
        for helper in helpers:
            helper.result()  # raises what it raised
        return results


def _parts(n: int, size: int) -> list[slice]:
    """Slices of about equal size, at most the one given."""
    step = -(-n // max(1, -(-n // max(1, size)))) or 1
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _part(data: Data, rows: IndexArray | None, part: slice) -> Data:
    if rows is not None:
        return data.rows(rows[part])
    return data if part == slice(0, data.n) else data.rows(part)


def _largest_size(values: FloatArray) -> float:
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
