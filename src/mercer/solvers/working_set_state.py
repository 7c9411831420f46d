"""The state of the batch solver: the problem at hand, and the work in progress."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mercer._core import Survey, VariableTiles, without
from mercer._typing import IndexArray, RealArray
from mercer.gram import Gram
from mercer.kernels.instruction_set import select_isa
from mercer.problems import Problem
from mercer.solvers.base import State
from mercer.solvers.gradient_log import GradientLog
from mercer.solvers.row_cache import RowCache
from mercer.solvers.working_set_sizes import takes_everything

_NOBODY = np.zeros(0, dtype=np.int64)


class WorkingMatrix(NamedTuple):
    """K[W, W] of a working set of m, float32 or float64."""

    variables: IndexArray
    """W, (m,), in the order of rows and columns."""
    values: RealArray
    """(m, m padded)."""
    whole: RealArray
    """What these are the front of: of a set that was larger."""


@dataclass
class BatchState(State):
    """State of :class:`mercer.solvers.WorkingSetSolver`.

    Of n variables `gradient` and `seen` are (n,); `active`, `active_rows` and `previous` are lists of
    indices, int64.
    """

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    tol: float = field(kw_only=True)
    groups: IndexArray | None = field(kw_only=True)
    work: Iterator[None] = field(default_factory=lambda: iter(()))
    max_iter: int = -1
    working: WorkingMatrix | None = None  # of the last round; K itself where the working set is everything
    matrix_bytes: int = 0  # of the largest one so far
    idle_bytes: int = 0  # of rows that were kept, and whose pages may have found no other user
    cache: RowCache | None = None
    tiles: VariableTiles | None = None  # for values in single precision, where these are cheap
    begins_anew: bool = False  # at the problem's own start
    is_part: bool = False  # of a larger problem, which asks where to begin
    active: IndexArray | None = None  # variables whose gradient is kept up to date; None for all of them
    active_rows: IndexArray | None = None  # of `values` that these belong to
    covers: bool = False  # whether W is all active variables: it stays so until all variables are active again
    single: bool = False  # whether kernel values are evaluated in single precision
    ends_exactly: bool = False  # at the limit of float64, whatever the tolerance
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of working sets, in single precision and in double
    reach: float = math.inf  # C k(x, x): how much one variable can do to a decision value
    share: int = 1  # one row in so many is in a working set, at least
    largest_diagonal: float = 0.0  # of |k(x, x)|
    moved: float = 0.0  # sum of squares of the changes of beta since the gradient was last true
    n_refreshes: int = 0
    true_violation: float = math.inf  # by the last true gradient
    n_free: int = 0  # of the active variables
    holds_all: bool = False  # whether the working set holds all free variables and all violators
    drags: bool = False  # whether pair steps have given way to Newton steps
    at_zero: float = math.inf  # the violation of beta = 0, where that is known
    previous: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # working set, as it was chosen
    n_moved: int | None = None  # in the last round
    gradient_log: GradientLog | None = None  # until the first true gradient
    isa: str = field(default_factory=select_isa)  # of the native code
    survey: Survey = field(default_factory=Survey)  # of this round
    seen: npt.NDArray[np.bool_] = field(init=False)  # by a working set
    takes_everything: bool = field(init=False)  # whether the working set is all variables from now on
    values: Gram = field(init=False)  # of each row once, where some have two variables
    rows: IndexArray | None = field(init=False)  # of `values` that variables belong to; None where they have one each
    is_doubled: bool = field(init=False)  # whether these are all rows in order, and again

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.problem.n, dtype=bool)
        self.takes_everything = takes_everything(self.gram)
        self.values, self.rows = self.gram.folded or (self.gram, None)
        self.is_doubled = self.rows is not None and np.array_equal(self.rows, np.tile(np.arange(self.values.n), 2))

    @property
    def n_active(self) -> int:
        """Number of variables whose gradient is kept up to date."""
        return self.problem.n if self.active is None else self.active.size

    def rows_of(self, variables: IndexArray) -> IndexArray:
        """Return which rows of `values` these variables belong to."""
        return variables if self.rows is None else self.rows[variables]

    def go_on(self, *, single: bool) -> None:
        """Note that the gradient is true, and have values in single precision from now on or in double."""
        self.gradient_log = None
        self.follow_all()
        self.covers = False
        self.moved = 0.0
        self.n_refreshes += 1
        self.single = single
        if self.cache is not None:
            self.cache.forget()
        if not single:
            self.cache = self.tiles = None
            self.takes_everything = takes_everything(self.gram)

    def follow_all(self) -> None:
        """Note that all gradients are kept up to date from now on."""
        self.active = self.active_rows = None

    def take_everything(self) -> None:
        """Have all variables, whose gradients are all up to date, be the working set while values are single.

        What they took so far is given up before their matrix comes, or it would be written beside kept rows, whose
        pages stay. Values come by calls of bounded work, not by one, which Ctrl-C would have to wait for. Beyond 2,048
        free variables Newton steps come late: no set is left to tell that all violators are in.
        """
        self.takes_everything, self.holds_all = True, False
        self.idle_bytes = 0 if self.cache is None else self.cache.nbytes
        self.cache = self.gradient_log = self.tiles = self.working = None
        self.gram.arena.release()

    def follow(self, kept: IndexArray, dropped: IndexArray) -> None:
        """Note whose gradient is kept up to date from now on, and whose no longer."""
        self.active = self.active_rows = kept
        if self.gradient_log is not None:
            self.gradient_log.leave_out(dropped)
        if self.rows is not None:
            self.active_rows = without(_NOBODY, self.rows[kept], self.values.n)

    def count_memory(self, more: int = 0) -> None:
        """Note what blocks of kernel values take now, and `more` bytes beside them."""
        held = self.gram.arena.nbytes + self.idle_bytes
        held += 0 if self.cache is None else self.cache.nbytes
        held += 0 if self.gradient_log is None else self.gradient_log.nbytes
        self.peak_bytes = max(self.peak_bytes, held + more)
