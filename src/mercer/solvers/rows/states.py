"""Points of linear machines as states in files: weights, and a dual coefficient for each row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mercer.certificates.linear_solution import LinearPoint
from mercer.data.files import DamagedFileError, State, check_arrays, read_checked, read_slices
from mercer.gram.rows.placed_rows import PlacedNumbers
from mercer.gram.rows.table_rows import LinearRows, RowNumbers, TableRows, ZeroNumbers
from mercer.problems.softmax import DualsOfWeights

_STEP = 1 << 17  # numbers of rows that are written at a time


def state_of(point: LinearPoint, n_rows: int) -> State:
    """Return a point as a header and arrays.

    Dual coefficients that are with workers, or belong to the weights, are not written: a solver finds them again.
    """
    beta: Any
    if isinstance(point.beta, PlacedNumbers | ZeroNumbers | DualsOfWeights):
        beta = np.zeros(0)
    elif isinstance(point.beta, np.ndarray) and point.beta.ndim == 2:  # of several classes together
        beta = np.asarray(point.beta, dtype=np.float64)
    else:
        beta = "<f8", (n_rows,), _parts(point.beta, n_rows)
    header = {"C": point.C if math.isfinite(point.C) else None, "factor": point.factor}
    return header, {"w": np.asarray(point.w, dtype=np.float64), "beta": beta}


def read_point(path: Path, rows: LinearRows) -> LinearPoint:
    """Return the point in a file.

    Raises
    ------
    DamagedFileError
        If the file is damaged, or its numbers cannot be a point of a machine on these rows.
    """
    header, places = check_arrays(path)
    try:
        together = places["w"].shape[1:]  # the number of classes, if they have one problem
        has_beta = places["beta"].shape != (0,)
        if has_beta and places["beta"].shape != (rows.n, *together):
            raise DamagedFileError("it is one of another problem")
        C = math.inf if header["C"] is None else float(header["C"])
        factor = None if header["factor"] is None else float(header["factor"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"its header is invalid: {error}") from error
    w = np.concatenate([np.zeros(0), *(part for _, part in read_slices(path, places["w"]))])
    w = w.reshape(places["w"].shape)
    if len(w) not in (rows.p, rows.p + 1) or not (np.isfinite(w).all() and C > 0.0):
        raise DamagedFileError("its weights or its C are invalid")
    if factor is not None and not 0.0 < factor < math.inf:
        raise DamagedFileError("its factor is invalid")
    if not has_beta:
        is_here = isinstance(rows, TableRows)
        return LinearPoint(w, np.zeros((rows.n, *together)) if together and is_here else ZeroNumbers(rows.n), C, factor)
    if together:
        _, arrays = read_checked(path, ("beta",))
        if not np.isfinite(arrays["beta"]).all():
            raise DamagedFileError("a dual coefficient is not finite")
        return LinearPoint(w, arrays["beta"].copy(), C, factor)
    beta = rows.numbers()
    for at, part in read_slices(path, places["beta"]):
        if not np.isfinite(part).all():
            raise DamagedFileError("a dual coefficient is not finite")
        beta[at] = part
    return LinearPoint(w, beta, C, factor)


def _parts(numbers: RowNumbers, n: int) -> Iterator[np.ndarray]:
    for start in range(0, n, _STEP):
        yield np.asarray(numbers[start : min(start + _STEP, n)], dtype=np.float64)
