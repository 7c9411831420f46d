"""The perceptron, primal and dual, as `KernelPerceptron` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Vectors, check_choice, check_count
from mercer.gram import Gram
from mercer.kernels import Linear
from mercer.kernels.kernel import Kernel
from mercer.optimisers.base import Measure, MeasuredProblem, Optimiser, Step, TraceRow
from mercer.optimisers.rows import as_gram, as_signs, require_signs
from mercer.solvers.smooth.perceptron import Learnt, passes


@dataclass(frozen=True, eq=False)
class Separation(MeasuredProblem):
    """Find f(x) = sum_i alpha_i y_i k(x_i, x) with y_i f(x_i) > 0 for all rows.

    This has no objective to minimise, and so no gap: the trace shows the perceptron criterion, sum of -y_i f(x_i) over
    the mistakes, as the objective, and the number of mistakes as the violation. A point is a `Learnt` of
    `mercer.solvers.smooth.perceptron`.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1 and +1.
    gram : Gram
    table : ndarray or csr_array of shape (n, p), optional
        The rows, for the primal form; None if the kernel is not linear.
    """

    y: FloatArray
    gram: Gram
    table: Any = None

    def __post_init__(self) -> None:
        require_signs(self.y, self.gram.n)

    @property
    def name(self) -> str:
        """The name of the problem, with its article."""
        return "a separation of two classes"

    def measure(self, point: Learnt) -> Measure:
        """Return the perceptron criterion and the number of rows with y f(x) <= 0."""
        margin = self.y * self.gram.matvec(point.weights * point.alpha * self.y)
        return Measure(float(np.maximum(0.0, -margin).sum()), -np.inf, float(np.count_nonzero(margin <= 0.0)))

    def is_solved(self, row: TraceRow, tol_gap: float) -> bool:
        """Whether no row is a mistake."""
        del tol_gap
        return row.violation == 0.0


def separation(X: Any, y: npt.ArrayLike, *, kernel: str | Kernel = "linear") -> Separation:
    """Return the problem of separating two classes.

    Parameters
    ----------
    X : array-like or CSR of shape (n, p)
    y : array-like of shape (n,)
        Labels of two classes. The larger one counts as +1.
    kernel : str or Kernel, default "linear"

    Examples
    --------
    >>> from mercer.optimisers import Perceptron, separation
    >>> run = Perceptron().minimise(separation([[1.0, 1.0], [2.0, 1.0], [-1.0, 0.5]], [1, 1, 0]))
    >>> print(run.status, run.point.n_mistakes)
    optimal 1
    """
    gram = as_gram(X, kernel)
    table = gram.data.stored if isinstance(gram.data, Vectors) and gram.kernel == Linear() else None
    return Separation(as_signs(y, gram.n), gram, table)


class Perceptron(Optimiser):
    """The (batch) perceptron: a row with y_i f(x_i) <= 0 is a mistake, and y_i k(x_i, .) is added to f.

    Parameters
    ----------
    form : {"dual", "primal"}, default "dual"
        "dual" counts the mistakes alpha of each row. "primal" updates w, for a linear kernel. Both make the same
        mistakes.
    max_passes : int, default 1000
        Largest number of passes over the rows.

    Notes
    -----
    A step of the trace is a mistake. Cost: O(n) kernel values for a mistake, or O(n p) in the primal form. Guarantee:
    at most (R / rho)^2 mistakes if all rows have norms of at most R and can be separated with distance rho from the
    plane (Novikoff 1962). If the classes cannot be separated, it never ends by itself.

    References
    ----------
    Rosenblatt (1958); Novikoff (1962); Cristianini & Shawe-Taylor (2000), section 2.1.1.

    Examples
    --------
    >>> from mercer.optimisers import Perceptron, separation
    >>> problem = separation([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0], kernel="rbf")
    >>> print(Perceptron().minimise(problem).status)
    optimal
    """

    name = "perceptron"
    unit = "mistake"
    needs = "a separation of two classes"

    def __init__(self, form: str = "dual", max_passes: int = 1000) -> None:
        self.form = check_choice("form", form, ("dual", "primal"))
        self.max_passes = check_count("max_passes", max_passes)

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a separation."""
        return isinstance(problem, Separation)

    def steps(self, problem: Separation, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        rows = problem.table if self.form == "primal" else None
        if self.form == "primal" and rows is None:
            raise TypeError(f"the primal form needs a linear kernel, got {problem.gram.kernel!r}. Take form='dual'.")
        n = problem.y.size
        w = None if rows is None else np.zeros(rows.shape[1])
        machine, gram = Learnt(np.zeros(n), np.zeros(n), np.ones(n), w), problem.gram.afresh()
        yield Step(0, machine)
        for step in passes(machine, problem.y, gram, rows, self.max_passes):
            yield Step(step.n_iter, machine, gram.n_values)
