"""The least-squares support vector classifier: regression on the labels with a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.data.arguments import check_number
from mercer.estimators.by_scores import ByScores, known_accuracy
from mercer.estimators.every_row import EveryRowMachine
from mercer.estimators.labels import one_column_for_two
from mercer.estimators.probabilities import HasProbabilities
from mercer.gram.factorisation import Check, no_check
from mercer.kernels import Gamma, Kernel
from mercer.losses import ridge
from mercer.losses.certificate import LossCertificate
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds, fold_numbers
from mercer.specs import ForLeastSquaresSVC


class LeastSquaresSVC(ByScores, HasProbabilities, EveryRowMachine):
    """Least-squares support vector classifier: a linear system in the place of a quadratic program.

    **Solves** for two classes, y_i = +1 or -1, or else for each class against the rest,

        min  1/2 ||w||^2 + 1/2 sum_i C_i (y_i - f(x_i))^2,    f(x) = <w, phi(x)> + b,

    by (K + diag(1/C)) beta + 1 b = y, sum_i beta_i = 0, C_i being C times the weights of the row and of its class. The
    objectives of `certificate_` are those of `KernelRidge` with alpha = 1/C: 1/C times this, summed over the machines.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, > 0 and finite.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`; so are `degree`, `gamma`, `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    class_weight : {"balanced"} or dict, optional
        Factors of C by class.
    n_jobs : int, optional
        Threads. None: all processors, or a joblib worker's share of them.
    max_seconds : float, optional
        Ends `fit` with a StoppedError, and leaves the machine as it was. Ctrl-C does so with KeyboardInterrupt. Where
        they come during the leave-one-out pass of ``probability=True``, only the probabilities are missing.
    memory_limit : int, optional
        Bytes that the linear system may take beside the input. None or 0: no limit.
    probability : bool, default=False
        Whether `fit` makes `predict_proba` ready, by a leave-one-out pass in closed form.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        Which decision values the map is fitted to; see :class:`mercer.SVC`.
        "auto" leaves out rows one by one, for a closed form knows them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (1 or n_classes, n)
        beta of every machine; 0 for rows of weight 0. It is rarely 0 anywhere else: there are no support vectors.
    intercept_ : ndarray of shape (1 or n_classes,)
    X_fit_ : ndarray or csr_array of shape (n, p)
    kernel_ : Kernel
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        Decision values of each row by machines trained without it, in closed form; computed on first use. NaN for rows
        of weight 0. Class weights and gamma stay those of all rows.
    loo_score_ : float
        Accuracy of these, rows counted by their sample weights times class weights.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        The same, where ``calibration_values_`` is "folds": by machines trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and what it was fitted on.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: which decision values `calibration_` was fitted to, and why these.
    certificate_ : LossCertificate
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, StoppedError, MemoryError
        In `fit`, which says when.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LeastSquaresSVC:
        """Solve the system.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            (n, n) with ``kernel="precomputed"``; strings or sets for kernels on them.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors of C, >= 0; 0 leaves a row out.

        Returns
        -------
        LeastSquaresSVC
            Itself, fitted.

        Raises
        ------
        ValueError
            For parameters out of their range; for X that holds text, NaN or infinity; for y of another length or of
            one class; for negative weights; and for kernel values that overflow.
        StoppedError
            If `max_seconds` came before the linear system was solved.
        MemoryError
            If `memory_limit`, or the memory of the system, does not suffice. It says how much is needed.
        """
        C = check_number("C", self.C, above=0.0)
        if not np.isfinite(C):
            raise ValueError(f"C must be a finite number > 0, got {self.C!r}; SVC has a maximal margin.")
        began = time.perf_counter()
        check = self._raise_when_stopped(self.max_seconds, began)
        self._begin_probabilities()
        kernel, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight)
        gram = self._gram(kernel, data, labels.rows)
        targets = labels.signs
        penalty = np.full(targets.shape[1], 1.0 / C)
        solved = ridge.solve(
            gram,
            targets[labels.rows],
            penalty,
            labels.weights[labels.rows],
            has_bias=True,
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
            check=check,
        )
        self._keep_classes(kernel, data, labels, solved.beta, solved.bias)
        self._solved, self._labels, self._penalty = solved, labels, penalty
        self.spec_ = ForLeastSquaresSVC(C=C)
        self.__dict__.pop("_loo", None)
        self._warn(gram, solved.certificate)
        if self._has_probabilities():
            self._choose_values()

            def without_folds(check: Check) -> FloatArray:
                weights, signs = labels.weights[labels.rows], targets[labels.rows]

                def fit(kept: IndexArray, out: IndexArray) -> FloatArray:
                    own = ridge.solve(
                        gram.restrict(kept),
                        signs[kept],
                        penalty,
                        weights[kept],
                        has_bias=True,
                        n_jobs=self.n_jobs,
                        memory_limit=self.memory_limit,
                        check=check,
                    )
                    beta = np.zeros_like(signs)
                    beta[kept] = own.beta
                    return gram.matvec(beta, out, check) + own.bias

                folds = fold_numbers(labels.codes[labels.rows], labels.classes.size)
                return by_folds(folds, penalty.size, fit, check)

            left_out = without_folds if self.calibration_values_ == FOLDS else self._known_without_rows
            raw = self._left_out_in_time(left_out, self.max_seconds, began, depth=2)
            if raw is not None:
                self._calibrate(raw, labels, "ovr")
        return self

    @property
    def certificate_(self) -> LossCertificate:
        """Objectives, duality gap and residual, recomputed in float64 apart from the solver."""
        check_is_fitted(self, "X_fit_")
        return self._solved.certificate

    @property
    def loo_decision_(self) -> FloatArray:
        """Decision values of machines each trained without its row, in closed form."""
        check_is_fitted(self, "X_fit_")
        return one_column_for_two(self._without_rows())

    def _known_without_rows(self, check: Check) -> FloatArray:
        """Decision values of the rows that took part; an error where there are none of a row."""
        raw = self._without_rows(check)[self._labels.rows]
        unknown = np.isnan(raw).any(axis=1)
        if unknown.any():
            raise ValueError(
                "probability=True needs decision values without each row, but without row "
                f"{self._labels.rows[unknown][0]} (counted from 0) the system is singular. Use another kernel or C."
            )
        return raw

    def _without_rows(self, check: Check = no_check) -> FloatArray:
        """Decision values of machines each trained without its row, (n, n_machines)."""
        if not hasattr(self, "_loo"):
            rows = self._labels.rows
            found = np.full(self._coefficients.shape, np.nan)
            found[rows] = self._labels.signs[rows] - ridge.leave_one_out(
                self._gram_of_fit(),
                self._solved.beta,
                self._penalty,
                self._labels.weights[rows],
                has_bias=True,
                n_jobs=self.n_jobs,
                memory_limit=self.memory_limit,
                check=check,
            )
            self._loo = found
        return self._loo

    @property
    def loo_score_(self) -> float:
        """Accuracy of the leave-one-out decisions."""
        return known_accuracy(self.loo_decision_, self._labels.codes, self._labels.weights)
