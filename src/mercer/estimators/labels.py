"""Labels, weights and class weights of a classifier."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer.estimators.validation import (
    check_classes,
    check_labels,
    check_sample_weight,
    class_numbers,
    class_weights,
)

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


class Labels(NamedTuple):
    """What fit is told about its n rows.

    `codes` are the class numbers of all rows, `weights` their sample weights times those of their classes, `rows` the
    ones of positive weight.
    """

    classes: npt.NDArray[Any]
    codes: IndexArray
    sample_weight: FloatArray
    weights: FloatArray
    rows: IndexArray
    class_weight: FloatArray

    def penalties(self, C: float) -> FloatArray:
        """C times the weights of `rows`; infinity stays what it is."""
        if not np.isfinite(C):
            return np.full(self.rows.size, C)
        # In the order of model files, so that bounds are equal to the bit.
        return C * self.class_weight[self.codes[self.rows]] * self.sample_weight[self.rows]

    @property
    def signs(self) -> FloatArray:
        """One column of -1 and +1 for two classes, positive for the second; else one column a class."""
        if self.classes.size == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[:, None]
        return np.where(self.codes[:, None] == np.arange(self.classes.size), 1.0, -1.0)


def read_labels(y: Any, sample_weight: Any, class_weight: Any, n: int, named: Any = None) -> Labels:
    """Return the classes, their numbers, and what each row counts.

    Where the classes are `named`, some of them may have no rows.

    Raises
    ------
    ValueError
        If `y` holds one class only, or others than are named; weights are negative, or all those of a class are 0.
    """
    if named is None:
        classes, codes = check_labels(y)
    else:
        classes = check_classes(named)
        codes = class_numbers(y, classes)
    own = check_sample_weight(sample_weight, n)
    rows = np.flatnonzero(own > 0.0)
    present = np.bincount(codes[rows], minlength=classes.size)
    if named is not None:
        if not rows.size:
            raise ValueError("sample_weight must be positive in one row at least, but all weights are zero.")
        if isinstance(class_weight, str) and (present == 0).any():
            raise ValueError(
                f"class_weight='balanced' weighs the classes by the rows of the first batch, which has none of class "
                f"{classes[present == 0].tolist()[0]!r}: give a mapping of classes to weights, or a batch of all."
            )
    elif (present == 0).any():
        raise ValueError(
            f"sample_weight must be positive somewhere in every class, but all weights are zero in class "
            f"{classes[present == 0].tolist()[0]!r}."
        )
    by_class = class_weights(class_weight, classes, codes, own)
    return Labels(classes, codes, own, own * by_class[codes], rows, by_class)


def one_column_for_two(values: FloatArray) -> FloatArray:
    """Return decision values as scikit-learn has them: (m,) where there is one column."""
    return values[:, 0] if values.shape[1] == 1 else values
