"""Checks of the rows, labels and weights that a problem for optimisers is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data, Structured, Vectors, as_data, check_number
from mercer.data.checks import refuse_mask
from mercer.estimators._labels import check_labels
from mercer.estimators._validation import check_sample_weight, refuse_gaps
from mercer.gram import Gram
from mercer.kernels import Kernel, as_rows
from mercer.kernels.parsing import as_kernel


def checked_rows(kernel: Kernel, X: Any) -> Data:
    """Return X as finite rows that the kernel takes, at least one, with at least one column if they have columns.

    Raises
    ------
    ValueError, TypeError
        If X does not hold such rows.
    """
    data = as_rows(kernel, X)
    if isinstance(data, Structured) and not kernel.is_structured:
        raise ValueError(
            f"X must be a table of numbers, got strings, lists or sets, which {kernel!r} does not take. Kernels of "
            "these are in mercer.kernels, such as Spectrum(3) or Jaccard()."
        )
    if not data.n or (isinstance(data, Vectors) and not data.p):
        shape = f"{data.n} rows" + (f" and {data.p} columns" if isinstance(data, Vectors) else "")
        raise ValueError(f"X must hold at least one row and one column, got {shape}.")
    return data


def as_gram(X: Any, kernel: str | Kernel, memory_limit: int | None = None, sample_weight: Any = None) -> Gram:
    """Return the Gram matrix of rows, with the kernel parameters that depend on them and on their weights.

    Raises
    ------
    ValueError, TypeError
        If the kernel is unknown, or if X does not hold finite rows that it takes.
    """
    chosen = as_kernel(kernel)
    data = checked_rows(chosen, X)
    weights = None if sample_weight is None else check_sample_weight(sample_weight, data.n)
    if weights is not None and (weights == 1.0).all():
        weights = None
    return Gram(chosen.resolve(data, weights), data, memory_limit=memory_limit)


def as_signs(y: npt.ArrayLike, n: int) -> FloatArray:
    """Return labels of two classes as -1 and +1; the larger label becomes +1.

    Raises
    ------
    ValueError
        If `y` is not a vector of `n` labels, exactly two of them different.
    """
    refuse_mask(y, "y")
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y must be a vector with a label for each of the {n} rows of X, got shape {labels.shape}.")
    refuse_gaps(labels[:, None])
    classes, codes = check_labels(labels)
    if classes.size != 2:
        raise ValueError(
            f"y must hold two different labels, got {classes.size}. The optimisers train machines for two classes; "
            "take y == label to learn one class against the rest."
        )
    return np.where(codes == 1, 1.0, -1.0)


def require_signs(y: FloatArray, n: int) -> None:
    """Refuse labels of a problem that are not one of -1 and +1 for each row of its Gram matrix.

    Raises
    ------
    ValueError
        If they are not, or if a class has no row.
    """
    if np.shape(y) != (n,) or sorted(set(np.asarray(y).tolist())) != [-1.0, 1.0]:
        raise ValueError(f"y must be a vector of {n} labels, -1 and +1 with both present, one for each row of gram.")


def charges(C: float, sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return C times the weight of each row, (n,).

    Raises
    ------
    ValueError, TypeError
        If C or a weight is not positive and finite, or if there is not one weight for each row.
    """
    charge = check_number("C", C, above=0.0, finite=True) * check_sample_weight(sample_weight, n)
    require_charges(charge)
    return charge


def require_charges(charge: FloatArray) -> None:
    """Refuse products of C and weights that are not positive, or whose sum overflows.

    Raises
    ------
    ValueError
        If they do; the message names the first row.
    """
    bad = np.flatnonzero(~(charge > 0.0))
    if bad.size:
        raise ValueError(
            f"C times sample_weight must be > 0 in every row, got {charge[bad[0]]:g} in row {bad[0]}. Leave out rows "
            "of weight 0."
        )
    with np.errstate(over="ignore"):
        total = float(charge.sum())
    if not np.isfinite(total):
        raise ValueError("C times sample_weight must have a finite sum, but it overflows. Take a smaller C.")


def require_finite(table: Any) -> None:
    """Refuse rows of a linear machine, an ndarray or CSR, that are not finite, or so large that their squares overflow.

    Raises
    ------
    ValueError
        If an entry is not finite, which the message names, or a bound on the sum of all squares overflows.
    """
    data = as_data(table)
    problem = data.finite_problem()
    if problem is not None:
        raise ValueError(f"X must hold finite numbers: {problem}")
    columns, scales = data.column_scales()
    with np.errstate(over="ignore"):
        bound = float(np.square(scales.astype(np.float64)).sum()) * data.n
    if not np.isfinite(bound):
        worst = scales.argmax()
        raise ValueError(
            f"X must hold numbers whose squares have a finite sum, but column {columns[worst]} (counted from 0) "
            f"reaches {scales[worst]:.3g}. Scale the columns, for example to mean 0 and variance 1."
        )
