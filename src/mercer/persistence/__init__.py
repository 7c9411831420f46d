"""Models: an encoding and a trained machine as one value, which a model file stores."""

from mercer.persistence.atomic_write import check_writable as check_writable
from mercer.persistence.atomic_write import open_atomically as open_atomically
from mercer.persistence.libsvm_data import save_libsvm_data as save_libsvm_data
from mercer.persistence.libsvm_model import class_labels as class_labels
from mercer.persistence.libsvm_model import save_libsvm_model as save_libsvm_model
from mercer.persistence.model import Model as Model
from mercer.persistence.model import Part as Part
from mercer.persistence.model import Training as Training
from mercer.persistence.model import combined as combined
from mercer.persistence.model import grouped as grouped
from mercer.persistence.model import grouped_parts as grouped_parts
from mercer.persistence.model import point_of as point_of
from mercer.persistence.model_file import load_model as load_model
from mercer.persistence.model_file import save_model as save_model
from mercer.persistence.model_of_estimator import as_model as as_model
from mercer.persistence.model_of_estimator import fit_model as fit_model
from mercer.persistence.table_files import read_table as read_table
from mercer.persistence.training_set import TrainingSet as TrainingSet
from mercer.persistence.training_set import encode_training_rows as encode_training_rows
from mercer.persistence.verification import Verification as Verification
from mercer.persistence.verification import verify as verify
