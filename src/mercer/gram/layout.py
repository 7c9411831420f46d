"""The table that native passes read: the rows, chosen columns of them, and mapped features, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import final

from mercer._typing import FloatArray
from mercer.data import BitRows, Data, Dense, Vectors, as_data
from mercer.data.feature_sums import row_sums
from mercer.data.lazy import lazy_property
from mercer.gram.encodings.sparse import SparseForm
from mercer.kernels.kernel import refuse_negative
from mercer.kernels.program import PASSES, Op, Program
from mercer.kernels.views import Columns, View, seen, side_by_side

_MOVABLE = (Op.DOT, Op.SQDIST)
"""Passes that may subtract a centre: squared distances do not change, and inner products are corrected."""


@final
class Layout:
    """The views that the passes of a program read, as columns of one table.

    Passes over columns of the rows read them in place. The features of other views are appended as columns. If all
    passes read one view, its features are the table.

    Parameters
    ----------
    program : Program
    data : Data
        The training rows.
    form : SparseForm, optional
        The sparse form in which dense rows are read.

    Attributes
    ----------
    columns : list of sequences of int
        Lists of columns that passes read. Argument i stands for list i - 1; argument 0 stands for all columns.
    arguments : list of float
        The argument that native code gets for each step of the program.
    n_passes : int
        Number of passes of native code over the features of two rows.
    """

    def __init__(self, program: Program, data: Data, form: SparseForm | None = None) -> None:
        self.program, self._form = program, form
        views: list[View | float] = list(dict.fromkeys(argument for op, argument in program if op in PASSES))
        self._alone = len(views) < 2
        inner = [view for view in views if not isinstance(view, View) or isinstance(view, Columns)]
        self._parts: list[View | float] = views or [0.0]
        if not self._alone:
            self._parts = [*([0.0] if inner else []), *(view for view in views if view not in inner)]
        self._converted: dict[int, tuple[Data, Vectors]] = {}
        self._widths: list[int] = []
        self._data = data
        rows = self._rows = self.rows(data)
        self.columns: list[Sequence[int]] = []
        numbers: dict[View | float, float] = {}
        starts = dict(zip(self._parts, accumulate(self._widths, initial=0), strict=False))
        for view in views:
            if view in starts:
                chosen: Sequence[int] = range(starts[view], starts[view] + self._widths[self._parts.index(view)])
            else:
                assert isinstance(view, Columns)
                chosen = view.chosen
            numbers[view] = 0.0
            if len(chosen) < rows.p:
                self.columns.append(chosen)
                numbers[view] = float(len(self.columns))
        pairings = {(Op.DOT if op is Op.SQDIST else op, argument) for op, argument in program if op in PASSES}
        self.n_passes = max(1, len(pairings))
        self.arguments = [numbers[argument] if op in PASSES else float(argument) for op, argument in program]

    def rows(self, data: Data) -> Vectors:
        """Return the table that passes read for these rows; the rows themselves if there is no other view.

        Raises
        ------
        TypeError
            If they are not rows of features.
        ValueError
            If a map returns another number of features than for the training rows, or if entries are negative and the
            kernel does not allow that.
        """
        converted = self._converted.get(id(data))
        if converted is not None:
            return converted[1]
        given = data if self._form is None else self._form.of(data)
        if not isinstance(given, Vectors):
            raise TypeError(f"native tiles need dense or CSR rows, got {type(data).__name__}")
        refuse_negative("this", self.program, given)
        parts = [seen(view, given) for view in self._parts]
        widths = [part.p for part in parts]
        if self._widths and widths != self._widths:
            raise ValueError(f"rows must have {self._widths} features in every table, got {widths}")
        self._widths = widths
        rows = side_by_side(parts)
        if isinstance(rows, BitRows):
            rows = Dense(rows.array)
        self._converted[id(data)] = (data, rows)
        return rows

    @lazy_property
    def centre(self) -> FloatArray | None:
        """The centre to subtract from the rows: the mean of the training rows, in columns that only distances read.

        None if a centre has no benefit. Differences |x - z| keep all digits in double precision without a centre, and
        lose some with it. If all passes are such differences, single precision uses a centre and double precision does
        not (see native/gram/tiles.cpp). Columns that other passes read too have no centre.
        """
        passes = {op for op, _ in self.program if op in PASSES}
        if not isinstance(self._rows, Dense) or not passes & {Op.SQDIST, Op.L1}:
            return None
        centre = self._rows.column_means.copy()
        if passes == {Op.L1}:
            return centre
        for (op, _), argument in zip(self.program, self.arguments, strict=True):
            if op in PASSES and op not in _MOVABLE:
                centre[self._chosen(argument)] = 0.0
        return centre

    def sq_radius(self, step: tuple[Op, View | float]) -> float:
        """Return the largest squared distance to the centre, in the columns that a step of the program reads."""
        part, centre = self._part(step), self.centre
        if centre is not None and part is not self._rows:
            centre = centre[self._chosen(self.arguments[self.program.index(step)])]
        return float(part.sq_norms(centre).max(initial=0.0))

    def sq_norm(self, step: tuple[Op, View | float]) -> float:
        """Return the largest squared norm of the columns that a step of the program reads."""
        return float(self._part(step).sq_norms().max(initial=0.0))

    def largest_row_sum(self, step: tuple[Op, View | float]) -> float:
        """Return the largest sum of absolute entries of the columns that a step of the program reads."""
        return float(row_sums(as_data(abs(self._part(step).stored))).max(initial=0.0))

    def _part(self, step: tuple[Op, View | float]) -> Vectors:
        """Return the features of the training rows that a step of the program reads."""
        if self.arguments[self.program.index(step)] == 0.0:
            return self._rows
        given = self._data if self._form is None else self._form.of(self._data)
        assert isinstance(given, Vectors)
        return seen(step[1], given)

    def _chosen(self, argument: float) -> slice | list[int]:
        return slice(None) if argument == 0.0 else list(self.columns[int(argument) - 1])
