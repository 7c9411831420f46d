"""Support vector regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import specs
from mercer.certificates.evaluation import Evaluation
from mercer.data.arguments import check_choice, check_number
from mercer.estimators.parameters import check_finite_penalty
from mercer.estimators.regressor import VectorRegressor
from mercer.estimators.row_changes import Change, ChangesRows, RowsHeld
from mercer.estimators.targets import check_targets
from mercer.gram import Gram
from mercer.kernels import Gamma, Kernel
from mercer.problems import Problem
from mercer.solvers import Progress

_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class SVR(ChangesRows, VectorRegressor):
    """Support vector regression: deviations within a tube cost nothing. Solved exactly and certified.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    f(x) = <w, phi(x)> + b,

    C_i being C times the weight of the row, or with the squares of what is beyond the tube, through the dual

        max  y' beta - epsilon sum_i |beta_i| - 1/2 beta' K beta
        s.t. |beta_i| <= C_i,   sum_i beta_i = 0;

    with squares, less sum_i beta_i^2 / (4 C_i) and without the box.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        See :class:`SVC`.
    C : float, default=1.0
        Penalty of a unit of deviation beyond the tube, > 0.
    epsilon : float, default=0.1
        Half of the width of the tube, >= 0, in units of y. 0 gives least absolute deviations, or with squares the
        least-squares support vector machine.
    shrinking, cache_size
        Without effect; accepted for programs written for scikit-learn.
    verbose, max_iter
        See :class:`SVC`.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    fit_intercept : bool, default=True
        Whether there is a bias b.
    tol_gap, max_seconds, memory_limit, warm_start, n_jobs, callback
        See :class:`SVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Sparse where X was: a csr_array where ``sklearn.set_config(sparse_interface="sparray")`` asks for it. Empty for
        a precomputed kernel.
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray or csr_matrix of shape (1, n_SV)
        beta, signed: positive where the machine is below the target. Sparse where X was, with all its values stored.
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or csr_matrix of shape (1, n_features)
        Normal vector; for the linear kernel only. Read-only, sparse where X was.
    kernel_ : Kernel
        With all its parameters resolved to numbers.
    function_ : RKHSFunction
        f without its bias.
    n_iter_ : int
        Steps of the solver.
    fit_status_ : int
        0 if the result is certified optimal, else 1.
    recipe_ : Recipe
        What was solved: parameters as they were in `fit`, whatever they are set to since.
    shape_fit_ : tuple of int
    solution_ : Solution
        Two dual variables for each row, trace and status.
    certificate_ : Certificate
        Objectives, duality gap and violation, recomputed in float64 apart from the solver.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning, IndefiniteKernelWarning
        See :class:`SVC`.

    Notes
    -----
    Differs from scikit-learn's SVR: a weight of 0 is absence, a weight of k is k copies, also for gamma="scale";
    negative weights are errors; a fit ends.

    Costs what :class:`SVC` costs on as many rows: the two variables of a row share its kernel values.

    References
    ----------
    Vapnik (1998); Smola & Schölkopf (2004), A tutorial on support vector regression, equation (10).

    Examples
    --------
    >>> from mercer import SVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = SVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 2)
    ('optimal', 0.67)
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: int = False,
        max_iter: int = -1,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            See :meth:`SVC.fit`.
        y : array-like of shape (n,)
            Targets, finite numbers.
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        SVR
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X or y that hold text, NaN or infinity; for y of another length or
            with several columns; for negative weights; and for kernel values that overflow.
        TypeError
            For y that holds dates or times.
        """
        with self._all_or_nothing():
            self._train(X, y, sample_weight, self._asked())
            self.__dict__.pop("_held", None)
            return self

    def _asked(self) -> specs.ForSVR:
        """What makes the problem, where all that is asked for exists."""
        C, epsilon = check_finite_penalty(self.C), check_number("epsilon", self.epsilon, at_least=0.0, finite=True)
        squared = check_choice("loss", self.loss, _LOSSES) == "squared_epsilon_insensitive"
        return specs.ForSVR(C=C, epsilon=epsilon, squared=squared, bias=bool(self.fit_intercept))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train on more rows: the machine is then the one that all rows train that it was given.

        The known solution is followed to that with the rows, and certified over all of them: the order of batches and
        their sizes do not matter. See docs/concepts/changing_rows.md.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), or sequence of m strings, lists of tokens or sets
            See :meth:`fit`; copied.
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        SVR
            Itself. What stays as it is, and what limits do, see :meth:`forget`: a `gamma` such as "scale" is that of
            the first batch.

        Raises
        ------
        ValueError
            As in :meth:`fit`; for precomputed kernels, from the second call; if the training rows are not at hand, see
            :meth:`forget`. The machine is as it was.

        Warns
        -----
        ConvergenceWarning
            See :meth:`forget`.

        Notes
        -----
        Costs what :meth:`forget` does. The rows are kept, and pickled with the machine.
        """
        if not hasattr(self, "kernel_"):
            with self._all_or_nothing():
                self._train(self._own_rows(X, y), y, sample_weight, self._asked())
                return self._keep_rows()
        self._change(*self._with_more(X, y, sample_weight, check_targets))
        return self

    def _told(self) -> tuple[Any, Any]:
        return self._targets, np.ones(self._targets.size) if self._weights is None else self._weights

    def _check_left(self, held: RowsHeld, later: RowsHeld) -> None:
        """Any rows train a regressor."""

    def _problem(self, held: RowsHeld, gram: Gram) -> tuple[Problem, Any]:
        rows = held.rows
        return self.spec_.problem(held.targets[rows], self.spec_.C * held.weights[rows], gram), np.arange(rows.size)

    def _solve_anew(self, change: Change) -> list[Evaluation | None]:
        limits, listener = self._limits(), self._listener()
        held = change.held
        last, now = self._problem(change.last, change.gram), self._problem(held, change.gram)
        solutions, evaluations = self._solve_nearby(change, [last], [now], limits, listener)
        self._targets, self._weights = held.targets, held.weights
        self._take(now[0], solutions, held.data, held.rows)
        return evaluations
