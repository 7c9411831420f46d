"""The machines to compare with: what all have in common, and the choice of their settings."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mercer.data.files import Checkpoint, State, once
from mercer.model_selection import WHOLE_ROWS
from mercer.studies.contenders import Chosen, Fold, part_of
from mercer.studies.time_budget import LEAST, RIVALS, Deadline, TimeBudget

FIRST_ROWS = 500
"""Training rows of a fold from which the time with more rows is estimated, if there is a time limit."""

N_NEIGHBOURS = (1, 3, 5, 7, 11, 15, 21, 31)


class Rival(ABC):
    """A kind of machine to compare with.

    Attributes
    ----------
    name : str
    settings : tuple
        Settings to choose from; ties go to the first.
    """

    name: str
    settings: tuple[Any, ...] = (None,)

    @abstractmethod
    def estimator(self, setting: Any, fold: Fold) -> Any:
        """Return the estimator of a setting for rows like those of a fold; None for a constant prediction."""

    @abstractmethod
    def said(self, setting: Any) -> str:
        """Return the setting in words."""

    @abstractmethod
    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield what the predictions for a fold cost with each setting; TimeoutError after the deadline."""


class Choosing:
    """The choice of the setting of a rival, on more and more rows.

    All settings are tried on the first rows, and the best one and its neighbours on more rows.
    """

    def __init__(self, rival: Rival, folds: Sequence[Fold], n_whole: int) -> None:
        self.rival, self.folds, self.n_whole = rival, folds, n_whole
        self.chosen: Chosen | None = None
        self._place, self._n_tried = 0, 0

    def near(self) -> list[int]:
        """Return the places of the settings to try next."""
        every = range(len(self.rival.settings))
        return [*every] if self.chosen is None else [place for place in every if abs(place - self._place) <= 1]

    def try_with(self, n_rows: int, deadline: Deadline) -> None:
        """Choose among the settings to try next by about `n_rows` training rows of each fold.

        Raises
        ------
        TimeoutError
            After the deadline; the last choice stands.
        """
        began, places = time.perf_counter(), self.near()
        settings = [self.rival.settings[place] for place in places]
        folds = self.folds if n_rows >= self.n_whole else [part_of(fold, n_rows) for fold in self.folds]
        table = np.array(
            [
                [fold.n_asked / len(fold.validation) * error for error in self.rival.errors(fold, settings, deadline)]
                for fold in folds
            ]
        )
        best = int(table.sum(axis=0).argmin())
        self._place, self._n_tried = places[best], len(places)
        setting, errors = settings[best], tuple(float(error) for error in table[:, best])
        estimator, seconds = self.rival.estimator(setting, folds[0]), time.perf_counter() - began
        self.chosen = Chosen(self.rival.name, self.rival.said(setting), estimator, errors, seconds, n_rows)

    def in_time(self, n_rows: int, seconds: float | None) -> Chosen | None:
        """Choose by as many training rows as there is time for, `n_rows` at most; None without time for any."""
        deadline = Deadline(seconds)
        first = Deadline(None if seconds is None else max(LEAST, seconds))
        sizes = {min(n_rows, size) for size in (*([] if seconds is None else [FIRST_ROWS]), WHOLE_ROWS, n_rows)}
        for size in sorted(sizes) if len(self.rival.settings) > 1 else [n_rows]:
            soon = deadline.seconds_left
            if soon is not None and self.chosen is not None and self.expected_seconds(size) > soon:
                break
            try:
                self.try_with(size, deadline if self.chosen else first)
            except TimeoutError:
                break
        return self.chosen

    def state(self, chosen: Chosen | None) -> State:
        """Return the choice as a header and arrays."""
        assert chosen is not None
        header = {"place": self._place, "seconds": chosen.seconds, "n_rows": chosen.n_rows}
        return header, {"errors": np.array(chosen.errors)}

    def decoded(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Chosen | None:
        """Return the choice of :meth:`state`."""
        setting, errors = self.rival.settings[int(header["place"])], tuple(arrays["errors"].tolist())
        if len(errors) != len(self.folds):
            raise ValueError("it has the errors of other folds")
        estimator, about = self.rival.estimator(setting, self.folds[0]), (header["seconds"], int(header["n_rows"]))
        return Chosen(self.rival.name, self.rival.said(setting), estimator, errors, *about)

    def expected_seconds(self, n_rows: int) -> float:
        """Return about how long the next choice takes with so many rows."""
        assert self.chosen is not None
        return self.chosen.seconds * n_rows / self.chosen.n_rows * len(self.near()) / self._n_tried


def choose_rivals(
    folds: Sequence[Fold],
    rivals: Sequence[Rival],
    n_rows: int,
    n_whole: int,
    budget: TimeBudget,
    checkpoint: Checkpoint | None = None,
) -> list[Chosen]:
    """Choose the settings of the rivals by as many training rows of a fold as the best candidate was judged with.

    With a time limit there may be fewer rows. The final fits have all rows in any case, so that the comparison is fair.
    A rival without time for a choice by the fewest rows is left out.
    """
    chosen, deadline = [], Deadline(budget.share(RIVALS))
    for number, rival in enumerate(rivals):
        left = deadline.seconds_left
        seconds = None if left is None else left / (len(rivals) - number)
        choosing = Choosing(rival, folds, n_whole)
        best = once(
            checkpoint,
            f"rival-{number}-{n_rows}",
            partial(choosing.in_time, n_rows, seconds),
            encode=choosing.state,
            decode=choosing.decoded,
            is_finished=lambda one: one is not None,
        )
        if best is None:
            budget.cuts.append(f"There was no time for {rival.name}.")
            continue
        if best.n_rows < n_rows:
            budget.cuts.append(
                f"The setting of {rival.name} was chosen with {best.n_rows:,} training rows a fold only."
            )
        chosen.append(best)
    return chosen
