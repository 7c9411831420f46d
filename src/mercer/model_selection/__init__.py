"""Choosing a machine honestly: splits, search, contenders, and the seal on the test part."""

from mercer.model_selection.arrangement import Arrangement as Arrangement
from mercer.model_selection.arrangement import InTime as InTime
from mercer.model_selection.arrangement import Split as Split
from mercer.model_selection.arrangement import Together as Together
from mercer.model_selection.copies import CopiesWarning as CopiesWarning
from mercer.model_selection.copies import EqualRows as EqualRows
from mercer.model_selection.copies import equal_rows as equal_rows
from mercer.model_selection.metrics import Evaluation as Evaluation
from mercer.model_selection.metrics import Interval as Interval
from mercer.model_selection.metrics import PairedTest as PairedTest
from mercer.model_selection.metrics import evaluate as evaluate
from mercer.model_selection.metrics import margin_losses as margin_losses
from mercer.model_selection.metrics import mcnemar as mcnemar
from mercer.model_selection.regression_metrics import Deviations as Deviations
from mercer.model_selection.regression_metrics import r2_difference as r2_difference
from mercer.model_selection.seal import Opening as Opening
from mercer.model_selection.seal import SealedTest as SealedTest
from mercer.model_selection.search.racing import hardly_best as hardly_best
from mercer.model_selection.splits import MIN_ROWS_A_FOLD as MIN_ROWS_A_FOLD
from mercer.model_selection.splits import MIN_TEST_ROWS as MIN_TEST_ROWS
from mercer.model_selection.splits import check_class_counts as check_class_counts
from mercer.model_selection.splits import check_judging_numbers as check_judging_numbers
from mercer.model_selection.splits import check_row_count as check_row_count
from mercer.model_selection.splits import check_share as check_share
from mercer.model_selection.splits import rows_enough as rows_enough
