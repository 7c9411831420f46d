"""What a study is called in texts, and its page and its record as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.model_selection import Interval
from mercer.studies.report import prose, sealed
from mercer.studies.report.python_options import in_python

if TYPE_CHECKING:
    from mercer.studies.result import Study
    from mercer.studies.sealed_study import SealedStudy


@dataclass(frozen=True)
class Presenter:
    """Shows a study: as a page, as sentences, and as plain data.

    Attributes
    ----------
    source : str
        Where the table came from.
    command : str
        The command that ran the study; "" for a study in Python.
    """

    source: str = ""
    command: str = ""

    def page(self, study: Study) -> str:
        """Return the page of a study as HTML."""
        from mercer.studies.report.page import render  # it needs packages of the extra `study`

        return render(study, source=self.source, command=self.command)

    def summary(self, study: Study) -> list[str]:
        """Return the doubts and the paragraphs at the top of the page."""
        return self._worded([*map(str, prose.doubts(study)), *prose.summary(study)])

    def of_folds(self, run: SealedStudy) -> list[str]:
        """Return what the folds say, in paragraphs, while the seal is closed."""
        return self._worded(sealed.paragraphs(run, in_python=not self.command))

    def _worded(self, texts: list[str]) -> list[str]:
        """Return texts with the options of the shell, or with the parameters of Python."""
        return texts if self.command else [*map(in_python, texts)]

    def record(self, study: Study) -> dict[str, Any]:
        """Return the results of a study as plain data for JSON."""
        choice, best = study.column_choice, study.search.best
        return {
            "target": study.target,
            "task": study.goal.task,
            "source": self.source,
            "summary": self.summary(study),
            "cautions": self._worded(prose.cautions(study)),
            "score": study.goal.figure_name,
            "test": plain(study.goal.main(study.svm.test)),
            "setting": {"kernel": repr(study.model.kernel), "C": plain(best.C), "epsilon": plain(best.epsilon)}
            | {"approximation": None if best.choice.way is None else repr(best.choice.way)},
            "machines": [
                {
                    "name": one.name,
                    "setting": one.setting,
                    "cross_validated": plain(one.cv),
                    "test": plain(study.goal.main(one.test)),
                    "search_seconds": one.search_seconds,
                    "fit_seconds": one.fit_seconds,
                }
                for one in study.contenders
            ],
            "certificate": certificate(study.certificate),
            "columns": {"used": list(choice.features), "important": plain(study.insight.columns)},
            "rows": {"used": len(choice.rows), "sealed": study.sealed.n_test},
            "sealed_rows": study.test_rows.tolist(),
            "findings": [
                {"weight": str(one.weight), "kind": str(one.kind), "sentence": one.sentence, "columns": [*one.columns]}
                for one in study.examination.findings
            ],
            "looks": str(study.sealed.seal),
            "protocol": {"folds": study.n_folds, "test_size": study.test_size, "seed": study.seed},
            "repeats": list(study.repeats),
            "cuts": list(study.cuts),
            "seconds": study.seconds,
            "started": study.started.isoformat(),
            "versions": study.versions,
        }


def certificate(claim: Any) -> Any:
    """Return the numbers of a certificate as plain data; None without one."""
    if claim is None:
        return None
    names = [one.name for one in fields(claim) if one.name not in ("parts", "evidence")]
    return {name: plain(getattr(claim, name)) for name in names}


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers that are not finite become None."""
    if isinstance(value, Interval):
        return {name: plain(part) for name, part in asdict(value).items()}
    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
