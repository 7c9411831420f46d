"""All that can be said about a table before anything is learnt: its examination, refusals, and trouble of machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.data import Table
from mercer.kernels import Gamma
from mercer.studies.examination.copies import copies
from mercer.studies.examination.examination import Examination, examine, ranked
from mercer.studies.examination.finding import Finding
from mercer.studies.examination.machines import collapsed_gamma, infeasible_nu, unscaled
from mercer.studies.examination.refusals import choose_or_refuse, too_few_rows
from mercer.studies.tables import ColumnChoice, ColumnOptions, TableChoice, Truth

MAX_ENCODED = 2_000
"""Rows that are encoded to look at a kernel; its median value of so many is known to two digits."""

TEST_SIZE, N_FOLDS = 0.25, 5
"""The protocol of a study if nothing is said."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What there is to say about a table and about machines on it.

    Attributes
    ----------
    findings : tuple of Finding
        The most important first.
    truth : Labels, Quantities or None
        The target in the rows that are used.
    examination : Examination or None
        Of these rows; None if no column can be used.
    """

    findings: tuple[Finding, ...]
    truth: Truth | None
    examination: Examination | None


def diagnose(table: Table, truth: Truth | None, **options: Any) -> tuple[Finding, ...]:
    """Return the findings of `diagnosed`, with the same parameters."""
    return diagnosed(table, truth, **options).findings


def diagnosed(
    table: Table,
    truth: Truth | None,
    *,
    gamma: Gamma = "scale",
    nu: float | None = None,
    arranged_by: Collection[str] = (),
    **columns: Any,
) -> Diagnosis:
    """Return what there is to say about a table and about machines on it.

    Takes a few seconds for 100,000 rows.

    Parameters
    ----------
    table : Table
    truth : Labels, Quantities or None
        Without a target, only the columns are examined.
    gamma : float or str, default="scale"
        Of a Gaussian kernel on the encoded rows.
    nu : float, optional
        Of a nu-machine; None for its default.
    arranged_by : collection of str
        The columns that name groups of rows, and their time. They are not used, unless kept.
    columns
        What is said about the columns: see `mercer.studies.tables.ColumnOptions`.
    """
    options = ColumnOptions(**columns)
    arrangement = [name for name in arranged_by if name not in options.keep]
    options = replace(options, drop=tuple(dict.fromkeys([*options.drop, *arrangement])))
    choice, findings = choose_or_refuse(table, truth, options)
    out = {*options.drop, *([] if truth is None else [truth.target])}
    features = tuple(name for name in table.names if name not in out) if choice is None else choice.features
    if not features and table.sparse is None:
        return Diagnosis(ranked(findings), truth, None)
    if isinstance(choice, ColumnChoice):
        truth = choice.truth
    kinds = {} if choice is None else choice.kinds
    examination = examine(table, truth, features, kinds=kinds, grouped=bool(arranged_by))
    used = table.select(features) if truth is None else table.select(features).take(truth.rows)
    findings += copies(used)
    findings += examination.findings
    findings += unscaled(examination.columns)
    if truth is not None:
        findings += too_few_rows(table, truth, TEST_SIZE, N_FOLDS)
        findings += infeasible_nu(truth, nu)
    if choice is not None:
        findings += collapsed_gamma(_encoded(used, choice), gamma)
    return Diagnosis(ranked(findings), truth, examination)


def _encoded(table: Table, choice: TableChoice) -> Any:
    """Return some rows of a table in the encoding that a machine would see."""
    rows = np.random.default_rng(0).permutation(table.n_rows)[:MAX_ENCODED]
    some = table.take(np.sort(rows))
    return choice.encoder().fit(some).transform(some)
