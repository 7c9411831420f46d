"""The rows that machines are trained on: dense, CSR, kernel values, or strings, lists of tokens and sets.

Only this layer depends on *how* data are stored. The layers above use rows, inner products and squared distances. A
float32 or float64 array of any strides, or a canonical CSR matrix, is never copied. ``copied_bytes`` counts the bytes
that had to be copied. Strings, lists of tokens and sets are rows without features (`Structured`). For rows of any other
kind, the user gives a function that reads them (`ObjectRows`).
"""

from mercer.data.arguments import check_choice, check_count, check_number
from mercer.data.base import Data, Vectors
from mercer.data.distance_sample import Pairs, distinct_pairs, weighted_quantile
from mercer.data.objects import ObjectRows, is_table
from mercer.data.phrasing import listing as listing
from mercer.data.precomputed import Precomputed
from mercer.data.structured import Structured, as_structured, looks_structured, together
from mercer.data.user_warnings import warn_user as warn_user
from mercer.data.vectors import CSR, Dense, as_data

__all__ = [
    "CSR",
    "Data",
    "Dense",
    "ObjectRows",
    "Pairs",
    "Precomputed",
    "Structured",
    "Vectors",
    "as_data",
    "as_structured",
    "check_choice",
    "check_count",
    "check_number",
    "distinct_pairs",
    "is_table",
    "listing",
    "looks_structured",
    "together",
    "weighted_quantile",
]
