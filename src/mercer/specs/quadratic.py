"""Specifications of machines whose dual is a quadratic problem with bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from mercer import problems
from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate
from mercer.gram import Gram
from mercer.multiclass.calibration import FOLDS, LEAVE_ONE_OUT
from mercer.problems import Problem
from mercer.specs.machine_spec import BY_PAIRS_OR_CLASSES, JOINTLY, MachineSpec


@dataclass(frozen=True, kw_only=True)
class QuadraticSpec(MachineSpec):
    """The specification of a machine with a quadratic dual problem; with several classes, each part has a problem."""

    certificate_type = Certificate
    stated = ("kkt_violation", "decision_error", "n_support", "n_free", "n_bounded", "tol")
    calibrated_on = (LEAVE_ONE_OUT, FOLDS)
    is_whole = False
    schemes = BY_PAIRS_OR_CLASSES

    C: float = 1.0
    """Penalty of a row of weight 1, if the machine has a penalty."""

    @abstractmethod
    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem.

        Parameters
        ----------
        targets : ndarray of shape (n,)
            Signs of classes, or numbers; ignored if the machine has no targets. Of shape (n, T) if `is_whole`.
        penalties : ndarray of shape (n,)
            C times the weights of the rows.
        gram : Gram
            Gram matrix of these rows.
        """

    def problem_of_some(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem of some of the rows, which may be of one class; the parameters are the same."""
        return self.problem(targets, penalties, gram)


@dataclass(frozen=True, kw_only=True)
class ForSVC(QuadraticSpec):
    """Hinge loss or its square, with or without a bias."""

    machine = "SVC"
    endless = ("C",)
    squared: bool = False
    bias: bool = True

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.c_svc_each(targets, penalties, [targets.size], squared=self.squared, bias=self.bias)[0]

    def problem_of_some(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem of some of the rows; see :class:`QuadraticSpec`."""
        about = {"squared": self.squared, "bias": self.bias, "one_sided": True}
        return problems.c_svc_each(targets, penalties, [targets.size], **about)[0]


@dataclass(frozen=True, kw_only=True)
class ForJointSVC(QuadraticSpec):
    """The joint machine of all classes (Crammer and Singer), ``SVC(multi_class="joint")``."""

    machine = "JointSVC"
    endless = ("C",)
    schemes = JOINTLY
    is_whole = True

    @property
    def estimator(self) -> str:
        """Name of the estimator that trains this machine."""
        return "SVC"

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.joint(targets.argmax(axis=1), targets.shape[1], penalties)


@dataclass(frozen=True, kw_only=True)
class ForNuSVC(QuadraticSpec):
    """Hinge loss with a variable margin rho; the machine is the solution divided by rho."""

    machine = "NuSVC"
    has_width = True
    is_scaled = True
    nu: float

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that are stored but play no part."""
        return ("C",)

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.nu_svc_each(targets, penalties, [targets.size], self.nu)[0]


@dataclass(frozen=True, kw_only=True)
class ForSVR(QuadraticSpec):
    """Epsilon-insensitive loss or its square, with or without a bias."""

    machine = "SVR"
    answers = "quantity"
    epsilon: float
    squared: bool = False
    bias: bool = True

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two dual variables, one of each sign."""
        return self.epsilon > 0.0

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        made = problems.epsilon_svr(targets, penalties, self.epsilon, squared=self.squared)
        return made if self.bias else made.without_bias()


@dataclass(frozen=True, kw_only=True)
class ForNuSVR(QuadraticSpec):
    """Epsilon-insensitive loss whose epsilon is a variable of the problem."""

    machine = "NuSVR"
    answers = "quantity"
    has_width = True
    nu: float

    @property
    def is_two_sided(self) -> bool:
        """Whether a row has two dual variables, one of each sign."""
        return True

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.nu_svr(targets, penalties, self.nu)


@dataclass(frozen=True, kw_only=True)
class ForQuantileSVR(QuadraticSpec):
    """Pinball loss of quantile regression."""

    machine = "QuantileSVR"
    answers = "quantity"
    quantile: float

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.quantile(targets, penalties, self.quantile)


@dataclass(frozen=True, kw_only=True)
class ForOneClassSVM(QuadraticSpec):
    """A half-space that contains most of the rows; with `contamination`, all rows except exactly this share."""

    machine = "OneClassSVM"
    answers = "membership"
    nu: float
    contamination: float = 0.0

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that are stored but play no part."""
        return ("C",) if self.contamination > 0.0 else ("C", "contamination")

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.one_class(penalties, self.nu)


@dataclass(frozen=True, kw_only=True)
class ForSVDD(QuadraticSpec):
    """The smallest ball that leaves few rows outside."""

    machine = "SVDD"
    answers = "membership"
    endless = ("C",)

    def problem(self, targets: FloatArray, penalties: FloatArray, gram: Gram) -> Problem:
        """Return the dual problem; see :class:`QuadraticSpec`."""
        return problems.svdd(gram.diag(), penalties, self.C)
