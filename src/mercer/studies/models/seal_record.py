"""The record of a sealed test part in a model file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mercer.model_selection import Opening, Seal


def seal_dict(seal: Seal) -> dict[str, Any]:
    """Return a record as JSON values."""
    return {
        "n_test": seal.n_test,
        "sealed_at": seal.sealed_at.isoformat(),
        "openings": [{"purpose": one.purpose, "time": one.time.isoformat()} for one in seal.openings],
    }


def read_seal(entry: Any) -> Seal:
    """Return the record that `seal_dict` described; ValueError, TypeError or KeyError for an invalid entry."""
    n_test = entry["n_test"]
    if type(n_test) is not int or not 0 < n_test < 2**63:
        raise ValueError(f"it has {n_test!r} sealed rows")
    seal = Seal(n_test, _time(entry["sealed_at"]))
    for number, one in enumerate(entry["openings"], start=1):
        if not isinstance(one["purpose"], str):
            raise ValueError(f"an opening's purpose is {one['purpose']!r}")
        seal.openings += (Opening(one["purpose"], _time(one["time"]), number),)
    return seal


def _time(value: Any) -> datetime:
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError(f"{value!r} is no time with its zone")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value!r} is no time of the calendar") from None
