"""A kernel machine with hinge loss that is penalised in its coefficients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, combine
from mercer.certificates.status import Status
from mercer.data.arguments import check_choice, check_learning_rate, check_number
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import Iterated
from mercer.estimators._by_pairs import ByPairs
from mercer.estimators._probabilities import Check
from mercer.gram import Gram
from mercer.kernels import Gamma, Kernel
from mercer.multiclass import training
from mercer.solvers import Control, Limits, Progress
from mercer.solvers.loop import SolverMonitor
from mercer.solvers.smooth import descent
from mercer.specs import ForGradientKernelSVC


class GradientKernelSVC(Iterated, ByPairs):
    """Kernel machine with hinge loss and a penalty on its coefficients, trained by gradient steps and certified.

    **Solves** for each pair of classes, y_i = +1 or -1, with h(x) = sum_i s_i alpha_i y_i k(x_i, x) + b,

        min  sum_i s_i max(0, 1 - y_i h(x_i)) + penalty/2 sum_i s_i alpha_i^2   s.t. alpha >= 0,

    where s_i is the weight of the row times the weight of its class (textbooks have s_i = 1). The penalty sum alpha^2
    differs from the ||w||^2 of `SVC`, so this machine does not maximise the margin. The problem is convex for every
    symmetric function k.

    Parameters
    ----------
    penalty : float, default=1.0
        Weight of the penalty sum alpha^2, > 0 and finite.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    solver : {"accelerated", "descent"}, default="accelerated"
        "descent" takes the textbook's steps alpha <- max(0, alpha - rate dE/dalpha), b <- b - rate dE/db. It is meant
        for teaching, because it needs very many steps for a small gap. "accelerated" maximises the dual objective by
        Nesterov's method.
    learning_rate : float, optional
        The step size of "descent"; by default 2 / (penalty (t + 1)) in step t, and the best b after each step.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One machine for each pair of classes, or one for each class against the rest.
    class_weight : {"balanced"} or dict, optional
    tol : float, default=1e-4
        Largest relative duality gap of a machine.
    max_iter : int, default=100000
        Largest number of steps for each machine; -1 for no limit.
    max_seconds : float, optional
        Time limit of the training of all machines, in seconds. The certificate takes additional time.
    memory_limit : int, optional
        Largest size of the stored Gram matrix in bytes; default 1 GiB. A larger matrix is not stored: its values are
        computed again in each product.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them.
    verbose : int, default=0
        1 writes progress to stderr every five seconds; 2 writes every progress report.
    callback : callable, optional
        As for :class:`mercer.KernelLogisticRegression`.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`: it calibrates on decision values of rows by machines that were not
        trained on them, see `calibration_values`. A leave-one-out value needs a refit for almost every row.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        The decision values that the map is fitted to; see :class:`mercer.SVC`.
        "auto" means "folds" with more than 45 machines, or more than 200 rows for one machine.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_machines, n)
        s_i alpha_i y_i.
    intercept_ : ndarray of shape (n_machines,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``, if ``calibration_values_`` is "leave_one_out": leave-one-out decision values, up to
        the tolerance; NaN for rows of weight 0. Class weights and gamma are those of all rows.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        If ``calibration_values_`` is "folds": decision values by machines that were trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and the data that it was fitted to.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: the decision values that `calibration_` was fitted to ("leave_one_out" or "folds"),
        and the reason for this choice.
    X_fit_ : ndarray or csr_array of shape (n, p)
        The training rows.
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : ndarray of shape (n_machines,)
    certificate_ : Certificate
        Objectives and duality gap, recomputed in float64 independently of the solver; its `violation` is the relative
        gap.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If a limit or Ctrl-C ended the fit before the tolerance was met. The machine can still predict.

    Notes
    -----
    Costs n² kernel values, 8 n² bytes (at most `memory_limit`), and two products with the Gram matrix in each step. A
    fit takes some hundreds to thousands of steps.

    References
    ----------
    Nesterov (1983); O'Donoghue & Candès (2015) for restarts.

    Examples
    --------
    >>> from mercer import GradientKernelSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = GradientKernelSVC().fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 2)
    ('optimal', 0.96)
    """

    def __init__(
        self,
        penalty: float = 1.0,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        solver: str = "accelerated",
        learning_rate: float | None = None,
        multi_class: str = "ovo",
        class_weight: str | Mapping[Any, float] | None = None,
        tol: float = 1e-4,
        max_iter: int = 100_000,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
    ) -> None:
        self.penalty = penalty
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.learning_rate = learning_rate
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.probability = probability
        self.calibration = calibration
        self.calibration_values = calibration_values

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> GradientKernelSVC:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Weights >= 0. A row of weight k counts as k copies, each with its own alpha; a row of weight 0 is ignored.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.

        Returns
        -------
        GradientKernelSVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, a weight is negative, a callable kernel is not symmetric, or kernel values overflow.
        """
        control = self._control()
        limits = control.limits
        penalty = check_number("penalty", self.penalty, above=0.0, finite=True)
        rate = check_learning_rate(self.learning_rate)
        check_choice("multi_class", self.multi_class, training.SCHEMES)
        self._begin_probabilities()
        check_choice("solver", self.solver, descent.SOLVERS)
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight, groups)
        gram = self._gram(kernel, data, labels.rows)
        self._warn_if_constant(gram)
        if kernel.calls_function:
            gram.diag()  # refuses a function that is not symmetric: training and prediction would use different ones
        weights, codes = labels.weights[labels.rows], labels.codes[labels.rows]
        tasks = training.make_tasks(codes, labels.classes.size, self.multi_class)
        beta, biases, solutions = np.zeros((labels.rows.size, len(tasks))), np.zeros(len(tasks)), []
        multipliers = np.zeros_like(beta)
        began = time.perf_counter()
        with control.interruption:
            for column, task in enumerate(tasks):
                one = descent.minimise(
                    task.signs,
                    gram.restrict(task.rows),
                    weights[task.rows],
                    penalty,
                    solver=self.solver,
                    learning_rate=rate,
                    monitor=SolverMonitor(control, stage=self.solver, began=began),
                )
                beta[task.rows, column], biases[column] = one.beta, one.bias
                multipliers[task.rows, column] = one.multipliers
                solutions.append(one)
        self._keep_classes(kernel, data, labels, beta, biases)
        self.spec_, self._scheme = ForGradientKernelSVC(penalty=penalty), self.multi_class
        self._multipliers = multipliers
        self.n_iter_ = np.array([one.n_iter for one in solutions])
        certificate: Certificate = combine([one.certificate for one in solutions])
        self.certificate_ = certificate
        if certificate.status is not Status.OPTIMAL:
            warn_user(
                f"GradientKernelSVC ended as `{certificate.status}`: relative duality gap "
                f"{certificate.relative_gap:.3g} (tolerance {certificate.tol_gap:g}). {certificate.status.advice}",
                ConvergenceWarning,
            )
        elif self._has_probabilities():

            def without_rows(number: int, task: training.Task, view: Gram, check: Check) -> FloatArray:
                s = weights[task.rows]
                return descent.loo_values(solutions[number], task.signs, view, s, penalty, tol=limits.tol, check=check)

            def learnt(task: training.Task, view: Gram, check: Check) -> tuple[FloatArray, float]:
                one = descent.minimise(
                    task.signs,
                    view,
                    weights[task.rows],
                    penalty,
                    solver=self.solver,
                    learning_rate=rate,
                    monitor=SolverMonitor(Control(Limits(tol=limits.tol), lambda _: check())),
                )
                return one.beta, one.bias

            self._calibrate_in_time(without_rows, learnt, tasks, labels, gram, limits.max_seconds, began, refits=True)
        return self
