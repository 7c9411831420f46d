"""What every test starts from."""

import signal

import pytest
from hypothesis import settings

from cases import WAYS, going
from mercer.gram.pieces import LARGE, SMALL

# The same examples on every run, and no deadline: a slow machine is not a wrong result.
settings.register_profile("mercer", deadline=None, derandomize=True)
settings.load_profile("mercer")


@pytest.fixture(scope="session", autouse=True)
def _heard_ctrl_c():
    """Python's own handler, which tests that are begun in the background would lack; theirs ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=WAYS)
def way(request):
    """Every way to solve a problem, in force during the test."""
    with going(request.param):
        yield request.param


@pytest.fixture
def nothing_idle():
    """No memory that others have left."""
    SMALL.clear()
    LARGE.clear()
