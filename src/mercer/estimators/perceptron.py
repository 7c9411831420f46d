"""The perceptron, in its dual form with a kernel or in its primal form with a normal vector."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.data.arguments import check_callback, check_choice, check_count, check_seconds
from mercer.data.user_warnings import warn_user
from mercer.estimators._by_pairs import ByPairs
from mercer.estimators._probabilities import Check
from mercer.gram import CachePolicy, Gram
from mercer.kernels import Gamma, Kernel, Linear
from mercer.multiclass import training
from mercer.solvers import Control, Interruption, Limits, Progress
from mercer.solvers.smooth import perceptron
from mercer.specs import ForKernelPerceptron

FORMS = ("dual", "primal")


class KernelPerceptron(ByPairs):
    """The perceptron, in its dual form with a kernel or in its primal form.

    The function starts at f = 0, and each pass visits the rows in their order. A row with y_i f(x_i) <= 0 is a mistake:
    y_i k(x_i, .) is added to f. The passes end when one makes no mistake, or after `max_passes`. There is no bias;
    ``kernel=Linear() + 1`` adds one.

    The perceptron solves no optimisation problem, so it has no certificate. Rows have no weights, because visiting
    copies of a row one after the other does not equal one longer step. `separated_` is correct despite rounding.

    Parameters
    ----------
    max_passes : int, default=300
        Largest number of passes over the rows, >= 1. If the classes cannot be separated, every pass makes a mistake.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="linear"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    form : {"dual", "primal"}, default="dual"
        "dual" stores the counts alpha of mistakes; "primal" stores the normal vector w and needs the linear kernel.
        Both make the same mistakes.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One machine for each pair of classes, or one for each class against the rest.
    max_seconds : float, optional
        Time limit of all machines together, in seconds.
    memory_limit : int, optional
        Largest size of the row cache in bytes; default 1 GiB.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    callback : callable, optional
        Function that is called about every 50 ms with a :class:`mercer.solvers.Progress`: `n_iter` is the number of
        mistakes, `violation` the number of mistakes in a pass, and `dual` the perceptron criterion. If it
        returns a true value, the fit stops.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`: it calibrates on decision values of rows by machines that were not
        trained on them, see `calibration_values`. A leave-one-out value needs a refit if the row was ever a mistake.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        The decision values that the map is fitted to; see :class:`mercer.SVC`.
        "auto" means "folds" with more than 45 machines, or more than 2,000 rows for one machine.
    class_weight : {"balanced"} or dict, optional
        Step size by class: a mistake adds the weight of its class times y_i k(x_i, .) to f, as in scikit-learn's
        Perceptron. Separable classes are separated with any class weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    alpha_ : ndarray of shape (n_machines, n)
        Number of mistakes on each row.
    dual_coef_ : ndarray of shape (n_machines, n)
        alpha_i y_i, times the weight of the class.
    class_weight_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_machines, p)
        Normal vectors, with ``form="primal"``.
    n_mistakes_, n_passes_ : ndarray of shape (n_machines,)
        Number of mistakes, and number of passes.
    criterion_ : ndarray of shape (n_machines,)
        The perceptron criterion at the end: sum of -y f(x) over the rows with y f(x) <= 0, by class weight.
    separated_ : ndarray of bool of shape (n_machines,)
        Whether every training row has y f(x) > 0.
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``, if ``calibration_values_`` is "leave_one_out": leave-one-out decision values.
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
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If the classes are not separated after `max_passes`, or if the time limit, the callback or Ctrl-C ended the fit
        earlier. The machine can still predict.

    Notes
    -----
    The fitted machine is the last f. If the classes cannot be separated, f does not converge: it is no better after
    1,000 passes than after 50.

    A row that was never a mistake did not change f: its leave-one-out decision value is its decision value. Every other
    row costs as many additions as the fit.

    Costs n kernel values for each mistake. If all rows have norms of at most R and a hyperplane through the origin
    separates the classes with distance M, there are at most (R / M)² mistakes. With class weights, the bound is
    multiplied by the square of the largest over the smallest class weight.

    References
    ----------
    Rosenblatt (1958); Novikoff (1962); Cristianini & Shawe-Taylor (2000), section 2.1.1.

    Examples
    --------
    >>> from mercer import KernelPerceptron
    >>> machine = KernelPerceptron().fit([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]], [1, 0, 0])
    >>> machine.alpha_.tolist(), machine.n_mistakes_.tolist(), machine.n_passes_.tolist(), machine.separated_.tolist()
    ([[1.0, 1.0, 0.0]], [2], [2], [True])
    """

    verbose = 0

    def __init__(
        self,
        max_passes: int = 300,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        form: str = "dual",
        multi_class: str = "ovo",
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
    ) -> None:
        self.max_passes = max_passes
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.form = form
        self.multi_class = multi_class
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.callback = callback
        self.probability = probability
        self.calibration = calibration
        self.calibration_values = calibration_values
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The classes of scikit-learn's accuracy checks cannot be separated, so that the last vector is arbitrary.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> KernelPerceptron:
        """Make passes over the rows until one has no mistakes.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.

        Returns
        -------
        KernelPerceptron
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, or kernel values overflow.
        """
        passes = check_count("max_passes", self.max_passes)
        seconds = check_seconds(self.max_seconds)
        check_callback(self.callback)
        check_choice("multi_class", self.multi_class, training.SCHEMES)
        self._begin_probabilities()
        check_choice("form", self.form, FORMS)
        kernel, data, labels = self._rows_of_classes(X, y, None, self.class_weight, groups)
        primal = self.form == "primal"
        if primal and not isinstance(kernel, Linear):
            raise ValueError(f'form="primal" keeps the normal vector, which takes kernel="linear", got {kernel!r}.')
        used, weights = labels.rows, labels.weights[labels.rows]
        vectors = data.rows(used).float64() if primal and isinstance(data, Vectors) else None
        gram = self._gram(kernel, data, used, cache_policy=CachePolicy.EXPENSIVE)
        self._warn_if_constant(gram)
        tasks = training.make_tasks(labels.codes[used], labels.classes.size, self.multi_class)
        beta, alpha = np.zeros((used.size, len(tasks))), np.zeros((len(tasks), data.n))
        solutions = []
        began = time.perf_counter()
        control = Control(Limits(max_seconds=seconds), self.callback, Interruption(self._search))
        with control.interruption:
            for column, task in enumerate(tasks):
                one = perceptron.learn(
                    task.signs,
                    gram.restrict(task.rows),
                    weights=weights[task.rows],
                    rows=None if vectors is None else vectors[task.rows],
                    max_passes=passes,
                    control=control,
                    began=began,
                )
                beta[task.rows, column] = one.alpha * one.weights * task.signs
                alpha[column, used[task.rows]] = one.alpha
                solutions.append(one)
        self.kernel_, self.classes_, self._scheme = kernel, labels.classes, self.multi_class
        self.class_weight_ = labels.class_weight
        self.spec_ = ForKernelPerceptron()
        self._store_fit(data, used, beta, np.zeros(len(tasks)))
        self.dual_coef_, self.alpha_ = np.ascontiguousarray(self._coefficients.T), alpha
        self.__dict__.pop("coef_", None)
        if primal:
            self.coef_ = np.array([one.w for one in solutions])
        self.n_mistakes_ = np.array([one.n_mistakes for one in solutions])
        self.n_passes_ = np.array([one.n_passes for one in solutions])
        pairs = list(zip(solutions, tasks, strict=True))
        self.criterion_ = np.array([one.criterion(task.signs) for one, task in pairs])
        self.separated_ = np.array([one.separates(task.signs) for one, task in pairs])
        stopped = [one.stopped for one in solutions if one.stopped is not None]
        if stopped:
            warn_user(
                f"KernelPerceptron ended as `{stopped[0]}` after {int(self.n_mistakes_.sum())} mistakes, before its "
                "passes were over: the machine can still predict.",
                ConvergenceWarning,
            )
        elif not self.separated_.all():
            warn_user(
                f"KernelPerceptron made mistakes to the end of max_passes={passes}: "
                f"{np.count_nonzero(~self.separated_)} of {len(tasks)} machines do not separate their classes, and "
                "keep the last vector, which need not be a good one. Where no hyperplane through the origin separates "
                "them, more passes change nothing: use another kernel (Linear() + 1 has a bias), or SVC.",
                ConvergenceWarning,
            )
        if self._has_probabilities() and not stopped:

            def without_rows(number: int, task: training.Task, view: Gram, check: Check) -> FloatArray:
                return perceptron.loo_values(solutions[number], task.signs, view, max_passes=passes, check=check)

            def learnt(task: training.Task, view: Gram, check: Check) -> tuple[FloatArray, float]:
                checked = Control(callback=lambda _: check())
                one = perceptron.learn(task.signs, view, weights=weights[task.rows], max_passes=passes, control=checked)
                return one.alpha * one.weights * task.signs, 0.0

            self._calibrate_in_time(without_rows, learnt, tasks, labels, gram, seconds, began, refits=False)
        return self
