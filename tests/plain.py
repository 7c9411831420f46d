"""The numbers of a certificate, recomputed in plain NumPy without the library."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist


def gaussian(A, B, gamma):
    return np.exp(-gamma * cdist(A, B, "sqeuclidean"))


def polynomial(A, B, degree, gamma=1.0, coef0=0.0):
    return (gamma * (A @ B.T) + coef0) ** degree


def linear(A, B):
    return A @ B.T


def sigmoid(A, B, gamma, coef0=0.0):
    return np.tanh(gamma * (A @ B.T) + coef0)


@dataclass
class Figures:
    """Numbers of a soft-margin machine at alpha = y beta with bias b."""

    primal: float
    dual: float
    violation: float
    infeasibility: float
    bias: float
    scale: float
    """Size of the terms that decision values are summed from: rounding is a few units in its last place."""

    @property
    def gap(self):
        return self.primal - self.dual

    @property
    def relative_gap(self):
        return self.gap / max(abs(self.primal), abs(self.dual))


def figures(K, y, C, beta, bias=None):
    """Objectives, m(alpha) - M(alpha) and the textbook's bias; the primal is evaluated at `bias` if that is given."""
    C = np.broadcast_to(C, y.shape)
    alpha = y * beta
    f = K @ beta
    up = ((y > 0) & (alpha < C)) | ((y < 0) & (alpha > 0))  # LIBSVM's I_up and I_low; -y grad = y - f
    low = ((y > 0) & (alpha > 0)) | ((y < 0) & (alpha < C))
    m, M = (y - f)[up].max(initial=-np.inf), (y - f)[low].min(initial=np.inf)
    free = (alpha > 0) & (alpha < C)
    free_bias = (y - f)[free].mean() if free.any() else m if np.isinf(M) else M if np.isinf(m) else 0.5 * (m + M)
    b = free_bias if bias is None else bias
    return Figures(
        primal=0.5 * beta @ f + C @ np.maximum(0.0, 1.0 - y * (f + b)),
        dual=alpha.sum() - 0.5 * beta @ f,
        violation=max(0.0, m - M),
        infeasibility=max(0.0, -alpha.min(), (alpha - C).max(), abs(beta.sum())),
        bias=free_bias,
        scale=1.0 + (np.abs(K) @ np.abs(beta)).max(),
    )


@dataclass
class Example:
    """One row of a soft-margin machine's training data."""

    yf: float
    slack: float
    case: str
    violation: float
    category: str


def example(f, y, alpha, C, tolerance):
    """The textbook's case of an example with decision value f, and its position, up to a tolerance."""
    yf = y * f
    slack = max(0.0, 1.0 - yf)
    if alpha == 0.0:
        case, violation = "alpha = 0", max(0.0, 1.0 - yf)
    elif alpha == C:
        case, violation = "alpha = C", max(0.0, yf - 1.0)
    else:
        case, violation = "0 < alpha < C", abs(yf - 1.0)
    if slack > 1.0:
        category = "misclassified"
    elif abs(yf - 1.0) <= tolerance:
        category = "on margin"
    else:
        category = "margin violation" if yf < 1.0 else "outside"
    return Example(yf, slack, case, violation, category)


def epsilon_loss(y, f, epsilon):
    return np.maximum(0.0, np.abs(y - f) - epsilon)


def pinball(y, f, q):
    return np.maximum(q * (y - f), (q - 1.0) * (y - f))
