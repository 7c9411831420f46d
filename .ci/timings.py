"""Compare the processor seconds of a few fits with those of another build of mercer.

``python .ci/timings.py NOW BEFORE``: each is a Python with mercer installed. Both run in turns, each several times, on
one thread; the table has the least time of each. Hosted machines differ by a tenth from run to run, so that a row is
marked from 1.25 on. A row that BEFORE cannot fit, because the change adds what it needs, has no second figure. With
``--rows`` a Python measures itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

ROUNDS = 3  # processes of each Python
FITS = 3  # of each row in a process
SLOWER = 1.25  # from this ratio on, a row is marked


def rows() -> dict[str, Callable[[], object]]:
    """Return fits of some hundredths of a second on generated tables."""
    import numpy as np
    import scipy.sparse as sp

    import mercer

    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 20))
    y = (X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=6000) > 0).astype(int)
    wide = rng.normal(size=(200_000, 30))
    labels = (wide @ rng.normal(size=30) + rng.normal(size=200_000) > 0).astype(int)
    texts = sp.random(4000, 5000, density=0.01, format="csr", random_state=0, dtype=np.float64)
    topics = np.argmax(texts @ rng.normal(size=(5000, 12)), axis=1)
    return {
        "import": lambda: subprocess.run([sys.executable, "-c", "import mercer; mercer.SVC"], check=True),
        "SVC, Gaussian kernel, 6,000 x 20": lambda: mercer.SVC(C=1.0, gamma=0.1).fit(X, y),
        "SVC, Laplacian kernel, 3,000 x 20": lambda: mercer.SVC(kernel="laplacian", C=1.0).fit(X[:3000], y[:3000]),
        "SVC, Gaussian kernel, 4,000 texts": lambda: mercer.SVC(C=10.0).fit(texts, topics > 5),
        "SVR, Gaussian kernel, 6,000 x 20": lambda: mercer.SVR(C=1.0, gamma=0.1).fit(X, np.sin(X[:, 0])),
        "LinearSVC, hinge, 200,000 x 30": lambda: mercer.LinearSVC(loss="hinge").fit(wide, labels),
        "LinearSVC, 200,000 x 30": lambda: mercer.LinearSVC().fit(wide, labels),
        "LogisticRegression, 200,000 x 30": lambda: mercer.LogisticRegression().fit(wide, labels),
        "LinearSVC, 4,000 texts of 12 classes": lambda: mercer.LinearSVC().fit(texts, topics),
        "PegasosSVC, 200,000 x 30": lambda: mercer.PegasosSVC(max_iter=3, random_state=0).fit(wide, labels),
    }


def measure() -> dict[str, float]:
    """Return the least processor seconds of each row, with those of its processes; inf if the fit fails."""
    import warnings

    warnings.simplefilter("ignore")

    def seconds() -> float:
        times = os.times()
        return time.process_time() + times.children_user + times.children_system

    least_seconds = {}
    for name, fit in rows().items():
        best = float("inf")
        for _ in range(FITS):
            start = seconds()
            try:
                fit()
            except Exception as error:
                print(f"{name}: {error!r}", file=sys.stderr)
                break
            best = min(best, seconds() - start)
        least_seconds[name] = best
    return least_seconds


def main() -> int:
    """Print a line for each row; the exit status is 0 unless a fit of NOW fails: hosted machines are noisy."""
    if sys.argv[1:] == ["--rows"]:
        print(json.dumps(measure()))
        return 0
    best: list[dict[str, float]] = [{}, {}]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for _ in range(ROUNDS):
        for figures, python in zip(best, sys.argv[1:3], strict=True):
            command = [*python.split(), __file__, "--rows"]
            answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=one_thread)
            for name, seconds in json.loads(answer.stdout).items():
                figures[name] = min(seconds, figures.get(name, seconds))
    now, before = best
    print(f"{'processor seconds':<40}{'now':>8}{'before':>8}{'ratio':>7}")
    for name, seconds in now.items():
        earlier = before.get(name, float("inf"))
        ratio = seconds / earlier
        print(f"{name:<40}{seconds:>8.3f}{earlier:>8.3f}{ratio:>7.2f}{'  slower' if ratio >= SLOWER else ''}")
    return int(float("inf") in now.values())


if __name__ == "__main__":
    sys.exit(main())
