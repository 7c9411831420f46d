"""Removing training rows from a fitted machine (`forget`), and adding rows to it (`partial_fit`)."""

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
from mercer.estimators._dual import DualMachine
from mercer.estimators._validation import check_rows, check_sample_weight, drop_record, refuse_device
from mercer.gram import Gram
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.problems import Problem
from mercer.solvers import Control
from mercer.solvers.paths.incremental import Solved, solve_incremental


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The training rows of a machine, and what the next exact update needs.

    Attributes
    ----------
    data : Data
    targets : ndarray of shape (n,)
        Class numbers, or targets of a regression.
    weights : ndarray of shape (n,)
    evaluations : list of Evaluation or None
        For each two-class machine, the evaluation at its solution, where the next update starts.
    gram : Gram or None
        Gram matrix of the rows of positive weight; None after pickling.
    """

    data: Data
    targets: npt.NDArray[Any]
    weights: FloatArray
    evaluations: list[Evaluation | None]
    gram: Gram | None = None

    @property
    def rows(self) -> IndexArray:
        """Indices of the rows of positive weight."""
        return np.flatnonzero(self.weights > 0.0)

    def without(self, gone: IndexArray) -> tuple[TrainingRows, IndexArray]:
        """Return the rows that remain after the removal of `gone`, and their indices in these rows."""
        remaining = np.setdiff1d(np.arange(self.data.n), gone)
        data = self.data.rows(remaining)
        if isinstance(data, Precomputed):  # only kernel values with the remaining rows are kept
            data = Precomputed(data.array[:, remaining])
        data.names = self.data.names
        return replace(self, data=data, targets=self.targets[remaining], weights=self.weights[remaining]), remaining

    def followed_by(
        self, data: Data, targets: npt.NDArray[Any], weights: FloatArray
    ) -> tuple[TrainingRows, IndexArray]:
        """Return these rows followed by new ones, and for each row its index in these rows: -1 for a new row."""
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
    """A change of the training rows, for which the machine must be updated.

    `last` are the rows before the change, `sample` the rows after it, and `gram` is the Gram matrix of those rows of
    `sample` that have a positive weight. `origin` holds the index of each of these rows among the rows of `last` with
    positive weight, or -1 for a new row. `began` is the time at which the update began.
    """

    last: TrainingRows
    now: TrainingRows
    gram: Gram
    origin: IndexArray
    began: float


class ChangesRows(DualMachine):
    """A machine whose training rows can be changed after `fit`, with exact incremental and decremental updates."""

    _current_rows: TrainingRows

    def _check_exact(self, what: str) -> None:
        """Refuse `what` if the machine is not exact; here every machine is."""

    def forget(self, rows: Any) -> Self:
        """Remove training rows: the machine is then the one that the remaining rows train.

        The solution is updated to the solution without the rows, and certified over all remaining rows. See
        docs/concepts/changing_rows.md.

        Parameters
        ----------
        rows : array-like of int, or of bool of shape (n,)
            Indices of the rows, or a mask. The rows are numbered from 0 in their order: first the rows of `fit`, then
            those of each `partial_fit`. After `forget`, the remaining rows are numbered from 0 again.

        Returns
        -------
        self
            The attributes are those of a fit to the remaining rows, and `support_` uses their new numbers. The problem
            keeps the parameters of the last `fit` (``spec_``). Values estimated from its rows do not change: a `gamma`
            such as "scale" (``kernel_``) and balanced class weights (``class_weight_``). Tolerances and limits are the
            current parameters.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `rows` are not valid indices, or if no row (or no row of a class) would remain. Also if the training rows
            are not available: the machine was pickled before the first `forget` or `partial_fit`, or a search trained
            it on stored kernel values. The machine is then unchanged.

        Warns
        -----
        ConvergenceWarning
            If a limit, Ctrl-C or rounding ended the update before the tolerance was met. The rows are removed, and the
            certificate says how far the machine is from the optimum.

        Notes
        -----
        The first call reads the arrays that were given to `fit`, so they must not have been changed since. From then on
        the machine keeps a copy of the remaining rows, and pickles it; the next `fit` drops the copy.

        Costs, for each machine that was trained on the rows: two or three times n kernel values for each removed row
        and each coefficient that changes, and f^3 multiplications for f free support vectors. The first call costs
        n * n_SV kernel values more. ``probability=True`` adds a calibration.
        """
        self._check_exact("forget")
        sample = self._rows_in_use()
        gone = _checked_rows(rows, sample.data.n)
        if gone.size == 0:
            return self
        began = time.perf_counter()
        later, remaining = sample.without(gone)
        if not later.rows.size:
            raise ValueError(
                f"rows must leave some, but are all {sample.rows.size} rows that the machine was trained on: fit a new "
                "machine."
            )
        self._check_left(sample, later)
        self._change(sample, later, remaining, began)
        return self

    def _with_more(
        self, X: Any, y: Any, sample_weight: Any, read_targets: Callable[[Any], npt.NDArray[Any]]
    ) -> tuple[TrainingRows, TrainingRows, IndexArray, float]:
        """Return the arguments of :meth:`_change` for added rows; `read_targets` converts y to numbers."""
        began = time.perf_counter()
        refuse_device(self, X, "partial_fit")
        sample = self._rows_in_use()
        if isinstance(sample.data, Precomputed):
            raise ValueError(
                "partial_fit cannot add rows to a machine on a precomputed kernel: the values between them and the "
                "rows that it holds are not in X. Fit it to the larger matrix, or give the kernel itself."
            )
        data = check_rows(self, X, self.kernel_, reset=False, y=y)
        later, origin = sample.followed_by(data, read_targets(y), check_sample_weight(sample_weight, data.n))
        return sample, later, origin, began

    def _own_rows(self, X: Any, y: Any) -> Data:
        """Return a copy of the rows of the first batch."""
        refuse_device(self, X, "partial_fit")
        _, data = self._training_rows(X, y)
        copied = data.rows(np.arange(data.n))
        copied.names = data.names
        return copied

    def _keep_rows(self) -> Self:
        """Store the rows of `fit` for later updates."""
        self._current_rows = self._rows_in_use()
        return self

    def _rows_in_use(self) -> TrainingRows:
        """Return the stored training rows, or those of `fit`; raise ValueError if they are not available."""
        self._check_is_fitted()
        sample: TrainingRows | None = self.__dict__.get("_current_rows")
        if sample is None:
            solutions = self._solved()
            evidence = solutions[0].evidence
            if evidence is None or isinstance(evidence.kernel, EvaluatedKernel):
                raise ValueError(
                    f"the training rows of this {type(self).__name__} are not at hand: it was pickled, or trained by a "
                    "search on kernel values. Fit it again; once forget or partial_fit has been called, pickling keeps "
                    "the rows."
                )
            targets, weights = self._fit_targets()
            nothing: list[Evaluation | None] = [None] * len(solutions)
            sample = TrainingRows(evidence.data, targets, weights, nothing, evidence.full_gram())
            if sample.rows.size < sample.data.n and sample.gram is not None:
                sample = replace(sample, gram=sample.gram.restrict(sample.rows))
        if sample.gram is None:
            sample = replace(sample, gram=self._gram(self.kernel_, sample.data, sample.rows))
        return sample

    def _change(self, sample: TrainingRows, later: TrainingRows, origin: IndexArray, began: float) -> None:
        """Update the machine from the rows `sample` to the rows `later`.

        `origin` holds the index of each row of `later` in `sample`, or -1 for a new row.
        """
        with self._all_or_nothing():
            gram = self._gram(self.kernel_, later.data, later.rows)
            place = np.full(sample.data.n, -1, dtype=np.int64)
            place[sample.rows] = np.arange(sample.rows.size)
            of = origin[later.rows]
            change = Change(sample, later, gram, np.where(of >= 0, place[of], -1), began)
            evaluations = self._solve_change(change)
            drop_record(self)
            self._current_rows = replace(later, gram=gram, evaluations=evaluations)
            if isinstance(later.data, Precomputed):  # new rows must bring kernel values with the remaining rows only
                self.n_features_in_ = later.data.n
                if hasattr(self, "feature_names_in_"):
                    self.feature_names_in_: npt.NDArray[Any] = self.feature_names_in_[origin]
            self._warn(gram, later.data)
            self._finish_change(change)

    def _solve_incremental(
        self,
        change: Change,
        last: Iterable[tuple[Problem, IndexArray]],
        now: Iterable[tuple[Problem, IndexArray]],
        control: Control,
    ) -> tuple[Solutions, list[Evaluation | None]]:
        """Update the solutions of the problems `last` to those of the problems `now`, each with its row numbers."""
        solutions: list[Solved] = []
        last_gram = change.last.gram
        assert last_gram is not None
        with control.interruption:
            several = zip(last, self._solutions, change.last.evaluations, now, strict=True)
            for number, (before, solution, evaluation, (problem, rows)) in enumerate(several):
                machine_control = control.for_machine(number, len(self._solutions))
                solved = solve_incremental(
                    Solved(*before, solution, evaluation),
                    last_gram,
                    problem,
                    rows,
                    change.gram,
                    change.origin,
                    control=machine_control.after(time.perf_counter() - change.began, 0),
                )
                solutions.append(replace(solved, solution=replace(solved.solution, limits=control.limits)))
        return Solutions.of([one.solution for one in solutions]), [one.evaluation for one in solutions]

    @abstractmethod
    def _fit_targets(self) -> tuple[npt.NDArray[Any], FloatArray]:
        """Return the targets (or class numbers) and the weights of the rows of `fit`."""

    @abstractmethod
    def _check_left(self, sample: TrainingRows, later: TrainingRows) -> None:
        """Raise ValueError if no machine can be trained on the remaining rows."""

    @abstractmethod
    def _solve_change(self, change: Change) -> list[Evaluation | None]:
        """Solve for the changed rows, and store the machine after all problems are solved."""

    def _finish_change(self, change: Change) -> None:
        """Do what follows the update, such as a calibration (here nothing)."""


def _checked_rows(rows: Any, n: int) -> IndexArray:
    """Return sorted indices of distinct rows, from a list of indices or from a mask.

    Raises
    ------
    ValueError
        If `rows` is neither a list of distinct valid indices nor a mask.
    """
    asked = np.asarray(rows)
    if asked.dtype == bool and asked.shape == (n,):
        return np.flatnonzero(asked)
    if asked.ndim > 1 or (asked.size and asked.dtype.kind not in "iu"):
        raise ValueError(
            f"rows must be indices of rows, or a mask with one bool for each of the {n} rows that the machine holds, "
            f"got an array of {asked.dtype} of shape {asked.shape}."
        )
    index = np.atleast_1d(asked).astype(np.int64)
    outside = index[(index < 0) | (index >= n)]
    if outside.size:
        raise ValueError(f"rows must lie between 0 and {n - 1}, the rows that the machine holds, got {outside[0]}.")
    once, counts = np.unique(index, return_counts=True)
    if once.size < index.size:
        raise ValueError(f"rows must name each row once, got row {once[counts > 1][0]} more than once.")
    return once
