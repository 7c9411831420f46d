"""Probabilities of classifiers that have decision values, by a map fitted to the leave-one-out ones of the same fit."""

from __future__ import annotations

import sys
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.data.arguments import check_choice, check_flag
from mercer.estimators.labels import Labels
from mercer.multiclass.calibration import CALIBRATIONS, Calibration, calibrate
from mercer.multiclass.training import class_scores
from mercer.solvers.interruption import in_time

Check = Callable[[], None]
"""Called between pieces of work; what it raises ends it."""


_SIGN_OF_LIFE_SECONDS = 2.0  # a line now and then, for nobody knows how many pieces there are


def _with_signs_of_life(check: Check, began: float) -> Check:
    """Return `check` so that it says on stderr what takes its time."""
    told = -np.inf

    def audible() -> None:
        nonlocal told
        now = time.perf_counter()
        if now >= told + _SIGN_OF_LIFE_SECONDS:
            told = now
            print(f"{now - began:8.1f} s  leave-one-out pass for the probabilities", file=sys.stderr)
        check()

    return audible


def _probability_is_set(machine: HasProbabilities) -> bool:
    if not machine._has_probabilities():
        raise AttributeError("predict_proba is not available when probability=False: set it to True and fit again")
    return True


class HasProbabilities(ClassifierMixin):
    """A classifier with decision values, which `probability=True` gives probabilities too."""

    probability: bool | str
    calibration: str
    verbose: int
    classes_: npt.NDArray[Any]
    calibration_: Calibration

    def _has_probabilities(self) -> bool:
        return self.probability is not False and self.probability != "deprecated"  # scikit-learn's default says False

    def _begin_probabilities(self) -> None:
        """Check what was asked for, and forget those of the last fit."""
        check_choice("calibration", self.calibration, CALIBRATIONS)
        if self.probability != "deprecated":
            check_flag("probability", self.probability)
        for name in ("calibration_", "loo_decision_"):
            self.__dict__.pop(name, None)

    def _left_out_in_time(
        self, left_out: Callable[[Check], FloatArray], max_seconds: float | None, began: float, *, depth: int
    ) -> FloatArray | None:
        """What `left_out` returns, or None, with a warning `depth` calls below the user's, where time was up."""

        def audible(check: Check) -> FloatArray:
            return left_out(_with_signs_of_life(check, began))

        deadline = None if max_seconds is None else began + max_seconds
        search = vars(self).get("_search")  # that the fit is part of
        found = in_time(audible if self.verbose > 1 else left_out, deadline, part_of=search)
        if found is None or np.isnan(found).any():  # Ctrl-C while a machine was solved leaves values unknown
            if search is None or not search.requested:  # whose end is told for itself
                warnings.warn(
                    f"{type(self).__name__} has no probabilities: the leave-one-out pass that they come from was ended "
                    "by max_seconds or Ctrl-C. Raise max_seconds, or set probability=False.",
                    ConvergenceWarning,
                    stacklevel=depth + 1,
                )
            return None
        return found

    def _calibrate(self, raw: FloatArray, labels: Labels, scheme: str) -> None:
        """Fit the map to the decision values of the rows that took part, (n, n_machines), each without its row."""
        free, rows = self.calibration.startswith("free"), labels.rows
        self.calibration_ = calibrate(
            raw,
            labels.codes[rows],
            labels.classes.size,
            scheme=scheme,
            method="isotonic" if self.calibration.endswith("isotonic") else "sigmoid",
            free=free,
            weights=labels.sample_weight[rows],
            class_weight=None if free else labels.class_weight,
        )
        if not hasattr(type(self), "loo_decision_"):  # where it is there without probabilities
            scores = class_scores(raw, labels.classes.size, scheme)
            known = np.full((labels.codes.size, *scores.shape[1:]), np.nan)
            known[rows] = scores
            self.__dict__["loo_decision_"] = known

    @abstractmethod
    def _machine_values(self, X: Any) -> FloatArray:
        """Decision values of the machines that `calibration_` reads, (m, n_machines)."""

    @available_if(_probability_is_set)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Available with ``probability=True``.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of ``classes_``. Unless ``calibration`` begins with "free", the predicted class has the largest
            probability, ties included: ``classes_[predict_proba(X).argmax(axis=1)]`` is ``predict(X)``.

        Raises
        ------
        NotFittedError
            Before `fit`, or where it was with ``probability=False`` or came to no end.
        ValueError
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        By ``calibration_``, see :class:`mercer.multiclass.calibration.Calibration`. Costs what `decision_function`
        does; for more than two classes, n_classes^3 / 3 multiplications a row more.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"this {type(self).__name__} has no probabilities: it was fitted with probability=False, or the fit "
                "was ended before it came to them. Set probability=True and fit again, with a larger max_iter or "
                "max_seconds if one of them ended it."
            )
        return self.calibration_.probabilities(self._machine_values(X))

    @available_if(_probability_is_set)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class, (m, n_classes); see :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
