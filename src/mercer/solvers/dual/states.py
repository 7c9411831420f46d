"""Points of quadratic duals as states in files: a coefficient for each variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data.files import Checkpoint, DamagedFileError, State


class PointsOf:
    """The points of one machine of a fit in its checkpoint; without a checkpoint, nothing is read or written.

    A point is a start: the solver makes it feasible, and the certificate is computed from the data.

    Attributes
    ----------
    after_step : callable or None
        Called after each part of the work with a function that returns the point reached.
    """

    def __init__(self, checkpoint: Checkpoint | None, number: int, n: int) -> None:
        self._checkpoint, self._name, self._n = checkpoint, f"machine-{number}", n
        self.after_step: Callable[[Callable[[], FloatArray]], None] | None = None
        if checkpoint is not None:
            save = checkpoint.after_step(self._name)
            self.after_step = lambda point: save(lambda: _state_of(point()))

    def load(self) -> FloatArray | None:
        """Return the last complete point, if there is one."""
        return None if self._checkpoint is None else self._checkpoint.load(self._name, self._decoded)

    def store(self, beta: FloatArray) -> None:
        """Write the last point."""
        if self._checkpoint is not None:
            self._checkpoint.store(self._name, lambda: _state_of(beta))

    def _decoded(self, header: Any, arrays: Mapping[str, FloatArray]) -> FloatArray:
        del header
        beta = arrays["beta"]
        if beta.shape != (self._n,) or beta.dtype != np.float64 or not np.isfinite(beta).all():
            raise DamagedFileError("its coefficients are not those of this machine")
        return beta.copy()


def _state_of(beta: FloatArray) -> State:
    return {}, {"beta": np.asarray(beta, dtype=np.float64)}
