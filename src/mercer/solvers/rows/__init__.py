"""Linear machines, trained on rows of any number: solvers that visit the rows block by block, and their certificate.

A :class:`LinearProblem` is a loss, a penalty and the rows, which are in memory or in a file. The solvers make sweeps
over the blocks of rows (`sweeps.py`). They keep a few numbers for each row, and matrices with a row and a column for
each column of the table.
"""

from mercer.certificates.linear_solution import LinearPoint as LinearPoint
from mercer.certificates.linear_solution import LinearSolution as LinearSolution
from mercer.certificates.linear_solution import WarmStart as WarmStart
from mercer.gram.rows.table_rows import Block as Block
from mercer.gram.rows.table_rows import LinearRows as LinearRows
from mercer.gram.rows.table_rows import RowNumbers as RowNumbers
from mercer.gram.rows.table_rows import TableRows as TableRows
from mercer.problems.joint_linear import JointLinearProblem as JointLinearProblem
from mercer.problems.linear import Bias as Bias
from mercer.problems.linear import LinearProblem as LinearProblem
from mercer.problems.losses import EpsilonInsensitive as EpsilonInsensitive
from mercer.problems.losses import Hinge as Hinge
from mercer.problems.losses import LinearLoss as LinearLoss
from mercer.problems.losses import Logistic as Logistic
from mercer.problems.losses import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
from mercer.problems.losses import SquaredHinge as SquaredHinge
from mercer.problems.softmax import SoftmaxProblem as SoftmaxProblem
from mercer.solvers.rows.class_problems import small_sample as small_sample
from mercer.solvers.rows.class_problems import solve_each as solve_each
from mercer.solvers.rows.class_problems import solve_one as solve_one
from mercer.solvers.rows.hard_margin import solve as solve
from mercer.solvers.rows.time_shares import in_turns as in_turns
