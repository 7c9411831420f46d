"""The exact machine of one cell: its training, and its place among the machines of all classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mercer import problems
from mercer._typing import FloatArray, IndexArray
from mercer.approximate.median_tree import Cell
from mercer.approximate.task import Task
from mercer.certificates.approximation import feasible_point
from mercer.certificates.certificate import Certificate
from mercer.certificates.evaluation import at_bias, evaluate
from mercer.certificates.quadratic import QuadraticEvidence
from mercer.certificates.solution import Limits, Solution, Solutions
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.gram import CachePolicy, Gram
from mercer.multiclass.coefficients import Coefficients, columns_of
from mercer.multiclass.decision import decision_values
from mercer.multiclass.pairs import class_pairs
from mercer.multiclass.training import Machines, Tasks, make_tasks
from mercer.problems import Problems
from mercer.solvers import Control, Interruption, solve_each
from mercer.solvers.dual.states import PointsOf
from mercer.specs import ForSVC

_ONE_STATE = 8000  # rows of a cell up to which it is written when it is finished; larger ones write points on the way
_COARSE_ROWS = 256  # rows of the machine of a cell for which no time was left; they take about a millisecond


class Points(Protocol):
    """The dual point of all machines of a cell, one after the other, that an earlier fit has reached."""

    def load(self) -> FloatArray | None:
        """Return the point, if there is one."""

    def store(self, beta: FloatArray) -> None:
        """Store the point of a cell that is finished."""


class Columns(NamedTuple):
    """Which columns of decision values the machines of a cell fill, and the values of the other columns.

    Attributes
    ----------
    filled : ndarray of int64
        Columns among those of the whole task.
    machines : ndarray of int64
        The machine of the cell that fills each of them.
    signs : ndarray
        1.0 or -1.0, by which the machine's values are multiplied.
    constants : ndarray of shape (n_machines,)
        The value of every column that is not filled.
    """

    filled: IndexArray
    machines: IndexArray
    signs: FloatArray
    constants: FloatArray

    @classmethod
    def of_one(cls) -> Columns:
        """Return the single column of a machine without classes."""
        return cls(np.array([0]), np.array([0]), np.ones(1), np.zeros(1))

    @classmethod
    def of(cls, n_classes: int, scheme: str, classes: IndexArray) -> Columns:
        """Return the columns that the machines of these classes fill, of all `n_classes` classes.

        The machine of a class with rows in the cell and a class without is constant, 1 in favour of the first; that of
        two classes without rows is 0.
        """
        present = np.zeros(n_classes)
        present[classes] = 1.0
        by_pairs = scheme == "ovo" or n_classes == 2
        if n_classes == 2:
            constants = np.array([present[1] - present[0]])
            pairs = np.array([[0, 1]])
        elif by_pairs:
            pairs = class_pairs(n_classes)
            constants = present[pairs[:, 0]] - present[pairs[:, 1]]
        else:
            constants = np.where(present > 0.0, 1.0, -1.0)
        if classes.size == 1:
            return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), constants)
        if by_pairs:
            filled = np.flatnonzero((present[pairs] > 0.0).all(axis=1))
            # A machine for two classes is positive for the second one, and a machine of a pair for the first one.
            sign = -1.0 if classes.size == 2 and n_classes > 2 else 1.0
            return cls(filled, np.arange(filled.size), np.full(filled.size, sign), constants)
        if classes.size == 2:
            return cls(classes, np.zeros(2, dtype=np.int64), np.array([-1.0, 1.0]), constants)
        return cls(classes, np.arange(classes.size), np.ones(classes.size), constants)


@dataclass(frozen=True, eq=False)
class CellMachine:
    """The machine of one cell.

    Attributes
    ----------
    cell : Cell
        The rows of the cell, by their positions among the rows of the whole task.
    classes : ndarray of int64
        The classes that have rows in the cell; empty without classes.
    support : Data
        The support vectors.
    rows : ndarray of int64 of shape (n_SV,)
        Their positions among the rows of the whole task.
    codes : ndarray of int64 of shape (n_SV,)
        Their classes; 0 without classes.
    coefficients : ndarray of shape (n_SV, t), or PairCoefficients
        For the t machines of the classes that have rows in the cell.
    biases : ndarray of shape (t,)
    columns : Columns
    certificates : list of Certificate
        One for each of the t machines.
    """

    cell: Cell
    classes: IndexArray
    support: Data
    rows: IndexArray
    codes: IndexArray
    coefficients: Coefficients
    biases: FloatArray
    columns: Columns
    certificates: Sequence[Certificate]

    @property
    def is_home(self) -> npt.NDArray[np.bool_]:
        """Whether the support vectors have their home in this cell, (n_SV,)."""
        return self.cell.is_home[np.searchsorted(self.cell.rows, self.rows)]

    @property
    def statuses(self) -> set[Status]:
        """How the machines ended."""
        return {one.status for one in self.certificates}

    def values(self, task_kernel: object, data: Data, n_jobs: int | None = None) -> FloatArray:
        """Return the decision values of rows with biases, in the columns of the whole task, (m, n_machines)."""
        columns = self.columns
        raw = np.tile(columns.constants, (data.n, 1))
        if columns.filled.size:
            values = decision_values(task_kernel, data, self.support, self.coefficients, self.biases, n_jobs=n_jobs)  # type: ignore[arg-type]
            raw[:, columns.filled] = values[:, columns.machines] * columns.signs
        return raw

    def home_coefficients(self) -> dict[int, tuple[IndexArray, FloatArray]]:
        """Return the rows with their home in the cell, and their coefficients, by the columns of the whole task."""
        machines = list(columns_of(self.coefficients)) if self.columns.filled.size else []
        is_home, by_column = self.is_home, {}
        for column, machine, sign in zip(
            self.columns.filled.tolist(), self.columns.machines.tolist(), self.columns.signs.tolist(), strict=True
        ):
            vectors, values = machines[machine]
            home = is_home[vectors]
            by_column[column] = self.rows[vectors[home]], sign * values[home]
        return by_column


def train_cell(
    task: Task, positions: IndexArray, is_home: np.ndarray, control: Control, points: Points | None = None
) -> CellMachine:
    """Train the exact machine of the rows of a cell, which stand at these positions of the task.

    If the time of `control` is over, the machine is one of at most 256 of the rows; its certificate is that of this
    machine in the problem of all rows of the cell, so that it says how far the machine is from the optimum.
    """
    local = _LocalTask.of(task, positions)
    if control.interruption.requested or control.limits.max_seconds == 0.0:
        solutions = local.coarse(replace(control, checkpoint=None))
    else:
        solutions = local.solve_or_load(control, points)
    support, coefficients = local.support(solutions)
    codes = (task.targets if task.n_classes else np.zeros(task.n))[positions].astype(np.int64)
    return CellMachine(
        Cell(positions, is_home),
        np.unique(codes) if task.n_classes else codes[:0],
        task.data.rows(task.rows[positions[support]]),
        positions[support],
        codes[support],
        coefficients,
        solutions.biases,
        local.columns,
        _certificates(solutions, task, positions, control.interruption),
    )


def _certificates(
    solutions: Solutions, task: Task, positions: IndexArray, interruption: Interruption
) -> list[Certificate]:
    """Return the certificates, whose evidence refers to all rows of the task instead of to a copy of some.

    After a stop, they state objectives to within `objective_error`: more digits take time.
    """
    if interruption.requested or any(one.status is Status.TIME_LIMIT for one in solutions):
        complete = [one.certificate if one.certified is None else one.certified for one in solutions]
    else:
        complete = list(solutions.certificate.parts or (solutions.certificate,))
    certificates = []
    for one in complete:
        evidence = one.evidence
        if isinstance(evidence, QuadraticEvidence):
            at = evidence.idx
            if evidence.data is not task.data:  # a copy of the rows of the cell
                at = task.rows[positions] if at is None else task.rows[positions][at]
            evidence = replace(
                evidence, data=task.data, idx=at, backend=None, n_jobs=task.n_jobs, memory_limit=task.memory_limit
            )
        certificates.append(replace(one, evidence=evidence))
    return certificates


class _LocalTask:
    """The problems of a cell, on a copy of its rows; of a cell of all rows, on the rows themselves.

    A copy takes memory for one cell at a time, and its rows are evaluated faster than rows that are far apart.
    """

    def __init__(self, task: Task, positions: IndexArray, targets: FloatArray | IndexArray, columns: Columns) -> None:
        self.task, self.positions, self.targets, self.columns = task, positions, targets, columns
        self.n = positions.size
        self.n_classes = int(targets.max()) + 1 if task.n_classes else 0
        self.tasks: Tasks | None = None
        is_all = self.n == task.n
        gram = Gram(
            task.kernel,
            task.data if is_all else task.data.rows(task.rows[positions]),
            memory_limit=task.memory_limit,
            n_jobs=task.n_jobs,
            cache_policy=CachePolicy.NON_NATIVE if self.n_classes > 2 else CachePolicy.NONE,
        )
        self.gram = gram.restrict(task.rows) if is_all and task.n < task.data.n else gram
        penalties = task.penalties[positions]
        if not task.n_classes:
            problem = task.spec.problem(targets.astype(np.float64, copy=False), penalties, self.gram)
            self.problems = Problems(problem, [problem.n])
            self.parts, self.pairs = [np.arange(self.n)], np.array([[0, -1]])
            return
        assert isinstance(task.spec, ForSVC)
        duals = partial(problems.c_svc_each, squared=task.spec.squared, bias=task.spec.bias)
        if self.n_classes == 1:  # the machine is its bias, 1
            self.problems = problems.c_svc_each(np.ones(self.n), penalties, [self.n], one_sided=True)
            self.parts, self.pairs = [np.arange(self.n)], np.array([[0, -1]])
            return
        self.tasks = make_tasks(targets, self.n_classes, task.scheme)  # type: ignore[arg-type]
        self.problems = duals(self.tasks.signs, penalties[self.tasks.rows], self.tasks.sizes)
        self.parts, self.pairs = self.tasks.parts, self.tasks.pairs

    @classmethod
    def of(cls, task: Task, positions: IndexArray) -> _LocalTask:
        """Return the problems of some rows of the task; classes without a row are left out."""
        targets = task.targets[positions]
        if task.n_classes:
            classes, targets = np.unique(targets.astype(np.int64), return_inverse=True)
            columns = Columns.of(task.n_classes, task.scheme, classes)
        else:
            columns = Columns.of_one()
        return cls(task, positions, targets, columns)

    def solve(self, control: Control, starts: list[FloatArray] | None = None) -> Solutions:
        """Solve and certify the problems of all rows of the cell."""
        gram, stacked = self.gram, self.problems.stacked
        if len(self.problems) == 1 and stacked.rows is not None:
            gram = gram.restrict(stacked.rows)
        return solve_each(
            self.problems,
            gram,
            self.parts if stacked.rows is None else [np.arange(gram.n)],
            self.pairs[: len(self.problems)],
            control=control,
            starts=starts,
        )

    def solve_or_load(self, control: Control, points: Points | None = None) -> Solutions:
        """Solve the problems, from the points that are given or in the checkpoint if there are any."""
        if points is None and (control.checkpoint is None or self.n > _ONE_STATE):
            return self.solve(control)
        ends = np.cumsum([problem.n for problem in self.problems])
        points = PointsOf(control.checkpoint, 0, int(ends[-1])) if points is None else points
        reached = points.load()
        if reached is not None and reached.size != ends[-1]:
            reached = None
        starts = None if reached is None else np.split(reached, ends[:-1])
        solutions = self.solve(replace(control, checkpoint=None), starts)
        if reached is None and not {one.status for one in solutions} & {Status.TIME_LIMIT, Status.INTERRUPTED}:
            points.store(np.concatenate([one.beta for one in solutions]))
        return solutions

    def coarse(self, control: Control) -> Solutions:
        """Return solutions for a few of the rows, certified in the problems of all rows of the cell."""
        step = -(-self.n // _COARSE_ROWS)
        order = np.argsort(self.targets, kind="stable") if self.n_classes else np.arange(self.n)
        chosen = np.sort(order[::step])
        if self.n_classes:  # a class of fewer rows than a step has one
            chosen = np.union1d(chosen, np.unique(self.targets, return_index=True)[1])
        part = _LocalTask(self.task, self.positions[chosen], self.targets[chosen], self.columns)
        few = part.solve(Control(Limits(control.limits.tol), interruption=Interruption()))
        ended = Status.INTERRUPTED if control.interruption.requested else Status.TIME_LIMIT
        return Solutions.of([self.in_all_rows(k, one, part, chosen, ended) for k, one in enumerate(few)])

    def in_all_rows(
        self, number: int, solution: Solution, part: _LocalTask, chosen: IndexArray, ended: Status
    ) -> Solution:
        """Return a solution of a problem of the `chosen` rows in that of all rows, certified at the bias it has."""
        problem, gram, dense = self.problems[number], self.gram, np.zeros(self.n)
        if self.tasks is None or part.tasks is None:
            dense[chosen] = part.problems[0].coefficients(solution.beta)
            beta = feasible_point(problem, dense)
        else:
            dense[chosen[part.tasks[number].rows]] = solution.beta
            beta = dense[self.tasks[number].rows]
        rows = problem.rows if self.tasks is None else self.tasks[number].rows
        gram = gram if rows is None or rows.size == self.n else gram.restrict(rows)
        evidence = QuadraticEvidence.of(problem, gram, beta, convex=gram.is_convex)
        evaluation = evaluate(problem, gram, beta)
        if problem.n_groups:
            evidence = replace(evidence, bias=solution.bias)
            evaluation = at_bias(solution.bias, evaluation, problem, gram, beta)
        about = {"beta": beta, "ended": ended, "evidence": evidence, "known_products": None, "certified": None}
        return replace(solution, **about).certify(evaluation)  # type: ignore[arg-type]

    def support(self, solutions: Solutions) -> tuple[IndexArray, Coefficients]:
        """Return the rows with a coefficient in the cell, and these coefficients."""
        if self.tasks is not None:
            machines = Machines(self.task.scheme, self.n_classes, self.tasks, solutions, self.n)
            return machines.support(self.targets)  # type: ignore[arg-type]
        coefficients = self.problems[0].coefficients(solutions[0].beta)
        used = np.flatnonzero(coefficients)
        return used, coefficients[used, None]
