"""The examination of a table: all findings, and a histogram of each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.data import Result, Table, columns_of_rows
from mercer.model_selection import equal_rows
from mercer.studies.examination.averages import averages
from mercer.studies.examination.codes import codes
from mercer.studies.examination.columns import Column, column_of
from mercer.studies.examination.contradictions import contradictions
from mercer.studies.examination.correlations import correlations
from mercer.studies.examination.derived import derived
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.examination.formulas import formulas
from mercer.studies.examination.groups import groups
from mercer.studies.examination.histograms import MAX_GROUPS, Histogram, histogram
from mercer.studies.examination.leaks import leaks
from mercer.studies.examination.order import order_in_time
from mercer.studies.examination.rows import Sample, sample_of
from mercer.studies.examination.shapes import examine_shapes
from mercer.studies.examination.spellings import spellings
from mercer.studies.examination.targets import examine_target
from mercer.studies.tables import Kind as TableKind
from mercer.studies.tables import Labels, Quantities, Truth
from mercer.studies.time_budget import Deadline

MAX_HISTOGRAMS = 60


@dataclass(frozen=True, eq=False, repr=False)
class Examination(Result):
    """What was found out about a table before anything is learnt from it.

    Attributes
    ----------
    n_rows : int
        Rows whose target is known.
    n_examined : int
        Distinct rows that were examined; of many rows a random sample.
    findings : tuple of Finding
        What the owner of the table should know, the most important first.
    histograms : tuple of Histogram
        Of the target if it is numbers, and of the first columns that are used.
    classes : tuple of str
        The classes that the histograms tell apart; empty if they tell none apart.
    columns : tuple of Column
        The cells of the examined rows in the columns that are used.
    left_out : tuple of str
        What was not looked for, because there was no time.
    """

    n_rows: int
    n_examined: int
    findings: tuple[Finding, ...]
    histograms: tuple[Histogram, ...]
    classes: tuple[str, ...]
    columns: tuple[Column, ...] = field(repr=False)
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}"
        return "\n".join(
            [f"Examination({self.n_rows:,} rows, {count})", *(f"  {one.sentence}" for one in self.findings)]
        )

    def _columns(self) -> dict[str, Any]:
        """Return a row for each finding."""
        return columns_of_rows(self.findings, ("weight", "kind", "columns", "sentence", "remedy"))

    def with_weight(self, weight: Weight) -> list[Finding]:
        """Return the findings that matter this much."""
        return [finding for finding in self.findings if finding.weight is weight]


def examine(
    table: Table,
    truth: Truth | None,
    features: Sequence[str],
    *,
    kinds: Mapping[str, TableKind] | None = None,
    grouped: bool = False,
    group_column: str = "",
    max_seconds: float | None = None,
) -> Examination:
    """Examine the rows of a table whose target is known, or all rows if there is no target.

    Costs one sort of each column of at most 20,000 rows, and one pass over all cells to find equal rows.

    Parameters
    ----------
    table : Table
    truth : Labels, Quantities or None
        The target in the rows to examine; no other row is looked at.
    features : sequence of str
        The columns that are used to predict.
    kinds : mapping, optional
        What columns hold that hold neither numbers nor plain categories: dates or free text.
    grouped : bool, default=False
        Whether it is known which rows belong together, or what their order in time is, so that neither is
        looked for.
    group_column : str, default=""
        The column that names the groups; it cannot predict the target of new groups.
    max_seconds : float, optional
        Checks that have not begun then are left out.
    """
    deadline = Deadline(max_seconds)
    with_target = table if truth is None else table.take(truth.rows)
    equal = equal_rows(with_target.select(features)).groups
    sample = sample_of(with_target, truth, features, equal, kinds or {})
    checks: dict[str, Callable[[], list[Finding]]] = {
        "groups of rows, and an order in time": lambda: [] if grouped else _about_order(sample, truth),
        "columns that tell the target": lambda: [] if truth is None else _alone(sample, truth, group_column),
        "equal rows with different targets": lambda: [] if truth is None else contradictions(equal, truth),
        "rare classes and limits of the target": lambda: [] if truth is None else examine_target(truth),
        "codes for missing cells, and spellings": lambda: [
            *codes(with_target, sample.used),
            *spellings(with_target, sample.used),
        ],
        "skewed, constant and outlying columns": lambda: examine_shapes(sample.used),
        "correlated columns": lambda: correlations(sample.used),
    }
    findings: list[Finding] = []
    left_out = []
    for what, check in checks.items():
        if deadline.has_come:
            left_out.append(what)
        else:
            findings += check()
    coded = {column for finding in findings if finding.kind is Kind.CODE for column in finding.columns}
    findings = [one for one in findings if one.kind is not Kind.OUTLYING or not coded.issuperset(one.columns)]
    return Examination(
        n_rows=with_target.n_rows,
        n_examined=sample.n_rows,
        findings=ranked(findings),
        histograms=_histograms(sample, truth),
        classes=tuple(truth.names) if isinstance(truth, Labels) and len(truth.names) <= MAX_GROUPS else (),
        columns=tuple(sample.used),
        left_out=tuple(left_out),
    )


def _about_order(sample: Sample, truth: Truth | None) -> list[Finding]:
    findings = groups(sample, truth)
    if truth is None or any(finding.weight is Weight.DOUBT for finding in findings):  # groups that follow each other
        return findings
    return [*findings, *order_in_time(sample, truth)]


def _alone(sample: Sample, truth: Truth, group_column: str) -> list[Finding]:
    alone = [finding for finding in leaks(sample, truth) if finding.columns != (group_column,)]
    alone += [one for one in averages(sample, truth) if one.columns not in {finding.columns for finding in alone}]
    if Weight.DOUBT not in {finding.weight for finding in alone}:
        alone += formulas(sample, truth) or derived(sample, truth)
    return alone


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with the most important first."""
    return tuple(sorted(findings, key=lambda finding: list(Weight).index(finding.weight)))


def _histograms(sample: Sample, truth: Truth | None) -> tuple[Histogram, ...]:
    columns, codes, n_groups = sample.used[:MAX_HISTOGRAMS], np.zeros(sample.n_rows, dtype=np.int64), 1
    if isinstance(truth, Quantities):
        columns = [column_of(truth.target, sample.target), *columns]
    elif isinstance(truth, Labels) and len(truth.names) <= MAX_GROUPS:
        codes, n_groups = sample.target, len(truth.names)
    return tuple(histogram(column, sample.cells(column), codes, n_groups) for column in columns)
