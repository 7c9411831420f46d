"""Nyström's approximation: the image of a row, projected on the images of a few landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.certificates.status import IndefiniteKernelWarning
from mercer.data import Data, Precomputed
from mercer.data.arguments import check_choice, check_count, check_whole
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import checked_array
from mercer.estimators._base import HoldsKernel
from mercer.estimators._device_training import checked_table
from mercer.estimators._validation import check_rows, check_square, is_on_device
from mercer.features.feature_map import DenseMap
from mercer.geometry import blocks
from mercer.geometry.landmarks import SCHEMES
from mercer.gram import Gram
from mercer.gram.array_kernel import ArrayKernel
from mercer.gram.device_backend import DeviceBackend, DeviceData
from mercer.gram.places import place_of, to_host
from mercer.gram.rows import DeviceTable
from mercer.kernels import Gamma, Kernel, as_kernel
from mercer.kernels.diagnosis import value_roundoff
from mercer.kernels.kernel import finite, restored_rows


class Nystroem(HoldsKernel, DenseMap):
    """Nyström's map of any kernel: inner products of its columns approximate k(x, z).

    L are landmarks among the training rows, and K_LL = V diag(lambda) V' are their kernel values. The columns are
    phi(x) = k(x, L) V diag(lambda)^(-1/2): coordinates of the image of x, projected on the span of the landmarks'
    images.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        As for :class:`mercer.SVC`. With "precomputed", X is the matrix of kernel values: (n, n) in `fit`, (m, n) in
        `transform`.
    n_components : int, default=100
        Largest number of landmarks, and so of columns.
    landmarks : {"rpcholesky", "kmeans++", "uniform"}, default="rpcholesky"
        How landmarks are drawn. "rpcholesky" (randomly pivoted Cholesky): with probability proportional to the residual
        of k(x, x) given the landmarks so far. "kmeans++": proportional to the squared kernel distance to the nearest
        landmark. "uniform": with equal probabilities.
    degree, gamma, coef0
        Parameters of a kernel given by name; see :class:`mercer.SVC`.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.
    n_jobs : int, optional
        Threads for kernel values. None: all processors, or their share in a joblib worker.

    Attributes
    ----------
    component_indices_ : ndarray of int64 of shape (n_landmarks,)
        Row indices of the landmarks in the training data, in the order of the draw. There are fewer than `n_components`
        if there are fewer rows, or if the landmarks already represent the kernel exactly.
    components_ : ndarray or csr_array of shape (n_landmarks, p)
        The landmarks. For strings, lists of tokens or sets: an array of objects. For a precomputed kernel: their kernel
        values, (n_landmarks, n_landmarks).
    normalization_ : ndarray of shape (n_landmarks, n_features_out)
        V diag(lambda)^(-1/2), with eigenvalues in descending order.
    eigenvalues_ : ndarray of shape (n_features_out,)
        The eigenvalues of K_LL that are used.
    residual_trace_ : float
        tr(K - K^) over the training rows, where K^ is the matrix of inner products of the columns. For a positive
        semidefinite kernel it bounds the error: the residual K - K^ is positive semidefinite too, so neither its norm
        |K - K^|_2 nor any entry exceeds its trace.
    relative_residual_ : float
        residual_trace_ / tr(K).
    kernel_ : Kernel
        The kernel, with all parameters as numbers.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError, TypeError
        In `fit`, if a parameter is not allowed, or kernel values overflow.

    Warns
    -----
    IndefiniteKernelWarning
        If K_LL has negative eigenvalues, or K - K^ has negative diagonal entries, beyond rounding. Negative eigenvalues
        are not used, and the residual is then no error bound.

    Notes
    -----
    Eigenvalues up to m u lambda_max are not used. m is the number of landmarks, and u the rounding of kernel values: a
    few times 2.2e-16, or 1.2e-7 if a Python function computed them in single precision. Rounding turns zero eigenvalues
    into values of this size, and dividing by their roots would amplify the noise. The loss is equally small: |phi(x)|²
    of a landmark changes by no more than this. The columns may have an error of about sqrt(m u) in the direction of the
    smallest eigenvalue used.

    Of an array on a device, `fit` copies the landmarks to the host, and the kernel values from which they are drawn.
    The kernel must then be known to be positive semidefinite.

    `fit` and `transform` cost a kernel value and n_features_out multiplications for each row and landmark, in blocks of
    16 MiB. Randomly pivoted Cholesky costs the same again and needs 8 n n_components bytes; the full matrix is never
    formed. Its expected residual is within a small factor of the best possible one, with few more landmarks than the
    rank. Uniform landmarks miss small clusters. `fit_transform` makes one pass, `fit` and `transform` make two.

    Differences from scikit-learn's Nystroem: any kernel of this library, other choices of landmarks, an automatic rank,
    and a reported residual. The columns are those of scikit-learn's Nystroem, rotated to principal axes.

    References
    ----------
    Williams & Seeger (2001), Using the Nyström method to speed up kernel machines; Drineas & Mahoney (2005); Chen,
    Epperly, Tropp & Webber (2023), Randomly pivoted Cholesky; Epperly, Tropp & Webber (2024), Embrace rejection: kernel
    matrix approximation by accelerated randomly pivoted Cholesky.

    Examples
    --------
    >>> from mercer import Nystroem, RBF
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> map = Nystroem(RBF(gamma=2e-4), n_components=300, random_state=0).fit(X)
    >>> map.transform(X).shape, bool(map.relative_residual_ < 0.02)
    ((1797, 300), True)
    """

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        *,
        n_components: int = 100,
        landmarks: str = "rpcholesky",
        degree: int = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._takes_values()
        tags.input_tags.pairwise = self._takes_values()
        return tags

    def _spec(self) -> Kernel:
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    def _training_rows(self, X: Any) -> Data:
        if is_on_device(X):
            self._spec()  # raises first if the parameters are wrong
            return DeviceData(checked_table(self, X, "no_validation").values)
        return check_rows(self, X, self._spec(), reset=True)

    def _new_rows(self, X: Any) -> Data:
        check_is_fitted(self)
        return check_rows(self, X, self.kernel_, reset=False)

    def _learn(self, rows: Data) -> None:
        self._draw(rows)
        for _ in self._measured(rows):
            pass

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return the columns of the training rows: the same as `fit` and then `transform`, but in one pass.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or an array on a device
        y : ignored

        Returns
        -------
        ndarray of shape (n, n_components_), or an array on the device of X

        Raises
        ------
        ValueError
            As `fit`.
        """
        rows = self._training_rows(X)
        self._draw(rows)
        if isinstance(rows, DeviceData):
            return rows.table.place.xp.concat([block for _, block in self._measured(rows)], axis=0)
        return self._collected(rows, self._measured(rows))

    @property
    def _n_features_out(self) -> int:
        return self.normalization_.shape[1]

    def _draw(self, rows: Data) -> None:
        wanted = check_count("n_components", self.n_components)
        check_whole("n_jobs", self.n_jobs)
        check_choice("landmarks", self.landmarks, SCHEMES)
        if isinstance(rows, Precomputed):
            check_square(rows.shape)
        self.kernel_ = self._spec().resolve(rows)
        backend = DeviceBackend(self.kernel_, rows) if isinstance(rows, DeviceData) else None
        gram = Gram(self.kernel_, rows, n_jobs=self.n_jobs, backend=backend)
        random = check_random_state(self.random_state)
        self.component_indices_ = SCHEMES[self.landmarks](gram, min(wanted, rows.n), random)
        among = finite(self.kernel_, gram.block(self.component_indices_, self.component_indices_))
        chosen = rows.rows(self.component_indices_)
        self.components_ = chosen.stored if not isinstance(chosen, Precomputed) else among.copy()
        self._normalise(among, gram.roundoff * value_roundoff(self.kernel_, chosen, among))

    def _normalise(self, among: FloatArray, roundoff: float) -> None:
        eigenvalues, vectors = np.linalg.eigh(0.5 * (among + among.T))
        self._noise = 2.0 * roundoff * eigenvalues.size  # relative to the largest eigenvalue
        cut_off = self._noise * float(np.abs(eigenvalues).max(initial=0.0))
        self._refuted = bool((eigenvalues < -cut_off).any())
        positive = np.flatnonzero(eigenvalues > cut_off)[::-1]
        self.eigenvalues_ = eigenvalues[positive]
        self.normalization_ = vectors[:, positive] / np.sqrt(self.eigenvalues_)

    def _measured(self, rows: Data) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the columns of the training rows, and compute the residual at the end."""
        if isinstance(rows, DeviceData):
            residual = DeviceBackend(self.kernel_, rows).diagonal()
        else:
            residual = self.kernel_.diag(rows)
        total = float(residual.sum())
        noise = self._noise**0.5 * float(np.abs(residual).max(initial=0.0))
        for part, block in self._blocks(rows):
            residual[part] -= _square_norms(block)
            yield part, block
        self._refuted |= bool((residual < -noise).any())
        self.residual_trace_ = max(0.0, float(residual.sum()))
        self.relative_residual_ = self.residual_trace_ / total if total > 0.0 else 0.0
        if self._refuted:
            warn_user(
                f"{self.kernel_!r} is not positive semidefinite on the training rows. Directions of negative "
                "eigenvalues are left out, and residual_trace_ bounds nothing; mercer.diagnose says more.",
                IndefiniteKernelWarning,
            )

    def _of_array(self, name: str, X: Any) -> Any:
        """Return the columns of an array of another library, on its device; see :mod:`mercer.estimators._arrays`."""
        check_is_fitted(self)
        place, table = checked_array(self, name, X)
        return ArrayKernel(self.kernel_, restored_rows(self.kernel_, self.components_), place).times(
            table, self.normalization_
        )

    def _blocks(self, rows: Data) -> Iterator[tuple[slice, Any]]:
        if isinstance(rows, DeviceData):
            yield from self._blocks_there(rows.table)
            return
        if isinstance(rows, Precomputed):
            rows = Precomputed(rows.values(self.component_indices_))
        for part, values in blocks(
            self.kernel_, rows, restored_rows(self.kernel_, self.components_), n_jobs=self.n_jobs
        ):
            yield part, values @ self.normalization_

    def _blocks_there(self, table: DeviceTable) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the rows of a table on a device, and their columns, which are there too."""
        kernel = ArrayKernel(self.kernel_, restored_rows(self.kernel_, self.components_), table.place)
        by = table.place.put(self.normalization_)
        for rows, block in table.blocks():
            for part, values in kernel.tiles(block):
                yield slice(rows.start + part.start, rows.start + part.stop), values @ by


def _square_norms(block: Any) -> FloatArray:
    """Return the sum of squares of each row of a block, on the host."""
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    return to_host(place_of(block).xp.sum(block * block, axis=1))
