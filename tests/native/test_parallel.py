"""Native helper threads: they live from one call to the next, and no process, thread or fork waits for one."""

import ctypes
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mercer import RBF
from mercer.data import as_data
from mercer.gram import Gram

FORKED = """
import os
import sys

import numpy as np

from mercer import RBF
from mercer.data import as_data
from mercer.gram import Gram

gram = Gram(RBF(gamma=0.1), as_data(np.random.default_rng(0).normal(size=(900, 20))), n_jobs=3)
vector = np.ones((900, 1))
before = gram.matvec(vector)
for generation in range(3):
    child = os.fork()
    if child:
        break
    assert gram.matvec(vector).tobytes() == before.tobytes()
    n_threads = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 3
    assert 3 <= n_threads <= 5, n_threads  # one more where the system has not let a helper begin yet
if child:
    assert gram.matvec(vector).tobytes() == before.tobytes()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks are POSIX's")
def test_a_forked_process_has_helpers_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_concurrent_calls_share_helper_threads_but_not_results():
    X = np.random.default_rng(0).normal(size=(1_200, 20))
    vectors = [np.random.default_rng(k).normal(size=(1_200, 1)) for k in range(8)]
    alone = Gram(RBF(gamma=0.1), as_data(X), n_jobs=1)
    expected = [alone.matvec(vector) for vector in vectors]

    def product(k):
        return [Gram(RBF(gamma=0.1), as_data(X), n_jobs=1 + (k + turn) % 4).matvec(vectors[k]) for turn in range(6)]

    with ThreadPoolExecutor(8) as pool:
        products = list(pool.map(product, range(8)))
    for k in range(8):
        assert all(result.tobytes() == expected[k].tobytes() for result in products[k])


def test_helpers_sleep_between_calls():
    gram = Gram(RBF(gamma=0.1), as_data(np.random.default_rng(0).normal(size=(1_200, 20))), n_jobs=4)
    gram.matvec(np.ones((1_200, 1)))
    before = time.process_time()  # processor time of all threads
    time.sleep(0.4)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="numbers of glibc's modes"
)
def test_helpers_use_the_rounding_mode_of_their_caller():
    X = np.random.default_rng(0).normal(size=(1_200, 20))
    vector = np.random.default_rng(1).normal(size=(1_200, 1))
    library, down = ctypes.CDLL("libm.so.6"), {"x86_64": 0x400, "aarch64": 0x800000}[platform.machine()]
    alone, helped = (Gram(RBF(gamma=0.1), as_data(X), n_jobs=n_jobs) for n_jobs in (1, 4))
    nearest = helped.matvec(vector)
    assert library.fesetround(down) == 0
    try:
        lower, same = alone.matvec(vector), helped.matvec(vector)
    finally:
        library.fesetround(0)
    assert lower.tobytes() == same.tobytes()
    assert lower.tobytes() != nearest.tobytes()
    assert helped.matvec(vector).tobytes() == nearest.tobytes()
