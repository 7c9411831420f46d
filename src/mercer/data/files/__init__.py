"""Files that are written completely or not at all, arrays with checksums, and the checkpoints of long work."""

from mercer.data.files.atomic_write import check_writable as check_writable
from mercer.data.files.atomic_write import open_atomically as open_atomically
from mercer.data.files.checked_file import DamagedFileError as DamagedFileError
from mercer.data.files.checked_file import WordSum as WordSum
from mercer.data.files.checked_file import check_arrays as check_arrays
from mercer.data.files.checked_file import full_disk as full_disk
from mercer.data.files.checked_file import header_of as header_of
from mercer.data.files.checked_file import read_checked as read_checked
from mercer.data.files.checked_file import read_slices as read_slices
from mercer.data.files.checked_file import write_checked as write_checked
from mercer.data.files.checkpoint import Checkpoint as Checkpoint
from mercer.data.files.checkpoint import CheckpointError as CheckpointError
from mercer.data.files.checkpoint import State as State
from mercer.data.files.checkpoint import digest_of as digest_of
from mercer.data.files.checkpoint import once as once
from mercer.data.files.checkpoint import text_of as text_of
from mercer.data.files.folder_lock import LockError as LockError
from mercer.data.files.folder_lock import locked as locked
from mercer.data.files.regular_files import NotOwnFileError as NotOwnFileError
from mercer.data.files.regular_files import check_kind as check_kind
from mercer.data.files.regular_files import open_own as open_own
