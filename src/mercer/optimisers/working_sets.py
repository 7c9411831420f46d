"""Osuna's working sets: quadratic programs on growing sets of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.data.arguments import check_whole
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.kernel_machine import KernelSVM
from mercer.solvers import Control, Limits, solve

_VIOLATION = 1e-10  # violation to which the quadratic program of a working set is solved


class OsunaWorkingSets(Optimiser):
    """Working-set training of a kernel SVM, with or without a bias (Osuna 1997).

        1  S is empty
        2  repeat
        3      solve the QP in the alpha_i with i in S; alpha_i = 0 for all other i
        4      remove from S every i with alpha_i = 0
        5      add to S rows outside S that violate their KKT condition
        6  until no row does

    The quadratic program of a set is solved by the library's own solver.

    Parameters
    ----------
    n_added : int or None, default 200
        Largest number of rows that a round adds, those of the largest violation first; half of them are from each class
        if the machine has a bias. None adds all rows that violate their condition. At alpha = 0
        these are all rows, so that the first set is the whole problem.

    Notes
    -----
    Cost: O(n |S|) kernel values and a quadratic program of |S| variables a round. Guarantee: the dual objective
    increases in every round, and since there are finitely many sets, the method ends at the optimum (Osuna, Freund &
    Girosi 1997).

    References
    ----------
    Osuna, Freund & Girosi (1997), An improved training algorithm for support vector machines.

    Examples
    --------
    >>> from mercer.optimisers import OsunaWorkingSets, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], kernel="linear", C=10.0)
    >>> abs(OsunaWorkingSets(n_added=2).minimise(problem, tol_gap=1e-8).point).round(6).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """

    name = "Osuna's working sets"
    unit = "round"
    needs = "a kernel SVM"

    def __init__(self, n_added: int | None = 200) -> None:
        self.n_added = check_whole("n_added", n_added, unit="rows of both classes", at_least=2)

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a kernel SVM."""
        return isinstance(problem, KernelSVM)

    def steps(self, problem: KernelSVM, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        y, gram, control = problem.y, problem.gram.afresh(), Control(Limits(tol=_VIOLATION))
        beta, f, n_rounds = np.zeros(y.size), np.zeros(y.size), 0  # beta_i = alpha_i y_i; f includes the bias
        in_set = np.zeros(y.size, dtype=bool)
        while True:
            yield Step(n_rounds, beta.copy(), gram.n_values)
            added = self._violators(problem, beta, f, in_set)
            if not added.size:
                return
            in_set &= beta != 0.0
            in_set[added] = True
            S = np.flatnonzero(in_set)
            solution = solve(problem.problem.part(S), gram.restrict(S), control=control, start=beta[S])
            beta[S] = solution.beta
            f = gram.matvec(beta) + solution.bias
            n_rounds += 1

    def _violators(self, problem: KernelSVM, beta: FloatArray, f: FloatArray, in_set: BoolArray) -> IndexArray:
        """Return rows outside the set with y f < 1, those of the largest violation first."""
        y = problem.y
        short = np.where(in_set, 0.0, 1.0 - y * f)
        classes = [y > 0.0, y < 0.0] if problem.has_bias else [np.ones(y.size, dtype=bool)]
        chosen = []
        for members in classes:
            rows = np.flatnonzero(members & (short > _VIOLATION) & (beta == 0.0))
            most = rows.size if self.n_added is None else self.n_added // len(classes)
            chosen.append(rows[np.argsort(-short[rows], kind="stable")][:most])
        return np.concatenate(chosen)
