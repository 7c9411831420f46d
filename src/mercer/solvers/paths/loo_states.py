"""Rows that leave-one-out has finished, as states in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.data.files import Checkpoint, DamagedFileError, State

Solved = dict[int, tuple[float, int, float]]
"""By variable: its gradient without it, the number of pivots, and the violation."""


def name_of(column: int) -> str:
    """Return the name of the state of a machine."""
    return f"rows-{column}"


def state_of(solved: Solved) -> State:
    """Return the values of one machine that were found so far."""
    variables = np.array(list(solved), dtype=np.int64)
    values = np.array(list(solved.values()), dtype=np.float64).reshape(len(solved), 3)
    return {}, {"variables": variables, "values": values}


def load_solved(checkpoint: Checkpoint, column: int, n: int) -> Solved:
    """Return the values of a machine of n variables that an earlier pass has found."""

    def decoded(header: Any, arrays: Mapping[str, np.ndarray]) -> Solved:
        del header
        variables, values = arrays["variables"], arrays["values"]
        is_whole = variables.dtype == np.int64 and values.shape == (variables.size, 3) and np.isfinite(values).all()
        if not is_whole or (variables.size and not 0 <= variables.min() <= variables.max() < n):
            raise DamagedFileError("its values are not those of this machine")
        rows = zip(variables.tolist(), values.tolist(), strict=True)
        return {variable: (value, int(pivots), violation) for variable, (value, pivots, violation) in rows}

    return checkpoint.load(name_of(column), decoded) or {}
