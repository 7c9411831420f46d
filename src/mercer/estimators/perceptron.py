"""The perceptron, with a kernel or with a normal vector."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray
from mercer.data import Vectors
from mercer.data.arguments import check_callback, check_choice, check_count, check_seconds
from mercer.estimators.by_pairs import ByPairs
from mercer.estimators.probabilities import Check
from mercer.gram import CachePolicy, Gram
from mercer.kernels import Gamma, Kernel, Linear
from mercer.losses import perceptron
from mercer.multiclass import training
from mercer.solvers import Interruption, Progress
from mercer.specs import ForKernelPerceptron

FORMS = ("dual", "primal")


class KernelPerceptron(ByPairs):
    """The (batch) perceptron, in its dual form, with a kernel, or its primal one.

    Starting from f = 0, the rows are gone through in their order; where y_i f(x_i) <= 0, a mistake, y_i k(x_i, .) is
    added to f. That is repeated until a pass has no mistake, or `max_passes` are over. There is no bias;
    ``kernel=Linear() + 1`` has one.

    It minimises nothing, so there is no certificate, and rows have no weights: copies of a row are gone through one
    after the other, which no longer step is equal to. But `separated_` is true in float64.

    Parameters
    ----------
    max_passes : int, default=1000
        Most passes over the rows, >= 1. Where classes cannot be separated, there is always a mistake.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="linear"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    form : {"dual", "primal"}, default="dual"
        Whether the counts alpha or, with the linear kernel, the vector w is kept. Both make the same mistakes.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One machine for each pair of classes, or one for each class against the rest.
    max_seconds : float, optional
        Wall-clock limit, of all machines together.
    memory_limit : int, optional
        Bytes that kept rows of the Gram matrix may take; default 1 GiB.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    callback : callable, optional
        Called about every 50 ms with a :class:`mercer.solvers.Progress`: `n_iter` is the number of mistakes,
        `violation` the number of rows of a pass that were wrong at the last one, `dual` the perceptron criterion.
        Returning True stops the fit.
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a leave-one-out pass: rows that never were
        a mistake have changed nothing, and without each of the others all is learnt anew.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        Which decision values the map is fitted to; see :class:`mercer.SVC`.
        "auto" takes folds for more than 45 machines, and more than 2,000 rows in one of them.
    class_weight : {"balanced"} or dict, optional
        How far a mistake of each class moves f: by its weight times y_i k(x_i, .), as scikit-learn's Perceptron has it.
        Where the classes can be separated, they still are.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    alpha_ : ndarray of shape (n_machines, n)
        How often each row was a mistake.
    dual_coef_ : ndarray of shape (n_machines, n)
        alpha_i y_i, times the weight of the class.
    class_weight_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_machines, p)
        Normal vectors; in the primal form.
    n_mistakes_, n_passes_ : ndarray of shape (n_machines,)
        Mistakes k, and passes made.
    criterion_ : ndarray of shape (n_machines,)
        The perceptron criterion at the end: sum of -y f(x) over the rows with y f(x) <= 0, by class weight.
    separated_ : ndarray of bool of shape (n_machines,)
        Whether every training row has y f(x) > 0.
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``: decision values of each row by machines trained without it.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        The same, where ``calibration_values_`` is "folds": by machines trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: which decision values `calibration_` was fitted to, and why these.
    X_fit_ : ndarray or csr_array of shape (n, p)
    kernel_ : Kernel
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.

    Warns
    -----
    ConvergenceWarning
        If `max_passes` were over and the classes are not separated; or if the time limit, the callback or Ctrl-C ended
        the fit before. The machine is usable.

    Notes
    -----
    The last f is kept, whatever it is. Where nothing separates the classes, f circles without end: it is then no better
    after 1000 passes than after 50, and where it ends is chance.

    Without a row that never was a mistake, the same mistakes are made: its leave-one-out decision value is the one that
    it has. Another row costs as many additions as the fit; those of all are made together.

    Costs n kernel values a mistake, of which there are at most (R / M)² for rows of length at most R that a hyperplane
    through the origin separates with distance M; with class weights, times the square of the largest over the smallest.

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
        max_passes: int = 1000,
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
        # Where nothing separates the classes, as in scikit-learn's checks of accuracy, the last vector is chance.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> KernelPerceptron:
        """Go through the rows until there are no mistakes.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)

        Returns
        -------
        KernelPerceptron
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; and for kernel values that overflow.
        """
        passes = check_count("max_passes", self.max_passes)
        seconds = check_seconds(self.max_seconds)
        check_callback(self.callback)
        check_choice("multi_class", self.multi_class, training.SCHEMES)
        self._begin_probabilities()
        check_choice("form", self.form, FORMS)
        kernel, data, labels = self._rows_of_classes(X, y, None, self.class_weight)
        primal = self.form == "primal"
        if primal and not isinstance(kernel, Linear):
            raise ValueError(f'form="primal" keeps the normal vector, which takes kernel="linear", got {kernel!r}.')
        used, weights = labels.rows, labels.weights[labels.rows]
        vectors = data.rows(used).float64() if primal and isinstance(data, Vectors) else None
        gram = self._gram(kernel, data, used, keep=CachePolicy.EXPENSIVE)
        tasks = training.make_tasks(labels.codes[used], labels.classes.size, self.multi_class)
        beta, alpha = np.zeros((used.size, len(tasks))), np.zeros((len(tasks), data.n))
        found = []
        began = time.perf_counter()
        with Interruption() as interruption:
            for column, task in enumerate(tasks):
                one = perceptron.learn(
                    task.signs,
                    gram.restrict(task.rows),
                    weights=weights[task.rows],
                    rows=None if vectors is None else vectors[task.rows],
                    max_passes=passes,
                    max_seconds=seconds,
                    callback=self.callback,
                    interruption=interruption,
                    began=began,
                )
                beta[task.rows, column] = one.alpha * one.weights * task.signs
                alpha[column, used[task.rows]] = one.alpha
                found.append(one)
        self.kernel_, self.classes_, self._scheme = kernel, labels.classes, self.multi_class
        self.class_weight_ = labels.class_weight
        self.spec_ = ForKernelPerceptron()
        self._keep(data, used, beta, np.zeros(len(tasks)))
        self.dual_coef_, self.alpha_ = np.ascontiguousarray(self._coefficients.T), alpha
        self.__dict__.pop("coef_", None)
        if primal:
            self.coef_ = np.array([one.w for one in found])
        self.n_mistakes_ = np.array([one.n_mistakes for one in found])
        self.n_passes_ = np.array([one.n_passes for one in found])
        pairs = list(zip(found, tasks, strict=True))
        self.criterion_ = np.array([one.criterion(task.signs) for one, task in pairs])
        self.separated_ = np.array([one.separates(task.signs) for one, task in pairs])
        stopped = [one.stopped for one in found if one.stopped is not None]
        if stopped:
            warnings.warn(
                f"KernelPerceptron ended as `{stopped[0]}` after {int(self.n_mistakes_.sum())} mistakes, before its "
                "passes were over: the machine is usable.",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif not self.separated_.all():
            warnings.warn(
                f"KernelPerceptron made mistakes to the end of max_passes={passes}: "
                f"{np.count_nonzero(~self.separated_)} of {len(tasks)} machines do not separate their classes, and "
                "keep the last vector, which need not be a good one. Where no hyperplane through the origin separates "
                "them, more passes change nothing: use another kernel (Linear() + 1 has a bias), or SVC.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if self._has_probabilities() and not stopped:

            def without_rows(number: int, task: training.Task, own: Gram, check: Check) -> FloatArray:
                return perceptron.loo_values(found[number], task.signs, own, max_passes=passes, check=check)

            def learnt(task: training.Task, own: Gram, check: Check) -> tuple[FloatArray, float]:
                one = perceptron.learn(
                    task.signs, own, weights=weights[task.rows], max_passes=passes, callback=lambda _: check()
                )
                return one.alpha * one.weights * task.signs, 0.0

            self._calibrate_in_time(without_rows, learnt, tasks, labels, gram, seconds, began, refits=False)
        return self
