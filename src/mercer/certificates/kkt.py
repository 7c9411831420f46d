"""The optimality conditions of a soft-margin machine for each example, and its position relative to the margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray, IndexArray, TextArray


@dataclass(frozen=True, eq=False)
class KKTCases:
    """The training examples of one machine for two classes, with the optimality condition of each example.

    At the optimum of a soft-margin machine, for every example i,

        alpha_i = 0        implies  y_i f(x_i) >= 1,
        0 < alpha_i < C_i  implies  y_i f(x_i) = 1,
        alpha_i = C_i      implies  y_i f(x_i) <= 1,

    but the reverse implications do not hold. `case` says which of the three cases an example is in. `violation` says by
    how much y_i f(x_i) violates the condition of this case.

    Parameters
    ----------
    rows : ndarray of int64 of shape (n,)
        Row number of each example in the training data. A machine for a pair of classes does not use all rows, and rows
        of weight 0 are not used.
    y : ndarray of float64 of shape (n,), values -1 and +1
        Class of each example.
    alpha : ndarray of float64 of shape (n,)
        Dual coefficients.
    C : ndarray of float64 of shape (n,)
        Upper bound of each alpha: C times the weights of the example and of its class; may be infinite.
    yf : ndarray of float64 of shape (n,)
        y_i f(x_i), bias included, in double precision throughout.
    margin : float
        Full width 2 / ||w|| of the strip |f(x)| < 1, in feature space. It is infinite if ||w||^2 is not larger than its
        rounding error, and NaN if an indefinite kernel makes ||w||^2 negative.
    tolerance : float
        Largest distance of y_i f(x_i) from 1 for a free example. It is the sum of the KKT violation, the rounding error
        and the difference between the machine's bias and the one that the conditions suggest.

    Notes
    -----
    All arrays are read-only. They take 40 bytes per example; properties are computed at every use.

    LIBSVM and scikit-learn do not report these cases.

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
        """Slack xi_i = max(0, 1 - y_i f(x_i)) of each example, (n,); the primal objective has the term C_i xi_i."""
        return np.maximum(0.0, 1.0 - self.yf)

    @property
    def case(self) -> TextArray:
        """Case of each example by its alpha, (n,): "alpha = 0", "0 < alpha < C" or "alpha = C"."""
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], ["alpha = 0", "alpha = C"], "0 < alpha < C")

    @property
    def violation(self) -> FloatArray:
        """By how much y_i f(x_i) violates the condition of the example's case, (n,); 0 if the condition holds."""
        below, above = self.slack, np.maximum(0.0, self.yf - 1.0)
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], [below, above], below + above)

    @property
    def category(self) -> TextArray:
        """Position of each example relative to the margin, (n,): the first of these categories that holds.

        "misclassified": xi_i > 1. "on margin": y_i f(x_i) is 1 within `tolerance`, as it is for every free example that
        is not misclassified. "margin violation": 0 < xi_i <= 1. "outside": y_i f(x_i) > 1.

        A machine that was stopped early has a large `tolerance`; more examples then count as "on margin".
        """
        slack = self.slack
        return np.select(
            [slack > 1.0, np.abs(self.yf - 1.0) <= self.tolerance, slack > 0.0],
            ["misclassified", "on margin", "margin violation"],
            "outside",
        )
