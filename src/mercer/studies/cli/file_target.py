"""The target of `mercer fit --linear`: its classes come from the whole file, as first rows may be of one class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mercer.studies.cli.options import say_reading
from mercer.studies.cli.targets import read_truth, wanted_task

if TYPE_CHECKING:
    from mercer.data import ReadingOptions, Table


@dataclass(frozen=True)
class FileTarget:
    """The target of a file.

    Attributes
    ----------
    path : str
    name : str
        Its column.
    head : Table
        The first rows of the file.
    reading : ReadingOptions
    memory : str
    """

    path: str
    name: str
    head: Table
    reading: ReadingOptions
    memory: str

    def task(self, machine: str | None, asked: Any) -> str:
        """Return the task, and print how the target was read if another reading is possible.

        The first rows decide if all others could not change the result. Otherwise the target is read from the whole
        file, or up to the row that shows that there are too many values for classes.
        """
        from mercer.data import TableError
        from mercer.studies.models import table_of_levels
        from mercer.studies.tables import MAX_CLASSES

        head, wanted = self.head, wanted_task(machine, asked)
        n_values = len({*head[self.name][~head.missing(self.name)].tolist()})
        if wanted == "regression" and head.is_numeric(self.name):
            return wanted
        if n_values > MAX_CLASSES or (n_values > 1 and (wanted is not None or not head.is_numeric(self.name))):
            rows, where = head, f"in the first {head.n_rows:,} rows of {self.path}"
        else:
            rows, where = table_of_levels(self.name, self._levels(most=MAX_CLASSES), head), f"in {self.path}"
        try:
            truth = read_truth(rows, self.name, machine, asked)
        except TableError as error:
            raise TableError(f"{where}, {error}", error.hint) from error
        say_reading(truth, as_far_as_read=True)
        return truth.task

    def class_weight(self, asked: str | None) -> Any:
        """Return the class weights as estimators take them: "balanced", or the weight of each label."""
        import numpy as np

        from mercer.data import cell_text
        from mercer.studies.costs import BALANCED, NONE, class_weights
        from mercer.studies.models import labels_of_texts

        if asked in (None, BALANCED, NONE):
            return asked if asked == BALANCED else None
        labels = np.sort(labels_of_texts(self._levels())).tolist()
        weights = class_weights(asked, [cell_text(label) for label in labels], np.ones(len(labels)))
        return dict(zip(labels, weights.tolist(), strict=True))

    def _levels(self, most: int | None = None) -> list[str]:
        """Return the different texts of the target, and show the progress."""
        from mercer.solvers import ProgressBar, StageProgress
        from mercer.studies.models import target_levels

        with ProgressBar() as progress:

            def report(done: int, total: int | None) -> None:
                progress(StageProgress("target", done, total or 0, unit="bytes"))

            return target_levels(self.path, self.name, self.reading, memory=self.memory, most=most, report=report)
