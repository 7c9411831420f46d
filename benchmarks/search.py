"""Time of a whole search, against scikit-learn's and scikit-learn-intelex's machines in GridSearchCV, and liquidSVM.

Run from the root of the repository: `make bench-search`, or

    python -m benchmarks.search [--only REGEX] [--peers NAMES] [--repeat N] [--whole]

What is measured is kept, so that tables and contenders can be measured in pieces; the page SEARCH.md is written when
all contenders of all tables at hand have been. Real tables come from the folder in the environment variable
MERCER_DATA; without it only the generated one is run.

liquidSVM is not among the peers of requirements.txt, for it is built from source and needs an old setuptools: put it
into `.venv-bench` by hand, see LIQUIDSVM below.

scikit-learn's and scikit-learn-intelex's searches of the table that goals are set beside are run whole; for the others
ten of their fits stand for all, unless `--whole` is given.

Every contender searches 10 values of C times 10 of gamma by 5 folds (the same ones; liquidSVM its own, on its own grid)
in a process of its own that has made a small search before the clock runs, and then predicts rows that no fit has seen.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

HERE = Path(__file__).parent
TABLES = {"covtype 5k": ("covtype 5k", 4858), "magic-like 10k": ("magic-like", 10_000), "usps": ("usps", 5_000)}
PEERS = ("price", "mercer", "scikit-learn", "intelex", "liquidSVM")
SAMPLED, WHOLE = ("scikit-learn", "intelex"), ("covtype 5k",)
"""Contenders of which some fits stand for all, and tables of which they do not."""
MEASURED = HERE.parent / "build" / "bench_search.json"
VALUES_OF_C = tuple(np.logspace(-2.0, 3.0, 10))
TIMES_USUAL = tuple(2.0 ** np.arange(-5.0, 5.0))
"""Multiples of 1 / (p · variance) for gamma."""
WANTED = "The environment variable MERCER_DATA must name the folder that holds their files."
N_FOLDS, N_NEW, N_JOBS = 5, 2000, 2
LIQUIDSVM = (
    "liquidSVM is 1.0.1 of PyPI, built from source, and imports what setuptools no longer has: `pip install "
    '"setuptools<82" liquidSVM==1.0.1` in `.venv-bench`.'
)


def main() -> None:
    """Race, keep what was measured, and write the table of all that has been."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tables, by a regular expression")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--repeat", type=int, default=5, help="of mercer's searches")
    parser.add_argument(
        "--whole", action="store_true", help="scikit-learn's searches of all tables whole, not a sample of their fits"
    )
    parser.add_argument("--alone", nargs=2, metavar=("CONTENDER", "TABLE"), help="one search, as JSON; for the races")
    options = parser.parse_args()
    if options.alone:
        contender, table = options.alone
        sampled = contender in SAMPLED and table not in WHOLE and not options.all_fits
        print(json.dumps({"price": _price(table)} if contender == "price" else _search(contender, table, sampled)))
        return
    peers = tuple(options.peers.split(","))
    if unknown := set(peers) - set(PEERS):
        raise SystemExit(f"--peers must name some of {', '.join(PEERS)}, got {', '.join(sorted(unknown))}.")
    chosen = [name for name in TABLES if re.search(options.only, name)]
    if not chosen:
        raise SystemExit(f"no table matches {options.only!r}; there are: {', '.join(TABLES)}.")
    at_hand = [name for name in chosen if _is_at_hand(name)]
    if not at_hand:
        raise SystemExit(f"Not run, for want of data: {', '.join(chosen)}. {WANTED}")
    measured: dict[str, Any] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    for table in at_hand:
        ours: list[dict[str, Any]] = []
        for contender in _in_turn(peers, options.repeat):
            run = _run(contender, table, options.all_fits)
            if contender == "mercer":
                ours.append(run)
                run = sorted(ours, key=lambda one: one.get("seconds", 0.0))[len(ours) // 2]
            measured[f"{table}/{contender}"] = run
            MEASURED.parent.mkdir(exist_ok=True)
            MEASURED.write_text(json.dumps(measured))
    document = _document(measured)
    missing = [
        f"{table}/{peer}"
        for table in TABLES
        if _is_at_hand(table)
        for peer in PEERS
        if f"{table}/{peer}" not in measured
    ]
    if not missing:
        (HERE / "SEARCH.md").write_text(document, encoding="utf-8")
    print(document)
    print(
        f"A part of the table only, so not written to a file; not measured yet: {', '.join(missing)}."
        if missing
        else "Written to benchmarks/SEARCH.md."
    )


def _in_turn(peers: Sequence[str], repeat: int) -> list[str]:
    """The order of runs: mercer several times, between the others, because the speed of a machine varies."""
    others = [peer for peer in peers if peer != "mercer"]
    if "mercer" not in peers:
        return others
    order = ["mercer"]
    for other in others:
        order += [other, "mercer"] if order.count("mercer") < repeat else [other]
    return order + ["mercer"] * (repeat - order.count("mercer"))


def _is_at_hand(table: str) -> bool:
    return datasets.SOURCES[TABLES[table][0]].is_available


def _document(measured: dict[str, Any]) -> str:
    facts = machine.describe(N_JOBS)
    absent = [table for table in TABLES if not _is_at_hand(table) and f"{table}/mercer" not in measured]
    lines = [
        "# make bench-search: time of a whole search",
        "",
        f"- {datetime.now(UTC).isoformat(timespec='seconds')}; {machine.described(facts)}; "
        f"{machine.described_build(facts)}.",
        f"- {len(VALUES_OF_C)} x {len(TIMES_USUAL)} settings, {N_FOLDS} folds, {N_JOBS} processors; C from "
        f"{VALUES_OF_C[0]:g} to {VALUES_OF_C[-1]:g}, gamma from {TIMES_USUAL[0]:g} to {TIMES_USUAL[-1]:g} times 1 / (p "
        "variance). liquidSVM: its own grid and folds. mercer: the median of several runs, between those of others,"
        " which run once.",
        "- *fits*: the time as a multiple of scikit-learn's median fit on all rows over the grid's diagonal. *score*:"
        " of the best setting, by cross-validation; *new rows*: share right among rows that no fit has seen. *CPU*:"
        " seconds of both processors.",
        "- ~ stands before times of searches that were not run whole: ten of their 500 fits, each C and gamma once,"
        " times 50, shared by two processors without loss; whole searches take longer, as there is loss.",
        f"- {LIQUIDSVM}",
        *([f"- Not run, for want of data (see MERCER_DATA): {', '.join(absent)}."] if absent else []),
        "",
        "| table | n x p | contender | seconds | CPU | x mercer | fits | score | new rows |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for table in TABLES:
        ours, price = measured.get(f"{table}/mercer", {}), measured.get(f"{table}/price", {})
        for contender in PEERS[1:]:
            run = measured.get(f"{table}/{contender}")
            if run is None:
                continue
            if "error" in run:
                lines.append(f"| {table} | | {contender} | - | - | - | - | - | {run['error']} |")
                continue
            seconds, about = run["seconds"], "~" if run["sampled"] else ""
            ratio = f"{seconds / ours['seconds']:.1f}" if "seconds" in ours else "-"
            fits = f"{seconds / price['price']:.1f}" if "price" in price else "-"
            score, new = (f"{run[key]:.4f}" if run[key] == run[key] else "-" for key in ("score", "new"))
            cpu = f"{run['cpu']:.2f}" if run["cpu"] == run["cpu"] else "-"
            lines.append(
                f"| {table} | {run['n']:,} x {run['p']} | {contender} | {about}{seconds:.2f} | {cpu} "
                f"| {ratio} | {fits} | {score} | {new} |"
            )
    return "\n".join(lines) + "\n"


def _run(contender: str, table: str, on_all_rows: bool) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.search",
        "--alone",
        contender,
        table,
        *(["--whole"] if on_all_rows else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def _rows(table: str) -> tuple[Any, Any, Any, Any, float]:
    name, n = TABLES[table]
    if name == "covtype 5k":  # it has rows of its own for tests
        folder = datasets.data_folder()
        if folder is None:
            raise SystemExit(WANTED)
        with np.load(folder / "covtype_liquid5000.npz") as archive:
            X, y, X_new, y_new = (archive[key] for key in ("X", "y", "X_test", "y_test"))
    else:
        both = datasets.load(name, n + N_NEW)
        X, y, X_new, y_new = both.X[:n], both.y[:n], both.X[n:], both.y[n:]
    X, X_new = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (X, X_new))
    return X, y, X_new, y_new, 1.0 / (X.shape[1] * float(X.var()))


def _price(table: str) -> float:
    """Seconds of scikit-learn's median fit on all rows."""
    from sklearn.svm import SVC

    X, y, _, _, usual = _rows(table)
    seconds = []
    for C, times in zip(VALUES_OF_C, TIMES_USUAL, strict=True):
        began = time.process_time()
        SVC(C=C, gamma=times * usual, cache_size=2000).fit(X.astype(np.float64), y)
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def _search(contender: str, table: str, sampled: bool) -> dict[str, Any]:
    X, y, X_new, y_new, usual = _rows(table)
    size = {"n": X.shape[0], "p": X.shape[1], "sampled": sampled}
    if sampled:
        seconds = _sample(contender, X, y, usual)
        return {"seconds": seconds / N_JOBS, "cpu": seconds, "score": float("nan"), "new": float("nan"), **size}
    search = {"liquidSVM": _liquid}.get(contender, _grid)
    few = np.random.default_rng(0).permutation(y.size)[:400]
    search(contender, X[few], y[few], usual, n_values=2)
    began, cpu = time.perf_counter(), time.process_time()
    score, predict = search(contender, X, y, usual, n_values=len(VALUES_OF_C))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    cpu = float("nan") if contender in SAMPLED else cpu  # its fits are made by other processes
    new = float(np.mean(predict(X_new) == y_new))
    return {"seconds": seconds, "cpu": cpu, "score": score, "new": new, **size}


def _sample(contender: str, X: Any, y: Any, usual: float) -> float:
    """Seconds of one processor for a whole search, from a fit and a score for each C and each gamma."""
    from sklearn.model_selection import StratifiedKFold

    machine_of = import_module("sklearnex.svm" if contender == "intelex" else "sklearn.svm").SVC
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    train, test = next(iter(folds.split(X, y)))
    n = len(VALUES_OF_C)
    began = time.process_time()
    for number, C in enumerate(VALUES_OF_C):
        gamma = TIMES_USUAL[3 * number % n] * usual
        machine_of(C=C, gamma=gamma, cache_size=2000).fit(X[train], y[train]).score(X[test], y[test])
    return (time.process_time() - began) * len(TIMES_USUAL) * N_FOLDS


def _grid(contender: str, X: Any, y: Any, usual: float, n_values: int) -> tuple[float, Any]:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    axes = {"C": list(VALUES_OF_C[:n_values]), "gamma": [times * usual for times in TIMES_USUAL[:n_values]]}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    if contender == "mercer":
        from mercer import SVC, KernelSearchCV

        search = KernelSearchCV(SVC(), cv=folds, n_jobs=N_JOBS, **axes).fit(X, y)
    else:
        home = import_module("sklearnex.svm" if contender == "intelex" else "sklearn.svm")
        search = GridSearchCV(home.SVC(cache_size=2000), axes, cv=folds, n_jobs=N_JOBS).fit(X, y)
    return float(search.best_score_), search.predict


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
