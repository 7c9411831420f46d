"""Fixtures of all tests, and the choice of tests for `make test-fast`."""

import os
import signal
import sys

import pytest
from hypothesis import settings

from cases import ISAS, WAYS, going

# The examples are the same in every run. There is no deadline, because a slow machine is no error.
settings.register_profile("mercer", deadline=None, derandomize=True)
settings.register_profile("fast", settings.get_profile("mercer"), max_examples=10)


def pytest_configure(config):
    """Draw fewer examples in `make test-fast`."""
    settings.load_profile("fast" if _is_fast(config) else "mercer")
    os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _without_open_figures():
    """Close the figures that a test has opened, if it has drawn any."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session", autouse=True)
def _heard_ctrl_c():
    """Install Python's handler of Ctrl-C: shells start background processes with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=WAYS)
def way(request):
    """The solver path: each test that uses this fixture runs once for each path."""
    with going(request.param):
        yield request.param


def _cluster(**about):
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", **about)


@pytest.fixture(scope="session")
def cluster_of_threads():
    """A Dask cluster whose two workers are threads of this process."""
    with _cluster(processes=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_of_processes():
    """A Dask cluster of two processes of 1 GB each, which import the library: its start takes seconds."""
    with _cluster(memory_limit="1GB", silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(request):
    """The client in use: of a cluster of processes in slow tests, of threads in others."""
    kind = "processes" if request.node.get_closest_marker("slow") else "threads"
    cluster = request.getfixturevalue(f"cluster_of_{kind}")
    with pytest.importorskip("distributed").Client(cluster) as client:
        yield client


@pytest.hookimpl(tryfirst=True)  # before the sets of parameters are made into tests
def pytest_generate_tests(metafunc):
    """Make only the tests that `make test-fast` runs: each with its first set of parameters, on the best ISA.

    It runs all checks of scikit-learn, for one configuration of every estimator (test_contract.py). To make the other
    tests, and to leave them out afterwards, would take longer than half of the tests that are run.
    """
    is_left_out = any(map(metafunc.definition.get_closest_marker, ("slow", "full")))
    if not _is_fast(metafunc.config) or ("check" in metafunc.fixturenames and not is_left_out):
        return
    parametrize = metafunc.parametrize

    def parametrize_once(argnames, argvalues, *, ids=None, **rest):
        names = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)
        sets = list(argvalues)
        chosen = next((k for k, values in enumerate(sets) if _isa(names, values) == ISAS[-1]), None)
        selected = slice(0, 0) if chosen is None else slice(chosen, chosen + 1)
        if ids is not None and not callable(ids):
            ids = list(ids)[selected]
        parametrize(argnames, sets[selected], ids=ids, **rest)

    metafunc.parametrize = parametrize_once


def _is_fast(config):
    """Return whether this is `make test-fast`."""
    return "not full" in config.option.markexpr


def _isa(names, values):
    """Return the instruction set of a set of parameters, or the best one where it has none."""
    if "isa" not in names:
        return ISAS[-1]
    values = getattr(values, "values", values)  # of pytest.param
    return values if isinstance(values, str) else values[names.index("isa")]
