"""The lazy Gram matrix of a kernel on data, within a byte budget."""

from mercer.gram.backends import BlockBackend as BlockBackend
from mercer.gram.backends import n_threads as n_threads
from mercer.gram.cache_policy import CachePolicy as CachePolicy
from mercer.gram.cached_rows import add_to as add_to
from mercer.gram.cached_rows import combined as combined
from mercer.gram.matrix import DEFAULT_MEMORY_LIMIT as DEFAULT_MEMORY_LIMIT
from mercer.gram.matrix import STATE_ARRAYS as STATE_ARRAYS
from mercer.gram.matrix import Gram as Gram
from mercer.gram.padding import clear_padding as clear_padding
from mercer.gram.padding import padded_block as padded_block
from mercer.gram.padding import padded_square as padded_square
from mercer.gram.padding import padded_width as padded_width
