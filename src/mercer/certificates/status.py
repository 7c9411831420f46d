"""How a fit ends: the status of its certificate, and the errors and the warning for other endings."""

from __future__ import annotations

from enum import StrEnum

from mercer._typing import FloatArray


class Status(StrEnum):
    """How a fit ended; :attr:`advice` says what it means and what to do.

    A status equals its text: ``Status.OPTIMAL == "optimal"``.

    Examples
    --------
    >>> Status("max_iter").is_final, Status("stalled").is_final
    (False, True)
    """

    OPTIMAL = "optimal"
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    STATIONARY = "stationary"
    INFEASIBLE = "infeasible"
    UNVERIFIED = "unverified"

    @property
    def advice(self) -> str:
        """What this status means and what to do about it, in a sentence or two."""
        return _ADVICE[self]

    @property
    def is_final(self) -> bool:
        """Whether more iterations would not improve the result."""
        return self in (Status.OPTIMAL, Status.STATIONARY, Status.STALLED, Status.INFEASIBLE)


_ADVICE = {
    Status.OPTIMAL: "The optimality conditions hold to the tolerance asked for.",
    Status.MAX_ITER: "The limit on iterations came before the optimum; the violation says by how much the "
    "optimality conditions fail.",
    Status.TIME_LIMIT: "The time limit came before the optimum; the violation says by how much the "
    "optimality conditions fail.",
    Status.INTERRUPTED: "The fit was interrupted before the optimum; the violation says by how much the "
    "optimality conditions fail.",
    Status.STALLED: "Progress stopped, or is below what float64 can resolve, because of rounding or because the "
    "problem is badly conditioned. Scale the columns if their units differ, ask for a larger tolerance, or lower C "
    "(with a kernel, also its gamma or degree).",
    Status.STATIONARY: "The kernel is not known to be positive semidefinite: this is a point where the optimality "
    "conditions hold, but there may be better ones.",
    Status.INFEASIBLE: "The classes cannot be separated with this kernel, so there is no machine with C = inf. "
    "Use a finite C.",
    Status.UNVERIFIED: "The fit was interrupted before its certificate was computed; it is computed on first use.",
}


class InseparableError(ValueError):
    """The classes cannot be separated, so no machine with C = inf exists (status `infeasible`).

    Attributes
    ----------
    status : Status
        `infeasible`.
    weights : ndarray of shape (n,) or (n, n_classes)
        The proof: one nonnegative weight for each training row. The weights of each of two classes sum to 1; all other
        rows have weight 0. The two weighted means are equal in feature space (to rounding), so no hyperplane separates
        these classes. If the kernel is not positive semidefinite, the squared distance of the two means may be
        negative instead. Without a free bias, all weights sum to 1, and the weighted sums of the rows of both classes
        are equal; of a penalised bias, the rows have one more column. For a joint machine, the weights of a row are
        those of the classes, with the sign + for the row's class and - for others: the sums of signed rows are 0.
    distance : float
        Distance of the two means or sums, in feature space; 0 where its square is negative, and for linear machines.
    """

    status = Status.INFEASIBLE

    def __init__(self, message: str, weights: FloatArray, distance: float) -> None:
        super().__init__(message)
        self.weights = weights
        self.distance = distance

    def __reduce__(self) -> tuple[type[InseparableError], tuple[str, FloatArray, float]]:
        # A parallel search pickles errors; by default, unpickling would pass the message only.
        return type(self), (str(self), self.weights, self.distance)


class StoppedError(RuntimeError):
    """A search was stopped, by its time limit, Ctrl-C or a callback, before it had a result."""


class IndefiniteKernelWarning(UserWarning):
    """The kernel is not positive semidefinite on the training rows, or not known to be.

    The fit still ends, with the status `stationary` at best. `mercer.diagnose` says what is known about a kernel, and
    `clip`, `flip` and `shift` of `mercer.kernels` repair a matrix of kernel values.
    """
