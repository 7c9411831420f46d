"""What machines on strings say about words and about changes of a letter."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.data import Structured, as_structured
from mercer.data.structured import STRINGS
from mercer.geometry import RKHSFunction
from mercer.kernels import Kernel
from mercer.kernels.word_kernel import WordKernel
from mercer.kernels.word_weights import WordWeights

_ROWS_AT_A_TIME = 1 << 14

Variant = tuple[int, int, Hashable]
"""A row, a position in it, and the letter that is put there."""


class ReadsWords:
    """A machine whose rows may be strings or lists of tokens."""

    kernel_: Kernel
    function_: Any

    @property
    def word_weights_(self) -> WordWeights | tuple[Any, ...]:
        """The weight of each word in the decision function, for kernels of words only; a tuple for several machines.

        A decision value is the bias plus the sum of the weights of the words of a row, divided by sqrt(k(s, s)) if the
        kernel is normalised.
        """
        check_is_fitted(self)
        kernel = self.kernel_
        if not isinstance(kernel, WordKernel):
            raise AttributeError(
                "word_weights_ exists for kernels of words only (Spectrum, Mismatch, GappedKmer), not for "
                + repr(kernel)
            )
        functions = self.function_
        weights = tuple(
            kernel.word_weights(one.points, one.coefficients)
            for one in ((functions,) if isinstance(functions, RKHSFunction) else functions)
        )
        return weights[0] if len(weights) == 1 else weights

    def score_variants(self, X: Sequence[Any], variants: Iterable[Variant]) -> FloatArray:
        """Return by how much a change of one letter of a row changes its decision value (regression: its prediction).

        Parameters
        ----------
        X : sequence of n strings or lists of tokens
        variants : iterable of (row, position, letter)
            Row and position count from 0; the letter is put at the position.

        Returns
        -------
        ndarray of shape (n_variants,), or (n_variants, n_classes) for several classes
            The decision value of the changed row minus that of the row.

        Raises
        ------
        ValueError, TypeError
            If rows are no strings or lists of tokens, or a variant names no row, no position or no letter.

        Notes
        -----
        Costs a prediction for each variant. The values are exact, also with a normalised kernel, which a sum of the
        weights of changed words is not.
        """
        check_is_fitted(self)
        if self.kernel_.named_columns:
            raise ValueError(
                f"score_variants changes letters of rows that are strings, and {self.kernel_!r} reads columns: change "
                "the letters in a copy of the table, and compare the decision values of both"
            )
        rows = as_structured(X)
        given = list(variants)
        changed = [_changed(rows, number, variant) for number, variant in enumerate(given)]
        before = self._scores_of(list(rows.stored))
        after = [self._scores_of(changed[i : i + _ROWS_AT_A_TIME]) for i in range(0, len(changed), _ROWS_AT_A_TIME)]
        of_rows = before[[variant[0] for variant in given]]
        return np.asarray(np.concatenate(after) - of_rows if after else of_rows[:0])

    def _scores_of(self, rows: list[Any]) -> FloatArray:
        scores: Any = getattr(self, "decision_function", None) or self.predict  # type: ignore[attr-defined]
        return np.asarray(scores(rows), dtype=np.float64)


def _changed(rows: Structured, number: int, variant: Variant) -> Any:
    """Return the row of a variant with its letter changed."""
    if not isinstance(variant, Sequence) or len(variant) != 3:
        raise ValueError(f"variant {number} must be (row, position, letter), got {variant!r}")
    row, position, letter = variant
    if not (isinstance(row, (int, np.integer)) and 0 <= row < rows.n):
        raise ValueError(f"variant {number} must be of a row from 0 to {rows.n - 1}, got {row!r}")
    old = rows.stored[row]
    if not (isinstance(position, (int, np.integer)) and 0 <= position < len(old)):
        raise ValueError(
            f"variant {number} must have a position from 0 to {len(old) - 1} of row {row}, got {position!r}"
        )
    if rows.kind != STRINGS:
        return [*old[:position], letter, *old[position + 1 :]]
    if not isinstance(letter, str) or len(letter) != 1:
        raise ValueError(f"variant {number} must have one letter, got {letter!r}")
    return old[:position] + letter + old[position + 1 :]
