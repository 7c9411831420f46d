"""The optimality condition of each training example, from a point of a quadratic problem with bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.kkt import BorderCases, Cases, KKTCases, TubeCases
from mercer.problems import Hinge, Problem, half_width, has_width, inner
from mercer.problems.crammer_singer import JointHinge


class Decided(NamedTuple):
    """A point of a problem and its decision values, from which the examples follow.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n_variables,)
        Row number of each variable.
    beta, values : ndarray of shape (n_variables,)
        The point, and K beta.
    bias : float
    multipliers : ndarray of shape (n_groups,)
    tolerance : float
        KKT violation, rounding, and the difference between `bias` and that of the multipliers.
    rounding : float
        Rounding error of a decision value.
    convex : bool
    """

    rows: IndexArray
    beta: FloatArray
    values: FloatArray
    bias: float
    multipliers: FloatArray
    tolerance: float
    rounding: float
    convex: bool

    def margin(self, values: FloatArray | None = None) -> float:
        """Return 2 / ||w||; infinite if ||w||² is not larger than its rounding error."""
        quadratic = inner(self.beta, self.values if values is None else values)
        return margin_of(quadratic, self.rounding * float(np.abs(self.beta).sum()), convex=self.convex)


def margin_of(quadratic: float, rounding: float, *, convex: bool) -> float:
    """Return 2 / ||w||, where ||w||² is `quadratic` to within `rounding`."""
    if quadratic > rounding:
        return 2.0 / quadratic**0.5
    return float("inf") if convex or quadratic >= -rounding else float("nan")


def examples_of(problem: Problem, point: Decided) -> Cases:
    """Return the examples of a machine.

    Raises
    ------
    TypeError
        If the problem is not that of a machine with examples.
    ValueError
        If a nu-SVC has the margin 0, so that it has no scale.
    """
    if isinstance(problem.loss, Hinge):
        return _hinge(problem.loss.y, problem.loss.C, point)
    if isinstance(problem.loss, JointHinge):
        return joint_examples(
            point.rows,
            problem.loss.codes,
            problem.loss.C,
            problem.by_output(point.beta),
            problem.by_output(point.values),
            _least_margin(problem, point),
            point.tolerance,
        )
    make = _OTHERS.get(problem.name)
    if make is None:
        raise TypeError(f"the problem {problem.name!r} is not that of a machine, so that it has no examples.")
    cases: Cases = make(problem, point)
    return cases


def _hinge(y: FloatArray, C: FloatArray, point: Decided, *, is_squared: bool = False) -> KKTCases:
    return KKTCases(
        rows=point.rows,
        y=y.copy(),
        alpha=np.abs(point.beta),
        C=C.copy(),
        yf=y * (point.values + point.bias),
        margin=point.margin(),
        tolerance=point.tolerance,
        is_squared=is_squared,
    )


def _squared_hinge(problem: Problem, point: Decided) -> Cases:
    assert problem.ridge is not None
    return _hinge(-problem.linear, 0.5 / problem.ridge, point, is_squared=True)


def _nu_svc(problem: Problem, point: Decided) -> Cases:
    """The machine is the solution divided by rho, so that margins are compared with 1."""
    rho = half_width(point.multipliers)
    if not has_width(rho, point.rounding):
        raise ValueError("the margin rho of this machine is 0 but for rounding, so that it cannot be scaled to 1.")
    y = np.where(problem.upper > 0.0, 1.0, -1.0)
    C = np.maximum(problem.upper, -problem.lower)
    divided = point._replace(
        beta=point.beta / rho,
        values=point.values / rho,
        bias=point.bias / rho,
        tolerance=point.tolerance / rho,
        rounding=point.rounding / rho,
    )
    return _hinge(y, C / rho, divided)


def _tube(problem: Problem, point: Decided) -> Cases:
    n, beta = problem.n_rows, problem.coefficients(point.beta)
    C = problem.upper[:n] if problem.ridge is None else 0.5 / problem.ridge[:n]
    if problem.rows is None:
        y, epsilon = -problem.linear, 0.0
        C = np.where(beta < 0.0, -problem.lower, problem.upper) if problem.ridge is None else C
    else:
        up, down = problem.linear[:n], problem.linear[n:]
        y, epsilon = -0.5 * (up + down), 0.5 * float((up - down).mean())
    if problem.n_groups == 2:  # nu-SVR
        epsilon = half_width(point.multipliers)
    f = point.values[:n] + point.bias
    ends = point.tolerance, problem.ridge is not None
    return TubeCases(point.rows[:n], y, f, beta, np.array(C), epsilon, *ends)


def _plane(problem: Problem, point: Decided) -> Cases:
    values = point.values + point.bias
    half = 0.5 * point.margin()
    return BorderCases(point.rows, point.beta, problem.upper.copy(), values, -point.bias * half, point.tolerance)


def _ball(problem: Problem, point: Decided) -> Cases:
    inside = 2.0 * (point.values + problem.linear + point.bias)
    radius = max(0.0, inner(point.beta, point.values) + 2.0 * point.bias) ** 0.5
    return BorderCases(point.rows, point.beta, problem.upper.copy(), inside, radius, 2.0 * point.tolerance)


_OTHERS: dict[str, Any] = {
    "C-SVC, squared hinge": _squared_hinge,
    "nu-SVC": _nu_svc,
    "epsilon-SVR": _tube,
    "squared epsilon-SVR": _tube,
    "nu-SVR": _tube,
    "quantile regression": _tube,
    "one-class": _plane,
    "SVDD": _ball,
}


def _least_margin(problem: Problem, point: Decided) -> float:
    """Return the smallest 2 / ||w_j - w_k|| over all pairs of classes."""
    beta, values = problem.by_output(point.beta), problem.by_output(point.values)
    products = beta.T @ values
    squares = np.diag(products)[:, None] + np.diag(products)[None, :] - products - products.T
    rounding = 4.0 * point.rounding * float(np.abs(point.beta).sum())
    return margin_of(float(squares.max()), rounding, convex=point.convex)


def joint_examples(
    rows: IndexArray,
    codes: IndexArray,
    C: FloatArray,
    beta: FloatArray,
    scores: FloatArray,
    margin: float,
    tolerance: float,
) -> KKTCases:
    """Return the examples of a joint machine; coefficients and scores have shape (n, n_classes)."""
    every = np.arange(codes.size)
    others = scores.copy()
    others[every, codes] = -np.inf
    largest = others.max(axis=1)
    used = np.where((beta < 0.0) & (others > -np.inf), others, np.inf).min(axis=1)
    return KKTCases(
        rows=rows,
        y=codes.astype(np.float64),
        alpha=beta[every, codes].copy(),
        C=C.copy(),
        yf=scores[every, codes] - largest,
        margin=margin,
        tolerance=tolerance,
        beyond=np.maximum(0.0, np.where(np.isinf(used), 0.0, largest - used)),
    )
