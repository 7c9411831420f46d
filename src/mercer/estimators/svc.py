"""Support vector classification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mercer import problems, specs
from mercer.approximate import Way
from mercer.certificates.evaluation import Evaluation
from mercer.data.arguments import check_choice
from mercer.estimators._approximate import ApproximatesClasses
from mercer.estimators._device_training import host_targets
from mercer.estimators._kernel_from_file import FitsKernelFiles
from mercer.estimators._labels import Labels, check_classes, class_numbers
from mercer.estimators._row_changes import Change, ChangesRows, TrainingRows
from mercer.estimators._validation import check_penalty
from mercer.kernels import Gamma, Kernel
from mercer.multiclass import training
from mercer.problems import Problem
from mercer.solvers import Progress

_LOSSES = ("hinge", "squared_hinge")


class SVC(FitsKernelFiles, ApproximatesClasses, ChangesRows):
    """Support vector classifier, solved exactly and certified.

    **Solves** for each pair of classes, with y_i = +1 or -1,

        min  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)),    f(x) = <w, phi(x)> + b,

    where C_i is C times the weight of the row times the weight of its class, through the dual

        max  sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
        s.t. 0 <= alpha_i <= C_i,   sum_i alpha_i y_i = 0;

    With squared hinge loss the dual has the additional term - sum_i alpha_i^2 / (4 C_i) and no upper bounds. Without a
    bias it has no equality constraint.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a unit of hinge loss, > 0. Infinity gives the hard margin.
    kernel : str, Kernel or callable, default="rbf"
        "linear", "poly", "rbf", "sigmoid", "precomputed", or another name of :data:`mercer.kernels.NAMES`. The
        parameters of a kernel object are also parameters of the machine, such as ``kernel__gamma``. A callable gets two
        blocks of rows and returns the matrix of kernel values between them. With "precomputed", `X` is the matrix of
        kernel values: (n, n) in `fit`, (m, n) in `predict`.
    degree : int, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto", "median", "sigest"} or float, default="scale"
        "scale" is 1 / (n_features * X.var()), where a row of sample weight k counts as k copies; "auto" is
        1 / n_features. For "rbf", "median" is 1 / (median squared distance of different rows), and "sigest" is the rule
        of kernlab; see :class:`mercer.RBF`. ``kernel_.reasons`` explains the value that was found.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    shrinking, cache_size
        These have no effect. They are accepted and checked so that programs written for scikit-learn run unchanged.
        `memory_limit` bounds the memory of kernel values.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`: it calibrates on decision values of rows by machines that were not
        trained on them, see `calibration_values`. It uses no random numbers.
    tol : float, default=1e-3
        Largest violation of the optimality conditions (KKT), as LIBSVM measures it.
    class_weight : {"balanced"} or dict, optional
        Factors of C by class. "balanced" is n / (n_classes * n_k), where n and n_k are sums of sample weights.
    verbose : int, default=False
        1 writes to stderr which solver and backend were chosen and why, the progress every five seconds, and how the
        fit ended; 2 writes every progress report.
    max_iter : int, default=-1
        Largest number of solver steps for each machine; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` returns one score for each class, or the decision values of all pairs of classes.
        "ovo" needs ``multi_class="ovo"``.
    break_ties, random_state
        These have no effect. They are accepted and checked so that programs written for scikit-learn run unchanged.
        Confidence always breaks ties.
    multi_class : {"ovo", "ovr", "joint"}, default="ovo"
        "ovo" trains one machine for each pair of classes, "ovr" one for each class against the rest, and "joint" one
        machine for all classes with one slack for each row (see Notes).
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The loss that C multiplies: max(0, 1 - y_i f(x_i)), or its square.
    fit_intercept : bool, default=True
        Whether machines for two classes have a bias b. For a bias that is penalised like the other coefficients, add 1
        to the kernel instead.
    tol_gap : float, optional
        Largest relative duality gap, in addition to `tol`.
    max_seconds : float, optional
        Time limit of the training, in seconds. The certificate takes additional time.
    memory_limit : int, optional
        Largest memory of the fit in bytes, in addition to the input; default 1 GiB. It includes the row cache, the
        matrix of the working set, its factors, encodings of the input, arrays of length n, and 16 MiB for the system's
        allocator. A fit always takes the minimum that it needs: a working set of 512 rows, some 10 MB. If that exceeds
        the limit a warning is given, unless the limit is 0. The free memory of the computer is ignored, so that results
        do not depend on it.
    warm_start : bool, default=False
        Whether `fit` starts at the last solution, which must belong to the same rows and labels.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    callback : callable, optional
        Function that is called about every 50 ms with a :class:`mercer.solvers.Progress`. If it returns a true value,
        the fit stops.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic"}, default="sigmoid"
        The map from decision values to probabilities, which are those of the rows as they are, whatever the class
        weights. Without class weights, "sigmoid" and "isotonic" have P(f = 0) = 1/2, so that the predicted class has
        the largest probability; with class weights, and as "free" and "free_isotonic", their P(0) is estimated.
        "weighted" and "weighted_isotonic" give the probabilities of a population in which rows count by their class
        weights too; the predicted class then leads. docs/concepts/probabilities.md compares them.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        The decision values that the map is fitted to. "leave_one_out" takes values by machines without the row: they
        are exact, but expensive with many machines. "folds" takes values by machines without the row's fold; there are
        five folds, without randomness. "auto" means "folds" with more than 45 machines (pairs of classes), with more
        than 2,000 rows for one machine (200 if `multi_class` is "joint"), and for kernels that are not known to be
        positive semidefinite.
    approximation : {"landmarks", "cells", "auto"}, Landmarks, Cells or None, default=None
        None trains the exact machine. "landmarks" and :class:`mercer.Landmarks` train an approximate one, for more rows
        than an exact machine can be trained on: a sum of kernel values of a few rows, with the same loss. Its
        ``certificate_.distance_to_exact`` bounds how far its objective is above that of the exact machine. "cells" and
        :class:`mercer.Cells` divide the rows into cells of neighbours, each with an exact machine of its own. "auto"
        chooses one of the three by a pilot on 10,000 of the rows: by time (`max_seconds`), memory (`memory_limit`) and
        error. It is exact with fewer than 20,000 rows, and where no approximation is possible. `choice_` says why.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in the training rows, sorted by class.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Sparse if `X` was sparse (a csr_array after ``sklearn.set_config(sparse_interface="sparray")``). Empty for a
        precomputed kernel. If rows are strings or sets, an array of objects of shape (n_SV,).
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or csr_matrix of shape (n_classes - 1, n_SV) or (n_classes, n_SV)
        Signed dual coefficients: in LIBSVM's layout for one-versus-one, and with one row for each class for
        one-versus-rest and joint. Sparse, with zeros stored, if `X` was sparse.
    intercept_ : ndarray of shape (n_machines,)
        Biases of the machines.
    coef_ : ndarray or csr_matrix of shape (n_machines, n_features)
        Normal vectors w, for the linear kernel only. They are read-only, and sparse if `X` was.
    kernel_ : Kernel
        The kernel with numbers for all its parameters.
    function_ : RKHSFunction or tuple of RKHSFunction
        The decision function without its bias, one for each machine: ``function_(X) + intercept_`` are the decision
        values, and ``function_.norm ** 2`` is the ||w||^2 of the certificate.
    word_weights_ : WordWeights or tuple of WordWeights
        For kernels of words (:class:`mercer.Spectrum`, ...): the weight of each word in the decision function.
    C_ : float
        The C that `fit` used; setting `C` later does not change it.
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : ndarray of shape (n_machines,)
        Number of solver steps of each machine.
    fit_status_ : int
        0 if all machines are certified optimal, else 1.
    spec_ : MachineSpec
        The solved problem, with the parameter values that `fit` used; setting a parameter later does not change it.
    shape_fit_ : tuple of int
    machines_ : Machines
        The machines for two classes: the classes and rows of each (`tasks`), and its solution.
    solution_ : Solution or tuple of Solution
        Dual coefficients over all training rows, trace and status, for each machine.
    certificate_ : Certificate
        Primal and dual objective, duality gap and KKT violation, recomputed in float64 independently of the solver. If
        the gap and the violation did not need the objectives, these are computed on first use, from half of the kernel
        values between support vectors. ``certificate_.verify()`` computes the certificate again from the training data,
        which it refers to without a copy and does not pickle. ``certificate_.examples()`` lists the training examples
        of each machine: their KKT cases, slacks and categories (outside the margin, on it, violating it,
        misclassified), and the `margin` 2 / ||w||.
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``, if ``calibration_values_`` is "leave_one_out": leave-one-out decision values, as
        scores of classes; NaN for rows of weight 0.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        If ``calibration_values_`` is "folds": decision values by machines that were trained without the row's fold.
    approximation_ : mercer.approximate.ApproximateMachine
        Only with an `approximation`: what was trained, and why (`reason`). There are then no `machines_` and no
        `solution_`, and `n_iter_` is one number for all machines. With landmarks, `support_` are the landmarks, in the
        order of the draw, and `dual_coef_` has one row for each machine. With cells, ``approximation_.cells`` has the
        support vectors of each cell, and the attributes of a single sum are missing.
    choice_ : mercer.approximate.Choice
        Only with ``approximation="auto"``: the `way` that was chosen (None: exact), the `reason`, and what each
        candidate was expected to take. The rows of the pilot are drawn with seed 0. Measured times decide, so that
        another run can choose otherwise where times are similar.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and the data that it was fitted to.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: the decision values that `calibration_` was fitted to ("leave_one_out" or "folds"),
        and the reason for this choice.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.
    InseparableError
        If C is infinite and the classes cannot be separated.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. The machine can still predict.
    IndefiniteKernelWarning
        If the kernel is not positive semidefinite on the training rows, or is not proved to be.
    UserWarning
        If the fit needed more memory than `memory_limit`, unless that is 0.

    Notes
    -----
    ``multi_class="joint"`` solves, for all classes at once,

        min  1/2 sum_k ||w_k||^2 + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)),   f_k(x) = <w_k, phi(x)>,

    It has no biases, whatever `fit_intercept` is; add 1 to the kernel for penalised biases. With two classes it equals
    the machine without a bias and with penalty 2 C. `dual_coef_` has one row for each class, `intercept_` is 0, and
    `solution_` is a single solution. It needs the hinge loss.

    Ctrl-C ends a fit in the main thread within about 0.2 s and leaves a fitted machine whose certificate says how
    far it is from the optimum; a second Ctrl-C skips the certificate.

    Differs from scikit-learn's SVC: `predict` always returns the class with the largest `decision_function` (confidence
    breaks ties of votes); a row of weight 0 is ignored, and a row of weight k counts as k copies, also for
    gamma="scale"; negative weights are errors; every fit ends; float32 rows are not converted.
    docs/concepts/drop_in.md lists all differences.

    Costs between n * n_SV and some ten times as many kernel values. For large n, the memory beyond the input is O(n).

    References
    ----------
    Cortes & Vapnik (1995), section 3; Fan, Chen & Lin (2005), equation (1) for the dual, and m(alpha) - M(alpha), the
    violation that `tol` bounds; Chang & Lin (2011), LIBSVM, for the layout of `dual_coef_`; Crammer & Singer (2001) for
    the joint machine.

    Examples
    --------
    >>> from mercer import SVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = SVC(C=10.0).fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 3)
    ('optimal', 0.987)
    """

    _schemes = (*training.SCHEMES, training.JOINT)
    _task = "classification"

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: str | Mapping[Any, float] | None = None,
        verbose: int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        multi_class: str = "ovo",
        loss: str = "hinge",
        fit_intercept: bool = True,
        tol_gap: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
        approximation: str | Way | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback
        self.calibration = calibration
        self.calibration_values = calibration_values
        self.approximation = approximation

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, checkpoint: Any = None) -> SVC:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            Training rows. Dense and CSR arrays of float32 or float64 are used without a copy; other types are
            converted. Kernels such as :class:`mercer.kernels.Spectrum` take strings (a list, an array or a column of a
            table), lists or sets. With ``approximation="landmarks"`` also an array on a device, which stays there.
            Dask arrays and data frames stay with their workers if there is an `approximation`, also if `y` and
            `sample_weight` are lazy; an exact machine loads them, up to `memory_limit` bytes (1 GiB by default).
        y : array-like of shape (n,)
            Class labels of any type that can be sorted.
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored. If all rows of a class have weight 0, or its class
            weight is 0, `classes_` does not contain the class.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.
            With an `approximation`, the choice, the landmarks, and the finished cells are in it, too.

        Returns
        -------
        SVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X`, holds NaN
            or holds one class only, a weight is negative, or kernel values overflow.
        InseparableError
            If C is infinite and the classes cannot be separated.

        Notes
        -----
        Each machine costs between n * n_SV kernel values and about ten times as many. Beyond the input, the memory is
        O(n) numbers and a block of at most 7,680 rows and columns; a small `memory_limit` makes the block smaller. Long
        rows need additional memory: up to 128 MB for kernel values, and a copy of the input. If there are at most 2,000
        rows and the kernel is not proved to be positive semidefinite, it is checked; this costs n² additional kernel
        values and n³/3 multiplications.
        """
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
        with self._all_or_nothing(), self._checkpointed(checkpoint, X, y, sample_weight):
            C, machine_spec = self._asked()
            duals = partial(problems.c_svc_each, squared=machine_spec.squared, bias=machine_spec.bias)
            self._begin(C, machine_spec)
            with self._way(machine_spec, X, y, sample_weight) as way:
                if way is not None:
                    self._train_by(way, machine_spec, X, y, sample_weight, groups)
                else:
                    self._train(X, y, sample_weight, C, lambda _: duals, groups=groups)
            return self

    def _asked(self) -> tuple[float, specs.ForSVC]:
        """Check the parameters, and return the penalty and the specification of the problem."""
        C = check_penalty(self.C)
        if self.multi_class == training.JOINT:
            self._check_joint()
        squared = check_choice("loss", self.loss, _LOSSES) == "squared_hinge"
        return C, specs.ForSVC(C=C, squared=squared, bias=bool(self.fit_intercept))

    def _asked_spec(self) -> specs.ForSVC:
        return self._asked()[1]

    def _begin(self, C: float, machine_spec: specs.ForSVC) -> None:
        """Note what will be trained."""
        self.C_, self.spec_ = C, specs.ForJointSVC(C=C) if self.multi_class == training.JOINT else machine_spec
        self.__dict__.pop("_current_rows", None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SVC:
        """Add training rows: the machine is then the one that all rows together train.

        The solution is updated to the solution with the new rows, and certified over all rows. Unlike with stochastic
        gradient descent, the result does not depend on the order and the sizes of the batches. See
        docs/concepts/changing_rows.md.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), or sequence of m strings, lists of tokens or sets
            The new rows, as in :meth:`fit`. They are copied.
        y : array-like of shape (m,)
        classes : array-like of shape (n_classes,), optional
            All classes of all batches. Needed at the first call unless `fit` was called before; optional later. As long
            as a class has no rows, a machine for it and a class with rows has constant decision values: f = 1 or
            f = -1, in favour of the class with rows. (A machine without a bias, and the joint machine, are trained on
            the rows that exist.)
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        SVC
            The updated machine itself. :meth:`forget` explains which values do not change: a `gamma` such as "scale"
            and balanced class weights are those of the first batch.

        Raises
        ------
        ValueError
            As in :meth:`fit`. Also if `classes` is missing at the first call or differs later; if `y` holds a class
            that is not in `classes`; if the first batch lacks a class and class weights are balanced, C is infinite or
            ``probability=True``; for precomputed kernels, from the second call; and if the training rows are not
            available, see :meth:`forget`. The machine is then unchanged.
        InseparableError
            If C is infinite and the classes can no longer be separated. The machine is then unchanged.

        Warns
        -----
        ConvergenceWarning
            See :meth:`forget`.

        Notes
        -----
        Costs as much as :meth:`forget`. The machine keeps the rows, and pickles them.
        """
        self._check_exact("partial_fit")
        if not hasattr(self, "kernel_"):
            if classes is None:
                raise ValueError("classes must name all classes at the first call of partial_fit, got None.")
            C, machine_spec = self._asked()
            if np.isinf(C) and np.setdiff1d(classes, y).size:
                raise ValueError(
                    "C = inf separates rows of every class, but the first batch has no row of class "
                    f"{np.setdiff1d(classes, y).tolist()[0]!r}: set a finite C, or begin with all classes."
                )
            duals = partial(problems.c_svc_each, squared=machine_spec.squared, bias=machine_spec.bias, one_sided=True)
            with self._all_or_nothing():
                self._begin(C, machine_spec)
                self._train(self._own_rows(X, y), y, sample_weight, C, lambda _: duals, classes=classes)
                return self._keep_rows()
        if classes is not None and not np.array_equal(check_classes(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, or None, got "
                f"{np.asarray(classes).tolist()}."
            )
        self._change(*self._with_more(X, y, sample_weight, partial(class_numbers, classes=self.classes_)))
        return self

    def _fit_targets(self) -> tuple[Any, Any]:
        return self._codes, np.ones(self._codes.size) if self._weights is None else self._weights

    def _check_left(self, sample: TrainingRows, later: TrainingRows) -> None:
        lost = np.setdiff1d(sample.targets[sample.rows], later.targets[later.rows])
        if lost.size:
            raise ValueError(
                f"rows must leave some of every class, but hold all that the machine was trained on of class "
                f"{self.classes_[lost].tolist()[0]!r}: without it, fit a new machine to the others."
            )

    def _labels(self, sample: TrainingRows) -> Labels:
        return Labels(self.classes_, sample.targets, sample.weights, sample.rows, self.class_weight_)

    def _problems(self, sample: TrainingRows) -> tuple[training.Tasks, list[tuple[Problem, Any]]]:
        """Return the tasks of the machines, and the problem and row numbers of each; classes may lack rows."""
        labels, machine_spec = self._labels(sample), self.spec_
        codes, penalties = labels.codes[labels.rows], labels.penalties(machine_spec.C)
        tasks = training.make_tasks(codes, self.classes_.size, self.machines_.scheme)
        if isinstance(machine_spec, specs.ForJointSVC):
            return tasks, [(problems.joint(codes, self.classes_.size, penalties), np.arange(codes.size))]
        stacked = problems.c_svc_each(
            tasks.signs,
            penalties[tasks.rows],
            tasks.sizes,
            squared=machine_spec.squared,
            bias=machine_spec.bias,
            one_sided=True,
        )
        return tasks, [(problem, task.rows) for problem, task in zip(stacked, tasks, strict=True)]

    def _solve_change(self, change: Change) -> list[Evaluation | None]:
        control = self._control()
        sample = change.now
        self._refuse_groups()
        self._check_probabilities(change.gram, self._labels(sample))
        tasks, now = self._problems(sample)
        solutions, evaluations = self._solve_incremental(change, self._problems(change.last)[1], now, control)
        machines = training.Machines(self.machines_.scheme, self.classes_.size, tasks, solutions, sample.rows.size)
        self._begin_probabilities()
        self._weights = sample.weights
        self._take(machines, sample.data, sample.rows, sample.targets)
        return evaluations

    def _refuse_groups(self) -> None:
        """Refuse to change the rows if probabilities were calibrated by groups: the groups are not kept."""
        if self._has_probabilities() and hasattr(self, "calibration_") and self.calibration_.folds is not None:
            raise ValueError(
                "the probabilities of this SVC were calibrated on folds of groups, which forget and partial_fit do not "
                "know: fit it again with all rows and their groups, or set probability=False."
            )

    def _finish_change(self, change: Change) -> None:
        if self._has_probabilities():
            labels = self._labels(change.now)
            seconds = self._limits().max_seconds
            penalties = labels.penalties(self.C_)
            self._calibrate_in_time(change.gram, labels, penalties, seconds, change.began)

    def _fold_duals(self) -> training.Duals:
        """Return a function that makes the problems of all rows except a fold; a class may then have no row."""
        squared, bias = (self.spec_.squared, self.spec_.bias) if isinstance(self.spec_, specs.ForSVC) else (False, True)
        return partial(problems.c_svc_each, squared=squared, bias=bias, one_sided=True)

    def _check_joint(self) -> None:
        """Refuse parameters that the joint machine does not support."""
        if self.loss == "squared_hinge":
            raise ValueError("multi_class='joint' has one slack a row, not squared: set loss='hinge'.")
