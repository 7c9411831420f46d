"""Support vector classification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from mercer import multiclass
from mercer.data import Data, Precomputed
from mercer.estimators.base import DualMachine
from mercer.estimators.validation import check_labels, check_penalty, check_sample_weight, class_weights
from mercer.kernels import Gamma, Kernel
from mercer.prediction import predicted_classes
from mercer.solvers import Progress


class SVC(ClassifierMixin, DualMachine):
    """Support vector classifier, solved exactly and certified.

    **Solves** for each pair of classes, with y_i = +1 or -1,

        min  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)),    f(x) = <w, phi(x)> + b,

    C_i being C times the weights of the row and of its class, through its dual

        max  sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
        s.t. 0 <= alpha_i <= C_i,   sum_i alpha_i y_i = 0.

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
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in the sense of LIBSVM.
    tol_gap : float, optional
        Largest relative duality gap, besides.
    class_weight : {"balanced"} or dict, optional
        Factors of C by class. "balanced" is n / (n_classes * n_k).
    multi_class : {"ovo", "ovr"}, default="ovo"
        One machine for each pair of classes, or one for each class against the rest.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Scores by class, or the decision values of all pairs, which takes ``multi_class="ovo"``.
    max_iter : int, default=-1
        Most steps of the solver on one machine; -1 for no limit.
    max_seconds : float, optional
        Wall-clock limit of the training; the certificate comes on top.
    memory_limit : int, optional
        Bytes that kept rows of the Gram matrix may take, and likewise the matrix of a working set, whose smallest size
        of 512 rows (2 MiB) is always taken; default 1 GiB.
    warm_start : bool, default=False
        Whether `fit` goes on from the last solution, which must be of the same rows and labels.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them. Results do not depend on it.
    verbose : int, default=0
        1 says on stderr which solver and backend were chosen and why, and how it ended; 2 shows progress as well.
    callback : callable, optional
        Called about every 50 ms with a :class:`mercer.solvers.Progress`; returning True stops the fit.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors, by class.
    support_vectors_ : ndarray or csr_array of shape (n_SV, n_features)
        Empty for a precomputed kernel; an array of objects, of shape (n_SV,), where rows are strings or sets.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV) or (n_classes, n_SV)
        Signed coefficients, in LIBSVM's layout for one-versus-one; a row for each class for one-versus-rest.
    intercept_ : ndarray of shape (n_machines,)
    coef_ : ndarray of shape (n_machines, n_features)
        Normal vectors; for the linear kernel only.
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
    shape_fit_ : tuple of int
    machines_ : Machines
        The machines for two classes: which rows and classes each tells apart (`tasks`), and its solution.
    solution_ : Solution or tuple of Solution
        Dual coefficients over all rows, trace and status; one for each machine.
    certificate_ : Certificate
        Primal and dual objective, duality gap and violation, recomputed in float64 apart from the solver.
        It refers to the training data (it does not copy them) so that ``certificate_.verify()`` can compute it again;
        pickling leaves them behind. Reading it changes nothing: it is of the machine as it predicts.
        ``certificate_.examples()`` lists the training examples: their KKT cases, slacks and categories (outside the
        margin, on it, violating it, misclassified), and the `margin` 2 / ||w||; one listing for each machine.
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

    Notes
    -----
    Ctrl-C ends a fit in the main thread within about 0.2 s and leaves a fitted machine whose certificate says how
    far it is from the optimum; a second Ctrl-C skips the certificate.

    Differs from scikit-learn's SVC: `predict` is always the largest of `decision_function` (ties in votes are broken
    by confidence); a weight of 0 is absence, a weight of k is k copies, also for gamma="scale"; rows are never
    copied; negative weights are errors; there is no `probability`, `cache_size`, `shrinking` or `random_state`.

    Costs between n * n_SV and some ten times as many kernel values; memory O(n) beyond the input for large n.

    References
    ----------
    Cortes & Vapnik (1995), section 3; Fan, Chen & Lin (2005), equation (1) for the dual, and m(alpha) - M(alpha), the
    violation that `tol` bounds; Chang & Lin (2011), LIBSVM, for the layout of `dual_coef_`.

    Examples
    --------
    >>> from mercer import SVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = SVC(C=10.0).fit(X, y)
    >>> str(machine.certificate_.status), round(machine.score(X, y), 3)
    ('optimal', 0.987)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        tol_gap: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        multi_class: str = "ovo",
        decision_function_shape: str = "ovr",
        max_iter: int = -1,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.tol_gap = tol_gap
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

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
            Factors of C, >= 0; 0 leaves a row out.

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
        and a block of at most 4,096 rows and columns beyond the input. For a kernel without a proof that it is
        positive semidefinite, up to 2,000 rows, n² kernel values and n³/3 multiplications more.
        """
        limits, listener = self._limits(), self._listener()
        C = check_penalty(self.C)
        multiclass.check_scheme("multi_class", self.multi_class)
        self._check_shape(self.multi_class)
        spec, data = self._training_rows(X, y)
        classes, codes = check_labels(y)
        weights = check_sample_weight(sample_weight, data.n)
        rows = np.flatnonzero(weights > 0.0)
        present = np.bincount(codes[rows], minlength=classes.size)
        if (present == 0).any():
            raise ValueError(
                f"sample_weight must be positive somewhere in every class, but all weights are zero in class "
                f"{classes[present == 0].tolist()[0]!r}."
            )
        by_class = class_weights(self.class_weight, classes, codes, weights)
        penalties = np.full(rows.size, np.inf) if np.isinf(C) else C * by_class[codes[rows]] * weights[rows]

        kernel = spec.resolve(data, None if sample_weight is None else weights)
        gram = self._gram(kernel, data, rows, keep_rows=classes.size > 2)
        machines = multiclass.train(
            gram,
            codes[rows],
            classes.size,
            penalties,
            scheme=self.multi_class,
            limits=limits,
            warm_start=self._last_machines(rows, codes) if self.warm_start else None,
            callback=listener,
        )
        self.classes_, self.class_weight_, self.C_, self.kernel_ = classes, by_class, C, kernel
        self._take(machines, data, rows, codes)
        self._warn(gram, data)
        return self

    def _check_shape(self, scheme: str) -> None:
        """Refuse a shape of scores that there is none of."""
        multiclass.check_scheme("decision_function_shape", self.decision_function_shape)
        if scheme == "ovr" and self.decision_function_shape == "ovo":
            raise ValueError(
                "decision_function_shape='ovo' asks for the decision values of pairs of classes, but with "
                "multi_class='ovr' there are no machines for pairs; set decision_function_shape='ovr', or "
                "multi_class='ovo'."
            )

    def _last_machines(self, rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64]) -> multiclass.Machines | None:
        machines: multiclass.Machines | None = getattr(self, "machines_", None)
        if machines is None:
            return None
        same = machines.scheme == self.multi_class and np.array_equal(self._rows, rows)
        if not same or not np.array_equal(self._codes, codes):
            raise ValueError(
                "warm_start=True goes on from the last fit and needs the same rows, labels, zero weights and "
                "multi_class; set warm_start=False to start anew."
            )
        return machines

    def _take(
        self, machines: multiclass.Machines, data: Data, rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64]
    ) -> None:
        """Store the trained machines under scikit-learn's names."""
        self.machines_, self._rows, self._codes = machines, rows, codes
        coefficients = machines.coefficients
        chosen = np.flatnonzero(coefficients.any(axis=1))
        chosen = chosen[np.argsort(codes[rows][chosen], kind="stable")]  # by class, as scikit-learn has them
        self._keep(machines.solutions, coefficients[chosen], machines.biases, data, rows[chosen])
        self.n_support_ = np.bincount(codes[self.support_], minlength=self.classes_.size).astype(np.int32)
        self.n_iter_ = np.array([solution.n_iter for solution in machines.solutions], dtype=np.int64)
        self.dual_coef_ = self._dual_coefficients(machines, codes[self.support_])

    def _dual_coefficients(
        self, machines: multiclass.Machines, support_codes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        if machines.n_classes == 2 or machines.scheme == "ovr":
            return np.ascontiguousarray(self._coefficients.T)
        # LIBSVM's layout: in row r stands the coefficient against the r-th of the other classes.
        dual = np.zeros((machines.n_classes - 1, support_codes.size))
        ends = np.searchsorted(support_codes, np.arange(machines.n_classes + 1))
        rows_of = [slice(*pair) for pair in pairwise(ends.tolist())]  # support vectors are sorted by class
        for column, task in enumerate(machines.tasks):
            i, j = task.positive, task.negative
            assert j is not None
            dual[j - 1, rows_of[i]] = self._coefficients[rows_of[i], column]
            dual[i, rows_of[j]] = self._coefficients[rows_of[j], column]
        return dual

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return decision values.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)
            For two classes: f(x), positive for ``classes_[1]``.
        ndarray of shape (m, n_classes)
            For more: one score a class; the largest wins. One-versus-one: votes, ties broken by confidence.
        ndarray of shape (m, n_classes * (n_classes - 1) / 2)
            With ``decision_function_shape="ovo"``: f of every pair (i, j), i < j, positive for class i.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`; or if ``decision_function_shape="ovo"`` is
            asked of a machine that was fitted with ``multi_class="ovr"``.

        Notes
        -----
        Costs m * n_SV kernel values, evaluated once for all the machines. scikit-learn's scores of one-versus-one are
        the same.
        """
        raw = self._raw_decision(self._new_rows(X))
        self._check_shape(self.machines_.scheme)
        if self.decision_function_shape == "ovo" and raw.shape[1] > 1:
            return raw
        return self.machines_.scores(raw)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest score for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in single precision where that settles the class. Ties in votes are broken by
        confidence, as by scikit-learn with ``break_ties=True``; the smaller class wins a tie in scores.
        """
        data = self._new_rows(X)
        machines = self.machines_
        if isinstance(data, Precomputed):
            return self.classes_[multiclass.winners(machines.scores(self._raw_decision(data)))]
        winning = predicted_classes(
            self.kernel_,
            data,
            self._support_rows(),
            self._coefficients,
            self.intercept_,
            n_classes=machines.n_classes,
            scheme=machines.scheme,
            n_jobs=self.n_jobs,
        )
        return self.classes_[winning]
