"""Tables of named columns, and the encoding that turns them into numbers."""

from mercer.tables.column_checks import DATES as DATES
from mercer.tables.column_checks import suspicious_columns as suspicious_columns
from mercer.tables.columns import ColumnChoice as ColumnChoice
from mercer.tables.columns import MissingPolicy as MissingPolicy
from mercer.tables.columns import TableChoice as TableChoice
from mercer.tables.columns import choose_columns as choose_columns
from mercer.tables.columns import choose_without_target as choose_without_target
from mercer.tables.encoding import CategoricalRule as CategoricalRule
from mercer.tables.encoding import Missing as Missing
from mercer.tables.encoding import NumericRule as NumericRule
from mercer.tables.encoding import TableEncoder as TableEncoder
from mercer.tables.prediction_kind import Classes as Classes
from mercer.tables.prediction_kind import PredictionKind as PredictionKind
from mercer.tables.prediction_kind import Quantity as Quantity
from mercer.tables.prediction_kind import numbers as numbers
from mercer.tables.table import Table as Table
from mercer.tables.table import TableError as TableError
from mercer.tables.table import as_table as as_table
from mercer.tables.table import cell_text as cell_text
from mercer.tables.target import Labels as Labels
from mercer.tables.target import Task as Task
from mercer.tables.target import Truth as Truth
from mercer.tables.target import read_target as read_target
from mercer.tables.times import times_of as times_of
