"""The results of a study, after the seal was opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from mercer.certificates import Certificate
from mercer.model_selection import Interval, Opening, SealedTest
from mercer.studies.arranged import Arranged
from mercer.studies.examination import Examination
from mercer.studies.goal import Goal
from mercer.studies.insight import Insight
from mercer.studies.judging import Contender
from mercer.studies.models import Model
from mercer.studies.scores import accuracy_difference
from mercer.studies.search import SearchResult
from mercer.studies.tables import ColumnChoice


@dataclass(frozen=True, eq=False)
class Study:
    """The results of a study.

    Attributes
    ----------
    target : str
    column_choice : ColumnChoice
        The rows and columns that were used, and the reasons why others were not.
    examination : Examination
        Findings about the rows that are not sealed. No choice depends on them.
    arranged : Arranged
        How rows were split: copies or groups were kept together, or rows were split in the order of time.
    n_folds, test_size, seed
        The parameters of the splits.
    search : SearchResult
        The results of the search: one for each cell, a combination of kernel, gamma, C and epsilon.
    model : Model
        The chosen machine, refitted on all rows that are not sealed.
    goal : Goal
        The kind of prediction, and how predictions are judged.
    contenders : tuple of Contender
        The support vector machine first, then the machines to compare with: logistic or ridge regression, nearest
        neighbours, boosted trees on dense rows, and a constant prediction as the last one.
    insight : Insight
        The columns and rows on which the machine depends, and whether more rows would help.
    test_rows : ndarray of int64
        Indices of the sealed rows in the table.
    sealed : SealedTest
        The test part. It has been opened once; opening it again is recorded.
    opening : Opening
        The opening of the seal that gave the test figures.
    cuts : tuple of str
        A sentence for each part of the study that was cut short or left out because of its time limit.
    seconds : dict
        Wall-clock time of each stage.
    started : datetime
    versions : dict
        Versions of Python and of the packages used.
    repeats : tuple of float
        Figure of merit of each repetition of the whole choice on another split of the rows that are not sealed.
    """

    target: str
    column_choice: ColumnChoice
    examination: Examination
    arranged: Arranged
    n_folds: int
    test_size: float
    seed: int
    search: SearchResult
    model: Model
    goal: Goal
    contenders: tuple[Contender, ...]
    insight: Insight
    test_rows: np.ndarray = field(repr=False)
    sealed: SealedTest
    opening: Opening
    cuts: tuple[str, ...]
    seconds: dict[str, float]
    started: datetime
    versions: dict[str, str]
    repeats: tuple[float, ...] = ()
    _comparisons: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def svm(self) -> Contender:
        """The support vector machine among the contenders."""
        return self.contenders[0]

    @property
    def certificate(self) -> Certificate:
        """Certificate of the chosen machine."""
        return self.model.certificate

    @property
    def rivals(self) -> tuple[Contender, ...]:
        """The machines to compare with, without the constant prediction."""
        return self.contenders[1:-1]

    @property
    def baseline(self) -> Contender:
        """The constant prediction among the contenders."""
        return self.contenders[-1]

    def against(self, other: Contender) -> Any:
        """Compare the support vector machine with another contender on the sealed rows; see `Goal.compare`."""
        return self._compared(self.svm, other)

    def difference(self, other: Contender) -> Interval:
        """Return by how much the support vector machine did better than another contender, with its interval."""
        found = self.against(other)
        return found if isinstance(found, Interval) else accuracy_difference(self.svm.test, other.test)

    def sign(self, one: Contender, other: Contender) -> int:
        """Return 1 if a contender did better than another on the sealed rows beyond chance, -1 if worse, else 0."""
        return self.goal.sign(self._compared(one, other))

    def _compared(self, one: Contender, other: Contender) -> Any:
        """Compare two contenders once; a bootstrap of many rows takes seconds."""
        pair = (one.name, other.name)
        if pair not in self._comparisons:
            self._comparisons[pair] = self.goal.compare(one.test, other.test)
        return self._comparisons[pair]

    @property
    def is_useful(self) -> bool:
        """Whether the support vector machine did better on the sealed rows than the constant prediction."""
        return self.sign(self.svm, self.baseline) > 0

    def __repr__(self) -> str:
        main = self.goal.main(self.svm.test)
        return (
            f"Study({self.target}: {self.model.kernel!r}, C={self.search.best.C:g}, test {self.goal.figure_name} "
            f"{main.value:.3f} [{main.low:.3f}, {main.high:.3f}], {self.certificate.status})"
        )
