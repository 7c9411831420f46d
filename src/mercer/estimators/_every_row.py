"""Base class of machines without sparsity: their decision function is a sum over all training rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate
from mercer.certificates.status import Status, StoppedError
from mercer.data import Data, Precomputed
from mercer.data.arguments import check_seconds
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import KernelMachine
from mercer.estimators._labels import Labels
from mercer.estimators._neighbours import Prototypes
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.kernels import Precomputed as PrecomputedKernel
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.kernels.kernel import finite, restored_rows
from mercer.multiclass.decision import decision_values
from mercer.solvers import Interruption


class EveryRowMachine(KernelMachine):
    """A machine with outputs f_t(x) = sum_i beta_it k(x_i, x) + b_t, where i runs over all training rows."""

    _search: Interruption | None = None  # the interruption of the search that this fit belongs to

    def _store_fit(self, data: Data, rows: IndexArray, beta: FloatArray, bias: FloatArray) -> None:
        """Store the coefficients (n_rows, T) of the chosen rows; the other rows have coefficients 0."""
        coefficients = np.zeros((data.n, beta.shape[1]))
        coefficients[rows] = beta
        self._coefficients, self._bias, self._rows = coefficients, bias, rows
        self.X_fit_ = data.stored

    def _keep_classes(self, kernel: Kernel, data: Data, labels: Labels, beta: FloatArray, bias: FloatArray) -> None:
        """Store the fitted attributes of a classifier with class weights."""
        self.kernel_, self.classes_, self.class_weight_ = kernel, labels.classes, labels.class_weight
        self._store_fit(data, labels.rows, beta, bias)
        self.dual_coef_, self.intercept_ = np.ascontiguousarray(self._coefficients.T), bias

    def _values(self, X: Any) -> FloatArray:
        """Return f for each row and output, (m, T); raise ValueError if kernel values overflow."""
        data = self._new_rows(X)
        if isinstance(data, Precomputed) and isinstance(self.kernel_, (EvaluatedKernel, PrecomputedKernel)):
            return data.values(np.arange(data.p)) @ self._coefficients + self._bias
        # A composite of given values is computed from the columns of the training rows.
        rows = data.standing_for(np.arange(data.p)) if isinstance(data, Precomputed) else self._fit_rows()
        jobs = self.n_jobs
        decision = decision_values(self.kernel_, data, rows, self._coefficients, self._bias, n_jobs=jobs)
        return finite(self.kernel_, decision)

    def _expansion(self) -> tuple[Kernel, Data, FloatArray, FloatArray]:
        """Return the kernel, the training rows, their coefficients (n, T) and the biases (T,)."""
        return self.kernel_, self._fit_rows(), self._coefficients, self._bias

    def _fit_rows(self) -> Data:
        return restored_rows(self.kernel_, self.X_fit_)

    def _prototypes(self, which: str) -> Prototypes:
        if which != "all":
            raise ValueError(f"{type(self).__name__} has no support vectors: take prototypes='all'.")
        rows = self._fit_rows().rows(self._rows)
        return Prototypes(rows, self._rows)

    def _gram_of_fit(self) -> Gram:
        """Return the Gram matrix of the training rows of positive weight."""
        gram = Gram(self.kernel_, self._fit_rows(), n_jobs=self.n_jobs)
        return gram if self._rows.size == gram.n else gram.restrict(self._rows)

    def _raise_when_stopped(self, max_seconds: Any, began: float) -> Callable[[], None]:
        """Return a function that raises StoppedError after the time limit, or when the enclosing search has stopped.

        Machines that solve one linear system use it: they have no usable result before the system is solved.
        """
        seconds, search, name = check_seconds(max_seconds), self._search, type(self).__name__

        def check() -> None:
            if search is not None and search.requested:
                raise StoppedError(f"{name} was stopped with the search that it is part of; nothing was fitted.")
            if seconds is not None and time.perf_counter() > began + seconds:
                raise StoppedError(
                    f"{name} was stopped by max_seconds={seconds:g} before its linear system was solved, and no part "
                    "of the solution can be used; nothing was fitted. Raise max_seconds, or train on fewer rows."
                )

        return check

    def _warn(self, gram: Gram, certificate: Certificate) -> None:
        self._warn_of_kernel(gram)
        if certificate.status not in (Status.OPTIMAL, Status.STATIONARY):
            warn_user(
                f"{type(self).__name__} {certificate.ending} {certificate.status.advice}",
                ConvergenceWarning,
            )
