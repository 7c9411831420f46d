"""Machines that can be trained approximately: the parameter `approximation`."""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from mercer._typing import FloatArray
from mercer.approximate import (
    AUTO,
    ApproximateMachine,
    CellsMachine,
    Choice,
    Expansion,
    Task,
    Way,
    choose,
    values_without_folds,
    way_of,
)
from mercer.approximate.choice import FEWEST_ROWS
from mercer.approximate.stored_choice import load_choice, store_choice
from mercer.certificates.solution import Solutions
from mercer.certificates.status import Status
from mercer.cluster import by_blocks, is_lazy
from mercer.data import Data
from mercer.data.arguments import check_choice, check_whole
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import say
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._device_training import refuse_besides_landmarks, task_rows
from mercer.estimators._dual import DualMachine, SingleMachine
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._lazy_approximation import choose_lazily, digests_of, fit_lazily, may_stay_lazy, trains_lazily
from mercer.estimators._validation import (
    check_sample_weight,
    check_targets,
    refuse_device,
    rows_of_weight,
    scaling_hint,
)
from mercer.kernels import Kernel
from mercer.multiclass import training
from mercer.multiclass.calibration import FOLDS, LEAVE_ONE_OUT
from mercer.solvers import Control, Limits
from mercer.specs import QuadraticSpec

_OF_ONE_SUM = ("support_", "support_vectors_", "dual_coef_", "n_support_", "_coefficients")
_FITTED = ("approximation_", "_solutions", "machines_", "support_", "support_vectors_", "dual_coef_", "n_support_")


class Approximates(DualMachine):
    """A machine that is exact with ``approximation=None``, and approximate otherwise.

    Attributes
    ----------
    approximation_ : ApproximateMachine
        Only of an approximate machine: what was trained.
    choice_ : Choice
        Only if `approximation` is "auto": what was chosen, and why.
    """

    approximation: str | Way | None
    approximation_: ApproximateMachine
    choice_: Choice
    _before = 0.0, False  # seconds of this fit that a choice has taken, and whether it was interrupted
    _shared: dict[Any, Any] | None = None  # what a search keeps for fits that differ in their penalties only

    @property
    def certificate_(self) -> Any:
        """The certificate of all machines together; its `parts` are the certificates of the single machines.

        With an `approximation` it is an :class:`mercer.certificates.ApproximateCertificate`, which has the distance to
        the exact machine.
        """
        if self._is_approximate:
            return self.approximation_.certificate
        certificate = super().certificate_
        return certificate.chosen(str(self.choice_)) if "choice_" in vars(self) else certificate

    @property
    def _is_approximate(self) -> bool:
        return "approximation_" in vars(self)

    @contextmanager
    def _checkpointed(self, folder: Any, X: Any, y: Any, sample_weight: Any, *, inside: str = "") -> Iterator[None]:
        given: Any = X, y, sample_weight
        way = None if self._is_auto else way_of(self.approximation)
        if folder is not None and is_lazy(X) and (trains_lazily(way, X) or (self._is_auto and may_stay_lazy(self))):
            given = digests_of(self, *given)
        with super()._checkpointed(folder, *given, inside=inside):
            yield

    @contextmanager
    def _way(self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> Iterator[Way | None]:
        """Have the body train the machine by this way, exactly if it is None; "auto" chooses it here.

        The time of the choice counts in `max_seconds`, and a stop in it stops the body. The arguments are those of
        `fit`.
        """
        way = None if self._is_auto else way_of(self.approximation)
        if way is not None and self.warm_start:
            raise ValueError(
                "warm_start=True goes on from an exact solution, which an approximate machine does not have: set "
                "warm_start=False, or approximation=None."
            )
        for name in ("approximation_", "choice_", "_of_lazy_table"):
            self.__dict__.pop(name, None)
        if not self._is_auto:
            yield way
            return
        control = self._control()
        self.choice_ = self._choice(machine_spec, X, y, sample_weight, control)
        if self.verbose:
            say(f"{self.choice_}.")
        self._before = self.choice_.seconds, control.interruption.requested
        try:
            yield self.choice_.way
        finally:
            del self._before
            self.__dict__.pop("_prepared", None)

    @property
    def _calibrates(self) -> bool:
        """Whether machines without each fold are trained after the machine, for probabilities."""
        return False

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.approximation, str) and self.approximation == AUTO

    def _choose(self, X: Any, y: Any, sample_weight: Any) -> Choice:
        """Return the choice that `fit` would make with ``approximation="auto"``; KeyboardInterrupt for Ctrl-C."""
        control = self._control()
        choice = self._choice(self._asked_spec(), X, y, sample_weight, control)
        self.__dict__.pop("_prepared", None)  # no fit follows
        if control.interruption.requested:
            raise KeyboardInterrupt
        return choice

    def _choice(self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any, control: Control) -> Choice:
        refuse_device(self, X, "fit with approximation='auto'")
        why = self._why_exact(machine_spec, FEWEST_ROWS if is_lazy(X) else _num_samples(X))
        if why:
            return Choice(None, f"because {why}")
        before = load_choice(control.checkpoint)
        if before is not None:
            return before
        if is_lazy(X):
            choice = choose_lazily(self, machine_spec, X, y, sample_weight, control)
        else:
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit reads the rows again
                task = self._training_task(machine_spec, X, y, sample_weight)
            read = time.perf_counter() - began
            choice = choose(task, control.after(read, 0), calibrates=self._calibrates)
            choice = replace(choice, seconds=choice.seconds + read)
        if not control.interruption.requested:
            store_choice(control.checkpoint, choice)
        return choice

    def _why_exact(self, machine_spec: QuadraticSpec, n_rows: int) -> str:
        """Return why the machine is exact without a pilot; "" if a pilot decides."""
        reasons = {
            f"there are fewer than {FEWEST_ROWS:,} rows": n_rows < FEWEST_ROWS,
            "kernel values are given": self._takes_values(),
            "C is infinite": not math.isfinite(machine_spec.C),
            "warm_start goes on from an exact solution": bool(self.warm_start),
        }
        return next((text for text, is_so in reasons.items() if is_so), "")

    @abstractmethod
    def _asked_spec(self) -> QuadraticSpec:
        """Check the parameters, and return the specification of the exact problem."""

    @abstractmethod
    def _training_task(self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> Task:
        """Check the rows, targets and weights, and return what is trained."""

    def _limits(self) -> Limits:
        return super()._limits().after(self._before[0], 0)

    def _control(self) -> Control:
        control = super()._control()
        if self._before[1]:
            control.interruption.request()
        return control

    def _train_approximately(self, way: Way, task: Task, control: Control) -> ApproximateMachine:
        """Train an approximate machine, and store what prediction needs."""
        if not math.isfinite(task.spec.C):
            raise ValueError(
                "an approximate machine needs a finite C, got C = inf: set a finite C or approximation=None."
            )
        return self._store_approximate(way, way.train(task, control, self._shared), task.kernel, task.data.shape)

    def _store_approximate(
        self, way: Way, machine: ApproximateMachine, kernel: Kernel, shape: tuple[int, int]
    ) -> ApproximateMachine:
        """Store a machine that was trained on a table of this shape, and return it with the reason of its choice."""
        if "choice_" in vars(self):
            machine = replace(machine, certificate=machine.certificate.chosen(str(self.choice_)))  # type: ignore[type-var]
        for name in _FITTED:
            self.__dict__.pop(name, None)
        self.approximation_, self.kernel_, self._trained_way = machine, kernel, way
        self.shape_fit_ = shape
        self.fit_status_ = 0 if machine.certificate.status is Status.OPTIMAL else 1
        if isinstance(machine, Expansion):
            self.support_ = machine.rows.astype(np.int32 if shape[0] < 2**31 else np.int64)
            self._hold(machine.coefficients, machine.biases, None if kernel.takes_values else machine.support)
        else:
            assert isinstance(machine, CellsMachine)
            self.intercept_ = np.zeros(machine.cells[0].columns.constants.size)
        return machine

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say why attributes of a sum over support vectors are missing."""
            if name in _OF_ONE_SUM and self._is_approximate:
                raise AttributeError(
                    f"{name} is of machines that are one sum over support vectors, but this {type(self).__name__} is "
                    f"not: {self.approximation_.certificate.approximation}. Look into approximation_, or take "
                    "approximation='landmarks' or None."
                )
            return super().__getattribute__(name)  # raises the error again, which a property may have made

    def _values(self, data: Data, biases: FloatArray) -> FloatArray:
        if self._is_approximate and not isinstance(self.approximation_, Expansion):
            return self.approximation_.values(data, self.n_jobs) + biases
        return super()._values(data, biases)

    def _check_exact(self, what: str) -> None:
        """Refuse work that needs the solution of an exact machine, which is what the parameters must ask for, too."""
        is_exact = self.approximation is None or (self._is_auto and hasattr(self, "kernel_"))
        if self._is_approximate or not is_exact:
            raise ValueError(
                f"{what} needs an exact machine, whose solution it changes, but this {type(self).__name__} has "
                f"approximation={self.approximation!r}. Set approximation=None and fit it again; an approximate "
                "machine is fitted to all rows at once."
            )

    def _solved(self) -> Solutions:
        if self._is_approximate:
            raise AttributeError(
                f"this {type(self).__name__} is approximate ({self.approximation_.certificate.approximation}), and has "
                "no exact solution, whose rows could be left out, removed or added to, or whose examples could be "
                "listed. Fit it with approximation=None."
            )
        return super()._solved()

    def _warn_of_approximation(self, data: Data) -> None:
        """Say what was done, and warn if the machine is not the optimum of its own problem."""
        certificate = self.approximation_.certificate
        if self.verbose:
            say(self.approximation_.reason)
            say(str(certificate))
        if self._silent or (self._search is not None and self._search.requested):
            return
        self._warn_of_memory(certificate.peak_memory_bytes)
        if certificate.status is not Status.OPTIMAL:
            hint = scaling_hint(data, getattr(self, "feature_names_in_", None))
            text = f"{type(self).__name__} {certificate.ending} {certificate.status.advice} {hint}"
            warn_user(text.strip(), ConvergenceWarning)
        elif shortfall := self._trained_way.shortfall(self.approximation_):
            warn_user(f"{type(self).__name__}: {shortfall}", ConvergenceWarning)


class ApproximatesClasses(Approximates, MarginClassifier):
    """A classifier of machines for two classes that can be trained approximately."""

    def _train_by(
        self, way: Way, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any, groups: Any = None
    ) -> None:
        """Train the machines approximately; the arguments are those of `fit`."""
        began = time.perf_counter()
        self._begin_probabilities()
        control = self._control()
        check_choice("multi_class", self.multi_class, self._schemes)
        if self.multi_class == training.JOINT:
            raise ValueError(
                "a joint machine cannot be approximated: set multi_class='ovr' or 'ovo', or approximation=None."
            )
        self._check_shape(self.multi_class)
        refuse_besides_landmarks(self, way, X)
        if trains_lazily(way, X):
            fit_lazily(self, way, machine_spec, X, y, sample_weight, control)
            return
        task, labels = self._labelled_task(machine_spec, X, y, sample_weight, groups)
        self._check_folds(labels)
        machine = self._train_approximately(way, task, control.after(time.perf_counter() - began, 0))
        self._name_classes(labels)
        if isinstance(machine, Expansion):
            self._arrange(self.multi_class, labels.codes[self.support_])
        self._warn_of_approximation(task.data)
        if self._has_probabilities():
            self._calibrate_by_folds(way, task, labels, control, began)

    def _name_classes(self, labels: Labels) -> None:
        """Store the classes of the machine that was trained."""
        self.classes_, self.class_weight_ = labels.classes.copy(), labels.class_weight.copy()
        n_iter = self.approximation_.certificate.n_iter
        self._scheme, self.n_iter_ = self.multi_class, np.array([n_iter], dtype=np.int64)

    def _why_exact(self, machine_spec: QuadraticSpec, n_rows: int) -> str:
        """See :meth:`Approximates._why_exact`."""
        if self.multi_class == training.JOINT:
            return "a joint machine cannot be approximated"
        if self._has_probabilities() and self.calibration_values == LEAVE_ONE_OUT:
            return "calibration_values='leave_one_out' needs an exact machine"
        return super()._why_exact(machine_spec, n_rows)

    @property
    def _calibrates(self) -> bool:
        return self._has_probabilities()

    def _training_task(self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> Task:
        """See :meth:`Approximates._training_task`."""
        check_choice("multi_class", self.multi_class, self._schemes)
        return self._labelled_task(machine_spec, X, y, sample_weight)[0]

    def _labelled_task(
        self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any, groups: Any = None
    ) -> tuple[Task, Labels]:
        """Check the rows and labels, and return what is trained, and the labels."""
        spec, data = task_rows(self, X, y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n, groups=groups)
        task = Task(
            machine_spec,
            spec.resolve(data, labels.uneven_weights),
            data,
            labels.rows,
            labels.codes[labels.rows],
            labels.weights[labels.rows],
            labels.classes.size,
            self.multi_class,
            check_whole("n_jobs", self.n_jobs),
            check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0),
            labels.penalties(machine_spec.C),
        )
        return task, labels

    def _check_folds(self, labels: Labels) -> None:
        """Refuse probabilities that need more than machines without folds of rows of every class."""
        if not self._has_probabilities():
            return
        if self.calibration_values == LEAVE_ONE_OUT:
            raise ValueError(
                'calibration_values="leave_one_out" needs the solution of an exact machine: set "folds" or "auto", or '
                "approximation=None."
            )
        codes, folds = labels.codes[labels.rows], labels.folds
        for fold in np.unique(folds):
            missing = np.setdiff1d(np.arange(labels.classes.size), codes[folds != fold])
            if missing.size:
                raise ValueError(
                    "probability=True calibrates on folds, but all rows of class "
                    f"{labels.classes[missing].tolist()[0]!r} are in one of them: give rows of it in two folds at "
                    "least, or set probability=False."
                )

    def _calibrate_by_folds(self, way: Way, task: Task, labels: Labels, control: Control, began: float) -> None:
        """Fit the map from decision values to probabilities on values by machines without the row's fold."""
        self.calibration_values_ = FOLDS
        self.calibration_reason_ = "an approximate machine has no solution from which single rows could be left out"
        folds = labels.folds
        if task.n < task.data.n and not task.kernel.takes_values:
            # A model file has the rows of positive weight alone; verification repeats the same operations on them.
            task = replace(task, data=task.data.rows(task.rows), rows=np.arange(task.n))

        def left(n_folds: int) -> Control:
            rest = control.after(time.perf_counter() - began, 0)
            if rest.limits.max_seconds is None:
                return rest
            return rest.with_limits(replace(rest.limits, max_seconds=rest.limits.max_seconds / n_folds))

        without_folds = partial(values_without_folds, way, task, folds, left)
        raw = self._left_out_in_time(without_folds, control.limits.max_seconds, began)
        if raw is not None:
            self._calibrate(raw, labels, self.multi_class)

    @by_blocks
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """See :meth:`MarginClassifier.predict`."""
        if not self._is_approximate or isinstance(self.approximation_, Expansion):
            return super().predict(X)
        scores = training.class_scores(self._raw_decision(self._new_rows(X)), self.classes_.size, self._scheme)
        return self.classes_[training.winners(scores)]


class ApproximatesOneMachine(Approximates, SingleMachine):
    """A regression or a detector of novelties that can be trained approximately."""

    def _train_by(self, way: Way, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> Data | None:
        """Train the machine approximately, and return its rows, None if they are with workers.

        The arguments are those of :meth:`SingleMachine._train`.
        """
        control, began = self._control(), time.perf_counter()
        refuse_besides_landmarks(self, way, X)
        if trains_lazily(way, X):
            fit_lazily(self, way, machine_spec, X, y, sample_weight, control)
            self.spec_, self.n_iter_ = machine_spec, self.approximation_.certificate.n_iter
            return None
        task = self._training_task(machine_spec, X, y, sample_weight)
        data = task.data
        machine = self._train_approximately(way, task, control.after(time.perf_counter() - began, 0))
        self.spec_ = machine_spec
        self._targets = np.zeros(data.n) if isinstance(y, str) else check_targets(y)
        self._weights = None if sample_weight is None else check_sample_weight(sample_weight, data.n)
        self.n_iter_ = machine.certificate.n_iter
        self._warn_of_approximation(data)
        return data

    def _training_task(self, machine_spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> Task:
        """See :meth:`Approximates._training_task`."""
        spec, data = task_rows(self, X, y)
        weights = check_sample_weight(sample_weight, data.n)
        rows = rows_of_weight(weights)
        targets = np.zeros(data.n) if isinstance(y, str) else check_targets(y)
        return Task(
            machine_spec,
            spec.resolve(data, None if sample_weight is None else weights),
            data,
            rows,
            targets[rows],
            weights[rows],
            n_jobs=check_whole("n_jobs", self.n_jobs),
            memory_limit=check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0),
        )
