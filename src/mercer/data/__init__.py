"""The rows that machines are trained on: dense, CSR, kernel values, or strings, lists of tokens and sets.

Only this layer depends on *how* data are stored. The layers above use rows, inner products and squared distances. A
float32 or float64 array of any strides, or a canonical CSR matrix, is never copied. ``copied_bytes`` counts the bytes
that had to be copied. For kernels on fingerprints, tables of booleans are packed (`BitRows`). Strings, lists of tokens
and sets are rows without features (`Structured`). For rows of any other kind, the user gives a function that reads them
(`ObjectRows`). A data frame with columns of several kinds has a part for each kernel that reads some of them
(`MixedRows`).
"""

from mercer.data.arguments import check_callback as check_callback
from mercer.data.arguments import check_choice, check_count, check_number
from mercer.data.arguments import check_flag as check_flag
from mercer.data.arguments import check_seconds as check_seconds
from mercer.data.bit_rows import BitRows as BitRows
from mercer.data.bit_rows import table_of_bits_or_counts as table_of_bits_or_counts
from mercer.data.cell_hashes import Hashes as Hashes
from mercer.data.cell_hashes import bits_of as bits_of
from mercer.data.cell_hashes import block_hashes as block_hashes
from mercer.data.cell_hashes import hashes_of_each as hashes_of_each
from mercer.data.cell_hashes import mixed_hashes as mixed_hashes
from mercer.data.cell_hashes import numbered_hashes as numbered_hashes
from mercer.data.cell_hashes import row_hashes as row_hashes
from mercer.data.cell_hashes import text_hash as text_hash
from mercer.data.checks import MAX_EXACT as MAX_EXACT
from mercer.data.checks import distinct as distinct
from mercer.data.checks import refuse_mixed_labels as refuse_mixed_labels
from mercer.data.distance_sample import Pairs, distinct_pairs, weighted_quantile
from mercer.data.fingerprint_rows import fingerprint_table, fingerprints, looks_like_fingerprints
from mercer.data.frames import as_table as as_table
from mercer.data.frames import refuse_mixed_column as refuse_mixed_column
from mercer.data.lazy import lazy_property as lazy_property
from mercer.data.mixed_rows import MixedRows
from mercer.data.mixed_rows import cells_of as cells_of
from mercer.data.mixed_rows import frame_columns as frame_columns
from mercer.data.mixed_rows import is_number_column as is_number_column
from mercer.data.note import Note as Note
from mercer.data.offered import offered_if as offered_if
from mercer.data.opaque_rows import ObjectRows, is_table
from mercer.data.phrasing import listing as listing
from mercer.data.phrasing import nearest_names as nearest_names
from mercer.data.precomputed import Precomputed
from mercer.data.reading import Limits as Limits
from mercer.data.reading import Reading as Reading
from mercer.data.reading import ReadingOptions as ReadingOptions
from mercer.data.result import Result as Result
from mercer.data.result import columns_of_rows as columns_of_rows
from mercer.data.rows import Data, Vectors
from mercer.data.rows import parts as parts
from mercer.data.spelling import in_one_spelling as in_one_spelling
from mercer.data.spelling import one_spelling as one_spelling
from mercer.data.structured import Structured, as_structured, looks_structured, together
from mercer.data.table import MAX_FEATURES as MAX_FEATURES
from mercer.data.table import Table as Table
from mercer.data.table import TableError, TableWarning
from mercer.data.table import cell_text as cell_text
from mercer.data.table import first_rounded as first_rounded
from mercer.data.table import target_column as target_column
from mercer.data.table import text_cells as text_cells
from mercer.data.table import warn_of_whole_numbers as warn_of_whole_numbers
from mercer.data.table import whole_numbers as whole_numbers
from mercer.data.user_warnings import warn_user as warn_user
from mercer.data.vectors import CSR, Dense, as_data

__all__ = [
    "CSR",
    "Data",
    "Dense",
    "MixedRows",
    "ObjectRows",
    "Pairs",
    "Precomputed",
    "Structured",
    "TableError",
    "TableWarning",
    "Vectors",
    "as_data",
    "as_structured",
    "check_choice",
    "check_count",
    "check_number",
    "distinct_pairs",
    "fingerprint_table",
    "fingerprints",
    "is_table",
    "listing",
    "looks_like_fingerprints",
    "looks_structured",
    "together",
    "weighted_quantile",
]
