"""The results that the command line prints on stdout."""

from __future__ import annotations

import math
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from mercer.data import Table
from mercer.specs import InstanceBasedSpec
from mercer.studies.cli.messages import in_options, printable
from mercer.studies.models import Model, Verification
from mercer.studies.report import fit, next_steps, prose, sealed
from mercer.studies.report import numbers as words
from mercer.studies.result import Study
from mercer.studies.sealed_study import SealedStudy

_COMPARED = (
    ("primal objective", "primal", ".10g"),
    ("dual objective", "dual", ".10g"),
    ("duality gap", "gap", ".3g"),
    ("relative gap", "relative_gap", ".3g"),
    ("KKT violation", "kkt_violation", ".3g"),
    ("gradient violation", "gradient_violation", ".3g"),
    ("dual infeasibility", "dual_infeasibility", ".3g"),
    ("support vectors", "n_support", ",d"),
    ("exact problem, primal", "exact_primal", ".10g"),
    ("exact problem, dual", "exact_dual", ".10g"),
)


def _shown(number: float | None, form: str) -> str:
    if number is None:
        return "not stated"
    return "not bounded" if isinstance(number, float) and math.isinf(number) else format(number, form)


class _Console(Console):
    """Stdout, on which no cell of a table can play tricks."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(one) if isinstance(one, str) else one for one in objects), **options)


def _data() -> Console:
    return _Console(highlight=False, markup=False, emoji=False)


def print_study(study: Study, source: str, command: str, model: str) -> None:
    """Print the summary of a study, and what to do next."""
    out = _data()
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("")
    phrasing = prose.phrasing_of(study)
    for heading in phrasing.headings(study.goal):
        grid.add_column(printable(heading), justify="right", no_wrap=True)
    for one in study.contenders:
        grid.add_row(Text(printable(f"{one.name}\n{one.setting}")), *map(printable, phrasing.cells(study.goal, one)))
    first, *others = prose.summary(study)
    for paragraph in (
        *map(str, prose.doubts(study)),
        first,
        grid,
        *others,
        phrasing.details(study),
        prose.numbers(study.model),
        *map(in_options, prose.cautions(study, with_remedies=True)),
    ):
        out.print(paragraph)
        if isinstance(paragraph, str):
            out.print()
    for reason, columns in prose.left_out(study.column_choice, study.model).items():
        out.print(f"{in_options(words.capitalised(prose.why_left_out(reason, columns)))}.")
    out.print("What to do next")
    for sentence, next_command in next_steps.steps(study, source=source, command=command, model=model):
        out.print(sentence)
        if next_command:
            out.print(f"  {next_command}", soft_wrap=True)


def print_sealed(run: SealedStudy) -> None:
    """Print what the folds of a study say whose seal is still closed."""
    out = _data()
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("")
    grid.add_column(f"cross-validated\n{run.goal.figure_name}", justify="right")
    for name, setting, figure in sealed.machines(run):
        grid.add_row(Text(f"{name}\n{setting}"), figure)
    out.print(grid)
    for paragraph in sealed.paragraphs(run):
        out.print(in_options(paragraph))
        out.print()


def print_fit(model: Model, table: Table | None) -> None:
    """Print the machine and its certificate; `table` holds the training rows, if they are in memory."""
    out = _data()
    out.print(fit.setting(model), soft_wrap=True)
    choice = getattr(model.certificate, "choice", "")
    for reason in (*model.kernel.reasons, *([f"{choice}."] if choice else [])):
        out.print(reason, soft_wrap=True)
    for paragraph in fit.paragraphs(model, table):
        out.print()
        out.print(paragraph)


def print_verification(model: Model, verification: Verification) -> None:
    """Print stored and recomputed numbers side by side, and what does not agree."""
    out = _data()
    stored, recomputed = verification.stored, verification.recomputed
    if stored is not None and recomputed is not None:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("", "in the file", "recomputed"):
            grid.add_column(heading, justify="right" if heading else "left")
        for name, attribute, form in _COMPARED:
            numbers = [getattr(one, attribute, None) for one in (stored, recomputed)]
            if numbers == [None, None]:
                continue
            several = len(stored.parts) > 1 and attribute == "n_support"
            grid.add_row(
                f"{name}, sum of all machines" if several else name,
                *(_shown(one, form) for one in numbers),
            )
        for name, tol in (("tolerance", stored.tol), ("tolerance of the gap", stored.tol_gap)):
            if tol is not None:
                grid.add_row(name, f"{tol:g}", "")
        grid.add_row("status", str(stored.status), str(recomputed.status))
        out.print(grid)
    if model.seal is not None:
        out.print(str(model.seal), soft_wrap=True)
    if verification.ok:
        if isinstance(model.machine_spec, InstanceBasedSpec):
            out.print(f"This machine claims no optimum. What was checked: {model.machine_spec.checked}.")
        out.print("verified: the model is what it says it is, on the table that it was trained on")
