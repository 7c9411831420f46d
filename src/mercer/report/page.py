"""The report as one HTML page: no scripts, no references to anything outside it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, cast

from mercer.encoding import CategoricalRule, NumericRule
from mercer.io.whole import written_whole
from mercer.outcome import Classes
from mercer.report import prose
from mercer.selection.search import times_usual
from mercer.study import Study

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from mercer import plot
    from mercer.plot.evaluation import MAX_CURVES
    from mercer.report.svg import inline_svg
except ImportError as error:
    raise ImportError(
        f"writing reports needs jinja2 and matplotlib ({error}); install them with: pip install 'mercer[study]'"
    ) from error

MAX_PARTS = 60
"""Most sub-problems that are listed one by one."""

MAX_LEVELS_SHOWN = 8


def render(study: Study, *, source: str = "", command: str = "") -> str:
    """The page as text.

    Parameters
    ----------
    study : Study
    source : str, optional
        Where the table came from, for the title.
    command : str, optional
        The command that ran the study, for whoever wants to run it again.
    """
    environment = Environment(
        loader=PackageLoader("mercer.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": prose.percent,
        "interval": prose.interval,
        "duration": prose.duration,
        "number": _number,
        "small": prose.small,
        "moment": _moment,
    }
    return environment.get_template("report.html.j2").render(
        study=study,
        source=source,
        command=command,
        prose=prose,
        figures=_figures(study),
        certificate=study.certificate,
        gamma=_gamma(study),
        parts=_parts(study),
        columns=_columns(study),
        unfinished=any(cell.unfinished for cell in study.search.cells),
        max_curves=MAX_CURVES,
    )


def write_report(path: str | Path, study: Study, *, source: str = "", command: str = "") -> None:
    """Write the page to a file, all of it or nothing."""
    text = render(study, source=source, command=command)
    with written_whole(path, "w") as file:
        file.write(text)


def _figures(study: Study) -> dict[str, Markup]:
    svm, logistic = study.contenders[:2]
    labels = study.intake.labels
    accuracy = prose.percent(svm.test.accuracy.value)
    figures = {
        "search": inline_svg(
            plot.search_heat_map(study.search),
            "search",
            f"Table of cross-validated accuracy by kernel, gamma and C; the best is {study.svm.setting} with "
            f"{prose.percent(study.search.best.accuracy)}.",
        ),
        "confusion": inline_svg(
            plot.confusion_matrix(svm.test.confusion, labels),
            "confusion",
            f"Confusion matrix on the test rows; {accuracy} of them are on the diagonal.",
        ),
        "margins": inline_svg(
            plot.margin_distribution(study.margins_train, study.margins_test),
            "margins",
            "Histograms of the margins on training and on test rows.",
        ),
    }
    if svm.test.curves:
        figures["roc"] = inline_svg(
            plot.roc_curves(svm.test.curves, svm.train.curves, (logistic.name, logistic.test.curves)),
            "roc",
            f"ROC curves; area {svm.test.auc:.3f} on test rows and {svm.train.auc:.3f} on training rows.",
        )
    return figures


def _gamma(study: Study) -> str:
    """The chosen gamma, and how it compares with the usual one; "" for a kernel that has none."""
    value, factor = prose.gamma(study), study.search.best.choice.gamma_factor
    if value is None:
        return ""
    return f"gamma = {value:.3g} is {times_usual(factor)}"


def _parts(study: Study) -> list[dict[str, Any]]:
    """Rows of the table of sub-problems; empty for two classes."""
    outcome = cast(Classes, study.model.outcome)
    labels = outcome.names
    if len(study.model.parts) == 1:
        return []
    return [
        {
            "name": f"{labels[positive]} against {'the rest' if negative is None else labels[negative]}",
            "certificate": part.certificate,
        }
        for part, (positive, negative) in zip(study.model.parts[:MAX_PARTS], outcome.sides, strict=False)
    ]


def _columns(study: Study) -> list[tuple[str, str, str, str]]:
    """Name, kind, what became of it, and what stands in for missing cells, of each column used."""
    impute = study.intake.missing == "impute"
    rows = []
    for rule in study.model.encoder.rules_:
        missing = study.intake.missing_cells.get(rule.name, 0)
        if isinstance(rule, NumericRule):
            made = f"standardised: mean {_number(rule.mean)}, standard deviation {_number(rule.scale)}"
            kind, fill = "numbers", f"median {_number(rule.fill)}"
        else:
            made, kind, fill = _levels(rule), "categories", f"most frequent, “{rule.levels[0]}”"
        rows.append(
            (rule.name, kind, made, f"{missing:,}, taken as the {fill}" if impute and missing else f"{missing:,}")
        )
    return rows


def _levels(rule: CategoricalRule) -> str:
    shown = ", ".join(rule.levels[:MAX_LEVELS_SHOWN]) + (", …" if len(rule.levels) > MAX_LEVELS_SHOWN else "")
    if rule.n_levels > len(rule.levels):
        return (
            f"an indicator for each of the {len(rule.levels)} most frequent of {rule.n_levels:,} values, none for the "
            f"others: {shown}"
        )
    return f"one indicator each: {shown}"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
