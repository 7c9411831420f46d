"""What a trained machine goes by: which columns and rows matter, and whether more rows would help."""

from mercer.studies.insight.cards import RowCard as RowCard
from mercer.studies.insight.cards import row_cards as row_cards
from mercer.studies.insight.column_importance import Importance as Importance
from mercer.studies.insight.dependence import Dependence as Dependence
from mercer.studies.insight.insight import Insight as Insight
from mercer.studies.insight.insight import SealedInsight as SealedInsight
from mercer.studies.insight.insight import WrongRow as WrongRow
from mercer.studies.insight.insight import gather as gather
from mercer.studies.insight.insight import look_into_sealed as look_into_sealed
from mercer.studies.insight.learning import LearningCurve as LearningCurve
from mercer.studies.insight.learning import learning_curve as learning_curve
from mercer.studies.insight.rows import NotedRow as NotedRow
