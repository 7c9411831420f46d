"""How far rounding may move the objective and the bound of a point: both are stated on the safe side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.solvers.rows.free_bias import smallest_between

Numbers = npt.NDArray[Any]  # of float64 or longdouble

EPS = float(np.finfo(np.float64).eps)
EXTRA = 8  # roundings of a number besides those of the additions of its sum


def growth(n_terms: int, eps: float = EPS) -> float:
    """Return a bound of the relative error of a sum of products, in units of the sum of their sizes."""
    return (n_terms + EXTRA) * eps


def best_bias(f: FloatArray, y: FloatArray, C: FloatArray) -> float:
    """Return the b for which sum_i C_i max(0, 1 - y_i (f_i + b)) is smallest; the middle of an interval of them."""
    ends = smallest_between(np.where(y > 0.0, 1.0 - f, -np.inf), np.where(y > 0.0, np.inf, -1.0 - f), C)
    finite = [end for end in ends if np.isfinite(end)]
    return sum(finite) / max(1, len(finite))


def hinge_error(margin: Numbers, error: Numbers, C: Numbers) -> Any:
    """Return the error of sum_i C_i max(0, 1 - m_i) if each margin has this error."""
    touched = 1.0 - margin > -error
    return float((C * (error + (1.0 + np.abs(margin)) * growth(C.size)))[touched].sum())
