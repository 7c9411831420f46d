"""`Arena`: a growing buffer whose memory later problems reuse."""

import threading

import numpy as np
import pytest

from mercer import SVC
from mercer.gram import memory_pool
from mercer.gram.arena import Arena


@pytest.fixture(autouse=True)
def _nothing_idle(nothing_idle):
    """Free the idle memory of earlier tests."""


def test_memory_is_reused():
    first = Arena()
    first.array(1000, np.float64)
    place = first.array(1000, np.float64).ctypes.data
    del first
    second = Arena()
    assert second.nbytes == 0  # a new arena does not take the size of an earlier one
    assert second.array(10, np.float64).ctypes.data == place
    assert second.nbytes == 80


@pytest.mark.skipif(not memory_pool._can_be_taken_back(), reason="the system takes no idle memory back")
def test_a_buffer_grows_in_place():
    one = Arena()
    place = one.array(6 << 20, np.uint8).ctypes.data
    assert one.array(100 << 20, np.uint8).ctypes.data == place
    assert one.nbytes == 100 << 20


def test_two_arenas_have_buffers_of_the_size_requested():
    one, rest = Arena(), Arena()
    for size in (1000, 6 << 20, 600 << 20):  # only address space is reserved: nothing is written
        assert one.array(size, np.uint8).nbytes == size
        assert not np.shares_memory(one.array(size, np.uint8), rest.array(1000, np.uint8))


def test_an_array_keeps_its_values_until_the_next_request():
    one = Arena()
    assert not one.holds(None)
    array = one.array(6, np.float32)
    array[:] = np.arange(6)
    assert not one.holds("numbers")
    one.declare("numbers")
    assert one.holds("numbers")
    np.testing.assert_array_equal(one.again(6, np.float32), np.arange(6))
    one.array(6, np.float32)
    assert not one.holds("numbers")


def test_fits_in_two_threads_do_not_share_memory():
    rng = np.random.default_rng(0)
    tables = [(rng.normal(size=(500, 3)), rng.integers(0, 3, 500)) for _ in range(2)]
    expected = [SVC(multi_class="ovr").fit(*table).dual_coef_ for table in tables]
    found = [[], []]

    def fit(which):
        for _ in range(5):
            found[which].append(SVC(multi_class="ovr").fit(*tables[which]).dual_coef_)

    threads = [threading.Thread(target=fit, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in range(2):
        assert len(found[which]) == 5
        for one in found[which]:
            np.testing.assert_array_equal(one, expected[which])
