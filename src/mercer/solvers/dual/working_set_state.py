"""The state of the working-set solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mercer._core import Survey, VariableTiles, without
from mercer._typing import IndexArray, RealArray
from mercer.gram import Gram
from mercer.kernels.instruction_set import select_isa
from mercer.problems import Problem
from mercer.solvers.dual.gradient_log import GradientLog
from mercer.solvers.dual.row_cache import RowCache
from mercer.solvers.dual.working_set_sizes import uses_whole_matrix
from mercer.solvers.solver import State

_NOBODY = np.zeros(0, dtype=np.int64)


class WorkingMatrix(NamedTuple):
    """K[W, W] of a working set of m, float32 or float64."""

    variables: IndexArray
    """W, (m,), in the order of rows and columns."""
    values: RealArray
    """(m, m padded)."""
    buffer: RealArray
    """The buffer whose front part these are; an earlier set was larger."""


@dataclass
class BatchState(State):
    """State of :class:`mercer.solvers.WorkingSetSolver`.

    For n variables, `gradient` and `seen` have shape (n,); `active`, `active_rows` and `previous` are int64 indices.
    """

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    tol: float = field(kw_only=True)
    groups: IndexArray | None = field(kw_only=True)
    working: WorkingMatrix | None = None  # of the last round; K itself if W has all variables
    matrix_bytes: int = 0  # bytes of the largest working matrix so far
    idle_bytes: int = 0  # bytes of a former row cache whose memory may not be reused yet
    cache: RowCache | None = None
    tiles: VariableTiles | None = None  # for single precision, if the kernel is cheap
    is_cold_start: bool = False  # whether there was no starting point
    is_part: bool = False  # whether it is a part of the rows that suggests a starting point
    active: IndexArray | None = None  # variables that are not shrunken; None for all
    active_rows: IndexArray | None = None  # their rows in `values`
    has_all_active: bool = False  # whether W has all active variables, until shrinking is undone
    single: bool = False  # whether kernel values are evaluated in single precision
    is_solved_exactly: bool = False  # whether to solve to the limit of float64, whatever the tolerance
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = (
        (),
        (),
    )  # sizes of working sets, in single and in double precision
    c_times_kmax: float = math.inf  # C max k(x, x): largest effect of one variable on a decision value
    share: int = 1  # a working set has at least one row in so many
    largest_diagonal: float = 0.0  # largest |k(x, x)|
    moved: float = 0.0  # sum of squares of the changes of beta since the gradient was last true
    n_refreshes: int = 0
    true_violation: float = math.inf  # violation by the last true gradient
    n_free: int = 0  # number of free variables among the active ones
    holds_all: bool = False  # whether the working set holds all free variables and all violators
    smo_slow: bool = False  # whether pair steps have given way to Newton steps
    at_zero: float = math.inf  # the violation at beta = 0, if known
    previous: IndexArray = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64)
    )  # the last working set, in the order of selection
    n_moved: int | None = None  # number of variables that moved in the last round
    gradient_log: GradientLog | None = None  # None after the first true gradient
    isa: str = field(default_factory=select_isa)  # instruction set of the native code
    survey: Survey = field(default_factory=Survey)  # survey of this round
    seen: npt.NDArray[np.bool_] = field(init=False)  # variables that were in a working set
    uses_whole_matrix: bool = field(init=False)  # whether W has all variables from now on
    values: Gram = field(init=False)  # Gram matrix of the distinct rows
    rows: IndexArray | None = field(init=False)  # the row of each variable in `values`; None if variable i has row i
    is_doubled: bool = field(init=False)  # whether `rows` is 0..n-1 twice

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.problem.n, dtype=bool)
        self.uses_whole_matrix = uses_whole_matrix(self.gram)
        self.values, self.rows = self.gram.deduplicated or (self.gram, None)
        self.is_doubled = self.rows is not None and np.array_equal(self.rows, np.tile(np.arange(self.values.n), 2))

    @property
    def n_active(self) -> int:
        """Number of active variables, which are not shrunken."""
        return self.problem.n if self.active is None else self.active.size

    def rows_of(self, variables: IndexArray) -> IndexArray:
        """Return the rows of these variables in `values`."""
        return variables if self.rows is None else self.rows[variables]

    def go_on(self, *, single: bool) -> None:
        """Continue after a true gradient, with kernel values in single precision or in double."""
        self.gradient_log = None
        self.follow_all()
        self.has_all_active = False
        self.moved = 0.0
        self.n_refreshes += 1
        self.single = single
        if self.cache is not None:
            self.cache.forget()
        if not single:
            self.cache = self.tiles = None
            self.uses_whole_matrix = uses_whole_matrix(self.gram)

    def follow_all(self) -> None:
        """Undo shrinking: all variables are active."""
        self.active = self.active_rows = None

    def take_everything(self) -> None:
        """Make all variables the working set, as long as values are in single precision.

        The row cache and the old matrix are released first, so that their memory is reused for the new matrix. Its
        values are evaluated by calls of bounded work, so that Ctrl-C is heard.
        """
        self.uses_whole_matrix, self.holds_all = True, False
        self.idle_bytes = 0 if self.cache is None else self.cache.nbytes
        self.cache = self.gradient_log = self.tiles = self.working = None
        self.gram.arena.release()

    def follow(self, remaining: IndexArray, dropped: IndexArray) -> None:
        """Shrink: the gradients of `remaining` are updated from now on, those of `dropped` are not."""
        self.active = self.active_rows = remaining
        if self.gradient_log is not None:
            self.gradient_log.leave_out(dropped)
        if self.rows is not None:
            self.active_rows = without(_NOBODY, self.rows[remaining], self.values.n)

    def count_memory(self, more: int = 0) -> None:
        """Update the peak memory by the current blocks of kernel values, and `more` bytes."""
        total = self.gram.arena.nbytes + self.idle_bytes
        total += 0 if self.cache is None else self.cache.nbytes
        total += 0 if self.gradient_log is None else self.gradient_log.nbytes
        self.peak_bytes = max(self.peak_bytes, total + more)
