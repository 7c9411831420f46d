"""Base class of novelty detectors, which learn from rows of one class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin

from mercer._typing import FloatArray
from mercer.cluster import by_blocks
from mercer.data import Data, Dense
from mercer.data.user_warnings import warn_user
from mercer.estimators._dual import SingleMachine
from mercer.gram import Gram

_MOST_ROWS = 512  # training rows; the scores of at most this many rows are compared
_LEAST_ROWS = 3  # training rows; with fewer, scores are not compared
_LEAST_SPREAD = 100.0  # times the error bound; if scores differ by less, rounding may decide which rows are outside
_ALIKE = 1e-6  # times k(x, x); two rows with a smaller squared distance are nearly equal for the kernel


class NoveltyDetector(OutlierMixin, SingleMachine):
    """An estimator that predicts whether a row is outside: its score is then below the offset.

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
        Rows with a lower score are outside.
    """

    offset_: FloatArray

    @by_blocks
    def score_samples(self, X: Any) -> FloatArray:
        """Return the similarity of each row to the training data; larger values mean more similar.

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
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._scores(self._new_rows(X))

    @by_blocks
    def decision_function(self, X: Any) -> FloatArray:
        """Return ``score_samples(X) - offset_``; the values of rows outside are negative.

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

    @by_blocks
    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return +1 for rows inside and -1 for rows outside.

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
        """Bound of the rounding error of a decision value."""
        certificate = self._solutions[0].certified
        return 0.0 if certificate is None else certificate.decision_error

    @property
    def _border_error(self) -> float:
        """Bound of how far below the offset a row on the border may score: KKT violation plus rounding."""
        certificate = self._solutions[0].certified
        return 0.0 if certificate is None else certificate.kkt_violation + 2.0 * certificate.decision_error

    def _warn_if_constant(self, gram: Gram) -> None:
        """Do nothing: :meth:`_warn_if_rounding_decides` and ties say the same of a constant kernel, and what to do."""

    def _warn_if_rounding_decides(self, data: Data, error_bound: float) -> None:
        """Warn if the scores of the training rows differ by little more than their rounding `error_bound`.

        The scores of up to 512 rows are computed, which costs 512 * n_SV kernel values. Kernels that are Python
        functions are not checked, so that a fit does not call them a second time.
        """
        certified = self._solutions[0].certified
        if self._silent or certified is None or data.n < _LEAST_ROWS or self.kernel_.calls_function:
            return
        chosen = np.arange(0, data.n, -(-data.n // _MOST_ROWS))
        some = data.rows(chosen)
        spread, evidence = float(np.ptp(self._scores(some))), self._solutions[0].evidence
        is_one_row = isinstance(some, Dense) and not (some.array != some.array[0]).any()
        if spread > _LEAST_SPREAD * error_bound or is_one_row or evidence is None:
            return
        gram = evidence.full_gram()
        lengths = gram.diag()[chosen]
        apart = np.add.outer(lengths, lengths) - 2.0 * gram.block(chosen, chosen)
        if apart.max(initial=0.0) > _ALIKE * np.abs(lengths).max(initial=0.0):  # all rows are on the border
            return
        warn_user(
            f"rounding in float64 decides which rows are outside: scores of the training rows differ by {spread:.2g} "
            f"only, and each is known to within {error_bound:.2g}, because {self.kernel_!r} hardly tells the rows "
            "apart. Scale the columns, subtract their means, or raise gamma (take a narrower kernel).",
            RuntimeWarning,
        )

    def _scores(self, data: Data) -> FloatArray:
        """Return the decision values without bias."""
        return self._values(data, np.zeros(1))[:, 0]
