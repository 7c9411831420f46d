"""Small problems, solved and evaluated by one native call, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import isqrt
from typing import final

import numpy as np
import numpy.typing as npt

from mercer._core import BLOCK_LIMIT, machines_workspace, solve_machines
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Evidence, conclude, worst_status
from mercer.certificates.evaluation import Conditions, Evaluation, conditions_of, relative_gap
from mercer.certificates.roundoff import (
    is_certain,
    is_feasible,
    rounding_of_objectives,
    rounding_of_offsets,
    rounding_of_sums,
)
from mercer.certificates.solution import Limits, Solution, Solutions
from mercer.certificates.status import Status
from mercer.data.lazy import lazy_property
from mercer.gram import STATE_ARRAYS, Gram
from mercer.gram.backends import Tiles, threads_that_pay
from mercer.kernels.base import finite
from mercer.problems import Hinge, Problems
from mercer.solvers.base import Progress
from mercer.solvers.block import newton_bytes
from mercer.solvers.working_set import WorkingSetSolver
from mercer.solvers.working_set_sizes import EXACT_PROBLEM, WHOLE_PROBLEM, exact_variables, reaches

SMALL_PROBLEM, SMALL_AMONG_MANY = WHOLE_PROBLEM, 2560
"""Up to so many variables: alone, all of them at once; among many, where each thread has a problem of its own, and what
they share is evaluated once."""

_DOUBLE_ALONE = 640  # variables of a problem alone: its matrix in double precision stays near the processor
# C k(x, x) up to which a problem alone has few steps to make, and beyond which they may go astray, or on for long.
_FEW_STEPS, _MANY_STEPS = 10.0, 300.0
_ALWAYS = 512  # variables, whose matrix fits into any memory limit
_SHARED_BYTES = 256 << 20  # matrices that problems share; more would take too long to write to fresh memory
_VALUE_WORK = 3e7  # variables that steps look at in the time of a call for kernel values
_WORK_LIMIT = 5e7  # such variables in a native call: some 20 ms on two threads; who is begun last may take 100 ms more
_WHOLE_MATRIX = 1024  # variables: 8 MB; beyond, working sets pay, which ask for the rows of who moves
_TWO_THREADS = 500  # variables; a thread takes longer to start than fewer of them to solve


def takes_kernel(gram: Gram) -> bool:
    """Whether :class:`SmallProblems` takes problems on this matrix: of a convex kernel that runs natively."""
    # The native call knows the sizes of values by the matrix alone.
    return gram.kernel.is_psd is True and not gram.kernel.loses_digits and gram.tiles is not None


def are_small(problems: Problems, gram: Gram) -> npt.NDArray[np.bool_]:
    """Which of them :class:`SmallProblems` takes, if it takes the kernel: of few variables, all in one group."""
    whole = problems.whole
    if whole.ridge is not None or whole.n_groups != 1 or whole.n_outputs != 1 or not whole.loss.charges_by_box:
        return np.zeros(len(problems), dtype=bool)
    most = min(
        SMALL_AMONG_MANY if len(problems) > 1 else SMALL_PROBLEM,
        max(_ALWAYS, isqrt(gram.room // 24)),  # 14 to 20 n^2 bytes are the most
        isqrt(gram.values_per_call // 2),  # or Ctrl-C would wait for its rows, which are long
    )
    small: npt.NDArray[np.bool_] = (problems.sizes <= most) & (problems.sizes > 0)
    if len(problems) == 1 and whole.n > _DOUBLE_ALONE and small[0]:
        small[0] = reaches(problems, gram)[0] <= _MANY_STEPS
    return small


def _matrix_sizes(problems: Problems, gram: Gram, *, alone: bool) -> tuple[int, int, int]:
    """The most variables that end at the limit of float64, that begin in double precision, and with a whole matrix."""
    exact = exact_variables(problems.whole)
    if not alone:
        return exact, _WHOLE_MATRIX, _WHOLE_MATRIX
    in_double = problems.whole.n <= EXACT_PROBLEM or not _FEW_STEPS < reaches(problems, gram)[0] <= _MANY_STEPS
    return exact, _DOUBLE_ALONE if in_double else EXACT_PROBLEM, WHOLE_PROBLEM


@final
class SmallProblems:
    """Problems on parts of one Gram matrix, solved by native threads without Python in between.

    Pair steps and exact Newton steps as in :class:`mercer.solvers.working_set.WorkingSetSolver`. Of a problem alone:
    with the whole matrix in double precision up to 640 variables, and in single beyond; and from 300 variables on in
    single where steps are many (C k(x, x) from 10 to 300). Its true values then come from tiles, or where it is to end
    at the limit of float64, from the matrix in double precision, on which it goes on. Of several: with the whole
    matrix in double precision up to 1,024 variables, by working sets beyond. The matrices of parts, which several
    problems share, are evaluated once, and so are those between two parts: class pairs evaluate one Gram matrix in
    all, unless there are larger ones and values are cheap. Objectives and conditions come from a product of the matrix
    and the final point, apart from what the steps have left behind.

    Parameters
    ----------
    gram : Gram
    parts : sequence of ndarray of int64
        Rows of `gram`.
    pairs : ndarray of int64 of shape (n_problems, 2)
        Parts whose rows, one after the other, are the variables of each problem; the second is -1 where one is all.
    problems : Problems
        Each of them small (:func:`are_small`).
    starts : sequence of ndarray or None
        Where each begins; None for its own starting point.
    limits : Limits
        `max_iter` is for each problem; seconds are the caller's to watch.
    alone : bool
        Whether there is one problem, and others are not left out for their size.

    Attributes
    ----------
    solved : Solved
        What has been found so far.
    """

    def __init__(
        self,
        gram: Gram,
        parts: Sequence[IndexArray],
        pairs: IndexArray,
        problems: Problems,
        starts: Sequence[FloatArray | None],
        limits: Limits,
        *,
        alone: bool,
    ) -> None:
        self._gram, self._limits = gram, limits
        counts = [part.size for part in parts]
        chosen = np.concatenate(parts) if len(parts) > 1 else parts[0]
        sizes = _matrix_sizes(problems, gram, alone=alone)
        large = problems.sizes > sizes[1]
        some_large = bool(large.any())
        self._diagonal = gram.diag()[chosen] if some_large else None
        self._part_starts = np.array(list(accumulate(counts, initial=0)))
        squares = sum(count * count for count in counts)
        # Working sets of two parts look at few of the values within each: to evaluate all pays where values are dear.
        shares = len(problems) > 1 and (
            gram.kernel_is_expensive or not (some_large and (large & (pairs[:, 1] >= 0)).any())
        )
        shares = shares and 8 * squares <= min(_SHARED_BYTES, gram.room // 2)
        shares = shares and squares <= 2 * gram.values_per_call  # all in one call
        self._shared_size = squares if shares else 0
        self._content = object()  # not itself: memory in a cycle would not be free for the next fit
        beta = problems.whole.start.copy()
        for number, start in enumerate(starts):
            if start is not None:
                beta[problems.variables(number)] = problems[number].make_feasible(start)
        self.solved = Solved(
            problems,
            limits,
            Evidence.of(problems.whole, gram, beta, convex=True, idx=gram.origin_rows(chosen)),
            self._part_starts,
            pairs,
            _count_shared(counts, pairs) if shares else np.zeros(len(pairs), dtype=np.int64),
            beta,
            np.empty_like(beta),
            gram.roundoff,
            sizes,
        )

    def solve(self, stop: Callable[[], bool] | None = None) -> int:
        """Solve problems from the first unsolved one on, as many as take some tens of milliseconds; return how many.

        A problem alone that begins in single precision may take longer, and asks now and then whether to `stop`.
        """
        gram, limits, solved = self._gram, self._limits, self.solved
        problems, first = solved.problems, len(solved.numbers)
        variables = slice(problems.edges[first], None)
        tiles, whole = gram.tiles, problems.whole
        assert tiles is not None
        n_threads = self._n_threads(tiles) if whole.n - problems.edges[first] >= _TWO_THREADS else 1
        workspace, shared, filled = self._memory(n_threads)
        assert solved.about.idx is not None
        found = solve_machines(
            tiles.isa,
            tiles.kernel,
            tiles.table,
            tiles.centre,
            solved.about.idx,
            self._part_starts,
            shared,
            not filled,
            solved.pairs[first:],
            self._diagonal,
            whole.start[variables],
            whole.linear[variables],
            whole.lower[variables],
            whole.upper[variables],
            solved.beta[variables],
            solved.values[variables],
            True,
            limits.tol,
            limits.max_iter,
            *solved.matrix_sizes,
            _VALUE_WORK / gram.values_per_call,
            _WORK_LIMIT,
            workspace,
            n_threads,
            stop,
        )
        last = first + len(found)
        finite(gram.kernel, solved.values[problems.edges[first] : problems.edges[last]])
        if self._shared_size:
            found[:, 2] += solved.n_shared[first:last]
        gram.count(int(found[:, 2].sum()))
        solved.numbers = np.concatenate([solved.numbers, found]) if first else found
        solved.held_bytes = gram.peak_bytes + gram.arena.nbytes
        if (newton_free := int(found[-1, -1])) > 0:
            solved.held_bytes += newton_bytes(newton_free, int(problems.sizes[last - 1]), single=True)
        return len(found)

    def _n_threads(self, tiles: Tiles) -> int:
        """As many as there are, and as have room for a matrix each; that changes no result."""
        pairs = self.solved.pairs
        if len(pairs) == 1:  # most of what is shared is evaluating its matrix
            n_values = self.solved.problems.whole.n**2
            return threads_that_pay(n_values, tiles.one_thread_values, self._gram.n_threads)
        one = 8 * (self._workspace(2) - self._workspace(1))
        room = (self._gram.room - 8 * self._shared_size) // max(1, one)
        return max(1, min(self._gram.n_threads, room))

    def _workspace(self, n_threads: int) -> int:
        return machines_workspace(self._part_starts, self.solved.pairs, *self.solved.matrix_sizes, n_threads)

    def _memory(self, n_threads: int) -> tuple[FloatArray, FloatArray | None, bool]:
        """Memory to work in; that of the shared matrices, if there are any; and whether they have been evaluated."""
        arena, pairs = self._gram.arena, self.solved.pairs
        wanted = self._shared_size + self._workspace(min(n_threads, len(pairs)))
        filled = arena.holds(self._content)
        memory = (arena.again if filled else arena.array)(wanted, np.float64).astype(np.float64, copy=False)
        arena.declare(self._content)
        shared = memory[: self._shared_size] if self._shared_size else None
        return memory[self._shared_size :], shared, filled


_COLUMNS = (
    *("end", "n_iter", "n_values", "seconds", "longest", "squares", "largest", "multiplier", "primal"),
    *("quadratic", "linear", "mass", "infeasibility", "excess", "n_free", "n_bounded", "newton_free"),
)


@dataclass(eq=False)
class Solved:
    """What a native call has found of small problems: arrays, of which solutions and certificates are made when asked.

    Attributes
    ----------
    problems : Problems
    limits : Limits
    about : Evidence
        Of all problems; `idx` are the rows of all parts.
    part_starts, pairs : ndarray of int64
        Where the rows of each part begin, and the parts of each problem.
    n_shared : ndarray of int64
        Kernel values that each problem shares with others and is the first to have.
    beta, values : ndarray
        Points, and the matrix times each.
    roundoff : float
        Of kernel values.
    matrix_sizes : tuple of three int
        See :func:`_matrix_sizes`.
    numbers : ndarray of shape (n_solved, 17)
        A row for each problem, `_COLUMNS`; see native/bindings/qp_batch_module.cpp.
    held_bytes : int
        Most memory for kernel values at a time.
    n_begun : int, optional
        After :meth:`leave`: problems from here on are where they started, because the work had `ended`.
    """

    problems: Problems
    limits: Limits
    about: Evidence
    part_starts: IndexArray
    pairs: IndexArray
    n_shared: IndexArray
    beta: FloatArray
    values: FloatArray
    roundoff: float
    matrix_sizes: tuple[int, int, int]
    numbers: FloatArray = field(default_factory=lambda: np.empty((0, 17)))
    held_bytes: int = 0
    n_begun: int | None = None
    ended: Status = Status.STALLED

    def leave(self, first: int, ended: Status) -> bool:
        """Leave the problems from `first` on where they started, if they are alike there; return whether they are.

        Those of C-SVC are: at 0, with gradients -1 and +1, they violate by the same, have the same bias, and cost what
        their penalties say. So hundreds of thousands of them need not be evaluated one by one.
        """
        problems, edges = self.problems, self.problems.edges
        whole, rest = problems.whole, slice(edges[first], None)
        sizes, linear = problems.sizes[first:], whole.linear[rest]
        if not isinstance(whole.loss, Hinge) or whole.start[rest].any() or (np.abs(linear) != 1.0).any():
            return False
        starts = sizes.cumsum() - sizes
        if (np.abs(np.add.reduceat(linear, starts)) == sizes).any():  # one class has no rows yet
            return False
        multipliers, found = conditions_of(problems[first], np.zeros(sizes[0]), np.zeros(sizes[0]))
        if self.limits.tol_gap is not None and found.excess <= self.limits.tol:
            return False  # their gaps decide, which are not alike
        charges = whole.loss.C[rest] * whole.loss.part(rest).slacks(np.full(linear.size, -multipliers[0]))
        left = np.zeros((sizes.size, len(_COLUMNS)))
        for name, value in (
            ("end", -1.0),
            ("multiplier", multipliers[0]),
            ("primal", np.add.reduceat(charges, starts)),
            ("infeasibility", found.infeasibility),
            ("excess", found.excess),
        ):
            left[:, _COLUMNS.index(name)] = value
        self.beta[rest] = self.values[rest] = 0.0
        self.numbers = np.concatenate([self.numbers[:first], left])
        self.n_begun, self.ended = first, ended
        for name in ("proved", "_rounding", "_value_rounding"):
            self.__dict__.pop(name, None)
        return True

    def solutions(self) -> Solutions:
        """Return those of all problems."""
        begun = len(self.numbers) if self.n_begun is None else self.n_begun
        statuses = [
            Status.OPTIMAL if proved else self.solution(number).status
            for number, proved in enumerate(self.proved[:begun].tolist())
        ]
        if begun < len(self.numbers):
            statuses += [self.solution(begun).status] * (len(self.numbers) - begun)
        n_iter = self.numbers[:, 1].astype(np.int64)
        return Solutions(
            self.beta, -self.numbers[:, 7], n_iter, statuses, self.solution, whole=partial(self._whole, statuses)
        )

    def _whole(self, statuses: list[Status], parts: Sequence[Certificate]) -> Certificate:
        """Return the certificate of all problems, whose own are `parts`."""
        total = dict(zip(_COLUMNS, self.numbers.sum(axis=0).tolist(), strict=True))
        most = dict(zip(_COLUMNS, self.numbers.max(axis=0).tolist(), strict=True))
        dual = -0.5 * (self._column("quadratic") + self._column("linear"))
        n_free, n_bounded = int(total["n_free"]), int(total["n_bounded"])
        # One after the other, as parts add up.
        primal_sum, dual_sum = sum(self._column("primal").tolist()), sum(dual.tolist())
        return Certificate(
            status=worst_status(statuses),
            primal=primal_sum,
            dual=dual_sum,
            gap=primal_sum - dual_sum,
            relative_gap=relative_gap(primal_sum, dual_sum),
            kkt_violation=max(0.0, most["excess"]),
            dual_infeasibility=most["infeasibility"],
            rounding=float(self._rounding.max()),
            n_support=n_free + n_bounded,
            n_free=n_free,
            n_bounded=n_bounded,
            n_iter=int(total["n_iter"]),
            n_kernel_values=int(total["n_values"]),
            seconds=sum(self._column("seconds").tolist()),
            peak_memory_bytes=self.held_bytes + STATE_ARRAYS * self.beta.itemsize * int(self.problems.sizes.max()),
            tol=self.limits.tol,
            tol_gap=self.limits.tol_gap,
            objective_rounding=sum(self._objective_rounding().tolist()),
            parts=parts,
        )

    def _objective_rounding(self) -> FloatArray:
        """How far objectives of each problem may be off: each loss charges at most its bounds for a unit."""
        whole, sizes, starts = self.problems.whole, self.problems.sizes, self.problems.edges[:-1]
        rounding = self._rounding
        decision = self.values - np.repeat(self._column("multiplier"), sizes)
        push, reach = -(decision + whole.linear), np.repeat(rounding, sizes)
        ends = (np.abs(np.where(push + step > 0.0, whole.upper, whole.lower)) for step in (reach, -reach))
        steepness = np.add.reduceat(np.maximum(*ends), starts)
        found: FloatArray = rounding_of_objectives(
            rounding, self._column("mass"), steepness, self._column("primal"), sizes
        )
        return found

    def _column(self, name: str) -> FloatArray:
        found: FloatArray = self.numbers[:, _COLUMNS.index(name)]
        return found

    @lazy_property
    def _value_rounding(self) -> FloatArray:
        """How far K beta of each problem may be off, once there are no more to come."""
        longest, squares, largest = map(self._column, ("longest", "squares", "largest"))
        n_support = self._column("n_free") + self._column("n_bounded")
        with np.errstate(over="ignore", invalid="ignore"):  # kernel values that overflow are refused elsewhere
            mass = longest * self._column("mass")
            rounding: FloatArray = rounding_of_sums(self.roundoff, longest, squares, largest, mass, n_support)
        return rounding

    @lazy_property
    def _rounding(self) -> FloatArray:
        """How far decision values of each problem may be off, once there are no more to come."""
        firsts = np.array(self.problems.edges[: len(self.numbers)], dtype=np.int64)
        known = self.problems.whole.linear[: self.problems.edges[len(self.numbers)]]
        linear = np.maximum.reduceat(np.abs(known), firsts)
        return self._value_rounding + rounding_of_offsets(linear, linear)

    def finished(self) -> list[bool]:
        """Return which of the problems solved so far need no other solver to go on."""
        finished: list[bool] = self.proved.tolist()
        for number in (self.numbers[:, 0] == BLOCK_LIMIT).nonzero()[0].tolist():
            stopped = self.numbers[number, 1] == self.limits.max_iter
            finished[number] = stopped or (finished[number] and self.problems.sizes[number] > self.matrix_sizes[0])
        return finished

    @lazy_property
    def proved(self) -> npt.NDArray[np.bool_]:
        """Which of those begun are proved to be solved, once there are no more to come."""
        tol = self.limits.tol
        if self.limits.tol_gap is not None or len(self.numbers) == 1:
            begun = len(self.numbers) if self.n_begun is None else self.n_begun
            optimal = (self.solution(number).status is Status.OPTIMAL for number in range(begun))
            return np.fromiter(optimal, dtype=np.bool_)
        excess, feasible = self._column("excess"), is_feasible(self._column("infeasibility"), self._column("mass"))
        proved: npt.NDArray[np.bool_] = feasible & (excess <= tol) & is_certain(excess, self._rounding, tol)
        return proved

    def progress(self, number: int) -> Progress:
        """Return what there is to tell of a problem that has been solved."""
        found = dict(zip(_COLUMNS, self.numbers[number].tolist(), strict=True))
        violation, dual = max(0.0, found["excess"]), -0.5 * (found["quadratic"] + found["linear"])
        return Progress(found["seconds"], int(found["n_iter"]), violation, dual, self.limits.tol)

    def solution(self, number: int) -> Solution:
        """Return the solution of a problem that has been solved, and its certificate."""
        return self._only if len(self.problems) == 1 else self._solution(number)

    @lazy_property
    def _only(self) -> Solution:
        return self._solution(0)

    def _solution(self, number: int) -> Solution:
        end, n_iter, n_values, seconds, *_, multiplier, primal = self.numbers[number, :9].tolist()
        conditions = self.numbers[number, 9:-1].tolist()
        problem, limits, variables = self.problems[number], self.limits, self.problems.variables(number)
        beta, values = self.beta[variables], self.values[variables]
        evaluation = Evaluation.of(
            problem,
            values,
            problem.linear,
            np.array([multiplier]),
            Conditions(*conditions[:-2], *map(int, conditions[-2:])),
            float(self._value_rounding[number]),
            primal=primal,
        )
        ended = Status.STALLED if self.n_begun is None or number < self.n_begun else self.ended
        ended = conclude(ended, problem, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=True)
        if n_iter == limits.max_iter and end == BLOCK_LIMIT:
            ended = Status.MAX_ITER
        about = self.about
        if len(self.problems) > 1 or len(self.part_starts) > 2:  # of other rows than all parts have
            about = replace(about, problem=problem, beta=beta, idx=self._rows_of(number))
        return Solution.evaluated(
            about,
            evaluation,
            ended,
            limits=limits,
            solver=WorkingSetSolver.name,
            reason=self._reason(problem.n),
            n_iter=int(n_iter),
            seconds=seconds,
            n_kernel_values=int(n_values),
            peak_memory_bytes=self.held_bytes + STATE_ARRAYS * beta.nbytes,
        )

    def _reason(self, n: int) -> str:
        most_exact, in_double, whole = self.matrix_sizes
        most = SMALL_PROBLEM if whole == WHOLE_PROBLEM else SMALL_AMONG_MANY
        way = "by working sets" if n > whole else "all variables at once"
        first = ", in single precision first" if in_double < n <= whole else ""
        exact = ", exact Newton steps at the end" if n <= most_exact else ""
        return f"n = {n} <= {most}: in native calls, {way}{first}{exact}"

    def _rows_of(self, number: int) -> IndexArray:
        rows, starts = self.about.idx, self.part_starts
        assert rows is not None
        first, second = self.pairs[number].tolist()
        own = rows[starts[first] : starts[first + 1]]
        return own if second < 0 else np.concatenate([own, rows[starts[second] : starts[second + 1]]])


def _count_shared(counts: list[int], pairs: IndexArray) -> IndexArray:
    """Kernel values within parts, counted for the first problem that has the part."""
    parts, order = pairs.ravel(), np.arange(pairs.size)
    first = np.empty(len(counts) + 1, dtype=np.int64)
    first[parts[::-1]] = order[::-1]  # the last to be written stays
    own = np.square([*counts, 0])[parts] * (first[parts] == order)  # 0 where there is no second part
    n_values: IndexArray = own.reshape(pairs.shape).sum(axis=1)
    return n_values
