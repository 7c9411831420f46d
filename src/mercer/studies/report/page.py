"""The report as one HTML page: no scripts, no references to anything outside it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from mercer.data import listing
from mercer.studies.candidates import times_usual
from mercer.studies.examination import Histogram
from mercer.studies.models import RowReader
from mercer.studies.report import (
    calibration,
    certificates,
    classification,
    decisions,
    examination,
    insight,
    next_steps,
    numbers,
    prose,
    regression,
    search_prose,
    weights,
    words,
)
from mercer.studies.report.numbers import quantity
from mercer.studies.report.overview import caption
from mercer.studies.report.printable import printable
from mercer.studies.report.python_options import in_python
from mercer.studies.result import Study
from mercer.studies.tables import (
    BitsRule,
    CategoricalRule,
    Classes,
    DateRule,
    NumericRule,
    Rule,
    SequenceRule,
    TextRule,
)

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from mercer.plot import MAX_CURVES, MAX_POINTS
    from mercer.studies.report.heat_map import search_display
    from mercer.studies.report.svg import inline_svg
except ImportError as error:
    raise ImportError(
        f"writing reports needs jinja2 and matplotlib ({error}); install them with: pip install jinja2 matplotlib"
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
        The command that ran the study, to repeat it; without it, the page is for Python.
    """
    environment = Environment(
        loader=PackageLoader("mercer.studies.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spelt_out if command else _in_python,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    phrasing = prose.phrasing_of(study)
    environment.filters |= {
        "percent": numbers.percent,
        "interval": numbers.interval,
        "rounded": numbers.rounded,
        "duration": numbers.duration,
        "number": numbers.quantity,
        "quantities": numbers.quantities,
        "small": numbers.small,
        "moment": _moment,
    }
    page = environment.get_template(phrasing.template).render(
        study=study,
        source=_utf8(source),
        command=_utf8(command),
        prose=prose,
        search_prose=search_prose,
        next_steps=next_steps.steps(study, source=_utf8(source), command=_utf8(command))
        if command
        else next_steps.python_steps(study),
        in_rounds=search_prose.rounds(study.search),
        phrasing=phrasing,
        look=examination,
        doubts=prose.doubts(study),
        numbers=regression,
        margins=classification.margins,
        decisions=decisions,
        losses=classification.losses(study),
        figures=_figures(study),
        certificate=study.certificate,
        fixed=certificates.fixed(study.model),
        in_short=certificates.in_short(study.certificate),
        approximation=getattr(study.certificate, "approximation", ""),
        has_violations=study.certificate.kkt_violation is not None and study.certificate.tol is not None,
        insight=insight,
        weights=weights,
        is_linear=study.model.machine_spec.is_linear,
        tried_kernels=any(not cell.choice.is_linear for cell in study.search.cells),
        calibration=calibration,
        gamma=_gamma(study),
        reads_as=_read_by_others(study),
        reads_cells=listing([*_read_as_cells(study)]) if _read_as_cells(study) else "",
        parts=_parts(study),
        columns=_columns(study),
        unfinished=any(cell.unfinished for cell in study.search.cells),
        max_curves=MAX_CURVES,
        max_points=MAX_POINTS,
    )
    columns = study.column_choice
    classes = map(str, getattr(columns.truth, "names", ()))
    return words.define(page, [study.target, *columns.features, *columns.left_out, *classes])


def _spelt_out(value: Any) -> Any:
    """Return what is written on the page, with the control characters of cells and names spelt out."""
    if isinstance(value, Markup):
        return Markup(printable(value))
    return printable(value) if isinstance(value, str) else value


def _in_python(value: Any) -> Any:
    """Return what is written on a page for Python: options of the command line are parameters."""
    value = _spelt_out(value)
    return in_python(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _utf8(name: str) -> str:
    """A file name as text in UTF-8: bytes that are not are spelt out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _figures(study: Study) -> dict[str, Markup]:
    phrasing = prose.phrasing_of(study)
    best = phrasing.figure(study.goal, study.search.best.figure)
    pictures = (
        {
            "search": (
                search_display(study.search, partial(phrasing.short_figure, study.goal)).to_figure(),
                f"Table of cross-validated {study.goal.figure_name} by kernel, gamma and C; the best is "
                f"{study.svm.setting} with {best}.",
            )
        }
        | phrasing.pictures(study)
        | insight.pictures(study)
    )
    if calibration.has_probabilities(study):
        pictures["calibration"] = calibration.picture(study)
    return {name: inline_svg(figure, name, text) for name, (figure, text) in pictures.items()}


def _gamma(study: Study) -> str:
    """The chosen gamma, and how it compares with the usual one; "" for a kernel without gamma."""
    value, choice = prose.gamma(study), study.search.best.choice
    factor = choice.gamma_factor
    if value is None and choice.given is not None and choice.has_gamma:
        return f"each gamma that the kernel leaves open is {times_usual(factor)} for its columns"
    if value is None:
        return ""
    return f"gamma = {value:.3g} is {times_usual(factor)}"


def _parts(study: Study) -> list[dict[str, Any]]:
    """Rows of the table of sub-problems; empty for two classes."""
    prediction_kind = study.model.prediction_kind
    if not isinstance(prediction_kind, Classes) or len(study.model.parts) == 1 or study.model.cells is not None:
        return []
    labels = prediction_kind.names
    return [
        {
            "name": f"{labels[positive]} against {'the rest' if negative is None else labels[negative]}",
            "certificate": part.certificate,
        }
        for part, (positive, negative) in zip(study.model.parts[:MAX_PARTS], prediction_kind.sides, strict=False)
    ]


def _columns(study: Study) -> list[tuple[str, str, str, str]]:
    """Name, kind, what became of it, and what stands in for missing cells, of each column used."""
    impute = study.column_choice.missing == "impute"
    rows = [(name, *of_cells, "0") for name, of_cells in _read_as_cells(study).items()]
    for rule in study.model.encoder.rules_:
        missing = study.column_choice.missing_cells.get(rule.name, 0)
        kind, made = _encoding(rule)
        filled = f"{missing:,}, taken as {rule.substitute}" if impute and missing else f"{missing:,}"
        rows.append(
            (rule.name, kind, made, f"{filled}, and marked in a column of its own" if rule.indicator else filled)
        )
    return rows


def _read_as_cells(study: Study) -> dict[str, tuple[str, str]]:
    """The kind of the columns that the kernel reads as they are, and what their cells in the training rows are."""
    reader = study.model.encoder
    if not isinstance(reader, RowReader):
        return {}
    encoded = {rule.name for rule in reader.rules_}
    names = [name for name in reader.column_names if name not in encoded]
    histograms = {one.name: one for one in study.examination.histograms}
    return {name: _cells(histograms.get(name)) for name in names}


def _read_by_others(study: Study) -> str:
    """What machines that read encoded rows read of the cells that the kernel reads."""
    kinds = {study.column_choice.kinds.get(name, "categories") for name in _read_as_cells(study)}
    of_kind = {"sequence": "weights of their words", "text": "weights of their words", "bits": "their bits"}
    return " and ".join(dict.fromkeys(of_kind.get(kind, "their encoding") for kind in sorted(kinds)))


def _cells(histogram: Histogram | None) -> tuple[str, str]:
    """The kind of a column whose cells the kernel reads, and the sizes of these."""
    kinds = {"sequences": "sequences", "text": "free text", "bits": "strings of bits"}
    if histogram is None or histogram.kind not in kinds:
        return "cells", "read by the kernel as they are"
    return kinds[histogram.kind], f"read by the kernel as they are: {caption(histogram)}"


def _encoding(rule: Rule) -> tuple[str, str]:
    """The kind of a column, and what became of it."""
    if isinstance(rule, NumericRule):
        return "numbers", f"standardised: mean {quantity(rule.mean)}, standard deviation {quantity(rule.scale)}"
    if isinstance(rule, DateRule):
        return "dates", f"parts: {', '.join(part.part for part in rule.parts)}"
    if isinstance(rule, BitsRule):
        return "strings of bits", f"a column of 0 and 1 for each of {rule.n_bits:,} bits"
    if isinstance(rule, SequenceRule):
        shown = ", ".join(rule.most_frequent(MAX_LEVELS_SHOWN))
        return "sequences", f"weights (TF-IDF) of {len(rule.words):,} words of {rule.length} letters: {shown}, …"
    if isinstance(rule, TextRule):
        shown = ", ".join(rule.most_frequent(MAX_LEVELS_SHOWN))
        return "free text", f"weights (TF-IDF) of {len(rule.words):,} words: {shown}, …"
    assert isinstance(rule, CategoricalRule)
    return "categories", _levels(rule)


def _levels(rule: CategoricalRule) -> str:
    shown = ", ".join(rule.levels[:MAX_LEVELS_SHOWN]) + (", …" if len(rule.levels) > MAX_LEVELS_SHOWN else "")
    if rule.n_levels > len(rule.levels):
        return (
            f"one indicator for each of the {len(rule.levels):,} most frequent of {rule.n_levels:,} values, none for "
            f"the others: {shown}"
        )
    return f"one indicator for each of {len(rule.levels):,} values: {shown}"


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
