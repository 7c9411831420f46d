"""Memory that goes from problem to problem."""

import gc
import threading

import numpy as np

from mercer import SVC
from mercer.gram import arena
from mercer.gram.arena import Arena


def test_memory_comes_back():
    arena._idle.clear()
    first = Arena()
    first.array(1000, np.float64)
    held = first._memory
    del first
    gc.collect()
    second = Arena()
    assert second._memory is held
    assert not arena._idle
    assert second.nbytes == 0  # what an earlier user needed is not what this one needs
    second.array(10, np.float64)
    assert second.nbytes == 80


def test_no_more_is_kept_than_said():
    arena._idle.clear()
    many = [Arena() for _ in range(5)]
    for one in many:
        one.array(10, np.float32)
    large = Arena()
    large.array((16 << 20) + 1, np.uint8)
    del many, one, large
    gc.collect()
    assert len(arena._idle) == 2
    assert sum(memory.nbytes for memory in arena._idle) == 80


def test_what_it_holds_is_known_until_it_is_asked_again():
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
