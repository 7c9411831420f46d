"""Small problems, solved and evaluated by one native call, many at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from mercer._core import machines_workspace, solve_machines
from mercer.certificate import Conditions, Evaluation, Evidence, certify, conclude, rounding_error
from mercer.gram import Gram
from mercer.kernels.base import finite
from mercer.problems import Problem
from mercer.solution import Limits, Solution, TraceRow
from mercer.solvers.base import FloatArray, IndexArray
from mercer.solvers.batch_smo import EXACT_PROBLEM, WHOLE_PROBLEM, BatchSMO, all_at_once
from mercer.status import Status

SMALL_PROBLEM, SMALL_AMONG_MANY = 640, 2560
"""Up to so many variables: alone, where its matrix in double precision stays near the processor; among many, where each
thread has a problem of its own, and what they share is evaluated once."""

_ALWAYS = 512  # variables, whose matrix fits into any memory limit
_SHARED_BYTES = 256 << 20  # matrices that problems share; more would take too long to write to fresh memory
_STATE_ARRAYS = 12  # arrays of length n that problem, point and evaluation hold at a time
_VALUE_WORK = 3e7  # variables that steps look at in the time of a call for kernel values
_WORK_LIMIT = 1.5e7  # such variables in a native call: some 20 ms, and about as long again for the machine begun last
_TWO_THREADS = 500  # variables; a thread takes longer to start than fewer of them to solve
_LIMIT = 1  # mercer::BlockEnd


def takes_kernel(gram: Gram) -> bool:
    """Whether :class:`SmallProblems` takes problems on this matrix: of a convex kernel that runs natively."""
    # The native call knows the sizes of values by the matrix alone.
    return gram.kernel.is_psd is True and not gram.kernel.loses_digits and gram.tiles is not None


def is_small(problem: Problem, gram: Gram, *, alone: bool) -> bool:
    """Whether :class:`SmallProblems` takes it, if it takes the kernel: few variables in one group."""
    fits = 16 * problem.n**2 <= gram.memory_limit or problem.n <= _ALWAYS
    return (
        fits
        and problem.n <= (SMALL_PROBLEM if alone else SMALL_AMONG_MANY)
        and 2 * problem.n**2 <= gram.values_per_call  # or Ctrl-C would wait for its rows, which are long
        and problem.ridge is None
        and problem.groups is not None
        and problem.n_groups == 1
        and problem.n_outputs == 1
    )


class Piece(NamedTuple):
    """A problem on one part of the rows, or on two, one after the other."""

    problem: Problem
    parts: tuple[int, int]  # the second is -1 where there is one alone
    start: FloatArray | None


@final
class SmallProblems:
    """Problems on parts of one Gram matrix, solved by native threads without Python in between.

    Pair steps and exact Newton steps as in :class:`mercer.solvers.batch_smo.BatchSMO`, with the whole matrix of a
    problem in double precision. The matrices of parts, which several problems share, are evaluated once, and so are
    those between two parts: class pairs evaluate one Gram matrix in all. Objectives and conditions come from a product
    of the matrix and the final point, apart from what the steps have left behind.

    Parameters
    ----------
    gram : Gram
    parts : sequence of ndarray of int64
        Rows of `gram`.
    pieces : sequence of Piece
        The problems, each of them small (:func:`is_small`).
    limits : Limits
        `max_iter` is for each problem; seconds are the caller's to watch.
    """

    def __init__(self, gram: Gram, parts: Sequence[IndexArray], pieces: Sequence[Piece], limits: Limits) -> None:
        self._gram, self._pieces, self._limits = gram, pieces, limits
        self._rows = gram.origin_rows(np.concatenate(parts))
        self._part_starts = np.cumsum([0, *(part.size for part in parts)])
        self._starts = np.cumsum([0, *(piece.problem.n for piece in pieces)])
        self._pairs = np.array([piece.parts for piece in pieces], dtype=np.int64)
        problems = [piece.problem for piece in pieces]
        self._start = np.concatenate([problem.start for problem in problems])
        self._linear = np.concatenate([problem.linear for problem in problems])
        self._lower = np.concatenate([problem.lower for problem in problems])
        self._upper = np.concatenate([problem.upper for problem in problems])
        squares = int(np.square(np.diff(self._part_starts)).sum())
        shares = len(pieces) > 1 and 8 * squares <= min(_SHARED_BYTES, gram.memory_limit // 2)
        shares = shares and squares <= 2 * gram.values_per_call  # all in one call
        self._shared_size = squares if shares else 0
        self._counted: set[int] = set()
        self._content = object()  # not itself: memory in a cycle would not be free for the next fit

    def solve(self, first: int) -> list[tuple[Solution, bool]]:
        """Solve problems from this one on, as many as take some tens of milliseconds.

        Returns
        -------
        list of (Solution, bool)
            At least one, certified; and whether it is finished. If not, its point is where another solver may go on.
        """
        began = time.perf_counter()
        variables = slice(self._starts[first], None)
        beta, values = self._points(first), np.empty(self._starts[-1] - self._starts[first])
        results = self._run(first, variables, beta, values)
        finite(self._gram.kernel, values[: self._starts[first + len(results)] - self._starts[first]])
        share = (time.perf_counter() - began) / (sum(result[2] for result in results) or 1.0)  # several run at a time
        solutions, end = [], 0
        for piece, result in zip(self._pieces[first:], results, strict=False):
            start, end = end, end + piece.problem.n
            solutions.append(self._solution(piece, beta[start:end], values[start:end], share, *result))
        return solutions

    def _points(self, first: int) -> FloatArray:
        chosen = self._pieces[first:]
        return np.concatenate([p.start if given is None else p.make_feasible(given) for p, _, given in chosen])

    def _run(
        self, first: int, variables: slice, beta: FloatArray, values: FloatArray
    ) -> list[tuple[int, int, float, float, float, float, float, float, float, float, float, int, int]]:
        tiles, limits = self._gram.tiles, self._limits
        assert tiles is not None
        n_threads = self._n_threads() if beta.size >= _TWO_THREADS else 1
        workspace, shared, filled = self._memory(n_threads)
        return solve_machines(
            tiles.isa,
            tiles.kernel,
            tiles.table,
            tiles.centre,
            self._rows,
            self._part_starts,
            shared,
            not filled,
            self._pairs[first:],
            self._start[variables],
            self._linear[variables],
            self._lower[variables],
            self._upper[variables],
            beta,
            values,
            True,
            limits.tol,
            limits.max_iter,
            EXACT_PROBLEM,
            _VALUE_WORK / self._gram.values_per_call,
            _WORK_LIMIT,
            workspace,
            n_threads,
        )

    def _n_threads(self) -> int:
        """As many as there are, and as have room for a matrix each; that changes no result."""
        if len(self._pieces) == 1:
            return self._gram.n_threads
        one = 8 * (
            machines_workspace(self._part_starts, self._pairs, 2)
            - machines_workspace(self._part_starts, self._pairs, 1)
        )
        room = (self._gram.memory_limit - 8 * self._shared_size) // max(1, one)
        return max(1, min(self._gram.n_threads, room))

    def _memory(self, n_threads: int) -> tuple[FloatArray, FloatArray | None, bool]:
        """Memory to work in; that of the shared matrices, if there are any; and whether they have been evaluated."""
        arena, wanted = (
            self._gram.arena,
            self._shared_size + machines_workspace(self._part_starts, self._pairs, min(n_threads, len(self._pieces))),
        )
        filled = arena.holds(self._content)
        memory = (arena.again if filled else arena.array)(wanted, np.float64).astype(np.float64, copy=False)
        arena.declare(self._content)
        shared = memory[: self._shared_size] if self._shared_size else None
        return memory[self._shared_size :], shared, filled

    def _solution(
        self,
        piece: Piece,
        beta: FloatArray,
        values: FloatArray,
        share: float,
        end: int,
        n_iter: int,
        seconds: float,
        longest: float,
        squares: float,
        multiplier: float,
        *numbers: float,
    ) -> tuple[Solution, bool]:
        problem, gram, limits = piece.problem, self._gram, self._limits
        evaluation = Evaluation.of(
            problem,
            values,
            values + problem.linear,
            np.array([multiplier]),
            Conditions(*numbers),  # type: ignore[arg-type]
            rounding_error(gram, longest, squares, values),
        )
        ended = conclude(Status.STALLED, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=True)
        if n_iter == limits.max_iter and end == _LIMIT:
            ended = Status.MAX_ITER
        cut_short = end == _LIMIT and ended is not Status.MAX_ITER and problem.n <= EXACT_PROBLEM
        most = WHOLE_PROBLEM if problem.n <= WHOLE_PROBLEM else SMALL_AMONG_MANY
        effort = {
            "n_iter": n_iter,
            "seconds": share * seconds,
            "n_kernel_values": self._count(piece.parts),
            "peak_memory_bytes": gram.peak_bytes + gram.arena.nbytes + _STATE_ARRAYS * beta.nbytes,
        }
        evidence = Evidence.of(problem, gram, beta, convex=True, idx=self._rows_of(piece.parts))
        solution = Solution(
            beta=beta,
            bias=evaluation.bias,
            multipliers=evaluation.multipliers,
            ended=ended,
            trace=[TraceRow(share * seconds, n_iter, evaluation.violation, evaluation.dual)],
            solver=BatchSMO.name,
            reason=all_at_once(problem.n, most, convex=True),
            limits=limits,
            evidence=evidence,
            certified=certify(evidence, evaluation, ended, tol=limits.tol, tol_gap=limits.tol_gap, **effort),  # type: ignore[arg-type]
            **effort,  # type: ignore[arg-type]
        )
        return solution, ended is not Status.STALLED and not cut_short

    def _rows_of(self, parts: tuple[int, int]) -> IndexArray | None:
        if self._part_starts.size == 2:  # a part alone is the whole
            return self._gram.idx
        return np.concatenate([self._rows[self._part_starts[part] : self._part_starts[part + 1]] for part in parts])

    def _count(self, parts: tuple[int, int]) -> int:
        """Kernel values evaluated for a problem; those of a shared part are counted for the first one."""
        sizes = [int(self._part_starts[part + 1] - self._part_starts[part]) for part in parts if part >= 0]
        n_values = sizes[0] * sizes[1] if len(sizes) == 2 else 0
        for part, size in zip(parts, sizes, strict=False):
            if part not in self._counted:
                n_values += size * size
                if self._shared_size:
                    self._counted.add(part)
        self._gram.count(n_values)
        return n_values
