"""The training tables of linear machines on a device: checked there, so that no row comes to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_consistent_length, validate_data

from mercer.approximate import Landmarks, Way
from mercer.cluster import is_array
from mercer.data import Data
from mercer.estimators._arrays import array_of_numbers
from mercer.estimators._lazy_approximation import kernel_of_columns
from mercer.estimators._linear_rows import LARGEST, LinearTable, read_linear_table
from mercer.estimators._validation import drop_record, is_on_device, refuse_device, refuse_targets
from mercer.gram.device_backend import DeviceData
from mercer.gram.places import to_host
from mercer.gram.rows import DeviceTable
from mercer.kernels import Kernel


def host_targets(X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> tuple[Any, Any]:
    """Return targets and weights on the host: those on a device are copied.

    Raises
    ------
    ValueError
        If the table is on a device and there is a checkpoint, which reads all rows.
    """
    if checkpoint is not None and is_on_device(X):
        raise ValueError(
            f"checkpoint= reads all rows on the host, but X is on the device {str(X.device)!r}: leave checkpoint out, "
            "or give mercer.to_host(X)."
        )
    moved = [to_host(values) if is_array(values) else values for values in (y, sample_weight)]
    return moved[0], moved[1]


def read_training_table(machine: Any, X: Any, y: Any, C: float) -> LinearTable:
    """Return the table of a fit: on its device, or after the checks of :func:`read_linear_table`.

    Raises
    ------
    ValueError
        If the values on a device are not finite, or so large that sums of squares could overflow, or C is infinite.
    TypeError
        If a table on a device does not hold real numbers.
    """
    if not is_on_device(X):
        return read_linear_table(machine, X, reset=True, y=y)
    if not np.isfinite(C):
        raise InvalidParameterError("C must be finite if the rows are on a device, got inf: give mercer.to_host(X).")
    machine._sparse = False
    return checked_table(machine, X, y)


def checked_table(machine: Any, X: Any, y: Any) -> LinearTable:
    """Return a training table on a device, with the sums of squares of its columns; y may be "no_validation".

    Raises
    ------
    ValueError, TypeError
        See :func:`read_training_table`.
    """
    kind, has_targets = type(machine).__name__, not isinstance(y, str)
    if y is None:
        raise ValueError(f"{kind} requires y to be passed, but the target y is None.")
    drop_record(machine)
    place = array_of_numbers(X)
    table = DeviceTable(X, place)
    if not table.shape[1]:
        raise ValueError(f"Found array with 0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")
    machine.__dict__.pop("feature_names_in_", None)
    if has_targets:
        refuse_targets(machine, y)
        validate_data(machine, X="no_validation", y=y, multi_output=True, reset=False)
        check_consistent_length(range(table.shape[0]), y)
    squares = table.column_squares(0.0)
    with np.errstate(all="ignore"):
        is_harmless = bool(squares.sum() * max(table.shape) < LARGEST**2)
    if not is_harmless:
        _refuse_values(kind, table)
    machine.n_features_in_ = table.shape[1]
    return LinearTable(table, 0, squares)


def _refuse_values(kind: str, table: DeviceTable) -> None:
    """Raise ValueError if a value is not finite, or so large that sums of squares could overflow."""
    largest = table.largest()
    if not np.isfinite(largest).all():
        column = int(np.argmin(np.isfinite(largest)))
        raise ValueError(
            f"X holds NaN or infinity in column {column}: {kind} needs finite numbers. Fill them in, or leave the rows "
            "out."
        )
    column = int(largest.argmax())
    if largest[column] * max(table.shape) ** 0.5 >= LARGEST:
        raise ValueError(
            f"X reaches {largest[column]:.3g} in column {column}, too large for sums of squares in float64. Divide "
            "this column by a power of 10, or leave the row out."
        )


def task_rows(machine: Any, X: Any, y: Any) -> tuple[Kernel, Data]:
    """Return the kernel of a machine, before its rules are applied, and its training rows, which stay on a device."""
    if not is_on_device(X):
        kernel, data = machine._training_rows(X, y)
        return kernel, data
    return kernel_of_columns(machine), DeviceData(checked_table(machine, X, y).values)


def refuse_besides_landmarks(machine: Any, way: Way, X: Any) -> None:
    """Raise an error if X is on a device and a machine asks for what needs the rows on the host."""
    if not is_on_device(X):
        return
    if not isinstance(way, Landmarks):
        refuse_device(machine, X, f"fit with approximation={way.name!r}")
    for name in ("probability", "contamination"):
        if getattr(machine, name, None):
            refuse_device(machine, X, f"fit with {name}={getattr(machine, name)!r}")
