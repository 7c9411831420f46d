"""Classification with several classes: pairs of classes, coupling, decision values, calibration and thresholds."""

from mercer.multiclass.calibration import FITTED_ON as FITTED_ON
from mercer.multiclass.calibration import FOLDS as FOLDS
from mercer.multiclass.calibration import LEAVE_ONE_OUT as LEAVE_ONE_OUT
from mercer.multiclass.calibration import METHODS as METHODS
from mercer.multiclass.calibration import Calibration as Calibration
from mercer.multiclass.calibration import calibrate as calibrate
from mercer.multiclass.calibration import calibration_inputs as calibration_inputs
from mercer.multiclass.coefficients import Coefficients as Coefficients
from mercer.multiclass.coefficients import Entries as Entries
from mercer.multiclass.coefficients import PairCoefficients as PairCoefficients
from mercer.multiclass.coefficients import columns_of as columns_of
from mercer.multiclass.coefficients import table_of as table_of
from mercer.multiclass.cross_fitting import N_FOLDS as N_FOLDS
from mercer.multiclass.cross_fitting import cross_fitted as cross_fitted
from mercer.multiclass.cross_fitting import fold_numbers as fold_numbers
from mercer.multiclass.expected_cost import least_expected_cost as least_expected_cost
from mercer.multiclass.pairs import class_pairs as class_pairs
from mercer.multiclass.pairs import pairs_with as pairs_with
from mercer.multiclass.pairs import place_among_others as place_among_others
from mercer.multiclass.prediction import predicted_classes as predicted_classes
from mercer.multiclass.probability_maps import Isotonic as Isotonic
from mercer.multiclass.probability_maps import Map as Map
from mercer.multiclass.probability_maps import Sigmoid as Sigmoid
from mercer.multiclass.thresholds import Threshold as Threshold
from mercer.multiclass.thresholds import ThresholdCurve as ThresholdCurve
from mercer.multiclass.training import JOINT as JOINT
from mercer.multiclass.training import SCHEMES as SCHEMES
from mercer.multiclass.training import Machines as Machines
from mercer.multiclass.training import class_scores as class_scores
from mercer.multiclass.training import make_tasks as make_tasks
from mercer.multiclass.training import ranking_scores as ranking_scores
from mercer.multiclass.training import train as train
from mercer.multiclass.training import winners as winners

CROSS_FITTED = FITTED_ON[FOLDS]
"""What the decision values of `cross_fitted` are called in a calibration."""
