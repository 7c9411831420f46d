"""Approximation by landmarks: a linear machine on the coordinates of all rows in the span of a few of them."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.expansion_evidence import SAMPLED, ExpansionEvidence
from mercer.approximate.feature_table import FeatureTable, LandmarkBasis, check_range, feature_rows
from mercer.approximate.one_class import solve_one_class
from mercer.approximate.task import MachineTask, Task
from mercer.approximate.way import Expansion, Way
from mercer.certificates.approximation import ApproximateCertificate, Distance, feasible_point
from mercer.certificates.certificate import Certificate, combine
from mercer.certificates.status import Status
from mercer.data.arguments import check_count, check_number
from mercer.data.files import DamagedFileError, State, once
from mercer.geometry.landmarks import pivoted_cholesky
from mercer.gram import Gram
from mercer.gram.rows import LinearRows, MappedTable
from mercer.gram.rows.mapped_rows import BLOCK
from mercer.gram.threads import blas_threads
from mercer.multiclass.pairs import class_pairs
from mercer.solvers import Control, Limits, solve
from mercer.solvers.loop import ProgressMonitor, StopWork
from mercer.solvers.rows import (
    Bias,
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    LinearProblem,
    LinearSolution,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    solve_each,
)
from mercer.specs import ForOneClassSVM, ForSVC, ForSVR, QuadraticSpec

SUBSET = 20_000
"""Rows from which landmarks are drawn, at most; more of them hardly change the landmarks."""

_FIRST = 125  # landmarks that are tried first if a distance is asked for
_ENOUGH = "enough"  # key of what fits share: the number of landmarks with which the last one had its distance
_COST_OF_DOUBLE = 3.0  # time of twice as many landmarks over the time of the last machine
_DRAWING, _FEATURES = 0.25, 0.4  # shares of the remaining time for the draw, and after it for the features
_GRACE = 0.1  # seconds after the time limit in which a distance that takes little time is still computed
_CERTIFYING = 0.25  # time of a certificate of the linear problem over that of its features
_SURE = 1.2  # expected times of kernel values are times this factor
_ROW_ARRAYS = 26  # arrays of length n that labels, weights, exact problems and the choice of the bias hold
_SOLVER_ARRAYS = 8  # arrays of length n of the linear solver
_MATRICES = 8  # of a number for each pair of landmarks: kernel values, their factor, second derivatives, and copies
_FEWEST = 16  # landmarks that are used whatever the time
_IMPROVED_VALUES = 1e9  # rows times support vectors up to which the exact solver improves the dual point of the bound
_FEWEST_STEPS = 1000  # steps of it, at least; otherwise one for each support vector
_TOL_GAP = 1e-3  # relative gap of the linear problem if the estimator asks for none: far below usual distances

DRAW_SECONDS = "draw_seconds"
"""Key of what fits share: the time of the last draw of landmarks."""


@dataclass(frozen=True)
class Landmarks(Way):
    """Landmarks: the machine is a sum of kernel values of a few training rows, which represent all rows.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of landmarks. There are fewer if there are fewer rows, or if fewer represent the kernel exactly.
    distance : float, optional
        Largest relative distance to the objective of the exact machine. The number of landmarks is then doubled from
        125 until ``certificate_.distance_to_exact`` is at most `distance`, or there are `n_landmarks` of them. With so
        many support vectors that a proof would take long, ``certificate_.estimated_distance`` decides. In a
        :class:`mercer.KernelSearchCV`, each penalty begins with the number of the last one.
    random_state : int, default=0
        Seed of the draw.

    Notes
    -----
    Landmarks are drawn from 20,000 rows by randomly pivoted Cholesky. The coordinates of all rows in the span of their
    images are the features of a linear machine with the loss of the estimator, which all classes share. The machine is
    an element of the space of the kernel, so that its objective in the exact problem is known.

    With n rows and k landmarks, it costs n k kernel values and n k² multiplications, and 4 n k bytes, in a temporary
    file if they exceed `memory_limit`.

    Of rows on a device, such as torch tensors on a GPU, only the landmarks are copied to the host: features, and the
    products of their training and of the certificate, are computed on the device, and its memory holds the features.

    Examples
    --------
    >>> from mercer import SVC, Landmarks
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> machine = SVC(approximation=Landmarks(n_landmarks=200)).fit(X, y)
    >>> bool(machine.certificate_.distance_to_exact < 0.1)
    True
    """

    name: ClassVar[str] = "landmarks"
    shares: ClassVar[bool] = True

    n_landmarks: int = 1000
    distance: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("n_landmarks", self.n_landmarks)
        check_count("random_state", self.random_state, at_least=0)
        if self.distance is not None:
            check_number("distance", self.distance, above=0.0, finite=True)

    def train(self, task: Task, control: Control, shared: dict[Any, Any] | None = None) -> Expansion:
        """Train a machine; see :meth:`Way.train`."""
        gram = task.gram()
        self.refuse_indefinite(gram)
        monitor = ProgressMonitor[Any](control)
        with control.interruption:
            training = _Training(self, task, gram, monitor, shared)
            best = self.doubled(training, training.shared.get(_ENOUGH, _FIRST))
            if not monitor.is_stopped():
                training.shared[_ENOUGH] = training.asked
        return best

    def doubled(self, training: LandmarkTraining, first: int = _FIRST) -> Expansion:
        """Return the machine of a training with enough landmarks: more and more of them if a distance is asked for.

        Its reason says why it has fewer landmarks than were asked for, or a larger distance.
        """
        machine = self._doubled(training, first)
        said = self.shortfall(machine) if self.distance else self._why_fewer(machine.rows.size, training)
        return replace(machine, reason=" ".join(filter(None, (machine.reason, said))))

    def shortfall(self, machine: Any) -> str:
        """Return that the distance that was asked for is not reached; see :meth:`Way.shortfall`."""
        if self.distance is None or _distance(machine) <= self.distance:
            return ""
        by = "" if _distance(machine) == machine.certificate.distance_to_exact else "estimated at "
        return (
            f"The distance of {self.distance:g} that was asked for is not reached: with {machine.rows.size:,} "
            f"landmarks it is {by}{_distance(machine):.2g}. Raise n_landmarks or max_seconds, or take "
            "approximation=None."
        )

    def _why_fewer(self, size: int, training: Any) -> str:
        """Return why there are fewer landmarks than were asked for; "" if there are not."""
        if size >= self.n_landmarks or training.monitor.control.interruption.requested:
            return ""
        why = "no other row adds to what they represent in single precision"
        if size == training.n:
            why = "there are no more rows"
        elif training.monitor.control.limits.max_seconds is not None:
            why = f"max_seconds left no time for more, or {why}"
        return f"{self.n_landmarks:,} landmarks were asked for, but {why}."

    def _doubled(self, training: Any, first: int) -> Expansion:
        if self.distance is None:
            return training.trained(min(self.n_landmarks, training.n))
        checkpoint = training.monitor.control.checkpoint
        earlier = None if checkpoint is None else checkpoint.load("doubling", _Earlier.decoded)
        first = min(self.n_landmarks, first if earlier is None else earlier.following)
        best = training.trained(first)
        if earlier is not None and earlier.distance < _distance(best):
            training.forget_features()
            best = training.trained(earlier.n_landmarks)
            training.asked = first
        while larger := self._next(best, training):
            training.forget_features()
            if checkpoint is not None:
                checkpoint.store("doubling", _Earlier(best.rows.size, larger, _distance(best)).state)
            other = training.trained(larger)
            best = min(best, other, key=_distance)
        return best

    def refuse_indefinite(self, gram: Gram) -> None:
        """Raise ValueError if the kernel is not known to be positive semidefinite."""
        if not gram.is_convex:
            raise ValueError(
                f"approximation='landmarks' needs a kernel that is positive semidefinite, but {gram.kernel!r} is not "
                f"known to be on these rows ({gram.diagnosis}). Set approximation=None, or take another kernel."
            )

    def _next(self, machine: Expansion, training: LandmarkTraining) -> int:
        """Return the next number of landmarks to try; 0 if this machine is good enough, or no more can be tried."""
        assert self.distance is not None
        size, monitor = machine.rows.size, training.monitor
        left = monitor.seconds_left
        is_last = size < training.asked or training.asked >= min(self.n_landmarks, training.n)
        if is_last or _distance(machine) <= self.distance or monitor.is_stopped():
            return 0
        if left is not None and left < _COST_OF_DOUBLE * training.seconds:
            return 0
        return min(2 * training.asked, self.n_landmarks, training.n)


class LandmarkTraining(ABC):
    """The training of machines with more and more landmarks; see :meth:`Landmarks.doubled`.

    Parameters
    ----------
    way : Landmarks
    gram : Gram
        Of the rows from which landmarks are drawn.
    monitor : ProgressMonitor

    Attributes
    ----------
    n : int
        Most landmarks that there can be.
    asked : int
        Number of landmarks of the last machine.
    seconds : float
        Time of the last machine.
    """

    asked, seconds = 0, 0.0

    def __init__(self, way: Landmarks, gram: Gram, monitor: ProgressMonitor[Any]) -> None:
        self.way, self.gram, self.monitor, self.n = way, gram, monitor, gram.n

    @abstractmethod
    def trained(self, n_landmarks: int) -> Expansion:
        """Return the machine with so many landmarks, or fewer if the time is too short."""

    def forget_features(self) -> None:  # noqa: B027 - most trainings keep none
        """Release the features of the last machine, before those of a larger one are made."""

    def features_control(self, n_features: int, reserved: float = 0.0) -> Control:
        """Return the control of the linear problems on the features: the time that is left, without `reserved`."""
        control = self.monitor.control
        limits = replace(control.limits, tol_gap=tol_gap_of(self.way, control.limits))
        return control.with_limits(limits).after(self.monitor.seconds + reserved, 0).in_part(f"features-{n_features}")


def certificate_of(text: str, solved: Sequence[Any], distances: Sequence[Distance]) -> Any:
    """Return the certificate of machines that were solved on features, with their distances to the exact ones.

    The evidence of the linear problems is their table of features, which would stay in memory.
    """
    return combine(
        [
            ApproximateCertificate.of(replace(one.certificate, evidence=None), text, [distance])
            for one, distance in zip(solved, distances, strict=True)
        ]
    )


def _distance(machine: Expansion) -> float:
    """Return the proved distance to the exact machine, or else the estimated one."""
    certificate = machine.certificate
    estimate = certificate.estimated_distance
    return min(certificate.distance_to_exact, math.inf if estimate is None else estimate)


def draw(gram: Gram, way: Landmarks, monitor: ProgressMonitor[Any], n_landmarks: int | None = None) -> IndexArray:
    """Return the positions of landmarks, drawn from a sample of the rows in a quarter of the time that is left."""
    check_range(gram)
    n_landmarks, random = (
        way.n_landmarks if n_landmarks is None else n_landmarks,
        np.random.RandomState(way.random_state),
    )
    n, limit, began = gram.n, monitor.seconds_left, time.perf_counter()
    sample = np.arange(n) if n <= SUBSET else np.sort(random.choice(n, SUBSET, replace=False))
    until = math.inf if limit is None else began + _DRAWING * limit

    def is_stopped() -> bool:
        monitor.report_stage(f"draw of {n_landmarks:,} landmarks")
        return time.perf_counter() >= until or monitor.is_stopped()

    rows = gram if sample.size == n else gram.restrict(sample)
    chosen = pivoted_cholesky(rows, min(n_landmarks, n), random, single=True, is_stopped=is_stopped)
    if not chosen.size:  # there was no time, or all kernel values are 0
        chosen = random.choice(sample.size, min(_FEWEST, n_landmarks, sample.size), replace=False)
    return sample[chosen]


def drawn_before_or_now(gram: Gram, way: Landmarks, monitor: ProgressMonitor[Any], n_landmarks: int) -> IndexArray:
    """Return what :func:`draw` does, from the checkpoint if it was drawn before."""

    def decoded(header: Any, arrays: Mapping[str, IndexArray]) -> IndexArray:
        del header
        rows = arrays["rows"]
        is_valid = rows.dtype == np.int64 and rows.ndim == 1 and 0 < rows.size <= n_landmarks
        if not is_valid or rows.min() < 0 or rows.max() >= gram.n or np.unique(rows).size < rows.size:
            raise DamagedFileError("its numbers are not landmarks of these rows")
        return rows.copy()

    def is_finished(drawn: IndexArray) -> bool:
        is_complete = monitor.control.limits.max_seconds is None or drawn.size == min(n_landmarks, gram.n)
        return is_complete and not monitor.is_stopped()

    check_range(gram)
    return once(
        monitor.control.checkpoint,
        f"landmarks-{n_landmarks}-of-{gram.n}",
        lambda: draw(gram, way, monitor, n_landmarks),
        encode=lambda drawn: ({}, {"rows": drawn.astype(np.int64)}),
        decode=decoded,
        is_finished=is_finished,
    )


def affordable_basis(
    gram: Gram, landmarks: IndexArray, seconds_left: float | None, times: float = 1.0
) -> tuple[LandmarkBasis, str]:
    """Return the basis of the landmarks, of fewer if the time does not suffice for their features, and a note of that.

    The features take `times` the time of those of the rows of `gram`.
    """
    basis = LandmarkBasis(gram, landmarks)
    if seconds_left is not None and basis.size > _FEWEST:
        share = _FEATURES * seconds_left / max(times * basis.seconds(), 1e-9)
        if share < 1.0:
            asked, fewer = basis.size, max(_FEWEST, int(basis.size * share**0.5))
            note = f" ({asked:,} were drawn, but max_seconds leaves no time for their features)"
            return LandmarkBasis(gram, landmarks[:fewer]), note
    return basis, ""


def tol_gap_of(way: Landmarks, limits: Limits) -> float:
    """Return the relative gap that the linear problem is solved to."""
    asked = limits.tol_gap or _TOL_GAP
    return asked if way.distance is None else min(asked, 0.1 * way.distance)


def linear_problem(spec: QuadraticSpec, rows: LinearRows, positive: int) -> LinearProblem:
    """Return the linear problem of a machine on rows of features."""
    loss: LinearLoss
    if isinstance(spec, ForSVR):
        loss = (SquaredEpsilonInsensitive if spec.squared else EpsilonInsensitive)(spec.epsilon)
    else:
        assert isinstance(spec, ForSVC)
        loss = SquaredHinge() if spec.squared else Hinge()
    bias = Bias.FREE if spec.bias else Bias.NONE
    return LinearProblem(rows, loss, C=spec.C, bias=bias, positive=positive if loss.classifies else None)


def improved(
    machines: Sequence[MachineTask],
    gram: Gram,
    duals: Sequence[FloatArray],
    monitor: ProgressMonitor[Any],
    value_seconds: float = 0.0,
    reserved: float = 0.0,
) -> list[FloatArray]:
    """Return dual coefficients with a larger objective in the exact problem, by some steps of its solver.

    If there is a time limit, the steps leave `reserved` seconds, and begin only if there is time for their own
    evaluation, at `value_seconds` for each kernel value.
    """
    larger = list[FloatArray]()
    for one, dual in zip(machines, duals, strict=True):
        n_used = int(np.count_nonzero(dual))
        left = monitor.control.after(monitor.seconds + reserved + value_seconds * n_used * one.rows.size, 0)
        is_late = monitor.is_stopped() or left.limits.max_seconds == 0.0
        if is_late or not 0 < n_used * one.rows.size <= _IMPROVED_VALUES:
            larger.append(dual)
            continue
        view = gram if one.rows.size == gram.n else gram.restrict(one.rows)
        n_steps = max(_FEWEST_STEPS, n_used)
        most = n_steps if left.limits.max_iter < 0 else min(n_steps, left.limits.max_iter)
        control = replace(left, limits=replace(left.limits, max_iter=most), checkpoint=None)
        solution = solve(one.problem, view, control=control, start=feasible_point(one.problem, dual))
        larger.append(one.problem.coefficients(solution.beta))
    return larger


class _Solved(NamedTuple):
    """A machine on the features: weights (k,), bias, dual coefficients of the rows, certificate, and why its solver."""

    w: FloatArray
    bias: float
    beta: FloatArray
    certificate: Certificate
    reason: str

    @classmethod
    def of(cls, problem: LinearProblem, solution: LinearSolution) -> _Solved:
        """Return the machine of the solution of a linear problem."""
        beta = np.asarray(solution.beta[:], dtype=np.float64)
        return cls(*problem.split(solution.w), beta, solution.certificate, solution.reason)


class _Earlier(NamedTuple):
    """The best machine so far of a fit that doubles its landmarks: their number, that of the next one, its distance."""

    n_landmarks: int
    following: int
    distance: float

    def state(self) -> State:
        """Return it as a header and arrays."""
        return {}, {"sizes": np.array(self[:2], dtype=np.int64), "distance": np.array([self.distance])}

    @classmethod
    def decoded(cls, header: Any, arrays: Mapping[str, Any]) -> _Earlier:
        """Return it from a header and arrays."""
        del header
        (n_landmarks, following), (distance,) = arrays["sizes"].tolist(), arrays["distance"].tolist()
        if not (0 < n_landmarks < following and distance > 0.0):
            raise DamagedFileError("its numbers are not those of landmarks")
        return cls(n_landmarks, following, float(distance))


class _Training(LandmarkTraining):
    """The training of machines with more and more landmarks on one Gram matrix.

    Attributes
    ----------
    is_cut_short : bool
        Whether Ctrl-C ended the fit before the features of the last machine were computed.
    """

    is_cut_short = False
    value_seconds, reserved = 0.0, 0.0  # of a kernel value, and of the distance at least; 0 without a time limit

    def __init__(
        self, way: Landmarks, task: Task, gram: Gram, monitor: ProgressMonitor[Any], shared: dict[Any, Any] | None
    ) -> None:
        super().__init__(way, gram, monitor)
        self.task = task
        self.shared = dict[Any, Any]() if shared is None else shared
        self.limits = monitor.control.limits
        # Machines of a search predict, and nothing asks for their distance unless it decides the number of landmarks.
        self.only_features_count = shared is not None and way.distance is None and not self._nu
        self.machines = list(task.machines(gram))

    def forget_features(self) -> None:
        """Release the features of the last machine, before those of a larger one are made."""
        self.shared.pop(self.asked, None)
        self.shared.pop((self.asked, "solutions"), None)
        self.shared.pop((self.asked, "rows"), None)

    def trained(self, n_landmarks: int) -> Expansion:
        """Return the machine with so many landmarks, or fewer if the time is too short."""
        began, self.asked = self.monitor.seconds, n_landmarks
        if n_landmarks not in self.shared:
            drawn = drawn_before_or_now(self.gram, self.way, self.monitor, n_landmarks)
            self.shared[DRAW_SECONDS] = self.monitor.seconds - began
            basis, table, note = self._features(drawn)
            if not self.monitor.is_stopped():
                self.shared[n_landmarks] = basis, table, note
        else:
            basis, table, note = self.shared[n_landmarks]
        self._reserve(basis, self.monitor.seconds - began - self.shared.get(DRAW_SECONDS, 0.0))
        with blas_threads(float(self.task.n) * basis.size**2):
            solved = [self._solved_one_class(table)] if self._nu else self._solved(table)
        coefficients = basis.coefficients(np.column_stack([one.w for one in solved]))
        biases, duals = np.array([one.bias for one in solved]), self._improved([one.beta for one in solved])
        evidence = ExpansionEvidence(self.task, basis.landmarks, coefficients, biases, duals)
        distances = self._distances(evidence)
        approximation = f"{basis.size:,} landmarks represent {self.task.n:,} rows"
        certificate = certificate_of(approximation, solved, distances)
        self.seconds = self.monitor.seconds - began
        certificate = replace(
            certificate,
            status=Status.INTERRUPTED if self.is_cut_short else certificate.status,
            evidence=evidence,
            n_kernel_values=self.gram.n_values,
            seconds=self.monitor.seconds,
            peak_memory_bytes=certificate.peak_memory_bytes
            + (table.memory_bytes if isinstance(table, MappedTable) else table.nbytes)
            + self.gram.peak_bytes
            + 8 * _ROW_ARRAYS * self.task.n,
        )
        return Expansion(
            certificate,
            f"{approximation}{note}. A linear machine of their {basis.size:,} features is trained: {solved[0].reason}",
            self.task.kernel,
            self.task.data.rows(self.task.rows[basis.landmarks]),
            self.task.rows[basis.landmarks],
            coefficients,
            biases,
            basis.landmarks,
            self._sparse(duals),
        )

    def _improved(self, duals: list[FloatArray]) -> list[FloatArray]:
        if self.only_features_count:
            return duals
        return improved(self.machines, self.gram, duals, self.monitor, self.value_seconds, self.reserved)

    def _reserve(self, basis: LandmarkBasis, feature_seconds: float) -> None:
        """Reserve the time of the distance by that of some kernel values, and of certificates by that of features.

        It is the time of a distance that is estimated, and at most half of the time that is left.
        """
        left = self.monitor.seconds_left
        if left is None or self.only_features_count:
            return
        self.value_seconds = basis.value_seconds()
        n_values = (2.0 if self._nu else 1.0) * self.task.n * basis.size
        n_values += SAMPLED * sum(one.rows.size for one in self.machines)
        self.reserved = min(0.5 * left, _SURE * self.value_seconds * n_values + _CERTIFYING * feature_seconds)

    def _sparse(self, duals: list[FloatArray]) -> sparse.csr_array:
        """Return the dual coefficients of the rows of each machine as rows of a sparse matrix, (n_machines, n)."""
        used = [np.flatnonzero(dual) for dual in duals]
        columns = np.concatenate([one.rows[part] for one, part in zip(self.machines, used, strict=True)])
        values = np.concatenate([dual[part] for dual, part in zip(duals, used, strict=True)])
        starts = np.cumsum([0, *(part.size for part in used)])
        return sparse.csr_array((values, columns, starts), shape=(len(duals), self.task.n))

    def _features(self, landmarks: IndexArray) -> tuple[LandmarkBasis, FeatureTable, str]:
        """Return the basis, the features of all rows, and a note if the time allows fewer landmarks."""
        in_pairs = sum(one.rows.size for one in self.machines) if self.task.scheme == "ovo" else self.task.n
        basis, note = affordable_basis(self.gram, landmarks, self.monitor.seconds_left, in_pairs / self.task.n)
        numbers = (_ROW_ARRAYS + _SOLVER_ARRAYS) * self.task.n + _MATRICES * basis.size**2
        room = self.gram.memory_limit - 8 * numbers - 4 * BLOCK
        try:
            return basis, basis.table(room, self._check), note
        except StopWork:  # Ctrl-C: a machine of one feature, which is 0
            basis, note = (
                LandmarkBasis(self.gram, landmarks[:1]),
                ", because the fit was interrupted before their features",
            )
            self.is_cut_short = True
            return basis, np.zeros((self.task.n, basis.size), dtype=np.float32), note

    def _check(self) -> None:
        """Stop the work after Ctrl-C."""
        self.monitor.report_stage("features of all rows")
        if self.monitor.control.interruption.requested:
            raise StopWork(Status.INTERRUPTED)

    @property
    def _nu(self) -> float:
        """The nu of a one-class machine; 0 for others."""
        return self.task.spec.nu if isinstance(self.task.spec, ForOneClassSVM) else 0.0

    def _control(self, table: FeatureTable) -> Control:
        """Return the control of the linear problems on these features, with the time that is left."""
        return self.features_control(table.shape[1], self.reserved)

    def _solved_one_class(self, table: FeatureTable) -> _Solved:
        """Solve the problem of a one-class machine on the features; its bias follows from the decision values."""
        task, control = self.task, self._control(table)
        rows = feature_rows(table, np.ones(task.n), task.weights)
        one = solve_one_class(rows, task.weights, self._nu, control, self._tol_gap(), task.n_jobs)
        return _Solved(one.w, 0.0, one.beta, one.certificate, "Hinge losses at several levels rho lead to it.")

    def _solved(self, table: FeatureTable) -> list[_Solved]:
        """Solve the linear problem of each machine on the features."""
        task, key = self.task, (self.asked, "solutions")
        starts: list[LinearSolution | None] = self.shared.get(key, [None] * task.n_machines)
        if task.n_classes > 2 and task.scheme == "ovo":
            solved, solutions = list[_Solved](), list[LinearSolution]()
            codes = task.targets.astype(np.float64)
            for number, pair in enumerate(class_pairs(task.n_classes).tolist()):
                rows = feature_rows(table, codes, task.weights, (pair[0], pair[1]))
                problem = linear_problem(task.spec, rows, 1)
                left = self._control(table).in_part(f"pair-{number}")
                if left.limits.max_seconds is not None:
                    share = left.limits.max_seconds / (len(self.machines) - number)
                    left = left.with_limits(replace(left.limits, max_seconds=share))
                (solution,) = solve_each([problem], left, starts=[starts[number]], n_jobs=task.n_jobs)
                one, beta = _Solved.of(problem, solution), np.empty(rows.n)
                beta[np.argsort(self.machines[number].rows)] = one.beta  # which has the rows of one class first
                solved.append(one._replace(beta=beta))
                solutions.append(solution)
            self.shared[key] = solutions
            return solved
        classes = [1] if task.n_classes == 2 else list(range(task.n_classes)) or [1]
        problems = [linear_problem(task.spec, self._rows(table), k) for k in classes]
        self.shared[key] = solutions = solve_each(problems, self._control(table), starts=starts, n_jobs=task.n_jobs)
        return [_Solved.of(*pair) for pair in zip(problems, solutions, strict=True)]

    def _rows(self, table: FeatureTable) -> LinearRows:
        """Return the rows of the features, with what the last penalty has left on them if the weights are the same."""
        task, key = self.task, (self.asked, "rows")
        rows: Any = self.shared.get(key)
        if rows is None or not (
            np.array_equal(rows.labels, task.targets) and np.array_equal(rows.weights, task.weights)
        ):
            rows = feature_rows(table, task.targets.astype(np.float64), task.weights)
            rows.is_shared = task.n_machines == 1
            self.shared[key] = rows
        linear_rows: LinearRows = rows
        return linear_rows

    def _tol_gap(self) -> float:
        return tol_gap_of(self.way, self.limits)

    def _distances(self, evidence: ExpansionEvidence) -> list[Distance]:
        """Return the distance of each machine to the exact one: proved, or estimated if a proof takes too long.

        It is unknown in a search, after a second Ctrl-C, and if the time is over.
        """
        distances = list[Distance]()
        if self.only_features_count:
            return [Distance()] * self.task.n_machines
        try:
            if self._nu:
                evidence.biases[0] = evidence.level(self.gram, self._check_certificate)
            seconds = self.value_seconds * (evidence.n_values_of_proof + evidence.places.size * self.task.n)
            is_proved = evidence.has_small_proof and _SURE * seconds <= self._seconds_of_distance
            for one in evidence.distances(self.gram, is_proved=is_proved, check=self._check_certificate):
                distances.append(one)
        except StopWork:
            distances += [Distance()] * (self.task.n_machines - len(distances))
        return distances

    def _check_certificate(self) -> None:
        """Skip the distance after a second Ctrl-C, and if the time is over."""
        if self.monitor.control.interruption.insisted:
            raise StopWork(Status.INTERRUPTED)
        if self._seconds_of_distance <= 0.0:
            raise StopWork(Status.TIME_LIMIT)

    @property
    def _seconds_of_distance(self) -> float:
        """Time that is left for the distance; inf without a limit."""
        most = self.limits.max_seconds
        return math.inf if most is None else most + _GRACE - self.monitor.seconds
