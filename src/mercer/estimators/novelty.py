"""What machines that describe one class share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin

from mercer.data import Data
from mercer.estimators.base import SingleMachine

FloatArray = npt.NDArray[np.float64]


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
    def _doubt(self) -> float:
        """How far below the offset a row on the border may score."""
        certificate = self._solutions[0].certified
        return 0.0 if certificate is None else certificate.kkt_violation + 2.0 * certificate.rounding

    def _scores(self, data: Data) -> FloatArray:
        """Decision values without bias."""
        return self._values(data, np.zeros(1))[:, 0]
