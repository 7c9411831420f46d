"""Optimality certificates: computed from the problem, the kernel and the point, apart from any solver."""

from mercer.certificates.approximation import ApproximateCertificate as ApproximateCertificate
from mercer.certificates.approximation import Distance as Distance
from mercer.certificates.approximation import proved_dual as proved_dual
from mercer.certificates.certificate import LARGE_GAP as LARGE_GAP
from mercer.certificates.certificate import Certificate as Certificate
from mercer.certificates.certificate import combine as combine
from mercer.certificates.certificate import relative_gap as relative_gap
from mercer.certificates.certificate import share_of_primal as share_of_primal
from mercer.certificates.certificate import worst_status as worst_status
from mercer.certificates.evaluation import Evaluation as Evaluation
from mercer.certificates.quadratic import QuadraticEvidence as QuadraticEvidence
from mercer.certificates.quadratic import dual_objective as dual_objective
from mercer.certificates.recomputation import recompute as recompute
from mercer.certificates.roundoff import largest_rounding as largest_rounding
from mercer.certificates.smooth import largest_gap as largest_gap
from mercer.certificates.solution import Solution as Solution
from mercer.certificates.status import Status as Status
