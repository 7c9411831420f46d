"""A trained machine as a value, with all that prediction and verification need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer.approximate import Way
from mercer.certificates import Certificate, combine
from mercer.data import (
    Data,
    MixedRows,
    Precomputed,
    Reading,
    Result,
    Table,
    TableError,
    TableWarning,
    as_data,
    as_table,
    cells_of,
    distinct,
    fingerprints,
    frame_columns,
    in_one_spelling,
    is_number_column,
    lazy_property,
    listing,
    looks_like_fingerprints,
    warn_user,
)
from mercer.kernels import Kernel, symbols_of_table
from mercer.model_selection import Seal
from mercer.multiclass import SCHEMES, Calibration, Coefficients, Entries, least_expected_cost
from mercer.problems import Problem, has_width
from mercer.specs import MachineSpec, Point, QuadraticSpec
from mercer.studies.models.cell_layout import CellLayout, model_of_cell, values_of_cells
from mercer.studies.models.predictor import Predictor
from mercer.studies.models.row_reader import RowReader, listed_rows
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.missing import rows_of
from mercer.studies.tables.prediction_kind import Classes, Membership, PartTask, PredictionKind
from mercer.studies.tables.rare import with_rest

_SHORT = ("machine", "target", "training rows", "status", "gap", "distance to exact")
"""Facts that the short text of a model has."""


@dataclass(frozen=True, eq=False)
class Part:
    """One machine of a model, or one output of a machine with several outputs.

    Attributes
    ----------
    support : ndarray of int64
        Its support vectors, as positions in the model's `support_rows`. A row with two nonzero variables, one of each
        sign, is listed twice.
    beta : ndarray of float64
        The signed coefficients of the support vectors.
    bias : float
    half_width : float or None
        Half the distance between the levels of its two groups: the margin rho of NuSVC, the epsilon of NuSVR. None for
        machines with at most one group.
    certificate : Certificate, Separation or None
        The claim that was computed in training. If one problem has several outputs, only the first has the claim. None
        if nothing is claimed.
    multipliers : ndarray of float64 or None
        A dual point at the support vectors, if the coefficients do not determine it (`GradientKernelSVC`).
    duals : ndarray of float64 of shape (n,) or None
        A dual coefficient for each training row, of machines that the training rows do not represent (`LinearSVC`).
    """

    support: npt.NDArray[np.int64]
    beta: npt.NDArray[np.float64]
    bias: float
    half_width: float | None
    certificate: Any
    multipliers: npt.NDArray[np.float64] | None = None
    duals: npt.NDArray[np.float64] | None = None

    @property
    def divisor(self) -> float:
        """Divisor of decision values that scales the margin to 1: rho of NuSVC if it is positive, otherwise 1."""
        half_width = self.half_width
        return half_width if half_width is not None and has_width(half_width, self.certificate.decision_error) else 1.0


@dataclass(frozen=True, eq=False)
class Training:
    """The training data of a model, in a form that `verify` can compare with a table.

    Attributes
    ----------
    rows : ndarray of int64
        Indices of the training rows in the table.
    checksum : str
        Checksum of the cells of these rows, in the columns that the model uses and the target.
    class_weight : ndarray of float64, or None
        One weight for each class; None without classes.
    sample_weight : ndarray of float64, or None
        One weight for each training row; None if all are 1.
    weight_column : str or None
        The column of the table that these weights are from, if they are from one.
    n_streamed : int or None
        Number of training rows, if they were streamed from a file: `rows` are the support vectors then. None otherwise.
    """

    rows: npt.NDArray[np.int64]
    checksum: str
    class_weight: npt.NDArray[np.float64] | None = None
    sample_weight: npt.NDArray[np.float64] | None = None
    weight_column: str | None = None
    n_streamed: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.rows) if self.n_streamed is None else self.n_streamed

    def penalties(self, C: float, truth: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return C_i of each training row; `truth` has its class number."""
        # The factors are multiplied in the same order as in the fit, so that bounds are exactly equal.
        by_row = np.full(truth.size, C) if self.class_weight is None else C * self.class_weight[truth]
        return by_row if self.sample_weight is None else by_row * self.sample_weight


@dataclass(eq=False, repr=False)
class Model(Result, Predictor):
    """A trained machine for the rows of a table, which is also a fitted estimator of scikit-learn; see `Predictor`.

    Attributes
    ----------
    encoder : TableEncoder or RowReader
        Encodes a table as a matrix, by rules from the training rows; or gives the cells to a kernel that reads them.
    prediction_kind : PredictionKind
        The kind of prediction.
    machine_spec : MachineSpec
        The parameters of the machine.
    kernel : Kernel
    support_rows : ndarray of int64
        The support vectors of all parts, as positions among the training rows; empty if they are not training rows (the
        centres of a network, the w of a linear machine).
    support_vectors : Data
        The support vectors as encoded rows.
    parts : tuple of Part
    training : Training
    calibration : Calibration or None
        Maps decision values to probabilities, if the machine was fitted with ``probability=True``.
    seal : Seal or None
        The record of the sealed test part, if there was one.
    reading : Reading
        How the table of the training was read: it decides what the file of a table to predict leaves open.
    costs : ndarray of float64 of shape (n_classes, n_classes) or None
        Cost of predicting each class (second axis) for rows of each class (first axis). The prediction is then the
        class with the least expected cost, by the model's probabilities. None: the class with the largest score.
    cells : CellLayout or None
        Which parts belong to which cell, if the machine was approximated by cells. The parts are then those of all
        cells, cell after cell, and `support_rows` has the pivots of the tree of cells, too.
    way : Way or None
        How an approximate machine was trained, so that `verify` can train it again without a fold. Model files have it
        with probabilities only.
    """

    encoder: TableEncoder | RowReader
    prediction_kind: PredictionKind
    machine_spec: MachineSpec
    kernel: Kernel
    support_rows: npt.NDArray[np.int64]
    support_vectors: Data
    parts: tuple[Part, ...]
    training: Training
    calibration: Calibration | None = None
    seal: Seal | None = None
    reading: Reading = field(default_factory=Reading)
    costs: npt.NDArray[np.float64] | None = None
    cells: CellLayout | None = None
    way: Way | None = None

    @property
    def target(self) -> str | None:
        """Target column; None without a target."""
        return self.prediction_kind.column

    @property
    def certificate(self) -> Any:
        """Combined certificate of all parts; None if the machine does not claim an optimum."""
        return combined([part.certificate for part in self.parts]) if self.cells is None else self.cells.certificate

    def __str__(self) -> str:
        return f"Model({', '.join(f'{name}: {text}' for name, text in self._facts().items() if name in _SHORT)})"

    def _facts(self) -> dict[str, str]:
        """Return what a card says of the model."""
        kind, claim = self.prediction_kind, self.certificate
        target = {} if kind.column is None else {"target": kind.column}
        classes = {"classes": listing(kind.names, most=8)} if isinstance(kind, Classes) else {}
        machine = self.machine_spec.estimator
        facts = {"machine": machine if self.machine_spec.is_linear else f"{machine} with {self.kernel!r}"}
        facts |= {**target, **classes, "training rows": f"{self.training.n_rows:,}"}
        facts |= {"columns": f"{self.n_features_in_:,}"}
        return facts | ({"claim": "none: this machine claims no optimum"} if claim is None else claim.facts)

    def _columns(self) -> dict[str, list[Any]]:
        """Return one row for each machine of the model: its bias, support vectors and certificate."""
        names: list[Any] = list(range(len(self.parts)))
        if isinstance(self.prediction_kind, Classes) and self.cells is None:
            labels = self.prediction_kind.names
            names = [
                labels[one] if other is None or len(labels) == 2 else f"{labels[one]} against {labels[other]}"
                for one, other in self.prediction_kind.sides
            ]
        table = {"machine": names, "bias": [part.bias for part in self.parts]}
        table |= {"n_support": [len(part.support) for part in self.parts]}
        claims = [part.certificate for part in self.parts]
        for name in ("status", "relative_gap", "seconds"):
            table[name] = [None if one is None else getattr(one, name, None) for one in claims]
        return table | {"status": [None if one is None else str(one) for one in table["status"]]}

    def chosen(self, choice: str) -> Model:
        """Return this model with the sentence that says what was chosen, and why, in its certificates."""
        if self.cells is not None:
            return replace(self, cells=replace(self.cells, certificate=self.cells.certificate.chosen(choice)))
        parts = [
            part if part.certificate is None else replace(part, certificate=part.certificate.chosen(choice))
            for part in self.parts
        ]
        return replace(self, parts=tuple(parts))

    def decision_values(self, table: Any) -> npt.NDArray[np.float64]:
        """Return the decision values of all parts, (n, number of parts), in float64."""
        return self._values(self.encoded(table))

    def _values(self, data: Data) -> npt.NDArray[np.float64]:
        if self.cells is not None:
            return values_of_cells(self, data)
        return self.machine_spec.values(self.kernel, data, *self._machines_by_class)

    def point(self, parts: tuple[Part, ...], rows: npt.NDArray[np.int64]) -> Point:
        """Return the point of a problem whose outputs are these parts, on the given training rows.

        Raises
        ------
        ValueError
            If a part has support vectors that are not among these rows.
        """
        n_vectors, vectors = self.support_vectors.n, self.support_vectors
        beta = np.zeros((n_vectors, len(parts)))
        multipliers = None if parts[0].multipliers is None else np.zeros(n_vectors)
        for column, part in enumerate(parts):
            beta[part.support, column] = part.beta
            if multipliers is not None:
                multipliers[part.support] = part.multipliers
        bias = np.array([part.bias for part in parts])
        if self.machine_spec.own_vectors is not None or self.machine_spec.has_duals:
            known_duals = [part.duals[rows] for part in parts if part.duals is not None]
            return Point(beta, bias, vectors, np.column_stack(known_duals) if known_duals else None)
        place = np.full(len(self.training.rows), -1)
        place[rows] = np.arange(rows.size)
        used = distinct(np.concatenate([part.support for part in parts]))
        where = place[self.support_rows[used]]
        if (where < 0).any():
            raise ValueError("a machine has support vectors of classes that it does not separate")
        table = np.zeros((rows.size, len(parts)))
        table[where] = beta[used]
        if multipliers is None:
            return Point(table, bias)
        duals = np.zeros(rows.size)
        duals[where] = multipliers[used]
        return Point(table, bias, multipliers=duals)

    def of_cell(self, cell: int) -> Model | None:
        """Return the exact model of the rows of a cell; None if they have one class."""
        if cell not in self._models_of_cells:
            self._models_of_cells[cell] = model_of_cell(self, cell)
        return self._models_of_cells[cell]

    @lazy_property
    def _models_of_cells(self) -> dict[int, Model | None]:
        """The models of cells that were asked for."""
        return {}

    @lazy_property
    def machines(self) -> tuple[Coefficients, npt.NDArray[np.float64]]:
        """Coefficients and biases of all parts, combined for prediction.

        Raises
        ------
        ValueError
            If the model is of cells, which are no single sum.
        """
        if self.cells is not None:
            raise ValueError(
                f"this needs a model that is one sum over support vectors, but this one is not: it has "
                f"{self.cells.certificate.approximation}. Train it with approximation='landmarks' or without one"
            )
        return self._machines(np.arange(self.support_vectors.n))

    @lazy_property
    def _machines_by_class(self) -> tuple[Data, Coefficients, npt.NDArray[np.float64]]:
        """The support vectors in the order in which the estimator has them, with their coefficients and the biases.

        The order decides the last bits of a sum. Estimators sort support vectors by class, and a file by row.
        """
        n, kind = self.support_vectors.n, self.prediction_kind
        codes = np.zeros(n, dtype=np.int64)
        if isinstance(kind, Classes) and isinstance(self.machine_spec, QuadraticSpec) and kind.scheme in SCHEMES:
            for part, (positive, negative) in zip(self.parts, kind.sides, strict=True):
                codes[part.support[part.beta > 0.0]] = positive
                if negative is not None:
                    codes[part.support[part.beta < 0.0]] = negative
        order = np.argsort(codes, kind="stable")
        if (np.diff(order) > 0).all():
            return (self.support_vectors, *self.machines)
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        return (self.support_vectors.rows(order), *self._machines(place))

    def _machines(self, place: npt.NDArray[np.int64]) -> tuple[Coefficients, npt.NDArray[np.float64]]:
        """Return coefficients and biases of all parts, with each support vector at its place."""
        parts = self.parts
        machines = np.arange(len(parts)).repeat([part.support.size for part in parts])
        beta, biases = np.concatenate([part.beta for part in parts]), np.array([part.bias for part in parts])
        if self.machine_spec.is_scaled:
            divisors = np.array([part.divisor for part in parts])
            beta, biases = beta / divisors[machines], biases / divisors
        vectors = place[np.concatenate([part.support for part in parts])]
        return self.prediction_kind.machines(
            Entries(vectors, machines, beta, self.support_vectors.n, len(parts)), biases
        )

    def scores(self, table: Any) -> npt.NDArray[np.float64]:
        """Return the scores of each row: see `scores` of the model's `prediction_kind`."""
        return self._scores(self.encoded(table))

    def _scores(self, data: Data) -> npt.NDArray[np.float64]:
        return self._scores_of(self._values(data), data)

    def _scores_of(self, values: npt.NDArray[np.float64], data: Data) -> npt.NDArray[np.float64]:
        kind = self.prediction_kind
        if not isinstance(kind, Membership) or kind.squared_norm is None:
            return kind.scores(values, lambda: self._lengths(data))
        support, coefficients, biases = self._machines_by_class  # in the order of operations of SVDD
        distances = self.machine_spec.values(self.kernel, data, support, coefficients, np.zeros_like(biases))[:, 0]
        return distances - self._lengths(data) - kind.squared_norm - kind.offset

    def _lengths(self, data: Data) -> npt.NDArray[np.float64]:
        """Return k(x, x) of each row; of given kernel values, that of all training rows."""
        if not data.has_given_values:
            return self.kernel.diag(data)
        assert isinstance(self.prediction_kind, Membership)
        if self.prediction_kind.length is None:
            raise ValueError(
                "distances of new rows need k(x, x), which differs between the training rows and which a matrix of "
                "kernel values with the training rows does not hold: normalise the kernel so that it is 1"
            )
        return np.full(data.n, self.prediction_kind.length)

    @property
    def has_probabilities(self) -> bool:
        """Whether the model has probabilities of the classes."""
        return (
            self.calibration is not None or self.machine_spec.probabilities(np.zeros((1, len(self.parts)))) is not None
        )

    def probabilities(self, table: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, (n, n_classes), in the order of the labels.

        Raises
        ------
        ValueError
            If the model has no probabilities.
        """
        return self._probabilities(self.decision_values(table))

    def _probabilities(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        make = self.machine_spec.probabilities if self.calibration is None else self.calibration.probabilities
        probabilities = make(values)
        if probabilities is None:
            raise ValueError(
                f"this {self.machine_spec.machine} knows no probabilities: fit an SVC or a NuSVC with "
                "probability=True, or a KernelLogisticRegression."
            )
        return probabilities

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """Return the prediction for each row of a table or data frame: a label, a number, or 1 inside and -1 outside.

        Warns
        -----
        TableWarning
            If the table has categories or sparse features that no training row has.
        """
        self._warn_of_unseen(table)
        data = self.encoded(table)
        if not self.machine_spec.is_sum or self.costs is not None or self.cells is not None:
            return self._answers(self._values(data), data)[0]
        prediction = self.prediction_kind.predict(self.kernel, data, *self._machines_by_class)
        return self.prediction_kind.answers(self._scores(data)) if prediction is None else prediction

    def answer(self, table: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return the predictions and the scores that decide them; warns like `predict`."""
        self._warn_of_unseen(table)
        data = self.encoded(table)
        return self._answers(self._values(data), data)

    def _answers(self, values: npt.NDArray[np.float64], data: Data) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        scores = self._scores_of(values, data)
        if self.costs is None:
            return self.prediction_kind.answers(scores), scores
        assert isinstance(self.prediction_kind, Classes)
        return self.prediction_kind.outcomes[least_expected_cost(self._probabilities(values), self.costs)], scores

    def _warn_of_unseen(self, table: Any) -> None:
        if isinstance(self.encoder, RowReader) and not self.encoder.of_table:
            return
        read = self._as_read(table)
        for sentence in [*self.encoder.describe_unseen(read), *self._describe_letters(read)]:
            warn_user(sentence, TableWarning)

    def _describe_letters(self, table: Table) -> list[str]:
        """Return a sentence for each column of strings that have no letter of the support vectors."""
        vectors, sentences = self.support_vectors, []
        if not isinstance(vectors, MixedRows) or not isinstance(self.encoder, RowReader):
            return []
        for name in self.encoder.cell_columns:
            texts = [cell for cell in table[name].tolist() if isinstance(cell, str)] if name in table else []
            letters = frozenset().union(*(cell for cell in vectors.stored[name] if isinstance(cell, str)))
            count = sum(letters.isdisjoint(text) for text in texts)
            if letters and count:
                sentences.append(
                    f"column {name!r} has no letter that the model knows from training in "
                    f"{rows_of(count, table.n_rows)}"
                )
        return sentences

    def row_weights(
        self, truth: npt.NDArray[Any], rows: npt.NDArray[np.int64], targets: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Return the weights of the rows of a problem with these targets; `truth` has the class number of all rows."""
        training = self.training
        by_class = np.ones(rows.size) if training.class_weight is None else training.class_weight[truth[rows]]
        scheme = self.prediction_kind.scheme if isinstance(self.prediction_kind, Classes) else ""
        by_rest = scheme == "ovr" and len(self.parts) > 1
        factors = self.machine_spec.row_weights(by_class, targets, by_rest=by_rest)
        return factors if training.sample_weight is None else factors * training.sample_weight[rows]

    def encoded(self, table: Any) -> Data:
        """Return the rows of a table or data frame as the kernel reads them."""
        if isinstance(self.encoder, TableEncoder):
            return as_data(self.encoder.transform(self._as_read(table)))
        if self.encoder.of_table:
            return self.encoder.transform(self._as_read(table))
        rows = self._in_place(self.encoder.transform(self.encoder.without_target(table, self.target)))
        return rows.as_new() if isinstance(rows, (Precomputed, MixedRows)) else rows

    def _in_place(self, data: Data) -> Data:
        """Return kernel values of rows with the support vectors alone in the columns of the training rows."""
        support = self.support_vectors
        if not isinstance(data, Precomputed) or not isinstance(support, Precomputed) or data.p == support.p:
            return data
        if data.p != support.n:
            raise ValueError(
                f"X must have the kernel values of each row with the {support.p} training rows, or with the "
                f"{support.n} support vectors in the order of support_rows, got {data.p} columns"
            )
        values = np.zeros((data.n, support.p))
        values[:, support.own_columns()] = data.values(np.arange(data.p))
        return Precomputed(values, np.zeros(data.n, dtype=np.int64))

    def _as_read(self, table: Any) -> Table:
        """Return a table with the spellings merged that were merged in training."""
        if isinstance(self.encoder, TableEncoder):
            table = self.named(cells_as_numbers(self.kernel, table, self.encoder, self.target))
        table = as_table(table)
        if not self.reading.merged:
            return table
        names = [name for name in self.reading.merged - table.reading.merged if name in table]
        columns = {name: in_one_spelling(table[name]) for name in names}
        return replace(table, columns=tuple(columns.get(name, table[name]) for name in table.names))

    def with_classes(self, table: Table) -> Table:
        """Return the table with the class of merged rare ones in place of classes that the model does not know."""
        kind, rest = self.prediction_kind, self.reading.rest
        if not rest or not isinstance(kind, Classes) or kind.column not in table:
            return table
        return with_rest(table, kind.column, kind.names, rest)

    def as_given(self, table: Any) -> Any:
        """Return a table or data frame as a `Table`, unless the kernel reads cells that a `Table` cannot hold."""
        if isinstance(self.encoder, RowReader) and not self.encoder.of_table:
            return table
        return as_table(cells_as_numbers(self.kernel, table, self.encoder, self.target))

    def training_rows(self, table: Any, part: Table) -> Data:
        """Return the training rows of a table, whose `training_part` is given, as the kernel reads them."""
        if isinstance(self.encoder, TableEncoder):
            return as_data(self.encoder.transform(part))
        if self.encoder.of_table:
            return self.encoder.transform(part)
        data = self.encoder.transform(self.encoder.without_target(table, self.target))
        return data.rows(self.training.rows)

    def training_part(self, table: Any) -> Table:
        """Return the training rows of the table, with the target and the columns that the model uses."""
        target = self.prediction_kind.column
        if isinstance(self.encoder, RowReader) and not self.encoder.of_table:
            rows = listed_rows(self.training_rows(table, Table((), ())))
            if target is None:
                return rows
            column = table if isinstance(table, Table) else as_table({target: _column_of(table, target)})
            if self.prediction_kind.is_text:
                column = column.as_text(target)
            return with_target(rows, column.take(self.training.rows), target)
        if target is not None and self.prediction_kind.is_text:
            table = self.with_classes(table).as_text(target)
        return used_part(table, self.encoder, target, self.training.rows)


def _column_of(table: Any, name: str) -> Any:
    columns = frame_columns(table) or {}
    if name not in columns:
        raise TableError(f"there is no column {name!r}, which holds the target", f"give it as the column {name!r}")
    return columns[name]


def with_target(rows: Table, targets: Table, target: str) -> Table:
    """Return rows with the column of the target that another table has."""
    return replace(
        rows,
        names=(*rows.names, target),
        columns=(*rows.columns, targets[target]),
        written={target: targets.written[target]} if target in targets.written else {},
        booleans=targets.booleans & {target},
    )


def cells_as_numbers(kernel: Kernel, table: Any, encoder: TableEncoder | RowReader, target: str | None = None) -> Any:
    """Return rows whose text, categories and fingerprints are numbers, for kernels that take such cells."""
    if isinstance(encoder, RowReader) or not encoder.is_identity:
        return table
    if kernel.takes_fingerprints:
        return _bits(table, encoder, target)
    if not kernel.takes_symbols:
        return table
    if not isinstance(table, Table):
        numbers = symbols_of_table(table)
        is_dict = isinstance(table, dict) and isinstance(numbers, np.ndarray)
        return dict(zip(table, numbers.T, strict=True)) if is_dict else numbers
    used = [name for name in encoder.column_names if name in table]
    if table.sparse is not None or not any(table.missing(name).any() or not table.is_numeric(name) for name in used):
        return table
    numbers = symbols_of_table({name: table[name] for name in used})
    columns = dict(zip(table.names, table.columns, strict=True)) | dict(zip(used, numbers.T, strict=True))
    return replace(table, columns=tuple(columns.values()))


def _bits(table: Any, encoder: TableEncoder, target: str | None) -> Any:
    """Return fingerprints as a table of bits or counts: from a list, or the only column beside the target."""
    if isinstance(table, Table):
        columns: dict[str, Any] = dict(zip(table.names, table.columns, strict=True)) if table.sparse is None else {}
    elif isinstance(table, np.ndarray | list) or sparse.issparse(table):
        columns = {}
    else:
        columns = frame_columns(table) or {}
    others = [name for name in columns if name != target]
    column = list(columns[others[0]]) if len(others) == 1 else table
    if not looks_like_fingerprints(column):
        if not columns or isinstance(table, Table) or not all(is_number_column(columns[name]) for name in others):
            return table
        return {name: columns[name] if name == target else cells_of(columns[name]) for name in columns}
    bits = fingerprints(column, n_bits=encoder.n_features_)
    rest = Table((), (), bits)
    if target in columns:
        rest = replace(as_table({target: columns[target]}), sparse=bits)
    return rest if encoder.sparse_ is not None else rest.densified()


def used_part(
    table: Table, encoder: TableEncoder | RowReader, target: str | None, rows: npt.NDArray[np.int64]
) -> Table:
    """Return these rows of the table, with the target and the columns that an encoder uses."""
    if encoder.dense_block_ is not None:
        table = table.densified(encoder.dense_block_)
    names = list(encoder.column_names)
    return table.take(rows).select(names if target is None else [*names, target])


def combined(certificates: list[Any]) -> Any:
    """Return the combined claim of several parts; None if they have no certificate."""
    given = [one for one in certificates if one is not None]
    return combine(given) if given and isinstance(given[0], Certificate) else None


def point_of(problem: Problem, rows: npt.NDArray[np.int64], beta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the point of a problem whose nonzero variables are `beta`, each for one of these rows.

    If a row has two variables, one of each sign, the positive one comes first in the problem.
    """
    point = np.zeros(problem.n)
    point[rows if problem.rows is None else np.where(beta > 0.0, rows, rows + problem.n_rows)] = beta
    return point


def grouped(
    machine_spec: MachineSpec, tasks: Sequence[PartTask]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Return the rows and targets of each problem: (n,), or (n, n_parts) for a problem whose outputs are all parts.

    Without a box-constrained problem, targets are (n, 1) if each part is a problem.
    """
    if machine_spec.is_whole:
        return [(tasks[0].rows, np.column_stack([task.targets for task in tasks]))]
    if isinstance(machine_spec, QuadraticSpec):
        return [(task.rows, task.targets) for task in tasks]
    return [(task.rows, task.targets[:, None]) for task in tasks]


def grouped_parts(model: Model) -> list[tuple[Part, ...]]:
    """Return the parts of each problem."""
    return [model.parts] if model.machine_spec.is_whole else [(part,) for part in model.parts]
