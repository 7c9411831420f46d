"""The rows of each fold in the form that the machines of a search take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_feature_names

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._dual import DualMachine
from mercer.estimators._validation import check_rows, check_sample_weight
from mercer.kernels.column_parts import parts_of
from mercer.model_selection.folds import rows_for
from mercer.model_selection.search.pipelines import machine_of, steps_of
from mercer.model_selection.search.settings import equal_values

_ROUNDED = 1e3  # machine epsilons, relative to the largest value: allowed difference of two results of a transformer


@dataclass(frozen=True)
class Rows:
    """All rows of a fold after preprocessing.

    Attributes
    ----------
    data : Data
        Training and test rows as the machine takes them.
    train, test : ndarray of int64
        Indices of the training rows and of the test rows in `data`.
    given : (test rows, training rows)
        The same rows before preprocessing.
    names : ndarray of str, optional
        Names of the columns.
    in_matrix : ndarray of int64
        The rows of `data` in matrices of kernel values, in their order. With one-versus-one it is by class, so that the
        rows of a machine are contiguous. They are all rows, or the training rows alone if there are many others.
    again : callable
        Returns whether the preprocessing steps, applied again to their training rows, give the same rows.
    """

    data: Data
    train: IndexArray
    test: IndexArray
    given: tuple[Any, Any]
    in_matrix: IndexArray
    names: Any = None
    again: Callable[[], bool] = lambda: True

    @property
    def position(self) -> IndexArray:
        """The place of each row in matrices of kernel values, (n,); -1 for rows outside them."""
        place_of = np.full(self.data.n, -1)
        place_of[self.in_matrix] = np.arange(self.in_matrix.size)
        return place_of

    @property
    def asked(self) -> Data | None:
        """The test rows; None if the machine or a step before it refuses them."""
        return None if self.given[0] is None else self.data.rows(self.test)

    def which(self, X: Any) -> Data | None:
        """Return the preprocessed rows of `X`; None unless `X` holds exactly the test rows or the training rows."""
        asked, trained_on = self.given
        if _same(X, asked):
            return self.asked
        return self.data.rows(self.train) if _same(X, trained_on) and self.again() else None


class Folds:
    """The folds of a table: rows, targets and fit parameters, each validated once.

    Parameters
    ----------
    X, y : array-like
    splits : sequence of (train, test)
        Row indices of each fold.
    fit_params : mapping
        Further parameters of `fit`; parameters with one element for each row are split by folds.
    memory_limit : int
        Bytes of the matrices of all folds. If matrices of all rows of the folds exceed it, they have the training rows.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        splits: Sequence[tuple[IndexArray, IndexArray]],
        fit_params: Mapping[str, Any],
        memory_limit: int,
    ) -> None:
        self._most_rows = math.isqrt(memory_limit // (4 * len(splits)))
        self.X, self._y, self.params = X, y, dict(fit_params)
        self._splits = [(row_numbers(train), row_numbers(test)) for train, test in splits]
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._prepared: dict[tuple[int, int], tuple[Pipeline, Any]] = {}
        self._before: dict[tuple[int, int], Pipeline] = {}
        self._known_steps: list[list[Any]] = []
        self._known_targets: dict[int, Any] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._splits)

    @property
    def n(self) -> int:
        """Number of rows of the table."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    def n_train(self, number: int) -> int:
        """Return the number of training rows of a fold."""
        return len(self._splits[number][0])

    def targets(self, number: int) -> tuple[Any, ...]:
        """Return the targets of the training rows in a tuple, which is empty if there are no targets."""
        if self._y is None:
            return ()
        if number not in self._known_targets:
            self._known_targets[number] = _safe_indexing(self._y, self._splits[number][0])
        return (self._known_targets[number],)

    def params_of(self, number: int) -> dict[str, Any]:
        """Return the further parameters of `fit`, restricted to the training rows."""
        return {name: self._part(value, number) for name, value in self.params.items()}

    @property
    def all_targets(self) -> tuple[Any, ...]:
        """The targets of all rows in a tuple, which is empty if there are no targets."""
        return () if self._y is None else (self._y,)

    def weights_of(self, number: int) -> FloatArray:
        """Return the weight of each row of the table in a fold, (n,): 0 for rows that are no training rows."""
        counts = np.bincount(self._splits[number][0], minlength=self.n).astype(np.float64)
        given = self.params.get("sample_weight")
        return counts if given is None else counts * check_sample_weight(given, self.n)

    def given(self, estimator: Any, number: int) -> Any:
        """Return the training rows as scikit-learn passes them to an estimator."""
        train, _ = self._splits[number]
        return self._given(estimator, train, train)

    def before(self, estimator: Any, number: int) -> Pipeline | None:
        """Return the fitted steps before the machine; None if :meth:`rows` has fitted no steps."""
        return self._before.get((number, self._number_of_steps(estimator)))

    def _number_of_steps(self, estimator: Any) -> int:
        """Number the steps before the machine, so that equal steps have the same number."""
        steps = steps_of(estimator)[:-1]
        for number, numbered_steps in enumerate(self._known_steps):
            if len(numbered_steps) == len(steps) and all(map(equal_values, numbered_steps, steps)):
                return number
        self._known_steps.append(steps)
        return len(self._known_steps) - 1

    def prepared(self, estimator: Any, number: int) -> tuple[Pipeline, Any]:
        """Return the steps before the machine, fitted on the training rows of a fold, and these rows as they make them.

        Equal steps are fitted once for each fold.
        """
        key = number, self._number_of_steps(estimator)
        if key not in self._prepared:
            before = clone(Pipeline([(str(k), step) for k, step in enumerate(steps_of(estimator)[:-1])]))
            self._prepared[key] = before, before.fit_transform(self.given(estimator, number), *self.targets(number))
        return self._prepared[key]

    def rows(self, estimator: Any, number: int) -> Rows:
        """Return the rows of a fold. Validation is done once; preprocessing steps are fitted once for each fold."""
        train, test = self._splits[number]
        machine = machine_of(estimator)
        spec = machine._kernel_asked_for()
        with self._lock:
            of_steps = self._number_of_steps(estimator)
            key = number, of_steps, spec.takes_values, spec.is_structured, spec.takes_any_rows, parts_of(spec)
            if key in self._rows:
                return self._rows[key]
            given = self._given(estimator, test, train), self._given(estimator, train, train)
            steps, asking = steps_of(estimator)[:-1], clone(machine)
            if not steps:
                same = [rows for (_, *kind), rows in self._rows.items() if tuple(kind) == key[1:]]
                data = same[0].data if same else check_rows(asking, self.X, spec, reset=True)
                names = same[0].names if same else getattr(asking, "feature_names_in_", None)
                trained = np.unique(np.concatenate([rows for rows, _ in self._splits]))
                in_matrix = self._in_matrix(trained, data.n)
                fold = Rows(data, train, test, given, in_matrix[self._by_class(machine, in_matrix)], names)
            else:
                before, seen = self.prepared(estimator, number)
                self._before[number, of_steps] = before
                del self._prepared[number, of_steps]  # the rows are in `data` from now on
                _check_feature_names(asking, seen, reset=True)
                try:
                    data = check_rows(clone(machine), _stacked(seen, before.transform(given[0])), spec, reset=True)
                except Exception:  # the fit does not need the test rows; a scorer that needs them gets the error
                    given = None, given[1]
                if given[0] is None:
                    data = check_rows(clone(machine), seen, spec, reset=True)
                in_matrix = self._in_matrix(np.arange(len(train)), data.n)
                fold = Rows(
                    data,
                    np.arange(len(train)),
                    np.arange(len(train), data.n),
                    given,
                    in_matrix[self._by_class(machine, np.concatenate([train, test])[in_matrix])],
                    getattr(asking, "feature_names_in_", None),
                    cache(lambda: _near(before.transform(given[1]), seen)),
                )
            self._rows[key] = fold
            return fold

    def _by_class(self, machine: DualMachine, rows: IndexArray) -> IndexArray:
        """Return an order of these rows: by class if one-versus-one trains machines on several classes."""
        labels = np.asarray(self._y)
        in_pairs = isinstance(machine, MarginClassifier) and machine.multi_class == "ovo"
        if not in_pairs or labels.ndim != 1 or labels.dtype.kind not in "biufU" or np.unique(labels).size <= 2:
            return np.arange(rows.size)
        return np.argsort(labels[rows], kind="stable")

    def _in_matrix(self, trained: IndexArray, n: int) -> IndexArray:
        """Return the rows in matrices of kernel values: all n, or the training rows.

        With all rows in the matrix, a fit maintains the decision values of test rows, too. Otherwise predictions
        evaluate the kernel values of test rows. The matrix has the training rows alone if they are at most half of the
        values, or if the matrices of all folds would exceed the memory limit.
        """
        return trained if 2 * trained.size**2 <= n**2 or n > self._most_rows else np.arange(n)

    def _part(self, value: Any, number: int) -> Any:
        """Return the elements of the training rows if `value` has one element for each row, or else `value`."""
        is_per_row = hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and len(value) == self.n
        return _safe_indexing(value, self._splits[number][0]) if is_per_row else value

    def _given(self, estimator: Any, rows: IndexArray, train: IndexArray) -> Any:
        """Return the rows as scikit-learn passes them to an estimator that is fitted on the rows `train`."""
        return rows_for(estimator, self.X, rows, train)


def row_numbers(rows: Any) -> IndexArray:
    """Return row numbers, from row numbers or a mask."""
    chosen = np.asarray(rows)
    return np.flatnonzero(chosen) if chosen.dtype == bool else chosen


def _stacked(first: Any, second: Any) -> Any:
    """Stack two results of a transformer vertically."""
    if isinstance(first, Data):
        return first.followed_by(second)
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _near(first: Any, second: Any) -> bool:
    """Return whether two results of a transformer are equal up to rounding."""
    one, other = (rows if sparse.issparse(rows) else np.asarray(rows) for rows in (first, second))
    if one.shape != other.shape or one.dtype.kind != "f" or other.dtype.kind != "f":
        return not sparse.issparse(one) and np.array_equal(one, other)
    largest = float(abs(other).max()) if other.size else 0.0
    rounding = _ROUNDED * np.finfo(np.result_type(one.dtype, other.dtype)).eps * largest
    return not other.size or float(abs(one - other).max()) <= rounding


def _same(X: Any, table: Any) -> bool:
    """Return whether both tables hold the same rows; False if the comparison would be too slow."""
    if X is table:
        return True
    if type(X) is not type(table) or getattr(X, "shape", None) != getattr(table, "shape", 0):
        return False
    if isinstance(X, np.ndarray) and X.dtype.hasobject:  # objects may not support ==
        return all(one is other for one, other in zip(X.ravel(), table.ravel(), strict=True))
    if isinstance(X, np.ndarray):
        return X.dtype == table.dtype and (
            _same_bits(X, table) or np.array_equal(X, table, equal_nan=X.dtype.kind == "f")
        )
    if sparse.issparse(X):
        parts = ("data", "indices", "indptr")
        return X.format == table.format == "csr" and all(
            np.array_equal(getattr(X, part), getattr(table, part)) for part in parts
        )
    return bool(X.equals(table)) if hasattr(X, "equals") else False


def _same_bits(X: npt.NDArray[Any], table: npt.NDArray[Any]) -> bool:
    """Return whether arrays are equal bit by bit, which is faster to check than numeric equality."""
    plain = X.dtype.kind in "fiu" and X.flags.c_contiguous and table.flags.c_contiguous
    return plain and np.array_equal(X.view(np.uint8), table.view(np.uint8))
