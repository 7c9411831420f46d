"""What will go wrong with machines on a table: columns of different scales, a collapsed gamma, an infeasible nu."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer import RBF
from mercer.data import as_data
from mercer.kernels import Gamma
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.tables import Labels, Truth

UNSCALED = 100.0
"""Ratio of the largest to the smallest standard deviation from which unscaled columns do not count alike."""

PAIRS_OF = 500
"""Rows whose pairs show whether a Gaussian kernel can tell rows apart."""

ALL_ALIKE = 0.99  # median kernel value from which nearly all rows look alike
ALL_DIFFERENT = 0.01  # median kernel value below which nearly every row is like itself only

DEFAULT_NU = 0.5
"""The nu of `NuSVC` if nothing is said."""


def unscaled(columns: Iterable[Column]) -> list[Finding]:
    """Return what there is to say about columns of numbers whose scales differ much."""
    spreads = {}
    for column in columns:
        if column.kind == "numbers" and column.n_levels > 1:
            size = float(np.abs(column.present).max())
            spreads[column.name] = float((column.present / size).std()) * size
    if not spreads:
        return []
    least, most = min(spreads, key=spreads.__getitem__), max(spreads, key=spreads.__getitem__)
    ratio = spreads[most] / spreads[least] if spreads[least] > 0.0 else math.inf
    if ratio < UNSCALED:
        return []
    return [
        Finding(
            Kind.UNSCALED,
            Weight.REMARK,
            (most, least),
            f"The columns have different scales: the standard deviation of {most!r} is {spreads[most]:.3g}, that of "
            f"{least!r} {spreads[least]:.3g}. An unscaled kernel would see little but {most!r}.",
            "mercer study and mercer fit standardise all columns; in Python put a StandardScaler before the machine.",
            {"ratio": ratio},
        )
    ]


def collapsed_gamma(X: Any, gamma: Gamma = "scale", seed: int = 0) -> list[Finding]:
    """Return what there is to say about a Gaussian kernel on encoded rows: whether it can tell them apart.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, p)
    gamma : float or str, default="scale"
    """
    kernel = RBF(gamma=gamma).resolve(as_data(X))
    few = as_data(X[np.random.default_rng(seed).permutation(X.shape[0])[:PAIRS_OF]])
    values = kernel.block(few, few)
    median = float(np.median(values[np.triu_indices(len(values), 1)]))
    used = float(kernel.gamma)
    numbers = {"gamma": used, "median_kernel_value": median}
    if median >= ALL_ALIKE:
        sentence = (
            f"With gamma = {used:.3g} nearly all rows look alike to the Gaussian kernel: half of all pairs have a "
            f"kernel value of {median:.4f} or more, where 1 means equal rows."
        )
        remedy = "Mend or transform cells far outside (they stretch the scale), or use a larger --gamma."
    elif median <= ALL_DIFFERENT:
        sentence = (
            f"With gamma = {used:.3g} nearly every row is like itself only to the Gaussian kernel: half of all pairs "
            f"have a kernel value of {median:.1e} or less. Every row becomes a support vector, and nothing carries "
            "over to new rows."
        )
        remedy = "Use a smaller --gamma; scale is the usual choice."
    else:
        return []
    return [Finding(Kind.GAMMA, Weight.CAUTION, (), sentence, remedy, numbers)]


def infeasible_nu(truth: Truth, nu: float | None = None) -> list[Finding]:
    """Return what there is to say about nu of a classifier, which unequal classes limit.

    Parameters
    ----------
    truth : Labels or Quantities
    nu : float, optional
        The nu that is wanted; None for the one that the machine has if nothing is said, which gives a remark only.
    """
    if not isinstance(truth, Labels):
        return []
    largest = largest_nu(truth.counts)
    wanted = DEFAULT_NU if nu is None else nu
    if wanted <= largest:
        return []
    return [
        Finding(
            Kind.NU,
            Weight.REMARK if nu is None else Weight.CAUTION,
            (),
            f"A nu-machine needs nu of at most {math.floor(1e4 * largest) / 1e4:g} here, twice the share of the "
            f"smaller class in the most unequal pair; {'the default ' if nu is None else ''}{wanted:g} is infeasible.",
            "Lower nu, or weight the classes: with --class-weight balanced every nu up to 1 is feasible.",
            {"largest_nu": largest, "nu": wanted},
        )
    ]


def largest_nu(counts: npt.NDArray[np.int64]) -> float:
    """Return the largest nu that is feasible for each pair of classes with these numbers of rows."""
    counts = counts[counts > 0]
    least, most = int(counts.min()), int(counts.max())
    return 2.0 * least / (least + most)
