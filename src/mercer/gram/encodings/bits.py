"""Tables whose columns have two values with one common difference: rows are bits.

All sums over two rows follow from numbers of bits: distances count unequal bits, similarities common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from mercer._core import CompiledKernel, Table, bit_rows, bit_rows_of_entries
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import CSR, BitRows, Data, Dense, Vectors
from mercer.data.checks import distinct
from mercer.data.lazy import lazy_property
from mercer.gram.backend import Backend, Tiles
from mercer.gram.encodings.integers import LEAST_ENTRIES
from mercer.gram.native import distance_sensitivity, most_factors
from mercer.gram.rounding import Sums, single_precision_error
from mercer.gram.tile_calls import PANEL_BYTES, TileCalls, symmetric_sum_bytes
from mercer.kernels.instruction_set import counts_bits
from mercer.kernels.program import OVERLAPS, PASSES, Op, Program, Step
from mercer.kernels.views import Directions, View

Words = npt.NDArray[np.uint64]
TwoValues: TypeAlias = tuple[FloatArray, FloatArray]

_MOST_BITS = 4095  # columns of a Gaussian kernel, which multiplies a factor for each hexadecimal digit of a distance
_MOST_COMMON_BITS = (1 << 20) - 1  # columns of other kernels; limit of the native code (native/gram/bit_tile.hpp)
_COSINE = 19  # the native operation for DOT of Directions between rows of bits (native/gram/program.hpp)
_MEMORY_SHARE = 4  # the memory limit must be at least this multiple of the bytes of all bits
_SAMPLE = 65  # rows of a dense table that are checked before all rows
_WORDS_PER_ENTRY, _WORDS_ALONE = 0.6, 2  # most words a row: so many for each sparse entry, plus so many
_SINGLE = 1.01 * 2.0**-24 + 2.0**-148  # error of a value of at most 1 that is rounded to single precision
_DOUBLE = 2.0**-52  # relative error of one multiplication and addition in float64
_ROUNDINGS = 4.0  # units of roundoff of a similarity, with sums, a root and a quotient of exact numbers
_THREAD_ROWS = 192  # rows that a thread packs at a time: 16 groups of 12 (native/gram/tile_sink.hpp)


@final
class BitForm(Backend):
    """Evaluates a Gaussian kernel, or a kernel with similarities of fingerprints, between rows of bits.

    ||x - z||^2 is step^2 times the number of unequal bits; similarities are quotients of numbers of bits. These numbers
    are exact. All values are evaluated in double precision, even if single precision is requested, because this is
    faster than other tiles in single precision. Rows with other values,
    which can only occur in predictions, are evaluated by another backend.

    Parameters
    ----------
    program : Program
        Of a Gaussian kernel, or one that `reads_shares_of_bits`.
    data : Vectors
        The training rows.
    values : tuple of two ndarrays of shape (p,)
        The smaller value of each column and the larger one.
    step : float
        Difference of the two values, in each column that has two.
    words : ndarray of uint64, (n, ceil(p / 64))
        The training rows as bits.
    other : callable
        Makes the backend for rows with other values.
    columns : ndarray of int64, optional
        The columns of the bits, for sparse rows of which most columns are empty.
    n_jobs : int, optional
        See :func:`mercer.gram.threads.n_threads`.
    """

    def __init__(
        self,
        program: Program,
        data: Vectors,
        values: TwoValues,
        step: float,
        words: Words,
        other: Callable[[], Backend],
        *,
        columns: IndexArray | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._values, self._step, self._make_other, self._columns = values, step, other, columns
        operations = [_COSINE if isinstance(argument, Directions) else int(op) for op, argument in program]
        kernel = CompiledKernel(operations, [0.0 if isinstance(one, Directions) else one for _, one in program])
        self._bound, self.roundoff = 1.0, 6.0  # units of roundoff: 1 or 2 of the argument of exp, else of the factors
        if not _is_gaussian(program):
            # Similarities are at most 1. Rows of directions have norm 1, rows of bits at most the root of their number.
            most = values[0].size if _counted_sums(program) else 1
            norm = np.full(1, most**0.5)
            self._bound = float(single_precision_error(program, Sums(most, 1), norm, norm)[1][0])
            of_exponents = sum(distance_sensitivity(program, step) for step in set(filter(_is_share, program)))
            self.roundoff = _ROUNDINGS * (most_factors(program) + of_exponents)
        self._calls = TileCalls(kernel, None, words.shape[1] + 4, n_jobs)
        self.isa, self.n_threads = self._calls.isa, self._calls.n_threads
        self.values_per_call = self._calls.values_per_call
        self.kernel_is_expensive = False  # reading a cached row takes about as long as evaluating it
        packed = 8 * words.shape[1] * (data.n + 32)
        self.form_bytes = words.nbytes
        self.scratch_bytes = self.form_bytes + min(PANEL_BYTES, packed) + symmetric_sum_bytes(data.n)
        self.thread_bytes = 8 * _THREAD_ROWS * words.shape[1]
        self._tables: dict[int, tuple[Data, Table | None]] = {id(data): (data, Table(words, values[0].size, step))}

    @lazy_property
    def _other(self) -> Backend:
        return self._make_other()

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
        one, two = self._tables_of(left, right)
        if one is None or two is None:
            self._other.block(left, left_rows, right, right_rows, out, rounded=rounded)
            return
        self._calls.block(one, left_rows, two, right_rows, out, rounded=rounded)

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
        one, two = self._tables_of(left, right)
        if one is None or two is None:
            return self._other.matvec(left, left_rows, right, right_rows, vectors, single=single)
        n = left.n if left_rows is None else left_rows.size
        return self._calls.matvec(one, left_rows, two, right_rows, vectors, n, single=single)

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
        """Return summand `part` of the `parts` whose sum is K(data, data) @ vectors; see :class:`Backend`."""
        table, _ = self._tables_of(data, data)
        if table is None:
            return self._other.matvec_part(data, rows, vectors, part, parts, single=single)
        return self._calls.matvec_part(table, rows, vectors, part, parts, single=single)

    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)|; see :class:`Backend`."""
        return self._bound if self._tables_of(data, data)[0] is not None else self._other.value_bound(data)

    def tiles(self, data: Data) -> Tiles | None:
        """Return the table and the program for native code; see :class:`Backend`."""
        table, _ = self._tables_of(data, data)
        if table is None:
            return self._other.tiles(data)
        return self._calls.tiles(table)

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors and a bound on the error of each row; see :class:`Backend`."""
        if None in self._tables_of(left, right):
            return self._other.matvec_bounded(left, left_rows, right, right_rows, vectors)
        products = self.matvec(left, left_rows, right, right_rows, vectors)
        return products, np.zeros(products.shape[0])

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return bounds on the error of sums of values rounded to single precision; see :class:`Backend`."""
        if None in self._tables_of(left, right):
            return self._other.single_precision_bound(left, left_rows, right, right_rows, weights)
        n = left.n if left_rows is None else left_rows.size
        of_value = (_SINGLE + (weights.size + 2) * _DOUBLE) * max(1.0, self._bound)
        return np.full(n, of_value * float(np.abs(weights).sum()))

    def _tables_of(self, left: Data, right: Data) -> tuple[Table | None, Table | None]:
        """Return the tables of both sides; a column is the same bit in both. None for rows with other values."""
        if self._columns is not None:
            fresh = [data.columns for data in (left, right) if id(data) not in self._tables and isinstance(data, CSR)]
            columns = distinct(np.concatenate([self._columns, *fresh])) if fresh else self._columns
            if columns.size > self._columns.size:
                self._columns, self._values = columns, _one_value(columns.size, float(self._values[1][0]))
                self._tables.clear()
        return self._table(left), self._table(right)

    def _table(self, data: Data) -> Table | None:
        entry = self._tables.get(id(data))
        if entry is None:
            assert isinstance(data, Vectors)
            narrow, words = data if self._columns is None else _narrowed(data, self._columns), None
            if narrow is not None and narrow.p <= _MOST_COMMON_BITS:
                words = _words(narrow, self._values)
            table = None if words is None else Table(words, self._values[0].size, self._step)
            entry = self._tables[id(data)] = (data, table)
        return entry[1]


def bit_form(
    program: Program, data: Data, other: Callable[[], Backend], *, n_jobs: int | None, memory_limit: int | None
) -> BitForm | None:
    """Return the backend of a Gaussian kernel, or of a kernel with similarities of fingerprints, on rows of bits.

    None for other kernels and rows, or if it is not faster. It checks 65 rows of a dense table, and all rows if these
    could be bits.
    """
    is_gaussian = _is_gaussian(program)
    if not is_gaussian and not reads_shares_of_bits(program):
        return None
    if not isinstance(data, Vectors):
        return None
    rows, columns = data, None
    if isinstance(data, CSR) and data.is_wide and not is_gaussian:
        columns = data.columns
        rows = data.narrowed(columns)
    if not 0 < rows.p <= (_MOST_BITS if is_gaussian else _MOST_COMMON_BITS):
        return None
    is_packed = isinstance(data, BitRows)
    if not counts_bits() or (isinstance(data, Dense) and not is_packed and data.n * data.p < LEAST_ENTRIES):
        return None
    two_values = _two_values(rows, from_zero=not is_gaussian)
    if two_values is None:
        return None
    values, step, n_entries = two_values
    if not is_gaussian and step != 1.0 and _counted_sums(program):
        return None
    n_words, scale = -(-rows.p // 64), float(program[1][1]) if is_gaussian else -1.0
    with np.errstate(over="ignore"):
        is_finite = bool(np.isfinite(scale * np.float64(step) ** 2))
    if n_words > _WORDS_ALONE + _WORDS_PER_ENTRY * n_entries or scale > 0.0 or not is_finite:
        return None
    if memory_limit is not None and not is_packed and _MEMORY_SHARE * 8 * n_words * data.n > memory_limit:
        return None
    words = _words(rows, values)
    if words is None:
        return None
    of_one = step if is_gaussian else 1.0
    return BitForm(program, data, values, of_one, words, other, columns=columns, n_jobs=n_jobs)


def _narrowed(data: Vectors, columns: IndexArray) -> CSR | None:
    """Return sparse rows with the given columns only, which include all columns with entries."""
    return data.narrowed(columns) if isinstance(data, CSR) else None


def _one_value(n_columns: int, value: float) -> TwoValues:
    """Return the two values of columns that have zeros and one positive number."""
    return np.zeros(n_columns), np.full(n_columns, value)


def _is_gaussian(program: Program) -> bool:
    return [op for op, _ in program] == [Op.SQDIST, Op.SCALE, Op.EXP] and not isinstance(program[0][1], View)


def reads_shares_of_bits(program: Program) -> bool:
    """Return whether a kernel is made of similarities of fingerprints, and perhaps of other sums over the rows."""
    passes = [step for step in program if step[0] in PASSES]
    return any(map(_is_share, passes)) and all(_is_share(step) or step[1] == 0.0 for step in passes)


def _is_share(step: Step) -> bool:
    """Whether a step is a similarity of fingerprints, which does not depend on the value of a one."""
    op, argument = step
    return (op in OVERLAPS and argument == 0.0) or (op is Op.DOT and argument == Directions())


def _counted_sums(program: Program) -> bool:
    """Whether a program also reads sums that depend on the value of a one, such as squared distances."""
    return any(step[0] in PASSES and not _is_share(step) for step in program)


def _two_values(data: Vectors, *, from_zero: bool) -> tuple[TwoValues, float, float] | None:
    """Return the two values of each column, their difference, and the mean number of rarer values in a row.

    None if the smallest and largest values of the columns do not have one common difference. With `from_zero`, the
    values of each column must be 0 and one positive number.
    """
    if isinstance(data, CSR):
        stored = data.matrix.data
        if not stored.size or stored[0] == 0.0 or not (stored == stored[0]).all():
            return None
        value = float(stored[0])
        if from_zero and value < 0.0:
            return None
        return _one_value(data.p, value), abs(value), stored.size / data.n
    if isinstance(data, BitRows):
        return _one_value(data.p, 1.0), 1.0, float(data.p)
    if not isinstance(data, Dense):
        return None
    sample = data.spread(_SAMPLE)
    if from_zero:
        value = float(data.array.max())
        if not value > 0.0 or not ((sample == 0.0) | (sample == value)).all():
            return None
        return _one_value(data.p, value), value, float(np.count_nonzero(sample)) / _SAMPLE
    if _step(*_extremes(sample)) is None:
        return None
    low, high = _extremes(data.array)
    step = _step(low, high)
    if not step:
        return None
    share = float(np.minimum((sample == low).mean(axis=0), (sample != low).mean(axis=0)).mean())
    return (low, high), step, share * data.p


def _extremes(rows: npt.NDArray[np.floating]) -> TwoValues:
    return rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)


def _step(low: FloatArray, high: FloatArray) -> float | None:
    """Return the common difference of the columns that are not constant, else 0; None if the differences vary."""
    with np.errstate(over="ignore", invalid="ignore"):
        between = high - low
    largest = float(between.max())
    return largest if ((between == largest) | (between == 0.0)).all() else None


def _words(data: Vectors, values: TwoValues) -> Words | None:
    """Return the rows as bits; None if an entry is neither of the two values of its column."""
    low, high = values
    if isinstance(data, CSR):
        m = data.matrix
        if low.any() or not (m.data.astype(np.float64) == high[m.indices]).all():
            return None
        return bit_rows_of_entries(m.indices, m.indptr, data.p)
    assert isinstance(data, Dense)
    if isinstance(data, BitRows) and not low.any() and (high == 1.0).all():
        return data.words
    return bit_rows(data.array, low, high)
