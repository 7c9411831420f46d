"""A trained machine as a value: all that predicting and verifying need, and nothing that only training needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.certificates.certificate import Certificate, combine
from mercer.data import Vectors, as_data
from mercer.data.lazy import lazy_property
from mercer.kernels import Kernel
from mercer.losses.certificate import LossCertificate
from mercer.losses.certificate import combine as combine_losses
from mercer.model_selection.seal import Seal
from mercer.multiclass.calibration import Calibration
from mercer.multiclass.coefficients import Coefficients, Entries
from mercer.problems import Problem, has_width
from mercer.specs import MachineSpec, Point, QuadraticSpec
from mercer.tables.encoding import TableEncoder
from mercer.tables.prediction_kind import PartTask, PredictionKind
from mercer.tables.table import Table, TableWarning


@dataclass(frozen=True, eq=False)
class Part:
    """One machine of a model, or one output of a machine with several, as it was found.

    Attributes
    ----------
    support : ndarray of int64
        Its support vectors, as positions in the model's `support_rows`. One that has two variables other than 0, one of
        each sign, is there twice.
    beta : ndarray of float64
        Their signed coefficients.
    bias : float
    half_width : float or None
        Half of the distance between the levels of its two groups: the margin rho of NuSVC, the epsilon of NuSVR. None
        for machines with one group or none.
    certificate : Certificate, LossCertificate, Separation or None
        What it claims, as computed when it was trained. Of the outputs of one problem, the first has it. None where
        nothing is claimed.
    multipliers : ndarray of float64 or None
        A dual point at the support vectors, where the coefficients do not tell it (`GradientKernelSVC`).
    """

    support: npt.NDArray[np.int64]
    beta: npt.NDArray[np.float64]
    bias: float
    half_width: float | None
    certificate: Any
    multipliers: npt.NDArray[np.float64] | None = None

    @property
    def divisor(self) -> float:
        """What decision values are divided by so that margins are held against 1: rho of NuSVC, where there is one."""
        found = self.half_width
        return found if found is not None and has_width(found, self.certificate.rounding) else 1.0


@dataclass(frozen=True, eq=False)
class Training:
    """What a model was trained on, so that it can be verified against it.

    Attributes
    ----------
    rows : ndarray of int64
        Indices of the training rows in the table.
    checksum : str
        Of the cells of these rows in the columns that the model uses, the target included.
    class_weight : ndarray of float64, or None
        One weight a class; None where there are no classes.
    sample_weight : ndarray of float64, or None
        One weight a training row; None stands for all ones.
    """

    rows: npt.NDArray[np.int64]
    checksum: str
    class_weight: npt.NDArray[np.float64] | None = None
    sample_weight: npt.NDArray[np.float64] | None = None

    def penalties(self, C: float, truth: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """C_i of each training row, of which this is what it says."""
        # In the order of the fit, so that bounds are equal to the bit.
        by_row = np.full(truth.size, C) if self.class_weight is None else C * self.class_weight[truth]
        return by_row if self.sample_weight is None else by_row * self.sample_weight


@dataclass(frozen=True, eq=False)
class Model:
    """A trained machine for the rows of a table.

    Attributes
    ----------
    encoder : TableEncoder
        From a table to a matrix, as learnt on the training rows.
    outcome : Outcome
        What it answers.
    recipe : Recipe
        What was solved.
    kernel : Kernel
    support_rows : ndarray of int64
        The support vectors of all parts, as positions among the training rows; empty where they are none of these (the
        centres of a network, the w of a linear machine).
    support_vectors : Vectors
        The same, as encoded rows.
    parts : tuple of Part
    training : Training
    calibration : Calibration or None
        What makes probabilities of decision values, where the machine was fitted with ``probability=True``.
    seal : Seal or None
        The record of the test part that it was judged by, where that was under seal.
    """

    encoder: TableEncoder
    prediction_kind: PredictionKind
    machine_spec: MachineSpec
    kernel: Kernel
    support_rows: npt.NDArray[np.int64]
    support_vectors: Vectors
    parts: tuple[Part, ...]
    training: Training
    calibration: Calibration | None = None
    seal: Seal | None = None

    @property
    def target(self) -> str | None:
        """Column that it predicts; None where there is none."""
        return self.prediction_kind.column

    @property
    def certificate(self) -> Any:
        """Certificate of the whole; None of a machine that claims no optimum."""
        return combined([part.certificate for part in self.parts])

    def decision_values(self, table: Any) -> npt.NDArray[np.float64]:
        """Decision value of every part, (n, number of parts), in float64."""
        return self._values(as_data(self.encoder.transform(table)))

    def _values(self, data: Vectors) -> npt.NDArray[np.float64]:
        return self.machine_spec.values(self.kernel, data, self.support_vectors, *self._machines)

    def point(self, parts: tuple[Part, ...], rows: npt.NDArray[np.int64]) -> Point:
        """The point of a problem whose outputs these parts are, on these of the training rows.

        Raises
        ------
        ValueError
            If a part has support vectors that are none of these rows.
        """
        n_vectors, vectors = self.support_vectors.n, self.support_vectors
        beta = np.zeros((n_vectors, len(parts)))
        multipliers = None if parts[0].multipliers is None else np.zeros(n_vectors)
        for column, part in enumerate(parts):
            beta[part.support, column] = part.beta
            if multipliers is not None:
                multipliers[part.support] = part.multipliers
        bias = np.array([part.bias for part in parts])
        if self.machine_spec.own_vectors is not None:
            return Point(beta, bias, vectors)
        place = np.full(len(self.training.rows), -1)
        place[rows] = np.arange(rows.size)
        used = np.unique(np.concatenate([part.support for part in parts]))
        where = place[self.support_rows[used]]
        if (where < 0).any():
            raise ValueError("a machine has support vectors of classes that it does not tell apart")
        found = np.zeros((rows.size, len(parts)))
        found[where] = beta[used]
        if multipliers is None:
            return Point(found, bias)
        duals = np.zeros(rows.size)
        duals[where] = multipliers[used]
        return Point(found, bias, multipliers=duals)

    @lazy_property
    def _machines(self) -> tuple[Coefficients, npt.NDArray[np.float64]]:
        """The coefficients and biases of all parts, as they decide."""
        parts = self.parts
        machines = np.arange(len(parts)).repeat([part.support.size for part in parts])
        beta, biases = np.concatenate([part.beta for part in parts]), np.array([part.bias for part in parts])
        if self.machine_spec.is_scaled:
            divisors = np.array([part.divisor for part in parts])
            beta, biases = beta / divisors[machines], biases / divisors
        vectors = np.concatenate([part.support for part in parts])
        return self.prediction_kind.machines(
            Entries(vectors, machines, beta, self.support_vectors.n, len(parts)), biases
        )

    def scores(self, table: Any) -> npt.NDArray[np.float64]:
        """What decides about each row: see `scores` of the model's `prediction_kind`."""
        return self._scores(as_data(self.encoder.transform(table)))

    def _scores(self, data: Vectors) -> npt.NDArray[np.float64]:
        return self.prediction_kind.scores(self._values(data), lambda: self.kernel.diag(data))

    @property
    def has_probabilities(self) -> bool:
        """Whether it knows the probability of each class."""
        return (
            self.calibration is not None or self.machine_spec.probabilities(np.zeros((1, len(self.parts)))) is not None
        )

    def probabilities(self, table: Any) -> npt.NDArray[np.float64]:
        """Probability of each class, (n, n_classes), in the order of the outcome's labels.

        Raises
        ------
        ValueError
            If it knows none.
        """
        make = self.machine_spec.probabilities if self.calibration is None else self.calibration.probabilities
        found = make(self.decision_values(table))
        if found is None:
            raise ValueError(
                f"this {self.machine_spec.machine} knows no probabilities: fit an SVC or a NuSVC with "
                "probability=True, or a KernelLogisticRegression."
            )
        return found

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """Answer for each row of a table or data frame: its label, its number, or whether it is inside.

        Warns
        -----
        TableWarning
            If the table holds categories, or features of a sparse block, that no training row had.
        """
        self._warn_of_unseen(table)
        data = as_data(self.encoder.transform(table))
        if not self.machine_spec.is_sum:
            return self.prediction_kind.answers(self._scores(data))
        found = self.prediction_kind.predict(self.kernel, data, self.support_vectors, *self._machines)
        return self.prediction_kind.answers(self._scores(data)) if found is None else found

    def answer(self, table: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """What `predict` says of each row, and the scores that decided it; warns as `predict` does."""
        self._warn_of_unseen(table)
        scores = self.scores(table)
        return self.prediction_kind.answers(scores), scores

    def _warn_of_unseen(self, table: Any) -> None:
        for sentence in self.encoder.describe_unseen(table):
            warnings.warn(sentence, TableWarning, stacklevel=3)

    def training_part(self, table: Table) -> Table:
        """The training rows of the table, with the columns that the model uses and the target."""
        return used_part(table, self.encoder, self.prediction_kind.column, self.training.rows)


def used_part(table: Table, encoder: TableEncoder, target: str | None, rows: npt.NDArray[np.int64]) -> Table:
    """These rows of the table, with the columns that an encoder uses and the target."""
    if encoder.dense_block_ is not None:
        table = table.densified(encoder.dense_block_)
    names = [rule.name for rule in encoder.rules_]
    return table.take(rows).select(names if target is None else [*names, target])


def combined(claims: list[Any]) -> Any:
    """The claim of a whole whose parts claim these; None where there is no certificate."""
    known = [one for one in claims if one is not None]
    if known and isinstance(known[0], Certificate):
        return combine(known)
    return combine_losses(known) if known and isinstance(known[0], LossCertificate) else None


def point_of(problem: Problem, rows: npt.NDArray[np.int64], beta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The point of a problem whose variables other than 0 are `beta`, each of one of these rows.

    Of a row with two variables, one of each sign, the positive one comes first in a problem.
    """
    point = np.zeros(problem.n)
    point[rows if problem.rows is None else np.where(beta > 0.0, rows, rows + problem.n_rows)] = beta
    return point


def grouped(
    machine_spec: MachineSpec, tasks: Sequence[PartTask]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """The rows and the targets of each problem: (n,), or (n, n_parts) of one whose outputs are all the parts.

    Targets of machines without a box problem are (n, 1) where there is one problem for each part.
    """
    if machine_spec.is_whole:
        return [(tasks[0].rows, np.column_stack([task.targets for task in tasks]))]
    if isinstance(machine_spec, QuadraticSpec):
        return [(task.rows, task.targets) for task in tasks]
    return [(task.rows, task.targets[:, None]) for task in tasks]


def grouped_parts(model: Model) -> list[tuple[Part, ...]]:
    """The parts of each problem."""
    return [model.parts] if model.machine_spec.is_whole else [(part,) for part in model.parts]
