"""The weights of a linear machine by the names of its features: what it goes by, to be read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.data import Vectors
from mercer.studies.report.numbers import quantity
from mercer.studies.result import Study
from mercer.studies.tables import Classes, Quantity

MAX_FEATURES = 25
"""Features that are listed: those with the largest weights."""

MAX_MACHINES = 6
"""Machines up to which their weights are listed: pairs of four classes."""

_NAMED = 3  # features that the sentence names


@dataclass(frozen=True)
class Weight:
    """A weight, and whether its sign is proved: whether every optimal machine has the same one."""

    value: float
    is_proved: bool

    @property
    def number(self) -> str:
        """The weight with its sign."""
        sign = "+" if self.value >= 0.0 else "\N{MINUS SIGN}"
        return f"{sign}{quantity(abs(self.value))}"


def has_weights(study: Study) -> bool:
    """Whether the chosen machine is linear, and has few enough machines for its weights to be read."""
    return study.model.machine_spec.is_linear and len(study.model.parts) <= MAX_MACHINES


def headings(study: Study) -> list[str]:
    """What the weights of each machine are for."""
    kind = study.model.prediction_kind
    if not isinstance(kind, Classes):
        return [f"Change of {study.target}"]
    names = kind.names
    return [f"{names[one]} against {'the rest' if other is None else names[other]}" for one, other in kind.sides]


def listed(study: Study) -> list[tuple[str, list[Weight]]]:
    """The features with the largest weights, the largest first, and their weights in each machine."""
    model, kind = study.model, study.model.prediction_kind
    unit = kind.scale if isinstance(kind, Quantity) else 1.0
    assert isinstance(model.support_vectors, Vectors)
    weights = unit * model.support_vectors.dense()
    proved = np.array([part.certificate.proved_signs() for part in model.parts]) != 0.0
    names, largest = model.encoder.feature_names_, np.abs(weights).max(axis=0)
    chosen = np.argsort(-largest, kind="stable")[:MAX_FEATURES]
    return [
        (names[one], [Weight(*each) for each in zip(weights[:, one].tolist(), proved[:, one].tolist(), strict=True)])
        for one in chosen.tolist()
        if largest[one] > 0.0
    ]


def sentence(study: Study) -> str:
    """The largest weights, in a sentence; "" unless the machine is a single linear one."""
    model = study.model
    if not model.machine_spec.is_linear or len(model.parts) > 1:
        return ""
    largest = [f"{name} {weights[0].number}" for name, weights in listed(study)[:_NAMED]]
    is_number = isinstance(model.prediction_kind, Quantity)
    what = f"the prediction of {study.target}" if is_number else f"the decision value for “{_positive(study)}”"
    if not largest:
        return f"All weights are 0: {what} is always the same."
    return (
        f"The machine is a weighted sum, whose weights can be read: {what} changes most with {'; '.join(largest)} "
        "(numbers by one standard deviation, categories if they apply)."
    )


def _positive(study: Study) -> str:
    kind = study.model.prediction_kind
    assert isinstance(kind, Classes)
    return kind.names[kind.sides[0][0]]
