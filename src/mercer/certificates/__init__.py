"""Optimality certificates: computed from the problem, the kernel and the point, apart from any solver."""

from mercer.certificates.certificate import LARGE_GAP as LARGE_GAP
from mercer.certificates.certificate import Certificate as Certificate
from mercer.certificates.solution import Solution as Solution
from mercer.certificates.status import Status as Status
