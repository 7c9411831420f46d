"""Support vector classification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mercer import problems, specs
from mercer.certificates.evaluation import Evaluation
from mercer.data.arguments import check_choice
from mercer.estimators.classifier import MarginClassifier
from mercer.estimators.labels import Labels, check_classes, class_numbers
from mercer.estimators.parameters import check_penalty
from mercer.estimators.row_changes import Change, ChangesRows, RowsHeld
from mercer.kernels import Gamma, Kernel
from mercer.multiclass import training
from mercer.problems import Problem
from mercer.solvers import Progress

_LOSSES = ("hinge", "squared_hinge")


class SVC(ChangesRows, MarginClassifier):
    """Support vector classifier, solved exactly and certified.

    **Solves** for each pair of classes, with y_i = +1 or -1,

        min  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)),    f(x) = <w, phi(x)> + b,

    C_i being C times the weights of the row and of its class, through its dual

        max  sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
        s.t. 0 <= alpha_i <= C_i,   sum_i alpha_i y_i = 0;

    with squared hinge loss, less sum_i alpha_i^2 / (4 C_i) and without upper bounds; without a bias, without the sum.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a unit of hinge loss, > 0. Infinity asks for the machine of maximal margin.
    kernel : str, Kernel or callable, default="rbf"
        "linear", "poly", "rbf", "sigmoid", "precomputed", or another of :data:`mercer.kernels.NAMES`. Parameters of a
        kernel object are parameters of the machine, ``kernel__gamma``.
        A callable gets two blocks of rows and returns the matrix of kernel values between them. With
        "precomputed", X is the matrix of kernel values: (n, n) in `fit`, (m, n) in `predict`.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto", "median", "sigest"} or float, default="scale"
        "scale" is 1 / (n_features * X.var()), with sample weights counted as repetition; "auto" is 1 / n_features.
        For "rbf", also "median", 1 / (median squared distance of different rows), and "sigest", which is kernlab's:
        see :class:`mercer.RBF`. ``kernel_.reasons`` says what was found and from what.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    shrinking, cache_size
        Without effect; accepted, and checked, for programs written for scikit-learn. `memory_limit` is what bounds
        the memory of kernel values here.
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a map from decision values of rows that were left out of training:
        see `calibration_values`. Nothing is drawn.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in the sense of LIBSVM.
    class_weight : {"balanced"} or dict, optional
        Factors of C by class. "balanced" is n / (n_classes * n_k), in which rows count by their sample weights.
    verbose : int, default=False
        1 says on stderr which solver and backend were chosen and why, how far it is every five seconds, and how it
        ended; 2 shows all progress.
    max_iter : int, default=-1
        Most steps of the solver on one machine; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Scores by class, or the decision values of all pairs, which takes ``multi_class="ovo"``.
    break_ties, random_state
        Without effect; accepted, and checked, for programs written for scikit-learn. Ties always go by confidence.
    multi_class : {"ovo", "ovr", "joint"}, default="ovo"
        One machine for each pair of classes, one for each class against the rest, or one for all classes with one slack
        a row (see Notes).
    loss : {"hinge", "squared_hinge"}, default="hinge"
        What C is the penalty of: max(0, 1 - y_i f(x_i)) or its square.
    fit_intercept : bool, default=True
        Whether machines for two classes have a bias b. Add 1 to the kernel for one that is penalised like the other
        coefficients.
    tol_gap : float, optional
        Largest relative duality gap, besides `tol`.
    max_seconds : float, optional
        Wall-clock limit of the training; the certificate comes on top.
    memory_limit : int, optional
        Bytes that everything beyond the input may take together: kept rows of the Gram matrix, the matrix of a working
        set, factors, other forms of the input, arrays of length n, and 16 MiB that the system's allocator keeps. The
        least that a fit needs (a working set of 512 rows, some 10 MB) is taken in any case, with a warning where that
        is more, unless the limit is 0. Default 1 GiB, of which few fits take a quarter. What is free has no say, for it
        would decide how a fit proceeds.
    warm_start : bool, default=False
        Whether `fit` goes on from the last solution, which must be of the same rows and labels.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    callback : callable, optional
        Called about every 50 ms with a :class:`mercer.solvers.Progress`; returning True stops the fit.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities. The first two have P(f = 0) = 1/2 and count rows by their class
        weights too, so that the predicted class has the largest probability; the others, a sigmoid and isotonic
        regression, estimate the classes' shares among rows as they are. docs/concepts/probabilities.md compares them.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        Which decision values the map is fitted to: of machines without the row, which are exact but cost more with many
        machines; or without its fold, of five that nothing random makes. "auto" takes folds for more than 45 machines
        (pairs of classes), more than 2,000 rows in one of them (200 where `multi_class` is "joint"), and kernels that
        are not known to be positive semidefinite.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors, by class.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Sparse where X was: a csr_array where ``sklearn.set_config(sparse_interface="sparray")`` asks for it. Empty for
        a precomputed kernel; an array of objects, of shape (n_SV,), where rows are strings or sets.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or csr_matrix of shape (n_classes - 1, n_SV) or (n_classes, n_SV)
        Signed coefficients, in LIBSVM's layout for one-versus-one; a row for each class for one-versus-rest and joint.
        Sparse where X was, with all its values stored.
    intercept_ : ndarray of shape (n_machines,)
    coef_ : ndarray or csr_matrix of shape (n_machines, n_features)
        Normal vectors; for the linear kernel only. Read-only, sparse where X was.
    kernel_ : Kernel
        With all its parameters resolved to numbers.
    function_ : RKHSFunction or tuple of RKHSFunction
        The decision function without its bias, one for each machine: ``function_(X) + intercept_`` are the decision
        values, and ``function_.norm ** 2`` is the ||w||^2 of the certificate.
    C_ : float
        That of the fit, whatever `C` is set to since.
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : ndarray of shape (n_machines,)
        Steps of the solver.
    fit_status_ : int
        0 if the result is certified optimal, else 1.
    recipe_ : Recipe
        What was solved: parameters as they were in `fit`, whatever they are set to since.
    shape_fit_ : tuple of int
    machines_ : Machines
        The machines for two classes: which rows and classes each tells apart (`tasks`), and its solution.
    solution_ : Solution or tuple of Solution
        Dual coefficients over all rows, trace and status; one for each machine.
    certificate_ : Certificate
        Primal and dual objective, duality gap and violation, recomputed in float64 apart from the solver; the
        two objectives, where gap and violation did without, when it is first read, at half of the kernel values
        between support vectors. It refers to the training data (it does not copy them) so that
        ``certificate_.verify()`` can compute it again; pickling leaves them behind. Reading it changes nothing:
        it is of the machine as it predicts. ``certificate_.examples()`` lists the training examples: their KKT
        cases, slacks and categories (outside the margin, on it, violating it, misclassified), and the `margin`
        2 / ||w||; one listing for each machine.
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``, where ``calibration_values_`` is "leave_one_out": decision values of each row by
        machines trained without it, as scores of classes; NaN for rows of weight 0.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        The same, where ``calibration_values_`` is "folds": by machines trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: which decision values `calibration_` was fitted to, and why these.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for input that the messages name.
    InseparableError
        If C is infinite and the classes cannot be separated.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met. The machine is usable.
    IndefiniteKernelWarning
        If the kernel is not positive semidefinite on the training rows, or not known to be.
    UserWarning
        If the fit held more than `memory_limit`, where one was given other than 0.

    Notes
    -----
    ``multi_class="joint"`` solves, for all classes at once,

        min  1/2 sum_k ||w_k||^2 + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)),   f_k(x) = <w_k, phi(x)>,

    which has no biases, whatever `fit_intercept` is: add 1 to the kernel for penalised ones. With two classes it is the
    machine without a bias, with 2 C. `dual_coef_` has a row for each class, `intercept_` is 0 and `solution_` a single
    one. It needs a finite C and the hinge.

    Ctrl-C ends a fit in the main thread within about 0.2 s and leaves a fitted machine whose certificate says how
    far it is from the optimum; a second Ctrl-C skips the certificate.

    Differs from scikit-learn's SVC: `predict` is always the largest of `decision_function` (ties in votes are broken
    by confidence); a weight of 0 is absence, a weight of k is k copies, also for gamma="scale"; negative weights are
    errors; a fit ends; float32 stays float32. All differences stand in docs/concepts/drop_in.md.

    Costs between n * n_SV and some ten times as many kernel values; memory O(n) beyond the input for large n.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or sequence of n strings, lists of tokens or sets
            Consumed as it is where it is float32 or float64, dense or CSR; other types are converted. Kernels such as
            :class:`mercer.kernels.Spectrum` take strings (a list, an array, a column of a table) or lists or sets.
        y : array-like of shape (n,)
            Labels of any kind that can be sorted.
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out. A class whose rows are all left out, or whose class weight is 0, is
            absent: `classes_` does not hold it.

        Returns
        -------
        SVC
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length, with
            NaN or of one class only; for negative weights; and for kernel values that overflow.
        InseparableError
            If C is infinite and the classes cannot be separated.

        Notes
        -----
        Costs between n * n_SV and some ten times as many kernel values for each machine, and memory for O(n) numbers
        and a block of at most 7,680 rows and columns beyond the input, less with a small `memory_limit`; with long rows
        also for 128 MB of kernel values, and as much as the input takes. For a kernel without a proof that it is
        positive semidefinite, up to 2,000 rows, n² kernel values and n³/3 multiplications more.
        """
        with self._all_or_nothing():
            C, machine_spec = self._asked()
            duals = partial(problems.c_svc_each, squared=machine_spec.squared, bias=machine_spec.bias)
            self._begin(C, machine_spec)
            self._train(X, y, sample_weight, C, lambda _: duals)
            return self

    def _asked(self) -> tuple[float, specs.ForSVC]:
        """The penalty and what else makes the problem, where all that is asked for exists."""
        C = check_penalty(self.C)
        if self.multi_class == training.JOINT:
            self._check_joint(C)
        squared = check_choice("loss", self.loss, _LOSSES) == "squared_hinge"
        if not self.fit_intercept and np.isinf(C):
            raise ValueError("C = inf needs a bias: set fit_intercept=True, or a finite C.")
        return C, specs.ForSVC(C=C, squared=squared, bias=bool(self.fit_intercept))

    def _begin(self, C: float, machine_spec: specs.ForSVC) -> None:
        """Note what will be trained."""
        self.C_, self.spec_ = C, specs.ForJointSVC(C=C) if self.multi_class == training.JOINT else machine_spec
        self.__dict__.pop("_held", None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SVC:
        """Train on more rows: the machine is then the one that all rows train that it was given.

        The known solution is followed to that with the rows, and certified over all of them: unlike with machines that
        learn by stochastic descent, the order of batches and their sizes do not matter. See
        docs/concepts/changing_rows.md.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p), or sequence of m strings, lists of tokens or sets
            See :meth:`fit`; copied.
        y : array-like of shape (m,)
        classes : array-like of shape (n_classes,), optional
            All classes that there will be; needed at the first call, unless `fit` came before, and optional later.
            While a class has no rows, machines that tell it from a class with rows are f = 1 or f = -1 in favour of the
            latter (without a bias, and in the joint machine, what the rows of the others train).
        sample_weight : array-like of shape (m,), optional
            See :meth:`fit`.

        Returns
        -------
        SVC
            Itself. What stays as it is, and what limits do, see :meth:`forget`: a `gamma` such as "scale" and balanced
            class weights are those of the first batch.

        Raises
        ------
        ValueError
            As in :meth:`fit`; if `classes` are needed or others than before; if `y` holds other classes; if the first
            batch lacks a class and class weights are balanced, C is infinite or probabilities are asked for; for
            precomputed kernels, from the second call; if the training rows are not at hand, see :meth:`forget`. The
            machine is as it was.
        InseparableError
            If C is infinite and the classes cannot be separated any more. The machine is as it was.

        Warns
        -----
        ConvergenceWarning
            See :meth:`forget`.

        Notes
        -----
        Costs what :meth:`forget` does. The rows are kept, and pickled with the machine.
        """
        if not hasattr(self, "kernel_"):
            if classes is None:
                raise ValueError("classes must name all classes at the first call of partial_fit, got None.")
            C, machine_spec = self._asked()
            if np.isinf(C) and np.setdiff1d(classes, y).size:
                raise ValueError(
                    "C = inf separates rows of every class, but the first batch has none of class "
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

    def _told(self) -> tuple[Any, Any]:
        return self._codes, np.ones(self._codes.size) if self._weights is None else self._weights

    def _check_left(self, held: RowsHeld, later: RowsHeld) -> None:
        lost = np.setdiff1d(held.targets[held.rows], later.targets[later.rows])
        if lost.size:
            raise ValueError(
                f"rows must leave some of every class, but hold all that the machine was trained on of class "
                f"{self.classes_[lost].tolist()[0]!r}: without it, fit a new machine to the others."
            )

    def _labels(self, held: RowsHeld) -> Labels:
        return Labels(self.classes_, held.targets, held.weights, held.rows, self.class_weight_)

    def _problems(self, held: RowsHeld) -> tuple[training.Tasks, list[tuple[Problem, Any]]]:
        """The machines for rows that may lack a class: their tasks, and their problems with the rows of each."""
        labels, machine_spec = self._labels(held), self.spec_
        codes, penalties = labels.codes[labels.rows], labels.penalties(machine_spec.C)
        tasks = training.make_tasks(codes, self.classes_.size, self.machines_.scheme)
        if isinstance(machine_spec, specs.ForJointSVC):
            return tasks, [(problems.joint(codes, self.classes_.size, penalties), np.arange(codes.size))]
        whole = problems.c_svc_each(
            tasks.signs,
            penalties[tasks.rows],
            tasks.sizes,
            squared=machine_spec.squared,
            bias=machine_spec.bias,
            one_sided=True,
        )
        return tasks, [(problem, task.rows) for problem, task in zip(whole, tasks, strict=True)]

    def _solve_anew(self, change: Change) -> list[Evaluation | None]:
        limits, listener = self._limits(), self._listener()
        held = change.held
        self._check_probabilities(change.gram, self._labels(held))
        tasks, now = self._problems(held)
        solutions, evaluations = self._solve_nearby(change, self._problems(change.last)[1], now, limits, listener)
        machines = training.Machines(self.machines_.scheme, self.classes_.size, tasks, solutions, held.rows.size)
        self._begin_probabilities()
        self._weights = held.weights
        self._take(machines, held.data, held.rows, held.targets)
        return evaluations

    def _settle(self, change: Change) -> None:
        if self._has_probabilities():
            labels = self._labels(change.held)
            seconds = self._limits().max_seconds
            penalties = labels.penalties(self.C_)
            self._calibrate_in_time(change.gram, labels, penalties, seconds, change.began, depth=5)

    def _fold_duals(self) -> training.Duals:
        """What makes the problems of all rows but a fold, in which a class may have no row."""
        squared, bias = (self.spec_.squared, self.spec_.bias) if isinstance(self.spec_, specs.ForSVC) else (False, True)
        return partial(problems.c_svc_each, squared=squared, bias=bias, one_sided=True)

    def _check_joint(self, C: float) -> None:
        """Refuse what the joint machine does not have."""
        if self.loss == "squared_hinge":
            raise ValueError("multi_class='joint' has one slack a row, not squared: set loss='hinge'.")
        if np.isinf(C):
            raise ValueError(
                "multi_class='joint' needs a finite C, got inf; for C = inf set multi_class='ovo' or 'ovr'."
            )
