"""`mercer.doctor`: what a table looks like, what will go wrong with it, and the remedy, before any time is spent."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mercer.data import Limits, Result, Table, TableError
from mercer.studies.arranged import Arranger
from mercer.studies.examination import N_FOLDS, TEST_SIZE, Examination, Finding, diagnosed, refusal
from mercer.studies.inputs import column_name, names_of, read_input, with_target
from mercer.studies.report.overview import overview
from mercer.studies.report.python_options import in_python
from mercer.studies.sealing import folds_of, seal_rows
from mercer.studies.tables import (
    MAX_LEVELS,
    ColumnOptions,
    DateOrder,
    Labels,
    MissingPolicy,
    Task,
    Truth,
    read_target,
)


@dataclass(frozen=True, eq=False, repr=False)
class TableReport(Result):
    """What there is to know about a table before anything is learnt from it.

    Attributes
    ----------
    overview : tuple of str
        Lines on rows, columns, classes and missing cells, and a small histogram of each column; empty if no column can
        be used.
    findings : tuple of Finding
        What there is to do something about, the most important first. Each has a `weight` ("error": a study refuses the
        table; "doubt": a test score may be worthless; "caution"; "remark"), a `sentence` and a `remedy`.
    truth : Labels, Quantities or None
        The target, as it was read.
    examination : Examination or None
    """

    overview: tuple[str, ...]
    findings: tuple[Finding, ...]
    truth: Truth | None
    examination: Examination | None

    def __str__(self) -> str:
        said = [f"{one.weight}: {in_python(str(one).strip())}" for one in self.findings]
        return "\n".join([*self.overview, "", *(said or ["Nothing suspicious was found."])])

    def _columns(self) -> dict[str, list[Any]]:
        """Return a row for each finding."""
        return {
            "weight": [str(one.weight) for one in self.findings],
            "kind": [str(one.kind) for one in self.findings],
            "columns": [", ".join(one.columns) for one in self.findings],
            "sentence": [one.sentence for one in self.findings],
            "remedy": [in_python(one.remedy) for one in self.findings],
        }


def doctor(
    table: Any,
    target: Any = None,
    *,
    task: Task = "auto",
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    categorical: str | Iterable[str] = (),
    text: str | Iterable[str] = (),
    dates: str | Iterable[str] = (),
    date_order: DateOrder | None = None,
    max_levels: int = MAX_LEVELS,
    missing: MissingPolicy = "impute",
    format: str | None = None,
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    na: str | Iterable[str] = (),
    limits: Limits | None = None,
    merge: str | Iterable[str] = (),
    groups: str | None = None,
    time: str | None = None,
    gamma: float | None = None,
    nu: float | None = None,
) -> TableReport:
    """Examine a table before any time is spent on it: what it looks like, what will go wrong, and the remedy.

    The options are those of the command `mercer doctor`, with the same names and defaults. It takes some seconds for
    100,000 rows.

    Parameters
    ----------
    table : data frame, dict, matrix, Table, str or Path
        As `mercer.study` takes it.
    target : str or array-like, optional
        Column to predict, its name or its cells; without it, only the columns are examined, and not what predicts the
        target.
    task, drop, keep, categorical, text, dates, date_order, max_levels, missing, groups, time
        See `mercer.study`.
    format, sep, decimal, encoding, sheet, na, limits, merge
        How a file is read: see `mercer.studies.models.read_table`. They are for paths.
    gamma : float, optional
        Gamma of a Gaussian kernel to examine; by default "scale".
    nu : float, optional
        Nu of a nu-machine to examine; by default 0.5.

    Returns
    -------
    TableReport
        It prints as the command does. `findings` has what was found, and `to_frame()` as a data frame.

    Raises
    ------
    TableError
        If the table cannot be read, or has no such column.

    Examples
    --------
    >>> import mercer
    >>> table = {"dose": [1, 2, 3, 4] * 10, "unit": ["mg"] * 40, "result": ["good", "bad"] * 20}
    >>> report = mercer.doctor(table, target="result")
    >>> report.to_frame()[["weight", "kind"]].values.tolist()
    [['caution', 'copies of rows']]
    """
    columns: dict[str, Any] = {
        "drop": names_of(drop),
        "keep": names_of(keep),
        "categorical": names_of(categorical),
        "text": names_of(text),
        "dates": names_of(dates),
        "date_order": date_order,
        "max_levels": max_levels,
        "missing": missing,
    }
    reading = {
        "format": format,
        "sep": sep,
        "decimal": decimal,
        "encoding": encoding,
        "sheet": sheet,
        "na": names_of(na),
        "limits": limits,
        "merge": names_of(merge),
    }
    rows, _ = read_input(table, ColumnOptions(**columns).as_text, reading)
    groups, time = column_name("groups", groups), column_name("time", time)
    rows, target = with_target(rows, target, table, needed=False)
    truth = None if target is None else read_target(rows, target, task)
    return examined(rows, truth, columns, groups=groups, time=time, gamma=gamma, nu=nu)


def examined(
    rows: Table,
    truth: Truth | None,
    columns: dict[str, Any],
    *,
    groups: str | None = None,
    time: str | None = None,
    gamma: float | None = None,
    nu: float | None = None,
) -> TableReport:
    """Return what there is to know about a table that was read; `columns` are the parameters of `ColumnOptions`."""
    arranged_by = [name for name in (groups, time) if name is not None]
    for name in arranged_by:
        rows[name]  # raises a TableError that suggests similar names
    diagnosis = diagnosed(rows, truth, gamma=gamma or "scale", nu=nu, arranged_by=arranged_by, **columns)
    lines: list[str] = []
    if diagnosis.examination is not None:
        lines = overview(rows, diagnosis.truth, diagnosis.examination)
    refused = [] if truth is None else _refusals_of_split(rows, truth, groups, time, ColumnOptions(**columns))
    findings = (*refused, *(one for one in diagnosis.findings if one.needs_action))
    return TableReport(tuple(lines), findings, diagnosis.truth, diagnosis.examination)


def _refusals_of_split(
    rows: Table, truth: Truth, groups: str | None, time: str | None, options: ColumnOptions
) -> list[Finding]:
    """Return why a study could not split rows by groups or time; nothing without these."""
    if groups is None and time is None:
        return []
    is_numeric = rows.is_numeric(truth.target)
    table = (rows.as_written(truth.target) if isinstance(truth, Labels) else rows).as_text(*options.as_text)
    protocol: dict[str, Any] = {"test_size": TEST_SIZE, "n_folds": N_FOLDS, "seed": 0, "are_numbers": is_numeric}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the examination has said them
            arranger = Arranger(table, truth, groups, time, "together", options.date_order)
            sealed, arranged, choice = seal_rows(table, truth, arranger, options, **protocol)
        folds_of(arranged.of(sealed.rest), choice.truth.of(table, choice.rows[sealed.rest]), N_FOLDS, 0)
    except TableError as error:
        return [refusal("mercer study refuses", error)]
    return []
