"""Estimators with scikit-learn's interface: their parameters, documentation and validation, without mathematics."""

from __future__ import annotations

from mercer.estimators.descent import GradientKernelSVC as GradientKernelSVC
from mercer.estimators.kernel_logistic import KernelLogisticRegression as KernelLogisticRegression
from mercer.estimators.kernel_ridge import KernelRidge as KernelRidge
from mercer.estimators.least_squares import LeastSquaresClassifier as LeastSquaresClassifier
from mercer.estimators.least_squares_svc import LeastSquaresSVC as LeastSquaresSVC
from mercer.estimators.linear_svc import LinearSVC as LinearSVC
from mercer.estimators.linear_svr import LinearSVR as LinearSVR
from mercer.estimators.logistic import LogisticRegression as LogisticRegression
from mercer.estimators.neighbours import KernelNeighborsClassifier as KernelNeighborsClassifier
from mercer.estimators.neighbours import KernelNeighborsRegressor as KernelNeighborsRegressor
from mercer.estimators.nu_svc import NuSVC as NuSVC
from mercer.estimators.nu_svr import NuSVR as NuSVR
from mercer.estimators.one_class_svm import OneClassSVM as OneClassSVM
from mercer.estimators.parzen import ParzenClassifier as ParzenClassifier
from mercer.estimators.pegasos import PegasosSVC as PegasosSVC
from mercer.estimators.perceptron import KernelPerceptron as KernelPerceptron
from mercer.estimators.quantile_svr import QuantileSVR as QuantileSVR
from mercer.estimators.rbf_network import RBFNetworkClassifier as RBFNetworkClassifier
from mercer.estimators.svc import SVC as SVC
from mercer.estimators.svdd import SVDD as SVDD
from mercer.estimators.svr import SVR as SVR
