"""Matrices of kernel values that fits share, and the memory that they reuse."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt

from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels import Kernel
from mercer.model_selection.search.fold_rows import Rows


class Memory:
    """Memory of released matrices, kept for reuse because first access to new memory is slow.

    Parameters
    ----------
    most : int
        Bytes; if a new matrix would exceed them, unused memory of other sizes is released.
    """

    def __init__(self, most: int) -> None:
        self._most, self._reserved = most, 0
        self._idle: dict[int, list[npt.NDArray[np.uint8]]] = {}  # by size
        self._lock = Lock()

    def square(self, n: int, dtype: type[np.floating]) -> npt.NDArray[np.floating]:
        """Return an uninitialised matrix, whose memory is reused after the last reference to it is gone."""
        wanted = n * n * np.dtype(dtype).itemsize
        with self._lock:
            idle = self._idle.setdefault(wanted, [])
            if idle:
                memory = idle.pop()
            else:
                for others in self._idle.values() if self._reserved + wanted > self._most else ():
                    while others:
                        self._reserved -= others.pop().nbytes
                self._reserved += wanted
                memory = np.empty(wanted, dtype=np.uint8)
        matrix = memory.view(dtype).reshape(n, n)
        weakref.finalize(matrix, idle.append, memory).atexit = False
        return matrix


class Matrices:
    """The matrix of one kernel's values, in single precision and, if a fold needs it, in double precision."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._by_dtype: dict[type[np.floating], InMemoryRows] = {}
        self._lock = Lock()

    @staticmethod
    def bytes_of(dtype: type[np.floating], n: int, *, after_single: bool = True) -> int:
        """Return the bytes of the matrices of n rows, including the matrix in this precision."""
        return n * n * (4 if dtype is np.float32 else 12 if after_single else 8)

    def of(
        self, kernel: Kernel, rows: Rows, dtype: type[np.floating], n_jobs: int, check: Callable[[], None]
    ) -> InMemoryRows:
        """Return the kernel values between the rows that matrices have, in the order of the table if it has all rows.

        A second thread waits until the first has computed them.
        """
        with self._lock:
            if dtype not in self._by_dtype:
                order = rows.in_matrix
                matrix = self._memory.square(order.size, dtype)
                gram = Gram(kernel, rows.data, n_jobs=n_jobs)
                for _ in gram.fill_block(matrix, order, order, rounded=True):
                    check()
                rows_in_memory = InMemoryRows(matrix, n_jobs=n_jobs)
                self._by_dtype[dtype] = (
                    rows_in_memory.rows(rows.position) if order.size == rows.data.n else rows_in_memory
                )
            return self._by_dtype[dtype]
