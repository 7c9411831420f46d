"""Paths of settings, and how far each fold has come along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any

from mercer.certificates.status import StoppedError
from mercer.data.lazy import lazy_property
from mercer.estimators.base import DualMachine
from mercer.kernels import Kernel
from mercer.model_selection.search.fold_rows import Rows
from mercer.model_selection.search.shared_matrices import Matrices, Memory


@dataclass(frozen=True)
class FoldFit:
    """A fit on the training rows of one fold, or why there is none.

    Attributes
    ----------
    made : callable or None
        Returns the estimator that predicts for any rows: its support vectors are copied if somebody asks it.
    machine : estimator or None
        The same on the rows of the fold, or what ends the pipeline: it may tell how the fit ended.
    rows : Rows or None
        Those of the fold as `machine` takes them, where that costs less than to ask `fitted`.
    reason : str
        What it shared with others, and why not more; "" where it failed.
    error : Exception or None
    seconds : float
    """

    made: Callable[[], Any] | None
    machine: Any
    rows: Rows | None
    reason: str
    error: Exception | None
    seconds: float

    @lazy_property
    def fitted(self) -> Any:
        """What predicts for any rows; None where the fit failed."""
        return None if self.made is None else self.made()


class Path:
    """Estimators that differ in penalties alone, why their fits share nothing, if so, and else what they share."""

    def __init__(self, estimators: Sequence[Any], why_not: str, n_folds: int, memory: Memory) -> None:
        self.estimators, self.why_not, self._memory = estimators, why_not, memory
        self.fits: list[list[Future[FoldFit]]] = [[Future() for _ in range(n_folds)] for _ in estimators]
        self._matrices: dict[int | None, Matrices] = {}
        self._lock = Lock()

    @property
    def shares(self) -> bool:
        """Whether its fits share what they can."""
        return not self.why_not

    def made(self, place: int) -> list[FoldFit]:
        """Wait for the fits of one estimator on all folds, and keep them no longer."""
        folds = [fit.result() for fit in self.fits[place]]
        self.fits[place].clear()
        return folds

    def matrices(self, fold: int | None) -> Matrices:
        """Those of one fold, or of all."""
        with self._lock:
            return self._matrices.setdefault(fold, Matrices(self._memory))


@dataclass(frozen=True)
class FoldInputs:
    """What all fits of one fold along a path have in common.

    Attributes
    ----------
    rows : Rows
    told : tuple
        What `fit` gets beside the rows: targets, if there are any, looked at where they are labels.
    weights : array-like or None
    kernel : Kernel
        With numbers for its rules.
    by_folds : bool
        Whether it, or what comes before the machine, depends on the fold.
    size : float
        Of the kernel's largest value between a row and itself.
    """

    rows: Rows
    told: tuple[Any, ...]
    weights: Any
    kernel: Kernel
    by_folds: bool
    size: float


@dataclass
class FoldState:
    """How far one fold has come along a path."""

    path: Path
    number: int
    place: int = 0  # of the next estimator
    fold_inputs: FoldInputs | None = None
    last: DualMachine | None = None
    in_single: bool = True  # whether single precision has been enough


QueueItem = tuple[int, float, int, FoldState]
"""The next fit of a fold: when its turn is, less than 0 by the seconds of the one before, the fold. The least is first.

So those that take longest are begun first, and the last ones, with which a thread may be left alone, are short.
"""


def all_or_none(folds: list[FoldFit]) -> list[FoldFit]:
    """Fits that the search has not been stopped before."""
    return [] if any(isinstance(fold.error, StoppedError) for fold in folds) else folds
