"""The three kinds of prediction: a class, a number, or whether a row is like the training rows.

This module holds all differences between these kinds for a trained model: the meaning of the target column, the
machines of a model and their targets, and how decision values become predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Table, TableError, cell_text, listing, text_cells
from mercer.kernels import Kernel
from mercer.multiclass import (
    JOINT,
    Coefficients,
    Entries,
    PairCoefficients,
    class_scores,
    make_tasks,
    predicted_classes,
    winners,
)
from mercer.studies.tables.number_text import in_order
from mercer.studies.tables.target_numbers import check_numbers, number_or_nan, numbers

Answers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class PartTask:
    """The training task of one machine of a model: its rows among the training rows, and their targets."""

    rows: IndexArray
    targets: FloatArray


class PredictionKind(ABC):
    """The kind of prediction that a model makes.

    Attributes
    ----------
    kind : str
        Name of the kind in model files.
    column : str or None
        Column of the target in the table; None without a target.
    """

    kind: ClassVar[str]
    column: str | None

    @property
    @abstractmethod
    def n_parts(self) -> int:
        """Number of machines of a model of this kind."""

    @abstractmethod
    def truth(self, table: Table) -> npt.NDArray[Any]:
        """Return the target of each row, (n,): class numbers (-1: unknown label) or numbers (NaN: missing)."""

    @abstractmethod
    def tasks(self, truth: npt.NDArray[Any]) -> Sequence[PartTask]:
        """Return the training task of each machine, given the targets of the training rows."""

    def as_y(self, truth: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return the y that an estimator takes, given the targets of the training rows."""
        return truth

    @abstractmethod
    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Return scores from the decision values of the machines, (n, n_parts); `lengths` gives k(x, x) of each row."""

    @abstractmethod
    def answers(self, scores: FloatArray) -> Answers:
        """Return the prediction for each row, from its scores."""

    @abstractmethod
    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Return the columns of a table of predictions."""

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """Return a phrase on how far predictions agree with the table's target in some rows; "" without a target."""
        del table, answers, rows
        return ""

    @property
    def is_text(self) -> bool:
        """Whether the target is text."""
        return False

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """Return the coefficients and biases for prediction, from the coefficients and biases of the machines."""
        return entries.table(), biases

    def predict(
        self, kernel: Kernel, data: Data, support: Data, coefficients: Coefficients, biases: FloatArray
    ) -> Answers | None:
        """Return the predictions if they can be computed faster than by the scores, otherwise None."""
        return None

    def contradicted(self, table: Table) -> str:
        """Return why the training rows contradict the claim of the model; "" if they do not."""
        return ""


@dataclass(frozen=True, eq=False)
class Classes(PredictionKind):
    """The prediction is one of several classes.

    Attributes
    ----------
    column : str
    labels : ndarray
        Labels (text or numbers), in the order of the class numbers.
    scheme : {"ovo", "ovr", "joint"}
    are_booleans : bool
        Whether the labels "False" and "True" were booleans; predictions are booleans then.
    """

    kind = "classes"
    column: str
    labels: npt.NDArray[Any]
    scheme: str = "ovo"
    are_booleans: bool = False

    @property
    def outcomes(self) -> npt.NDArray[Any]:
        """The labels as they are predicted."""
        return np.array([False, True]) if self.are_booleans else self.labels

    def as_booleans(self) -> Classes:
        """Return the classes of a target of booleans: their predictions are booleans."""
        return replace(self, are_booleans=self.labels.tolist() == ["False", "True"])

    @property
    def names(self) -> list[str]:
        """The labels as text."""
        return [cell_text(label) for label in self.labels.tolist()]

    @property
    def n_parts(self) -> int:
        """Number of machines: 1 for two classes, else one for each pair or class; for a joint machine, n_classes."""
        n = len(self.labels)
        if self.scheme == JOINT:
            return n
        return 1 if n == 2 else n if self.scheme == "ovr" else n * (n - 1) // 2

    @property
    def sides(self) -> list[tuple[int, int | None]]:
        """The two classes of each machine; the second is None for all other classes."""
        n = len(self.labels)
        return [(one.positive, one.negative) for one in make_tasks(np.arange(n), n, self.scheme)]

    def truth(self, table: Table) -> IndexArray:
        """Return the class number of each row; -1 for a label that the model does not know."""
        code_of = {label: code for code, label in enumerate(self.names)}
        cells = (table.as_written(self.column) if self.is_text else table)[self.column]
        gone = table.missing(self.column)
        codes = [-1 if g else code_of.get(cell_text(cell), -1) for cell, g in zip(cells, gone, strict=True)]
        return np.array(codes, dtype=np.int64)

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """Return the rows and signs of each machine."""
        if self.scheme == JOINT:
            every = np.arange(truth.size)
            return [PartTask(every, np.where(truth == k, 1.0, -1.0)) for k in range(len(self.labels))]
        return [PartTask(one.rows, one.signs) for one in make_tasks(truth, len(self.labels), self.scheme)]

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """Return the machines' coefficients; for a joint machine with two classes, the second minus the first."""
        n_classes = len(self.labels)
        if self.scheme == "ovo" and n_classes > 2:
            return PairCoefficients.of_entries(entries, n_classes), biases
        table = entries.table()
        if self.scheme == JOINT and n_classes == 2:
            return table[:, 1:] - table[:, :1], biases[1:] - biases[:1]
        return table, biases

    def as_y(self, truth: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the label of each row."""
        return self.labels[truth]

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Return scores: (n,), positive for the second class, or (n, n_classes), where the largest score wins."""
        return class_scores(values, len(self.labels), self.scheme)

    def answers(self, scores: FloatArray) -> Answers:
        """Return the label of each row."""
        return self.outcomes[winners(scores)]

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Return the label, and the decision value of the second class, or with more classes a score for each."""
        named = self.names if scores.ndim == 2 else self.names[1:]
        values = scores.reshape(len(answers), -1).T.tolist()
        return {"label": answers.tolist()} | {
            f"decision_value_{name}": column for name, column in zip(named, values, strict=True)
        }

    def predict(
        self, kernel: Kernel, data: Data, support: Data, coefficients: Coefficients, biases: FloatArray
    ) -> Answers:
        """Return labels, computed in float32 where a rounding bound proves them."""
        winning = predicted_classes(
            kernel, data, support, coefficients, biases, n_classes=len(self.labels), scheme=self.scheme
        )
        return self.outcomes[winning]

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """Return a phrase with the number of correct labels."""
        codes = self.truth(table)[rows]
        right = np.count_nonzero((codes >= 0) & (self.outcomes[codes] == answers[rows]))
        return f"{right:,} of {rows.size:,} labels agree with the column {self.column!r}"

    @property
    def is_text(self) -> bool:
        """Whether the labels are text."""
        return self.labels.dtype == object

    def contradicted(self, table: Table) -> str:
        """Return why these are not the classes of the rows; "" if they are."""
        names = sorted({cell_text(cell) for cell in table[self.column]})
        if names == sorted(self.names):
            return ""
        return (
            f"the classes in the file are {listing(self.names)}, but the training rows hold {listing(names)} in the "
            f"column {self.column!r}"
        )

    def margins(self, values: FloatArray, codes: IndexArray) -> FloatArray:
        """Return the margin y f(x) of each row; with two classes, a row with a margin below 0 is misclassified.

        With several classes, it is the smallest margin over the machines that involve the row's class. If it is below
        0, at least one machine decides against the row, but the vote may still be right.
        """
        margins = np.full(len(codes), np.inf)
        for (positive, negative), value in zip(self.sides, values.T, strict=True):
            ours = codes == positive
            theirs = ~ours if negative is None else codes == negative
            margins[ours] = np.minimum(margins[ours], value[ours])
            margins[theirs] = np.minimum(margins[theirs], -value[theirs])
        return margins

    @classmethod
    def learnt(cls, column: str, cells: npt.NDArray[Any], scheme: str = "ovo") -> Classes:
        """Return the classes of cells that are all known; TableError for fewer than two classes."""
        labels, _ = class_codes(cells)
        if len(labels) < 2:
            raise TableError(f"the target {column!r} must have at least two classes, but is {labels[0]!r} in every row")
        return cls(column, labels, scheme)


def class_codes(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and class numbers of a target without missing cells.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted labels: int64 if all cells are whole numbers, otherwise text (by value if all of them are numbers).
    codes : ndarray of shape (n,), int64
        Index of each row's label in `classes`.
    """
    are_integers = (
        column.dtype != object and bool((column == np.round(column)).all()) and float(np.abs(column).max()) < 2**53
    )
    if are_integers:
        classes, codes = np.unique(column.astype(np.int64), return_inverse=True)
        return classes, codes.astype(np.int64)
    cells = text_cells(column).tolist()
    names = in_order(set(cells))
    place = {name: code for code, name in enumerate(names)}
    return np.array(names, dtype=object), np.array([place[cell] for cell in cells], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Quantity(PredictionKind):
    """The prediction is a number.

    Machines are trained on (y - centre) / scale. So C, epsilon and tolerances are relative to the spread of the target,
    and do not depend on its unit. Predictions are in the unit of the target.

    Attributes
    ----------
    column : str
    centre, scale : float
        Mean and standard deviation of the training rows, or 0 and 1.
    """

    kind = "quantity"
    column: str
    centre: float = 0.0
    scale: float = 1.0

    @property
    def n_parts(self) -> int:
        """1: there is one machine."""
        return 1

    def truth(self, table: Table) -> FloatArray:
        """Return the target of each row, centred and scaled."""
        return self.scaled(numbers(table, self.column))

    def scaled(self, values: FloatArray) -> FloatArray:
        """Return numbers centred and scaled, as machines are trained on them."""
        return (values - self.centre) / self.scale

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """Return all rows with their numbers."""
        return [PartTask(np.arange(truth.size), truth)]

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Return predictions in the target's unit, (n,)."""
        return self.in_unit(values[:, 0])

    def in_unit(self, values: FloatArray) -> FloatArray:
        """Return numbers in the target's unit, from the outputs of machines."""
        with np.errstate(over="ignore"):  # only a manipulated model file can cause overflow; the result is infinite
            return self.centre + self.scale * values

    def answers(self, scores: FloatArray) -> Answers:
        """Return the predictions."""
        return scores

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Return the prediction column."""
        return {"prediction": answers.tolist()}

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """Return a phrase with the mean absolute error."""
        off = np.abs(numbers(table, self.column) - answers)[rows]
        return (
            f"predictions for {rows.size:,} differ from the column {self.column!r} by {np.nanmean(off):.4g} on average"
        )

    def contradicted(self, table: Table) -> str:
        """Return why the rows do not hold numbers; "" if they do."""
        if np.isnan(numbers(table, self.column)).any():
            return f"the target {self.column!r} is a number in the file, but the training rows hold other things"
        return ""

    @classmethod
    def learnt(cls, column: str, cells: npt.NDArray[Any]) -> Quantity:
        """Return the scaling of known cells; TableError if they are not numbers, too large, or all equal."""
        if cells.dtype == object:
            values = np.array([number_or_nan(cell) for cell in cells])
            if np.isnan(values).any():
                stray = cells[np.isnan(values).argmax()]
                raise TableError(f"the target {column!r} must hold numbers for regression, but holds {stray!r}")
            cells = values
        check_numbers(column, cells, f"all {cells.size} rows to train on")
        centre = float(cells.mean())
        return cls(column, centre, float(np.sqrt(np.mean((cells - centre) ** 2))))


@dataclass(frozen=True)
class Membership(PredictionKind):
    """The prediction is 1 if a row is like the training rows, otherwise -1.

    Attributes
    ----------
    offset : float
        Rows with a lower score are outside.
    squared_norm : float or None
        Squared norm of the centre of a ball; its scores are minus the squared distances from the centre. None for a
        half-space, whose scores are decision values without bias.
    length : float or None
        k(x, x) of a ball with given kernel values, if all training rows have the same one.
    """

    kind = "membership"
    offset: float
    squared_norm: float | None = None
    length: float | None = None
    column = None

    @property
    def n_parts(self) -> int:
        """1: there is one machine."""
        return 1

    def truth(self, table: Table) -> FloatArray:
        """Return zeros, because there is no target."""
        return np.zeros(table.n_rows)

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """Return all rows."""
        return [PartTask(np.arange(truth.size), truth)]

    def as_y(self, truth: npt.NDArray[Any]) -> None:
        """Return None, because there is no target."""

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Return the score of each row minus the offset, (n,); negative outside."""
        return values[:, 0] if self.squared_norm is None else values[:, 0] - lengths()

    def answers(self, scores: FloatArray) -> Answers:
        """Return 1 inside, -1 outside."""
        return np.where(scores >= 0.0, 1, -1).astype(np.int64)

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Return the columns for inside or outside, and for the score."""
        return {"inside": answers.tolist(), "decision_value": scores.tolist()}

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """Return the coefficients, with -offset as bias; doubled for a ball, as in |x - c|²."""
        if self.squared_norm is None:
            return entries.table(), np.array([-self.offset])
        return 2.0 * entries.table(), np.array([-(self.squared_norm + self.offset)])
