"""Pictures as matplotlib figures; they need the extra ``study``.

matplotlib is imported when a picture is drawn, not before.
"""

from mercer.plot.classification import MAX_CURVES as MAX_CURVES
from mercer.plot.classification import confusion_matrix, margin_distribution, roc_curves, threshold_curves
from mercer.plot.insight import calibration_curve, column_importance, dependence, learning_curve
from mercer.plot.optimisers import GapCurve as GapCurve
from mercer.plot.optimisers import gap_curves
from mercer.plot.regression import MAX_POINTS as MAX_POINTS
from mercer.plot.regression import residual_distribution, residuals, tube
from mercer.plot.style import FAINT as FAINT
from mercer.plot.style import INK as INK
from mercer.plot.style import MUTED as MUTED
from mercer.plot.style import SERIES as SERIES
from mercer.plot.style import bare as bare
from mercer.plot.style import house_style as house_style
from mercer.plot.style import new_figure as new_figure
from mercer.plot.style import shaded_cells as shaded_cells

__all__ = [
    "FAINT",
    "INK",
    "MAX_CURVES",
    "MAX_POINTS",
    "MUTED",
    "SERIES",
    "GapCurve",
    "bare",
    "calibration_curve",
    "column_importance",
    "confusion_matrix",
    "dependence",
    "gap_curves",
    "house_style",
    "learning_curve",
    "margin_distribution",
    "new_figure",
    "residual_distribution",
    "residuals",
    "roc_curves",
    "shaded_cells",
    "threshold_curves",
    "tube",
]
