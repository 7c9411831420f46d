"""Landmarks: the bound of the distance to the exact machine against the truth, and speed against scikit-learn.

Run from the root of the repository: `python -m benchmarks.landmarks [--bounds] [--rows N] [--landmarks K]`. `--bounds`
compares bounds with exact machines on real tables, in the folder that the environment variable MERCER_DATA names.
`--rows` trains ten values of C on a made table with 20 columns, and scikit-learn's Nystroem and LinearSVC with as many
landmarks.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer import RBF, SVC, KernelSearchCV, Landmarks

from . import datasets

TABLES = (
    ("covtype 2", 8.0, 10.0, 20_000),
    ("electricity", 0.1, 10.0, 10_000),
    ("cod_rna", 0.1, 10.0, 20_000),
    ("skin", 1.0, 10.0, 20_000),
    ("susy-like", 0.02, 1.0, 20_000),
    ("letter", 0.1, 10.0, 10_000),
)
"""Tables of the comparison of bounds, with gamma, C and rows."""

PENALTIES = tuple(np.logspace(-2.0, 1.0, 10))
GAMMA, TEST_ROWS = 0.02, 20_000


def made(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return a noisy table of 20 columns whose classes depend smoothly on all of them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 20)).astype(np.float32)
    first, second = np.random.default_rng(1).normal(size=(2, 20))
    f = np.sin(0.3 * X @ first) + 0.8 * np.tanh(0.4 * X @ second) + 0.5 * X[:, 0] * X[:, 1]
    return X, (f + 0.5 * random.normal(size=n) > 0.0).astype(int)


def timed(work: Callable[[], Any]) -> tuple[Any, str]:
    """Return a result, and its processor and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, f"{time.process_time() - cpu:.1f} | {time.perf_counter() - wall:.1f}"


def bounds() -> None:
    """Print bounds and true distances."""
    print("| table | landmarks | loss | bound, % | truth, % |\n| --- | --- | --- | --- | --- |")
    for name, gamma, C, n in TABLES:
        table = datasets.load(name, n)
        for loss in ("hinge", "squared_hinge"):
            machine = SVC(kernel=RBF(gamma=gamma), C=C, loss=loss)
            optimum = machine.set_params(tol_gap=1e-5).fit(table.X, table.y).certificate_.dual
            for k in (250, 1000):
                machine.set_params(approximation=Landmarks(k), tol_gap=None)
                certificate = machine.fit(table.X, table.y).certificate_.prove()
                truth = (certificate.exact_primal - optimum) / certificate.exact_primal
                print(
                    f"| {name} | {k} | {loss} | {100 * certificate.distance_to_exact:.2f} | {100 * truth:.2f} |",
                    flush=True,
                )
            machine.set_params(approximation=None)


def speed(n: int, k: int) -> None:
    """Print the time of ten values of C, and of one by scikit-learn's Nystroem and LinearSVC."""
    X, y = made(n + TEST_ROWS)
    train, test = np.arange(n), np.arange(n, n + TEST_ROWS)
    machine = SVC(kernel=RBF(gamma=GAMMA), loss="squared_hinge", approximation=Landmarks(k))
    search = KernelSearchCV(machine, C=PENALTIES, cv=[(train, test)], refit=False, memory_limit=2 << 30)
    print("| machine | processor seconds | wall seconds | error, % |\n| --- | --- | --- | --- |")
    search, seconds = timed(lambda: search.fit(X, y))
    scores = search.cv_results_["mean_test_score"]
    print(f"| landmarks, {len(PENALTIES)} values of C | {seconds} | {100 * (1 - scores.max()):.2f} |", flush=True)
    fitted, seconds = timed(lambda: machine.set_params(C=1.0).fit(X[:n], y[:n]))
    print(f"| landmarks, C = 1 | {seconds} | {100 * (1 - fitted.score(X[n:], y[n:])):.2f} |", flush=True)
    print(
        f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB", flush=True
    )
    peer = make_pipeline(Nystroem(gamma=GAMMA, n_components=k, random_state=0), LinearSVC(C=1.0))
    fitted, seconds = timed(lambda: peer.fit(X[:n], y[:n]))
    print(f"| Nystroem and LinearSVC, C = 1 | {seconds} | {100 * (1 - fitted.score(X[n:], y[n:])):.2f} |", flush=True)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bounds", action="store_true", help="compare bounds with exact machines")
    parser.add_argument("--rows", type=int, help="rows of the comparison with scikit-learn")
    parser.add_argument("--landmarks", type=int, default=1000)
    asked = parser.parse_args()
    if asked.bounds:
        bounds()
    if asked.rows:
        speed(asked.rows, asked.landmarks)


if __name__ == "__main__":
    main()
