"""How problems are solved: one driver, one algorithm a file."""

from __future__ import annotations

from mercer.certificates.solution import Limits as Limits
from mercer.certificates.solution import Solution as Solution
from mercer.solvers.control import Control as Control
from mercer.solvers.dual.hard_margin import HardMargin as HardMargin
from mercer.solvers.dual.working_set import WorkingSetSolver as WorkingSetSolver
from mercer.solvers.forecast import USUAL_EXPONENT as USUAL_EXPONENT
from mercer.solvers.interruption import Interruption as Interruption
from mercer.solvers.loop import in_time as in_time
from mercer.solvers.progress import PLAN as PLAN
from mercer.solvers.progress import CostEstimate as CostEstimate
from mercer.solvers.progress import StageProgress as StageProgress
from mercer.solvers.progress import duration as duration
from mercer.solvers.progress import fit_progress as fit_progress
from mercer.solvers.progress import most_steps as most_steps
from mercer.solvers.progress_bar import ProgressBar as ProgressBar
from mercer.solvers.progress_bar import reported as reported
from mercer.solvers.select import select_solver as select_solver
from mercer.solvers.select import solve as solve
from mercer.solvers.select import solve_each as solve_each
from mercer.solvers.solver import Progress as Progress
from mercer.solvers.solver import Solver as Solver
