"""The least-squares support vector classifier: kernel ridge regression of the labels, with a bias."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate
from mercer.data.arguments import check_number
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._labels import one_column_for_two
from mercer.estimators._probabilities import HasProbabilities
from mercer.estimators._scores import ByScores, known_accuracy
from mercer.gram import Gram
from mercer.gram.factorisation import Check, no_check
from mercer.kernels import Gamma, Kernel
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds
from mercer.problems.smooth import Objective, Squared
from mercer.solvers.smooth import ridge
from mercer.specs import ForLeastSquaresSVC


class LeastSquaresSVC(ByScores, HasProbabilities, EveryRowMachine):
    """Least-squares support vector classifier: it solves a linear system instead of a quadratic program.

    **Solves** for two classes, y_i = +1 or -1, or else for each class against the rest,

        min  1/2 ||w||^2 + 1/2 sum_i C_i (y_i - f(x_i))^2,    f(x) = <w, phi(x)> + b,

    through the linear system (K + diag(1/C_i)) beta + 1 b = y, sum_i beta_i = 0. C_i is C times the weight of the row
    times the weight of its class. The objectives of `certificate_` are those of `KernelRidge` with alpha = 1/C: the
    objective above times 1/C, summed over the machines.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, > 0 and finite.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    class_weight : {"balanced"} or dict, optional
        Factors of C by class.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them.
    max_seconds : float, optional
        Time limit in seconds. At the limit `fit` raises StoppedError and leaves the machine unchanged; Ctrl-C does the
        same with KeyboardInterrupt. During the leave-one-out pass of ``probability=True`` no error is raised: the
        machine is fitted, without probabilities.
    memory_limit : int, optional
        Largest memory of the linear system in bytes, in addition to the input. None or 0: no limit.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`: it calibrates on decision values of rows by machines that were not
        trained on them, see `calibration_values`. Leave-one-out values have a closed form.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        The decision values that the map is fitted to; see :class:`mercer.SVC`.
        "auto" means "leave_one_out", because these values have a closed form.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (1 or n_classes, n)
        Coefficients beta of every machine; 0 for rows of weight 0. The solution is not sparse: other coefficients are
        rarely 0.
    intercept_ : ndarray of shape (1 or n_classes,)
    X_fit_ : ndarray or csr_array of shape (n, p)
        The training rows.
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        Leave-one-out decision values in closed form, computed on first use; NaN for rows of weight 0. Class weights and
        gamma are those of all rows.
    loo_score_ : float
        Accuracy of the leave-one-out decisions, weighted by sample weights times class weights.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        If ``calibration_values_`` is "folds": decision values by machines that were trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and the data that it was fitted to.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: the decision values that `calibration_` was fitted to ("leave_one_out" or "folds"),
        and the reason for this choice.
    certificate_ : Certificate
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, StoppedError, MemoryError
        In `fit`; see there.

    Notes
    -----
    Costs n²/2 kernel values, n³/3 multiplications in LAPACK and 8 n² bytes, whatever the number of classes.

    References
    ----------
    Suykens & Vandewalle (1999); Cawley & Talbot (2004) for leave-one-out.

    Examples
    --------
    >>> from mercer import LeastSquaresSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LeastSquaresSVC(C=10.0).fit(X, y)
    >>> round(machine.score(X, y), 3), round(machine.loo_score_, 3)
    (0.987, 0.98)
    """

    verbose = 0

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        class_weight: str | Mapping[Any, float] | None = None,
        n_jobs: int | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
        max_seconds: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.probability = probability
        self.calibration = calibration
        self.calibration_values = calibration_values
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> LeastSquaresSVC:
        """Solve the linear system.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of C by row, >= 0; a row of weight 0 is ignored.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.

        Returns
        -------
        LeastSquaresSVC
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, a weight is negative, or kernel values overflow.
        StoppedError
            If `max_seconds` passed before the linear system was solved.
        MemoryError
            If the system needs more memory than `memory_limit` or than the computer has; the message says how much.
        """
        C = check_number("C", self.C, above=0.0)
        if not np.isfinite(C):
            raise ValueError(f"C must be a finite number > 0, got {self.C!r}; SVC has a maximal margin.")
        began = time.perf_counter()
        check = self._raise_when_stopped(self.max_seconds, began)
        self._begin_probabilities()
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight, groups)
        gram = self._gram(kernel, data, labels.rows)
        targets = labels.signs
        penalty = np.full(targets.shape[1], 1.0 / C)
        solved = ridge.solve(
            gram,
            Objective(Squared(targets[labels.rows]), labels.weights[labels.rows], penalty, has_bias=True),
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
            check=check,
        )
        self._keep_classes(kernel, data, labels, solved.beta, solved.bias)
        self._solved, self._labels = solved, labels
        self.spec_ = ForLeastSquaresSVC(C=C)
        self.__dict__.pop("_loo", None)
        self._warn(gram, solved.certificate)
        if self._has_probabilities():
            self._choose_values(labels)

            def without_folds(check: Check) -> FloatArray:
                weights, signs = labels.weights[labels.rows], targets[labels.rows]

                def fit(remaining: IndexArray, out: IndexArray) -> FloatArray:
                    solution = ridge.solve(
                        gram.restrict(remaining),
                        Objective(Squared(signs[remaining]), weights[remaining], penalty, has_bias=True),
                        n_jobs=self.n_jobs,
                        memory_limit=self.memory_limit,
                        check=check,
                    )
                    beta = np.zeros_like(signs)
                    beta[remaining] = solution.beta
                    return gram.matvec(beta, out, check) + solution.bias

                return by_folds(labels.folds, penalty.size, fit, check)

            by_rows = partial(self._known_without_rows, gram)
            left_out = without_folds if self.calibration_values_ == FOLDS else by_rows
            raw = self._left_out_in_time(left_out, self.max_seconds, began)
            if raw is not None:
                self._calibrate(raw, labels, "ovr")
        return self

    @property
    def certificate_(self) -> Certificate:
        """Objectives, duality gap and residual, recomputed in float64 independently of the solver."""
        check_is_fitted(self, "X_fit_")
        return self._solved.certificate

    @property
    def loo_decision_(self) -> FloatArray:
        """Leave-one-out decision values, in closed form."""
        check_is_fitted(self, "X_fit_")
        return one_column_for_two(self._without_rows())

    def _known_without_rows(self, gram: Gram, check: Check) -> FloatArray:
        """Return the leave-one-out values of the rows of positive weight; raise ValueError if one does not exist."""
        raw = self._without_rows(gram, check)[self._labels.rows]
        unknown = np.isnan(raw).any(axis=1)
        if unknown.any():
            raise ValueError(
                "probability=True needs decision values without each row, but without row "
                f"{self._labels.rows[unknown][0]} (counted from 0) the system is singular. Use another kernel or C."
            )
        return raw

    def _without_rows(self, gram: Gram | None = None, check: Check = no_check) -> FloatArray:
        """Return the leave-one-out decision values, (n, n_machines); `gram` is that of the fit, if it still exists."""
        if not hasattr(self, "_loo"):
            rows = self._labels.rows
            values = np.full(self._coefficients.shape, np.nan)
            values[rows] = self._labels.signs[rows] - ridge.leave_one_out(
                self._gram_of_fit() if gram is None else gram,
                self._solved,
                n_jobs=self.n_jobs,
                memory_limit=self.memory_limit,
                check=check,
            )
            self._loo = values
        return self._loo

    @property
    def loo_score_(self) -> float:
        """Accuracy of the leave-one-out decisions."""
        return known_accuracy(self.loo_decision_, self._labels.codes, self._labels.weights)
