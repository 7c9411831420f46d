"""The interface of a solver, and the progress that a callback gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from mercer._typing import FloatArray
from mercer.certificates.screening import TrackedGradient
from mercer.gram import Gram
from mercer.problems import Problem

ERROR_SHARE = 1e-3
"""Largest error of a solver's own values that an evaluation accepts, as a share of the tolerance."""


@dataclass
class State:
    """The state of a solver between parts of its work.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
        The point, always feasible, and its gradient as far as the solver updates it.
    n_iter : int
        Number of steps so far.
    violation : float
        Largest KKT violation by that gradient.
    dual : float
        Dual objective of the point.
    peak_bytes : int
        Peak memory of blocks of kernel values and factors.
    stop : callable, optional
        Called within long parts of work; if it returns True, the part is left unfinished. The point stays feasible.
    product : ndarray, optional
        K beta at every row of a matrix in memory, if the solver maintains it.
    finished : bool
        Whether the solver has reached its tolerance, by that gradient.
    gave_up : bool
        Whether the solver makes too little progress for another round; another solver continues.
    max_iter : int
        Limit of `n_iter`; -1 for none.
    """

    beta: FloatArray
    gradient: FloatArray
    n_iter: int = 0
    violation: float = float("inf")
    dual: float = 0.0
    product: FloatArray | None = None
    finished: bool = False
    gave_up: bool = False
    max_iter: int = -1
    peak_bytes: int = 0
    stop: Callable[[], bool] | None = None


StateT = TypeVar("StateT", bound=State)


class Solver(ABC, Generic[StateT]):
    """One algorithm. The clock decides only when it pauses, never what it computes."""

    name: str

    @abstractmethod
    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> StateT:
        """Return the state at `start` (made feasible), or at the problem's own starting point."""

    @abstractmethod
    def steps(self, state: StateT) -> Iterator[None]:
        """Work until the tolerance is met by the solver's own gradient, or no progress is possible.

        The solver yields after every part of its work, which takes at most about 30 ms for native kernels. After a
        :meth:`refresh`, a new generator continues.
        """

    @abstractmethod
    def refresh(self, state: StateT, gradient: FloatArray, tol: float) -> None:
        """Continue from the true gradient at `state.beta`, to the tolerance `tol`."""

    def tracked_gradient(self, state: StateT) -> TrackedGradient | None:
        """Return the values of K beta that the solver maintains, for the certificate; None if it has no such values."""
        del state
        return None


@dataclass(frozen=True)
class Progress:
    """The progress that a callback gets; the fit stops if the callback returns a true value.

    Attributes
    ----------
    seconds : float
        Seconds since the solver of this machine started.
    n_iter : int
        Number of steps so far.
    violation, dual : float
        KKT violation and dual objective, as the solver sees them.
    tol : float
        The violation at which the solver stops.
    stage : str
        The current stage of the fit.
    """

    seconds: float
    n_iter: int
    violation: float
    dual: float
    tol: float
    stage: str = "solve"


Callback = Callable[[Progress], object]
