"""What to do after a study: how far folds and sealed rows agree, and the commands that follow from its outcome."""

from __future__ import annotations

import math
import shlex
from functools import partial
from pathlib import Path

import numpy as np

from mercer.certificates import Status
from mercer.studies.classification import ToClassify
from mercer.studies.judging import Contender
from mercer.studies.report.numbers import p_value
from mercer.studies.report.phrasing import TaskPhrasing
from mercer.studies.result import Study
from mercer.studies.sealed_study import SealedStudy

LINEAR_RIVALS = ("logistic regression", "ridge regression")
"""Machines to compare with whose prediction is a weighted sum of the features."""

_OF_FIT = (
    "--task --drop --keep --categorical --text --dates --date-order --max-levels --missing --format --sep --decimal "
    "--encoding --sheet --na --limits --merge --class-weight --rare --cost"
)
"""Options of mercer study that mean the same to mercer fit, separated by blanks."""

UNLIKELY = 0.05
"""Probability of a difference between folds and sealed rows below which it is told."""

_WIDTH = 2.0 * 1.959964  # standard errors in a 95% interval


def against_folds(study: Study, phrasing: TaskPhrasing) -> str:
    """Whether chance explains that the sealed rows gave another figure than the folds; "" if it does."""
    goal, svm = study.goal, study.svm
    sealed, sign = goal.main(svm.test), -1.0 if goal.is_loss else 1.0
    errors = np.array(svm.errors)
    of_folds = np.array([goal.figure(float(error) * errors.size) for error in errors])
    spread = float(of_folds.std(ddof=1)) / math.sqrt(errors.size)
    error = math.hypot((sealed.high - sealed.low) / _WIDTH, spread)
    difference = sign * sealed.value - svm.cv
    if not (np.isfinite(difference) and error > 0.0):
        return ""
    p = math.erfc(abs(difference) / (error * math.sqrt(2.0)))
    if p >= UNLIKELY:
        return ""
    shown = partial(phrasing.figure, goal)
    worse = difference < 0.0
    if not worse:
        why = "The final machine learnt from more rows than those of the folds; or the sealed rows are easier."
    elif getattr(study.model.certificate, "status", None) in (Status.TIME_LIMIT, Status.INTERRUPTED):
        why = "The final fit ended before its optimum; or the sealed rows differ."
    elif len(study.search.cells) == 1:
        why = "The sealed rows differ."
    else:
        why = (
            "The chosen setting is the best of several, which makes its figure in the folds too good; or the sealed "
            "rows differ."
        )
    offer = "" if study.repeats else " --repeats 10 shows how much the split matters."
    return (
        f"The figure on the sealed rows ({shown(sign * sealed.value)}) is {'worse' if worse else 'better'} than in "
        f"cross-validation ({shown(svm.cv)}): chance alone makes such a difference with p {p_value(p)}. {why}{offer}"
    )


def of_repeats(study: Study | SealedStudy, phrasing: TaskPhrasing) -> str:
    """What the repetitions on other splits gave; "" without repetitions."""
    if not study.repeats:
        return ""
    shown, figures = partial(phrasing.figure, study.goal), sorted(study.repeats)
    return (
        f"The whole choice was repeated on {len(figures)} other splits of the rows that are not sealed: the "
        f"{study.goal.figure_name} on the part that was put away went from {shown(figures[0])} to "
        f"{shown(figures[-1])}, with the median {shown(float(np.median(figures)))}."
    )


def steps(study: Study, *, source: str = "", command: str = "", model: str = "model.mercer") -> list[tuple[str, str]]:
    """What to do next, each as a sentence and a command.

    Parameters
    ----------
    study : Study
    source : str, optional
        File of the table.
    command : str, optional
        The command that ran the study.
    model : str, optional
        File of the model.
    """
    table, given = shlex.quote(source or "TABLE"), _target_given(command) or study.target
    target, next_steps = shlex.quote(given), list[tuple[str, str]]()
    labels = "" if given == study.target else f" --target {target}"  # a file of names and their labels
    if not study.is_useful:
        next_steps.append(
            (
                "It is not shown that the machine predicts anything. Look at the columns and the target before you use "
                "it: what is wrong or missing in the table?",
                f"mercer doctor {table} --target {target}",
            )
        )
    elif simple := _simple(study):
        next_steps.append(
            (
                f"{simple.name.capitalize()} ({simple.setting}) is not shown to be worse and is simpler. This trains "
                "it on all rows:",
                " ".join([_fit(simple, table, target), *map(shlex.quote, _options(study, command))]),
            )
        )
    if study.is_useful:
        next_steps.append(
            ("Predict new rows:", f"mercer predict {shlex.quote(model)} {_new_table(source)} --out predictions.csv")
        )
    next_steps.append(("Verify the certificate of the model:", f"mercer verify {shlex.quote(model)} {table}{labels}"))
    if command:
        next_steps.append(("Try other options by the folds alone, without another look:", f"{command} --keep-sealed"))
    return next_steps


def _new_table(source: str) -> str:
    """The name of a further file in the format of the table."""
    suffixes = [one for one in Path(source).suffixes if one not in (".gz", ".bz2", ".xz")]
    return f"NEW_TABLE{shlex.quote(suffixes[-1]) if suffixes else '.csv'}"


def python_steps(study: Study) -> list[tuple[str, str]]:
    """What to do next in Python, each as a sentence and a line of code; `study` is what `mercer.study` returned."""
    if not study.is_useful:
        doubtful = "It is not shown that the machine predicts anything. What is wrong or missing in the table?"
        return [(doubtful, f"mercer.doctor(table, target={study.target!r})")]
    next_steps = []
    if simple := _simple(study):
        value = simple.setting.split(" = ")[-1]
        is_logistic = simple.name.startswith("logistic")
        machine = f"LogisticRegression(C={value})" if is_logistic else f'KernelRidge(kernel="linear", alpha={value})'
        next_steps.append(
            (
                f"{simple.name.capitalize()} ({simple.setting}) is not shown to be worse and is simpler. This trains "
                "it on all rows:",
                f"mercer.fit_model(table, {study.target!r}, mercer.{machine})",
            )
        )
    next_steps.append(("Predict new rows:", "study.estimator_.predict(new_table)"))
    next_steps.append(("Keep page and model:", 'study.save("folder")'))
    next_steps.append(
        (
            "Try other options by the folds alone, without another look:",
            f"mercer.study(table, target={study.target!r}, keep_sealed=True)",
        )
    )
    return next_steps


def _simple(study: Study) -> Contender | None:
    """Logistic or ridge regression, if it is simpler than the machine, which is not shown to be better."""
    first = study.contenders[1]
    if study.search.best.choice.is_linear or first.name not in LINEAR_RIVALS or study.sign(study.svm, first) > 0:
        return None
    return first if study.sign(first, study.baseline) > 0 else None


def _options(study: Study, command: str) -> list[str]:
    """The options of the study's command that mean the same to mercer fit, without columns that only arrange rows."""
    options, words = [], iter(shlex.split(command))
    for word in words:
        name, given, _ = word.partition("=")
        if name.startswith("--") and name in _OF_FIT.split(" "):
            options += [word] if given else [word, next(words)]
    arranging = [name for name in (study.arranged.groups, study.arranged.time) if name is not None]
    for name in arranging:
        if name not in study.column_choice.features:
            options += ["--drop", name]
    if isinstance(study.goal, ToClassify) and study.goal.implied == "the score":
        options += ["--class-weight", "balanced"]
    return options


def _target_given(command: str) -> str | None:
    """The target as the command names it: a column, or a file of names and their labels."""
    words = shlex.split(command)
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, has_value, value = word.partition("=")
        if name == "--target":
            return value if has_value else following
    return None


def _fit(one: Contender, table: str, target: str) -> str:
    value = one.setting.split(" = ")[-1]
    machine = "linear-logistic --C" if one.name.startswith("logistic") else "ridge --kernel linear --alpha"
    return f"mercer fit {table} --target {target} --machine {machine} {value} --out simple.mercer"
