"""Classification with several classes: pairs of classes, coupling, decision values, calibration and thresholds."""

from mercer.multiclass.training import Machines as Machines
from mercer.multiclass.training import class_scores as class_scores
from mercer.multiclass.training import train as train
from mercer.multiclass.training import winners as winners
