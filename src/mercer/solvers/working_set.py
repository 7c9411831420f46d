"""The fast exact solver: sequential minimal optimisation on working sets, finished by Newton steps."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from mercer._core import INNER_SHARE, MANY_FREE_PRECISE, Survey, add_at, combine_rows, without
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.screening import Plan, TrackedGradient
from mercer.gram import Gram
from mercer.problems import Problem, Problems, inner
from mercer.solvers.base import Solver
from mercer.solvers.block import solve_chosen
from mercer.solvers.gradient_log import GradientLog
from mercer.solvers.row_cache import RowCache
from mercer.solvers.single_precision import REFRESHES, noise, which_single_precision_helps
from mercer.solvers.working_matrix import working_matrix
from mercer.solvers.working_set_sizes import exact_variables, has_room_for_everything, reach, working_sets
from mercer.solvers.working_set_state import BatchState

if TYPE_CHECKING:
    from mercer._core import Block, VariableTiles


# A working set has one in so many rows at least, for every round looks at all: more where margins are soft, and each
# variable moves but once or twice. It need not have more than so many.
_SHARE, _SHARE_OF_SOFT, _ENOUGH = 15, 9, 4096
_FIRST_SET = 2048  # that it need not exceed before anybody has moved
_PER_MOVED = 3  # nor this times those that moved in the last round: kernel values of the others were in vain
_SHRUNK = 0.9  # the share of active variables that shrinking must come below to be worth a new list
_WORTH_A_LIST = 16  # kernel values for each row: what it takes to name all rows but those of the working set
_LEAST_COLUMNS = 16  # of all rows in one call, where values are cheap
_CALLS_IN_ONE = 8  # as many values in such a call as in so many others, for each packs all rows
_LEDGER_SHARE, _LEDGER_ARRAYS = 1 / 8, 8  # of the room, or so many arrays of length n, at most, for moves made so far
_MILD = 10.0  # C k(x, x) from which on, itself included, few variables are at bounds in the end
_REFINES = 0.75  # of the violation, at most, is what single precision leaves from one true gradient to the next
_THINNED = 8  # one row in so many says where to begin: a sixty-fourth of the kernel values
_CROWDED = 32  # where one variable in so many is not 0 at the start, and its column is evaluated
_AGREED = 0.8  # of what the part's solution gains on its start: the least that its rule must gain there
# Of the violation at the start of the part: a tenth of it is no guide, a hundredth leaves twice the moves.
_ROUGH = 1e-3
_SAMPLED, _ROUGH_SAMPLE = 32, 1e-2  # a smaller part, solved less closely, says at little cost
_MOST_MOVE, _FEW_STEPS_EACH = 7 / 8, 2  # of a set, and for each who moves: from there on a matrix of all pays
_MOSTLY_FREE = 2 / 3  # whether so many of its support vectors are free that it is not worth more


def _asks_for_a_start(state: BatchState) -> bool:
    """Whether a part of the rows may know a better start: many variables are at bounds, or will be."""
    problem = state.problem
    n_moved = np.count_nonzero(problem.start)
    crowded = _CROWDED * n_moved >= problem.n or (n_moved == 0 and state.reach < _MILD)
    bounded = problem.groups is not None and problem.ridge is None and np.isfinite(problem.upper - problem.lower).all()
    in_part = problem.n_outputs == 1 and _CROWDED * problem.n_groups < problem.n  # each group is in it
    return bool(crowded and bounded and in_part and not state.takes_everything)


@final
class WorkingSetSolver(Solver[BatchState]):
    """Working sets of violators, each solved in the cache by second-order pair steps and Newton steps.

    **Solves** any :class:`mercer.problems.Problem`.

    One round: choose a working set W (the free variables of the last one, then violators that have been in none, from
    all over the table, then the worst violators), evaluate K[W, W], solve the problem restricted to W, and update the
    gradient with the columns of the variables that moved.
    On W, pairs move as in sequential minimal optimisation (Platt 1998; second index by second order); where that
    drags on, an active-set Newton method takes over. Up to 2,048 variables W is everything; beyond, see below.

    Beyond 300 variables, kernel values are first evaluated in single precision, about twice as fast. They only steer:
    when the violation has come down to the tolerance, or to the noise that their rounding makes, the driver
    evaluates the point in float64, and the steps go on from the true gradient, where changes and so noise are small.
    After the second time, or when a round fails to raise the dual objective, everything is float64; where many
    variables are free, only once that no longer takes a quarter off the violation.

    Where many variables will be at bounds (soft margins, the start of nu machines), an eighth of the rows is solved
    first, and all variables go to the bounds that its decision values speak for, if that is nearly the part's own
    solution too: half of the rounds, for a few more kernel values.

    Variables at a bound that violate nothing, nor nearly, are left out until the true gradient is known. Once W has
    room for all that are left, it takes them, and no kernel value is evaluated until then. Where most of a set moves
    in few steps, to between their bounds or, if values are dear, anywhere, everything is the next one, as long as
    values are in single precision.

    Costs, per round and beyond K[W, W]: a kernel value for each active variable and each that moved. None of them is
    stored, except where a row costs more to evaluate than to look up: then rows of who moved are kept
    (:class:`mercer.solvers.row_cache.RowCache`), and what K[W, W] shares with the last one.

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
        state.largest_diagonal = gram.largest_diagonal  # a ridge times its own move is about 1, and its rounding little
        state.reach = reach(problem, gram)
        state.ends_exactly = state.takes_everything and 0 < problem.n <= exact_variables(problem)
        state.single = which_single_precision_helps(Problems(problem, [problem.n]), gram)[0]
        state.single = state.single and not (state.ends_exactly and state.reach < _MILD)  # which is over too soon
        if state.single and not state.takes_everything and gram.should_cache_rows:
            state.cache = RowCache(state.values)
        elif state.single and not state.takes_everything and not gram.kernel_is_expensive:
            state.tiles = state.values.variable_tiles(state.rows)
        has_rows = state.cache is not None
        soft = not problem.start.any() and state.reach < _MILD and not gram.kernel_is_expensive
        state.share = _SHARE_OF_SOFT if soft else _SHARE
        asked = gram, state.reach
        state.sizes = working_sets(*asked, beside_rows=has_rows), working_sets(*asked, single=False)
        if not state.takes_everything:
            state.gradient_log = GradientLog(state.values, state.rows, beta)
            if not problem.start.any():
                found = Survey()
                found.look(
                    problem.start, problem.linear, problem.lower, problem.upper, state.groups, problem.n_groups, None
                )
                state.at_zero = found.violation
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
        state.tol = tol
        state.finished = False
        state.gradient[:] = gradient
        last, state.true_violation = state.true_violation, _violation_of(state, None)
        # Where many are free, steps in double precision would be pair steps.
        p, beta = state.problem, state.beta
        many = bool(np.count_nonzero((p.lower < beta) & (beta < p.upper)) > MANY_FREE_PRECISE)
        goes_on = state.n_refreshes + 1 < REFRESHES or (many and state.true_violation <= _REFINES * last)
        state.go_on(single=state.single and goes_on)
        state.work = self._rounds(state)

    def kept(self, state: BatchState) -> TrackedGradient | None:
        """Return the values that the steps have kept up to date; see :class:`Solver`."""
        gradient_log = state.gradient_log
        if gradient_log is None or not state.finished:  # in the middle of a round values are those of no point
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

    def _begin(self, state: BatchState) -> Iterator[None]:
        yield from self._place(state)
        yield from self._rounds(state)

    def _place(self, state: BatchState) -> Iterator[None]:
        """Begin where the machine of a part of the rows would have all, if that pays, and make the gradient true."""
        if state.begins_anew and _asks_for_a_start(state):
            yield from self._guess(state)
        single = state.single and state.begins_anew
        yield from self._add_moved(state, state.gradient, single=single)
        state.moved += inner(state.beta, state.beta) if single else 0.0

    def _add_moved(self, state: BatchState, gradient: FloatArray, *, single: bool) -> Iterator[None]:
        """Add what all variables that are not 0 do to gradients."""
        moved = np.flatnonzero(state.beta != 0.0)
        if moved.size:
            yield from state.gram.accumulate(gradient, moved, state.beta[moved], single=single)
            if state.problem.ridge is not None:
                gradient += state.problem.ridge * state.beta

    def _guess(self, state: BatchState) -> Iterator[None]:
        """Move to the bounds that the decision values of a machine on a part of the rows speak for, if they do.

        They do where the same rule finds most of the part's own dual objective: where many variables are free, or few
        rows have many others close by, it puts whole neighbourhoods at their bounds.
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
        found = yield from _dual_at(part, thinned.vertex(part.gradient, thinned.totals))
        gain = part.dual - least
        if not (gain > 0.0 and found - least >= _AGREED * gain):  # nor where they are no numbers
            return
        gradient, used = problem.linear.copy(), np.flatnonzero(part.beta != 0.0)
        yield from state.gram.accumulate(gradient, chosen[used], part.beta[used], single=state.single)
        state.beta[:] = problem.vertex(gradient, problem.totals)
        state.gradient_log = GradientLog(state.values, state.rows, state.beta)

    def _part(self, state: BatchState, step: int, rough: float) -> Generator[None, None, tuple[BatchState, IndexArray]]:
        """Solve the problem of every `step`-th row to a share of its first violation; return it, and its variables.

        Who stops meanwhile has its point, in boxes as narrow as they are: where sums are 0, that is feasible.
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

        part.work = iter(())  # what is there would keep the part, and the memory of its matrix
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
            # Everything at once is solved in one round; the true gradient then says whether that was enough.
            if stuck or (state.violation <= max(0.5 * state.tol, self._noise(state)) and not state.ends_exactly):
                return
            state.previous = self._everything(state) if state.takes_everything else self._select(state)
            chosen, matrix = (yield from working_matrix(state, state.previous))[:2]
            block = yield from solve_chosen(state, chosen, matrix)
            del matrix  # the next may take its place, once the block is gone
            if state.ends_exactly and state.single:
                del block
                gradient = state.problem.linear.copy()
                yield from self._add_moved(state, gradient, single=False)
                state.gradient[:] = gradient
                state.go_on(single=False)
                continue
            if state.takes_everything:
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
        """Whether the last set, of this size, says that most variables will move, and soon be at rest between bounds.

        Where values are dear, those that will be at bounds count, too. Of a part of the rows nobody wants that much;
        nor where rows have two variables, or some have been left out, or the true gradient has been known since.
        """
        n_moved = state.n_moved or 0
        if not (state.single and state.active is None and state.rows is None and state.gradient_log is not None):
            return False
        if state.is_part or n_moved < _MOST_MOVE * size or n_steps > _FEW_STEPS_EACH * n_moved:
            return False
        p, beta = state.problem, state.beta
        n_free = n_moved if state.gram.kernel_is_expensive else np.count_nonzero((p.lower < beta) & (beta < p.upper))
        return bool(2 * n_free >= n_moved) and has_room_for_everything(state.values, state.reach)

    def _follow(self, state: BatchState, chosen: IndexArray, block: Block) -> Generator[None, None, bool]:
        """Update the gradient of all active variables; return whether any has moved."""
        moved, cols, weights, squares = block.moves()
        state.n_moved = moved.size
        state.moved += squares
        if state.gradient_log is not None:
            state.gradient_log.move(cols, state.beta[cols], weights)
            least = _LEDGER_ARRAYS * state.beta.nbytes
            if state.gradient_log.bytes_of_moves > max(least, _LEDGER_SHARE * state.gram.room):
                state.gradient_log = None  # who left is evaluated anew in the end
        if state.covers:
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
        """Add what moves make of it to the gradient, in one native call or a few."""
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
        """The same, row by row as they are kept, or as the Gram matrix gives them."""
        rise = state.gradient if state.rows is None else np.zeros(state.values.n)
        rows, own = state.active_rows, state.rows_of(chosen)
        knows = _knows(state, chosen, moved)
        if state.single and state.cache is not None:
            assert state.working is not None
            known = (own, moved, state.working.values[:, : chosen.size]) if knows and rows is not None else None
            n_moves = None if state.gradient_log is None else state.gradient_log.n_moves
            yield from state.cache.accumulate(rise, state.rows_of(cols), weights, rows, known, n_moves)
            state.count_memory()
        else:
            if knows:
                own_rise = _times_changes(state, chosen, moved, weights)
                if state.rows is None:
                    add_at(rise, own, own_rise)
                else:
                    rise[own] = own_rise  # once, where both variables of a row are in
                rows = without(own, rows, state.values.n)
            yield from state.values.accumulate(rise, state.rows_of(cols), weights, rows=rows, single=state.single)
        if state.rows is not None:
            # Of rows that are not followed, which have none, too: that is faster than to look for the others.
            if state.is_doubled:
                both = state.gradient.reshape(2, -1)
                both += rise
            else:
                state.gradient += rise[state.rows]

    def _noise(self, state: BatchState) -> float:
        """About how far rounding in single precision has put the gradient off since it was last true."""
        return noise(state.largest_diagonal, state.moved) if state.single else 0.0

    def _survey(self, state: BatchState) -> None:
        """Measure the violation, and leave out what is at a bound and violates nothing until the next true gradient."""
        found, p = state.survey, state.problem
        found.look(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, state.active)
        state.violation, state.n_free = found.violation, found.n_free
        if not state.takes_everything and found.n_kept() <= _SHRUNK * state.n_active:
            state.follow(found.kept(), found.dropped())

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
        if state.covers or state.n_active <= size:
            state.holds_all = True
            return self._everything(state)
        chosen = state.survey.select(state.seen, state.previous, size)
        state.seen[chosen] = True
        state.holds_all = chosen.size < size
        if state.problem.rows is not None:
            # The other variable of a row that has one other than 0 violates less, and repeats its kernel values.
            kept = state.survey.without_partners(chosen, state.problem.rows, state.problem.n_rows)
            # Where the two have sums of their own, that is so once the tube has a width.
            if state.problem.n_groups == 1 or _violation_of(state, kept) >= INNER_SHARE * state.violation:
                state.holds_all = state.holds_all and kept.size == chosen.size
                chosen = kept
        return chosen


def _dual_at(state: BatchState, point: FloatArray) -> Generator[None, None, float]:
    """The dual objective at another point than the state's."""
    gradient, used = state.problem.linear.copy(), np.flatnonzero(point != 0.0)
    yield from state.gram.accumulate(gradient, used, point[used], single=state.single)
    return -0.5 * inner(point, gradient + state.problem.linear)


def _knows(state: BatchState, chosen: IndexArray, moved: IndexArray) -> bool:
    """Whether K[W, W] is at hand as it is, without a ridge, and spares enough values to list all other rows."""
    spares = state.active_rows is not None or chosen.size * moved.size > _WORTH_A_LIST * state.values.n
    return state.problem.ridge is None and spares


def _times_changes(state: BatchState, chosen: IndexArray, moved: IndexArray, changes: FloatArray) -> FloatArray:
    """The matrix of the working set, with the ridge on its diagonal, times changes of some of its variables."""
    assert state.working is not None
    rise, matrix = np.zeros(chosen.size), state.working.values[:, : chosen.size]
    combine_rows(state.isa, matrix, moved, None, changes, rise, state.gram.n_threads)
    return rise


def _violation_of(state: BatchState, chosen: IndexArray | None) -> float:
    """Measure the violation among some of the variables; None means all."""
    p, found = state.problem, Survey()
    found.look(state.beta, state.gradient, p.lower, p.upper, state.groups, p.n_groups, chosen)
    return found.violation
