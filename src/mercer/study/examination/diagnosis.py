"""All that can be said about a table before anything is learnt: its examination, refusals, and trouble of machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Gamma
from mercer.study.examination.copies import copies
from mercer.study.examination.examination import examine, ranked
from mercer.study.examination.finding import Finding
from mercer.study.examination.machines import collapsed_gamma, infeasible_nu, unscaled
from mercer.study.examination.refusals import choose_or_refuse, too_few_rows
from mercer.tables import ColumnChoice, ColumnOptions, Table, TableChoice, Truth

MAX_ENCODED = 2_000
"""Rows that are encoded to look at a kernel; its median value of so many is known to two digits."""

TEST_SIZE, N_FOLDS = 0.25, 5
"""The protocol of a study if nothing is said."""


def diagnose(
    table: Table, truth: Truth | None, *, gamma: Gamma = "scale", nu: float | None = None, **columns: Any
) -> tuple[Finding, ...]:
    """Return what there is to say about a table and about machines on it, the most important first.

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
    columns
        What is said about the columns: see `mercer.tables.ColumnOptions`.
    """
    options = ColumnOptions(**columns)
    choice, findings = choose_or_refuse(table, truth, options)
    out = {*options.drop, *([] if truth is None else [truth.target])}
    features = tuple(name for name in table.names if name not in out) if choice is None else choice.features
    if not features and table.sparse is None:
        return ranked(findings)
    if isinstance(choice, ColumnChoice):
        truth = choice.truth
    examination = examine(table, truth, features, kinds={} if choice is None else choice.kinds)
    used = table.select(features) if truth is None else table.select(features).take(truth.rows)
    findings += copies(used)
    findings += examination.findings
    findings += unscaled(examination.columns)
    if truth is not None:
        findings += too_few_rows(table, truth, TEST_SIZE, N_FOLDS)
        findings += infeasible_nu(truth, nu)
    if choice is not None:
        findings += collapsed_gamma(_encoded(used, choice), gamma)
    return ranked(findings)


def _encoded(table: Table, choice: TableChoice) -> Any:
    """Return some rows of a table in the encoding that a machine would see."""
    rows = np.random.default_rng(0).permutation(table.n_rows)[:MAX_ENCODED]
    some = table.take(np.sort(rows))
    return choice.encoder().fit(some).transform(some)
