"""What all solvers of linear problems have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import LinearPoint
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.linear import LinearProblem
from mercer.solvers.loop import Step

NEWTON_IDLE, PROXIMAL_IDLE = 8, 20
"""Successive Newton steps, and proximal steps, without progress, after which rounding prevents it."""


class StallCounter:
    """Counts successive steps in which a measure, such as the gap, does not fall below a share of its least value."""

    def __init__(self, share: float = 0.5) -> None:
        self._share, self.least, self.idle = share, float("inf"), 0

    def count(self, measure: float) -> int:
        """Return the number of successive steps without progress, this one included."""
        self.idle = 0 if measure < self._share * self.least else self.idle + 1
        self.least = min(self.least, measure)
        return self.idle


class LinearSolver(ABC):
    """One algorithm, with the point that it has reached.

    Attributes
    ----------
    name : str
    share : float
        Share of the tolerance for the gap to which the solver's own estimate must fall.
    problem : LinearProblem
    n_iter : int
        Steps so far.
    check : callable
        Called between the blocks of a sweep; it raises an error to end the work.
    """

    name: str
    share: float = 0.5
    problem: LinearProblem
    n_iter: int = 0

    def __init__(self, problem: LinearProblem, check: Callable[[], None]) -> None:
        self.problem, self.check = problem, check

    @abstractmethod
    def steps(self, tol: float) -> Iterator[Step]:
        """Work until the relative gap is at most `tol` by the solver's own estimate, or no progress is possible.

        It may be called again with a smaller `tol` and then continues.
        """

    @abstractmethod
    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights and feasible dual coefficients of the point."""

    @property
    def weights(self) -> FloatArray:
        """The weights of the point."""
        return self.solution()[0]

    @property
    def factor(self) -> float | None:
        """Factor of the last proximal step; None without such steps."""
        return None

    def point_reached(self) -> LinearPoint:
        """Return the point that `solve` can continue from; it costs at most a sweep."""
        return LinearPoint(*self.solution(), self.problem.C, self.factor)

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes of matrices and of the numbers of the rows."""
