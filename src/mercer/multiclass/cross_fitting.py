"""Decision values of rows by machines trained without their fold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data.checks import distinct
from mercer.gram import Gram
from mercer.multiclass.training import JOINT, Duals, train
from mercer.solvers import Control

N_FOLDS = 5

FitWithout = Callable[[IndexArray, IndexArray], FloatArray]
"""Gets the rows to train on and the rows that were left out; returns the values of the latter, (n_out, n_machines)."""

TIGHTER = 1e-2  # than the fit, so that values are those of the problem, and not of where a solver stopped
_MULTIPLIER = 2654435769  # 2^32 over the golden ratio: multiples of it are spread evenly, in step with no period


def fold_numbers(codes: IndexArray, n_classes: int, groups: IndexArray | None = None) -> IndexArray:
    """Return the fold of each row: five folds of every class, or as many as the class has rows.

    Nothing is drawn: the rows of a class are spread over its folds by their order, so that the same rows in the same
    order have the same folds. Sizes of folds differ by one row a class at most. The only row of a class is left out
    like others, so that there is a fold without that class.

    With groups, all rows of a group are in one fold. A group counts as a row of its rarest class, and groups of similar
    size are spread over the folds.

    Parameters
    ----------
    codes : ndarray of int64 of shape (n,)
        Class of each row, 0 .. n_classes - 1.
    n_classes : int
    groups : ndarray of int64 of shape (n,), optional
        Number of each row's group, >= 0.

    Returns
    -------
    ndarray of int64 of shape (n,), from 0 to 4

    Examples
    --------
    >>> fold_numbers(np.array([0] * 10 + [1] * 2), 2).tolist()
    [0, 3, 1, 4, 2, 0, 3, 1, 4, 2, 1, 2]
    >>> fold_numbers(np.array([0, 0, 0, 1, 1, 1]), 2, np.array([0, 0, 1, 2, 2, 3])).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    if groups is not None:
        n_rarest, group = _rarest_classes(codes, n_classes, groups)
        return fold_numbers(n_rarest, n_classes)[group]
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n_classes)
    folds = np.empty(codes.size, dtype=np.int64)
    for number, class_rows in enumerate(np.split(order, counts.cumsum()[:-1])):
        spread = np.argsort(np.arange(class_rows.size, dtype=np.int64) * _MULTIPLIER % (1 << 32))
        n_folds = min(N_FOLDS, class_rows.size)
        # Classes begin with different folds: small ones would all have their larger folds, or their only ones, first.
        folds[class_rows[spread]] = (np.arange(class_rows.size) * n_folds // max(1, class_rows.size) + number) % N_FOLDS
    return folds


def _rarest_classes(codes: IndexArray, n_classes: int, groups: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the class that each group counts as, and the group of each row. Larger groups have smaller numbers."""
    _, first, group, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(sizes.size, dtype=np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(sizes.size)
    group = rank[group]
    of_group, of_class = np.divmod(np.unique(group * n_classes + codes), n_classes)
    by_rarity = np.argsort(np.bincount(of_class, minlength=n_classes), kind="stable")
    place = np.empty(n_classes, dtype=np.int64)
    place[by_rarity] = np.arange(n_classes)
    rarest = np.full(sizes.size, n_classes)
    np.minimum.at(rarest, of_group, place[of_class])
    return by_rarity[rarest], group


def by_folds(
    folds: IndexArray, n_machines: int, fit: FitWithout, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return the values of all rows by machines trained without their fold, (n, n_machines)."""
    raw = np.empty((folds.size, n_machines))
    for number in distinct(folds).tolist():
        check()
        out = folds == number
        raw[out] = fit(np.flatnonzero(~out), np.flatnonzero(out))
    return raw


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """What :func:`cross_fitted` found.

    Attributes
    ----------
    raw : ndarray of shape (n, n_machines)
        Decision values of each row by the machines trained without its fold.
    peak_memory_bytes : int
        Most that a fold held at a time.
    """

    raw: FloatArray
    peak_memory_bytes: int


def cross_fitted(
    gram: Gram,
    codes: IndexArray,
    n_classes: int,
    penalties: FloatArray,
    *,
    scheme: str,
    duals: Duals,
    control: Control,
    folds: IndexArray | None = None,
    check: Callable[[], None] = lambda: None,
) -> CrossFitted:
    """Train the machines without each fold, on views of one Gram matrix, and return their values of the fold.

    Parameters
    ----------
    gram : Gram
        Of the n training rows.
    codes : ndarray of int64 of shape (n,)
    n_classes : int
    penalties : ndarray of shape (n,)
    scheme : {"ovo", "ovr", "joint"}
    duals : callable
        Makes the problems of machines for two classes, of which one may have no row; the joint machine has its own.
    control : Control
        `max_seconds` is for all folds together; each fold is solved to a hundredth of `tol`.
    folds : ndarray of int64 of shape (n,), optional
        Fold of each row; by default, those of :func:`fold_numbers` without groups.
    check : callable, optional
        Called between pieces of work; what it raises ends the work.

    Returns
    -------
    CrossFitted

    Notes
    -----
    Costs five fits of four fifths of the rows, and kernel values between each row and the support vectors of others.
    """
    folds = fold_numbers(codes, n_classes) if folds is None else folds
    peak, began = 0, time.perf_counter()
    tighter = control.with_limits(replace(control.limits, tol=TIGHTER * control.limits.tol))

    def fit(remaining: IndexArray, out: IndexArray) -> FloatArray:
        nonlocal peak
        machines = train(
            gram.restrict(remaining),
            codes[remaining],
            n_classes,
            penalties[remaining],
            scheme=scheme,
            duals=duals,
            control=tighter.after(time.perf_counter() - began, 0).in_part(f"fold-{int(out[0])}"),
        )
        check()  # a machine that was ended by time or Ctrl-C does not count
        peak = max(peak, machines.solutions.peak_memory_bytes)
        return machines.values(gram, remaining, out, check)

    raw = by_folds(folds, _n_machines(n_classes, scheme), fit, check)
    return CrossFitted(raw, peak)


def _n_machines(n_classes: int, scheme: str) -> int:
    if n_classes == 2:
        return 1
    return n_classes * (n_classes - 1) // 2 if scheme not in ("ovr", JOINT) else n_classes
