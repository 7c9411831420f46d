"""One limit on memory and true accounting, compared with the peak that the system measures in separate processes."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from mercer import SVC
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram
from mercer.kernels import RBF
from mercer.solvers.dual.row_cache import RowCache
from mercer.solvers.dual.working_set_sizes import working_sets

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not Path("/proc/self/clear_refs").exists(), reason="the system does not tell the peak of a process"
    ),
]

MEGABYTE = 10**6


CHILD = """
import json, sys
from pathlib import Path
import numpy as np
import mercer

name, n, p, noise, settings = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, p), dtype=np.float32)
f = X[:, :4].sum(axis=1) + X[:, 4] * X[:, 5] + noise * rng.standard_normal(n)
y = f if name == "SVR" else np.digitize(f, [-2.0, 0.0, 2.0]) if settings.pop("many", False) else f > 0.0

def memory(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what + ":"))

machine = getattr(mercer, name)(**settings)
machine.fit(X[:150], y[:150])  # imports, and what a first call makes, are no part of the fit
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
machine.fit(X, y)
peak = memory("VmHWM") - before
certificate = machine.certificate_
print(json.dumps([peak, certificate.peak_memory_bytes, X.nbytes, str(certificate.status), certificate.n_free]))
"""


def peak_of(name, n, p, noise=1.0, **settings):
    """Return the measured peak of a fit, the peak in its certificate, and the size of the input, in bytes."""
    asked = json.dumps([name, n, p, noise, settings])
    done = subprocess.run([sys.executable, "-c", CHILD, asked], check=True, capture_output=True, text=True)
    peak, reported, nbytes, status, _ = json.loads(done.stdout)
    assert status == "optimal"
    return peak, reported, nbytes


# Cached rows (p = 100) and uncached rows, matrices of several sizes, factors, pairs, and two variables a row.
FITS = {
    "few free": ("SVC", 6000, 10, 0.3, {"C": 1.0}),
    "many free, kept rows": ("SVC", 4500, 100, 0.3, {"C": 1.0}),
    "factors": ("SVC", 5000, 20, 0.1, {"C": 300.0}),
    "factors, kept rows": ("SVC", 3000, 80, 0.1, {"C": 300.0}),
    "sets of 7,680": ("SVC", 9000, 100, 0.3, {"C": 10.0, "gamma": 0.01}),
    "everything": ("SVC", 8000, 100, 0.3, {"C": 10.0, "gamma": 0.02}),
    "pairs": ("SVC", 5000, 80, 0.3, {"C": 1.0, "many": True}),
    "joint": ("SVC", 3000, 80, 0.3, {"C": 1.0, "many": True, "multi_class": "joint"}),
    "regression": ("SVR", 4000, 8, 0.3, {"C": 1.0}),
}


QUICK = {
    ("many free, kept rows", 40),
    ("factors, kept rows", 1000),
}
CASES = [
    pytest.param(name, limit, marks=() if (name, limit) in QUICK else pytest.mark.slow)
    for name in FITS
    for limit in (40, 100, 1000)
]


@pytest.mark.parametrize(("name", "limit"), CASES)
def test_the_limit_is_a_ceiling_and_the_account_is_true(name, limit):
    machine, n, p, noise, settings = FITS[name]
    peak, reported, _ = peak_of(machine, n, p, noise, memory_limit=limit * MEGABYTE, **settings)
    assert peak <= limit * MEGABYTE
    assert peak <= reported + 20 * MEGABYTE  # the allocator of the system keeps this much
    assert reported <= limit * MEGABYTE
    assert reported <= 1.5 * peak + 8 * MEGABYTE


@pytest.mark.slow  # the quick tests compare the account with the memory that is used
@pytest.mark.parametrize("limit", [40, 60])
def test_probabilities_keep_to_the_limit(limit):
    settings = {"C": 1.0, "probability": True, "memory_limit": limit * MEGABYTE, "calibration_values": "leave_one_out"}
    assert peak_of("SVC", 6000, 10, 0.3, **settings)[0] <= limit * MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("values", ["leave_one_out", "folds"])
def test_the_account_includes_calibration(values):
    peak, reported, _ = peak_of("SVC", 1900, 20, 0.3, C=1.0, probability=True, calibration_values=values)
    assert peak <= reported + 20 * MEGABYTE
    assert reported <= 1.5 * peak + 8 * MEGABYTE


def test_several_machines_are_counted_and_exceeding_the_limit_warns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), np.arange(3000) % 30  # 435 machines of 200 rows each
    fitted = SVC(memory_limit=30 * MEGABYTE).fit(X, y)
    assert 8 * 17 * (435 * 200 - 200) < fitted.certificate_.peak_memory_bytes < 30 * MEGABYTE
    with pytest.warns(
        UserWarning, match=r"memory_limit=5,000,000 bytes is less than these rows need: .*1\d,"
    ) as reported:
        tight = SVC(memory_limit=5 * MEGABYTE).fit(X, y)
    assert reported[0].filename == __file__
    least = SVC(memory_limit=0).fit(X, y)
    for machine in (tight, least):
        np.testing.assert_allclose(machine.decision_function(X), fitted.decision_function(X), atol=5e-3)


SEARCH = """
import json, sys
from pathlib import Path
import numpy as np
from mercer import SVC, KernelSearchCV

n, n_jobs, limit, values = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, 60))
y = X[:, :4].sum(axis=1) + rng.standard_normal(n) > 0.0

def memory(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what + ":"))

axes = {"C": values, "gamma": [0.05], "cv": 5, "n_jobs": n_jobs, "refit": False, "memory_limit": limit}
KernelSearchCV(SVC(), **axes).fit(X[:150], y[:150])
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
found = KernelSearchCV(SVC(), **axes).fit(X, y)
assert set(found.cv_results_["status"]) == {"optimal"}
print(memory("VmHWM") - before)
"""


@pytest.mark.parametrize("n_jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_search_uses_its_limit_and_workspace_for_each_concurrent_fold(n_jobs):
    n, limit = 3000, 4 * 3000**2
    asked = json.dumps([n, n_jobs, limit, [1.0, 1e4]])
    done = subprocess.run([sys.executable, "-c", SEARCH, asked], check=True, capture_output=True, text=True)
    working_set, inverse = 4 * (n * 4 // 5) ** 2, 8 * 2048**2
    assert int(done.stdout) <= limit + n_jobs * (working_set + inverse) + 20 * MEGABYTE


@pytest.mark.parametrize("limit", [0, 30, 60, 200, 1000])
@pytest.mark.parametrize("cache_policy", [CachePolicy.EXPENSIVE, CachePolicy.NONE])
def test_memory_shares_respect_the_limit_for_any_number_of_threads(limit, cache_policy):
    data = as_data(np.random.default_rng(0).normal(size=(5000, 100)))
    one, many = (
        Gram(RBF(gamma=0.01), data, memory_limit=limit * MEGABYTE, cache_policy=cache_policy, n_jobs=n) for n in (1, 16)
    )
    assert one.room == many.room
    cache_bytes = 8 * one.n * one._store.cached_rows.capacity
    assert cache_bytes + one.room + one.peak_bytes <= max(limit * MEGABYTE, one.peak_bytes)
    largest = working_sets(one)[-1]
    assert largest == 512 or 8 * largest**2 <= one.room // 2
    cache = RowCache(one)
    for _ in cache.accumulate(np.zeros(one.n), np.arange(600), np.ones(600), None):
        pass
    assert cache.nbytes <= one.room // 2


def test_cached_rows_reuse_known_values():
    gram = Gram(RBF(gamma=0.01), as_data(np.random.default_rng(0).standard_normal((400, 80)).astype(np.float32)))
    columns, moved, active = np.arange(100, 300), np.arange(20, 90), np.arange(50, 400)
    square = gram.block(columns, columns).astype(np.float32)
    weights, sums, before = np.random.default_rng(1).standard_normal(70), np.zeros((2, 400)), gram.n_values
    for out, evaluated in zip(sums, [None, (columns, moved, square)], strict=True):
        for _ in RowCache(gram).accumulate(out, columns[moved], weights, active, evaluated):
            pass
        before, count = gram.n_values, gram.n_values - before
        assert count == 70 * (350 if evaluated is None else 150)
    assert sums[1] == pytest.approx(sums[0], abs=1e-6)
    assert np.count_nonzero(sums[1]) == 350


@pytest.mark.slow
@pytest.mark.parametrize(
    ("C", "p", "noise", "gamma"),
    [
        (1.0, 20, 1.0, "scale"),
        (10.0, 20, 0.3, "scale"),
        (1.0, 100, 0.3, "scale"),
        (10.0, 6, 1.0, 0.5),  # 4,000 free variables in a working set of all variables
        (10.0, 6, 1.0, 1.0),  # 10,000 free
        (100.0, 20, 0.0, "scale"),
        (1000.0, 8, 0.0, "scale"),
    ],
)
def test_peak_at_50_000_rows(C, p, noise, gamma):
    peak, reported, nbytes = peak_of("SVC", 50_000, p, noise, C=C, gamma=gamma)
    most = (150 if C <= 10.0 else 450) * MEGABYTE + 2 * nbytes
    assert peak <= most
    assert reported <= 1.05 * most  # the account counts some memory that is not touched


@pytest.mark.parametrize("name", ["LinearSVC", "SVC"])
def test_memory_mapped_rows_of_float32_are_not_copied(name, tmp_path):
    import tracemalloc

    import mercer

    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(15_000, 400)).astype(np.float32))  # 24 MB
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    y = (X[:, 0] > 0.0).astype(int)
    machine = mercer.LinearSVC() if name == "LinearSVC" else mercer.SVC(max_iter=2, memory_limit=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X[:2000], y[:2000])  # imports what it needs
        tracemalloc.start()
        machine.fit(X, y)
        machine.decision_function(X[:1000])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 0.7 * X.nbytes


@pytest.mark.parametrize("name", ["SVC", "LinearSVC"])
def test_sparse_rows_may_have_indices_of_64_bits(name):
    import scipy.sparse as sp

    import mercer

    narrow = sp.random_array((200, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    wide = sp.csr_array(narrow)
    wide.indptr, wide.indices = narrow.indptr.astype(np.int64), narrow.indices.astype(np.int64)
    y = np.arange(200) % 2
    values = [getattr(mercer, name)().fit(one, y).decision_function(one) for one in (narrow, wide)]
    np.testing.assert_array_equal(*values)
