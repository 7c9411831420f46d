"""Probabilities of classifiers that have decision values, by a map fitted to those of rows left out of training."""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.cluster import by_blocks
from mercer.data.arguments import check_choice, check_flag
from mercer.data.offered import offered_if
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import Classifier
from mercer.estimators._labels import Labels
from mercer.multiclass.calibration import (
    CALIBRATIONS,
    FITTED_ON,
    FOLDS,
    LEAVE_ONE_OUT,
    Calibration,
    calibrate,
    map_of,
)
from mercer.multiclass.training import class_scores
from mercer.solvers.loop import in_time

Check = Callable[[], None]
"""Called between pieces of work; it may raise an error, which ends the work."""

AUTO = "auto"
VALUES = (AUTO, LEAVE_ONE_OUT, FOLDS)
"""What `calibration_values` may be."""

_PASSES = {LEAVE_ONE_OUT: "leave-one-out pass", FOLDS: "cross-fitting"}
_FITTED = (
    "calibration_",
    "calibration_values_",
    "calibration_reason_",
    "loo_decision_",
    "cross_fitted_decision_",
    "_calibration_bytes",
)

# Largest sizes for which "auto" uses leave-one-out decision values.
_MOST_MACHINES = 45  # the pairs of ten classes
_MOST_ROWS, _MOST_REFITS = 2000, 200  # rows of a machine up to which leave-one-out is used: by updates, by refits

_SIGN_OF_LIFE_SECONDS = 2.0  # seconds between two lines of verbose output


def _with_signs_of_life(check: Check, began: float, what: str) -> Check:
    """Return a function that calls `check` and reports on stderr what is being computed."""
    reported = -np.inf

    def audible() -> None:
        nonlocal reported
        now = time.perf_counter()
        if now >= reported + _SIGN_OF_LIFE_SECONDS:
            reported = now
            print(f"{now - began:8.1f} s  {what} for the probabilities", file=sys.stderr)
        check()

    return audible


def _probability_is_set(machine: HasProbabilities) -> None:
    if not machine._has_probabilities():
        name = type(machine).__name__
        raise AttributeError(
            f"predict_proba is not available when probability=False: write {name}(..., probability=True) and fit "
            "again, or take KernelLogisticRegression or LogisticRegression, which always have probabilities"
        )


def _chosen(asked: str, sizes: IndexArray | None, refits: bool, convex: bool, grouped: bool) -> tuple[str, str]:
    """Return the values that the map is fitted to, and why these, of groups, sizes and the kernel alone."""
    if grouped and asked == LEAVE_ONE_OUT:
        raise ValueError(
            'calibration_values="leave_one_out" leaves out single rows, and other rows of the group stay in training. '
            'Set calibration_values="auto" or "folds" with groups.'
        )
    if grouped:
        return FOLDS, "groups keep their rows in one fold"
    if asked != AUTO:
        return asked, f"calibration_values={asked!r} asks for them"
    if sizes is None:
        return LEAVE_ONE_OUT, "a closed form has them"
    if not convex:
        return FOLDS, "the kernel is not known to be positive semidefinite, so that solutions without a row may differ"
    if sizes.size > _MOST_MACHINES:
        return FOLDS, f"there are {sizes.size:,} machines, more than {_MOST_MACHINES}"
    n, most = int(sizes.max(initial=0)), _MOST_REFITS if refits else _MOST_ROWS
    if n > most:
        each = ", each of which would be left out by a fit of its own" if refits else ""
        return FOLDS, f"a machine has {n:,} rows, more than {most:,}{each}"
    each = "a machine" if sizes.size == 1 else f"{sizes.size} machines"
    return LEAVE_ONE_OUT, f"{each} of up to {n:,} rows: they cost little"


class HasProbabilities(Classifier):
    """A classifier with decision values, and with probabilities if `probability=True`."""

    # With metadata routing, groups for the splitter of a search are not meant for `fit`, unless one asks for it.
    __metadata_request__fit: ClassVar = {"groups": False}

    probability: bool | str
    class_weight: Any
    calibration: str
    calibration_values: str
    verbose: int = 0
    classes_: npt.NDArray[Any]
    calibration_: Calibration
    calibration_values_: str
    calibration_reason_: str

    def _has_probabilities(self) -> bool:
        return (
            self.probability is not False and self.probability != "deprecated"
        )  # scikit-learn's default, which means False

    def _begin_probabilities(self) -> None:
        """Check the parameters, and remove the probabilities of the last fit."""
        check_choice("calibration", self.calibration, CALIBRATIONS)
        if self.probability != "deprecated":
            check_flag("probability", self.probability)
        check_choice("calibration_values", self.calibration_values, VALUES)
        for name in _FITTED:
            self.__dict__.pop(name, None)

    def _choose_values(
        self, labels: Labels, *, sizes: IndexArray | None = None, refits: bool = False, convex: bool = True
    ) -> None:
        """Decide which decision values the map is fitted to, and say why.

        Parameters
        ----------
        labels : Labels
        sizes : ndarray of int64 of shape (n_machines,), optional
            Rows of each machine; None if leave-one-out values have a closed form.
        refits : bool
            Whether leave-one-out trains the machine again for each row that has a coefficient.
        convex : bool
            Whether a machine without a row is known to be the optimum.
        """
        self.calibration_values_, self.calibration_reason_ = _chosen(
            self.calibration_values, sizes, refits, convex, labels.groups is not None
        )
        if self.verbose:
            how = FITTED_ON[self.calibration_values_]
            print(f"probabilities by {how}: {self.calibration_reason_}", file=sys.stderr)

    def _left_out_in_time(
        self, left_out: Callable[[Check], FloatArray], max_seconds: float | None, began: float
    ) -> FloatArray | None:
        """What `left_out` returns, or None, with a warning, where time was up."""
        what = _PASSES[self.calibration_values_]

        def audible(check: Check) -> FloatArray:
            return left_out(_with_signs_of_life(check, began, what))

        deadline = None if max_seconds is None else began + max_seconds
        search = vars(self).get("_search")  # the search that this fit is part of
        values = in_time(audible if self.verbose > 1 else left_out, deadline, part_of=search)
        if values is None or np.isnan(values).any():  # Ctrl-C while a machine was solved leaves values unknown
            if search is None or not search.requested:  # a stopped search reports its end itself
                warn_user(
                    f"{type(self).__name__} has no probabilities: the {what} that they come from was ended "
                    "by max_seconds or Ctrl-C. Raise max_seconds, or set probability=False.",
                    ConvergenceWarning,
                )
            return None
        return values

    def _calibrate(self, raw: FloatArray, labels: Labels, scheme: str) -> None:
        """Fit the map to the decision values of the rows that took part, (n, n_machines), by machines without them."""
        rows = labels.rows
        method, free, weighted = map_of(self.calibration, has_class_weights=labels.has_class_weights)
        self.calibration_ = calibrate(
            raw,
            labels.codes[rows],
            labels.classes.size,
            scheme=scheme,
            method=method,
            free=free,
            weights=labels.sample_weight[rows],
            class_weight=labels.class_weight if weighted else None,
            fitted_on=FITTED_ON[self.calibration_values_],
            folds=labels.group_folds,
        )
        name = "loo_decision_" if self.calibration_values_ == LEAVE_ONE_OUT else "cross_fitted_decision_"
        if not hasattr(type(self), name):  # a method that exists without probabilities
            scores = class_scores(raw, labels.classes.size, scheme)
            decision = np.full((labels.codes.size, *scores.shape[1:]), np.nan)
            decision[rows] = scores
            self.__dict__[name] = decision

    @abstractmethod
    def _machine_values(self, X: Any) -> FloatArray:
        """Decision values of the machines that `calibration_` reads, (m, n_machines)."""

    @offered_if(_probability_is_set)
    @by_blocks
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Available with ``probability=True``.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of ``classes_``. Unless ``calibration_.free`` is true, the predicted class has the largest
            probability, ties included: ``classes_[predict_proba(X).argmax(axis=1)]`` is ``predict(X)``.

        Raises
        ------
        NotFittedError
            Before `fit`, or if it was fitted with ``probability=False``, or if the fit ended early.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

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

    @offered_if(_probability_is_set)
    @by_blocks
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class, (m, n_classes); see :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
