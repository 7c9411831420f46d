"""The interface of a solver, and what a callback is told of its progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mercer._typing import FloatArray
from mercer.certificates.screening import TrackedGradient
from mercer.gram import Gram
from mercer.problems import Problem

DOUBT = 1e-3
"""Of the tolerance: how far a solver's own values may be off to be taken."""


@dataclass
class State:
    """What a solver carries between slices of work.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
        The point, always feasible, and the gradient there as far as the solver keeps it up to date.
    n_iter : int
        Steps so far.
    violation : float
        Largest KKT violation by that gradient.
    dual : float
        Dual objective there.
    peak_bytes : int
        Most memory that it took at a time for blocks of kernel values and factors.
    stop : callable, optional
        Asked within a piece of work that is long, which is then left unfinished; it comes after the end of a slice that
        nobody wants more of. The point is feasible all the same.
    claim : ndarray, optional
        K beta at every row that kernel values are held of, where the solver keeps it up to date.
    finished : bool
        Whether the solver has nothing left to do at its tolerance, by that gradient.
    """

    beta: FloatArray
    gradient: FloatArray
    n_iter: int = 0
    violation: float = float("inf")
    dual: float = 0.0
    claim: FloatArray | None = None
    finished: bool = False
    peak_bytes: int = 0
    stop: Callable[[], bool] | None = None


StateT = TypeVar("StateT", bound=State)


class Solver(ABC, Generic[StateT]):
    """One algorithm. It never looks at a clock to decide what to compute, only when to pause."""

    name: str

    @abstractmethod
    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> StateT:
        """Return the state at `start` (made feasible), or at the problem's own starting point."""

    @abstractmethod
    def advance(self, state: StateT, seconds: float, max_iter: int) -> None:
        """Work for about `seconds` and at most up to `max_iter` steps in all (-1: no limit).

        Work comes in pieces of some 30 ms at most for native kernels; at least one piece is done.
        """

    @abstractmethod
    def refresh(self, state: StateT, gradient: FloatArray, tol: float) -> None:
        """Go on from the true gradient at `state.beta`, to the tolerance `tol`."""

    def kept(self, state: StateT) -> TrackedGradient | None:
        """Return values of K beta that the solver has kept up to date, if it has any, for the certificate."""
        del state
        return None


@dataclass(frozen=True)
class Progress:
    """What a callback is told; returning True from it stops the fit.

    Attributes
    ----------
    seconds : float
        Since this machine's solver started.
    n_iter : int
        Steps so far.
    violation, dual : float
        KKT violation and dual objective, as the solver sees them.
    tol : float
        The violation asked for.
    stage : str
        What is being done.
    """

    seconds: float
    n_iter: int
    violation: float
    dual: float
    tol: float
    stage: str = "solve"


Callback = Callable[[Progress], object]
