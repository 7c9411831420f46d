"""Exact and approximate machines at 10⁵ to 3·10⁶ rows: seconds, peak memory, exponent and test error, beside peers.

Run from the root of the repository: `make bench-scale`, or

    python -m benchmarks.scale [--rows N ...] [--only REGEX] [--limit SECONDS] [--again | --renew]

Each cell of the table (generator, rows, machine) runs in a process of its own and is kept in a file of its own, with
the commit of the code, so that the measurement continues where it was interrupted. `--again` measures the cells that
failed once more, and `--renew` those of mercer at other commits too. A machine that does not end within the limit is
not tried on more rows. The table marks seconds in which the computer did other work. The rows are generated: `few` has
a margin and few support vectors, `many` has 15 % wrong labels. `mercer file` trains on a Parquet file with 1 GB of
memory. Needs no data.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MEASURED = HERE.parent / "build" / "bench_scale"
ROWS = (100_000, 300_000, 1_000_000, 3_000_000)
GENERATORS = ("few", "many")
MACHINES = (
    *("mercer", "mercer file", "mercer landmarks", "mercer cells", "mercer linear"),
    *("scikit-learn", "scikit-learn nystroem", "scikit-learn linear"),
)
N_COLUMNS, N_TEST, GAMMA = 18, 20_000, 0.02
_BUSY = 0.2  # processors that other work takes, from which seconds are marked


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
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import make_pipeline

        if name.endswith("nystroem"):
            return make_pipeline(Nystroem(gamma=GAMMA, n_components=1000, random_state=0), svm.LinearSVC())
        return svm.LinearSVC() if name.endswith("linear") else svm.SVC(gamma=GAMMA, cache_size=1000)
    import mercer

    if name == "mercer linear":
        return mercer.LinearSVC()
    approximation = name.removeprefix("mercer").removesuffix("file").strip() or None
    return mercer.SVC(gamma=GAMMA, approximation=approximation)


def measure(generator: str, n: int, name: str, folder: Path) -> None:
    """Fit a machine in this process, and print what it took; files are written to `folder`."""
    X, y = rows_of(generator, n + N_TEST)
    machine, fit = machine_of(name), None
    machine.fit(X[:2_000], y[:2_000])  # imports are no part of the fit
    if name == "mercer file":
        path = _written(folder / "rows.parquet", X[:n], y[:n])
        X = X[n:].copy()  # the rows of the training are in the file alone
        y = y[n:]
        fit = partial(machine.fit_file, path, target="y", memory="1GB")
    before = _peak_since(0)
    began, processor, busy = time.perf_counter(), time.process_time(), _busy()
    if fit is None:
        machine.fit(X[:n], y[:n])
        X, y = X[n:], y[n:]
    else:
        fit()
    took = {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}
    took["others"] = (_busy() - busy - took["processor"]) / max(took["seconds"], 1.0)
    took["MB"] = _peak_since(before) / 2**20
    took["support"] = len(machine.support_) if name in ("mercer", "mercer file", "scikit-learn") else 0
    took["error"] = float(np.mean(machine.predict(X) != y))
    print(json.dumps(took))


def _written(path: Path, X: Any, y: Any) -> Path:
    """Write rows to a Parquet file, in row groups of 50,000."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {**{f"x{k}": X[:, k] for k in range(X.shape[1])}, "y": y}
    pq.write_table(pa.table(columns), path, row_group_size=50_000)
    return path


def _busy() -> float:
    """Return the processor seconds of all processes so far; 0 where the system does not tell."""
    status = Path("/proc/stat")
    if not status.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq = map(int, status.read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _peak_since(before: int) -> int:
    """Return the peak memory of this process beyond `before`, in bytes; with 0, begin to measure it and return it."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not clear.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if not before:
        gc.collect()
        clear.write_text("5")  # the peak is that since now
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM:"))
    return 1024 * int(line.split()[1]) - before


def main() -> None:
    """Measure the cells that are missing, and print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--only", default="", help="cells, by a regular expression such as 'few.*landmarks'")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of a cell")
    parser.add_argument("--again", action="store_true", help="measure the cells again that failed")
    parser.add_argument("--renew", action="store_true", help="also those of mercer that another commit measured")
    parser.add_argument("--cell", nargs=4, metavar=("GENERATOR", "ROWS", "MACHINE", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell is not None:
        measure(asked.cell[0], int(asked.cell[1]), asked.cell[2], Path(asked.cell[3]))
        return
    MEASURED.mkdir(parents=True, exist_ok=True)
    for generator in GENERATORS:
        for name in MACHINES:
            for n in sorted(asked.rows):
                if not re.search(asked.only, f"{generator} {n} {name}"):
                    continue
                if _failed_on_fewer(generator, n, name) or not _run(generator, n, name, asked):
                    break
    print("\n".join(table()))


def _path(generator: str, n: int, name: str) -> Path:
    return MEASURED / f"{generator}-{n}-{name.replace(' ', '-')}.json"


def _failed_on_fewer(generator: str, n: int, name: str) -> bool:
    """Return whether the machine did not end on fewer rows, in this call or an earlier one."""
    fewer = [_path(generator, one, name) for one in ROWS if one < n]
    return any("failed" in json.loads(path.read_text()) for path in fewer if path.exists())


def _run(generator: str, n: int, name: str, asked: argparse.Namespace) -> bool:
    """Measure a cell unless that is done, and return whether it ended within the limit."""
    path, limit = _path(generator, n, name), asked.limit
    if _is_missing(path, name, asked):
        with tempfile.TemporaryDirectory(dir=MEASURED) as folder:  # of this process: the other one may be killed
            command = [sys.executable, "-m", "benchmarks.scale", "--cell", generator, str(n), name, folder]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
                cell = json.loads(done.stdout) if done.returncode == 0 else {"failed": _why_failed(done)}
            except subprocess.TimeoutExpired:
                cell = {"failed": f"not within {limit:g} s"}
        text = json.dumps({**cell, "commit": _commit()})
        unfinished = path.with_suffix(".part")
        unfinished.write_text(text)
        unfinished.replace(path)
        print(f"{generator} {n} {name}: {text}", file=sys.stderr, flush=True)
    return "failed" not in json.loads(path.read_text())


def _is_missing(path: Path, name: str, asked: argparse.Namespace) -> bool:
    """Return whether a cell must be measured."""
    if not path.exists():
        return True
    cell = json.loads(path.read_text())
    if "failed" in cell and (asked.again or asked.renew):
        return True
    return bool(asked.renew and name.startswith("mercer") and cell.get("commit") != _commit())


def _why_failed(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of an error, or the signal that ended the process."""
    lines = done.stderr.strip().splitlines()
    return lines[-1][:200].replace("|", "/") if lines else f"ended by signal {-done.returncode}, as for lack of memory"


@cache
def _commit() -> str:
    """Return the commit of the code, with a mark if files differ from it."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def table() -> list[str]:
    """Return the lines of the table of all cells that were measured."""
    lines = [
        "| generator | machine | rows | seconds | processor s | exponent | peak MB | support vectors | test error, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    commits = set[str]()
    for generator in GENERATORS:
        for name in MACHINES:
            last: tuple[int, float] | None = None
            done = list[tuple[int, float]]()
            for n in sorted({*ROWS, *(int(one.name.split("-")[1]) for one in MEASURED.glob(f"{generator}-*.json"))}):
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
                last, busy = (n, cell["processor"]), " (busy)" if cell.get("others", _BUSY) >= _BUSY else ""
                commits.add(cell.get("commit", "before commits were kept"))
                done.append(last)
                lines.append(
                    f"| {generator} | {name} | {n:,} | {cell['seconds']:.1f}{busy} | {cell['processor']:.1f} | "
                    f"{exponent} | {cell['MB']:.0f} | {cell['support'] or '':} | {100 * cell['error']:.2f} |"
                )
            if len(done) > 1:
                fitted = np.polyfit(*np.log(np.array(done).T), 1)[0]
                lines.append(f"| {generator} | {name} | all of these | | | fitted {fitted:.2f} | | | |")
    return [*lines, "", f"Commits of these cells: {', '.join(sorted(commits))}."]


if __name__ == "__main__":
    main()
