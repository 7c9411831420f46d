"""How problems are solved: one driver, one algorithm a file."""

from __future__ import annotations

from mercer.solution import Limits as Limits
from mercer.solution import Solution as Solution
from mercer.solvers.auto import select_solver as select_solver
from mercer.solvers.auto import solve as solve
from mercer.solvers.auto import solve_each as solve_each
from mercer.solvers.base import Progress as Progress
from mercer.solvers.base import Solver as Solver
from mercer.solvers.batch_smo import BatchSMO as BatchSMO
from mercer.solvers.hard_margin import HardMargin as HardMargin
from mercer.solvers.interruption import Interruption as Interruption
