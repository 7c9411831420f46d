"""Pictures as matplotlib figures; they need the extra ``study``."""

from mercer.plot.classification import confusion_matrix, margin_distribution, roc_curves
from mercer.plot.regression import residual_distribution, residuals, tube

__all__ = [
    "confusion_matrix",
    "margin_distribution",
    "residual_distribution",
    "residuals",
    "roc_curves",
    "tube",
]
