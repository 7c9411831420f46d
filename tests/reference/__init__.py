"""Slow, obvious NumPy twins of the native functions: what the native core is tested against, and a way to read it.

Names and arguments are those of ``mercer._core``, except that a table is an array or a sparse matrix, a kernel is its
program, and results are returned. Only the block solvers and `balance` change `beta` and `gradient` in place, as their
twins do.
"""

from reference.bits import bit_rows as bit_rows
from reference.bits import bit_rows_of_entries as bit_rows_of_entries
from reference.cached_rows import combine_rows as combine_rows
from reference.cached_rows import compact_square as compact_square
from reference.cached_rows import gather_rows as gather_rows
from reference.cached_rows import gather_square as gather_square
from reference.cached_rows import mirror_rows as mirror_rows
from reference.cached_rows import scatter_rows as scatter_rows
from reference.ends import LIMIT as LIMIT
from reference.ends import SOLVED as SOLVED
from reference.ends import STALLED as STALLED
from reference.exact_dual import exact_gram as exact_gram
from reference.exact_dual import solve_exactly as solve_exactly
from reference.in_memory import solve_in_memory as solve_in_memory
from reference.integers import integer_rows as integer_rows
from reference.joint import joint_face as joint_face
from reference.joint import joint_steps as joint_steps
from reference.kkt import balance as balance
from reference.kkt import conditions as conditions
from reference.kkt import find_screened as find_screened
from reference.kkt import largest_violation as largest_violation
from reference.kkt import twofold_sum as twofold_sum
from reference.left_out import leave_out as leave_out
from reference.lists import add_at as add_at
from reference.lists import fold as fold
from reference.lists import without as without
from reference.newton import newton_steps as newton_steps
from reference.pairs import pair_steps as pair_steps
from reference.spread import column_means as column_means
from reference.spread import sparse_rows as sparse_rows
from reference.spread import sparse_sq_norms as sparse_sq_norms
from reference.spread import sq_norms as sq_norms
from reference.strings import edit_distances as edit_distances
from reference.strings import local_alignment_by_logarithms as local_alignment_by_logarithms
from reference.strings import local_alignments as local_alignments
from reference.strings import subsequences as subsequences
from reference.tiles import block as block
from reference.tiles import matvec as matvec
from reference.variable_tiles import follow as follow
from reference.vertex import find_vertex as find_vertex
from reference.words import add_to_words as add_to_words
from reference.words import estimates as estimates
from reference.words import sum_over_words as sum_over_words
from reference.words import truncated_estimates as truncated_estimates
from reference.words import word_pairs as word_pairs
from reference.words import word_transform as word_transform
from reference.working_set import select_working_set as select_working_set
from reference.working_set import survey as survey
from reference.working_set import without_partners as without_partners
