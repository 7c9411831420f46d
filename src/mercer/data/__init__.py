"""The rows that machines are trained on, in whatever form they are stored.

This is the only layer that asks *how* data are stored. Everything above it speaks of rows, inner products and
squared distances. Data are consumed as they are: a float32 or float64 array of any strides, or a canonical CSR
matrix, is never copied, and what had to be copied is counted in ``copied_bytes``. Strings, lists of tokens and sets are
rows too, without features (`Structured`); rows of any other kind are read by a function that the user gives
(`ObjectRows`).
"""

from mercer.data.base import Data, Vectors
from mercer.data.distance_sample import Pairs, distinct_pairs, weighted_quantile
from mercer.data.objects import ObjectRows, is_table
from mercer.data.precomputed import Precomputed
from mercer.data.structured import Structured, as_structured, looks_structured, together
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
    "distinct_pairs",
    "is_table",
    "looks_structured",
    "together",
    "weighted_quantile",
]
