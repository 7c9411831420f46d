"""The ways by name, and the check of the parameter `approximation`."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import InvalidParameterError

from mercer.approximate.cells import Cells
from mercer.approximate.choice import AUTO
from mercer.approximate.landmarks import Landmarks
from mercer.approximate.way import Way

WAYS: dict[str, type[Way]] = {way.name: way for way in (Landmarks, Cells)}
"""The ways that the parameter `approximation` takes, by name."""


def way_of(approximation: Any) -> Way | None:
    """Return the way that the parameter `approximation` asks for; None for an exact machine.

    For "auto", see :func:`mercer.approximate.choose`.

    Raises
    ------
    InvalidParameterError
        If it is neither None, nor a name of :data:`WAYS`, nor a :class:`Way`.
    """
    if approximation is None or isinstance(approximation, Way):
        return approximation
    if isinstance(approximation, str) and approximation in WAYS:
        return WAYS[approximation]()
    raise InvalidParameterError(
        f"approximation must be None (exact), {', '.join(map(repr, [*WAYS, AUTO]))}, or an object such as "
        f"mercer.Landmarks(n_landmarks=500), got {approximation!r}."
    )
