"""Classification with several classes: pairs of classes, coupling, decision values, calibration and thresholds."""

from mercer.multiclass.calibration import FITTED_ON, FOLDS
from mercer.multiclass.calibration import Calibration as Calibration
from mercer.multiclass.calibration import calibrate as calibrate
from mercer.multiclass.cross_fitting import cross_fitted as cross_fitted
from mercer.multiclass.cross_fitting import fold_numbers as fold_numbers
from mercer.multiclass.expected_cost import least_expected_cost as least_expected_cost
from mercer.multiclass.thresholds import Threshold as Threshold
from mercer.multiclass.thresholds import ThresholdCurve as ThresholdCurve
from mercer.multiclass.training import Machines as Machines
from mercer.multiclass.training import class_scores as class_scores
from mercer.multiclass.training import train as train
from mercer.multiclass.training import winners as winners

CROSS_FITTED = FITTED_ON[FOLDS]
"""What the decision values of `cross_fitted` are called in a calibration."""
