"""What machines that describe one class share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin

from mercer._typing import FloatArray
from mercer.data import Data, Dense
from mercer.estimators.base import SingleMachine

_LOOKED_AT, _LEAST_ROWS = 512, 3  # training rows whose scores are compared, at most and at least
_TOLD_APART = 100.0  # roundings of a score by which the scores of the training rows differ, at least
_ALIKE = 1e-6  # of k(x, x): squared distance of rows that the kernel hardly tells apart, at most


class NoveltyDetector(OutlierMixin, SingleMachine):
    """Scores, an offset, and the verdict by the sign of what is left.

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
    """

    offset_: FloatArray

    def score_samples(self, X: Any) -> FloatArray:
        """Return how much each row is like the training data, (m,); larger is more so.

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
            If `X` holds NaN or infinity, or other features than in `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._scores(self._new_rows(X))

    def decision_function(self, X: Any) -> FloatArray:
        """Return ``score_samples(X) - offset_``, (m,): negative outside.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        NotFittedError, ValueError
            See :meth:`score_samples`.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return +1 for rows inside, -1 for rows outside, (m,).

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of int64 of shape (m,)

        Raises
        ------
        NotFittedError, ValueError
            See :meth:`score_samples`.
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1).astype(np.int64)

    @property
    def _rounding(self) -> float:
        """How far float64 may have put a decision value off."""
        certificate = self._solutions[0].certified
        return 0.0 if certificate is None else certificate.rounding

    @property
    def _doubt(self) -> float:
        """How far below the offset a row on the border may score."""
        certificate = self._solutions[0].certified
        return 0.0 if certificate is None else certificate.kkt_violation + 2.0 * certificate.rounding

    def _warn_where_rounding_decides(self, data: Data, doubt: float) -> None:
        """Say so where scores of the training rows differ by little more than rounding, `doubt` for each of them.

        Up to 512 rows are looked at, which costs as many kernel values with each support vector. Kernel functions,
        which are called once in a fit, are not asked again.
        """
        certified = self._solutions[0].certified
        if self._silent or certified is None or data.n < _LEAST_ROWS or self.kernel_.calls_function:
            return
        chosen = np.arange(0, data.n, -(-data.n // _LOOKED_AT))
        some = data.rows(chosen)
        spread, evidence = float(np.ptp(self._scores(some))), self._solutions[0].evidence
        is_one_row = isinstance(some, Dense) and not (some.array != some.array[0]).any()
        if spread > _TOLD_APART * doubt or is_one_row or evidence is None:
            return
        gram = evidence.whole()
        lengths = gram.diag()[chosen]
        apart = np.add.outer(lengths, lengths) - 2.0 * gram.block(chosen, chosen)
        if apart.max(initial=0.0) > _ALIKE * np.abs(lengths).max(initial=0.0):  # all rows are on the border
            return
        warnings.warn(
            f"rounding in float64 decides which rows are outside: scores of the training rows differ by {spread:.2g} "
            f"only, and each is known to within {doubt:.2g}, because {self.kernel_!r} hardly tells the rows apart. "
            "Scale the columns, subtract their means, or raise gamma (take a narrower kernel).",
            RuntimeWarning,
            stacklevel=3,
        )

    def _scores(self, data: Data) -> FloatArray:
        """Decision values without bias."""
        return self._values(data, np.zeros(1))[:, 0]
