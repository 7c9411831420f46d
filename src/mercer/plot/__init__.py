"""Pictures as display classes, by scikit-learn's conventions; they need the extra ``plot``.

A display is made by `from_estimator`, `from_predictions` or a similar method, which computes and draws. It keeps its
data, so that `plot(ax=...)` draws it again on other axes without computing anything. The artists are attributes that
end in an underscore: `ax_`, `figure_`, `line_` and so on. matplotlib is imported when a picture is drawn, not before.
"""

from mercer.plot.classification import ConfusionMatrixDisplay as ConfusionMatrixDisplay
from mercer.plot.classification import MarginDisplay as MarginDisplay
from mercer.plot.columns import DependenceDisplay as DependenceDisplay
from mercer.plot.columns import ImportanceDisplay as ImportanceDisplay
from mercer.plot.columns import WeightsDisplay as WeightsDisplay
from mercer.plot.curves import MAX_CURVES as MAX_CURVES
from mercer.plot.curves import PrecisionRecall as PrecisionRecall
from mercer.plot.curves import PrecisionRecallDisplay as PrecisionRecallDisplay
from mercer.plot.curves import RocCurveDisplay as RocCurveDisplay
from mercer.plot.display import Display as Display
from mercer.plot.effects import effect as effect
from mercer.plot.gaps import GapCurve as GapCurve
from mercer.plot.gaps import GapDisplay as GapDisplay
from mercer.plot.growth import LearningCurveDisplay as LearningCurveDisplay
from mercer.plot.growth import TimeDisplay as TimeDisplay
from mercer.plot.kernels import KernelDisplay as KernelDisplay
from mercer.plot.kernels import KernelMatrixDisplay as KernelMatrixDisplay
from mercer.plot.losses import LossDisplay as LossDisplay
from mercer.plot.neighbours import VoronoiDisplay as VoronoiDisplay
from mercer.plot.paths import PathDisplay as PathDisplay
from mercer.plot.regions import DecisionRegionDisplay as DecisionRegionDisplay
from mercer.plot.regression import MAX_POINTS as MAX_POINTS
from mercer.plot.regression import PredictionErrorDisplay as PredictionErrorDisplay
from mercer.plot.regression import TubeDisplay as TubeDisplay
from mercer.plot.search import SearchCell as SearchCell
from mercer.plot.search import SearchDisplay as SearchDisplay
from mercer.plot.style import FAINT as FAINT
from mercer.plot.style import INK as INK
from mercer.plot.style import MUTED as MUTED
from mercer.plot.style import SERIES as SERIES
from mercer.plot.style import house_style as house_style
from mercer.plot.style import new_figure as new_figure
from mercer.plot.thresholds import CalibrationDisplay as CalibrationDisplay
from mercer.plot.thresholds import ThresholdDisplay as ThresholdDisplay

__all__ = [
    "FAINT",
    "INK",
    "MAX_CURVES",
    "MAX_POINTS",
    "MUTED",
    "SERIES",
    "CalibrationDisplay",
    "ConfusionMatrixDisplay",
    "DecisionRegionDisplay",
    "DependenceDisplay",
    "Display",
    "GapCurve",
    "GapDisplay",
    "ImportanceDisplay",
    "KernelDisplay",
    "KernelMatrixDisplay",
    "LearningCurveDisplay",
    "LossDisplay",
    "MarginDisplay",
    "PathDisplay",
    "PrecisionRecall",
    "PrecisionRecallDisplay",
    "PredictionErrorDisplay",
    "RocCurveDisplay",
    "SearchCell",
    "SearchDisplay",
    "ThresholdDisplay",
    "TimeDisplay",
    "TubeDisplay",
    "VoronoiDisplay",
    "WeightsDisplay",
    "effect",
    "house_style",
    "new_figure",
]
