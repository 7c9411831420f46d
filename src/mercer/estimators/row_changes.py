"""Rows that a fitted machine takes back, and rows that it learns besides."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import Evaluation
from mercer.certificates.solution import Solutions
from mercer.data import Data, Precomputed
from mercer.estimators.base import DualMachine
from mercer.estimators.rows import check_rows, drop_record
from mercer.estimators.told import check_sample_weight
from mercer.gram import Gram
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.problems import Problem
from mercer.solvers import Interruption, Limits
from mercer.solvers.incremental import Solved, solve_incremental


@dataclass(frozen=True, eq=False)
class RowsHeld:
    """The training rows of a machine, once it has taken some back or learned some besides.

    Attributes
    ----------
    data : Data
    targets : ndarray of shape (n,)
        Numbers of classes, or targets.
    weights : ndarray of shape (n,)
    evaluations : list of Evaluation or None
        Of each of its machines, from which the next ones go on.
    gram : Gram or None
        Of the rows of positive weight; None once pickled.
    """

    data: Data
    targets: npt.NDArray[Any]
    weights: FloatArray
    evaluations: list[Evaluation | None]
    gram: Gram | None = None

    @property
    def rows(self) -> IndexArray:
        """Those of positive weight."""
        return np.flatnonzero(self.weights > 0.0)

    def without(self, gone: IndexArray) -> tuple[RowsHeld, IndexArray]:
        """Return the others, and which of these each of them is."""
        kept = np.setdiff1d(np.arange(self.data.n), gone)
        data = self.data.rows(kept)
        if isinstance(data, Precomputed):  # values against the rows that are left
            data = Precomputed(data.array[:, kept])
        data.names = self.data.names
        return replace(self, data=data, targets=self.targets[kept], weights=self.weights[kept]), kept

    def followed_by(self, data: Data, targets: npt.NDArray[Any], weights: FloatArray) -> tuple[RowsHeld, IndexArray]:
        """Return these rows and then others, and which of these each of them is: -1 for the others."""
        together = self.data.followed_by(data)
        together.names = self.data.names
        more = replace(
            self,
            data=together,
            targets=np.concatenate([self.targets, targets]),
            weights=np.concatenate([self.weights, weights]),
        )
        return more, np.concatenate([np.arange(self.data.n), np.full(data.n, -1)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "gram": None}


class Change(NamedTuple):
    """What a machine has to be solved anew for.

    `last` are the rows until now, `held` those from now on, `gram` the latter of positive weight; `origin` says which
    of the former's each of these is, -1 for new ones.
    """

    last: RowsHeld
    held: RowsHeld
    gram: Gram
    origin: IndexArray
    began: float


class ChangesRows(DualMachine):
    """A machine that goes on from its solution when rows are taken from it or given to it."""

    _held: RowsHeld

    def forget(self, rows: Any) -> Self:
        """Take training rows back: the machine is then the one that the other rows train.

        The known solution is followed to that without the rows, and certified over all the others. Of the rows nothing
        stays but what was estimated from them. See docs/concepts/changing_rows.md.

        Parameters
        ----------
        rows : array-like of int, or of bool of shape (n,)
            Which rows, as indices into those that the machine holds: of `fit`, less those forgotten since, the rest
            counted anew from 0 in their order, followed by those of each `partial_fit`.

        Returns
        -------
        self
            Its attributes are those of a fit to the other rows: `support_` counts them anew. Parameters of the problem
            are those of the last `fit` (``spec_``), and what it estimated from its rows stays as it is: a `gamma`
            such as "scale" (``kernel_``), balanced class weights (``class_weight_``). Tolerances and limits are those
            that are set now.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `rows` are no such indices; if no row would be left, or none of a class; or if the training rows are not
            at hand: a machine that was pickled before it forgot or learned any rows, or trained on values that a
            search held. The machine is as it was.

        Warns
        -----
        ConvergenceWarning
            If a limit, Ctrl-C or rounding came before the tolerance. The rows are gone, and the certificate says how
            far the machine is from the optimum.

        Notes
        -----
        The first call reads the rows where `fit` was given them, so they must not have been changed; it keeps a copy
        of those that are left, here and in what is pickled from then on (`fit` lets go of them).

        Costs, for each machine that the rows took part in, n kernel values for each row and each coefficient that
        moves, two or three times; f^3 multiplications for f free support vectors; the first time, n times the number
        of support vectors besides. With ``probability=True`` a leave-one-out pass besides.
        """
        held = self._rows_held()
        gone = _checked_rows(rows, held.data.n)
        if gone.size == 0:
            return self
        began = time.perf_counter()
        later, kept = held.without(gone)
        if not later.rows.size:
            raise ValueError(
                f"rows must leave some, but are all {held.rows.size} rows that the machine was trained on: fit a new "
                "machine."
            )
        self._check_left(held, later)
        self._change(held, later, kept, began)
        return self

    def _with_more(
        self, X: Any, y: Any, sample_weight: Any, told: Callable[[Any], npt.NDArray[Any]]
    ) -> tuple[RowsHeld, RowsHeld, IndexArray, float]:
        """What :meth:`_change` takes, for rows to learn; `told` makes numbers of y."""
        began = time.perf_counter()
        held = self._rows_held()
        if isinstance(held.data, Precomputed):
            raise ValueError(
                "partial_fit cannot add rows to a machine on a precomputed kernel: the values between them and the "
                "rows that it holds are not in X. Fit it to the larger matrix, or give the kernel itself."
            )
        data = check_rows(self, X, self.kernel_, reset=False, y=y)
        later, origin = held.followed_by(data, told(y), check_sample_weight(sample_weight, data.n))
        return held, later, origin, began

    def _own_rows(self, X: Any, y: Any) -> Data:
        """A copy of the rows of a first batch."""
        _, data = self._training_rows(X, y)
        own = data.rows(np.arange(data.n))
        own.names = data.names
        return own

    def _keep_rows(self) -> Self:
        """Keep the rows of `fit` as those of a machine that goes on."""
        self._held = self._rows_held()
        return self

    def _rows_held(self) -> RowsHeld:
        """The training rows: those kept, or those of `fit`."""
        self._check_is_fitted()
        held: RowsHeld | None = self.__dict__.get("_held")
        if held is None:
            solutions = self._solved()
            evidence = solutions[0].evidence
            if evidence is None or isinstance(evidence.kernel, EvaluatedKernel):
                raise ValueError(
                    f"the training rows of this {type(self).__name__} are not at hand: it was pickled, or trained by a "
                    "search on kernel values. Fit it again; once forget or partial_fit has been called, pickling keeps "
                    "the rows."
                )
            targets, weights = self._told()
            nothing: list[Evaluation | None] = [None] * len(solutions)
            held = RowsHeld(evidence.data, targets, weights, nothing, evidence.whole())
            if held.rows.size < held.data.n and held.gram is not None:
                held = replace(held, gram=held.gram.restrict(held.rows))
        if held.gram is None:
            held = replace(held, gram=self._gram(self.kernel_, held.data, held.rows))
        return held

    def _change(self, held: RowsHeld, later: RowsHeld, origin: IndexArray, began: float) -> None:
        """Solve for the rows `later`, of which each is the one of `held` that `origin` says, and keep the machine."""
        with self._all_or_nothing():
            gram = self._gram(self.kernel_, later.data, later.rows)
            place = np.full(held.data.n, -1, dtype=np.int64)
            place[held.rows] = np.arange(held.rows.size)
            of = origin[later.rows]
            change = Change(held, later, gram, np.where(of >= 0, place[of], -1), began)
            evaluations = self._solve_anew(change)
            drop_record(self)
            self._held = replace(later, gram=gram, evaluations=evaluations)
            if isinstance(later.data, Precomputed):  # what it predicts from are values against the rows that are left
                self.n_features_in_ = later.data.n
                if hasattr(self, "feature_names_in_"):
                    self.feature_names_in_: npt.NDArray[Any] = self.feature_names_in_[origin]
            self._warn(gram, later.data, depth=4)
            self._settle(change)

    def _solve_nearby(
        self,
        change: Change,
        last: Iterable[tuple[Problem, IndexArray]],
        now: Iterable[tuple[Problem, IndexArray]],
        limits: Limits,
        listener: Any,
    ) -> tuple[Solutions, list[Evaluation | None]]:
        """Solve machines that were, and are, of these problems on these rows."""
        found: list[Solved] = []
        last_gram = change.last.gram
        assert last_gram is not None
        with Interruption() as interruption:
            for before, solution, evaluation, (problem, rows) in zip(
                last, self._solutions, change.last.evaluations, now, strict=True
            ):
                left = limits.max_seconds
                if left is not None:
                    left = max(0.0, left - (time.perf_counter() - change.began))
                solved = solve_incremental(
                    Solved(*before, solution, evaluation),
                    last_gram,
                    problem,
                    rows,
                    change.gram,
                    change.origin,
                    limits=replace(limits, max_seconds=left),
                    callback=listener,
                    interruption=interruption,
                )
                found.append(replace(solved, solution=replace(solved.solution, limits=limits)))
        return Solutions.of([one.solution for one in found]), [one.evaluation for one in found]

    @abstractmethod
    def _told(self) -> tuple[npt.NDArray[Any], FloatArray]:
        """Targets and weights that `fit` was given."""

    @abstractmethod
    def _check_left(self, held: RowsHeld, later: RowsHeld) -> None:
        """Refuse rows to be left that train no machine."""

    @abstractmethod
    def _solve_anew(self, change: Change) -> list[Evaluation | None]:
        """Solve for the changed rows and keep the machine; nothing is stored before all is solved."""

    def _settle(self, change: Change) -> None:
        """Do what comes after the machine."""


def _checked_rows(rows: Any, n: int) -> IndexArray:
    """Indices of different rows, from a list or a mask.

    Raises
    ------
    ValueError
        If they are anything else.
    """
    asked = np.asarray(rows)
    if asked.dtype == bool and asked.shape == (n,):
        return np.flatnonzero(asked)
    if asked.ndim > 1 or (asked.size and asked.dtype.kind not in "iu"):
        raise ValueError(
            f"rows must be indices of rows, or a mask with one bool for each of the {n} rows that the machine holds, "
            f"got an array of {asked.dtype} of shape {asked.shape}."
        )
    found = np.atleast_1d(asked).astype(np.int64)
    outside = found[(found < 0) | (found >= n)]
    if outside.size:
        raise ValueError(f"rows must lie between 0 and {n - 1}, the rows that the machine holds, got {outside[0]}.")
    once, counts = np.unique(found, return_counts=True)
    if once.size < found.size:
        raise ValueError(f"rows must name each row once, got row {once[counts > 1][0]} more than once.")
    return once
