"""The claims of kernel machines on rows that are larger than memory: passes over the rows that are not in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.approximation import offset_error
from mercer.certificates.certificate import Certificate, Evidence, Numbers
from mercer.certificates.roundoff import is_certain, is_feasible, rounding_of
from mercer.certificates.solution import Solution
from mercer.certificates.status import Status
from mercer.data import Data, as_data
from mercer.gram import STATE_ARRAYS, Gram
from mercer.gram.backends import BlockBackend
from mercer.gram.rows import LinearRows
from mercer.kernels import Kernel
from mercer.multiclass.training import make_tasks
from mercer.problems import Problem, c_svc_each
from mercer.specs.quadratic import ForOneClassSVM, ForSVC, QuadraticSpec

_STATE_SHARE = 0.8  # of the solver's memory: for its arrays of all rows in memory; the rest is for kernel values
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class StreamedTask:
    """A kernel machine to train, and rows that are visited in blocks.

    Attributes
    ----------
    spec : QuadraticSpec
        `ForSVC` with a finite C, `ForSVR` or `ForOneClassSVM`.
    kernel : Kernel
        A positive semidefinite kernel of numbers, with numbers for all its parameters.
    rows : LinearRows
        All rows. Their labels are class numbers, or the targets of a regression.
    class_weight : ndarray of shape (n_classes,), optional
        None for a regression.
    scheme : {"ovo", "ovr"}
    memory : int
        Bytes for rows in memory, beside the blocks of `rows`.
    solver_memory : int
        Bytes for the solver.
    n_jobs : int, optional
    total_weight : float
        Sum of the weights of all rows, for `ForOneClassSVM`.
    """

    spec: QuadraticSpec
    kernel: Kernel
    rows: LinearRows
    class_weight: FloatArray | None
    scheme: str
    memory: int
    solver_memory: int
    n_jobs: int | None = None
    total_weight: float = 0.0

    @property
    def n_machines(self) -> int:
        """Number of decision values of a row."""
        n_classes = 0 if self.class_weight is None else self.class_weight.size
        if n_classes <= 2:
            return 1
        return n_classes * (n_classes - 1) // 2 if self.scheme == "ovo" else n_classes

    def machines(
        self, labels: FloatArray, weights: FloatArray, *, have_zeros: bool = False
    ) -> Iterator[tuple[IndexArray, Problem | None]]:
        """Return, for each machine, which of some rows are its own, and their dual problem; None without a row.

        The coefficients of all other rows are 0; or with `have_zeros` those of these rows, so that they sum to 0.
        """
        if isinstance(self.spec, ForOneClassSVM):  # whose sum of coefficients is a share of the weight of all rows
            share = 1.0 if have_zeros else min(1.0, self.spec.nu * self.total_weight / float(weights.sum()))
            of_rows = replace(self.spec, nu=share).problem(labels, weights, None)  # type: ignore[arg-type]
            yield np.arange(labels.size), replace(of_rows, start=np.zeros(of_rows.n)) if have_zeros else of_rows
            return
        if self.class_weight is None:
            yield np.arange(labels.size), self.spec.problem(labels, self.spec.C * weights, None)  # type: ignore[arg-type]
            return
        assert isinstance(self.spec, ForSVC)
        codes = labels.astype(np.int64)
        penalties = self.spec.C * self.class_weight[codes] * weights
        for one in make_tasks(codes, self.class_weight.size, self.scheme):
            about: dict[str, Any] = {"squared": self.spec.squared, "bias": self.spec.bias, "one_sided": True}
            problem = c_svc_each(one.signs, penalties[one.rows], [one.rows.size], **about)[0] if one.rows.size else None
            yield one.rows, problem

    def row_bytes(self, data: Data) -> float:
        """Return the bytes of a row in memory with its variables; twice the row, as rows are copied when some join."""
        per_row = data.nbytes / max(1, data.n)
        return 2.0 * per_row + 8.0 * (4 + 3 * self.n_machines * self.n_variables)

    @property
    def n_variables(self) -> int:
        """Number of variables of a row in a machine."""
        return 2 if getattr(self.spec, "is_two_sided", False) else 1

    def room(self, data: Data) -> int:
        """Return the number of rows that memory holds."""
        state = 8.0 * STATE_ARRAYS * self.n_variables
        by_solver = _STATE_SHARE * self.solver_memory / state
        return int(min(self.memory / self.row_bytes(data), by_solver))

    def in_memory(self, positions: IndexArray, data: Data, labels: FloatArray, weights: FloatArray) -> MemoryRows:
        """Return rows in memory whose variables are 0."""
        points = np.zeros((self.n_machines, self.n_variables, positions.size))
        return MemoryRows(positions, data, labels, weights, points)

    def gram(self, data: Data, *, independent: bool = False) -> Gram:
        """Return the Gram matrix of rows in memory; with `independent`, its values are not by native code."""
        backend = BlockBackend(self.kernel, data, n_jobs=self.n_jobs) if independent else None
        return Gram(self.kernel, data, backend=backend, n_jobs=self.n_jobs, memory_limit=self.solver_memory)


class MemoryRows(NamedTuple):
    """Rows in memory, with their variables.

    Attributes
    ----------
    positions : ndarray of int64 of shape (m,)
        Their positions among all rows, in ascending order.
    data : Data
    labels, weights : ndarray of shape (m,)
    points : ndarray of shape (n_machines, n_variables, m)
        The variables of each row in each machine; 0 in machines to which the row does not belong.
    """

    positions: IndexArray
    data: Data
    labels: FloatArray
    weights: FloatArray
    points: FloatArray

    @property
    def coefficients(self) -> FloatArray:
        """Coefficient of each row in each decision value, (m, n_machines)."""
        return np.ascontiguousarray(self.points.sum(axis=1).T)

    @property
    def is_support(self) -> Any:
        """Whether each row is a support vector of some machine."""
        return self.points.any(axis=(0, 1))

    def of(self, chosen: Any) -> MemoryRows:
        """Return some of the rows."""
        return MemoryRows(
            self.positions[chosen],
            self.data.rows(chosen),
            self.labels[chosen],
            self.weights[chosen],
            self.points[:, :, chosen],
        )


def joined(parts: list[MemoryRows]) -> MemoryRows:
    """Return several sets of rows as one, in the order of their positions."""
    positions, labels, weights = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("positions", "labels", "weights")
    )
    order = np.argsort(positions)
    tables = [one.data.stored for one in parts]
    is_sparse = sparse.issparse(tables[0])
    data = as_data(sparse.csr_array(sparse.vstack(tables, format="csr")) if is_sparse else np.concatenate(tables))
    points = np.concatenate([one.points for one in parts], axis=2)
    return MemoryRows(positions[order], data.rows(order), labels[order], weights[order], points[:, :, order])


@dataclass(eq=False)
class Outside:
    """What a pass tells about the rows that are not in memory, whose variables are 0.

    Attributes
    ----------
    losses, steepness : ndarray of longdouble or float of shape (n_machines,)
        Their part of the primal objective, and its growth per unit of error in decision values.
    too_large, too_small : ndarray of shape (n_machines,)
        By how much a gradient is on the wrong side of the multiplier at most: of variables that can shrink, and of
        variables that can grow; at least 0.
    rounding : float
        Largest rounding error of a decision value.
    n, n_values : int
        Numbers of rows and of kernel values.
    violators : list of tuple
        Positions, rows, labels, weights and violations of rows beyond the tolerance, for each block.
    n_violators : int
        Number of all rows beyond the tolerance, also if they were too many to be kept.
    """

    losses: Any
    steepness: FloatArray
    too_large: FloatArray
    too_small: FloatArray
    rounding: float = 0.0
    n: int = 0
    n_values: int = 0
    violators: list[tuple[IndexArray, Data, FloatArray, FloatArray, FloatArray]] = field(default_factory=list)
    n_violators: int = 0

    @classmethod
    def nothing(cls, n_machines: int) -> Outside:
        """Return the result before the first block."""
        zeros = [np.zeros(n_machines) for _ in range(3)]
        return cls(np.zeros(n_machines, dtype=np.longdouble), zeros[0], zeros[1], zeros[2])

    def keep_worst(self, most: int) -> None:
        """Drop violators with small violations if there are more than `most` of them."""
        sizes = np.concatenate([one[-1] for one in self.violators]) if self.violators else np.empty(0)
        if sizes.size <= most:
            return
        least = np.partition(sizes, sizes.size - most)[sizes.size - most]
        remaining, self.violators = self.violators, []
        for positions, data, labels, weights, violations in remaining:
            chosen = np.flatnonzero(violations >= least)
            if chosen.size:
                self.violators.append(
                    (positions[chosen], data.rows(chosen), labels[chosen], weights[chosen], violations[chosen])
                )


@dataclass(frozen=True, eq=False)
class StreamedMachine:
    """A machine that was trained by passes over rows: its support vectors, and its certificate over all rows.

    Attributes
    ----------
    support : MemoryRows
        The support vectors.
    biases : ndarray of shape (n_machines,)
    certificate : Certificate
    n_iter : ndarray of int64 of shape (n_machines,)
    reason : str
        What was done, as a sentence.
    """

    support: MemoryRows
    biases: FloatArray
    certificate: Certificate
    n_iter: IndexArray
    reason: str


@dataclass(frozen=True, eq=False)
class StreamedEvidence(Evidence):
    """The data from which the certificate of one machine can be computed again: support vectors, and all rows."""

    task: StreamedTask
    memory_rows: MemoryRows
    solutions: list[Solution]
    number: int
    convex: bool = True

    def full_gram(self, *, independent: bool = False) -> Any:
        """Return the result of a pass over all rows, which all machines share."""
        return look_outside(self.task, self.memory_rows, self.solutions, independent=independent)

    def recompute(self, certificate: Certificate, full_gram: Any = None) -> Certificate:
        """Return the certificate computed again; see :class:`Evidence`."""
        outside = self.full_gram(independent=True) if full_gram is None else full_gram
        solution = self.solutions[self.number]
        assert solution.evidence is not None
        again = solution.evidence.recompute(solution.certificate)
        return self._certified(again, outside, certificate)

    def _certified(self, of_memory: Certificate, outside: Outside, certificate: Certificate) -> Certificate:
        numbers = numbers_of_all(of_memory, outside, self.number)
        status = status_of(numbers, certificate.tol, certificate.tol_gap, certificate.ended, self._mass)
        return certificate.with_numbers(status, self, numbers)

    @property
    def _mass(self) -> float:
        return float(np.abs(self.memory_rows.points[self.number]).sum())

    def recertified(self, certificate: Certificate, evaluation: Any) -> Certificate:
        """Refuse: the point was not evaluated on rows in memory alone."""
        raise NotImplementedError("the rows are in a file")

    def examples(self, full_gram: Any = None) -> Any:
        """Refuse to list the rows of a file."""
        raise TypeError(
            "examples() lists all training rows, but this machine was trained on a file that is larger than memory. "
            "decision_function tells the margin of the rows that you give it."
        )

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return self.task.kernel.is_assumed


def numbers_of_all(of_memory: Certificate, outside: Outside, number: int) -> Numbers:
    """Return the numbers of a certificate over all rows, from that of the rows in memory and a pass over the others.

    Rows in memory alone have the dual objective of all rows, because the other variables are 0; their losses are added
    to the primal objective. With the multiplier lambda between m and M of the rows in memory, v = M - m there, and
    gradients of other rows at most a above or b below lambda, M - m of all rows is at most max(v + max(a, b), a + b).
    """
    violation = of_memory.kkt_violation
    assert violation is not None
    above, below = float(outside.too_large[number]), float(outside.too_small[number])
    losses = float(outside.losses[number])
    rounding = outside.rounding * float(outside.steepness[number]) + _EPS * (4.0 + outside.n**0.5) * abs(losses)
    return Numbers(
        primal=of_memory.primal + losses,
        dual=of_memory.dual,
        rounding=(of_memory.rounding or 0.0) + rounding,
        dual_infeasibility=of_memory.dual_infeasibility,
        decision_error=max(of_memory.decision_error or 0.0, outside.rounding),
        kkt_violation=max(violation + max(above, below), above + below),
        n_support=of_memory.n_support,
        n_free=of_memory.n_free,
        n_bounded=of_memory.n_bounded,
        absolute_gap=of_memory.absolute_gap,
        objective_error=of_memory.objective_error,
    )


def status_of(numbers: Numbers, tol: float | None, tol_gap: float | None, ended: Status, mass: float) -> Status:
    """Return `optimal` if the numbers prove it; else how the fit ended."""
    assert tol is not None
    assert numbers.kkt_violation is not None
    is_proved = (
        numbers.kkt_violation <= tol
        and bool(is_certain(numbers.kkt_violation, numbers.decision_error, tol))
        and bool(is_feasible(numbers.dual_infeasibility, mass))
        and numbers.has_small_gap(tol_gap)
        and not math.isnan(numbers.relative_gap)
    )
    return Status.OPTIMAL if is_proved else ended


def look_outside(task: StreamedTask, memory_rows: MemoryRows, solutions: list[Solution], **about: Any) -> Outside:
    """Visit all rows that are not in memory, for machines that are solved on the rows in memory; see :func:`look`."""
    support = memory_rows.of(np.flatnonzero(memory_rows.is_support))
    multipliers = [one.multipliers for one in solutions]
    return look(task, support.data, support.coefficients, multipliers, memory_rows.positions, **about)


def look(
    task: StreamedTask,
    support: Data,
    coefficients: FloatArray,
    multipliers: Sequence[FloatArray],
    passed_over: IndexArray,
    *,
    band: float = math.inf,
    most: int = 0,
    check: Callable[[], None] | None = None,
    independent: bool = False,
) -> Outside:
    """Visit all rows of positive weight, and return their losses, gradients and violators.

    Parameters
    ----------
    task : StreamedTask
    support : Data
        The support vectors, with their `coefficients` of shape (n_support, n_machines).
    multipliers : sequence of ndarray
        For each machine, the multiplier of each group of its problem.
    passed_over : ndarray of int64
        Positions, in ascending order, of rows that are not visited.
    band : float
        Rows whose gradient is on the wrong side of the multiplier by more than this are violators.
    most : int
        Largest number of violators to return: those with the largest violations.
    check : callable, optional
        Called between parts of bounded work; it may raise.
    independent : bool
        Whether kernel values and sums are by NumPy alone, in longdouble.
    """
    outside = Outside.nothing(task.n_machines)
    for block in task.rows.blocks():
        if check is not None:
            check()
        at = block.at
        first, last = np.searchsorted(passed_over, [at.start, at.stop])
        is_outside = block.weights > 0.0
        is_outside[passed_over[first:last] - at.start] = False
        chosen = np.flatnonzero(is_outside)
        if not chosen.size:
            continue
        data, labels, weights = as_data(block.table[chosen]), block.labels[chosen], block.weights[chosen]
        outside.n += chosen.size
        values, rounding = _values(task, support, coefficients, data, outside, check, independent=independent)
        outside.rounding = max(outside.rounding, rounding)
        worst = np.zeros(chosen.size)
        for number, (rows, problem) in enumerate(task.machines(labels, weights, have_zeros=True)):
            if problem is not None:
                _add_machine(outside, number, problem, rows, values[:, number], multipliers[number], rounding, worst)
        beyond = np.flatnonzero(worst > band)
        outside.n_violators += beyond.size
        if beyond.size and most:
            outside.violators.append(
                (at.start + chosen[beyond], data.rows(beyond), labels[beyond], weights[beyond], worst[beyond])
            )
            outside.keep_worst(most)
    return outside


def _add_machine(
    outside: Outside,
    number: int,
    problem: Problem,
    rows: IndexArray,
    values: FloatArray,
    multipliers: FloatArray,
    rounding: float,
    worst: FloatArray,
) -> None:
    """Add the rows of a block to the sums of one machine; `worst` gets the violation of each row."""
    of_variables = rows if problem.rows is None else rows[problem.rows]
    at = values[of_variables]
    multiplier = float(multipliers[0]) if multipliers.size else 0.0
    rounding += offset_error(problem, multiplier)
    outside.rounding = max(outside.rounding, rounding)
    outside.losses[number] += problem.primal(0.0, at, multipliers)
    outside.steepness[number] += problem.steepness(at, multipliers, rounding)
    excess = at + problem.linear - multiplier
    can_shrink, can_grow = problem.lower < 0.0, problem.upper > 0.0
    outside.too_large[number] = max(outside.too_large[number], excess[can_shrink].max(initial=0.0))
    outside.too_small[number] = max(outside.too_small[number], -excess[can_grow].min(initial=0.0))
    beyond = np.maximum(np.where(can_shrink, excess, 0.0), np.where(can_grow, -excess, 0.0))
    np.maximum.at(worst, of_variables, beyond)


def _values(
    task: StreamedTask,
    support: Data,
    coefficients: FloatArray,
    data: Data,
    outside: Outside,
    check: Callable[[], None] | None,
    *,
    independent: bool,
) -> tuple[FloatArray, float]:
    """Return the decision values of rows without biases, (m, n_machines), and their rounding error."""
    n_support, n_machines = coefficients.shape
    if not n_support:
        return np.zeros((data.n, n_machines)), 0.0
    gram = task.gram(support.followed_by(data), independent=independent)
    padded = np.concatenate([coefficients, np.zeros((data.n, n_machines))])
    rows = np.arange(n_support, n_support + data.n)
    if independent:
        values = np.empty((data.n, n_machines))
        height, columns = max(1, gram.values_per_call // n_support), np.arange(n_support)
        for first in range(0, data.n, height):
            part = rows[first : first + height]
            values[part - n_support] = gram.block(part, columns).astype(np.longdouble) @ coefficients
    else:
        values = gram.matvec(padded, rows, check)
    outside.n_values += gram.n_values
    rounding = max(rounding_of(gram, padded[:, k], values[:, k]) for k in range(n_machines))
    return values, rounding
