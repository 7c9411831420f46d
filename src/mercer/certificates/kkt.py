"""The optimality conditions of a machine for each training example, and its position relative to the margin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray, TextArray
from mercer.data.result import Result


class Cases(Result, ABC):
    """What the optimality conditions of all machines with bounded dual coefficients have in common.

    Every example has a coefficient `alpha` >= 0 with an upper bound `C`, and a `distance` to the border at which its
    loss begins; negative beyond it. At the optimum,

        alpha = 0      implies  distance >= 0,
        0 < alpha < C  implies  distance = 0,
        alpha = C      implies  distance <= 0.

    For squared losses, alpha has no upper bound, and alpha > 0 implies distance = -alpha / (2 C).
    """

    rows: IndexArray
    alpha: FloatArray
    C: FloatArray
    tolerance: float
    is_squared: bool

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            array = getattr(self, one.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __str__(self) -> str:
        names, counts = np.unique(self.category, return_counts=True)
        listed = ", ".join(f"{count:,} {name}" for name, count in zip(names, counts, strict=True))
        violation = self.violation.max(initial=0.0)
        return f"{type(self).__name__}({self.rows.size:,} examples: {listed}; violation {violation:.2g})"

    def _columns(self) -> dict[str, Any]:
        """Return a row for each example."""
        derived = ("distance", "slack", "case", "violation", "category")
        return {**super()._columns(), **{name: getattr(self, name).tolist() for name in derived}}

    @property
    @abstractmethod
    def category(self) -> TextArray:
        """Position of each example relative to the margin or the tube, (n,)."""

    @property
    @abstractmethod
    def distance(self) -> FloatArray:
        """Distance of each example from the border at which its loss begins, (n,); negative beyond it."""

    @property
    def slack(self) -> FloatArray:
        """Slack xi_i of each example, (n,); the primal objective has the term C_i xi_i, or C_i xi_i^2 if squared."""
        return np.maximum(0.0, -self.distance)

    @property
    def case(self) -> TextArray:
        """Case of each example by its alpha, (n,): "alpha = 0", "0 < alpha < C" or "alpha = C".

        For squared losses: "alpha = 0" or "alpha > 0".
        """
        if self.is_squared:
            return np.where(self.alpha <= 0.0, "alpha = 0", "alpha > 0")
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], ["alpha = 0", "alpha = C"], "0 < alpha < C")

    @property
    def violation(self) -> FloatArray:
        """By how much an example violates the condition of its case, (n,); 0 if the condition holds."""
        distance, slack = self.distance, self.slack
        if self.is_squared:
            return np.where(self.alpha <= 0.0, slack, np.abs(distance + 0.5 * self.alpha / self.C))
        beyond = np.maximum(0.0, distance)
        return np.select([self.alpha <= 0.0, self.alpha >= self.C], [slack, beyond], np.abs(distance))


@dataclass(frozen=True, eq=False, repr=False)
class KKTCases(Cases):
    """The training examples of one machine that classifies, with the optimality condition of each example.

    At the optimum of a soft-margin machine, for every example i,

        alpha_i = 0        implies  y_i f(x_i) >= 1,
        0 < alpha_i < C_i  implies  y_i f(x_i) = 1,
        alpha_i = C_i      implies  y_i f(x_i) <= 1,

    but the reverse implications do not hold. `case` says which of the three cases an example is in. `violation` says by
    how much y_i f(x_i) violates the condition of this case. With the squared hinge loss, alpha has no upper bound, and
    alpha_i > 0 implies y_i f(x_i) = 1 - alpha_i / (2 C_i).

    The joint machine of several classes has, in the place of y_i f(x_i), the score of the example's class minus the
    largest score of the other classes, and alpha_i is the coefficient of its class. A class with a coefficient must
    have the largest score of the others; if it has not, the difference counts as violation.

    Parameters
    ----------
    rows : ndarray of int64 of shape (n,)
        Row number of each example in the training data. A machine for a pair of classes does not use all rows, and rows
        of weight 0 are not used.
    y : ndarray of float64 of shape (n,), values -1 and +1
        Class of each example; for the joint machine, its number.
    alpha : ndarray of float64 of shape (n,)
        Dual coefficients.
    C : ndarray of float64 of shape (n,)
        C times the weights of the example and of its class; may be infinite. It is the upper bound of alpha, unless the
        loss is squared.
    yf : ndarray of float64 of shape (n,)
        y_i f(x_i), bias included, in double precision throughout.
    margin : float
        Full width 2 / ||w|| of the strip |f(x)| < 1, in feature space; for the joint machine, the smallest
        2 / ||w_j - w_k|| over all pairs of classes. It is infinite if ||w||^2 is not larger than its
        rounding error, and NaN if an indefinite kernel makes ||w||^2 negative.
    tolerance : float
        Largest distance of y_i f(x_i) from 1 for a free example. It is the sum of the KKT violation, the rounding error
        and the difference between the machine's bias and the one that the conditions suggest.
    is_squared : bool, default=False
        Whether the loss is the square of the slack.
    beyond : ndarray of float64 of shape (n,), optional
        For the joint machine: largest score of the other classes, minus the smallest of those with a coefficient.

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
    is_squared: bool = False
    beyond: FloatArray | None = None

    @property
    def distance(self) -> FloatArray:
        """y_i f(x_i) - 1, (n,)."""
        return self.yf - 1.0

    @property
    def slack(self) -> FloatArray:
        """Slack xi_i = max(0, 1 - y_i f(x_i)) of each example, (n,); see :class:`Cases`."""
        return np.maximum(0.0, 1.0 - self.yf)

    @property
    def violation(self) -> FloatArray:
        """By how much y_i f(x_i) violates the condition of the example's case, (n,); 0 if the condition holds."""
        margin_violation = super().violation
        return margin_violation if self.beyond is None else np.maximum(margin_violation, self.beyond)

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


@dataclass(frozen=True, eq=False, repr=False)
class TubeCases(Cases):
    """The training examples of a machine for regression, with the optimality condition of each example.

    With the residual r = y - f(x) and the signed coefficient beta, the optimum of a machine with the
    epsilon-insensitive loss has

        beta_i = 0            implies  |r_i| <= epsilon,
        0 < |beta_i| < C_i    implies  sign(beta_i) r_i = epsilon,
        |beta_i| = C_i        implies  sign(beta_i) r_i >= epsilon.

    With the squared loss, beta has no bounds, and beta_i != 0 implies
    sign(beta_i) r_i = epsilon + |beta_i| / (2 C_i). For nu-SVR, epsilon is that of the solution. For quantile
    regression, epsilon is 0, and C_i is the bound of the sign of beta_i: that of a row is q C or (1 - q) C.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n,)
        Row number of each example in the training data; rows of weight 0 are not used.
    y, f : ndarray of float64 of shape (n,)
        Target and prediction.
    beta : ndarray of float64 of shape (n,)
        Signed dual coefficients; `alpha` is their size.
    C : ndarray of float64 of shape (n,)
        C times the weight of the example.
    epsilon : float
        Half of the width of the tube, in the units of the targets.
    tolerance : float
        Largest distance of a free example from the edge of the tube: KKT violation, rounding, and the difference
        between the machine's bias and the one that the conditions suggest.
    is_squared : bool
        Whether the loss is the square of the slack.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.2, 2.0, 3.0, 3.4, 9.0])
    >>> examples = SVR(kernel="linear", C=0.2, epsilon=0.5).fit(X, y).certificate_.examples()
    >>> examples.category.tolist()
    ['on the edge', 'inside', 'inside', 'inside', 'on the edge', 'outside']
    """

    rows: IndexArray
    y: FloatArray
    f: FloatArray
    beta: FloatArray
    C: FloatArray
    epsilon: float
    tolerance: float
    is_squared: bool = False

    @property
    def alpha(self) -> FloatArray:  # type: ignore[override]
        """Size of each coefficient, (n,)."""
        return np.abs(self.beta)

    @property
    def residual(self) -> FloatArray:
        """y_i - f(x_i), (n,)."""
        return self.y - self.f

    @property
    def distance(self) -> FloatArray:
        """Distance from the edge of the tube, (n,), on the side of the coefficient; negative outside."""
        residual = self.residual
        return self.epsilon - np.where(self.beta == 0.0, np.abs(residual), np.sign(self.beta) * residual)

    @property
    def slack(self) -> FloatArray:
        """Slack xi_i = max(0, |y_i - f(x_i)| - epsilon) of each example, (n,); see :class:`Cases`."""
        return np.maximum(0.0, np.abs(self.residual) - self.epsilon)

    @property
    def margin(self) -> float:
        """Regression has no margin: an error that names `epsilon`."""
        raise TypeError("a machine for regression has no margin; its tube has the half-width `epsilon`.")

    @property
    def category(self) -> TextArray:
        """Position relative to the tube, (n,): "inside", "on the edge" (within `tolerance`), or "outside"."""
        apart = np.abs(self.residual) - self.epsilon
        return np.select([np.abs(apart) <= self.tolerance, apart < 0.0], ["on the edge", "inside"], "outside")


@dataclass(frozen=True, eq=False, repr=False)
class BorderCases(Cases):
    """The training examples of a machine that describes one class, with the optimality condition of each example.

    At the optimum, alpha_i = 0 implies distance_i >= 0, 0 < alpha_i < C_i implies distance_i = 0, and alpha_i = C_i
    implies distance_i <= 0.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n,)
        Row number of each example in the training data; rows of weight 0 are not used.
    alpha, C : ndarray of float64 of shape (n,)
        Dual coefficients and their upper bounds.
    inside : ndarray of float64 of shape (n,)
        `distance`. For a one-class machine, <w, phi(x_i)> - rho; for SVDD, R^2 - ||phi(x_i) - c||^2. Negative outside.
    margin : float
        Distance rho / ||w|| of the plane from the origin; for SVDD, the radius R.
    tolerance : float
        Largest size of the distance of a free example: the KKT violation (twice for SVDD) and rounding.

    Examples
    --------
    >>> from mercer import OneClassSVM
    >>> examples = OneClassSVM(kernel="linear", nu=0.4).fit([[1.0], [2.0], [3.0], [4.0]]).certificate_.examples()
    >>> examples.category.tolist(), round(examples.margin, 6)
    (['outside', 'on the border', 'inside', 'inside'], 2.0)
    """

    rows: IndexArray
    alpha: FloatArray
    C: FloatArray
    inside: FloatArray
    margin: float
    tolerance: float
    is_squared: bool = False

    @property
    def distance(self) -> FloatArray:
        """See `inside`."""
        return self.inside

    @property
    def category(self) -> TextArray:
        """Position of each example, (n,): "inside", "on the border" within `tolerance`, or "outside"."""
        on = np.abs(self.distance) <= self.tolerance
        return np.select([on, self.distance > 0.0], ["on the border", "inside"], "outside")
