"""Optimisers of textbooks, for learning, comparing and research: one algorithm a file, behind one interface.

A problem is made by :func:`kernel_svm`, :func:`linear_svm`, :func:`logistic_regression`, :func:`coefficient_machine`,
:func:`separation` or :func:`quadratic`. `minimise` of an optimiser runs it and returns a :class:`Run`, with the point
and a trace in which gaps are true: they are measured apart from the optimiser. :func:`compare` runs several.

These are not the solvers of the estimators, except where a docstring says so.
"""

from mercer.optimisers.base import Measure as Measure
from mercer.optimisers.base import MeasuredProblem as MeasuredProblem
from mercer.optimisers.base import Optimiser as Optimiser
from mercer.optimisers.base import Run as Run
from mercer.optimisers.base import Step as Step
from mercer.optimisers.base import TraceRow as TraceRow
from mercer.optimisers.batch_subgradient import BatchSubgradient as BatchSubgradient
from mercer.optimisers.comparison import Comparison as Comparison
from mercer.optimisers.comparison import compare as compare
from mercer.optimisers.coordinate_ascent import CoordinateAscent as CoordinateAscent
from mercer.optimisers.coordinate_ascent import Quadratic as Quadratic
from mercer.optimisers.coordinate_ascent import quadratic as quadratic
from mercer.optimisers.general_qp import GeneralQP as GeneralQP
from mercer.optimisers.kernel_descent import CoefficientMachine as CoefficientMachine
from mercer.optimisers.kernel_descent import KernelGradientDescent as KernelGradientDescent
from mercer.optimisers.kernel_descent import coefficient_machine as coefficient_machine
from mercer.optimisers.kernel_dual_ascent import KernelDualAscent as KernelDualAscent
from mercer.optimisers.kernel_machine import KernelSVM as KernelSVM
from mercer.optimisers.kernel_machine import kernel_svm as kernel_svm
from mercer.optimisers.linear_dual_ascent import LinearDualAscent as LinearDualAscent
from mercer.optimisers.linear_machine import LinearMachine as LinearMachine
from mercer.optimisers.linear_machine import LinearPoint as LinearPoint
from mercer.optimisers.linear_machine import linear_svm as linear_svm
from mercer.optimisers.linear_machine import logistic_regression as logistic_regression
from mercer.optimisers.logistic_descent import LogisticGradientDescent as LogisticGradientDescent
from mercer.optimisers.logistic_descent import LogisticNewton as LogisticNewton
from mercer.optimisers.pegasos import Pegasos as Pegasos
from mercer.optimisers.perceptron import Perceptron as Perceptron
from mercer.optimisers.perceptron import Separation as Separation
from mercer.optimisers.perceptron import separation as separation
from mercer.optimisers.platt_smo import PlattSMO as PlattSMO
from mercer.optimisers.second_order_smo import SecondOrderSMO as SecondOrderSMO
from mercer.optimisers.working_sets import OsunaWorkingSets as OsunaWorkingSets
