"""All that Newton's method needs at a point of a dense table, in one native pass over the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer import _core
from mercer._core import RowTerms
from mercer._typing import FloatArray
from mercer.gram import n_threads
from mercer.gram.rows.sweeps import contiguous, native_table
from mercer.kernels.instruction_set import select_isa

MOST_PASS_COLUMNS = 256
"""Columns of a table that :func:`newton_pass` takes, at most, including that of the constant."""


class PassSums(NamedTuple):
    """Sums over the rows.

    Attributes
    ----------
    total, loss, excess : float
        See :class:`mercer.gram.rows.row_terms.TermValues`.
    squares : float
        Sum of squares of the dual coefficients.
    curvature, change : float
        Sum of the second derivatives, and of the absolute values of their changes.
    """

    total: float
    loss: float
    excess: float
    squares: float
    curvature: float
    change: float


def can_pass(table: Any, constant: float) -> bool:
    """Whether :func:`newton_pass` takes the table: it is dense and has at most `MOST_PASS_COLUMNS` columns."""
    return isinstance(table, np.ndarray) and table.shape[1] + (constant != 0.0) <= MOST_PASS_COLUMNS


def newton_pass(
    table: Any,
    constant: float,
    terms: RowTerms,
    w: FloatArray | None,
    z: FloatArray,
    curvature: FloatArray | None,
    scales: FloatArray,
    pull: FloatArray,
    gram: FloatArray,
    *,
    is_update: bool,
    n_jobs: int | None = None,
) -> PassSums:
    """Return the sums of the terms at the weights `w`, and write what belongs to them.

    Parameters
    ----------
    table, constant
        See :mod:`mercer.gram.rows.sweeps`; :func:`can_pass` says which tables are taken.
    terms : RowTerms
        See :func:`mercer.gram.rows.row_terms.native_terms`.
    w : ndarray of shape (q,), optional
        By default the decision values `z` are given.
    z : ndarray of shape (m,)
        Decision values, written if there is `w`.
    curvature : ndarray of shape (m,), optional
        The second derivatives are written to it. With `is_update`, it has the old ones.
    scales : ndarray of shape (q,)
    pull : ndarray of shape (q,)
        Written: the sum of beta_i x_i, where beta are the coefficients of the terms.
    gram : ndarray of shape (q, q)
        The sum of h_i (scales x_i)(scales x_i)' is added to it, where h are the second derivatives, or their changes
        with `is_update`.
    is_update : bool
    n_jobs : int, optional
        Number of threads; results do not depend on it.
    """
    return PassSums(
        *_core.newton_pass(
            select_isa(),
            native_table(table, constant),
            terms,
            w=None if w is None else contiguous(w),
            z=z,
            curvature=curvature,
            is_update=is_update,
            scales=scales,
            pull=pull,
            gram=gram,
            n_threads=n_threads(n_jobs),
        )
    )
