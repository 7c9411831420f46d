"""Why a row is predicted as it is: what each column contributes to its decision value."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer.data import Data, Result, Table, TableError, as_data, as_table
from mercer.studies.models.cell_layout import values_of_cells
from mercer.studies.models.model import Model
from mercer.studies.models.row_reader import RowReader
from mercer.studies.tables import Classes
from mercer.studies.tables.rules import Matrix

N_REFERENCE = 25
"""Rows by whose cells the cells of a column are replaced."""

MIN_REFERENCE = 10
"""Fewest rows of a table that serve as its own reference."""

BLOCK = 20_000
"""Rows with replaced cells that are predicted at once."""

SPARSE = "sparse features"
"""The name of all columns of a sparse block together."""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """What each column contributes to the predictions of some rows.

    Attributes
    ----------
    columns : tuple of str
        The columns that the model uses.
    contributions : ndarray of shape (n, number of columns)
        By how much the output is larger than with cells of reference rows in this column.
    output : ndarray of shape (n,)
        What is explained: the decision value of the second of two classes; the predicted number; of several classes
        the score of the class with the largest one, which for pairs of classes is the mean decision value for it.
    base : ndarray of shape (n,)
        The mean output of the reference rows.
    is_exact : bool
        Whether base and contributions add up to the output, as they do if the machine is a sum over columns.
    """

    columns: tuple[str, ...]
    contributions: npt.NDArray[np.float64]
    output: npt.NDArray[np.float64]
    base: npt.NDArray[np.float64]
    is_exact: bool

    def __str__(self) -> str:
        n, p = self.contributions.shape
        order = np.argsort(-np.abs(self.contributions).mean(axis=0), kind="stable")[:3]
        largest = ", ".join(self.columns[j] for j in order.tolist())
        return f"Explanation({n:,} rows, {p:,} columns; the largest contributions are of {largest})"

    def _columns(self) -> dict[str, Any]:
        """Return a row for each explained row: base, output, and the contribution of each column."""
        of_columns = dict(zip(self.columns, self.contributions.T.tolist(), strict=True))
        return {"base": self.base.tolist(), "output": self.output.tolist()} | of_columns

    def largest(self, row: int, most: int = 3) -> list[tuple[str, float]]:
        """Return the columns that contribute most to the output of a row, with their contributions."""
        order = np.argsort(-np.abs(self.contributions[row]), kind="stable")[:most]
        return [(self.columns[j], float(self.contributions[row, j])) for j in order.tolist()]


def explain(
    model: Model, table: Any, reference: Any = None, *, columns: Collection[str] | None = None, seed: int = 0
) -> Explanation:
    """Return what each column contributes to the predictions of rows.

    The contribution of a column is the output of the machine, minus its mean output with the cells of this column taken
    from reference rows. For linear machines and for kernels that are sums over columns, the contributions add up to
    the output minus its mean over the reference rows. Other machines have interactions between columns, and the sum
    differs.

    Parameters
    ----------
    model : Model
    table : Table or data frame
    reference : Table or data frame, optional
        Rows to compare with, of which at most 25 are drawn (all for linear machines); default the rows of the table.
        A table of fewer than 10 rows is compared with support vectors, or for linear machines with the mean of the
        training rows in columns of numbers.
    columns : collection of str, optional
        The columns whose contributions are computed; default all.
    seed : int
        Of the draw.

    Raises
    ------
    TableError
        If the model has no columns, because it was fitted on objects or kernel values.

    References
    ----------
    Robnik-Šikonja & Kononenko (2008), Explaining classifications for individual instances, IEEE TKDE 20.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer import LinearSVR
    >>> from mercer.studies.models import explain, fit_model
    >>> frame = pd.DataFrame({"a": [3, 1, 4, 2] * 5, "b": [1, 5] * 10})
    >>> frame["y"] = 2.0 * frame["a"] + frame["b"]
    >>> model = fit_model(frame, "y", LinearSVR(C=1e4, epsilon=0.0))
    >>> explanation = explain(model, frame)
    >>> explanation.columns
    ('a', 'b')
    >>> explanation.contributions[0].round(2) + 0.0
    array([ 1., -2.])
    >>> bool(abs(explanation.base[0] + explanation.contributions[0].sum() - 7.0) < 1e-3)
    True
    """
    if isinstance(model.encoder, RowReader) and not model.encoder.of_table:
        raise TableError(
            f"contributions are for machines on the columns of a table, and {model.kernel!r} was trained on rows",
            "in Python, word_weights_ and score_variants of the machine say which words matter",
        )
    table = as_table(table)
    if isinstance(model.encoder, RowReader):
        return _of_cells(model, table, table if reference is None else as_table(reference), columns, seed)
    places = _places(model)
    n_columns = len(places)
    if columns is not None:
        places = {name: place for name, place in places.items() if name in columns}
    if not places:
        raise TableError("this model has no columns, so nothing can be said about them")
    X, R = model.encoder.transform(table), _reference(model, table, reference, seed)
    outputs = _outputs(model, as_data(X))
    chosen = outputs.argmax(axis=1)
    rows = np.arange(table.n_rows)
    is_linear, base = model.machine_spec.is_linear, _outputs(model, as_data(R)).mean(axis=0)[chosen]
    if is_linear:
        contributions = _of_linear(model, X, R, places, chosen)
    else:
        contributions = np.column_stack([_replaced(model, X, R, place, chosen) for place in places.values()])
        contributions = outputs[rows, chosen][:, None] - contributions
    output = outputs[rows, chosen]
    adds_up = np.allclose(base + contributions.sum(axis=1), output, rtol=1e-9, atol=1e-9 * np.abs(output).max())
    is_sum = len(places) == n_columns and (is_linear or bool(adds_up))
    return Explanation(tuple(places), contributions, output, base, is_sum)


def _places(model: Model) -> dict[str, slice]:
    """Return where each column is among the encoded ones; a sparse block is one column."""
    places, end = {}, 0
    for rule in model.encoder.rules_:
        begin, end = end, end + rule.n_features
        places[rule.name] = slice(begin, end)
    if model.encoder.sparse_ is not None:
        places[SPARSE] = slice(end, model.encoder.n_features_)
    return places


def _reference(model: Model, table: Any, reference: Any, seed: int) -> Matrix:
    """Return the encoded rows to compare with."""
    rng = np.random.default_rng(seed)
    rows = table if reference is None else as_table(reference)
    is_linear = model.machine_spec.is_linear
    if reference is None and rows.n_rows < MIN_REFERENCE:
        if is_linear:
            return np.zeros((1, model.encoder.n_features_))
        vectors: Any = model.support_vectors
        stored = vectors.matrix if hasattr(vectors, "matrix") else vectors.array
        drawn: Matrix = stored[np.sort(rng.permutation(stored.shape[0])[:N_REFERENCE])]
        return drawn
    if not is_linear:
        rows = rows.take(np.sort(rng.permutation(rows.n_rows)[:N_REFERENCE]))
    return model.encoder.transform(rows)


def _of_cells(model: Model, table: Table, reference: Table, columns: Collection[str] | None, seed: int) -> Explanation:
    """Return the explanation of a machine whose kernel reads the cells of the columns."""
    names = [name for name in model.encoder.column_names if columns is None or name in columns]
    drawn = np.random.default_rng(seed).permutation(reference.n_rows)[:N_REFERENCE]
    others = reference.take(np.sort(drawn)).select(model.encoder.column_names)
    asked = table.select(model.encoder.column_names)
    outputs, rows = _outputs(model, model.encoded(asked)), np.arange(table.n_rows)
    chosen = outputs.argmax(axis=1)
    contributions = np.empty((table.n_rows, len(names)))
    for start in range(0, table.n_rows, max(1, BLOCK // others.n_rows)):
        block = rows[start : start + max(1, BLOCK // others.n_rows)]
        each, other = np.repeat(block, others.n_rows), np.tile(np.arange(others.n_rows), len(block))
        one, two = asked.take(each), others.take(other)
        for j, name in enumerate(names):
            changed = _outputs(model, model.encoded(one.with_columns_of(two, [name])))[
                np.arange(len(each)), chosen[each]
            ]
            contributions[block, j] = outputs[block, chosen[block]] - changed.reshape(len(block), -1).mean(axis=1)
    base = _outputs(model, model.encoded(others)).mean(axis=0)[chosen]
    output = outputs[rows, chosen]
    adds_up = np.allclose(base + contributions.sum(axis=1), output, rtol=1e-9, atol=1e-9 * np.abs(output).max())
    return Explanation(tuple(names), contributions, output, base, adds_up and columns is None)


def _outputs(model: Model, data: Data) -> npt.NDArray[np.float64]:
    """Return what is explained, (n, number of classes), or (n, 1) for two classes and numbers."""
    kind = model.prediction_kind
    if model.cells is not None:
        values = values_of_cells(model, data)
    else:
        values = model.machine_spec.values(model.kernel, data, model.support_vectors, *model.machines)
    if isinstance(kind, Classes) and kind.scheme == "ovo" and len(kind.labels) > 2:
        sums = np.zeros((len(values), len(kind.labels)))
        for (one, other), column in zip(kind.sides, values.T, strict=True):
            sums[:, one] += column
            sums[:, other] -= column
        return sums / (len(kind.labels) - 1)
    scores = kind.scores(values, lambda: model.kernel.diag(data))
    return scores if scores.ndim == 2 else scores[:, None]


def _of_linear(
    model: Model, X: Matrix, R: Matrix, places: dict[str, slice], chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the contributions to outputs that are linear in the features: exact, from the weights."""
    p = X.shape[1]
    weights = _outputs(model, as_data(sparse.identity(p, format="csr"))) - _outputs(
        model, as_data(sparse.csr_array((1, p)))
    )
    means = np.asarray(R.mean(axis=0)).ravel()
    contributions = np.empty((X.shape[0], len(places)))
    for j, place in enumerate(places.values()):
        part = np.asarray(X[:, place] @ weights[place]) - means[place] @ weights[place]
        contributions[:, j] = part[np.arange(len(chosen)), chosen]
    return contributions


def _replaced(
    model: Model, X: Matrix, R: Matrix, place: slice, chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the mean output of each row with these features taken from the reference rows."""
    means, n_reference = np.empty(X.shape[0]), R.shape[0]
    step = max(1, BLOCK // n_reference)
    for start in range(0, X.shape[0], step):
        rows = np.arange(start, min(start + step, X.shape[0]))
        each, other = np.repeat(rows, n_reference), np.tile(np.arange(n_reference), len(rows))
        parts = [X[each][:, : place.start], R[other][:, place], X[each][:, place.stop :]]
        dense = all(isinstance(part, np.ndarray) for part in parts)
        changed = np.hstack(parts) if dense else sparse.csr_array(sparse.hstack(parts))
        outputs = _outputs(model, as_data(changed))[np.arange(len(each)), np.repeat(chosen[rows], n_reference)]
        means[rows] = outputs.reshape(len(rows), n_reference).mean(axis=1)
    return means
