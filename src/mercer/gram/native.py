"""The CPU backend: kernel programs run over tiles by the native core."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from mercer._core import CompiledKernel, Table
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import CSR, Data, Dense
from mercer.data.checks import distinct
from mercer.data.feature_sums import least_positive_entry
from mercer.gram.backend import Backend, Tiles
from mercer.gram.encodings.integers import IntegerForm
from mercer.gram.layout import Layout
from mercer.gram.rounding import LEAST_ENTRY, NormClasses, Rounding, Sums, integer_norms
from mercer.gram.tile_calls import PANEL_BYTES, TileCalls, symmetric_sum_bytes
from mercer.kernels.program import OVERLAPS, PASSES, Op, Program, Step

MAX_STACK, MAX_PROGRAM = 8, 256
"""Most tiles on the stack, and most steps, of a program that the native core accepts (native/gram/program.hpp)."""


_LEFT_BYTES = 192 << 10  # bytes of packed rows in each thread (native/gram/run_dense.hpp)
_LIST_SHARE = 5  # most bytes that lists of rare features take for each byte of a CSR table
_COLUMN_BYTES, _HEAD_BYTES = 16, 4  # bytes for each column of a CSR table: in the table, and in each thread
_NORM_ROUNDING = 1.0 + 2.0**-20  # factor that rounds a norm up, because its sum has rounding errors
_SHORT_ROW, _SHORT_SPARSE_ROW = 64, 24  # multiplications that take as long as reading a cached value


@final
class NativeBackend(Backend):
    """Evaluates a program over tiles, in float64 and in several threads; results do not depend on their number.

    Parameters
    ----------
    program : Program
        The program of the kernel.
    data : Data
        The training rows. Their mean is subtracted before distances are computed, which preserves digits.
    direct : bool, default False
        Whether distances are computed from differences of coordinates. Inner products are twice as fast, but lose
        digits if rows are much closer to each other than to their mean.
    exponent_span : float, default 0
        The result of :func:`exponent_span_of` for the program on these rows.
    layout : Layout, optional
        The layout of the program on the training rows, if it is known.
    integers : IntegerForm, optional
        The training rows as multiples of a step, for single precision.
    n_jobs : int, optional
        See :func:`mercer.gram.threads.n_threads`.
    """

    def __init__(
        self,
        program: Program,
        data: Data,
        *,
        direct: bool = False,
        exponent_span: float = 0.0,
        layout: Layout | None = None,
        integers: IntegerForm | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._layout, self._integers = layout or Layout(program, data), integers
        rows = self._layout.rows(data)
        length = _row_length(rows) * self._layout.n_passes
        single_length = integers.row_length if integers else length
        self.kernel_is_expensive = single_length > (_SHORT_ROW if isinstance(rows, Dense) else _SHORT_SPARSE_ROW)
        kernel = CompiledKernel(
            [int(op) for op, _ in program], self._layout.arguments, direct, [list(one) for one in self._layout.columns]
        )
        self._centre = None if direct else self._layout.centre
        self._calls = TileCalls(kernel, self._centre, length + 20, n_jobs)
        self.isa, self.n_threads = self._calls.isa, self._calls.n_threads
        self.values_per_call = self._calls.values_per_call
        self.roundoff = roundoff_of(program, self._layout, rows) + (0.0 if direct else 2.0 * exponent_span)
        self._program, self._direct = program, direct
        # Passes over chosen columns use column numbers of the whole table, so it is not narrowed for them.
        is_wide = isinstance(rows, CSR) and rows.is_wide and not self._layout.columns
        self._columns = self._occurring(data) if is_wide else None
        width = rows.p if self._columns is None else self._columns.size
        packed = 8 * (width + 2) * (rows.n + 32)
        lists = 0 if isinstance(rows, Dense) else _LIST_SHARE * rows.nbytes + _COLUMN_BYTES * width
        self.form_bytes = integers.nbytes if integers else rows.nbytes if rows is not data else 0
        self.scratch_bytes = min(PANEL_BYTES, packed) + lists + symmetric_sum_bytes(rows.n) + self.form_bytes
        self.thread_bytes = min(_LEFT_BYTES, packed) + (0 if isinstance(rows, Dense) else _HEAD_BYTES * width)
        self._tables: dict[tuple[int, int, bool], tuple[Data, Table]] = {}
        self._norms: dict[tuple[int, bool], tuple[Data, NormClasses]] = {}
        self._roundings: dict[tuple[int, int], tuple[Data, Data, Rounding]] = {}
        self._tables_of(data, single=False)

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
        single = out.dtype == np.float32 and not rounded
        one, two = self._tables_of(left, right, single=single)
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
        n = left.n if left_rows is None else left_rows.size
        one, two = self._tables_of(left, right, single=single)
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
    ) -> FloatArray:
        """Return summand `part` of the `parts` whose sum is K(data, data) @ vectors; see :class:`Backend`."""
        return self._calls.matvec_part(
            self._tables_of(data, single=single)[0], rows, vectors, part, parts, single=single
        )

    def tiles(self, data: Data) -> Tiles:
        """Return the table and the program for native code; see :class:`Backend`."""
        return self._calls.tiles(self._tables_of(data, single=True)[0])

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors from values in single precision, with bounds; see :class:`Backend`."""
        sizes = np.abs(vectors).max(axis=1, initial=0.0)  # largest weight of each row in any vector
        bound = self.single_precision_bound(left, left_rows, right, right_rows, sizes)
        if bound is None:
            return None
        rounding = self._rounding(left, right)
        if not rounding.is_relative:
            return self.matvec(left, left_rows, right, right_rows, vectors, single=True), bound
        groups = self._rounding(right, right).groups(right_rows, sizes)
        parts = [np.where(groups == group, sizes, 0.0) for group in range(int(groups.max(initial=0)) + 1)]
        both = self.matvec(left, left_rows, right, right_rows, np.column_stack([vectors, *parts]), single=True)
        products, magnitudes = np.split(both, [vectors.shape[1]], axis=1)
        return products, np.fmin(bound, rounding.closer_bound(left_rows, right_rows, sizes, groups, magnitudes))

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return a bound on the error of `matvec` with `single`; see :class:`Backend`."""
        if self._direct:
            return None
        return self._rounding(left, right).bound(left_rows, right_rows, weights)

    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)|, from the norms of the rows; see :class:`Backend`."""
        return self._rounding(data, data).value_bound

    def _rounding(self, left: Data, right: Data) -> Rounding:
        cached = self._roundings.get((id(left), id(right)))
        if cached is not None:
            return cached[2]
        one, other = self._layout.rows(left), self._layout.rows(right)
        longest = max(_longest_row(one), _longest_row(other))
        sums = Sums.of_dense(longest) if isinstance(one, Dense) else Sums.in_turn(longest)
        centre = 0.0 if self._centre is None else float(np.linalg.norm(self._centre))
        are_integers = self._integers is not None and self._integers.has(one) and self._integers.has(other)
        if are_integers:
            sums, centre = Sums.of_integers(longest, centred=self._centre is not None), 0.0
        if any(op in OVERLAPS for op, _ in self._program):
            least = min(least_positive_entry(one), least_positive_entry(other))
            sums = sums if least >= LEAST_ENTRY else Sums.unbounded(longest)
        ours, theirs = (self._norm_classes(some, are_integers=are_integers) for some in (left, right))
        rounding = Rounding(self._program, sums, ours, theirs, centre)
        self._roundings[id(left), id(right)] = (left, right, rounding)
        return rounding

    def _norm_classes(self, data: Data, *, are_integers: bool) -> NormClasses:
        cached = self._norms.get((id(data), are_integers))
        if cached is not None:
            return cached[1]
        rows, centred = self._layout.rows(data), self._centre is not None
        norms = np.zeros(rows.n)
        with np.errstate(over="ignore", invalid="ignore"):
            if centred or not are_integers:
                norms += np.sqrt(rows.sq_norms(self._centre))
            if are_integers and self._integers:
                norms += integer_norms(self._integers.norms(rows), centred=centred)
            classes = NormClasses(norms * _NORM_ROUNDING)
        self._norms[id(data), are_integers] = (data, classes)
        return classes

    def _tables_of(self, *sides: Data, single: bool) -> list[Table]:
        """Return the tables of both sides; a column has the same number in both tables."""
        columns = self._columns
        if columns is not None:
            fresh = [self._occurring(data) for data in sides if (id(data), columns.size, False) not in self._tables]
            if fresh:
                columns = self._columns = distinct(np.concatenate([columns, *fresh]))
        return [self._table(data, columns, single=single) for data in sides]

    def _occurring(self, data: Data) -> IndexArray:
        rows = self._layout.rows(data)
        assert isinstance(rows, CSR)
        return rows.columns

    def _table(self, data: Data, columns: IndexArray | None, *, single: bool) -> Table:
        """Return the table for native code; for sparse rows with `columns`, it has only these columns."""
        are_integers = single and self._integers is not None
        key = id(data), 0 if columns is None else columns.size, are_integers
        cached = self._tables.get(key)
        if cached is not None:
            return cached[1]
        rows = self._layout.rows(data)
        if isinstance(rows, Dense):
            table = self._integers.table(rows) if are_integers and self._integers else Table(rows.array)
        else:
            assert isinstance(rows, CSR)
            narrow = rows if columns is None else rows.narrowed(columns)
            m = narrow.matrix
            table = Table(m.data, m.indices, m.indptr, narrow.p)
        self._tables[key] = (data, table)
        return table


def _longest_row(data: Data) -> int:
    """Largest number of products in an inner product with a row."""
    return data.p if isinstance(data, Dense) else int(np.diff(data.matrix.indptr).max(initial=0))  # type: ignore[attr-defined]


def _row_length(data: Data) -> int:
    """Multiplications in one inner product: features, or stored entries of an average CSR row."""
    return data.p if isinstance(data, Dense) else int(data.nbytes / 12 / max(1, data.n))


def roundoff_of(program: Program, layout: Layout, rows: Data) -> float:
    """Return the relative error of a kernel value in units of roundoff.

    The error of squared distances from inner products is not included. A sum over p features counts about sqrt(p)
    roundings; powers and products of kernels multiply that. L1 and chi-squared distances of CSR rows are norm + norm
    minus twice the shared part, so their error grows with the norms. For hyperbolic tangents, it grows with the inner
    products.
    """
    roundoff = (1.0 + 0.25 * _longest_row(rows) ** 0.5) * most_factors(program)
    if not isinstance(rows, Dense):
        roundoff += 2.0 * shared_exponent_span_of(program, layout)
    if any(op is Op.TANH for op, _ in program):
        products = {step for step in program if step[0] is Op.DOT}
        roundoff += sum(distance_sensitivity(program, step) * layout.sq_norm(step) for step in products)
    return roundoff


def most_factors(program: Program) -> float:
    """Return the largest number of sums over features that are multiplied or divided to give a value."""
    stack: list[float] = []
    for op, number in program:
        if op in PASSES or op is Op.CONST:
            stack.append(4.0 if op in OVERLAPS else 1.0)
        elif op in (Op.ADD, Op.MUL):
            one, other = stack.pop(), stack.pop()
            stack.append(one + other if op is Op.MUL else max(one, other))
        elif op is Op.POWER:
            stack.append(max(1.0, number) * stack.pop())
    return stack.pop()


def exponent_span_of(program: Program, data: Data, layout: Layout | None = None) -> float:
    """Return how much squared distances can change the logarithm of a kernel value on these rows; 0 without distances.

    The error of a distance from inner products is a few units of roundoff of the squared distance *to the mean*. Times
    the scale in exp(-scale d^2), it is the relative error of the kernel value, in units of roundoff.
    """
    distances = {step for step in program if step[0] is Op.SQDIST}
    if not distances or data.n == 0:
        return 0.0
    layout_read = layout or Layout(program, data)
    return sum(distance_sensitivity(program, step) * layout_read.sq_radius(step) for step in distances)


def shared_exponent_span_of(program: Program, layout: Layout) -> float:
    """Return the same as `exponent_span_of`, for L1 and chi-squared distances of CSR rows (see :func:`roundoff_of`)."""
    steps = {step for step in program if step[0] in (Op.L1, Op.CHI2)}
    with np.errstate(over="ignore", invalid="ignore"):
        return sum(distance_sensitivity(program, step) * 2.0 * layout.largest_row_sum(step) for step in steps)


def distance_sensitivity(program: Program, distance: Step) -> float:
    """Return the largest change of the logarithm of a kernel value per unit of one pass.

    A pass is a distance or an inner product. For a hyperbolic tangent, the change of the value counts, not that of its
    logarithm. The result is infinite if a root of the pass is taken, because a root has half of its digits.
    """
    stack: list[tuple[float, float]] = []  # changes of a value that is linear in the pass, and of its logarithm
    for op, number in program:
        if op in PASSES or op is Op.CONST:
            stack.append((float((op, number) == distance), 0.0))
        elif op in (Op.ADD, Op.MUL):
            (linear, relative), (other_linear, other_relative) = stack.pop(), stack.pop()
            joined = max(relative, other_relative) if op is Op.ADD else relative + other_relative
            stack.append((linear + other_linear, joined))
        elif op is Op.SCALE:
            linear, relative = stack.pop()
            stack.append((abs(number) * linear if linear else 0.0, relative))
        elif op is Op.POWER:
            linear, relative = stack.pop()
            stack.append((linear, number * relative))
        elif op in (Op.EXP, Op.TANH):
            stack.append((0.0, sum(stack.pop())))
        elif op is Op.SQRT:
            stack.append((math.inf if sum(stack.pop()) else 0.0, 0.0))
    return sum(stack.pop())
