"""A process ends, or is forked, while other threads fit or predict."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.full  # uses processes, much memory or much time: not in test-fast

AT_WORK = """
import os, sys, threading, time
import numpy as np
from mercer import SVC, KernelRidge, leave_one_out
from mercer.kernels import Spectrum

rng = np.random.default_rng(0)
X = rng.normal(size=(2500, 6))
y = (X[:, 0] + 0.3 * rng.normal(size=2500) > 0).astype(int)
texts = [''.join(rng.choice(list('acgt'), 30)) for _ in range(60)]
machine = SVC(gamma=0.1).fit(X, y)
WORK = [
    lambda: machine.predict(X[:1]),
    lambda: machine.decision_function(X),
    lambda: SVC(gamma=0.1).fit(X, y),
    lambda: SVC(gamma=0.1, callback=lambda progress: None).fit(X[:60], y[:60]),
    lambda: leave_one_out(SVC(gamma=0.1), X[:300], y[:300]),
    lambda: KernelRidge(kernel="rbf").fit(X[:200], y[:200]),
    lambda: SVC(kernel=Spectrum(3)).fit(texts, y[:60]),
]

paused = False

def forever(work):
    while True:
        time.sleep(0.01) if paused else work()

for work in WORK:
    threading.Thread(target=forever, args=(work,), daemon=True).start()
time.sleep(0.3)
"""


def run(script):
    program = AT_WORK + textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "code"),
    [
        pytest.param("print('done')", 0, id="return"),
        pytest.param("print('done'); raise MemoryError", 1, id="exception", marks=pytest.mark.full),
    ],
)
def test_a_process_ends_while_daemon_threads_are_at_work(last, code):
    """CPython before 3.14 ends daemon threads when they request the GIL; that must not abort the process."""
    ended = run(last)
    assert (ended.returncode, ended.stdout) == (code, "done\n"), ended.stderr
    assert "leaked" not in ended.stderr
    assert "terminate" not in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_while_others_are_at_work_fits_and_ends():
    """A lock that another thread held during the fork must not block the child."""
    ended = run("""
        import signal
        for i in range(4):
            child = os.fork()
            paused = child != 0
            if child == 0:
                signal.alarm(10)
                work = WORK[i % len(WORK)]
                work()
                if i % 3 == 0:
                    os._exit(0)
                if i % 3 == 1:
                    threading.Thread(target=forever, args=(work,), daemon=True).start()
                sys.exit(0)
            status = os.waitpid(child, 0)[1]
            assert status == 0, (i, status)
            paused = False
            time.sleep(0.02)
        print("done")
    """)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
