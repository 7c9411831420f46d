"""A kernel machine with a penalty on its coefficients, trained by gradient descent as `GradientKernelSVC` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import check_number
from mercer.data.arguments import check_flag, check_learning_rate
from mercer.gram import Gram
from mercer.kernels.kernel import Kernel
from mercer.optimisers.base import Measure, MeasuredProblem, Optimiser, Step
from mercer.optimisers.rounding import EPS
from mercer.optimisers.rows import as_gram, as_signs, require_signs
from mercer.solvers.smooth import descent
from mercer.solvers.smooth.kernel_newton import KernelProduct


@dataclass(frozen=True, eq=False)
class CoefficientMachine(MeasuredProblem):
    """A kernel machine with a penalty on its coefficients instead of on ||w||.

    **Solves**

        min  sum_i max(0, 1 - y_i h(x_i)) + penalty/2 sum_i alpha_i^2   s.t. alpha >= 0,
        h(x) = sum_i alpha_i y_i k(x_i, x) + b

    The penalty is not ||w||^2, so this is not a support vector machine and does not maximise the margin. A point is a
    `Point` of `mercer.solvers.smooth.descent`.
    """

    y: FloatArray
    gram: Gram
    penalty: float

    def __post_init__(self) -> None:
        require_signs(self.y, self.gram.n)
        check_number("penalty", self.penalty, above=0.0, finite=True)

    @property
    def name(self) -> str:
        """The name of the problem, with its article."""
        return "a kernel machine with a penalty on its coefficients"

    def measure(self, point: descent.Point) -> Measure:
        """Return objective, dual value and the relative gap as the violation."""
        about = self.gram.kernel, self.gram.data, self.gram.idx, self.y, np.ones(self.y.size), self.penalty, point
        evaluation = descent.CoefficientEvidence(*about, self.gram.n_threads, self.gram.memory_limit).evaluate(
            fitted=self.gram
        )
        error = max(evaluation.rounding, EPS * abs(evaluation.primal))
        return Measure(
            evaluation.primal + error, evaluation.primal - evaluation.gap - error, max(0.0, evaluation.relative_gap)
        )


def coefficient_machine(
    X: Any, y: npt.ArrayLike, *, penalty: float = 1.0, kernel: str | Kernel = "rbf"
) -> CoefficientMachine:
    """Return the problem of a kernel machine with a penalty on its coefficients, for two classes.

    Parameters
    ----------
    X : array-like or CSR of shape (n, p)
    y : array-like of shape (n,)
        Labels of two classes. The larger one counts as +1.
    penalty : float, default 1.0
        Weight of the penalty, > 0.
    kernel : str or Kernel, default "rbf"

    Examples
    --------
    >>> from mercer.optimisers import KernelGradientDescent, coefficient_machine
    >>> problem = coefficient_machine([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> print(KernelGradientDescent().minimise(problem, tol_gap=1e-3).status)
    optimal
    """
    gram = as_gram(X, kernel)
    return CoefficientMachine(as_signs(y, gram.n), gram, penalty)


class KernelGradientDescent(Optimiser):
    """Gradient descent on the coefficients of a kernel machine.

        alpha <- max(0, alpha - eta dE/dalpha),   b <- b - eta dE/db

    Parameters
    ----------
    learning_rate : float, optional
        Length eta of a step, for alpha and b. By default it is 2 / (penalty (t + 1)) in step t, and b is the best one
        for each alpha: the penalty does not count b, which therefore needs a step of its own.
    accelerated : bool, default False
        Whether to run Nesterov's method on the dual problem instead, which is the default of ``GradientKernelSVC``.

    Notes
    -----
    Cost: two products with K a step, O(n^2). Guarantee: within O(1 / (penalty t)) of the optimum after t steps of the
    default length; within O(1 / t^2) if accelerated.

    References
    ----------
    Alpaydin (2014), section 13; Nesterov (1983); Beck & Teboulle (2009).

    Examples
    --------
    >>> from mercer.optimisers import KernelGradientDescent, coefficient_machine
    >>> problem = coefficient_machine([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> print(KernelGradientDescent(accelerated=True).minimise(problem, tol_gap=1e-8).status)
    optimal
    """

    name = "kernel gradient descent"
    needs = "a kernel machine with a penalty on its coefficients"

    def __init__(self, learning_rate: float | None = None, accelerated: bool = False) -> None:
        self.learning_rate = check_learning_rate(learning_rate)
        self.accelerated = check_flag("accelerated", accelerated)
        if accelerated and learning_rate is not None:
            raise ValueError(
                "learning_rate must be None if accelerated is True: Nesterov's method finds its own steps."
            )

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a `CoefficientMachine`."""
        return isinstance(problem, CoefficientMachine)

    def steps(self, problem: CoefficientMachine, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        y, gram = problem.y, problem.gram.afresh()
        product, point = KernelProduct(gram, lambda: None), descent.Point(np.zeros(y.size), 0.0, np.zeros(y.size))
        yield Step(0, point, gram.n_values)
        for _ in product.prepare():
            yield Step(0, point, gram.n_values)
        about = y, np.ones(y.size), problem.penalty, product, point
        algorithm = (
            descent.ascend(*about, 0.0) if self.accelerated else descent.descend(*about, 0.0, self.learning_rate)
        )
        for step in algorithm:
            yield Step(step.n_iter, point, gram.n_values)
