"""Kernel values from a kernel's program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import as_data
from mercer.kernels.program import OVERLAPS, Op, Program, Step, interpret
from mercer.kernels.views import seen

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


TERMS: dict[Op, Callable[[FloatArray, FloatArray], FloatArray]] = {
    Op.DOT: lambda x, z: x * z,
    Op.SQDIST: lambda x, z: (x - z) ** 2,
    Op.L1: lambda x, z: np.abs(x - z),
    Op.CHI2: lambda x, z: np.divide((x - z) ** 2, x + z, out=np.zeros_like(x + z), where=x + z != 0),
    Op.HAMMING: lambda x, z: np.where(x != z, 1.0, 0.0),
    Op.MINIMUM: np.minimum,
    Op.SUM: np.add,
}
"""What passes add up over the features of two rows."""


def pass_of(op: Op, x: FloatArray, z: FloatArray) -> FloatArray:
    """Return a pass between rows x and z, whose last axis has the features."""
    if op not in OVERLAPS:
        return np.asarray(TERMS[op](x, z).sum(axis=-1))
    total = np.asarray(np.add(x, z).sum(axis=-1))
    shared, joined = np.minimum(x, z).sum(axis=-1), np.maximum(x, z).sum(axis=-1)
    above, below = (shared, joined) if op is Op.TANIMOTO else (2.0 * shared, total)
    return np.divide(above, below, out=np.ones_like(total), where=total > 0.0)


def block(
    program: Program, left: Any, left_rows: IndexArray | None, right: Any, right_rows: IndexArray | None
) -> FloatArray:
    """Return k(left_i, right_j) for the chosen rows, with distances taken from the rows' differences."""
    a, b = as_data(_chosen(left, left_rows)), as_data(_chosen(right, right_rows))

    def tile_of(step: Step) -> FloatArray:
        x, z = (seen(step[1], rows).float64() for rows in (a, b))
        return x @ z.T if step[0] is Op.DOT else pass_of(step[0], x[:, None], z[None])

    with np.errstate(invalid="ignore"):
        return interpret(program, tile_of)


def matvec(
    program: Program,
    left: Any,
    left_rows: IndexArray | None,
    right: Any,
    right_rows: IndexArray | None,
    vectors: FloatArray,
) -> FloatArray:
    """Return the block times `vectors`."""
    return block(program, left, left_rows, right, right_rows) @ vectors


def _chosen(table: Any, rows: IndexArray | None) -> FloatArray:
    dense = np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    return dense if rows is None else dense[rows]
