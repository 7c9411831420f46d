"""The choice of a backend: native tiles if the kernel lowers to a program, else blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mercer.data import CSR, Data, Dense, MixedRows, Precomputed
from mercer.gram.backend import Backend as Backend
from mercer.gram.backend import Tiles as Tiles
from mercer.gram.block_backend import BlockBackend as BlockBackend
from mercer.gram.encodings.bits import BitForm as BitForm
from mercer.gram.encodings.bits import bit_form
from mercer.gram.encodings.integers import IntegerForm as IntegerForm
from mercer.gram.encodings.integers import integer_form
from mercer.gram.encodings.sparse import SparseForm as SparseForm
from mercer.gram.encodings.sparse import prevailing_values
from mercer.gram.evaluated_backend import EvaluatedBackend as EvaluatedBackend
from mercer.gram.in_memory import InMemoryBackend as InMemoryBackend
from mercer.gram.in_memory import InMemoryRows as InMemoryRows
from mercer.gram.layout import Layout as Layout
from mercer.gram.native import MAX_PROGRAM, MAX_STACK, shared_exponent_span_of
from mercer.gram.native import NativeBackend as NativeBackend
from mercer.gram.native import exponent_span_of as exponent_span_of
from mercer.gram.parts_backend import PartsBackend as PartsBackend
from mercer.gram.parts_backend import is_made_of_parts
from mercer.gram.rounding import Sums, integer_norms, sq_distance_error
from mercer.gram.threads import n_threads as n_threads
from mercer.gram.threads import threads_that_pay as threads_that_pay
from mercer.kernels import Kernel, stack_depth
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.program import PASSES, Op, Program

MAX_EXPONENT_SPAN = 1e5  # largest scale times squared distance at which inner products leave a kernel value 10 digits
_ENTRY_LENGTH = 5  # integer multiplications that take as long as one entry of a sparse row
_LOOSER = 2.0  # largest ratio of the rounding bound for integers to that for floating-point numbers


def select_backend(
    kernel: Kernel,
    data: Data,
    *,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    matrix_bytes: int = 0,
) -> tuple[Backend, str]:
    """Choose the backend that evaluates `kernel` on `data`, and say why.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    data : Data
        The training rows, or other rows of the same kind.
    n_jobs : int, optional
        Threads; see :func:`mercer.gram.threads.n_threads`.
    memory_limit : int, optional
        Most bytes of an encoding of the rows, or of a block of kernel values that Python evaluates.
    matrix_bytes : int, default 0
        Bytes that the whole matrix of a kernel function may take, so that the function is called once; 0 for rows
        other than the training rows.

    Returns
    -------
    backend : Backend
    reason : str
        One clause, for `verbose` output and reports.
    """
    if isinstance(kernel, EvaluatedKernel):
        assert isinstance(data, Precomputed)
        in_memory = InMemoryBackend(data, n_jobs=n_jobs)
        return in_memory, f"the values of {kernel!r} are all in memory"
    if is_made_of_parts(kernel, data):
        assert isinstance(data, MixedRows)
        select = partial(select_backend, n_jobs=n_jobs, memory_limit=memory_limit)
        parts = PartsBackend(kernel, data, lambda one, rows: select(one, rows)[0])
        return parts, f"{kernel!r} joins values of its parts, each of which reads columns of its own"
    program = kernel.lower()
    by_python = partial(BlockBackend, kernel, data, memory_limit=memory_limit, n_jobs=n_jobs)
    if program is None and kernel.is_native:
        blocks = by_python()
        return blocks, f"{kernel!r} runs as native blocks of rows ({select_isa()}, {blocks.n_threads} threads)"
    if program is None and kernel.calls_function and 8 * data.n**2 <= matrix_bytes:
        evaluated = EvaluatedBackend(kernel, data, n_jobs=n_jobs)
        return evaluated, f"{kernel!r} is called once with all rows, and its values stay in memory"
    if program is None:
        return by_python(), f"{kernel!r} has no tile program, so Python evaluates it by blocks of rows"
    if len(program) > MAX_PROGRAM or stack_depth(program) > MAX_STACK:
        return by_python(), f"{kernel!r} is too long or too deep for tiles, so Python evaluates it by blocks"
    others = partial(_of_numbers, kernel, program, data, by_python, n_jobs=n_jobs, memory_limit=memory_limit)
    bits = bit_form(program, data, lambda: others()[0], n_jobs=n_jobs, memory_limit=memory_limit)
    if bits is not None:
        return bits, (
            f"{kernel!r} runs as native tiles ({bits.isa}, {bits.n_threads} threads); columns take two values each, so "
            "that it is computed from counts of bits"
        )
    return others()


def _of_numbers(
    kernel: Kernel,
    program: Program,
    data: Data,
    by_python: Callable[[], Backend],
    *,
    n_jobs: int | None,
    memory_limit: int | None,
) -> tuple[Backend, str]:
    """The backend for a program on rows of numbers that are not stored as bits: integers, sparse form, or floats."""
    if isinstance(data, CSR) and data.is_wide and len({view for op, view in program if op in PASSES}) > 1:
        return by_python(), f"{kernel!r} reads these many, mostly empty columns in several ways: NumPy evaluates it"
    integers = integer_form(program, data, n_jobs=n_jobs, memory_limit=memory_limit)
    entries = None if integers is None else integers.row_length / _ENTRY_LENGTH
    shift = prevailing_values(program, data, memory_limit, most_entries=entries)
    if shift is not None:
        assert isinstance(data, Dense)
        layout = Layout(program, data, SparseForm(shift))
        exponent_span = exponent_span_of(program, data, layout)
        if exponent_span + shared_exponent_span_of(program, layout) <= MAX_EXPONENT_SPAN:
            native = NativeBackend(program, data, exponent_span=exponent_span, layout=layout, n_jobs=n_jobs)
            form = layout.rows(data)
            assert isinstance(form, CSR)
            share = form.matrix.nnz / (data.n * data.p)
            return native, (
                f"{kernel!r} runs as native tiles ({native.isa}, {native.n_threads} threads); {1 - share:.0%} of the "
                "entries repeat their column's prevailing value, and are left out"
            )
    layout = Layout(program, data)
    exponent_span = exponent_span_of(program, data, layout)
    direct = not exponent_span <= MAX_EXPONENT_SPAN
    if direct and not isinstance(layout.rows(data), Dense):
        return by_python(), f"{kernel!r} needs distances that keep digits on these rows: NumPy evaluates it"
    if direct or (integers and _are_far(integers, program, data, layout)):
        integers = None
    backend = NativeBackend(
        program, data, direct=direct, exponent_span=exponent_span, layout=layout, integers=integers, n_jobs=n_jobs
    )
    how = "; numbers are multiples of a step, which single precision multiplies as integers" if integers else ""
    return backend, f"{kernel!r} runs as native tiles ({backend.isa}, {backend.n_threads} threads){how}"


def _are_far(integers: IntegerForm, program: Program, data: Data, layout: Layout) -> bool:
    """Whether rows are so much further from 0 than from each other that the bounds for integers are too loose."""
    distances = [step for step in program if step[0] is Op.SQDIST]
    if not distances:
        return False
    exponent_span, norm = layout.sq_radius(distances[0]) ** 0.5, float(integers.norms(data).max())
    far = exponent_span + integer_norms(norm, centred=True)
    of_integers, of_numbers = Sums.of_integers(data.p, centred=True), Sums.of_dense(data.p)
    return sq_distance_error(of_integers, far, far) > _LOOSER * sq_distance_error(
        of_numbers, exponent_span, exponent_span
    )
