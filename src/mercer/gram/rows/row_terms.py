"""What the rows add to the objective that Newton's method minimises, and its derivatives, in one pass.

A row has a target y, a charge C >= 0 and a decision value z. Its term is

    C max over m of  m (y - z) - epsilon |m| - (m - share)² / (2 factor),   with m between the bounds,

which is a squared loss if the share is 0, the factor 2 and there are no bounds, and otherwise a loss with a kink,
smoothed by a proximal step from `share`. Or it is the logistic loss, C ln(1 + exp(-y z)). Sums are in float64, and the
same for any number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer import _core
from mercer._core import RowTerms
from mercer._typing import FloatArray
from mercer.gram import n_threads
from mercer.gram.rows.sweeps import contiguous
from mercer.kernels.instruction_set import select_isa


class TermKind(NamedTuple):
    """The function of the decision value.

    Attributes
    ----------
    is_logistic : bool
        The others do not matter then.
    one_sided : bool
        Whether m must have the sign of y, as for the hinge.
    bounded : bool
        Whether |m| is at most 1, as for losses that are piecewise linear.
    epsilon : float
        Half of the width of the zone without loss, >= 0.
    factor : float
        Step of the proximal step, > 0.
    unit : float
        Second derivatives are returned in units of factor / unit: ``unit=1`` returns C for rows that are free to move,
        and ``unit=factor`` the second derivatives themselves. Logistic terms ignore it.
    """

    is_logistic: bool = False
    one_sided: bool = False
    bounded: bool = False
    epsilon: float = 0.0
    factor: float = 2.0
    unit: float = 2.0


class TermValues(NamedTuple):
    """The terms of the rows of a block.

    Attributes
    ----------
    beta, curvature : ndarray of shape (m,)
        Minus the first derivative, which is a feasible dual coefficient C m, and the second derivative (see
        :attr:`TermKind.unit`). At kinks of the slope, rows count as free unless m = 0 within the zone without loss.
    total : float
        Sum of the terms.
    loss : float
        Sum of the losses, without the proximal part.
    excess : float
        Sum of C max over m of (m (y - z) - epsilon |m|) less its value at the m of the term: what the rows add to the
        duality gap for the coefficients `beta`. It is 0 if there is no proximal part.
    """

    beta: FloatArray
    curvature: FloatArray
    total: float
    loss: float
    excess: float


def native_terms(
    kind: TermKind, targets: FloatArray, charges: FloatArray, shares: FloatArray | None = None
) -> RowTerms:
    """Return the terms of rows as functions of their decision values; all arrays have shape (m,). No shares means 0."""
    return RowTerms(
        **kind._asdict(),
        targets=contiguous(targets),
        charges=contiguous(charges),
        shares=None if shares is None else contiguous(shares),
    )


def row_terms(terms: RowTerms, z: FloatArray, n_jobs: int | None = None) -> TermValues:
    """Return the terms and their derivatives at the decision values `z` of shape (m,)."""
    beta, curvature = np.empty(z.shape), np.empty(z.shape)
    about = {"z": contiguous(z), "beta": beta, "curvature": curvature}
    sums = _core.row_terms(select_isa(), terms, **about, n_threads=n_threads(n_jobs))
    return TermValues(beta, curvature, *sums)


def term_line(
    terms: RowTerms, z: FloatArray, change: FloatArray, lengths: FloatArray, n_jobs: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the first and second derivatives of the sum of the terms at z + t change, for every t in `lengths`.

    The results have the shape of `lengths`, (T,), and the others (m,). The rows are read once for up to 16 lengths.
    """
    slopes, bends = np.empty(lengths.shape), np.empty(lengths.shape)
    _core.term_line(
        select_isa(),
        terms,
        z=contiguous(z),
        change=contiguous(change),
        lengths=contiguous(lengths),
        slopes=slopes,
        bends=bends,
        n_threads=n_threads(n_jobs),
    )
    return slopes, bends
