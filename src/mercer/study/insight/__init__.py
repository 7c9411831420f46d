"""What a trained machine goes by: which columns and rows matter, and whether more rows would help."""

from mercer.study.insight.cards import RowCard as RowCard
from mercer.study.insight.cards import row_cards as row_cards
from mercer.study.insight.column_importance import Importance as Importance
from mercer.study.insight.dependence import Dependence as Dependence
from mercer.study.insight.insight import Insight as Insight
from mercer.study.insight.insight import SealedInsight as SealedInsight
from mercer.study.insight.insight import WrongRow as WrongRow
from mercer.study.insight.insight import gather as gather
from mercer.study.insight.insight import look_into_sealed as look_into_sealed
from mercer.study.insight.learning import LearningCurve as LearningCurve
from mercer.study.insight.learning import learning_curve as learning_curve
from mercer.study.insight.rows import NotedRow as NotedRow
