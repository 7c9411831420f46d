"""Kernel values between variables, and gradient updates, for one round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def follow(
    K: FloatArray,
    owners: IndexArray,
    cols: IndexArray,
    changes: FloatArray,
    active: IndexArray | None,
    gradient: FloatArray,
    chosen: IndexArray,
    *,
    knows: bool,
) -> tuple[FloatArray, int]:
    """Return the gradient after `cols` have moved, and how many kernel values that takes.

    It follows the variables whose rows are `active`, or that are `chosen` if their values are known.
    """
    is_active = np.ones(len(K), dtype=bool) if active is None else np.isin(np.arange(len(K)), active)
    is_stored = np.isin(np.arange(len(K)), owners[chosen]) if knows else np.zeros(len(K), dtype=bool)
    rise = np.where(is_active | is_stored, K[:, owners[cols]] @ changes, 0.0)
    return gradient + rise[owners], int(np.count_nonzero(is_active & ~is_stored)) * cols.size
