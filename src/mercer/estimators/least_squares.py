"""The linear least-squares classifier: linear regression of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.status import Status
from mercer.data.arguments import check_number
from mercer.data.user_warnings import warn_user
from mercer.estimators._labels import one_column_for_two, read_labels
from mercer.estimators._linear import LinearMachine
from mercer.estimators._probabilities import HasProbabilities
from mercer.estimators._scores import ByScores, known_accuracy
from mercer.estimators._validation import check_table
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds
from mercer.solvers.smooth import least_squares
from mercer.specs import ForLeastSquaresClassifier


class LeastSquaresClassifier(ByScores, HasProbabilities, LinearMachine):
    """Linear classifier by least-squares regression of the labels.

    **Solves** for two classes, y_i = +1 or -1, or else for each class against the rest,

        min  alpha/2 ||w||^2 + 1/2 sum_i s_i (y_i - <w, x_i> - b)^2,

    where s_i is the weight of the row times the weight of its class.

    Parameters
    ----------
    alpha : float >= 0, default=0.0
        Penalty. With ``alpha=0`` and fewer rows than columns, `fit` returns the solution of least norm.
    class_weight : {"balanced"} or dict, optional
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
    coef_ : ndarray of shape (1 or n_classes, p)
    intercept_ : ndarray of shape (1 or n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        Leave-one-out decision values, in closed form; NaN for rows of weight 0.
    loo_score_ : float
        Accuracy of the leave-one-out decisions, weighted by the weights of the rows.
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
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Warns
    -----
    ConvergenceWarning
        If rounding hides the optimum, for instance because columns differ much in scale. The machine can still predict.

    Notes
    -----
    Costs some 4 n p min(n, p) multiplications. Sparse rows are made dense, which takes 8 n p bytes. For wide sparse
    tables use ``LeastSquaresSVC(kernel="linear")``, which stores n² numbers instead.

    The squared loss also penalises rows that are far on the correct side; `SVC` and `LogisticRegression` do not.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), section 4.2.

    Examples
    --------
    >>> from mercer import LeastSquaresClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LeastSquaresClassifier().fit(X, y)
    >>> round(machine.score(X, y), 3), round(machine.loo_score_, 3)
    (0.965, 0.958)
    """

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        class_weight: str | Mapping[Any, float] | None = None,
        probability: bool = False,
        calibration: str = "sigmoid",
        calibration_values: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.class_weight = class_weight
        self.probability = probability
        self.calibration = calibration
        self.calibration_values = calibration_values

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> LeastSquaresClassifier:
        """Solve the least-squares problem.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Weights >= 0; a row of weight 0 is ignored.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.

        Returns
        -------
        LeastSquaresClassifier
            The fitted machine itself.

        Raises
        ------
        ValueError
            If `alpha` is negative, `X` holds text, NaN or infinity, `y` has another length than `X` or holds one class
            only, or a weight is negative.
        """
        alpha = check_number("alpha", self.alpha, at_least=0.0, finite=True)
        self._begin_probabilities()
        table = check_table(self, X, reset=True, y=y).dense()
        labels = read_labels(y, sample_weight, self.class_weight, table.shape[0], groups=groups)
        rows = labels.rows
        fitted = least_squares.solve(table[rows], labels.signs[rows], alpha, labels.weights[rows])
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.spec_ = ForLeastSquaresClassifier(alpha=alpha)
        self.coef_, self.intercept_ = np.ascontiguousarray(fitted.w.T), fitted.bias
        decision = np.full((table.shape[0], fitted.bias.size), np.nan)
        decision[rows] = labels.signs[rows] - fitted.leave_one_out
        self.loo_decision_ = one_column_for_two(decision)
        self.loo_score_ = known_accuracy(self.loo_decision_, labels.codes, labels.weights)
        self.certificate_ = fitted.certificate
        if fitted.certificate.status is not Status.OPTIMAL:
            warn_user(
                f"LeastSquaresClassifier {fitted.certificate.ending} {fitted.certificate.status.advice}",
                ConvergenceWarning,
            )
        if self._has_probabilities():
            self._choose_values(labels)

            def without(remaining: IndexArray, out: IndexArray) -> FloatArray:
                there = rows[remaining]
                weights = least_squares.solve(table[there], labels.signs[there], alpha, labels.weights[there])
                return table[rows[out]] @ weights.w + weights.bias

            if self.calibration_values_ == FOLDS:
                self._calibrate(by_folds(labels.folds, fitted.bias.size, without), labels, "ovr")
            else:
                self._calibrate(decision[rows], labels, "ovr")
        return self
