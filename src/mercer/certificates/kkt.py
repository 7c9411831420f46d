"""The optimality conditions of a soft-margin machine, example by example: how each one lies to the margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray, IndexArray, TextArray


@dataclass(frozen=True, eq=False)
class KKTCases:
    """The training examples of one machine for two classes, and how the machine treats each of them.

    **Solves** nothing. At the optimum of a soft-margin machine, for every example i,

        alpha_i = 0        implies  y_i f(x_i) >= 1,
        0 < alpha_i < C_i  implies  y_i f(x_i) = 1,
        alpha_i = C_i      implies  y_i f(x_i) <= 1,

    and none of these the other way round. `case` says which of the three an example is, `violation` by how much what
    it implies fails.

    Parameters
    ----------
    rows : ndarray of int64 of shape (n,)
        Which rows of the training data these are: of a machine for a pair of classes, and where weights are 0, not all.
    y : ndarray of float64 of shape (n,), values -1 and +1
        The side that each belongs to.
    alpha : ndarray of float64 of shape (n,)
        Dual coefficients.
    C : ndarray of float64 of shape (n,)
        Their upper bounds: C times the weights of the example and of its class; may be infinite.
    yf : ndarray of float64 of shape (n,)
        y_i f(x_i), bias included, in double precision throughout.
    margin : float
        Full width 2 / ||w|| of the strip |f(x)| < 1, in feature space; infinite where rounding cannot tell w from
        0, NaN where the kernel is not positive semidefinite and gives w a negative square.
    tolerance : float
        How far y_i f(x_i) of a free example may be from 1: the KKT violation at this point, rounding, and how far the
        machine's bias is from the one that the conditions suggest, where it is another.

    Notes
    -----
    All arrays are read-only. They take 40 bytes an example; what is derived from them is computed at every use.

    LIBSVM and scikit-learn have none of this.

    References
    ----------
    Cortes & Vapnik (1995), section 3 and appendix A.2; Platt (1998), equation (12), for the three cases.

    Examples
    --------
    >>> from mercer import SVC
    >>> X, y = [[0.0], [1.0], [4.5], [2.0], [3.0], [5.0], [6.0]], [0, 0, 0, 0, 1, 1, 1]
    >>> examples = SVC(kernel="linear", C=0.5).fit(X, y).certificate_.examples()
    >>> for case, category in zip(examples.case, examples.category):
    ...     print(f"{case:<15} {category}")
    alpha = 0       outside
    alpha = 0       outside
    alpha = C       misclassified
    0 < alpha < C   on margin
    alpha = C       misclassified
    0 < alpha < C   on margin
    alpha = 0       outside
    >>> round(examples.margin, 6)
    3.0
    """

    rows: IndexArray
    y: FloatArray
    alpha: FloatArray
    C: FloatArray
    yf: FloatArray
    margin: float
    tolerance: float

    def __post_init__(self) -> None:
        for array in (self.rows, self.y, self.alpha, self.C, self.yf):
            array.setflags(write=False)

    @property
    def slack(self) -> FloatArray:
        """xi_i = max(0, 1 - y_i f(x_i)), (n,): what the primal objective charges C_i for."""
        return np.maximum(0.0, 1.0 - self.yf)

    @property
    def case(self) -> TextArray:
        """The one that each example's alpha puts it in, "alpha = 0", "0 < alpha < C" or "alpha = C", (n,)."""
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], ["alpha = 0", "alpha = C"], "0 < alpha < C")

    @property
    def violation(self) -> FloatArray:
        """By how much y_i f(x_i) fails what the example's case implies, (n,); 0 where it does not."""
        below, above = self.slack, np.maximum(0.0, self.yf - 1.0)
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], [below, above], below + above)

    @property
    def category(self) -> TextArray:
        """Where each example lies, (n,): the first of these that holds.

        "misclassified": xi_i > 1. "on margin": y_i f(x_i) is 1 within `tolerance`, as it is for every free example that
        is not misclassified. "margin violation": 0 < xi_i <= 1. "outside": y_i f(x_i) > 1.

        Of a machine that was stopped early, whose `tolerance` is large, it tells accordingly little.
        """
        slack = self.slack
        return np.select(
            [slack > 1.0, np.abs(self.yf - 1.0) <= self.tolerance, slack > 0.0],
            ["misclassified", "on margin", "margin violation"],
            "outside",
        )
