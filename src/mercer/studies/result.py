"""The results of a study, after the seal was opened."""

from __future__ import annotations

import html
import json
import tempfile
import webbrowser
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mercer.certificates import Certificate
from mercer.data import Result, lazy_property
from mercer.model_selection import Interval, Opening, SealedTest
from mercer.studies.arranged import Arranged
from mercer.studies.examination import Examination
from mercer.studies.goal import Goal
from mercer.studies.insight import Insight
from mercer.studies.judging import Contender
from mercer.studies.ledger import MODEL, REPORT, free_folder
from mercer.studies.models import Model, open_atomically, save_model, writable_folder
from mercer.studies.scores import accuracy_difference
from mercer.studies.search import SearchResult
from mercer.studies.tables import ColumnChoice


class Presentation(Protocol):
    """What shows a study: see `mercer.studies.report.presenter.Presenter`."""

    def page(self, study: Any) -> str:
        """Return the page of a study as HTML."""

    def summary(self, study: Any) -> list[str]:
        """Return the paragraphs at the top of the page."""

    def of_folds(self, run: Any) -> list[str]:
        """Return what the folds say while the seal is closed."""

    def record(self, study: Any) -> dict[str, Any]:
        """Return the results as plain data."""


@dataclass(frozen=True, eq=False, repr=False)
class Study(Result):
    """The results of a study; a notebook shows them as the page.

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
    presenter : Presentation
        Makes the page and the texts.
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
    presenter: Presentation
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
        comparison = self.against(other)
        return comparison if isinstance(comparison, Interval) else accuracy_difference(self.svm.test, other.test)

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

    @property
    def estimator_(self) -> Model:
        """The chosen machine with its encoding of the table, as a fitted estimator of scikit-learn."""
        return self.model

    def __str__(self) -> str:
        main = self.goal.main(self.svm.test)
        return (
            f"Study({self.target}: {self.model.kernel!r}, C={self.search.best.C:g}, test {self.goal.figure_name} "
            f"{main.value:.3f} [{main.low:.3f}, {main.high:.3f}], {self.certificate.status})"
        )

    def summary(self) -> str:
        """Return what was found, in the sentences at the top of the page."""
        return "\n\n".join(self.presenter.summary(self))

    def to_html(self) -> str:
        """Return the page: one HTML text without scripts and without references to anything outside it.

        Raises
        ------
        ImportError
            If jinja2 or matplotlib is not installed (extra `study`).
        """
        return self._page

    @lazy_property
    def _page(self) -> str:
        return self.presenter.page(self)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" sandbox="" style="width:100%; height:40em; border:1px solid #8888"></iframe>'

    def open_html(self, path: str | Path | None = None) -> Path:
        """Write the page to a file, by default a temporary one, show it in the browser, and return its path."""
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="mercer-")) / REPORT
        path = Path(path)
        self._write_page(path)
        webbrowser.open(path.resolve().as_uri())
        return path

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the results as JSON, and write them to a file if one is named.

        They are the sentences and the figures of the page: the test score with its interval, the setting, all machines,
        the certificate, the columns that matter, findings about the table, looks at the sealed rows, and versions.
        Numbers that are not finite are null.
        """
        text = json.dumps(self.presenter.record(self), indent=1, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with open_atomically(path, "w") as file:
                file.write(text)
        return text

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write page and model into a folder, as `mercer study` does, and return the folder.

        Parameters
        ----------
        folder : str or Path
            It is made if it does not exist.
        force : bool, default=False
            Whether a study in this folder is written over. Otherwise the folder is the first of folder, folder-2, ...
            without a study.
        """
        with writable_folder(Path(folder) if force else free_folder(Path(folder))) as chosen:
            save_model(chosen / MODEL, self.model)
            self._write_page(chosen / REPORT)
        return chosen

    def _write_page(self, path: Path) -> None:
        text = self.to_html()
        with open_atomically(path, "w") as file:
            file.write(text)

    def _columns(self) -> dict[str, list[Any]]:
        """Return a row for each machine: its setting, its cross-validated score, and its score on the sealed rows."""
        mains = [self.goal.main(one.test) for one in self.contenders]
        return {
            "machine": [one.name for one in self.contenders],
            "setting": [one.setting for one in self.contenders],
            "cross_validated": [one.cv for one in self.contenders],
            "test": [one.value for one in mains],
            "test_low": [one.low for one in mains],
            "test_high": [one.high for one in mains],
            "fit_seconds": [one.fit_seconds for one in self.contenders],
        }
