"""What a table looks like before anything is learnt from it: findings as values, and histograms.

A finding says what will make a test score doubtful, what its reader should know, or what is good to know.
"""

from mercer.studies.examination.correlations import same_columns as same_columns
from mercer.studies.examination.diagnosis import N_FOLDS as N_FOLDS
from mercer.studies.examination.diagnosis import TEST_SIZE as TEST_SIZE
from mercer.studies.examination.diagnosis import Diagnosis as Diagnosis
from mercer.studies.examination.diagnosis import diagnose as diagnose
from mercer.studies.examination.diagnosis import diagnosed as diagnosed
from mercer.studies.examination.examination import Examination as Examination
from mercer.studies.examination.examination import examine as examine
from mercer.studies.examination.finding import Finding as Finding
from mercer.studies.examination.finding import Kind as Kind
from mercer.studies.examination.finding import Weight as Weight
from mercer.studies.examination.gaps import NearCopies as NearCopies
from mercer.studies.examination.gaps import near_copies as near_copies
from mercer.studies.examination.histograms import Histogram as Histogram
from mercer.studies.examination.refusals import refusal as refusal
