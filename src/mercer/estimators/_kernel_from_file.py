"""Kernel machines that are also trained on files larger than memory, exactly, as long as support vectors fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from mercer.approximate import AUTO, ApproximateMachine, Cells, CellsMachine, Expansion, Landmarks, Way, way_of
from mercer.approximate.stored_choice import load_choice, store_choice
from mercer.approximate.streamed_cells import cells_on_file, cells_sample_of_file
from mercer.approximate.streamed_landmarks import choice_on_file, landmarks_on_file, sample_of_file
from mercer.certificates.certificate import Certificate
from mercer.certificates.solution import Solutions
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.data.arguments import check_whole
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import say
from mercer.estimators._dual import DualMachine
from mercer.estimators._from_file import ReadsFiles
from mercer.estimators._labels import Labels
from mercer.gram.rows import LinearRows
from mercer.gram.rows.sampled_rows import sampled_rows
from mercer.kernels import Centered, Kernel
from mercer.multiclass.coefficients import Coefficients, PairCoefficients
from mercer.multiclass.pairs import class_pairs, place_among_others
from mercer.multiclass.training import JOINT
from mercer.solvers import Control
from mercer.specs import ForOneClassSVM, QuadraticSpec
from mercer.specs.streamed import MemoryRows, StreamedMachine, StreamedTask
from mercer.specs.streamed_training import first_of_one_class, first_rows, train_streamed


class FitsKernelFiles(ReadsFiles, DualMachine):
    """A kernel machine that is also trained on files."""

    C: Any
    spec_: Any
    approximation: Any
    approximation_: Any
    _streamed: StreamedMachine

    def _machine_spec(self) -> QuadraticSpec:
        """Check the parameters, and return the specification of the problem."""
        host: Any = self
        spec: QuadraticSpec = host._asked_spec()
        return spec

    def _forget_file(self) -> None:
        super()._forget_file()
        self.__dict__.pop("_streamed", None)

    def _training_rows(self, X: Any, y: Any) -> tuple[Kernel, Data]:
        self._forget_file()
        return super()._training_rows(X, y)

    def _new_rows(self, X: Any) -> Data:
        return super()._new_rows(self._encoded(X))

    @property
    def certificate_(self) -> Certificate:
        """The certificate of all machines together; its `parts` are the certificates of the single machines.

        After a fit on a file that is larger than memory it is over all rows of the file, and `verify` reads them again.
        With an `approximation` it is an :class:`mercer.certificates.ApproximateCertificate`.
        """
        return self._streamed.certificate if "_streamed" in vars(self) else super().certificate_

    def _solved(self) -> Solutions:
        if "_streamed" in vars(self):
            raise AttributeError(
                f"this {type(self).__name__} was trained on a file that is larger than memory: it has its support "
                "vectors and a certificate over all rows, but no list of the rows, which could be left out, removed or "
                "added to. Fit it with the rows in memory."
            )
        return super()._solved()

    def _check_streams(self, kernel: Kernel) -> None:
        """Refuse what needs the rows in memory."""
        name, remedy = type(self).__name__, "or raise memory= until the encoded table fits into a third of it"
        if not math.isfinite(getattr(self, "C", 1.0)):
            raise ValueError(f"C must be finite for rows that are larger than memory, got C = inf: set a C, {remedy}.")
        if getattr(self, "contamination", None) is not None:
            raise ValueError(
                f"contamination= needs the scores of all rows in memory: set contamination=None and nu, {remedy}."
            )
        if not self._has_target and self.approximation is not None:
            raise ValueError(
                f"approximation={self.approximation!r} of {name} needs the rows in memory, but the file is larger than "
                f"memory allows: set approximation=None, {remedy}."
            )
        if getattr(self, "multi_class", None) == JOINT:
            raise ValueError(f"multi_class='joint' needs the rows in memory: set 'ovo' or 'ovr', {remedy}.")
        if getattr(self, "probability", False):
            raise ValueError(
                f"probability=True needs the rows in memory for its calibration: set probability=False, {remedy}."
            )
        if self.warm_start:
            raise ValueError(f"warm_start=True needs the rows in memory: set warm_start=False, {remedy}.")
        if kernel.is_psd is not True or any(isinstance(one, Centered) for one in _parts_of(kernel)):
            raise ValueError(
                f"{name} on a file that is larger than memory needs a kernel that is known to be positive semidefinite "
                f"and does not depend on all rows, but {kernel!r} is not: take another kernel, {remedy}."
            )

    def _train_on_file(
        self, rows: LinearRows, labels: Labels | None, control: Control, memory: int, solver_memory: int
    ) -> None:
        """Train the machine on rows that are visited in blocks, with so many bytes for rows and for the solver."""
        kernel, machine_spec = self._kernel_asked_for(), self._machine_spec()
        self._check_streams(kernel)
        limit = check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0)
        task = StreamedTask(
            machine_spec,
            kernel,
            rows,
            None if labels is None else labels.class_weight,
            getattr(self, "multi_class", "ovo"),
            memory if limit is None else min(memory, limit),
            solver_memory if limit is None else min(solver_memory, limit),
            check_whole("n_jobs", self.n_jobs),
        )
        way = None if self.approximation == AUTO else way_of(self.approximation)
        if isinstance(machine_spec, ForOneClassSVM):
            task, first = first_of_one_class(task)
        else:
            first = _first_rows_of(way, task)
        task = replace(task, kernel=kernel.resolve(sampled_rows(first.data, rows)))
        self.__dict__.pop("choice_", None)
        if self.approximation == AUTO:
            way, first, control = self._chosen_on_file(task, first, control)
        if isinstance(way, Landmarks):
            self._store_way(way, task, landmarks_on_file(way, task, first, control), first, labels)
            return
        if isinstance(way, Cells):
            self._store_way(way, task, cells_on_file(way, task, first, control), first, labels)
            return
        machine = train_streamed(task, control, first)
        self._store_streamed(task, machine, labels)

    def _chosen_on_file(
        self, task: StreamedTask, first: MemoryRows, control: Control
    ) -> tuple[Way | None, MemoryRows, Control]:
        """Choose the way by a pilot on the first rows, and return it with its first rows and the control after it."""
        host: Any = self
        choice = load_choice(control.checkpoint)
        if choice is None:
            choice = choice_on_file(task, first, control)
            if not control.interruption.requested:
                store_choice(control.checkpoint, choice)
        host.choice_ = choice
        if self.verbose:
            say(f"{choice}.")
        if choice.way is not None:
            first = _first_rows_of(choice.way, task)
        return choice.way, first, control.after(choice.seconds, 0)

    def _rescale(self, centre: float, scale: float) -> None:
        """Have the machine answer in the unit of the targets, which were (target - centre) / scale in the training."""
        if (centre, scale) == (0.0, 1.0):
            return
        machine: Any = vars(self).get("approximation_")
        if isinstance(machine, CellsMachine):
            cells = []
            for one in machine.cells:
                of_cell: Any = one.coefficients
                cells.append(replace(one, coefficients=scale * of_cell, biases=centre + scale * one.biases))
            self.approximation_ = replace(machine, cells=cells)
        else:
            coefficients: Any = self._coefficients
            self._hold(scale * coefficients, centre + scale * self.intercept_, self._support_rows())
            if machine is not None:
                self.approximation_ = replace(machine, coefficients=self._coefficients, biases=self.intercept_)

    def _number_cells(self, present: npt.NDArray[np.int64]) -> None:
        """Have cells, which count the rows of positive weight, count all rows of the file."""
        machine = self.approximation_
        if isinstance(machine, CellsMachine):
            cells = [
                replace(one, cell=one.cell._replace(rows=present[one.cell.rows]), rows=present[one.rows])
                for one in machine.cells
            ]
            tree = replace(machine.tree, rows=present[machine.tree.rows])
            self.approximation_ = replace(machine, tree=tree, cells=cells)

    def _store_way(
        self, way: Way, task: StreamedTask, machine: ApproximateMachine, first: MemoryRows, labels: Labels | None
    ) -> None:
        """Set the attributes of an approximate machine that was trained on a file."""
        host: Any = self  # which has what approximate machines have
        self._forget_before()
        host._store_approximate(way, machine, task.kernel, (task.rows.n, task.rows.p))
        self.spec_, self.n_features_in_, self.C_ = task.spec, task.rows.p, task.spec.C
        if labels is None:
            host.n_iter_ = machine.certificate.n_iter
        else:
            host._name_classes(labels)
            if isinstance(machine, Expansion):
                at = np.searchsorted(first.positions, machine.rows)
                host._arrange(task.scheme, first.labels[at].astype(np.int64))
        host._warn_of_approximation(first.data)

    def _forget_before(self) -> None:
        """Remove what earlier fits have set."""
        for name in ("approximation_", "_solutions", "machines_", "_rows", "_codes", "_targets", "_weights"):
            self.__dict__.pop(name, None)
        self._forget_file()
        self.__dict__.pop("feature_names_in_", None)

    def _store_streamed(self, task: StreamedTask, machine: StreamedMachine, labels: Labels | None) -> None:
        """Set the attributes of a machine that was trained on a file."""
        self._forget_before()
        if "choice_" in vars(self):
            host: Any = self
            machine = replace(machine, certificate=machine.certificate.chosen(str(host.choice_)))
        self._streamed, self.kernel_, self.spec_ = machine, task.kernel, task.spec
        self.n_features_in_, self.shape_fit_ = task.rows.p, (task.rows.n, task.rows.p)
        support, steps = machine.support, machine.n_iter
        self.fit_status_ = 0 if machine.certificate.status is Status.OPTIMAL else 1
        if labels is None:
            self.support_ = support.positions
            self._hold(support.coefficients, machine.biases, support.data)
            self.n_iter_: Any = int(steps[0])
        else:
            codes = support.labels.astype(np.int64)
            order = np.argsort(codes, kind="stable")
            self.C_ = task.spec.C
            self.classes_, self.class_weight_ = labels.classes.copy(), labels.class_weight.copy()
            self.support_ = support.positions[order]
            coefficients = _by_pairs(support.coefficients[order], codes[order], labels.classes.size, task.scheme)
            self._hold(coefficients, machine.biases, support.data.rows(order))
            self._arrange(task.scheme, codes[order])
            self.n_iter_ = steps.astype(np.int32)
        if self.verbose:
            say(machine.reason)
            say(str(machine.certificate))
        certificate = machine.certificate
        if certificate.status is not Status.OPTIMAL and not self._silent:
            warn_user(f"{type(self).__name__} {certificate.ending} {certificate.status.advice}", ConvergenceWarning)


def _first_rows_of(way: Way | None, task: StreamedTask) -> MemoryRows:
    """Return the rows with which a training begins, read in one pass."""
    if isinstance(way, Landmarks):
        return sample_of_file(way, task)
    return cells_sample_of_file(task) if isinstance(way, Cells) else first_rows(task)


def _parts_of(kernel: Kernel) -> list[Any]:
    """Return the kernel and the kernels of which it is made."""
    return [kernel, *kernel.get_params(deep=True).values()]


def _by_pairs(
    coefficients: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], n_classes: int, scheme: str
) -> Coefficients:
    """Return coefficients of rows that are sorted by class in the layout of the scheme."""
    if n_classes <= 2 or scheme != "ovo":
        return coefficients
    table = np.zeros((codes.size, n_classes - 1))
    for number, pair in enumerate(class_pairs(n_classes)):
        for one, other in (pair, pair[::-1]):
            table[codes == one, place_among_others(one, other)] = coefficients[codes == one, number]
    return PairCoefficients(table, np.bincount(codes, minlength=n_classes))
