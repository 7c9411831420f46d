"""The linear problem of softmax regression, its rows in blocks, and feasible points of its dual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlog1py, xlogy

from mercer._typing import FloatArray, IndexArray
from mercer.problems.joint_linear import JointLinearProblem

_WORK = 1 << 25  # multiplications in a block of rows, about 10 ms; limits are checked between blocks


@dataclass(frozen=True, eq=False)
class SoftmaxProblem(JointLinearProblem):
    """Softmax regression: a linear function f_k for each class, and the negative log-likelihood of their softmax.

    **Solves**

        min  sum_k penalty(w_k) + sum_i C_i (ln sum_k exp f_k(x_i) - f_{y_i}(x_i)),   f_k(x) = <w_k, x> + b_k,

    where penalty(w) is the sum of r |w_j| + (1 - r) w_j² / 2, and r is `l1_ratio`.

    Parameters
    ----------
    rows, n_classes, C, constant, class_weights
        See :class:`mercer.problems.joint_linear.JointLinearProblem`.
    free : bool
        Whether the penalty leaves out the biases; `constant` is 1 or 0 then.
    l1_ratio : float
        Between 0 (l2 penalty) and 1 (l1 penalty).
    is_penalised : bool
        Whether there is a penalty. Without it, the likelihood is maximised, and biases are free.
    """

    free: bool = True
    l1_ratio: float = 0.0
    is_penalised: bool = True

    @property
    def counted(self) -> FloatArray:
        """1 for every column whose weights the penalty counts and 0 for the others, (n_columns, 1)."""
        counted = np.full((self.n_columns, 1), float(self.is_penalised))
        if self.free and self.constant:
            counted[-1] = 0.0
        return counted


@dataclass(frozen=True, eq=False)
class DualsOfWeights:
    """The dual coefficients that belong to the weights of a point: they are computed where the rows are, and not held.

    With free biases, the shares of the rows are mixed with those of `mixture`, as by :func:`balanced`.

    Attributes
    ----------
    n : int
        Number of rows.
    share : float
        Of `mixture`, from 0 to 1.
    mixture : ndarray of shape (n_classes,)
        Shares of the classes, the same for all rows.
    """

    n: int
    share: float
    mixture: FloatArray

    def of_rows(self, z: FloatArray, codes: IndexArray, charges: FloatArray) -> FloatArray:
        """Return the coefficients of rows with the decision values z, (m, K)."""
        beta = beta_of(shares_of(z, codes)[0], codes, charges)
        return mixed(beta, codes, charges, self.share, self.mixture) if self.share else beta

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, at: Any, /) -> FloatArray:
        raise TypeError("the dual coefficients of this machine are with its rows, which are not in memory")

    def __setitem__(self, at: Any, values: FloatArray, /) -> None:
        raise TypeError("dual coefficients that belong to weights cannot be set")


class SoftmaxTerms(NamedTuple):
    """Loss of each row, its entropy at a dual point, the sum of beta z, and the share of the other classes, (m,)."""

    losses: FloatArray
    entropies: FloatArray
    moved: FloatArray
    others: FloatArray


def row_blocks(table: Any, width: int) -> Iterator[tuple[slice, Any]]:
    """Return consecutive rows of a table, so few that their product with `width` vectors takes about 10 ms."""
    n, p = table.shape
    dense = isinstance(table, np.ndarray)
    per_row = float(p) if dense else table.nnz / max(1, n) + 1.0
    height = int(min(n, max(1.0, _WORK / ((per_row + 8.0) * width))))
    for first in range(0, n, height or 1):
        last = min(n, first + height)
        if height == n:
            yield slice(0, n), table
        elif dense:
            yield slice(first, last), table[first:last]
        else:
            ends = table.indptr[first : last + 1]
            entries = slice(int(ends[0]), int(ends[-1]))
            yield (
                slice(first, last),
                sp.csr_array((table.data[entries], table.indices[entries], ends - ends[0]), shape=(last - first, p)),
            )


def shares_of(z: FloatArray, codes: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of the classes, (m, K), with 0 for a row's own class, and the loss of each row, (m,).

    The loss keeps its digits if it is tiny: it is computed from the probabilities of the other classes.
    """
    rows = np.arange(codes.size)
    beyond = z - z[rows, codes][:, None]
    top = beyond.max(axis=1)
    shares = np.exp(beyond - top[:, None])
    shares[rows, codes] = 0.0
    others = shares.sum(axis=1)
    rest = np.exp(-top)
    total = rest + others
    losses = np.where(top > 0.0, top + np.log(total), np.log1p(others))
    return shares / total[:, None], losses


def near_softmax(beta: FloatArray, codes: IndexArray, charges: FloatArray) -> FloatArray:
    """Return shares of the other classes, (m, K), for the nearest feasible coefficients: minus beta / charge."""
    given = np.divide(-beta, charges[:, None], out=np.zeros_like(beta), where=charges[:, None] > 0.0)
    given = np.maximum(0.0, given)
    given[np.arange(codes.size), codes] = 0.0
    totals = given.sum(axis=1)
    return np.where(totals[:, None] > 1.0, given / np.maximum(totals, 1.0)[:, None], given)


def beta_of(shares: FloatArray, codes: IndexArray, charges: FloatArray) -> FloatArray:
    """Return the dual coefficients that belong to shares of the other classes; their sum in a row is 0."""
    beta = -shares * charges[:, None]
    rows = np.arange(codes.size)
    beta[rows, codes] = 0.0
    beta[rows, codes] = -beta.sum(axis=1)
    return beta


def softmax_terms(z: FloatArray, shares: FloatArray, codes: IndexArray) -> SoftmaxTerms:
    """Return what the certificate needs of each row, for a charge of 1; `shares` are those of a dual point."""
    losses = shares_of(z, codes)[1]
    others = shares.sum(axis=1)
    entropies = -xlogy(shares, shares).sum(axis=1) - xlog1py(1.0 - others, -others)
    moved = -(shares * (z - z[np.arange(codes.size), codes][:, None])).sum(axis=1)
    return SoftmaxTerms(losses, entropies, moved, others)


def balanced(beta: FloatArray, codes: IndexArray, charges: FloatArray) -> FloatArray:
    """Return coefficients whose sum over the rows is 0 for each class, as free biases need, up to rounding.

    The shares p of the rows become (1 - t) p + t q with the same q for all rows, which has the missing sums; t is the
    least number for which q is not negative.
    """
    totals = np.bincount(codes, charges, minlength=beta.shape[1]).astype(np.float64)
    t, q = balancing(beta.sum(axis=0), totals, float(charges.sum()))
    return mixed(beta, codes, charges, t, q) if t else beta


def balancing(missing: FloatArray, totals: FloatArray, mass: float) -> tuple[float, FloatArray]:
    """Return t and q of :func:`balanced`, by sums over the rows: coefficients and charges by class, and all charges."""
    missing = missing - totals / mass * missing.sum() if mass else missing
    ratio = float(np.divide(-missing, totals, out=np.zeros_like(totals), where=totals > 0.0).max(initial=0.0))
    if not ratio > 0.0:
        return 0.0, np.zeros_like(totals)
    t = min(1.0, ratio / (1.0 + ratio))
    return t, np.maximum(0.0, totals + (1.0 - t) / t * missing) / mass


def mixed(beta: FloatArray, codes: IndexArray, charges: FloatArray, t: float, q: FloatArray) -> FloatArray:
    """Return the coefficients whose shares are (1 - t) p + t q, p being the shares of `beta`."""
    of_mixture = np.zeros_like(beta)
    of_mixture[np.arange(codes.size), codes] = charges
    return (1.0 - t) * beta + t * (of_mixture - charges[:, None] * q)
