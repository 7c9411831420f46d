"""A stand-in for one fit that was made beforehand, which scikit-learn clones, fits and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags

from mercer.data.lazy import lazy_property
from mercer.estimators._arrays import DEFAULT_SCORES

if TYPE_CHECKING:
    from mercer.data import Data
    from mercer.model_selection.search.paths import FoldFit

_ASKED_BY = ("predict", "decision_function", "score", "score_samples")  # methods that accept preprocessed rows
_ASKED = (*_ASKED_BY, "predict_proba", "predict_log_proba")


class MadeFits(Protocol):
    """The fits of a search, and the table of their rows.

    `by_number` tells whether numbers of rows take the place of rows.
    """

    table: Any
    by_number: bool

    @property
    def tags(self) -> Any:
        """scikit-learn's tags of all estimators."""

    def next_fit(self) -> FoldFit:
        """Return the next fit, in the order in which scikit-learn evaluates settings and folds."""
        ...


class Cell(BaseEstimator):
    """A stand-in for one fit that was made beforehand; scikit-learn clones, fits and scores it.

    After `fit` it behaves like the fitted estimator: for `isinstance` and `check_is_fitted`, and when it is copied,
    cloned or pickled.
    """

    def __init__(self, estimator: Any, prefitted: MadeFits) -> None:
        self._like, self.prefitted = estimator, prefitted
        self._params: dict[str, Any] = {}

    @lazy_property
    def estimator(self) -> Any:
        """The unfitted estimator, made on first use: most cells never need it."""
        return clone(self._like).set_params(**self._params)

    @property  # type: ignore[misc]  # used by isinstance
    def __class__(self) -> type:
        return type(self._like) if "_fold" in vars(self) else Cell

    def __sklearn_clone__(self) -> Any:
        if "_fold" in vars(self):
            return clone(self.estimator)
        return Cell(self.estimator if self._params else self._like, self.prefitted)

    def __sklearn_is_fitted__(self) -> bool:
        return "_fold" in vars(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_itself, (self._fold.fitted,)) if "_fold" in vars(self) else super().__reduce_ex__(protocol)

    def __sklearn_tags__(self) -> Any:
        return self.prefitted.tags if self.prefitted.by_number else get_tags(self.estimator)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        return dict(self.estimator.get_params(deep=deep))

    def set_params(self, **params: Any) -> Cell:
        """Set parameters of the estimator."""
        self._params.update(params)
        self.__dict__.pop("estimator", None)
        return self

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing of the estimator."""
        return self.estimator.get_metadata_routing()

    def fit(self, X: Any, y: Any = None, **params: Any) -> Cell:
        """Take the next fit that was made beforehand; raise its error if it failed."""
        del X, y, params
        self._fold = self.prefitted.next_fit()
        if self._fold.error is not None:
            raise self._fold.error
        return self

    def __getitem__(self, index: Any) -> Any:
        return self._fold.fitted[index]

    def __len__(self) -> int:
        return len(self._fold.fitted)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if "_fold" not in vars(self):
            return getattr(self.estimator, name)
        fold_rows, by_number = (
            self._fold.rows if name in _ASKED_BY else None,
            self.prefitted.by_number and name in _ASKED,
        )
        if fold_rows is None and not by_number:
            return getattr(self._fold.fitted, name)
        attribute = getattr(self._fold.fitted if fold_rows is None else self._fold.machine, name)

        def ask(X: Any, *args: Any, **params: Any) -> Any:
            rows = None if fold_rows is None else fold_rows.asked if by_number else fold_rows.which(X)
            if rows is None:
                asked = _safe_indexing(self.prefitted.table, X) if by_number else X
                return getattr(self._fold.fitted, name)(asked, *args, **params)
            if name == "score" and len(args) == 1 and not params:
                share = _share_right(self._fold.machine, rows, *args)
                if share is not None:
                    return share
            return attribute(rows, *args, **params)

        ask.__name__ = name  # scikit-learn reads the name
        return ask


def _share_right(machine: Any, rows: Data, y: Any) -> float | None:
    """Return the accuracy without scikit-learn's checks of `y`; None if these checks might refuse `y`."""
    if not is_classifier(machine) or type(machine).score not in DEFAULT_SCORES or not isinstance(y, np.ndarray):
        return None
    classes = machine.classes_
    if y.ndim != 1 or y.dtype != classes.dtype or y.dtype.kind not in "biufU":
        return None
    if y.dtype.kind == "f" and not np.isin(y, classes).all():  # other floats may not be class labels
        return None
    return float(np.mean(machine.predict(rows) == y))


def _itself(fitted: Any) -> Any:
    return fitted
