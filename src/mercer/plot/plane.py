"""The plane of two features of a table: rows at its points, with all other features fixed at one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse

from mercer._typing import FloatArray
from mercer.data.phrasing import listing, nearest_names


class Plane(NamedTuple):
    """Two features of a table, and the values at which the other ones are fixed.

    Attributes
    ----------
    names : tuple of str
        Names of the two features.
    points : ndarray of shape (n, 2)
        The rows of the table in the plane.
    fixed : dict
        Value of each other feature, by its name.
    template : ndarray of shape (p,), or data frame of one row
    chosen : tuple
        Positions of the two features, or the names of their columns.
    """

    names: tuple[str, str]
    points: FloatArray
    fixed: dict[str, Any]
    template: Any
    chosen: tuple[Any, Any]

    def rows(self, points: FloatArray) -> Any:
        """Return rows for the machine at points of shape (m, 2): an array, or a data frame as it was given."""
        if isinstance(self.template, np.ndarray):
            rows = np.tile(self.template, (len(points), 1))
            rows[:, self.chosen] = points
            return rows
        frame = self.template[[0] * len(points)]
        cells = zip(self.chosen, points.T, strict=True)
        series = [nw.new_series(name, values, backend=frame.implementation) for name, values in cells]
        return frame.with_columns(*series).to_native()

    @property
    def caption(self) -> str:
        """Which features are fixed at which values; "" if there are no other features."""
        if not self.fixed:
            return ""
        shown = [f"{name} = {_text(value)}" for name, value in list(self.fixed.items())[:3]]
        more = f" and {len(self.fixed) - 3} more" if len(self.fixed) > 3 else ""
        return f"at {', '.join(shown)}{more}"


def plane_of(X: Any, features: Sequence[Any] | None, values: Mapping[Any, Any] | None) -> Plane:
    """Return the plane of two features of a table.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n, p)
    features : (feature, feature), optional
        Positions, or names of a data frame's columns; needed if p > 2.
    values : mapping, optional
        Value of other features, by position or name: by default the median, or the most frequent cell of a column
        that has no numbers.

    Raises
    ------
    ValueError
        If there are fewer than two features, or more and `features` does not say which two; if a feature or a value is
        unknown.
    """
    if sparse.issparse(X):
        X = X.toarray()
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    is_frame = isinstance(frame, nw.DataFrame)
    try:
        table = frame if is_frame else np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must be a table of numbers, or a data frame ({error}).") from None
    if not is_frame and table.ndim != 2:
        raise ValueError(f"X must be a table of shape (n, p), got shape {table.shape}.")
    names: list[Any] = list(frame.columns) if is_frame else list(range(table.shape[1]))
    chosen = _chosen(names, features, is_frame)
    given = {_key(names, name): value for name, value in (values or {}).items()}
    if unknown := set(given) & set(chosen):
        raise ValueError(
            f"values must fix other features than the two that are drawn, got {sorted(map(str, unknown))}."
        )
    fixed: dict[str, Any] = {}
    template: Any = frame[[0]] if is_frame else np.zeros(len(names))
    for name in names:
        if name in chosen:
            continue
        if is_frame:
            series, value = _cell(frame.get_column(name), given.get(name))
            template = template.with_columns(series)
        else:
            value = template[name] = float(given.get(name, np.median(table[:, name])))
        fixed[str(name) if is_frame else _subscript(name)] = value
    cells = [frame.get_column(name).to_numpy() if is_frame else table[:, name] for name in chosen]
    try:
        points = np.column_stack([np.asarray(column, dtype=np.float64) for column in cells])
    except (TypeError, ValueError) as error:
        raise ValueError(f"features must be columns of numbers, got {chosen!r} ({error}).") from None
    first, second = (str(name) if is_frame else _subscript(name) for name in chosen)
    return Plane((first, second), points, fixed, template, chosen)


def _chosen(names: list[Any], features: Sequence[Any] | None, is_frame: bool) -> tuple[Any, Any]:
    if len(names) < 2:
        raise ValueError(f"a picture of regions needs two features, and the table has {len(names)}.")
    if features is None and len(names) > 2:
        example = f"({names[0]!r}, {names[1]!r})"
        raise ValueError(
            f"the table has {len(names)} features, and a picture shows two: say which, as in features={example}; the "
            "others are then fixed at their medians, or at what values={...} says."
        )
    given = names[:2] if features is None else list(features)
    if len(given) != 2 or given[0] == given[1]:
        raise ValueError(f"features must be two different features, got {features!r}.")
    first, second = (_key(names, name) for name in given)
    return first, second


def _key(names: list[Any], name: Any) -> Any:
    """Return a feature that was given by its name or its position as it is called in the table."""
    if name in names:
        return name
    if isinstance(name, int | np.integer) and 0 <= name < len(names):
        return names[int(name)]
    shown = f"0 to {len(names) - 1}" if isinstance(names[0], int) else ", ".join(map(repr, names[:8]))
    near = nearest_names(str(name), map(str, names))
    meant = f"did you mean {listing(near, 'or')}? The" if near else "the"
    raise ValueError(f"unknown feature {name!r}; {meant} features are {shown}.")


def _cell(column: nw.Series[Any], value: Any) -> tuple[nw.Series[Any], Any]:
    """Return a column of one cell with a value, or with the median or the most frequent cell, and the value."""
    if column.dtype.is_numeric():
        value = float(column.median() if value is None else value)
        return nw.new_series(column.name, [value], backend=column.implementation), value
    cells = column.to_list()
    if value is None:
        filled = [cell for cell in cells if cell is not None] or cells
        value = max(dict.fromkeys(filled), key=filled.count)
    if value not in cells:
        raise ValueError(f"values must fix {column.name!r} at one of its cells, such as {cells[0]!r}, got {value!r}.")
    row = cells.index(value)
    return column[row : row + 1], value


def _subscript(position: int) -> str:
    """Return the name of a column without one: x₁ for the first column."""
    return "x" + "".join(chr(0x2080 + int(digit)) for digit in str(position + 1))


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
