"""An encoding and a machine together, as a value: what a model file holds, and how a machine becomes it."""

from mercer.model.base import Model as Model
from mercer.model.base import Part as Part
from mercer.model.base import Training as Training
from mercer.model.base import combined as combined
from mercer.model.base import grouped as grouped
from mercer.model.base import grouped_parts as grouped_parts
from mercer.model.base import point_of as point_of
from mercer.model.of_machine import as_model as as_model
from mercer.model.of_machine import fit_model as fit_model
from mercer.model.training_set import TrainingSet as TrainingSet
from mercer.model.training_set import training_set as training_set
