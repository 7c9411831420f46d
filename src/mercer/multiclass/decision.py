"""Decision values of trained machines for new rows."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.gram.backends import select_backend
from mercer.kernels import Kernel
from mercer.kernels.kernel import finite
from mercer.multiclass.coefficients import Coefficients, Group, groups_of, summed


def decision_values(
    kernel: Kernel,
    data: Data,
    support: Data,
    coefficients: Coefficients,
    biases: FloatArray,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    """Evaluate f_k(x) = sum_j coefficients[j, k] k(x, s_j) + b_k for all rows x and machines k.

    Parameters
    ----------
    kernel : Kernel
        Kernel with numbers for all its parameters.
    data : Data
        The m rows.
    support : Data
        The support vectors of all machines.
    coefficients : ndarray of shape (n_support, n_machines), or PairCoefficients
        Signed coefficients; 0 if a vector is not a support vector of the machine.
    biases : ndarray of shape (n_machines,)
    n_jobs : int, optional
        Number of threads; see :func:`mercer.gram.threads.n_threads`.

    Returns
    -------
    ndarray of shape (m, n_machines), float64

    Raises
    ------
    ValueError
        If decision values are not finite, because kernel values of these rows overflow.

    Notes
    -----
    Costs m times n_support kernel values, which all machines share. Each is multiplied by the coefficients of the
    machines that use its vector: with one-versus-one and k > 4 classes, these are k - 1 machines.
    """
    if not support.n:  # the fit was stopped before its first step
        return np.tile(biases, (data.n, 1))
    backend, _ = select_backend(kernel, support, n_jobs=n_jobs)
    rows = data.like(support)

    def product(one: Group) -> FloatArray:
        return backend.matvec(rows, None, support, one.vectors, one.coefficients)

    return finite(kernel, biases + summed(groups_of(coefficients), product, data.n, biases.size))
