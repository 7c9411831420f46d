"""Fixtures of all tests, and the choice of tests for `make test-fast`."""

import signal
from collections import defaultdict

import pytest
from hypothesis import settings

from cases import ISAS, WAYS, going
from mercer.gram.memory_pool import LARGE, SMALL

# The examples are the same in every run. There is no deadline, because a slow machine is no error.
settings.register_profile("mercer", deadline=None, derandomize=True)
settings.register_profile("fast", settings.get_profile("mercer"), max_examples=10)


def pytest_configure(config):
    """Draw fewer examples in `make test-fast`."""
    settings.load_profile("fast" if "not full" in config.option.markexpr else "mercer")


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


@pytest.fixture
def nothing_idle():
    """Empty the memory pool before the test."""
    SMALL.clear()
    LARGE.clear()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    """Mark with "full" the tests that `make test-fast` does not run.

    `make test-fast` runs only the best instruction set, and each test with its first set of parameters.
    It runs all checks of scikit-learn, for one configuration of every estimator (test_contract.py).
    """
    tests = defaultdict(list)
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if parameters.get("isa", ISAS[-1]) != ISAS[-1]:
            item.add_marker("full")
        elif "check" not in parameters:
            tests[item.parent, item.originalname].append(item)
    for sets in tests.values():
        for item in sets[1:]:
            item.add_marker("full")
