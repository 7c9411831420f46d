"""The optimisation problems: frozen :class:`Problem` objects, each made by a function named like its machine."""

from __future__ import annotations

from mercer.problems.classification import Hinge as Hinge
from mercer.problems.classification import c_svc as c_svc
from mercer.problems.classification import c_svc_each as c_svc_each
from mercer.problems.classification import half_width as half_width
from mercer.problems.classification import has_width as has_width
from mercer.problems.classification import largest_nu as largest_nu
from mercer.problems.classification import nearest_points as nearest_points
from mercer.problems.classification import nu_svc as nu_svc
from mercer.problems.classification import nu_svc_each as nu_svc_each
from mercer.problems.crammer_singer import JointHinge as JointHinge
from mercer.problems.crammer_singer import joint as joint
from mercer.problems.novelty import one_class as one_class
from mercer.problems.novelty import svdd as svdd
from mercer.problems.problem import Loss as Loss
from mercer.problems.problem import Problem as Problem
from mercer.problems.problem import Problems as Problems
from mercer.problems.problem import growth as growth
from mercer.problems.problem import inner as inner
from mercer.problems.problem import vertex as vertex
from mercer.problems.regression import epsilon_svr as epsilon_svr
from mercer.problems.regression import nu_svr as nu_svr
from mercer.problems.regression import quantile as quantile
