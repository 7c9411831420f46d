"""The cells of a model: a tree that finds the cell of a row, and which machines of the model belong to each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate import Cell, CellsMachine, Columns, MedianTree, kernel_of_cuts
from mercer.certificates import ApproximateCertificate, combine
from mercer.data import Data
from mercer.kernels import Kernel
from mercer.multiclass import columns_of
from mercer.specs import MachineSpec, approximate_spec
from mercer.studies.models.archive import CELL_ARRAYS
from mercer.studies.models.claims import claim_dict, read_claim
from mercer.studies.models.refusals import check_vector, refuse
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind

_SUMS = ("status", "primal", "dual", "gap", "kkt_violation")  # fields that follow from the machines of the cells
_AGREEMENT = 1e-9  # relative difference of these fields


@dataclass(frozen=True, eq=False)
class CellLayout:
    """Which machines of a model belong to each cell.

    Attributes
    ----------
    certificate : ApproximateCertificate
        The certificate of all cells together, with the lower bound of the exact objective.
    places : ndarray of int64 of shape (n_pivots,)
        Positions of the pivots of all cuts among the support vectors of the model.
    weights, edges, thresholds, sides
        See :class:`mercer.approximate.median_tree.MedianTree`.
    home : ndarray of int64 of shape (n,)
        The cell in which each training row has its home.
    starts : ndarray of int64 of shape (n_cells + 1,)
        The rows of cell k are those from starts[k] to starts[k + 1].
    rows : ndarray of int64
        The rows that the machines of each cell are trained on, cell after cell, each ascending: positions among the
        training rows.
    classes : ndarray of int64 of shape (n_cells, n_classes)
        1 if a class has rows in a cell, else 0; of shape (n_cells, 0) without classes.
    codes : ndarray of int64 of shape (n_support,)
        The class of each support vector of the model; 0 without classes. The machines have their support vectors sorted
        by class, which decides the last bits of a sum.
    """

    certificate: ApproximateCertificate
    places: IndexArray
    weights: FloatArray
    edges: IndexArray
    thresholds: FloatArray
    sides: IndexArray
    home: IndexArray
    starts: IndexArray
    rows: IndexArray
    classes: IndexArray
    codes: IndexArray

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.starts.size - 1

    def tree(self, kernel: Kernel, support: Data) -> MedianTree:
        """Return the tree of a model with this kernel and these support vectors."""
        pivots = support.rows(self.places) if self.places.size else None
        cut_kernel = kernel if pivots is None else kernel_of_cuts(kernel, pivots)
        return MedianTree(cut_kernel, pivots, self.weights, self.edges, self.thresholds, self.sides, self.places)

    def rows_of(self, cell: int) -> IndexArray:
        """Return the rows of a cell, as positions among the training rows."""
        return self.rows[self.starts[cell] : self.starts[cell + 1]]

    def classes_of(self, cell: int) -> IndexArray:
        """Return the classes that have rows in a cell."""
        return np.flatnonzero(self.classes[cell])

    def kind_of(self, cell: int, kind: PredictionKind) -> PredictionKind | None:
        """Return the prediction kind of the machines of a cell, without an offset; None if it has no machine."""
        if not isinstance(kind, Classes):
            return kind
        classes = self.classes_of(cell)
        return None if classes.size < 2 else replace(kind, labels=kind.labels[classes])

    def columns_of(self, cell: int, kind: PredictionKind) -> Columns:
        """Return which decision values of the model the machines of a cell give."""
        if not isinstance(kind, Classes):
            return Columns.of_one()
        return Columns.of(len(kind.labels), kind.scheme, self.classes_of(cell))

    def part_edges(self, kind: PredictionKind) -> IndexArray:
        """Return where the machines of each cell begin among those of the model, and their number, (n_cells + 1,)."""
        kinds = [self.kind_of(cell, kind) for cell in range(self.n_cells)]
        return np.cumsum([0, *(0 if one is None else one.n_parts for one in kinds)])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a model file."""
        return {name: getattr(self, name.removeprefix("tree_").removeprefix("cell_")) for name in CELL_ARRAYS}

    @classmethod
    def of_file(
        cls,
        entry: Any,
        arrays: dict[str, np.ndarray],
        kind: PredictionKind,
        machine_spec: MachineSpec,
        n_support: int,
        *,
        has_all_rows: bool,
    ) -> CellLayout:
        """Return the layout in a model file, after checks of every number.

        Without all rows, the training rows are the support vectors and the pivots, which a cell need not have.
        """
        claim = read_claim(entry, approximate_spec(machine_spec), has_one=True)  # type: ignore[arg-type]
        layout = cls(claim, *(arrays[name] for name in CELL_ARRAYS))
        n, n_cells = len(arrays["training_rows"]), len(layout.thresholds) + 1
        check_vector(layout.places, "tree_places", 0, n_support)
        n_pivots = layout.places.size
        if layout.weights.shape != (n_pivots,) or layout.thresholds.ndim != 1:
            refuse("its tree of cells should have a weight for each pivot, and a threshold for each cut")
        _check_edges(layout.edges, "tree_edges", n_cells - 1, n_pivots, least=1)
        _check_sides(layout.sides, n_cells)
        check_vector(layout.home, "cell_home", 0, n_cells)
        _check_edges(layout.starts, "cell_starts", n_cells, layout.rows.size, least=int(has_all_rows))
        check_vector(layout.rows, "cell_rows", 0, n)
        if layout.home.shape != (n,):
            refuse("each of its training rows should have its home in one cell")
        steps = np.diff(layout.rows)
        between = layout.starts[(layout.starts > 0) & (layout.starts < layout.rows.size)]
        steps[between - 1] = 1  # from one cell to the next
        if (steps <= 0).any():
            refuse("the rows of a cell do not rise")
        cell_of = np.arange(n_cells).repeat(np.diff(layout.starts))
        if not np.array_equal(np.bincount(layout.rows[layout.home[layout.rows] == cell_of], minlength=n), np.ones(n)):
            refuse("a training row is not in the cell that is its home")
        n_classes = len(kind.labels) if isinstance(kind, Classes) else 0
        good = layout.classes.shape == (n_cells, n_classes) and bool(np.isin(layout.classes, (0, 1)).all())
        if not good or (n_classes and not layout.classes.any(axis=1).all()):
            refuse("it should say of each cell and each class whether the class has rows in the cell, and one has")
        check_vector(layout.codes, "cell_codes", 0, max(1, n_classes))
        if layout.codes.shape != (n_support,):
            refuse("it should hold the class of each support vector")
        return layout

    def check_parts(self, parts: Sequence[Any], support_rows: IndexArray, kind: PredictionKind) -> None:
        """Refuse support vectors that are not rows of their cell, and a certificate that is not that of all cells."""
        edges = self.part_edges(kind)
        for cell in range(self.n_cells):
            used = [support_rows[part.support] for part in parts[edges[cell] : edges[cell + 1]]]
            if not np.isin(np.concatenate([support_rows[:0], *used]), self.rows_of(cell)).all():
                refuse(f"cell {cell} has support vectors that are not rows of the cell")
        stated: Any = self.certificate
        if not parts:
            good = stated.primal == stated.dual == 0.0
        else:
            total = combine([part.certificate for part in parts])
            both = [(getattr(stated, name), getattr(total, name)) for name in _SUMS]
            good = all(one == other or _is_close(one, other) for one, other in both)
        if not good:
            refuse("its certificate is not that of its cells together")

    def entry(self) -> Any:
        """Return the certificate as JSON values."""
        return claim_dict(self.certificate)


def _is_close(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and abs(one - other) <= _AGREEMENT * abs(other)


def _check_edges(edges: IndexArray, name: str, n: int, end: int, least: int) -> None:
    """Refuse an array that does not divide `end` entries into n runs of `least` entries at least."""
    if edges.shape != (n + 1,) or edges[0] != 0 or edges[-1] != end or (np.diff(edges) < least).any():
        refuse(f"array {name!r} does not rise from 0 to {end} in {n} steps")


def _check_sides(sides: IndexArray, n_cells: int) -> None:
    """Refuse cuts that are not a tree: each cut but the first, and each cell, is one side of one earlier cut."""
    n_cuts = n_cells - 1
    if sides.size == n_cuts == 0:
        return
    if sides.shape != (n_cuts, 2) or not np.array_equal(np.sort(sides, axis=None), np.r_[-n_cells:0, 1:n_cuts]):
        refuse("array 'tree_sides' is not a tree of cuts")
    above, below = np.nonzero(sides > 0)
    if (sides[above, below] <= above).any():
        refuse("array 'tree_sides' is not a tree of cuts")


class CellPart(NamedTuple):
    """One machine of a cell: its rows among the training rows, their coefficients, its bias and its certificate."""

    rows: IndexArray
    coefficients: FloatArray
    bias: float
    certificate: Any


def layout_of(machine: CellsMachine, n_classes: int) -> tuple[IndexArray, CellLayout, list[CellPart]]:
    """Return the support vectors of a fitted machine with the pivots of its tree, its layout, and its machines.

    The support vectors are positions among the training rows.
    """
    tree, cells = machine.tree, machine.cells
    home = np.zeros(sum(int(np.count_nonzero(one.cell.is_home)) for one in cells), dtype=np.int64)
    classes, code_of = np.zeros((len(cells), n_classes), dtype=np.int64), np.zeros(home.size, dtype=np.int64)
    parts: list[CellPart] = []
    for number, one in enumerate(cells):
        home[one.cell.rows[one.cell.is_home]] = number
        if n_classes:
            classes[number, one.classes] = 1
        if not one.columns.filled.size:
            continue  # its machine is a constant
        code_of[one.rows] = one.codes
        columns = list(columns_of(one.coefficients))
        for (vectors, values), bias, claim in zip(columns, one.biases.tolist(), one.certificates, strict=True):
            of_part = np.flatnonzero(values)
            rows, coefficients = one.rows[vectors[of_part]], values[of_part]
            order = np.lexsort((rows, coefficients < 0.0)) if not n_classes else np.argsort(rows)
            parts.append(CellPart(rows[order], coefficients[order], bias, claim))
    rows_of = [one.cell.rows for one in cells]
    used = np.unique(np.concatenate([tree.rows, *(part.rows for part in parts)]))
    layout = CellLayout(
        certificate=machine.certificate,
        places=np.searchsorted(used, tree.rows),
        weights=tree.weights,
        edges=tree.edges,
        thresholds=tree.thresholds,
        sides=tree.sides,
        home=home,
        starts=np.cumsum([0, *(one.size for one in rows_of)]),
        rows=np.concatenate(rows_of),
        classes=classes,
        codes=code_of[used],
    )
    return used, layout, parts


def renumbered(machine: CellsMachine, present: IndexArray, data: Data) -> CellsMachine:
    """Return a machine whose rows are only those that are here: pivots and support vectors, numbered by their places.

    `present` are their positions among all training rows, ascending, and `data` the rows.
    """
    home = machine.tree.cells_of(data)
    for number, one in enumerate(machine.cells):
        home[np.searchsorted(present, one.rows[one.is_home])] = number
    cells = []
    for number, one in enumerate(machine.cells):
        rows = np.searchsorted(present, one.rows)
        inside = np.union1d(rows, np.flatnonzero(home == number))
        cells.append(replace(one, cell=Cell(inside, home[inside] == number), rows=rows))
    return replace(machine, tree=replace(machine.tree, rows=np.searchsorted(present, machine.tree.rows)), cells=cells)


def model_of_cell(model: Any, cell: int) -> Any:
    """Return the exact model of the rows of one cell; None if these have one class.

    Its training rows are positions among those of the model.
    """
    layout = model.cells
    assert layout is not None
    kind, rows = layout.kind_of(cell, model.prediction_kind), layout.rows_of(cell)
    if kind is None:
        return None
    first, end = layout.part_edges(model.prediction_kind)[cell : cell + 2]
    parts = model.parts[first:end]
    if isinstance(kind, Membership):
        kind = Membership(-parts[0].bias)
    used = np.unique(np.concatenate([part.support for part in parts]))
    used = used[np.argsort(layout.codes[used], kind="stable")]
    to = np.zeros(model.support_rows.size, dtype=np.int64)
    to[used] = np.arange(used.size)
    place = np.searchsorted(rows, model.support_rows[used])
    if used.size and not np.array_equal(rows[np.minimum(place, rows.size - 1)], model.support_rows[used]):
        raise ValueError("a cell has support vectors that are not rows of the cell")
    training = model.training
    class_weight = training.class_weight
    if class_weight is not None:
        class_weight = class_weight[layout.classes_of(cell)]
    weights = None if training.sample_weight is None else training.sample_weight[rows]
    return replace(
        model,
        prediction_kind=kind,
        support_rows=place,
        support_vectors=model.support_vectors.rows(used),
        parts=tuple(replace(part, support=to[part.support]) for part in parts),
        training=replace(training, rows=rows, class_weight=class_weight, sample_weight=weights),
        calibration=None,
        seal=None,
        costs=None,
        cells=None,
    )


def values_of_cells(model: Any, data: Data) -> FloatArray:
    """Return the decision values of rows, each by the machines of its cell, (n, n_machines)."""
    layout, kind = model.cells, model.prediction_kind
    assert layout is not None
    cell_of = layout.tree(model.kernel, model.support_vectors).cells_of(data)
    values = np.zeros((data.n, kind.n_parts))
    for cell in np.unique(cell_of).tolist():
        rows, columns, one = np.flatnonzero(cell_of == cell), layout.columns_of(cell, kind), model.of_cell(cell)
        values[rows] = columns.constants
        if one is not None:
            of_cell = model.machine_spec.values(model.kernel, data.rows(rows), one.support_vectors, *one.machines)
            values[np.ix_(rows, columns.filled)] = of_cell[:, columns.machines] * columns.signs
    return values - kind.offset if isinstance(kind, Membership) else values
