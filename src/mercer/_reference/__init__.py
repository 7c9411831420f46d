"""Slow, obvious NumPy twins of the native functions: what the native core is tested against, and a way to read it.

Names and arguments are those of ``mercer._core``, except that a table is an array or a sparse matrix, a kernel is its
program, and results are returned. Only the block solvers and `balance` change `beta` and `gradient` in place, as their
twins do.
"""

from mercer._reference.bits import bit_rows as bit_rows
from mercer._reference.bits import bit_rows_of_entries as bit_rows_of_entries
from mercer._reference.ends import LIMIT as LIMIT
from mercer._reference.ends import SOLVED as SOLVED
from mercer._reference.ends import STALLED as STALLED
from mercer._reference.held import solve_held as solve_held
from mercer._reference.integers import integer_rows as integer_rows
from mercer._reference.joint import joint_face as joint_face
from mercer._reference.joint import joint_steps as joint_steps
from mercer._reference.kept_rows import combine_rows as combine_rows
from mercer._reference.kept_rows import compact_square as compact_square
from mercer._reference.kept_rows import gather_rows as gather_rows
from mercer._reference.kept_rows import gather_square as gather_square
from mercer._reference.kept_rows import mirror_rows as mirror_rows
from mercer._reference.kept_rows import scatter_rows as scatter_rows
from mercer._reference.kkt import balance as balance
from mercer._reference.kkt import conditions as conditions
from mercer._reference.kkt import find_settled as find_settled
from mercer._reference.kkt import largest_violation as largest_violation
from mercer._reference.kkt import twofold_sum as twofold_sum
from mercer._reference.left_out import leave_out as leave_out
from mercer._reference.lists import add_at as add_at
from mercer._reference.lists import fold as fold
from mercer._reference.lists import without as without
from mercer._reference.newton import newton_steps as newton_steps
from mercer._reference.pairs import pair_steps as pair_steps
from mercer._reference.spread import column_means as column_means
from mercer._reference.spread import sparse_rows as sparse_rows
from mercer._reference.spread import sparse_sq_norms as sparse_sq_norms
from mercer._reference.spread import sq_norms as sq_norms
from mercer._reference.strings import edit_distances as edit_distances
from mercer._reference.strings import subsequences as subsequences
from mercer._reference.tiles import block as block
from mercer._reference.tiles import matvec as matvec
from mercer._reference.variable_tiles import follow as follow
from mercer._reference.vertex import find_vertex as find_vertex
from mercer._reference.working_set import select_working_set as select_working_set
from mercer._reference.working_set import survey as survey
from mercer._reference.working_set import without_partners as without_partners
