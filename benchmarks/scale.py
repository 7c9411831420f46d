"""Exact and approximate machines at 10⁵ to 3·10⁶ rows: seconds, peak memory, exponent and test error, beside peers.

Run from the root of the repository: `make bench-scale`, or

    python -m benchmarks.scale [--rows N ...] [--only REGEX] [--limit SECONDS]

Each cell of the table (generator, rows, machine) runs in a process of its own and is kept in a file of its own, so that
the measurement continues where it was interrupted. A machine that does not end within the limit is not tried on more
rows. The tables are generated: `few` has a margin and few support vectors, `many` has 15 % wrong labels. Needs no data.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MEASURED = HERE.parent / "build" / "bench_scale"
ROWS = (100_000, 300_000, 1_000_000, 3_000_000)
GENERATORS = ("few", "many")
MACHINES = ("mercer", "mercer landmarks", "mercer cells", "mercer linear", "scikit-learn", "scikit-learn linear")
N_COLUMNS, N_TEST, GAMMA = 18, 20_000, 0.02


def rows_of(generator: str, n: int) -> tuple[Any, Any]:
    """Return n rows and their labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_COLUMNS)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + 0.5 * X[:, 3] - 1.0
    y = score > 0.0
    if generator == "few":
        far = np.abs(score) > 0.4
        X[~far, 2] = np.where(y[~far], 2.0, 0.0)
        y = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + 0.5 * X[:, 3] > 1.0
    else:
        y = y ^ (rng.random(n) < 0.15)
    return X, y.astype(np.int64)


def machine_of(name: str) -> Any:
    """Return a machine that is not fitted."""
    if name.startswith("scikit-learn"):
        from sklearn import svm

        return svm.LinearSVC() if name.endswith("linear") else svm.SVC(gamma=GAMMA, cache_size=1000)
    import mercer

    if name == "mercer linear":
        return mercer.LinearSVC()
    approximation = name.removeprefix("mercer").strip() or None
    return mercer.SVC(gamma=GAMMA, approximation=approximation)


def measure(generator: str, n: int, name: str) -> None:
    """Fit a machine in this process, and print what it took."""
    X, y = rows_of(generator, n + N_TEST)
    machine = machine_of(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, processor = time.perf_counter(), time.process_time()
    machine.fit(X[:n], y[:n])
    took = {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}
    took["MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    took["support"] = len(getattr(machine, "support_", ())) if name in ("mercer", "scikit-learn") else 0
    took["error"] = float(np.mean(machine.predict(X[n:]) != y[n:]))
    print(json.dumps(took))


def main() -> None:
    """Measure the cells that are missing, and print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--only", default="", help="cells, by a regular expression such as 'few.*landmarks'")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of a cell")
    parser.add_argument("--cell", nargs=3, metavar=("GENERATOR", "ROWS", "MACHINE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell is not None:
        measure(asked.cell[0], int(asked.cell[1]), asked.cell[2])
        return
    MEASURED.mkdir(parents=True, exist_ok=True)
    for generator in GENERATORS:
        for name in MACHINES:
            for n in sorted(asked.rows):
                if re.search(asked.only, f"{generator} {n} {name}") and not _run(generator, n, name, asked.limit):
                    break
    print("\n".join(table()))


def _path(generator: str, n: int, name: str) -> Path:
    return MEASURED / f"{generator}-{n}-{name.replace(' ', '-')}.json"


def _run(generator: str, n: int, name: str, limit: float) -> bool:
    """Measure a cell unless that is done, and return whether it ended within the limit."""
    path = _path(generator, n, name)
    if not path.exists():
        command = [sys.executable, "-m", "benchmarks.scale", "--cell", generator, str(n), name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            text = done.stdout if done.returncode == 0 else json.dumps({"failed": done.stderr.strip()[-300:]})
        except subprocess.TimeoutExpired:
            text = json.dumps({"failed": f"not within {limit:g} s"})
        unfinished = path.with_suffix(".part")
        unfinished.write_text(text)
        unfinished.replace(path)
        print(f"{generator} {n} {name}: {text.strip()}", file=sys.stderr, flush=True)
    return "failed" not in json.loads(path.read_text())


def table() -> list[str]:
    """Return the lines of the table of all cells that were measured."""
    lines = [
        "| generator | machine | rows | seconds | processor s | exponent | peak MB | support vectors | test error, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for generator in GENERATORS:
        for name in MACHINES:
            last: tuple[int, float] | None = None
            for n in ROWS:
                path = _path(generator, n, name)
                if not path.exists():
                    continue
                cell = json.loads(path.read_text())
                if "failed" in cell:
                    lines.append(f"| {generator} | {name} | {n:,} | {cell['failed']} | | | | | |")
                    continue
                exponent = (
                    "" if last is None else f"{math.log(cell['processor'] / last[1]) / math.log(n / last[0]):.2f}"
                )
                last = n, cell["processor"]
                lines.append(
                    f"| {generator} | {name} | {n:,} | {cell['seconds']:.1f} | {cell['processor']:.1f} | {exponent} | "
                    f"{cell['MB']:.0f} | {cell['support'] or '':} | {100 * cell['error']:.2f} |"
                )
    return lines


if __name__ == "__main__":
    main()
