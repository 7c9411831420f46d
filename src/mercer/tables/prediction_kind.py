"""What a model answers: a class, a number, or whether a row is like the training rows.

The one place where these three differ for a trained model: what the target's column means, which parts there are and
what each is held against, and what becomes of their decision values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Vectors
from mercer.data.phrasing import listing
from mercer.kernels import Kernel
from mercer.multiclass import training
from mercer.multiclass.coefficients import Coefficients, Entries, PairCoefficients
from mercer.multiclass.prediction import predicted_classes
from mercer.tables.table import Table, TableError, cell_text, text_cells

Answers: TypeAlias = npt.NDArray[Any]

MAX_TARGET = 1e100
"""Largest size of a target, far below where squares of deviations overflow."""

MIN_SPREAD = 1e-100
"""Smallest spread of a target, far above where squares of deviations vanish."""


@dataclass(frozen=True)
class PartTask:
    """What one part of a model was trained for: its rows among the training rows, and the target of each."""

    rows: IndexArray
    targets: FloatArray


class PredictionKind(ABC):
    """What a model answers.

    Attributes
    ----------
    kind : str
        In model files.
    column : str or None
        The target's column in the table; None where there is no target.
    """

    kind: ClassVar[str]
    column: str | None

    @property
    @abstractmethod
    def n_parts(self) -> int:
        """Number of machines that a model of this outcome has."""

    @abstractmethod
    def truth(self, table: Table) -> npt.NDArray[Any]:
        """What each row of a table says, (n,): class numbers, -1 for others; numbers, NaN for others."""

    @abstractmethod
    def tasks(self, truth: npt.NDArray[Any]) -> Sequence[PartTask]:
        """What each part is trained for, where this is what the training rows say."""

    def as_y(self, truth: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """What an estimator is given as y, where this is what the training rows say."""
        return truth

    @abstractmethod
    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """What decides, from the decision values of the parts, (n, n_parts); `lengths` gives k(x, x) of each row."""

    @abstractmethod
    def answers(self, scores: FloatArray) -> Answers:
        """The answer for each row, from what decides."""

    @abstractmethod
    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Columns of a table of predictions."""

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """How far answers agree with what some rows of the table say, in words; "" where there is no target."""
        del table, answers, rows
        return ""

    @property
    def is_text(self) -> bool:
        """Whether the target is text."""
        return False

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """Coefficients and biases that decide, from those of the parts."""
        return entries.table(), biases

    def predict(
        self, kernel: Kernel, data: Vectors, support: Vectors, coefficients: Coefficients, biases: FloatArray
    ) -> Answers | None:
        """The answers, where there is a shorter way to them than by the scores; None where there is none."""
        return None

    def contradicted(self, table: Table) -> str:
        """Why the training rows of a model do not say what it claims; "" where they do."""
        return ""


@dataclass(frozen=True, eq=False)
class Classes(PredictionKind):
    """One of several classes.

    Attributes
    ----------
    column : str
    labels : ndarray
        Labels (str or numbers), in the order of the class numbers.
    scheme : {"ovo", "ovr", "joint"}
    """

    kind = "classes"
    column: str
    labels: npt.NDArray[Any]
    scheme: str = "ovo"

    @property
    def names(self) -> list[str]:
        """Labels as text."""
        return [cell_text(label) for label in self.labels.tolist()]

    @property
    def n_parts(self) -> int:
        """Number of machines: one for two classes, else one for each pair or class; a joint one's always for each."""
        n = len(self.labels)
        if self.scheme == training.JOINT:
            return n
        return 1 if n == 2 else n if self.scheme == "ovr" else n * (n - 1) // 2

    @property
    def sides(self) -> list[tuple[int, int | None]]:
        """The class on either side of each machine; the second is None where it is all the others."""
        n = len(self.labels)
        return [(one.positive, one.negative) for one in training.make_tasks(np.arange(n), n, self.scheme)]

    def truth(self, table: Table) -> IndexArray:
        """Class number of each row; -1 for a label that the model does not know."""
        known = {label: code for code, label in enumerate(self.names)}
        cells, gone = table[self.column], table.missing(self.column)
        codes = [-1 if g else known.get(cell_text(cell), -1) for cell, g in zip(cells, gone, strict=True)]
        return np.array(codes, dtype=np.int64)

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """Rows and signs of each machine."""
        if self.scheme == training.JOINT:
            every = np.arange(truth.size)
            return [PartTask(every, np.where(truth == k, 1.0, -1.0)) for k in range(len(self.labels))]
        return [PartTask(one.rows, one.signs) for one in training.make_tasks(truth, len(self.labels), self.scheme)]

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """Those of the parts; of a joint machine for two classes, by how much the second exceeds the first."""
        n_classes = len(self.labels)
        if self.scheme == "ovo" and n_classes > 2:
            return PairCoefficients.of_entries(entries, n_classes), biases
        table = entries.table()
        if self.scheme == training.JOINT and n_classes == 2:
            return table[:, 1:] - table[:, :1], biases[1:] - biases[:1]
        return table, biases

    def as_y(self, truth: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Label of each row."""
        return self.labels[truth]

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Scores: (n,), positive for the second class, or (n, n_classes), of which the largest wins."""
        return training.class_scores(values, len(self.labels), self.scheme)

    def answers(self, scores: FloatArray) -> Answers:
        """Label of each row."""
        return self.labels[training.winners(scores)]

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """The label, and the decision value of the second class, or a score for each of more classes."""
        named = self.names if scores.ndim == 2 else self.names[1:]
        values = scores.reshape(len(answers), -1).T.tolist()
        return {"label": answers.tolist()} | {
            f"decision_value_{name}": column for name, column in zip(named, values, strict=True)
        }

    def predict(
        self, kernel: Kernel, data: Vectors, support: Vectors, coefficients: Coefficients, biases: FloatArray
    ) -> Answers:
        """Labels, from single precision where that settles them."""
        winning = predicted_classes(
            kernel, data, support, coefficients, biases, n_classes=len(self.labels), scheme=self.scheme
        )
        return self.labels[winning]

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """How many labels are right."""
        codes = self.truth(table)[rows]
        right = np.count_nonzero((codes >= 0) & (self.labels[codes] == answers[rows]))
        return f"{right:,} of {rows.size:,} labels agree with the column {self.column!r}"

    @property
    def is_text(self) -> bool:
        """Whether labels are text."""
        return self.labels.dtype == object

    def contradicted(self, table: Table) -> str:
        """Why these are not the classes of the rows; "" if they are."""
        held = sorted({cell_text(cell) for cell in table[self.column]})
        if held == sorted(self.names):
            return ""
        return (
            f"the classes in the file are {listing(self.names)}, but the training rows hold {listing(held)} in the "
            f"column {self.column!r}"
        )

    def margins(self, values: FloatArray, codes: IndexArray) -> FloatArray:
        """Margin y f(x) of each row, from its decision values; with two classes, below 0 it is misclassified.

        With several classes it is the smallest margin over the parts that tell the row's class from others; below 0 at
        least one of them decides against the row, though their vote may still be right.
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
        """The classes of cells without a missing one; TableError for fewer than two."""
        labels, _ = class_codes(cells)
        if len(labels) < 2:
            raise TableError(f"the target {column!r} must have at least two classes, but is {labels[0]!r} in every row")
        return cls(column, labels, scheme)


def class_codes(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and class numbers of a target without missing cells.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted labels: int64 where all cells are whole numbers, else text.
    codes : ndarray of shape (n,), int64
        Position of each row's label in `classes`.
    """
    whole = column.dtype != object and bool((column == np.round(column)).all()) and float(np.abs(column).max()) < 2**53
    labels = column.astype(np.int64) if whole else text_cells(column)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Quantity(PredictionKind):
    """A number.

    Machines are trained on (y - centre) / scale, so that C, epsilon and tolerances are shares of the target's spread
    and mean the same whatever its unit. Answers are in that unit.

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
        """One machine."""
        return 1

    def truth(self, table: Table) -> FloatArray:
        """The number of each row, from the centre and in units of the scale."""
        return self.scaled(numbers(table, self.column))

    def scaled(self, values: FloatArray) -> FloatArray:
        """Numbers as machines are trained on."""
        return (values - self.centre) / self.scale

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """All rows and their numbers."""
        return [PartTask(np.arange(truth.size), truth)]

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """Predictions in the target's unit, (n,)."""
        return self.in_unit(values[:, 0])

    def in_unit(self, values: FloatArray) -> FloatArray:
        """Numbers of the target's unit, from those that machines give."""
        with np.errstate(over="ignore"):  # beyond float64 is infinity, of a file that somebody has made up
            return self.centre + self.scale * values

    def answers(self, scores: FloatArray) -> Answers:
        """The predictions."""
        return scores

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """The prediction."""
        return {"prediction": answers.tolist()}

    def agreement(self, table: Table, answers: Answers, rows: IndexArray) -> str:
        """How far predictions are off."""
        off = np.abs(numbers(table, self.column) - answers)[rows]
        return (
            f"predictions for {rows.size:,} differ from the column {self.column!r} by {np.nanmean(off):.4g} on average"
        )

    def contradicted(self, table: Table) -> str:
        """Why the rows hold no numbers; "" if they do."""
        if not table.is_numeric(self.column) or table.missing(self.column).any():
            return f"the target {self.column!r} is a number in the file, but the training rows hold other things"
        return ""

    @classmethod
    def learnt(cls, column: str, cells: npt.NDArray[Any]) -> Quantity:
        """The scale of cells without a missing one; TableError where they are no numbers, too large, or all one."""
        if cells.dtype == object:
            stray = next((cell for cell in cells if math.isnan(_number(cell))), cells[0])
            raise TableError(f"the target {column!r} must hold numbers for regression, but holds {stray!r}")
        check_numbers(column, cells, f"all {cells.size} rows to train on")
        centre = float(cells.mean())
        return cls(column, centre, float(np.sqrt(np.mean((cells - centre) ** 2))))


def check_numbers(column: str, values: FloatArray, where: str = "every row") -> None:
    """Raise a TableError for a target of numbers that nothing can be learnt of: all the same, too large, too small."""
    if float(np.abs(values).max()) > MAX_TARGET:
        raise TableError(
            f"the target {column!r} holds {values[np.argmax(np.abs(values))]:g}, which is too large to compute with",
            "mend the cell, or use another unit",
        )
    spread, size = float(np.ptp(values)), float(np.abs(values).max())
    if not spread > 1e-12 * size:  # less is rounding of the mean
        raise TableError(
            f"the target {column!r} must vary for regression, but is {cell_text(float(values[0]))} in {where}"
        )
    if spread < MIN_SPREAD:
        raise TableError(
            f"the target {column!r} varies by {spread:.3g} only, which is too small to compute with", "use another unit"
        )


def numbers(table: Table, column: str) -> FloatArray:
    """The cells of a target of numbers, NaN where they are missing or none."""
    if table.is_numeric(column):
        return table[column]
    return np.array([_number(cell) for cell in table[column]])


def _number(cell: str | None) -> float:
    try:
        return math.nan if cell is None else float(cell)
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Membership(PredictionKind):
    """Whether a row is like the training rows: 1, or -1.

    Attributes
    ----------
    offset : float
        Scores below it are outside.
    squared_norm : float or None
        Of the centre, for a ball, whose scores are minus squared distances from it; None for a half-space, whose scores
        are decision values without bias.
    """

    kind = "membership"
    offset: float
    squared_norm: float | None = None
    column = None

    @property
    def n_parts(self) -> int:
        """One machine."""
        return 1

    def truth(self, table: Table) -> FloatArray:
        """Zeros: no row says anything."""
        return np.zeros(table.n_rows)

    def tasks(self, truth: npt.NDArray[Any]) -> list[PartTask]:
        """All rows."""
        return [PartTask(np.arange(truth.size), truth)]

    def as_y(self, truth: npt.NDArray[Any]) -> None:
        """Nothing."""

    def scores(self, values: FloatArray, lengths: Callable[[], FloatArray]) -> FloatArray:
        """How far inside each row is, (n,); negative outside."""
        return values[:, 0] if self.squared_norm is None else values[:, 0] - lengths()

    def answers(self, scores: FloatArray) -> Answers:
        """1 inside, -1 outside."""
        return np.where(scores >= 0.0, 1, -1).astype(np.int64)

    def columns(self, scores: FloatArray, answers: Answers) -> dict[str, list[Any]]:
        """Whether inside, and the score."""
        return {"inside": answers.tolist(), "decision_value": scores.tolist()}

    def machines(self, entries: Entries, biases: FloatArray) -> tuple[Coefficients, FloatArray]:
        """The offset in the place of the bias; a ball's twice, as in |x - c|^2."""
        if self.squared_norm is None:
            return entries.table(), np.array([-self.offset])
        return 2.0 * entries.table(), np.array([-(self.squared_norm + self.offset)])
