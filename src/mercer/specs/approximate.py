"""Specifications of approximate machines: sums of kernel values of a few training rows, and their distance to exact."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.approximation import ApproximateCertificate, Machine, level_of, primal_of, proved_dual
from mercer.certificates.roundoff import rounding_error
from mercer.gram import Gram
from mercer.gram.backends import BlockBackend
from mercer.multiclass.calibration import FOLDS
from mercer.specs.machine_spec import BY_PAIRS_OR_CLASSES, MachineSpec, Point
from mercer.specs.quadratic import ForOneClassSVM, ForSVC, ForSVR, QuadraticSpec

_AGREEMENT = 1e-9  # relative difference up to which a recomputed objective counts as equal to the stored one


@dataclass(frozen=True, kw_only=True)
class ApproximateSpec(MachineSpec):
    """The specification of a sum of kernel values of some training rows that approximates an exact machine.

    A model file has its coefficients, and for each machine a dual coefficient of each training row, which proves the
    distance to the exact machine. It has not the features on which the machine was trained: what the certificate says
    of the gap of that smaller problem cannot be recomputed, and the distance does not depend on it.
    """

    certificate_type = ApproximateCertificate
    is_whole = False
    has_duals = True
    schemes = BY_PAIRS_OR_CLASSES

    @property
    @abstractmethod
    def exact(self) -> QuadraticSpec:
        """The machine without an approximation."""

    @property
    def estimator(self) -> str:
        """Name of the estimator that trains this machine."""
        return self.exact.machine

    def check(
        self, targets: FloatArray, weights: FloatArray, gram: Gram, point: Point, stated: ApproximateCertificate
    ) -> tuple[ApproximateCertificate, list[str]]:
        """Return the certificate with the distance to the exact machine recomputed, and a sentence for each error.

        Parameters
        ----------
        targets : ndarray of shape (n, 1)
            Signs of classes, or numbers.
        weights : ndarray of shape (n,)
            Weights of the rows, all positive.
        gram : Gram
            Gram matrix of the n rows.
        point : Point
            Coefficients of its vectors; its multipliers are the dual coefficients of the rows, (n, 1).
        stated : ApproximateCertificate
            The certificate in the model file.
        """
        assert point.vectors is not None
        exact, beta = self.exact, point.beta[:, 0]
        problem = exact.problem(targets[:, 0], exact.C * weights, gram)
        backend, among = BlockBackend(gram.kernel, point.vectors), np.arange(point.vectors.n)
        rows = gram.data.like(point.vectors)
        values = backend.matvec(rows, gram.idx, point.vectors, None, point.beta)[:, 0]
        at_vectors = backend.matvec(point.vectors, among, point.vectors, None, point.beta)[:, 0]
        size = float(np.sqrt(gram.magnitudes()).max(initial=0.0))
        error = rounding_error(gram, size, size * beta, values)
        bias = float(point.bias[0])
        if isinstance(exact, ForOneClassSVM) and exact.contamination > 0.0:  # it has moved the offset afterwards
            bias = 2.0 * error - level_of(values, weights, exact.nu)
        primal = primal_of(problem, Machine(float(beta @ at_vectors), values, bias, error))
        dual, findings = stated.exact_dual, []
        if np.isfinite(dual):
            assert point.multipliers is not None
            dual = proved_dual(problem, gram, point.multipliers[:, 0])
        room = _AGREEMENT * max(abs(primal), abs(dual) if np.isfinite(dual) else 0.0)
        multipliers = np.full(problem.n_groups, -bias)
        at = values if problem.rows is None else values[problem.rows]
        room += 8.0 * error * (problem.steepness(at, multipliers, 4.0 * error) + float(np.abs(beta).sum()))
        if bias and not problem.n_groups:
            findings.append(f"a bias is {bias:.9g} in the file, and this machine has no bias")
        if stated.exact_primal < primal - room:
            findings.append(
                f"the objective in the exact problem is {stated.exact_primal:.9g} in the file and {primal:.9g} "
                "recomputed"
            )
        if stated.exact_dual > dual + room:
            findings.append(
                f"the lower bound of the exact objective is {stated.exact_dual:.9g} in the file and {dual:.9g} "
                "recomputed"
            )
        if isinstance(exact, ForOneClassSVM):
            outside = float(weights[values < -point.bias[0] - 4.0 * error].sum())
            share = exact.contamination or exact.nu
            if outside > share * float(weights.sum()) * (1.0 + _AGREEMENT):
                findings.append(f"{outside:g} training rows by weight are outside, more than a share of {share:g}")
        return replace(stated, exact_primal=primal, exact_dual=dual), findings


@dataclass(frozen=True, kw_only=True)
class ForApproximateSVC(ApproximateSpec):
    """An approximation of a machine with hinge loss or its square; see :class:`ForSVC`."""

    machine = "ApproximateSVC"
    calibrated_on = (FOLDS,)
    C: float
    squared: bool = False
    bias: bool = True

    @property
    def exact(self) -> ForSVC:
        """The machine without an approximation."""
        return ForSVC(C=self.C, squared=self.squared, bias=self.bias)


@dataclass(frozen=True, kw_only=True)
class ForApproximateSVR(ApproximateSpec):
    """An approximation of a machine with epsilon-insensitive loss or its square; see :class:`ForSVR`."""

    machine = "ApproximateSVR"
    answers = "quantity"
    C: float
    epsilon: float
    squared: bool = False
    bias: bool = True

    @property
    def exact(self) -> ForSVR:
        """The machine without an approximation."""
        return ForSVR(C=self.C, epsilon=self.epsilon, squared=self.squared, bias=self.bias)


@dataclass(frozen=True, kw_only=True)
class ForApproximateOneClassSVM(ApproximateSpec):
    """An approximation of a one-class machine; see :class:`ForOneClassSVM`."""

    machine = "ApproximateOneClassSVM"
    answers = "membership"
    nu: float
    contamination: float = 0.0

    @property
    def exact(self) -> ForOneClassSVM:
        """The machine without an approximation."""
        return ForOneClassSVM(nu=self.nu, contamination=self.contamination)

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that are stored but play no part."""
        return () if self.contamination > 0.0 else ("contamination",)


def approximate_spec(exact: QuadraticSpec) -> ApproximateSpec:
    """Return the specification of an approximation of an exact machine."""
    if isinstance(exact, ForSVC):
        return ForApproximateSVC(C=exact.C, squared=exact.squared, bias=exact.bias)
    if isinstance(exact, ForSVR):
        return ForApproximateSVR(C=exact.C, epsilon=exact.epsilon, squared=exact.squared, bias=exact.bias)
    assert isinstance(exact, ForOneClassSVM)
    return ForApproximateOneClassSVM(nu=exact.nu, contamination=exact.contamination)
