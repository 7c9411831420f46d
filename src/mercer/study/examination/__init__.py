"""What a table looks like before anything is learnt from it: findings as values, and histograms.

A finding says what will make a test score doubtful, what its reader should know, or what is good to know.
"""

from mercer.study.examination.correlations import same_columns as same_columns
from mercer.study.examination.diagnosis import N_FOLDS as N_FOLDS
from mercer.study.examination.diagnosis import TEST_SIZE as TEST_SIZE
from mercer.study.examination.diagnosis import Diagnosis as Diagnosis
from mercer.study.examination.diagnosis import diagnose as diagnose
from mercer.study.examination.diagnosis import diagnosed as diagnosed
from mercer.study.examination.examination import Examination as Examination
from mercer.study.examination.examination import examine as examine
from mercer.study.examination.examination import ranked as ranked
from mercer.study.examination.finding import Finding as Finding
from mercer.study.examination.finding import Kind as Kind
from mercer.study.examination.finding import Weight as Weight
from mercer.study.examination.gaps import NearCopies as NearCopies
from mercer.study.examination.gaps import near_copies as near_copies
from mercer.study.examination.histograms import Histogram as Histogram
from mercer.study.examination.refusals import refusal as refusal
