"""The kernel density classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data.arguments import check_whole
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._probabilities import HasProbabilities
from mercer.estimators._scores import ByScores
from mercer.kernels import Gamma, Kernel
from mercer.kernels.kernel import finite
from mercer.multiclass.calibration import FOLDS
from mercer.multiclass.cross_fitting import by_folds
from mercer.multiclass.training import JOINT
from mercer.specs import ForParzenClassifier


class ParzenClassifier(ByScores, HasProbabilities, EveryRowMachine):
    """Kernel density classifier: a class's score is the sum of the kernel values with its rows.

    The score of class k is sum_i s_i k(x_i, x) over its rows, where s_i is the weight of the row times the weight of
    its class. The class with the largest score is predicted. For two classes, h(x) = sum_i s_i y_i k(x_i, x). With the
    Gaussian kernel, the scores are Parzen's density estimates times the class frequencies. The classifier solves no
    optimisation problem, so it has no certificate.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        See :class:`mercer.SVC`, also for `degree`, `gamma` and `coef0`.
    degree : int, default=3
    gamma : {"scale", "auto"} or float, default="scale"
    coef0 : float, default=0.0
    class_weight : {"balanced"} or dict, optional
        Factors of the row weights by class. "balanced" compares means of kernel values instead of sums.
    n_jobs : int, optional
        Number of threads. None: all processors, or a joblib worker's share of them.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`: it calibrates on decision values of rows by machines that were not
        trained on them, see `calibration_values`. The leave-one-out value of a row is its score without its own kernel
        value; all of them cost n² kernel values.
    calibration : {"sigmoid", "isotonic", "free", "free_isotonic", "weighted", "weighted_isotonic"}, default="sigmoid"
        The map from decision values to probabilities; see :class:`mercer.SVC`.
    calibration_values : {"auto", "leave_one_out", "folds"}, default="auto"
        The decision values that the map is fitted to; see :class:`mercer.SVC`.
        "auto" means "leave_one_out", because these values have a closed form.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    loo_decision_ : ndarray of shape (n,) or (n, n_classes)
        With ``probability=True``, if ``calibration_values_`` is "leave_one_out": leave-one-out decision values; NaN for
        rows of weight 0. Class weights and gamma are those of all rows.
    cross_fitted_decision_ : ndarray of shape (n,) or (n, n_classes)
        If ``calibration_values_`` is "folds": decision values by machines that were trained without the row's fold.
    calibration_ : mercer.multiclass.calibration.Calibration
        With ``probability=True``: the map from decision values to probabilities, and the data that it was fitted to.
    calibration_values_, calibration_reason_ : str
        With ``probability=True``: the decision values that `calibration_` was fitted to ("leave_one_out" or "folds"),
        and the reason for this choice.
    X_fit_ : ndarray or csr_array of shape (n, p)
        The training rows.
    kernel_ : Kernel
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        In `fit`, for invalid parameters or data; the message names the fault.

    Notes
    -----
    `fit` evaluates no kernel values, unless ``probability=True``. A prediction costs n kernel values for each row. All
    coefficients have the size of the weights: unlike in a support vector machine, they are not optimised.

    References
    ----------
    Parzen (1962); Schölkopf & Smola (2002), section 1.2.

    Examples
    --------
    >>> from mercer import ParzenClassifier
    >>> ParzenClassifier(gamma=1.0).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).predict([[2.0], [4.0]])
    array(['a', 'b'], dtype='<U1')
    """

    memory_limit: int | None = None
    verbose = 0

    def __init__(
        self,
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
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.probability = probability
        self.calibration = calibration
        self.calibration_values = calibration_values

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> ParzenClassifier:
        """Store the training rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p)
            The training rows. With ``kernel="precomputed"``, the Gram matrix (n, n); for kernels of strings or sets, a
            sequence of these.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Weights >= 0; a row of weight 0 is ignored.
        groups : array-like of shape (n,), optional
            Group of each row, such as the patient. With ``probability=True``, probabilities are calibrated on folds
            that keep each group together. Groups change nothing else.

        Returns
        -------
        ParzenClassifier
            The fitted machine itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, `X` holds text, NaN or infinity, `y` has another length than `X` or holds
            one class only, or a weight is negative.
        """
        check_whole("n_jobs", self.n_jobs)
        self._begin_probabilities()
        self.kernel_, data, labels = self._rows_of_classes(X, y, sample_weight, self.class_weight, groups)
        self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self.spec_ = ForParzenClassifier()
        alpha = labels.signs if labels.classes.size == 2 else np.maximum(0.0, labels.signs)
        coefficients = (alpha * labels.weights[:, None])[labels.rows]
        self._store_fit(data, labels.rows, coefficients, np.zeros(alpha.shape[1]))
        if self._has_probabilities():
            gram = self._gram_of_fit()
            self._choose_values(labels)

            def without(remaining: IndexArray, out: IndexArray) -> FloatArray:
                others = np.zeros_like(coefficients)
                others[remaining] = coefficients[remaining]
                return gram.matvec(others, out)

            if self.calibration_values_ == FOLDS:
                raw = by_folds(labels.folds, alpha.shape[1], without)
            else:
                raw = gram.matvec(coefficients) - coefficients * gram.diag()[:, None]
            raw = finite(self.kernel_, raw)
            self._calibrate(raw, labels, JOINT)
        return self
