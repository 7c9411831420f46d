"""What classifiers of support vectors share: labels in, machines for two classes, scores and classes out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from mercer import multiclass
from mercer.data import Data, Precomputed
from mercer.estimators.base import DualMachine
from mercer.estimators.labels import read_labels
from mercer.prediction import predicted_classes


class MarginClassifier(ClassifierMixin, DualMachine):
    """A classifier made of machines for two classes, which share one Gram matrix."""

    class_weight: str | Mapping[Any, float] | None
    multi_class: str
    decision_function_shape: str
    warm_start: bool

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        C: float,
        duals: multiclass.Duals,
        margin: multiclass.Margin | None = None,
    ) -> None:
        """Train the machines that `duals` makes problems for; a row's penalty is C times its weights."""
        limits, listener = self._limits(), self._listener()
        multiclass.check_scheme("multi_class", self.multi_class)
        self._check_shape(self.multi_class)
        spec, data = self._training_rows(X, y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n)
        classes, codes, rows, weights = labels.classes, labels.codes, labels.rows, labels.sample_weight
        penalties = C * labels.class_weight[codes[rows]] * weights[rows] if np.isfinite(C) else np.full(rows.size, C)

        kernel = spec.resolve(data, None if sample_weight is None else weights)
        gram = self._gram(kernel, data, rows, keep_rows=classes.size > 2)
        machines = multiclass.train(
            gram,
            codes[rows],
            classes.size,
            penalties,
            scheme=self.multi_class,
            duals=duals,
            margin=margin,
            limits=limits,
            warm_start=self._last_machines(rows, codes) if self.warm_start else None,
            callback=listener,
        )
        self.classes_, self.class_weight_, self.kernel_ = classes, labels.class_weight, kernel
        self._take(machines, data, rows, codes)
        self._warn(gram, data, depth=4)

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
        self.n_iter_ = machines.solutions.n_iter
        self.dual_coef_ = self._dual_coefficients(machines, codes[self.support_])

    def _dual_coefficients(
        self, machines: multiclass.Machines, support_codes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        if machines.n_classes == 2 or machines.scheme == "ovr":
            return np.ascontiguousarray(self._coefficients.T)
        # LIBSVM's layout: in row r stands the coefficient against the r-th of the other classes.
        k = machines.n_classes
        dual = np.empty((k - 1, support_codes.size))
        column = np.zeros((k, k), dtype=np.int64)  # of the pair that a class makes with another
        positive, negative = machines.tasks.pairs.T
        column[positive, negative] = column[negative, positive] = np.arange(positive.size)
        ends = np.searchsorted(support_codes, np.arange(k + 1))  # support vectors are sorted by class
        others = column[~np.eye(k, dtype=bool)].reshape(k, k - 1)
        for own, (first, end) in enumerate(pairwise(ends.tolist())):
            dual[:, first:end] = self._coefficients[first:end, others[own]].T
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
