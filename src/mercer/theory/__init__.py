"""Bounds of learning theory: calculators from numbers, and a report of all bounds that apply to a trained machine."""

from mercer.theory.bound import Bound
from mercer.theory.leave_one_out import radius_margin_bound, span_estimate, support_vector_bound, xi_alpha_bound
from mercer.theory.machine_report import MachineTheory, TheoryReport, report
from mercer.theory.uniform import (
    empirical_risk_bound,
    hoeffding_bound,
    hoeffding_interval,
    sample_complexity,
    uniform_bound,
    uniform_interval,
)
from mercer.theory.vc import vapnik_margin_bound, vc_bound, vc_dimension_linear

__all__ = [
    "Bound",
    "MachineTheory",
    "TheoryReport",
    "empirical_risk_bound",
    "hoeffding_bound",
    "hoeffding_interval",
    "radius_margin_bound",
    "report",
    "sample_complexity",
    "span_estimate",
    "support_vector_bound",
    "uniform_bound",
    "uniform_interval",
    "vapnik_margin_bound",
    "vc_bound",
    "vc_dimension_linear",
    "xi_alpha_bound",
]
