"""The fast exact solver: sequential minimal optimisation on working sets, finished by Newton steps."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from mercer._core import Survey, add_at, combine_rows, gather_rows, solve_block, take_each, without
from mercer.gram import Gram, padded_block, padded_width
from mercer.isa import select_isa
from mercer.problems import Problem, inner
from mercer.settled import Kept, Plan
from mercer.solvers.base import FloatArray, Solver, State
from mercer.solvers.ledger import Ledger
from mercer.solvers.row_cache import RowCache

Array = npt.NDArray[np.floating]
IndexArray = npt.NDArray[np.int64]

WHOLE_PROBLEM = 2048
"""Up to this many variables the working set is everything."""

EXACT_PROBLEM = 300
"""Up to this many variables Newton steps go on to the limit of float64, whatever the tolerance."""

_EXACT_FREE = 256  # in larger problems too, as long as everything is chosen and so few variables are free

_WORKING_SETS = (512, 1024, 2048, 4096, 6144)
# Beyond so many rows, and up to this C k(x, x), sets are no larger: 150 MB and twice the input do for 50,000 rows.
_MANY_ROWS, _SOFT = 20_000, 10.0
_SOFT_SET, _SOFT_SET_BESIDE_ROWS = 5632, 4096  # 127 MB, 67 MB for a matrix
_SHARE, _ENOUGH = 15, 2048  # and no less than this part of the variables, for every round looks at all; so many do
_PER_MOVED = 3  # nor more than this times those that moved in the last round: kernel values of the others were in vain
_SHRUNK = 0.9  # the share of active variables that shrinking must come below to be worth a new list
_FEW_FREE = 2048  # free variables that Newton steps are always tried with
_MAX_FREE = 6144  # and where nobody else violates
_MAX_FREE_DOUBLE = 1500  # a change of side costs free^2 there
_INVERSE = 16.0  # pair steps may cost what an inverse does: free^3 / 16 steps times variables, as measured
_FACTOR = 256.0  # or, beyond _FEW_FREE, a factor
_KNOWN_TO_DRAG = 4.0  # and this much less, once they have cost that much in vain
_PATIENT_STEPS, _STEPS = 100, 2  # for each variable, before Newton steps in double precision, in single
_ASTRAY = 3.0  # times the violation at 0: once pair steps have made more of it, few variables are near their bounds
_SMALLER = 64.0  # are the boxes that are solved first then; a power of 2 keeps who is at a bound there to the last bit
_PART_WAY = 0.5  # of the violation at 0: in smaller boxes no less is asked for
_BRIEF = 10  # where Newton steps come anyway: one pair step for so many variables
_PAIR_WORK = 20_000_000  # steps times variables in one native call: some 10 ms
_WORTH_A_LIST = 16  # kernel values for each row: what it takes to name all rows but those of the working set
_INNER_SHARE = 0.1  # a working set is solved to this share of the violation that it came with
_NEWTON_WORK = 1e8  # multiplications in one native call of Newton steps in double precision
_THINNED = 8  # one row in so many says where to begin: a sixty-fourth of the kernel values
_CROWDED = 32  # where one variable in so many is not 0 at the start, and its column is evaluated
_AGREED = 0.8  # of what the part's solution gains on its start: the least that its rule must gain there
_ROUGH = (
    1e-3  # of the violation at the start of the part: a tenth of it is no guide, a hundredth leaves twice the moves
)
_SINGLE_ROUNDOFF = 2.0**-24
_NOISE = 2.0 * _SINGLE_ROUNDOFF  # of a gradient, relative to the length of the change that made it
_SINGLE_REFRESHES = 2
_SINGLE_NOISE = 0.1  # what rounding may make of one variable's move across its box; beyond, single precision is no use
_NEWTON_CALLS = 40  # on one working set, all rounds together
_ROUNDS, _BLOCK_ROUNDS = 40, 10  # of pair steps and Newton steps on a working set: a small one, a large one
_SMALL_BLOCK = 500
_MOVED_ROWS = 256  # of a matrix that is compacted, at a time

_SOLVED, _LIMIT, _STALLED = 0, 1, 2  # mercer::BlockEnd
_WENT_ASTRAY = 3


@dataclass
class BatchState(State):
    """State of :class:`BatchSMO`: the problem at hand and the work in progress."""

    problem: Problem = field(kw_only=True)
    gram: Gram = field(kw_only=True)
    tol: float = field(kw_only=True)
    groups: IndexArray | None = field(kw_only=True)
    work: Iterator[None] = field(default_factory=lambda: iter(()))
    max_iter: int = -1
    matrix: Array | None = None  # K[W, W], with padded rows; K itself where the working set is everything
    cache: RowCache | None = None
    begins_anew: bool = False  # at the problem's own start
    active: IndexArray | None = None  # variables whose gradient is kept up to date; None for all of them
    active_rows: IndexArray | None = None  # of `values` that these belong to
    covered: IndexArray | None = None  # W, once it is all active variables: it stays so until they are all again
    single: bool = False  # whether kernel values are evaluated in single precision
    sizes: tuple[int, ...] = _WORKING_SETS  # of working sets
    largest: float = 0.0  # of |k(x, x)|
    moved: float = 0.0  # sum of squares of the changes of beta since the gradient was last true
    n_refreshes: int = 0
    n_free: int = 0  # of the active variables
    holds_all: bool = False  # whether the working set holds all free variables and all violators
    drags: bool = False  # whether Newton steps have been needed in single precision
    previous: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    n_moved: int = _ENOUGH  # in the last round
    ledger: Ledger | None = None  # until the first true gradient
    isa: str = field(default_factory=select_isa)  # of the native code
    survey: Survey = field(default_factory=Survey)  # of this round
    seen: npt.NDArray[np.bool_] = field(init=False)  # by a working set
    takes_everything: bool = field(init=False)  # whether the working set is all variables, in every round
    values: Gram = field(init=False)  # of each row once, where some have two variables
    rows: IndexArray | None = field(init=False)  # of `values` that variables belong to; None where they have one each
    is_doubled: bool = field(init=False)  # whether these are all rows in order, and again

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.problem.n, dtype=bool)
        self.takes_everything = takes_everything(self.gram)
        self.values, self.rows = self.gram.folded or (self.gram, None)
        self.is_doubled = self.rows is not None and np.array_equal(self.rows, np.tile(np.arange(self.values.n), 2))

    def rows_of(self, variables: IndexArray) -> IndexArray:
        """Return which rows of `values` these variables belong to."""
        return variables if self.rows is None else self.rows[variables]

    def leave_out_all_but(self, active: IndexArray | None) -> None:
        """Note whose gradient is kept up to date from now on."""
        self.active = self.active_rows = active
        if self.ledger is not None and active is not None:
            self.ledger.leave_out_all_but(active)
        if self.rows is not None and active is not None:
            wanted = np.zeros(self.values.n, dtype=bool)
            wanted[self.rows[active]] = True
            self.active_rows = np.flatnonzero(wanted)

    def count_memory(self, more: int = 0) -> None:
        """Note what blocks of kernel values take now, and `more` bytes beside them."""
        held = self.gram.arena.nbytes
        held += 0 if self.cache is None else self.cache.nbytes
        held += 0 if self.ledger is None else self.ledger.nbytes
        self.peak_bytes = max(self.peak_bytes, held + more)


def working_sets(gram: Gram) -> tuple[int, ...]:
    """Return the sizes of working sets whose matrix in double precision takes half of the room; one at least.

    In single precision it takes a quarter; half is for rows that are kept then, and a quarter for the factor of the
    free variables. In double precision that has the other half.
    """
    return tuple(s for s in _WORKING_SETS if 16 * s * s <= gram.room) or _WORKING_SETS[:1]


def newton_bytes(n_free: int, size: int, *, single: bool) -> int:
    """Return what a native call of Newton steps takes, to a few per cent (native/include/mercer/newton_steps.hpp)."""
    capacity = min(size, n_free + n_free // 4 + 64) + 96  # with padding for any instruction set
    if single and n_free > _FEW_FREE:  # up to here an inverse, where a factor has not led to the end
        return 2 * capacity * capacity + 3100 * capacity
    return 8 * capacity * (capacity + 257)


def single_precision_helps(problem: Problem, gram: Gram) -> bool:
    """Whether blocks of kernel values in single precision lead anywhere, and there are enough to be worth it."""
    return problem.n > EXACT_PROBLEM and _SINGLE_ROUNDOFF * largest_value(problem, gram) < _SINGLE_NOISE


def largest_value(problem: Problem, gram: Gram) -> float:
    """C k(x, x) at its largest: how much one variable can do to a decision value."""
    width = float((problem.upper - problem.lower).max(initial=0.0))
    return gram.largest_diagonal * width


def _asks_for_a_start(state: BatchState) -> bool:
    """Whether a part of the rows may know a better start: many variables are at bounds, or will be."""
    problem = state.problem
    n_moved = np.count_nonzero(problem.start)
    crowded = _CROWDED * n_moved >= problem.n or (n_moved == 0 and largest_value(problem, state.gram) < _SOFT)
    bounded = problem.groups is not None and problem.ridge is None and np.isfinite(problem.upper - problem.lower).all()
    return bool(crowded and bounded and not state.takes_everything)


def takes_everything(gram: Gram) -> bool:
    """Whether all variables at once are the working set: there are few, and their matrix is within the memory limit."""
    return gram.n <= min(WHOLE_PROBLEM, working_sets(gram)[-1])


def all_at_once(n: int, *, convex: bool) -> str:
    """Say why all of `n` variables are the working set."""
    if n <= EXACT_PROBLEM and convex:
        return f"n = {n} <= {EXACT_PROBLEM}: all variables at once, exact Newton steps at the end"
    return f"n = {n} <= {WHOLE_PROBLEM}: all variables at once"


@final
class BatchSMO(Solver[BatchState]):
    """Working sets of violators, each solved in the cache by second-order pair steps and Newton steps.

    **Solves** any :class:`mercer.problems.Problem`.

    One round: choose a working set W (the free variables of the last one, then violators that have been in none, from
    all over the table, then the worst violators), evaluate K[W, W], solve the problem restricted to W, and update the
    gradient with the columns of the variables that moved.
    On W, pairs move as in sequential minimal optimisation (Platt 1998; second index by second order); where that
    drags on, an active-set Newton method takes over. Up to 2,048 variables W is everything.

    Beyond 300 variables, kernel values are first evaluated in single precision, about twice as fast. They only steer:
    when the violation has come down to the tolerance, or to the noise that their rounding makes, the driver
    evaluates the point in float64, and the steps go on from the true gradient, where changes and so noise are small.
    After the second time, or when a round fails to raise the dual objective, everything is float64.

    Where many variables will be at bounds (soft margins, the start of nu machines), an eighth of the rows is solved
    first, and all variables go to the bounds that its decision values speak for, if that is nearly the part's own
    solution too: half of the rounds, for a few more kernel values.

    Variables at a bound that violate nothing are left out until the true gradient is known. Once W has room for all
    that are left, it takes them, and no kernel value is evaluated until then.

    Costs, per round and beyond K[W, W]: a kernel value for each active variable and each that moved. None of them is
    stored, except where a row costs more to evaluate than to look up (:class:`mercer.solvers.row_cache.RowCache`).

    References
    ----------
    Osuna, Freund & Girosi (1997); Platt (1998); Joachims (1999), section 11.2; Fan, Chen & Lin (2005), WSS 2;
    Vishwanathan, Smola & Murty (2003), SimpleSVM, for the active set.
    """

    name = "batch SMO"

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> BatchState:
        """Return the state at `start`; see :class:`Solver`."""
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        state = BatchState(
            beta=beta, gradient=problem.linear.copy(), problem=problem, gram=gram, tol=tol, groups=problem.groups
        )
        state.begins_anew = start is None
        state.largest = gram.largest_diagonal
        state.single = single_precision_helps(problem, gram)
        if state.single and not state.takes_everything and gram.keeping_pays:
            state.cache = RowCache(state.values)
        state.sizes = working_sets(gram)
        if problem.n_rows > _MANY_ROWS and largest_value(problem, gram) <= _SOFT:
            most = _SOFT_SET if state.cache is None else _SOFT_SET_BESIDE_ROWS
            state.sizes = tuple(min(size, most) for size in state.sizes)
        if not state.takes_everything:
            state.ledger = Ledger(state.values, state.rows, beta)
        state.work = self._begin(state)
        return state

    def advance(self, state: BatchState, seconds: float, max_iter: int) -> None:
        """Work for about `seconds`; see :class:`Solver`."""
        state.max_iter = max_iter
        until = time.perf_counter() + seconds
        for _ in state.work:
            if time.perf_counter() >= until or 0 <= max_iter <= state.n_iter:
                return
        state.finished = True

    def refresh(self, state: BatchState, gradient: FloatArray, tol: float) -> None:
        """Go on from the true gradient; see :class:`Solver`."""
        state.gradient[:] = gradient
        state.tol = tol
        state.finished = False
        state.ledger = None
        state.leave_out_all_but(None)
        state.covered = None
        state.moved = 0.0
        state.n_refreshes += 1
        state.single = state.single and state.n_refreshes < _SINGLE_REFRESHES
        if state.cache is not None:
            state.cache.forget()
        if not state.single:
            state.cache = None
        state.work = self._rounds(state)

    def kept(self, state: BatchState) -> Kept | None:
        """Return the values that the steps have kept up to date; see :class:`Solver`."""
        ledger = state.ledger
        if ledger is None or not state.finished:  # in the middle of a round values are those of no point
            return None
        problem, beta = state.problem, state.beta
        followed = state.gradient - problem.linear
        if problem.ridge is not None:
            followed -= problem.ridge * ledger.beta

        def plan(wanted: npt.NDArray[np.bool_]) -> Plan:
            return ledger.plan(followed, beta, wanted, single=state.single)

        return Kept(ledger.travelled + np.abs(beta - ledger.beta), ledger.n_terms + beta.size, plan)

    def _begin(self, state: BatchState) -> Iterator[None]:
        yield from self._place(state)
        yield from self._rounds(state)

    def _place(self, state: BatchState) -> Iterator[None]:
        """Begin where the machine of a part of the rows would have all, if that pays, and make the gradient true."""
        if state.begins_anew and _asks_for_a_start(state):
            yield from self._guess(state)
        moved = np.flatnonzero(state.beta)
        if moved.size:
            single = state.single and state.begins_anew
            yield from state.gram.accumulate(state.gradient, moved, state.beta[moved], single=single)
            state.moved += inner(state.beta, state.beta) if single else 0.0
            if state.problem.ridge is not None:
                state.gradient += state.problem.ridge * state.beta

    def _guess(self, state: BatchState) -> Iterator[None]:
        """Move to the bounds that the decision values of a machine on a part of the rows speak for, if they do.

        They do where the same rule finds most of the part's own dual objective: where many variables are free, or few
        rows have many others close by, it puts whole neighbourhoods at their bounds.
        """
        problem = state.problem
        thinned, chosen = problem.thinned(_THINNED)
        part = self.init(thinned, state.gram.restrict(chosen), 0.0, None)
        part.max_iter, part.stop = state.max_iter, state.stop

        def solve() -> Iterator[None]:
            if thinned.start.any():
                yield from self._place(part)
            self._survey(part)
            part.tol = _ROUGH * part.violation
            yield from self._rounds(part)

        for _ in solve():
            state.n_iter, state.peak_bytes = part.n_iter, max(state.peak_bytes, part.peak_bytes)
            yield
        least = yield from _dual_at(part, thinned.start)
        found = yield from _dual_at(part, thinned.vertex(part.gradient, thinned.group_totals(thinned.start)))
        if not found - least >= _AGREED * (part.dual - least):  # nor where it is no number
            return
        gradient, used = problem.linear.copy(), np.flatnonzero(part.beta)
        yield from state.gram.accumulate(gradient, chosen[used], part.beta[used], single=state.single)
        state.beta[:] = problem.vertex(gradient, problem.group_totals(problem.start))
        state.ledger = Ledger(state.values, state.rows, state.beta)

    def _rounds(self, state: BatchState) -> Iterator[None]:
        everything = state.takes_everything
        stuck = False
        state.dual = -0.5 * inner(state.beta, state.gradient + state.problem.linear)
        while True:
            self._survey(state)
            # Everything at once is solved in one round; the true gradient then says whether that was enough.
            if stuck or state.violation <= max(0.5 * state.tol, self._noise(state)):
                return
            chosen = self._everything(state) if everything else self._select(state)
            matrix = yield from self._matrix(state, chosen)
            block = _Block(state, chosen, matrix)
            gradient_before = block.gradient.copy()
            yield from self._solve_block(state, block)
            change = block.change
            del matrix, block  # the next may take its place
            moved = np.flatnonzero(change)
            state.n_moved = moved.size
            stuck = moved.size == 0 or everything
            if not everything:
                yield from self._follow(state, chosen, change, moved)
                rise = -0.5 * inner(change, gradient_before + state.gradient[chosen])
                state.dual += rise
                if state.single and (stuck or rise <= 0.0):  # rounding has taken over
                    state.single, stuck = False, True
            state.previous = chosen

    def _follow(self, state: BatchState, chosen: IndexArray, change: FloatArray, moved: IndexArray) -> Iterator[None]:
        """Update the gradient of all active variables."""
        cols, weights = chosen[moved], change[moved]
        state.moved += inner(change, change)
        if state.ledger is not None:
            state.ledger.move(cols, state.beta[cols], weights)
        if state.covered is not None:
            add_at(state.gradient, chosen, _times_changes(state, chosen, moved, weights))
            return
        rise = state.gradient if state.rows is None else np.zeros(state.values.n)
        rows, own = state.active_rows, state.rows_of(chosen)
        bare = state.problem.ridge is None  # K[W, W] is there, and nothing has been added to it
        if state.single and state.cache is not None:
            assert state.matrix is not None
            known = (own, moved, state.matrix[:, : chosen.size]) if bare and rows is not None else None
            yield from state.cache.accumulate(rise, state.rows_of(cols), weights, rows, known)
            state.count_memory()
        else:
            if bare and (rows is not None or own.size * moved.size > _WORTH_A_LIST * state.values.n):
                rise[own] += _times_changes(state, chosen, moved, weights)  # once, where both variables of a row are in
                rows = without(own, rows, state.values.n)
            yield from state.values.accumulate(rise, state.rows_of(cols), weights, rows=rows, single=state.single)
        if state.rows is not None:
            # Of rows that are not followed, which have none, too: that is faster than to look for the others.
            if state.is_doubled:
                both = state.gradient.reshape(2, -1)
                both += rise
            else:
                state.gradient += rise[state.rows]
        if state.problem.ridge is not None:
            add_at(state.gradient, chosen, state.problem.ridge[chosen] * change)

    def _noise(self, state: BatchState) -> float:
        """About how far rounding in single precision has put the gradient off since it was last true."""
        return _NOISE * state.largest * state.moved**0.5 if state.single else 0.0

    def _survey(self, state: BatchState) -> None:
        """Measure the violation, and leave out what is at a bound and violates nothing until the next true gradient."""
        found, p = state.survey, state.problem
        found.look(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, state.active)
        state.violation, state.n_free = found.violation, found.n_free
        n_active = p.n if state.active is None else state.active.size
        if not state.takes_everything and found.n_kept() <= _SHRUNK * n_active:
            state.leave_out_all_but(found.kept())

    def _everything(self, state: BatchState) -> IndexArray:
        """All active variables, by group."""
        active = np.arange(state.problem.n) if state.active is None else state.active
        return active if state.groups is None else active[np.argsort(state.groups[active], kind="stable")]

    def _select(self, state: BatchState) -> IndexArray:
        room = 1.25 * state.n_free + 256  # for all free variables and for new ones
        wanted = max(room, min(state.problem.n_rows / _SHARE, _ENOUGH, _PER_MOVED * state.n_moved))
        size = next((s for s in state.sizes if s >= wanted), state.sizes[-1])
        if state.covered is not None or (state.problem.n if state.active is None else state.active.size) <= size:
            state.holds_all = True
            return self._everything(state)
        chosen = state.survey.select(state.seen, state.previous, size)
        state.seen[chosen] = True
        state.holds_all = chosen.size < size
        if state.problem.rows is not None:
            # The other variable of a row that has one other than 0 violates less, and repeats its kernel values.
            rows, moving = state.problem.rows[chosen], state.beta[chosen] != 0.0
            taken = np.zeros(state.problem.n_rows, dtype=bool)
            taken[rows[moving]] = True
            kept = moving | ~taken[rows]
            # Where the two have sums of their own, that is so once the tube has a width.
            if state.problem.n_groups == 1 or _violation_of(state, chosen[kept]) >= _INNER_SHARE * state.violation:
                state.holds_all = state.holds_all and bool(kept.all())
                chosen = chosen[kept]
        return chosen

    def _matrix(self, state: BatchState, chosen: IndexArray) -> Generator[None, None, Array]:
        """K[chosen, chosen] with padded rows."""
        dtype = np.float32 if state.single else np.float64
        if state.takes_everything and state.matrix is not None and state.matrix.dtype == dtype:
            return state.matrix
        if state.covered is not None:
            return self._compact(state, chosen)
        problem, arena = state.problem, state.gram.arena
        # Machines for each class against the rest differ in labels alone: they share the whole matrix.
        shared = state.takes_everything and state.gram.idx is None and problem.ridge is None and problem.n_groups < 2
        content = (dtype, problem.n) if shared else None
        if shared and arena.holds(content):
            width = padded_width(problem.n)
            state.matrix = arena.again(problem.n * width, dtype).reshape(problem.n, width)
            return state.matrix
        state.matrix = None  # or the arena could not give it up before it has more
        matrix = padded_block(chosen.size, chosen.size, dtype, arena)
        rows = state.rows_of(chosen)
        if state.takes_everything:
            yield from state.gram.fill_block(matrix[:, : chosen.size], chosen, chosen)
        elif state.single and state.cache is not None:
            yield from state.cache.fill_square(matrix[:, : chosen.size], rows)
        else:
            yield from state.values.fill_block(matrix[:, : chosen.size], rows, rows)
        state.count_memory()
        if problem.ridge is not None:
            matrix[np.arange(chosen.size), np.arange(chosen.size)] += problem.ridge[chosen]
        arena.declare(content)
        state.matrix = matrix
        if chosen.size == (problem.n if state.active is None else state.active.size):
            state.covered = chosen
        return matrix

    def _compact(self, state: BatchState, chosen: IndexArray) -> Array:
        """K[chosen, chosen], in the place of the matrix of more variables in the same order."""
        assert state.matrix is not None
        assert state.covered is not None
        if chosen.size < state.covered.size:
            matrix, size = state.matrix, chosen.size
            kept = np.flatnonzero(np.isin(state.covered, chosen, assume_unique=True))
            for first in range(0, size, _MOVED_ROWS):  # no row moves downwards
                part = kept[first : first + _MOVED_ROWS]
                rows = np.empty((part.size, size), dtype=matrix.dtype)
                gather_rows(matrix, part, kept, rows, state.gram.n_threads)
                matrix[first : first + part.size, :size] = rows
            state.matrix = matrix[:size, : padded_width(size)]
            state.matrix[:, size:] = 0.0
            state.covered = chosen
        return state.matrix

    def _solve_block(self, state: BatchState, block: _Block) -> Iterator[None]:
        """Solve the problem restricted to a working set; when that is everything, the gradient is updated as well."""
        end_tol = 0.5 * state.tol
        tol = max(end_tol, 0.0 if block.is_everything else _INNER_SHARE * state.violation)
        # Where nobody else violates, Newton steps go on to the end: the last ones cost least.
        yield from self._settle(state, block, tol, end_tol if state.holds_all else tol)

    def _settle(self, state: BatchState, block: _Block, tol: float, newton_tol: float) -> Iterator[None]:
        """Solve a block; where pair steps from 0 go astray, begin with smaller boxes, all in proportion."""
        convex = state.gram.is_convex
        small = block.is_everything and block.size <= _SMALL_BLOCK
        at_zero = block.violation if convex and block.can_grow else math.inf
        astray = _ASTRAY * at_zero
        for _ in range(_ROUNDS if small else _BLOCK_ROUNDS):
            end = yield from block.pair_steps(tol, astray)
            astray = math.inf
            if end is None:
                return
            if end == _WENT_ASTRAY:
                smaller, rough = block.in_smaller_boxes(at_zero), max(tol, _PART_WAY * at_zero)
                yield from self._settle(state, smaller, rough, rough)
                block.begin_at(smaller)
                continue
            exact = block.is_everything and not state.single
            exact = exact and (state.problem.n <= EXACT_PROBLEM or block.n_free <= _EXACT_FREE)
            if convex and (exact or end == _LIMIT) and block.n_free <= block.max_free:
                end = yield from block.newton_steps(block.rounding if exact else newton_tol)
            if end == _SOLVED or (end == _STALLED and (exact or not block.is_single)):
                return


def _dual_at(state: BatchState, point: FloatArray) -> Generator[None, None, float]:
    """The dual objective at another point than the state's."""
    gradient, used = state.problem.linear.copy(), np.flatnonzero(point)
    yield from state.gram.accumulate(gradient, used, point[used], single=state.single)
    return -0.5 * inner(point, gradient + state.problem.linear)


def _times_changes(state: BatchState, chosen: IndexArray, moved: IndexArray, changes: FloatArray) -> FloatArray:
    """The matrix of the working set, with the ridge on its diagonal, times changes of some of its variables."""
    assert state.matrix is not None
    rise = np.zeros(chosen.size)
    combine_rows(state.matrix[:, : chosen.size], moved, None, changes, rise, state.gram.n_threads)
    return rise


def _violation_of(state: BatchState, chosen: IndexArray) -> float:
    """Measure the violation among some of the variables."""
    p, found = state.problem, Survey()
    found.look(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, chosen)
    return found.violation


@final
class _Block:
    """The problem restricted to a working set; writes back to the state after every native call.

    In smaller boxes it does not, and what has been found there does once its dual objective is the higher one.
    """

    def __init__(self, state: BatchState, chosen: IndexArray, matrix: Array) -> None:
        problem = state.problem
        self._state, self._chosen, self._matrix = state, chosen, matrix
        self._beta, self.gradient, self._lower, self._upper, self._linear = take_each(
            [state.beta, state.gradient, problem.lower, problem.upper, problem.linear], chosen
        )
        if state.groups is None:
            self._starts = np.zeros(1, dtype=np.int64)
        else:
            self._starts = np.searchsorted(state.groups[chosen], np.arange(problem.n_groups + 1))
        self.is_everything = state.takes_everything
        self._before = self._beta.copy()
        self.n_free = self._count_free()
        self._newton_calls = 0
        self.violation = state.violation
        self._is_hidden, self._is_small = False, False

    @property
    def size(self) -> int:
        """Number of variables."""
        return self._chosen.size

    @property
    def can_grow(self) -> bool:
        """Whether all variables are 0, so that the solution in smaller boxes is a start in these."""
        state = self._state
        grows = self.is_everything and self.is_single and state.n_refreshes == 0 and not self._beta.any()
        return grows and math.isfinite(largest_value(state.problem, state.gram))

    def in_smaller_boxes(self, violation: float) -> _Block:
        """Return the problem in smaller boxes, all variables at 0, and the violation that these have there."""
        smaller = copy(self)
        smaller._beta, smaller.gradient = np.zeros(self.size), self._linear.copy()
        smaller._lower, smaller._upper = self._lower / _SMALLER, self._upper / _SMALLER
        smaller.violation, smaller._is_small, smaller.n_free = violation, True, smaller._count_free()
        return smaller

    def begin_at(self, smaller: _Block) -> None:
        """Go to the point that has been found in smaller boxes, in proportion."""
        self._beta = _SMALLER * smaller._beta
        self.gradient = self._linear + _SMALLER * (smaller.gradient - self._linear)
        self._is_hidden, self.n_free = True, self._count_free()

    @property
    def change(self) -> FloatArray:
        """By how much each variable has moved."""
        return self._beta - self._before

    def _count_free(self) -> int:
        return int(np.count_nonzero((self._beta > self._lower) & (self._beta < self._upper)))

    @property
    def is_single(self) -> bool:
        return self._matrix.dtype == np.float32

    @property
    def max_free(self) -> int:
        size, single, room = self._chosen.size, self.is_single, self._state.gram.room
        most = (_MAX_FREE if self._state.holds_all else _FEW_FREE) if single else _MAX_FREE_DOUBLE
        while most > _WORKING_SETS[0] and newton_bytes(most, size, single=single) > room // (4 if single else 2):
            most = max(_WORKING_SETS[0], most // 2)
        return most

    @property
    def rounding(self) -> float:
        """About the smallest violation that float64 can tell from 0 here."""
        lengths = np.sqrt(np.abs(self._matrix.diagonal()))
        return 16 * float(np.finfo(float).eps) * (1.0 + float(lengths.max()) * inner(np.abs(self._beta), lengths))

    def pair_steps(self, tol: float, astray: float) -> Generator[None, None, int | None]:
        """Go on until Newton steps would cost less; return how they ended, None at max_iter.

        They have gone astray where the first of them leave a violation of more than `astray`.
        """
        size, done = max(1, self._chosen.size), 0
        while True:
            left = self._left(min(_PAIR_WORK // size, self._patience() - done))
            if left == 0:
                return None
            end = self._run(newton=False, tol=max(tol, self._noise()), max_iter=left)
            yield
            done += left
            if end == _LIMIT and done == left and self.violation > astray:
                return _WENT_ASTRAY
            if end != _LIMIT or done >= self._patience():
                return end

    def _patience(self) -> int:
        """How many pair steps to make before Newton steps."""
        size, n_free, state = max(1, self._chosen.size), self.n_free, self._state
        ends = self.is_everything and state.n_refreshes > 0  # single precision has left few changes to make
        if n_free > self.max_free or not (self.is_single or state.drags or ends):
            return _PATIENT_STEPS * size + 2000
        cost = n_free**3 / (_INVERSE if n_free <= _FEW_FREE else _FACTOR)
        if ends and state.drags and (self.is_single or n_free <= _EXACT_FREE):
            return 1 + size // _BRIEF
        return _STEPS * size + int(cost / ((_KNOWN_TO_DRAG if state.drags else 1.0) * size))

    def _noise(self) -> float:
        """About the violation below which single precision cannot bring the block."""
        if not self.is_single:
            return 0.0
        change = self.change
        return _NOISE * self._state.largest * inner(change, change) ** 0.5

    def newton_steps(self, tol: float) -> Generator[None, None, int]:
        """Return how they ended."""
        while self._newton_calls < _NEWTON_CALLS:
            self._newton_calls += 1
            n_free = self.n_free
            if n_free > self.max_free:
                return _LIMIT
            per_step = 4.0 * n_free * n_free + n_free * self._chosen.size + 1.0
            left = self._left(n_free + 64 if self.is_single else int(min(2000, max(8, _NEWTON_WORK / per_step))))
            if left == 0:
                return _LIMIT
            self._state.drags = self._state.drags or self.is_single
            self._state.count_memory(newton_bytes(n_free, self._chosen.size, single=self.is_single))
            end = self._run(newton=True, tol=max(tol, self._noise()), max_iter=left)
            yield
            if end != _LIMIT:
                return end
        return _LIMIT

    def _left(self, steps: int) -> int:
        allowed = self._state.max_iter
        return steps if allowed < 0 else max(0, min(steps, allowed - self._state.n_iter))

    def _run(self, *, newton: bool, tol: float, max_iter: int) -> int:
        end, n_iter, self.violation, self.n_free = solve_block(
            self._state.isa,
            newton,
            self._matrix,
            self._beta,
            self.gradient,
            self._lower,
            self._upper,
            self._starts,
            tol,
            max_iter,
            self._state.gram.n_threads,
            self._state.stop,
        )
        state = self._state
        state.n_iter += n_iter
        if self._is_small:
            return end
        if self.is_everything:
            dual = -0.5 * inner(self._beta, self.gradient + self._linear)
            if self._is_hidden and dual <= state.dual:
                return end
            self._is_hidden = False
            state.gradient[self._chosen] = self.gradient
            state.violation, state.dual = self.violation, dual
        state.beta[self._chosen] = self._beta
        return end
