"""Pictures, as matplotlib figures; needs the extra ``study``."""

from mercer.plot.deviations import residual_distribution, residuals, tube
from mercer.plot.evaluation import confusion_matrix, margin_distribution, roc_curves
from mercer.plot.selection import search_heat_map

__all__ = [
    "confusion_matrix",
    "margin_distribution",
    "residual_distribution",
    "residuals",
    "roc_curves",
    "search_heat_map",
    "tube",
]
