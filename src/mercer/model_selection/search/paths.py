"""Paths: sequences of settings that differ in penalties only, and the progress of each fold along a path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from mercer.certificates.status import StoppedError
from mercer.data.lazy import lazy_property
from mercer.estimators._dual import DualMachine
from mercer.estimators._linear_training import TrainedLinearMachine
from mercer.kernels import Kernel
from mercer.model_selection.search.fold_rows import Rows
from mercer.model_selection.search.shared_matrices import Matrices, Memory


@dataclass(frozen=True)
class FoldFit:
    """A fit on the training rows of one fold, or the error that prevented it.

    Attributes
    ----------
    made : callable or None
        Returns the estimator that predicts for any rows. It is made only when needed, because support vectors are
        copied.
    machine : estimator or None
        The fitted machine (the last step of a pipeline), which predicts for preprocessed rows of the fold and knows how
        the fit ended.
    rows : Rows or None
        The preprocessed rows of the fold, if predicting with `machine` is faster than with `fitted`.
    reason : str
        What the fit shared with other fits, and why not more; "" if the fit failed.
    error : Exception or None
        The error that the fit raised.
    seconds : float
        Duration of the fit.
    """

    made: Callable[[], Any] | None
    machine: Any
    rows: Rows | None
    reason: str
    error: Exception | None
    seconds: float

    @lazy_property
    def fitted(self) -> Any:
        """The estimator that predicts for any rows; None if the fit failed."""
        return None if self.made is None else self.made()


class Path:
    """Estimators that differ in penalties only, with the matrices that their fits share.

    `why_not` is the reason why their fits share nothing, or "".
    """

    def __init__(self, estimators: Sequence[Any], why_not: str, n_folds: int, memory: Memory) -> None:
        self.estimators, self.why_not, self._memory = estimators, why_not, memory
        self.fits: list[list[Future[FoldFit]]] = [[Future() for _ in range(n_folds)] for _ in estimators]
        self._matrices: dict[int | None, Matrices] = {}
        self._lock = Lock()

    @property
    def shares(self) -> bool:
        """Whether the fits share kernel values or solutions."""
        return not self.why_not

    def made(self, place: int) -> list[FoldFit]:
        """Wait for the fits of one estimator on all folds, return them, and drop the references to them."""
        folds = [fit.result() for fit in self.fits[place]]
        self.fits[place].clear()
        return folds

    def matrices(self, fold: int | None) -> Matrices:
        """Return the matrices of one fold, or with None the matrices that all folds share."""
        with self._lock:
            return self._matrices.setdefault(fold, Matrices(self._memory))


@dataclass(frozen=True)
class FoldInputs:
    """The inputs that all fits of one fold along a path have in common.

    Attributes
    ----------
    rows : Rows
    targets : tuple
        The targets in a tuple, already validated if they are labels; empty if there are no targets.
    weights : array-like or None
        Sample weights.
    kernel : Kernel
        Kernel with numbers for all its parameters.
    by_folds : bool
        Whether the kernel or the preprocessing depends on the fold.
    size : float
        Largest absolute kernel value of a row with itself.
    """

    rows: Rows
    targets: tuple[Any, ...]
    weights: Any
    kernel: Kernel
    by_folds: bool
    size: float


@dataclass
class FoldState:
    """The progress of one fold along a path."""

    path: Path
    number: int
    place: int = 0  # position of the next estimator on the path
    fold_inputs: FoldInputs | None = None
    last: DualMachine | TrainedLinearMachine | None = None
    shared: dict[Any, Any] = field(default_factory=dict)  # what the fits of an approximate machine share
    in_single: bool = True  # whether single precision has been sufficient so far


QueueItem = tuple[int, float, int, FoldState]
"""The next fit of a fold: its turn, minus the seconds of the fold's last fit, the fold's number, and its state.

The smallest item is taken first. Within a turn the longest fits therefore start first, so that threads are idle for a
short time only at the end.
"""


def all_or_none(folds: list[FoldFit]) -> list[FoldFit]:
    """Return the fits of all folds, or an empty list if the search was stopped before all were finished."""
    return [] if any(isinstance(fold.error, StoppedError) for fold in folds) else folds
