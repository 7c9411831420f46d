"""Native core of mercer: kernel tiles, block solvers, working sets."""

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

_Float = npt.NDArray[np.float64]
_Real = npt.NDArray[np.floating]  # float64 or float32
_Single = npt.NDArray[np.float32]
_Index = npt.NDArray[np.int64]

class Table:
    @overload
    def __init__(self, array: npt.NDArray[np.floating]) -> None: ...
    @overload
    def __init__(
        self,
        data: npt.NDArray[np.floating],
        indices: npt.NDArray[np.integer],
        indptr: npt.NDArray[np.integer],
        n_features: int,
    ) -> None: ...
    @overload
    def __init__(
        self, array: npt.NDArray[np.floating], units: npt.NDArray[np.int32], step: float, bytes: bool
    ) -> None: ...
    @overload
    def __init__(self, words: npt.NDArray[np.uint64], n_features: int, step: float) -> None: ...

class CompiledKernel:
    def __init__(
        self,
        ops: Sequence[int],
        arguments: Sequence[float],
        direct: bool = False,
        columns: Sequence[Sequence[int]] = ...,
    ) -> None: ...

class LinearTable:
    @overload
    def __init__(self, array: npt.NDArray[np.number], constant: float) -> None: ...
    @overload
    def __init__(
        self,
        data: npt.NDArray[np.floating],
        indices: npt.NDArray[np.integer],
        indptr: npt.NDArray[np.integer],
        n_columns: int,
        constant: float,
    ) -> None: ...

def thread_limit() -> int: ...
def best_isa() -> str: ...
def has_isa(name: str) -> bool: ...
def counts_bits(isa: str) -> bool: ...
def multiplies_integers(isa: str) -> bool: ...
def integer_rows(
    isa: str, table: npt.NDArray[np.floating], step: float, bytes: bool, n_threads: int
) -> npt.NDArray[np.int32] | None: ...
def bit_rows(table: npt.NDArray[np.floating], low: _Float, high: _Float) -> npt.NDArray[np.uint64] | None: ...
def bit_rows_of_entries(
    indices: npt.NDArray[np.integer], indptr: npt.NDArray[np.integer], n_features: int
) -> npt.NDArray[np.uint64] | None: ...
def block(
    isa: str,
    kernel: CompiledKernel,
    left: Table,
    left_rows: _Index | None,
    right: Table,
    right_rows: _Index | None,
    *,
    centre: _Float | None,
    out: _Real,
    n_threads: int,
    rounded: bool = False,
) -> None: ...
def matvec(
    isa: str,
    kernel: CompiledKernel,
    left: Table,
    left_rows: _Index | None,
    right: Table,
    right_rows: _Index | None,
    *,
    centre: _Float | None,
    vectors: _Float,
    out: _Float,
    n_threads: int,
    part: int = 0,
    parts: int = 1,
) -> None: ...
def matvec_single(
    isa: str,
    kernel: CompiledKernel,
    left: Table,
    left_rows: _Index | None,
    right: Table,
    right_rows: _Index | None,
    *,
    centre: _Float | None,
    vectors: _Float,
    out: _Float,
    n_threads: int,
    part: int = 0,
    parts: int = 1,
) -> None: ...
def gather_rows(values: _Real, slots: _Index, columns: _Index | None, out: _Real, n_threads: int) -> None: ...
def scatter_rows(values: _Single, slots: _Index, columns: _Index, out: _Single) -> None: ...
def combine_rows(
    isa: str, values: _Real, slots: _Index, columns: _Index | None, weights: _Float, out: _Float, n_threads: int
) -> None: ...
def add_at(out: _Float, places: _Index, values: _Float) -> None: ...
def fold(idx: _Index, n: int) -> tuple[_Index, _Index]: ...
def without(removed: _Index, places: _Index | None, n: int) -> _Index: ...

class ProblemArrays:
    """Problems one after the other: problem k has the variables edges[k] .. edges[k + 1], each a row of the matrix.

    `beta`, `values` and `seen` are updated in place.
    """

    def __init__(
        self,
        *,
        edges: _Index,
        rows: _Index,
        linear: _Float,
        lower: _Float,
        upper: _Float,
        ridge: _Float | None,
        groups: _Index | None,
        n_groups: int,
        beta: _Float,
        values: _Float,
        seen: npt.NDArray[np.int8],
    ) -> None: ...

class InMemoryStates:
    """The progress of each problem, updated in place."""

    def __init__(
        self,
        *,
        ends: npt.NDArray[np.int8],
        precise: npt.NDArray[np.int8],
        smo_slow: npt.NDArray[np.int8],
        n_iter: _Index,
        violations: _Float,
        seconds: _Float,
    ) -> None: ...

def solve_in_memory(
    isa: str,
    matrix: _Real,
    problems: ProblemArrays,
    states: InMemoryStates,
    *,
    first: int,
    tol: float,
    max_iter: int,
    max_work: float,
    max_block: int,
    workspace: _Float,
    stop: Callable[[], bool] | None = None,
) -> tuple[int, int]: ...
def compact_square(matrix: _Real, stay: _Index, n_threads: int) -> None: ...
def gather_square(
    values: _Single, slots: _Index, columns: _Index, square: _Single, out: _Single, n_threads: int
) -> None: ...
def mirror_rows(matrix: _Single, n_known: int, n_threads: int) -> None: ...
def solve_block(
    isa: str,
    newton: bool,
    matrix: _Real,
    *,
    beta: _Float,
    gradient: _Float,
    lower: _Float,
    upper: _Float,
    group_starts: _Index,
    tol: float,
    max_iter: int,
    n_threads: int = 1,
    stop: Callable[[], bool] | None = None,
) -> tuple[int, int, float]: ...
def solve_joint_block(
    isa: str,
    conjugate: bool,
    matrix: _Real,
    *,
    beta: _Float,
    gradient: _Float,
    labels: _Index,
    penalty: _Float,
    tol: float,
    max_iter: int,
    max_work: float,
    stop: Callable[[], bool] | None = None,
) -> tuple[int, int, float]: ...
def twofold_sum(values: _Float) -> float: ...
def find_vertex(gradient: _Float, lower: _Float, upper: _Float, total: float) -> _Float: ...
def balance(beta: _Float, lower: _Float, upper: _Float, edges: _Index, totals: _Float) -> None: ...
def conditions(
    beta: _Float,
    values: _Float,
    *,
    linear: _Float,
    lower: _Float,
    upper: _Float,
    start: _Float,
    ridge: _Float | None,
    groups: _Index | None,
    n_groups: int,
) -> tuple[_Float, tuple[float, float, float, float, float, int, int]]: ...
def find_screened(
    beta: _Float,
    lower: _Float,
    upper: _Float,
    gradient: _Float,
    doubt: _Float,
    margin: float,
    groups: _Index | None,
    n_groups: int,
) -> npt.NDArray[np.bool_]: ...
def sparse_rows(table: _Real, shift: _Float) -> tuple[_Index, npt.NDArray[np.int32], _Float]: ...
def column_means(table: _Real) -> _Float: ...
def sq_norms(table: _Real, centre: _Float) -> _Float: ...
def sparse_sq_norms(data: npt.NDArray[np.floating], indptr: npt.NDArray[np.integer]) -> _Float: ...
def machines_workspace(
    part_starts: _Index, pairs: _Index, exact_size: int, double_size: int, whole_size: int, n_threads: int
) -> int: ...

class MachineParts:
    """The rows of each part of the data, and the problems on one part or on two."""

    def __init__(
        self,
        *,
        rows: _Index,
        part_starts: _Index,
        pairs: _Index,
        diagonal: _Float | None,
        shared: _Float | None,
        fill_shared: bool,
    ) -> None: ...

class MachineVariables:
    """Problems, one after the other, and their solutions, which are written into `beta` and `values`."""

    def __init__(
        self, *, start: _Float, linear: _Float, lower: _Float, upper: _Float, beta: _Float, values: _Float
    ) -> None: ...

class MachineLimits:
    """The limits of each problem, the sizes up to which a matrix is used, and the work of a call."""

    def __init__(
        self,
        *,
        grouped: bool,
        tol: float,
        max_iter: int,
        exact_size: int,
        double_size: int,
        whole_size: int,
        value_work: float,
        work_limit: float,
    ) -> None: ...

def solve_machines(
    isa: str,
    kernel: CompiledKernel,
    table: Table,
    *,
    centre: _Float | None,
    parts: MachineParts,
    variables: MachineVariables,
    limits: MachineLimits,
    workspace: _Float,
    n_threads: int,
    stop: Callable[[], bool] | None = None,
) -> _Float: ...

# Of working sets: native/dual/block.hpp says what each is.
BLOCK_LIMIT: int
INNER_SHARE: float
FEW_FREE: int
MANY_FREE: int
MANY_FREE_PRECISE: int
EXACT_FREE: int

class VariableTiles:
    def __init__(
        self,
        isa: str,
        kernel: CompiledKernel,
        table: Table,
        centre: _Float | None,
        rows: _Index | None,
        owners: _Index | None,
        n_threads: int,
        one_thread_values: int,
    ) -> None: ...
    def square(self, chosen: _Index, out: _Single) -> int: ...
    def follow(
        self,
        cols: _Index,
        changes: _Float,
        active: _Index | None,
        gradient: _Float,
        chosen: _Index,
        matrix: _Real | None,
        places: _Index,
    ) -> int: ...

class BlockLimits:
    def __init__(
        self,
        *,
        tol: float,
        newton_tol: float,
        violation: float,
        largest: float,
        convex: bool,
        smo_slow: bool,
        most_free: int,
        most_close: int,
        close: float,
        most_if_slow: int,
        exact_free: int,
        brief_free: int,
        diverged_above: float,
        n_rounds: int,
    ) -> None: ...

def column_descent(
    columns: LinearTable,
    *,
    curvature: _Float,
    pull: _Float,
    penalty: _Float,
    weight: _Float,
    centre: _Float,
    u: _Float,
    change: _Float,
    chosen: _Index,
    target: float,
    most: int,
    seed: int,
) -> tuple[int, float]: ...
def lasso_descent(
    matrix: _Float, penalty: _Float, gradient: _Float, u: _Float, *, target: float, most: int
) -> tuple[int, float]: ...

class Descent:
    def run(
        self, most: int, target: float, stop: Callable[[], bool] | None = None
    ) -> tuple[int, int, float, int, bool]: ...
    @property
    def largest_square(self) -> float: ...

class DualDescent(Descent):
    def __init__(
        self,
        table: LinearTable,
        *,
        loss: int,
        epsilon: float,
        targets: _Float,
        charges: _Float,
        beta: _Float,
        w: _Float,
        seed: int,
    ) -> None: ...

class JointDescent(Descent):
    def __init__(
        self,
        table: LinearTable,
        *,
        codes: _Index,
        charges: _Float,
        beta: _Float,
        w: _Float,
        seed: int,
    ) -> None: ...

class Block:
    @property
    def beta(self) -> _Float: ...
    @property
    def gradient(self) -> _Float: ...
    @property
    def is_finished(self) -> bool: ...
    @property
    def has_diverged(self) -> bool: ...
    @property
    def smo_slow(self) -> bool: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def n_free(self) -> int: ...
    @property
    def n_newton(self) -> int: ...
    @property
    def newton_free(self) -> int: ...
    @property
    def violation(self) -> float: ...
    def work(self, most: int, stop: Callable[[], bool] | None = None) -> None: ...
    def go_to(self, beta: _Float, gradient: _Float) -> None: ...
    def store_point(self, beta: _Float) -> None: ...
    def store_gradient(self, gradient: _Float) -> None: ...
    def moves(self) -> tuple[_Index, _Index, _Float, float]: ...
    def rise(self, gradient: _Float) -> float: ...

def begin_block(
    isa: str,
    matrix: _Real,
    chosen: _Index,
    *,
    beta: _Float,
    gradient: _Float,
    lower: _Float,
    upper: _Float,
    groups: _Index | None,
    n_groups: int,
    limits: BlockLimits,
    n_threads: int = 1,
) -> Block: ...

class Survey:
    def __init__(self) -> None: ...
    @property
    def violation(self) -> float: ...
    @property
    def n_free(self) -> int: ...
    def measure(
        self,
        beta: _Float,
        gradient: _Float,
        lower: _Float,
        upper: _Float,
        groups: _Index | None,
        n_groups: int,
        active: _Index | None,
    ) -> None: ...
    def n_remaining(self) -> int: ...
    def remaining(self) -> _Index: ...
    def dropped(self) -> _Index: ...
    def without_partners(self, chosen: _Index, rows: _Index, n_rows: int) -> _Index: ...
    def select(self, seen: npt.NDArray[np.bool_], previous: _Index, limit: int) -> _Index: ...

class TableauPlaces:
    """The places of a tableau, first those of basic variables, with the rows that are known."""

    def __init__(
        self,
        *,
        n_basic: int,
        values: _Float,
        point: _Float,
        lower: _Float,
        upper: _Float,
        drift: _Float,
        rows: _Float,
        slots: _Index,
    ) -> None: ...

class RemovedVariables:
    """The variables, each of which is removed alone."""

    def __init__(
        self,
        *,
        own_rows: _Float,
        own_slots: _Index,
        corner: _Float,
        gradient: _Float,
        main: _Index,
        partner: _Index,
        amount: _Float,
        own_drift: _Float,
        total: _Float,
    ) -> None: ...

def leave_out(
    places: TableauPlaces,
    removed: RemovedVariables,
    *,
    size: float,
    tol_beta: float,
    tol_gradient: float,
    ends: _Index,
    numbers: _Float,
    n_threads: int,
) -> _Index: ...

class Strings:
    def __init__(self, letters: npt.NDArray[np.int32], starts: _Index, n_letters: int) -> None: ...

class PegasosVisits:
    """The visited rows in their order, their losses, and the codes and weights of all rows."""

    def __init__(
        self,
        *,
        order: _Index,
        codes: _Index,
        weights: _Float,
        factors: _Float,
        hinge: _Float | None,
        wrong: _Float | None,
    ) -> None: ...

class PegasosState:
    """What is changed by each step."""

    def __init__(
        self,
        *,
        v: _Float,
        lag: _Float | None,
        scale: _Float,
        sq_norm: _Float,
        mass: _Float,
        charged: _Float,
        totals: _Float,
    ) -> None: ...

def pegasos_steps(
    table: LinearTable, visits: PegasosVisits, state: PegasosState, *, alpha: float, batch_size: int, projects: bool
) -> None: ...
def edit_distances(isa: str, strings: Strings, left_rows: _Index, right_rows: _Index, out: _Float) -> None: ...
def alignments(
    isa: str,
    strings: Strings,
    left_rows: _Index,
    right_rows: _Index,
    letters: _Float,
    open: float,
    extend: float,
    out: _Float,
) -> None: ...
def subsequences(
    isa: str, strings: Strings, left_rows: _Index, right_rows: _Index, length: int, decay: float, out: _Float
) -> None: ...

class WordRows:
    def __init__(self, letters: npt.NDArray[np.uint8], starts: _Index, place_weights: _Float | None) -> None: ...

def word_pairs(
    isa: str,
    lefts: WordRows,
    left_rows: _Index,
    rights: WordRows,
    right_rows: _Index,
    length: int,
    weights: _Float,
    out: _Float,
) -> None: ...

class WordTransformer:
    def __init__(self, isa: str, length: int, n_letters: int, eigenvalues: _Float, table: _Float) -> None: ...
    def step(self, n_threads: int) -> bool: ...

def add_to_words(
    letters: npt.NDArray[np.int32],
    starts: _Index,
    place_weights: _Float | None,
    length: int,
    n_letters: int,
    first: int,
    last: int,
    coefficients: _Float,
    table: _Float,
) -> None: ...
def sum_over_words(
    letters: npt.NDArray[np.int32],
    starts: _Index,
    place_weights: _Float | None,
    length: int,
    n_letters: int,
    first: int,
    last: int,
    table: _Float,
    sums: _Float,
    n_threads: int,
) -> None: ...
def parse_svmlight(
    text: bytes, start: int, first: int
) -> tuple[_Float, _Index, npt.NDArray[np.int32], _Float, int, bool, int]: ...
def row_products(isa: str, table: LinearTable, vectors: _Float, out: _Float, n_threads: int) -> None: ...
def weighted_sums(
    isa: str,
    table: LinearTable,
    *,
    weights: _Float | None,
    sums: _Float | None,
    gram_weights: _Float | None,
    scales: _Float | None,
    gram: _Float | None,
    n_threads: int,
) -> None: ...
def row_squares(isa: str, table: LinearTable, out: _Float, n_threads: int) -> None: ...
def column_squares(isa: str, table: LinearTable, out: _Float, n_threads: int) -> None: ...
def class_epoch(
    isa: str,
    table: LinearTable,
    *,
    is_squared: bool,
    order: _Index,
    squares: _Float,
    charges: _Float,
    beta: _Float,
    w: _Float,
    active: npt.NDArray[np.uint16],
    up: _Float,
    down: _Float,
    measures: _Float,
    n_shrunken: _Index,
) -> None: ...
def class_step(
    isa: str,
    table: LinearTable,
    *,
    is_squared: bool,
    charges: _Float,
    beta: _Float,
    w: _Float,
    beta_before: _Float,
    w_before: _Float,
    beta_change: _Float,
    w_change: _Float,
    moved: _Float,
    growth: _Float,
) -> None: ...

class RowTerms:
    """The targets and charges of rows, and the function of their decision values."""

    def __init__(
        self,
        *,
        is_logistic: bool,
        one_sided: bool,
        bounded: bool,
        epsilon: float,
        factor: float,
        unit: float,
        targets: _Float,
        charges: _Float,
        shares: _Float | None,
    ) -> None: ...

def row_terms(
    isa: str, terms: RowTerms, *, z: _Float, beta: _Float, curvature: _Float, n_threads: int
) -> tuple[float, float, float]: ...
def term_line(
    isa: str,
    terms: RowTerms,
    *,
    z: _Float,
    change: _Float,
    lengths: _Float,
    slopes: _Float,
    bends: _Float,
    n_threads: int,
) -> None: ...
def newton_pass(
    isa: str,
    table: LinearTable,
    terms: RowTerms,
    *,
    w: _Float | None,
    z: _Float,
    curvature: _Float | None,
    is_update: bool,
    scales: _Float,
    pull: _Float,
    gram: _Float,
    n_threads: int,
) -> tuple[float, float, float, float, float, float]: ...
