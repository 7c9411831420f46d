"""Linear support vector classification on tables of any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mercer.cluster import is_lazy
from mercer.data.arguments import check_choice
from mercer.estimators._device_training import host_targets, read_training_table
from mercer.estimators._from_file import FitsFiles
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._linear_rows import LinearTable
from mercer.estimators._linear_training import LinearSolutions
from mercer.estimators._scores import ByScores
from mercer.estimators._validation import check_penalty
from mercer.problems.joint_linear import JointLinearProblem
from mercer.solvers import Control, Progress
from mercer.solvers.rows import Bias, LinearProblem, LinearRows, TableRows, solve_one
from mercer.specs import ForJointLinearSVC, ForLinearSVC

_LOSSES = ("hinge", "squared_hinge")
_SCHEMES = ("ovr", _JOINT := "crammer_singer")


class LinearSVC(ByScores, FitsFiles):
    """Linear support vector classifier for tables of any number of rows, certified.

    **Solves** for two classes, y_i = +1 or -1, with f(x) = <w, x> + b,

        min  1/2 ||w||^2 + 1/2 u^2 + sum_i C_i max(0, 1 - y_i f(x_i))^2,    b = intercept_scaling * u,

    where C_i is C times the weight of the row times the weight of its class. With ``loss="hinge"`` the losses are not
    squared; with ``penalty="l1"`` the penalty is the sum of |w_j| and |u|; with `l1_ratio` it is that sum times
    l1_ratio, plus the squares times 1 - l1_ratio (an elastic net); with ``bias="free"`` the penalty leaves b out. More
    classes have a machine each, for the class against the rest, or with ``multi_class="crammer_singer"`` one
    joint problem (see Notes).

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        With "l1" many coefficients are exactly 0. It goes with both losses. "elasticnet" needs `l1_ratio`.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    dual
        This has no effect: the solver is chosen by the shape of the table, and every combination of `loss` and
        `penalty` works. It is accepted and checked so that programs written for scikit-learn run unchanged.
    tol : float, default=1e-4
        A value below the default lowers `tol_gap` to this value, but not below 1e-10, which rounding may hide. Larger
        values have no effect.
    C : float, default=1.0
        Penalty of a unit of loss, > 0. With C = inf no loss is allowed: the machine of the maximal margin, which is the
        same for both losses and for all positive weights of rows.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        "ovr" trains one machine for each class against the rest; for two classes there is one machine. With
        "crammer_singer", all classes have one problem, and `loss` and `penalty` have no effect, as in scikit-learn.
    fit_intercept : bool, default=True
        Whether the machines have a bias b.
    intercept_scaling : float, default=1
        Value of the column of a penalised bias; a larger one penalises the bias less. It has no effect if the bias is
        free.
    class_weight : {"balanced"} or dict, optional
        Factors of C by class. "balanced" is n / (n_classes * n_k), where n and n_k are sums of sample weights. With
        more than two classes, as in scikit-learn, the machine of a class weighs the rows of this class only; the rest
        have weight 1.
    verbose : int, default=0
        1 writes to stderr which solver was chosen and why, the progress every five seconds, and how the fit ended; 2
        writes every progress report.
    random_state
        This has no effect on the optimum. It is accepted and checked as in scikit-learn.
    max_iter : int, default=1000
        Largest number of solver steps for each machine; -1 for no limit.
    bias : {"penalised", "free"}, default="penalised"
        Whether the penalty counts the bias, as in scikit-learn's LinearSVC, or not, as in :class:`mercer.SVC`.
    tol_gap : float, default=1e-4
        Largest duality gap, relative to the objective: no other machine has an objective that is smaller by more.
    max_seconds : float, optional
        Time limit of the training, in seconds. The certificate takes additional time.
    memory_limit : int, optional
        Largest memory of the fit in bytes, in addition to the input. `fit` raises MemoryError if the limit is too small
        for its arrays: some numbers for each row and column, and a copy of `X` if it makes one. It warns if it needed
        more than the limit in another way.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    callback : callable, optional
        Function that is called with a :class:`mercer.solvers.Progress` as the fit goes on, whose `violation` is the
        relative gap. If it returns a true value, the fit stops.
    warm_start : bool, default=False
        Whether `fit` starts at the last solution, for instance for another C.
    l1_ratio : float, optional
        Share r of the l1 norm in the penalty, from 0 to 1. None: 0 for ``penalty="l2"`` and 1 for ``penalty="l1"``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, p)
        Normal vectors w, in the units of the columns as they were passed.
    intercept_ : ndarray of shape (1 or n_classes,)
        Biases b; 0 without one.
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Largest number of solver steps of a machine.
    certificate_ : Certificate
        Objectives and duality gap, recomputed in float64 independently of the solver. ``certificate_.proved_signs()``
        says which signs of coefficients are proved, ``certificate_.verify()`` computes the certificate again.
    solution_ : LinearSolution or LinearSolutions
        The solution (or a tuple of one for each class), with `solver` and `reason`, the algorithm and why it was
        chosen.
    spec_ : ForLinearSVC or ForJointLinearSVC
        The solved problem, with the parameter values that `fit` used; setting a parameter later does not change it.
    trace_ : list of TraceRow
        Relative gap and objective over time; of several machines, one after the other.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.
    InseparableError
        In `fit`, if C is infinite and the classes of a machine cannot be separated, to 12 digits.

    Warns
    -----
    ConvergenceWarning
        If a limit, Ctrl-C or rounding ended the fit before the tolerance was met; it says how far the machine is from
        the optimum. The machine can still predict.
    UserWarning
        If the fit needed more memory than `memory_limit`.

    Notes
    -----
    Columns need no scaling for the solver: it scales them itself and solves the problem in the columns as they are. The
    optimum does depend on the units of the columns, because the penalty does.

    ``multi_class="crammer_singer"`` solves

        min  1/2 sum_k (||w_k||^2 + u_k^2) + sum_i C_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i)).

    Its biases are penalised. For two classes, `coef_` is w of the second class minus w of the first.

    The machine has no probabilities: ``CalibratedClassifierCV(LinearSVC())`` of scikit-learn adds them, and
    :class:`mercer.LogisticRegression` has them.

    Differs from scikit-learn's LinearSVC: every combination of `loss`, `penalty` and `dual` works; a row of weight 0 is
    ignored; negative weights are errors; float32, int8 and bool tables are not copied; results do not depend on
    `random_state`. docs/concepts/drop_in.md lists all differences.

    For up to some 2,000 columns a step costs one or two passes over the table, and a fit takes 5 to 40 steps; with many
    rows 2 to 30, because it starts at the solution for a sample.
    docs/concepts/linear_machines.md says which solver is used when.

    :meth:`fit_file` trains on a file that may be larger than memory, and :meth:`C_path` trains a machine for each C.

    References
    ----------
    Fan, Chang, Hsieh, Wang & Lin (2008), LIBLINEAR, for the problems; Keerthi & DeCoste (2005) for Newton's method;
    Hsieh et al. (2008) for dual coordinate descent.

    Examples
    --------
    >>> from mercer import LinearSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearSVC().fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 2)
    ('optimal', 0.96)
    """

    spec_: ForLinearSVC | ForJointLinearSVC
    _task = "classification"

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: str | Mapping[Any, float] | None = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        bias: str = "penalised",
        tol_gap: float = 1e-4,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        warm_start: bool = False,
        l1_ratio: float | None = None,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.bias = bias
        self.tol_gap = tol_gap
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.callback = callback
        self.warm_start = warm_start
        self.l1_ratio = l1_ratio

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> LinearSVC:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            Float32, float64, int8 and bool arrays in C order and canonical CSR matrices are not copied; other small
            integers become float32, all other numbers float64.
            Dask arrays and data frames stay with their workers, also if `y` and `sample_weight` are lazy.
            Arrays of other libraries on a device stay there, and sums over their rows are computed there; `y` and
            `sample_weight` are copied to the host.
        y : array-like of shape (n,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored.
        checkpoint : str or PathLike, optional
            Folder where the solver writes the point that it has reached, every few seconds. If the process is killed,
            the same call continues from there. The certificate is computed again from the data. A folder that belongs
            to other data, other parameters or another version is refused. It is kept after the fit: delete it then.

        Returns
        -------
        LinearSVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN, infinity or values whose squares overflow, `y` has
            another length than `X` or holds one class only, or a weight is negative.
        InseparableError
            If C is infinite and the classes of a machine cannot be separated; its `weights` are the proof.
        MemoryError
            If `memory_limit` is less than what a copy of `X`, or the least memory of the solver, needs.
        """
        if is_lazy(X):
            return self._fit_lazy(X, y, sample_weight, checkpoint)
        y, sample_weight = host_targets(X, y, sample_weight, checkpoint)
        with self._checkpointed(checkpoint, X, y, sample_weight):
            spec, control = self._asked(), self._control()
            table = read_training_table(self, X, y, spec.C)
            labels = read_labels(y, sample_weight, self.class_weight, table.values.shape[0])
            codes = labels.codes.astype(np.float64)
            rows = table.rows(codes, labels.sample_weight)
            if self.multi_class == _JOINT and isinstance(rows, TableRows):
                return self._train_jointly(spec, rows, labels, table, control)
            problems = self._problems(spec, rows, labels)
            solutions = self._solve(problems, control)
            self.spec_, self.classes_, self.class_weight_ = spec, labels.classes, labels.class_weight
            self._used_rows = labels.rows
            self._store(problems, solutions, table)
            self._warn()
            return self

    def _train_jointly(
        self, spec: ForLinearSVC, rows: TableRows, labels: Labels, table: LinearTable, control: Control
    ) -> LinearSVC:
        """Train one machine for all classes together."""
        problem = JointLinearProblem(
            rows, labels.classes.size, spec.C, spec.scaling * spec.bias, class_weights=labels.class_weight
        )
        start = self._starts([problem])[0]
        solution = solve_one(problem, control, start=start, memory_limit=self.memory_limit, n_jobs=self.n_jobs)
        normals, biases = problem.split(solution.w)
        if labels.classes.size == 2:
            normals, biases = np.diff(normals, axis=0), np.diff(biases)
        self.spec_ = ForJointLinearSVC(C=spec.C, bias=spec.bias, scaling=spec.scaling)
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self._used_rows = labels.rows
        self._hold(normals, biases, LinearSolutions([solution]), rows, table)
        self._warn()
        return self

    def _asked(self) -> ForLinearSVC:
        """Check the parameters, and return the specification of the problem."""
        loss = check_choice("loss", self.loss, _LOSSES)
        scheme = check_choice("multi_class", self.multi_class, _SCHEMES)
        self._check_dual()
        kind, scaling = self._bias()
        if scheme == _JOINT and kind is Bias.FREE:
            raise InvalidParameterError('multi_class="crammer_singer" needs bias="penalised", got bias="free".')
        return ForLinearSVC(
            C=check_penalty(self.C),
            squared=loss == "squared_hinge",
            l1_ratio=self._l1_ratio(),
            bias=kind is not Bias.NONE,
            free=kind is Bias.FREE,
            scaling=scaling,
        )

    def _problems(self, spec: ForLinearSVC, rows: LinearRows, labels: Labels | None) -> list[LinearProblem]:
        """Return one problem for two classes, otherwise one for each class against the rest."""
        assert labels is not None
        if self.multi_class == _JOINT:
            raise InvalidParameterError(
                'multi_class="crammer_singer" needs the rows in memory, on the host: train by `fit` on NumPy '
                'arrays, or set multi_class="ovr".'
            )
        weights, n_classes = labels.class_weight, labels.classes.size
        if n_classes == 2:
            return [spec.problem(rows, 1, weights)]
        class_factors = np.where(np.eye(n_classes, dtype=bool), weights, 1.0)  # LIBLINEAR weighs the rest by 1
        return [spec.problem(rows, number, class_factors[number]) for number in range(n_classes)]
