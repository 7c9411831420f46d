"""Base class of the support vector classifiers: it trains the machines for pairs of classes and combines them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.cluster import by_blocks
from mercer.data import Data, Precomputed
from mercer.data.arguments import check_choice
from mercer.estimators._dual import DualMachine
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._pilots import warn_if_too_long
from mercer.estimators._probabilities import HasProbabilities
from mercer.gram import CachePolicy, Gram
from mercer.multiclass import training
from mercer.multiclass.calibration import FOLDS, LEAVE_ONE_OUT, bytes_of_calibration
from mercer.multiclass.coefficients import PairCoefficients
from mercer.multiclass.cross_fitting import cross_fitted
from mercer.multiclass.prediction import predicted_classes
from mercer.problems import Problem
from mercer.solvers import Control, Interruption, Limits
from mercer.solvers.paths.loo_joint import joint_left_out
from mercer.solvers.paths.loo_values import LooPass


class MarginClassifier(HasProbabilities, DualMachine):
    """A classifier that combines machines for two classes (or one joint machine) on one Gram matrix."""

    class_weight: str | Mapping[Any, float] | None
    probability: bool | str
    calibration: str
    calibration_values: str
    multi_class: str
    decision_function_shape: str
    _schemes: tuple[str, ...] = training.SCHEMES

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        C: float,
        duals: Callable[[Labels], training.Duals],
        margin: training.Margin | None = None,
        classes: Any = None,
        groups: Any = None,
    ) -> None:
        """Train the machines whose problems `duals` makes; the penalty of a row is C times its weights.

        If `classes` are given, some of them may have no rows yet (`partial_fit`).
        """
        began = time.perf_counter()
        self._begin_probabilities()
        control = self._control()
        check_choice("multi_class", self.multi_class, self._schemes)
        self._check_shape(self.multi_class)
        spec, data = self._training_rows(X, y)
        labels = read_labels(y, sample_weight, self.class_weight, data.n, classes, groups)
        classes, codes, rows = labels.classes, labels.codes, labels.rows
        penalties = labels.penalties(C)
        control = control.after(warn_if_too_long(self, X, y, sample_weight, data.n), 0)

        kernel = spec.resolve(data, labels.uneven_weights)
        # The joint machine reads each row of the Gram matrix once for each class, so caching is worthwhile.
        cache_policy = (
            CachePolicy.NONE
            if classes.size <= 2
            else CachePolicy.FULL
            if self.multi_class == "joint"
            else CachePolicy.NON_NATIVE
        )
        gram = self._gram(kernel, data, rows, cache_policy=cache_policy)
        self._check_probabilities(gram, labels)
        machines = training.train(
            gram,
            codes[rows],
            classes.size,
            penalties,
            scheme=self.multi_class,
            duals=duals(labels),
            margin=margin,
            control=control,
            warm_start=self._last_machines(rows, codes) if self.warm_start else None,
        )
        self.classes_, self.class_weight_, self.kernel_ = classes.copy(), labels.class_weight.copy(), kernel
        self._weights = labels.uneven_weights
        self._take(self._adjusted(machines, penalties), data, rows, codes)
        self._warn(gram, data)
        if self._has_probabilities():
            self._calibrate_in_time(gram, labels, penalties, control.limits.max_seconds, began)

    def _adjusted(self, machines: training.Machines, penalties: npt.NDArray[np.float64]) -> training.Machines:
        """Return the machines after a correction for prediction (here none); `penalties` are those of the rows."""
        del penalties
        return machines

    @property
    def _besides(self) -> str:
        return super()._besides + (", and probabilities come from folds" if self._has_probabilities() else "")

    def _known_values(self, rows: npt.NDArray[np.int64]) -> FloatArray | None:
        return self.machines_.known_products(rows)

    def _check_probabilities(self, gram: Gram, labels: Labels) -> None:
        """Refuse ``probability=True`` if the kernel or the classes do not allow a calibration."""
        if not self._has_probabilities():
            return
        if not gram.is_convex and self.calibration_values == LEAVE_ONE_OUT:
            raise ValueError(
                'calibration_values="leave_one_out" needs a kernel that is positive semidefinite, but '
                f"{gram.kernel!r} is not known to be on these rows ({gram.diagnosis}), so that solutions without a row "
                'are not unique. Set calibration_values="folds" or "auto", or use another kernel.'
            )
        missing = np.setdiff1d(np.arange(labels.classes.size), labels.codes[labels.rows])
        if missing.size:
            raise ValueError(
                "probability=True calibrates on rows of every class, but there is no row yet of class "
                f"{labels.classes[missing].tolist()[0]!r}: set probability=False until there is."
            )

    def _calibrate_in_time(
        self,
        gram: Gram,
        labels: Labels,
        penalties: FloatArray,
        max_seconds: float | None,
        began: float,
    ) -> None:
        """Fit the map from decision values to probabilities, if the fit is optimal and the time limit allows."""
        if not set(self._solutions.statuses) <= {Status.OPTIMAL, Status.STALLED, Status.STATIONARY}:
            return  # leave-one-out values need the optimum
        joint = self.multi_class == training.JOINT
        sizes = np.array([labels.rows.size]) if joint else self.machines_.tasks.sizes
        self._choose_values(labels, sizes=sizes, refits=joint, convex=gram.is_convex)

        peak_bytes = 0

        def without_rows(check: Callable[[], None]) -> FloatArray:
            nonlocal peak_bytes
            problems, starts = self._followed_problems(penalties)
            parts = [task.rows for task in self.machines_.tasks]
            if joint:
                return joint_left_out(problems[0], starts[0], gram, check=check)
            rows, name = np.arange(gram.n), "probability=True"
            raw, _, solutions = LooPass(problems, starts, parts, gram, rows, name=name, check=check).run()
            peak_bytes = max((one.peak_memory_bytes for one in solutions), default=0)
            return raw

        def without_folds(check: Callable[[], None]) -> FloatArray:
            nonlocal peak_bytes
            limits, interruption = Limits(self.tol, max_seconds=max_seconds), Interruption(self._search)
            control = Control(limits, interruption=interruption, checkpoint=self._checkpoint)
            values = cross_fitted(
                gram,
                labels.codes[labels.rows],
                labels.classes.size,
                penalties,
                scheme=self.multi_class,
                duals=self._fold_duals(),
                control=control.after(time.perf_counter() - began, 0),
                folds=labels.folds,
                check=check,
            )
            peak_bytes = values.peak_memory_bytes
            return values.raw

        left_out = without_folds if self.calibration_values_ == FOLDS else without_rows
        raw = self._left_out_in_time(left_out, max_seconds, began)
        if raw is not None:
            self._calibrate(self._as_predicted(raw), labels, self.multi_class)
            self._calibration_bytes = max(peak_bytes, bytes_of_calibration(raw, labels.classes.size))
            self._warn_of_memory(self._calibration_bytes)

    def _followed_problems(self, penalties: FloatArray) -> tuple[list[Problem], list[FloatArray]]:
        """Return the problems and solutions from which the leave-one-out values are computed."""
        del penalties
        pairs = [(solution.evidence, solution.beta) for solution in self._solutions]
        return [evidence.problem for evidence, _ in pairs if evidence is not None], [beta for _, beta in pairs]

    @abstractmethod
    def _fold_duals(self) -> training.Duals:
        """Return a function that makes the problems of all rows except a fold; a class may then have no row."""

    def _as_predicted(self, raw: FloatArray) -> FloatArray:
        """Map decision values of the problems of `_followed_problems` to those of the machines that predict."""
        return raw

    def _machine_values(self, X: Any) -> FloatArray:
        return self._raw_decision(self._new_rows(X))

    def _check_shape(self, scheme: str) -> None:
        """Refuse a `decision_function_shape` that the scheme cannot give."""
        check_choice("decision_function_shape", self.decision_function_shape, training.SCHEMES)
        if scheme != "ovo" and self.decision_function_shape == "ovo":
            raise ValueError(
                "decision_function_shape='ovo' asks for the decision values of pairs of classes, but with "
                f"multi_class={scheme!r} there are no machines for pairs; set decision_function_shape='ovr', or "
                "multi_class='ovo'."
            )

    def _last_machines(self, rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64]) -> training.Machines | None:
        machines: training.Machines | None = getattr(self, "machines_", None)
        if machines is None:
            return None
        same = machines.scheme == self.multi_class and _are_equal(self._rows, rows)
        if not same or not _are_equal(self._codes, codes):
            raise ValueError(
                "warm_start=True goes on from the last fit and needs the same rows, labels, zero weights and "
                "multi_class; set warm_start=False for a cold start."
            )
        return machines

    def _take(
        self, machines: training.Machines, data: Data, rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64]
    ) -> None:
        """Store the trained machines in scikit-learn's attributes."""
        self.machines_, self._rows, self._codes = machines, rows, codes
        chosen, coefficients = machines.support(codes[rows])  # sorted by class, as in scikit-learn
        self._store_fit(machines.solutions, coefficients, machines.biases, data, rows[chosen])
        steps = machines.solutions.n_iter
        self.n_iter_ = steps.astype(np.int32 if steps.max() < 2**31 else np.int64)
        self._arrange(machines.scheme, codes[self.support_])

    def _arrange(self, scheme: str, support_codes: npt.NDArray[np.int64]) -> None:
        """Store `n_support_` and `dual_coef_`; `support_codes` are the classes of the support vectors, in order."""
        self._scheme = scheme
        self.n_support_ = np.bincount(support_codes, minlength=self.classes_.size).astype(np.int32)
        peak_bytes = self._coefficients
        self.dual_coef_ = self._as_the_rows(
            (peak_bytes.table if isinstance(peak_bytes, PairCoefficients) else peak_bytes).T
        )

    @by_blocks
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
            For more classes: one score for each class; the class with the largest score is predicted. With
            one-versus-one the scores are votes, and confidence breaks ties.
        ndarray of shape (m, n_classes * (n_classes - 1) / 2)
            With ``decision_function_shape="ovo"``: f for every pair (i, j) with i < j, positive for class i.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`; or if
            ``decision_function_shape="ovo"`` and the machine was fitted with ``multi_class="ovr"`` or ``"joint"``.

        Notes
        -----
        Costs m * n_SV kernel values, which all machines share. The scores for one-versus-one are those of scikit-learn.
        """
        raw = self._raw_decision(self._new_rows(X))
        self._check_shape(self._scheme)
        if self.decision_function_shape == "ovo" and raw.shape[1] > 1:
            return raw
        return training.class_scores(raw, self.classes_.size, self._scheme)

    @by_blocks
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
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in single precision if that proves the class despite rounding. Confidence breaks
        ties of votes, as in scikit-learn with ``break_ties=True``; if scores are equal, the smaller class is predicted.
        """
        data = self._new_rows(X)
        n_classes, scheme = self.classes_.size, self._scheme
        if isinstance(data, Precomputed):
            scores = training.class_scores(self._raw_decision(data), n_classes, scheme)
            return self.classes_[training.winners(scores)]
        winning = predicted_classes(
            self.kernel_,
            data,
            self._support_rows(),
            self._coefficients,
            self.intercept_,
            n_classes=n_classes,
            scheme=scheme,
            n_jobs=self.n_jobs,
        )
        return self.classes_[winning]


def _are_equal(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> bool:
    return one is other or np.array_equal(one, other)
