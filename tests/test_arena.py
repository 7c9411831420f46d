"""`Arena`: a growing buffer that later problems on the same matrix reuse."""

import threading

import numpy as np
import pytest

from mercer import SVC, SVR
from mercer.gram.arena import Arena


def test_memory_is_reused():
    one = Arena()
    place = one.array(1000, np.float64).ctypes.data
    assert one.array(10, np.float64).ctypes.data == place
    assert one.array(2000, np.float32).ctypes.data == place
    assert one.nbytes == 8000
    one.array(2000, np.float64)
    assert one.nbytes == 16_000
    one.release()
    assert one.array(10, np.float64).size == 10


@pytest.mark.full
def test_fits_do_not_depend_on_the_content_of_new_memory(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 80))  # rows are cached, and working sets grow
    f = X[:, :4].sum(axis=1)
    machines = [SVC(C=100.0), SVC(C=10.0, multi_class="ovr"), SVC(multi_class="joint"), SVR(C=10.0)]
    targets = [f > 0.0, np.digitize(f, [-2.0, 2.0]), np.digitize(f, [-2.0, 2.0]), f]
    expected = [machine.fit(X, y).dual_coef_ for machine, y in zip(machines, targets, strict=True)]
    array, n_arrays = Arena.array, []

    def not_numbers(self, size, dtype):
        block = array(self, size, dtype)
        block.view(np.uint8)[:] = 255  # NaN, if read as numbers
        n_arrays.append(size)
        return block

    monkeypatch.setattr(Arena, "array", not_numbers)
    for machine, y, coefficients in zip(machines, targets, expected, strict=True):
        np.testing.assert_array_equal(machine.fit(X, y).dual_coef_, coefficients)
    assert len(n_arrays) >= len(machines)


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
    arrays = [[], []]

    def fit(which):
        for _ in range(5):
            arrays[which].append(SVC(multi_class="ovr").fit(*tables[which]).dual_coef_)

    threads = [threading.Thread(target=fit, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in range(2):
        assert len(arrays[which]) == 5
        for one in arrays[which]:
            np.testing.assert_array_equal(one, expected[which])


def test_memory_that_the_system_does_not_give_is_an_error_with_the_remedy():
    with pytest.raises(MemoryError, match="does not give 4503599627370496 bytes for kernel values: lower memory_limit"):
        Arena().array(1 << 50, np.float32)
