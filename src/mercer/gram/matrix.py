"""The lazy Gram matrix: kernel values between the rows of a table, evaluated on request, within a memory limit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from mercer._core import VariableTiles, fold, gather_rows, without
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, Dense, Precomputed
from mercer.data.lazy import lazy_property
from mercer.data.work_in_parts import finished
from mercer.gram.arena import Arena
from mercer.gram.backends import Backend, Tiles, select_backend
from mercer.gram.cache_policy import CachePolicy
from mercer.gram.cached_rows import add_to
from mercer.gram.duplicates import summed, sums_of
from mercer.gram.padding import padded_block
from mercer.gram.store import Store
from mercer.kernels import Kernel
from mercer.kernels.diagnosis import Diagnosis

if TYPE_CHECKING:
    from mercer.gram.rows.device_table import DeviceTable

DEFAULT_MEMORY_LIMIT = 1 << 30
STATE_ARRAYS = 29
"""Number of arrays of length n that labels, problem, solver state, selection and evaluation hold at the same time."""

_LASTING_BYTES = 16 << 20  # bytes; largest encoding of the rows that a certificate keeps alive
_SQUARE = 512  # columns; from here on, only half of a symmetric block is evaluated
_LEAST_ROWS = 64  # rows; smallest part of a product
_COLUMNS = 4  # columns of a vector; multiplying a kernel value by so many takes as long as evaluating it


@final
class Gram:
    """K[i, j] = k(x_i, x_j), evaluated on request; the whole matrix is formed only if it is requested.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    data : Data
        The n rows.
    memory_limit : int, optional
        Bytes that everything beyond the input may take together: kept rows of the matrix, other forms of the input,
        native scratch, and what solvers hold (see :attr:`room`); default 1 GiB. What nothing works without is taken in
        any case.
    keep : Keep, default Keep.NOTHING
        Which evaluated rows stay for other problems on the same data, within the limit.
    n_jobs : int, optional
        Threads; see :func:`mercer.gram.threads.n_threads`.
    backend : Backend, optional
        It evaluates the kernel; by default :func:`mercer.gram.backends.select_backend` chooses it.

    Notes
    -----
    :meth:`restrict` gives a view of chosen rows that shares the row cache, counts and backend of its origin. Values are
    identical to the bit for any number of threads, cached or not.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import as_data
    >>> from mercer.kernels import RBF
    >>> gram = Gram(RBF(gamma=1.0), as_data(np.array([[0.0], [1.0], [3.0]])))
    >>> gram.restrict(np.array([0, 2])).block().round(4).tolist()
    [[1.0, 0.0001], [0.0001, 1.0]]
    """

    def __init__(
        self,
        kernel: Kernel,
        data: Data,
        *,
        memory_limit: int | None = None,
        cache_policy: CachePolicy = CachePolicy.NONE,
        n_jobs: int | None = None,
        backend: Backend | None = None,
    ) -> None:
        if memory_limit is not None and memory_limit < 0:
            raise ValueError(f"memory_limit must be a number of bytes >= 0, got {memory_limit}.")
        limit = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
        if backend is None:
            backend, reason = select_backend(
                kernel, data, n_jobs=n_jobs, memory_limit=limit // 4, matrix_bytes=limit // 4 * 3
            )
        else:
            reason = f"{kernel!r} is evaluated by the {type(backend).__name__} it was given"
        self._store = Store(kernel, data, limit, cache_policy, backend, reason)
        self._idx: IndexArray | None = None
        self._beside = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._store.data.n if self._idx is None else self._idx.size

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the kernel and the rows; kernel values are evaluated again."""
        return _restored, (self.kernel, self.data, self.idx, self.memory_limit)

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self._store.kernel

    @property
    def data(self) -> Data:
        """The rows of the origin, of which this may be a view."""
        return self._store.data

    @property
    def idx(self) -> IndexArray | None:
        """Which rows of `data` these are; None for all of them."""
        return self._idx

    @property
    def backend_reason(self) -> str:
        """Which backend evaluates the kernel, and why."""
        return self._store.backend_reason

    @property
    def lasting_backend(self) -> Backend | None:
        """The backend, to evaluate the same values later; None if its encoding of the rows is large.

        None for sparse matrices too: the backend reads them in place, and the user may change them later.
        """
        backend = self._store.backend
        return backend if isinstance(self.data, Dense) and backend.form_bytes <= _LASTING_BYTES else None

    @property
    def n_values(self) -> int:
        """Kernel values evaluated so far, by this Gram matrix and all its views."""
        return self._store.n_values

    @property
    def memory_limit(self) -> int:
        """Bytes that everything beyond the input may take."""
        return self._store.memory_limit

    @property
    def room(self) -> int:
        """Bytes of the memory limit that are left for a solver, besides its arrays of length n.

        They are for blocks of kernel values, factors and cached rows. The number does not depend on the number of
        threads, nor on how much memory is free.
        """
        return max(0, self._store.room - self._beside - 8 * STATE_ARRAYS * self.n)

    @property
    def arena(self) -> Arena:
        """The buffer for one block of kernel values at a time; all views share it."""
        return self._store.arena

    @property
    def n_threads(self) -> int:
        """Threads that evaluate kernel values."""
        return self._store.backend.n_threads

    @property
    def product_cost(self) -> tuple[float, float] | None:
        """Seconds of a product without kernel values, and of a kernel value; see :class:`mercer.gram.backends.Backend`.

        None also if rows are cached.
        """
        return None if self._store.cached_rows.capacity else self._store.backend.product_cost

    @property
    def product_rank(self) -> float:
        """A number that the rank of the matrix does not exceed; inf if it is not known."""
        return self._store.backend.product_rank

    @property
    def product_bytes(self) -> int:
        """Bytes of a product without kernel values; 0 if products need kernel values."""
        return self._store.backend.product_bytes

    @property
    def should_cache_rows(self) -> bool:
        """Whether a solver should cache rows: the kernel is expensive, rows are not cached here, and they fit."""
        fits = self.room // 2 >= self.n * np.dtype(np.float32).itemsize
        return fits and self.kernel_is_expensive and not self._store.cached_width

    @property
    def kernel_is_expensive(self) -> bool:
        """Whether a kernel value takes longer to evaluate than to look up."""
        return self._store.backend.kernel_is_expensive

    @property
    def keeps_all(self) -> bool:
        """Whether all rows are cached, so that no kernel value is evaluated twice."""
        return self._store.keeps_all

    @property
    def peak_bytes(self) -> int:
        """Peak bytes of cached rows, panels and :meth:`beside`, in this matrix and its views.

        Blocks are counted by the callers that hold them.
        """
        backend = self._store.backend
        scratch = backend.scratch_bytes + backend.n_threads * backend.thread_bytes
        return self._store.cached_rows.peak_bytes + scratch + self.data.copied_bytes + self._beside

    @property
    def roundoff(self) -> float:
        """About how large the relative error of a kernel value is, in units of roundoff."""
        return self._store.backend.roundoff

    def value_bound(self) -> float:
        """Return a bound on |k(x_i, x_j)|; see :meth:`mercer.gram.backends.Backend.value_bound`."""
        return self._store.backend.value_bound(self.data)

    @property
    def values_per_call(self) -> int:
        """About how many kernel values to ask for at a time; see :class:`mercer.gram.backends.Backend`."""
        return self._store.backend.values_per_call

    @property
    def tiles(self) -> Tiles | None:
        """Table and program, for native code that evaluates kernel values; None for kernels without a program."""
        return self._store.backend.tiles(self.data)

    def variable_tiles(self, owners: IndexArray | None) -> VariableTiles | None:
        """Return an object that evaluates values between variables in one native call; `owners` are their rows.

        None if rows are cached, or if the kernel has no program.
        """
        tiles = None if self._store.cached_width else self.tiles
        if tiles is None:
            return None
        table = tiles.isa, tiles.kernel, tiles.table, tiles.centre
        return VariableTiles(*table, self._idx, owners, self.n_threads, tiles.one_thread_values)

    def count(self, n_values: int) -> None:
        """Count kernel values that native code has evaluated."""
        self._store.n_values += n_values

    def origin_rows(self, idx: IndexArray) -> IndexArray:
        """Return the numbers of these rows in `data`."""
        return idx if self._idx is None else self._idx[idx]

    @property
    def in_memory_rows(self) -> IndexArray:
        """Return the numbers of these rows (and columns) in the matrix in memory."""
        assert isinstance(self.data, Precomputed)
        columns = self.data.own_columns()
        return np.ascontiguousarray(columns if self._idx is None else columns[self._idx], dtype=np.int64)

    def table_there(self, cols: IndexArray, matrix: RealArray, check: Callable[[], None]) -> DeviceTable:
        """Return K[:, cols] @ matrix in single precision, on the device where the rows are.

        `check` is called between parts of bounded work, and may raise.
        """
        backend: Any = self._store.backend  # a DeviceBackend
        self.count(self.n * cols.size)
        table: DeviceTable = backend.table(self._idx, self.origin_rows(cols), matrix, check)
        return table

    def restrict(self, idx: npt.ArrayLike) -> Gram:
        """Return the view of rows and columns `idx` (indices into this one; repeats are allowed)."""
        chosen = np.ascontiguousarray(idx, dtype=np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.n):
            raise IndexError(f"idx must lie between 0 and {self.n - 1}, got {chosen.min()} to {chosen.max()}.")
        return self._view(chosen if self._idx is None else self._idx[chosen], self._beside)

    def afresh(self) -> Gram:
        """Return the Gram matrix of all rows of `data` by the same backend, with no cached rows and no counts.

        If the kernel is a function whose matrix is in memory, the function is not called again.
        """
        return Gram(self.kernel, self.data, memory_limit=self.memory_limit, backend=self._store.backend)

    def beside(self, n_bytes: int) -> Gram:
        """Return a view that counts `n_bytes` of other memory of the fit, which reduces :attr:`room`."""
        return self._view(self._idx, self._beside + n_bytes)

    def _view(self, idx: IndexArray | None, beside: int) -> Gram:
        view = object.__new__(Gram)
        view._store, view._idx, view._beside = self._store, idx, beside
        return view

    @lazy_property
    def deduplicated(self) -> tuple[Gram, IndexArray] | None:
        """The view of the distinct rows, and the number of each row in it; None if no row is repeated.

        Kernel values are evaluated for distinct rows only, so duplicates cost none.
        """
        if self._idx is None or not self._idx.size:
            return None
        once, which = fold(self._idx, self.data.n)
        if once.size == self._idx.size:
            return None
        view = self._view(None if np.array_equal(once, np.arange(self.data.n)) else once, self._beside)
        view.deduplicated = None
        return view, which

    def with_duplicates(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the mask `chosen`, extended by all duplicates of its rows: they share kernel values."""
        if self.deduplicated is None:
            return chosen
        view, which = self.deduplicated
        rows = np.zeros(view.n, dtype=bool)
        rows[which[chosen]] = True
        return rows[which]

    def diag(self) -> FloatArray:
        """Return k(x_i, x_i), (n,)."""
        diagonal = self._store.diagonal
        return diagonal if self._idx is None else diagonal[self._idx]

    @lazy_property
    def largest_diagonal(self) -> float:
        """Largest |k(x_i, x_i)|."""
        return float(np.abs(self.diag()).max(initial=0.0))

    def magnitudes(self) -> FloatArray:
        """Return the sizes of the numbers whose rounding error k(x_i, x_i) has, (n,)."""
        if not self.kernel.loses_digits:
            return np.abs(self.diag())
        sizes = self._store.magnitudes
        return sizes if self._idx is None else sizes[self._idx]

    @lazy_property
    def diagnosis(self) -> Diagnosis:
        """What is known about the definiteness of the kernel on these rows, for messages; :attr:`is_convex` is cheaper.

        If there are too many rows for a conclusion, 500 of them are checked.
        """
        return self._store.diagnosis(self._row_numbers())

    @lazy_property
    def is_convex(self) -> bool:
        """Whether this matrix is known to be positive semidefinite, so that a KKT point is an optimum.

        It is proved by the kernel's algebra, stated by the user, or found by a factorisation: up to 2,000 rows, up to
        5,000 if the values are in memory, within the memory limit. What holds for the origin holds for all its views.
        """
        if not self.n or self.kernel.is_psd or (self._idx is not None and self._store.is_convex):
            return True
        return self._store.is_convex_on(self._row_numbers()) if self._idx is not None else self._store.is_convex

    def _row_numbers(self) -> IndexArray | None:
        """The numbers of the distinct rows in the origin; None for all rows."""
        return self._idx if self.deduplicated is None else self.deduplicated[0]._row_numbers()

    def block(self, rows: IndexArray | None = None, cols: IndexArray | None = None) -> FloatArray:
        """Return K[rows, cols]; None means all. The result is a view of an array with padded rows."""
        n_rows = self.n if rows is None else rows.size
        n_cols = self.n if cols is None else cols.size
        out: FloatArray = padded_block(n_rows, n_cols)[:, :n_cols]  # type: ignore[assignment]
        for _ in self.fill_block(out, rows, cols):
            pass
        return out

    def fill_block(
        self, out: RealArray, rows: IndexArray | None, cols: IndexArray | None, *, rounded: bool = False
    ) -> Iterator[None]:
        """Write K[rows, cols] into `out` in parts of bounded work, and yield after each of them.

        If `out` is float32, values may be evaluated in single precision; with `rounded`, they are evaluated in double
        precision and rounded. If `rows` and `cols` are the same object, half of the values may be copied.
        """
        if out.size == 0:
            return
        yield from self._store.backend.prepare()
        if self.deduplicated is not None:
            yield from self._fill_deduplicated(*self.deduplicated, out, rows, cols, rounded=rounded)
            return
        row_idx = self._translate(rows)
        if rows is cols and out.size <= 2 * self.values_per_call:
            at = np.arange(self.n) if row_idx is None else row_idx
            self._store.block(at, at, out, rounded=rounded)
            yield
            return
        col_idx = self._translate(cols)
        height = max(1, self.values_per_call // max(1, out.shape[1], self._store.cached_width))
        for first in range(0, out.shape[0], height):
            part = slice(first, min(first + height, out.shape[0]))
            at = np.arange(part.start, part.stop) if row_idx is None else row_idx[part]
            self._store.block(at, col_idx, out[part], rounded=rounded)
            yield

    def accumulate(
        self,
        out: FloatArray,
        cols: IndexArray,
        weights: FloatArray,
        *,
        rows: IndexArray | None = None,
        single: bool = False,
    ) -> Iterator[None]:
        """Add K[rows, cols] @ weights to `out[rows]` in parts of bounded work, and yield after each of them.

        `out` has shape (n,), or (n, t) for weights of shape (len(cols), t); `rows` are all rows by default. With
        `single`, kernel values may be evaluated in single precision; sums are always in double precision.
        """
        if self.deduplicated is not None:
            view, which = self.deduplicated
            wanted, inverse = fold(which if rows is None else which[rows], view.n)
            change = np.zeros((view.n, *out.shape[1:]))
            yield from view.accumulate(change, *summed(which[cols], weights, view.n), rows=wanted, single=single)
            out[slice(None) if rows is None else rows] += change[wanted][inverse]
            return
        weights = np.ascontiguousarray(weights)
        row_idx, col_idx = self._translate(rows), self._translate(cols)
        assert col_idx is not None
        products = self._store.products(row_idx, col_idx, weights if weights.ndim == 2 else weights[:, None])
        if products is not None:
            change = yield from products
            add_to(out, rows, change if weights.ndim == 2 else change[:, 0])
            return
        if cols.size >= _SQUARE and (rows is None or rows.size == self.n) and not self._store.cached_width:
            stacked = weights if weights.ndim == 2 else weights[:, None]
            between = yield from self._products_between(col_idx, stacked, single=single)
            if between is not None:
                out[cols] += between if weights.ndim == 2 else between[:, 0]
                rows = without(cols, None, self.n)
                row_idx = self._translate(rows)
        n_rows = self.n if rows is None else rows.size
        width = max(16, self._values_times(weights) // max(1, n_rows, self._store.cached_width))
        # A call evaluates few values of an expensive kernel; then 16 columns are too many for all rows.
        height = max(1, n_rows if self._store.cached_width else max(_LEAST_ROWS, 4 * self.values_per_call // width))
        for first in range(0, cols.size, width):
            part = slice(first, first + width)
            for top in range(0, n_rows, height):
                chunk = slice(top, min(top + height, n_rows))
                at = row_idx
                if height < n_rows:
                    at = np.arange(chunk.start, chunk.stop) if row_idx is None else row_idx[chunk]
                change = self._store.combine(at, col_idx[part], weights[part], single)
                add_to(out[chunk] if rows is None else out, None if rows is None else rows[chunk], change)
                yield

    def matvec(
        self,
        vectors: FloatArray,
        rows: IndexArray | None = None,
        check: Callable[[], None] | None = None,
    ) -> FloatArray:
        """Return K[rows, :] @ vectors in float64; `check` is called between parts of bounded work and may raise.

        Parameters
        ----------
        vectors : ndarray of shape (n,) or (n, t)
            Rows of zeros cost nothing.
        rows : ndarray of int64, optional
            The rows of the result; all rows by default.
        check : callable, optional
            It may raise, to stop the work.
        """
        if self.deduplicated is not None:
            view, which = self.deduplicated
            wanted, inverse = fold(which if rows is None else which[rows], view.n)
            return view.matvec(sums_of(which, vectors, view.n), wanted, check)[inverse]
        stacked = vectors if vectors.ndim == 2 else vectors[:, None]
        is_used = (stacked != 0.0).any(axis=1) if vectors.ndim == 2 else vectors != 0.0
        used = np.flatnonzero(is_used)
        col_idx = self._translate(used)
        n_rows = self.n if rows is None else rows.size
        coefficients = np.ascontiguousarray(stacked[used])
        products = self._store.products(self._translate(rows), col_idx, coefficients) if used.size else None
        if products is not None:
            sums = finished(products, check)
            return sums if vectors.ndim == 2 else sums[:, 0]
        if self._store.keeps_all:
            assert col_idx is not None
            sums = np.zeros((n_rows, stacked.shape[1]))
            width = max(16, self._values_times(vectors) // max(1, self.data.n))
            for first in range(0, used.size, width):
                some = slice(first, first + width)
                sums += self._store.combine(self._translate(rows), col_idx[some], coefficients[some], single=False)
                if check is not None:
                    check()
            return sums if vectors.ndim == 2 else sums[:, 0]
        out = np.empty((n_rows, stacked.shape[1]))
        wanted = np.arange(self.n) if rows is None else rows
        inside = is_used[wanted]
        assert col_idx is not None
        # With the same rows on both sides, half of the values between them are evaluated.
        between = None
        if np.array_equal(wanted[inside], used):
            between = finished(self._products_between(col_idx, coefficients, single=False), check)
        if between is None:
            inside[:] = False
        else:
            out[inside] = between
        left = np.flatnonzero(~inside)
        height = max(64, 4 * self._values_times(vectors) // max(1, used.size))
        for first in range(0, left.size, height):
            part = left[first : first + height]
            at = self._translate(wanted[part])
            assert at is not None
            out[part] = self._store.evaluate(at, col_idx, coefficients)
            if check is not None:
                check()
        return out if vectors.ndim == 2 else out[:, 0]

    def _products_between(
        self, rows: IndexArray, vectors: FloatArray, *, single: bool
    ) -> Generator[None, None, FloatArray | None]:
        """K[rows, rows] @ vectors, from half of the values; None if the backend cannot do that in parts.

        It yields after bounded work.
        """
        size, at_a_time = rows.size**2, 8 * self._values_times(vectors)
        parts = 1 if size <= at_a_time else 2 * size // at_a_time + 1  # the first ones have nearly whole rows
        sums = np.zeros_like(vectors)
        for part in range(parts):
            summand = self._store.evaluate_part(rows, vectors, part, parts, single=single)
            if summand is None:
                return None
            sums += summand
            yield
        return sums

    def single_precision_bound(self, vector: FloatArray) -> FloatArray | None:
        """Return a proved bound on the error of each element of K @ vector in single precision, (n,).

        None if there is no proof, or if values in double precision are cached; see
        :class:`mercer.gram.backends.Backend`.
        """
        if self._store.keeps_all:
            return None
        if self.deduplicated is not None:
            view, which = self.deduplicated
            bound = view.single_precision_bound(sums_of(which, vector, view.n))
            return None if bound is None else bound[which]
        used = np.flatnonzero(vector != 0.0)
        columns = self._translate(used)
        return self._store.backend.single_precision_bound(
            self.data, self._idx, self.data, columns, np.ascontiguousarray(vector[used])
        )

    def matvec_bounded(
        self, vector: FloatArray, rows: IndexArray, check: Callable[[], None] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return K[rows, :] @ vector from values in single precision, and proved bounds on the errors.

        For backends whose :meth:`single_precision_bound` is not None.
        """
        if self.deduplicated is not None:
            view, which = self.deduplicated
            wanted, inverse = fold(which[rows], view.n)
            products = view.matvec_bounded(sums_of(which, vector, view.n), wanted, check)
            return products[0][inverse], products[1][inverse]
        used = np.flatnonzero(vector != 0.0)
        columns, coefficients = self._translate(used), np.ascontiguousarray(vector[used, None])
        values, bounds = np.empty(rows.size), np.empty(rows.size)
        height = max(64, 4 * self.values_per_call // max(1, used.size))
        for first in range(0, rows.size, height):
            part = slice(first, first + height)
            at = self._translate(rows[part])
            assert at is not None
            products = self._store.evaluate_bounded(at, columns, coefficients)
            values[part], bounds[part] = products[0][:, 0], products[1]
            if check is not None:
                check()
        return values, bounds

    def _fill_deduplicated(
        self,
        view: Gram,
        which: IndexArray,
        out: RealArray,
        rows: IndexArray | None,
        cols: IndexArray | None,
        *,
        rounded: bool,
    ) -> Iterator[None]:
        """Write K[rows, cols] from the values between distinct rows."""
        some_rows, row_inverse = fold(which if rows is None else which[rows], view.n)
        some_cols, col_inverse = (
            (some_rows, row_inverse) if rows is cols else fold(which if cols is None else which[cols], view.n)
        )
        if some_rows.size == row_inverse.size and some_cols.size == col_inverse.size:
            yield from view.fill_block(out, some_rows, some_cols, rounded=rounded)
            return
        values = np.empty((some_rows.size, some_cols.size), dtype=out.dtype)
        yield from view.fill_block(values, some_rows, some_cols, rounded=rounded)
        gather_rows(values, row_inverse, col_inverse, out, self.n_threads)
        yield

    def _values_times(self, vectors: FloatArray) -> int:
        """Number of kernel values to multiply by `vectors` at a time; many columns take longer than the values."""
        return self.values_per_call // (1 + (0 if vectors.ndim == 1 else vectors.shape[1] // _COLUMNS))

    def _translate(self, idx: IndexArray | None) -> IndexArray | None:
        if idx is None:
            return self._idx
        chosen = np.ascontiguousarray(idx, dtype=np.int64)
        return chosen if self._idx is None else self._idx[chosen]


def _restored(kernel: Kernel, data: Data, idx: IndexArray | None, memory_limit: int) -> Gram:
    """Return a Gram matrix that was pickled."""
    gram = Gram(kernel, data, memory_limit=memory_limit)
    return gram if idx is None else gram.restrict(idx)
