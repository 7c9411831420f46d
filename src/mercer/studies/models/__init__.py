"""Models: an encoding and a trained machine as one value, which a model file stores."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from mercer.data.files import check_writable as check_writable
from mercer.data.files import open_atomically as open_atomically
from mercer.data.files import open_own as open_own
from mercer.studies.files.output_folder import check_folder as check_folder
from mercer.studies.files.output_folder import writable_folder as writable_folder
from mercer.studies.models.archive import is_model_start as is_model_start
from mercer.studies.models.assembling import model_of_approximation as model_of_approximation
from mercer.studies.models.cell_layout import CellLayout as CellLayout
from mercer.studies.models.explanation import MIN_REFERENCE as MIN_REFERENCE
from mercer.studies.models.explanation import Explanation as Explanation
from mercer.studies.models.explanation import explain as explain
from mercer.studies.models.fitted_state import Approximated as Approximated
from mercer.studies.models.from_file import model_of_file as model_of_file
from mercer.studies.models.model import Model as Model
from mercer.studies.models.model import Part as Part
from mercer.studies.models.model import Training as Training
from mercer.studies.models.model_file import load_model as load_model
from mercer.studies.models.model_file import load_table_model as load_table_model
from mercer.studies.models.model_file import save_model as save_model
from mercer.studies.models.model_of_estimator import as_model as as_model
from mercer.studies.models.model_of_estimator import encoded_rows as encoded_rows
from mercer.studies.models.model_of_estimator import fit_model as fit_model
from mercer.studies.models.refusals import ModelFileError as ModelFileError
from mercer.studies.models.row_reader import RowReader as RowReader
from mercer.studies.models.table_kernels import cell_columns as cell_columns
from mercer.studies.models.table_kernels import cell_kernel as cell_kernel
from mercer.studies.models.table_kernels import compared_columns as compared_columns
from mercer.studies.models.table_kernels import named_columns as named_columns
from mercer.studies.models.table_kernels import reader_of_table as reader_of_table
from mercer.studies.models.training_set import TrainingSet as TrainingSet
from mercer.studies.models.training_set import encode_training_rows as encode_training_rows
from mercer.studies.models.verification import Verification as Verification
from mercer.studies.models.verification import values_without_folds_of as values_without_folds_of
from mercer.studies.models.verification import verify as verify

# These are imported when they are first used: tables need pyarrow, and LIBSVM's files a part of scikit-learn that takes
# a tenth of a second.
if TYPE_CHECKING:
    from mercer.studies.files.blocks.sources import read_tables as read_tables
    from mercer.studies.files.blocks.sources import table_head as table_head
    from mercer.studies.files.blocks.target_levels import labels_of_texts as labels_of_texts
    from mercer.studies.files.blocks.target_levels import table_of_levels as table_of_levels
    from mercer.studies.files.blocks.target_levels import target_levels as target_levels
    from mercer.studies.files.excel_output import WorkbookWriter as WorkbookWriter
    from mercer.studies.files.table_files import read_table as read_table
    from mercer.studies.models.libsvm_model import class_labels as class_labels
else:
    _LATER = {"class_labels": "mercer.studies.models.libsvm_model", "read_table": "mercer.studies.files.table_files"}
    _LATER["WorkbookWriter"] = "mercer.studies.files.excel_output"
    _LATER |= dict.fromkeys(("read_tables", "table_head"), "mercer.studies.files.blocks.sources")
    _LATER |= dict.fromkeys(
        ("labels_of_texts", "table_of_levels", "target_levels"), "mercer.studies.files.blocks.target_levels"
    )

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'mercer.studies.models' has no attribute {name!r}")
        return getattr(_import_module(_LATER[name]), name)
