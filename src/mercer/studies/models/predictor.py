"""The methods by which scikit-learn and other libraries use a trained model as an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags

from mercer.data import as_table, cell_text, listing, offered_if
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind, Quantity

_TYPES = {Classes: "classifier", Quantity: "regressor", Membership: "outlier_detector"}


def _check_scores(model: Any) -> None:
    if isinstance(model.prediction_kind, Quantity):
        raise AttributeError("this model predicts numbers, so it has no decision_function: predict gives the numbers")


def _check_probabilities(model: Any) -> None:
    if not isinstance(model.prediction_kind, Classes):
        raise AttributeError("this model predicts no classes, so it has no probabilities")
    if not model.has_probabilities:
        raise AttributeError(
            "this model has no probabilities: train it with probability=True, as in fit_model(table, target, "
            "SVC(probability=True)), or take LogisticRegression; a study has them with scoring='log_loss' or cost=..."
        )


class Predictor(BaseEstimator):
    """A trained model as a fitted estimator of scikit-learn: a classifier, a regressor or a novelty detector.

    Rows are data frames, whose columns are found by their names, or arrays with the columns of `feature_names_in_` in
    their order. A clone is the model itself, and `fit` is refused: a model is trained by a study or by `fit_model`.
    """

    encoder: Any
    prediction_kind: PredictionKind

    if TYPE_CHECKING:

        @property
        def has_probabilities(self) -> bool: ...  # noqa: D102
        def predict(self, table: Any) -> npt.NDArray[Any]: ...  # noqa: D102
        def scores(self, table: Any) -> npt.NDArray[np.float64]: ...  # noqa: D102
        def probabilities(self, table: Any) -> npt.NDArray[np.float64]: ...  # noqa: D102
        def _repr_html_(self) -> str: ...

    def fit(self, X: Any, y: Any = None) -> Self:
        """Refuse to train again.

        Raises
        ------
        TypeError
            Always. What is trained in a cross-validation or a search must be a machine, such as `SVC`.
        """
        raise TypeError(
            "this model is trained, and is not trained again: fit_model(table, target, machine) trains another one, a "
            "cross-validation takes a machine such as SVC(), and FrozenEstimator(model) of sklearn.frozen is for what "
            "fits its parts, such as CalibratedClassifierCV"
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions of classes, or R² of predicted numbers."""
        answers = self.predict(X)
        if isinstance(self.prediction_kind, Quantity):
            return float(r2_score(y, answers, sample_weight=sample_weight))
        given = np.array([cell_text(label) for label in np.asarray(y).ravel().tolist()])
        said = np.array([cell_text(label) for label in answers.tolist()])
        return float(accuracy_score(given, said, sample_weight=sample_weight))

    @offered_if(_check_scores)
    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the scores of each row: positive for the second of two classes, one for each of several classes."""
        return self.scores(X)

    @offered_if(_check_probabilities)
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, (n, n_classes), in the order of `classes_`."""
        return self.probabilities(X)

    @offered_if(_check_probabilities)
    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(X))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of the columns of probabilities."""
        if isinstance(self.prediction_kind, Classes):
            return self.prediction_kind.outcomes
        raise AttributeError("this model predicts no classes, so it has no classes_")

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The columns that the model uses, in the order in which an array has them."""
        if self.encoder.column_names:
            return np.array(self.encoder.column_names, dtype=object)
        raise AttributeError("this model was trained on rows without names of columns, so it has no feature_names_in_")

    @feature_names_in_.setter
    def feature_names_in_(self, names: None) -> None:
        """Accept None, which shap assigns to a copy before it passes arrays: their columns have places, and no names.

        Raises
        ------
        AttributeError
            For other values.
        """
        if names is not None:
            raise AttributeError("feature_names_in_ of a trained model cannot be changed")

    @property
    def n_features_in_(self) -> int:
        """Number of columns of an array of rows."""
        block = self.encoder.sparse_
        return len(self.encoder.column_names) + (0 if block is None else block.n_columns)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return nothing: a trained model has no parameters that can be set."""
        return {}

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = _TYPES[type(self.prediction_kind)]
        if isinstance(self.prediction_kind, Classes):
            tags.classifier_tags = ClassifierTags(multi_class=len(self.prediction_kind.labels) > 2)
        tags.regressor_tags = RegressorTags() if isinstance(self.prediction_kind, Quantity) else None
        tags.target_tags.required = not isinstance(self.prediction_kind, Membership)
        tags.input_tags.allow_nan = self.encoder.missing == "impute"
        tags.input_tags.sparse = self.encoder.sparse_ is not None
        tags.input_tags.categorical = tags.input_tags.string = bool(self.encoder.text_columns)
        return tags

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Show the card in notebooks; scikit-learn shows a diagram of parameters, which a model has not."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def named(self, X: Any) -> Any:
        """Return rows of an array as a table whose columns have the names of the model; return tables as they are."""
        if not isinstance(X, np.ndarray | list):
            return X
        rows = np.asarray(X, dtype=object if isinstance(X, list) else None)
        if rows.ndim != 2:
            hint = ": for one row, write X.reshape(1, -1), or [x] in place of x" if rows.ndim == 1 else ""
            raise ValueError(f"X must have a row for each case and a column for each feature, got {rows.ndim}-D{hint}")
        names, width = [rule.name for rule in self.encoder.rules_], rows.shape[1]
        if not names and self.encoder.sparse_ is not None:
            return sparse.csr_array(rows.astype(np.float64))
        if {*names} <= {*map(str, range(width))}:
            return as_table(rows)
        if width != len(names):
            raise ValueError(
                f"X has {width} columns without names, and the model uses {len(names)}: give a data frame with the "
                f"columns {listing(names, most=12)}, or an array of these columns in this order"
            )
        return as_table(dict(zip(names, rows.T, strict=True))).as_text(*self.encoder.text_columns)
