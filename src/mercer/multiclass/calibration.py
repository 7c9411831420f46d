"""Decision values to probabilities of classes, by a map for each machine, bound to what is predicted or free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.data.arguments import check_choice
from mercer.data.result import Result
from mercer.multiclass.coupling import NUMBERS_AT_A_TIME, couple, made_largest, normalised
from mercer.multiclass.probability_maps import Map, Sigmoid, checked_weights, fit_isotonic, fit_sigmoids, positive_sides
from mercer.multiclass.training import class_scores, make_tasks, winners

METHODS = ("sigmoid", "isotonic")

LEAVE_ONE_OUT, FOLDS = "leave_one_out", "folds"
"""Which decision values maps are fitted to: of machines without the row, or without its fold."""

FITTED_ON = {LEAVE_ONE_OUT: "leave-one-out decision values", FOLDS: "cross-fitted decision values"}
"""These, in words."""

CALIBRATIONS = ("sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic")
"""Names of the maps in estimators. "free" and "weighted" are sigmoids."""


def map_of(calibration: str, *, has_class_weights: bool) -> tuple[str, bool, bool]:
    """Return the method of a name in CALIBRATIONS, whether its map is free, and whether class weights count.

    Machines with class weights predict the more probable class of a population in which rows count by these weights.
    Unless the name begins with "weighted", probabilities are those of the rows as they are, and the map is then free.
    """
    weighted = calibration.startswith("weighted")
    free = calibration.startswith("free") or (has_class_weights and not weighted)
    return "isotonic" if calibration.endswith("isotonic") else "sigmoid", free, weighted


_ARRAYS, _ARRAYS_OF_PAIRS = 6, 5  # of the size of decision values, and of matrices of pairs


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """What turns decision values of machines for two classes into probabilities of classes.

    Attributes
    ----------
    method : {"sigmoid", "isotonic"}
    free : bool
        False: the predicted class always has the largest probability.
    scheme : {"ovo", "ovr", "joint"}
    n_classes : int
    maps : tuple of Sigmoid or Isotonic
        One for each pair of classes, or for each class.
    n_rows : tuple of int
        How many rows each map was fitted on.
    fitted_on : str
        What their values are.
    n_moved : int
        Of the rows that it was fitted on, those whose probabilities had to be moved for the predicted class to lead.
    folds : ndarray of int64 of shape (n,) or None
        Fold of each row that it was fitted on, if groups of rows were kept in one fold.
    """

    method: str
    free: bool
    scheme: str
    n_classes: int
    maps: tuple[Map, ...]
    n_rows: tuple[int, ...]
    fitted_on: str
    n_moved: int = 0
    folds: IndexArray | None = field(default=None, repr=False, compare=False)

    @property
    def violation(self) -> float:
        """Largest of the maps'; isotonic regression is exact."""
        return max((sigmoid.violation for sigmoid in self.maps if isinstance(sigmoid, Sigmoid)), default=0.0)

    def __str__(self) -> str:
        how = "free" if self.free else f"the predicted class leads ({self.n_moved} rows moved)"
        certified = f", gradient at most {self.violation:.1g}" if self.method == "sigmoid" else ""
        rows = (
            f"{self.n_rows[0]} rows" if len(self.n_rows) == 1 else f"{min(self.n_rows)} to {max(self.n_rows)} rows each"
        )
        by_groups = "" if self.folds is None else ", each group of rows in one fold"
        return f"{self.method} of {self.fitted_on} of {rows}{by_groups}, {how}{certified}"

    def probabilities(self, raw: FloatArray) -> FloatArray:
        """Return the probabilities of the classes, (m, n_classes), of decision values (m, n_machines)."""
        return self.read(raw)[0]

    def read(self, raw: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the probabilities, and in which rows they were moved so that the predicted class leads.

        Parameters
        ----------
        raw : ndarray of shape (m, n_machines)
            Of two classes one column, positive for class 1; of more, one for each pair (i, j), i < j, positive for
            class i; with the other schemes one for each class, the largest of which wins.

        Returns
        -------
        probabilities : ndarray of shape (m, n_classes)
        moved : ndarray of bool of shape (m,)

        Raises
        ------
        ValueError
            If `raw` has another number of columns.
        """
        if raw.ndim != 2 or raw.shape[1] != len(self.maps):
            raise ValueError(f"raw must have {len(self.maps)} columns, one for each machine, got shape {raw.shape}.")
        values = calibration_inputs(raw, self.n_classes, self.scheme)
        if self.n_classes == 2:
            p = self.maps[0](values[:, 0])
        elif self.scheme != "ovo":
            p = normalised(positive_sides(self.maps, values))
        else:
            p = _coupled(positive_sides(self.maps, values), self.n_classes)
        if self.free:
            return p, np.zeros(len(p), dtype=bool)
        return made_largest(p, winners(class_scores(raw, self.n_classes, self.scheme)))


def _coupled(positive: FloatArray, n_classes: int) -> FloatArray:
    """Probabilities of the classes from those of the first one of each pair, (m, n_pairs)."""
    first, second = np.triu_indices(n_classes, 1)
    height = max(1, NUMBERS_AT_A_TIME // n_classes**2)
    probabilities = np.empty((len(positive), n_classes))
    for top in range(0, len(positive), height):
        some = slice(top, top + height)
        pairs = np.empty((len(positive[some]), n_classes, n_classes))
        pairs[:, first, second], pairs[:, second, first] = positive[some], 1.0 - positive[some]
        probabilities[some] = couple(pairs)
    return probabilities


def bytes_of_calibration(raw: FloatArray, n_classes: int) -> int:
    """Bytes that decision values (n, n_machines), their maps and the probabilities of pairs take at a time, at most."""
    of_pairs = 0 if n_classes == 2 else min(len(raw) * n_classes**2, NUMBERS_AT_A_TIME)
    return _ARRAYS * raw.nbytes + _ARRAYS_OF_PAIRS * 8 * of_pairs


def calibration_inputs(raw: FloatArray, n_classes: int, scheme: str) -> FloatArray:
    """What maps read: decision values, or by how much the score of each class is ahead of the largest of the others."""
    if scheme == "ovo" or n_classes == 2:
        return raw
    rising = np.sort(raw, axis=1)
    first, second = rising[:, -1:], rising[:, -2:-1]
    return raw - np.where(raw == first, second, first)


def calibrate(
    raw: FloatArray,
    codes: IndexArray,
    n_classes: int,
    *,
    scheme: str = "ovo",
    method: str = "sigmoid",
    free: bool = False,
    weights: npt.ArrayLike | None = None,
    class_weight: npt.ArrayLike | None = None,
    fitted_on: str = FITTED_ON[LEAVE_ONE_OUT],
    folds: IndexArray | None = None,
) -> Calibration:
    """Fit a map to the decision values of each machine for two classes.

    Parameters
    ----------
    raw : ndarray of shape (n, n_machines)
        See :meth:`Calibration.read`; of rows that the machines were not trained on. Those of other classes than a
        machine's are not read.
    codes : ndarray of int64 of shape (n,)
        Class of each row, 0 .. n_classes - 1.
    n_classes : int
    scheme : {"ovo", "ovr", "joint"}
        All but the first have a score for each class, of which the largest wins: maps read by how much each is ahead.
    method : {"sigmoid", "isotonic"}
        See :func:`fit_sigmoid` and :func:`fit_isotonic`.
    free : bool, default=False
        Whether the maps need not agree with what the machines predict.
    weights : array-like of shape (n,), optional
        How often each row counts.
    class_weight : array-like of shape (n_classes,), optional
        How often rows of a class count against those of another, for each machine; in all they count as without.
    fitted_on : str
        What the values are, for the record.
    folds : ndarray of int64 of shape (n,), optional
        Fold of each row, for the record: the folds of groups, which the classes do not determine.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        For another method, arrays that do not fit together, and as :func:`fit_sigmoid`.

    Examples
    --------
    >>> raw, codes = np.array([[-1.5], [-1.0], [0.5], [-0.5], [1.0], [1.5]]), np.array([0, 0, 0, 1, 1, 1])
    >>> calibrate(raw, codes, 2).probabilities(np.array([[-1.0], [1.0]])).round(3)
    array([[0.725, 0.275],
           [0.275, 0.725]])
    """
    check_choice("method", method, METHODS)
    n, tasks = codes.size, make_tasks(codes, n_classes, scheme)
    if raw.shape != (n, len(tasks)):
        raise ValueError(
            f"raw must have shape {(n, len(tasks))}, for {n} rows and {len(tasks)} machines, got {raw.shape}."
        )
    values, counts = calibration_inputs(raw, n_classes, scheme), checked_weights(weights, n)
    sizes, rows = tasks.sizes, tasks.rows
    starts = sizes.cumsum() - sizes
    f, is_positive, prior = values[rows, np.arange(sizes.size).repeat(sizes)], tasks.signs > 0.0, counts[rows]
    if class_weight is not None:
        weighted = prior * np.asarray(class_weight, dtype=np.float64)[codes[rows]]
        prior = weighted * (np.add.reduceat(prior, starts) / np.add.reduceat(weighted, starts)).repeat(sizes)
    n_rows = tuple(np.add.reduceat((prior > 0.0).astype(np.int64), starts).tolist())
    if method == "sigmoid":
        maps: Sequence[Map] = fit_sigmoids(f, is_positive, prior, sizes, free=free)
    else:
        each = zip(*(np.split(of_all, starts[1:]) for of_all in (f, is_positive, prior)), strict=True)
        maps = [fit_isotonic(*sample, free=free) for sample in each]
    calibration = Calibration(method, free, scheme, n_classes, tuple(maps), n_rows, fitted_on, folds=folds)
    if free:
        return calibration
    _, moved = calibration.read(raw[counts > 0.0])
    return replace(calibration, n_moved=int(moved.sum()))
