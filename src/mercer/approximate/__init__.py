"""Approximate kernel machines for more rows than exact ones can be trained on, each with its distance to the exact one.

A **way** is a frozen value that says how a machine is approximated: :class:`Landmarks`, for instance. The estimators
take it as `approximation`, by its name ("landmarks") or as an object with parameters. Its one method,

    way.train(task, control) -> ApproximateMachine,

gets a :class:`Task` (the specification of the machine, kernel, rows, targets and weights) and what may end the fit
(:class:`mercer.solvers.Control`). The :class:`ApproximateMachine` that it returns has decision values for new rows
(`values`), an :class:`mercer.certificates.ApproximateCertificate`, and a `reason`, a text that says what was done and
why. If its decision values are sums of kernel values of some training rows, it is an :class:`Expansion`: the estimator
then stores these rows as its support vectors, and predicts, exports and saves them like those of an exact machine.

A new way is a subclass of :class:`Way` with a name, and one entry in :data:`WAYS`. The estimators check the parameters
of the machine first: C is finite, there are no joint machines, rows have positive weights, and a classifier has two
classes at least. `task.machines()` lists the machines for two classes (or the one machine of a regression) with their
rows and targets, in the order of the columns of `values`. A way must hear `control` every 0.2 seconds, use what is left
of `control.limits.max_seconds`, return a machine whenever it is stopped, and refuse what it cannot do with an error
that names the remedy.
"""

from mercer.approximate.cell_machine import Columns
from mercer.approximate.cells import Cells, CellsMachine
from mercer.approximate.cells_evidence import own_distances
from mercer.approximate.choice import AUTO, FEWEST_ROWS, Choice, Elsewhere, choose
from mercer.approximate.cross_fitting import values_without_folds
from mercer.approximate.landmarks import Landmarks
from mercer.approximate.median_tree import Cell, MedianTree, kernel_of_cuts
from mercer.approximate.stored_choice import load_choice, store_choice
from mercer.approximate.task import MachineTask, Task
from mercer.approximate.way import ApproximateMachine, Expansion, Way
from mercer.approximate.ways import WAYS, way_of

__all__ = [
    "AUTO",
    "FEWEST_ROWS",
    "WAYS",
    "ApproximateMachine",
    "Cell",
    "Cells",
    "CellsMachine",
    "Choice",
    "Columns",
    "Elsewhere",
    "Expansion",
    "Landmarks",
    "MachineTask",
    "MedianTree",
    "Task",
    "Way",
    "choose",
    "kernel_of_cuts",
    "load_choice",
    "own_distances",
    "store_choice",
    "values_without_folds",
    "way_of",
]
