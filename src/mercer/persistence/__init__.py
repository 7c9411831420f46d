"""Models: an encoding and a trained machine as one value, which a model file stores."""

from mercer.persistence.model import Model as Model
from mercer.persistence.model import Part as Part
from mercer.persistence.model import Training as Training
from mercer.persistence.model import combined as combined
from mercer.persistence.model import grouped as grouped
from mercer.persistence.model import grouped_parts as grouped_parts
from mercer.persistence.model import point_of as point_of
from mercer.persistence.model_of_estimator import as_model as as_model
from mercer.persistence.model_of_estimator import fit_model as fit_model
from mercer.persistence.training_set import TrainingSet as TrainingSet
from mercer.persistence.training_set import encode_training_rows as encode_training_rows
