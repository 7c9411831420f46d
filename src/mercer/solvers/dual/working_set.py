"""The fast exact solver: sequential minimal optimisation on working sets, finished by Newton steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from mercer._core import INNER_SHARE, MANY_FREE_PRECISE, Survey, add_at, combine_rows, without
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.screening import Plan, TrackedGradient
from mercer.gram import Gram
from mercer.problems import Problem, Problems, inner
from mercer.solvers.dual.block import solve_chosen
from mercer.solvers.dual.gradient_log import GradientLog
from mercer.solvers.dual.row_cache import RowCache
from mercer.solvers.dual.single_precision import REFRESHES, noise, which_single_precision_helps
from mercer.solvers.dual.working_matrix import working_matrix
from mercer.solvers.dual.working_set_sizes import (
    c_times_kmax_of,
    exact_variables,
    has_room_for_whole_matrix,
    working_sets,
)
from mercer.solvers.dual.working_set_state import BatchState
from mercer.solvers.solver import Solver

if TYPE_CHECKING:
    from mercer._core import Block, VariableTiles


# A working set has at least one in _SHARE rows, because every round surveys all rows; with soft margins, where a
# variable moves only once or twice, one in _SHARE_OF_SOFT. _ENOUGH variables are enough in any case.
_SHARE, _SHARE_OF_SOFT, _ENOUGH = 15, 9, 4096
_FIRST_SET = 2048  # variables; largest useful working set of the first round
_PER_MOVED = 3  # largest useful working set, as a multiple of the variables that moved in the last round
_SHRUNK = 0.9  # the active list is rebuilt if shrinking leaves less than this share of it
_WORTH_A_LIST = 16  # kernel values a row; evaluating more of them costs more than listing all other rows
_LEAST_COLUMNS = 16  # columns; fewest in one call over all rows, for cheap kernels
_CALLS_IN_ONE = 8  # factor on the values of a call over all rows, because each call packs all rows
_LEDGER_SHARE, _LEDGER_ARRAYS = 1 / 8, 8  # limit of the gradient log: share of the memory, or arrays of length n
_MILD = 10.0  # C k(x, x); below it, many variables are at bounds in the solution
_REFINES = 0.75  # single precision continues if it leaves at most this share of the violation
_THINNED = 8  # one row in so many suggests the starting point, for a sixty-fourth of the kernel values
_CROWDED = 32  # a starting point is sought if at least one variable in so many is not 0 at the start
_AGREED = 0.8  # the rule must reach this share of the gain of the part's own solution
_ROUGH = 1e-3  # tolerance of the part, as a share of its first violation
_SAMPLED, _ROUGH_SAMPLE = 32, 1e-2  # a cheaper part, one row in 32, tells whether most support vectors are free
_MOST_MOVE, _FEW_STEPS_EACH = 7 / 8, 2  # share of the set that moved, and steps each, that lead to one matrix of all
_MOSTLY_FREE = 2 / 3  # share of free support vectors above which a starting point at bounds is not sought


def _asks_for_a_start(state: BatchState) -> bool:
    """Whether to seek a starting point from a part of the rows: many variables are at bounds, or will be."""
    problem = state.problem
    n_moved = np.count_nonzero(problem.start)
    crowded = _CROWDED * n_moved >= problem.n or (n_moved == 0 and state.c_times_kmax < _MILD)
    bounded = problem.groups is not None and problem.ridge is None and np.isfinite(problem.upper - problem.lower).all()
    in_part = problem.n_outputs == 1 and _CROWDED * problem.n_groups < problem.n  # each group is in it
    return bool(crowded and bounded and in_part and not state.uses_whole_matrix)


@final
class WorkingSetSolver(Solver[BatchState]):
    """Working sets of violators, each solved in the cache by second-order pair steps and Newton steps.

    **Solves** any :class:`mercer.problems.Problem`.

    One round: choose a working set W (the free variables of the last one, then violators that have been in none, from
    all over the table, then the worst violators), evaluate K[W, W], solve the problem restricted to W, and update the
    gradient with the columns of the variables that moved.
    On W, pairs move as in sequential minimal optimisation (Platt 1998; second index by second order); where that
    is slow, an active-set Newton method takes over. Up to 2,048 variables, W has all variables; beyond, see below.

    Beyond 300 variables, kernel values are first evaluated in single precision, which is about twice as fast. They only
    steer the steps. When the violation is at the tolerance, or at the rounding noise, the driver evaluates the point in
    float64, and the solver continues from the true gradient; changes, and so the noise, are then small. After the
    second true gradient, or when a round does not raise the dual objective, all values are float64. With many free
    variables, single precision continues as long as it removes at least a quarter of the violation.

    If many variables will be at bounds (soft margins, the start of nu machines), the problem on an eighth of the rows
    is solved first. Its decision values suggest a bound for each variable; if the same rule nearly reproduces the
    part's own solution, all variables start there. This halves the number of rounds.

    Shrinking: variables at a bound whose gradient is clearly on the right side are set aside until the true gradient is
    known. Once all active variables fit into W, W has all of them, and no other kernel value is needed until then. If
    most variables of a set move in few steps (and stay free, unless the kernel is expensive), all variables become the
    next working set, as long as values are in single precision.

    Cost of a round, besides K[W, W]: a kernel value for each active variable and each variable that moved. They are not
    stored, unless the kernel is expensive: then rows of moved variables are cached
    (:class:`mercer.solvers.dual.row_cache.RowCache`), and what K[W, W] shares with the last one.

    References
    ----------
    Osuna, Freund & Girosi (1997); Platt (1998); Joachims (1999), section 11.2; Fan, Chen & Lin (2005), WSS 2;
    Vishwanathan, Smola & Murty (2003), SimpleSVM, for the active set.
    """

    name = "working-set SMO"

    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> BatchState:
        """Return the state at `start`; see :class:`Solver`."""
        beta = problem.start.copy() if start is None else problem.make_feasible(start)
        state = BatchState(
            beta=beta, gradient=problem.linear.copy(), problem=problem, gram=gram, tol=tol, groups=problem.groups
        )
        state.is_cold_start = start is None
        state.largest_diagonal = gram.largest_diagonal  # without the ridge, whose rounding error is small in comparison
        state.c_times_kmax = c_times_kmax_of(problem, gram)
        state.is_solved_exactly = state.uses_whole_matrix and 0 < problem.n <= exact_variables(problem)
        state.single = which_single_precision_helps(Problems(problem, [problem.n]), gram)[0]
        state.single = state.single and not (
            state.is_solved_exactly and state.c_times_kmax < _MILD
        )  # a mild exact problem is solved too fast for it to help
        if state.single and not state.uses_whole_matrix and gram.should_cache_rows:
            state.cache = RowCache(state.values)
        elif state.single and not state.uses_whole_matrix and not gram.kernel_is_expensive:
            state.tiles = state.values.variable_tiles(state.rows)
        has_rows = state.cache is not None
        soft = not problem.start.any() and state.c_times_kmax < _MILD and not gram.kernel_is_expensive
        state.share = _SHARE_OF_SOFT if soft else _SHARE
        asked = gram, state.c_times_kmax
        state.sizes = working_sets(*asked, beside_rows=has_rows), working_sets(*asked, single=False)
        if not state.uses_whole_matrix:
            state.gradient_log = GradientLog(state.values, state.rows, beta)
            if not problem.start.any():
                survey = Survey()
                survey.measure(
                    problem.start, problem.linear, problem.lower, problem.upper, state.groups, problem.n_groups, None
                )
                state.at_zero = survey.violation
        return state

    def steps(self, state: BatchState) -> Iterator[None]:
        """Work until the tolerance is met; see :class:`Solver`."""
        if not state.n_refreshes:
            yield from self._place(state)
        yield from self._rounds(state)

    def refresh(self, state: BatchState, gradient: FloatArray, tol: float) -> None:
        """Continue from the true gradient; see :class:`Solver`."""
        state.tol = tol
        state.gradient[:] = gradient
        last, state.true_violation = state.true_violation, _violation_of(state, None)
        # With many free variables there is no Newton step in double precision, so single precision is worth more.
        p, beta = state.problem, state.beta
        many = bool(np.count_nonzero((p.lower < beta) & (beta < p.upper)) > MANY_FREE_PRECISE)
        goes_on = state.n_refreshes + 1 < REFRESHES or (many and state.true_violation <= _REFINES * last)
        state.go_on(single=state.single and goes_on)

    def tracked_gradient(self, state: BatchState) -> TrackedGradient | None:
        """Return the values that the steps maintain; see :class:`Solver`."""
        gradient_log = state.gradient_log
        if gradient_log is None or not state.finished:  # within a round, the values belong to no point
            return None
        problem, beta = state.problem, state.beta
        followed = state.gradient - problem.linear
        if problem.ridge is not None:
            followed -= problem.ridge * gradient_log.beta

        def plan(wanted: npt.NDArray[np.bool_]) -> Plan:
            cache = state.cache if state.single else None
            return gradient_log.plan(followed, beta, wanted, single=state.single, cache=cache)

        return TrackedGradient(
            gradient_log.update_sum + np.abs(beta - gradient_log.beta), gradient_log.n_terms + beta.size, plan
        )

    def _place(self, state: BatchState) -> Iterator[None]:
        """Choose the starting point, perhaps from a part of the rows, and compute its gradient."""
        if state.is_cold_start and _asks_for_a_start(state):
            yield from self._guess(state)
        single = state.single and state.is_cold_start
        yield from self._add_moved(state, state.gradient, single=single)
        state.moved += inner(state.beta, state.beta) if single else 0.0

    def _add_moved(self, state: BatchState, gradient: FloatArray, *, single: bool) -> Iterator[None]:
        """Add the contribution of all nonzero variables to the gradient."""
        moved = np.flatnonzero(state.beta != 0.0)
        if moved.size:
            yield from state.gram.accumulate(gradient, moved, state.beta[moved], single=single)
            if state.problem.ridge is not None:
                gradient += state.problem.ridge * state.beta

    def _guess(self, state: BatchState) -> Iterator[None]:
        """Start at the bounds that the decision values of a machine on a part of the rows suggest, if that is good.

        It is good if the same rule reaches most of the part's own dual objective. It fails if many variables are free,
        or if few rows have many neighbours: then it puts whole neighbourhoods at their bounds.
        """
        problem = state.problem
        if not problem.start.any():
            state.violation = _violation_of(state, None)
            sample, _ = yield from self._part(state, _SAMPLED, _ROUGH_SAMPLE)
            if sample.n_free > _MOSTLY_FREE * np.count_nonzero(sample.beta):
                return
            del sample
        part, chosen = yield from self._part(state, _THINNED, _ROUGH)
        thinned = part.problem
        least = yield from _dual_at(part, thinned.start)
        dual_point = yield from _dual_at(part, thinned.vertex(part.gradient, thinned.totals))
        gain = part.dual - least
        if not (gain > 0.0 and dual_point - least >= _AGREED * gain):  # also False for NaN
            return
        gradient, used = problem.linear.copy(), np.flatnonzero(part.beta != 0.0)
        yield from state.gram.accumulate(gradient, chosen[used], part.beta[used], single=state.single)
        state.beta[:] = problem.vertex(gradient, problem.totals)
        state.gradient_log = GradientLog(state.values, state.rows, state.beta)

    def _part(self, state: BatchState, step: int, rough: float) -> Generator[None, None, tuple[BatchState, IndexArray]]:
        """Solve the problem of every `step`-th row to a share of its first violation; return it, and its variables.

        A fit that is stopped meanwhile has this point, scaled to the bounds of the whole problem, which is feasible if
        the group sums are 0.
        """
        problem = state.problem
        thinned, chosen = problem.thinned(step)
        wide = thinned.upper - thinned.lower
        lower, upper = problem.lower[chosen], problem.upper[chosen]
        narrower = np.divide(upper - lower, wide, out=np.zeros(wide.size), where=wide > 0.0)
        part = self.init(thinned, state.gram.restrict(chosen), 0.0, None)
        part.is_part = True
        part.max_iter, part.stop, part.n_iter = state.max_iter, state.stop, state.n_iter

        def solve() -> Iterator[None]:
            if thinned.start.any():
                yield from self._place(part)
            self._survey(part)
            part.tol = rough * part.violation
            yield from self._rounds(part)

        for _ in solve():
            state.n_iter, state.peak_bytes = part.n_iter, max(state.peak_bytes, part.peak_bytes)
            if not thinned.start.any():
                state.beta[chosen] = np.clip(narrower * part.beta, lower, upper)
            yield
        state.beta[:] = problem.start
        return part, chosen

    def _rounds(self, state: BatchState) -> Iterator[None]:
        stuck = False
        state.dual = -0.5 * inner(state.beta, state.gradient + state.problem.linear)
        while True:
            self._survey(state)
            # With all variables in W, one round solves the problem; the true gradient then tells whether it did.
            if stuck or (state.violation <= max(0.5 * state.tol, self._noise(state)) and not state.is_solved_exactly):
                return
            state.previous = self._everything(state) if state.uses_whole_matrix else self._select(state)
            chosen, matrix = (yield from working_matrix(state, state.previous))[:2]
            block = yield from solve_chosen(state, chosen, matrix)
            del matrix  # its memory can be reused once the block is gone
            if state.is_solved_exactly and state.single:
                del block
                gradient = state.problem.linear.copy()
                yield from self._add_moved(state, gradient, single=False)
                state.gradient[:] = gradient
                state.go_on(single=False)
                continue
            if state.uses_whole_matrix:
                stuck = True
            else:
                stuck = not (yield from self._follow(state, chosen, block))
                rise = block.rise(state.gradient)
                state.dual += rise
                if state.single and (stuck or rise <= 0.0):  # rounding has taken over
                    state.single, stuck = False, True
                elif self._everything_pays(state, chosen.size, block.n_iter):
                    del block
                    state.take_everything()
                    continue
            del block

    def _everything_pays(self, state: BatchState, size: int, n_steps: int) -> bool:
        """Whether the last working set suggests that most variables will move in few steps and become free.

        If the kernel is expensive, variables that move to a bound count too. False for a part of the rows, for rows
        with two variables, after shrinking, and after the first true gradient.
        """
        n_moved = state.n_moved or 0
        if not (state.single and state.active is None and state.rows is None and state.gradient_log is not None):
            return False
        if state.is_part or n_moved < _MOST_MOVE * size or n_steps > _FEW_STEPS_EACH * n_moved:
            return False
        p, beta = state.problem, state.beta
        n_free = n_moved if state.gram.kernel_is_expensive else np.count_nonzero((p.lower < beta) & (beta < p.upper))
        return bool(2 * n_free >= n_moved) and has_room_for_whole_matrix(state.values, state.c_times_kmax)

    def _follow(self, state: BatchState, chosen: IndexArray, block: Block) -> Generator[None, None, bool]:
        """Update the gradient of all active variables; return whether any has moved."""
        moved, cols, weights, squares = block.moves()
        state.n_moved = moved.size
        state.moved += squares
        if state.gradient_log is not None:
            state.gradient_log.move(cols, state.beta[cols], weights)
            least = _LEDGER_ARRAYS * state.beta.nbytes
            if state.gradient_log.bytes_of_moves > max(least, _LEDGER_SHARE * state.gram.room):
                state.gradient_log = None  # gradients of shrunken variables are evaluated from scratch at the end
        if state.has_all_active:
            add_at(state.gradient, chosen, _times_changes(state, chosen, moved, weights))
            return moved.size > 0
        if state.single and state.tiles is not None:
            yield from self._rise_by_tiles(state, state.tiles, chosen, moved, cols, weights)
        else:
            yield from self._rise_by_rows(state, chosen, moved, cols, weights)
        if state.problem.ridge is not None:
            add_at(state.gradient, cols, state.problem.ridge[cols] * weights)
        return moved.size > 0

    def _rise_by_tiles(
        self,
        state: BatchState,
        tiles: VariableTiles,
        chosen: IndexArray,
        moved: IndexArray,
        cols: IndexArray,
        weights: FloatArray,
    ) -> Iterator[None]:
        """Add the contribution of the moves to the gradient, in one native call or a few."""
        matrix = state.working.values if state.working is not None and _knows(state, chosen, moved) else None
        width = max(_LEAST_COLUMNS, _CALLS_IN_ONE * state.values.values_per_call // state.values.n)
        for first in range(0, cols.size, width):
            some = slice(first, first + width)
            at_hand = chosen, matrix, moved[some]
            n_values = tiles.follow(cols[some], weights[some], state.active_rows, state.gradient, *at_hand)
            state.values.count(n_values)
            yield

    def _rise_by_rows(
        self, state: BatchState, chosen: IndexArray, moved: IndexArray, cols: IndexArray, weights: FloatArray
    ) -> Iterator[None]:
        """Add the contribution of the moves to the gradient, from cached rows or by the Gram matrix."""
        rise = state.gradient if state.rows is None else np.zeros(state.values.n)
        rows, columns = state.active_rows, state.rows_of(chosen)
        knows = _knows(state, chosen, moved)
        if state.single and state.cache is not None:
            assert state.working is not None
            evaluated = (columns, moved, state.working.values[:, : chosen.size]) if knows and rows is not None else None
            n_moves = None if state.gradient_log is None else state.gradient_log.n_moves
            yield from state.cache.accumulate(rise, state.rows_of(cols), weights, rows, evaluated, n_moves)
            state.count_memory()
        else:
            if knows:
                own_rise = _times_changes(state, chosen, moved, weights)
                if state.rows is None:
                    add_at(rise, columns, own_rise)
                else:
                    rise[columns] = own_rise  # a row counts once, even if both of its variables are in W
                rows = without(columns, rows, state.values.n)
            yield from state.values.accumulate(rise, state.rows_of(cols), weights, rows=rows, single=state.single)
        if state.rows is not None:
            # Rows that are not active have a rise of 0: adding it to all is faster than selecting the others.
            if state.is_doubled:
                both = state.gradient.reshape(2, -1)
                both += rise
            else:
                state.gradient += rise[state.rows]

    def _noise(self, state: BatchState) -> float:
        """Estimate of the error of the gradient from single precision, since the last true gradient."""
        return noise(state.largest_diagonal, state.moved) if state.single else 0.0

    def _survey(self, state: BatchState) -> None:
        """Measure the violation, and shrink variables at a bound on the right side until the next true gradient."""
        survey, p = state.survey, state.problem
        survey.measure(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, state.active)
        state.violation, state.n_free = survey.violation, survey.n_free
        if not state.uses_whole_matrix and survey.n_remaining() <= _SHRUNK * state.n_active:
            state.follow(survey.remaining(), survey.dropped())

    def _everything(self, state: BatchState) -> IndexArray:
        """All active variables, by group."""
        active = np.arange(state.problem.n) if state.active is None else state.active
        if state.problem.n_groups < 2:
            return active
        assert state.groups is not None
        return active[np.argsort(state.groups[active], kind="stable")]

    def _select(self, state: BatchState) -> IndexArray:
        room = 1.25 * state.n_free + 256  # for all free variables and for new ones
        most = _FIRST_SET if state.n_moved is None else _PER_MOVED * state.n_moved
        wanted = max(room, min(state.problem.n_rows / state.share, _ENOUGH, most))
        sizes = state.sizes[0] if state.single else state.sizes[1]
        size = next((s for s in sizes if s >= wanted), sizes[-1])
        if state.has_all_active or state.n_active <= size:
            state.holds_all = True
            return self._everything(state)
        chosen = state.survey.select(state.seen, state.previous, size)
        state.seen[chosen] = True
        state.holds_all = chosen.size < size
        if state.problem.rows is not None:
            # A row has two variables with the same kernel values. If one is not 0, the other violates less: drop it.
            unpaired = state.survey.without_partners(chosen, state.problem.rows, state.problem.n_rows)
            # If the two variables are in different groups, this is true only once the tube has a positive width.
            if state.problem.n_groups == 1 or _violation_of(state, unpaired) >= INNER_SHARE * state.violation:
                state.holds_all = state.holds_all and unpaired.size == chosen.size
                chosen = unpaired
        return chosen


def _dual_at(state: BatchState, point: FloatArray) -> Generator[None, None, float]:
    """The dual objective at `point`."""
    gradient, used = state.problem.linear.copy(), np.flatnonzero(point != 0.0)
    yield from state.gram.accumulate(gradient, used, point[used], single=state.single)
    return -0.5 * inner(point, gradient + state.problem.linear)


def _knows(state: BatchState, chosen: IndexArray, moved: IndexArray) -> bool:
    """Whether K[W, W] has no ridge, and saves enough kernel values to be worth a list of all other rows."""
    spares = state.active_rows is not None or chosen.size * moved.size > _WORTH_A_LIST * state.values.n
    return state.problem.ridge is None and spares


def _times_changes(state: BatchState, chosen: IndexArray, moved: IndexArray, changes: FloatArray) -> FloatArray:
    """The matrix of the working set, with the ridge, times the changes of some of its variables."""
    assert state.working is not None
    rise, matrix = np.zeros(chosen.size), state.working.values[:, : chosen.size]
    combine_rows(state.isa, matrix, moved, None, changes, rise, state.gram.n_threads)
    return rise


def _violation_of(state: BatchState, chosen: IndexArray | None) -> float:
    """Measure the violation among some of the variables; None means all."""
    p, survey = state.problem, Survey()
    survey.measure(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, chosen)
    return survey.violation
