"""The settings that a search has finished, in its checkpoint: their scores, times and certificates' numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data.files import Checkpoint, DamagedFileError, State
from mercer.data.files.checkpoint import text_of

_STATE = "settings"
_TEXT = "status"  # the only column that is text
_WHOLE = "n_unfinished"  # the only one of integers


class Tried(NamedTuple):
    """A setting that was tried: its place, the folds from `first` to `last`, and the training rows of a fold."""

    place: int
    first: int
    last: int
    n_rows: int


class FinishedSettings:
    """Results of settings, as they are stored by :class:`SettingResults`; without a checkpoint nothing is remembered.

    Attributes
    ----------
    names : list of str
        Names of the columns of scikit-learn's results; empty as long as none are finished.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint, self.names = checkpoint, list[str]()
        self._rows: dict[Tried, tuple[str, dict[str, Any]]] = {}  # text of the setting, and its columns
        if checkpoint is not None:
            checkpoint.load(_STATE, self._decoded)

    @property
    def is_due(self) -> bool:
        """Whether enough work was done since the last write."""
        return self._checkpoint is not None and self._checkpoint.pace.is_worth_a_write

    @property
    def is_multimetric(self) -> bool:
        """Whether there are several scores."""
        return bool(self.names) and "mean_test_score" not in self.names

    def split(
        self, places: IndexArray, candidates: Sequence[dict[str, Any]], part: Callable[[int], Tried]
    ) -> tuple[IndexArray, IndexArray, dict[str, Any]]:
        """Return the places that remain to be tried, those that were tried before, and the columns of their results."""
        texts = {place: text_of(candidates[place]) for place in places.tolist()} if self._rows else {}
        finished = [place for place in texts if self._rows.get(part(place), ("", {}))[0] == texts[place]]
        rows = [self._rows[part(place)][1] for place in finished]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
        return places[~np.isin(places, finished)], np.array(finished, dtype=np.int64), columns

    def add(
        self,
        tried: Sequence[Tried],
        candidates: Sequence[dict[str, Any]],
        results: dict[str, Any],
        names: list[str],
    ) -> None:
        """Remember the results of settings, and write them if enough work was done since the last write."""
        if self._checkpoint is None:
            return
        self.names = self.names or names
        for row, one in enumerate(tried):
            columns = {name: values[row] for name, values in results.items()}
            self._rows[one] = text_of(candidates[one.place]), columns
        self._checkpoint.store(_STATE, self._state)

    def _state(self) -> State:
        rows = list(self._rows.items())
        columns = [name for name in dict.fromkeys(name for _, (_, row) in rows for name in row) if name != _TEXT]
        header = {
            "names": self.names,
            "columns": columns,
            "tried": [list(one) for one, _ in rows],
            "settings": [text for _, (text, _) in rows],
            "status": [str(row.get(_TEXT, "")) for _, (_, row) in rows],
        }
        values = [[float(row.get(name, math.nan)) for name in columns] for _, (_, row) in rows]
        present = [[name in row for name in columns] for _, (_, row) in rows]  # looks at some folds have others
        shape = len(rows), len(columns)
        return header, {
            "values": np.array(values, dtype=np.float64).reshape(shape),
            "present": np.array(present, dtype=np.int8).reshape(shape),
        }

    def _decoded(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
        """Take the results in a state."""
        values: FloatArray = arrays["values"]
        present = arrays["present"] != 0
        columns, names = list(map(str, header["columns"])), list(map(str, header["names"]))
        tried = [Tried(*map(int, one)) for one in header["tried"]]
        if not values.shape == present.shape == (len(tried), len(columns)):
            raise DamagedFileError("it has results of another number of settings")
        rows = {}
        about = zip(tried, header["settings"], header["status"], values.tolist(), present.tolist(), strict=True)
        for one, text, status, numbers, has in about:
            pairs = zip(columns, numbers, has, strict=True)
            row: dict[str, Any] = {name: number for name, number, is_present in pairs if is_present}
            row[_WHOLE] = int(row[_WHOLE])
            rows[one] = str(text), row | {_TEXT: str(status)}
        self.names, self._rows = names, rows
        return True
