"""The memory pool: which buffer is reused, how much idle memory stays, and that results do not depend on it."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mercer import SVC, SVR
from mercer.gram import memory_pool, pooled_array
from mercer.gram.arena import Arena
from mercer.gram.memory_pool import LARGE, SMALL, Extent, MemoryPool

pytestmark = pytest.mark.full  # uses processes, much memory or much time: not in test-fast

MEGABYTE = 1 << 20
KINDS = [pytest.param(SMALL, 1000, id="small"), pytest.param(LARGE, 8 * MEGABYTE, id="large")]

mapped = pytest.mark.skipif(not memory_pool._can_be_taken_back(), reason="the system takes no idle memory back")


@pytest.fixture(autouse=True)
def _nothing_idle(nothing_idle):
    """Free the idle memory of earlier tests."""


@pytest.mark.parametrize(("kind", "size"), KINDS)
def test_memory_is_reused_by_the_next_array(kind, size):
    array = pooled_array(size, np.uint8)
    place = array.ctypes.data
    assert kind.idle_bytes == 0
    del array
    assert kind.idle_bytes == size
    again = pooled_array((size // 100, 10), np.float64 if kind is LARGE else np.float32)
    assert again.shape == (size // 100, 10)
    assert again.ctypes.data == place
    assert kind.idle_bytes == 0


@pytest.mark.parametrize(("kind", "size"), KINDS)
def test_memory_with_a_reference_is_not_given_to_another_user(kind, size):
    row = pooled_array((2, size // 2), np.uint8)[1, 3:]
    row[:] = 7
    other = pooled_array(size, np.uint8)
    other[:] = 0
    assert not np.shares_memory(row, other)
    assert (row == 7).all()
    del row
    assert kind.idle_bytes == size // 2 * 2


def test_an_empty_array_takes_no_buffer():
    assert pooled_array((0, 5), np.float32).shape == (0, 5)
    assert SMALL.idle_bytes == LARGE.idle_bytes == 0


@mapped
@pytest.mark.parametrize("sizes", [(8, 40), (40, 8)])
def test_of_two_buffers_the_larger_one_stays(sizes):
    arrays = [pooled_array(size * MEGABYTE, np.uint8) for size in sizes]
    place = arrays[sizes.index(40)].ctypes.data
    while arrays:
        del arrays[0]
    assert LARGE.idle_bytes == 40 * MEGABYTE
    arena = Arena()
    assert arena.array(6 * MEGABYTE, np.uint8).ctypes.data == place
    assert arena.array(80 * MEGABYTE, np.uint8).ctypes.data == place


def test_an_idle_buffer_that_is_too_small_is_freed():
    array = pooled_array(3 * MEGABYTE, np.uint8)
    del array
    assert SMALL.idle_bytes == 3 * MEGABYTE
    array = pooled_array(4 * MEGABYTE - 1, np.uint8)
    assert array.size == 4 * MEGABYTE - 1
    assert SMALL.idle_bytes == 0


def test_a_buffer_beyond_the_bound_is_freed_alone():
    small, large = pooled_array(8 * MEGABYTE, np.uint8), pooled_array(600 * MEGABYTE, np.uint8)
    del small, large  # only address space is reserved: nothing is written
    assert LARGE.idle_bytes == 8 * MEGABYTE


@mapped
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell whose pages are")
def test_the_system_may_take_idle_memory():
    def to_take():
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("LazyFree"))

    array, before = pooled_array(64 * MEGABYTE, np.uint8), to_take()
    array[:] = 1
    assert to_take() == before
    del array
    assert to_take() >= before + 63 * MEGABYTE
    array = pooled_array(64 * MEGABYTE, np.uint8)
    array[:] = 1
    assert to_take() <= before + MEGABYTE
    del array
    LARGE.clear()
    array, before = pooled_array(32 * MEGABYTE, np.uint8), to_take()
    array[:] = 1
    del array  # the 32 MB are not returned to the system
    assert to_take() <= before + MEGABYTE


def test_threads_have_buffers_of_their_own():
    wrong = []

    def use(number):
        for turn in range(300):
            arrays = array = None
            arrays = [pooled_array(size, np.uint8) for size in (100 + turn, 5 * MEGABYTE + turn)]
            for array in arrays:
                array[:64] = number
            for array in arrays:
                if not (array[:64] == number).all():
                    wrong.append(turn)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # frequent switches, so that the threads overlap
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert not wrong
    assert len(SMALL._idle) <= 1
    assert len(LARGE._idle) <= 1


def test_fits_do_not_depend_on_the_content_of_reused_memory():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 80))  # rows are cached, and working sets grow
    f = X[:, :4].sum(axis=1)
    machines = [SVC(C=100.0), SVC(C=10.0, multi_class="ovr"), SVC(multi_class="joint"), SVR(C=10.0)]
    targets = [f > 0.0, np.digitize(f, [-2.0, 2.0]), np.digitize(f, [-2.0, 2.0]), f]

    expected = [machine.fit(X, y).dual_coef_.tobytes() for machine, y in zip(machines, targets, strict=True)]
    for machine, y, coefficients in zip(machines, targets, expected, strict=True):
        left = [pooled_array(size, np.uint8) for size in (3 * MEGABYTE, 3 * MEGABYTE, 80 * MEGABYTE, 80 * MEGABYTE)]
        for array in left:
            array[:] = 255  # NaN, if read as numbers
        del array, left
        assert machine.fit(X, y).dual_coef_.tobytes() == coefficients


def outcome_of(script):
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


FORK = """
import os
import numpy as np
from mercer.gram import pooled_array

held, idle = pooled_array(8 << 20, np.uint8), pooled_array(8 << 20, np.uint8)
held[:], idle[:], place = 1, 2, idle.ctypes.data
del idle
child = os.fork()
if child == 0:
    own = pooled_array(8 << 20, np.uint8)
    own[:], held[:] = 3, 3
    os._exit(0 if own.ctypes.data == place else 1)
ours = pooled_array(8 << 20, np.uint8)
ours[:] = 4
_, status = os.waitpid(child, 0)
print(status, held.min(), held.max(), ours.min(), ours.max())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks are POSIX's")
def test_a_forked_process_has_copies():
    assert outcome_of(FORK) == ["0", "1", "1", "4", "4"]


WITHOUT = """
import mmap
for name in ("MADV_FREE", "MADV_HUGEPAGE"):
    if hasattr(mmap, name):
        delattr(mmap, name)
import numpy as np
from mercer import SVC
from mercer.gram.memory_pool import LARGE, pooled_array

small = pooled_array(30 << 20, np.uint8)
del small
print(LARGE.idle_bytes >> 20)
large = pooled_array(40 << 20, np.uint8)
del large
print(LARGE.idle_bytes >> 20)
X = np.random.default_rng(0).standard_normal((2500, 5))
print(SVC(C=100.0).fit(X, X[:, 0] * X[:, 1] > 0.0).certificate_.status)
"""


@pytest.mark.slow
def test_less_memory_stays_idle_if_the_system_cannot_reclaim_it():
    assert outcome_of(WITHOUT) == ["30", "0", "optimal"]


SHORT = """
import resource
from pathlib import Path
import numpy as np
from mercer.gram.memory_pool import pooled_array

pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
first = pooled_array(100 << 20, np.uint8)
first[:] = 1
try:
    pooled_array(150 << 20, np.uint8)
except MemoryError as error:
    print(error)
del first
second = pooled_array(150 << 20, np.uint8)
print(second.nbytes >> 20)
"""


@pytest.mark.slow
@mapped
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system does not tell how many addresses are used"
)
def test_buffers_are_small_if_address_space_is_limited():
    *message, found = outcome_of(SHORT)
    assert " ".join(message) == (
        f"the system does not give {150 * MEGABYTE} bytes of memory for kernel values: lower memory_limit"
    )
    assert found == "150"


LIMITED = """
import resource, sys
import numpy as np
from mercer import SVC
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (900 << 20), resource.RLIM_INFINITY))
rng = np.random.default_rng(0)
X = rng.normal(size=(2600, 5))
SVC(C=100.0, n_jobs=1).fit(X, X[:, 0] + 0.3 * rng.normal(size=2600) > 0.0)
assert np.empty(500 << 20, dtype=np.uint8).size
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_other_allocations_succeed_if_address_space_is_limited():
    subprocess.run([sys.executable, "-c", LIMITED], check=True)


@mapped
def test_memory_that_the_system_does_not_reclaim_is_freed():
    array = pooled_array(40 * MEGABYTE, np.uint8)

    def refused(*arguments):
        raise OSError(22, "Invalid argument")

    buffer = memory_pool.acquire(40 * MEGABYTE)
    buffer.touched, buffer.mapping = 40 * MEGABYTE, type("Locked", (), {"madvise": refused})()
    memory_pool.give_back(buffer)
    assert LARGE.idle_bytes == 0
    del array
    assert LARGE.idle_bytes == 40 * MEGABYTE


def test_only_the_written_part_counts_as_touched(monkeypatch):
    monkeypatch.setattr(memory_pool, "LARGE", MemoryPool(memory_pool._mapped, 1 << 20, 1 << 30))
    extent = Extent()
    array = memory_pool.pooled_array((8 << 20,), np.uint8, extent)
    array[: 2 << 20] = 1
    extent.n_bytes = 2 << 20
    del array
    assert memory_pool.LARGE.idle_bytes == 2 << 20
    whole = memory_pool.pooled_array((5 << 20,), np.uint8)
    del whole
    assert memory_pool.LARGE.idle_bytes == 5 << 20
