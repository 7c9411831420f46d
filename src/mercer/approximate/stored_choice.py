"""The choice of `approximation="auto"` as a state in a checkpoint: a run that continues does not choose again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mercer.approximate.choice import Candidate, Choice
from mercer.approximate.way import Way
from mercer.approximate.ways import WAYS
from mercer.data.files import Checkpoint, State

_STATE = "choice"
_NUMBERS = ("seconds", "peak_bytes", "error", "lost", "uncertainty")  # of a candidate


def load_choice(checkpoint: Checkpoint | None) -> Choice | None:
    """Return the choice in a checkpoint; it takes no time of this run."""
    return None if checkpoint is None else checkpoint.load(_STATE, _decoded)


def store_choice(checkpoint: Checkpoint | None, choice: Choice) -> None:
    """Write a choice into a checkpoint, if there is one."""
    if checkpoint is not None:
        checkpoint.store(_STATE, lambda: _state_of(choice))


def _state_of(choice: Choice) -> State:
    header = {
        "way": _described(choice.way),
        "reason": choice.reason,
        "candidates": [_described(one.way) for one in choice.candidates],
    }
    numbers = [[float(getattr(one, name)) for name in _NUMBERS] for one in choice.candidates]
    return header, {"numbers": np.array(numbers, dtype=np.float64).reshape(-1, len(_NUMBERS))}


def _described(way: Way | None) -> Any:
    return None if way is None else [way.name, asdict(way)]


def _way_of(described: Any) -> Way | None:
    if described is None:
        return None
    name, fields = described
    return WAYS[name](**fields)


def _decoded(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Choice:
    candidates = [
        Candidate(_way_of(way), seconds, int(peak_bytes), *errors)
        for way, (seconds, peak_bytes, *errors) in zip(header["candidates"], arrays["numbers"].tolist(), strict=True)
    ]
    return Choice(_way_of(header["way"]), str(header["reason"]), tuple(candidates))
