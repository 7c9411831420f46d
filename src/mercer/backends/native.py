"""The CPU backend: kernel programs run over tiles by the native core."""

from __future__ import annotations

from typing import final

import numpy as np

from mercer._core import CompiledKernel, Table
from mercer._core import block as evaluate_block
from mercer._core import matvec as apply_block
from mercer._core import matvec_single as apply_block_single
from mercer.backends.base import Array, Backend, FloatArray, IndexArray, Tiles
from mercer.backends.rounding import NormClasses, Sums, bound_combination, bound_magnitudes, value_bound
from mercer.backends.threads import n_threads
from mercer.data import CSR, Data, Dense, Vectors
from mercer.isa import select_isa
from mercer.kernels.program import Op, Program

MAX_STACK, MAX_PROGRAM = 8, 256
"""Tiles and steps of the longest program that the native core takes (see native/include/mercer/program.hpp)."""


_PANEL_BYTES, _LEFT_BYTES = 4 << 20, 192 << 10  # packed columns; rows of each thread (native/src/tiles.cpp)
_SYMMETRIC_TASKS, _SYMMETRIC_COLUMNS = 32, 1 << 15  # sums over the rows of a task, columns at a time (ibid.)
_LIST_SHARE = 5  # bytes of lists of rare features, for each byte of a CSR table, at most
_NORM_ROUNDING = 1.0 + 2.0**-20  # a norm that was summed in double, rounded up
_SHORT_ROW, _SHORT_SPARSE_ROW = 64, 24  # multiplications that cost about as much as looking a value up


@final
class NativeBackend(Backend):
    """Evaluates a program over tiles, in float64, on several threads; the results do not depend on how many.

    Parameters
    ----------
    program : Program
        What a kernel lowers to.
    data : Data
        The training rows: their mean is subtracted before distances are taken, which keeps digits.
    direct : bool, default False
        Whether distances come from differences, coordinate by coordinate. Inner products give them twice as fast, but
        lose digits where rows are much closer to each other than to their mean.
    reach : float, default 0
        Of the program on these rows; see :func:`exponent_reach`.
    n_jobs : int, optional
        See :func:`mercer.backends.threads.n_threads`.
    """

    def __init__(
        self, program: Program, data: Data, *, direct: bool = False, reach: float = 0.0, n_jobs: int | None = None
    ) -> None:
        self.isa = select_isa()
        self.n_threads = n_threads(n_jobs)
        self.keeping_pays = _row_length(data) > (_SHORT_ROW if isinstance(data, Dense) else _SHORT_SPARSE_ROW)
        self.values_per_call = int(min(3e7, 6e9 / (_row_length(data) + 20)))
        self._kernel = CompiledKernel([int(op) for op, _ in program], [float(a) for _, a in program], direct)
        self.roundoff = 1.0 + 0.25 * _longest_row(data) ** 0.5 + (0.0 if direct else 2.0 * reach)
        self._program, self._direct = program, direct
        packed = 8 * (data.p + 2) * (data.n + 32)
        lists = 0 if isinstance(data, Dense) else _LIST_SHARE * data.nbytes
        sums = 8 * _SYMMETRIC_TASKS * min(data.n, _SYMMETRIC_COLUMNS)
        self.scratch_bytes = min(_PANEL_BYTES, packed) + self.n_threads * min(_LEFT_BYTES, packed) + lists + sums
        centred = isinstance(data, Dense) and uses_distance(program) and not direct
        self._centre = data.mean() if centred else None  # type: ignore[attr-defined]
        self._tables: dict[int, tuple[Data, Table]] = {}
        self._norms: dict[int, tuple[Data, NormClasses]] = {}
        self._table(data)

    def block(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, out: Array
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        evaluate_block(
            self.isa,
            self._kernel,
            self._table(left),
            left_rows,
            self._table(right),
            right_rows,
            self._centre,
            out,
            self._threads_for(out.size),
        )

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
        out = np.zeros((n, vectors.shape[1]))
        threads = self._threads_for(n * vectors.shape[0])
        (apply_block_single if single else apply_block)(
            self.isa,
            self._kernel,
            self._table(left),
            left_rows,
            self._table(right),
            right_rows,
            self._centre,
            vectors,
            out,
            threads,
        )
        return out

    def tiles(self, data: Data) -> Tiles:
        """Return what native code needs; see :class:`Backend`."""
        return Tiles(self.isa, self._kernel, self._table(data), self._centre)

    def matvec_bounded(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, vectors: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return K(left, right) @ vectors from values in single precision, with bounds; see :class:`Backend`."""
        sizes = np.abs(vectors).max(axis=1, initial=0.0)  # no vector has more
        bound = self.single_precision_bound(left, left_rows, right, right_rows, sizes)
        if bound is None:
            return None
        if self._program[-1][0] is not Op.EXP:
            return self.matvec(left, left_rows, right, right_rows, vectors, single=True), bound
        both = self.matvec(left, left_rows, right, right_rows, np.column_stack([vectors, sizes]), single=True)
        sides = self._norm_classes(left), left_rows, self._norm_classes(right), right_rows
        closer = bound_magnitudes(self._program, self._sums(left, right), *sides, sizes, both[:, -1], self._centre_norm)
        assert closer is not None
        return both[:, :-1], np.fmin(bound, closer)

    def single_precision_bound(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, weights: FloatArray
    ) -> FloatArray | None:
        """Return how far `matvec` with `single` may be off; see :class:`Backend`."""
        if self._direct:
            return None
        sides = self._norm_classes(left), left_rows, self._norm_classes(right), right_rows
        return bound_combination(self._program, self._sums(left, right), *sides, weights, self._centre_norm)

    @staticmethod
    def _sums(left: Data, right: Data) -> Sums:
        longest = max(_longest_row(left), _longest_row(right))
        return Sums.of_dense(longest) if isinstance(left, Dense) else Sums.in_turn(longest)

    @property
    def _centre_norm(self) -> float:
        return 0.0 if self._centre is None else float(np.linalg.norm(self._centre))

    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)|, from the norms of the rows; see :class:`Backend`."""
        return value_bound(
            self._program,
            float(self._norm_classes(data).largest[0]),
            self._centre_norm,
        )

    def _norm_classes(self, data: Data) -> NormClasses:
        held = self._norms.get(id(data))
        if held is not None:
            return held[1]
        assert isinstance(data, Vectors)
        with np.errstate(over="ignore", invalid="ignore"):
            classes = NormClasses(np.sqrt(data.sq_norms(self._centre)) * _NORM_ROUNDING)
        self._norms[id(data)] = (data, classes)
        return classes

    def _threads_for(self, n_values: int) -> int:
        # Starting a thread costs some 20 microseconds; below a millisecond of work it does not pay.
        return self.n_threads if 60 * n_values > self.values_per_call else 1

    def _table(self, data: Data) -> Table:
        held = self._tables.get(id(data))
        if held is not None:
            return held[1]
        if isinstance(data, Dense):
            table = Table(data.array)
        elif isinstance(data, CSR):
            m = data.matrix
            table = Table(m.data, m.indices, m.indptr, data.p)
        else:
            raise TypeError(f"native tiles need dense or CSR rows, got {type(data).__name__}")
        self._tables[id(data)] = (data, table)
        return table


def _longest_row(data: Data) -> int:
    """Most products that an inner product of a row adds up."""
    return data.p if isinstance(data, Dense) else int(np.diff(data.matrix.indptr).max(initial=0))  # type: ignore[attr-defined]


def _row_length(data: Data) -> int:
    """Multiplications in one inner product: features, or stored entries of an average CSR row."""
    return data.p if isinstance(data, Dense) else int(data.nbytes / 12 / max(1, data.n))


def exponent_reach(program: Program, data: Data) -> float:
    """Return how much squared distances can change the logarithm of a kernel value on these rows, 0 without distances.

    Distances from inner products are off by a few units of roundoff of the squared distance *to the mean*; times the
    scale in exp(-scale d^2), that is the relative error of the kernel value, in units of roundoff.
    """
    sensitivity = distance_sensitivity(program)
    if sensitivity == 0.0 or data.n == 0 or not isinstance(data, Vectors):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        centre = data.mean() if isinstance(data, Dense) else None
        return sensitivity * float(data.sq_norms(centre).max())


def distance_sensitivity(program: Program) -> float:
    """Return by how much the logarithm of a kernel value changes, at most, for a unit of squared distance."""
    stack: list[tuple[float, float]] = []  # of the value where it is linear in the distance, and of its logarithm
    for op, number in program:
        if op in (Op.DOT, Op.CONST):
            stack.append((0.0, 0.0))
        elif op is Op.SQDIST:
            stack.append((1.0, 0.0))
        elif op in (Op.ADD, Op.MUL):
            (linear, relative), (other_linear, other_relative) = stack.pop(), stack.pop()
            joined = max(relative, other_relative) if op is Op.ADD else relative + other_relative
            stack.append((linear + other_linear, joined))
        elif op is Op.SCALE:
            stack.append((abs(number) * stack[-1][0], stack.pop()[1]))
        elif op is Op.POWER:
            linear, relative = stack.pop()
            stack.append((linear, number * relative))
        elif op is Op.EXP:
            stack.append((0.0, sum(stack.pop())))
    return sum(stack.pop())


def uses_distance(program: Program) -> bool:
    """Whether the program asks for squared distances."""
    return any(op == Op.SQDIST for op, _ in program)


def uses_inner_products(program: Program) -> bool:
    """Whether the program asks for inner products."""
    return any(op == Op.DOT for op, _ in program)
