"""What is said of a study whose seal is still closed: the figures of the folds alone."""

from __future__ import annotations

import numpy as np

from mercer.studies.classification import ToClassify
from mercer.studies.report import next_steps, search_prose
from mercer.studies.report.numbers import count, percent
from mercer.studies.report.prose import VOICES
from mercer.studies.sealed_study import SealedStudy
from mercer.studies.thresholds import chosen_thresholds


def machines(run: SealedStudy) -> list[tuple[str, str, str]]:
    """Name, setting and cross-validated figure of each machine."""
    goal, phrasing = run.goal, VOICES[run.goal.task]
    return [(one.name, one.setting, phrasing.figure(goal, goal.figure(sum(one.errors)))) for one in run.trained]


def paragraphs(run: SealedStudy, *, in_python: bool = False) -> list[str]:
    """What the folds say, what was cut short, and how the seal is opened, on the command line or in Python."""
    goal, search, phrasing = run.goal, run.search, VOICES[run.goal.task]
    shown = phrasing.figure(goal, search.best.figure)
    said = [
        f"The {count(run.sealed.n_test, 'sealed row')} were not opened. All figures are from {run.n_folds} folds of "
        f"the {count(len(run.rows.rest_rows), 'row')} that are not sealed. The figure of the chosen setting is a "
        "little too good, because it is the best of several.",
        f"The {search.best.place} had the best cross-validated {goal.figure_name} of "
        f"{count(len(search.cells), 'candidate')}: {shown}. {search_prose.rounds(search)}".strip(),
        *_by_rows(run),
        *_thresholds(run),
        *filter(None, [next_steps.of_repeats(run, phrasing)]),
    ]
    said += filter(None, [search_prose.ended_early(search), search_prose.unfinished(search)])
    if run.cuts:
        said.append(f"Cut short for time or memory: {' '.join(run.cuts)}")
    opens = "The method open()" if in_python else "The same command without --keep-sealed"
    said.append(
        f"{opens} opens the seal, once, and judges all machines by the sealed rows. "
        "Until then, other options can be tried with --keep-sealed: no try counts as a look."
    )
    return said


def _by_rows(run: SealedStudy) -> list[str]:
    """The learning curve in words."""
    curve, phrasing = run.curve, VOICES[run.goal.task]
    if len(curve.rows) < 2:
        return []
    points = ", ".join(
        f"{phrasing.figure(run.goal, figure)} with {rows:,}"
        for rows, figure in zip(curve.rows, curve.figures, strict=True)
    )
    return [f"Its cross-validated {run.goal.figure_name} by the number of training rows: {points}."]


def _thresholds(run: SealedStudy) -> list[str]:
    """Thresholds of two classes, chosen by the folds."""
    goal, held_out = run.goal, run.curve.held_out
    if not isinstance(goal, ToClassify) or goal.n_classes > 2 or held_out is None:
        return []
    judged = ~np.isnan(held_out[:, 0])
    thresholds = chosen_thresholds(goal, held_out[judged, 0], run.rows.truth[judged])
    label = goal.labels[thresholds.rarer]
    listed = "; ".join(
        f"{name}: {thresholds.sign * one.value + 0.0:.4g}, recall {percent(one.recall)}"
        for name, one in thresholds.chosen
        if np.isfinite(one.value)
    )
    return [f"Thresholds on the decision value to predict “{label}”, by the folds: {listed}."]
