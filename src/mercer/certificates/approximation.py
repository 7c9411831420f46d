"""The certificate of an approximate machine: how far it is from the exact machine that it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, relative_gap, share_of_primal
from mercer.certificates.roundoff import rounding_error, rounding_of_dual, rounding_of_offsets
from mercer.gram import Gram
from mercer.problems import Problem, inner

_EPS = float(np.finfo(np.float64).eps)


class Distance(NamedTuple):
    """The interval that contains the optimal objective of the exact machine.

    Attributes
    ----------
    primal : float
        The objective of the approximate machine in the exact problem, plus its rounding error; inf if unknown.
    dual : float
        A proved lower bound of the objective of every machine; -inf if unknown.
    estimated_dual : float or None
        An estimate of such a bound from a sample, which is not proved.
    n_kernel_values : int
        Kernel values that this cost.
    """

    primal: float = math.inf
    dual: float = -math.inf
    estimated_dual: float | None = None
    n_kernel_values: int = 0


@dataclass(frozen=True, repr=False)
class ApproximateCertificate(Certificate):
    """How far an approximate machine is from the optimum of its own problem, and from the exact machine.

    The fields of :class:`Certificate` are about the machine's own problem, which the approximation made smaller: its
    features, or its cells. The fields below are about the problem without an approximation.

    Attributes
    ----------
    approximation : str
        What was approximated, and by what.
    exact_primal : float
        The objective of this machine in the exact problem, plus its rounding error; inf if it is not known.
    exact_dual : float
        A proved lower bound of the objective of every machine for the exact problem; -inf if nothing is proved.
    estimated_dual : float or None
        An estimate of such a bound from a sample of the support vectors; None without an estimate. It is not proved.
    """

    approximation: str = ""
    exact_primal: float = math.inf
    exact_dual: float = -math.inf
    estimated_dual: float | None = None

    @classmethod
    def of(cls, certificate: Certificate, approximation: str, distances: list[Distance]) -> Self:
        """Return the certificate of a machine with its own `certificate`, and a distance for each of its parts."""
        of_own: dict[str, Any] = {field.name: getattr(certificate, field.name) for field in fields(Certificate)}
        of_own["n_kernel_values"] += sum(one.n_kernel_values for one in distances)
        return cls(**of_own, approximation=approximation, **_sums(distances))

    def with_sums_of(self, parts: Sequence[Certificate], **totals: Any) -> Certificate:
        """Return the certificate of a machine of several parts; see :class:`Certificate`."""
        certificate = super().with_sums_of(parts, **totals)
        several = [one for one in parts if isinstance(one, ApproximateCertificate)]
        if len(several) < len(parts):
            return certificate
        distances = [Distance(one.exact_primal, one.exact_dual, one.estimated_dual) for one in several]
        return type(self).of(certificate, self.approximation, distances)

    def chosen(self, choice: str) -> Self:
        """Return this certificate and its parts with the sentence that says what was chosen, and why."""
        return replace(self, choice=choice, parts=[one.chosen(choice) for one in self.parts])

    def prove(self) -> Self:
        """Return this certificate with the distance or bound that the fit only estimated, or left out, proved.

        It costs half of the kernel values between the support vectors of each machine: those rows whose dual
        coefficient is not 0.

        Raises
        ------
        ValueError
            If the training data are not available: a pickled or loaded certificate has no reference to them.
        """
        evidence = self.at_hand("Fit again, and ask before pickling.")
        return replace(self, **_sums(list(evidence.distances())))

    def verify(self) -> Certificate:
        """Return this certificate with the distance to the exact machine computed again, without native code.

        See :meth:`Certificate.verify`. The machines of cells are certified again. For landmarks, the numbers of the
        machine's own problem, which do not enter the distance, are those of the fit.
        """
        evidence = self.at_hand("Use `mercer verify MODEL TABLE`, or fit again.")
        certificate, distances = evidence.again(self)
        return replace(type(self).of(certificate, self.approximation, []), evidence=evidence, **_sums(distances))

    def examples(self) -> Any:
        """Return the optimality conditions of the rows of cells; it is a TypeError for landmarks."""
        return self.at_hand("Fit again, and ask before pickling.").examples()

    @property
    def distance_to_exact(self) -> float:
        """Proved relative distance to the optimal objective of the exact machine: at most this share; inf if unknown.

        (P - D) / max(|P|, |D|), where P is `exact_primal` and D is `exact_dual`: no machine, however it is trained, has
        an objective in the exact problem that is lower than P by more than this share of max(|P|, |D|), which
        is P unless objectives are negative, as those of :class:`mercer.OneClassSVM`.
        """
        return relative_gap(self.exact_primal, self.exact_dual)

    @property
    def estimated_distance(self) -> float | None:
        """The same distance by `estimated_dual`, which is not proved; None without an estimate."""
        return None if self.estimated_dual is None else relative_gap(self.exact_primal, self.estimated_dual)

    @property
    def gap_in_words(self) -> str:
        """How far the objective of the machine's own problem is from its optimum at most, as a phrase."""
        return f"of its own, smaller problem: {super().gap_in_words}"

    @property
    def distance_in_words(self) -> str:
        """The distance to the exact machine, as a phrase that says whether it is proved."""
        if math.isfinite(self.distance_to_exact):
            return f"the objective is above that of the exact machine by at most {self._percent(self.exact_dual)}"
        if self.estimated_dual is not None and math.isfinite(relative_gap(self.exact_primal, self.estimated_dual)):
            by = self._percent(self.estimated_dual)
            return f"estimated from a sample, not proved: the objective is above that of the exact machine by {by}"
        if math.isfinite(self.exact_dual):
            return f"not bounded; the exact objective is at least {self.exact_dual:.6g}"
        if self.estimated_dual is not None and math.isfinite(self.estimated_dual):
            return (
                f"not bounded; the exact objective is at least {self.estimated_dual:.6g}, which is estimated from a "
                "sample and not proved"
            )
        return "not known"

    def _percent(self, dual: float) -> str:
        share = share_of_primal(relative_gap(self.exact_primal, dual), self.exact_primal, dual)
        return f"{100.0 * share:.2g} % of its value"

    def __str__(self) -> str:
        return f"{super().__str__()}\n{'approximation':<20}{self.approximation}\n{'distance to exact':<20}" + (
            self.distance_in_words
        )

    @property
    def facts(self) -> dict[str, str]:
        """The most important numbers as texts, by name, and what the status means."""
        return {"approximation": self.approximation, "distance to exact": self.distance_in_words, **super().facts}


def _sums(distances: list[Distance]) -> dict[str, Any]:
    """Return the fields of a certificate that follow from the distances of its parts."""
    estimates = [one.dual if one.estimated_dual is None else one.estimated_dual for one in distances]
    is_estimated = any(one.estimated_dual is not None for one in distances) and np.isfinite(estimates).all()
    return {
        "exact_primal": sum(one.primal for one in distances) if distances else math.inf,
        "exact_dual": sum(one.dual for one in distances) if distances else -math.inf,
        "estimated_dual": float(sum(estimates)) if is_estimated else None,
    }


class Machine(NamedTuple):
    """A decision function f = g + b, where g is an element of the space of the kernel.

    Attributes
    ----------
    squared_norm : float
        ||g||^2.
    values : ndarray of shape (n,)
        g at the rows of the problem.
    bias : float
    error : float
        Rounding error of the values.
    """

    squared_norm: float
    values: FloatArray
    bias: float
    error: float


def level_of(values: FloatArray, weights: FloatArray, nu: float) -> float:
    """Return the best level rho of the values: the largest with at most a share `nu` of the weight below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    count = int(np.searchsorted(below, nu * below[-1] * (1.0 + 1e-12), side="right"))
    return float(values[order[min(count, values.size - 1)]])


def primal_of(problem: Problem, machine: Machine) -> float:
    """Return an upper bound of the primal objective of a machine in a problem: the objective and its rounding error."""
    multipliers = np.full(problem.n_groups, -machine.bias)
    values = machine.values if problem.rows is None else machine.values[problem.rows]
    error = machine.error + offset_error(problem, machine.bias)
    with np.errstate(over="ignore", invalid="ignore"):
        primal = problem.primal(machine.squared_norm, values, multipliers)
        steepness = problem.steepness(values, multipliers, error)
        rounding = error * steepness + _EPS * (4.0 + problem.n**0.5) * (abs(primal) + machine.squared_norm)
    return primal + rounding if math.isfinite(primal + rounding) else math.inf


def offset_error(problem: Problem, bias: float) -> float:
    """Return the rounding error of decision values due to the targets and the bias: large far from 0."""
    target = largest_linear(problem)
    return float(rounding_of_offsets(target, target + abs(bias)))


def largest_linear(problem: Problem) -> float:
    """Return the largest size of the linear term: 1 for classes, and for a regression about the largest target."""
    return float(np.abs(problem.linear).max(initial=0.0))


def feasible_point(problem: Problem, coefficients: FloatArray) -> FloatArray:
    """Return the variables of a feasible point near coefficients of the rows, (n_rows,)."""
    spread = coefficients if problem.rows is None else coefficients[problem.rows]
    return problem.make_feasible(np.clip(spread, problem.lower, problem.upper))


def dual_of(problem: Problem, point: FloatArray, quadratic: float, error: float, size: float = 0.0) -> float:
    """Return a lower bound of the objective of every machine, from a feasible point.

    The point beta gives the dual objective D(s) = -s linear' beta - s^2 / 2 (beta' K beta + beta' R beta) at every
    multiple s beta that is feasible. The best multiple of at most 1 is taken: it matters where an approximation is
    poor, because D(1) is then often negative.

    Parameters
    ----------
    problem : Problem
    point : ndarray of shape (n,)
        Feasible variables.
    quadratic : float
        beta' K beta.
    error : float
        Rounding error of the elements of K beta.
    size : float
        The largest sqrt(k(x_i, x_i)).
    """
    ridge = 0.0 if problem.ridge is None else inner(problem.ridge, point**2)
    sums = DualSums(inner(problem.linear, point), ridge, inner(point, point), float(np.abs(point).sum()))
    can_shrink = not problem.start.any()  # 0 is feasible, and so are the multiples
    about: dict[str, Any] = {"has_sum": problem.n_groups > 0, "can_shrink": can_shrink}
    return dual_of_sums(sums, quadratic, problem.n, error, largest_linear(problem), size, **about)


class DualSums(NamedTuple):
    """Sums over the variables of a feasible point: linear' beta, beta' R beta, beta' beta, and the sum of |beta|."""

    linear: float
    ridge: float
    squares: float
    mass: float


def dual_of_sums(
    sums: DualSums,
    quadratic: float,
    n: int,
    error: float,
    target: float,
    size: float,
    *,
    has_sum: bool,
    can_shrink: bool,
) -> float:
    """Return the lower bound of :func:`dual_of` from the sums over the variables of a feasible point beta.

    Parameters
    ----------
    sums : DualSums
    quadratic : float
        beta' K beta.
    n : int
        Number of variables.
    error : float
        Rounding error of the elements of K beta.
    target : float
        The largest element of the linear term, in absolute value.
    size : float
        The largest sqrt(k(x_i, x_i)).
    has_sum : bool
        Whether the sum of the variables is given. It is exact but for rounding, which costs its product with the bias.
    can_shrink : bool
        Whether the multiples s beta, 0 <= s <= 1, are feasible.
    """
    curvature, factor = quadratic + sums.ridge, 1.0
    of_quadratic = float(rounding_of_dual(error, sums.squares**0.5, 0.0, n))
    if can_shrink and curvature > 0.0:
        factor = min(1.0, max(0.0, -sums.linear / (curvature + 2.0 * of_quadratic)))
    dual = -factor * sums.linear - factor**2 * (0.5 * curvature + of_quadratic)
    # With the optimal bias, the value of some row is its target: |bias| is at most the target and the largest value.
    bias = target + size * (2.0 * abs(dual)) ** 0.5 if has_sum else 0.0
    terms = abs(factor * sums.linear) + 0.5 * factor**2 * abs(curvature) + factor * sums.mass * (target + bias)
    dual -= _EPS * (4.0 + n**0.5) * terms
    if not math.isfinite(dual):
        return 0.0 if can_shrink else -math.inf
    return max(0.0, dual) if can_shrink else dual  # the point 0 has the dual objective 0


def proved_dual(
    problem: Problem, gram: Gram, coefficients: FloatArray, check: Callable[[], None] | None = None
) -> float:
    """Return a proved lower bound of the objective of every machine, from dual coefficients of the rows, (n_rows,).

    It costs half of the kernel values between rows with a coefficient.
    """
    point = feasible_point(problem, coefficients)
    beta = problem.coefficients(point)
    used = np.flatnonzero(beta)
    values = gram.matvec(beta, used, check)
    size = float(np.sqrt(gram.magnitudes()).max(initial=0.0))
    error = rounding_error(gram, size, size * beta[used], values)
    return dual_of(problem, point, inner(beta[used], values), error, size)


def estimated_dual(
    problem: Problem,
    gram: Gram,
    coefficients: FloatArray,
    n_drawn: int,
    values: FloatArray | None = None,
    check: Callable[[], None] | None = None,
) -> float:
    """Estimate the lower bound of :func:`proved_dual` from the kernel values of a sample of the support vectors.

    With a machine h and g = sum_i beta_i k(x_i, .), beta' K beta is sum_i beta_i h(x_i) + sum_i beta_i (g - h)(x_i).
    The first sum is known. For rows drawn with probability |beta_i| / sum |beta|, the mean of sign(beta_i) (g - h)(x_i)
    times sum |beta| is an unbiased estimate of the second; three standard errors are added.

    Parameters
    ----------
    problem, gram, coefficients
        As for :func:`proved_dual`.
    n_drawn : int
        Size of the sample; a support vector may be drawn several times.
    values : ndarray of shape (n_rows,), optional
        h at the rows, where h is like g; 0 by default.
    check : callable, optional
        It is called between parts of bounded work, and may raise.
    """
    point = feasible_point(problem, coefficients)
    beta = problem.coefficients(point)
    mass = np.abs(beta)
    total = float(mass.sum())
    if not total > 0.0:
        return 0.0
    drawn = np.searchsorted(np.cumsum(mass), np.random.default_rng(0).uniform(size=n_drawn) * total)
    rows, place = np.unique(drawn.clip(max=beta.size - 1), return_inverse=True)
    near = np.zeros(beta.size) if values is None else values
    terms = (np.sign(beta[rows]) * (gram.matvec(beta, rows, check) - near[rows]))[place]
    mean = float(terms.mean()) + 3.0 * float(terms.std()) / n_drawn**0.5
    return dual_of(problem, point, float(beta @ near) + total * mean, 0.0)
