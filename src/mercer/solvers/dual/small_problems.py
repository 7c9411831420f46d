"""The solver of small problems: each native call solves and evaluates many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import isqrt
from typing import final

import numpy as np
import numpy.typing as npt

from mercer._core import BLOCK_LIMIT, MachineLimits, MachineParts, MachineVariables, machines_workspace, solve_machines
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, relative_gap, worst_status
from mercer.certificates.evaluation import Conditions, Evaluation, conditions_of
from mercer.certificates.quadratic import QuadraticEvidence, conclude
from mercer.certificates.roundoff import (
    is_certain,
    is_feasible,
    rounding_of_dual,
    rounding_of_objectives,
    rounding_of_offsets,
    rounding_of_sums,
)
from mercer.certificates.solution import Limits, Solution, Solutions
from mercer.certificates.status import Status
from mercer.data.lazy import lazy_property
from mercer.gram import STATE_ARRAYS, Gram
from mercer.gram.backends import Tiles, threads_that_pay
from mercer.kernels.kernel import finite
from mercer.problems import Hinge, Problems
from mercer.solvers.dual.block import newton_bytes
from mercer.solvers.dual.working_set import WorkingSetSolver
from mercer.solvers.dual.working_set_sizes import EXACT_PROBLEM, WHOLE_PROBLEM, c_times_kmax_of_each, exact_variables
from mercer.solvers.solver import Progress

SMALL_PROBLEM, SMALL_AMONG_MANY = WHOLE_PROBLEM, 2560
"""Largest number of variables of a problem that this solver takes: of a single problem, whose working set has all
variables; and of one among several, where each thread solves its own problem and shared kernel values are evaluated
once."""

_DOUBLE_ALONE = 640  # variables of a single problem; its matrix in double precision fits the processor's cache
# Values of C k(x, x): up to the first, a single problem needs few steps; above the second, steps can diverge.
_FEW_STEPS, _MANY_STEPS = 10.0, 300.0
_ALWAYS = 512  # variables; their matrix fits any memory limit
_SHARED_BYTES = 256 << 20  # bytes; largest shared matrices, because writing to new memory is slow
_VALUE_WORK = 3e7  # variables that solver steps read in the time of one native call for kernel values
_WORK_LIMIT = 5e7  # variables read in one native call, so that Ctrl-C takes effect soon; the last problem may add more
_WHOLE_MATRIX = 1024  # variables; above, working sets are faster, because they need only rows of moved variables
_TWO_THREADS = 500  # variables in all problems; with fewer, starting a second thread takes longer than solving them


def takes_kernel(gram: Gram) -> bool:
    """Whether :class:`SmallProblems` can use this Gram matrix: of a convex kernel with native code."""
    # A kernel that loses digits is excluded, because the native call derives the rounding error from the matrix alone.
    return gram.kernel.is_psd is True and not gram.kernel.loses_digits and gram.tiles is not None


def are_small(problems: Problems, gram: Gram) -> npt.NDArray[np.bool_]:
    """Return which problems :class:`SmallProblems` can solve: those with few variables in one group."""
    stacked = problems.stacked
    if stacked.ridge is not None or stacked.n_groups != 1 or stacked.n_outputs != 1 or not stacked.loss.charges_by_box:
        return np.zeros(len(problems), dtype=bool)
    most = min(
        SMALL_AMONG_MANY if len(problems) > 1 else SMALL_PROBLEM,
        max(_ALWAYS, isqrt(gram.room // 24)),  # a problem needs at most 14 to 20 n^2 bytes
        isqrt(gram.values_per_call // 2),  # so that Ctrl-C does not wait for the kernel values of long rows
    )
    small: npt.NDArray[np.bool_] = (problems.sizes <= most) & (problems.sizes > 0)
    if len(problems) == 1 and stacked.n > _DOUBLE_ALONE and small[0]:
        small[0] = c_times_kmax_of_each(problems, gram)[0] <= _MANY_STEPS
    return small


def _matrix_sizes(problems: Problems, gram: Gram, *, alone: bool) -> tuple[int, int, int]:
    """Return the largest problems solved to rounding, started in double precision, and solved with a whole matrix."""
    exact = exact_variables(problems.stacked)
    if not alone:
        return exact, _WHOLE_MATRIX, _WHOLE_MATRIX
    in_double = (
        problems.stacked.n <= EXACT_PROBLEM or not _FEW_STEPS < c_times_kmax_of_each(problems, gram)[0] <= _MANY_STEPS
    )
    return exact, _DOUBLE_ALONE if in_double else EXACT_PROBLEM, WHOLE_PROBLEM


@final
class SmallProblems:
    """Solver of problems on parts of one Gram matrix, which runs in native threads.

    It makes SMO and Newton steps, as :class:`mercer.solvers.dual.working_set.WorkingSetSolver` does. For a single
    problem it uses the whole matrix: in double precision up to 640 variables, else in single precision. If many steps
    are expected (C k(x, x) from 10 to 300), it uses single precision from 300 variables on. The exact values of K beta
    then come from tiles; if the problem is solved to the rounding error, they come from the matrix in double precision.

    For several problems it uses the whole matrix in double precision up to 1,024 variables, and working sets above. The
    matrices within parts and between two parts are evaluated once and shared. Class pairs thus evaluate one Gram matrix
    in total, unless some problem is larger and kernel values are cheap. Objectives and optimality conditions come from
    a new product of the matrix and the final point, independent of the sums that the steps maintain.

    Parameters
    ----------
    gram : Gram
    parts : sequence of ndarray of int64
        Rows of `gram`.
    pairs : ndarray of int64 of shape (n_problems, 2)
        The two parts whose rows are the variables of each problem; the second is -1 if the problem has only one part.
    problems : Problems
        Small problems (:func:`are_small`).
    starts : sequence of ndarray or None
        Starting point of each problem; None means `problem.start`.
    limits : Limits
        `max_iter` applies to each problem. The caller checks the time limit.
    alone : bool
        Whether there is only one problem in total; False if larger problems go to other solvers.

    Attributes
    ----------
    solved : Solved
        Results so far.
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
        # Working sets of two parts need few of the values within each part. Sharing all of them is faster only if the
        # kernel is expensive.
        shares = len(problems) > 1 and (
            gram.kernel_is_expensive or not (some_large and (large & (pairs[:, 1] >= 0)).any())
        )
        shares = shares and 8 * squares <= min(_SHARED_BYTES, gram.room // 2)
        shares = shares and squares <= 2 * gram.values_per_call  # all shared values are evaluated in one call
        self._shared_size = squares if shares else 0
        self._content = object()  # identifies the content of the memory; `self` would make a reference cycle
        beta = problems.stacked.start.copy()
        for number, start in enumerate(starts):
            if start is not None:
                beta[problems.variables(number)] = problems[number].make_feasible(start)
        self.solved = Solved(
            problems,
            limits,
            QuadraticEvidence.of(problems.stacked, gram, beta, convex=True, idx=gram.origin_rows(chosen)),
            self._part_starts,
            pairs,
            _count_shared(counts, pairs) if shares else np.zeros(len(pairs), dtype=np.int64),
            beta,
            np.empty_like(beta),
            gram.roundoff,
            sizes,
        )

    def solve(self, stop: Callable[[], bool] | None = None) -> int:
        """Solve the next problems in one native call, and return their number.

        A single problem that starts in single precision may take longer, and calls `stop` from time to time.
        """
        gram, limits, solved = self._gram, self._limits, self.solved
        problems, first = solved.problems, len(solved.numbers)
        variables = slice(problems.edges[first], None)
        tiles, stacked = gram.tiles, problems.stacked
        assert tiles is not None
        n_threads = self._n_threads(tiles) if stacked.n - problems.edges[first] >= _TWO_THREADS else 1
        workspace, shared, filled = self._memory(n_threads)
        exact_size, double_size, whole_size = solved.matrix_sizes
        assert solved.about.idx is not None
        numbers = solve_machines(
            tiles.isa,
            tiles.kernel,
            tiles.table,
            centre=tiles.centre,
            parts=MachineParts(
                rows=solved.about.idx,
                part_starts=self._part_starts,
                pairs=solved.pairs[first:],
                diagonal=self._diagonal,
                shared=shared,
                fill_shared=not filled,
            ),
            variables=MachineVariables(
                start=stacked.start[variables],
                linear=stacked.linear[variables],
                lower=stacked.lower[variables],
                upper=stacked.upper[variables],
                beta=solved.beta[variables],
                values=solved.values[variables],
            ),
            limits=MachineLimits(
                grouped=True,
                tol=limits.tol,
                max_iter=limits.max_iter,
                exact_size=exact_size,
                double_size=double_size,
                whole_size=whole_size,
                value_work=_VALUE_WORK / gram.values_per_call,
                work_limit=_WORK_LIMIT,
            ),
            workspace=workspace,
            n_threads=n_threads,
            stop=stop,
        )
        last = first + len(numbers)
        finite(gram.kernel, solved.values[problems.edges[first] : problems.edges[last]])
        if self._shared_size:
            numbers[:, 2] += solved.n_shared[first:last]
        gram.count(int(numbers[:, 2].sum()))
        solved.numbers = np.concatenate([solved.numbers, numbers]) if first else numbers
        solved.memory_bytes = gram.peak_bytes + gram.arena.nbytes
        if (newton_free := int(numbers[-1, -1])) > 0:
            solved.memory_bytes += newton_bytes(newton_free, int(problems.sizes[last - 1]), single=True)
        return len(numbers)

    def _n_threads(self, tiles: Tiles) -> int:
        """Return the number of threads, limited by memory for one matrix each; results do not depend on it."""
        pairs = self.solved.pairs
        if len(pairs) == 1:  # threads share mainly the evaluation of its matrix
            n_values = self.solved.problems.stacked.n**2
            return threads_that_pay(n_values, tiles.one_thread_values, self._gram.n_threads)
        one = 8 * (self._workspace(2) - self._workspace(1))
        room = (self._gram.room - 8 * self._shared_size) // max(1, one)
        return max(1, min(self._gram.n_threads, room))

    def _workspace(self, n_threads: int) -> int:
        return machines_workspace(self._part_starts, self.solved.pairs, *self.solved.matrix_sizes, n_threads)

    def _memory(self, n_threads: int) -> tuple[FloatArray, FloatArray | None, bool]:
        """Return the workspace, the memory of the shared matrices or None, and whether these have been evaluated."""
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
    """Results of the native calls for small problems, as arrays; solutions and certificates are made on demand.

    Attributes
    ----------
    problems : Problems
    limits : Limits
    about : QuadraticEvidence
        QuadraticEvidence of all problems together; `idx` are the rows of all parts.
    part_starts, pairs : ndarray of int64
        First row of each part, and the two parts of each problem.
    n_shared : ndarray of int64
        Number of shared kernel values that are counted for each problem: the first problem that uses them.
    beta, values : ndarray
        The points of all problems, and K times each of them.
    roundoff : float
        Relative rounding error of kernel values, in units of float64.
    matrix_sizes : tuple of three int
        See :func:`_matrix_sizes`.
    numbers : ndarray of shape (n_solved, 17)
        One row for each problem with the columns `_COLUMNS`; see native/bindings/qp_batch_module.cpp.
    memory_bytes : int
        Peak memory for kernel values.
    n_begun : int, optional
        Set by :meth:`leave`: problems from this one on stay at their starting points, because the work had `ended`.
    """

    problems: Problems
    limits: Limits
    about: QuadraticEvidence
    part_starts: IndexArray
    pairs: IndexArray
    n_shared: IndexArray
    beta: FloatArray
    values: FloatArray
    roundoff: float
    matrix_sizes: tuple[int, int, int]
    numbers: FloatArray = field(default_factory=lambda: np.empty((0, 17)))
    memory_bytes: int = 0
    n_begun: int | None = None
    ended: Status = Status.STALLED

    def leave(self, first: int, ended: Status) -> bool:
        """Give the problems from `first` on the result of their starting points, if one formula holds for all of them.

        It does for C-SVC: at 0 the gradients are -1 and +1, so that all problems have the same violation and bias, and
        their primal objectives follow from the penalties. Hundreds of thousands of problems then need no evaluation.
        Returns whether this was possible.
        """
        problems, edges = self.problems, self.problems.edges
        stacked, rest = problems.stacked, slice(edges[first], None)
        sizes, linear = problems.sizes[first:], stacked.linear[rest]
        if not isinstance(stacked.loss, Hinge) or stacked.start[rest].any() or (np.abs(linear) != 1.0).any():
            return False
        starts = sizes.cumsum() - sizes
        if (np.abs(np.add.reduceat(linear, starts)) == sizes).any():  # one class has no rows yet
            return False
        multipliers, conditions = conditions_of(problems[first], np.zeros(sizes[0]), np.zeros(sizes[0]))
        if self.limits.tol_gap is not None and conditions.excess <= self.limits.tol:
            return False  # the gaps decide, and they differ between problems
        charges = stacked.loss.C[rest] * stacked.loss.part(rest).slacks(np.full(linear.size, -multipliers[0]))
        left = np.zeros((sizes.size, len(_COLUMNS)))
        for name, value in (
            ("end", -1.0),
            ("multiplier", multipliers[0]),
            ("primal", np.add.reduceat(charges, starts)),
            ("infeasibility", conditions.infeasibility),
            ("excess", conditions.excess),
        ):
            left[:, _COLUMNS.index(name)] = value
        self.beta[rest] = self.values[rest] = 0.0
        self.numbers = np.concatenate([self.numbers[:first], left])
        self.n_begun, self.ended = first, ended
        for name in ("proved", "_rounding", "_value_rounding"):
            self.__dict__.pop(name, None)
        return True

    def solutions(self) -> Solutions:
        """Return the solutions of all problems."""
        begun = len(self.numbers) if self.n_begun is None else self.n_begun
        statuses = [
            Status.OPTIMAL if proved else self.solution(number).status
            for number, proved in enumerate(self.proved[:begun].tolist())
        ]
        if begun < len(self.numbers):
            statuses += [self.solution(begun).status] * (len(self.numbers) - begun)
        n_iter = self.numbers[:, 1].astype(np.int64)
        return Solutions(
            self.beta, -self.numbers[:, 7], n_iter, statuses, self.solution, combined=partial(self._combined, statuses)
        )

    def _combined(self, statuses: list[Status], parts: Sequence[Certificate]) -> Certificate:
        """Return the common certificate of all problems; `parts` are their own certificates."""
        total = dict(zip(_COLUMNS, self.numbers.sum(axis=0).tolist(), strict=True))
        most = dict(zip(_COLUMNS, self.numbers.max(axis=0).tolist(), strict=True))
        rounding, dual = self._objective_rounding(), -0.5 * (self._column("quadratic") + self._column("linear"))
        lengths = np.sqrt(np.add.reduceat(np.square(self.beta), self.problems.edges[:-1]))
        dual -= rounding_of_dual(self._rounding, lengths, dual, self.problems.sizes)
        n_free, n_bounded = int(total["n_free"]), int(total["n_bounded"])
        # Summed in order, so that the result equals the sum over the parts.
        primal_sum, dual_sum = sum(self._column("primal").tolist()), sum(dual.tolist())
        return Certificate(
            status=worst_status(statuses),
            primal=primal_sum,
            dual=dual_sum,
            gap=primal_sum - dual_sum,
            relative_gap=relative_gap(primal_sum, dual_sum),
            kkt_violation=max(0.0, most["excess"]),
            gradient_violation=None,
            dual_infeasibility=most["infeasibility"],
            rounding=sum(rounding.tolist()),
            decision_error=float(self._rounding.max()),
            n_support=n_free + n_bounded,
            n_free=n_free,
            n_bounded=n_bounded,
            n_iter=int(total["n_iter"]),
            n_kernel_values=int(total["n_values"]),
            seconds=sum(self._column("seconds").tolist()),
            peak_memory_bytes=self.memory_bytes + STATE_ARRAYS * self.beta.itemsize * int(self.problems.sizes.max()),
            tol=self.limits.tol,
            tol_gap=self.limits.tol_gap,
            parts=parts,
        )

    def _objective_rounding(self) -> FloatArray:
        """Return the rounding error of each problem's objectives; the slope of each loss is at most its bound."""
        stacked, sizes, starts = self.problems.stacked, self.problems.sizes, self.problems.edges[:-1]
        rounding = self._rounding
        decision = self.values - np.repeat(self._column("multiplier"), sizes)
        push, max_error = -(decision + stacked.linear), np.repeat(rounding, sizes)
        ends = (np.abs(np.where(push + step > 0.0, stacked.upper, stacked.lower)) for step in (max_error, -max_error))
        steepness = np.add.reduceat(np.maximum(*ends), starts)
        errors: FloatArray = rounding_of_objectives(
            rounding, self._column("mass"), steepness, self._column("primal"), sizes
        )
        return errors

    def _column(self, name: str) -> FloatArray:
        column: FloatArray = self.numbers[:, _COLUMNS.index(name)]
        return column

    @lazy_property
    def _value_rounding(self) -> FloatArray:
        """Rounding error of K beta of each problem; read it only after the last problem is solved."""
        longest, squares, largest = map(self._column, ("longest", "squares", "largest"))
        n_support = self._column("n_free") + self._column("n_bounded")
        with np.errstate(over="ignore", invalid="ignore"):  # kernel values that overflow are refused elsewhere
            mass = longest * self._column("mass")
            rounding: FloatArray = rounding_of_sums(self.roundoff, longest, squares, largest, mass, n_support)
        return rounding

    @lazy_property
    def _rounding(self) -> FloatArray:
        """Rounding error of decision values of each problem; read it only after the last problem is solved."""
        firsts = np.array(self.problems.edges[: len(self.numbers)], dtype=np.int64)
        linear_terms = self.problems.stacked.linear[: self.problems.edges[len(self.numbers)]]
        linear = np.maximum.reduceat(np.abs(linear_terms), firsts)
        return self._value_rounding + rounding_of_offsets(linear, linear)

    def finished(self) -> list[bool]:
        """Return for each problem so far whether it is finished, so that no other solver must continue."""
        finished: list[bool] = self.proved.tolist()
        for number in (self.numbers[:, 0] == BLOCK_LIMIT).nonzero()[0].tolist():
            stopped = self.numbers[number, 1] == self.limits.max_iter
            finished[number] = stopped or (finished[number] and self.problems.sizes[number] > self.matrix_sizes[0])
        return finished

    @lazy_property
    def proved(self) -> npt.NDArray[np.bool_]:
        """Which of the problems begun are proved optimal; read it only after the last problem is solved."""
        tol = self.limits.tol
        if self.limits.tol_gap is not None or len(self.numbers) == 1:
            begun = len(self.numbers) if self.n_begun is None else self.n_begun
            optimal = (self.solution(number).status is Status.OPTIMAL for number in range(begun))
            return np.fromiter(optimal, dtype=np.bool_)
        excess, feasible = self._column("excess"), is_feasible(self._column("infeasibility"), self._column("mass"))
        proved: npt.NDArray[np.bool_] = feasible & (excess <= tol) & is_certain(excess, self._rounding, tol)
        return proved

    def progress(self, number: int) -> Progress:
        """Return the progress report of a solved problem."""
        numbers = dict(zip(_COLUMNS, self.numbers[number].tolist(), strict=True))
        violation, dual = max(0.0, numbers["excess"]), -0.5 * (numbers["quadratic"] + numbers["linear"])
        return Progress(numbers["seconds"], int(numbers["n_iter"]), violation, dual, self.limits.tol)

    def solution(self, number: int) -> Solution:
        """Return the solution of a solved problem, with its certificate."""
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
            beta,
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
        if len(self.problems) > 1 or len(self.part_starts) > 2:  # the problem does not have the rows of all parts
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
            peak_memory_bytes=self.memory_bytes + STATE_ARRAYS * beta.nbytes,
        )

    def _reason(self, n: int) -> str:
        most_exact, in_double, n_full = self.matrix_sizes
        most = SMALL_PROBLEM if n_full == WHOLE_PROBLEM else SMALL_AMONG_MANY
        way = "by working sets" if n > n_full else "all variables at once"
        first = ", in single precision first" if in_double < n <= n_full else ""
        exact = ", exact Newton steps at the end" if n <= most_exact else ""
        return f"n = {n} <= {most}: in native calls, {way}{first}{exact}"

    def _rows_of(self, number: int) -> IndexArray:
        rows, starts = self.about.idx, self.part_starts
        assert rows is not None
        first, second = self.pairs[number].tolist()
        machine_rows = rows[starts[first] : starts[first + 1]]
        return machine_rows if second < 0 else np.concatenate([machine_rows, rows[starts[second] : starts[second + 1]]])


def _count_shared(counts: list[int], pairs: IndexArray) -> IndexArray:
    """Return the number of kernel values within parts, counted for the first problem that has the part."""
    parts, order = pairs.ravel(), np.arange(pairs.size)
    first = np.empty(len(counts) + 1, dtype=np.int64)
    first[parts[::-1]] = order[::-1]  # for repeated indices the last value written stays
    own_values = np.square([*counts, 0])[parts] * (first[parts] == order)  # 0 where there is no second part
    n_values: IndexArray = own_values.reshape(pairs.shape).sum(axis=1)
    return n_values
