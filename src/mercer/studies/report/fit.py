"""What `mercer fit` says of the machine that it trained, in paragraphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data import Table, listing
from mercer.specs import InstanceBasedSpec
from mercer.studies.models import Model
from mercer.studies.report.certificates import certainty, numbers, parameters, support
from mercer.studies.report.decisions import by_costs
from mercer.studies.report.numbers import count, percent
from mercer.studies.tables import Classes


def setting(model: Model) -> str:
    """The kernel, the parameters and the number of training rows, in a line."""
    values = [f"{name} = {value:g}" for name, value in parameters(model.machine_spec).items()]
    kernel = [] if model.machine_spec.is_linear else [repr(model.kernel)]
    return ", ".join([model.machine_spec.estimator, *kernel, *values, count(model.training.n_rows, "row")])


def paragraphs(model: Model, table: Table | None) -> list[str]:
    """The machine and what is certified of it; `table` holds the training rows, if they are in memory."""
    if isinstance(model.machine_spec, InstanceBasedSpec):
        return [support(model), *_of_mistakes(model), f"This machine claims no optimum. {_VERIFIED}"]
    said = [support(model), *_decision(model, table), certainty(model), numbers(model)]
    return said if model.target is not None or table is None else [_outside(model, table), *said]


def _decision(model: Model, table: Table | None) -> list[str]:
    """How predictions follow from costs, if there are any, and which classes are never predicted."""
    kind = model.prediction_kind
    if not isinstance(kind, Classes):
        return []
    said = [] if model.costs is None else [by_costs(kind.names, model.costs)]
    rows = model.training.rows
    if table is None or len(rows) > MAX_PREDICTED:
        return said
    predicted = set(model.predict(table.take(rows)).tolist())
    missed = [name for name, label in zip(kind.names, kind.outcomes.tolist(), strict=True) if label not in predicted]
    if missed:
        remedy = "--class-weight balanced" if model.costs is None else "other costs"
        said.append(f"No training row is predicted to be {listing(missed, last='or')}; {remedy} may change this.")
    return said


MAX_PREDICTED = 20_000
"""Training rows up to which they are predicted to see which classes are found."""


_VERIFIED = "`mercer verify` checks what it claims instead."


def _outside(model: Model, table: Table) -> str:
    """How many training rows are outside, for a machine that learns what rows have in common."""
    rows, weights = model.training.rows, model.training.sample_weight
    outside = model.predict(table.take(rows)) < 0
    share = percent(float(np.average(outside, weights=weights))) + ("" if weights is None else " by weight")
    return f"{np.count_nonzero(outside):,} of {len(rows):,} training rows ({share}) lie outside."


def _of_mistakes(model: Model) -> list[str]:
    """What a perceptron claims: whether it came to an end, and after how many mistakes."""
    certificates: list[Any] = [part.certificate for part in model.parts if part.certificate is not None]
    if not certificates:
        return []
    n_apart, n_mistakes = sum(one.separated for one in certificates), sum(one.n_mistakes for one in certificates)
    n_passes = max(one.n_passes for one in certificates)
    effort = f"{count(n_mistakes, 'mistake')} in {'one pass' if n_passes == 1 else f'at most {n_passes:,} passes'}"
    return [f"It separates the classes in {n_apart} of {count(len(certificates), 'machine')}, after {effort}."]
