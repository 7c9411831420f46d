"""Time of a whole search, against scikit-learn's and scikit-learn-intelex's machines in GridSearchCV, and liquidSVM.

Run from the root of the repository: `make bench-search`, or

    python -m benchmarks.search [--only REGEX] [--peers NAMES] [--repeat N]

Every contender searches 10 values of C times 10 of gamma by 5 folds (the same ones; liquidSVM its own, on its own grid)
in a process of its own that has made a small search before the clock runs, and then predicts rows that nobody has seen.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

HERE = Path(__file__).parent
TABLES = {"covtype 5k": ("covtype 5k", 4858), "magic-like 10k": ("magic-like", 10_000), "usps": ("usps", 5_000)}
PEERS = ("mercer", "scikit-learn", "intelex", "liquidSVM")
VALUES_OF_C = tuple(np.logspace(-2.0, 4.0, 10))
TIMES_USUAL = tuple(2.0 ** np.arange(-6.0, 4.0))
"""Multiples of 1 / (p · variance) for gamma."""
N_FOLDS, N_NEW, N_JOBS = 5, 2000, 2


def main() -> None:
    """Race, print a table and write it to a file unless it is a part only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--alone", nargs=2, metavar=("CONTENDER", "TABLE"), help="one search, as JSON; for the races")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(_search(*options.alone)))
        return
    chosen = [name for name in TABLES if re.search(options.only, name)]
    lines = [
        "# make bench-search: time of a whole search",
        "",
        f"- {datetime.now(UTC).isoformat(timespec='seconds')}; {described_machine()}",
        f"- {len(VALUES_OF_C)} x {len(TIMES_USUAL)} settings, {N_FOLDS} folds, {N_JOBS} processors; mercer: median of "
        f"{options.repeat} runs, the others: one.",
        "- *fits*: the time as a multiple of scikit-learn's median fit on all rows over the grid's diagonal. *score*:"
        " of the best setting, by cross-validation; *new rows*: share right among rows that nobody has seen.",
        "",
        "| table | n x p | contender | seconds | x mercer | fits | score | new rows |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for table in chosen:
        price = _price(table)
        ours = None
        for contender in options.peers.split(","):
            runs = [_run(contender, table) for _ in range(options.repeat if contender == "mercer" else 1)]
            failed = [run["error"] for run in runs if "error" in run]
            if failed:
                lines.append(f"| {table} | | {contender} | - | - | - | - | {failed[0]} |")
                continue
            seconds = float(np.median([run["seconds"] for run in runs]))
            ours = seconds if contender == "mercer" else ours
            last = runs[-1]
            ratio = "-" if ours is None else f"{seconds / ours:.1f}"
            size = f"{last['n']:,} x {last['p']}"
            lines.append(
                f"| {table} | {size} | {contender} | {seconds:.2f} | {ratio} | {seconds / price:.1f} "
                f"| {last['score']:.4f} | {last['new']:.4f} |"
            )
            print(lines[-1], flush=True)
    document = "\n".join(lines) + "\n"
    if chosen == list(TABLES) and options.peers == ",".join(PEERS):
        (HERE / "SEARCH.md").write_text(document, encoding="utf-8")
    print(document)


def _run(contender: str, table: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.search", "--alone", contender, table]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def _rows(table: str) -> tuple[Any, Any, Any, Any, float]:
    name, n = TABLES[table]
    if name == "covtype 5k":  # it has rows of its own for tests
        folder = datasets.data_folder()
        assert folder is not None
        with np.load(folder / "covtype_liquid5000.npz") as archive:
            X, y, X_new, y_new = (archive[key] for key in ("X", "y", "X_test", "y_test"))
    else:
        both = datasets.load(name, n + N_NEW)
        X, y, X_new, y_new = both.X[:n], both.y[:n], both.X[n:], both.y[n:]
    X, X_new = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (X, X_new))
    return X, y, X_new, y_new, 1.0 / (X.shape[1] * float(X.var()))


def described_machine() -> str:
    facts = machine.describe(N_JOBS)
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['processor']}, {facts['cores']} cores; {versions}; build {facts['build']}."


def _price(table: str) -> float:
    """Seconds of scikit-learn's median fit on all rows."""
    from sklearn.svm import SVC

    X, y, _, _, usual = _rows(table)
    seconds = []
    for C, times in zip(VALUES_OF_C, TIMES_USUAL, strict=True):
        began = time.perf_counter()
        SVC(C=C, gamma=times * usual, cache_size=2000).fit(X.astype(np.float64), y)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def _search(contender: str, table: str) -> dict[str, Any]:
    X, y, X_new, y_new, usual = _rows(table)
    search = {"liquidSVM": _liquid}.get(contender, _grid)
    few = np.random.default_rng(0).permutation(y.size)[:400]
    search(contender, X[few], y[few], usual, n_values=2)
    began = time.perf_counter()
    score, predict = search(contender, X, y, usual, n_values=len(VALUES_OF_C))
    seconds = time.perf_counter() - began
    new = float(np.mean(predict(X_new) == y_new))
    return {"seconds": seconds, "score": score, "new": new, "n": X.shape[0], "p": X.shape[1]}


def _grid(contender: str, X: Any, y: Any, usual: float, n_values: int) -> tuple[float, Any]:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    axes = {"C": list(VALUES_OF_C[:n_values]), "gamma": [times * usual for times in TIMES_USUAL[:n_values]]}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    if contender == "mercer":
        from mercer import SVC, KernelSearchCV

        found = KernelSearchCV(SVC(), cv=folds, n_jobs=N_JOBS, **axes).fit(X, y)
    else:
        home = import_module("sklearnex.svm" if contender == "intelex" else "sklearn.svm")
        found = GridSearchCV(home.SVC(cache_size=2000), axes, cv=folds, n_jobs=N_JOBS).fit(X, y)
    return float(found.best_score_), found.predict


def _liquid(contender: str, X: Any, y: Any, usual: float, n_values: int) -> tuple[float, Any]:
    del contender, usual, n_values
    import sysconfig

    sysconfig.get_config_vars()["SO"] = sysconfig.get_config_var(
        "EXT_SUFFIX"
    )  # the package asks for it by its old name
    import liquidSVM

    classes, codes = np.unique(y, return_inverse=True)
    model = liquidSVM.mcSVM(X.astype(np.float64), codes.astype(np.float64), threads=N_JOBS, folds=N_FOLDS, display=0)
    return float("nan"), lambda rows: classes[
        np.asarray(model.predict(rows.astype(np.float64))).reshape(-1).astype(np.int64)
    ]


if __name__ == "__main__":
    main()
