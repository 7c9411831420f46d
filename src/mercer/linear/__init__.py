"""Linear machines, trained on rows of any number: solvers that visit the rows block by block, and their certificate.

A :class:`LinearProblem` is a loss, a penalty and the rows, which are in memory or in a file. The solvers make sweeps
over the blocks of rows (`sweeps.py`). They keep a few numbers for each row, and matrices with a row and a column for
each column of the table.
"""

from mercer.linear.crammer_singer import solve_joint as solve_joint
from mercer.linear.each import solve_each as solve_each
from mercer.linear.joint_problem import JointLinearProblem as JointLinearProblem
from mercer.linear.losses import EpsilonInsensitive as EpsilonInsensitive
from mercer.linear.losses import Hinge as Hinge
from mercer.linear.losses import LinearLoss as LinearLoss
from mercer.linear.losses import Logistic as Logistic
from mercer.linear.losses import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
from mercer.linear.losses import SquaredHinge as SquaredHinge
from mercer.linear.problem import Bias as Bias
from mercer.linear.problem import LinearProblem as LinearProblem
from mercer.linear.rows import Block as Block
from mercer.linear.rows import LinearRows as LinearRows
from mercer.linear.rows import RowNumbers as RowNumbers
from mercer.linear.rows import TableRows as TableRows
from mercer.linear.sampled import start_from_sample as start_from_sample
from mercer.linear.select import solve as solve
from mercer.linear.softmax import solve_softmax as solve_softmax
from mercer.linear.softmax_problem import SoftmaxProblem as SoftmaxProblem
from mercer.linear.solution import LinearPoint as LinearPoint
from mercer.linear.solution import LinearSolution as LinearSolution
from mercer.linear.solution import WarmStart as WarmStart
from mercer.linear.turns import in_turns as in_turns
